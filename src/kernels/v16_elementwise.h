/* Element by element, 16 at a time; see v16.h. Tails are masked: nothing beyond the last element is read or written. */
#ifndef FORE_KERNELS_V16_ELEMENTWISE_H
#define FORE_KERNELS_V16_ELEMENTWISE_H

#include "kernels/kern.h"

/* n <= 16 */
FORE_INLINE v16 v16_load_some(const float *p, size_t n) { return n == 16 ? v16_load(p) : v16_load_n(p, n); }
FORE_INLINE void v16_store_some(float *p, v16 v, size_t n) {
    if (n == 16) v16_store(p, v);
    else v16_store_n(p, v, n);
}

static void v16_widen_all_bf16(float *y, const void *x, size_t n) {
    const unsigned char *p = x;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_load_bf16(p + 2 * i));
    if (i < n) v16_store_n(y + i, v16_load_bf16_n(p + 2 * i, n - i), n - i);
}

static void v16_widen_all_f16(float *y, const void *x, size_t n) {
    const unsigned char *p = x;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_load_f16(p + 2 * i));
    if (i < n) v16_store_n(y + i, v16_load_f16_n(p + 2 * i, n - i), n - i);
}

static void v16_add_to(float *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_add(v16_load(y + i), v16_load(x + i)));
    if (i < n) v16_store_n(y + i, v16_add(v16_load_n(y + i, n - i), v16_load_n(x + i, n - i)), n - i);
}

static void v16_add_bias(float *y, size_t ldy, const float *b, int T, int n0, int n1) {
    for (int t = 0; t < T; t++) v16_add_to(y + (size_t)t * ldy + (size_t)n0, b + n0, (size_t)(n1 - n0));
}

static void v16_silu_mul(float *y, const float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_mul(v16_silu(v16_load(gate + i)), v16_load(up + i)));
    if (i < n) v16_store_n(y + i, v16_mul(v16_silu(v16_load_n(gate + i, n - i)), v16_load_n(up + i, n - i)), n - i);
}

static void v16_sigmoid_mul(float *y, const float *gate, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_mul(v16_load(y + i), v16_sigmoid(v16_load(gate + i))));
    if (i < n) v16_store_n(y + i, v16_mul(v16_load_n(y + i, n - i), v16_sigmoid(v16_load_n(gate + i, n - i))), n - i);
}

static void v16_gelu_tanh_all(float *y, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_gelu_tanh(v16_load(y + i)));
    if (i < n) v16_store_n(y + i, v16_gelu_tanh(v16_load_n(y + i, n - i)), n - i);
}

static void v16_gelu_erf_all(float *y, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_gelu_erf(v16_load(y + i)));
    if (i < n) v16_store_n(y + i, v16_gelu_erf(v16_load_n(y + i, n - i)), n - i);
}

static void v16_rope(float *x, size_t row, size_t head, int T, int H, int half, const float *cos, const float *sin) {
    size_t w = (size_t)half;
    for (int t = 0; t < T; t++, cos += half, sin += half)
        for (int h = 0; h < H; h++) {
            float *p = x + (size_t)t * row + (size_t)h * head, *q = p + half;
            size_t i = 0;
            for (; i + 16 <= w; i += 16) {
                v16 a = v16_load(p + i), b = v16_load(q + i), c = v16_load(cos + i), s = v16_load(sin + i);
                v16_store(p + i, v16_sub(v16_mul(a, c), v16_mul(b, s)));
                v16_store(q + i, v16_add(v16_mul(b, c), v16_mul(a, s)));
            }
            if (i < w) {
                size_t n = w - i;
                v16 a = v16_load_n(p + i, n), b = v16_load_n(q + i, n), c = v16_load_n(cos + i, n),
                    s = v16_load_n(sin + i, n);
                v16_store_n(p + i, v16_sub(v16_mul(a, c), v16_mul(b, s)), n);
                v16_store_n(q + i, v16_add(v16_mul(b, c), v16_mul(a, s)), n);
            }
        }
}

