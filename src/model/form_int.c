/* Integers with a scale and a zero for each group of neighbours: w = scale * (q - zero), packed in one of four ways, told apart
 * by names and shapes; G groups, P = 32/bits values a word, the first one lowest.
 *   compressed-tensors, pack-quantized, 2 to 8 bits: M.weight_packed I32 [N, K*bits/32], a row's bits one behind the other, and
 *     M.weight_shape I64 [2] = N, K; M.weight_scale [N,G]; M.weight_zero_point I32 [N*bits/32, G], packed down the rows, none:
 *     zero = 2^(bits-1); M.weight_g_idx I32 [K]
 *   compressed-tensors, int-quantized: M.weight I8 [N,K]; M.weight_scale [N,G]; M.weight_zero_point I8 [N,G]
 *   GPTQ, 2, 4 or 8 bits: M.qweight I32 [K/P, N]; M.qzeros I32 [G, N/P]; M.scales [G,N]; M.g_idx I32 [K]. The first version of
 *     the format has zero - 1 in qzeros.
 *   AutoAWQ: M.qweight I32 [K, N/8]; M.qzeros I32 [G, N/8]; M.scales [G,N]; 4 bits, the outputs of a word in the order 0, 2, 4,
 *     6, 1, 3, 5, 7 from its lowest bit up.
 * Packed values of compressed-tensors are the signed integers plus 2^(bits-1), so that q and zero are unsigned.
 *
 * In memory, always exactly scale * (q - zero). Panels of 4 or 8 bits with bias = -scale * zero, in the scales' own type where every
 * zero is 0 or a power of two, else in F32 if that holds all of the products, as it does with scales of 16 bits. Panels of 8 bits
 * that hold q - zero + 2^bits, with bias = -scale * 2^bits, where that takes less or the products are not exact. Columns whose groups
 * are not neighbours (g_idx) are put in the order of their groups. All else (8 bits with products that are not exact, groups that
 * panels do not have or that are not of one size) as floats in F32. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/quant.h"
#include "model/form_list.h"

enum { WEIGHTS, SCALES, ZEROS, ORDER };           /* part; ORDER: g_idx, where it is not the plain one */
enum { LAYOUT, BITS, GROUP, CENTRE, STEP, LESS }; /* own; see below */
enum { ROWS, BYTES, DOWN, ACROSS };               /* LAYOUT: packed along rows, I8, GPTQ, AutoAWQ */
/* GROUP: weights a scale, as the file has them. CENTRE: what panels hold for a weight of 0; -1: the group's zero itself.
 * STEP: 0: one scale for the whole matrix. LESS: the file's zeros are less by this. */

typedef struct tensors {
    const fore_entry *scales, *zeros, *order, *shape;
    size_t groups;
} tensors;

static bool is_int8(const fore_entry *e) { return strcmp(e->dtype_name, "I8") == 0; }

static bool recognise(const fore_store *store, const fore_entry *e) {
    if (fore_name_ends_with(e->name, ".weight_packed")) return e->dtype == FORE_DTYPE_I32;
    if (fore_name_ends_with(e->name, ".qweight")) return e->dtype == FORE_DTYPE_I32;
    return fore_name_ends_with(e->name, ".weight") && is_int8(e) && fore_form_find(store, e, "weight_scale");
}

static fore_status need(const fore_entry *weights, const fore_entry *e, const char *end, fore_error *err) {
    if (e) return FORE_OK;
    return fore_fail(err, FORE_ERR_FORMAT, "%s: quantised, but %s is not beside it; the checkpoint is incomplete", weights->name, end);
}

static fore_status check(const fore_entry *e, uint64_t a, uint64_t b, fore_error *err) {
    if (e->dims == 2 && e->shape[0] == a && e->shape[1] == b) return FORE_OK;
    char want[64];
    snprintf(want, sizeof want, "[%llu,%llu]", (unsigned long long)a, (unsigned long long)b);
    return fore_form_refuse_shape(e, want, err);
}

static fore_status refuse_bits(const fore_entry *e, uint64_t bits, fore_error *err) {
    return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: %llu bits a weight; supported are 2 to 8 of compressed-tensors, 2, 4 and 8 of GPTQ, and "
                     "4 of AWQ", e->name, (unsigned long long)bits);
}

/* ---- compressed-tensors ------------------------------------------------------------------------------------------ */

