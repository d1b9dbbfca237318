/* Binding the text model's tensors; see weights.h. */
#include "model/weights.h"

#include <stdio.h>
#include <string.h>

#include "model/rope.h"
#include "checkpoint/config_family.h"
#include "checkpoint/gguf_model.h"

static const char *const TEXT_PREFIXES[] = {"model.language_model.", "language_model.model.", "language_model.", "model.", ""};
const char *const fore_vision_prefixes[FORE_VISION_PREFIXES] = {"model.visual.", "visual.", "vision_tower.", "model.vision_tower."};
static const char *const MTP_PREFIXES[] = {"mtp.", "language_model.mtp.", "model.mtp.", "model.language_model.mtp."};
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* conv1d.weight [channels,1,kernel], in MLX's layout [channels,kernel,1], to [kernel,channels]: rows of the same tap lie
 * together. */
static void bind_conv(fore_binder *b, const float **out, int channels, int kernel, bool mlx, int layer) {
    const uint64_t c = (uint64_t)channels, k = (uint64_t)kernel, shape[3] = {c, mlx ? k : 1, mlx ? 1 : k};
    float *w = fore_bind_floats(b, 3, shape, "layers.%d.linear_attn.conv1d.weight", layer);
    float *y = w ? fore_arena_alloc(b->arena, (size_t)channels * (size_t)kernel, sizeof *y) : NULL;
    if (w && !y) b->status = fore_fail_nomem(b->err, "the weights' vectors");
    for (size_t i = 0; y && i < c; i++)
        for (size_t j = 0; j < k; j++) y[j * c + i] = w[i * k + j];
    *out = y;
}

static void bind_full(fore_binder *b, const fore_text_config *t, fore_layer *l, int i, float plus) {
    int C = t->hidden_size, D = t->head_dim, q = t->num_attention_heads * D, kv = t->num_key_value_heads * D;
    int rows = t->output_gate ? 2 * q : q;
    fore_bind_matrix(b, &l->q_proj, rows, C, "layers.%d.self_attn.q_proj.weight", i);
    fore_bind_matrix(b, &l->k_proj, kv, C, "layers.%d.self_attn.k_proj.weight", i);
    fore_bind_matrix(b, &l->v_proj, kv, C, "layers.%d.self_attn.v_proj.weight", i);
    fore_bind_matrix(b, &l->o_proj, C, q, "layers.%d.self_attn.o_proj.weight", i);
    if (t->qk_norm) {
        fore_bind_vector(b, &l->q_norm, D, plus, "layers.%d.self_attn.q_norm.weight", i);
        fore_bind_vector(b, &l->k_norm, D, plus, "layers.%d.self_attn.k_norm.weight", i);
    }
    if (t->attention_bias) {
        fore_bind_vector(b, &l->q_bias, rows, 0, "layers.%d.self_attn.q_proj.bias", i);
        fore_bind_vector(b, &l->k_bias, kv, 0, "layers.%d.self_attn.k_proj.bias", i);
        fore_bind_vector(b, &l->v_bias, kv, 0, "layers.%d.self_attn.v_proj.bias", i);
    }
    if (t->output_bias) fore_bind_vector(b, &l->o_bias, C, 0, "layers.%d.self_attn.o_proj.bias", i);
}

