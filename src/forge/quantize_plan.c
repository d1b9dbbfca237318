/* Which tensor gets what; see quantize_plan.h. */
#include "forge/quantize_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "forge/quantize_seen.h"
#include "kernels/quant.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef struct maker {
    fore_quantize_plan *plan;
    const fore_config *config;
    const fore_store *store, *sidecar; /* sidecar: NULL when there is none */
    fore_seen seen[2];
    bool integers;                     /* some matrix of the first is in integers */
    const char *what;                  /* for messages: which work this is */
    const fore_seen *from;             /* the one that is being planned */
    bool *taken;                       /* [entries of `from`] */
    fore_error *err;
} maker;

/* ---- what a matrix gets ------------------------------------------------------------------------------------------ */

enum { LEFT = 0, UNSAID = -1 }; /* instead of bits */

/* 4, 8, LEFT with the reason in *why, or UNSAID. */
static int bits_said(const maker *m, fore_name_region r, fore_name_kind k, const char **why) {
    const fore_quantize_rules *rules = &m->plan->rules;
    int bits = 0;
    *why = NULL;
    switch (k) {
    case FORE_NAME_SMALL: *why = "two small projections that steer the recurrence"; return LEFT;
    case FORE_NAME_ROUTER: *why = "the router"; return LEFT;
    case FORE_NAME_SHARED_GATE: *why = "one row"; return LEFT;
    case FORE_NAME_PATCHES: *why = "the patch embedding"; return LEFT;
    case FORE_NAME_POSITIONS: *why = "the position embedding"; return LEFT;
    case FORE_NAME_FC:
        if (rules->mtp_layers_only) {
            *why = "the draft head's fc, by the policy cyankiwi";
            return LEFT;
        }
        break;
    default: break;
    }
    if (r == FORE_NAME_DRAFT) bits = rules->mtp_bits;
    else if (r == FORE_NAME_VISION) bits = rules->vision_bits;
    else if (k == FORE_NAME_HEAD || (k == FORE_NAME_EMBEDDING && m->config->text.tie_word_embeddings)) bits = rules->head_bits;
    if (!bits) bits = rules->bits;
    if (!bits) return UNSAID;
    if (bits != 16) return bits;
    *why = r == FORE_NAME_DRAFT ? "the draft head, as asked" : r == FORE_NAME_VISION ? "the vision tower, as asked" : "the output head, as asked";
    return LEFT;
}

/* What becomes of a matrix, should its rows allow it. */
typedef struct settled {
    int bits, group; /* 0: floats */
    bool exact;      /* its own integers */
    const char *why;
} settled;

static settled settle_exact(const fore_form_matrix *form) { return (settled){fore_seen_width(form), form->group, true, NULL}; }

static settled settle(const maker *m, fore_name_region r, fore_name_kind k, const fore_form_matrix *form) {
    const fore_quantize_rules *rules = &m->plan->rules;
    settled out = {.group = rules->group};
    int bits = bits_said(m, r, k, &out.why);
    if (bits > 0) {
        out.bits = bits;
        return out;
    }
    if (fore_seen_width(form)) return settle_exact(form);
    bool fp8 = fore_seen_is_fp8(form), unfit = form && !fp8 && !fore_seen_is_floats(form);
    if (rules->exact) {
        if (!out.why) out.why = unfit ? "no group of neighbours holds its integers" : fp8 ? "FP8" : "floats";
    } else if (unfit) { /* experts of a layer have one group: that of the files, where it is one */
        out.bits = FORE_QUANTIZE_UNFIT_BITS;
        out.why = NULL;
        bool usual = form->file_group == 32 || form->file_group == 64 || form->file_group == 128;
        if (usual || form->file_group == 16) out.group = usual ? form->file_group : 32;
    } else if (bits == UNSAID) {
        out.bits = !m->integers ? FORE_QUANTIZE_BITS : fp8 ? FORE_QUANTIZE_UNFIT_BITS : 0;
        if (!out.bits) out.why = "floats among matrices of integers";
    }
    if (!out.bits) out.group = 0;
    return out;
}

static bool can_quantise(fore_dtype dtype) {
    return dtype == FORE_DTYPE_BF16 || dtype == FORE_DTYPE_F16 || dtype == FORE_DTYPE_F32;
}

