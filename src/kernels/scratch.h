/* How the kernels use their scratch memory. */
#ifndef FORE_KERNELS_SCRATCH_H
#define FORE_KERNELS_SCRATCH_H

/* Query rows (token and head) whose scores attend holds at once: keys are read once for all of them, but the scores should
 * stay in the core's cache. At least G. */
int fore_attend_rows(int keys, int G);

#endif