static void bind_linear(fore_binder *b, const fore_text_config *t, fore_layer *l, int i, bool mlx) {
    int C = t->hidden_size, nv = t->linear_num_value_heads, vd = nv * t->linear_value_head_dim;
    int channels = 2 * t->linear_num_key_heads * t->linear_key_head_dim + vd;
    if (t->linear_by_key_head) {
        fore_bind_matrix(b, &l->in_proj_qkvz, channels + vd, C, "layers.%d.linear_attn.in_proj_qkvz.weight", i);
        fore_bind_matrix(b, &l->in_proj_ba, 2 * nv, C, "layers.%d.linear_attn.in_proj_ba.weight", i);
    } else {
        fore_bind_matrix(b, &l->in_proj_qkv, channels, C, "layers.%d.linear_attn.in_proj_qkv.weight", i);
        fore_bind_matrix(b, &l->in_proj_z, vd, C, "layers.%d.linear_attn.in_proj_z.weight", i);
        fore_bind_matrix(b, &l->in_proj_b, nv, C, "layers.%d.linear_attn.in_proj_b.weight", i);
        fore_bind_matrix(b, &l->in_proj_a, nv, C, "layers.%d.linear_attn.in_proj_a.weight", i);
    }
    fore_bind_matrix(b, &l->out_proj, C, vd, "layers.%d.linear_attn.out_proj.weight", i);
    bind_conv(b, &l->conv, channels, t->linear_conv_kernel_dim, mlx, i);
    fore_bind_vector(b, &l->dt_bias, nv, 0, "layers.%d.linear_attn.dt_bias", i);
    /* This norm alone is plain: its gain is w, not 1 + w. */
    fore_bind_vector(b, &l->gated_norm, t->linear_value_head_dim, 0, "layers.%d.linear_attn.norm.weight", i);
    if (fore_bind_find(b, "layers.%d.linear_attn.neg_exp_A", i)) { /* as GGUF files have it */
        fore_bind_vector(b, &l->neg_exp_A, nv, 0, "layers.%d.linear_attn.neg_exp_A", i);
        return;
    }
    const float *A_log;
    fore_bind_vector(b, &A_log, nv, 0, "layers.%d.linear_attn.A_log", i);
    float *neg = A_log ? fore_arena_alloc(b->arena, (size_t)nv, sizeof *neg) : NULL;
    if (A_log && !neg) b->status = fore_fail_nomem(b->err, "the weights' vectors");
    for (int h = 0; neg && h < nv; h++) neg[h] = -fore_expf(A_log[h]);
    l->neg_exp_A = neg;
}

void fore_bind_layer(fore_binder *b, const fore_text_config *t, fore_layer *l, int i, float plus) {
    int C = t->hidden_size, F = t->intermediate_size;
    l->full = t->full_attention[i];
    fore_bind_vector(b, &l->input_norm, C, plus, "layers.%d.input_layernorm.weight", i);
    fore_bind_vector(b, &l->post_norm, C, plus, "layers.%d.post_attention_layernorm.weight", i);
    if (l->full) bind_full(b, t, l, i, plus);
    else bind_linear(b, t, l, i, plus == 0);
    if (t->sparse && t->sparse[i]) {
        fore_bind_moe(b, t, l, i);
        return;
    }
    fore_bind_matrix(b, &l->gate_proj, F, C, "layers.%d.mlp.gate_proj.weight", i);
    fore_bind_matrix(b, &l->up_proj, F, C, "layers.%d.mlp.up_proj.weight", i);
    fore_bind_matrix(b, &l->down_proj, C, F, "layers.%d.mlp.down_proj.weight", i);
}

static const char *find_prefix(const fore_store *store, const char *const *prefixes, size_t count, const char *name) {
    char full[128];
    for (size_t i = 0; i < count; i++) {
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        if (fore_forms_weights(store, full)) return prefixes[i];
    }
    return NULL;
}

const char *fore_tower_prefix(const fore_store *store) {
    return find_prefix(store, fore_vision_prefixes, FORE_VISION_PREFIXES, "patch_embed.proj.weight");
}

/* MLX's conversions store the gain of a norm, Hugging Face's files gain - 1. The axes of the convolution tell which it is. */
static void find_norms(const fore_binder *b, const fore_text_config *t, fore_network *n) {
    n->norms_absolute = !t->zero_centred_norms;
    n->norms_rule = t->zero_centred_norms ? "no convolution tells, so as Hugging Face has them" : "models of this type have them so";
    for (int i = 0; i < t->num_hidden_layers && t->zero_centred_norms; i++) {
        if (t->full_attention[i]) continue;
        const fore_entry *e = fore_bind_find(b, "layers.%d.linear_attn.conv1d.weight", i);
        n->norms_absolute = e && e->dims == 3 && e->shape[2] == 1 && t->linear_conv_kernel_dim > 1;
        n->norms_rule = n->norms_absolute ? "the convolution's axes are MLX's" : "the convolution's axes are Hugging Face's";
        return;
    }
}

/* The prefix of a text model whose embeddings are missing, by some layer that is there. */
static const char *guess_prefix(const fore_store *store) {
    for (size_t i = 0; i < fore_store_count(store); i++)
        for (size_t p = 0; p < COUNT(TEXT_PREFIXES); p++) {
            const char *name = fore_store_at(store, i)->name;
            size_t n = strlen(TEXT_PREFIXES[p]);
            if (strncmp(name, TEXT_PREFIXES[p], n) == 0 && strncmp(name + n, "layers.", 7) == 0) return TEXT_PREFIXES[p];
        }
    return NULL;
}

