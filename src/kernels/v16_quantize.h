/* Rows of floats to int8 with one scale a group; see v16.h and quantize_rows in kern.h. */
#ifndef FORE_KERNELS_V16_QUANTIZE_H
#define FORE_KERNELS_V16_QUANTIZE_H

#include <math.h>
#include <string.h>

#include "kernels/kern.h"

FORE_INLINE void v16_quantize_group(int8_t *q, float *scale, float *sum, const float *x, const int group) {
    v16 most = v16_zero(), total = v16_zero(), rounder = v16_set1(0x1.8p23f); /* adding it rounds to integers */
    bool finite = true;
    for (int k = 0; k < group; k += 16) {
        v16 in = v16_load(x + k);
        finite = finite && !v16_any(v16_nan(in));
        most = v16_max(v16_abs(in), most);
    }
    float m = v16_fold_max(most);
    if (!finite || m == INFINITY || m < 0x1p-100f) {
        *scale = *sum = finite && m < 1 ? 0.0f : NAN;
        memset(q, 0, (size_t)group);
        return;
    }
    v16 factor = v16_set1(127 / m);
    for (int k = 0; k < group; k += 16) {
        v16 in = v16_sub(v16_add(v16_mul(v16_load(x + k), factor), rounder), rounder);
        total = v16_add(total, in); /* integers: exact */
        v16_store_bytes(q + k, in);
    }
    *scale = m / 127;
    *sum = v16_fold(total) * *scale;
}

static void v16_quantize_rows(const fore_qrows *to, const float *x, size_t ldx, int T, int K, int group) {
    for (size_t t = 0; t < (size_t)T; t++)
        for (size_t g = 0; g < (size_t)(K / group); g++) {
            size_t k = g * (size_t)group, at = t * to->groups + g;
            v16_quantize_group(to->q + t * to->row + k, to->scale + at, to->sum + at, x + t * ldx + k, group);
        }
}

#endif
