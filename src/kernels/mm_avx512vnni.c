/* Quantised products with AVX-512 VNNI, whose dpbusd adds four products of bytes to each int32 lane. */
#include "kernels/v16_avx512.h"

FORE_INLINE v16i v16i_add_dot(v16i sum, v16b w, v16b x) { return _mm512_dpbusd_epi32(sum, w, x); }
FORE_INLINE void v16i_pin(v16i *sum) { __asm__("" : "+v"(*sum)); }

#define V16_MMQ_DOT
#define V16_MMQ_FEW(X) X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 3) X(6, 3) X(7, 3) X(8, 3)
enum { V16_MMQ_STREAM_ROWS = 8, V16_MMQ_DIRECT = 24, V16_MMQ_ROWS = 8, V16_MMQ_PANELS = 3 };
#define V16_MMQ_TILED(X) X(5) X(6) X(7) X(8)

#include "kernels/v16_matmul_quant.h"

#include "kernels/sets.h"

void fore_mm_q4_avx512vnni(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1) {
    v16_mm_q4(y, ldy, x, W, T, n0, n1);
}

void fore_mm_q8_avx512vnni(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1) {
    v16_mm_q8(y, ldy, x, W, T, n0, n1);
}
