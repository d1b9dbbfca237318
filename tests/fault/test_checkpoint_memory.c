/* Memory runs out while checkpoints are opened and tensors written: no half file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "checkpoint/config.h"
#include "checkpoint/store.h"
#include "support/refuse_each.h"
#include "support/scratch.h"

#define MODELS FORE_DATA "/models/"

static scratch dir;

typedef struct subject {
    const char *path;
    int files; /* in the folder, whatever fails */
} subject;

static fore_status open_store(void *user, fore_error *err) {
    fore_store *st;
    fore_status s = fore_store_open(((const subject *)user)->path, &st, err);
    if (!s) fore_store_close(st);
    return s;
}
static fore_status config(void *user, fore_error *err) {
    (void)user;
    fore_arena arena = {0};
    fore_config c;
    fore_status s = fore_config_read(MODELS "dense_tied_f32", &arena, &c, err);
    fore_arena_free(&arena);
    return s;
}
static fore_status write_tensors(void *user, fore_error *err) {
    (void)user;
    static const float f[2] = {1, 2};
    static const fore_tensor t[2] = {{.name = "x", .dtype = "F32", .dims = 1, .shape = {2}, .data = f},
                                     {.name = "y", .dtype = "F32", .dims = 2, .shape = {1, 2}, .data = f}};
    return fore_tensors_write(scratch_path(&dir, "out.safetensors"), t, 2, err);
}
static fore_status read_tensors(void *user, fore_error *err) {
    (void)user;
    fore_tensor_file *f;
    fore_status s = fore_tensors_open(scratch_path(&dir, "out.safetensors"), &f, err);
    if (!s) fore_tensors_close(f);
    return s;
}

static void count_files(void *user, long n, fore_status s) {
    (void)n;
    if (s) assert_int_equal(scratch_count(&dir), ((const subject *)user)->files); /* no half file */
}
static void remove_out(void *user) {
    (void)user;
    remove(scratch_path(&dir, "out.safetensors"));
}

static void refuse(const char *what, fore_status (*act)(void *, fore_error *), const char *path, int files, int spare) {
    subject s = {path, files};
    refuse_each(&(refusals){.what = what, .act = act, .before = files ? NULL : remove_out, .after = count_files, .user = &s, .least = 3, .spare = spare});
}

static void test_each_request(void **state) {
    (void)state;
    scratch_make(&dir);
    refuse("writing", write_tensors, "", 0, 0);
    refuse("reading", read_tensors, "", 1, 0);
    scratch_remove(&dir);
    scratch_make(&dir);
    for (int i = 1; i <= 3; i++) {
        char name[64], from[256];
        snprintf(name, sizeof name, "model.safetensors-0000%d-of-00003.safetensors", i);
        snprintf(from, sizeof from, MODELS "dense_sharded_bf16/%s", name);
        scratch_copy(&dir, from, name);
    }
    refuse("shards without an index", open_store, dir.dir, 3, 8);
    refuse("shards", open_store, MODELS "dense_sharded_bf16", 3, 8);
    refuse("one file", open_store, MODELS "dense_tied_f32", 3, 8);
    refuse("config", config, "", 3, 0);
    scratch_remove(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
