/* Scalar reference of the products and of widening; see ref.h. */
#include <math.h>

#include "kernels/half.h"
#include "kernels/ref.h"

typedef float load_fn(const unsigned char *p); /* one weight, any alignment */

/* Weight (n, k) lies n*output + k*input bytes after W. */
static void mm(float *y, size_t ldy, const float *x, size_t ldx, const void *W, size_t output, size_t input, load_fn *load, int T,
               int n0, int n1, int K) {
    for (int t = 0; t < T; t++)
        for (int n = n0; n < n1; n++) {
            const float *row = x + (size_t)t * ldx;
            const unsigned char *weights = (const unsigned char *)W + (size_t)n * output;
            float lane[FORE_LANES] = {0};
            for (int k = 0; k < K; k++)
                lane[k % FORE_LANES] = fmaf(row[k], load(weights + (size_t)k * input), lane[k % FORE_LANES]);
            for (int k = K; k % FORE_LANES; k++) lane[k % FORE_LANES] = fmaf(0.0f, 0.0f, lane[k % FORE_LANES]);
            y[(size_t)t * ldy + (size_t)n] = fore_ref_fold(lane);
        }
}

void fore_ref_mm_f32(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K) {
    mm(y, ldy, x, ldx, W, (size_t)K * 4, 4, fore_load_f32, T, n0, n1, K);
}

void fore_ref_mm_bf16(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K) {
    mm(y, ldy, x, ldx, W, (size_t)K * 2, 2, fore_load_bf16, T, n0, n1, K);
}

void fore_ref_mm_f16(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K) {
    mm(y, ldy, x, ldx, W, (size_t)K * 2, 2, fore_load_f16, T, n0, n1, K);
}

void fore_ref_mm_across(float *y, size_t ldy, const float *x, size_t ldx, const void *W, fore_dtype dtype, int across, int T, int n0,
                        int n1, int K) {
    size_t width = fore_dtype_size(dtype);
    load_fn *load = dtype == FORE_DTYPE_F32 ? fore_load_f32 : dtype == FORE_DTYPE_BF16 ? fore_load_bf16 : fore_load_f16;
    mm(y, ldy, x, ldx, W, width, (size_t)across * width, load, T, n0, n1, K);
}

void fore_ref_widen_bf16(float *y, const void *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = fore_load_bf16((const unsigned char *)x + 2 * i);
}

void fore_ref_widen_f16(float *y, const void *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = fore_load_f16((const unsigned char *)x + 2 * i);
}
