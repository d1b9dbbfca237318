/* Finding and checking tensors; see bind.h. */
#include "model/bind.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/quant.h"
#include "model/forms.h"

/* NEIGHBOURS: matrices among which inputs may be shared: those of a layer with many experts. */
enum { NAME = 256, NEIGHBOURS = 1024 };

/* Where a matrix lies in the file: one tensor, the three of a quantised one, or those of another form. */
typedef struct stored {
    const fore_entry *data, *scales, *biases;
    int bits, group; /* as the file has them; 0: not quantised */
    const fore_form_matrix *from;
    const int32_t *order; /* of a quantised one's columns; NULL: as they are */
} stored;

static void shape_text(char *out, size_t size, int dims, const uint64_t *shape) {
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < dims && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%llu", i ? "," : "", (unsigned long long)shape[i]);
    if (used < size) snprintf(out + used, size - used, "]");
}

void fore_bind_settle(fore_binder *b) {
    b->status = fore_notes_take(b->notes, "tensors", NULL, b->status, b->err);
    /* A hostile config can ask for more tensors than anyone would wait for. */
    if (!b->status && b->notes && fore_notes_full(b->notes)) b->status = fore_fail(b->err, FORE_ERR_LIMIT, "weights: too much is wrong");
}

static const fore_entry *find(fore_binder *b, const char *full) {
    if (b->status) return NULL;
    const fore_entry *e = fore_store_find(b->store, full);
    if (e) return e;
    b->status = fore_fail(b->err, FORE_ERR_FORMAT, "weights: %s: missing; the checkpoint is incomplete or of another layout", full);
    b->status = fore_notes_take(b->notes, "tensors", full, b->status, b->err);
    return NULL;
}

static bool has_shape(const fore_entry *e, int dims, const uint64_t *shape) {
    bool same = e->dims == dims;
    for (int i = 0; same && i < dims; i++) same = e->shape[i] == shape[i];
    return same;
}

static void refuse_shape(fore_binder *b, const fore_entry *e, int dims, const uint64_t *shape) {
    char want[96], have[96];
    shape_text(want, sizeof want, dims, shape);
    shape_text(have, sizeof have, e->dims, e->shape);
    b->status = fore_fail(b->err, FORE_ERR_FORMAT, "weights: %s: expected %s, the file has %s %s", e->name, want, e->dtype_name, have);
}

static void refuse_type(fore_binder *b, const fore_entry *e) {
    b->status = fore_fail(b->err, FORE_ERR_UNSUPPORTED, "weights: %s: type %s; supported are F32, F16 and BF16, and quantised matrices: U32 "
                          "with .scales and .biases (MLX), F8_E4M3 with scales, I32 and I8 of compressed-tensors, AWQ and GPTQ", e->name,
                          e->dtype_name);
}

/* A tensor of floats with this shape, or NULL and a recorded failure. */
static const fore_entry *find_floats(fore_binder *b, const char *full, int dims, const uint64_t *shape) {
    const fore_entry *e = find(b, full);
    if (e && !fore_dtype_is_float(e->dtype)) {
        refuse_type(b, e);
        return NULL;
    }
    if (e && !has_shape(e, dims, shape)) {
        refuse_shape(b, e, dims, shape);
        return NULL;
    }
    return e;
}

/* A companion of a quantised matrix: the module's name with another end. */
static const fore_entry *companion(fore_binder *b, const char *weight, const char *end) {
    char full[NAME + 16];
    size_t n = strlen(weight), cut = strlen(".weight");
    bool named = n > cut && strcmp(weight + n - cut, ".weight") == 0; /* a fused tensor has no such end */
    snprintf(full, sizeof full, "%.*s%s", (int)(named ? n - cut : n), weight, end);
    return find(b, full);
}

static bool is_stored_width(uint64_t bits) { return (bits >= 2 && bits <= 6) || bits == 8; }

