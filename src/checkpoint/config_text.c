/* The text part of config.json: text_config, or the whole file of a text-only model. Defaults are those of the reference
 * class, on which real files rely. */
#include <math.h>
#include <string.h>

#include "checkpoint/config_part.h"

static const int reference_section[3] = {11, 11, 10};

int fore_config_mtp_layers(fore_config_part *p) {
    int n = fore_config_int(p, "mtp_num_hidden_layers", 0, FORE_CONFIG_LAYERS, 0);
    return n ? n : fore_config_int(p, "num_nextn_predict_layers", 0, FORE_CONFIG_LAYERS, 0);
}

static void read_experts(fore_config_part *p, fore_text_config *t) {
    t->num_experts = fore_config_int(p, "num_experts", 1, FORE_CONFIG_HEADS, 256);
    t->num_experts_per_tok = fore_config_int(p, "num_experts_per_tok", 1, FORE_CONFIG_HEADS, 8);
    t->moe_intermediate_size = fore_config_int(p, "moe_intermediate_size", 1, FORE_CONFIG_WIDTH, 512);
    t->shared_expert_intermediate_size = fore_config_int(p, "shared_expert_intermediate_size", 1, FORE_CONFIG_WIDTH, 512);
    if (p->status || t->num_experts_per_tok <= t->num_experts) return;
    fore_config_keep(p, fore_fail(p->err, FORE_ERR_FORMAT, "num_experts_per_tok is %d, more than num_experts, which is %d",
                                  t->num_experts_per_tok, t->num_experts));
}

static void read_sizes(fore_config_part *p, bool moe, fore_text_config *t) {
    t->vocab_size = fore_config_int(p, "vocab_size", 1, FORE_CONFIG_WIDTH, 248320);
    t->hidden_size = fore_config_int(p, "hidden_size", 1, FORE_CONFIG_WIDTH, moe ? 2048 : 4096);
    if (moe) read_experts(p, t);
    else t->intermediate_size = fore_config_int(p, "intermediate_size", 1, FORE_CONFIG_WIDTH, 12288);
    t->num_hidden_layers = fore_config_int(p, "num_hidden_layers", 1, FORE_CONFIG_LAYERS, moe ? 40 : 32);
    t->num_attention_heads = fore_config_int(p, "num_attention_heads", 1, FORE_CONFIG_HEADS, 16);
    t->num_key_value_heads = fore_config_int(p, "num_key_value_heads", 1, FORE_CONFIG_HEADS, moe ? 2 : 4);
    t->head_dim = fore_config_int(p, "head_dim", 1, FORE_CONFIG_HEADS, 256);
    t->linear_conv_kernel_dim = fore_config_int(p, "linear_conv_kernel_dim", 1, 256, 4);
    t->linear_key_head_dim = fore_config_int(p, "linear_key_head_dim", 1, FORE_CONFIG_HEADS, 128);
    t->linear_value_head_dim = fore_config_int(p, "linear_value_head_dim", 1, FORE_CONFIG_HEADS, 128);
    t->linear_num_key_heads = fore_config_int(p, "linear_num_key_heads", 1, FORE_CONFIG_HEADS, 16);
    t->linear_num_value_heads = fore_config_int(p, "linear_num_value_heads", 1, FORE_CONFIG_HEADS, 32);
    t->max_position_embeddings = fore_config_int(p, "max_position_embeddings", 1, 1 << 30, 32768);
    if (p->status) return;
    fore_config_check(p, t->num_attention_heads % t->num_key_value_heads == 0,
                      "num_attention_heads is not a multiple of num_key_value_heads");
    fore_config_check(p, t->linear_num_value_heads % t->linear_num_key_heads == 0,
                      "linear_num_value_heads is not a multiple of linear_num_key_heads");
    fore_config_check(p, t->num_attention_heads * t->head_dim <= FORE_CONFIG_WIDTH,
                      "num_attention_heads * head_dim is too large");
    fore_config_check(p, t->linear_num_key_heads * t->linear_key_head_dim <= FORE_CONFIG_WIDTH,
                      "linear_num_key_heads * linear_key_head_dim is too large");
    fore_config_check(p, t->linear_num_value_heads * t->linear_value_head_dim <= FORE_CONFIG_WIDTH,
                      "linear_num_value_heads * linear_value_head_dim is too large");
}

static void refuse_unsupported(fore_config_part *p, bool moe) {
    static const char *const dense[] = {"qwen3_5_text", "qwen3_5", "", NULL};
    static const char *const experts[] = {"qwen3_5_moe_text", "qwen3_5_moe", "", NULL};
    static const char *const act[] = {"silu", "swish", NULL}, *const gate[] = {"swish", "silu", NULL};
    fore_config_only(p, "model_type", "", moe ? experts : dense);
    fore_config_only(p, "hidden_act", "silu", act);
    fore_config_only(p, "output_gate_type", "swish", gate);
    if (!fore_config_bool(p, "attn_output_gate", true))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "attn_output_gate false is not supported; supported: true");
    if (fore_config_bool(p, "layer_scale", false))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "layer_scale true is not supported; supported: false");
    if (fore_config_bool(p, "mtp_use_dedicated_embeddings", false))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "mtp_use_dedicated_embeddings true is not supported; supported: false");
    if (moe && !fore_config_bool(p, "norm_topk_prob", true))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "norm_topk_prob false is not supported; supported: true");
    if (!moe && fore_config_int(p, "num_experts", 0, 1 << 20, 0))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "num_experts: a mixture of experts is supported under model_type qwen3_5_moe "
                           "and qwen3_5_moe_text");
}