/* Words of n values one behind the other; n is less than 2^31. */
static size_t words_of(uint64_t n, int bits) { return (size_t)((n * (uint64_t)bits + 31) / 32); }

/* [N,K] as the file says it in numbers. */
static fore_status read_shape(const fore_entry *shape, const fore_entry *weights, fore_form_matrix *m, fore_error *err) {
    size_t width = shape->dtype == FORE_DTYPE_I64 ? 8 : shape->dtype == FORE_DTYPE_I32 ? 4 : 0;
    if (!width || shape->bytes != 2 * width)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: expected two numbers in I64 or I32, the file has %zu bytes of %s", shape->name, shape->bytes,
                         shape->dtype_name);
    uint64_t n[2] = {0, 0};
    for (size_t i = 0; i < 2 * width; i++) n[i / width] |= (uint64_t)shape->data[i] << i % width * 8;
    if (weights->dims != 2 || n[0] != weights->shape[0] || n[0] > INT32_MAX || n[1] < 32 || n[1] > INT32_MAX) {
        char want[128];
        snprintf(want, sizeof want, "the packed rows of a matrix [%llu,%llu] of at least 32 columns", (unsigned long long)n[0],
                 (unsigned long long)n[1]);
        return fore_form_refuse_shape(weights, want, err);
    }
    m->rows = (size_t)n[0];
    m->K = (size_t)n[1];
    return FORE_OK;
}

/* The type and shape of zeros, packed or one by one, and nothing else that is read. */
static fore_status check_zeros(const fore_form_matrix *m, tensors *t, fore_error *err) {
    const fore_entry *z = t->zeros;
    if (!z) return FORE_OK;
    if (is_int8(z) && z->bytes == m->rows * t->groups) return FORE_OK;
    if (is_int8(z)) return check(z, m->rows, t->groups, err);
    if (z->dtype != FORE_DTYPE_I32 || m->own[LAYOUT] == BYTES)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: type %s; zero points are supported in I32, packed, and in I8", z->name, z->dtype_name);
    return check(z, words_of(m->rows, m->own[BITS]), t->groups, err);
}

static fore_status read_rows(const fore_store *store, fore_form_matrix *m, tensors *t, fore_error *err) {
    const fore_entry *e = m->part[WEIGHTS];
    bool bytes = is_int8(e);
    t->scales = fore_form_find(store, e, "weight_scale");
    t->zeros = fore_form_find(store, e, "weight_zero_point");
    t->order = fore_form_find(store, e, "weight_g_idx");
    fore_status s = need(e, t->scales, "weight_scale", err);
    m->own[LAYOUT] = bytes ? BYTES : ROWS;
    m->own[BITS] = 8;
    if (bytes && !s) {
        if (e->dims != 2 || !e->shape[1] || e->shape[0] > INT32_MAX || e->shape[1] > INT32_MAX) return fore_form_refuse_shape(e, "a matrix", err);
        m->rows = (size_t)e->shape[0];
        m->K = (size_t)e->shape[1];
    } else if (!s) {
        t->shape = fore_form_find(store, e, "weight_shape");
        s = need(e, t->shape, "weight_shape", err);
        if (!s) s = read_shape(t->shape, e, m, err);
        if (s) return s;
        int bits = 2; /* of at least 32 columns only one number fits */
        while (bits < 8 && words_of(m->K, bits) < e->shape[1]) bits++;
        if (words_of(m->K, bits) != e->shape[1]) return refuse_bits(e, e->shape[1] * 32 / m->K, err);
        m->own[BITS] = bits;
    }
    if (s) return s;
    const fore_entry *scales = t->scales;
    uint64_t count = 1;
    for (int d = 0; d < scales->dims; d++) count *= scales->shape[d];
    m->own[STEP] = count != 1 || m->rows == 1; /* one number for all, or a row's numbers side by side */
    t->groups = m->own[STEP] && scales->dims == 2 ? (size_t)scales->shape[1] : 1;
    bool alone = m->own[STEP] && scales->dims == 1 && scales->shape[0] == m->rows; /* one a row */
    if (m->own[STEP] && !alone && (scales->dims != 2 || scales->shape[0] != m->rows)) {
        char want[96];
        snprintf(want, sizeof want, "numbers for each of %zu rows, or one for all", m->rows);
        return fore_form_refuse_shape(scales, want, err);
    }
    if (t->zeros && !m->own[STEP])
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: zero points with one scale for a whole matrix are not supported", t->zeros->name);
    return check_zeros(m, t, err);
}

