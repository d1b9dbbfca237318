/* How much scratch memory a kernel needs; the same for every set, so that a plan does not depend on the machine. */
#include "kernels/scratch.h"

#include "kernels/kern.h"

int fore_attend_rows(int keys) {
    const int budget = 1 << 18; /* floats: half of a common second cache */
    return keys <= budget / FORE_ATTEND_ROWS ? FORE_ATTEND_ROWS : FORE_ATTEND_ROWS / 2;
}

size_t fore_attend_stride(int keys) {
    return ((size_t)keys + FORE_LANES - 1) / FORE_LANES * FORE_LANES + FORE_LANES;
}

size_t fore_attend_scratch(int keys, int G) {
    (void)G; /* heads are rows: more of them take more turns */
    return fore_attend_stride(keys) * (size_t)fore_attend_rows(keys);
}

size_t fore_delta_scratch(int dk, int columns) {
    return (size_t)dk * (size_t)columns;
}