/* ---- layer types ------------------------------------------------------------------------------------------------- */

static void read_layers(fore_config_part *p, fore_arena *arena, fore_text_config *t) {
    int interval = fore_config_int(p, "full_attention_interval", 1, FORE_CONFIG_LAYERS, 4);
    const cJSON *list = fore_json_get(p->object, "layer_types");
    if (p->status) return;
    bool *full = fore_arena_alloc(arena, (size_t)t->num_hidden_layers, sizeof *full);
    if (!full) {
        p->status = fore_fail_nomem(p->err, "the list of layers");
        return;
    }
    t->full_attention = full;
    if (!list) {
        for (int i = 0; i < t->num_hidden_layers; i++) full[i] = (i + 1) % interval == 0;
        return;
    }
    fore_config_check(p, cJSON_IsArray(list) && cJSON_GetArraySize(list) == t->num_hidden_layers,
                      "layer_types: expected a list with num_hidden_layers members");
    if (p->status) return;
    int i = 0;
    for (const cJSON *c = list->child; c; c = c->next, i++) {
        const char *name = cJSON_IsString(c) ? c->valuestring : "";
        full[i] = !strcmp(name, "full_attention");
        if (full[i] || !strcmp(name, "linear_attention")) continue;
        fore_config_keep(p, fore_fail(p->err, FORE_ERR_UNSUPPORTED, "layer_types: \"%s\" of layer %d is not supported; "
                         "supported: \"full_attention\" and \"linear_attention\"", name, i));
        return;
    }
}

/* ---- rotary embedding -------------------------------------------------------------------------------------------- */

static void read_section(fore_config_part *rope, int half, int section[3]) {
    const cJSON *list = fore_json_get(rope->object, "mrope_section");
    int sum = 0, given[3];
    if (rope->status) return;
    if (list) {
        int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0, i = 0;
        for (const cJSON *c = n == 3 ? list->child : NULL; c; c = c->next) {
            double v = c->valuedouble;
            if (!cJSON_IsNumber(c) || v != floor(v) || v < 0 || v > half) break;
            given[i] = (int)v;
            sum += given[i++];
        }
        fore_config_check(rope, i == 3 && sum == half,
                          "mrope_section: expected three whole numbers whose sum is half the rotary dimensions");
        if (!rope->status) memcpy(section, given, sizeof given);
        return;
    }
    /* The reference takes frequency 3i+1 for rows while i < section[1] and 3i+2 for columns while i < section[2], as far
     * as there are frequencies; time has the rest. */
    for (int axis = 1; axis < 3; axis++) {
        int room = (half - axis + 2) / 3;
        section[axis] = room < reference_section[axis] ? room : reference_section[axis];
    }
    section[0] = half - section[1] - section[2];
}

/* A rope_scaling that is not empty replaces rope_parameters, as in the reference; theta and the rotated part are looked up
 * in the text config when the block lacks them. */
static void read_rope(fore_config_part *p, fore_text_config *t) {
    static const char *const kinds[] = {"default", "mrope", NULL};
    const char *name = "rope_scaling";
    const cJSON *block = fore_json_get(p->object, name);
    if (!block || !cJSON_IsObject(block) || !block->child) {
        fore_config_check(p, !block || cJSON_IsObject(block) || cJSON_IsFalse(block), "rope_scaling: expected an object");
        name = "rope_parameters";
        block = fore_json_get(p->object, name);
        fore_config_check(p, !block || cJSON_IsObject(block), "rope_parameters: expected an object");
    }
    double theta = fore_config_number(p, "rope_theta", 10000);
    double part = fore_config_number(p, "partial_rotary_factor", 0.25);
    if (p->status) return;
    fore_config_part rope = {.object = block, .section = name, .what = p->what, .err = p->err};
    /* "type" is the older spelling. */
    fore_config_only(&rope, fore_json_get(block, "rope_type") ? "rope_type" : "type", "default", kinds);
    t->rope_theta = fore_config_number(&rope, "rope_theta", theta);
    part = fore_config_number(&rope, "partial_rotary_factor", part);
    fore_config_check(&rope, t->rope_theta > 0, "rope_theta: expected a positive number");
    fore_config_check(&rope, part > 0 && part <= 1, "partial_rotary_factor: expected a number above 0 and at most 1");
    if (!rope.status) {
        t->rotary_dim = (int)(t->head_dim * part);
        fore_config_check(&rope, t->rotary_dim > 0 && t->rotary_dim % 2 == 0,
                          "head_dim * partial_rotary_factor: expected an even number");
    }
    read_section(&rope, t->rotary_dim / 2, t->mrope_section);
    p->status = rope.status;
}

void fore_config_read_text(fore_config_part *p, bool moe, fore_arena *arena, fore_text_config *out) {
    refuse_unsupported(p, moe);
    read_sizes(p, moe, out);
    out->attention_bias = fore_config_bool(p, "attention_bias", false);
    out->tie_word_embeddings = fore_config_bool(p, "tie_word_embeddings", false);
    double eps = fore_config_number(p, "rms_norm_eps", 1e-6);
    fore_config_check(p, eps > 0 && eps < 1, "rms_norm_eps: expected a number between 0 and 1");
    out->rms_norm_eps = (float)eps;
    out->mtp_num_hidden_layers = fore_config_mtp_layers(p);
    read_layers(p, arena, out);
    read_rope(p, out);
}
