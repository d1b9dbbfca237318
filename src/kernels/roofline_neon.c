/* What NEON reaches, without the dot products that only some processors have; see roofline.h. */
#include <arm_neon.h>

#include "kernels/roofline.h"
#include "kernels/v16.h"

enum { SUMS = 16, LINE = 16 };

static uint32_t roof_read(const void *data, size_t bytes) {
    const unsigned char *at = data, *end = at + bytes;
    uint32x4_t sum[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
    for (; at < end; at += FORE_ROOF_PIECE)
        FORE_UNROLL for (int i = 0; i < FORE_ROOF_PIECE / LINE; i++) sum[i % 4] = vaddq_u32(sum[i % 4], vreinterpretq_u32_u8(vld1q_u8(at + i * LINE)));
    return vaddvq_u32(vaddq_u32(vaddq_u32(sum[0], sum[1]), vaddq_u32(sum[2], sum[3])));
}

static uint32_t roof_float(size_t rounds) {
    float32x4_t sum[SUMS], x = vdupq_n_f32(0.5f), y = vdupq_n_f32(1e-3f);
    FORE_UNROLL for (int i = 0; i < SUMS; i++) sum[i] = vdupq_n_f32((float)i);
    for (size_t r = 0; r < rounds; r++) {
        FORE_UNROLL for (int i = 0; i < SUMS; i++) sum[i] = vfmaq_f32(sum[i], x, y);
        __asm__("" : "+w"(x));
    }
    FORE_UNROLL for (int i = 1; i < SUMS; i++) sum[0] = vaddq_f32(sum[0], sum[i]);
    return vaddvq_u32(vreinterpretq_u32_f32(sum[0]));
}

/* Products of bytes in 16 bits. */
static uint32_t roof_integer(size_t rounds) {
    int16x8_t sum[SUMS];
    int8x8_t w = vdup_n_s8(3), x = vdup_n_s8(-5);
    FORE_UNROLL for (int i = 0; i < SUMS; i++) sum[i] = vdupq_n_s16((int16_t)i);
    for (size_t r = 0; r < rounds; r++) {
        FORE_UNROLL for (int i = 0; i < SUMS; i++) {
            __asm__("" : "+w"(w));
            sum[i] = vmlal_s8(sum[i], w, x);
        }
    }
    FORE_UNROLL for (int i = 1; i < SUMS; i++) sum[0] = vaddq_s16(sum[0], sum[i]);
    return vaddvq_u32(vreinterpretq_u32_s16(sum[0]));
}

const fore_roof fore_roof_neon = {roof_read, roof_float, roof_integer, SUMS * 4 * 2, SUMS * 8 * 2};
