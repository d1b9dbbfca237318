/* Binding the text model's tensors; see weights.h. */
#include "model/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const TEXT_PREFIXES[] = {"model.language_model.", "language_model.model.", "language_model.", "model.", ""};
static const char *const VISION_PREFIXES[] = {"model.visual.", "visual.", "vision_tower.", "model.vision_tower."};
static const char *const MTP_PREFIXES[] = {"mtp.", "language_model.mtp.", "model.mtp.", "model.language_model.mtp."};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *dtype_list(void) { return "F32, F16 and BF16"; }

static void shape_text(char *out, size_t size, int dims, const uint64_t *shape) {
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < dims && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%llu", i ? "," : "", (unsigned long long)shape[i]);
    if (used < size) snprintf(out + used, size - used, "]");
}

/* Finds prefix + name with exactly this shape and a float type, or records why not. */
static const fore_entry *bind_entry(fore_binder *b, const char *name, int dims, const uint64_t *shape) {
    if (b->status) return NULL;
    char full[256];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    const fore_entry *e = fore_store_find(b->store, full);
    if (!e) {
        b->status = fore_fail(b->err, FORE_ERR_FORMAT, "weights: %s: missing; the checkpoint is incomplete or of another layout", full);
        return NULL;
    }
    bool same = e->dims == dims;
    for (int i = 0; same && i < dims; i++) same = e->shape[i] == shape[i];
    if (!same) {
        char want[96], have[96];
        shape_text(want, sizeof want, dims, shape);
        shape_text(have, sizeof have, e->dims, e->shape);
        b->status = fore_fail(b->err, FORE_ERR_FORMAT, "weights: %s: expected %s, the file has %s %s", full, want, e->dtype_name, have);
        return NULL;
    }
    if (e->dtype != FORE_DTYPE_F32 && e->dtype != FORE_DTYPE_F16 && e->dtype != FORE_DTYPE_BF16) {
        b->status = fore_fail(b->err, FORE_ERR_UNSUPPORTED, "weights: %s: type %s; supported are %s", full, e->dtype_name, dtype_list());
        return NULL;
    }
    return e;
}

static void format_name(char *name, size_t size, const char *format, va_list args) { vsnprintf(name, size, format, args); }

void fore_bind_shape(fore_binder *b, fore_weight *out, int N, int K, int dims, const uint64_t *shape, const char *format, ...) {
    char name[160];
    va_list args;
    va_start(args, format);
    format_name(name, sizeof name, format, args);
    va_end(args);
    const fore_entry *e = bind_entry(b, name, dims, shape);
    if (e) *out = (fore_weight){.data = e->data, .dtype = e->dtype, .N = N, .K = K};
}

void fore_bind_matrix(fore_binder *b, fore_weight *out, int N, int K, const char *format, ...) {
    char name[160];
    va_list args;
    va_start(args, format);
    format_name(name, sizeof name, format, args);
    va_end(args);
    const uint64_t shape[2] = {(uint64_t)N, (uint64_t)K};
    fore_bind_shape(b, out, N, K, 2, shape, "%s", name);
}

static void widen(const fore_kern *kern, fore_dtype dtype, float *y, const void *x, size_t n) {
    if (dtype == FORE_DTYPE_BF16) kern->widen_bf16(y, x, n);
    else if (dtype == FORE_DTYPE_F16) kern->widen_f16(y, x, n);
    else memcpy(y, x, n * sizeof *y);
}

static float *bind_floats(fore_binder *b, const fore_entry *e, size_t n) {
    float *y = fore_arena_alloc(b->arena, n, sizeof *y);
    if (!y) {
        b->status = fore_fail_nomem(b->err, "the weights' vectors");
        return NULL;
    }
    widen(b->kern, e->dtype, y, e->data, n);
    return y;
}

void fore_bind_vector(fore_binder *b, const float **out, int n, float plus, const char *format, ...) {
    char name[160];
    va_list args;
    va_start(args, format);
    format_name(name, sizeof name, format, args);
    va_end(args);
    const uint64_t shape[1] = {(uint64_t)n};
    const fore_entry *e = bind_entry(b, name, 1, shape);
    float *y = e ? bind_floats(b, e, (size_t)n) : NULL;
    if (y && plus != 0)
        for (int i = 0; i < n; i++) y[i] += plus;
    *out = y;
}

bool fore_bind_has(const fore_binder *b, const char *format, ...) {
    char name[160], full[256];
    va_list args;
    va_start(args, format);
    format_name(name, sizeof name, format, args);
    va_end(args);
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    return fore_store_find(b->store, full) != NULL;
}