/* Adds tap j of row t, n <= 16 channels from c on; the window's rows that come before the first one are in prev. */
FORE_INLINE v16 v16_conv_tap(v16 sum, int j, int K, const float *u, size_t ldu, const float *prev, const float *w, int t,
                             size_t c, size_t C, size_t n) {
    int row = t - (K - 1) + j;
    const float *p = row < 0 ? prev + (size_t)(row + K - 1) * C : u + (size_t)row * ldu;
    v16 in = v16_load_some(p + c, n), weight = v16_load_some(w + (size_t)j * C + c, n);
    return j ? v16_fma(weight, in, sum) : v16_mul(weight, in);
}

/* four: K is 4 */
FORE_INLINE void v16_conv_lanes(const bool four, int K, float *y, const float *u, size_t ldu, const float *prev,
                                const float *w, int t, size_t c, size_t C, size_t n) {
    v16 sum = v16_zero();
    if (four) {
        FORE_UNROLL for (int j = 0; j < 4; j++) sum = v16_conv_tap(sum, j, 4, u, ldu, prev, w, t, c, C, n);
    } else {
        for (int j = 0; j < K; j++) sum = v16_conv_tap(sum, j, K, u, ldu, prev, w, t, c, C, n);
    }
    v16_store_some(y + c, v16_silu(sum), n);
}

/* Row by row, in strips of channels whose window and weights stay in the first cache. */
FORE_INLINE void v16_conv_strips(const bool four, int K, float *y, size_t ldy, const float *u, size_t ldu,
                                 const float *prev, const float *w, int T, size_t c0, size_t c1, size_t C) {
    enum { STRIP = 256 };
    for (size_t from = c0; from < c1; from += STRIP) {
        size_t to = c1 - from < STRIP ? c1 : from + STRIP;
        for (int t = 0; t < T; t++) {
            size_t c = from;
            for (; c + 16 <= to; c += 16) {
                FORE_PREFETCH(u + (size_t)t * ldu + c, 4 * sizeof(float) * ldu); /* four rows ahead */
                v16_conv_lanes(four, K, y + (size_t)t * ldy, u, ldu, prev, w, t, c, C, 16);
            }
            if (c < to) v16_conv_lanes(four, K, y + (size_t)t * ldy, u, ldu, prev, w, t, c, C, to - c);
        }
    }
}

static void v16_conv_silu(float *y, size_t ldy, const float *u, size_t ldu, const float *prev, const float *w, int T,
                          int c0, int c1, int C, int K) {
    if (!prev) prev = w; /* K == 1: never read */
    if (K == 4) v16_conv_strips(true, 4, y, ldy, u, ldu, prev, w, T, (size_t)c0, (size_t)c1, (size_t)C);
    else v16_conv_strips(false, K, y, ldy, u, ldu, prev, w, T, (size_t)c0, (size_t)c1, (size_t)C);
}

static void v16_delta_gates(float *beta, float *decay, size_t ldo, const float *b, size_t ldb, const float *a,
                            size_t lda, const float *neg_exp_A, const float *dt_bias, int T, int H) {
    for (int t = 0; t < T; t++, beta += ldo, decay += ldo, b += ldb, a += lda)
        for (size_t h = 0; h < (size_t)H; h += 16) {
            size_t n = (size_t)H - h < 16 ? (size_t)H - h : 16;
            v16_store_n(beta + h, v16_sigmoid(v16_load_n(b + h, n)), n);
            v16 s = v16_softplus(v16_add(v16_load_n(a + h, n), v16_load_n(dt_bias + h, n)));
            v16_store_n(decay + h, v16_exp(v16_mul(v16_load_n(neg_exp_A + h, n), s)), n);
        }
}

static size_t v16_argmax(const float *x, size_t n) {
    v16 m[4] = {v16_set1(-INFINITY), v16_set1(-INFINITY), v16_set1(-INFINITY), v16_set1(-INFINITY)};
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (size_t j = 0; j < 4; j++) m[j] = v16_max(v16_load(x + i + 16 * j), m[j]); /* a NaN never replaces */
    m[0] = v16_max(v16_max(m[0], m[1]), v16_max(m[2], m[3]));
    for (; i + 16 <= n; i += 16) m[0] = v16_max(v16_load(x + i), m[0]);
    float largest = v16_fold_max(m[0]);
    for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    v16 want = v16_set1(largest);
    for (i = 0; i + 16 <= n; i += 16) {
        v16m found = v16_eq(v16_load(x + i), want);
        if (v16_any(found)) return i + v16_first(found);
    }
    for (; i < n; i++)
        if (x[i] == largest) return i;
    return 0;
}

#endif
