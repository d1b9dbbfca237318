/* forge convert, interrupted: killed behind each file operation, or each one failing. Whatever happens, a file under its final name is
 * whole, the folder is no checkpoint before its end, and a second run makes the folder that an undisturbed one makes, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "foresight.h"
#include "support/failing_files.h"
#include "support/scratch.h"

#define FORMS FORE_DATA "/forms/"
#define GGUF FORE_DATA "/gguf/"

static const struct {
    const char *source;
    fore_convert_options how;
} works[] = {
    {FORMS "int4", {.quantize = {.threads = 1, .shard_bytes = 20000}}},                   /* integers, floats, a head in a file of its own */
    {FORMS "gptq_order", {.quantize = {.threads = 1, .shard_bytes = 90000}}},             /* quantised anew */
    {GGUF "blocks", {.quantize = {.threads = 1, .shard_bytes = 100000}}},                 /* files made of metadata */
    {FORMS "fp8_experts", {.quantize = {.threads = 1, .shard_bytes = 40000, .bits = 4}}}, /* all anew */
};
enum { WORKS = sizeof works / sizeof *works };

static scratch whole[WORKS]; /* what undisturbed runs make */
static const char journal_name[] = "quantization_journal.json";

static void make_folder(scratch *s) {
    strcpy(s->dir, "/dev/shm/foresight-test-XXXXXX");
    if (!mkdtemp(s->dir)) scratch_make(s);
}

static fore_status convert(int work, const char *dir, fore_quantize_report **r, fore_error *err) {
    return fore_convert(works[work].source, dir, &works[work].how, r, err);
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

/* Every file that is no half file is as in the whole folder; returns how many. */
static int check_files(int work, const scratch *s) {
    DIR *d = opendir(s->dir);
    int count = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || fore_name_ends_with(e->d_name, ".partial") || !strcmp(e->d_name, journal_name)) continue;
        if (!same_file(scratch_path(s, e->d_name), scratch_path(&whole[work], e->d_name))) fail_msg("%s differs", e->d_name);
        count++;
    }
    closedir(d);
    return count;
}

/* true: all is there; else it does not open. */
static bool is_whole(int work, const scratch *s) {
    int count = check_files(work, s);
    fore_error err = {0};
    fore_model *model = NULL;
    fore_status status = fore_model_open(s->dir, NULL, &model, &err);
    fore_model_close(model);
    if (status) assert_true(count < scratch_count(&whole[work]));
    else assert_int_equal(count, scratch_count(&whole[work]));
    return status == FORE_OK;
}

static int go_on(int work, const scratch *s) {
    fore_quantize_report *r = NULL;
    fore_error err = {0};
    if (convert(work, s->dir, &r, &err)) fail_msg("%s", err.text);
    int kept = r->files_kept;
    fore_quantize_report_free(r);
    assert_int_equal(scratch_count(s), scratch_count(&whole[work])); /* no journal, no half file */
    assert_true(is_whole(work, s));
    return kept;
}

static bool run_killed(int work, const char *dir, long n) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        files_mode = FILES_KILL;
        files_at = n;
        files_seen = 0;
        _exit(convert(work, dir, NULL, NULL) ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) return true;
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

static long count_operations(int work) {
    scratch s;
    make_folder(&s);
    files_mode = FILES_COUNT;
    files_seen = 0;
    assert_int_equal(convert(work, s.dir, NULL, NULL), FORE_OK);
    scratch_remove(&s);
    return files_seen;
}

/* Writes of rows are all alike: one in seven of them will do. */
static bool is_dull(long n, long all) { return n > 20 && n + 60 < all && n % 7; }

static void test_killed_after_each_operation(void **state) {
    (void)state;
    for (int w = 0; w < WORKS; w++) {
        long all = count_operations(w);
        int ends = 0, most_kept = 0;
        assert_true(all > 80);
        for (long n = 1; n <= all; n++) {
            if (is_dull(n, all)) continue;
            scratch s;
            make_folder(&s);
            assert_true(run_killed(w, s.dir, n));
            bool done = is_whole(w, &s);
            ends += done;
            int kept = 0;
            if (!done || access(scratch_path(&s, journal_name), F_OK) == 0) kept = go_on(w, &s); /* else there is nothing to go on with */
            if (kept > most_kept) most_kept = kept;
            scratch_remove(&s);
        }
        assert_int_equal(ends, 3); /* behind the rename of config.json, the folder's sync, and the journal's end */
        assert_true(most_kept >= 1);
    }
}