size_t fore_weight_row_bytes(const fore_weight *w) { return (size_t)w->K * (w->dtype == FORE_DTYPE_F32 ? 4 : 2); }

void fore_weight_row(const fore_kern *kern, const fore_weight *w, int row, float *y) {
    widen(kern, w->dtype, y, (const char *)w->data + (size_t)row * fore_weight_row_bytes(w), (size_t)w->K);
}

/* conv1d.weight [channels,1,kernel] to [kernel,channels]: rows of the same tap lie together. */
static void bind_conv(fore_binder *b, const float **out, int channels, int kernel, int layer) {
    char name[96];
    snprintf(name, sizeof name, "layers.%d.linear_attn.conv1d.weight", layer);
    const uint64_t shape[3] = {(uint64_t)channels, 1, (uint64_t)kernel};
    const fore_entry *e = bind_entry(b, name, 3, shape);
    float *w = e ? bind_floats(b, e, (size_t)channels * (size_t)kernel) : NULL;
    float *y = w ? fore_arena_alloc(b->arena, (size_t)channels * (size_t)kernel, sizeof *y) : NULL;
    if (w && !y) b->status = fore_fail_nomem(b->err, "the weights' vectors");
    for (int c = 0; y && c < channels; c++)
        for (int j = 0; j < kernel; j++) y[(size_t)j * (size_t)channels + (size_t)c] = w[(size_t)c * (size_t)kernel + (size_t)j];
    *out = y;
}

static void bind_full(fore_binder *b, const fore_text_config *t, fore_layer *l, int i, float plus) {
    int C = t->hidden_size, D = t->head_dim, q = t->num_attention_heads * D, kv = t->num_key_value_heads * D;
    fore_bind_matrix(b, &l->q_proj, 2 * q, C, "layers.%d.self_attn.q_proj.weight", i);
    fore_bind_matrix(b, &l->k_proj, kv, C, "layers.%d.self_attn.k_proj.weight", i);
    fore_bind_matrix(b, &l->v_proj, kv, C, "layers.%d.self_attn.v_proj.weight", i);
    fore_bind_matrix(b, &l->o_proj, C, q, "layers.%d.self_attn.o_proj.weight", i);
    fore_bind_vector(b, &l->q_norm, D, plus, "layers.%d.self_attn.q_norm.weight", i);
    fore_bind_vector(b, &l->k_norm, D, plus, "layers.%d.self_attn.k_norm.weight", i);
    if (t->attention_bias) {
        fore_bind_vector(b, &l->q_bias, 2 * q, 0, "layers.%d.self_attn.q_proj.bias", i);
        fore_bind_vector(b, &l->k_bias, kv, 0, "layers.%d.self_attn.k_proj.bias", i);
        fore_bind_vector(b, &l->v_bias, kv, 0, "layers.%d.self_attn.v_proj.bias", i);
        fore_bind_vector(b, &l->o_bias, C, 0, "layers.%d.self_attn.o_proj.bias", i);
    }
}

static void bind_linear(fore_binder *b, const fore_text_config *t, fore_layer *l, int i) {
    int C = t->hidden_size, nv = t->linear_num_value_heads, vd = nv * t->linear_value_head_dim;
    int channels = 2 * t->linear_num_key_heads * t->linear_key_head_dim + vd;
    fore_bind_matrix(b, &l->in_proj_qkv, channels, C, "layers.%d.linear_attn.in_proj_qkv.weight", i);
    fore_bind_matrix(b, &l->in_proj_z, vd, C, "layers.%d.linear_attn.in_proj_z.weight", i);
    fore_bind_matrix(b, &l->in_proj_b, nv, C, "layers.%d.linear_attn.in_proj_b.weight", i);
    fore_bind_matrix(b, &l->in_proj_a, nv, C, "layers.%d.linear_attn.in_proj_a.weight", i);
    fore_bind_matrix(b, &l->out_proj, C, vd, "layers.%d.linear_attn.out_proj.weight", i);
    bind_conv(b, &l->conv, channels, t->linear_conv_kernel_dim, i);
    fore_bind_vector(b, &l->dt_bias, nv, 0, "layers.%d.linear_attn.dt_bias", i);
    /* This norm alone is plain: its gain is w, not 1 + w. */
    fore_bind_vector(b, &l->gated_norm, t->linear_value_head_dim, 0, "layers.%d.linear_attn.norm.weight", i);
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
    else bind_linear(b, t, l, i);
    if (t->num_experts) {
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
        if (fore_store_find(store, full)) return prefixes[i];
    }
    return NULL;
}

