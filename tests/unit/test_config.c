/* config.json: real files, the reference's defaults, the older spellings, and what is refused with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "checkpoint/config.h"

static fore_arena arena;

static int teardown(void **state) {
    (void)state;
    fore_arena_free(&arena);
    return 0;
}

static fore_config parse(const char *json) {
    fore_error err = {0};
    fore_config c;
    if (fore_config_parse(json, strlen(json), "here", &arena, &c, &err)) fail_msg("%s: %s", json, err.text);
    return c;
}

static void refuse(const char *json, fore_status status, const char *part) {
    fore_error err = {0};
    fore_config c;
    fore_status s = fore_config_parse(json, strlen(json), "here.json", &arena, &c, &err);
    if (s != status || err.code != status || !strstr(err.text, part) || strncmp(err.text, "here.json: ", 11) != 0)
        fail_msg("%s: expected %d with \"%s\", got %d: %s", json, status, part, s, err.text);
    assert_int_equal(fore_config_parse(json, strlen(json), "here.json", &arena, &c, NULL), status);
}

static void check_section(const fore_config *c, int t, int h, int w) {
    assert_int_equal(c->text.mrope_section[0], t);
    assert_int_equal(c->text.mrope_section[1], h);
    assert_int_equal(c->text.mrope_section[2], w);
    assert_int_equal(t + h + w, c->text.rotary_dim / 2);
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */

static void test_real_files(void **state) {
    (void)state;
    fore_error err = {0};
    fore_config c;
    if (fore_config_read(FORE_DATA "/models/dense_untied_bf16", &arena, &c, &err)) fail_msg("%s", err.text);
    assert_string_equal(c.architecture, "Qwen3_5ForConditionalGeneration");
    assert_string_equal(c.model_type, "qwen3_5");
    assert_int_equal(c.text.vocab_size, 512);
    assert_int_equal(c.text.hidden_size, 64);
    assert_int_equal(c.text.intermediate_size, 112);
    assert_int_equal(c.text.num_hidden_layers, 8);
    assert_int_equal(c.text.num_attention_heads, 4);
    assert_int_equal(c.text.num_key_value_heads, 2);
    assert_int_equal(c.text.head_dim, 64);
    assert_int_equal(c.text.linear_num_key_heads, 2);
    assert_int_equal(c.text.linear_num_value_heads, 6);
    assert_int_equal(c.text.linear_key_head_dim, 16);
    assert_int_equal(c.text.linear_value_head_dim, 16);
    assert_int_equal(c.text.linear_conv_kernel_dim, 4);
    for (int i = 0; i < 8; i++) assert_int_equal(c.text.full_attention[i], i % 4 == 3);
    assert_true(c.text.rope_theta == 10000000);
    assert_int_equal(c.text.rotary_dim, 16);
    check_section(&c, 3, 3, 2);
    assert_false(c.text.tie_word_embeddings);
    assert_false(c.text.attention_bias);
    assert_int_equal(c.text.max_position_embeddings, 4096);
    assert_int_equal(c.text.mtp_num_hidden_layers, 1);
    assert_true(c.text.rms_norm_eps == 1e-6f);
    assert_true(c.has_vision);
    assert_int_equal(c.vision.depth, 3);
    assert_int_equal(c.vision.hidden_size, 48);
    assert_int_equal(c.vision.intermediate_size, 80);
    assert_int_equal(c.vision.num_heads, 3);
    assert_int_equal(c.vision.out_hidden_size, 64);
    assert_int_equal(c.vision.num_position_embeddings, 36);
    assert_int_equal(c.image_token_id, 508);
    assert_int_equal(c.video_token_id, 509);
    assert_int_equal(c.vision_start_token_id, 505);
    assert_int_equal(c.vision_end_token_id, 506);
    assert_int_equal(c.eos_count, 1);
    assert_int_equal(c.eos[0], 496);
    if (fore_config_read(FORE_DATA "/models/dense_tied_f32", &arena, &c, &err)) fail_msg("%s", err.text);
    assert_true(c.text.tie_word_embeddings);
    check_section(&c, 2, 1, 1);
}

static void test_defaults(void **state) {
    (void)state;
    fore_config c = parse("{\"model_type\":\"qwen3_5\",\"text_config\":{},\"vision_config\":{\"out_hidden_size\":4096}}");
    const fore_text_config *t = &c.text;
    assert_string_equal(c.architecture, "");
    assert_int_equal(t->vocab_size, 248320);
    assert_int_equal(t->hidden_size, 4096);
    assert_int_equal(t->intermediate_size, 12288);
    assert_int_equal(t->num_hidden_layers, 32);
    assert_int_equal(t->num_attention_heads, 16);
    assert_int_equal(t->num_key_value_heads, 4);
    assert_int_equal(t->head_dim, 256);
    assert_true(t->rms_norm_eps == 1e-6f);
    assert_false(t->attention_bias);
    for (int i = 0; i < 32; i++) assert_int_equal(t->full_attention[i], i % 4 == 3);
    assert_int_equal(t->linear_conv_kernel_dim, 4);
    assert_int_equal(t->linear_key_head_dim, 128);
    assert_int_equal(t->linear_value_head_dim, 128);
    assert_int_equal(t->linear_num_key_heads, 16);
    assert_int_equal(t->linear_num_value_heads, 32);
    assert_true(t->rope_theta == 10000);
    assert_int_equal(t->rotary_dim, 64);
    check_section(&c, 11, 11, 10);
    assert_false(t->tie_word_embeddings);
    assert_int_equal(t->max_position_embeddings, 32768);
    assert_int_equal(t->mtp_num_hidden_layers, 0);
    assert_int_equal(c.eos_count, 1);
    assert_int_equal(c.eos[0], 248044);
    assert_int_equal(c.vision.depth, 27);
    assert_int_equal(c.vision.hidden_size, 1152);
    assert_int_equal(c.vision.intermediate_size, 4304);
    assert_int_equal(c.vision.num_heads, 16);
    assert_int_equal(c.vision.in_channels, 3);
    assert_int_equal(c.vision.patch_size, 16);
    assert_int_equal(c.vision.temporal_patch_size, 2);
    assert_int_equal(c.vision.spatial_merge_size, 2);
    assert_int_equal(c.vision.num_position_embeddings, 2304);
    assert_true(c.vision.rope_theta == 10000);
    assert_int_equal(c.image_token_id, 248056);
    assert_int_equal(c.video_token_id, 248057);
    assert_int_equal(c.vision_start_token_id, 248053);
    assert_int_equal(c.vision_end_token_id, 248054);
    c = parse("{\"model_type\":\"qwen3_5\",\"text_config\":{\"vocab_size\":300,\"hidden_size\":null},"
              "\"vision_config\":{\"out_hidden_size\":4096}}");
    assert_int_equal(c.text.hidden_size, 4096);
    assert_int_equal(c.image_token_id, -1); /* the default id is not of this vocabulary */
    assert_int_equal(c.eos_count, 0);
}

