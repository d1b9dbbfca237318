/* How the kernels use their scratch memory. */
#ifndef FORE_KERNELS_SCRATCH_H
#define FORE_KERNELS_SCRATCH_H

#include <stddef.h>

enum { FORE_ATTEND_ROWS = 48 }; /* most rows that attend holds at once */

/* Query rows (token and head) whose scores attend holds at once: keys are read once for all of them, but the scores
 * should stay in the core's cache. */
int fore_attend_rows(int keys);
/* Floats from one row of scores to the next: whole groups of 16 keys, and 16 more so that rows do not fall on the same
 * cache sets. */
size_t fore_attend_stride(int keys);

#endif
