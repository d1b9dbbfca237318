/* Which tensor gets what; see quantize_plan.h. Names are those of transformers modeling_qwen3_5.py and
 * modeling_qwen3_5_moe.py, and MLX-LM's of qwen3_5_moe.py for stacked experts. */
#include "forge/quantize_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/quant.h"
#include "model/bind.h"
#include "model/form_list.h"
#include "model/mtp.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef enum region { TEXT, DRAFT, VISION } region;
typedef enum kind {
    OTHER,    /* no matrix of a module: norms, biases, convolutions, A_log, dt_bias */
    LINEAR,   /* [N,K] */
    STACK,    /* [E,N,K] */
    FUSED,    /* experts' gate and up in one, [E,2N,K] */
    DOWN,     /* experts' down beside it, [E,N,K] */
    NUMBERED, /* one expert's [N,K] */
    EMBEDDING,
    HEAD,
    FC,
    SMALL,
    ROUTER,
    SHARED_GATE,
    PATCHES,
    POSITIONS,
} kind;

static const struct leaf {
    const char *name;
    kind kind;
} text_leaves[] = {
    {"self_attn.q_proj.weight", LINEAR},
    {"self_attn.k_proj.weight", LINEAR},
    {"self_attn.v_proj.weight", LINEAR},
    {"self_attn.o_proj.weight", LINEAR},
    {"linear_attn.in_proj_qkv.weight", LINEAR},
    {"linear_attn.in_proj_z.weight", LINEAR},
    {"linear_attn.in_proj_qkvz.weight", LINEAR},
    {"linear_attn.out_proj.weight", LINEAR},
    {"linear_attn.in_proj_a.weight", SMALL},
    {"linear_attn.in_proj_b.weight", SMALL},
    {"linear_attn.in_proj_ba.weight", SMALL},
    {"mlp.gate_proj.weight", LINEAR},
    {"mlp.up_proj.weight", LINEAR},
    {"mlp.down_proj.weight", LINEAR},
    {"mlp.shared_expert.gate_proj.weight", LINEAR},
    {"mlp.shared_expert.up_proj.weight", LINEAR},
    {"mlp.shared_expert.down_proj.weight", LINEAR},
    {"mlp.switch_mlp.gate_proj.weight", STACK},
    {"mlp.switch_mlp.up_proj.weight", STACK},
    {"mlp.switch_mlp.down_proj.weight", STACK},
    {"mlp.experts.gate_up_proj", FUSED},
    {"mlp.experts.down_proj", DOWN},
    {"mlp.gate.weight", ROUTER},
    {"mlp.shared_expert_gate.weight", SHARED_GATE},
    {"embed_tokens.weight", EMBEDDING},
    {"lm_head.weight", HEAD},
}, vision_leaves[] = {
    {"attn.qkv.weight", LINEAR},
    {"attn.proj.weight", LINEAR},
    {"linear_fc1.weight", LINEAR}, /* of blocks and mergers */
    {"linear_fc2.weight", LINEAR},
    {"patch_embed.proj.weight", PATCHES},
    {"pos_embed.weight", POSITIONS},
};

static const char *const vision_prefixes[] = {"model.visual.", "visual.", "vision_tower.", "model.vision_tower."};
static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};

typedef struct maker {
    fore_quantize_plan *plan;
    const fore_config *config;
    const fore_store *store, *sidecar; /* sidecar: NULL when there is none */
    const fore_store *from;            /* the one that is being planned */
    bool *taken;                       /* [entries of `from`] */
    fore_entry *floats;                /* [entries of `from`] those in FP8 as floats; their form is at the same index */
    const fore_form_matrix **forms;
    fore_error *err;
} maker;

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *prefix_of(const char *name, const char *const *prefixes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return prefixes[i];
    return NULL;
}

static region region_of(const char *name) {
    if (prefix_of(name, fore_mtp_prefixes, FORE_MTP_PREFIXES)) return DRAFT;
    return prefix_of(name, vision_prefixes, COUNT(vision_prefixes)) ? VISION : TEXT;
}

bool fore_quantize_is_draft(const char *name) { return region_of(name) == DRAFT; }

