/* Quantising that is interrupted: killed, cancelled or out of room at every step, and gone on with. Whatever happens, a file under
 * its final name is whole, config.json comes last, and the end is the folder that an undisturbed run makes, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "foresight.h"
#include "support/scratch.h"

#define SOURCE FORE_DATA "/models/dense_sharded_bf16"
/* In memory where that is possible: thousands of files are synced here. */
static void make_folder(scratch *s) {
    strcpy(s->dir, "/dev/shm/foresight-test-XXXXXX");
    if (!mkdtemp(s->dir)) scratch_make(s);
}

static const char journal_name[] = "quantization_journal.json";

static scratch whole; /* what an undisturbed run makes */

static fore_quantize_options settings(void) {
    return (fore_quantize_options){.bits = 4, .group = 32, .threads = 1, .shard_bytes = 25000};
}

/* A progress that ends the work at its n-th call. */
typedef struct stopper {
    int left;
    bool kill;
} stopper;

static int stop(void *user, const char *stage, uint64_t done, uint64_t total) {
    stopper *s = user;
    assert_true(done <= total && (!strcmp(stage, "quantize") || !strcmp(stage, "finish")));
    if (s->left-- > 0) return 0;
    if (s->kill) raise(SIGKILL);
    return 1;
}

static bool same_file(const char *a, const char *b) {
    fore_map x, y;
    fore_error err = {0};
    if (fore_map_open(a, &x, &err) || fore_map_open(b, &y, &err)) fail_msg("%s", err.text);
    bool same = x.size == y.size && (!x.size || !memcmp(x.data, y.data, x.size));
    fore_map_close(&x);
    fore_map_close(&y);
    return same;
}

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

/* Every file of dir that is no half file is as in `whole`; returns how many there are. *finished: config.json is. */
static int check_folder(const char *dir, bool *finished) {
    DIR *d = opendir(dir);
    int count = 0;
    *finished = false;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        char path[512];
        if (e->d_name[0] == '.' || ends_with(e->d_name, ".partial") || !strcmp(e->d_name, journal_name)) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (!same_file(path, scratch_path(&whole, e->d_name))) fail_msg("%s differs", path);
        *finished = *finished || !strcmp(e->d_name, "config.json");
        count++;
    }
    closedir(d);
    return count;
}

static void check_whole(const scratch *s) {
    bool finished;
    assert_int_equal(check_folder(s->dir, &finished), scratch_count(&whole));
    assert_int_equal(scratch_count(s), scratch_count(&whole)); /* no journal, no half file */
    assert_true(finished);
}

static void check_part(const scratch *s) {
    bool finished;
    int count = check_folder(s->dir, &finished);
    if (finished) assert_int_equal(count, scratch_count(&whole));
    else assert_true(count < scratch_count(&whole));
}

static int go_on(const scratch *s) {
    fore_quantize_options o = settings();
    fore_quantize_report *r = NULL;
    fore_error err = {0};
    if (fore_quantize(SOURCE, s->dir, &o, &r, &err)) fail_msg("%s", err.text);
    int kept = r->files_kept;
    assert_true(kept <= r->files);
    fore_quantize_report_free(r);
    check_whole(s);
    return kept;
}