fore_status fore_bind_read_order(const fore_entry *e, size_t K, int32_t *order, fore_error *err) {
    if (e->dtype != FORE_DTYPE_I32 || e->dims != 1 || e->shape[0] != K)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: expected I32 [%zu], the number of each input", e->name, K);
    unsigned char *seen = calloc(K + 1, 1);
    if (!seen) return fore_fail_nomem(err, "the order of a matrix' inputs");
    fore_status s = FORE_OK;
    for (size_t k = 0; k < K && !s; k++) {
        const unsigned char *p = e->data + 4 * k;
        uint32_t input = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        if (input >= K || seen[input]++)
            s = fore_fail(err, FORE_ERR_FORMAT, "%s: number %zu is %u: expected each of %zu inputs once", e->name, k, (unsigned)input, K);
        else order[k] = (int32_t)input;
    }
    free(seen);
    return s;
}

/* Room for the order of K inputs; NULL after a failure. */
static int32_t *order_room(fore_binder *b, size_t K) {
    if (b->order_inputs != K) b->order = NULL;
    if (!b->order) b->order = fore_arena_alloc(b->arena, K, sizeof *b->order);
    if (!b->order) b->status = fore_fail_nomem(b->err, "the order of a matrix' inputs");
    b->order_inputs = K;
    return b->order;
}

/* The order in the room. Matrices that have the same one share it, so that inputs are put in order once for all of them. */
static const int32_t *keep_order(fore_binder *b, size_t K) {
    const fore_panels *p = b->panels;
    const int32_t *found = NULL;
    for (size_t i = p->count; i > 0 && p->count - i < NEIGHBOURS && !found; i--) {
        const int32_t *other = fore_panel_job_order(&p->jobs[i - 1]);
        if (other && (size_t)p->jobs[i - 1].w.K == K && !memcmp(other, b->order, K * sizeof *other)) found = other;
    }
    if (found) return found;
    found = b->order;
    b->order = NULL;
    return found;
}

static void find_order(fore_binder *b, fore_form_matrix *m) {
    int32_t *order = order_room(b, m->K);
    if (!order) return;
    m->form->order(m, order);
    m->order = keep_order(b, m->K);
}

/* The order beside a quantised matrix, if there is one. */
static void find_stored_order(fore_binder *b, const fore_entry *e, size_t K, stored *out) {
    char full[NAME + 16];
    size_t n = strlen(e->name), cut = strlen(".weight");
    snprintf(full, sizeof full, "%.*s.input_order", (int)(n > cut && !strcmp(e->name + n - cut, ".weight") ? n - cut : n), e->name);
    const fore_entry *o = fore_store_find(b->store, full);
    int32_t *order = o ? order_room(b, K) : NULL;
    if (!order) return;
    b->status = fore_bind_read_order(o, K, order, b->err);
    if (b->status) fore_fail_prefix(b->err, b->status, "weights");
    else out->order = keep_order(b, K);
}

/* The three tensors of a quantised matrix of the logical shape: bits and group from their sizes. */
static void find_quantised(fore_binder *b, const fore_entry *e, int dims, const uint64_t *shape, stored *out) {
    uint64_t K = shape[dims - 1], packed[FORE_STORE_DIMS], affine[FORE_STORE_DIMS];
    out->data = e;
    out->scales = companion(b, e->name, ".scales");
    out->biases = companion(b, e->name, ".biases");
    if (b->status || !out->scales || !out->biases) {
        out->data = NULL;
        return;
    }
    memcpy(packed, shape, (size_t)dims * sizeof *packed);
    memcpy(affine, shape, (size_t)dims * sizeof *affine);
    uint64_t words = e->dims == dims ? e->shape[dims - 1] : 0, groups = out->scales->dims == dims ? out->scales->shape[dims - 1] : 0;
    packed[dims - 1] = words;
    affine[dims - 1] = groups;
    bool whole = words && words <= K && words * 32 % K == 0; /* bits a weight */
    if (!whole) packed[dims - 1] = K / 8;
    if (!whole || !has_shape(e, dims, packed)) {
        refuse_shape(b, e, dims, packed);
    } else if (!groups || !has_shape(out->scales, dims, affine) || K % groups) {
        affine[dims - 1] = K / 64;
        refuse_shape(b, out->scales, dims, affine);
    } else if (!has_shape(out->biases, dims, affine) || out->biases->dtype != out->scales->dtype) {
        refuse_shape(b, out->biases, dims, affine);
    } else if (!fore_dtype_is_float(out->scales->dtype)) {
        b->status = fore_fail(b->err, FORE_ERR_UNSUPPORTED, "weights: %s: type %s; scales and biases are supported in BF16, F16 and F32",
                              out->scales->name, out->scales->dtype_name);
    } else if (!is_stored_width(words * 32 / K)) {
        b->status = fore_fail(b->err, FORE_ERR_UNSUPPORTED, "weights: %s: %d bits a weight; supported are 2, 3, 4, 5, 6 and 8", e->name,
                              (int)(words * 32 / K));
    } else {
        out->bits = (int)(words * 32 / K);
        out->group = (int)(K / groups);
        find_stored_order(b, e, (size_t)K, out);
    }
}

