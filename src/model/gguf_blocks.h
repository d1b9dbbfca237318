/* The numbers in the blocks of GGUF's tensors (checkpoint/gguf_types.h has their sizes). Layouts: ggml-common.h of the format's home;
 * values: as its Python package dequantises them (gguf/quants.py), each step rounded to f32. */
#ifndef FORE_MODEL_GGUF_BLOCKS_H
#define FORE_MODEL_GGUF_BLOCKS_H

#include "checkpoint/gguf_types.h"

enum { FORE_GGUF_GROUP = 32 }; /* numbers that share a scale in the affine types */

/* A block whose numbers are scale * q + bias, exactly, with a scale and a bias that f16 holds. */
typedef struct fore_gguf_affine {
    uint8_t q[FORE_GGUF_GROUP]; /* in the order of the numbers, 0 .. 2^bits - 1 */
    uint16_t scale, bias;       /* f16 */
} fore_gguf_affine;

/* Bits of q (4 or 8) in types of 32 numbers a block that are affine; 0: not one of them. */
int fore_gguf_affine_bits(const fore_gguf_type *type);
/* One block of such a type. False: a scale or a bias that is not finite in f16. */
bool fore_gguf_unpack(const fore_gguf_type *type, const unsigned char *block, fore_gguf_affine *out);
enum { FORE_GGUF_SUPER = 256, FORE_GGUF_PARTS = 16 }; /* numbers in a block of the K types, and most parts with scales of their own */

/* A block of a K type. Numbers of a part are scale * q + bias in one rounding, or exactly; scale = step * u and bias = base * v are
 * numbers of f32. In Q6_K u is signed, and v is u. */
typedef struct fore_gguf_products {
    uint8_t q[FORE_GGUF_SUPER];
    uint8_t u[FORE_GGUF_PARTS], v[FORE_GGUF_PARTS];
    uint16_t step, base; /* f16 */
} fore_gguf_products;

/* Numbers of a part (16 or 32), and bits of q (4 or 8), of K types; 0: it is none. */
int fore_gguf_part(const fore_gguf_type *type);
int fore_gguf_part_bits(const fore_gguf_type *type);
/* One block of such a type. False: a step or a base is not finite in f16. */
bool fore_gguf_unpack_products(const fore_gguf_type *type, const unsigned char *block, fore_gguf_products *out);
/* Scale and bias of a part. */
void fore_gguf_part_affine(const fore_gguf_type *type, const fore_gguf_products *block, size_t part, float *scale, float *bias);

/* `count` numbers, a multiple of the type's block, widened; F32, F16 and BF16 too. */
void fore_gguf_dequantize(const fore_gguf_type *type, const unsigned char *data, size_t count, float *out);

#endif