/* ---- GPTQ and AutoAWQ -------------------------------------------------------------------------------------------- */

static fore_status read_columns(const fore_store *store, const fore_stored_settings *settings, fore_form_matrix *m, tensors *t,
                                fore_error *err) {
    const fore_entry *e = m->part[WEIGHTS];
    t->scales = fore_form_find(store, e, "scales");
    t->zeros = fore_form_find(store, e, "qzeros");
    t->order = fore_form_find(store, e, "g_idx");
    fore_status s = need(e, t->scales, "scales", err);
    if (!s) s = need(e, t->zeros, "qzeros", err);
    if (s) return s;
    const fore_entry *scales = t->scales, *z = t->zeros;
    if (e->dims != 2) return fore_form_refuse_shape(e, "a packed matrix", err);
    if (scales->dims != 2 || !scales->shape[0] || !scales->shape[1] || scales->shape[1] > INT32_MAX)
        return fore_form_refuse_shape(scales, "[groups,outputs]", err);
    if (z->dims != 2 || z->shape[0] != scales->shape[0] || !z->shape[1] || z->dtype != FORE_DTYPE_I32)
        return fore_form_refuse_shape(z, "I32 [groups, packed outputs] with as many groups as the scales", err);
    m->rows = (size_t)scales->shape[1];
    t->groups = (size_t)scales->shape[0];
    uint64_t words = z->shape[1];
    int bits = settings->bits == 2 || settings->bits == 4 || settings->bits == 8 ? settings->bits : 2;
    if (words_of(m->rows, bits) != words) bits = 2; /* a module of its own */
    while (bits < 8 && words_of(m->rows, bits) != words) bits *= 2;
    if (words_of(m->rows, bits) != words) return refuse_bits(e, words * 32 / m->rows, err);
    m->own[BITS] = bits;
    bool across = e->shape[1] == words && words != m->rows;
    m->own[LAYOUT] = across ? ACROSS : DOWN;
    m->own[LESS] = !across && settings->zeros_less_one;
    m->own[STEP] = 1;
    if (across && (bits != 4 || t->order))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: packed along the outputs like AutoAWQ's, which is supported with 4 bits and without g_idx",
                         e->name);
    uint64_t per = across ? 1 : 32 / (unsigned)bits;
    if (!e->shape[0] || e->shape[0] > INT32_MAX / per) return fore_form_refuse_shape(e, "a packed matrix", err);
    m->K = (size_t)(e->shape[0] * per);
    return across ? FORE_OK : check(e, e->shape[0], m->rows, err);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static uint32_t load_word(const fore_entry *e, size_t i) {
    const unsigned char *p = e->data + 4 * i;
    return (uint32_t)fore_load_u16(p) | (uint32_t)fore_load_u16(p + 2) << 16;
}

/* Where AutoAWQ has each of the eight outputs of a word. */
static const unsigned char across_place[8] = {0, 4, 1, 5, 2, 6, 3, 7};

/* Value i of a column of packed words that lie `step` words apart. */
static uint32_t load_down(const fore_entry *e, size_t column, size_t step, size_t i, unsigned bits) {
    size_t at = i * bits, word = at / 32 * step + column;
    unsigned in = (unsigned)(at % 32);
    uint32_t v = load_word(e, word) >> in;
    if (in + bits > 32) v |= load_word(e, word + step) << (32 - in);
    return v & ((1u << bits) - 1);
}

static int zero_of(const fore_form_matrix *m, size_t groups, size_t n, size_t g) {
    const int bits = m->own[BITS], half = 1 << (bits - 1);
    const fore_entry *z = m->part[ZEROS];
    if (!z) return half;
    if (is_int8(z)) {
        int v = z->data[n * groups + g];
        return (v < 128 ? v : v - 256) + half;
    }
    if (m->own[LAYOUT] == ROWS) return (int)load_down(z, g, groups, n, (unsigned)bits);
    size_t row = g * words_of(m->rows, bits);
    if (m->own[LAYOUT] == ACROSS) return (int)(load_word(z, row + n / 8) >> 4 * across_place[n % 8] & 15);
    return (int)load_down(z, row, 1, n, (unsigned)bits) + m->own[LESS];
}

