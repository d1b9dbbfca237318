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

/* Bits of q (4 or 8) in types whose blocks are affine; 0: not one of them. */
int fore_gguf_affine_bits(const fore_gguf_type *type);
/* One block of such a type. False: a scale or a bias that is not finite in f16. */
bool fore_gguf_unpack(const fore_gguf_type *type, const unsigned char *block, fore_gguf_affine *out);
/* `count` numbers, a multiple of the type's block, widened; F32, F16 and BF16 too. */
void fore_gguf_dequantize(const fore_gguf_type *type, const unsigned char *data, size_t count, float *out);

#endif
