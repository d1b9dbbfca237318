/* forge check: what it finds in a sound checkpoint, and each thing that can be wrong with one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/store.h"
#include "support/hosts.h"

static fore_check_report *look(const char *dir) {
    fore_check_report *r = NULL;
    fore_error err = {0};
    if (fore_check(dir, &(fore_check_options){.threads = 2}, &r, &err)) fail_msg("%s: %s", dir, err.text);
    size_t problems = 0, remarks = 0;
    for (size_t i = 0; i < r->finding_count; i++) {
        problems += r->findings[i].level == FORE_CHECK_PROBLEM;
        remarks += r->findings[i].level == FORE_CHECK_REMARK;
    }
    assert_int_equal(problems, r->problems);
    assert_int_equal(remarks, r->remarks);
    assert_int_equal(r->sound, problems == 0);
    return r;
}

static bool finds(const fore_check_report *r, fore_check_level level, const char *topic, const char *says) {
    for (size_t i = 0; i < r->finding_count; i++)
        if (r->findings[i].level == level && !strcmp(r->findings[i].topic, topic) && strstr(r->findings[i].text, says)) return true;
    return false;
}

static void say_all(const fore_check_report *r) {
    for (size_t i = 0; i < r->finding_count; i++) fprintf(stderr, "%d %s: %s\n", r->findings[i].level, r->findings[i].topic, r->findings[i].text);
}

static void expect(const char *dir, fore_check_level level, const char *topic, const char *says, size_t problems, size_t remarks) {
    fore_check_report *r = look(dir);
    bool good = finds(r, level, topic, says) && r->problems == problems && r->remarks == remarks;
    if (!good) say_all(r);
    fore_check_report_free(r);
    if (!good) fail_msg("expected a finding on %s: %s", topic, says);
}

static void expect_problem(const scratch *s, const char *topic, const char *says) { expect(s->dir, FORE_CHECK_PROBLEM, topic, says, 1, 0); }
static void expect_remark(const scratch *s, const char *topic, const char *says) { expect(s->dir, FORE_CHECK_REMARK, topic, says, 0, 1); }

/* Bytes into a tensor of dir/model.safetensors. */
static void patch(const scratch *s, const char *tensor, size_t at, const void *data, size_t size) {
    fore_store *st;
    assert_int_equal(fore_store_open_file(scratch_path(s, "model.safetensors"), &st, NULL), FORE_OK);
    const fore_entry *e = fore_store_find(st, tensor);
    assert_non_null(e);
    assert_true(at + size <= e->bytes);
    off_t offset = e->data - fore_store_file_map(st, 0)->data + (off_t)at;
    fore_store_close(st);
    int fd = open(scratch_path(s, "model.safetensors"), O_WRONLY);
    assert_int_equal(pwrite(fd, data, size, offset), size);
    close(fd);
}

static void copy_tiny(scratch *s) { host_link(TINY, s); }

/* A copy whose weights may be changed. */
static void own_weights(scratch *s) {
    copy_tiny(s);
    unlink(scratch_path(s, "model.safetensors"));
    scratch_copy(s, TINY "/model.safetensors", "model.safetensors");
}

static void edit(const scratch *s, const char *name, cJSON *value, bool in_text) {
    cJSON *c = host_config(s->dir), *of = in_text ? cJSON_GetObjectItem(c, "text_config") : c;
    cJSON_DeleteItemFromObject(of, name);
    if (value) cJSON_AddItemToObject(of, name, value);
    unlink(scratch_path(s, "config.json"));
    host_put_config(s, "config.json", c);
    cJSON_Delete(c);
}

static void test_sound(void **state) {
    (void)state;
    fore_check_report *r = look(TINY);
    assert_true(r->sound);
    assert_int_equal(r->remarks, 0);
    assert_int_equal(r->tensor_count, 115);
    assert_int_equal(r->bytes, 5072560);
    static const char *const topics[] = {"config", "files", "tensors", "model", "norms", "vision", "draft head", "tokenizer", "template", "answer"};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) assert_true(finds(r, FORE_CHECK_FINE, topics[i], ""));
    assert_true(finds(r, FORE_CHECK_FINE, "norms", "the files hold gain - 1: the convolution's axes are Hugging Face's"));
    assert_true(finds(r, FORE_CHECK_FINE, "draft head", "norms hold gain - 1 (detected from the means"));
    assert_true(finds(r, FORE_CHECK_FINE, "answer", "after a picture, the same with drafts"));
    assert_true(strlen(r->answer) > 10);
    assert_string_equal(r->tensors[0].name, "model.language_model.embed_tokens.weight");
    assert_string_equal(r->tensors[0].dtype, "BF16");
    assert_string_equal(r->tensors[0].file, "model.safetensors");
    assert_int_equal(r->tensors[0].shape[0], 1280);
    fore_check_report_free(r);
    for (host_kind k = 0; k < HOST_KINDS; k++) {
        scratch s;
        host_make(&s, k);
        expect(s.dir, FORE_CHECK_FINE, "vision", "none: text alone", 0, 0);
        scratch_remove(&s);
    }
    assert_int_equal(fore_check(TINY, &(fore_check_options){.no_answer = true}, &r, NULL), FORE_OK);
    assert_string_equal(r->answer, "");
    assert_true(r->sound && !finds(r, FORE_CHECK_FINE, "answer", ""));
    fore_check_report_free(r);
}

