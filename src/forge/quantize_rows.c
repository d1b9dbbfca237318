/* Reading rows in every form; see quantize_rows.h. */
#include "forge/quantize_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "forge/quantize_seen.h"
#include "kernels/half.h"
#include "kernels/turn.h"

enum { SUPER = 256 }; /* neighbours that share the step and the base of products */

/* Bytes of a row as its form has it: integers, and scales or biases. */
static size_t q_row(const fore_form_matrix *m) { return m->K / 8 * (size_t)m->bits; }
static bool is_product(const fore_form_matrix *m) { return !fore_dtype_is_float(m->dtype); }
static size_t parts_of(const fore_form_matrix *m) { return (size_t)(SUPER / m->group); }
static size_t affine_row(const fore_form_matrix *m) {
    return is_product(m) ? m->K / SUPER * (2 + parts_of(m)) : m->K / (size_t)m->group * fore_dtype_size(m->dtype);
}

bool fore_rows_lie(const fore_quantize_piece *p) { return !p->form && !p->across; }
bool fore_rows_part(const fore_quantize_piece *p) { return !p->across; }

static bool grow(unsigned char **at, size_t *have, uint64_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count, size, &bytes)) return false;
    if (bytes <= *have) return true;
    free(*at);
    *at = malloc(bytes);
    *have = bytes;
    return *at != NULL;
}

fore_status fore_rows_new(const fore_quantize_job *j, uint64_t most, fore_rows *out, fore_error *err) {
    size_t floats = 0, q = 0, scales = 0, biases = 0, whole = 0;
    bool good = true;
    *out = (fore_rows){0};
    for (size_t i = 0; i < j->piece_count && good; i++) {
        const fore_quantize_piece *p = &j->pieces[i];
        const fore_form_matrix *m = p->form;
        if (!fore_rows_lie(p) && !j->exact) good = grow(&out->floats, &floats, most, (size_t)j->K * fore_dtype_size(j->dtype));
        if (good && m && m->bits)
            good = grow(&out->q, &q, most, q_row(m)) && grow(&out->scales, &scales, most, affine_row(m)) &&
                   grow(&out->biases, &biases, most, affine_row(m));
        if (good && m && p->across) good = grow(&out->whole, &whole, j->K, (size_t)p->across * fore_dtype_size(m->dtype));
    }
    if (good) return FORE_OK;
    fore_rows_free(out);
    return fore_fail_nomem(err, j->name);
}

