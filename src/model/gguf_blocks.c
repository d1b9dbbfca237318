/* GGUF's blocks; see gguf_blocks.h. In all of them a scale d (and a minimum m) in f16 comes before the numbers, in Q6_K behind them.
 * Nibbles: the first half of a block's numbers are low, the second half high. */
#include "model/gguf_blocks.h"

#include "kernels/half.h"

enum { SUPER = 256 }; /* numbers in a block of the K types, in 8 or 16 parts with scales of their own */

static const int8_t nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* ---- types of one scale a block ----------------------------------------------------------------------------------- */

/* How a type of 32 numbers lies in its block, and the whole number that its q's are less by. */
typedef struct plain {
    int bits;            /* of q */
    int minimum, high;   /* where m and the fifth bits begin; 0: it has none */
    int low;             /* where nibbles, or bytes, begin */
    int offset;          /* number = d * (q - offset), or d * q + m */
} plain;

static plain plain_of(const fore_gguf_type *type) {
    switch (type->id) {
    case FORE_GGUF_TYPE_Q4_0: return (plain){4, 0, 0, 2, 8};
    case FORE_GGUF_TYPE_Q4_1: return (plain){4, 2, 0, 4, 0};
    case FORE_GGUF_TYPE_Q5_0: return (plain){8, 0, 2, 6, 16};
    case FORE_GGUF_TYPE_Q5_1: return (plain){8, 2, 4, 8, 0};
    case FORE_GGUF_TYPE_Q8_0: return (plain){8, 0, 0, 2, 128};
    case FORE_GGUF_TYPE_IQ4_NL: return (plain){8, 0, 0, 2, 128};
    default: return (plain){0};
    }
}

int fore_gguf_affine_bits(const fore_gguf_type *type) { return plain_of(type).bits; }

static void unpack_q(const fore_gguf_type *type, plain p, const unsigned char *block, uint8_t q[FORE_GGUF_GROUP]) {
    const unsigned char *low = block + p.low;
    if (type->id == FORE_GGUF_TYPE_Q8_0) {
        for (int i = 0; i < FORE_GGUF_GROUP; i++) q[i] = (uint8_t)(low[i] ^ 128); /* int8 + 128 */
        return;
    }
    for (int i = 0; i < 16; i++) {
        q[i] = low[i] & 15;
        q[i + 16] = low[i] >> 4;
    }
    for (int i = 0; p.high && i < FORE_GGUF_GROUP; i++) q[i] = (uint8_t)(q[i] | (block[p.high + i / 8] >> i % 8 & 1) << 4);
    for (int i = 0; type->id == FORE_GGUF_TYPE_IQ4_NL && i < FORE_GGUF_GROUP; i++) q[i] = (uint8_t)(nonlinear[q[i]] + 128);
}

bool fore_gguf_unpack(const fore_gguf_type *type, const unsigned char *block, fore_gguf_affine *out) {
    plain p = plain_of(type);
    unpack_q(type, p, block, out->q);
    float d = fore_load_f16(block), bias = p.minimum ? fore_load_f16(block + p.minimum) : -(float)p.offset * d;
    if (!isfinite(d) || !(fabsf(bias) <= 65504)) return false;
    out->scale = fore_load_u16(block);
    out->bias = fore_to_f16(bias); /* exact: the offset is a power of 2 */
    return true;
}

static void widen_plain(const fore_gguf_type *type, const unsigned char *block, float *out) {
    plain p = plain_of(type);
    uint8_t q[FORE_GGUF_GROUP];
    unpack_q(type, p, block, q);
    float d = fore_load_f16(block), m = p.minimum ? fore_load_f16(block + p.minimum) : 0;
    for (int i = 0; i < FORE_GGUF_GROUP; i++) {
        float y = d * (float)(q[i] - p.offset);
        out[i] = p.minimum ? y + m : y;
    }
}

/* ---- K types ----------------------------------------------------------------------------------------------------- */

/* The 8 scales and minimums of 6 bits each: the first four in the low bits of bytes 0..3 and 4..7, of the others the low 4 bits in
 * bytes 8..11 and the high 2 above the first four's. */
static void unpack_scales(const unsigned char *p, int scale[8], int minimum[8]) {
    for (int i = 0; i < 4; i++) {
        scale[i] = p[i] & 63;
        minimum[i] = p[i + 4] & 63;
        scale[i + 4] = (p[i + 8] & 15) | (p[i] >> 2 & 48);
        minimum[i + 4] = p[i + 8] >> 4 | (p[i + 4] >> 2 & 48);
    }
}

/* d, dmin, 12 bytes of scales, in Q5_K 32 of fifth bits, 128 of nibbles. */
static void widen_q45k(const unsigned char *block, bool five, float *out) {
    float d = fore_load_f16(block), dmin = fore_load_f16(block + 2);
    int scale[8], minimum[8];
    unpack_scales(block + 4, scale, minimum);
    const unsigned char *high = block + 16, *low = five ? high + 32 : high;
    for (int part = 0; part < 8; part++) {
        float s = d * (float)scale[part], m = dmin * (float)minimum[part];
        for (int i = 0; i < 32; i++) {
            unsigned q = low[part / 2 * 32 + i] >> part % 2 * 4 & 15u;
            if (five) q |= (high[i] >> part & 1u) << 4;
            out[part * 32 + i] = s * (float)q - m;
        }
    }
}

/* 128 bytes of nibbles, 64 of fifth and sixth bits, 16 scales in int8, d. */
static void widen_q6k(const unsigned char *block, float *out) {
    const unsigned char *low = block, *high = block + 128, *scales = block + 192;
    float d = fore_load_f16(block + 208);
    for (int n = 0; n < SUPER; n++) {
        int half = n / 128, in = n % 128, quarter = in / 32, i = n % 32;
        unsigned q = low[half * 64 + in % 64] >> in / 64 * 4 & 15u;
        q |= (high[half * 32 + i] >> 2 * quarter & 3u) << 4;
        out[n] = d * (float)(int8_t)scales[n / 16] * (float)((int)q - 32);
    }
}

/* ---- any type ---------------------------------------------------------------------------------------------------- */

void fore_gguf_dequantize(const fore_gguf_type *type, const unsigned char *data, size_t count, float *out) {
    for (size_t i = 0; i < count; i += type->block, data += type->bytes) {
        switch (type->id) {
        case FORE_GGUF_TYPE_F32: out[i] = fore_load_f32(data); break;
        case FORE_GGUF_TYPE_F16: out[i] = fore_load_f16(data); break;
        case FORE_GGUF_TYPE_BF16: out[i] = fore_load_bf16(data); break;
        case FORE_GGUF_TYPE_Q4_K: widen_q45k(data, false, out + i); break;
        case FORE_GGUF_TYPE_Q5_K: widen_q45k(data, true, out + i); break;
        case FORE_GGUF_TYPE_Q6_K: widen_q6k(data, out + i); break;
        default: widen_plain(type, data, out + i); break;
        }
    }
}