static size_t scale_place(const fore_form_matrix *m, size_t groups, size_t n, size_t g) {
    if (!m->own[STEP]) return 0;
    return m->own[LAYOUT] == ROWS || m->own[LAYOUT] == BYTES ? n * groups + g : g * m->rows + n;
}

static float scale_of(const fore_form_matrix *m, size_t groups, size_t n, size_t g) {
    const fore_entry *e = m->part[SCALES];
    const unsigned char *p = e->data + scale_place(m, groups, n, g) * fore_dtype_size(e->dtype);
    return e->dtype == FORE_DTYPE_F32 ? fore_load_f32(p) : e->dtype == FORE_DTYPE_BF16 ? fore_load_bf16(p) : fore_load_f16(p);
}

/* Weights k0 .. k0+count-1 of a row, unsigned. */
static void unpack(const fore_form_matrix *m, size_t n, size_t k0, size_t count, unsigned char *q) {
    const fore_entry *e = m->part[WEIGHTS];
    const unsigned bits = (unsigned)m->own[BITS], mask = (1u << bits) - 1;
    if (m->own[LAYOUT] == BYTES) {
        for (size_t i = 0; i < count; i++) q[i] = e->data[n * m->K + k0 + i] ^ 0x80;
    } else if (m->own[LAYOUT] == ROWS) {
        const size_t row = n * words_of(m->K, m->own[BITS]);
        const unsigned char *bytes = e->data + 4 * row;
        if (bits == 8) memcpy(q, bytes + k0, count);
        else if (bits == 4)
            for (size_t i = 0; i < count; i++) q[i] = bytes[(k0 + i) / 2] >> (k0 + i) % 2 * 4 & 15;
        else
            for (size_t i = 0; i < count; i++) q[i] = (unsigned char)load_down(e, row, 1, k0 + i, bits);
    } else if (m->own[LAYOUT] == DOWN) {
        const size_t per = 32 / bits; /* which divides K and every k0 */
        for (size_t i = 0, at = k0 / per * m->rows + n; i < count; i += per, at += m->rows) {
            uint32_t word = load_word(e, at);
            for (size_t j = 0; j < per; j++, word >>= bits) q[i + j] = (unsigned char)(word & mask);
        }
    } else {
        const size_t words = words_of(m->rows, 4);
        const unsigned shift = 4u * across_place[n % 8];
        for (size_t i = 0; i < count; i++) q[i] = load_word(e, (k0 + i) * words + n / 8) >> shift & 15;
    }
}

/* Weight k of a row. */
static unsigned unpack_one(const fore_form_matrix *m, size_t n, size_t k) {
    const fore_entry *e = m->part[WEIGHTS];
    const unsigned bits = (unsigned)m->own[BITS];
    if (m->own[LAYOUT] == BYTES) return e->data[n * m->K + k] ^ 0x80u;
    if (m->own[LAYOUT] == ROWS) return load_down(e, n * words_of(m->K, m->own[BITS]), 1, k, bits);
    return load_down(e, n, m->rows, k, bits); /* AutoAWQ's has no order */
}

/* Columns k0 .. of panels, whose order may be another. */
static void unpack_columns(const fore_form_matrix *m, size_t n, size_t k0, size_t count, unsigned char *q) {
    if (!m->order) unpack(m, n, k0, count, q);
    else
        for (size_t i = 0; i < count; i++) q[i] = (unsigned char)unpack_one(m, n, (size_t)m->order[k0 + i]);
}

/* ---- what it becomes --------------------------------------------------------------------------------------------- */

/* Whether every group has as many columns, as those of panels must. */
static bool groups_are_even(const fore_form_matrix *m, size_t groups) {
    enum { MOST = 4096 }; /* of 32 columns: those of a matrix far wider than there are */
    uint32_t count[MOST] = {0};
    if (groups > MOST) return false;
    for (size_t k = 0; k < m->K; k++) count[load_word(m->part[ORDER], k)]++;
    for (size_t g = 0; g < groups; g++)
        if (count[g] != (uint32_t)m->own[GROUP]) return false;
    return true;
}

