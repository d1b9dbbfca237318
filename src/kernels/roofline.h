/* What an instruction set reaches on this machine when nothing else is in the way: a read that streams, f32 multiply-adds and
 * int8 multiply-adds on registers. One table a set. */
#ifndef FORE_KERNELS_ROOFLINE_H
#define FORE_KERNELS_ROOFLINE_H

#include <stddef.h>
#include <stdint.h>

enum { FORE_ROOF_PIECE = 512 }; /* bytes: reads are of whole pieces */

typedef struct fore_roof {
    /* Each gives a number that depends on all of its work, so that none can be left out. */
    uint32_t (*read)(const void *data, size_t bytes); /* bytes % FORE_ROOF_PIECE == 0, data a multiple of 64 */
    uint32_t (*multiply_float)(size_t rounds);
    uint32_t (*multiply_integer)(size_t rounds);
    int float_operations, integer_operations; /* of a round; a multiply-add counts 2 */
} fore_roof;

/* By the kernel table's name; that of plain C when it has none of its own. */
const fore_roof *fore_roof_of(const char *isa);
/* The same of the best set that multiplies on vector registers: another one than fore_roof_of's for amx alone. */
const fore_roof *fore_roof_of_vectors(const char *isa);

extern const fore_roof fore_roof_avx2, fore_roof_avx512, fore_roof_avx512vnni, fore_roof_amx, fore_roof_neon;

#endif
