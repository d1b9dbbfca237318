/* The tables of the instruction sets, each in the file named after it. Only kern.c may hand them out, after asking the
 * processor. */
#ifndef FORE_KERNELS_SETS_H
#define FORE_KERNELS_SETS_H

#include "kernels/kern.h"

extern const fore_kern fore_kern_avx2, fore_kern_avx512, fore_kern_neon;

#endif
