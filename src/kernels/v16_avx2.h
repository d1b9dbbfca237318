/* v16 as two AVX2 registers (with FMA and F16C): a holds lanes 0-7, b lanes 8-15; see v16.h. */
#ifndef FORE_KERNELS_V16_AVX2_H
#define FORE_KERNELS_V16_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/transcend_const.h"
#include "kernels/v16.h"

typedef struct v16 {
    __m256 a, b;
} v16;
typedef v16 v16m;

/* Lane masks of the first n lanes: 16 ones, then 16 zeros. */
static const int v16_ones_then_zeros[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
FORE_INLINE __m256i v16_first_a(size_t n) {
    return _mm256_loadu_si256((const __m256i_u *)(v16_ones_then_zeros + 16 - n));
}
FORE_INLINE __m256i v16_first_b(size_t n) {
    return _mm256_loadu_si256((const __m256i_u *)(v16_ones_then_zeros + 24 - n));
}

FORE_INLINE v16 v16_zero(void) { return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
FORE_INLINE v16 v16_set1(float f) { return (v16){_mm256_set1_ps(f), _mm256_set1_ps(f)}; }
FORE_INLINE v16 v16_load(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
FORE_INLINE void v16_store(float *p, v16 v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
FORE_INLINE v16 v16_load_n(const float *p, size_t n) {
    return (v16){_mm256_maskload_ps(p, v16_first_a(n)), _mm256_maskload_ps(p + 8, v16_first_b(n))};
}
FORE_INLINE void v16_store_n(float *p, v16 v, size_t n) {
    _mm256_maskstore_ps(p, v16_first_a(n), v.a);
    _mm256_maskstore_ps(p + 8, v16_first_b(n), v.b);
}
FORE_INLINE v16 v16_keep_n(v16 v, size_t n) {
    return (v16){_mm256_and_ps(v.a, _mm256_castsi256_ps(v16_first_a(n))),
                 _mm256_and_ps(v.b, _mm256_castsi256_ps(v16_first_b(n)))};
}
FORE_INLINE void v16_pin(v16 *v) { (void)v; }
FORE_INLINE v16 v16_add(v16 x, v16 y) { return (v16){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
FORE_INLINE v16 v16_sub(v16 x, v16 y) { return (v16){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
FORE_INLINE v16 v16_mul(v16 x, v16 y) { return (v16){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
FORE_INLINE v16 v16_div(v16 x, v16 y) { return (v16){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
FORE_INLINE v16 v16_fma(v16 x, v16 y, v16 z) {
    return (v16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
FORE_INLINE v16 v16_max(v16 x, v16 y) { return (v16){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }

FORE_INLINE v16 v16_and(v16 x, v16 y) { return (v16){_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b)}; }
FORE_INLINE v16 v16_andnot(v16 x, v16 y) { return (v16){_mm256_andnot_ps(x.a, y.a), _mm256_andnot_ps(x.b, y.b)}; }
FORE_INLINE v16 v16_abs(v16 x) { return v16_andnot(v16_set1(-0.0f), x); }
FORE_INLINE v16 v16_neg(v16 x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}
FORE_INLINE v16 v16_sign_of(v16 x, v16 s) {
    v16 rest = v16_abs(x), sign = v16_and(v16_set1(-0.0f), s);
    return (v16){_mm256_or_ps(rest.a, sign.a), _mm256_or_ps(rest.b, sign.b)};
}
FORE_INLINE v16m v16_gt(v16 x, v16 y) {
    return (v16){_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ)};
}
FORE_INLINE v16m v16_lt(v16 x, v16 y) {
    return (v16){_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
FORE_INLINE v16m v16_eq(v16 x, v16 y) {
    return (v16){_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)};
}
FORE_INLINE v16m v16_nan(v16 x) {
    return (v16){_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q)};
}
FORE_INLINE v16 v16_select(v16m m, v16 x, v16 y) {
    return (v16){_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)};
}
FORE_INLINE unsigned v16_bits(v16m m) {
    return (unsigned)_mm256_movemask_ps(m.a) | (unsigned)_mm256_movemask_ps(m.b) << 8;
}
FORE_INLINE bool v16_any(v16m m) { return v16_bits(m) != 0; }
FORE_INLINE size_t v16_first(v16m m) { return (size_t)__builtin_ctz(v16_bits(m)); }

FORE_INLINE __m256 v16_scale2_half(__m256 p, __m256 s) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(s), 23)));
}
FORE_INLINE v16 v16_scale2(v16 p, v16 s) { return (v16){v16_scale2_half(p.a, s.a), v16_scale2_half(p.b, s.b)}; }
FORE_INLINE void v16_split_half(__m256 x, __m256 *e, __m256 *m) {
    __m256i half = _mm256_set1_epi32(FORE_SQRT_HALF_BITS);
    __m256i u = _mm256_sub_epi32(_mm256_castps_si256(x), half);
    *e = _mm256_cvtepi32_ps(_mm256_srai_epi32(u, 23));
    *m = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(u, _mm256_set1_epi32(0x007fffff)), half));
}
FORE_INLINE void v16_split(v16 x, v16 *e, v16 *m) {
    v16_split_half(x.a, &e->a, &m->a);
    v16_split_half(x.b, &e->b, &m->b);
}

FORE_INLINE __m256 v16_widen_bf16(__m128i h) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
FORE_INLINE __m128i v16_load_half(const unsigned char *p) { return _mm_loadu_si128((const __m128i_u *)p); }
FORE_INLINE v16 v16_load_f32(const unsigned char *p) {
    return (v16){_mm256_castsi256_ps(_mm256_loadu_si256((const __m256i_u *)p)),
                 _mm256_castsi256_ps(_mm256_loadu_si256((const __m256i_u *)(p + 32)))};
}
FORE_INLINE v16 v16_load_bf16(const unsigned char *p) {
    return (v16){v16_widen_bf16(v16_load_half(p)), v16_widen_bf16(v16_load_half(p + 16))};
}
FORE_INLINE v16 v16_load_f16(const unsigned char *p) {
    return (v16){_mm256_cvtph_ps(v16_load_half(p)), _mm256_cvtph_ps(v16_load_half(p + 16))};
}
FORE_INLINE v16 v16_load_u8(const unsigned char *p) {
    __m128i bytes = v16_load_half(p);
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}
FORE_INLINE v16 v16_load_i8(const unsigned char *p) {
    __m128i bytes = v16_load_half(p);
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
FORE_INLINE v16 v16_load_f32_n(const unsigned char *p, size_t n) {
    unsigned char whole[64] = {0};
    memcpy(whole, p, 4 * n);
    return v16_load_f32(whole);
}
FORE_INLINE v16 v16_load_bf16_n(const unsigned char *p, size_t n) {
    unsigned char whole[32] = {0};
    memcpy(whole, p, 2 * n);
    return v16_load_bf16(whole);
}
FORE_INLINE v16 v16_load_f16_n(const unsigned char *p, size_t n) {
    unsigned char whole[32] = {0};
    memcpy(whole, p, 2 * n);
    return v16_load_f16(whole);
}

FORE_INLINE float v16_fold(v16 v) {
    __m256 a = _mm256_add_ps(v.a, v.b);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
FORE_INLINE float v16_fold_max(v16 v) {
    __m256 a = _mm256_max_ps(v.a, v.b);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
FORE_INLINE void v16_fold_many(const v16 *v, int count, float *out) {
    const int pairs = count / 2 * 2;
    FORE_UNROLL for (int i = 0; i < pairs; i += 2) {
        __m256 x = _mm256_add_ps(v[i].a, v[i].b), y = _mm256_add_ps(v[i + 1].a, v[i + 1].b);
        x = _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31)); /* 4 lanes of each */
        x = _mm256_add_ps(x, _mm256_permute_ps(x, 0xee));
        x = _mm256_add_ps(x, _mm256_permute_ps(x, 0x55));
        out[i] = _mm256_cvtss_f32(x);
        out[i + 1] = _mm_cvtss_f32(_mm256_extractf128_ps(x, 1));
    }
    FORE_UNROLL for (int i = pairs; i < count; i++) out[i] = v16_fold(v[i]);
}

typedef struct v16i {
    __m256i a, b;
} v16i;
typedef v16i v16b;
typedef v16i v16h;

FORE_INLINE v16i v16i_zero(void) { return (v16i){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
FORE_INLINE v16 v16_of_int(v16i i) { return (v16){_mm256_cvtepi32_ps(i.a), _mm256_cvtepi32_ps(i.b)}; }
FORE_INLINE v16b v16b_load(const unsigned char *p) {
    return (v16b){_mm256_loadu_si256((const __m256i_u *)p), _mm256_loadu_si256((const __m256i_u *)(p + 32))};
}
FORE_INLINE void v16b_store(unsigned char *p, v16b b) {
    _mm256_storeu_si256((__m256i_u *)p, b.a);
    _mm256_storeu_si256((__m256i_u *)(p + 32), b.b);
}
FORE_INLINE v16b v16b_low(v16b b) {
    __m256i mask = _mm256_set1_epi8(15);
    return (v16b){_mm256_and_si256(b.a, mask), _mm256_and_si256(b.b, mask)};
}
FORE_INLINE v16b v16b_high(v16b b) { return v16b_low((v16b){_mm256_srli_epi16(b.a, 4), _mm256_srli_epi16(b.b, 4)}); }
FORE_INLINE v16b v16b_same4(const int8_t *p) {
    int four;
    memcpy(&four, p, sizeof four);
    __m256i same = _mm256_set1_epi32(four);
    return (v16b){same, same};
}
FORE_INLINE void v16_store_bytes(int8_t *p, v16 v) {
    __m256i pairs = _mm256_packs_epi32(_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b)); /* 0-3, 8-11, 4-7, 12-15 */
    pairs = _mm256_permute4x64_epi64(pairs, 0xd8);
    _mm_storeu_si128((__m128i_u *)p,
                     _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}
FORE_INLINE v16h v16h_zero(void) { return v16i_zero(); }
FORE_INLINE v16h v16h_add_products(v16h h, v16b w, v16b x) {
    return (v16h){_mm256_add_epi16(h.a, _mm256_maddubs_epi16(w.a, x.a)),
                  _mm256_add_epi16(h.b, _mm256_maddubs_epi16(w.b, x.b))};
}
FORE_INLINE v16i v16i_add_sums(v16i i, v16h h, const int times) {
    __m256i factor = _mm256_set1_epi16((short)times);
    return (v16i){_mm256_add_epi32(i.a, _mm256_madd_epi16(h.a, factor)),
                  _mm256_add_epi32(i.b, _mm256_madd_epi16(h.b, factor))};
}

#endif
