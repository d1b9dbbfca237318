/* Products of R rows and B outputs at a time, one accumulator of 16 lanes each; see v16.h. Lanes run along K, so a tile needs
 * no packed weights; they are widened in registers and used for all R rows.
 *
 * Few rows: the weights stream through once, B outputs side by side. Many rows: a tile's rows are packed per block of K, so
 * that they stay in the first cache while the weights of V16_MM_BLOCK outputs come from the second; between blocks of K the
 * accumulators wait in memory, whole, so that the order of summation does not change.
 *
 * Set by kern_ISA.c: V16_MM_DIRECT(X) lists X(R, B) for R = 1, 2, ... few rows; V16_MM_PACKED(X) the same for tiles of
 * many rows, V16_MM_ROWS the highest R of those. */
#ifndef FORE_KERNELS_V16_MATMUL_H
#define FORE_KERNELS_V16_MATMUL_H

#include "kernels/kern.h"

enum { V16_F32, V16_BF16, V16_F16 };
enum {
    V16_MM_DEPTH = 512, /* K of a packed block */
    V16_MM_BLOCK = 64,  /* outputs whose accumulators wait at once */
    V16_MM_MOST = 24,   /* accumulators of a tile */
};

FORE_INLINE v16 v16_weights16(const int kind, const unsigned char *p) {
    return kind == V16_F32 ? v16_load_f32(p) : kind == V16_BF16 ? v16_load_bf16(p) : v16_load_f16(p);
}
FORE_INLINE v16 v16_weights_n(const int kind, const unsigned char *p, size_t n) {
    return kind == V16_F32 ? v16_load_f32_n(p, n) : kind == V16_BF16 ? v16_load_bf16_n(p, n) : v16_load_f16_n(p, n);
}
FORE_INLINE size_t v16_width(const int kind) {
    return kind == V16_F32 ? 4 : 2;
}

/* K terms of R x B sums; x is [R,ldx], or packed [K/16,R,16] with zeros after K; weights of the B outputs are `row` bytes
 * apart. The sums begin from 0 or from `carry`, and end in `carry` or, folded, in y. */
FORE_INLINE void v16_mm_tile(const int kind, const int R, const int B, const bool packed, const float *x, size_t ldx,
                             const unsigned char *w, size_t row, size_t K, float *carry, bool begin, bool end, float *y,
                             size_t ldy) {
    v16 acc[V16_MM_MOST];
    FORE_UNROLL for (int i = 0; i < R * B; i++) acc[i] = begin ? v16_zero() : v16_load(carry + 16 * i);
    size_t k = 0;
    for (; k + 16 <= K; k += 16) {
        v16 weight[8];
        FORE_UNROLL for (int b = 0; b < B; b++) {
            const unsigned char *p = w + (size_t)b * row + k * v16_width(kind);
            if (!packed) __builtin_prefetch(p + V16_MM_AHEAD);
            weight[b] = v16_weights16(kind, p);
        }
        FORE_UNROLL for (int r = 0; r < R; r++) {
            v16 in = v16_load(packed ? x + k * (size_t)R + 16 * r : x + (size_t)r * ldx + k);
            FORE_UNROLL for (int b = 0; b < B; b++) acc[r * B + b] = v16_fma(in, weight[b], acc[r * B + b]);
        }
    }
    if (k < K) {
        size_t n = K - k;
        v16 weight[8];
        FORE_UNROLL for (int b = 0; b < B; b++)
            weight[b] = v16_weights_n(kind, w + (size_t)b * row + k * v16_width(kind), n);
        FORE_UNROLL for (int r = 0; r < R; r++) {
            v16 in = packed ? v16_load(x + k * (size_t)R + 16 * r) : v16_load_n(x + (size_t)r * ldx + k, n);
            FORE_UNROLL for (int b = 0; b < B; b++) acc[r * B + b] = v16_fma(in, weight[b], acc[r * B + b]);
        }
    }
    if (!end) {
        FORE_UNROLL for (int i = 0; i < R * B; i++) v16_store(carry + 16 * i, acc[i]);
        return;
    }
    float out[V16_MM_MOST];
    v16_fold_many(acc, R * B, out);
    FORE_UNROLL for (int r = 0; r < R; r++) {
        FORE_UNROLL for (int b = 0; b < B; b++) y[(size_t)r * ldy + (size_t)b] = out[r * B + b];
    }
}