/* Files that were made of GGUF files have the projections of linear layers apart, whatever the family's own have. */
static void find_projections(const fore_binder *b, fore_text_config *t) {
    for (int i = 0; i < t->num_hidden_layers && t->linear_by_key_head; i++)
        if (!t->full_attention[i] && fore_bind_find(b, "layers.%d.linear_attn.in_proj_qkv.weight", i)) t->linear_by_key_head = false;
}

static fore_status bind_text(fore_network *n, fore_error *err) {
    const fore_text_config *t = &n->config.text;
    const char *prefix = find_prefix(n->store, TEXT_PREFIXES, COUNT(TEXT_PREFIXES), "embed_tokens.weight");
    if (!prefix && n->notes) prefix = guess_prefix(n->store);
    if (!prefix) {
        fore_fail(err, FORE_ERR_FORMAT,
                  "weights: embed_tokens.weight: missing (looked under model.language_model., language_model.model., "
                  "language_model., model. and no prefix)");
        return fore_notes_take(n->notes, "tensors", "embed_tokens.weight", FORE_ERR_FORMAT, err);
    }
    fore_binder b = {n->store, &n->arena, &n->panels, n->kern, prefix, err, FORE_OK, n->notes, NULL, 0};
    fore_tally_part *part = &n->panels.tally.part;
    int C = t->hidden_size;
    n->layers = fore_arena_alloc(&n->arena, (size_t)t->num_hidden_layers, sizeof *n->layers);
    if (!n->layers) return fore_fail_nomem(err, "the layer table");
    find_norms(&b, t, n);
    find_projections(&b, &n->config.text);
    float plus = n->norms_absolute ? 0 : 1;
    *part = FORE_TALLY_EMBEDDING;
    fore_bind_matrix(&b, &n->embed, t->vocab_size, C, "embed_tokens.weight");
    *part = FORE_TALLY_TRUNK;
    fore_bind_vector(&b, &n->norm, C, plus, "norm.weight");
    for (int i = 0; i < t->num_hidden_layers && !b.status; i++) fore_bind_layer(&b, t, &n->layers[i], i, plus);
    if (b.status) return b.status;
    if (t->tie_word_embeddings) {
        n->lm_head = n->embed;
        return FORE_OK;
    }
    static const char *const head_prefixes[] = {"", "language_model.", "model.", "model.language_model."};
    const char *head = find_prefix(n->store, head_prefixes, COUNT(head_prefixes), "lm_head.weight");
    b.prefix = head ? head : "";
    *part = FORE_TALLY_OUTPUT;
    fore_bind_matrix(&b, &n->lm_head, t->vocab_size, C, "lm_head.weight");
    return b.status;
}

