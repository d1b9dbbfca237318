/* The quantised format: quantising, packing and dequantising against numpy (tests/oracle/make_quant.py), panels byte by
 * byte, whole and in shares, products of every kernel set near the exact ones, and what is refused. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "kernels/quant.h"

static const unsigned char *take(const unsigned char **at, size_t size, const unsigned char *end) {
    assert_true(size <= (size_t)(end - *at));
    const unsigned char *p = *at;
    *at += size;
    return p;
}

static void *get(size_t size) { /* exactly as large as asked for, so that a sanitizer sees every byte beyond */
    void *p = malloc(size);
    assert_non_null(p);
    return p;
}

/* Products of x, quantised by every set, near the exact products of what the quantised numbers stand for. */
static void check_products(const fore_qweight *w, int T, const float *x, const int8_t *want_q, const float *want_scale,
                           const unsigned char *want_y) {
    const fore_kern *sets[8];
    int count = fore_kern_list(sets);
    size_t rows = (size_t)T, K = (size_t)w->K, N = (size_t)w->N, groups = K / (size_t)w->group;
    fore_qrows q = {get(rows * K), get(rows * groups * 4), get(rows * groups * 4), K, groups};
    float *y = get(rows * N * 4);
    for (int i = 0; i < count; i++) {
        sets[i]->quantize_rows(&q, x, K, T, w->K, w->group);
        assert_memory_equal(q.q, want_q, rows * K);
        assert_memory_equal(q.scale, want_scale, rows * groups * 4);
        (w->bits == 4 ? sets[i]->mm_q4 : sets[i]->mm_q8)(y, N, &q, w, T, 0, w->N);
        for (size_t j = 0; j < rows * N; j++) {
            double want;
            memcpy(&want, want_y + 8 * j, sizeof want);
            if (!(fabs((double)y[j] - want) <= 2e-5 * (1 + fabs(want))))
                fail_msg("%s: element %zu: want %g, got %g", sets[i]->name, j, want, (double)y[j]);
        }
    }
    free(q.q), free(q.scale), free(q.sum), free(y);
}

static void follows_the_reference(void **state) {
    (void)state;
    fore_map map;
    fore_error err;
    assert_int_equal(fore_map_open(FORE_DATA "/quant/cases.bin", &map, &err), FORE_OK);
    const unsigned char *at = map.data, *end = map.data + map.size;
    assert_memory_equal(take(&at, 4, end), "QNT1", 4);
    int32_t cases, head[7];
    memcpy(&cases, take(&at, 4, end), 4);
    assert_int_equal(cases, 24);
    for (int c = 0; c < cases; c++) {
        memcpy(head, take(&at, sizeof head, end), sizeof head);
        size_t size, N = (size_t)head[2], K = (size_t)head[3], T = (size_t)head[6], groups = K / (size_t)head[1];
        fore_qweight w = {head[0], head[1], head[2], head[3], head[5] ? FORE_DTYPE_F16 : FORE_DTYPE_BF16, NULL};
        assert_int_equal(fore_qweight_check(w.bits, w.group, w.N, w.K, w.dtype, &size, &err), FORE_OK);
        size_t q_size = fore_qweight_stored_q(&w), affine = fore_qweight_stored_affine(&w);
        assert_int_equal(q_size, N * K * (size_t)w.bits / 8);
        assert_int_equal(affine, N * groups * 2);
        const unsigned char *matrix = take(&at, N * K * (head[4] ? 2 : 4), end), *q = take(&at, q_size, end);
        const unsigned char *scales = take(&at, affine, end), *biases = take(&at, affine, end);
        const unsigned char *exact = take(&at, N * K * 4, end);

        unsigned char *my_q = get(q_size), *my_scales = get(affine), *my_biases = get(affine), *panels = get(size);
        assert_int_equal(fore_quantize_rows(&w, my_q, my_scales, my_biases, head[4] ? FORE_DTYPE_BF16 : FORE_DTYPE_F32,
                                            matrix, &err),
                         FORE_OK);
        assert_memory_equal(my_scales, scales, affine);
        assert_memory_equal(my_biases, biases, affine);
        assert_memory_equal(my_q, q, q_size);
        memset(panels, 0xa5, size);
        fore_qweight_pack(&w, panels, q, scales, biases);
        w.panels = panels;
        float *row = get(K * 4);
        for (size_t n = 0; n < N; n++) {
            fore_qweight_dequantize(&w, (int)n, row);
            assert_memory_equal(row, exact + n * K * 4, K * 4);
        }
        float *x = get(T * K * 4), *scale = get(T * groups * 4);
        memcpy(x, take(&at, T * K * 4, end), T * K * 4);
        const int8_t *x_q = (const int8_t *)take(&at, T * K, end);
        memcpy(scale, take(&at, T * groups * 4, end), T * groups * 4);
        check_products(&w, (int)T, x, x_q, scale, take(&at, T * N * 8, end));
        free(my_q), free(my_scales), free(my_biases), free(panels), free(row), free(x), free(scale);
    }
    assert_ptr_equal(at, end);
    fore_map_close(&map);
}