static fore_status bind_text(fore_network *n, fore_error *err) {
    const fore_text_config *t = &n->config.text;
    const char *prefix = find_prefix(n->store, TEXT_PREFIXES, COUNT(TEXT_PREFIXES), "embed_tokens.weight");
    if (!prefix)
        return fore_fail(err, FORE_ERR_FORMAT,
                         "weights: embed_tokens.weight: missing (looked under model.language_model., language_model.model., "
                         "language_model., model. and no prefix)");
    fore_binder b = {n->store, &n->arena, n->kern, prefix, err, FORE_OK};
    int C = t->hidden_size;
    n->layers = fore_arena_alloc(&n->arena, (size_t)t->num_hidden_layers, sizeof *n->layers);
    if (!n->layers) return fore_fail_nomem(err, "the layer table");
    fore_bind_matrix(&b, &n->embed, t->vocab_size, C, "embed_tokens.weight");
    fore_bind_vector(&b, &n->norm, C, 1, "norm.weight");
    for (int i = 0; i < t->num_hidden_layers && !b.status; i++) fore_bind_layer(&b, t, &n->layers[i], i, 1);
    if (b.status) return b.status;
    if (t->tie_word_embeddings) {
        n->lm_head = n->embed;
        return FORE_OK;
    }
    static const char *const head_prefixes[] = {"", "language_model.", "model.", "model.language_model."};
    const char *head = find_prefix(n->store, head_prefixes, COUNT(head_prefixes), "lm_head.weight");
    b.prefix = head ? head : "";
    fore_bind_matrix(&b, &n->lm_head, t->vocab_size, C, "lm_head.weight");
    return b.status;
}

static bool has_prefix(const char *name, const char *const *prefixes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

static void count_parameters(fore_network *n) {
    for (size_t i = 0; i < fore_store_count(n->store); i++) {
        const fore_entry *e = fore_store_at(n->store, i);
        uint64_t size = 1;
        for (int d = 0; d < e->dims; d++) size *= e->shape[d];
        if (has_prefix(e->name, MTP_PREFIXES, COUNT(MTP_PREFIXES))) {
            n->mtp_parameters += size;
            n->mtp_tensors++;
        } else if (has_prefix(e->name, VISION_PREFIXES, COUNT(VISION_PREFIXES))) {
            n->vision_parameters += size;
        } else {
            n->text_parameters += size;
        }
    }
    const fore_text_config *t = &n->config.text;
    uint64_t idle = (uint64_t)t->num_hidden_layers * (uint64_t)(t->num_experts - t->num_experts_per_tok) * 3 *
                    (uint64_t)t->moe_intermediate_size * (uint64_t)t->hidden_size;
    n->active_parameters = n->text_parameters - idle;
}

/* inv_freq[i] = theta^(-2i/dim), computed in double and rounded once. */
static const float *make_inv_freq(fore_arena *arena, double theta, int dim, int count) {
    float *f = fore_arena_alloc(arena, (size_t)count, sizeof *f);
    for (int i = 0; f && i < count; i++) f[i] = (float)(1.0 / fore_pow(theta, 2.0 * i / dim));
    return f;
}

fore_status fore_network_open(const char *dir, const fore_kern *kern, fore_network *out, fore_error *err) {
    *out = (fore_network){.kern = kern};
    fore_status s = fore_config_read(dir, &out->arena, &out->config, err);
    if (!s) s = fore_store_open(dir, &out->store, err);
    if (!s) s = bind_text(out, err);
    if (!s) {
        const fore_text_config *t = &out->config.text;
        out->inv_freq = make_inv_freq(&out->arena, t->rope_theta, t->rotary_dim, t->rotary_dim / 2);
        if (!out->inv_freq) s = fore_fail_nomem(err, "rope frequencies");
    }
    if (!s && out->config.has_vision) {
        const char *prefix = find_prefix(out->store, VISION_PREFIXES, COUNT(VISION_PREFIXES), "patch_embed.proj.weight");
        if (prefix) {
            s = fore_tower_bind(out, prefix, err);
        } else {
            /* A conversion that dropped the tower still is a text model. */
            out->config.has_vision = false;
        }
    }
    if (!s && out->config.has_vision) {
        const fore_vision_config *v = &out->config.vision;
        int head_dim = v->hidden_size / v->num_heads;
        out->vision_inv_freq = make_inv_freq(&out->arena, v->rope_theta, head_dim / 2, head_dim / 4);
        if (!out->vision_inv_freq) s = fore_fail_nomem(err, "rope frequencies");
    }
    if (s) {
        fore_network_close(out);
        return s;
    }
    count_parameters(out);
    return FORE_OK;
}

void fore_network_close(fore_network *network) {
    fore_store_close(network->store);
    fore_arena_free(&network->arena);
    *network = (fore_network){0};
}
