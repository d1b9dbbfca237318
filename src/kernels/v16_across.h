/* Products with transposed weights, whose rows are inputs: lanes of a register are outputs here, and each of the sixteen sums
 * of an output has a register of its own, in the first cache. The operations of an output, and their order, are those of
 * v16_matmul.h. For few rows; see kern.h. */
#ifndef FORE_KERNELS_V16_ACROSS_H
#define FORE_KERNELS_V16_ACROSS_H

#include "kernels/v16_matmul.h"

enum { V16_ACROSS = 128 }; /* outputs at a time: long enough pieces of a row to read at full speed */

/* One row of inputs with cols outputs. */
FORE_INLINE void v16_across_row(const int kind, float *y, const float *x, const unsigned char *w, size_t row, size_t cols, size_t K) {
    float acc[16 * V16_ACROSS] __attribute__((aligned(64)));
    size_t whole = cols / 16 * 16, left = cols - whole;
    memset(acc, 0, sizeof acc);
    for (size_t k = 0; k < K; k++, w += row) {
        v16 in = v16_set1(x[k]);
        float *sum = acc + k % 16 * V16_ACROSS;
        size_t c = 0;
        for (; c < whole; c += 16) v16_store(sum + c, v16_fma(in, v16_weights16(kind, w + c * v16_width(kind)), v16_load(sum + c)));
        if (left) v16_store(sum + c, v16_fma(in, v16_weights_n(kind, w + c * v16_width(kind), left), v16_load(sum + c)));
    }
    for (size_t k = K; k % 16; k++) /* lanes past the last input get 0 * 0 */
        for (size_t c = 0; c < cols; c += 16) {
            float *sum = acc + k % 16 * V16_ACROSS + c;
            v16_store(sum, v16_fma(v16_zero(), v16_zero(), v16_load(sum)));
        }
    for (size_t step = 8; step; step /= 2)
        for (size_t i = 0; i < step; i++)
            for (size_t c = 0; c < cols; c += 16) {
                float *sum = acc + i * V16_ACROSS + c;
                v16_store(sum, v16_add(v16_load(sum), v16_load(sum + step * V16_ACROSS)));
            }
    memcpy(y, acc, cols * sizeof *y);
}

FORE_INLINE void v16_across(const int kind, float *y, size_t ldy, const float *x, size_t ldx, const unsigned char *W, size_t across,
                            size_t T, size_t n0, size_t n1, size_t K) {
    for (size_t n = n0; n < n1; n += V16_ACROSS) /* the strip stays in the second cache for the other rows */
        for (size_t t = 0; t < T; t++)
            v16_across_row(kind, y + t * ldy + n, x + t * ldx, W + n * v16_width(kind), across * v16_width(kind),
                           n1 - n < V16_ACROSS ? n1 - n : V16_ACROSS, K);
}

static void v16_mm_across(float *y, size_t ldy, const float *x, size_t ldx, const void *W, fore_dtype dtype, int across, int T, int n0,
                          int n1, int K) {
    size_t a = (size_t)across, t = (size_t)T, from = (size_t)n0, to = (size_t)n1, depth = (size_t)K;
    if (dtype == FORE_DTYPE_F32) v16_across(V16_F32, y, ldy, x, ldx, W, a, t, from, to, depth);
    else if (dtype == FORE_DTYPE_BF16) v16_across(V16_BF16, y, ldy, x, ldx, W, a, t, from, to, depth);
    else v16_across(V16_F16, y, ldy, x, ldx, W, a, t, from, to, depth);
}

#endif