/* Every byte of the panels of 18 outputs, two groups, as quant.h says. */
static void panel_bytes(void **state) {
    (void)state;
    enum { N = 18, K = 64, GROUP = 32 };
    for (int bits = 4; bits <= 8; bits += 4) {
        unsigned char q[N * K], affine[2][N * 4], panels[2 * 2 * (64 + 2 * 8 * GROUP)];
        for (size_t i = 0; i < sizeof q; i++) q[i] = (unsigned char)(i * 37 + (i >> 5));
        for (size_t i = 0; i < N * 4; i++)
            affine[0][i] = (unsigned char)(i + 1), affine[1][i] = (unsigned char)(i + 101);
        fore_qweight w = {bits, GROUP, N, K, FORE_DTYPE_BF16, NULL};
        size_t size, block = 64 + 2 * (size_t)bits * GROUP;
        assert_int_equal(fore_qweight_check(bits, GROUP, N, K, w.dtype, &size, NULL), FORE_OK);
        assert_int_equal(size, 4 * block);
        memset(panels, 0xa5, sizeof panels);
        fore_qweight_pack(&w, panels, q, affine[0], affine[1]);
        w.panels = panels;
        for (size_t p = 0; p < 2; p++)
            for (size_t g = 0; g < 2; g++)
                for (size_t lane = 0; lane < 16; lane++) {
                    const unsigned char *b = panels + (p * 2 + g) * block;
                    size_t n = 16 * p + lane;
                    for (size_t part = 0; part < 4; part++) {
                        unsigned want = n < N ? affine[part / 2][(n * 2 + g) * 2 + part % 2] : 0;
                        assert_int_equal(b[part / 2 * 32 + 2 * lane + part % 2], want);
                    }
                    for (size_t k = 0; k < GROUP; k++) {
                        size_t from = n * K + g * GROUP + k;
                        unsigned want = n >= N ? 0 : bits == 8 ? q[from] : q[from / 2] >> (from % 2 ? 4 : 0) & 15;
                        unsigned got = bits == 8 ? b[64 + k / 4 * 64 + lane * 4 + k % 4]
                                                 : b[64 + k / 8 * 64 + lane * 4 + k % 4] >> (k % 8 / 4 ? 4 : 0) & 15;
                        assert_int_equal(got, want);
                        if (n < N) assert_int_equal(fore_qweight_q(&w, (int)n, (int)(g * GROUP + k)), want);
                    }
                }
        for (size_t i = size; i < sizeof panels; i++) assert_int_equal(panels[i], 0xa5);
    }
}

/* Every share of the panels is the same bytes of the whole, and nothing else is written. */
static void panels_in_shares(void **state) {
    (void)state;
    enum { N = 70, K = 192, GROUP = 64 };
    unsigned char q[N * K], affine[2][N * K / GROUP * 2];
    for (size_t i = 0; i < sizeof q; i++) q[i] = (unsigned char)(i * 151 + (i >> 7));
    for (size_t i = 0; i < sizeof affine[0]; i++)
        affine[0][i] = (unsigned char)(i * 7), affine[1][i] = (unsigned char)(i * 11);
    for (int bits = 4; bits <= 8; bits += 4) {
        fore_qweight w = {bits, GROUP, N, K, FORE_DTYPE_F16, NULL};
        size_t size;
        assert_int_equal(fore_qweight_check(bits, GROUP, N, K, w.dtype, &size, NULL), FORE_OK);
        int panels = fore_qweight_panels(&w);
        assert_int_equal(panels, 5);
        unsigned char *whole = get(size), *part = get(size);
        fore_qweight_pack(&w, whole, q, affine[0], affine[1]);
        for (int p0 = 0; p0 <= panels; p0++)
            for (int p1 = p0; p1 <= panels; p1++) {
                memset(part, 0xa5, size);
                fore_qweight_pack_panels(&w, part, q, affine[0], affine[1], p0, p1);
                size_t from = size / 5 * (size_t)p0, to = size / 5 * (size_t)p1;
                assert_memory_equal(part + from, whole + from, to - from);
                for (size_t i = 0; i < size; i++)
                    if (i < from || i >= to) assert_int_equal(part[i], 0xa5);
            }
        free(whole), free(part);
    }
}

