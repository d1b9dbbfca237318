/* Scalar reference of the products and of widening; see ref.h. */
#include <math.h>
#include <string.h>

#include "kernels/ref.h"

typedef float load_fn(const unsigned char *p); /* one weight, any alignment */

static uint16_t load_u16(const unsigned char *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static float float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static float load_f32(const unsigned char *p) {
    return float_of((uint32_t)load_u16(p) | (uint32_t)load_u16(p + 2) << 16);
}

static float load_bf16(const unsigned char *p) {
    return float_of((uint32_t)load_u16(p) << 16);
}

static float load_f16(const unsigned char *p) {
    uint32_t h = load_u16(p), sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x00400000u : 0)); /* NaN: quiet */
    if (exponent) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
    float x = (float)mantissa * 0x1p-24f;
    return sign ? -x : x;
}

static void mm(float *y, size_t ldy, const float *x, size_t ldx, const void *W, size_t width, load_fn *load, int T,
               int n0, int n1, int K) {
    for (int t = 0; t < T; t++)
        for (int n = n0; n < n1; n++) {
            const float *row = x + (size_t)t * ldx;
            const unsigned char *weights = (const unsigned char *)W + (size_t)n * (size_t)K * width;
            float lane[FORE_LANES] = {0};
            for (int k = 0; k < K; k++)
                lane[k % FORE_LANES] = fmaf(row[k], load(weights + (size_t)k * width), lane[k % FORE_LANES]);
            for (int k = K; k % FORE_LANES; k++) lane[k % FORE_LANES] = fmaf(0.0f, 0.0f, lane[k % FORE_LANES]);
            y[(size_t)t * ldy + (size_t)n] = fore_ref_fold(lane);
        }
}

void fore_ref_mm_f32(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K) {
    mm(y, ldy, x, ldx, W, 4, load_f32, T, n0, n1, K);
}

void fore_ref_mm_bf16(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K) {
    mm(y, ldy, x, ldx, W, 2, load_bf16, T, n0, n1, K);
}

void fore_ref_mm_f16(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K) {
    mm(y, ldy, x, ldx, W, 2, load_f16, T, n0, n1, K);
}

void fore_ref_widen_bf16(float *y, const void *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = load_bf16((const unsigned char *)x + 2 * i);
}

void fore_ref_widen_f16(float *y, const void *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = load_f16((const unsigned char *)x + 2 * i);
}
