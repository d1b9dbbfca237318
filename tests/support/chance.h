/* Whether counts come from a distribution, as tests with fixed seeds ask it. */
#ifndef FORE_TESTS_CHANCE_H
#define FORE_TESTS_CHANCE_H

#include <stddef.h>

/* Chi-square of counts against expected counts (both add up to the same); cells that expect less than 5 are put together. A count
 * where nothing is expected fails the test (cmocka). Gives the standard normal value of the upper tail (Wilson and Hilferty):
 * above CHANCE_LIMIT means p < 0.001. */
double chance_fit(const double *counts, const double *expected, size_t n);
/* The same for two samples of one distribution that is not known. */
double chance_same(const double *a, const double *b, size_t n);
#define CHANCE_LIMIT 3.09

#endif