static void test_each_operation_fails(void **state) {
    (void)state;
    static const int causes[] = {ENOSPC, EACCES, EIO, EROFS};
    for (int w = 0; w < WORKS; w += 2) {
        long all = count_operations(w);
        int refused = 0;
        for (long n = 1; n <= all; n++) {
            if (is_dull(n, all)) continue;
            scratch s;
            make_folder(&s);
            fore_error err = {0};
            files_mode = n % 2 ? FILES_FAIL : FILES_FAIL_ON;
            files_errno = causes[n / 2 % 4];
            files_at = n;
            files_seen = 0;
            fore_status status = convert(w, s.dir, NULL, &err);
            files_mode = FILES_COUNT;
            refused += status != FORE_OK;
            if (status && (status != FORE_ERR_IO || !strstr(err.text, "cannot ") || !strstr(err.text, s.dir))) fail_msg("%ld: %s", n, err.text);
            bool left = access(scratch_path(&s, journal_name), F_OK) == 0;
            if (!status) assert_true(is_whole(w, &s));
            if (status || left) go_on(w, &s);
            scratch_remove(&s);
        }
        assert_true(refused > 40);
    }
}

static void refuse(int work, const char *source, const char *out, const fore_convert_options *o, const char *says) {
    fore_error err = {0};
    fore_status s = fore_convert(source, out, o ? o : &works[work].how, NULL, &err);
    if (s != FORE_ERR_INVALID || !strstr(err.text, says)) fail_msg("expected \"%s\", got %d: %s", says, s, err.text);
}

/* Half a folder belongs to one work. */
static void test_other_work(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    assert_true(run_killed(0, s.dir, 40));
    int files = scratch_count(&s);
    assert_true(files > 1);
    fore_convert_options other = works[0].how;
    other.quantize.bits = 8;
    refuse(0, works[0].source, s.dir, &other, "begun with other settings (convert: integers kept, else group 64");
    refuse(0, works[0].source, s.dir, &other, "ask for the same to go on, or remove the folder to begin anew");
    other = works[0].how;
    other.exact = true;
    refuse(0, works[0].source, s.dir, &other, "asked for: convert: every weight exact");
    other = works[0].how;
    other.quantize.threads = 2; /* changes nothing in what is made */
    refuse(0, FORMS "gptq", s.dir, &other, "begun from another source");
    const fore_quantize_options q = {.bits = 4};
    fore_error err = {0};
    assert_int_equal(fore_quantize(FORE_DATA "/models/dense_tied_f32", s.dir, &q, NULL, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "begun with other settings"));
    assert_int_equal(scratch_count(&s), files);
    fore_quantize_report *r;
    if (fore_convert(works[0].source, s.dir, &other, &r, &err)) fail_msg("%s", err.text);
    fore_quantize_report_free(r);
    assert_true(is_whole(0, &s));
    /* What is finished is not gone on with. */
    refuse(0, works[0].source, s.dir, NULL, "not empty");
    scratch_remove(&s);
}

static int cancel(void *user, const char *stage, uint64_t done, uint64_t total) {
    assert_true(done <= total && (!strcmp(stage, "convert") || !strcmp(stage, "finish")));
    return --*(int *)user < 0;
}

static void test_cancelled(void **state) {
    (void)state;
    for (int w = 0; w < WORKS; w++)
        for (int n = 0;; n += 5) {
            scratch s;
            int left = n;
            make_folder(&s);
            fore_convert_options o = works[w].how;
            o.quantize.progress = cancel;
            o.quantize.user = &left;
            fore_error err = {0};
            fore_status status = fore_convert(works[w].source, s.dir, &o, NULL, &err);
            if (status) {
                assert_int_equal(status, FORE_ERR_CANCELLED);
                if (access(scratch_path(&s, journal_name), F_OK) == 0) go_on(w, &s);
            }
            assert_true(is_whole(w, &s));
            scratch_remove(&s);
            if (!status) {
                assert_true(n > 20);
                break;
            }
        }
}

static int make_whole(void **state) {
    (void)state;
    for (int w = 0; w < WORKS; w++) {
        fore_error err = {0};
        make_folder(&whole[w]);
        if (convert(w, whole[w].dir, NULL, &err)) fail_msg("%s", err.text);
    }
    return 0;
}

static int remove_whole(void **state) {
    (void)state;
    for (int w = 0; w < WORKS; w++) scratch_remove(&whole[w]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_after_each_operation), cmocka_unit_test(test_each_operation_fails), cmocka_unit_test(test_other_work),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, make_whole, remove_whole);
}
