/* The tensors of GGUF files under the names and in the shapes of a checkpoint of Hugging Face; see gguf_model.h. What was changed when
 * the files were made is told to whoever reads a matrix (fore_order), and changed back here where it is a vector or a small tensor:
 *   value heads of linear layers lie tiled: (rows of in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, columns of out_proj, dt_bias, A)
 *   A_log is stored as -exp(A_log), given out as neg_exp_A
 *   the convolution lacks an axis, and is given out as [channels,kernel,1], as MLX's conversions have it: they too hold norms' gains
 *   in_proj_ba of qwen3next is given out as in_proj_b and in_proj_a, since in_proj_qkvz came apart the same way
 *   the patch embedding comes as one tensor for each of the two frames
 *   queries, keys and values of Qwen2.5-VL's tower come apart, one behind the other in the file */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/config_part.h"
#include "checkpoint/gguf_part.h"
#include "checkpoint/store_adopt.h"

typedef struct maker {
    const fore_gguf_model *m;
    fore_arena arena; /* what the store will own */
    fore_entry *entries;
    size_t count, capacity;
    const fore_gguf *file;
    int number;
    fore_error *err;
    fore_status status;
} maker;

static const char text_prefix[] = "model.language_model.", vision_prefix[] = "model.visual.";

typedef struct renaming {
    const char *from, *to;
} renaming;

/* Of a layer, with .weight or .bias behind them. */
static const renaming layer_names[] = {
    {"attn_norm", "input_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ssm_in", "linear_attn.in_proj_qkvz"},
    {"ssm_norm", "linear_attn.norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {NULL, NULL},
};
/* Of the draft head's first layer. */
static const renaming draft_names[] = {
    {"nextn.eh_proj", "fc"},
    {"nextn.enorm", "pre_fc_norm_embedding"},
    {"nextn.hnorm", "pre_fc_norm_hidden"},
    {"nextn.shared_head_norm", "norm"},
    {"nextn.embed_tokens", "embed_tokens"}, /* these two drafts do without */
    {"nextn.shared_head_head", "shared_head.head"},
    {NULL, NULL},
};
static const renaming top_names[] = {
    {"token_embd", "model.language_model.embed_tokens"},
    {"output_norm", "model.language_model.norm"},
    {"output", "lm_head"},
    {NULL, NULL},
};
static const renaming block_names[] = {
    {"attn_qkv", "attn.qkv"}, {"attn_out", "attn.proj"}, {"ffn_up", "mlp.linear_fc1"}, {"ffn_down", "mlp.linear_fc2"},
    {"ln1", "norm1"},         {"ln2", "norm2"},          {NULL, NULL},
};
/* Of Qwen2.5-VL's tower. */
static const renaming window_block_names[] = {
    {"attn_qkv", "attn.qkv"},    {"attn_out", "attn.proj"},     {"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}, {"ln1", "norm1"},            {"ln2", "norm2"},              {NULL, NULL},
};
static const renaming deepstack_names[] = {{"norm", "norm"}, {"fc1", "linear_fc1"}, {"fc2", "linear_fc2"}, {NULL, NULL}};
static const renaming tower_names[] = {
    {"v.patch_embd", "patch_embed.proj"}, {"v.position_embd", "pos_embed"}, {"v.post_ln", "merger.norm"},
    {"mm.0", "merger.linear_fc1"},        {"mm.2", "merger.linear_fc2"},    {NULL, NULL},
};
static const renaming window_tower_names[] = {
    {"v.patch_embd", "patch_embed.proj"}, {"v.post_ln", "merger.ln_q"}, {"mm.0", "merger.mlp.0"}, {"mm.2", "merger.mlp.2"}, {NULL, NULL},
};

/* "from.weight" or "from.bias" as "to.weight" or "to.bias". */
static bool rename_in(const renaming *list, const char *name, char out[128]) {
    const char *dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".weight") && strcmp(dot, ".bias"))) return false;
    for (; list->from; list++) {
        size_t n = strlen(list->from);
        if (n != (size_t)(dot - name) || strncmp(name, list->from, n)) continue;
        snprintf(out, 128, "%s%s", list->to, dot);
        return true;
    }
    return false;
}

/* "<head>12.rest": the number and the rest. */
static bool split_number(const char *name, const char *head, int *number, const char **rest) {
    size_t n = strlen(head);
    if (strncmp(name, head, n)) return false;
    const char *p = name + n;
    int value = 0, digits = 0;
    for (; *p >= '0' && *p <= '9' && digits < 6; p++, digits++) value = value * 10 + (*p - '0');
    if (!digits || *p != '.') return false;
    *number = value;
    *rest = p + 1;
    return true;
}

