/* Norms over rows, 16 channels at a time; see v16.h. */
#ifndef FORE_KERNELS_V16_NORM_H
#define FORE_KERNELS_V16_NORM_H

#include <math.h>

#include "kernels/kern.h"

FORE_INLINE float v16_sum(const float *x, size_t C) {
    v16 sum = v16_zero();
    size_t c = 0;
    for (; c + 16 <= C; c += 16) sum = v16_add(sum, v16_load(x + c));
    if (c < C) sum = v16_add(sum, v16_load_n(x + c, C - c));
    return v16_fold(sum);
}

FORE_INLINE float v16_sum_squares(const float *x, size_t C) {
    v16 sum = v16_zero();
    size_t c = 0;
    for (; c + 16 <= C; c += 16) {
        v16 v = v16_load(x + c);
        sum = v16_fma(v, v, sum);
    }
    if (c < C) {
        v16 v = v16_load_n(x + c, C - c);
        sum = v16_fma(v, v, sum);
    }
    return v16_fold(sum);
}

FORE_INLINE float v16_sum_deviations(const float *x, float mean, size_t C) {
    v16 sum = v16_zero(), m = v16_set1(mean);
    size_t c = 0;
    for (; c + 16 <= C; c += 16) {
        v16 d = v16_sub(v16_load(x + c), m);
        sum = v16_fma(d, d, sum);
    }
    if (c < C) {
        v16 d = v16_keep_n(v16_sub(v16_load_n(x + c, C - c), m), C - c);
        sum = v16_fma(d, d, sum);
    }
    return v16_fold(sum);
}

static void v16_rms_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *gain, int T, int C, float eps) {
    size_t w = (size_t)C;
    for (int t = 0; t < T; t++, x += ldx, y += ldy) {
        v16 r = v16_set1(1.0f / sqrtf(v16_sum_squares(x, w) / (float)C + eps));
        size_t c = 0;
        for (; c + 16 <= w; c += 16) v16_store(y + c, v16_mul(v16_mul(v16_load(x + c), r), v16_load(gain + c)));
        if (c < w)
            v16_store_n(y + c, v16_mul(v16_mul(v16_load_n(x + c, w - c), r), v16_load_n(gain + c, w - c)), w - c);
    }
}

static void v16_layer_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *gain, const float *b, int T,
                           int C, float eps) {
    size_t w = (size_t)C;
    for (int t = 0; t < T; t++, x += ldx, y += ldy) {
        float mean = v16_sum(x, w) / (float)C;
        v16 r = v16_set1(1.0f / sqrtf(v16_sum_deviations(x, mean, w) / (float)C + eps)), m = v16_set1(mean);
        size_t c = 0;
        for (; c + 16 <= w; c += 16)
            v16_store(y + c, v16_fma(v16_mul(v16_sub(v16_load(x + c), m), r), v16_load(gain + c), v16_load(b + c)));
        size_t n = w - c;
        if (n)
            v16_store_n(
                y + c,
                v16_fma(v16_mul(v16_sub(v16_load_n(x + c, n), m), r), v16_load_n(gain + c, n), v16_load_n(b + c, n)),
                n);
    }
}

static void v16_l2_norm(float *y, size_t ldy, const float *x, size_t ldx, int T, int C, float eps, float scale) {
    size_t w = (size_t)C;
    for (int t = 0; t < T; t++, x += ldx, y += ldy) {
        v16 r = v16_set1((1.0f / sqrtf(v16_sum_squares(x, w) + eps)) * scale);
        size_t c = 0;
        for (; c + 16 <= w; c += 16) v16_store(y + c, v16_mul(v16_load(x + c), r));
        if (c < w) v16_store_n(y + c, v16_mul(v16_load_n(x + c, w - c), r), w - c);
    }
}

static void v16_gated_rms_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *z, size_t ldz,
                               const float *gain, int T, int C, float eps) {
    size_t w = (size_t)C;
    for (int t = 0; t < T; t++, x += ldx, y += ldy, z += ldz) {
        v16 r = v16_set1(1.0f / sqrtf(v16_sum_squares(x, w) / (float)C + eps));
        size_t c = 0;
        for (; c + 16 <= w; c += 16)
            v16_store(y + c,
                      v16_mul(v16_mul(v16_mul(v16_load(x + c), r), v16_load(gain + c)), v16_silu(v16_load(z + c))));
        size_t n = w - c;
        if (n)
            v16_store_n(y + c,
                        v16_mul(v16_mul(v16_mul(v16_load_n(x + c, n), r), v16_load_n(gain + c, n)),
                                v16_silu(v16_load_n(z + c, n))), n);
    }
}

#endif
