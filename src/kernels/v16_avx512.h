/* v16 as one AVX-512 register (F, BW, DQ, VL); see v16.h. */
#ifndef FORE_KERNELS_V16_AVX512_H
#define FORE_KERNELS_V16_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/transcend_const.h"
#include "kernels/v16.h"

typedef __m512 v16;
typedef __mmask16 v16m;

FORE_INLINE v16m v16_first_n(size_t n) { return (v16m)((1u << n) - 1u); }

FORE_INLINE v16 v16_zero(void) { return _mm512_setzero_ps(); }
FORE_INLINE v16 v16_set1(float f) { return _mm512_set1_ps(f); }
FORE_INLINE v16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
FORE_INLINE void v16_store(float *p, v16 v) { _mm512_storeu_ps(p, v); }
FORE_INLINE v16 v16_load_n(const float *p, size_t n) { return _mm512_maskz_loadu_ps(v16_first_n(n), p); }
FORE_INLINE void v16_store_n(float *p, v16 v, size_t n) { _mm512_mask_storeu_ps(p, v16_first_n(n), v); }
FORE_INLINE v16 v16_keep_n(v16 v, size_t n) { return _mm512_maskz_mov_ps(v16_first_n(n), v); }
FORE_INLINE void v16_pin(v16 *v) { __asm__("" : "+v"(*v)); }
FORE_INLINE v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
FORE_INLINE v16 v16_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
FORE_INLINE v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
FORE_INLINE v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
FORE_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
FORE_INLINE v16 v16_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }

FORE_INLINE v16 v16_abs(v16 a) { return _mm512_abs_ps(a); }
FORE_INLINE v16 v16_neg(v16 a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
FORE_INLINE v16 v16_sign_of(v16 a, v16 s) {
    v16 sign = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, s));
}
FORE_INLINE v16m v16_gt(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
FORE_INLINE v16m v16_lt(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
FORE_INLINE v16m v16_eq(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
FORE_INLINE v16m v16_nan(v16 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
FORE_INLINE v16 v16_select(v16m m, v16 a, v16 b) { return _mm512_mask_blend_ps(m, b, a); }
FORE_INLINE bool v16_any(v16m m) { return m != 0; }
FORE_INLINE size_t v16_first(v16m m) { return (size_t)__builtin_ctz(m); }

FORE_INLINE v16 v16_scale2(v16 p, v16 s) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(s), 23)));
}
FORE_INLINE void v16_split(v16 x, v16 *e, v16 *m) {
    __m512i half = _mm512_set1_epi32(FORE_SQRT_HALF_BITS);
    __m512i u = _mm512_sub_epi32(_mm512_castps_si512(x), half);
    *e = _mm512_cvtepi32_ps(_mm512_srai_epi32(u, 23));
    *m = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_and_si512(u, _mm512_set1_epi32(0x007fffff)), half));
}

FORE_INLINE v16 v16_widen_bf16(__m256i h) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
FORE_INLINE v16 v16_load_f32(const unsigned char *p) { return _mm512_loadu_ps(p); }
FORE_INLINE v16 v16_load_bf16(const unsigned char *p) {
    return v16_widen_bf16(_mm256_loadu_si256((const __m256i_u *)p));
}
FORE_INLINE v16 v16_load_f16(const unsigned char *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)p));
}
FORE_INLINE v16 v16_load_u8(const unsigned char *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)p)));
}
FORE_INLINE v16 v16_load_i8(const unsigned char *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i_u *)p)));
}
FORE_INLINE v16 v16_load_f32_n(const unsigned char *p, size_t n) { return _mm512_maskz_loadu_ps(v16_first_n(n), p); }
FORE_INLINE v16 v16_load_bf16_n(const unsigned char *p, size_t n) {
    return v16_widen_bf16(_mm256_maskz_loadu_epi16(v16_first_n(n), p));
}
FORE_INLINE v16 v16_load_f16_n(const unsigned char *p, size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v16_first_n(n), p));
}

