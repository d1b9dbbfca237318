/* The scalar reference, entry by entry: the definition that every other set repeats bit for bit. Sets without an entry
 * of their own take it from here. Contracts: kern.h. */
#ifndef FORE_KERNELS_REF_H
#define FORE_KERNELS_REF_H

#include "kernels/kern.h"

void fore_ref_mm_f32(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K);
void fore_ref_mm_bf16(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K);
void fore_ref_mm_f16(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K);
void fore_ref_mm_across(float *y, size_t ldy, const float *x, size_t ldx, const void *W, fore_dtype dtype, int across, int T, int n0,
                        int n1, int K);
void fore_ref_quantize_rows(const fore_qrows *to, const float *x, size_t ldx, int T, int K, int group);
void fore_ref_mm_q(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);
void fore_ref_widen_bf16(float *y, const void *x, size_t n);
void fore_ref_widen_f16(float *y, const void *x, size_t n);
void fore_ref_rms_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *gain, int T, int C, float eps);
void fore_ref_layer_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *w, const float *b, int T, int C,
                         float eps);
void fore_ref_l2_norm(float *y, size_t ldy, const float *x, size_t ldx, int T, int C, float eps, float scale);
void fore_ref_gated_rms_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *z, size_t ldz,
                             const float *w, int T, int C, float eps);
void fore_ref_add(float *y, const float *x, size_t n);
void fore_ref_add_bias(float *y, size_t ldy, const float *b, int T, int n0, int n1);
void fore_ref_silu_mul(float *y, const float *gate, const float *up, size_t n);
void fore_ref_sigmoid_mul(float *y, const float *gate, size_t n);
void fore_ref_gelu_tanh(float *y, size_t n);
void fore_ref_gelu_erf(float *y, size_t n);
void fore_ref_rope(float *x, size_t row, size_t head, int T, int H, int half, const float *cos, const float *sin);
void fore_ref_conv_silu(float *y, size_t ldy, const float *u, size_t ldu, const float *prev, const float *w, int T,
                        int c0, int c1, int C, int K);
void fore_ref_delta_gates(float *beta, float *decay, size_t ldo, const float *b, size_t ldb, const float *a, size_t lda,
                          const float *neg_exp_A, const float *dt_bias, int T, int H);
void fore_ref_delta(const fore_delta *d);
void fore_ref_attend(const fore_attend *a);
size_t fore_ref_argmax(const float *x, size_t n);

/* Lane 0 after the contract's fold; the lanes are overwritten. */
static inline float fore_ref_fold(float lane[FORE_LANES]) {
    for (int step = FORE_LANES / 2; step; step /= 2)
        for (int i = 0; i < step; i++) lane[i] += lane[i + step];
    return lane[0];
}

#endif
