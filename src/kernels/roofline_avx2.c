/* What AVX2 reaches; see roofline.h. */
#include <immintrin.h>

#include "kernels/roofline.h"
#include "kernels/v16.h"

enum { SUMS = 12, LINE = 32, AHEAD = 4096 };

static inline uint32_t fold(__m256i sum) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

static uint32_t roof_read(const void *data, size_t bytes) {
    const char *at = data, *end = at + bytes;
    __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (; at < end; at += FORE_ROOF_PIECE)
        FORE_UNROLL for (int i = 0; i < FORE_ROOF_PIECE / LINE; i++) {
            if (i % 2 == 0) FORE_PREFETCH(at, AHEAD + (size_t)i * LINE);
            sum[i % 4] = _mm256_add_epi32(sum[i % 4], _mm256_load_si256((const __m256i *)(const void *)(at + i * LINE)));
        }
    return fold(_mm256_add_epi32(_mm256_add_epi32(sum[0], sum[1]), _mm256_add_epi32(sum[2], sum[3])));
}

static uint32_t roof_float(size_t rounds) {
    __m256 sum[SUMS], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f);
    FORE_UNROLL for (int i = 0; i < SUMS; i++) sum[i] = _mm256_set1_ps((float)i);
    for (size_t r = 0; r < rounds; r++) {
        FORE_UNROLL for (int i = 0; i < SUMS; i++) sum[i] = _mm256_fmadd_ps(sum[i], x, y);
    }
    FORE_UNROLL for (int i = 1; i < SUMS; i++) sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return fold(_mm256_castps_si256(sum[0]));
}

/* Products of bytes in 16 bits, two at a time. The weights change, or the products would be made once. */
static uint32_t roof_integer(size_t rounds) {
    __m256i sum[SUMS], w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(-5);
    FORE_UNROLL for (int i = 0; i < SUMS; i++) sum[i] = _mm256_set1_epi16((short)i);
    for (size_t r = 0; r < rounds; r++) {
        FORE_UNROLL for (int i = 0; i < SUMS; i++) {
            __asm__("" : "+x"(w));
            sum[i] = _mm256_add_epi16(sum[i], _mm256_maddubs_epi16(w, x));
        }
    }
    FORE_UNROLL for (int i = 1; i < SUMS; i++) sum[0] = _mm256_add_epi16(sum[0], sum[i]);
    return fold(sum[0]);
}

const fore_roof fore_roof_avx2 = {roof_read, roof_float, roof_integer, SUMS * 8 * 2, SUMS * 32 * 2};