FORE_INLINE float v16_fold(v16 v) {
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
FORE_INLINE float v16_fold_max(v16 v) { return _mm512_reduce_max_ps(v); }

/* The fold of four vectors down to 4 lanes, vector i in 128-bit block i. */
FORE_INLINE v16 v16_fold4(v16 a, v16 b, v16 c, v16 d) {
    v16 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    v16 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
}
/* Two results of v16_fold4 down to 2 lanes each. */
FORE_INLINE v16 v16_fold2(v16 a, v16 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}
/* Lane i is the fold of v[i]. */
FORE_INLINE v16 v16_fold16(const v16 *v) {
    v16 a = v16_fold2(v16_fold4(v[0], v[4], v[8], v[12]), v16_fold4(v[1], v[5], v[9], v[13]));
    v16 b = v16_fold2(v16_fold4(v[2], v[6], v[10], v[14]), v16_fold4(v[3], v[7], v[11], v[15]));
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}
FORE_INLINE void v16_fold_many(const v16 *v, int count, float *out) {
    const int sixteens = count / 16 * 16, eights = count / 8 * 8, fours = count / 4 * 4;
    FORE_UNROLL for (int i = 0; i < sixteens; i += 16) v16_store(out + i, v16_fold16(v + i));
    FORE_UNROLL for (int i = sixteens; i < eights; i += 8) {
        v16 f =
            v16_fold2(v16_fold4(v[i], v[i + 1], v[i + 2], v[i + 3]), v16_fold4(v[i + 4], v[i + 5], v[i + 6], v[i + 7]));
        f = _mm512_add_ps(f, _mm512_permute_ps(f, 0xb1));
        __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
        _mm256_storeu_ps(out + i, _mm512_castps512_ps256(_mm512_permutexvar_ps(order, f)));
    }
    FORE_UNROLL for (int i = eights; i < fours; i += 4) {
        v16 f = v16_fold4(v[i], v[i + 1], v[i + 2], v[i + 3]);
        f = _mm512_add_ps(f, _mm512_permute_ps(f, 0xee));
        f = _mm512_add_ps(f, _mm512_permute_ps(f, 0x55));
        __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        _mm_storeu_ps(out + i, _mm512_castps512_ps128(_mm512_permutexvar_ps(order, f)));
    }
    FORE_UNROLL for (int i = fours; i < count; i++) out[i] = v16_fold(v[i]);
}

typedef __m512i v16i;
typedef __m512i v16b;
typedef __m512i v16h;

FORE_INLINE v16i v16i_zero(void) { return _mm512_setzero_si512(); }
FORE_INLINE v16 v16_of_int(v16i i) { return _mm512_cvtepi32_ps(i); }
FORE_INLINE v16b v16b_load(const unsigned char *p) { return _mm512_loadu_si512(p); }
FORE_INLINE void v16b_store(unsigned char *p, v16b b) { _mm512_storeu_si512(p, b); }
FORE_INLINE v16b v16b_low(v16b b) { return _mm512_and_si512(b, _mm512_set1_epi8(15)); }
FORE_INLINE v16b v16b_high(v16b b) { return v16b_low(_mm512_srli_epi16(b, 4)); }
FORE_INLINE v16b v16b_same4(const int8_t *p) {
    int four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}
FORE_INLINE void v16_store_bytes(int8_t *p, v16 v) {
    _mm_storeu_si128((__m128i_u *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}
FORE_INLINE v16h v16h_zero(void) { return _mm512_setzero_si512(); }
FORE_INLINE v16h v16h_add_products(v16h h, v16b w, v16b x) { return _mm512_add_epi16(h, _mm512_maddubs_epi16(w, x)); }
FORE_INLINE v16i v16i_add_sums(v16i i, v16h h, const int times) {
    return _mm512_add_epi32(i, _mm512_madd_epi16(h, _mm512_set1_epi16((short)times)));
}

#endif
