/* A model that is looked at says of itself what the open one says: sizes, parts, forms, memory, how it is read; and it has no problems
 * exactly when it opens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "foresight.h"
#include "support/scratch.h"

static const char *const whole[] = {
    "models/tiny", FORE_DATA "/models/dense_sharded_bf16", FORE_DATA "/models/dense_tied_f32", FORE_DATA "/moe/moe_bf16",
    FORE_DATA "/moe/moe_bf16_numbered", FORE_DATA "/family/vl_dense_bf16", FORE_DATA "/family/vl_moe_bf16", FORE_DATA "/family/qwen3_5_moe_text_bf16",
    FORE_DATA "/family/qwen3_tied_f32", FORE_DATA "/family/qwen3_moe_bf16", FORE_DATA "/family/qwen3_next_bf16", FORE_DATA "/qwen2_5/bf16",
    FORE_DATA "/forms/fp8_experts", FORE_DATA "/forms/fp8_head", FORE_DATA "/forms/int4", FORE_DATA "/forms/int4_zeros", FORE_DATA "/forms/awq",
    FORE_DATA "/forms/gptq_order", FORE_DATA "/quantised/model", FORE_DATA "/mlx/moe_mixed", FORE_DATA "/mlx/vl_moe_mixed",
    FORE_DATA "/gguf/blocks", FORE_DATA "/gguf/apart", FORE_DATA "/gguf/parts", FORE_DATA "/gguf/super/model.gguf", FORE_DATA "/gguf/vlmoe/model.gguf",
};

static fore_model *open_one(const char *dir, bool look) {
    fore_error err = {0};
    fore_model *model;
    const fore_model_options o = {.look = look, .draft_vocabulary = 60};
    if (fore_model_open(dir, &o, &model, &err)) fail_msg("%s: %s", dir, err.text);
    return model;
}

static void same_parts(const fore_model *a, const fore_model *b) {
    fore_model_part p, q;
    fore_stored_form f, g;
    int i = 0, k = 0;
    for (; fore_model_get_part(a, i, &p); i++) {
        assert_true(fore_model_get_part(b, i, &q));
        assert_memory_equal(&p, &q, sizeof p); /* names are static */
        for (k = 0; fore_model_get_part_form(a, i, k, &f); k++) {
            assert_true(fore_model_get_part_form(b, i, k, &g));
            assert_string_equal(f.name, g.name);
            assert_true(f.bits == g.bits && f.group == g.group && f.memory_bits == g.memory_bits && f.parameters == g.parameters);
        }
        assert_false(fore_model_get_part_form(b, i, k, &g));
    }
    assert_true(i >= 2);
    assert_false(fore_model_get_part(b, i, &q));
    assert_false(fore_model_get_part(b, -1, &q));
}

static void same_readings(const fore_model *a, const fore_model *b) {
    fore_reading p, q;
    int i = 0;
    for (; fore_model_get_reading(a, i, &p); i++) {
        assert_true(fore_model_get_reading(b, i, &q));
        assert_true(!strcmp(p.name, q.name) && !strcmp(p.value, q.value) && !strcmp(p.source, q.source) && p.value[0] && p.source[0]);
    }
    assert_true(i >= 3);
    assert_false(fore_model_get_reading(b, i, &q));
}

static void test_same(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        fore_model *model = open_one(whole[i], false), *seen = open_one(whole[i], true);
        fore_problem problem;
        fore_plan a, b;
        fore_model_info x, y;
        if (fore_model_get_problem(seen, 0, &problem)) fail_msg("%s: %s", whole[i], problem.text);
        assert_false(fore_model_get_problem(model, 0, &problem));
        fore_model_plan(model, 300, &a);
        fore_model_plan(seen, 300, &b);
        assert_memory_equal(&a, &b, sizeof a);
        fore_model_get_info(model, &x);
        fore_model_get_info(seen, &y);
        assert_true(x.text_parameters == y.text_parameters && x.vision_parameters == y.vision_parameters && x.mtp_parameters == y.mtp_parameters);
        assert_true(x.repacked_bytes == y.repacked_bytes && x.active_parameters == y.active_parameters && x.mtp_attached == y.mtp_attached);
        assert_true(x.draft_vocabulary == y.draft_vocabulary && x.weight_bytes == y.weight_bytes && x.has_tokenizer == y.has_tokenizer);
        assert_string_equal(x.mtp_source, y.mtp_source);
        same_parts(model, seen);
        same_readings(model, seen);
        fore_model_close(model);
        fore_model_close(seen);
    }
}