void fore_rows_free(fore_rows *rows) {
    free(rows->floats);
    free(rows->q);
    free(rows->scales);
    free(rows->biases);
    free(rows->whole);
    *rows = (fore_rows){0};
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

/* Rows of the matrix, from n on, as its form has them: integers, or floats to q. */
static const char *read_rows(const fore_form_matrix *m, uint64_t n, uint64_t count, const fore_form_rows *to) {
    if (!fore_seen_is_mlx(m)) return m->form->write(m, (size_t)n, (size_t)count, to);
    memcpy(to->q, m->part[0]->data + n * q_row(m), (size_t)count * q_row(m));
    memcpy(to->scales, m->part[1]->data + n * affine_row(m), (size_t)count * affine_row(m));
    memcpy(to->biases, m->part[2]->data + n * affine_row(m), (size_t)count * affine_row(m));
    return NULL;
}

static float load(fore_dtype dtype, const unsigned char *p, size_t i) {
    if (dtype == FORE_DTYPE_F32) return fore_load_f32(p + 4 * i);
    return dtype == FORE_DTYPE_BF16 ? fore_load_bf16(p + 2 * i) : fore_load_f16(p + 2 * i);
}

/* Scale and bias of a group, counted through all rows. Of products the signed ones, in groups of 16, have one factor for both. */
static void affine_of(const fore_form_matrix *m, const fore_form_rows *from, size_t g, float *scale, float *bias) {
    if (!is_product(m)) {
        *scale = load(m->dtype, from->scales, g);
        *bias = load(m->dtype, from->biases, g);
        return;
    }
    const size_t parts = parts_of(m), at = g / parts * (2 + parts), in = at + 2 + g % parts;
    const bool both = m->group == 16;
    const float u = both ? (float)(int8_t)from->scales[in] : (float)from->scales[in];
    *scale = fore_load_f16(from->scales + at) * u;
    *bias = fore_load_f16(from->biases + at) * (both ? u : (float)from->biases[in]);
}

/* n integers that lie `from_bits` apart, to `bits` apart: true if all of them fit. n is a multiple of 8. */
static bool repack(const unsigned char *from, unsigned from_bits, unsigned char *to, unsigned bits, size_t n) {
    unsigned held = 0, have = 0, put = 0, used = 0;
    unsigned seen = 0;
    for (size_t i = 0; i < n; i++) {
        if (have < from_bits) {
            held |= (unsigned)*from++ << have;
            have += 8;
        }
        unsigned q = held & ((1u << from_bits) - 1);
        held >>= from_bits;
        have -= from_bits;
        seen |= q;
        put |= q << used;
        for (used += bits; used >= 8; used -= 8, put >>= 8) *to++ = (unsigned char)put;
    }
    return seen >> bits == 0;
}

const char *fore_rows_stored(const fore_rows *rows, const fore_quantize_job *j, const fore_quantize_piece *p, uint64_t r, uint64_t count,
                             uint64_t at, const fore_form_rows *to) {
    const fore_form_matrix *m = p->form;
    const bool narrow = m->bits != j->bits, product = is_product(m);
    const fore_form_rows room = {narrow ? rows->q + at * q_row(m) : to->q, product ? rows->scales + at * affine_row(m) : to->scales,
                                 product ? rows->biases + at * affine_row(m) : to->biases};
    const char *problem = read_rows(m, p->row + r, count, &room);
    if (problem) return problem;
    for (size_t g = 0; product && g < count * (m->K / (size_t)m->group); g++) {
        float affine[2];
        affine_of(m, &room, g, &affine[0], &affine[1]);
        memcpy(to->scales + 4 * g, &affine[0], sizeof(float));
        memcpy(to->biases + 4 * g, &affine[1], sizeof(float));
    }
    bool good = !narrow || repack(room.q, (unsigned)m->bits, to->q, (unsigned)j->bits, (size_t)count * m->K);
    return good ? NULL : "an integer has more bits than its form";
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */

/* What the integers of `count` rows stand for, in the matrix' own order: scale * q + bias in one rounding, as everywhere. */
static bool widen(const fore_form_matrix *m, size_t count, const fore_form_rows *from, float *out) {
    const unsigned bits = (unsigned)m->bits, mask = (1u << bits) - 1;
    const unsigned char *q = from->q;
    unsigned held = 0, have = 0;
    bool good = true;
    for (size_t g = 0, at = 0; g < count * (m->K / (size_t)m->group); g++) {
        float scale, bias;
        affine_of(m, from, g, &scale, &bias);
        good &= isfinite(scale) && isfinite(bias);
        for (int k = 0; k < m->group; k++, at++) {
            if (have < bits) {
                held |= (unsigned)*q++ << have;
                have += 8;
            }
            size_t to = m->order ? at / m->K * m->K + (size_t)m->order[at % m->K] : at;
            out[to] = fmaf(scale, (float)(held & mask), bias);
            held >>= bits;
            have -= bits;
        }
    }
    return good;
}

/* Columns of a matrix [K,across], turned into rows. In a form all rows of that matrix are read for it. */
static const char *turn(const fore_rows *rows, const fore_quantize_job *j, const fore_quantize_piece *p, uint64_t r, uint64_t count, void *to) {
    size_t size = fore_dtype_size(p->from->dtype);
    const unsigned char *matrix = p->form ? rows->whole : p->from->data + p->skip * size;
    if (p->form) {
        const fore_form_rows all = {.q = rows->whole};
        const char *problem = read_rows(p->form, p->skip / p->across, j->K, &all);
        if (problem) return problem;
    }
    const unsigned char *from = matrix + (p->row + r) * size;
    if (size == 4) fore_turn_32(to, from, (size_t)j->K, (size_t)p->across, (size_t)count);
    else fore_turn_16(to, from, (size_t)j->K, (size_t)p->across, (size_t)count);
    return NULL;
}

const char *fore_rows_floats(const fore_rows *rows, const fore_quantize_job *j, const fore_quantize_piece *p, uint64_t r, uint64_t count,
                             uint64_t at) {
    const fore_form_matrix *m = p->form;
    unsigned char *to = rows->floats + at * j->K * fore_dtype_size(p->from->dtype);
    if (p->across) return turn(rows, j, p, r, count, to);
    const fore_form_rows floats = {.q = to};
    if (!m->bits) return read_rows(m, p->row + r, count, &floats);
    const fore_form_rows room = {rows->q + at * q_row(m), rows->scales + at * affine_row(m), rows->biases + at * affine_row(m)};
    const char *problem = read_rows(m, p->row + r, count, &room);
    if (problem) return problem;
    return widen(m, (size_t)count, &room, (float *)(void *)to) ? NULL : "a scale or a bias is not finite";
}

/* ---- letting go -------------------------------------------------------------------------------------------------- */

/* Rows of a part of the matrix, which lie one behind the other in it. */
static void release_rows(const fore_entry *part, uint64_t all, uint64_t row, uint64_t count) {
    size_t bytes = all ? part->bytes / (size_t)all : 0;
    fore_map_release(part->data + row * bytes, (size_t)count * bytes);
}

void fore_rows_release(const fore_quantize_piece *p, uint64_t r, uint64_t count, bool whole) {
    const fore_form_matrix *m = p->form;
    const fore_entry *weights = m ? m->part[0] : p->from;
    if (!p->mapped) return;
    uint64_t all = 1;
    for (int d = 0; d + 1 < p->from->dims; d++) all *= p->from->shape[d];
    bool rows = !p->across && (!m || ((fore_seen_is_mlx(m) || m->form->by_rows) && !weights->order));
    if (rows) release_rows(weights, all, p->row + r, count);
    for (int k = 1; rows && fore_seen_is_mlx(m) && k < 3; k++) release_rows(m->part[k], all, p->row + r, count);
    for (int k = 0; !rows && whole && k < (m ? FORE_FORM_PARTS : 1); k++) {
        const fore_entry *part = m ? m->part[k] : weights;
        if (part) fore_map_release(part->data, part->bytes);
    }
}