static void test_numbers(void **state) {
    (void)state;
    static const char name[] = "model.language_model.layers.1.mlp.up_proj.weight";
    static const uint16_t nan = 0xffc1, infinite = 0x7f80;
    scratch s;
    own_weights(&s);
    patch(&s, name, 2 * 5, &nan, 2);
    patch(&s, name, 2 * 384 * 128 - 2, &infinite, 2);
    fore_check_report *r = look(s.dir);
    assert_true(finds(r, FORE_CHECK_PROBLEM, "tensors", "layers.1.mlp.up_proj.weight (model.safetensors): 1 numbers are NaN, 1 infinite"));
    assert_true(finds(r, FORE_CHECK_PROBLEM, "answer", "not finite"));
    assert_int_equal(r->problems, 2);
    for (size_t i = 0; i < r->tensor_count; i++) {
        bool it = !strcmp(r->tensors[i].name, name);
        assert_int_equal(r->tensors[i].nan, it);
        assert_int_equal(r->tensors[i].infinite, it);
    }
    fore_check_report_free(r);
    scratch_remove(&s);

    own_weights(&s);
    void *zeros = calloc(2 * 128, 256);
    patch(&s, "mtp.fc.weight", 0, zeros, 2 * 128 * 256);
    patch(&s, "model.visual.blocks.0.norm1.bias", 0, zeros, 2 * 128); /* may well be */
    free(zeros);
    expect_problem(&s, "tensors", "mtp.fc.weight (model.safetensors): all of it is 0");
    scratch_remove(&s);
}