/* Keeps the order of columns where it is not that of neighbours. */
static fore_status read_order(fore_form_matrix *m, const tensors *t, fore_error *err) {
    const fore_entry *e = t->order;
    if (!e) return FORE_OK;
    if (e->dtype != FORE_DTYPE_I32 || e->dims != 1 || e->shape[0] != m->K) {
        char want[48];
        snprintf(want, sizeof want, "I32 [%zu]", m->K);
        return fore_form_refuse_shape(e, want, err);
    }
    bool any = false, plain = true;
    for (size_t k = 0; k < m->K; k++) {
        uint32_t g = load_word(e, k);
        any = any || g != UINT32_MAX; /* compressed-tensors before it knows an order */
        plain = plain && g == k / (size_t)m->own[GROUP];
    }
    if (plain || !any) return FORE_OK;
    for (size_t k = 0; k < m->K; k++)
        if (load_word(e, k) >= t->groups)
            return fore_fail(err, FORE_ERR_FORMAT, "%s: column %zu is of group %u, there are %zu", e->name, k, load_word(e, k), t->groups);
    m->part[ORDER] = e;
    m->ordered = groups_are_even(m, t->groups);
    return FORE_OK;
}

/* Whether -scale * zero is a number of the scale's type for every group: of a power of two only the exponent differs. */
static bool zeros_are_powers(const fore_form_matrix *m, size_t groups) {
    if (!m->part[ZEROS]) return true;
    for (size_t n = 0; n < m->rows; n++)
        for (size_t g = 0; g < groups; g++) {
            int z = zero_of(m, groups, n, g);
            if (z < 0 || z & (z - 1)) return false;
        }
    return true;
}

/* Whether it is one of F32: a number of 16 bits and a zero have no more digits together. */
static bool products_are_exact(const fore_form_matrix *m, size_t groups) {
    if (m->part[SCALES]->dtype != FORE_DTYPE_F32) return true;
    for (size_t n = 0; n < m->rows; n++)
        for (size_t g = 0; g < groups; g++) {
            float scale = scale_of(m, groups, n, g), zero = (float)zero_of(m, groups, n, g);
            if ((double)(scale * zero) != (double)scale * (double)zero) return false;
        }
    return true;
}

/* The columns by their groups, in a group by their place. */
static void order_columns(const fore_form_matrix *m, int32_t *order) {
    const fore_entry *e = m->part[ORDER];
    const size_t group = (size_t)m->own[GROUP];
    /* A group's last place holds the next one to fill until it is filled itself. */
    for (size_t g = 0; g < m->K; g += group) order[g + group - 1] = (int32_t)g;
    for (size_t k = 0; k < m->K; k++) {
        size_t last = (size_t)load_word(e, k) * group + group - 1, place = (size_t)order[last];
        order[last] = (int32_t)place + 1;
        order[place] = (int32_t)k;
    }
}

static int panel_group(size_t group) {
    return group % 128 == 0 ? 128 : group % 64 == 0 ? 64 : group % 32 == 0 ? 32 : group % 16 == 0 ? 16 : 0;
}

/* The panels of the matrix, if there are some. */
static void choose_panels(fore_form_matrix *m, size_t groups) {
    const int group = panel_group((size_t)m->own[GROUP]), bits = m->own[BITS];
    const fore_dtype scales = m->part[SCALES]->dtype;
    const int fits = bits <= 4 && group > 16 ? 4 : 8; /* panels that hold q */
    m->dtype = FORE_DTYPE_F32;
    if (!group || (m->part[ORDER] && !m->ordered)) return;
    bool powers = zeros_are_powers(m, groups);
    if (powers || ((bits == 8 || fits == 4) && products_are_exact(m, groups))) {
        m->own[CENTRE] = -1;
        m->bits = fits;
        if (powers) m->dtype = scales;
    } else if (bits < 8) {
        m->own[CENTRE] = 1 << bits;
        m->bits = 8;
        m->dtype = scales;
    } else {
        return;
    }
    m->group = group;
}

