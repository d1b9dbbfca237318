/* Quantising rows; see quant.h. */
#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/quant.h"

/* ---- the rule ---- */

enum { LANES = 8 }; /* chains of operations that do not wait for each other; divides every group */

/* Neighbours at..at+n-1 of a matrix, widened; false when one of them is not finite. */
static bool load_group(fore_dtype source, const unsigned char *rows, size_t at, size_t n, float *x) {
    if (source == FORE_DTYPE_F32)
        for (size_t k = 0; k < n; k++) x[k] = fore_load_f32(rows + 4 * (at + k));
    else if (source == FORE_DTYPE_BF16)
        for (size_t k = 0; k < n; k++) x[k] = fore_load_bf16(rows + 2 * (at + k));
    else
        for (size_t k = 0; k < n; k++) x[k] = fore_load_f16(rows + 2 * (at + k));
    float zero[LANES] = {0}, all = 0;
    for (size_t k = 0; k < n; k += LANES)
        for (size_t i = 0; i < LANES; i++) zero[i] += x[k + i] * 0; /* NaN for good where x is infinite or NaN */
    for (size_t i = 0; i < LANES; i++) all += zero[i];
    return all == 0;
}

/* Stores f as dtype and returns what was stored. */
static float store_rounded(fore_dtype dtype, unsigned char *p, float f) {
    uint16_t h = dtype == FORE_DTYPE_BF16 ? fore_to_bf16(f) : fore_to_f16(f);
    p[0] = (unsigned char)h, p[1] = (unsigned char)(h >> 8);
    return dtype == FORE_DTYPE_BF16 ? fore_load_bf16(p) : fore_load_f16(p);
}

/* MLX's scale and bias of a group, unrounded. */
static void affine_of(const float *x, int group, float top, float *scale, float *bias) {
    float lows[LANES], highs[LANES];
    for (int i = 0; i < LANES; i++) lows[i] = highs[i] = x[i];
    for (int k = LANES; k < group; k += LANES)
        for (int i = 0; i < LANES; i++) {
            lows[i] = x[k + i] < lows[i] ? x[k + i] : lows[i];
            highs[i] = x[k + i] > highs[i] ? x[k + i] : highs[i];
        }
    float low = lows[0], high = highs[0];
    for (int i = 1; i < LANES; i++) {
        low = lows[i] < low ? lows[i] : low;
        high = highs[i] > high ? highs[i] : high;
    }
    bool from_low = fabsf(low) > fabsf(high);
    float edge = from_low ? low : high, step = (high - low) / top;
    if (!(step > 1e-7f)) step = 1e-7f;
    if (!from_low) step = -step;
    float z = rintf(edge / step);
    *scale = z != 0 ? edge / z : step;
    *bias = z != 0 ? edge : 0;
}

/* q of a group: (x - bias) / scale, kept in 0 .. top and then rounded, which is the same as the other way round. */
static void round_group(const float *x, size_t group, float top, float scale, float bias, unsigned char *q) {
    for (size_t k = 0; k < group; k++) {
        float v = (x[k] - bias) / scale;
        v = v > 0 ? v : 0; /* also for 0 / 0 */
        v = v < top ? v : top;
        q[k] = (unsigned char)(int)(v + 0x1.8p23f - 0x1.8p23f); /* to the nearest, ties to even: v is far below 2^22 */
    }
}

/* ---- a better scale and bias ---- */

typedef float float4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));

