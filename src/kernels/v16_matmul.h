/* Products of R rows and B outputs at a time, one accumulator of 16 lanes each; see v16.h.
 *
 * Few rows: the weights stream through once, B outputs side by side, widened in registers and used for all rows.
 * Many rows: strips of B outputs and V16_MM_DEPTH of K are widened once into a buffer of the first cache and used by all
 * tiles of rows, whose inputs come from the second cache. Between blocks of K the accumulators wait in memory, whole, so
 * that the order of summation does not change. All buffers are on the stack, below 100 KB.
 *
 * Set by kern_ISA.c: V16_MM_DIRECT(X) lists X(R, B) for R = 1 .. V16_MM_STREAM_ROWS, the rows of a tile
 * of the first way, which is taken for up to V16_MM_FEW rows; V16_MM_TILED(X) lists X(R) up to V16_MM_ROWS,
 * the rows of a tile, which has V16_MM_WIDE outputs, or one. */
#ifndef FORE_KERNELS_V16_MATMUL_H
#define FORE_KERNELS_V16_MATMUL_H

#include <string.h>

#include "kernels/kern.h"

enum { V16_F32, V16_BF16, V16_F16 };
enum {
    V16_MM_DEPTH = 1024, /* K of a block */
    V16_MM_WAIT = 192,   /* rows whose accumulators wait at once, when K is larger than a block */
    V16_MM_CACHED = 256 << 10, /* floats of x that should stay in the second cache */
    V16_MM_MOST = 24,    /* accumulators of a tile */
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

/* y[r,b] = fold of the sums */
FORE_INLINE void v16_mm_finish(const int R, const int B, const v16 *acc, float *y, size_t ldy) {
    float out[V16_MM_MOST];
    v16_fold_many(acc, R * B, out);
    FORE_UNROLL for (int r = 0; r < R; r++) memcpy(y + (size_t)r * ldy, out + r * B, (size_t)B * sizeof *y);
}

/* R rows with B outputs, straight from the weights, whose rows are `row` bytes apart. */
FORE_INLINE void v16_mm_stream(const int kind, const int R, const int B, float *y, size_t ldy, const float *x,
                               size_t ldx, const unsigned char *w, size_t row, size_t K) {
    v16 acc[V16_MM_MOST], weight[8];
    FORE_UNROLL for (int i = 0; i < R * B; i++) acc[i] = v16_zero();
    size_t k = 0;
    for (; k + 16 <= K; k += 16) {
        v16 first = v16_load(x + k);
        FORE_UNROLL for (int b = 0; b < B; b++) {
            const unsigned char *p = w + (size_t)b * row + k * v16_width(kind);
            FORE_PREFETCH(p, (size_t)B * row); /* the next B outputs */
            weight[b] = v16_weights16(kind, p);
            acc[b] = v16_fma(first, weight[b], acc[b]);
        }
        FORE_UNROLL for (int r = 1; r < R; r++) {
            v16 in = v16_load(x + (size_t)r * ldx + k);
            v16_pin(&in); /* one load, not one for every use */
            FORE_UNROLL for (int b = 0; b < B; b++) acc[r * B + b] = v16_fma(in, weight[b], acc[r * B + b]);
        }
    }
    if (k < K) {
        FORE_UNROLL for (int b = 0; b < B; b++)
            weight[b] = v16_weights_n(kind, w + (size_t)b * row + k * v16_width(kind), K - k);
        FORE_UNROLL for (int r = 0; r < R; r++) {
            v16 in = v16_load_n(x + (size_t)r * ldx + k, K - k);
            FORE_UNROLL for (int b = 0; b < B; b++) acc[r * B + b] = v16_fma(in, weight[b], acc[r * B + b]);
        }
    }
    v16_mm_finish(R, B, acc, y, ldy);
}

/* T rows in tiles of R, one or more; where R does not divide T, the last tile computes some rows a second time. */
FORE_INLINE void v16_mm_direct(const int kind, const int R, const int B, float *y, size_t ldy, const float *x,
                               size_t ldx, const unsigned char *W, size_t T, size_t n0, size_t n1, size_t K) {
    size_t row = K * v16_width(kind), n = n0, last = T - (size_t)R;
    for (; n + (size_t)B <= n1; n += (size_t)B)
        for (size_t t = 0; t < T; t += (size_t)R) {
            size_t from = t < last ? t : last;
            v16_mm_stream(kind, R, B, y + from * ldy + n, ldy, x + from * ldx, ldx, W + n * row, row, K);
        }
    for (; n < n1; n++)
        for (size_t t = 0; t < T; t += (size_t)R) {
            size_t from = t < last ? t : last;
            v16_mm_stream(kind, R, 1, y + from * ldy + n, ldy, x + from * ldx, ldx, W + n * row, row, K);
        }
}

/* K weights of B outputs to [K/16 rounded up, B, 16], with zeros after K. */
FORE_INLINE void v16_mm_widen(const int kind, const int B, float *to, const unsigned char *w, size_t row, size_t K) {
    for (int b = 0; b < B; b++, w += row) {
        float *p = to + 16 * b;
        size_t k = 0;
        for (; k + 16 <= K; k += 16, p += 16 * B) v16_store(p, v16_weights16(kind, w + k * v16_width(kind)));
        if (k < K) v16_store(p, v16_weights_n(kind, w + k * v16_width(kind), K - k));
    }
}

/* 16 of K. */
FORE_INLINE void v16_mm_step(const int R, const int B, v16 *acc, const float *x, size_t ldx, const float *w) {
    v16 weight[V16_MM_WIDE];
    FORE_UNROLL for (int b = 0; b < B; b++) weight[b] = v16_load(w + 16 * b);
    FORE_UNROLL for (int r = 0; r < R; r++) {
        v16 in = v16_load(x + (size_t)r * ldx);
        v16_pin(&in);
        FORE_UNROLL for (int b = 0; b < B; b++) acc[r * B + b] = v16_fma(in, weight[b], acc[r * B + b]);
    }
#ifdef __clang__ /* mixes this step with the next one otherwise, and then spills sums */
    FORE_UNROLL for (int i = 0; i < R * B; i++) v16_pin(&acc[i]);
#endif
}

/* R rows with B widened outputs. The sums begin from 0 or from `wait`, and end in `wait` or, folded, in y. */
FORE_INLINE void v16_mm_tile(const int R, const int B, float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                             size_t K, float *wait, bool begin, bool end) {
    v16 acc[V16_MM_MOST];
    FORE_UNROLL for (int i = 0; i < R * B; i++) acc[i] = begin ? v16_zero() : v16_load(wait + 16 * i);
    size_t k = 0;
    for (; k + 32 <= K; k += 32, w += 32 * B) {
        v16_mm_step(R, B, acc, x + k, ldx, w);
        v16_mm_step(R, B, acc, x + k + 16, ldx, w + 16 * B);
    }
    if (k + 16 <= K) {
        v16_mm_step(R, B, acc, x + k, ldx, w);
        k += 16, w += 16 * B;
    }
    if (k < K) {
        FORE_UNROLL for (int r = 0; r < R; r++) {
            v16 in = v16_load_n(x + (size_t)r * ldx + k, K - k);
            FORE_UNROLL for (int b = 0; b < B; b++) acc[r * B + b] = v16_fma(in, v16_load(w + 16 * b), acc[r * B + b]);
        }
    }
    if (end) {
        v16_mm_finish(R, B, acc, y, ldy);
    } else {
        FORE_UNROLL for (int i = 0; i < R * B; i++) v16_store(wait + 16 * i, acc[i]);
    }
}

/* The weights that are widened next: rows of `bytes` bytes, `row` apart. */
typedef struct v16_ahead {
    const unsigned char *w;
    size_t row, bytes;
} v16_ahead;

/* T rows with B widened outputs, in the fewest tiles, all about as high; each asks for its share of what comes next. */
FORE_INLINE void v16_mm_tiles(const int B, float *y, size_t ldy, const float *x, size_t ldx, const float *w, size_t T,
                              size_t K, float *wait, bool begin, bool end, v16_ahead ahead) {
    size_t tiles = (T + V16_MM_ROWS - 1) / V16_MM_ROWS, asked = 0;
    for (size_t i = 0; i < tiles; i++) {
        size_t t = T * i / tiles, R = T * (i + 1) / tiles - t;
        for (size_t ask = ahead.bytes * (i + 1) / tiles; asked < ask; asked += 64)
            FORE_UNROLL for (int b = 0; b < B; b++) FORE_PREFETCH_FAR(ahead.w, (size_t)b * ahead.row + asked);
        float *to = y + t * ldy, *sums = begin && end ? wait : wait + t * (size_t)B * 16;
        const float *from = x + t * ldx;
        switch (R) {
#define V16_CASE(r) \
    case r: v16_mm_tile(r, B, to, ldy, from, ldx, w, K, sums, begin, end); break;
            V16_MM_TILED(V16_CASE)
#undef V16_CASE
        }
    }
}

static void v16_mm_tiles_wide(float *y, size_t ldy, const float *x, size_t ldx, const float *w, size_t T, size_t K,
                              float *wait, bool begin, bool end, v16_ahead ahead) {
    v16_mm_tiles(V16_MM_WIDE, y, ldy, x, ldx, w, T, K, wait, begin, end, ahead);
}

static void v16_mm_tiles_one(float *y, size_t ldy, const float *x, size_t ldx, const float *w, size_t T, size_t K,
                             float *wait, bool begin, bool end, v16_ahead ahead) {
    v16_mm_tiles(1, y, ldy, x, ldx, w, T, K, wait, begin, end, ahead);
}

/* T rows with B outputs; y and W begin at the first one. T is at most V16_MM_WAIT when K is more than a block. */
FORE_INLINE void v16_mm_strip(const int kind, const int B, float *y, size_t ldy, const float *x, size_t ldx,
                              const unsigned char *W, size_t T, size_t K) {
    _Alignas(64) float widened[V16_MM_WIDE * V16_MM_DEPTH];
    _Alignas(64) float wait[V16_MM_WAIT * V16_MM_WIDE * 16];
    size_t blocks = (K + V16_MM_DEPTH - 1) / V16_MM_DEPTH, depth = ((K + blocks - 1) / blocks + 15) / 16 * 16;
    size_t row = K * v16_width(kind);
    for (size_t k = 0; k < K; k += depth) {
        size_t width = K - k < depth ? K - k : depth;
        const unsigned char *w = W + k * v16_width(kind);
        bool end = k + width == K;
        v16_ahead ahead = {end ? W + (size_t)B * row : w + width * v16_width(kind), row, depth * v16_width(kind)};
        v16_mm_widen(kind, B, widened, w, row, width);
        (B > 1 ? v16_mm_tiles_wide : v16_mm_tiles_one)(y, ldy, x + k, ldx, widened, T, width, wait, k == 0, end, ahead);
    }
}

/* Rows that go through all outputs before the next ones: their x should stay in the second cache. */
FORE_INLINE size_t v16_mm_group(size_t T, size_t K) {
    size_t most = V16_MM_CACHED / K / V16_MM_ROWS * V16_MM_ROWS;
    most = most < V16_MM_WAIT / 4 ? V16_MM_WAIT / 4 : K > V16_MM_DEPTH && most > V16_MM_WAIT ? V16_MM_WAIT : most;
    return (T + (T + most - 1) / most - 1) / ((T + most - 1) / most);
}

FORE_INLINE void v16_mm(const int kind, float *y, size_t ldy, const float *x, size_t ldx, const unsigned char *W,
                        int rows, int n0, int n1, int depth) {
    if (rows < 1) return;
    size_t T = (size_t)rows, K = (size_t)depth, row = K * v16_width(kind), end = (size_t)n1;
    if (T <= V16_MM_FEW) {
        size_t tiles = (T + V16_MM_STREAM_ROWS - 1) / V16_MM_STREAM_ROWS;
        switch ((T + tiles - 1) / tiles) {
#define V16_CASE(r, b) \
    case r: v16_mm_direct(kind, r, b, y, ldy, x, ldx, W, T, (size_t)n0, end, K); return;
            V16_MM_DIRECT(V16_CASE)
#undef V16_CASE
        }
    }
    size_t group = v16_mm_group(T, K);
    for (size_t t = 0; t < T; t += group) {
        size_t n = (size_t)n0, count = T - t < group ? T - t : group;
        for (; n + V16_MM_WIDE <= end; n += V16_MM_WIDE)
            v16_mm_strip(kind, V16_MM_WIDE, y + t * ldy + n, ldy, x + t * ldx, ldx, W + n * row, count, K);
        for (; n < end; n++) v16_mm_strip(kind, 1, y + t * ldy + n, ldy, x + t * ldx, ldx, W + n * row, count, K);
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