/* Whether the name is the leaf, alone or after a dot. */
static bool has_leaf(const char *name, const char *leaf) {
    size_t n = strlen(name), k = strlen(leaf);
    return n >= k && !strcmp(name + n - k, leaf) && (n == k || name[n - k - 1] == '.');
}

/* "PREFIX.mlp.experts.12.up_proj.weight": the length up to and with "mlp.", and which part. */
static bool is_numbered(const char *name, size_t *stem, size_t *part) {
    const char *at = strstr(name, "mlp.experts.");
    if (!at || (at != name && at[-1] != '.')) return false;
    const char *p = at + strlen("mlp.experts.");
    size_t digits = strspn(p, "0123456789");
    if (!digits || p[digits] != '.') return false;
    for (size_t i = 0; i < COUNT(parts); i++) {
        size_t n = strlen(parts[i]);
        if (strncmp(p + digits + 1, parts[i], n) || strcmp(p + digits + 1 + n, ".weight")) continue;
        *stem = (size_t)(at - name) + strlen("mlp.");
        *part = i;
        return true;
    }
    return false;
}

static kind kind_of(const char *name, region r) {
    const struct leaf *leaves = r == VISION ? vision_leaves : text_leaves;
    size_t count = r == VISION ? COUNT(vision_leaves) : COUNT(text_leaves), stem, part;
    for (size_t i = 0; i < count; i++)
        if (has_leaf(name, leaves[i].name)) return leaves[i].kind;
    const char *prefix = r == DRAFT ? prefix_of(name, fore_mtp_prefixes, FORE_MTP_PREFIXES) : NULL;
    if (prefix && !strcmp(name + strlen(prefix), "fc.weight")) return FC;
    return r != VISION && is_numbered(name, &stem, &part) ? NUMBERED : OTHER;
}

fore_status fore_quantize_mlx_path(const char *module, fore_buf *out) {
    static const char inner[] = "model.language_model.", own[] = "language_model.";
    fore_status s = FORE_OK;
    if (!strncmp(module, inner, sizeof inner - 1)) {
        module += sizeof inner - 1;
        s = fore_buf_puts(out, strncmp(module, "mtp.", 4) ? "language_model.model." : own);
    } else if (strncmp(module, own, sizeof own - 1) && region_of(module) != VISION) {
        s = fore_buf_puts(out, own);
    }
    return s ? s : fore_buf_puts(out, module);
}

/* ---- what a matrix gets ------------------------------------------------------------------------------------------ */

/* 4, 8, or 0 with the reason in *why. */
static int bits_of(const maker *m, region r, kind k, const char **why) {
    const fore_quantize_rules *rules = &m->plan->rules;
    int bits = rules->bits;
    *why = NULL;
    switch (k) {
    case SMALL: *why = "two small projections that steer the recurrence"; return 0;
    case ROUTER: *why = "the router"; return 0;
    case SHARED_GATE: *why = "one row"; return 0;
    case PATCHES: *why = "the patch embedding"; return 0;
    case POSITIONS: *why = "the position embedding"; return 0;
    case FC:
        if (rules->mtp_layers_only) {
            *why = "the draft head's fc, by the policy cyankiwi";
            return 0;
        }
        break;
    default: break;
    }
    if (r == DRAFT) bits = rules->mtp_bits;
    else if (r == VISION) bits = rules->vision_bits;
    else if (k == HEAD || (k == EMBEDDING && m->config->text.tie_word_embeddings)) bits = rules->head_bits;
    if (bits != 16) return bits;
    *why = r == DRAFT ? "the draft head, as asked" : r == VISION ? "the vision tower, as asked" : "the output head, as asked";
    return 0;
}

static bool can_quantise(fore_dtype dtype) {
    return dtype == FORE_DTYPE_BF16 || dtype == FORE_DTYPE_F16 || dtype == FORE_DTYPE_F32;
}

static uint64_t output_bytes(const fore_quantize_job *j) {
    if (!j->bits) return j->source_bytes;
    return j->rows * (j->K / 8 * (uint64_t)j->bits + j->K / (uint64_t)j->group * 4);
}

