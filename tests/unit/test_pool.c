/* The thread pool: every index once, on a valid worker, for any number of threads; quotas of cgroups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/processors.h"
#include "support/scratch.h"

enum { MOST = 300 };

typedef struct job {
    int threads;
    unsigned char hits[MOST];  /* plain memory: a race or a run that ends early shows here, and under TSan */
    long per_worker[16];
    int input;                 /* written by the caller between runs */
    atomic_int bad;
    int nap;                   /* microseconds that every eighth task sleeps */
} job;

static void count_task(void *context, int index, int worker) {
    job *j = context;
    if (index < 0 || index >= MOST || worker < 0 || worker >= j->threads) {
        atomic_fetch_add(&j->bad, 1);
        return;
    }
    j->hits[index] = (unsigned char)(j->hits[index] + j->input);
    j->per_worker[worker]++;
    if (j->nap && index % 8 == 7) usleep((useconds_t)j->nap);
}

static fore_pool *make(int threads) {
    fore_error err = {0};
    fore_pool *pool;
    if (fore_pool_new(threads, &pool, &err)) fail_msg("%s", err.text);
    return pool;
}

static void check_runs(fore_pool *pool, job *j, int runs, int rest_every, int rest) {
    j->threads = fore_pool_threads(pool);
    long total = 0, done = 0;
    for (int r = 0; r < runs; r++) {
        int count = r * 7 % MOST;
        j->input = 1 + r % 3;
        memset(j->hits, 0, sizeof j->hits);
        fore_pool_run(pool, count_task, j, count);
        for (int i = 0; i < MOST; i++)
            if (j->hits[i] != (i < count ? j->input : 0)) fail_msg("run %d, index %d: %d", r, i, j->hits[i]);
        total += count;
        if (rest_every && r % rest_every == 0) usleep((useconds_t)rest);
    }
    for (int w = 0; w < 16; w++) done += j->per_worker[w];
    assert_int_equal(done, total);
    assert_int_equal(atomic_load(&j->bad), 0);
}

static void test_every_index_once(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 9};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fore_pool *pool = make(sizes[i]);
        assert_int_equal(fore_pool_threads(pool), sizes[i]);
        job *j = calloc(1, sizeof *j);
        check_runs(pool, j, 600, 0, 0);
        free(j);
        fore_pool_free(pool);
    }
}

/* Pauses let the workers fall asleep, slow tasks let the caller fall asleep. */
static void test_sleeping(void **state) {
    (void)state;
    fore_pool *pool = make(5);
    job *j = calloc(1, sizeof *j);
    check_runs(pool, j, 60, 1, 600);
    memset(j, 0, sizeof *j);
    j->nap = 500;
    check_runs(pool, j, 20, 0, 0);
    int used = 0;
    for (int w = 0; w < 5; w++) used += j->per_worker[w] > 0;
    assert_true(used > 1); /* the tasks sleep, so other workers surely got some */
    free(j);
    fore_pool_free(pool);
}

static void test_nothing_to_do(void **state) {
    (void)state;
    fore_pool *pool = make(3);
    job *j = calloc(1, sizeof *j);
    j->threads = 3;
    fore_pool_run(pool, count_task, j, 0);
    fore_pool_run(pool, count_task, j, -4);
    for (int w = 0; w < 3; w++) assert_int_equal(j->per_worker[w], 0);
    free(j);
    fore_pool_free(pool);
    for (int i = 0; i < 50; i++) fore_pool_free(make(4)); /* ended before it ran anything */
    fore_pool_free(NULL);
}

static void test_threads(void **state) {
    (void)state;
    fore_error err = {0};
    fore_pool *pool = (fore_pool *)&err;
    assert_int_equal(fore_pool_new(-1, &pool, &err), FORE_ERR_INVALID);
    assert_null(pool);
    assert_non_null(strstr(err.text, "found -1"));
    assert_int_equal(fore_pool_new(1 << 20, &pool, NULL), FORE_ERR_INVALID);
    pool = make(0);
    assert_int_equal(fore_pool_threads(pool), fore_pool_processors());
    fore_pool_free(pool);
}

static void test_affinity(void **state) {
    (void)state;
    cpu_set_t old, one;
    assert_int_equal(sched_getaffinity(0, sizeof old, &old), 0);
    int n = fore_pool_processors();
    assert_true(n >= 1 && n <= CPU_COUNT(&old));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &old)) {
            CPU_SET(i, &one);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    n = fore_pool_processors();
    sched_setaffinity(0, sizeof old, &old);
    assert_int_equal(n, 1);
}

static void test_quota(void **state) {
    (void)state;
    scratch dir;
    scratch_make(&dir);
    static const struct {
        const char *groups, *file, *text, *file2, *text2;
        int want;
    } cases[] = {
        {"0::/\n", "cpu.max", "300000 100000\n", NULL, NULL, 3},
        {"0::/\n", "cpu.max", "max 100000\n", NULL, NULL, INT_MAX},
        {"0::/\n", "cpu.max", "rubbish\n", NULL, NULL, INT_MAX},
        {"0::/a/b\n", "a/b/cpu.max", "250000 100000\n", "a/cpu.max", "max 100000\n", 2},
        {"0::/a/b\n", "a/b/cpu.max", "800000 100000\n", "a/cpu.max", "400000 100000\n", 4}, /* a parent is narrower */
        {"0::/host/only\n", "cpu.max", "200000 100000\n", NULL, NULL, 2},                   /* a container's own root */
        {"0::/\n", "cpu.max", "50000 100000\n", NULL, NULL, 1},
        {"3:cpu,cpuacct:/x\n0::/\n", "cpu,cpuacct/x/cpu.cfs_quota_us", "600000\n", "cpu,cpuacct/x/cpu.cfs_period_us",
         "100000\n", 6},
        {"3:cpuacct,cpu:/x\n", "cpu/x/cpu.cfs_quota_us", "600000\n", "cpu/x/cpu.cfs_period_us", "200000\n", 3},
        {"3:cpu:/\n", "cpu/cpu.cfs_quota_us", "-1\n", "cpu/cpu.cfs_period_us", "100000\n", INT_MAX},
        {"3:cpuset:/x\n", "cpuset/x/cpu.cfs_quota_us", "100000\n", "cpuset/x/cpu.cfs_period_us", "100000\n", INT_MAX},
        {"4:cpu:/q\n0::/\n", "unified/cpu.max", "500000 100000\n", NULL, NULL, 5},
        {"nonsense\n\n", NULL, NULL, NULL, NULL, INT_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scratch sub;
        scratch_make(&sub);
        scratch_write(&dir, "cgroup", cases[i].groups, strlen(cases[i].groups));
        if (cases[i].file) scratch_write(&sub, cases[i].file, cases[i].text, strlen(cases[i].text));
        if (cases[i].file2) scratch_write(&sub, cases[i].file2, cases[i].text2, strlen(cases[i].text2));
        int got = fore_cgroup_processors(scratch_path(&dir, "cgroup"), sub.dir);
        scratch_remove(&sub);
        if (got != cases[i].want) fail_msg("case %zu: expected %d, got %d", i, cases[i].want, got);
    }
    assert_int_equal(fore_cgroup_processors("/nonexistent", "/nonexistent"), INT_MAX);
    scratch_remove(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_index_once), cmocka_unit_test(test_sleeping), cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_threads),          cmocka_unit_test(test_affinity), cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
