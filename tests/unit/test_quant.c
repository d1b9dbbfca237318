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

/* Every byte of the panels of 18 outputs, two heads, as quant.h says. */
static void panel_bytes(void **state) {
    (void)state;
    enum { N = 18, SUPER = 256, MOST_K = 2 * SUPER, HEADS = 2 };
    static const struct {
        fore_dtype dtype;
        int bits, group, each; /* groups of a head */
    } forms[] = {{FORE_DTYPE_BF16, 4, 32, 1}, {FORE_DTYPE_BF16, 8, 32, 1}, {FORE_DTYPE_F16, 4, 128, 1}, {FORE_DTYPE_F32, 4, 32, 1},
                 {FORE_DTYPE_F32, 8, 64, 1},  {FORE_DTYPE_F32, 8, 16, 1},  {FORE_DTYPE_U8, 4, 32, 8},   {FORE_DTYPE_U8, 8, 32, 8},
                 {FORE_DTYPE_I8, 8, 16, 16}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const int bits = forms[i].bits, each = forms[i].each;
        const size_t group = (size_t)forms[i].group, wide = forms[i].dtype == FORE_DTYPE_F32 ? 4 : 2;
        const size_t record = each == 1 ? wide : 2 + (size_t)each, K = group * (size_t)each * HEADS;
        const size_t head = each > 1 ? 320 : 32 * wide, weights = 2 * (size_t)bits * group, block = head + (size_t)each * weights;
        unsigned char q[N * MOST_K], affine[2][N * HEADS * 18], panels[2 * HEADS * (320 + 16 * SUPER)];
        for (size_t k = 0; k < sizeof q; k++) q[k] = (unsigned char)(k * 37 + (k >> 5));
        for (size_t k = 0; k < sizeof affine[0]; k++)
            affine[0][k] = (unsigned char)(k + 1), affine[1][k] = (unsigned char)(k + 101);
        fore_qweight w = {bits, (int)group, N, (int)K, forms[i].dtype, NULL};
        size_t size;
        assert_int_equal(fore_qweight_check(bits, (int)group, N, (int)K, w.dtype, &size, NULL), FORE_OK);
        assert_int_equal(size, 2 * HEADS * block);
        assert_int_equal(fore_qweight_bytes(&w), size);
        assert_int_equal(fore_qweight_stored_affine(&w), N * HEADS * record);
        memset(panels, 0xa5, sizeof panels);
        fore_qweight_pack(&w, panels, q, affine[0], affine[1]);
        w.panels = panels;
        for (size_t p = 0; p < 2; p++)
            for (size_t h = 0; h < HEADS; h++)
                for (size_t lane = 0; lane < 16; lane++) {
                    const unsigned char *b = panels + (p * HEADS + h) * block;
                    size_t n = 16 * p + lane, from = (n * HEADS + h) * record;
                    for (size_t part = 0; part < 2 * wide; part++) {
                        unsigned want = n < N ? affine[part / wide][from + part % wide] : 0;
                        assert_int_equal(b[part / wide * 16 * wide + wide * lane + part % wide], want);
                    }
                    for (size_t j = 0; each > 1 && j < 256 / 16; j++) {
                        const unsigned char *small = affine[j < (size_t)each ? 0 : 1] + from + 2 + j % (size_t)each;
                        assert_int_equal(b[64 + 16 * j + lane], n < N ? *small : 0);
                    }
                    for (size_t k = 0; k < group * (size_t)each; k++) {
                        size_t at = n * K + h * group * (size_t)each + k;
                        unsigned want = n >= N ? 0 : bits == 8 ? q[at] : q[at / 2] >> (at % 2 ? 4 : 0) & 15;
                        unsigned got = bits == 8 ? b[head + k / 4 * 64 + lane * 4 + k % 4]
                                                 : b[head + k / 8 * 64 + lane * 4 + k % 4] >> (k % 8 / 4 ? 4 : 0) & 15;
                        assert_int_equal(got, want);
                        if (n < N) assert_int_equal(fore_qweight_q(&w, (int)n, (int)(at - n * K)), want);
                    }
                }
        for (size_t k = size; k < sizeof panels; k++) assert_int_equal(panels[k], 0xa5);
        /* A row of one matrix as another row of a second. */
        unsigned char copy[sizeof panels];
        memset(copy, 0xa5, sizeof copy);
        fore_qweight_copy_row(&w, 17, copy, 4);
        fore_qweight second = w;
        second.panels = copy;
        float row[2][MOST_K];
        fore_qweight_dequantize(&w, 17, row[0]);
        fore_qweight_dequantize(&second, 4, row[1]);
        assert_memory_equal(row[0], row[1], K * sizeof(float));
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

/* Dequantising is one fma a weight, also where scale * q alone overflows, is tiny, or is not exact. */
static void dequantises_by_fma(void **state) {
    (void)state;
    enum { N = 16, K = 256, LEAST = 16 };
    static const uint16_t halves[] = {0x7f7f, 0xff7f, 0x7f00, 0x0001, 0x8003, 0x0080, 0x3f81,
                                      0xbfff, 0x7bff, 0x0400, 0x8000, 0x7f80, 0x7fc0};
    enum { HALVES = sizeof halves / sizeof *halves };
    static const struct {
        fore_dtype dtype;
        int bits, group;
    } forms[] = {{FORE_DTYPE_BF16, 4, 32}, {FORE_DTYPE_BF16, 8, 32}, {FORE_DTYPE_F16, 4, 32}, {FORE_DTYPE_F16, 8, 32}, {FORE_DTYPE_F32, 4, 32},
                 {FORE_DTYPE_F32, 8, 16},  {FORE_DTYPE_U8, 4, 32},   {FORE_DTYPE_U8, 8, 32},  {FORE_DTYPE_I8, 8, 16}};
    unsigned char q[N * K], scales[N * K / LEAST * 4], biases[sizeof scales], panels[K / LEAST * (128 + 16 * LEAST)];
    for (size_t i = 0; i < sizeof q; i++) q[i] = (unsigned char)(i * 29 + (i >> 6));
    for (int round = 0; round < HALVES; round++)
        for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
            for (size_t i = 0; i < sizeof scales / 2; i++) {
                uint16_t a = halves[i % HALVES], b = halves[(i + (size_t)round) % HALVES] ^ 0x8000;
                memcpy(scales + 2 * i, &a, 2), memcpy(biases + 2 * i, &b, 2);
            }
            fore_qweight w = {forms[form].bits, forms[form].group, N, K, forms[form].dtype, panels};
            fore_qweight_pack(&w, panels, q, scales, biases);
            for (int n = 0; n < N; n++) {
                float row[K], scale, bias;
                fore_qweight_dequantize(&w, n, row);
                for (int k = 0; k < K; k++) {
                    fore_qweight_affine(&w, n, k / w.group, &scale, &bias);
                    float want = fmaf(scale, (float)fore_qweight_q(&w, n, k), bias);
                    if (isnan(want))
                        assert_true(isnan(row[k]));
                    else
                        assert_memory_equal(row + k, &want, sizeof want);
                }
            }
        }
}

/* Scales that are products, and what dequantising makes of them, by hand. */
static void products_of_steps(void **state) {
    (void)state;
    enum { K = 256 };
    unsigned char q[K], u[2][2 + 16], panels[320 + 16 * K];
    memset(u, 0, sizeof u);
    for (int k = 0; k < K; k++) q[k] = (unsigned char)(k * 7);
    u[0][1] = 0x38, u[1][1] = 0xb4; /* 0.5 and -0.25 */
    for (int g = 0; g < 8; g++) u[0][2 + g] = (unsigned char)(250 + g), u[1][2 + g] = (unsigned char)(3 * g);
    for (int bits = 4; bits <= 8; bits += 4) {
        fore_qweight w = {bits, 32, 1, K, FORE_DTYPE_U8, panels};
        fore_qweight_pack(&w, panels, q, u[0], u[1]);
        float row[K], scale, bias;
        fore_qweight_dequantize(&w, 0, row);
        for (int k = 0; k < K; k++) {
            int v = bits == 8 ? q[k] : q[k / 2] >> k % 2 * 4 & 15;
            fore_qweight_affine(&w, 0, k / 32, &scale, &bias);
            assert_true(scale == 0.5f * (float)(unsigned char)(250 + k / 32) && bias == -0.25f * (float)(3 * (k / 32)));
            assert_true(row[k] == scale * (float)v + bias);
        }
    }
    for (int g = 0; g < 16; g++) u[0][2 + g] = (unsigned char)(g * 16);
    fore_qweight w = {8, 16, 1, K, FORE_DTYPE_I8, panels};
    fore_qweight_pack(&w, panels, q, u[0], u[1]);
    float row[K], scale, bias;
    fore_qweight_dequantize(&w, 0, row);
    for (int k = 0; k < K; k++) {
        int small = k / 16 * 16 - (k / 16 < 8 ? 0 : 256);
        fore_qweight_affine(&w, 0, k / 16, &scale, &bias);
        assert_true(scale == 0.5f * (float)small && bias == -0.25f * (float)small);
        assert_true(row[k] == scale * (float)q[k] + bias);
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
               {4, 16, 4, 64, FORE_DTYPE_BF16, FORE_ERR_UNSUPPORTED, "with 4 bits in groups of 16"},
               {4, 0, 4, 64, FORE_DTYPE_BF16, FORE_ERR_UNSUPPORTED, "found 0"},
               {4, 64, 4, 64, FORE_DTYPE_I32, FORE_ERR_UNSUPPORTED, "bf16, f16 or f32"},
               {4, 64, 4, 256, FORE_DTYPE_U8, FORE_ERR_UNSUPPORTED, "with 4 bits in groups of 64"},
               {8, 32, 4, 256, FORE_DTYPE_I8, FORE_ERR_UNSUPPORTED, "with 8 bits in groups of 32"},
               {8, 16, 4, 128, FORE_DTYPE_I8, FORE_ERR_UNSUPPORTED, "a multiple of the group 256, found [4, 128]"},
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
        cmocka_unit_test(dequantises_by_fma),    cmocka_unit_test(products_of_steps), cmocka_unit_test(shapes_refused),
        cmocka_unit_test(weights_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