/* R rows straight from x. */
FORE_INLINE void v16_mm_direct(const int kind, const int R, const int B, float *y, size_t ldy, const float *x, size_t ldx,
                               const unsigned char *W, size_t n0, size_t n1, size_t K) {
    size_t row = K * v16_width(kind), n = n0;
    for (; n + (size_t)B <= n1; n += (size_t)B)
        v16_mm_tile(kind, R, B, false, x, ldx, W + n * row, row, K, NULL, true, true, y + n, ldy);
    for (; n < n1; n++) v16_mm_tile(kind, R, 1, false, x, ldx, W + n * row, row, K, NULL, true, true, y + n, ldy);
}

/* One packed block of K, `count` outputs; W is the block's first weight of the first output. */
FORE_INLINE void v16_mm_packed(const int kind, const int R, const int B, float *y, size_t ldy, const float *x,
                               const unsigned char *W, size_t row, size_t count, size_t K, float *carry, bool begin, bool end) {
    size_t n = 0;
    for (; n + (size_t)B <= count; n += (size_t)B)
        v16_mm_tile(kind, R, B, true, x, 0, W + n * row, row, K, carry + n * (size_t)R * 16, begin, end, y + n, ldy);
    for (; n < count; n++)
        v16_mm_tile(kind, R, 1, true, x, 0, W + n * row, row, K, carry + n * (size_t)R * 16, begin, end, y + n, ldy);
}

/* x [R,ldx] columns 0..K-1 to [K/16 rounded up, R, 16] with zeros after K */
FORE_INLINE void v16_mm_pack(float *to, const float *x, size_t ldx, int R, size_t K) {
    for (size_t k = 0; k < K; k += 16)
        for (int r = 0; r < R; r++, to += 16) v16_store(to, v16_load_some(x + (size_t)r * ldx + k, K - k < 16 ? K - k : 16));
}

FORE_INLINE void v16_mm(const int kind, float *y, size_t ldy, const float *x, size_t ldx, const unsigned char *W, int T, int n0,
                        int n1, int depth) {
    size_t K = (size_t)depth, row = K * v16_width(kind);
    switch (T) {
#define V16_CASE(r, b) \
    case r: v16_mm_direct(kind, r, b, y, ldy, x, ldx, W, (size_t)n0, (size_t)n1, K); return;
        V16_MM_DIRECT(V16_CASE)
#undef V16_CASE
    }
    _Alignas(64) float packed[V16_MM_ROWS * V16_MM_DEPTH];
    _Alignas(64) float carry[V16_MM_ROWS * V16_MM_BLOCK * 16];
    int tiles = (T + V16_MM_ROWS - 1) / V16_MM_ROWS;
    for (size_t n = (size_t)n0; n < (size_t)n1; n += V16_MM_BLOCK) {
        size_t count = (size_t)n1 - n < V16_MM_BLOCK ? (size_t)n1 - n : V16_MM_BLOCK;
        for (int i = 0; i < tiles; i++) {
            size_t t = (size_t)T * (size_t)i / (size_t)tiles;
            int R = (int)((size_t)T * (size_t)(i + 1) / (size_t)tiles - t);
            for (size_t k = 0; k < K; k += V16_MM_DEPTH) {
                size_t width = K - k < V16_MM_DEPTH ? K - k : V16_MM_DEPTH;
                v16_mm_pack(packed, x + t * ldx + k, ldx, R, width);
                switch (R) {
#define V16_CASE(r, b)                                                                                                \
    case r:                                                                                                           \
        v16_mm_packed(kind, r, b, y + t * ldy + n, ldy, packed, W + n * row + k * v16_width(kind), row, count, width, \
                      carry, k == 0, k + width == K);                                                                 \
        break;
                    V16_MM_PACKED(V16_CASE)
#undef V16_CASE
                }
            }
        }
    }
}

static void v16_mm_f32(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K) {
    v16_mm(V16_F32, y, ldy, x, ldx, W, T, n0, n1, K);
}

static void v16_mm_bf16(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K) {
    v16_mm(V16_BF16, y, ldy, x, ldx, W, T, n0, n1, K);
}

static void v16_mm_f16(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K) {
    v16_mm(V16_F16, y, ldy, x, ldx, W, T, n0, n1, K);
}

#endif
