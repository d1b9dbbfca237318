/* v16 as four NEON registers, lanes 4i to 4i+3 in v[i]; see v16.h. */
#ifndef FORE_KERNELS_V16_NEON_H
#define FORE_KERNELS_V16_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/transcend_const.h"
#include "kernels/v16.h"

typedef struct v16 {
    float32x4_t v[4];
} v16;
typedef struct v16m {
    uint32x4_t v[4];
} v16m;

/* An operation that does the same to all four registers: expression in i. */
#define V16_DEFINE(name, params, expression)                                \
    FORE_INLINE v16 name params {                                           \
        v16 r;                                                              \
        FORE_UNROLL for (int i = 0; i < 4; i++) r.v[i] = (expression);      \
        return r;                                                           \
    }
#define V16_DEFINE_MASK(name, params, expression)                           \
    FORE_INLINE v16m name params {                                          \
        v16m r;                                                             \
        FORE_UNROLL for (int i = 0; i < 4; i++) r.v[i] = (expression);      \
        return r;                                                           \
    }

V16_DEFINE(v16_zero, (void), vdupq_n_f32(0.0f))
V16_DEFINE(v16_set1, (float f), vdupq_n_f32(f))
V16_DEFINE(v16_load, (const float *p), vld1q_f32(p + 4 * i))
FORE_INLINE void v16_store(float *p, v16 a) {
    FORE_UNROLL for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, a.v[i]);
}
FORE_INLINE v16 v16_load_n(const float *p, size_t n) {
    float whole[16] = {0};
    memcpy(whole, p, n * sizeof *p);
    return v16_load(whole);
}
FORE_INLINE void v16_store_n(float *p, v16 a, size_t n) {
    float whole[16];
    v16_store(whole, a);
    memcpy(p, whole, n * sizeof *p);
}
FORE_INLINE v16 v16_keep_n(v16 a, size_t n) {
    float whole[16];
    v16_store(whole, a);
    return v16_load_n(whole, n);
}
FORE_INLINE void v16_pin(v16 *a) { (void)a; }
V16_DEFINE(v16_add, (v16 a, v16 b), vaddq_f32(a.v[i], b.v[i]))
V16_DEFINE(v16_sub, (v16 a, v16 b), vsubq_f32(a.v[i], b.v[i]))
V16_DEFINE(v16_mul, (v16 a, v16 b), vmulq_f32(a.v[i], b.v[i]))
V16_DEFINE(v16_div, (v16 a, v16 b), vdivq_f32(a.v[i], b.v[i]))
V16_DEFINE(v16_fma, (v16 a, v16 b, v16 c), vfmaq_f32(c.v[i], a.v[i], b.v[i]))
/* not vmaxq, which would let a NaN win */
V16_DEFINE(v16_max, (v16 a, v16 b), vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]))

V16_DEFINE(v16_abs, (v16 a), vabsq_f32(a.v[i]))
V16_DEFINE(v16_neg, (v16 a), vnegq_f32(a.v[i]))
V16_DEFINE(v16_sign_of, (v16 a, v16 s), vbslq_f32(vdupq_n_u32(0x80000000u), s.v[i], a.v[i]))
V16_DEFINE_MASK(v16_gt, (v16 a, v16 b), vcgtq_f32(a.v[i], b.v[i]))
V16_DEFINE_MASK(v16_lt, (v16 a, v16 b), vcltq_f32(a.v[i], b.v[i]))
V16_DEFINE_MASK(v16_eq, (v16 a, v16 b), vceqq_f32(a.v[i], b.v[i]))
V16_DEFINE_MASK(v16_nan, (v16 a), vmvnq_u32(vceqq_f32(a.v[i], a.v[i])))
V16_DEFINE(v16_select, (v16m m, v16 a, v16 b), vbslq_f32(m.v[i], a.v[i], b.v[i]))
FORE_INLINE bool v16_any(v16m m) {
    return vmaxvq_u32(vorrq_u32(vorrq_u32(m.v[0], m.v[1]), vorrq_u32(m.v[2], m.v[3]))) != 0;
}
FORE_INLINE size_t v16_first(v16m m) {
    uint32_t lane[16];
    for (int i = 0; i < 4; i++) vst1q_u32(lane + 4 * i, m.v[i]);
    size_t first = 0;
    while (first < 15 && !lane[first]) first++;
    return first;
}

V16_DEFINE(v16_scale2, (v16 p, v16 s),
           vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p.v[i]),
                                           vshlq_n_u32(vreinterpretq_u32_f32(s.v[i]), 23))))
