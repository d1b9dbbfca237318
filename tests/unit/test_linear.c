/* Products split over threads, and over nodes of memory that this machine need not have: the same bits as one thread's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/processors.h"
#include "kernels/quant.h"
#include "model/linear.h"
#include "support/scratch.h"

enum { K = 128, PRODUCTS = 4, MOST_T = 19 };
static const int WIDTHS[PRODUCTS] = {1, 200, 1000, 37};
static const int BITS[PRODUCTS] = {0, 4, 8, 0};

typedef struct matrices {
    fore_weight w[PRODUCTS];
    void *data[PRODUCTS];
    float x[MOST_T * K];
} matrices;

static float next(uint32_t *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1;
}

static void make_matrices(matrices *m) {
    uint32_t seed = 7;
    for (int i = 0; i < MOST_T * K; i++) m->x[i] = next(&seed);
    for (int p = 0; p < PRODUCTS; p++) {
        int N = WIDTHS[p];
        float *rows = calloc((size_t)N * K, sizeof *rows);
        for (int i = 0; i < N * K; i++) rows[i] = next(&seed);
        m->w[p] = (fore_weight){.data = rows, .dtype = FORE_DTYPE_F32, .N = N, .K = K};
        m->data[p] = rows;
        if (!BITS[p]) continue;
        fore_qweight q = {.bits = BITS[p], .group = 64, .N = N, .K = K, .dtype = FORE_DTYPE_BF16};
        size_t size;
        assert_int_equal(fore_qweight_check(q.bits, q.group, N, K, q.dtype, &size, NULL), 0);
        char *stored = malloc(fore_qweight_stored_q(&q)), *scales = malloc(fore_qweight_stored_affine(&q));
        char *biases = malloc(fore_qweight_stored_affine(&q)), *panels = aligned_alloc(64, size);
        assert_int_equal(fore_quantize_rows(&q, stored, scales, biases, FORE_DTYPE_F32, rows, NULL), 0);
        fore_qweight_pack(&q, panels, stored, scales, biases);
        free(stored), free(scales), free(biases), free(rows);
        m->data[p] = panels;
        m->w[p] = (fore_weight){.data = panels, .dtype = FORE_DTYPE_BF16, .N = N, .K = K, .bits = q.bits, .group = q.group};
    }
}

/* y: [PRODUCTS][MOST_T * widest] */
static void multiply(const matrices *m, const char *isa, const fore_pool_options *how, int T, float *y) {
    fore_error err = {0};
    const fore_kern *kern;
    fore_pool *pool = NULL;
    fore_quantised room;
    if (fore_kern_get(isa, &kern, &err) || fore_pool_new_with(how, &pool, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_quantised_new(MOST_T * K, &room, &err), 0);
    fore_engine engine = {.kern = kern, .pool = pool, .quantised = &room};
    fore_product products[PRODUCTS];
    for (int p = 0; p < PRODUCTS; p++)
        products[p] = (fore_product){&m->w[p], NULL, y + (size_t)p * MOST_T * 1000, (size_t)WIDTHS[p]};
    fore_linear(&engine, m->x, K, T, products, PRODUCTS);
    fore_quantised_free(&room);
    fore_pool_free(pool);
}

static void test_split(void **state) {
    (void)state;
    fore_cpu_set mask;
    assert_true(fore_cpu_mask(&mask));
    int a = fore_cpu_next(&mask, 0), b = fore_cpu_next(&mask, a + 1);
    scratch dir;
    scratch_make(&dir);
    char text[64];
    scratch_write(&dir, "online", "0-1", 3);
    scratch_write(&dir, "node0/cpulist", text, (size_t)snprintf(text, sizeof text, "%d", a));
    scratch_write(&dir, "node1/cpulist", text, (size_t)snprintf(text, sizeof text, "%d-%d", b, FORE_CPU_MAX - 1));
    matrices *m = calloc(1, sizeof *m);
    make_matrices(m);
    size_t floats = (size_t)PRODUCTS * MOST_T * 1000;
    float *want = calloc(floats, sizeof *want), *have = calloc(floats, sizeof *have);
    const fore_pool_options ways[] = {{.threads = 2}, {.threads = 5}, {.threads = 2, .nodes = dir.dir}, {.threads = 5, .nodes = dir.dir}};
    static const int rows[] = {1, 4, MOST_T};
    for (int isa = 0; isa < 2; isa++) {
        for (int r = 0; r < 3; r++) {
            memset(want, 0, floats * sizeof *want);
            multiply(m, isa ? NULL : "ref", &(fore_pool_options){.threads = 1}, rows[r], want);
            for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                memset(have, 0, floats * sizeof *have);
                multiply(m, isa ? NULL : "ref", &ways[i], rows[r], have);
                assert_memory_equal(have, want, floats * sizeof *want);
            }
        }
    }
    for (int p = 0; p < PRODUCTS; p++) {
        assert_true(want[(size_t)p * MOST_T * 1000 + (size_t)WIDTHS[p] * MOST_T - 1] != 0);
        free(m->data[p]);
    }
    free(want);
    free(have);
    free(m);
    scratch_remove(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
