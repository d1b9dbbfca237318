/* Counter-based random numbers: pure functions of (seed, position, token id), so that a draw never depends on the order
 * in which draws are made. Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011). */
#ifndef FORE_BASE_RANDOM_H
#define FORE_BASE_RANDOM_H

#include <stdint.h>

void fore_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* Uniform 32 bits for (seed, position, index, stream); streams are independent uses of one seed. */
uint32_t fore_random_bits(uint64_t seed, uint64_t position, uint32_t index, uint32_t stream);
/* The bits of four neighbouring indexes at the price of one: out[j] is fore_random_bits of index 4 * block + j. */
void fore_random_block(uint64_t seed, uint64_t position, uint32_t block, uint32_t stream, uint32_t out[4]);

#endif
