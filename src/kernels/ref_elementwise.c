/* Scalar reference of what works element by element, and of argmax; see ref.h. */
#include <math.h>

#include "kernels/ref.h"
#include "kernels/transcend.h"

void fore_ref_add(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

void fore_ref_add_bias(float *y, size_t ldy, const float *b, int T, int n0, int n1) {
    for (int t = 0; t < T; t++)
        for (int n = n0; n < n1; n++) y[(size_t)t * ldy + (size_t)n] += b[n];
}

void fore_ref_silu_mul(float *y, const float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = fore_siluf(gate[i]) * up[i];
}

void fore_ref_sigmoid_mul(float *y, const float *gate, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] *= fore_sigmoidf(gate[i]);
}

void fore_ref_gelu_tanh(float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = fore_gelu_tanhf(y[i]);
}

void fore_ref_gelu_erf(float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = fore_gelu_erff(y[i]);
}

void fore_ref_rope(float *x, size_t row, size_t head, int T, int H, int half, const float *cos, const float *sin) {
    for (int t = 0; t < T; t++, cos += half, sin += half)
        for (int h = 0; h < H; h++) {
            float *p = x + (size_t)t * row + (size_t)h * head;
            for (int i = 0; i < half; i++) {
                float a = p[i], b = p[i + half];
                p[i] = a * cos[i] - b * sin[i];
                p[i + half] = b * cos[i] + a * sin[i];
            }
        }
}

void fore_ref_conv_silu(float *y, size_t ldy, const float *u, size_t ldu, const float *prev, const float *w, int T,
                        int c0, int c1, int C, int K) {
    for (int t = 0; t < T; t++)
        for (int c = c0; c < c1; c++) {
            float sum = 0.0f;
            for (int j = 0; j < K; j++) {
                int row = t - (K - 1) + j;
                float in =
                    row < 0 ? prev[(size_t)(row + K - 1) * (size_t)C + (size_t)c] : u[(size_t)row * ldu + (size_t)c];
                float weight = w[(size_t)j * (size_t)C + (size_t)c];
                sum = j ? fmaf(weight, in, sum) : weight * in;
            }
            y[(size_t)t * ldy + (size_t)c] = fore_siluf(sum);
        }
}

void fore_ref_delta_gates(float *beta, float *decay, size_t ldo, const float *b, size_t ldb, const float *a, size_t lda,
                          const float *neg_exp_A, const float *dt_bias, int T, int H) {
    for (int t = 0; t < T; t++, beta += ldo, decay += ldo, b += ldb, a += lda)
        for (int h = 0; h < H; h++) {
            beta[h] = fore_sigmoidf(b[h]);
            decay[h] = fore_expf(neg_exp_A[h] * fore_softplusf(a[h] + dt_bias[h]));
        }
}

size_t fore_ref_argmax(const float *x, size_t n) {
    size_t best = 0;
    float largest = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (x[i] > largest || (x[i] == largest && x[best] != x[best])) { /* the second: -inf beats a NaN at 0 */
            best = i;
            largest = x[i];
        }
    return best;
}
