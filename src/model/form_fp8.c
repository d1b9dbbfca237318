/* FP8: M.weight F8_E4M3 [N,K], or fused [E,N,K], with M.weight_scale_inv or M.weight_scale in F32, BF16 or F16, or powers of two
 * in F8_E8M0 or U8 (2^(byte-127)): one number for the whole, one a row, or one for each block; both names hold what the weight is
 * multiplied by. The scales of fused tensors are NAME_scale_inv. Blocks have the size that config.json says, the last ones may be
 * cut; without one they are of equal size.
 *
 * In memory: floats of the type that the config says the model computes in (BF16 if it says none), as transformers has them after
 * Fp8Dequantize (integrations/finegrained_fp8.py): weight * scale in f32, rounded once. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/quant.h"
#include "model/form_list.h"

enum { WEIGHTS, SCALES };                                    /* part */
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

static bool is_power(const fore_entry *scales) { return scales->dtype == FORE_DTYPE_U8 || strcmp(scales->dtype_name, "F8_E8M0") == 0; }

static fore_status read(const fore_store *store, const fore_stored_settings *settings, fore_form_matrix *m, fore_error *err) {
    const fore_entry *e = m->part[WEIGHTS], *s = fore_form_find(store, e, "weight_scale_inv");
    if (!s) s = fore_form_find(store, e, "weight_scale");
    if (!s)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: type F8_E4M3 without scales (looked for weight_scale_inv and weight_scale beside it)",
                         e->name);
    if (!fore_dtype_is_float(s->dtype) && !is_power(s))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: type %s; scales of F8_E4M3 weights are supported in F32, BF16, F16, F8_E8M0 and U8",
                         s->name, s->dtype_name);
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
    m->file_bits = 8;
    m->dtype = fore_dtype_is_float(settings->dtype) ? settings->dtype : FORE_DTYPE_BF16;
    return FORE_OK;
}

/* Sign, 4 bits of exponent with bias 7, 3 of mantissa; no infinities, one NaN of each sign. */
static float widen_e4m3(unsigned v) {
    unsigned exponent = v >> 3 & 15, mantissa = v & 7;
    float x = exponent ? fore_float_of((exponent + 120) << 23 | mantissa << 20) : (float)mantissa * 0x1p-9f;
    return (v & 127) == 127 ? NAN : v & 128 ? -x : x;
}

static float load(const fore_entry *e, size_t i) {
    if (is_power(e)) return e->data[i] == 255 ? NAN : e->data[i] ? fore_float_of((uint32_t)e->data[i] << 23) : 0x1p-127f;
    const unsigned char *p = e->data + i * fore_dtype_size(e->dtype);
    return e->dtype == FORE_DTYPE_F32 ? fore_load_f32(p) : e->dtype == FORE_DTYPE_BF16 ? fore_load_bf16(p) : fore_load_f16(p);
}

/* What each of the 256 values becomes with one scale; BAD: no finite number of the type. */
enum { BAD = 1 << 16 };

static void make_table(uint32_t table[256], fore_dtype dtype, float scale) {
    for (unsigned v = 0; v < 256; v++) {
        float x = widen_e4m3(v) * scale;
        if (dtype == FORE_DTYPE_F32) {
            memcpy(&table[v], &x, sizeof x);
            continue;
        }
        uint32_t h = !isfinite(x) ? BAD : dtype == FORE_DTYPE_BF16 ? fore_to_bf16(x) : fore_to_f16(x);
        table[v] = (h & 0x7fff) < (dtype == FORE_DTYPE_BF16 ? 0x7f80 : 0x7c00) ? h : BAD;
    }
}

/* n weights; false: one is bad. */
static bool look_up(const uint32_t table[256], fore_dtype dtype, const unsigned char *from, unsigned char *to, size_t n) {
    if (dtype == FORE_DTYPE_F32) {
        bool good = true;
        for (size_t i = 0; i < n; i++) {
            good &= (bool)isfinite(fore_float_of(table[from[i]]));
            memcpy(to + 4 * i, &table[from[i]], 4);
        }
        return good;
    }
    uint32_t seen = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t h = table[from[i]];
        seen |= h;
        to[2 * i] = (unsigned char)h;
        to[2 * i + 1] = (unsigned char)(h >> 8);
    }
    return !(seen & BAD);
}

/* Block by block: all rows of the part that share its scale use one table. */
static const char *write(const fore_form_matrix *m, size_t row0, size_t rows, const fore_form_rows *to) {
    const size_t K = m->K, size = fore_dtype_size(m->dtype), width = (size_t)m->own[BLOCK_COLUMNS], height = (size_t)m->own[BLOCK_ROWS];
    uint32_t table[256];
    bool good = true;
    for (size_t r = 0, high; r < rows; r += high) {
        size_t n = row0 + r, in = n % m->rows, block = in / height, left = (block + 1) * height - in;
        size_t grid_row = n / m->rows * (size_t)m->own[GRID_ROWS] + block;
        if (left > m->rows - in) left = m->rows - in;
        high = left < rows - r ? left : rows - r;
        for (size_t k = 0, g = grid_row * (size_t)m->own[GRID_COLUMNS]; k < K; k += width, g++) {
            size_t count = K - k < width ? K - k : width;
            make_table(table, m->dtype, load(m->part[SCALES], g));
            for (size_t i = 0; i < high; i++)
                good &= look_up(table, m->dtype, m->part[WEIGHTS]->data + (n + i) * K + k, to->q + ((r + i) * K + k) * size, count);
        }
    }
    return good ? NULL : "a weight is not finite, or too large for the model's type";
}

const fore_form fore_form_fp8 = {.name = "FP8", .version = 1, .by_rows = true, .recognise = recognise, .read = read, .write = write};
