/* The paired comparison: quantiles against tables, intervals against hand-made figures, and how often chance alone looks like a
 * difference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/random.h"
#include "forge/paired.h"

static void near(double got, double want, double within) {
    if (!(fabs(got - want) <= within)) fail_msg("%.6f, expected %.6f", got, want);
}

/* From printed tables of Student's t. */
static void test_quantiles(void **state) {
    (void)state;
    static const struct {
        size_t freedom;
        double alpha, t;
    } table[] = {
        {1, 0.25, 1.0},     {1, 0.025, 12.706}, {2, 0.05, 2.920},  {3, 0.01, 4.541},    {4, 0.005, 4.604},   {5, 0.001, 5.893},
        {10, 0.025, 2.228}, {11, 0.0005, 4.437}, {30, 0.05, 1.697}, {100, 0.005, 2.626}, {1000, 0.025, 1.962}, {7, 0.1, 1.415},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) near(fore_student_t(table[i].freedom, table[i].alpha), table[i].t, 0.0006);
}

static void test_intervals(void **state) {
    (void)state;
    uint8_t a[80], b[80];
    /* Nothing, one run, and no scatter. */
    size_t none[] = {0, 0}, one[] = {16}, texts[] = {32, 5, 16};
    for (int i = 0; i < 80; i++) a[i] = 2, b[i] = 1;
    assert_true(isinf(fore_paired_compare(a, b, none, 2, 0.01).low) && fore_paired_compare(a, b, none, 2, 0.01).difference == 0);
    fore_paired p = fore_paired_compare(a, b, one, 1, 0.01);
    assert_true(p.difference == 1 && p.runs == 1 && isinf(p.low) && p.low < 0 && isinf(p.high) && p.high > 0);
    p = fore_paired_compare(a, b, texts, 3, 0.01);
    assert_true(p.runs == 4 && p.difference == 1 && p.low == 1 && p.high == 1);
    /* Four runs of 16 whose sums are 0, 16, 32 and 48: mean 24 of 16 places, deviations -24, -8, 8, 24. */
    size_t four[] = {64};
    for (int i = 0; i < 64; i++) a[i] = (uint8_t)(i / 16), b[i] = 0;
    p = fore_paired_compare(a, b, four, 1, 0.025);
    double error = sqrt((2 * 24.0 * 24 + 2 * 8.0 * 8) * 4 / 3) / 64;
    near(p.difference, 1.5, 1e-12);
    near(p.high, 1.5 + 3.18245 * error, 1e-4);
    near(p.low, 1.5 - 3.18245 * error, 1e-4);
    fore_paired q = fore_paired_compare(b, a, four, 1, 0.025);
    assert_true(q.difference == -p.difference && q.low == -p.high && q.high == -p.low);
}

/* Two series of one distribution, alike over stretches of four places as neighbouring rounds are: about as many look different as
 * alpha allows; and a true difference is seen. */
static void test_chance(void **state) {
    (void)state;
    enum { TRIALS = 2000, TEXTS = 9, ALL = 290 };
    static const size_t lengths[TEXTS] = {96, 40, 31, 18, 16, 15, 7, 66, 1};
    uint8_t a[ALL], b[ALL];
    int low = 0, high = 0, seen = 0;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        for (uint32_t i = 0; i < ALL; i++) {
            uint32_t of_a = fore_random_bits(trial, i / 4, 0, 1) >> 16, of_b = fore_random_bits(trial, i / 4, 1, 1) >> 16;
            a[i] = (uint8_t)(of_a % 4);
            b[i] = (uint8_t)(of_b % 4);
        }
        fore_paired p = fore_paired_compare(a, b, lengths, TEXTS, 0.05);
        low += p.low > 0;
        high += p.high < 0;
        for (int i = 0; i < ALL; i++) a[i]++;
        seen += fore_paired_compare(a, b, lengths, TEXTS, 0.0005).low > 0;
    }
    if (low > TRIALS * 7 / 100 || high > TRIALS * 7 / 100 || low < TRIALS / 50 || high < TRIALS / 50)
        fail_msg("%d above and %d below of %d at 5 %%", low, high, TRIALS);
    assert_true(seen > TRIALS * 8 / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantiles), cmocka_unit_test(test_intervals), cmocka_unit_test(test_chance)};
    return cmocka_run_group_tests_name("paired", tests, NULL, NULL);
}