/* A matrix in one of the forms; out->from stays NULL when it is in none. */
static void find_form(fore_binder *b, const fore_entry *e, int dims, const uint64_t *shape, stored *out) {
    fore_form_matrix m;
    fore_status s = fore_forms_read(b->store, e, b->panels->settings, &m, b->err);
    if (s) {
        b->status = fore_fail_prefix(b->err, s, "weights");
        return;
    }
    if (!m.form) return;
    const uint64_t have[3] = {m.matrices, m.rows, m.K};
    bool same = m.rows == shape[dims - 2] && m.K == shape[dims - 1] && m.matrices == (dims == 3 ? shape[0] : 1);
    fore_form_matrix *kept = same ? fore_arena_alloc(b->arena, 1, sizeof *kept) : NULL;
    if (!same) {
        char want[96], found[96];
        shape_text(want, sizeof want, dims, shape);
        shape_text(found, sizeof found, m.matrices == 1 ? 2 : 3, m.matrices == 1 ? have + 1 : have);
        b->status = fore_fail(b->err, FORE_ERR_FORMAT, "weights: %s: expected %s, the file has %s (%s)", e->name, want, found, m.form->name);
    } else if (!kept) {
        b->status = fore_fail_nomem(b->err, "the list of quantised matrices");
    } else {
        *kept = m;
        out->data = e;
        out->from = kept;
        if (m.ordered) find_order(b, kept);
    }
}

static bool find_stored(fore_binder *b, const char *name, int dims, const uint64_t *shape, stored *out) {
    char full[NAME];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    *out = (stored){0};
    const fore_entry *e = b->status ? NULL : fore_forms_weights(b->store, full);
    if (!e) {
        find(b, full);
    } else if (!fore_dtype_is_float(e->dtype)) {
        find_form(b, e, dims, shape, out);
        if (!b->status && !out->from && e->dtype == FORE_DTYPE_U32) find_quantised(b, e, dims, shape, out);
        else if (!b->status && !out->from) refuse_type(b, e);
    } else {
        out->data = find_floats(b, full, dims, shape);
    }
    bool found = !b->status && out->data;
    fore_bind_settle(b);
    return found;
}

static void add_job(fore_binder *b, fore_weight *out, const stored *s, const fore_panel_job *job) {
    fore_status status = fore_panels_add(b->panels, job, out, b->err);
    if (status) b->status = fore_fail_prefix(b->err, status, "weights: %s", s->data->name);
}