static inline float4 load4(const float *x) {
    float4 v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline float sum4(float4 v) { return (v[0] + v[1]) + (v[2] + v[3]); }

/* Kept in 0 .. top and rounded to the nearest, ties to even. */
static inline float4 round4(float4 v, float top) {
    v = (float4)((int4)v & (v > 0));
    int4 over = v > top;
    v = (float4)(((int4)v & ~over) | ((int4)(v - v + top) & over));
    return v + 0x1.8p23f - 0x1.8p23f;
}

/* Sum of the squares of scale * q + bias - x, with the q that these give. */
static float error_of(const float *x, size_t group, float top, float scale, float bias) {
    float4 sum = {0};
    for (size_t k = 0; k < group; k += 4) {
        float4 v = load4(x + k), d = round4((v - bias) / scale, top) * scale + bias - v;
        sum += d * d;
    }
    return sum4(sum);
}

/* The scale and bias with the least error for the q that a range of numbers gives; false when all q are the same. */
static bool least_squares(const float *x, size_t group, float top, float low, float high, float *scale, float *bias) {
    float4 q1 = {0}, q2 = {0}, x1 = {0}, qx = {0};
    float factor = top / (high - low);
    for (size_t k = 0; k < group; k += 4) {
        float4 v = load4(x + k), q = round4((v - low) * factor, top);
        q1 += q;
        q2 += q * q;
        x1 += v;
        qx += q * v;
    }
    float n = (float)group, sq = sum4(q1), sx = sum4(x1), spread = n * sum4(q2) - sq * sq;
    if (!(spread > 0)) return false;
    *scale = (n * sum4(qx) - sq * sx) / spread;
    *bias = (sx - *scale * sq) / n;
    return true;
}

/* Tries ranges narrower than the weights' at either end, which cost the few at the ends and serve the others, and keeps what is
 * better than the rule's scale and bias, all rounded as they are stored. */
static void fit_group(fore_dtype dtype, const float *x, size_t group, float top, float *scale, float *bias) {
    static const float cuts[] = {0, 0.08f, 0.16f};
    enum { CUTS = 3 };
    unsigned char stored[2];
    float low = x[0], high = x[0], best = error_of(x, group, top, *scale, *bias);
    for (size_t k = 1; k < group; k++) {
        low = x[k] < low ? x[k] : low;
        high = x[k] > high ? x[k] : high;
    }
    for (int i = 0; i < CUTS * CUTS; i++) {
        float s, b, from = low - low * cuts[i / CUTS], to = high - high * cuts[i % CUTS];
        if (!(to > from) || !least_squares(x, group, top, from, to, &s, &b)) continue;
        s = store_rounded(dtype, stored, s);
        b = store_rounded(dtype, stored, b);
        if (s == 0 || !isfinite(s) || !isfinite(b)) continue;
        float error = error_of(x, group, top, s, b);
        if (!(error < best)) continue;
        best = error;
        *scale = s;
        *bias = b;
    }
}

/* ---- rows ---- */

static fore_status quantize(const fore_qweight *w, void *q, void *scales, void *biases, fore_dtype source, const void *rows,
                            bool fit, fore_error *err) {
    if (source != FORE_DTYPE_BF16 && source != FORE_DTYPE_F16 && source != FORE_DTYPE_F32)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "quant: expected a matrix of f32, f16 or bf16 to quantise");
    unsigned char *to = q, *to_scale = scales, *to_bias = biases;
    const float top = (float)((1 << w->bits) - 1);
    size_t group = (size_t)w->group, groups = (size_t)w->K / group;
    for (size_t i = 0; i < (size_t)w->N * groups; i++) { /* groups of all rows follow each other */
        float x[128] = {0}, scale = 0, bias = 0;
        unsigned char u[128] = {0};
        bool finite = load_group(source, rows, i * group, group, x);
        if (finite) {
            affine_of(x, w->group, top, &scale, &bias);
            scale = store_rounded(w->dtype, to_scale + 2 * i, scale);
            bias = store_rounded(w->dtype, to_bias + 2 * i, bias);
            finite = isfinite(scale) && isfinite(bias);
        }
        if (!finite)
            return fore_fail(err, FORE_ERR_FORMAT,
                             "quant: row %zu, from column %zu: weights that are not finite, or too large for 16-bit "
                             "scales; keep this matrix as it is",
                             i / groups, i % groups * group);
        if (fit && scale != 0) {
            fit_group(w->dtype, x, group, top, &scale, &bias);
            store_rounded(w->dtype, to_scale + 2 * i, scale);
            store_rounded(w->dtype, to_bias + 2 * i, bias);
        }
        if (scale != 0) round_group(x, group, top, scale, bias, u);
        if (w->bits == 8) memcpy(to + i * group, u, group);
        else
            for (size_t k = 0; k < group; k += 2) to[(i * group + k) / 2] = (unsigned char)(u[k] | u[k + 1] << 4);
    }
    return FORE_OK;
}

fore_status fore_quantize_rows(const fore_qweight *w, void *q, void *scales, void *biases, fore_dtype source,
                               const void *rows, fore_error *err) {
    return quantize(w, q, scales, biases, source, rows, false, err);
}

fore_status fore_quantize_rows_fitted(const fore_qweight *w, void *q, void *scales, void *biases, fore_dtype source,
                                      const void *rows, fore_error *err) {
    return quantize(w, q, scales, biases, source, rows, true, err);
}