/* ---- giving out -------------------------------------------------------------------------------------------------- */

static void no_memory(maker *k) {
    if (!k->status) k->status = fore_fail_nomem(k->err, "the list of tensors");
}

/* The whole tensor under a name; NULL after a failure. */
static fore_entry *give(maker *k, const fore_gguf_tensor *t, const char *format, ...) __attribute__((format(printf, 3, 4)));
static fore_entry *give(maker *k, const fore_gguf_tensor *t, const char *format, ...) {
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    char *copy = k->status || k->count == k->capacity ? NULL : fore_arena_copy(&k->arena, name, strlen(name));
    if (!copy) {
        no_memory(k);
        return NULL;
    }
    fore_entry *e = &k->entries[k->count++];
    *e = (fore_entry){.name = copy, .dtype_name = t->type->name, .dtype = t->type->dtype, .dims = t->dims, .data = t->data, .bytes = t->bytes,
                      .file = k->number};
    for (int i = 0; i < t->dims; i++) e->shape[i] = t->shape[i];
    return e;
}

static size_t row_bytes(const fore_entry *e) {
    size_t rows = 1;
    for (int i = 0; i < e->dims - 1; i++) rows *= (size_t)e->shape[i];
    return e->dims == 1 ? e->bytes / (size_t)e->shape[0] : e->bytes / rows;
}

/* Of a matrix or vector only these rows. */
static void cut_rows(fore_entry *e, uint64_t row0, uint64_t rows) {
    size_t row = row_bytes(e);
    e->data += row0 * row;
    e->shape[0] = rows;
    e->bytes = (size_t)rows * row;
}

/* Tells the order of a matrix of which `fits` elements along that axis are expected; another shape is refused when it is bound. */
static void set_order(maker *k, fore_entry *e, fore_order order, uint64_t fits) {
    if (!e || e->dims != 2 || e->shape[order.columns ? 1 : 0] != fits) return;
    fore_order *kept = fore_arena_alloc(&k->arena, 1, sizeof *kept);
    if (!kept) {
        no_memory(k);
        return;
    }
    *kept = order;
    e->order = kept;
    e->dtype = FORE_DTYPE_OTHER;
}

/* Rows of floats put in order now, in memory of the store. */
static void reorder(maker *k, fore_entry *e, fore_order order, uint64_t fits) {
    if (!e || e->dtype == FORE_DTYPE_OTHER || e->shape[0] != fits) return;
    size_t row = e->bytes / (size_t)e->shape[0];
    unsigned char *to = fore_arena_alloc(&k->arena, e->bytes, 1);
    if (!to) {
        no_memory(k);
        return;
    }
    for (size_t i = 0; i < fits; i++) memcpy(to + i * row, e->data + fore_order_place(&order, i) * row, row);
    e->data = to;
}

/* ---- linear layers ----------------------------------------------------------------------------------------------- */

static bool is_tiled(const fore_gguf_model *m) { return m->family->tiled && m->key_heads != m->value_heads; }

/* Heads of `size` rows or columns each, behind `begin` others: the first of each key head, then the second of each, ... */
static fore_order tiles(const fore_gguf_model *m, bool columns, int begin, int size) {
    return (fore_order){columns, begin, size, m->value_heads / m->key_heads, 1, m->key_heads};
}