/* Rows row0 .. row0+N-1 of a matrix whose rows lie one behind the other in a tensor. */
static void place(fore_binder *b, fore_weight *out, const stored *s, size_t row0, int N, int K) {
    if (s->from) {
        const fore_form_matrix *m = s->from;
        const fore_panel_job job = {
            .w = {.bits = m->bits, .group = m->group, .N = N, .K = K, .dtype = m->dtype}, .from = m, .row0 = row0};
        add_job(b, out, s, &job);
        return;
    }
    if (!s->bits) {
        size_t row = (size_t)K * fore_dtype_size(s->data->dtype);
        *out = (fore_weight){.data = s->data->data + row0 * row, .dtype = s->data->dtype, .N = N, .K = K};
        fore_tally_mapped(&b->panels->tally, s->data->dtype_name, s->data->dtype, (uint64_t)N * (uint64_t)K);
        return;
    }
    size_t affine = (size_t)K / (size_t)s->group * fore_dtype_size(s->scales->dtype);
    const fore_panel_job job = {
        .w = {.bits = s->bits <= 4 && s->group > 16 ? 4 : 8, .group = s->group, .N = N, .K = K, .dtype = s->scales->dtype},
        .stored_bits = s->bits,
        .q = s->data->data + row0 * ((size_t)K * (size_t)s->bits / 8),
        .scales = s->scales->data + row0 * affine,
        .biases = s->biases->data + row0 * affine,
        .order = s->order,
    };
    add_job(b, out, s, &job);
}

#define FORMAT(name)                              \
    char name[160];                               \
    do {                                          \
        va_list args;                             \
        va_start(args, format);                   \
        vsnprintf(name, sizeof name, format, args); \
        va_end(args);                             \
    } while (0)

void fore_bind_shape(fore_binder *b, fore_weight *out, int N, int K, int dims, const uint64_t *shape, const char *format, ...) {
    FORMAT(name);
    char full[NAME];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    const fore_entry *e = find_floats(b, full, dims, shape);
    fore_bind_settle(b);
    if (!e) return;
    *out = (fore_weight){.data = e->data, .dtype = e->dtype, .N = N, .K = K};
    fore_tally_mapped(&b->panels->tally, e->dtype_name, e->dtype, (uint64_t)N * (uint64_t)K);
}

void fore_bind_matrix(fore_binder *b, fore_weight *out, int N, int K, const char *format, ...) {
    FORMAT(name);
    const uint64_t shape[2] = {(uint64_t)N, (uint64_t)K};
    stored s;
    if (find_stored(b, name, 2, shape, &s)) place(b, out, &s, 0, N, K);
    fore_bind_settle(b);
}

/* From one matrix that is made to the next of its kind: each begins at a multiple of a line. */
static size_t made_stride(const fore_weight *w) {
    return (fore_weight_bytes(w) + FORE_PANELS_LINE - 1) / FORE_PANELS_LINE * FORE_PANELS_LINE;
}

void fore_bind_slices(fore_binder *b, fore_experts *out, int E, int rows, int row0, int N, int K, const char *format, ...) {
    FORMAT(name);
    const uint64_t shape[3] = {(uint64_t)E, (uint64_t)rows, (uint64_t)K};
    stored s;
    if (!find_stored(b, name, 3, shape, &s)) return;
    place(b, &out->first, &s, (size_t)row0, N, K);
    if (!s.bits && !s.from) {
        out->stride = (size_t)rows * (size_t)K * fore_dtype_size(s.data->dtype);
        fore_tally_mapped(&b->panels->tally, s.data->dtype_name, s.data->dtype, (uint64_t)(E - 1) * (uint64_t)N * (uint64_t)K);
        return;
    }
    out->stride = made_stride(&out->first);
    for (int e = 1; e < E && !b->status; e++) {
        fore_weight next;
        place(b, &next, &s, (size_t)e * (size_t)rows + (size_t)row0, N, K);
    }
    fore_bind_settle(b);
}

/* Transposed matrices of a form become floats as they lie, all columns of each: of the parts that are bound apart the first makes
 * them, and the others find its. */
static void place_columns(fore_binder *b, fore_experts *out, int E, const stored *s, int column0, int N) {
    const fore_form_matrix *m = s->from;
    if (m->bits) {
        b->status = fore_fail(b->err, FORE_ERR_UNSUPPORTED, "weights: %s: transposed experts are supported in F32, F16, BF16 and FP8", s->data->name);
        return;
    }
    fore_weight first = {.data = NULL};
    const fore_panels *p = b->panels;
    for (size_t i = p->count; i > 0 && p->count - i < 2 * (size_t)E && !first.data; i--)
        if (p->jobs[i - 1].from && p->jobs[i - 1].from->part[0] == s->data && p->jobs[i - 1].row0 == 0) first.data = p->jobs[i - 1].w.panels;
    for (int e = 0; e < E && !b->status && (e || !first.data); e++) {
        fore_weight w;
        place(b, &w, s, (size_t)e * m->rows, (int)m->rows, (int)m->K);
        if (e == 0) first = w;
    }
    const fore_weight all = {.dtype = m->dtype, .N = (int)m->rows, .K = (int)m->K};
    const char *data = (const char *)first.data + (size_t)column0 * fore_dtype_size(m->dtype);
    *out = (fore_experts){.first = {.data = data, .dtype = m->dtype, .N = N, .K = all.N},
                          .stride = made_stride(&all),
                          .across = all.K};
}