static char *join(fore_arena *arena, const char *a, size_t a_size, const char *b) {
    size_t n = strlen(b);
    char *p = fore_arena_alloc(arena, a_size + n + 1, 1);
    if (!p) return NULL;
    memcpy(p, a, a_size);
    memcpy(p + a_size, b, n + 1);
    return p;
}

static fore_status name_parts(maker *m, fore_quantize_job *j) {
    static const char weight[] = ".weight";
    fore_arena *arena = &m->plan->arena;
    size_t n = strlen(j->name), k = sizeof weight - 1;
    if (n > k && !strcmp(j->name + n - k, weight)) n -= k;
    j->module = fore_arena_copy(arena, j->name, n);
    j->scales = join(arena, j->name, n, ".scales");
    j->biases = join(arena, j->name, n, ".biases");
    return j->module && j->scales && j->biases ? FORE_OK : fore_fail_nomem(m->err, "the plan");
}

/* A matrix: bits as asked, unless its shape or type says otherwise. dims, shape and pieces are set. */
static fore_status decide(maker *m, fore_quantize_job *j, int bits, const char *why) {
    fore_status s = name_parts(m, j);
    if (s) return s;
    int group = m->plan->rules.group;
    j->why = why;
    if (!bits) return FORE_OK;
    if (!can_quantise(j->dtype))
        return fore_fail(m->err, FORE_ERR_UNSUPPORTED, "quantize: %s: a matrix of type %s; supported are F32, F16 and BF16",
                         j->pieces[0].from->name, j->dtype_name);
    if (!j->rows || !j->K || j->K % (uint64_t)group) {
        char text[96];
        snprintf(text, sizeof text, "its rows of %" PRIu64 " are no multiple of the group %d", j->K, group);
        j->why = fore_arena_copy(&m->plan->arena, text, strlen(text));
        return j->why ? FORE_OK : fore_fail_nomem(m->err, "the plan");
    }
    j->affine = j->dtype == FORE_DTYPE_F16 ? FORE_DTYPE_F16 : FORE_DTYPE_BF16;
    size_t unused;
    s = fore_qweight_check(bits, group, 1, j->K > INT64_MAX ? INT64_MAX : (int64_t)j->K, j->affine, &unused, m->err);
    if (s) return fore_fail_prefix(m->err, s, "%s", j->name);
    j->bits = bits;
    j->group = group;
    return FORE_OK;
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

/* The product with the last size was checked when the file was opened; where that is 0, nothing is read. */
static uint64_t rows_of(const fore_entry *e) {
    uint64_t rows = 1;
    for (int d = 0; d + 1 < e->dims; d++) rows *= e->shape[d];
    return rows;
}

static fore_quantize_piece *new_pieces(maker *m, size_t count) {
    fore_quantize_piece *p = fore_arena_alloc(&m->plan->arena, count, sizeof *p);
    if (!p) fore_fail_nomem(m->err, "the plan");
    return p;
}

/* An entry, or the floats that it becomes. */
static const fore_entry *seen(const maker *m, const fore_entry *e) {
    size_t at = (size_t)(e - fore_store_at(m->from, 0));
    return m->forms[at] ? &m->floats[at] : e;
}

/* A job whose tensor has the shape given; its pieces are rows of tensors with the same K and type. */
static fore_quantize_job *add_job(maker *m, const char *name, int dims, const uint64_t *shape, fore_quantize_piece *pieces,
                                  size_t count) {
    fore_quantize_job *j = &m->plan->jobs[m->plan->count++];
    const fore_entry *e = pieces[0].from;
    *j = (fore_quantize_job){.name = name, .dims = dims, .pieces = pieces, .piece_count = count, .dtype = e->dtype,
                             .dtype_name = e->dtype_name, .K = 1};
    for (int i = 0; i < dims; i++) j->shape[i] = shape[i];
    if (dims) j->K = shape[dims - 1];
    for (size_t i = 0; i < count; i++) {
        uintptr_t at = ((uintptr_t)pieces[i].from - (uintptr_t)m->floats) / sizeof *m->floats; /* huge for one of the store's own */
        if (at < fore_store_count(m->from)) pieces[i].form = m->forms[at];
        j->rows += pieces[i].rows;
        uint64_t all = rows_of(pieces[i].from), bytes = pieces[i].from->bytes;
        if (pieces[i].across) j->source_bytes += bytes / all / pieces[i].across * j->K * pieces[i].rows;
        else j->source_bytes += pieces[i].rows == all ? bytes : bytes / all * pieces[i].rows;
    }
    return j;
}

/* One entry, all of it, under its own name or another. */
static fore_quantize_job *add_whole(maker *m, const fore_entry *e, const char *name) {
    fore_quantize_piece *piece = new_pieces(m, 1);
    if (!piece) return NULL;
    *piece = (fore_quantize_piece){.from = e, .rows = rows_of(e)};
    return add_job(m, name, e->dims, e->shape, piece, 1);
}

static fore_status copy_entry(maker *m, const fore_entry *e) {
    return add_whole(m, e, e->name) ? FORE_OK : FORE_ERR_NOMEM;
}

/* "PREFIX.mlp." and "switch_mlp.gate_proj.weight". */
static char *stack_name(maker *m, const char *name, size_t stem, size_t part) {
    char leaf[48];
    snprintf(leaf, sizeof leaf, "switch_mlp.%s.weight", parts[part]);
    char *joined = join(&m->plan->arena, name, stem, leaf);
    if (!joined) fore_fail_nomem(m->err, "the plan");
    return joined;
}

/* Half of every expert's rows of [E,2N,K]: gates come first. */
static fore_status split_half(maker *m, const fore_entry *e, size_t stem, size_t half, int bits, const char *why) {
    uint64_t E = e->shape[0], N = e->shape[1] / 2, shape[3] = {E, N, e->shape[2]};
    fore_quantize_piece *pieces = new_pieces(m, (size_t)E);
    char *name = pieces ? stack_name(m, e->name, stem, half) : NULL;
    if (!name) return FORE_ERR_NOMEM;
    for (uint64_t i = 0; i < E; i++) pieces[i] = (fore_quantize_piece){.from = e, .row = (2 * i + half) * N, .rows = N};
    return decide(m, add_job(m, name, 3, shape, pieces, (size_t)E), bits, why);
}

static fore_status add_fused(maker *m, const fore_entry *e, kind k, int bits, const char *why) {
    size_t stem = strlen(e->name) - strlen(k == FUSED ? "experts.gate_up_proj" : "experts.down_proj");
    if (k == FUSED) {
        fore_status s = split_half(m, e, stem, 0, bits, why);
        return s ? s : split_half(m, e, stem, 1, bits, why);
    }
    char *name = stack_name(m, e->name, stem, 2);
    fore_quantize_job *j = name ? add_whole(m, e, name) : NULL;
    return j ? decide(m, j, bits, why) : FORE_ERR_NOMEM;
}

static const fore_entry *find_expert(const maker *m, const char *name, size_t stem, size_t part, int e) {
    char full[512];
    int n = snprintf(full, sizeof full, "%.*sexperts.%d.%s.weight", (int)stem, name, e, parts[part]);
    return n > 0 && (size_t)n < sizeof full ? fore_store_find(m->from, full) : NULL;
}

/* Whether all experts of a layer are there, each part with one shape and type: only these make a stack. */
static bool can_stack(const maker *m, const char *name, size_t stem, int E) {
    for (size_t part = 0; part < COUNT(parts); part++) {
        const fore_entry *first = find_expert(m, name, stem, part, 0);
        for (int e = 0; e < E; e++) {
            const fore_entry *x = find_expert(m, name, stem, part, e);
            if (!x || x->dims != 2 || x->dtype != first->dtype || strcmp(x->dtype_name, first->dtype_name) ||
                x->shape[0] != first->shape[0] || x->shape[1] != first->shape[1])
                return false;
        }
    }
    return E > 0;
}

static fore_status stack_experts(maker *m, const char *name, size_t stem, int E, int bits, const char *why) {
    const fore_entry *base = fore_store_at(m->from, 0);
    for (size_t part = 0; part < COUNT(parts); part++) {
        fore_quantize_piece *pieces = new_pieces(m, (size_t)E);
        char *stack = pieces ? stack_name(m, name, stem, part) : NULL;
        if (!stack) return FORE_ERR_NOMEM;
        for (int e = 0; e < E; e++) {
            const fore_entry *x = find_expert(m, name, stem, part, e);
            pieces[e] = (fore_quantize_piece){.from = seen(m, x), .rows = x->shape[0]};
            m->taken[x - base] = true;
        }
        const uint64_t shape[3] = {(uint64_t)E, pieces[0].from->shape[0], pieces[0].from->shape[1]};
        fore_status s = decide(m, add_job(m, stack, 3, shape, pieces, (size_t)E), bits, why);
        if (s) return s;
    }
    return FORE_OK;
}

static fore_status refuse_quantised(const maker *m, const fore_entry *e, bool as_floats) {
    static const char *const ends[] = {".scales", ".biases", ".weight_scale", ".weight_scale_inv", ".weight_packed", ".qweight", ".qzeros"};
    bool quantised = !as_floats && fore_forms_own(m->from, e);
    for (size_t i = 0; i < COUNT(ends); i++) quantised = quantised || fore_name_ends_with(e->name, ends[i]);
    if (!quantised) return FORE_OK;
    return fore_fail(m->err, FORE_ERR_UNSUPPORTED, "quantize: the source is quantised already: it has %s; give the checkpoint that it "
                     "was made from", e->name);
}

static bool is_shaped(const fore_entry *e, int a, int b, int c) {
    return e && e->dims == 3 && e->shape[0] == (uint64_t)a && e->shape[1] == (uint64_t)b && e->shape[2] == (uint64_t)c;
}

/* Fused experts of which both tensors are transposed, as the files of Qwen3-VL have them: their last axis is not the one along
 * which weights are summed. */
static bool is_transposed(const maker *m, const fore_entry *e, kind k) {
    static const char up[] = "experts.gate_up_proj", down[] = "experts.down_proj";
    const fore_text_config *t = &m->config->text;
    char name[512];
    int stem = (int)(strlen(e->name) - strlen(k == FUSED ? up : down));
    int n = snprintf(name, sizeof name, "%.*s%s", stem, e->name, k == FUSED ? down : up);
    const fore_entry *other = n > 0 && (size_t)n < sizeof name ? fore_store_find(m->from, name) : NULL;
    const fore_entry *gate_up = k == FUSED ? e : other, *back = k == FUSED ? other : e;
    return is_shaped(gate_up, t->num_experts, t->hidden_size, 2 * t->moe_intermediate_size) &&
           is_shaped(back, t->num_experts, t->moe_intermediate_size, t->hidden_size);
}

/* Columns column .. column+N-1 of every expert's matrix [K,across], as rows of a stack. */
static fore_status turn_part(maker *m, const fore_entry *e, size_t stem, size_t part, uint64_t column, uint64_t N, int bits,
                             const char *why) {
    uint64_t E = e->shape[0], K = e->shape[1], across = e->shape[2], shape[3] = {E, N, K};
    fore_quantize_piece *pieces = new_pieces(m, (size_t)E);
    char *name = pieces ? stack_name(m, e->name, stem, part) : NULL;
    if (!name) return FORE_ERR_NOMEM;
    for (uint64_t i = 0; i < E; i++)
        pieces[i] = (fore_quantize_piece){.from = e, .row = column, .rows = N, .across = across, .skip = i * K * across};
    return decide(m, add_job(m, name, 3, shape, pieces, (size_t)E), bits, why);
}

static fore_status add_transposed(maker *m, const fore_entry *e, kind k, int bits, const char *why) {
    size_t stem = strlen(e->name) - strlen(k == FUSED ? "experts.gate_up_proj" : "experts.down_proj");
    uint64_t N = k == FUSED ? e->shape[2] / 2 : e->shape[2];
    fore_status s = turn_part(m, e, stem, k == FUSED ? 0 : 2, 0, N, bits, why);
    return s || k != FUSED ? s : turn_part(m, e, stem, 1, N, N, bits, why);
}

/* Fills in what FP8 weights become, and marks the tensors that belong to them. */
static fore_status see_forms(maker *m) {
    for (size_t i = 0; i < fore_store_count(m->from); i++) {
        const fore_entry *e = fore_store_at(m->from, i);
        if (!fore_form_fp8.recognise(m->from, e)) continue;
        fore_form_matrix *form = fore_arena_alloc(&m->plan->arena, 1, sizeof *form);
        if (!form) return fore_fail_nomem(m->err, "the plan");
        fore_status s = fore_forms_read(m->from, e, &m->config->stored, form, m->err);
        if (s) return fore_fail_prefix(m->err, s, "quantize");
        m->forms[i] = form;
        m->floats[i] = *e;
        m->floats[i].dtype = form->dtype;
        m->floats[i].dtype_name = form->dtype == FORE_DTYPE_F32 ? "F32" : form->dtype == FORE_DTYPE_F16 ? "F16" : "BF16";
        m->floats[i].bytes = e->bytes * fore_dtype_size(form->dtype);
        m->floats[i].data = NULL;
        const fore_entry *const others[] = {form->part[1], fore_form_find(m->from, e, "input_scale"), fore_form_find(m->from, e, "activation_scale")};
        for (size_t k = 0; k < COUNT(others); k++)
            if (others[k]) m->taken[others[k] - fore_store_at(m->from, 0)] = true;
    }
    return FORE_OK;
}

static fore_status plan_entry(maker *m, const fore_entry *stored) {
    const fore_entry *e = seen(m, stored);
    region r = region_of(e->name);
    kind k = kind_of(e->name, r);
    const char *why;
    fore_status s = refuse_quantised(m, e, e != stored);
    if (s || k == OTHER) return s ? s : copy_entry(m, e);
    int bits = bits_of(m, r, k, &why);
    bool experts = k == FUSED || k == DOWN || k == NUMBERED;
    bool fused = k == FUSED || k == DOWN;
    if (fused && bits && e != stored && is_transposed(m, e, k))
        return fore_fail(m->err, FORE_ERR_UNSUPPORTED, "quantize: %s: transposed experts in FP8; give the BF16 checkpoint", e->name);
    if (fused && bits && is_transposed(m, e, k)) return add_transposed(m, e, k, bits, why);
    int E = m->config->text.num_experts, want = k == STACK || fused ? 3 : 2;
    if (e->dims != want || (fused && (e->shape[0] != (uint64_t)E || !e->bytes)) || (k == FUSED && e->shape[1] % 2) ||
        (experts && !bits)) {
        /* Of another shape than the model has it, or left in the layout that it came in. */
        fore_quantize_job *j = add_whole(m, e, e->name);
        return j ? decide(m, j, 0, why ? why : "not a matrix of the expected shape") : FORE_ERR_NOMEM;
    }
    if (fused) return add_fused(m, e, k, bits, why);
    size_t stem, part;
    if (k == NUMBERED && is_numbered(e->name, &stem, &part) && can_stack(m, e->name, stem, E))
        return stack_experts(m, e->name, stem, E, bits, why);
    fore_quantize_job *j = add_whole(m, e, e->name);
    return j ? decide(m, j, bits, why) : FORE_ERR_NOMEM;
}

/* Of what the store and the sidecar both have, the draft head is taken from the sidecar and the rest from the store. */
static bool is_elsewhere(const maker *m, const fore_entry *e) {
    bool draft = region_of(e->name) == DRAFT;
    if (m->from == m->store) return draft && m->sidecar && fore_store_find(m->sidecar, e->name);
    return !draft && fore_store_find(m->store, e->name);
}

static fore_status plan_store(maker *m, const fore_store *from) {
    size_t count = fore_store_count(from);
    m->from = from;
    m->taken = fore_arena_alloc(&m->plan->arena, count + 1, sizeof *m->taken);
    m->floats = fore_arena_alloc(&m->plan->arena, count + 1, sizeof *m->floats);
    m->forms = fore_arena_alloc(&m->plan->arena, count + 1, sizeof *m->forms);
    if (!m->taken || !m->floats || !m->forms) return fore_fail_nomem(m->err, "the plan");
    fore_status status = see_forms(m);
    if (status) return status;
    for (size_t i = 0; i < count; i++) {
        const fore_entry *e = fore_store_at(from, i);
        if (m->taken[i] || is_elsewhere(m, e)) continue;
        fore_status s = plan_entry(m, e);
        if (s) return s;
    }
    return FORE_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Cuts jobs first..end into files of at most the limit, in order. */
static void cut(fore_quantize_plan *p, size_t first, size_t end, uint64_t limit, const char *name, bool sidecar) {
    for (size_t i = first; i < end; i++) {
        fore_quantize_job *j = &p->jobs[i];
        uint64_t bytes = output_bytes(j);
        uint64_t used = i > first ? p->files[p->file_count - 1].bytes : 0;
        if (i == first || used >= limit || bytes > limit - used)
            p->files[p->file_count++] = (fore_quantize_file){.name = name, .sidecar = sidecar, .first = i};
        fore_quantize_file *f = &p->files[p->file_count - 1];
        j->file = p->file_count - 1;
        f->count++;
        f->bytes += bytes;
        f->source_bytes += j->source_bytes;
        p->bytes += bytes;
        p->source_bytes += j->source_bytes;
    }
}

static fore_status name_files(fore_quantize_plan *p, size_t shards, fore_error *err) {
    for (size_t i = 0; i < shards; i++) {
        char name[64];
        if (shards == 1) snprintf(name, sizeof name, "model.safetensors");
        else snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards);
        p->files[i].name = fore_arena_copy(&p->arena, name, strlen(name));
        if (!p->files[i].name) return fore_fail_nomem(err, "the plan");
    }
    return FORE_OK;
}

fore_status fore_quantize_plan_make(const fore_config *config, const fore_store *store, const fore_store *sidecar,
                                    const char *sidecar_name, const fore_quantize_rules *rules, fore_quantize_plan *out,
                                    fore_error *err) {
    *out = (fore_quantize_plan){.rules = *rules};
    maker m = {.plan = out, .config = config, .store = store, .sidecar = sidecar, .err = err};
    /* A fused tensor becomes two; a stack of numbered ones takes its parts' places. */
    size_t most = 2 * (fore_store_count(store) + (sidecar ? fore_store_count(sidecar) : 0)) + 1;
    out->jobs = fore_arena_alloc(&out->arena, most, sizeof *out->jobs);
    out->files = fore_arena_alloc(&out->arena, most, sizeof *out->files);
    fore_status s = out->jobs && out->files ? FORE_OK : fore_fail_nomem(err, "the plan");
    if (!s) s = plan_store(&m, store);
    size_t own = out->count;
    if (!s && sidecar) s = plan_store(&m, sidecar);
    if (!s) {
        cut(out, 0, own, rules->shard_bytes, NULL, false);
        size_t shards = out->file_count;
        cut(out, own, out->count, UINT64_MAX, sidecar_name, true);
        s = name_files(out, shards, err);
    }
    if (s) fore_quantize_plan_free(out);
    return s;
}

void fore_quantize_plan_free(fore_quantize_plan *plan) {
    fore_arena_free(&plan->arena);
    *plan = (fore_quantize_plan){0};
}

void fore_quantize_plan_items(const fore_quantize_plan *plan, const fore_quantize_file *file, fore_safetensors_item *items,
                              size_t *count) {
    size_t n = 0;
    for (size_t i = file->first; i < file->first + file->count; i++) {
        const fore_quantize_job *j = &plan->jobs[i];
        fore_safetensors_item it = {.name = j->name, .dtype = j->dtype_name, .dims = j->dims, .user = j};
        memcpy(it.shape, j->shape, sizeof it.shape);
        if (!j->bits) {
            items[n++] = it;
            continue;
        }
        it.dtype = "U32";
        it.shape[j->dims - 1] = j->K / 32 * (uint64_t)j->bits;
        items[n++] = it;
        it.dtype = j->affine == FORE_DTYPE_F16 ? "F16" : "BF16";
        it.shape[j->dims - 1] = j->K / (uint64_t)j->group;
        it.name = j->scales;
        items[n++] = it;
        it.name = j->biases;
        items[n++] = it;
    }
    *count = n;
}