/* Tensors of linear layers whose heads are in another order; false: it is none of them. */
static bool give_linear(maker *k, const fore_gguf_tensor *t, const char *prefix, const char *rest) {
    const fore_gguf_model *m = k->m;
    int nv = m->value_heads, per = m->key_heads ? nv / m->key_heads : 0, begin = 2 * m->key_heads * m->key_dim, dv = m->value_dim;
    const struct {
        const char *from, *to;
        bool columns, vector;
        int begin, size;
    } names[] = {
        {"attn_qkv.weight", "in_proj_qkv.weight", false, false, begin, dv},
        {"attn_gate.weight", "in_proj_z.weight", false, false, 0, dv},
        {"ssm_alpha.weight", "in_proj_a.weight", false, false, 0, 1},
        {"ssm_beta.weight", "in_proj_b.weight", false, false, 0, 1},
        {"ssm_out.weight", "out_proj.weight", true, false, 0, dv},
        {"ssm_a", "neg_exp_A", false, true, 0, 1},
        {"ssm_dt.bias", "dt_bias", false, true, 0, 1},
        {"ssm_conv1d.weight", "conv1d.weight", false, true, begin, dv},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(rest, names[i].from)) continue;
        fore_entry *e = give(k, t, "%slinear_attn.%s", prefix, names[i].to);
        const fore_order order = per ? tiles(m, names[i].columns, names[i].begin, names[i].size) : (fore_order){0};
        uint64_t fits = (uint64_t)names[i].begin + (uint64_t)nv * (uint64_t)names[i].size;
        if (is_tiled(m)) names[i].vector ? reorder(k, e, order, fits) : set_order(k, e, order, fits);
        if (e && e->dims == 2 && !strcmp(rest, "ssm_conv1d.weight")) e->shape[e->dims++] = 1;
        return true;
    }
    if (strcmp(rest, "ssm_ba.weight") || !per) return false;
    if (fore_gguf_some_layer(m, "ssm_in.weight")) { /* the whole layer as it was */
        give(k, t, "%slinear_attn.in_proj_ba.weight", prefix);
        return true;
    }
    /* Rows for each key head: b of its value heads, a of its value heads. */
    for (int a = 0; a < 2; a++) {
        fore_entry *e = give(k, t, "%slinear_attn.in_proj_%s.weight", prefix, a ? "a" : "b");
        if (!e || e->dims != 2 || e->shape[0] != 2 * (uint64_t)nv) continue;
        cut_rows(e, a ? (uint64_t)per : 0, (uint64_t)nv);
        set_order(k, e, (fore_order){false, 0, 1, per, 2 * per, 1}, (uint64_t)nv);
    }
    return true;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static fore_status unknown(const maker *k, const fore_gguf_tensor *t) {
    return fore_fail(k->err, FORE_ERR_UNSUPPORTED, "%s: tensor %s is none that models of architecture %s have", k->file->path, t->name,
                     k->m->family->architecture);
}

/* Queries, keys and values of full attention in one tensor. */
static void give_fused(maker *k, const fore_gguf_tensor *t, const char *prefix, const char *end) {
    int64_t heads = 0, hidden = 0, kv = 0, dim = 0;
    if (!k->status) k->status = fore_gguf_arch_int(k->m, "attention.head_count", 1, FORE_CONFIG_HEADS, 1, &heads, k->err);
    if (!k->status) k->status = fore_gguf_arch_int(k->m, "embedding_length", 1, FORE_CONFIG_WIDTH, 1, &hidden, k->err);
    if (!k->status) k->status = fore_gguf_arch_int(k->m, "attention.head_count_kv", 1, FORE_CONFIG_HEADS, heads, &kv, k->err);
    if (!k->status) k->status = fore_gguf_arch_int(k->m, "attention.key_length", 1, FORE_CONFIG_WIDTH, hidden / heads, &dim, k->err);
    if (k->status) return;
    uint64_t rows = t->shape[0], each = (uint64_t)(kv * dim);
    if (t->dims > 2 || rows <= 2 * each) {
        k->status = fore_fail(k->err, FORE_ERR_FORMAT, "%s: tensor %s: expected more than %llu rows of keys and values, found %llu", k->file->path,
                              t->name, (unsigned long long)(2 * each), (unsigned long long)rows);
        return;
    }
    static const char *const parts[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++) {
        fore_entry *e = give(k, t, "%sself_attn.%s_proj%s", prefix, parts[i], end);
        if (e) cut_rows(e, i ? rows - (uint64_t)(3 - i) * each : 0, i ? each : rows - 2 * each);
    }
}

