/* How much scratch memory a kernel needs; the same for every set, so that a plan does not depend on the machine. */
#include "kernels/scratch.h"

#include "kernels/kern.h"

int fore_attend_rows(int keys, int G) {
    enum { MOST = 24, LEAST = 8, BUDGET = 1 << 18 };
    int rows = keys > 0 ? BUDGET / keys : MOST;
    rows = rows > MOST ? MOST : rows < LEAST ? LEAST : rows;
    return rows > G ? rows : G;
}

size_t fore_attend_scratch(int keys, int G) {
    return ((size_t)keys + FORE_LANES - 1) / FORE_LANES * FORE_LANES * (size_t)fore_attend_rows(keys, G);
}

size_t fore_delta_scratch(int dk, int columns) {
    return (size_t)dk * (size_t)columns;
}
