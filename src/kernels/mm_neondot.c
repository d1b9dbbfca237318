/* Quantised products with NEON's dot product extension, whose sdot adds four products of signed bytes to each int32. */
#include "kernels/v16_neon.h"

FORE_INLINE v16i v16i_add_dot(v16i sum, v16b w, v16b x) {
    FORE_UNROLL for (int i = 0; i < 4; i++) sum.v[i] = vdotq_s32(sum.v[i], w.v[i], x.v[i]);
    return sum;
}
FORE_INLINE void v16i_pin(v16i *sum) {
    FORE_UNROLL for (int i = 0; i < 4; i++) __asm__("" : "+w"(sum->v[i]));
}
FORE_INLINE v16b v16b_signed(v16b w) {
    FORE_UNROLL for (int i = 0; i < 4; i++) w.v[i] = veorq_s8(w.v[i], vdupq_n_s8(-128));
    return w;
}
FORE_INLINE v16i v16i_start(const int8_t *q, size_t n) {
    int32x4_t sum = vdupq_n_s32(0);
    for (size_t k = 0; k < n; k += 16) sum = vdotq_s32(sum, vld1q_s8(q + k), vdupq_n_s8(1));
    sum = vdupq_n_s32(128 * vaddvq_s32(sum));
    return (v16i){{sum, sum, sum, sum}};
}

#define V16_MMQ_DOT
#define V16_MMQ_SIGNED
#define V16_MMQ_FEW(X) X(1, 2) X(2, 2) X(3, 1) X(4, 1)
enum { V16_MMQ_STREAM_ROWS = 4, V16_MMQ_DIRECT = 8, V16_MMQ_ROWS = 6, V16_MMQ_PANELS = 1 };
#define V16_MMQ_TILED(X) X(4) X(5) X(6)

#include "kernels/v16_matmul_quant.h"

#include "kernels/sets.h"

void fore_mm_q4_neondot(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1) {
    v16_mm_q4(y, ldy, x, W, T, n0, n1);
}

void fore_mm_q8_neondot(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1) {
    v16_mm_q8(y, ldy, x, W, T, n0, n1);
}
