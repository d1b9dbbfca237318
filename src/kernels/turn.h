/* Turning strips of transposed matrices into rows, for kernels that sum along rows. */
#ifndef FORE_KERNELS_TURN_H
#define FORE_KERNELS_TURN_H

#include <stddef.h>
#include <stdint.h>

/* Columns 0 .. cols-1 of K rows, `across` elements from one to the next, into cols rows of K one behind the other. from: any
 * address. */
void fore_turn_16(uint16_t *to, const void *from, size_t K, size_t across, size_t cols);
void fore_turn_32(uint32_t *to, const void *from, size_t K, size_t across, size_t cols);

#endif
