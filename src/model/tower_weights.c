/* Binding the vision tower's tensors; see weights.h. */
#include "model/weights.h"

#include <stdio.h>
#include <string.h>

/* The convolution over patches as a matrix [C, channels*frames*side*side]. MLX's conversions have the channels last: those are
 * put in order, widened. */
static void bind_patches(fore_binder *b, const fore_vision_config *v, fore_weight *out) {
    uint64_t C = (uint64_t)v->hidden_size, I = (uint64_t)v->in_channels, T = (uint64_t)v->temporal_patch_size, S = (uint64_t)v->patch_size;
    const uint64_t shape[5] = {C, I, T, S, S}, mlx[5] = {C, T, S, S, I};
    int inputs = v->in_channels * v->temporal_patch_size * v->patch_size * v->patch_size;
    const fore_entry *e = fore_bind_find(b, "patch_embed.proj.weight");
    if (!e || e->dims != 5 || memcmp(e->shape, mlx, sizeof mlx) || memcmp(shape, mlx, sizeof mlx) == 0) {
        fore_bind_shape(b, out, v->hidden_size, inputs, 5, shape, "patch_embed.proj.weight");
        return;
    }
    uint64_t places = T * S * S, n = (uint64_t)inputs;
    const float *from = fore_bind_floats(b, 5, mlx, "patch_embed.proj.weight");
    float *to = from ? fore_arena_alloc(b->arena, C * n, sizeof *to) : NULL;
    if (from && !to) b->status = fore_fail_nomem(b->err, "the patch embedding");
    for (uint64_t c = 0; to && c < C; c++)
        for (uint64_t i = 0; i < I; i++)
            for (uint64_t p = 0; p < places; p++) to[c * n + i * places + p] = from[c * n + p * I + i];
    *out = (fore_weight){.data = to, .dtype = FORE_DTYPE_F32, .N = v->hidden_size, .K = inputs};
}

/* Parts of a merger by the names that both kinds of towers give them. */
static void bind_merger(fore_binder *b, const fore_vision_config *v, fore_merger *m, bool wide, const char *name) {
    int C = v->hidden_size, merged = C * v->spatial_merge_size * v->spatial_merge_size, out = v->out_hidden_size;
    const char *norm = v->gated ? "ln_q" : "norm", *fc1 = v->gated ? "mlp.0" : "linear_fc1", *fc2 = v->gated ? "mlp.2" : "linear_fc2";
    m->wide = wide;
    fore_bind_vector(b, &m->norm_w, wide ? merged : C, 0, "%s.%s.weight", name, norm);
    if (!v->gated) fore_bind_vector(b, &m->norm_b, wide ? merged : C, 0, "%s.%s.bias", name, norm);
    fore_bind_matrix(b, &m->fc1, merged, merged, "%s.%s.weight", name, fc1);
    fore_bind_vector(b, &m->fc1_b, merged, 0, "%s.%s.bias", name, fc1);
    fore_bind_matrix(b, &m->fc2, out, merged, "%s.%s.weight", name, fc2);
    fore_bind_vector(b, &m->fc2_b, out, 0, "%s.%s.bias", name, fc2);
}

static void bind_block(fore_binder *b, const fore_vision_config *v, fore_tower_block *k, int i) {
    int C = v->hidden_size, F = v->intermediate_size;
    const char *fc1 = v->gated ? "gate_proj" : "linear_fc1", *fc2 = v->gated ? "down_proj" : "linear_fc2";
    fore_bind_vector(b, &k->norm1_w, C, 0, "blocks.%d.norm1.weight", i);
    fore_bind_vector(b, &k->norm2_w, C, 0, "blocks.%d.norm2.weight", i);
    if (!v->gated) {
        fore_bind_vector(b, &k->norm1_b, C, 0, "blocks.%d.norm1.bias", i);
        fore_bind_vector(b, &k->norm2_b, C, 0, "blocks.%d.norm2.bias", i);
    }
    fore_bind_matrix(b, &k->qkv, 3 * C, C, "blocks.%d.attn.qkv.weight", i);
    fore_bind_vector(b, &k->qkv_b, 3 * C, 0, "blocks.%d.attn.qkv.bias", i);
    fore_bind_matrix(b, &k->proj, C, C, "blocks.%d.attn.proj.weight", i);
    fore_bind_vector(b, &k->proj_b, C, 0, "blocks.%d.attn.proj.bias", i);
    fore_bind_matrix(b, &k->fc1, F, C, "blocks.%d.mlp.%s.weight", i, fc1);
    fore_bind_vector(b, &k->fc1_b, F, 0, "blocks.%d.mlp.%s.bias", i, fc1);
    if (v->gated) {
        fore_bind_matrix(b, &k->up, F, C, "blocks.%d.mlp.up_proj.weight", i);
        fore_bind_vector(b, &k->up_b, F, 0, "blocks.%d.mlp.up_proj.bias", i);
    }
    fore_bind_matrix(b, &k->fc2, C, F, "blocks.%d.mlp.%s.weight", i, fc2);
    fore_bind_vector(b, &k->fc2_b, C, 0, "blocks.%d.mlp.%s.bias", i, fc2);
}

fore_status fore_tower_bind(fore_network *n, const char *prefix, fore_error *err) {
    const fore_vision_config *v = &n->config.vision;
    fore_tower *w = &n->tower;
    int C = v->hidden_size, out = v->out_hidden_size;
    if (out != n->config.text.hidden_size)
        return fore_fail(err, FORE_ERR_FORMAT, "config: vision_config.out_hidden_size is %d, the text model's hidden_size is %d", out,
                         n->config.text.hidden_size);
    int side = 0;
    while ((side + 1) * (side + 1) <= v->num_position_embeddings) side++;
    if (side * side != v->num_position_embeddings)
        return fore_fail(err, FORE_ERR_FORMAT, "config: vision_config.num_position_embeddings is %d, expected a square number",
                         v->num_position_embeddings);
    if (C % v->num_heads || C / v->num_heads % 4)
        return fore_fail(err, FORE_ERR_FORMAT, "config: vision_config.hidden_size %d does not divide into %d heads of a multiple of 4", C,
                         v->num_heads);
    w->side = side;
    w->blocks = fore_arena_alloc(&n->arena, (size_t)v->depth, sizeof *w->blocks);
    w->deepstack = fore_arena_alloc(&n->arena, (size_t)v->deepstack_count + 1, sizeof *w->deepstack);
    if (!w->blocks || !w->deepstack) return fore_fail_nomem(err, "the vision block table");
    uint64_t before = n->panels.parameters;
    fore_binder b = {n->store, &n->arena, &n->panels, n->kern, prefix, err, FORE_OK, NULL, 0};
    bind_patches(&b, v, &w->patch_embed);
    if (!v->gated) fore_bind_vector(&b, &w->patch_b, C, 0, "patch_embed.proj.bias");
    if (side) fore_bind_matrix(&b, &w->pos_embed, v->num_position_embeddings, C, "pos_embed.weight");
    for (int i = 0; i < v->depth && !b.status; i++) bind_block(&b, v, &w->blocks[i], i);
    bind_merger(&b, v, &w->merger, false, "merger");
    for (int i = 0; i < v->deepstack_count && !b.status; i++) {
        char name[40];
        snprintf(name, sizeof name, "deepstack_merger_list.%d", i);
        bind_merger(&b, v, &w->deepstack[i], true, name);
    }
    w->quantised = n->panels.parameters > before;
    return b.status;
}
