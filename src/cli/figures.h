/* Figures of repeated measurements: medians, how sure they are, and lists of numbers from flags. */
#ifndef FORE_CLI_FIGURES_H
#define FORE_CLI_FIGURES_H

#include "cli/cli.h"

enum { CLI_RUNS = 31 }; /* most runs of a measurement */

typedef struct cli_series {
    double values[CLI_RUNS]; /* in the order of the runs */
    int count;
} cli_series;

void cli_series_add(cli_series *series, double value); /* beyond CLI_RUNS values it does nothing */
double cli_series_median(const cli_series *series);    /* 0 of none */
/* Half the width of the middle half: what a value is usually off by. 0 of fewer than 3. */
double cli_series_spread(const cli_series *series);
/* The series of a[i] / b[i]. */
cli_series cli_series_ratio(const cli_series *a, const cli_series *b);
double cli_ratio(const cli_series *a, const cli_series *b); /* its median */

/* The fastest of `count` ways by the seconds that each took in the same runs: one that is faster than the way `usual` by more than
 * chance explains (in nearly every run, and by more than twice the spread of the ratios, at least 3 %), else `usual` itself. *gain: how
 * much faster it is, 1 for the usual one. */
int cli_choose(const cli_series *const *ways, int count, int usual, double *gain);

/* Whole numbers split by commas, each in [low, high], at most `most`. Returns how many, or 0 when the text is no such list. */
int cli_whole_list(const char *text, int low, int high, int *out, int most);
/* The same of numbers in [0, 1]. */
int cli_share_list(const char *text, double *out, int most);

#endif