/* Floats of each kind that the format has, in tensors that no model reads. */
static void test_types(void **state) {
    (void)state;
    static const uint8_t e4m3[] = {0x7f, 0xff, 0x7e, 0, 0x78, 0xf8}, e5m2[] = {0x7c, 0xfc, 0x7d, 0xff, 0x7b, 0};
    static const uint16_t f16[] = {0x7c00, 0xfc01, 0x7bff, 0}, bf16[] = {0x7f7f, 0xff80, 0x7f81, 0xffff};
    static const uint32_t f32[] = {0x7f800000, 0x7f7fffff, 0xff800001, 0x80000000}, i32[] = {0, 0, 0, 0};
    static const uint64_t f64[] = {0x7ff0000000000000u, 0x7fefffffffffffffu, 0xfff8000000000000u, 0};
    const fore_tensor list[] = {
        {"x.e4m3", "F8_E4M3", 1, {6}, e4m3}, {"x.e5m2", "F8_E5M2", 1, {6}, e5m2},   {"x.f16", "F16", 1, {4}, f16},
        {"x.bf16", "BF16", 1, {4}, bf16},    {"x.f32", "F32", 1, {4}, f32},         {"x.f64", "F64", 1, {4}, f64},
        {"x.i32", "I32", 1, {4}, i32},       {"x.nothing", "F32", 2, {0, 4}, NULL},
    };
    static const int want[][2] = {{2, 0}, {2, 2}, {1, 1}, {2, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
    scratch s;
    host_make(&s, HOST_ODD); /* there every file counts */
    assert_int_equal(fore_tensors_write(scratch_path(&s, "x.safetensors"), list, sizeof list / sizeof *list, NULL), FORE_OK);
    fore_check_report *r = look(s.dir);
    assert_int_equal(r->tensor_count, 70 + 8);
    for (size_t i = 0; i < r->tensor_count; i++)
        for (size_t k = 0; k < 8; k++) {
            if (strcmp(r->tensors[i].name, list[k].name)) continue;
            assert_int_equal(r->tensors[i].nan, want[k][0]);
            assert_int_equal(r->tensors[i].infinite, want[k][1]);
            assert_int_equal(r->tensors[i].zero, k == 6);
        }
    /* Five are named, then how many there are. */
    assert_true(finds(r, FORE_CHECK_PROBLEM, "tensors", "in all, 6 tensors"));
    assert_int_equal(r->problems, 6);
    fore_check_report_free(r);
    scratch_remove(&s);
}

static bool no_tower(const char *name) { return strncmp(name, "model.visual.", 13) != 0; }
static bool no_head(const char *name) { return strncmp(name, "mtp.", 4) != 0; }
static bool no_fc(const char *name) { return strcmp(name, "mtp.fc.weight") != 0; }
static bool no_up(const char *name) { return strcmp(name, "model.language_model.layers.2.mlp.up_proj.weight") != 0; }
static bool all(const char *name) { return name != NULL; }

static void with_tensors(scratch *s, bool (*takes)(const char *name)) {
    copy_tiny(s);
    unlink(scratch_path(s, "model.safetensors"));
    host_tensors(s, "model.safetensors", takes, NULL);
}

static void test_missing_parts(void **state) {
    (void)state;
    scratch s;
    with_tensors(&s, no_tower);
    expect_problem(&s, "vision", "declares a vision tower, and its weights are not there; foresight forge graft");
    edit(&s, "vision_config", NULL, false);
    expect(s.dir, FORE_CHECK_FINE, "vision", "none: text alone", 0, 0);
    scratch_remove(&s);

    with_tensors(&s, all);
    edit(&s, "vision_config", NULL, false);
    expect_problem(&s, "vision", "45 tensors of a vision tower (model.visual.blocks.0");
    scratch_remove(&s);

    with_tensors(&s, all);
    unlink(scratch_path(&s, "preprocessor_config.json"));
    expect_remark(&s, "vision", "no preprocessor_config.json");
    scratch_remove(&s);

    with_tensors(&s, no_head);
    expect_problem(&s, "draft head", "declares a draft head, its weights are absent");
    edit(&s, "mtp_num_hidden_layers", NULL, true);
    expect(s.dir, FORE_CHECK_FINE, "draft head", "none declared", 0, 0);
    scratch_remove(&s);

    with_tensors(&s, all);
    edit(&s, "mtp_num_hidden_layers", cJSON_CreateNumber(0), true);
    expect_remark(&s, "draft head", "15 tensors of one, and config.json declares none");
    scratch_remove(&s);

    with_tensors(&s, no_fc);
    fore_check_report *r = look(s.dir);
    assert_true(finds(r, FORE_CHECK_PROBLEM, "draft head", "mtp.fc.weight: missing"));
    assert_true(finds(r, FORE_CHECK_FINE, "answer", "after a picture")); /* the rest is looked at all the same */
    assert_int_equal(r->problems, 1);
    fore_check_report_free(r);
    scratch_remove(&s);

    with_tensors(&s, no_up);
    expect_problem(&s, "model", "layers.2.mlp.up_proj.weight: missing");
    scratch_remove(&s);
}

static void test_sidecar(void **state) {
    (void)state;
    expect(FORE_DATA "/models/dense_sharded_bf16", FORE_CHECK_FINE, "files", "15 of a draft head in mtp.safetensors", 1, 0);
}

static void test_text(void **state) {
    (void)state;
    scratch s;
    copy_tiny(&s);
    unlink(scratch_path(&s, "tokenizer.json"));
    expect_problem(&s, "tokenizer", "no tokenizer.json");
    scratch_remove(&s);

    copy_tiny(&s);
    unlink(scratch_path(&s, "chat_template.jinja"));
    scratch_write(&s, "chat_template.jinja", "{% if %}", 8);
    expect_problem(&s, "template", "");
    unlink(scratch_path(&s, "chat_template.jinja"));
    unlink(scratch_path(&s, "tokenizer_config.json"));
    expect_remark(&s, "template", "no chat template");
    scratch_remove(&s);

    with_tensors(&s, all);
    unlink(scratch_path(&s, "tokenizer.json"));
    scratch_write(&s, "tokenizer.json", "{\"model\": 5}", 12);
    fore_check_report *r = look(s.dir);
    assert_true(finds(r, FORE_CHECK_PROBLEM, "model", "tokenizer.json"));
    fore_check_report_free(r);
    scratch_remove(&s);
}

static void test_norms(void **state) {
    (void)state;
    scratch s;
    own_weights(&s);
    uint16_t twos[128];
    for (int i = 0; i < 128; i++) twos[i] = 0x4000;
    fore_tensor_file *f;
    const fore_tensor *t;
    assert_int_equal(fore_tensors_open(TINY "/model.safetensors", &f, NULL), FORE_OK);
    for (size_t i = 0; (t = fore_tensors_at(f, i)); i++)
        if (strstr(t->name, "language_model.layers.") && t->dims == 1 && strstr(t->name, "norm.weight") && !strstr(t->name, "linear_attn"))
            patch(&s, t->name, 0, twos, 2 * (size_t)t->shape[0]);
    fore_check_report *r = look(s.dir);
    assert_true(finds(r, FORE_CHECK_REMARK, "norms", "every gain is about 1 too large"));
    fore_check_report_free(r);

    /* Convolutions with MLX's axes (the same bytes), norms still less by one. */
    fore_tensor list[128];
    size_t n = 0;
    for (; (t = fore_tensors_at(f, n)); n++) {
        list[n] = *t;
        if (!strstr(t->name, "conv1d")) continue;
        list[n].shape[1] = t->shape[2];
        list[n].shape[2] = 1;
    }
    unlink(scratch_path(&s, "model.safetensors"));
    assert_int_equal(fore_tensors_write(scratch_path(&s, "model.safetensors"), list, n, NULL), FORE_OK);
    r = look(s.dir);
    assert_true(finds(r, FORE_CHECK_REMARK, "norms", "every gain is about 1 too small"));
    assert_true(finds(r, FORE_CHECK_FINE, "norms", "the gains themselves: the convolution's axes are MLX's"));
    fore_check_report_free(r);
    fore_tensors_close(f);
    scratch_remove(&s);
    expect(FORE_DATA "/family/qwen3_tied_f32", FORE_CHECK_FINE, "norms", "the gains themselves: models of this type", 1, 0);
}

static void test_not_a_checkpoint(void **state) {
    (void)state;
    fore_check_report *r;
    fore_error err = {0};
    assert_int_equal(fore_check("models/none", NULL, &r, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "models/none: not a folder"));
    expect("tests/samples", FORE_CHECK_PROBLEM, "config", "config.json", 1, 0);
    scratch s;
    host_make(&s, HOST_SINGLE);
    edit(&s, "model_type", cJSON_CreateString("llama"), false);
    expect_problem(&s, "config", "llama");
    edit(&s, "model_type", cJSON_CreateString("qwen3_5"), false);
    edit(&s, "hidden_size", cJSON_CreateNumber(256), true);
    /* That, five more tensors, and how many there are. */
    expect(s.dir, FORE_CHECK_PROBLEM, "model", "expected [1280,256], the file has BF16 [1280,128]", 7, 0);
    assert_int_equal(truncate(scratch_path(&s, "model.safetensors"), 5000), 0);
    expect_problem(&s, "files", "model.safetensors");
    scratch_remove(&s);
}

/* GGUF files have their settings, tokenizer and template in their metadata; blocks are looked at by their weights. */
static void test_gguf(void **state) {
    (void)state;
    static const char *const sound[] = {FORE_DATA "/gguf/moeblocks", FORE_DATA "/gguf/parts", FORE_DATA "/gguf/super/model.gguf"};
    for (int i = 0; i < 3; i++) {
        fore_check_report *r = look(sound[i]);
        if (!r->sound) say_all(r);
        assert_true(r->sound && finds(r, FORE_CHECK_FINE, "config", "GGUF") && finds(r, FORE_CHECK_FINE, "tensors", "finite"));
        assert_true(i == 2 || finds(r, FORE_CHECK_FINE, "norms", "the rule of GGUF files"));
        fore_check_report_free(r);
    }
    fore_check_report *r;
    fore_error err = {0};
    assert_int_equal(fore_check("models/none.gguf", NULL, &r, &err), FORE_ERR_IO);
    const fore_check_options tower = {.mmproj = FORE_DATA "/gguf/blocks/mmproj.gguf", .threads = 2};
    assert_int_equal(fore_check(FORE_DATA "/gguf/blocks/model.gguf", &tower, &r, &err), FORE_OK);
    assert_true(finds(r, FORE_CHECK_FINE, "vision", "a whole tower"));
    fore_check_report_free(r);
}

/* No norms of queries and keys, biases instead. */
static void test_qwen2_5(void **state) {
    (void)state;
    expect(FORE_DATA "/qwen2_5/tied_f32", FORE_CHECK_PROBLEM, "tokenizer", "no tokenizer.json", 1, 0);
}

static int cancel(void *user, const char *stage, uint64_t done, uint64_t total) {
    (void)stage;
    assert_true(done <= total);
    return --*(int *)user < 0;
}

static void test_cancelled(void **state) {
    (void)state;
    for (int n = 0;; n++) {
        int left = n;
        fore_check_report *r;
        fore_error err = {0};
        fore_status s = fore_check(TINY, &(fore_check_options){.progress = cancel, .user = &left, .threads = 1}, &r, &err);
        assert_true((s == FORE_OK) == (r != NULL));
        fore_check_report_free(r);
        if (!s) {
            assert_true(n > 5);
            return;
        }
        assert_int_equal(s, FORE_ERR_CANCELLED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound), cmocka_unit_test(test_numbers), cmocka_unit_test(test_types),
        cmocka_unit_test(test_missing_parts), cmocka_unit_test(test_sidecar), cmocka_unit_test(test_text),
        cmocka_unit_test(test_norms), cmocka_unit_test(test_not_a_checkpoint), cmocka_unit_test(test_gguf), cmocka_unit_test(test_qwen2_5),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
