/* FP8: M.weight F8_E4M3 [N,K], or fused [E,N,K], with M.weight_scale_inv or M.weight_scale in F32, BF16 or F16: one number for the
 * whole, one a row, or one for each block; both names hold what the weight is multiplied by. The scales of fused tensors are
 * NAME_scale_inv. Blocks have the size that config.json says, the last ones may be cut; without one they are of equal size.
 *
 * In memory: floats of the type that the config says the model computes in (BF16 if it says none), as transformers has them after
 * Fp8Dequantize (integrations/finegrained_fp8.py): weight * scale in f32, rounded once. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/quant.h"
#include "model/form_list.h"

enum { WEIGHTS, SCALES };                           /* part */
enum { GRID_ROWS, GRID_COLUMNS, BLOCK_ROWS, BLOCK_COLUMNS }; /* own: scales a matrix, weights a scale */

static bool recognise(const fore_store *store, const fore_entry *e) {
    (void)store;
    return strcmp(e->dtype_name, "F8_E4M3") == 0;
}

/* Blocks along an axis: their size, 0 when the scales do not fit it. */
static int block_size(size_t n, uint64_t grid, int said) {
    if (!grid || grid > n || n > INT32_MAX) return 0;
    if (said > 0 && (n - 1) / (size_t)said + 1 == grid) return said;
    return n % grid ? 0 : (int)(n / grid);
}

static fore_status read(const fore_store *store, const fore_stored_settings *settings, fore_form_matrix *m, fore_error *err) {
    const fore_entry *e = m->part[WEIGHTS], *s = fore_form_find(store, e, "weight_scale_inv");
    if (!s) s = fore_form_find(store, e, "weight_scale");
    if (!s)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: type F8_E4M3 without scales (looked for weight_scale_inv and weight_scale beside it)",
                         e->name);
    if (!fore_dtype_is_float(s->dtype))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: type %s; scales of F8_E4M3 weights are supported in F32, BF16 and F16", s->name,
                         s->dtype_name);
    if (e->dims != 2 && e->dims != 3) return fore_form_refuse_shape(e, "a matrix, or several of one shape", err);
    m->part[SCALES] = s;
    m->matrices = e->dims == 3 ? (size_t)e->shape[0] : 1;
    m->rows = (size_t)e->shape[e->dims - 2];
    m->K = (size_t)e->shape[e->dims - 1];
    uint64_t count = 1, grid[2] = {1, 1};
    for (int d = 0; d < s->dims; d++) count *= s->shape[d]; /* cannot run over: the file has as many bytes */
    bool whole = count == 1 && m->matrices == 1;
    if (!whole && s->dims == e->dims) memcpy(grid, s->shape + s->dims - 2, sizeof grid);
    else if (!whole && s->dims == 1 && e->dims == 2) grid[0] = count; /* a row each */
    else if (!whole) grid[0] = 0;
    if (e->dims == 3 && (s->dims != 3 || s->shape[0] != e->shape[0])) grid[0] = 0;
    m->own[BLOCK_ROWS] = block_size(m->rows, grid[0], settings->block_rows);
    m->own[BLOCK_COLUMNS] = block_size(m->K, grid[1], settings->block_columns);
    if (!m->own[BLOCK_ROWS] || !m->own[BLOCK_COLUMNS]) {
        char want[128];
        snprintf(want, sizeof want, "one number for each block of %d by %d of [%zu,%zu], for each row, or one for all",
                 settings->block_rows, settings->block_columns, m->rows, m->K);
        return fore_form_refuse_shape(s, want, err);
    }
    m->own[GRID_ROWS] = (int)grid[0];
    m->own[GRID_COLUMNS] = (int)grid[1];
    m->dtype = fore_dtype_is_float(settings->dtype) ? settings->dtype : FORE_DTYPE_BF16;
    return FORE_OK;
}

/* Sign, 4 bits of exponent with bias 7, 3 of mantissa; no infinities, one NaN of each sign. */
static float widen_e4m3(unsigned v) {
    unsigned exponent = v >> 3 & 15, mantissa = v & 7;
    float x = exponent ? fore_float_of((exponent + 120) << 23 | mantissa << 20) : (float)mantissa * 0x1p-9f;
    return (v & 127) == 127 ? NAN : v & 128 ? -x : x;
}

static float load(fore_dtype dtype, const unsigned char *p, size_t i) {
    return dtype == FORE_DTYPE_F32 ? fore_load_f32(p + 4 * i) : dtype == FORE_DTYPE_BF16 ? fore_load_bf16(p + 2 * i) : fore_load_f16(p + 2 * i);
}

static bool store(fore_dtype dtype, unsigned char *to, size_t i, float x) {
    if (dtype == FORE_DTYPE_F32) {
        memcpy(to + 4 * i, &x, sizeof x);
        return isfinite(x);
    }
    uint16_t h = isfinite(x) ? dtype == FORE_DTYPE_BF16 ? fore_to_bf16(x) : fore_to_f16(x) : 0;
    to[2 * i] = (unsigned char)h;
    to[2 * i + 1] = (unsigned char)(h >> 8);
    return isfinite(x) && (h & 0x7fff) < (dtype == FORE_DTYPE_BF16 ? 0x7f80 : 0x7c00);
}

static const char *write(const fore_form_matrix *m, size_t row0, size_t rows, const fore_form_rows *to) {
    float table[256];
    for (unsigned v = 0; v < 256; v++) table[v] = widen_e4m3(v);
    const size_t K = m->K, row = K * fore_dtype_size(m->dtype), block = (size_t)m->own[BLOCK_COLUMNS];
    const unsigned char *scales = m->part[SCALES]->data;
    bool good = true;
    for (size_t r = 0; r < rows; r++) {
        size_t n = row0 + r, grid_row = n / m->rows * (size_t)m->own[GRID_ROWS] + n % m->rows / (size_t)m->own[BLOCK_ROWS];
        const unsigned char *from = m->part[WEIGHTS]->data + n * K;
        unsigned char *out = to->q + r * row;
        for (size_t k = 0, g = grid_row * (size_t)m->own[GRID_COLUMNS]; k < K; g++) {
            const float scale = load(m->part[SCALES]->dtype, scales, g);
            for (size_t end = K - k < block ? K : k + block; k < end; k++) good &= store(m->dtype, out, k, table[from[k]] * scale);
        }
    }
    return good ? NULL : "a weight is not finite, or too large for the model's type";
}

const fore_form fore_form_fp8 = {.name = "FP8", .version = 1, .by_rows = true, .recognise = recognise, .read = read, .write = write};
