/* How much scratch memory a kernel needs; the same for every set, so that a plan does not depend on the machine. */
#include "kernels/scratch.h"

#include "kernels/kern.h"

enum { BUDGET = 1 << 18, LEAST_ROWS = FORE_ATTEND_ROWS / 4 }; /* floats: half of a common second cache */

int fore_attend_rows(int keys) {
    int rows = FORE_ATTEND_ROWS;
    while (rows > LEAST_ROWS && keys > BUDGET / rows) rows /= 2;
    return rows;
}

size_t fore_attend_stride(int keys) {
    return ((size_t)keys + FORE_LANES - 1) / FORE_LANES * FORE_LANES + FORE_LANES;
}

/* Fewer keys may take more rows, and so more memory: there must be enough for any number up to this one. */
size_t fore_attend_scratch(int keys, int G) {
    (void)G; /* heads are rows: more of them take more turns */
    size_t most = fore_attend_stride(keys) * (size_t)fore_attend_rows(keys);
    for (int rows = FORE_ATTEND_ROWS; rows > fore_attend_rows(keys); rows /= 2) {
        size_t n = fore_attend_stride(BUDGET / rows) * (size_t)rows;
        if (n > most) most = n;
    }
    return most;
}

size_t fore_delta_scratch(int dk, int columns) {
    return (size_t)dk * (size_t)columns;
}