/* Dequantising is one fma a weight, also where scale * q alone overflows or is tiny. */
static void dequantises_by_fma(void **state) {
    (void)state;
    enum { N = 16, K = 128, GROUP = 32 };
    static const uint16_t halves[] = {0x7f7f, 0xff7f, 0x7f00, 0x0001, 0x8003, 0x0080, 0x3f81,
                                      0xbfff, 0x7bff, 0x0400, 0x8000, 0x7f80, 0x7fc0};
    enum { HALVES = sizeof halves / sizeof *halves };
    unsigned char q[N * K], scales[N * K / GROUP * 2], biases[sizeof scales], panels[N * K + 4 * 64];
    for (size_t i = 0; i < sizeof q; i++) q[i] = (unsigned char)(i * 29 + (i >> 6));
    for (int round = 0; round < HALVES; round++)
        for (int form = 0; form < 4; form++) {
            for (size_t i = 0; i < sizeof scales / 2; i++) {
                uint16_t a = halves[i % HALVES], b = halves[(i + (size_t)round) % HALVES] ^ 0x8000;
                memcpy(scales + 2 * i, &a, 2), memcpy(biases + 2 * i, &b, 2);
            }
            fore_qweight w = {form & 1 ? 4 : 8, GROUP, N, K, form & 2 ? FORE_DTYPE_F16 : FORE_DTYPE_BF16, panels};
            fore_qweight_pack(&w, panels, q, scales, biases);
            for (int n = 0; n < N; n++) {
                float row[K], scale, bias;
                fore_qweight_dequantize(&w, n, row);
                for (int k = 0; k < K; k++) {
                    fore_qweight_affine(&w, n, k / GROUP, &scale, &bias);
                    float want = fmaf(scale, (float)fore_qweight_q(&w, n, k), bias);
                    if (isnan(want))
                        assert_true(isnan(row[k]));
                    else
                        assert_memory_equal(row + k, &want, sizeof want);
                }
            }
        }
}

static void shapes_refused(void **state) {
    (void)state;
    static const struct {
        int bits, group;
        int64_t N, K;
        fore_dtype dtype;
        fore_status status;
        const char *says;
    } bad[] = {{3, 64, 4, 64, FORE_DTYPE_BF16, FORE_ERR_UNSUPPORTED, "4 or 8 bits, found 3"},
               {4, 16, 4, 64, FORE_DTYPE_BF16, FORE_ERR_UNSUPPORTED, "32, 64 or 128, found 16"},
               {4, 0, 4, 64, FORE_DTYPE_BF16, FORE_ERR_UNSUPPORTED, "found 0"},
               {4, 64, 4, 64, FORE_DTYPE_F32, FORE_ERR_UNSUPPORTED, "bf16 or f16"},
               {4, 64, 4, 96, FORE_DTYPE_BF16, FORE_ERR_UNSUPPORTED, "multiple of the group 64, found [4, 96]"},
               {4, 64, 0, 64, FORE_DTYPE_BF16, FORE_ERR_UNSUPPORTED, "[0, 64]"},
               {8, 64, -5, 64, FORE_DTYPE_F16, FORE_ERR_UNSUPPORTED, "[-5, 64]"},
               {8, 64, 4, 0, FORE_DTYPE_F16, FORE_ERR_UNSUPPORTED, "[4, 0]"},
               {8, 64, 4, -64, FORE_DTYPE_F16, FORE_ERR_UNSUPPORTED, "[4, -64]"},
               {8, 32, INT_MAX, 32, FORE_DTYPE_F16, FORE_ERR_LIMIT, "too large"},
               {8, 32, 1, (int64_t)1 << 31, FORE_DTYPE_F16, FORE_ERR_LIMIT, "too large"},
               {8, 32, INT64_MAX, INT64_MAX / 32 * 32, FORE_DTYPE_F16, FORE_ERR_LIMIT, "too large"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t size = 7;
        fore_error err = {0};
        assert_int_equal(fore_qweight_check(bad[i].bits, bad[i].group, bad[i].N, bad[i].K, bad[i].dtype, &size, &err),
                         bad[i].status);
        assert_int_equal(size, 0);
        if (!strstr(err.text, bad[i].says)) fail_msg("expected \"%s\" in: %s", bad[i].says, err.text);
    }
}

static void weights_refused(void **state) {
    (void)state;
    float w[64] = {0};
    unsigned char q[64];
    unsigned char scales[4], biases[4];
    fore_error err = {0};
    fore_qweight shape = {8, 32, 2, 32, FORE_DTYPE_F16, NULL};
    assert_int_equal(fore_quantize_rows(&shape, q, scales, biases, FORE_DTYPE_F32, w, &err), FORE_OK);
    assert_int_equal(fore_quantize_rows(&shape, q, scales, biases, FORE_DTYPE_I32, w, &err), FORE_ERR_UNSUPPORTED);
    const float wrong[] = {NAN, INFINITY, -INFINITY, 70000.0f};
    for (int i = 0; i < 4; i++) {
        w[40] = wrong[i];
        assert_int_equal(fore_quantize_rows(&shape, q, scales, biases, FORE_DTYPE_F32, w, &err), FORE_ERR_FORMAT);
        assert_non_null(strstr(err.text, "row 1, from column 0"));
    }
    shape.dtype = FORE_DTYPE_BF16; /* whose range 70000 is in */
    assert_int_equal(fore_quantize_rows(&shape, q, scales, biases, FORE_DTYPE_F32, w, &err), FORE_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_reference), cmocka_unit_test(panel_bytes),    cmocka_unit_test(panels_in_shares),
        cmocka_unit_test(dequantises_by_fma),    cmocka_unit_test(shapes_refused), cmocka_unit_test(weights_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
