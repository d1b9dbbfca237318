/* Quantising a checkpoint in FP8: the same bytes as from the floats that it stands for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/config.h"
#include "model/forms.h"
#include "support/scratch.h"

#define FORMS FORE_DATA "/forms/"

enum { MOST = 256 };

/* The folder `name` with BF16 in place of FP8. */
static void widen(const char *name, const scratch *s) {
    char dir[128], path[160];
    fore_error err = {0};
    fore_store *store = NULL;
    fore_arena arena = {0};
    fore_config config;
    snprintf(dir, sizeof dir, FORMS "%s", name);
    snprintf(path, sizeof path, "%s/config.json", dir);
    if (fore_config_read(dir, &arena, &config, &err) || fore_store_open(dir, &store, &err)) fail_msg("%s", err.text);
    fore_tensor t[MOST];
    void *rows[MOST] = {0};
    size_t count = 0;
    int widened = 0;
    for (size_t i = 0; i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        if (strcmp(e->name, "digest") == 0 || strstr(e->name, "weight_scale")) continue;
        assert_true(count < MOST);
        t[count] = (fore_tensor){.name = e->name, .dtype = e->dtype_name, .dims = e->dims, .data = e->data};
        memcpy(t[count].shape, e->shape, sizeof e->shape);
        fore_form_matrix m;
        if (fore_forms_read(store, e, &config.stored, &m, &err)) fail_msg("%s", err.text);
        if (m.form) {
            rows[count] = malloc(2 * m.rows * m.K);
            const fore_form_rows to = {.q = rows[count]};
            assert_null(m.form->write(&m, 0, m.rows, &to));
            assert_int_equal(m.dtype, FORE_DTYPE_BF16);
            t[count].dtype = "BF16";
            t[count].data = rows[count];
            widened++;
        }
        count++;
    }
    assert_true(widened >= 13);
    if (fore_tensors_write(scratch_path(s, "model.safetensors"), t, count, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < count; i++) free(rows[i]);
    cJSON *json;
    if (fore_json_read(path, 1 << 20, &json, &err)) fail_msg("%s", err.text);
    cJSON_DeleteItemFromObjectCaseSensitive(json, "quantization_config");
    char *text = cJSON_Print(json);
    scratch_write(s, "config.json", text, strlen(text));
    cJSON_free(text);
    cJSON_Delete(json);
    fore_store_close(store);
    fore_arena_free(&arena);
}

static void same_file(const char *a, const char *b, const char *name) {
    char path[2][256], *text[2];
    size_t size[2];
    fore_error err = {0};
    const char *const dirs[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", dirs[i], name);
        if (fore_file_read(path[i], 1 << 24, &text[i], &size[i], &err)) fail_msg("%s", err.text);
    }
    if (size[0] != size[1] || memcmp(text[0], text[1], size[0])) fail_msg("%s and %s differ", path[0], path[1]);
    free(text[0]);
    free(text[1]);
}

static void compare(const char *name, fore_quantize_options o) {
    scratch wide, out;
    char from[128];
    fore_error err = {0};
    scratch_make(&wide);
    scratch_make(&out);
    widen(name, &wide);
    snprintf(from, sizeof from, FORMS "%s", name);
    o.threads = 2;
    if (fore_quantize(from, scratch_path(&out, "a"), &o, NULL, &err)) fail_msg("%s", err.text);
    if (fore_quantize(wide.dir, scratch_path(&out, "b"), &o, NULL, &err)) fail_msg("%s", err.text);
    same_file(scratch_path(&out, "a"), scratch_path(&out, "b"), "model.safetensors");
    same_file(scratch_path(&out, "a"), scratch_path(&out, "b"), "model.safetensors.index.json");
    fore_model *model;
    if (fore_model_open(scratch_path(&out, "a"), NULL, &model, &err)) fail_msg("%s", err.text);
    fore_stored_form form;
    for (int i = 0; fore_model_get_form(model, i, &form); i++) assert_string_equal(form.name, "MLX");
    fore_model_close(model);
    scratch_remove(&wide);
    scratch_remove(&out);
}

static void test_same_bytes(void **state) {
    (void)state;
    compare("fp8", (fore_quantize_options){.bits = 4, .group = 64});
    compare("fp8", (fore_quantize_options){.bits = 8, .group = 128, .mtp_bits = 16}); /* the draft head becomes plain floats */
    compare("fp8_experts", (fore_quantize_options){.bits = 4, .group = 32});
    compare("fp8_experts", (fore_quantize_options){.bits = 4, .group = 64}); /* some rows are no multiple of it */
    compare("fp8_channel", (fore_quantize_options){.bits = 8, .group = 32});
}

static void test_refused(void **state) {
    (void)state;
    static const char *const names[] = {"int4", "int8", "awq", "gptq"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        scratch out;
        char from[128];
        fore_error err = {0};
        scratch_make(&out);
        snprintf(from, sizeof from, FORMS "%s", names[i]);
        const fore_quantize_options o = {.bits = 4, .group = 32};
        assert_int_equal(fore_quantize(from, scratch_path(&out, "a"), &o, NULL, &err), FORE_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "the source is quantised already"));
        assert_int_equal(scratch_count(&out), 0);
        scratch_remove(&out);
    }
    /* A number that FP8 does not have. */
    scratch s;
    scratch_make(&s);
    fore_error err = {0};
    fore_tensor_file *file;
    fore_tensor t[MOST];
    static unsigned char nans[1 << 16];
    size_t count = 0;
    memset(nans, 0x7f, sizeof nans);
    if (fore_tensors_open(FORMS "fp8/model.safetensors", &file, &err)) fail_msg("%s", err.text);
    for (const fore_tensor *x; (x = fore_tensors_at(file, count)); count++) {
        t[count] = *x;
        if (strcmp(x->name, "model.layers.1.self_attn.k_proj.weight") == 0) t[count].data = nans;
    }
    scratch_copy(&s, FORMS "fp8/config.json", "config.json");
    if (fore_tensors_write(scratch_path(&s, "model.safetensors"), t, count, &err)) fail_msg("%s", err.text);
    const fore_quantize_options o = {.bits = 4, .group = 32};
    assert_int_equal(fore_quantize(s.dir, scratch_path(&s, "out"), &o, NULL, &err), FORE_ERR_FORMAT);
    assert_non_null(strstr(err.text, "k_proj.weight: a weight is not finite"));
    fore_tensors_close(file);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("forge/forms", tests, NULL, NULL);
}
