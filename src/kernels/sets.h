/* The tables of the instruction sets, each in the file named after it. Only kern.c may hand them out, after asking the
 * processor. */
#ifndef FORE_KERNELS_SETS_H
#define FORE_KERNELS_SETS_H

#include "kernels/kern.h"

extern const fore_kern fore_kern_avx2, fore_kern_avx512, fore_kern_avx512vnni, fore_kern_amx, fore_kern_neon, fore_kern_neondot;

/* The entries that avx512vnni, amx and neondot have of their own; the rest of their tables is avx512's and neon's. */
void fore_mm_q4_avx512vnni(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);
void fore_mm_q8_avx512vnni(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);
void fore_mm_q4_amx(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);
void fore_mm_q8_amx(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);
void fore_mm_q4_neondot(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);
void fore_mm_q8_neondot(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);

#endif
