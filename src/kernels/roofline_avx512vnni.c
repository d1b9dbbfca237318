/* What AVX-512 with VNNI reaches; see roofline.h. */
#include "kernels/roofline_avx512.h"

static uint32_t roof_integer(size_t rounds) {
    __m512i sum[ROOF_SUMS], w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(-5);
    FORE_UNROLL for (int i = 0; i < ROOF_SUMS; i++) sum[i] = _mm512_set1_epi32(i);
    for (size_t r = 0; r < rounds; r++) {
        FORE_UNROLL for (int i = 0; i < ROOF_SUMS; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], w, x);
    }
    FORE_UNROLL for (int i = 1; i < ROOF_SUMS; i++) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
    return roof_fold(sum[0]);
}

const fore_roof fore_roof_avx512vnni = {roof_read, roof_float, roof_integer, ROOF_SUMS * 16 * 2, ROOF_SUMS * 64 * 2};