static uint64_t output_bytes(const fore_quantize_job *j) {
    if (!j->bits) return j->source_bytes;
    return j->rows * (j->K / 8 * (uint64_t)j->bits + j->K / (uint64_t)j->group * 2 * fore_dtype_size(j->affine)) +
           (j->order ? j->K * sizeof *j->order : 0);
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

/* A matrix: as settled, unless its shape or type says otherwise. dims, shape and pieces are set. */
static fore_status decide(maker *m, fore_quantize_job *j, settled as) {
    fore_status s = name_parts(m, j);
    if (s) return s;
    const fore_form_matrix *form = j->pieces[0].form;
    if ((as.bits || m->plan->rules.any_form) && !as.exact && !can_quantise(j->dtype))
        return fore_fail(m->err, FORE_ERR_UNSUPPORTED, "%s: %s: a matrix of type %s; supported are F32, F16 and BF16%s", m->what,
                         j->pieces[0].from->name, j->dtype_name, m->plan->rules.any_form ? ", and the forms that open" : "");
    bool fits = j->rows && j->K && (!as.bits || j->K % (uint64_t)as.group == 0);
    if (as.bits && !fits && fore_seen_width(form)) as = settle_exact(form); /* rather than floats */
    j->why = as.why;
    if (!as.bits) return FORE_OK;
    if (!fits && !as.exact) {
        char text[96];
        snprintf(text, sizeof text, "its rows of %" PRIu64 " are no multiple of the group %d", j->K, as.group);
        j->why = fore_arena_copy(&m->plan->arena, text, strlen(text));
        return j->why ? FORE_OK : fore_fail_nomem(m->err, "the plan");
    }
    j->bits = as.bits;
    j->group = as.group;
    j->exact = as.exact;
    if (as.exact) {
        j->affine = fore_seen_affine(form);
        j->order = form->order;
        if (j->order) j->order_name = join(&m->plan->arena, j->module, strlen(j->module), ".input_order");
        return !j->order || j->order_name ? FORE_OK : fore_fail_nomem(m->err, "the plan");
    }
    j->affine = (form && form->bits ? form->dtype : j->dtype) == FORE_DTYPE_F16 ? FORE_DTYPE_F16 : FORE_DTYPE_BF16;
    size_t unused;
    s = fore_qweight_check(as.bits, as.group, 1, j->K > INT64_MAX ? INT64_MAX : (int64_t)j->K, j->affine, &unused, m->err);
    return s ? fore_fail_prefix(m->err, s, "%s", j->name) : FORE_OK;
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

/* Whether a tensor's bytes are those of its file: some of GGUF files are put in order in memory. */
static bool is_mapped(const fore_seen *from, const fore_entry *e) {
    const fore_map *map = fore_store_file_map(from->store, e->file);
    uintptr_t at = (uintptr_t)e->data, begin = map ? (uintptr_t)map->data : 0;
    return map && at >= begin && at - begin < map->size;
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
        pieces[i].mapped = is_mapped(m->from, pieces[i].form ? pieces[i].form->part[0] : pieces[i].from);
        j->rows += pieces[i].rows;
        uint64_t all = rows_of(pieces[i].from), bytes = pieces[i].from->bytes;
        if (pieces[i].across) j->source_bytes += bytes / all / pieces[i].across * j->K * pieces[i].rows;
        else j->source_bytes += pieces[i].rows == all ? bytes : bytes / all * pieces[i].rows;
    }
    return j;
}

/* One entry, all of it, under its own name or another. */
static fore_quantize_job *add_whole(maker *m, const fore_entry *e, const fore_form_matrix *form, const char *name) {
    fore_quantize_piece *piece = new_pieces(m, 1);
    if (!piece) return NULL;
    *piece = (fore_quantize_piece){.from = e, .form = form, .rows = rows_of(e)};
    return add_job(m, name, e->dims, e->shape, piece, 1);
}

static fore_status add_as_is(maker *m, const fore_entry *e, const fore_form_matrix *form, settled as) {
    fore_quantize_job *j = add_whole(m, e, form, e->name);
    return j ? decide(m, j, as) : FORE_ERR_NOMEM;
}

/* "PREFIX.mlp." and "switch_mlp.gate_proj.weight". */
static char *stack_name(maker *m, const char *name, size_t stem, size_t part) {
    char leaf[48];
    snprintf(leaf, sizeof leaf, "switch_mlp.%s.weight", fore_name_parts[part]);
    char *joined = join(&m->plan->arena, name, stem, leaf);
    if (!joined) fore_fail_nomem(m->err, "the plan");
    return joined;
}

/* Half of every expert's rows of [E,2N,K]: gates come first. */
static fore_status split_half(maker *m, const fore_entry *e, const fore_form_matrix *form, size_t half, settled as) {
    uint64_t E = e->shape[0], N = e->shape[1] / 2, shape[3] = {E, N, e->shape[2]};
    fore_quantize_piece *pieces = new_pieces(m, (size_t)E);
    char *name = pieces ? stack_name(m, e->name, fore_name_fused_stem(e->name, FORE_NAME_FUSED), half) : NULL;
    if (!name) return FORE_ERR_NOMEM;
    for (uint64_t i = 0; i < E; i++) pieces[i] = (fore_quantize_piece){.from = e, .form = form, .row = (2 * i + half) * N, .rows = N};
    return decide(m, add_job(m, name, 3, shape, pieces, (size_t)E), as);
}

static fore_status add_fused(maker *m, const fore_entry *e, const fore_form_matrix *form, fore_name_kind k, settled as) {
    if (k == FORE_NAME_FUSED) {
        fore_status s = split_half(m, e, form, 0, as);
        return s ? s : split_half(m, e, form, 1, as);
    }
    char *name = stack_name(m, e->name, fore_name_fused_stem(e->name, k), 2);
    fore_quantize_job *j = name ? add_whole(m, e, form, name) : NULL;
    return j ? decide(m, j, as) : FORE_ERR_NOMEM;
}

static const fore_entry *find_expert(const maker *m, const char *name, size_t stem, size_t part, int e) {
    char full[512];
    int n = snprintf(full, sizeof full, "%.*sexperts.%d.%s.weight", (int)stem, name, e, fore_name_parts[part]);
    return n > 0 && (size_t)n < sizeof full ? fore_seen_find(m->from, full) : NULL;
}

/* Whether all experts of a layer are there, each part with one shape, type and form: only these make a stack. */
static bool can_stack(const maker *m, const char *name, size_t stem, int E) {
    for (size_t part = 0; part < FORE_NAME_PARTS; part++) {
        const fore_entry *first = NULL;
        const fore_form_matrix *form = NULL, *other;
        for (int e = 0; e < E; e++) {
            const fore_entry *x = find_expert(m, name, stem, part, e);
            if (!x) return false;
            x = fore_seen_at(m->from, x, e ? &other : &form);
            if (!e) first = x;
            if (x->dims != 2 || x->dtype != first->dtype || strcmp(x->dtype_name, first->dtype_name) || x->shape[0] != first->shape[0] ||
                x->shape[1] != first->shape[1] || (e && !fore_seen_alike(form, other)))
                return false;
        }
    }
    return E > 0;
}

static fore_status stack_experts(maker *m, const char *name, fore_name_region r, size_t stem, int E) {
    const fore_entry *base = fore_store_at(m->from->store, 0);
    for (size_t part = 0; part < FORE_NAME_PARTS; part++) {
        fore_quantize_piece *pieces = new_pieces(m, (size_t)E);
        char *stack = pieces ? stack_name(m, name, stem, part) : NULL;
        if (!stack) return FORE_ERR_NOMEM;
        for (int e = 0; e < E; e++) {
            const fore_entry *x = find_expert(m, name, stem, part, e);
            m->taken[x - base] = true;
            pieces[e].from = fore_seen_at(m->from, x, &pieces[e].form);
            pieces[e].rows = pieces[e].from->shape[0];
        }
        const uint64_t shape[3] = {(uint64_t)E, pieces[0].from->shape[0], pieces[0].from->shape[1]};
        const settled as = settle(m, r, FORE_NAME_NUMBERED, pieces[0].form);
        fore_status s = decide(m, add_job(m, stack, 3, shape, pieces, (size_t)E), as);
        if (s) return s;
    }
    return FORE_OK;
}

static fore_status refuse_quantised(const maker *m, const fore_entry *e, bool as_floats) {
    static const char *const ends[] = {".scales", ".biases", ".weight_scale", ".weight_scale_inv", ".weight_packed", ".qweight", ".qzeros"};
    bool quantised = !as_floats && fore_forms_own(m->from->store, e);
    for (size_t i = 0; i < COUNT(ends); i++) quantised = quantised || fore_name_ends_with(e->name, ends[i]);
    if (!quantised) return FORE_OK;
    return fore_fail(m->err, FORE_ERR_UNSUPPORTED, "quantize: the source is quantised already: it has %s; give the checkpoint that it "
                     "was made from, or take foresight forge convert, which keeps its integers", e->name);
}

static bool is_shaped(const fore_entry *e, int a, int b, int c) {
    return e && e->dims == 3 && e->shape[0] == (uint64_t)a && e->shape[1] == (uint64_t)b && e->shape[2] == (uint64_t)c;
}

/* Fused experts of which both tensors are transposed, as the files of Qwen3-VL have them: their last axis is not the one along
 * which weights are summed. */
static bool is_transposed(const maker *m, const fore_entry *e, fore_name_kind k) {
    static const char up[] = "experts.gate_up_proj", down[] = "experts.down_proj";
    const fore_text_config *t = &m->config->text;
    char name[512];
    bool fused = k == FORE_NAME_FUSED;
    int n = snprintf(name, sizeof name, "%.*s%s", (int)fore_name_fused_stem(e->name, k), e->name, fused ? down : up);
    const fore_entry *other = n > 0 && (size_t)n < sizeof name ? fore_store_find(m->from->store, name) : NULL;
    const fore_entry *gate_up = fused ? e : other, *back = fused ? other : e;
    return is_shaped(gate_up, t->num_experts, t->hidden_size, 2 * t->moe_intermediate_size) &&
           is_shaped(back, t->num_experts, t->moe_intermediate_size, t->hidden_size);
}

/* Columns column .. column+N-1 of every expert's matrix [K,across], as rows of a stack. */
static fore_status turn_part(maker *m, const fore_entry *e, const fore_form_matrix *form, fore_name_kind k, size_t part, uint64_t column,
                             uint64_t N, settled as) {
    uint64_t E = e->shape[0], K = e->shape[1], across = e->shape[2], shape[3] = {E, N, K};
    fore_quantize_piece *pieces = new_pieces(m, (size_t)E);
    char *name = pieces ? stack_name(m, e->name, fore_name_fused_stem(e->name, k), part) : NULL;
    if (!name) return FORE_ERR_NOMEM;
    for (uint64_t i = 0; i < E; i++)
        pieces[i] = (fore_quantize_piece){.from = e, .form = form, .row = column, .rows = N, .across = across, .skip = i * K * across};
    return decide(m, add_job(m, name, 3, shape, pieces, (size_t)E), as);
}

static fore_status add_transposed(maker *m, const fore_entry *e, const fore_form_matrix *form, fore_name_kind k, settled as) {
    if (k != FORE_NAME_FUSED) return turn_part(m, e, form, k, 2, 0, e->shape[2], as);
    uint64_t N = e->shape[2] / 2;
    fore_status s = turn_part(m, e, form, k, 0, 0, N, as);
    return s ? s : turn_part(m, e, form, k, 1, N, N, as);
}

static fore_status plan_entry(maker *m, const fore_entry *stored) {
    const fore_form_matrix *form;
    const fore_entry *e = fore_seen_at(m->from, stored, &form);
    fore_name_region r = fore_name_region_of(e->name);
    fore_name_kind k = fore_name_kind_of(e->name, r);
    fore_status s = m->plan->rules.any_form ? FORE_OK : refuse_quantised(m, e, form != NULL);
    if (s) return s;
    if (k == FORE_NAME_OTHER && !form) return add_whole(m, e, NULL, e->name) ? FORE_OK : FORE_ERR_NOMEM;
    if (k == FORE_NAME_OTHER) k = e->dims == 3 ? FORE_NAME_STACK : FORE_NAME_LINEAR;
    settled as = settle(m, r, k, form);
    bool fused = k == FORE_NAME_FUSED || k == FORE_NAME_DOWN, experts = fused || k == FORE_NAME_NUMBERED;
    if (fused && as.bits && !as.exact && is_transposed(m, e, k)) return add_transposed(m, e, form, k, as);
    int E = m->config->text.num_experts, want = k == FORE_NAME_STACK || fused ? 3 : 2;
    if (e->dims != want || (fused && (e->shape[0] != (uint64_t)E || !e->bytes)) || (k == FORE_NAME_FUSED && e->shape[1] % 2)) {
        /* Of another shape than the model has it. */
        if (as.bits && !as.exact) as = (settled){.why = "not a matrix of the expected shape"};
        return add_as_is(m, e, form, as);
    }
    if (experts && (!as.bits || (as.exact && fore_seen_is_mlx(form)))) return add_as_is(m, e, form, as); /* in the layout that they came in */
    if (fused) return add_fused(m, e, form, k, as);
    size_t stem, part;
    if (k == FORE_NAME_NUMBERED && fore_name_is_numbered(e->name, &stem, &part) && can_stack(m, e->name, stem, E))
        return stack_experts(m, e->name, r, stem, E);
    return add_as_is(m, e, form, as);
}

/* Of what the store and the sidecar both have, the draft head is taken from the sidecar and the rest from the store. */
static bool is_elsewhere(const maker *m, const fore_entry *e) {
    bool draft = fore_quantize_is_draft(e->name);
    if (m->from->store == m->store) return draft && m->sidecar && fore_store_find(m->sidecar, e->name);
    return !draft && fore_store_find(m->store, e->name);
}

static fore_status see_store(maker *m, const fore_store *store, fore_seen *out) {
    return fore_seen_make(&m->plan->arena, store, m->config, m->plan->rules.any_form, m->what, out, m->err);
}

static bool has_integers(const fore_seen *seen) {
    bool any = false;
    for (size_t i = 0; i < fore_store_count(seen->store); i++) {
        const fore_form_matrix *form = seen->forms[i];
        any = any || (form && !fore_seen_is_fp8(form) && !fore_seen_is_floats(form));
    }
    return any;
}

static fore_status plan_store(maker *m, const fore_seen *from) {
    m->from = from;
    m->taken = from->taken;
    for (size_t i = 0; i < fore_store_count(from->store); i++) {
        const fore_entry *e = fore_store_at(from->store, i);
        if (is_elsewhere(m, e)) continue;
        m->plan->stored_bytes += e->bytes;
        fore_status s = m->taken[i] ? FORE_OK : plan_entry(m, e);
        if (s) return s;
    }
    return FORE_OK;
}

/* Which bits and group most weights have, of those in integers. */
static void find_usual(fore_quantize_plan *p) {
    enum { BITS = 9, GROUPS = 9 };
    uint64_t weights[BITS][GROUPS] = {{0}}, best = 0;
    for (size_t i = 0; i < p->count; i++) {
        const fore_quantize_job *j = &p->jobs[i];
        if (!j->bits) continue;
        uint64_t *sum = &weights[j->bits][j->group / 16];
        *sum += j->rows * j->K;
        if (*sum <= best) continue;
        best = *sum;
        p->bits = j->bits;
        p->group = j->group;
    }
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
    maker m = {.plan = out, .config = config, .store = store, .sidecar = sidecar, .what = rules->any_form ? "convert" : "quantize", .err = err};
    /* A fused tensor becomes two; a stack of numbered ones takes its parts' places. */
    size_t most = 2 * (fore_store_count(store) + (sidecar ? fore_store_count(sidecar) : 0)) + 1;
    out->jobs = fore_arena_alloc(&out->arena, most, sizeof *out->jobs);
    out->files = fore_arena_alloc(&out->arena, most, sizeof *out->files);
    fore_status s = out->jobs && out->files ? FORE_OK : fore_fail_nomem(err, "the plan");
    if (!s) s = see_store(&m, store, &m.seen[0]);
    if (!s && sidecar) s = see_store(&m, sidecar, &m.seen[1]);
    m.integers = !s && has_integers(&m.seen[0]);
    if (!s) s = plan_store(&m, &m.seen[0]);
    size_t own = out->count;
    if (!s && sidecar) s = plan_store(&m, &m.seen[1]);
    if (!s) {
        out->bits = rules->bits;
        out->group = rules->group;
        if (rules->any_form) out->bits = out->group = 0, find_usual(out);
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
        it.dtype = j->affine == FORE_DTYPE_F16 ? "F16" : j->affine == FORE_DTYPE_BF16 ? "BF16" : "F32";
        it.shape[j->dims - 1] = j->K / (uint64_t)j->group;
        it.name = j->scales;
        items[n++] = it;
        it.name = j->biases;
        items[n++] = it;
        if (j->order) items[n++] = (fore_safetensors_item){.name = j->order_name, .dtype = "I32", .dims = 1, .shape = {j->K}, .user = j};
    }
    *count = n;
}
