/* Figures of repeated measurements; see figures.h. */
#include "cli/figures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void cli_series_add(cli_series *s, double value) {
    if (s->count < CLI_RUNS) s->values[s->count++] = value;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value at a share of the way through the sorted series, between neighbours on a line. */
static double quantile(const cli_series *s, double share) {
    double sorted[CLI_RUNS];
    if (!s->count) return 0;
    memcpy(sorted, s->values, (size_t)s->count * sizeof *sorted);
    qsort(sorted, (size_t)s->count, sizeof *sorted, by_size);
    double at = share * (s->count - 1);
    int low = (int)at, high = low + 1 < s->count ? low + 1 : low;
    return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

double cli_series_median(const cli_series *s) {
    return quantile(s, 0.5);
}

double cli_series_spread(const cli_series *s) {
    return s->count < 3 ? 0 : (quantile(s, 0.75) - quantile(s, 0.25)) / 2;
}

cli_series cli_series_ratio(const cli_series *a, const cli_series *b) {
    cli_series out = {0};
    for (int i = 0; i < a->count && i < b->count; i++) cli_series_add(&out, b->values[i] > 0 ? a->values[i] / b->values[i] : 0);
    return out;
}

double cli_ratio(const cli_series *a, const cli_series *b) {
    cli_series r = cli_series_ratio(a, b);
    return cli_series_median(&r);
}

/* How much faster `way` is than `usual`; 1 when that may be chance. */
static double sure_gain(const cli_series *usual, const cli_series *way) {
    cli_series r = cli_series_ratio(usual, way);
    int slower = 0;
    for (int i = 0; i < r.count; i++) slower += r.values[i] <= 1;
    double gain = cli_series_median(&r), margin = 2 * cli_series_spread(&r);
    if (margin < 0.03) margin = 0.03;
    return r.count >= 3 && slower * 5 <= r.count && gain > 1 + margin ? gain : 1;
}

int cli_choose(const cli_series *const *ways, int count, int usual, double *gain) {
    int best = usual;
    *gain = 1;
    for (int i = 0; i < count; i++) {
        double g = i == usual ? 1 : sure_gain(ways[usual], ways[i]);
        if (g <= *gain) continue;
        best = i;
        *gain = g;
    }
    return best;
}

int cli_whole_list(const char *text, int low, int high, int *out, int most) {
    int count = 0;
    for (;;) {
        char *end = NULL;
        errno = 0;
        long value = strtol(text, &end, 10);
        if (end == text || *text < '0' || *text > '9' || errno || value < low || value > high || count == most) return 0;
        out[count++] = (int)value;
        if (!*end) return count;
        if (*end != ',') return 0;
        text = end + 1;
    }
}

int cli_share_list(const char *text, double *out, int most) {
    int count = 0;
    for (;;) {
        char *end = NULL;
        double value = strtod(text, &end);
        if (end == text || *text < '0' || *text > '9' || !(value >= 0 && value <= 1) || count == most) return 0;
        out[count++] = value;
        if (!*end) return count;
        if (*end != ',') return 0;
        text = end + 1;
    }
}
