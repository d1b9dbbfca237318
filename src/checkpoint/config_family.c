/* The table of families; see config_family.h. */
#include "checkpoint/config_family.h"

#include <stddef.h>
#include <string.h>

const char fore_family_list[] = "supported: model_type qwen3_5, qwen3_5_moe, qwen3_vl, qwen3_vl_moe and qwen2_5_vl, and the text-only "
                                "qwen3_5_text, qwen3_5_moe_text, qwen3, qwen3_moe and qwen3_next";

/* What two rows share. */
#define QWEN3_5                                                                                                        \
    .linear = true, .output_gate = true, .zero_centred_norms = true, .qk_norm = true, .draft_head = true, .mrope = true, \
    .vocab_size = 248320, .num_attention_heads = 16, .head_dim = 256, .max_position_embeddings = 32768,                 \
    .rope_theta = 10000, .partial_rotary_factor = 0.25, .mrope_section = {11, 11, 10}, .eos = 248044, .image = 248056,  \
    .video = 248057, .vision_start = 248053, .vision_end = 248054
#define QWEN3_VL                                                                                                       \
    .mrope = true, .deepstack = true, .qk_norm = true, .vocab_size = 151936, .max_position_embeddings = 128000,         \
    .rope_theta = 500000,                                                                                               \
    .partial_rotary_factor = 1, .mrope_section = {24, 20, 20}, .eos = -1, .image = 151655, .video = 151656,             \
    .vision_start = 151652, .vision_end = 151653
#define QWEN3                                                                                                          \
    .qk_norm = true, .vocab_size = 151936, .max_position_embeddings = 32768, .rope_theta = 10000, .eos = -1,            \
    .image = -1, .video = -1, .vision_start = -1, .vision_end = -1

static const fore_family families[] = {
    {.model_type = "qwen3_5", .text_type = "qwen3_5_text", .whole = {"Qwen3_5ForConditionalGeneration", "Qwen3_5Model"},
     .text_only = {"Qwen3_5ForCausalLM", "Qwen3_5TextModel"}, QWEN3_5, .hidden_size = 4096, .intermediate_size = 12288,
     .num_hidden_layers = 32, .num_key_value_heads = 4},
    {.model_type = "qwen3_5_moe", .text_type = "qwen3_5_moe_text",
     .whole = {"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeModel"},
     .text_only = {"Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextModel"}, QWEN3_5, .moe = true, .fixed_topk = true,
     .hidden_size = 2048, .num_hidden_layers = 40, .num_key_value_heads = 2, .num_experts = 256, .num_experts_per_tok = 8,
     .moe_intermediate_size = 512, .shared_expert_intermediate_size = 512},
    {.model_type = "qwen3_vl", .text_type = "qwen3_vl_text", .whole = {"Qwen3VLForConditionalGeneration", "Qwen3VLModel"},
     .text_only = {"Qwen3VLTextModel"}, QWEN3_VL, .hidden_size = 4096, .intermediate_size = 22016, .num_hidden_layers = 32,
     .num_attention_heads = 32, .num_key_value_heads = 32, .head_dim = 128},
    {.model_type = "qwen3_vl_moe", .text_type = "qwen3_vl_moe_text",
     .whole = {"Qwen3VLMoeForConditionalGeneration", "Qwen3VLMoeModel"}, .text_only = {"Qwen3VLMoeTextModel"}, QWEN3_VL,
     .moe = true, .dense_layers = true, .fixed_topk = true, .hidden_size = 2048, .intermediate_size = 5632,
     .num_hidden_layers = 24, .num_attention_heads = 16, .num_key_value_heads = 16, .num_experts = 60,
     .num_experts_per_tok = 4, .moe_intermediate_size = 1408},
    {.model_type = "qwen2_5_vl", .text_type = "qwen2_5_vl_text",
     .whole = {"Qwen2_5_VLForConditionalGeneration", "Qwen2_5_VLModel"}, .text_only = {"Qwen2_5_VLTextModel"}, .mrope = true,
     .mrope_blocks = true, .qkv_bias = true, .windows = true, .inner_tie = true, .vocab_size = 152064, .hidden_size = 8192,
     .intermediate_size = 29568, .num_hidden_layers = 80, .num_attention_heads = 64, .num_key_value_heads = 8,
     .max_position_embeddings = 32768, .rms_norm_eps = 1e-5, .rope_theta = 1000000, .partial_rotary_factor = 1,
     .mrope_section = {16, 24, 24}, .eos = 151645, .image = 151655, .video = 151656, .vision_start = 151652,
     .vision_end = 151653},
    {.text_type = "qwen3", .text_only = {"Qwen3ForCausalLM", "Qwen3Model"}, QWEN3, .partial_rotary_factor = 1,
     .hidden_size = 4096, .intermediate_size = 22016, .num_hidden_layers = 32, .num_attention_heads = 32,
     .num_key_value_heads = 32, .head_dim = 128},
    {.text_type = "qwen3_moe", .text_only = {"Qwen3MoeForCausalLM", "Qwen3MoeModel"}, QWEN3, .partial_rotary_factor = 1,
     .moe = true, .dense_layers = true, .hidden_size = 2048, .intermediate_size = 6144, .num_hidden_layers = 24,
     .num_attention_heads = 32, .num_key_value_heads = 4, .num_experts = 128, .num_experts_per_tok = 8,
     .moe_intermediate_size = 768},
    {.text_type = "qwen3_next", .text_only = {"Qwen3NextForCausalLM", "Qwen3NextModel"}, QWEN3, .linear = true,
     .by_key_head = true, .output_gate = true, .zero_centred_norms = true, .draft_head = true, .moe = true,
     .dense_layers = true, .norm_topk_prob = true, .partial_rotary_factor = 0.25, .hidden_size = 2048,
     .intermediate_size = 5632, .num_hidden_layers = 48, .num_attention_heads = 16, .num_key_value_heads = 2, .head_dim = 256,
     .num_experts = 512, .num_experts_per_tok = 10, .moe_intermediate_size = 512, .shared_expert_intermediate_size = 512},
};
enum { COUNT = sizeof families / sizeof *families };

const fore_family *fore_family_of_type(const char *model_type) {
    for (size_t i = 0; i < COUNT; i++)
        if ((families[i].model_type && !strcmp(model_type, families[i].model_type)) || !strcmp(model_type, families[i].text_type))
            return &families[i];
    return NULL;
}

static bool is_one(const char *const *list, const char *name) {
    for (int i = 0; list[i]; i++)
        if (!strcmp(name, list[i])) return true;
    return false;
}

const fore_family *fore_family_of_architecture(const char *architecture) {
    for (size_t i = 0; i < COUNT; i++)
        if (is_one(families[i].whole, architecture) || is_one(families[i].text_only, architecture)) return &families[i];
    return NULL;
}

bool fore_family_is_text(const fore_family *family, const char *architecture) { return is_one(family->text_only, architecture); }