static fore_status read(const fore_store *store, const fore_stored_settings *settings, fore_form_matrix *m, fore_error *err) {
    tensors t = {0};
    m->matrices = 1;
    fore_status s = fore_name_ends_with(m->part[WEIGHTS]->name, ".qweight") ? read_columns(store, settings, m, &t, err)
                                                                            : read_rows(store, m, &t, err);
    if (s) return s;
    if (!fore_dtype_is_float(t.scales->dtype))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: type %s; scales of integers are supported in F16, BF16 and F32", t.scales->name,
                         t.scales->dtype_name);
    if (!t.groups || m->K % t.groups)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: %zu groups, which do not divide the %zu columns of %s", t.scales->name, t.groups, m->K,
                         m->part[WEIGHTS]->name);
    m->part[SCALES] = t.scales;
    m->part[ZEROS] = t.zeros;
    m->own[GROUP] = (int)(m->K / t.groups);
    m->label = m->own[LAYOUT] == DOWN ? "GPTQ" : m->own[LAYOUT] == ACROSS ? "AWQ" : "compressed-tensors";
    m->file_bits = m->own[BITS];
    bool usual = m->own[GROUP] == panel_group((size_t)m->own[GROUP]) && m->own[LAYOUT] != BYTES;
    m->file_group = t.groups > 1 || usual ? m->own[GROUP] : 0;
    s = read_order(m, &t, err);
    if (s) return s;
    choose_panels(m, t.groups);
    m->ordered = m->ordered && m->bits;
    return FORE_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Columns go by pieces, and all rows of a piece follow each other: files that pack along the outputs have these side by side. */
enum { PIECE = 128 };

static void write_floats(const fore_form_matrix *m, size_t groups, size_t n, size_t k0, float *to) {
    unsigned char q[PIECE];
    size_t count = m->K - k0 < PIECE ? m->K - k0 : PIECE, last = SIZE_MAX;
    float scale = 0;
    int zero = 0;
    unpack(m, n, k0, count, q);
    for (size_t i = 0; i < count; i++) {
        size_t g = m->part[ORDER] ? load_word(m->part[ORDER], k0 + i) : (k0 + i) / (size_t)m->own[GROUP];
        if (g != last) {
            scale = scale_of(m, groups, n, g);
            zero = zero_of(m, groups, n, g);
            last = g;
        }
        to[i] = scale * (float)(q[i] - zero);
    }
}

/* A number that the type holds; false: it is none of its finite ones. */
static bool put(fore_dtype dtype, unsigned char *to, float x) {
    if (dtype == FORE_DTYPE_F32) {
        memcpy(to, &x, sizeof x);
        return isfinite(x);
    }
    bool good = fabsf(x) <= (dtype == FORE_DTYPE_F16 ? 65504.0f : 0x1.fep127f);
    uint16_t h = !good ? 0 : dtype == FORE_DTYPE_F16 ? fore_to_f16(x) : fore_to_bf16(x);
    to[0] = (unsigned char)h;
    to[1] = (unsigned char)(h >> 8);
    return good;
}

/* One group of a row. */
static bool write_group(const fore_form_matrix *m, size_t groups, size_t n, size_t k0, unsigned char *q, unsigned char *scale,
                        unsigned char *bias) {
    unsigned char piece[PIECE];
    const size_t count = (size_t)m->group, g = k0 / (size_t)m->own[GROUP];
    int zero = zero_of(m, groups, n, g), centre = m->own[CENTRE] < 0 ? zero : m->own[CENTRE], shift = centre - zero;
    const float step = scale_of(m, groups, n, g);
    unpack_columns(m, n, k0, count, piece);
    if (m->bits == 8)
        for (size_t i = 0; i < count; i++) q[i] = (unsigned char)(piece[i] + shift);
    else
        for (size_t i = 0; i < count; i += 2) q[i / 2] = (unsigned char)(piece[i] | piece[i + 1] << 4);
    return put(m->dtype, scale, step) && put(m->dtype, bias, centre ? -step * (float)centre : 0);
}

static const char *write(const fore_form_matrix *m, size_t row0, size_t rows, const fore_form_rows *to) {
    const size_t groups = m->K / (size_t)m->own[GROUP], step = m->bits ? (size_t)m->group : PIECE;
    const size_t bits = (size_t)m->bits, width = fore_dtype_size(m->dtype), affine = width * (m->K / step); /* a row's scales */
    bool good = true;
    for (size_t k = 0; k < m->K; k += step)
        for (size_t r = 0; r < rows; r++) {
            size_t at = r * affine + k / step * width;
            if (bits) good &= write_group(m, groups, row0 + r, k, to->q + (r * m->K + k) / 8 * bits, to->scales + at, to->biases + at);
            else write_floats(m, groups, row0 + r, k, (float *)(void *)to->q + r * m->K + k);
        }
    return good ? NULL : "a scale is not finite, or so large that its product with the zero point is none of its type";
}

const fore_form fore_form_int = {.name = "packed integers", .version = 2, .recognise = recognise, .read = read, .order = order_columns, .write = write};
