/* The thread pool: every index once, on a valid worker, for any number of threads, on given processors and nodes of memory;
 * quotas of cgroups, lists of processors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/numa.h"
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

/* ---- lists of processors ----------------------------------------------------------------------------------------- */

static void test_lists(void **state) {
    (void)state;
    static const struct {
        const char *text, *want; /* NULL: refused */
    } cases[] = {
        {"0", "0"}, {"0-3,8", "0-3,8"}, {"8,0-3", "0-3,8"}, {"3,1,2", "1-3"}, {"5-5", "5"}, {" 1,3\n", "1,3"}, {"1,1-2", "1-2"},
        {"8191", "8191"}, {"", NULL}, {" ", NULL}, {"a", NULL}, {"1,", NULL}, {",1", NULL}, {"3-1", NULL}, {"-1", NULL}, {"1-", NULL},
        {"1 2", NULL}, {"8192", NULL}, {"99999999999999999999", NULL}, {"0-99999999999", NULL}, {"1-2-3", NULL}, {"0x1", NULL},
        {"1;2", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fore_cpu_set set;
        fore_error err = {0};
        char text[64];
        fore_status s = fore_cpu_parse(cases[i].text, &set, &err);
        if (s != (cases[i].want ? FORE_OK : FORE_ERR_INVALID)) fail_msg("'%s': %d %s", cases[i].text, s, err.text);
        if (s) {
            assert_non_null(strstr(err.text, "such as 0-3,8"));
            continue;
        }
        fore_cpu_print(&set, text, sizeof text);
        assert_string_equal(text, cases[i].want);
    }
    fore_cpu_set odd;
    char text[16];
    assert_int_equal(fore_cpu_parse("1,3,5,7,9,11,13,15", &odd, NULL), 0);
    assert_int_equal(fore_cpu_count(&odd), 8);
    fore_cpu_print(&odd, text, sizeof text);
    assert_string_equal(text, "1,3,5,7,9,...");
    assert_int_equal(fore_cpu_next(&odd, 4), 5);
    assert_int_equal(fore_cpu_next(&odd, 16), FORE_CPU_MAX);
}

/* ---- threads held on processors ---------------------------------------------------------------------------------- */

typedef struct watch {
    fore_cpu_set masks[8];
    atomic_int taken[8];
} watch;

static void watch_task(void *context, int index, int worker) {
    (void)index;
    watch *w = context;
    fore_cpu_mask(&w->masks[worker]);
    atomic_fetch_add(&w->taken[worker], 1);
    usleep(2000); /* lets the others have some */
}

/* Runs until every thread took an index. */
static void watch_all(fore_pool *pool, watch *w) {
    int threads = fore_pool_threads(pool), seen = 0;
    for (int tries = 0; seen < threads && tries < 500; tries++) {
        fore_pool_run(pool, watch_task, w, threads);
        seen = 0;
        for (int i = 0; i < threads; i++) seen += atomic_load(&w->taken[i]) > 0;
    }
    assert_int_equal(seen, threads);
}

static void test_cpus(void **state) {
    (void)state;
    fore_cpu_set mask, few = {0}, after;
    assert_true(fore_cpu_mask(&mask));
    int n = 0;
    for (int cpu = fore_cpu_next(&mask, 0); cpu < FORE_CPU_MAX && n < 8; cpu = fore_cpu_next(&mask, cpu + 1), n++) fore_cpu_add(&few, cpu);
    char list[128];
    fore_cpu_print(&few, list, sizeof list);
    fore_pool *pool;
    fore_error err = {0};
    if (fore_pool_new_with(&(fore_pool_options){.cpus = list}, &pool, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_pool_threads(pool), n);
    watch *w = calloc(1, sizeof *w);
    watch_all(pool, w);
    fore_cpu_set all = {0};
    for (int i = 0; i < n; i++) {
        assert_int_equal(fore_cpu_count(&w->masks[i]), 1);
        fore_cpu_add(&all, fore_cpu_next(&w->masks[i], 0));
    }
    assert_memory_equal(&all, &few, sizeof all); /* each on one of its own */
    free(w);
    fore_pool_free(pool);
    assert_true(fore_cpu_mask(&after));
    assert_memory_equal(&after, &mask, sizeof mask);

    job *j = calloc(1, sizeof *j); /* fewer threads than processors */
    assert_int_equal(fore_pool_new_with(&(fore_pool_options){.threads = 1, .cpus = list}, &pool, &err), 0);
    check_runs(pool, j, 50, 0, 0);
    fore_pool_free(pool);
    free(j);
}

static void test_cpus_refused(void **state) {
    (void)state;
    fore_cpu_set mask, after;
    assert_true(fore_cpu_mask(&mask));
    int outside = 0;
    while (fore_cpu_has(&mask, outside)) outside++;
    char list[64], name[32];
    snprintf(list, sizeof list, "%d,%d", fore_cpu_next(&mask, 0), outside);
    snprintf(name, sizeof name, "may not run on %d ", outside);
    fore_pool *pool = (fore_pool *)&mask;
    fore_error err = {0};
    assert_int_equal(fore_pool_new_with(&(fore_pool_options){.cpus = list}, &pool, &err), FORE_ERR_INVALID);
    assert_null(pool);
    assert_non_null(strstr(err.text, name));
    assert_int_equal(fore_pool_new_with(&(fore_pool_options){.cpus = "none"}, &pool, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "'none'"));
    snprintf(list, sizeof list, "%d", fore_cpu_next(&mask, 0));
    assert_int_equal(fore_pool_new_with(&(fore_pool_options){.threads = 2, .cpus = list}, &pool, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "2 threads and 1 processors"));
    assert_true(fore_cpu_mask(&after));
    assert_memory_equal(&after, &mask, sizeof mask);
}

static void test_spinning(void **state) {
    (void)state;
    fore_pool *pool = make(fore_pool_processors());
    assert_true(fore_pool_spins(pool));
    fore_pool_free(pool);
    pool = make(fore_pool_processors() + 1); /* it would take the processor from whom it waits for */
    assert_false(fore_pool_spins(pool));
    fore_pool_free(pool);
}

/* ---- nodes of memory --------------------------------------------------------------------------------------------- */

static void describe(const scratch *dir, const char *name, const char *text) { scratch_write(dir, name, text, strlen(text)); }

static void test_read_nodes(void **state) {
    (void)state;
    scratch dir;
    scratch_make(&dir);
    fore_numa *numa = malloc(sizeof *numa);
    fore_cpu_set cpus;
    char text[64];
    assert_int_equal(fore_cpu_parse("0-7", &cpus, NULL), 0);
    fore_numa_read(dir.dir, &cpus, numa); /* no nodes */
    assert_int_equal(numa->count, 1);
    assert_int_equal(numa->node[0].number, -1);
    assert_int_equal(fore_cpu_count(&numa->node[0].cpus), 8);

    describe(&dir, "online", "0-1,4\n");
    describe(&dir, "node0/cpulist", "0-1,4-5\n");
    describe(&dir, "node1/cpulist", "\n"); /* memory only */
    describe(&dir, "node4/cpulist", "2-3,6-9\n");
    fore_numa_read(dir.dir, &cpus, numa);
    assert_int_equal(numa->count, 2);
    assert_int_equal(numa->node[0].number, 0);
    assert_int_equal(numa->node[1].number, 4);
    fore_cpu_print(&numa->node[0].cpus, text, sizeof text);
    assert_string_equal(text, "0-1,4-5");
    fore_cpu_print(&numa->node[1].cpus, text, sizeof text);
    assert_string_equal(text, "2-3,6-7"); /* without those that may not be used */

    assert_int_equal(fore_cpu_parse("6-7", &cpus, NULL), 0);
    fore_numa_read(dir.dir, &cpus, numa);
    assert_int_equal(numa->count, 1);
    assert_int_equal(numa->node[0].number, 4);
    assert_int_equal(fore_cpu_parse("7,11", &cpus, NULL), 0); /* 11 is on no node */
    fore_numa_read(dir.dir, &cpus, numa);
    assert_int_equal(numa->count, 1);
    assert_int_equal(numa->node[0].number, -1);
    assert_int_equal(fore_cpu_count(&numa->node[0].cpus), 2);
    free(numa);
    scratch_remove(&dir);
}

static void test_cut(void **state) {
    (void)state;
    static const int weights[] = {4, 2, 2};
    static const int counts[] = {1, 2, 7, 8, 64, 1000, INT_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int count = counts[i];
        assert_int_equal(fore_numa_cut(weights, 3, 0, count), 0);
        assert_int_equal(fore_numa_cut(weights, 3, 1, count), count / 2);
        assert_int_equal(fore_numa_cut(weights, 3, 2, count), (int)((int64_t)count * 3 / 4));
        assert_int_equal(fore_numa_cut(weights, 3, 3, count), count);
    }
}

/* Nodes that this machine does not have, over processors that it has. */
static void test_pool_of_nodes(void **state) {
    (void)state;
    fore_cpu_set mask;
    assert_true(fore_cpu_mask(&mask));
    int a = fore_cpu_next(&mask, 0), b = fore_cpu_next(&mask, a + 1);
    if (b == FORE_CPU_MAX) skip();
    scratch dir;
    scratch_make(&dir);
    char text[96], rest[64];
    fore_cpu_set others = mask;
    others.bits[a / 64] &= ~(UINT64_C(1) << (a % 64));
    fore_cpu_print(&others, rest, sizeof rest);
    describe(&dir, "online", "0-1");
    snprintf(text, sizeof text, "%d", a);
    describe(&dir, "node0/cpulist", text);
    describe(&dir, "node1/cpulist", rest);
    fore_pool *pool;
    fore_error err = {0};
    if (fore_pool_new_with(&(fore_pool_options){.threads = 4, .nodes = dir.dir}, &pool, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_pool_nodes(pool), 2);
    job *j = calloc(1, sizeof *j);
    check_runs(pool, j, 300, 50, 300);
    watch *w = calloc(1, sizeof *w);
    watch_all(pool, w);
    assert_memory_equal(&w->masks[0], &mask, sizeof mask); /* the caller is left alone */
    assert_memory_equal(&w->masks[3], &others, sizeof others);
    /* Placing is a wish: memory of nodes that are not there is as any other. */
    size_t piece = 1 << 16;
    char *memory = calloc(64, piece);
    fore_pool_place(pool, memory, piece, 64);
    for (size_t i = 0; i < 64 * piece; i += 999) assert_int_equal(memory[i], 0);
    free(memory);
    free(w);
    free(j);
    fore_pool_free(pool);
    snprintf(text, sizeof text, "%d,%d", a, b);
    if (fore_pool_new_with(&(fore_pool_options){.cpus = text, .nodes = dir.dir}, &pool, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_pool_nodes(pool), 2);
    j = calloc(1, sizeof *j);
    check_runs(pool, j, 100, 0, 0);
    free(j);
    fore_pool_free(pool);
    scratch_remove(&dir);
}

static void test_place(void **state) {
    (void)state;
    fore_cpu_set mask;
    assert_true(fore_cpu_mask(&mask));
    fore_numa *numa = malloc(sizeof *numa);
    fore_numa_read("/sys/devices/system/node", &mask, numa);
    int node = numa->node[0].number;
    free(numa);
    size_t size = 1 << 20, page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = aligned_alloc(page, size);
    assert_false(fore_numa_place(memory, page - 1, 0)); /* no whole page */
    assert_false(fore_numa_place(memory, size, -1));
    bool placed = fore_numa_place(memory + 1, size - 1, node);
#ifdef SYS_get_mempolicy
    enum { ADDRESS = 2 }; /* MPOL_F_ADDR */
    unsigned long nodes[1024 / (8 * sizeof(unsigned long))] = {0};
    int policy = -1, first = -1;
    if (placed && syscall(SYS_get_mempolicy, &policy, nodes, 1024UL, memory + page, ADDRESS) == 0) {
        assert_int_equal(policy, 1); /* MPOL_PREFERRED */
        assert_int_equal(nodes[0], 1UL << node);
        syscall(SYS_get_mempolicy, &first, NULL, 0UL, memory, ADDRESS); /* the page that is not whole */
        assert_int_equal(first, 0);
    }
#endif
    memset(memory, 1, size);
    free(memory);
    if (!placed) skip(); /* containers often forbid it */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_index_once), cmocka_unit_test(test_sleeping), cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_threads),          cmocka_unit_test(test_affinity), cmocka_unit_test(test_quota),
        cmocka_unit_test(test_lists),            cmocka_unit_test(test_cpus),     cmocka_unit_test(test_cpus_refused),
        cmocka_unit_test(test_spinning),         cmocka_unit_test(test_read_nodes), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_pool_of_nodes),    cmocka_unit_test(test_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
