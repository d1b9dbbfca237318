/* Binding the mixture of experts of a layer, in each layout that checkpoints have; see fore_bind_moe. */
#include <stdio.h>

#include "model/weights.h"

typedef struct moe_shape {
    int E, I, C;
} moe_shape;

static void bind_fused(fore_binder *b, moe_shape s, fore_layer *l, int i) {
    fore_bind_slices(b, &l->expert_gate, s.E, 2 * s.I, 0, s.I, s.C, "layers.%d.mlp.experts.gate_up_proj", i);
    fore_bind_slices(b, &l->expert_up, s.E, 2 * s.I, s.I, s.I, s.C, "layers.%d.mlp.experts.gate_up_proj", i);
    fore_bind_slices(b, &l->expert_down, s.E, s.C, 0, s.C, s.I, "layers.%d.mlp.experts.down_proj", i);
}

static bool is_shaped(const fore_entry *e, int a, int b, int c) {
    return e && e->dims == 3 && e->shape[0] == (uint64_t)a && e->shape[1] == (uint64_t)b && e->shape[2] == (uint64_t)c;
}

/* The files of Qwen3-VL have both tensors transposed. One of the two may be square, never both: together they tell. */
static bool is_transposed(const fore_binder *b, moe_shape s, int i) {
    return is_shaped(fore_bind_find(b, "layers.%d.mlp.experts.gate_up_proj", i), s.E, s.C, 2 * s.I) &&
           is_shaped(fore_bind_find(b, "layers.%d.mlp.experts.down_proj", i), s.E, s.I, s.C);
}

static void bind_transposed(fore_binder *b, moe_shape s, fore_layer *l, int i) {
    fore_bind_columns(b, &l->expert_gate, s.E, s.C, 2 * s.I, 0, s.I, "layers.%d.mlp.experts.gate_up_proj", i);
    fore_bind_columns(b, &l->expert_up, s.E, s.C, 2 * s.I, s.I, s.I, "layers.%d.mlp.experts.gate_up_proj", i);
    fore_bind_columns(b, &l->expert_down, s.E, s.I, s.C, 0, s.C, "layers.%d.mlp.experts.down_proj", i);
}

static void bind_stacked(fore_binder *b, moe_shape s, fore_layer *l, int i) {
    fore_bind_slices(b, &l->expert_gate, s.E, s.I, 0, s.I, s.C, "layers.%d.mlp.switch_mlp.gate_proj.weight", i);
    fore_bind_slices(b, &l->expert_up, s.E, s.I, 0, s.I, s.C, "layers.%d.mlp.switch_mlp.up_proj.weight", i);
    fore_bind_slices(b, &l->expert_down, s.E, s.C, 0, s.C, s.I, "layers.%d.mlp.switch_mlp.down_proj.weight", i);
}

static const char *const PARTS[] = {"gate_proj", "up_proj", "down_proj"};
enum { PART_COUNT = 3, LISTED = 8 };

/* All tensors that a numbered layer lacks, in one message. */
static void check_complete(fore_binder *b, int E, int i) {
    char list[256] = "";
    size_t used = 0;
    int missing = 0;
    for (int e = 0; e < E; e++)
        for (int k = 0; k < PART_COUNT; k++) {
            if (fore_bind_find(b, "layers.%d.mlp.experts.%d.%s.weight", i, e, PARTS[k])) continue;
            if (missing++ < LISTED)
                used += (size_t)snprintf(list + used, sizeof list - used, "%s%d.%s.weight", used ? ", " : "", e, PARTS[k]);
        }
    if (!missing) return;
    b->status = fore_fail(b->err, FORE_ERR_FORMAT, "weights: %slayers.%d.mlp.experts: %d of %d tensors missing: %s%s; the checkpoint "
                          "is incomplete", b->prefix, i, missing, E * PART_COUNT, list, missing > LISTED ? ", ..." : "");
}

static void bind_numbered(fore_binder *b, moe_shape s, fore_layer *l, int i) {
    check_complete(b, s.E, i);
    fore_experts *const kinds[] = {&l->expert_gate, &l->expert_up, &l->expert_down};
    for (int k = 0; k < PART_COUNT && !b->status; k++) {
        fore_weight *each = fore_arena_alloc(b->arena, (size_t)s.E, sizeof *each);
        if (!each) {
            b->status = fore_fail_nomem(b->err, "the table of experts");
            return;
        }
        bool down = k == PART_COUNT - 1;
        for (int e = 0; e < s.E && !b->status; e++)
            fore_bind_matrix(b, &each[e], down ? s.C : s.I, down ? s.I : s.C, "layers.%d.mlp.experts.%d.%s.weight", i, e, PARTS[k]);
        kinds[k]->each = each;
    }
}

static bool is_numbered(const fore_binder *b, int E, int i) {
    for (int e = 0; e < E; e++)
        for (int k = 0; k < PART_COUNT; k++)
            if (fore_bind_find(b, "layers.%d.mlp.experts.%d.%s.weight", i, e, PARTS[k])) return true;
    return false;
}

void fore_bind_moe(fore_binder *b, const fore_text_config *t, fore_layer *l, int i) {
    const moe_shape s = {t->num_experts, t->moe_intermediate_size, t->hidden_size};
    int F = t->shared_expert_intermediate_size;
    l->moe = true;
    l->number = i;
    fore_bind_matrix(b, &l->router, s.E, s.C, "layers.%d.mlp.gate.weight", i);
    if (F) {
        fore_bind_matrix(b, &l->shared_gate, 1, s.C, "layers.%d.mlp.shared_expert_gate.weight", i);
        fore_bind_matrix(b, &l->gate_proj, F, s.C, "layers.%d.mlp.shared_expert.gate_proj.weight", i);
        fore_bind_matrix(b, &l->up_proj, F, s.C, "layers.%d.mlp.shared_expert.up_proj.weight", i);
        fore_bind_matrix(b, &l->down_proj, s.C, F, "layers.%d.mlp.shared_expert.down_proj.weight", i);
    }
    if (b->status) return;
    if (is_transposed(b, s, i)) bind_transposed(b, s, l, i);
    else if (fore_bind_find(b, "layers.%d.mlp.experts.gate_up_proj", i) || fore_bind_find(b, "layers.%d.mlp.experts.down_proj", i))
        bind_fused(b, s, l, i);
    else if (fore_bind_find(b, "layers.%d.mlp.switch_mlp.gate_proj.weight", i)) bind_stacked(b, s, l, i);
    else if (is_numbered(b, s.E, i)) bind_numbered(b, s, l, i);
    else
        b->status = fore_fail(b->err, FORE_ERR_FORMAT, "weights: %slayers.%d.mlp.experts: none found (looked for "
                              "experts.gate_up_proj, experts.0.gate_proj.weight and switch_mlp.gate_proj.weight); the checkpoint is "
                              "incomplete or of another layout", b->prefix, i);
}