static void give_layer(maker *k, const fore_gguf_tensor *t, int layer, const char *rest) {
    const fore_gguf_model *m = k->m;
    char prefix[64], name[128];
    bool draft = layer >= m->layers;
    if (draft) snprintf(prefix, sizeof prefix, "mtp.layers.%d.", layer - m->layers);
    else snprintf(prefix, sizeof prefix, "%slayers.%d.", text_prefix, layer);
    bool linear = !draft && fore_gguf_layer_tensor(m, layer, "ssm_a");
    bool fused = !strcmp(rest, "ffn_gate_up_exps.weight") || fore_gguf_layer_tensor(m, layer, "ffn_gate_up_exps.weight");
    if (layer >= m->layers + m->draft_layers) {
        k->status = fore_fail(k->err, FORE_ERR_FORMAT, "%s: tensor %s: the model has %d layers", k->file->path, t->name, m->layers + m->draft_layers);
    } else if (linear && give_linear(k, t, prefix, rest)) {
        return;
    } else if (!linear && (!strcmp(rest, "attn_qkv.weight") || !strcmp(rest, "attn_qkv.bias"))) {
        give_fused(k, t, prefix, strrchr(rest, '.'));
    } else if (!strcmp(rest, "ffn_gate_up_exps.weight")) {
        give(k, t, "%smlp.experts.gate_up_proj", prefix);
    } else if (!strcmp(rest, "ffn_down_exps.weight")) {
        give(k, t, "%smlp.%s", prefix, fused ? "experts.down_proj" : "switch_mlp.down_proj.weight");
    } else if (!strcmp(rest, "ffn_gate_inp_shexp.weight")) {
        fore_entry *e = give(k, t, "%smlp.shared_expert_gate.weight", prefix);
        if (e && e->dims == 1) e->shape[1] = e->shape[0], e->shape[0] = 1, e->dims = 2;
    } else if (rename_in(layer_names, rest, name)) {
        give(k, t, "%s%s", prefix, name);
    } else if (layer == m->layers && rename_in(draft_names, rest, name)) {
        give(k, t, "mtp.%s", name);
    } else if (!k->status) {
        k->status = unknown(k, t);
    }
}

static void give_text(maker *k, const fore_gguf_tensor *t, bool head) {
    int layer;
    const char *rest;
    char name[128];
    if (split_number(t->name, "blk.", &layer, &rest)) give_layer(k, t, layer, rest);
    else if (!rename_in(top_names, t->name, name)) k->status = unknown(k, t);
    else if (!head) give(k, t, "%s", name); /* a draft head's own file repeats them */
}

/* ---- vision ------------------------------------------------------------------------------------------------------ */

/* [C,3,S,S] twice to [C,3,2,S,S]. */
static void give_patches(maker *k, const fore_gguf_tensor *t) {
    const fore_gguf_tensor *second = fore_gguf_find(k->file, "v.patch_embd.weight.1");
    bool same = second && t->dims == 4 && second->dims == 4 && second->type == t->type && t->type->block == 1;
    for (int i = 0; same && i < 4; i++) same = second->shape[i] == t->shape[i];
    if (!same) {
        k->status = fore_fail(k->err, FORE_ERR_FORMAT, "%s: expected v.patch_embd.weight and v.patch_embd.weight.1 of one shape with four dimensions, "
                              "in F32, F16 or BF16", k->file->path);
        return;
    }
    size_t planes = (size_t)(t->shape[0] * t->shape[1]), plane = t->bytes / planes;
    fore_entry *e = give(k, t, "%spatch_embed.proj.weight", vision_prefix);
    unsigned char *to = e ? fore_arena_alloc(&k->arena, t->bytes, 2) : NULL;
    if (!to) {
        no_memory(k);
        return;
    }
    for (size_t i = 0; i < planes; i++) {
        memcpy(to + 2 * i * plane, t->data + i * plane, plane);
        memcpy(to + (2 * i + 1) * plane, second->data + i * plane, plane);
    }
    e->data = to;
    e->bytes = 2 * t->bytes;
    e->dims = 5;
    e->shape[4] = e->shape[3];
    e->shape[3] = e->shape[2];
    e->shape[2] = 2;
}

/* The merger behind block `block` is the one of that place in the list. */
static int deepstack_place(const maker *k, int block) {
    const fore_gguf_value *flags = NULL;
    int place = 0;
    if (fore_gguf_array(k->file, "clip.vision.is_deepstack_layers", FORE_GGUF_BOOL, &flags, NULL) || !flags) return 0;
    for (int i = 0; i < block && (uint64_t)i < flags->count; i++) place += fore_gguf_member(flags, (uint64_t)i) != 0;
    return place;
}

