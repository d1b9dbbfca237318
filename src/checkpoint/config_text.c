/* The text part of config.json: text_config, or the whole file of a text-only model. Defaults are those of the reference
 * class, on which real files rely. */
#include <math.h>
#include <string.h>

#include "checkpoint/config_part.h"

int fore_config_mtp_layers(fore_config_part *p) {
    int n = fore_config_int(p, "mtp_num_hidden_layers", 0, FORE_CONFIG_LAYERS, 0);
    return n ? n : fore_config_int(p, "num_nextn_predict_layers", 0, FORE_CONFIG_LAYERS, 0);
}

/* An explicit null of a size that the reference then takes from another one. */
static bool is_null(const fore_config_part *p, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(p->object, name);
    return item && cJSON_IsNull(item);
}

static void read_attention(fore_config_part *p, const fore_family *f, fore_text_config *t) {
    int heads = t->num_attention_heads = fore_config_int(p, "num_attention_heads", 1, FORE_CONFIG_HEADS, f->num_attention_heads);
    int kv = is_null(p, "num_key_value_heads") ? heads : f->num_key_value_heads;
    t->num_key_value_heads = fore_config_int(p, "num_key_value_heads", 1, FORE_CONFIG_HEADS, kv);
    int own = t->hidden_size / heads;
    t->head_dim = fore_config_int(p, "head_dim", 1, FORE_CONFIG_HEADS, f->head_dim ? f->head_dim : own);
    fore_config_check(p, t->num_attention_heads % t->num_key_value_heads == 0,
                      "num_attention_heads is not a multiple of num_key_value_heads");
    fore_config_check(p, t->head_dim > 0 && t->head_dim <= FORE_CONFIG_HEADS,
                      "head_dim: expected it, for hidden_size / num_attention_heads is out of range");
    fore_config_check(p, t->num_attention_heads * t->head_dim <= FORE_CONFIG_WIDTH,
                      "num_attention_heads * head_dim is too large");
}

static void read_linear(fore_config_part *p, fore_text_config *t) {
    t->linear_conv_kernel_dim = fore_config_int(p, "linear_conv_kernel_dim", 1, 256, 4);
    t->linear_key_head_dim = fore_config_int(p, "linear_key_head_dim", 1, FORE_CONFIG_HEADS, 128);
    t->linear_value_head_dim = fore_config_int(p, "linear_value_head_dim", 1, FORE_CONFIG_HEADS, 128);
    t->linear_num_key_heads = fore_config_int(p, "linear_num_key_heads", 1, FORE_CONFIG_HEADS, 16);
    t->linear_num_value_heads = fore_config_int(p, "linear_num_value_heads", 1, FORE_CONFIG_HEADS, 32);
    fore_config_check(p, t->linear_num_value_heads % t->linear_num_key_heads == 0,
                      "linear_num_value_heads is not a multiple of linear_num_key_heads");
    fore_config_check(p, t->linear_num_key_heads * t->linear_key_head_dim <= FORE_CONFIG_WIDTH,
                      "linear_num_key_heads * linear_key_head_dim is too large");
    fore_config_check(p, t->linear_num_value_heads * t->linear_value_head_dim <= FORE_CONFIG_WIDTH,
                      "linear_num_value_heads * linear_value_head_dim is too large");
}

static void read_sizes(fore_config_part *p, const fore_family *f, fore_text_config *t) {
    t->vocab_size = fore_config_int(p, "vocab_size", 1, FORE_CONFIG_WIDTH, f->vocab_size);
    t->hidden_size = fore_config_int(p, "hidden_size", 1, FORE_CONFIG_WIDTH, f->hidden_size);
    t->num_hidden_layers = fore_config_int(p, "num_hidden_layers", 1, FORE_CONFIG_LAYERS, f->num_hidden_layers);
    t->max_position_embeddings = fore_config_int(p, "max_position_embeddings", 1, 1 << 30, f->max_position_embeddings);
    read_attention(p, f, t);
    if (f->linear) read_linear(p, t);
}

static void refuse_unsupported(fore_config_part *p, const fore_family *f) {
    static const char *const act[] = {"silu", "swish", NULL}, *const gate[] = {"swish", "silu", NULL};
    const char *const types[] = {f->text_type, "", f->model_type, NULL};
    fore_config_only(p, "model_type", "", types);
    fore_config_only(p, "hidden_act", "silu", act);
    if (f->output_gate) {
        fore_config_only(p, "output_gate_type", "swish", gate);
        if (!fore_config_bool(p, "attn_output_gate", true))
            fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "attn_output_gate false is not supported; supported: true");
    } else if (fore_config_bool(p, "attn_output_gate", false)) {
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "attn_output_gate true is not supported in this family; supported: false");
    }
    if (fore_config_bool(p, "layer_scale", false))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "layer_scale true is not supported; supported: false");
    if (fore_config_bool(p, "use_sliding_window", false))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "use_sliding_window true is not supported; supported: false");
    if (fore_config_bool(p, "mtp_use_dedicated_embeddings", false))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "mtp_use_dedicated_embeddings true is not supported; supported: false");
    if (f->fixed_topk && !fore_config_bool(p, "norm_topk_prob", true))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "norm_topk_prob false is not supported in this family; supported: true");
    if (!f->moe && fore_config_int(p, "num_experts", 0, 1 << 20, 0))
        fore_config_refuse(p, FORE_ERR_UNSUPPORTED, "num_experts: a mixture of experts is supported under model_type qwen3_5_moe, "
                           "qwen3_5_moe_text, qwen3_vl_moe, qwen3_moe and qwen3_next");
}