static int count_problems(const char *dir) {
    fore_model *seen = open_one(dir, true);
    fore_problem p;
    int n = 0;
    for (; fore_model_get_problem(seen, n, &p); n++) assert_true(p.topic[0] && p.text[0] && p.missing);
    fore_model_close(seen);
    return n;
}

/* Of each file that a folder has: without it, the folder opens exactly when the look finds nothing. */
static void test_without(void **state) {
    (void)state;
    static const char *const files[] = {"config.json", "generation_config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    enum { FILES = sizeof files / sizeof *files };
    for (int skipped = 0; skipped < 2 * FILES; skipped++) {
        scratch s;
        scratch_make(&s);
        for (int i = 0; i < FILES; i++) {
            char path[128];
            snprintf(path, sizeof path, "models/tiny/%s", files[i]);
            if (i != skipped % FILES && !access(path, R_OK)) scratch_copy(&s, path, files[i]);
            else if (i == skipped && !access(path, R_OK)) scratch_write(&s, files[i], "{", 1); /* or broken */
        }
        fore_model *model = NULL;
        fore_error err = {0};
        fore_status status = fore_model_open(s.dir, NULL, &model, &err);
        fore_model_close(model);
        int problems = count_problems(s.dir);
        if (!status != !problems) fail_msg("%s: opening it gives \"%s\", looking at it %d problems", files[skipped % FILES], err.text, problems);
        scratch_remove(&s);
    }
}

static void test_nothing(void **state) {
    (void)state;
    fore_model *model;
    fore_error err = {0};
    const fore_model_options look = {.look = true};
    assert_int_equal(fore_model_open("/nonexistent/folder", &look, &model, &err), FORE_ERR_IO);
    assert_int_equal(fore_model_open("/nonexistent/file.gguf", &look, &model, &err), FORE_ERR_IO);
    assert_int_equal(fore_model_open("/nonexistent/folder", &look, &model, NULL), FORE_ERR_IO);
    scratch s;
    scratch_make(&s);
    assert_int_equal(count_problems(s.dir), 2); /* neither settings nor weights */
    scratch_remove(&s);
}

/* A config that asks for more tensors than the files could have does not keep anyone waiting. */
static void test_flood(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    static const char config[] =
        "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\", \"vocab_size\": 8, \"hidden_size\": 8, "
        "\"intermediate_size\": 8, \"num_hidden_layers\": 400, \"num_attention_heads\": 1, \"num_key_value_heads\": 1, \"head_dim\": 8, "
        "\"rms_norm_eps\": 1e-6, \"rope_theta\": 10000, \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "
        "\"attention_bias\": false, \"hidden_act\": \"silu\", \"num_experts\": 4096, \"num_experts_per_tok\": 1, "
        "\"moe_intermediate_size\": 8, \"decoder_sparse_step\": 1, \"norm_topk_prob\": true, \"mlp_only_layers\": []}";
    scratch_write(&s, "config.json", config, sizeof config - 1);
    enum { LAYERS = 400 };
    static fore_tensor tensors[LAYERS];
    static char names[LAYERS][64];
    static const uint16_t zeros[64];
    for (int i = 0; i < LAYERS; i++) {
        snprintf(names[i], sizeof names[0], "model.layers.%d.mlp.experts.0.up_proj.weight", i);
        tensors[i] = (fore_tensor){.name = names[i], .dtype = "BF16", .dims = 2, .shape = {8, 8}, .data = zeros};
    }
    fore_error err = {0};
    if (fore_tensors_write(scratch_path(&s, "model.safetensors"), tensors, LAYERS, &err)) fail_msg("%s", err.text);
    fore_model *seen = open_one(s.dir, true);
    fore_problem p = {0};
    int n = 0;
    while (fore_model_get_problem(seen, n, &p)) n++;
    assert_int_equal(n, 10000);
    assert_non_null(strstr(p.text, "more than ten thousand"));
    fore_model_close(seen);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_without),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_flood),
    };
    return cmocka_run_group_tests_name("unit/look", tests, NULL, NULL);
}