static void test_forms(void **state) {
    (void)state;
    fore_config c = parse("{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"model_type\":\"qwen3_5_text\",\"hidden_size\":64,"
                          "\"tie_word_embeddings\":true,\"num_nextn_predict_layers\":1}");
    assert_false(c.has_vision);
    assert_int_equal(c.text.hidden_size, 64);
    assert_true(c.text.tie_word_embeddings);
    assert_int_equal(c.text.mtp_num_hidden_layers, 1);
    assert_int_equal(c.image_token_id, -1);
    assert_int_equal(c.vision_end_token_id, -1);
    /* The whole model's flag is the outer one, the text class's the inner one. */
    c = parse("{\"model_type\":\"qwen3_5\",\"text_config\":{\"tie_word_embeddings\":true}}");
    assert_false(c.text.tie_word_embeddings);
    assert_false(c.has_vision);
    c = parse("{\"model_type\":\"qwen3_5\",\"tie_word_embeddings\":true,\"text_config\":{\"tie_word_embeddings\":false}}");
    assert_true(c.text.tie_word_embeddings);
    c = parse("{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"model_type\":\"qwen3_5\",\"vision_config\":{},"
              "\"text_config\":{\"tie_word_embeddings\":true}}");
    assert_true(c.text.tie_word_embeddings);
    assert_false(c.has_vision);
    /* Without a model_type the architecture tells. */
    c = parse("{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],\"text_config\":{}}");
    assert_string_equal(c.model_type, "qwen3_5");
    c = parse("{\"architectures\":[\"Qwen3_5ForCausalLM\"]}");
    assert_string_equal(c.model_type, "qwen3_5_text");
    c = parse("{\"model_type\":\"qwen3_5\",\"mtp_num_hidden_layers\":1,\"text_config\":{}}");
    assert_int_equal(c.text.mtp_num_hidden_layers, 1);
}

#define MOE_TEXT(members) "{\"model_type\":\"qwen3_5_moe_text\"," members "}"
#define QUANTISED(members) "{\"model_type\":\"qwen3_5_text\",\"quantization_config\":{\"quant_method\":" members "}}"
#define TEXT(members) "{\"model_type\":\"qwen3_5_text\"," members "}"

static void test_layers(void **state) {
    (void)state;
    fore_config c = parse(TEXT("\"num_hidden_layers\":5,\"full_attention_interval\":2"));
    static const bool two[] = {false, true, false, true, false}, own[] = {true, false, true};
    for (int i = 0; i < 5; i++) assert_int_equal(c.text.full_attention[i], two[i]);
    c = parse(TEXT("\"num_hidden_layers\":3,\"full_attention_interval\":2,"
                   "\"layer_types\":[\"full_attention\",\"linear_attention\",\"full_attention\"]"));
    for (int i = 0; i < 3; i++) assert_int_equal(c.text.full_attention[i], own[i]);
}

static void test_rope(void **state) {
    (void)state;
    /* The text level fills what the block lacks. */
    fore_config c = parse(TEXT("\"rope_theta\":5000,\"partial_rotary_factor\":0.5,\"head_dim\":64,"
                               "\"rope_parameters\":{\"mrope_section\":[8,4,4]}"));
    assert_true(c.text.rope_theta == 5000);
    assert_int_equal(c.text.rotary_dim, 32);
    check_section(&c, 8, 4, 4);
    c = parse(TEXT("\"rope_theta\":5000,\"partial_rotary_factor\":0.5,\"rope_parameters\":{\"rope_theta\":7e6,"
                   "\"partial_rotary_factor\":0.25,\"rope_type\":\"default\"}"));
    assert_true(c.text.rope_theta == 7e6);
    assert_int_equal(c.text.rotary_dim, 64);
    /* The older block replaces the newer one, unless it is empty. */
    c = parse(TEXT("\"rope_theta\":5000,\"rope_scaling\":{\"type\":\"default\",\"mrope_section\":[10,12,10]},"
                   "\"rope_parameters\":{\"rope_theta\":7e6,\"mrope_section\":[11,11,10]}"));
    assert_true(c.text.rope_theta == 5000);
    check_section(&c, 10, 12, 10);
    c = parse(TEXT("\"rope_scaling\":{},\"rope_parameters\":{\"rope_theta\":7e6}"));
    assert_true(c.text.rope_theta == 7e6);
    c = parse(TEXT("\"rope_scaling\":null,\"rope_parameters\":{\"rope_theta\":7e6}"));
    assert_true(c.text.rope_theta == 7e6);
    /* The default section on other sizes: rows have frequencies 1, 4, .., columns 2, 5, .., time the rest. */
    c = parse(TEXT("\"head_dim\":64"));
    check_section(&c, 3, 3, 2);
    c = parse(TEXT("\"head_dim\":32"));
    check_section(&c, 2, 1, 1);
    c = parse(TEXT("\"head_dim\":8"));
    check_section(&c, 1, 0, 0);
    c = parse(TEXT("\"head_dim\":512"));
    check_section(&c, 43, 11, 10);
}

