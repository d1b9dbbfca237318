/* What the benchmark programs share: the clock, medians, and giving up with the library's message. */
#ifndef FORE_BENCH_MEASURE_H
#define FORE_BENCH_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "foresight.h"

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void must(fore_status status, const fore_error *err) {
    if (status == FORE_OK) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static inline int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_size);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

#endif
