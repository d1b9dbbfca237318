/* Memory runs out at the n-th request, for every n, while checkpoints are opened and tensors written: "out of memory"
 * each time (qsort and the C library's files may get by without), nothing left behind, no half file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "checkpoint/config.h"
#include "checkpoint/store.h"
#include "support/failing_malloc.h"
#include "support/scratch.h"

#define MODELS FORE_DATA "/models/"

static scratch dir;

static fore_status open_store(const char *path, fore_error *err) {
    fore_store *st;
    fore_status s = fore_store_open(path, &st, err);
    if (!s) fore_store_close(st);
    return s;
}
static fore_status sharded(fore_error *err) { return open_store(MODELS "dense_sharded_bf16", err); }
static fore_status single(fore_error *err) { return open_store(MODELS "dense_tied_f32", err); }
static fore_status no_index(fore_error *err) { return open_store(dir.dir, err); }
static fore_status config(fore_error *err) {
    fore_arena arena = {0};
    fore_config c;
    fore_status s = fore_config_read(MODELS "dense_tied_f32", &arena, &c, err);
    fore_arena_free(&arena);
    return s;
}
static fore_status write_tensors(fore_error *err) {
    static const float f[2] = {1, 2};
    static const fore_tensor t[2] = {{.name = "x", .dtype = "F32", .dims = 1, .shape = {2}, .data = f},
                                     {.name = "y", .dtype = "F32", .dims = 2, .shape = {1, 2}, .data = f}};
    return fore_tensors_write(scratch_path(&dir, "out.safetensors"), t, 2, err);
}
static fore_status read_tensors(fore_error *err) {
    fore_tensor_file *f;
    fore_status s = fore_tensors_open(scratch_path(&dir, "out.safetensors"), &f, err);
    if (!s) fore_tensors_close(f);
    return s;
}

#if FAILING_MALLOC
static void refuse_each(const char *what, fore_status (*act)(fore_error *), int files, int spare) {
    int survived = 0;
    for (long n = 0;; n++) {
        fore_error err = {0};
        long before = malloc_live;
        malloc_refused = false;
        malloc_left = n;
        malloc_armed = true;
        fore_status s = act(&err);
        malloc_armed = false;
        if (malloc_live != before) fail_msg("%s: %ld blocks left after request %ld failed", what, malloc_live - before, n);
        if (!malloc_refused) {
            if (s) fail_msg("%s: %s", what, err.text);
            assert_true(n > 3 && survived <= spare);
            return;
        }
        survived += s == FORE_OK;
        if (s && (s != FORE_ERR_NOMEM || err.code != s || !strstr(err.text, "out of memory")))
            fail_msg("%s: request %ld: %d %s", what, n, s, err.text);
        if (s) assert_int_equal(scratch_count(&dir), files);
    }
}
#else
/* The sanitizer looks for leaks and bad accesses of an undisturbed run. */
static void refuse_each(const char *what, fore_status (*act)(fore_error *), int files, int spare) {
    fore_error err = {0};
    (void)spare;
    if (act(&err)) fail_msg("%s: %s", what, err.text);
    assert_in_range(scratch_count(&dir), files, files + 1);
}
#endif

static void test_each_request(void **state) {
    (void)state;
    scratch_make(&dir);
    refuse_each("writing", write_tensors, 0, 0);
    refuse_each("reading", read_tensors, 1, 0);
    scratch_remove(&dir);
    scratch_make(&dir);
    for (int i = 1; i <= 3; i++) {
        char name[64], from[256];
        snprintf(name, sizeof name, "model.safetensors-0000%d-of-00003.safetensors", i);
        snprintf(from, sizeof from, MODELS "dense_sharded_bf16/%s", name);
        scratch_copy(&dir, from, name);
    }
    refuse_each("shards without an index", no_index, 3, 8);
    refuse_each("shards", sharded, 3, 8);
    refuse_each("one file", single, 3, 8);
    refuse_each("config", config, 3, 0);
    scratch_remove(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
