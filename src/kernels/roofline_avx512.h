/* The read and the f32 part of both AVX-512 sets; see roofline.h. */
#ifndef FORE_KERNELS_ROOFLINE_AVX512_H
#define FORE_KERNELS_ROOFLINE_AVX512_H

#include <immintrin.h>

#include "kernels/roofline.h"
#include "kernels/v16.h"

enum { ROOF_SUMS = 16, ROOF_LINE = 64, ROOF_AHEAD = 4096 };

/* Not _mm512_reduce_add_epi32: its sums are signed, and these run over. */
static inline uint32_t roof_fold(__m512i sum) {
    uint32_t lanes[16], all = 0;
    _mm512_storeu_si512(lanes, sum);
    for (int i = 0; i < 16; i++) all += lanes[i];
    return all;
}

static uint32_t roof_read(const void *data, size_t bytes) {
    const char *at = data, *end = at + bytes;
    __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (; at < end; at += FORE_ROOF_PIECE)
        FORE_UNROLL for (int i = 0; i < FORE_ROOF_PIECE / ROOF_LINE; i++) {
            FORE_PREFETCH(at, ROOF_AHEAD + (size_t)i * ROOF_LINE);
            sum[i % 4] = _mm512_add_epi32(sum[i % 4], _mm512_load_si512(at + i * ROOF_LINE));
        }
    return roof_fold(_mm512_add_epi32(_mm512_add_epi32(sum[0], sum[1]), _mm512_add_epi32(sum[2], sum[3])));
}

static uint32_t roof_float(size_t rounds) {
    __m512 sum[ROOF_SUMS], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f);
    FORE_UNROLL for (int i = 0; i < ROOF_SUMS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (size_t r = 0; r < rounds; r++) {
        FORE_UNROLL for (int i = 0; i < ROOF_SUMS; i++) sum[i] = _mm512_fmadd_ps(sum[i], x, y);
    }
    FORE_UNROLL for (int i = 1; i < ROOF_SUMS; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return roof_fold(_mm512_castps_si512(sum[0]));
}

#endif
