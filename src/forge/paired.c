/* Paired comparison; see paired.h. */
#include "forge/paired.h"

#include <math.h>

/* The chance that |T| < t: the finite series for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4). */
static double within(double t, size_t freedom) {
    double angle = atan(t / sqrt((double)freedom)), c = cos(angle) * cos(angle);
    double term = 1, sum = 1;
    if (freedom == 1) return 2 / M_PI * angle;
    if (freedom % 2 == 0) {
        for (size_t k = 2; k + 2 <= freedom; k += 2) sum += term *= (double)(k - 1) / (double)k * c;
        return sin(angle) * sum;
    }
    for (size_t k = 3; k + 2 <= freedom; k += 2) sum += term *= (double)(k - 1) / (double)k * c;
    return 2 / M_PI * (angle + sin(angle) * cos(angle) * sum);
}

double fore_student_t(size_t freedom, double alpha) {
    double low = 0, high = 1;
    while (1 - within(high, freedom) > 2 * alpha && high < 1e12) high *= 2;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (1 - within(middle, freedom) > 2 * alpha) low = middle;
        else high = middle;
    }
    return high;
}

/* Places of one text. */
typedef struct run {
    size_t first, count;
} run;

static size_t run_after(size_t at, size_t end) { return end - at < FORE_PAIRED_RUN ? end - at : FORE_PAIRED_RUN; }

static double sum_of(const uint8_t *a, const uint8_t *b, run r) {
    double sum = 0;
    for (size_t i = r.first; i < r.first + r.count; i++) sum += (double)a[i] - (double)b[i];
    return sum;
}

fore_paired fore_paired_compare(const uint8_t *a, const uint8_t *b, const size_t *lengths, size_t texts, double alpha) {
    fore_paired out = {.low = -INFINITY, .high = INFINITY};
    size_t places = 0;
    double sum = 0, squares = 0;
    for (size_t t = 0; t < texts; t++) {
        sum += sum_of(a, b, (run){places, lengths[t]});
        places += lengths[t];
        out.runs += (lengths[t] + FORE_PAIRED_RUN - 1) / FORE_PAIRED_RUN;
    }
    if (!places) return out;
    out.difference = sum / (double)places;
    if (out.runs < 2) return out;
    /* Runs differ in length: the mean is a ratio of sums, and what a run adds to its error is sum - mean * length. */
    for (size_t t = 0, at = 0; t < texts; t++)
        for (size_t end = at + lengths[t], n; at < end; at += n) {
            n = run_after(at, end);
            double rest = sum_of(a, b, (run){at, n}) - out.difference * (double)n;
            squares += rest * rest;
        }
    double runs = (double)out.runs, error = sqrt(squares * runs / (runs - 1)) / (double)places;
    double reach = error > 0 ? error * fore_student_t(out.runs - 1, alpha) : 0;
    out.low = out.difference - reach;
    out.high = out.difference + reach;
    return out;
}