/* Queries, keys and values as one tensor: a view of the file where they follow each other, as they do when the converter wrote it. */
static void give_joined(maker *k, const fore_gguf_tensor *q, int block, const char *end) {
    const fore_gguf_tensor *all[3] = {q, NULL, NULL};
    for (int i = 1; i < 3; i++) {
        char name[96];
        snprintf(name, sizeof name, "v.blk.%d.attn_%c.%s", block, "qkv"[i], end);
        const fore_gguf_tensor *t = all[i] = fore_gguf_find(k->file, name);
        if (!t || t->type != q->type || t->dims != q->dims || q->dims > 2 || memcmp(t->shape, q->shape, (size_t)q->dims * sizeof *q->shape)) {
            k->status = fore_fail(k->err, t && t->type != q->type ? FORE_ERR_UNSUPPORTED : FORE_ERR_FORMAT,
                                  "%s: expected v.blk.%d.attn_q.%s, attn_k and attn_v of one type and shape", k->file->path, block, end);
            return;
        }
    }
    fore_entry *e = give(k, q, "%sblocks.%d.attn.qkv.%s", vision_prefix, block, end);
    if (!e) return;
    bool together = all[1]->data == q->data + q->bytes && all[2]->data == all[1]->data + q->bytes;
    unsigned char *to = together ? NULL : fore_arena_alloc(&k->arena, q->bytes, 3);
    if (!together && !to) no_memory(k);
    for (size_t i = 0; to && i < 3; i++) memcpy(to + i * q->bytes, all[i]->data, q->bytes);
    if (to) e->data = to;
    e->shape[0] *= 3;
    e->bytes *= 3;
}

/* A block's tensors; false: it has none of this name. */
static bool give_block(maker *k, const fore_gguf_tensor *t, int block, const char *rest) {
    static const char *const apart[] = {"attn_q.", "attn_k.", "attn_v."};
    const bool windows = k->m->family->windows;
    char name[128];
    for (int i = 0; i < 3 && windows; i++) {
        size_t n = strlen(apart[i]);
        if (strncmp(rest, apart[i], n) || (strcmp(rest + n, "weight") && strcmp(rest + n, "bias"))) continue;
        if (!i) give_joined(k, t, block, rest + n); /* the others go with it */
        return true;
    }
    if (!rename_in(windows ? window_block_names : block_names, rest, name)) return false;
    give(k, t, "%sblocks.%d.%s", vision_prefix, block, name);
    return true;
}

static void give_tower(maker *k, const fore_gguf_tensor *t) {
    int block;
    const char *rest;
    char name[128];
    if (!strcmp(t->name, "v.patch_embd.weight")) give_patches(k, t);
    else if (!strcmp(t->name, "v.patch_embd.weight.1")) return; /* went with the other */
    else if (split_number(t->name, "v.blk.", &block, &rest) && give_block(k, t, block, rest)) return;
    else if (split_number(t->name, "v.deepstack.", &block, &rest) && rename_in(deepstack_names, rest, name))
        give(k, t, "%sdeepstack_merger_list.%d.%s", vision_prefix, deepstack_place(k, block), name);
    else if (rename_in(k->m->family->windows ? window_tower_names : tower_names, t->name, name)) give(k, t, "%s%s", vision_prefix, name);
    else k->status = fore_fail(k->err, FORE_ERR_UNSUPPORTED, "%s: tensor %s is none that towers of this kind have", k->file->path, t->name);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static fore_status make(maker *k, fore_gguf_model *m, fore_store_part *parts, fore_store **out) {
    for (int i = 0; i < m->count; i++) k->capacity += 3 * m->files[i].tensor_count; /* one may come apart in three */
    k->entries = fore_arena_alloc(&k->arena, k->capacity + 1, sizeof *k->entries);
    if (!k->entries) no_memory(k);
    for (int i = 0; i < m->count && !k->status; i++) {
        const fore_gguf *f = k->file = &m->files[i];
        size_t first = k->count;
        k->number = i;
        for (size_t n = 0; n < f->tensor_count && !k->status; n++) {
            if (i == m->tower) give_tower(k, &f->tensors[n]);
            else give_text(k, &f->tensors[n], i == m->head);
        }
        parts[i] = (fore_store_part){fore_arena_copy(&k->arena, f->path, strlen(f->path)), &m->files[i].map, k->entries + first, k->count - first};
        if (!parts[i].path) no_memory(k);
    }
    return k->status ? k->status : fore_store_adopt(&k->arena, parts, m->count, out, k->err);
}

fore_status fore_gguf_store_make(fore_gguf_model *m, fore_store **out, fore_error *err) {
    *out = NULL;
    maker k = {.m = m, .err = err};
    fore_store_part *parts = calloc((size_t)m->count, sizeof *parts);
    fore_status s = parts ? make(&k, m, parts, out) : fore_fail_nomem(err, "the list of tensors");
    free(parts);
    fore_arena_free(&k.arena);
    return s;
}
