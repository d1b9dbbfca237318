/* Numbers in little-endian bytes of any alignment, one at a time: f32, bf16 and f16 to float, exactly, and back to 16 bits
 * rounded to the nearest, ties to even. For the scalar code; vectors have their own. */
#ifndef FORE_KERNELS_HALF_H
#define FORE_KERNELS_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t fore_load_u16(const unsigned char *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline float fore_float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float fore_load_f32(const unsigned char *p) {
    return fore_float_of((uint32_t)fore_load_u16(p) | (uint32_t)fore_load_u16(p + 2) << 16);
}

static inline float fore_load_bf16(const unsigned char *p) {
    return fore_float_of((uint32_t)fore_load_u16(p) << 16);
}

static inline float fore_load_f16(const unsigned char *p) {
    uint32_t h = fore_load_u16(p), sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31)
        return fore_float_of(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x00400000u : 0)); /* NaN: quiet */
    if (exponent) return fore_float_of(sign | (exponent + 112) << 23 | mantissa << 13);
    float x = (float)mantissa * 0x1p-24f;
    return sign ? -x : x;
}

static inline uint16_t fore_to_bf16(float f) { /* not a NaN */
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

static inline uint16_t fore_to_f16(float f) { /* not a NaN */
    uint32_t sign = signbit(f) ? 0x8000u : 0, u;
    f = fabsf(f);
    if (f >= 65520) return (uint16_t)(sign | 0x7c00u);
    if (f < 0x1p-14f) return (uint16_t)(sign | (uint32_t)rintf(f * 0x1p24f)); /* subnormal, or the smallest normal */
    memcpy(&u, &f, sizeof u);
    u += 0xfffu + (u >> 13 & 1u);
    return (uint16_t)(sign | ((u >> 13) - (112u << 10)));
}

#endif
