#include "support/chance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* A chi-square value with `degrees` of freedom as a standard normal value. */
static double normal_value(double square, double degrees) {
    if (degrees < 1) return square > 1e-9 ? INFINITY : 0;
    double v = 2 / (9 * degrees);
    return (cbrt(square / degrees) - (1 - v)) / sqrt(v);
}

double chance_fit(const double *counts, const double *expected, size_t n) {
    double square = 0, rest_count = 0, rest_expected = 0;
    int cells = 0;
    for (size_t i = 0; i < n; i++) {
        if (expected[i] <= 0 && counts[i] > 0) fail_msg("%g draws of %zu, which has no probability", counts[i], i);
        if (expected[i] < 5) {
            rest_count += counts[i];
            rest_expected += expected[i];
            continue;
        }
        square += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
        cells++;
    }
    if (rest_expected > 1) {
        square += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
        cells++;
    }
    return normal_value(square, cells - 1);
}

static void add_cell(double x, double y, double na, double nb, double *square, int *cells) {
    if (x + y <= 0) return;
    double ex = (x + y) * na / (na + nb), ey = (x + y) * nb / (na + nb);
    *square += (x - ex) * (x - ex) / ex + (y - ey) * (y - ey) / ey;
    ++*cells;
}

double chance_same(const double *a, const double *b, size_t n) {
    double na = 0, nb = 0, square = 0, rest_a = 0, rest_b = 0;
    int cells = 0;
    for (size_t i = 0; i < n; i++) {
        na += a[i];
        nb += b[i];
    }
    for (size_t i = 0; i < n; i++) {
        if ((a[i] + b[i]) * fmin(na, nb) / (na + nb) < 5) {
            rest_a += a[i];
            rest_b += b[i];
        } else {
            add_cell(a[i], b[i], na, nb, &square, &cells);
        }
    }
    add_cell(rest_a, rest_b, na, nb, &square, &cells);
    return normal_value(square, cells - 1);
}
