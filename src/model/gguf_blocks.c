/* GGUF's blocks; see gguf_blocks.h. In all of them a scale d (and a minimum m) in f16 comes before the numbers, in Q6_K behind them.
 * Nibbles: the first half of a block's numbers are low, the second half high. */
#include "model/gguf_blocks.h"

#include <string.h>

#include "kernels/half.h"

enum { SUPER = FORE_GGUF_SUPER };

static const int8_t nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

typedef uint8_t bytes __attribute__((vector_size(16))); /* a vector that every compiler target has */
enum { WIDE = sizeof(bytes) };

static inline bytes load(const unsigned char *p) {
    bytes x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline void store(uint8_t *to, bytes x) { memcpy(to, &x, sizeof x); }

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
        for (int i = 0; i < FORE_GGUF_GROUP; i += WIDE) store(q + i, load(low + i) ^ 128); /* int8 + 128 */
        return;
    }
    bytes both = load(low);
    store(q, both & 15);
    store(q + WIDE, both >> 4);
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
static void unpack_q45k(const unsigned char *block, bool five, fore_gguf_products *out) {
    int scale[8], minimum[8];
    unpack_scales(block + 4, scale, minimum);
    const unsigned char *high = block + 16, *low = five ? high + 32 : high;
    for (int part = 0; part < 8; part++) {
        out->u[part] = (uint8_t)scale[part];
        out->v[part] = (uint8_t)minimum[part];
    }
    uint8_t *q = out->q;
    for (int two = 0; two < 4; two++, low += 32, q += 64) /* parts, whose numbers are the low and the high nibbles */
        for (int i = 0; i < 32; i += WIDE) {
            bytes both = load(low + i), first = both & 15, second = both >> 4;
            if (five) {
                bytes fifth = load(high + i) >> (uint8_t)(2 * two);
                first |= (fifth & 1) << 4;
                second |= (fifth & 2) << 3;
            }
            store(q + i, first);
            store(q + 32 + i, second);
        }
    out->step = fore_load_u16(block);
    out->base = fore_load_u16(block + 2) ^ 0x8000; /* the minimum is taken away */
}

/* 128 bytes of nibbles, 64 of fifth and sixth bits, 16 scales in int8, d; numbers are d * scale * (q - 32). */
static void unpack_q6k(const unsigned char *block, fore_gguf_products *out) {
    const unsigned char *low = block, *high = block + 128;
    uint8_t *q = out->q;
    for (int half = 0; half < 2; half++, low += 64, high += 32, q += 128)
        for (int i = 0; i < 32; i += WIDE) {
            bytes a = load(low + i), b = load(low + 32 + i), above = load(high + i);
            store(q + i, (a & 15) | (above & 3) << 4);
            store(q + 32 + i, (b & 15) | (above & 12) << 2);
            store(q + 64 + i, a >> 4 | (above & 48));
            store(q + 96 + i, b >> 4 | (above & 192) >> 2);
        }
    memcpy(out->u, block + 192, 16);
    memcpy(out->v, block + 192, 16);
    out->step = fore_load_u16(block + 208);
    float base = -32 * fore_load_f16(block + 208);
    out->base = isfinite(base) ? fore_to_f16(base) : 0x7c00; /* exact, or too large */
}

int fore_gguf_part(const fore_gguf_type *type) {
    return type->block != SUPER ? 0 : type->id == FORE_GGUF_TYPE_Q6_K ? 16 : 32;
}

int fore_gguf_part_bits(const fore_gguf_type *type) {
    return type->block != SUPER ? 0 : type->id == FORE_GGUF_TYPE_Q4_K ? 4 : 8;
}

bool fore_gguf_unpack_products(const fore_gguf_type *type, const unsigned char *block, fore_gguf_products *out) {
    if (type->id == FORE_GGUF_TYPE_Q6_K) unpack_q6k(block, out);
    else unpack_q45k(block, type->id == FORE_GGUF_TYPE_Q5_K, out);
    return (out->step & 0x7c00) != 0x7c00 && (out->base & 0x7c00) != 0x7c00;
}

static float half(uint16_t h) { return fore_load_f16((const unsigned char[2]){(unsigned char)h, (unsigned char)(h >> 8)}); }

void fore_gguf_part_affine(const fore_gguf_type *type, const fore_gguf_products *block, size_t part, float *scale, float *bias) {
    if (type->id == FORE_GGUF_TYPE_Q6_K) { /* also where the base is too large for f16 */
        *scale = half(block->step) * (float)(int8_t)block->u[part];
        *bias = -32 * *scale;
    } else {
        *scale = half(block->step) * (float)block->u[part];
        *bias = half(block->base) * (float)block->v[part];
    }
}

static void widen_products(const fore_gguf_type *type, const unsigned char *data, float *out) {
    fore_gguf_products block;
    fore_gguf_unpack_products(type, data, &block);
    const size_t part = (size_t)fore_gguf_part(type);
    float scale, bias;
    for (size_t i = 0; i < SUPER; i++) {
        if (i % part == 0) fore_gguf_part_affine(type, &block, i / part, &scale, &bias);
        if (part == 16) out[i] = scale * (float)(block.q[i] - 32);
        else out[i] = scale * (float)block.q[i] + bias; /* the product is exact */
    }
}

/* ---- any type ---------------------------------------------------------------------------------------------------- */

void fore_gguf_dequantize(const fore_gguf_type *type, const unsigned char *data, size_t count, float *out) {
    for (size_t i = 0; i < count; i += type->block, data += type->bytes) {
        switch (type->id) {
        case FORE_GGUF_TYPE_F32: out[i] = fore_load_f32(data); break;
        case FORE_GGUF_TYPE_F16: out[i] = fore_load_f16(data); break;
        case FORE_GGUF_TYPE_BF16: out[i] = fore_load_bf16(data); break;
        case FORE_GGUF_TYPE_Q4_K:
        case FORE_GGUF_TYPE_Q5_K:
        case FORE_GGUF_TYPE_Q6_K: widen_products(type, data, out + i); break;
        default: widen_plain(type, data, out + i); break;
        }
    }
}
