/* Which tensors make a matrix; see quantize_seen.h. */
#include "forge/quantize_seen.h"

#include <string.h>

#include "base/file.h"
#include "forge/quantize_names.h"
#include "kernels/quant.h"
#include "model/bind.h"
#include "model/form_list.h"

/* It marks matrices alone: how their rows are read is quantize_rows.c's business. */
static const fore_form mlx = {.name = "MLX"};

bool fore_seen_is_mlx(const fore_form_matrix *form) { return form && form->form == &mlx; }
bool fore_seen_is_fp8(const fore_form_matrix *form) { return form && form->form == &fore_form_fp8; }
bool fore_seen_is_floats(const fore_form_matrix *form) { return form && !form->bits && form->file_bits >= 16; }

/* Bits that files have for integers; 7 are read as 8. */
static int round_up(int bits) { return bits < 2 ? 2 : bits == 7 ? 8 : bits; }

int fore_seen_width(const fore_form_matrix *form) {
    if (!form || !form->bits) return 0;
    if (fore_seen_is_mlx(form)) return form->bits;
    /* Those of compressed-tensors, AWQ and GPTQ that become wider lie around 2^bits; those of IQ4_NL are looked up in a table. */
    int bits = form->bits;
    if (form->form == &fore_form_int) bits = form->bits == 4 ? form->file_bits : form->file_bits + 1;
    else if (form->form == &fore_form_gguf && form->label[0] == 'Q') bits = form->file_bits;
    bits = round_up(bits);
    return bits < form->bits ? bits : form->bits;
}

fore_dtype fore_seen_affine(const fore_form_matrix *form) { return fore_dtype_is_float(form->dtype) ? form->dtype : FORE_DTYPE_F32; }

bool fore_seen_alike(const fore_form_matrix *a, const fore_form_matrix *b) {
    if (!a || !b) return !a && !b;
    bool same = !a->order && !b->order;
    if (a->order && b->order) same = a->K == b->K && !memcmp(a->order, b->order, a->K * sizeof *a->order);
    return same && a->form == b->form && a->bits == b->bits && a->group == b->group && a->dtype == b->dtype && a->file_bits == b->file_bits &&
           a->file_group == b->file_group;
}

const fore_entry *fore_seen_at(const fore_seen *seen, const fore_entry *stored, const fore_form_matrix **form) {
    size_t at = (size_t)(stored - fore_store_at(seen->store, 0));
    *form = seen->forms[at];
    return *form ? &seen->floats[at] : stored;
}

const fore_entry *fore_seen_find(const fore_seen *seen, const char *name) { return fore_forms_weights(seen->store, name); }

/* ---- MLX --------------------------------------------------------------------------------------------------------- */

/* NAME.scales of NAME.weight; a fused tensor has no such end. */
static const fore_entry *companion(const fore_store *store, const fore_entry *e, const char *end) {
    char name[512];
    size_t n = strlen(e->name) - (fore_name_ends_with(e->name, ".weight") ? strlen(".weight") : 0);
    if (n + strlen(end) >= sizeof name) return NULL;
    memcpy(name, e->name, n);
    strcpy(name + n, end);
    return fore_store_find(store, name);
}

/* Whether words and groups of a row of K come out at bits and a size that there are. */
static bool fits(uint64_t words, uint64_t groups, uint64_t K, fore_dtype dtype) {
    uint64_t bits = K ? words * 32 / K : 0;
    if (!K || words * 32 % K || K % groups || K / groups > 128 || !((bits >= 2 && bits <= 6) || bits == 8)) return false;
    size_t unused;
    const int group = (int)(K / groups);
    return !fore_qweight_check(bits <= 4 && group > 16 ? 4 : 8, group, 1, (int64_t)K, dtype, &unused, NULL) ||
           (dtype == FORE_DTYPE_F32 && (group == 32 || group == 64 || group == 128)); /* which need no panels */
}

/* By the model where it tells; else the only one that fits. */
static uint64_t find_columns(const fore_config *config, const char *name, uint64_t words, uint64_t groups, fore_dtype dtype) {
    int64_t said = fore_name_columns(config, name);
    if (said > 0) return fits(words, groups, (uint64_t)said, dtype) ? (uint64_t)said : 0;
    uint64_t found = 0;
    for (uint64_t group = 16; group <= 128; group *= 2) {
        if (!fits(words, groups, groups * group, dtype)) continue;
        if (found) return 0;
        found = groups * group;
    }
    return found;
}

/* Whether all sizes but the last are the same. */
static bool same_rows(const fore_entry *a, const fore_entry *b) {
    return a->dims == b->dims && !memcmp(a->shape, b->shape, (size_t)(a->dims - 1) * sizeof *a->shape);
}

