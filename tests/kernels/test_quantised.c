/* Quantised products of every kernel set against the scalar reference, byte by byte: every format, every width of a
 * window and some of a prompt, every slice of outputs, and nothing written beside the slice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/quant.h"

enum { N = 150, K = 768, ROWS = 130, PANELS = (N + 15) / 16, LDY = N + 3 };

static const fore_kern *sets[8];
static int set_count;

static uint32_t draw(void) {
    static uint64_t seed = 9;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static void *get(size_t size) {
    void *p = malloc(size);
    assert_non_null(p);
    return p;
}

/* A finite number of either sign, from below 2^-14 to above 1, or one of them rounded to 16 bits. */
static size_t put(fore_dtype dtype, unsigned char *p) {
    size_t bytes = dtype == FORE_DTYPE_F32 ? 4 : 2;
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)draw();
    unsigned odd = draw() % 2 * 0x80; /* the exponent's upper byte, the rest as it is */
    p[bytes - 1] = (unsigned char)(odd | (dtype == FORE_DTYPE_F32 || dtype == FORE_DTYPE_BF16 ? 0x38 + draw() % 9 : draw() % 0x44));
    return bytes;
}

static void fill(const fore_qweight *w, unsigned char *panels) {
    size_t q_size = fore_qweight_stored_q(w), affine = fore_qweight_stored_affine(w);
    bool steps = w->dtype == FORE_DTYPE_U8 || w->dtype == FORE_DTYPE_I8;
    unsigned char *q = get(q_size), *scales = get(affine), *biases = get(affine);
    for (size_t i = 0; i < q_size; i++) q[i] = (unsigned char)draw();
    for (size_t i = 0; i < affine;) {
        put(w->dtype, scales + i);
        i += put(w->dtype, biases + i);
        for (int k = 0; steps && k < 256 / w->group; k++, i++) scales[i] = (unsigned char)draw(), biases[i] = (unsigned char)draw();
    }
    fore_qweight_pack(w, panels, q, scales, biases);
    free(q), free(scales), free(biases);
}

/* The outputs n0 .. n1-1 of T rows by the set, whose bytes shall be those of `want`; all else keeps its bytes. */
static void check(const fore_kern *set, const fore_qweight *w, const fore_qrows *x, const float *want, float *y, int T,
                  int n0, int n1) {
    memset(y, 0x5a, sizeof *y * ROWS * LDY);
    (w->bits == 4 ? set->mm_q4 : set->mm_q8)(y, LDY, x, w, T, n0, n1);
    float untouched;
    memset(&untouched, 0x5a, sizeof untouched);
    for (int t = 0; t < ROWS; t++)
        for (int n = 0; n < LDY; n++) {
            bool inside = t < T && n >= n0 && n < n1;
            const float *expected = inside ? want + t * LDY + n : &untouched;
            if (memcmp(expected, y + t * LDY + n, sizeof *y) != 0)
                fail_msg("%s, %d bits, group %d, T=%d, outputs %d to %d: [%d,%d] is %a, not %a", set->name, w->bits,
                         w->group, T, n0, n1, t, n, (double)y[t * LDY + n], (double)*expected);
        }
}

static void check_format(int bits, int group, fore_dtype dtype) {
    fore_qweight w = {bits, group, N, K, dtype, NULL};
    size_t size, groups = (size_t)(K / group);
    assert_int_equal(fore_qweight_check(bits, group, N, K, dtype, &size, NULL), FORE_OK);
    unsigned char *panels = get(size);
    fill(&w, panels);
    w.panels = panels;
    float *in = get(sizeof *in * ROWS * K), *want = get(sizeof *want * ROWS * LDY), *y = get(sizeof *y * ROWS * LDY);
    for (int i = 0; i < ROWS * K; i++) in[i] = ((float)(draw() >> 8) * 0x1p-23f - 1) * (i % 97 ? 1 : 20);
    fore_qrows x = {get(ROWS * (K + 5)), get(ROWS * groups * 4), get(ROWS * groups * 4), K + 5, groups};
    sets[0]->quantize_rows(&x, in, K, ROWS, K, group);
    (bits == 4 ? sets[0]->mm_q4 : sets[0]->mm_q8)(want, LDY, &x, &w, ROWS, 0, N);
    static const int more[] = {41, 48, 64, 130};
    for (int s = 1; s < set_count; s++) {
        for (int T = 1; T <= 40; T++) check(sets[s], &w, &x, want, y, T, 0, N);
        for (int i = 0; i < 4; i++) check(sets[s], &w, &x, want, y, more[i], 0, N);
        for (int p0 = 0; p0 < PANELS; p0++)
            for (int p1 = p0; p1 <= PANELS; p1++) {
                int T = 1 + (int)(draw() % 40);
                check(sets[s], &w, &x, want, y, T, 16 * p0, p1 == PANELS ? N : 16 * p1);
            }
    }
    free(panels), free(in), free(want), free(y), free(x.q), free(x.scale), free(x.sum);
}

static const fore_dtype types[] = {FORE_DTYPE_BF16, FORE_DTYPE_F16, FORE_DTYPE_F32};

static void four_bits(void **state) {
    (void)state;
    for (int group = 32; group <= 128; group *= 2)
        for (int i = 0; i < 3; i++) check_format(4, group, types[i]);
}

static void eight_bits(void **state) {
    (void)state;
    for (int group = 16; group <= 128; group *= 2)
        for (int i = 0; i < 3; i++) check_format(8, group, types[i]);
}

/* Scales and biases that are products. */
static void steps(void **state) {
    (void)state;
    check_format(4, 32, FORE_DTYPE_U8);
    check_format(8, 32, FORE_DTYPE_U8);
    check_format(8, 16, FORE_DTYPE_I8);
}

int main(void) {
    set_count = fore_kern_list(sets);
    for (int i = 1; i < set_count; i++) print_message("set: %s\n", sets[i]->name);
    const struct CMUnitTest tests[] = {cmocka_unit_test(four_bits), cmocka_unit_test(eight_bits), cmocka_unit_test(steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