static bool has_prefix(const char *name, const char *const *prefixes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

fore_tally_part fore_part_of(const char *name) {
    if (has_prefix(name, MTP_PREFIXES, COUNT(MTP_PREFIXES))) return FORE_TALLY_DRAFT;
    if (has_prefix(name, fore_vision_prefixes, FORE_VISION_PREFIXES)) return FORE_TALLY_VISION;
    if (strstr(name, "embed_tokens")) return FORE_TALLY_EMBEDDING;
    if (strstr(name, "lm_head")) return FORE_TALLY_OUTPUT;
    return strstr(name, ".experts.") || strstr(name, ".switch_mlp.") ? FORE_TALLY_EXPERTS : FORE_TALLY_TRUNK;
}

/* quantised: parameters of the text model in quantised matrices. */
static void count_parameters(fore_network *n, uint64_t quantised) {
    n->text_parameters = quantised;
    n->vision_parameters = n->panels.parameters - quantised;
    for (size_t i = 0; i < fore_store_count(n->store); i++) {
        const fore_entry *e = fore_store_at(n->store, i);
        uint64_t size = fore_bind_is_packed(n->store, e) ? 0 : 1;
        for (int d = 0; d < e->dims; d++) size *= e->shape[d];
        if (has_prefix(e->name, MTP_PREFIXES, COUNT(MTP_PREFIXES))) {
            n->mtp_parameters += size;
            n->mtp_tensors++;
        } else if (has_prefix(e->name, fore_vision_prefixes, FORE_VISION_PREFIXES)) {
            n->vision_parameters += size;
        } else {
            n->text_parameters += size;
        }
    }
    const fore_text_config *t = &n->config.text;
    uint64_t sparse = 0;
    for (int i = 0; t->sparse && i < t->num_hidden_layers; i++) sparse += t->sparse[i];
    uint64_t idle = sparse * (uint64_t)(t->num_experts - t->num_experts_per_tok) * 3 *
                    (uint64_t)t->moe_intermediate_size * (uint64_t)t->hidden_size;
    n->active_parameters = n->text_parameters - idle;
}

static fore_status bind_vision(fore_network *n, fore_error *err) {
    const char *prefix = fore_tower_prefix(n->store);
    if (!prefix) {
        /* A conversion that dropped the tower still is a text model. */
        n->config.has_vision = false;
        return FORE_OK;
    }
    n->panels.tally.part = FORE_TALLY_VISION;
    fore_status s = fore_notes_take(n->notes, "vision", NULL, fore_tower_bind(n, prefix, err), err);
    if (s) return s;
    const fore_vision_config *v = &n->config.vision;
    int head_dim = v->hidden_size / v->num_heads;
    float *inv_freq = fore_arena_alloc(&n->arena, (size_t)head_dim / 4, sizeof *inv_freq);
    if (inv_freq) fore_rope_patch_frequencies(v->rope_theta, head_dim / 2, inv_freq);
    n->vision_inv_freq = inv_freq;
    return inv_freq ? FORE_OK : fore_fail_nomem(err, "rope frequencies");
}

/* *configured: the config was read; without it only the store is open. */
static fore_status open_files(const char *dir, const fore_load *load, fore_network *n, bool *configured, fore_error *err) {
    fore_gguf_model *gguf = load ? load->gguf : NULL;
    size_t before = n->notes ? n->notes->count : 0;
    fore_status s = gguf ? fore_gguf_config_read(gguf, &n->arena, &n->config, err) : fore_config_read(dir, &n->arena, &n->config, err);
    s = fore_notes_take(n->notes, "config", NULL, s, err);
    if (s) return s;
    *configured = !n->notes || n->notes->count == before;
    if (!*configured) n->config = (fore_config){.architecture = "", .model_type = ""};
    n->vision_declared = n->config.has_vision;
    if (gguf) return fore_gguf_store_make(gguf, &n->store, err);
    return n->notes ? fore_store_look(dir, n->notes, &n->store, err) : fore_store_open(dir, &n->store, err);
}

static fore_status bind_network(fore_network *n, const fore_load *load, fore_error *err) {
    const fore_text_config *t = &n->config.text;
    fore_status s = fore_panels_reserve(&n->panels, n->store, "", &n->config.stored, err);
    if (!s) s = fore_notes_take(n->notes, "tensors", NULL, bind_text(n, err), err);
    uint64_t text = n->panels.parameters;
    if (s) return s;
    float *inv_freq = fore_arena_alloc(&n->arena, (size_t)t->rotary_dim / 2, sizeof *inv_freq);
    if (!inv_freq) return fore_fail_nomem(err, "rope frequencies");
    n->rope_attention = fore_rope_text_frequencies(t, inv_freq);
    n->inv_freq = inv_freq;
    if (n->config.has_vision) s = bind_vision(n, err);
    if (!s) s = fore_panels_make(&n->panels, n->store, load, err);
    if (s) return s;
    count_parameters(n, text);
    if (load && load->gguf && fore_family_of_type(n->config.model_type)->zero_centred_norms) n->norms_rule = fore_gguf_norms_rule;
    return FORE_OK;
}

fore_status fore_network_open(const char *dir, const fore_kern *kern, const fore_load *load, fore_network *out, fore_error *err) {
    *out = (fore_network){.kern = kern, .notes = load ? load->notes : NULL, .norms_rule = ""};
    bool configured = false;
    fore_status s = open_files(dir, load, out, &configured, err);
    if (!s && configured) {
        s = bind_network(out, load, err);
        if (s) s = fore_fail_prefix(err, s, "%s", dir); /* tensors have names, the checkpoint has not said its own yet */
    }
    if (!s && !configured) count_parameters(out, 0);
    out->notes = NULL;
    if (s) fore_network_close(out);
    return s;
}

void fore_network_close(fore_network *network) {
    fore_store_close(network->store);
    fore_panels_free(&network->panels);
    fore_arena_free(&network->arena);
    *network = (fore_network){0};
}