static fore_status read_mlx(const fore_seen *seen, const fore_config *config, const fore_entry *e, const char *what, fore_form_matrix *m,
                            fore_error *err) {
    const fore_entry *scales = companion(seen->store, e, ".scales"), *biases = companion(seen->store, e, ".biases");
    if (!scales || !biases)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: type U32, and no .scales and .biases beside it; the checkpoint is incomplete", what,
                         e->name);
    bool good = (e->dims == 2 || e->dims == 3) && same_rows(e, scales) && same_rows(e, biases) && e->bytes && scales->bytes &&
                scales->bytes == biases->bytes && scales->dtype == biases->dtype && fore_dtype_is_float(scales->dtype);
    uint64_t words = good ? e->shape[e->dims - 1] : 0, groups = good ? scales->shape[e->dims - 1] : 0;
    uint64_t K = good && words <= INT32_MAX && groups <= INT32_MAX / 128 ? find_columns(config, e->name, words, groups, scales->dtype) : 0;
    if (!K)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: its shape and those of its scales and biases are of no matrix that the model has in 2 to 6 "
                         "or 8 bits and groups of 32, 64 or 128", what, e->name);
    m->form = &mlx;
    m->part[1] = scales;
    m->part[2] = biases;
    m->part[3] = companion(seen->store, e, ".input_order");
    m->ordered = m->part[3] != NULL;
    m->matrices = e->dims == 3 ? (size_t)e->shape[0] : 1;
    m->rows = (size_t)e->shape[e->dims - 2];
    m->K = (size_t)K;
    m->bits = m->file_bits = (int)(words * 32 / K);
    m->group = m->file_group = (int)(K / groups);
    m->dtype = scales->dtype;
    m->label = mlx.name;
    return FORE_OK;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* The name of the matrix: M.weight of M.weight_packed and M.qweight. */
static const char *matrix_name(fore_arena *arena, const fore_entry *e) {
    static const char *const ends[] = {".weight_packed", ".qweight"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!fore_name_ends_with(e->name, ends[i])) continue;
        size_t n = strlen(e->name) - strlen(ends[i]);
        char *name = fore_arena_alloc(arena, n + sizeof ".weight", 1);
        if (!name) return NULL;
        memcpy(name, e->name, n);
        strcpy(name + n, ".weight");
        return name;
    }
    return e->name;
}

static fore_status keep(fore_arena *arena, fore_seen *seen, size_t i, const fore_form_matrix *m, const char *what, fore_error *err) {
    const fore_entry *e = fore_store_at(seen->store, i);
    fore_form_matrix *form = fore_arena_alloc(arena, 1, sizeof *form);
    fore_entry *f = &seen->floats[i];
    if (!form) return fore_fail_nomem(err, "the plan");
    *form = *m;
    if (m->ordered) {
        int32_t *order = fore_arena_alloc(arena, m->K, sizeof *order);
        if (!order) return fore_fail_nomem(err, "the plan");
        fore_status s = fore_seen_is_mlx(m) ? fore_bind_read_order(m->part[3], m->K, order, err) : FORE_OK;
        if (s) return fore_fail_prefix(err, s, "%s", what);
        if (!fore_seen_is_mlx(m)) m->form->order(m, order);
        form->order = order;
    }
    *f = (fore_entry){.dtype = m->bits ? FORE_DTYPE_F32 : m->dtype, .dims = e->dims == 3 ? 3 : 2, .file = e->file};
    f->name = matrix_name(arena, e);
    if (!f->name) return fore_fail_nomem(err, "the plan");
    f->dtype_name = f->dtype == FORE_DTYPE_F32 ? "F32" : f->dtype == FORE_DTYPE_F16 ? "F16" : "BF16";
    if (f->dims == 3) f->shape[0] = m->matrices;
    f->shape[f->dims - 2] = m->rows;
    f->shape[f->dims - 1] = m->K;
    size_t rows;
    if (__builtin_mul_overflow(m->matrices, m->rows, &rows) || __builtin_mul_overflow(rows, m->K * fore_dtype_size(f->dtype), &f->bytes))
        return fore_fail(err, FORE_ERR_LIMIT, "%s: %s: too large", what, e->name);
    seen->forms[i] = form;
    for (size_t k = 1; k < FORE_FORM_PARTS; k++)
        if (m->part[k]) seen->taken[m->part[k] - fore_store_at(seen->store, 0)] = true;
    return FORE_OK;
}

static fore_status see(fore_arena *arena, const fore_config *config, bool any, const char *what, fore_seen *seen, size_t i, fore_error *err) {
    const fore_entry *e = fore_store_at(seen->store, i);
    fore_form_matrix m = {.form = NULL};
    if (!any && !fore_form_fp8.recognise(seen->store, e)) return FORE_OK;
    fore_status s = fore_forms_read(seen->store, e, &config->stored, &m, err);
    if (s) return fore_fail_prefix(err, s, "%s", what);
    if (!m.form && any && e->dtype == FORE_DTYPE_U32) s = read_mlx(seen, config, e, what, &m, err);
    if (s || !m.form) return s;
    const fore_entry *const others[] = {fore_form_find(seen->store, e, "input_scale"), fore_form_find(seen->store, e, "activation_scale")};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (others[k]) seen->taken[others[k] - fore_store_at(seen->store, 0)] = true;
    return keep(arena, seen, i, &m, what, err);
}

fore_status fore_seen_make(fore_arena *arena, const fore_store *store, const fore_config *config, bool any, const char *what,
                           fore_seen *out, fore_error *err) {
    size_t count = fore_store_count(store);
    *out = (fore_seen){.store = store};
    out->taken = fore_arena_alloc(arena, count + 1, sizeof *out->taken);
    out->floats = fore_arena_alloc(arena, count + 1, sizeof *out->floats);
    out->forms = fore_arena_alloc(arena, count + 1, sizeof *out->forms);
    if (!out->taken || !out->floats || !out->forms) return fore_fail_nomem(err, "the plan");
    fore_status s = FORE_OK;
    for (size_t i = 0; i < count && !s; i++) s = see(arena, config, any, what, out, i, err);
    /* What only a description of the matrix, or of activations, is. */
    for (size_t i = 0; i < count && !s && any; i++)
        if (!out->forms[i] && fore_forms_own(store, fore_store_at(store, i))) out->taken[i] = true;
    return s;
}