void fore_bind_columns(fore_binder *b, fore_experts *out, int E, int K, int columns, int column0, int N, const char *format, ...) {
    FORMAT(name);
    const uint64_t shape[3] = {(uint64_t)E, (uint64_t)K, (uint64_t)columns};
    stored s;
    if (!find_stored(b, name, 3, shape, &s)) return;
    if (s.from) {
        place_columns(b, out, E, &s, column0, N);
        fore_bind_settle(b);
        return;
    }
    if (s.bits) {
        refuse_type(b, s.data);
        fore_bind_settle(b);
        return;
    }
    size_t size = fore_dtype_size(s.data->dtype);
    *out = (fore_experts){.first = {.data = s.data->data + (size_t)column0 * size, .dtype = s.data->dtype, .N = N, .K = K},
                          .stride = (size_t)K * (size_t)columns * size,
                          .across = columns};
    fore_tally_mapped(&b->panels->tally, s.data->dtype_name, s.data->dtype, (uint64_t)E * (uint64_t)N * (uint64_t)K);
}

static float *widened(fore_binder *b, const fore_entry *e) {
    size_t n = 1;
    for (int d = 0; d < e->dims; d++) n *= (size_t)e->shape[d];
    float *y = fore_arena_alloc(b->arena, n, sizeof *y);
    if (!y) {
        b->status = fore_fail_nomem(b->err, "the weights' vectors");
        return NULL;
    }
    const fore_weight w = {.data = e->data, .dtype = e->dtype, .N = 1, .K = (int)n};
    fore_weight_row(b->kern, &w, 0, y);
    return y;
}

float *fore_bind_floats(fore_binder *b, int dims, const uint64_t *shape, const char *format, ...) {
    FORMAT(name);
    char full[NAME];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    const fore_entry *e = find_floats(b, full, dims, shape);
    float *y = e ? widened(b, e) : NULL;
    if (y) fore_tally_widened(&b->panels->tally, e->dtype_name, (int)(8 * fore_dtype_size(e->dtype)), e->bytes / fore_dtype_size(e->dtype));
    fore_bind_settle(b);
    return y;
}

void fore_bind_vector(fore_binder *b, const float **out, int n, float plus, const char *format, ...) {
    FORMAT(name);
    const uint64_t shape[1] = {(uint64_t)n};
    float *y = fore_bind_floats(b, 1, shape, "%s", name);
    if (y && plus != 0)
        for (int i = 0; i < n; i++) y[i] += plus;
    *out = y;
}

const fore_entry *fore_bind_find(const fore_binder *b, const char *format, ...) {
    FORMAT(name);
    char full[NAME];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    return fore_forms_weights(b->store, full);
}

bool fore_bind_is_packed(const fore_store *store, const fore_entry *e) {
    if (e->dtype == FORE_DTYPE_U32 || fore_forms_own(store, e)) return true;
    const char *dot = strrchr(e->name, '.');
    if (!dot || (strcmp(dot, ".scales") && strcmp(dot, ".biases") && strcmp(dot, ".input_order"))) return false;
    const char *const ends[] = {".weight", ""}; /* a fused tensor has no end of its own */
    for (int i = 0; i < 2; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "%.*s%s", (int)(dot - e->name), e->name, ends[i]);
        const fore_entry *q = fore_store_find(store, name);
        if (q && q->dtype == FORE_DTYPE_U32) return true;
    }
    return false;
}
