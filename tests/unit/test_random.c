/* Random numbers: the generator's published answers, and that every argument matters and none leaks into another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

/* The known answers that the authors of the generator publish: counter, key, output. */
static void known_answers(void **state) {
    (void)state;
    static const uint32_t cases[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
         0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        fore_philox(cases[i], cases[i] + 4, out);
        assert_memory_equal(out, cases[i] + 6, sizeof out);
    }
}

/* The bits of an index are a fixed word of a fixed block: changing this would change every answer with a seed. */
static void layout(void **state) {
    (void)state;
    uint64_t seed = 0x299f31d0a4093822u, position = 0x0370734413198a2eu;
    static const uint32_t words[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    uint32_t block = 0x243f6a88u, stream = 0x85a308d3u, out[4];
    fore_random_block(seed, position, block, stream, out);
    assert_memory_equal(out, words, sizeof out);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t direct[4];
        fore_random_block(1, 2, 3, 4, direct);
        assert_int_equal(direct[i], fore_random_bits(1, 2, 3 * 4 + i, 4));
    }
    /* The last index that exists. */
    fore_random_block(7, 9, UINT32_MAX / 4, 1, out);
    assert_int_equal(out[3], fore_random_bits(7, 9, UINT32_MAX, 1));
}

static int compare_u32(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Neighbours of a point in every argument, high halves included: 32 equal bits by chance are a 1 in 10^5 event here. */
static void every_argument_matters(void **state) {
    (void)state;
    enum { N = 64 * 2 + 32 * 2 };
    uint32_t seen[N];
    int n = 0;
    for (int bit = 0; bit < 64; bit++) seen[n++] = fore_random_bits((uint64_t)1 << bit, 0, 0, 0);
    for (int bit = 0; bit < 64; bit++) seen[n++] = fore_random_bits(0, (uint64_t)1 << bit, 0, 0);
    for (int bit = 0; bit < 32; bit++) seen[n++] = fore_random_bits(0, 0, (uint32_t)1 << bit, 0);
    for (int bit = 0; bit < 32; bit++) seen[n++] = fore_random_bits(0, 0, 0, (uint32_t)1 << bit);
    assert_int_equal(n, N);
    qsort(seen, N, sizeof *seen, compare_u32);
    for (int i = 1; i < N; i++) assert_int_not_equal(seen[i - 1], seen[i]);
}

/* 256 bins over 2^18 draws, along indexes and along positions; 99.9 % of chi-square with 255 degrees is 330.5. */
static void uniform(void **state) {
    (void)state;
    enum { DRAWS = 1 << 18, BINS = 256 };
    for (int along = 0; along < 2; along++) {
        for (int shift = 0; shift <= 24; shift += 24) {
            static int bins[BINS];
            memset(bins, 0, sizeof bins);
            for (uint32_t i = 0; i < DRAWS; i++) {
                uint32_t bits = along ? fore_random_bits(5, i, 77, 0) : fore_random_bits(5, 77, i, 0);
                bins[bits >> shift & 255]++;
            }
            double chi = 0, expected = (double)DRAWS / BINS;
            for (int b = 0; b < BINS; b++) chi += (bins[b] - expected) * (bins[b] - expected) / expected;
            assert_true(chi < 330.5);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(layout),
        cmocka_unit_test(every_argument_matters),
        cmocka_unit_test(uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