/* Runs in a process of its own that is killed at call n; false when it came to its end. */
static bool run_killed(const char *dir, int n) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        stopper s = {.left = n, .kill = true};
        fore_quantize_options o = settings();
        o.progress = stop;
        o.user = &s;
        _exit(fore_quantize(SOURCE, dir, &o, NULL, NULL) ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

static void test_killed_at_every_step(void **state) {
    (void)state;
    int n = 0, most_kept = 0;
    for (;; n++) {
        scratch s;
        make_folder(&s);
        bool killed = run_killed(s.dir, n);
        if (killed) {
            check_part(&s);
            int kept = go_on(&s);
            if (kept > most_kept) most_kept = kept;
        } else {
            check_whole(&s);
        }
        scratch_remove(&s);
        if (!killed) break;
    }
    assert_true(n > 100);
    assert_true(most_kept > 4);
}

/* The same folder, killed again and again a little later, comes to its end. */
static void test_killed_again_and_again(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    int runs = 1;
    while (run_killed(s.dir, 45)) {
        check_part(&s);
        assert_true(++runs < 100);
    }
    check_whole(&s);
    assert_true(runs > 3);
    scratch_remove(&s);
}

static void test_cancelled_at_every_step(void **state) {
    (void)state;
    for (int n = 0;; n++) {
        scratch s;
        make_folder(&s);
        stopper at = {.left = n};
        fore_quantize_options o = settings();
        fore_quantize_report *r = NULL;
        fore_error err = {0};
        o.progress = stop;
        o.user = &at;
        fore_status status = fore_quantize(SOURCE, s.dir, &o, &r, &err);
        if (!status) {
            fore_quantize_report_free(r);
            check_whole(&s);
            scratch_remove(&s);
            assert_true(n > 100);
            return;
        }
        assert_int_equal(status, FORE_ERR_CANCELLED);
        assert_null(r);
        check_part(&s);
        if (n % 5 == 0) go_on(&s);
        scratch_remove(&s);
    }
}

/* Writes fail once a file has so many bytes, as they do when a disk is full. */
static void test_failing_writes(void **state) {
    (void)state;
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    static const rlim_t sizes[] = {0, 100, 1000, 4000, 10000, 20000, 25000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        scratch s;
        fore_quantize_options o = settings();
        fore_error err = {0};
        make_folder(&s);
        low = old;
        low.rlim_cur = sizes[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        fore_status status = fore_quantize(SOURCE, s.dir, &o, NULL, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        if (status != FORE_ERR_IO || !strstr(err.text, "cannot write")) fail_msg("%d %s", status, err.text);
        check_part(&s);
        go_on(&s);
        scratch_remove(&s);
    }
    signal(SIGXFSZ, handler);
}

static void refuse(const char *source, const char *out, const fore_quantize_options *o, fore_status code, const char *says) {
    fore_error err = {0};
    fore_status s = fore_quantize(source, out, o, NULL, &err);
    if (s != code || !strstr(err.text, says)) fail_msg("expected %d \"%s\", got %d: %s", code, says, s, err.text);
}

/* A copy of the source, so that it can be changed. */
static void copy_source(const scratch *s) {
    static const char *const names[] = {"config.json", "model.safetensors.index.json", "mtp.safetensors",
                                        "model.safetensors-00001-of-00003.safetensors", "model.safetensors-00002-of-00003.safetensors",
                                        "model.safetensors-00003-of-00003.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char from[256];
        snprintf(from, sizeof from, SOURCE "/%s", names[i]);
        scratch_copy(s, from, names[i]);
    }
}

static void test_other_work(void **state) {
    (void)state;
    scratch source, s;
    make_folder(&source);
    make_folder(&s);
    copy_source(&source);
    stopper at = {.left = 60};
    fore_quantize_options o = settings();
    o.progress = stop;
    o.user = &at;
    refuse(source.dir, s.dir, &o, FORE_ERR_CANCELLED, "cancelled");
    o.progress = NULL;
    int files = scratch_count(&s);
    assert_true(files > 1);
    fore_quantize_options other = o;
    other.bits = 8;
    refuse(source.dir, s.dir, &other, FORE_ERR_INVALID, "begun with other settings (4 bits, group 32");
    other = o;
    other.mtp_layers_only = true;
    refuse(source.dir, s.dir, &other, FORE_ERR_INVALID, "mtp 4 (cyankiwi)");
    other = o;
    other.threads = 2; /* changes nothing in what is made */
    refuse(SOURCE, s.dir, &other, FORE_ERR_INVALID, "begun from another source");
    /* The same bytes, written later. */
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, scratch_path(&source, "mtp.safetensors"), times, 0), 0);
    refuse(source.dir, s.dir, &o, FORE_ERR_INVALID, "the source has changed since");
    assert_int_equal(scratch_count(&s), files);
    scratch_write(&s, journal_name, "{\"version\": 1", 13);
    refuse(source.dir, s.dir, &o, FORE_ERR_FORMAT, journal_name);
    scratch_remove(&source);
    scratch_remove(&s);
}

/* What was finished is believed by its size; a file that has another one is made again. */
static void test_finished_file_that_changed(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    assert_true(run_killed(s.dir, 120));
    const char *first = "model-00001-of-00007.safetensors";
    for (int of = 2; of < 100 && !fore_file_exists(scratch_path(&s, first)); of++) {
        static char name[64];
        snprintf(name, sizeof name, "model-00001-of-%05d.safetensors", of);
        first = name;
    }
    assert_true(fore_file_exists(scratch_path(&s, first)));
    assert_int_equal(truncate(scratch_path(&s, first), 100), 0);
    assert_true(go_on(&s) > 0);
    scratch_remove(&s);
}

static void test_one_at_a_time(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    int fd = open(s.dir, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    fore_quantize_options o = settings();
    refuse(SOURCE, s.dir, &o, FORE_ERR_IO, "another process is writing there");
    assert_int_equal(scratch_count(&s), 0);
    close(fd);
    go_on(&s);
    scratch_remove(&s);
}

static int make_whole(void **state) {
    (void)state;
    fore_quantize_options o = settings();
    fore_error err = {0};
    make_folder(&whole);
    if (fore_quantize(SOURCE, whole.dir, &o, NULL, &err)) fail_msg("%s", err.text);
    return 0;
}

static int remove_whole(void **state) {
    (void)state;
    scratch_remove(&whole);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_at_every_step), cmocka_unit_test(test_killed_again_and_again),
        cmocka_unit_test(test_cancelled_at_every_step), cmocka_unit_test(test_failing_writes),
        cmocka_unit_test(test_other_work), cmocka_unit_test(test_finished_file_that_changed), cmocka_unit_test(test_one_at_a_time),
    };
    return cmocka_run_group_tests(tests, make_whole, remove_whole);
}