FORE_INLINE void v16_split(v16 x, v16 *e, v16 *m) {
    uint32x4_t half = vdupq_n_u32(FORE_SQRT_HALF_BITS);
    FORE_UNROLL for (int i = 0; i < 4; i++) {
        uint32x4_t u = vsubq_u32(vreinterpretq_u32_f32(x.v[i]), half);
        e->v[i] = vcvtq_f32_s32(vshrq_n_s32(vreinterpretq_s32_u32(u), 23));
        m->v[i] = vreinterpretq_f32_u32(vaddq_u32(vandq_u32(u, vdupq_n_u32(0x007fffff)), half));
    }
}

V16_DEFINE(v16_load_f32, (const unsigned char *p), vreinterpretq_f32_u8(vld1q_u8(p + 16 * i)))
V16_DEFINE(v16_load_bf16, (const unsigned char *p),
           vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * i))), 16)))
V16_DEFINE(v16_load_f16, (const unsigned char *p), vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * i))))
FORE_INLINE v16 v16_load_u8(const unsigned char *p) {
    uint8x16_t bytes = vld1q_u8(p);
    uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_u8(vget_high_u8(bytes));
    return (v16){{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
                  vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))}};
}
FORE_INLINE v16 v16_load_i8(const unsigned char *p) {
    int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return (v16){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                  vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
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

FORE_INLINE float v16_fold(v16 a) {
    float32x4_t four = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(vpadd_f32(two, two), 0);
}
FORE_INLINE float v16_fold_max(v16 a) { /* of what holds no NaN */
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3])));
}
FORE_INLINE void v16_fold_many(const v16 *v, int count, float *out) {
    FORE_UNROLL for (int i = 0; i < count; i++) out[i] = v16_fold(v[i]);
}

typedef struct v16i {
    int32x4_t v[4];
} v16i;
typedef struct v16b {
    int8x16_t v[4];
} v16b;
typedef struct v16h { /* products of the bytes 0-7 and 8-15 of each register */
    int16x8_t low[4], high[4];
} v16h;

FORE_INLINE v16i v16i_zero(void) {
    v16i r;
    FORE_UNROLL for (int i = 0; i < 4; i++) r.v[i] = vdupq_n_s32(0);
    return r;
}
V16_DEFINE(v16_of_int, (v16i a), vcvtq_f32_s32(a.v[i]))
FORE_INLINE v16b v16b_load(const unsigned char *p) {
    v16b r;
    FORE_UNROLL for (int i = 0; i < 4; i++) r.v[i] = vreinterpretq_s8_u8(vld1q_u8(p + 16 * i));
    return r;
}
FORE_INLINE void v16b_store(unsigned char *p, v16b b) {
    FORE_UNROLL for (int i = 0; i < 4; i++) vst1q_u8(p + 16 * i, vreinterpretq_u8_s8(b.v[i]));
}
FORE_INLINE v16b v16b_low(v16b b) {
    FORE_UNROLL for (int i = 0; i < 4; i++) b.v[i] = vandq_s8(b.v[i], vdupq_n_s8(15));
    return b;
}
FORE_INLINE v16b v16b_high(v16b b) {
    FORE_UNROLL for (int i = 0; i < 4; i++)
        b.v[i] = vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(b.v[i]), 4));
    return b;
}
FORE_INLINE v16b v16b_same4(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    int8x16_t same = vreinterpretq_s8_s32(vdupq_n_s32(four));
    return (v16b){{same, same, same, same}};
}
FORE_INLINE void v16_store_bytes(int8_t *p, v16 v) {
    FORE_UNROLL for (int i = 0; i < 2; i++) {
        int16x4_t a = vmovn_s32(vcvtnq_s32_f32(v.v[2 * i])), b = vmovn_s32(vcvtnq_s32_f32(v.v[2 * i + 1]));
        vst1_s8(p + 8 * i, vmovn_s16(vcombine_s16(a, b)));
    }
}
FORE_INLINE v16h v16h_zero(void) {
    v16h r;
    FORE_UNROLL for (int i = 0; i < 4; i++) r.low[i] = r.high[i] = vdupq_n_s16(0);
    return r;
}
FORE_INLINE v16h v16h_add_products(v16h h, v16b w, v16b x) {
    FORE_UNROLL for (int i = 0; i < 4; i++) {
        h.low[i] = vmlal_s8(h.low[i], vget_low_s8(w.v[i]), vget_low_s8(x.v[i]));
        h.high[i] = vmlal_s8(h.high[i], vget_high_s8(w.v[i]), vget_high_s8(x.v[i]));
    }
    return h;
}
FORE_INLINE v16i v16i_add_sums(v16i a, v16h h, const int times) {
    FORE_UNROLL for (int i = 0; i < 4; i++) {
        int32x4_t four = vpaddq_s32(vpaddlq_s16(h.low[i]), vpaddlq_s16(h.high[i]));
        a.v[i] = vmlaq_n_s32(a.v[i], four, times);
    }
    return a;
}

#endif