/* ---- experts ----------------------------------------------------------------------------------------------------- */

/* Takes the layers of mlp_only_layers out of `sparse`. */
static void read_dense_layers(fore_config_part *p, const fore_text_config *t, bool *sparse) {
    const cJSON *list = fore_json_get(p->object, "mlp_only_layers");
    fore_config_check(p, !list || cJSON_IsArray(list), "mlp_only_layers: expected a list of layers");
    for (const cJSON *c = list && !p->status ? list->child : NULL; c && !p->status; c = c->next) {
        double v = c->valuedouble;
        fore_config_check(p, cJSON_IsNumber(c) && v == floor(v) && v >= 0, "mlp_only_layers: expected whole numbers of layers");
        if (!p->status && v < t->num_hidden_layers) sparse[(int)v] = false;
    }
}

/* Which layers have experts, and the sizes of both kinds. */
static void read_experts(fore_config_part *p, const fore_family *f, fore_arena *arena, fore_text_config *t) {
    int experts = 0, step = 1, dense = 0;
    if (f->moe) {
        /* The second name is the one under which some versions of the reference store it. */
        const char *name = fore_json_get(p->object, "num_experts") ? "num_experts" : "num_local_experts";
        experts = fore_config_int(p, name, f->dense_layers ? 0 : 1, FORE_CONFIG_HEADS, f->num_experts);
        if (f->dense_layers) step = fore_config_int(p, "decoder_sparse_step", 1, FORE_CONFIG_LAYERS, 1);
    }
    bool *sparse = p->status ? NULL : fore_arena_alloc(arena, (size_t)t->num_hidden_layers, sizeof *sparse);
    if (p->status) return;
    if (!sparse) {
        p->status = fore_fail_nomem(p->err, "the list of layers");
        return;
    }
    for (int i = 0; i < t->num_hidden_layers; i++) sparse[i] = experts && (i + 1) % step == 0;
    if (f->dense_layers) read_dense_layers(p, t, sparse);
    for (int i = 0; i < t->num_hidden_layers; i++) dense += !sparse[i];
    t->norm_topk_prob = f->fixed_topk || fore_config_bool(p, "norm_topk_prob", f->norm_topk_prob);
    if (dense) t->intermediate_size = fore_config_int(p, "intermediate_size", 1, FORE_CONFIG_WIDTH, f->intermediate_size);
    if (dense == t->num_hidden_layers) return;
    t->sparse = sparse;
    t->num_experts = experts;
    t->num_experts_per_tok = fore_config_int(p, "num_experts_per_tok", 1, FORE_CONFIG_HEADS, f->num_experts_per_tok);
    t->moe_intermediate_size = fore_config_int(p, "moe_intermediate_size", 1, FORE_CONFIG_WIDTH, f->moe_intermediate_size);
    if (f->shared_expert_intermediate_size)
        t->shared_expert_intermediate_size =
            fore_config_int(p, "shared_expert_intermediate_size", 1, FORE_CONFIG_WIDTH, f->shared_expert_intermediate_size);
    if (p->status || t->num_experts_per_tok <= t->num_experts) return;
    fore_config_keep(p, fore_fail(p->err, FORE_ERR_FORMAT, "num_experts_per_tok is %d, more than num_experts, which is %d",
                                  t->num_experts_per_tok, t->num_experts));
}

/* ---- layer types ------------------------------------------------------------------------------------------------- */

static void read_layers(fore_config_part *p, const fore_family *f, fore_arena *arena, fore_text_config *t) {
    int interval = f->linear ? fore_config_int(p, "full_attention_interval", 1, FORE_CONFIG_LAYERS, 4) : 1;
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
        if (full[i] || (f->linear && !strcmp(name, "linear_attention"))) continue;
        fore_config_keep(p, fore_fail(p->err, FORE_ERR_UNSUPPORTED, "layer_types: \"%s\" of layer %d is not supported; "
                         "supported: \"full_attention\"%s", name, i, f->linear ? " and \"linear_attention\"" : ""));
        return;
    }
}

void fore_config_read_text(fore_config_part *p, const fore_family *family, fore_arena *arena, fore_text_config *out) {
    refuse_unsupported(p, family);
    read_sizes(p, family, out);
    out->output_gate = family->output_gate;
    out->zero_centred_norms = family->zero_centred_norms;
    out->linear_by_key_head = family->by_key_head;
    out->qk_norm = family->qk_norm;
    out->mrope_blocks = family->mrope_blocks;
    out->attention_bias = out->output_bias = fore_config_bool(p, "attention_bias", false);
    if (family->qkv_bias) {
        out->attention_bias = true;
        out->output_bias = false;
    }
    out->tie_word_embeddings = fore_config_bool(p, "tie_word_embeddings", false);
    double eps = fore_config_number(p, "rms_norm_eps", family->rms_norm_eps > 0 ? family->rms_norm_eps : 1e-6);
    fore_config_check(p, eps > 0 && eps < 1, "rms_norm_eps: expected a number between 0 and 1");
    out->rms_norm_eps = (float)eps;
    if (family->draft_head) out->mtp_num_hidden_layers = fore_config_mtp_layers(p);
    read_layers(p, family, arena, out);
    read_experts(p, family, arena, out);
    fore_config_read_rope(p, family, out);
}