static void test_rope_scaling(void **state) {
    (void)state;
    fore_config c = parse(TEXT("\"max_position_embeddings\":4096"));
    assert_true(c.text.rope_scaling.factor == 1 && !c.text.rope_scaling.yarn);
    /* What yarn stretches to may be used, whether max_position_embeddings says so or not. */
    c = parse(TEXT("\"max_position_embeddings\":4096,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
                   "\"original_max_position_embeddings\":2048}"));
    assert_int_equal(c.text.max_position_embeddings, 8192);
    assert_true(c.text.rope_scaling.yarn && c.text.rope_scaling.factor == 4);
    c = parse(TEXT("\"max_position_embeddings\":40960,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
                   "\"original_max_position_embeddings\":2048}"));
    assert_int_equal(c.text.max_position_embeddings, 40960);
    c = parse(TEXT("\"max_position_embeddings\":4096,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}"));
    assert_int_equal(c.text.max_position_embeddings, 4096);
    assert_true(!c.text.rope_scaling.yarn && c.text.rope_scaling.factor == 2);
    refuse(TEXT("\"rope_scaling\":{\"type\":\"linear\"}"), FORE_ERR_FORMAT, "factor");
    refuse(TEXT("\"rope_scaling\":{\"type\":\"yarn\"}"), FORE_ERR_FORMAT, "factor");
    refuse(TEXT("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":0}"), FORE_ERR_FORMAT, "factor");
    refuse(TEXT("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":1e300}"), FORE_ERR_FORMAT, "factor");
    refuse(TEXT("\"rope_theta\":1,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}"), FORE_ERR_FORMAT, "rope_theta");
    refuse(TEXT("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"original_max_position_embeddings\":-1}"), FORE_ERR_FORMAT, "original_max");
    refuse(TEXT("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"attention_factor\":0}"), FORE_ERR_FORMAT, "attention_factor");
    refuse(TEXT("\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"), FORE_ERR_UNSUPPORTED, "dynamic");
}

static void test_end_tokens(void **state) {
    (void)state;
    fore_config c = parse(TEXT("\"eos_token_id\":[7,9]"));
    assert_int_equal(c.eos_count, 2);
    assert_int_equal(c.eos[0], 7);
    assert_int_equal(c.eos[1], 9);
    c = parse(TEXT("\"eos_token_id\":null"));
    assert_int_equal(c.eos_count, 0);
    c = parse("{\"model_type\":\"qwen3_5\",\"eos_token_id\":3,\"text_config\":{\"eos_token_id\":4}}");
    assert_int_equal(c.eos_count, 1);
    assert_int_equal(c.eos[0], 3);
    c = parse("{\"model_type\":\"qwen3_5\",\"eos_token_id\":null,\"text_config\":{\"eos_token_id\":4}}");
    assert_int_equal(c.eos[0], 4);
}

static void test_experts(void **state) {
    (void)state;
    fore_config c = parse(MOE_TEXT("\"num_hidden_layers\":40"));
    const fore_text_config *t = &c.text;
    assert_int_equal(t->hidden_size, 2048);
    assert_int_equal(t->num_attention_heads, 16);
    assert_int_equal(t->num_key_value_heads, 2);
    assert_int_equal(t->num_experts, 256);
    assert_int_equal(t->num_experts_per_tok, 8);
    assert_int_equal(t->moe_intermediate_size, 512);
    assert_int_equal(t->shared_expert_intermediate_size, 512);
    assert_int_equal(t->intermediate_size, 0);
    assert_false(c.has_vision);
    c = parse("{\"model_type\":\"qwen3_5_moe\",\"text_config\":{\"num_experts\":4,\"num_experts_per_tok\":4,"
              "\"norm_topk_prob\":true,\"model_type\":\"qwen3_5_moe_text\"},\"vision_config\":{\"out_hidden_size\":2048}}");
    assert_int_equal(t->num_hidden_layers, 40);
    assert_int_equal(t->num_experts, 4);
    assert_true(c.has_vision);
    c = parse("{\"architectures\":[\"Qwen3_5MoeForConditionalGeneration\"],\"text_config\":{}}");
    assert_string_equal(c.model_type, "qwen3_5_moe");
    c = parse("{\"architectures\":[\"Qwen3_5MoeForCausalLM\"],\"model_type\":\"qwen3_5_moe_text\",\"tie_word_embeddings\":true}");
    assert_true(c.text.tie_word_embeddings);
    c = parse("{\"model_type\":\"qwen3_5\",\"text_config\":{}}"); /* a dense model has none */
    assert_int_equal(t->num_experts + t->num_experts_per_tok + t->moe_intermediate_size + t->shared_expert_intermediate_size, 0);
    assert_int_equal(t->intermediate_size, 12288);
}

#define VL(text, vision) "{\"model_type\":\"qwen3_vl\",\"text_config\":{" text "},\"vision_config\":{" vision "}}"
#define OF(type, members) "{\"model_type\":\"" type "\"," members "}"

static void test_vl(void **state) {
    (void)state;
    fore_error err = {0};
    fore_config c;
    if (fore_config_read(FORE_DATA "/family/vl_dense_bf16", &arena, &c, &err)) fail_msg("%s", err.text);
    const fore_text_config *t = &c.text;
    assert_string_equal(c.model_type, "qwen3_vl");
    assert_false(t->output_gate || t->zero_centred_norms || t->linear_by_key_head || t->tie_word_embeddings);
    for (int i = 0; i < 4; i++) assert_true(t->full_attention[i]);
    assert_null(t->sparse);
    assert_int_equal(t->intermediate_size, 96);
    assert_int_equal(t->linear_num_key_heads + t->linear_num_value_heads + t->linear_key_head_dim + t->linear_conv_kernel_dim, 0);
    assert_true(t->rope_theta == 5000000);
    assert_int_equal(t->rotary_dim, 32);
    check_section(&c, 6, 5, 5);
    assert_int_equal(c.vision.deepstack_count, 2);
    assert_int_equal(c.vision.deepstack_visual_indexes[0], 1);
    assert_int_equal(c.vision.deepstack_visual_indexes[1], 2);
    assert_int_equal(c.image_token_id, 380);
    assert_int_equal(c.eos[0], 370);
    if (fore_config_read(FORE_DATA "/family/vl_moe_bf16", &arena, &c, &err)) fail_msg("%s", err.text);
    assert_int_equal(t->num_experts, 8);
    assert_int_equal(t->num_experts_per_tok, 2);
    assert_int_equal(t->shared_expert_intermediate_size + t->intermediate_size, 0);
    assert_true(t->norm_topk_prob);
    for (int i = 0; i < 3; i++) assert_true(t->sparse[i]);
    /* Defaults. */
    c = parse(VL("", "\"out_hidden_size\":4096"));
    assert_int_equal(t->vocab_size, 151936);
    assert_int_equal(t->intermediate_size, 22016);
    assert_int_equal(t->num_key_value_heads, 32);
    assert_int_equal(t->rotary_dim, 128);
    assert_int_equal(t->max_position_embeddings, 128000);
    assert_true(t->rope_theta == 500000);
    check_section(&c, 24, 20, 20);
    assert_int_equal(c.vision.deepstack_count, 3);
    assert_int_equal(c.vision.deepstack_visual_indexes[2], 24);
    assert_int_equal(c.image_token_id, 151655);
    assert_int_equal(c.video_token_id, 151656);
    assert_int_equal(c.vision_start_token_id, 151652);
    assert_int_equal(c.vision_end_token_id, 151653);
    assert_int_equal(c.eos_count, 0);
    c = parse(VL("\"mtp_num_hidden_layers\":1,\"num_attention_heads\":8,\"num_key_value_heads\":null",
                 "\"out_hidden_size\":4096,\"deepstack_visual_indexes\":[]"));
    assert_int_equal(t->mtp_num_hidden_layers, 0); /* the family has no such head */
    assert_int_equal(t->num_key_value_heads, 8);
    assert_int_equal(c.vision.deepstack_count, 0);
    c = parse("{\"model_type\":\"qwen3_vl_moe\",\"text_config\":{},\"vision_config\":{\"out_hidden_size\":2048}}");
    assert_int_equal(t->head_dim, 128); /* hidden_size / num_attention_heads */
    assert_int_equal(t->num_experts, 60);
    assert_int_equal(t->num_experts_per_tok, 4);
    assert_int_equal(t->moe_intermediate_size, 1408);
    assert_int_equal(t->num_hidden_layers, 24);
    /* Qwen3.5 has the key and does not use it. */
    c = parse("{\"model_type\":\"qwen3_5\",\"text_config\":{},\"vision_config\":{\"out_hidden_size\":4096,"
              "\"deepstack_visual_indexes\":[1,2]}}");
    assert_int_equal(c.vision.deepstack_count, 0);
}

/* Flat, as the published files are, and nested. */
#define VL2(text, vision) "{\"model_type\":\"qwen2_5_vl\"," text "\"vision_config\":{\"out_hidden_size\":8192" vision "}}"
#define VL2_INNER(text, rest) "{\"model_type\":\"qwen2_5_vl\",\"text_config\":{" text "}" rest "}"

static void test_windows(void **state) {
    (void)state;
    fore_error err = {0};
    fore_config c;
    if (fore_config_read(FORE_DATA "/qwen2_5/tied_f32", &arena, &c, &err)) fail_msg("%s", err.text);
    const fore_text_config *t = &c.text;
    const fore_vision_config *v = &c.vision;
    assert_string_equal(c.model_type, "qwen2_5_vl");
    assert_true(t->tie_word_embeddings && t->attention_bias && t->mrope_blocks && v->gated && c.has_vision);
    assert_false(t->output_bias || t->qk_norm || t->output_gate || t->zero_centred_norms);
    assert_int_equal(t->hidden_size, 32);
    assert_int_equal(t->head_dim, 8);
    check_section(&c, 1, 1, 2);
    assert_int_equal(v->patch_size, 14);
    assert_int_equal(v->window_size, 56);
    assert_int_equal(v->tokens_per_second, 2);
    assert_int_equal(v->num_position_embeddings, 0);
    assert_true(!v->full_attention[0] && v->full_attention[1]);
    assert_int_equal(c.image_token_id, 188);
    if (fore_config_read(FORE_DATA "/qwen2_5/bf16", &arena, &c, &err)) fail_msg("%s", err.text);
    assert_false(t->tie_word_embeddings);
    check_section(&c, 2, 3, 3);
    assert_int_equal(v->window_size, 112);
    /* Defaults. */
    c = parse(VL2("", ""));
    assert_int_equal(t->vocab_size, 152064);
    assert_int_equal(t->num_hidden_layers, 80);
    assert_int_equal(t->num_key_value_heads, 8);
    assert_int_equal(t->rotary_dim, 128);
    assert_true(t->rope_theta == 1000000 && t->rms_norm_eps == 1e-5f);
    check_section(&c, 16, 24, 24);
    assert_int_equal(v->depth, 32);
    assert_int_equal(v->hidden_size, 3584);
    assert_int_equal(v->intermediate_size, 3420);
    assert_int_equal(v->tokens_per_second, 4);
    for (int i = 0; i < 32; i++) assert_int_equal(v->full_attention[i], i % 8 == 7);
    assert_int_equal(c.eos[0], 151645);
    assert_int_equal(c.image_token_id, 151655);
    /* Blocks that the tower lacks may be named; a key that the family does not have changes nothing. */
    c = parse(VL2("\"attention_bias\":false,", ",\"depth\":3,\"fullatt_block_indexes\":[2,0,7]"));
    assert_true(t->attention_bias && v->full_attention[0] && !v->full_attention[1] && v->full_attention[2]);
    c = parse(VL2_INNER("\"tie_word_embeddings\":true", ",\"tie_word_embeddings\":false"));
    assert_true(t->tie_word_embeddings);
    assert_false(c.has_vision);
    c = parse(VL2_INNER("\"model_type\":\"qwen2_5_vl_text\"", ",\"architectures\":[\"Qwen2_5_VLForConditionalGeneration\"]"));
    assert_false(t->tie_word_embeddings);
}

static void test_text_families(void **state) {
    (void)state;
    fore_config c = parse("{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"rope_theta\":1000000,"
                          "\"rope_scaling\":null,\"sliding_window\":null,\"use_sliding_window\":false,\"tie_word_embeddings\":true,"
                          "\"attention_bias\":true,\"max_window_layers\":28}");
    const fore_text_config *t = &c.text;
    assert_int_equal(t->hidden_size, 4096);
    assert_int_equal(t->intermediate_size, 22016);
    assert_int_equal(t->head_dim, 128);
    assert_int_equal(t->rotary_dim, 128);
    check_section(&c, 64, 0, 0);
    assert_true(t->rope_theta == 1000000 && t->tie_word_embeddings && t->attention_bias);
    assert_false(t->output_gate || t->zero_centred_norms || c.has_vision);
    assert_int_equal(c.image_token_id, -1);
    assert_int_equal(c.eos_count, 0);
    c = parse("{\"architectures\":[\"Qwen3ForCausalLM\"]}");
    assert_string_equal(c.model_type, "qwen3");
    c = parse(OF("qwen3", "\"num_hidden_layers\":1,\"layer_types\":[\"full_attention\"]"));
    assert_true(t->full_attention[0]);

    c = parse(OF("qwen3_moe", "\"num_hidden_layers\":6,\"decoder_sparse_step\":2,\"mlp_only_layers\":[3,40]"));
    static const bool sparse[] = {false, true, false, false, false, true};
    assert_memory_equal(t->sparse, sparse, sizeof sparse);
    assert_int_equal(t->head_dim, 64);
    assert_int_equal(t->num_experts, 128);
    assert_int_equal(t->num_experts_per_tok, 8);
    assert_int_equal(t->moe_intermediate_size, 768);
    assert_int_equal(t->intermediate_size, 6144);
    assert_int_equal(t->shared_expert_intermediate_size, 0);
    assert_false(t->norm_topk_prob);
    c = parse(OF("qwen3_moe", "\"norm_topk_prob\":true,\"num_local_experts\":16,\"num_attention_heads\":8"));
    assert_true(t->norm_topk_prob);
    assert_int_equal(t->num_experts, 16);
    assert_int_equal(t->head_dim, 256);
    assert_int_equal(t->intermediate_size, 0); /* every layer has experts */
    c = parse(OF("qwen3_moe", "\"num_experts\":0"));
    assert_null(t->sparse);
    assert_int_equal(t->num_experts + t->num_experts_per_tok, 0);
    assert_int_equal(t->intermediate_size, 6144);
    c = parse(OF("qwen3_moe", "\"num_hidden_layers\":2,\"mlp_only_layers\":[0,1]"));
    assert_null(t->sparse);

    c = parse(OF("qwen3_next", "\"num_nextn_predict_layers\":1"));
    assert_true(t->output_gate && t->zero_centred_norms && t->linear_by_key_head && t->norm_topk_prob);
    assert_int_equal(t->num_hidden_layers, 48);
    for (int i = 0; i < 48; i++) assert_int_equal(t->full_attention[i], i % 4 == 3);
    assert_int_equal(t->rotary_dim, 64);
    check_section(&c, 32, 0, 0);
    assert_int_equal(t->num_experts, 512);
    assert_int_equal(t->num_experts_per_tok, 10);
    assert_int_equal(t->shared_expert_intermediate_size, 512);
    assert_int_equal(t->linear_num_value_heads, 32);
    assert_int_equal(t->mtp_num_hidden_layers, 1);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

typedef struct bad {
    const char *json, *message;
} bad;

static void test_unsupported(void **state) {
    (void)state;
    static const bad cases[] = {
        {"{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"]}",
         "architecture LlamaForCausalLM with model_type llama is not supported; supported: model_type qwen3_5, qwen3_5_moe, qwen3_vl, "
         "qwen3_vl_moe and qwen2_5_vl, and the text-only qwen3_5_text, qwen3_5_moe_text, qwen3, qwen3_moe and qwen3_next"},
        {"{\"model_type\":\"qwen2_vl\",\"architectures\":[\"Qwen2VLForConditionalGeneration\"]}",
         "architecture Qwen2VLForConditionalGeneration with model_type qwen2_vl is not supported"},
        {VL2("\"use_sliding_window\":true,", ""), "use_sliding_window true is not supported; supported: false"},
        {VL2("\"num_hidden_layers\":1,\"layer_types\":[\"sliding_attention\"],", ""), "layer_types: \"sliding_attention\" of layer 0"},
        {VL2("\"hidden_act\":\"gelu\",", ""), "hidden_act \"gelu\" is not supported; supported: \"silu\""},
        {VL2("", ",\"hidden_act\":\"gelu_pytorch_tanh\""), "vision_config: hidden_act \"gelu_pytorch_tanh\" is not supported; supported: \"silu\""},
        {"{\"model_type\":\"qwen3_vl\",\"text_config\":{},\"vision_config\":{\"hidden_act\":\"silu\"}}",
         "vision_config: hidden_act \"silu\" is not supported; supported: \"gelu_pytorch_tanh\""},
        {"{\"model_type\":\"qwen2_moe\"}", "architecture (none) with model_type qwen2_moe is not supported; supported: model_type"},
        {MOE_TEXT("\"norm_topk_prob\":false"), "norm_topk_prob false is not supported in this family; supported: true"},
        {"{\"model_type\":\"qwen3_vl_moe\",\"text_config\":{\"norm_topk_prob\":false}}", "text_config: norm_topk_prob false is not supported"},
        {OF("qwen3", "\"use_sliding_window\":true"), "use_sliding_window true is not supported; supported: false"},
        {OF("qwen3_moe", "\"use_sliding_window\":true"), "use_sliding_window true is not supported"},
        {OF("qwen3", "\"num_hidden_layers\":1,\"layer_types\":[\"linear_attention\"]"),
         "layer_types: \"linear_attention\" of layer 0 is not supported; supported: \"full_attention\""},
        {OF("qwen3", "\"num_experts\":8"), "num_experts: a mixture of experts is supported under model_type"},
        {OF("qwen3", "\"partial_rotary_factor\":0.5"), "partial_rotary_factor below 1 is not supported in this family"},
        {OF("qwen3", "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":4}"), "rope_scaling: rope_type \"dynamic\" is not supported"},
        {OF("qwen3_moe", "\"attn_output_gate\":true"), "attn_output_gate true is not supported in this family"},
        {OF("qwen3_next", "\"attn_output_gate\":false"), "attn_output_gate false is not supported"},
        {VL("\"model_type\":\"qwen3\"", ""), "text_config: model_type \"qwen3\" is not supported; supported: \"qwen3_vl_text\""},
        {"{\"model_type\":\"qwen3_5_moe\",\"text_config\":{\"model_type\":\"qwen3_5_text\"}}",
         "text_config: model_type \"qwen3_5_text\" is not supported; supported: \"qwen3_5_moe_text\""},
        {"{\"model_type\":\"qwen4_exp\"}", "model_type qwen4_exp is not supported"},
        {"{\"model_type\":\"qwen3_5\",\"architectures\":[\"Qwen3_5ForSequenceClassification\"]}",
         "architecture Qwen3_5ForSequenceClassification with model_type qwen3_5 is not supported"},
        {"{\"model_type\":\"qwen3_5\",\"text_config\":{\"model_type\":\"qwen3_5_moe_text\"}}", "text_config: model_type \"qwen3_5_moe"},
        {TEXT("\"num_experts\":8"), "num_experts: a mixture of experts is supported under model_type qwen3_5_moe"},
        {TEXT("\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}"), "quantised as bitsandbytes are not supported; supported: BF16"},
        {TEXT("\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3}"), "quantised as gptq with 3 bits"},
        {QUANTISED("\"awq\",\"bits\":8"), "quantised as awq with 8 bits are not supported"},
        {QUANTISED("\"awq\",\"bits\":4,\"version\":\"gemv\""), "quantised as awq of the version gemv with 4 bits"},
        {QUANTISED("\"gptq\",\"bits\":4,\"checkpoint_format\":\"marlin\""), "quantised as gptq of the format marlin with 4 bits"},
        {QUANTISED("\"gptq\",\"bits\":4,\"is_marlin_format\":true"), "quantised as gptq of the format marlin"},
        {QUANTISED("\"fp8\",\"fmt\":\"e5m2\""), "quantised as fp8 of the format e5m2"},
        {QUANTISED("\"compressed-tensors\",\"format\":\"nvfp4-pack-quantized\""), "compressed-tensors of the format nvfp4-pack-quantized"},
        {QUANTISED("\"compressed-tensors\",\"format\":\"mixed-precision\",\"config_groups\":{\"a\":{\"format\":\"int-quantized\"},"
                   "\"b\":{\"format\":\"mxfp4-pack-quantized\"}}"), "of the format mxfp4-pack-quantized"},
        {QUANTISED("\"compressed-tensors\",\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}"), "with sparse storage"},
        {QUANTISED("\"compressed-tensors\",\"transform_config\":{\"config_groups\":{\"u\":{\"type\":\"hadamard\"}}}"), "with transforms of"},
        {QUANTISED("\"mxfp4\""), "quantised as mxfp4 are not supported; supported: BF16, F16 and F32 weights; MLX's affine form; FP8 E4M3 with "
                                 "scales; integers of compressed-tensors, AWQ (4 bits) and GPTQ (2, 4 and 8). Take the model's BF16 checkpoint"},
        {QUANTISED("7"), "quantised as (no name) are not supported"},
        {TEXT("\"quantization\":{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\"}"), "quantised as mxfp4 with 4 bits"},
        {TEXT("\"quantization\":{\"bits\":4}"), "quantised as MLX with 4 bits"},
        {TEXT("\"quantization\":{\"group_size\":64,\"bits\":4,\"lm_head\":{\"group_size\":32,\"bits\":8,\"mode\":\"mxfp8\"}}"),
         "quantised as MLX with 4 bits"},
        {"{\"model_type\":\"qwen3_5\",\"text_config\":{\"quantization_config\":{\"quant_method\":\"hqq\"}}}", "quantised as hqq"},
        {TEXT("\"hidden_act\":\"gelu\""), "hidden_act \"gelu\" is not supported; supported: \"silu\""},
        {TEXT("\"output_gate_type\":\"sigmoid\""), "output_gate_type \"sigmoid\""},
        {TEXT("\"attn_output_gate\":false"), "attn_output_gate false is not supported"},
        {TEXT("\"layer_scale\":true"), "layer_scale true is not supported"},
        {TEXT("\"mtp_use_dedicated_embeddings\":true"), "mtp_use_dedicated_embeddings true"},
        {TEXT("\"rope_parameters\":{\"rope_type\":\"longrope\",\"factor\":4}"), "rope_parameters: rope_type \"longrope\" is not supported; supported: \"default\", \"mrope\", \"linear\", \"yarn\""},
        {TEXT("\"rope_scaling\":{\"type\":\"dynamic\"}"), "rope_scaling: type \"dynamic\" is not supported"},
        {TEXT("\"num_hidden_layers\":1,\"layer_types\":[\"sliding_attention\"]"), "\"sliding_attention\" of layer 0"},
        {"{\"model_type\":\"qwen3_5\",\"text_config\":{},\"vision_config\":{\"hidden_act\":\"quick_gelu\"}}",
         "vision_config: hidden_act \"quick_gelu\""},
        {"{\"model_type\":\"qwen3_5\",\"text_config\":{},\"vision_config\":{\"rope_parameters\":{\"rope_type\":\"yarn\"}}}",
         "vision_config.rope_parameters: rope_type \"yarn\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse(cases[i].json, FORE_ERR_UNSUPPORTED, cases[i].message);
}

/* What the tensors leave open. */
static void test_quantised(void **state) {
    (void)state;
    const fore_stored_settings none = parse(TEXT("\"dtype\":\"float16\"")).stored;
    assert_string_equal(none.method, "");
    assert_true(none.dtype == FORE_DTYPE_F16 && !none.block_rows && !none.bits && !none.zeros_less_one);
    fore_stored_settings s = parse(QUANTISED("\"fp8\",\"weight_block_size\":[128,64],\"fmt\":\"E4M3\"")).stored;
    assert_string_equal(s.method, "fp8");
    assert_true(s.block_rows == 128 && s.block_columns == 64 && s.dtype == FORE_DTYPE_OTHER);
    s = parse(QUANTISED("\"fp8\",\"weight_block_size\":null")).stored;
    assert_true(!s.block_rows && !s.block_columns);
    s = parse(QUANTISED("\"compressed-tensors\",\"format\":\"float-quantized\",\"config_groups\":{\"g\":{\"weights\":{\"strategy\":\"block\","
                        "\"block_structure\":[128,128]}}},\"sparsity_config\":{},\"transform_config\":{}")).stored;
    assert_string_equal(s.method, "compressed-tensors");
    assert_true(s.block_rows == 128 && s.block_columns == 128);
    s = parse(QUANTISED("\"gptq\",\"bits\":8")).stored;
    assert_true(s.bits == 8 && s.zeros_less_one);
    s = parse(QUANTISED("\"gptq\",\"bits\":4,\"checkpoint_format\":\"gptq_v2\"")).stored;
    assert_true(s.bits == 4 && !s.zeros_less_one);
    s = parse(QUANTISED("\"awq\",\"w_bit\":4,\"version\":\"GEMM\"")).stored;
    assert_true(s.bits == 4 && !strcmp(s.method, "awq"));
    s = parse(TEXT("\"torch_dtype\":\"bfloat16\",\"quantization\":{\"group_size\":64,\"bits\":4}")).stored;
    assert_true(s.dtype == FORE_DTYPE_BF16 && !strcmp(s.method, "mlx"));
    s = parse("{\"model_type\":\"qwen3_5\",\"dtype\":\"float16\",\"text_config\":{\"dtype\":\"torch.float32\"}}").stored;
    assert_true(s.dtype == FORE_DTYPE_F32);
    static const char *const sizes[] = {"[128]", "[128,128,1]", "[128,0]", "[1.5,128]", "\"128\"", "[128,2000000]", "{}"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char json[256];
        snprintf(json, sizeof json, QUANTISED("\"fp8\",\"weight_block_size\":%s"), sizes[i]);
        refuse(json, FORE_ERR_FORMAT, "weight_block_size: expected two sizes");
    }
}

#define BOTH(text, vision) "{\"model_type\":\"qwen3_5\",\"text_config\":{" text "},\"vision_config\":{" vision "}}"

static void test_malformed(void **state) {
    (void)state;
    static const bad cases[] = {
        {"", "not valid JSON: the text ends too early"},
        {MOE_TEXT("\"num_experts\":8,\"num_experts_per_tok\":9"), "num_experts_per_tok is 9, more than num_experts, which is 8"},
        {MOE_TEXT("\"num_experts\":0"), "num_experts: expected a whole number from 1 to 16384, found 0"},
        {MOE_TEXT("\"num_experts_per_tok\":0"), "num_experts_per_tok: expected a whole number from 1 to 16384, found 0"},
        {MOE_TEXT("\"moe_intermediate_size\":-1"), "moe_intermediate_size: expected a whole number from 1 to 16777216, found -1"},
        {MOE_TEXT("\"shared_expert_intermediate_size\":0"), "shared_expert_intermediate_size: expected a whole number"},
        {"{\"model_type\":\"qwen3_5\",\"architectures\":[\"Qwen3_5MoeForCausalLM\"]}",
         "architecture Qwen3_5MoeForCausalLM and model_type qwen3_5 contradict each other"},
        {"{\"model_type\":\"qwen3_vl\",\"architectures\":[\"Qwen3ForCausalLM\"]}", "Qwen3ForCausalLM and model_type qwen3_vl contradict"},
        {OF("qwen3_moe", "\"mlp_only_layers\":3"), "mlp_only_layers: expected a list of layers"},
        {OF("qwen3_moe", "\"mlp_only_layers\":[-1]"), "mlp_only_layers: expected whole numbers"},
        {OF("qwen3_moe", "\"mlp_only_layers\":[\"0\"]"), "mlp_only_layers: expected whole numbers"},
        {OF("qwen3_moe", "\"decoder_sparse_step\":0"), "decoder_sparse_step"},
        {OF("qwen3_moe", "\"hidden_size\":16"), "head_dim: expected"},
        {VL2("", ",\"fullatt_block_indexes\":7"), "vision_config: fullatt_block_indexes: expected a list of blocks"},
        {VL2("", ",\"fullatt_block_indexes\":[-1]"), "fullatt_block_indexes: expected whole numbers"},
        {VL2("", ",\"fullatt_block_indexes\":[0.5]"), "fullatt_block_indexes: expected whole numbers"},
        {VL2("", ",\"fullatt_block_indexes\":[\"x\"]"), "fullatt_block_indexes: expected whole numbers"},
        {VL2("", ",\"window_size\":27"), "vision_config: window_size: expected at least patch_size * spatial_merge_size"},
        {VL2("", ",\"window_size\":0"), "window_size"},
        {VL2("", ",\"tokens_per_second\":0"), "tokens_per_second"},
        {VL2("\"num_attention_heads\":32,", ""), "mrope_section: expected it, for heads of this size have no usual one"},
        {VL("", "\"deepstack_visual_indexes\":4"), "vision_config: deepstack_visual_indexes: expected a list of blocks"},
        {VL("", "\"deepstack_visual_indexes\":[4,4]"), "deepstack_visual_indexes: expected increasing whole numbers below depth"},
        {VL("", "\"deepstack_visual_indexes\":[27]"), "deepstack_visual_indexes: expected increasing"},
        {VL("", "\"deepstack_visual_indexes\":[-1]"), "deepstack_visual_indexes: expected increasing"},
        {VL("", "\"deepstack_visual_indexes\":[0.5]"), "deepstack_visual_indexes: expected increasing"},
        {VL("", "\"depth\":8"), "deepstack_visual_indexes: expected increasing"}, /* the default's blocks are not there */
        {"{\"model_type\":}", "not valid JSON: a value is expected (line 1, byte 15 of it"},
        {"{\n\"a\":1,\n}", "a name in quotes is expected (line 3, byte 1 of it; byte 9 of 10)"},
        {"[]", "expected a JSON object"},
        {"{}", "expected \"model_type\" or \"architectures\", found neither"},
        {"{\"model_type\":5}", "model_type: expected a string, found 5"},
        {"{\"architectures\":\"x\"}", "architectures: expected a list"},
        {"{\"model_type\":\"qwen3_5\",\"text_config\":[]}", "text_config: expected an object"},
        {"{\"model_type\":\"qwen3_5\",\"vision_config\":3}", "vision_config: expected an object"},
        {BOTH("\"hidden_size\":0", ""), "text_config: hidden_size: expected a whole number from 1 to 16777216, found 0"},
        {TEXT("\"hidden_size\":-64"), "hidden_size: expected a whole number from 1 to 16777216, found -64"},
        {TEXT("\"hidden_size\":64.5"), "found 64.5"},
        {TEXT("\"hidden_size\":1e30"), "hidden_size"},
        {TEXT("\"hidden_size\":\"64\""), "hidden_size: expected a whole number from 1 to 16777216, found a string"},
        {TEXT("\"num_hidden_layers\":1000000000"), "num_hidden_layers"},
        {TEXT("\"vocab_size\":[1]"), "vocab_size: expected a whole number from 1 to 16777216, found a list"},
        {TEXT("\"num_attention_heads\":6"), "num_attention_heads is not a multiple of num_key_value_heads"},
        {TEXT("\"linear_num_value_heads\":24"), "linear_num_value_heads is not a multiple"},
        {TEXT("\"num_attention_heads\":16384,\"head_dim\":16384"), "num_attention_heads * head_dim is too large"},
        {TEXT("\"attention_bias\":1"), "attention_bias: expected true or false, found 1"},
        {TEXT("\"rms_norm_eps\":0"), "rms_norm_eps"},
        {TEXT("\"rms_norm_eps\":1e999"), "rms_norm_eps: expected a number"},
        {TEXT("\"full_attention_interval\":0"), "full_attention_interval"},
        {TEXT("\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\"]"), "layer_types: expected a list with num_hidden_layers"},
        {TEXT("\"layer_types\":3"), "layer_types: expected a list"},
        {TEXT("\"rope_parameters\":[]"), "rope_parameters: expected an object"},
        {TEXT("\"rope_scaling\":\"x\""), "rope_scaling: expected an object"},
        {TEXT("\"rope_parameters\":{\"rope_theta\":-1}"), "rope_parameters: rope_theta: expected a positive number"},
        {TEXT("\"partial_rotary_factor\":0"), "partial_rotary_factor: expected"},
        {TEXT("\"partial_rotary_factor\":1.5"), "partial_rotary_factor: expected"},
        {TEXT("\"head_dim\":20"), "expected an even number"},
        {TEXT("\"rope_parameters\":{\"mrope_section\":[11,11,11]}"), "mrope_section: expected three whole numbers"},
        {TEXT("\"rope_parameters\":{\"mrope_section\":[16,16]}"), "mrope_section"},
        {TEXT("\"rope_parameters\":{\"mrope_section\":[33,-1,0]}"), "mrope_section"},
        {TEXT("\"rope_parameters\":{\"mrope_section\":\"x\"}"), "mrope_section"},
        {TEXT("\"eos_token_id\":\"x\""), "eos_token_id: expected a token id or a list"},
        {TEXT("\"eos_token_id\":[1,-2]"), "eos_token_id: expected a token id or a list"},
        {BOTH("", ""), "vision_config: out_hidden_size differs from the hidden_size of the text model"},
        {BOTH("", "\"in_channels\":1"), "vision_config: in_channels"},
        {BOTH("", "\"num_heads\":7"), "vision_config: hidden_size: expected a multiple of 4 * num_heads"},
        {BOTH("", "\"patch_size\":0"), "vision_config: patch_size"},
        {"{\"model_type\":\"qwen3_5\",\"text_config\":{\"vocab_size\":100},\"vision_config\":{\"out_hidden_size\":4096},"
         "\"image_token_id\":100}", "image_token_id: expected a whole number from 0 to 99, found 100"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) refuse(cases[i].json, FORE_ERR_FORMAT, cases[i].message);
    refuse(TEXT("\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"), FORE_ERR_LIMIT, "the limit is 16");
}

static void test_missing_file(void **state) {
    (void)state;
    fore_error err = {0};
    fore_config c;
    assert_int_equal(fore_config_read("/nonexistent", &arena, &c, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "/nonexistent/config.json: cannot open"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_real_files, teardown), cmocka_unit_test_teardown(test_defaults, teardown),
        cmocka_unit_test_teardown(test_forms, teardown),      cmocka_unit_test_teardown(test_layers, teardown),
        cmocka_unit_test_teardown(test_rope, teardown),       cmocka_unit_test_teardown(test_rope_scaling, teardown),
             cmocka_unit_test_teardown(test_end_tokens, teardown),
        cmocka_unit_test_teardown(test_unsupported, teardown), cmocka_unit_test_teardown(test_malformed, teardown),
        cmocka_unit_test_teardown(test_missing_file, teardown), cmocka_unit_test_teardown(test_experts, teardown),
        cmocka_unit_test_teardown(test_vl, teardown),         cmocka_unit_test_teardown(test_text_families, teardown),
        cmocka_unit_test_teardown(test_windows, teardown),
        cmocka_unit_test_teardown(test_quantised, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
