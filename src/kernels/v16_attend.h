/* Softmax attention in tiles; see v16.h. A query row is a (token, head) pair. Blocks of up to fore_attend_rows rows go
 * through three steps: scores of all keys (lanes are keys, each key panel is loaded once for a tile of rows) and their
 * largest, exp and its sum row by row, values (lanes are channels, blocks of keys that fit the second cache). Each score and each output
 * stays one chain of fma in the contract's order; a chain that is interrupted is stored and loaded again.
 *
 * Tile sizes, set by kern_ISA.c: V16_SCORE_ROWS x V16_SCORE_PANELS, V16_VALUE_ROWS x V16_VALUE_CHUNKS accumulators. */
#ifndef FORE_KERNELS_V16_ATTEND_H
#define FORE_KERNELS_V16_ATTEND_H

#include <math.h>
#include <string.h>

#include "kernels/kern.h"
#include "kernels/scratch.h"

enum {
    V16_ATTEND_CHANNELS = 256, /* of the queries that are packed at once */
    V16_ATTEND_KEYS = 128,     /* whose values are read at once */
};

typedef struct v16_rows {
    const float *q[FORE_ATTEND_ROWS];
    float *o[FORE_ATTEND_ROWS];
    int keys[FORE_ATTEND_ROWS]; /* not decreasing */
    float sum[FORE_ATTEND_ROWS]; /* of the weights */
    _Alignas(64) float most[FORE_ATTEND_ROWS][16]; /* largest score in each lane of the panels that every row sees whole */
    float *p;                  /* [rows, stride] scores, then weights */
    size_t stride;
    int count;
} v16_rows;

/* Row i of `count` rows begins tile i of the fewest tiles of at most `most` rows, all about as high. */
FORE_INLINE int v16_tile_start(int count, int most, int i) {
    return count * i / ((count + most - 1) / most);
}

/* Scores of R rows with P panels over D channels; q is packed [D,R]. begin: no channels came before; end: none
 * follow. most: [R,16] the largest scores so far, or NULL. */
FORE_INLINE void v16_score_tile(const int R, const int P, float *s, size_t stride, const float *q, const float *k,
                                size_t panel, size_t D, bool begin, bool end, float scale,
                                float *most) {
    v16 acc[V16_SCORE_ROWS][V16_SCORE_PANELS], factor = v16_set1(scale);
    FORE_UNROLL for (int r = 0; r < R; r++) {
        FORE_UNROLL for (int p = 0; p < P; p++)
            acc[r][p] = begin ? v16_zero() : v16_load(s + (size_t)r * stride + 16 * p);
    }
    for (size_t d = 0; d < D; d++, q += R, k += 16) {
        v16 key[V16_SCORE_PANELS];
        FORE_UNROLL for (int p = 0; p < P; p++) {
            key[p] = v16_load(k + (size_t)p * panel);
            FORE_PREFETCH(k + (size_t)p * panel, 2048);
        }
        FORE_UNROLL for (int r = 0; r < R; r++) {
            v16 x = v16_set1(q[r]);
            FORE_UNROLL for (int p = 0; p < P; p++) acc[r][p] = v16_fma(x, key[p], acc[r][p]);
        }
    }
    FORE_UNROLL for (int r = 0; r < R; r++) {
        FORE_UNROLL for (int p = 0; p < P; p++)
            v16_store(s + (size_t)r * stride + 16 * p, acc[r][p] = end ? v16_mul(acc[r][p], factor) : acc[r][p]);
    }
    if (most) {
        FORE_UNROLL for (int r = 0; r < R; r++) {
            v16 m = v16_load(most + 16 * r);
            FORE_UNROLL for (int p = 0; p < P; p++) m = v16_max(acc[r][p], m);
            v16_store(most + 16 * r, m);
        }
    }
}

FORE_INLINE void v16_scores_of(const int P, int R, float *s, size_t stride, const float *q, const float *k,
                               size_t panel, size_t D, bool begin, bool end, float scale, float *most) {
    switch (R) {
#define V16_CASE(n) \
    case n: v16_score_tile(n, P, s, stride, q, k, panel, D, begin, end, scale, most); break;
        V16_SCORE_CASES(V16_CASE)
#undef V16_CASE
    }
}

static void v16_scores_wide(int R, float *s, size_t stride, const float *q, const float *k, size_t panel, size_t D,
                            bool begin, bool end, float scale, float *most) {
    v16_scores_of(V16_SCORE_PANELS, R, s, stride, q, k, panel, D, begin, end, scale, most);
}

static void v16_scores_one(int R, float *s, size_t stride, const float *q, const float *k, size_t panel, size_t D,
                           bool begin, bool end, float scale, float *most) {
    v16_scores_of(1, R, s, stride, q, k, panel, D, begin, end, scale, most);
}

static void v16_scores(v16_rows *rows, const float *k, size_t D, float scale) {
    float packed[FORE_ATTEND_ROWS * V16_ATTEND_CHANNELS];
    size_t panels = ((size_t)rows->keys[rows->count - 1] + 15) / 16, panel = D * 16, whole = (size_t)rows->keys[0] / 16;
    for (int r = 0; r < rows->count; r++) v16_store(rows->most[r], v16_set1(-INFINITY));
    for (size_t d0 = 0; d0 < D; d0 += V16_ATTEND_CHANNELS) {
        size_t width = D - d0 < V16_ATTEND_CHANNELS ? D - d0 : V16_ATTEND_CHANNELS;
        bool begin = d0 == 0, end = d0 + width == D;
        for (int i = 0, r; (r = v16_tile_start(rows->count, V16_SCORE_ROWS, i)) < rows->count; i++) {
            int R = v16_tile_start(rows->count, V16_SCORE_ROWS, i + 1) - r;
            float *to = packed + (size_t)r * width;
            for (size_t d = 0; d < width; d++)
                for (int j = 0; j < R; j++) *to++ = rows->q[r + j][d0 + d];
        }
        for (size_t p = 0; p < panels;) {
            bool wide = p + V16_SCORE_PANELS <= panels;
            if (p < whole && p + V16_SCORE_PANELS > whole) wide = false; /* a tile is seen by all rows or not */
            bool seen = end && p < whole;
            for (int i = 0, r; (r = v16_tile_start(rows->count, V16_SCORE_ROWS, i)) < rows->count; i++) {
                int R = v16_tile_start(rows->count, V16_SCORE_ROWS, i + 1) - r;
                (wide ? v16_scores_wide : v16_scores_one)(R, rows->p + (size_t)r * rows->stride + p * 16, rows->stride,
                                                          packed + (size_t)r * width, k + p * panel + d0 * 16, panel,
                                                          width, begin, end, scale, seen ? rows->most[r] : NULL);
            }
            p += wide ? V16_SCORE_PANELS : 1;
        }
    }
}

/* Scores to weights in place; returns their sum. lanes: the largest score in each lane of the first `done` keys. */
FORE_INLINE float v16_weights(float *p, size_t keys, const float *lanes, size_t done) {
    v16 sum = v16_zero(), largest = v16_load(lanes);
    size_t j = done;
    for (; j + 16 <= keys; j += 16) largest = v16_max(v16_load(p + j), largest);
    float m = v16_fold_max(largest);
    for (; j < keys; j++) m = p[j] > m ? p[j] : m;
    v16 most = v16_set1(m);
    for (j = 0; j + 16 <= keys; j += 16) {
        v16 e = v16_exp_down(v16_sub(v16_load(p + j), most));
        v16_store(p + j, e);
        sum = v16_add(sum, e);
    }
    if (j < keys) {
        v16 e = v16_keep_n(v16_exp_down(v16_sub(v16_load_n(p + j, keys - j), most)), keys - j);
        v16_store(p + j, e); /* rows of scores are whole groups */
        sum = v16_add(sum, e);
    }
    return v16_fold(sum);
}

/* o += weights * values of `keys` keys, R rows, C vectors of which the last has n lanes. */
FORE_INLINE void v16_value_tile(const int R, const int C, const size_t n, float *const *o, size_t d, const float *p,
                                size_t stride, const float *v, size_t v_row, size_t keys) {
    v16 acc[V16_VALUE_ROWS][V16_VALUE_CHUNKS];
    FORE_UNROLL for (int r = 0; r < R; r++) {
        FORE_UNROLL for (int c = 0; c < C; c++) acc[r][c] = v16_load_some(o[r] + d + 16 * c, c + 1 < C ? 16 : n);
    }
    for (size_t j = 0; j < keys; j++, v += v_row, p++) {
        v16 value[V16_VALUE_CHUNKS];
        FORE_UNROLL for (int c = 0; c < C; c++) {
            value[c] = v16_load_some(v + 16 * c, c + 1 < C ? 16 : n);
            FORE_PREFETCH(v + 16 * c, 16 * sizeof(float) * v_row); /* the hardware does not see these strides */
        }
        FORE_UNROLL for (int r = 0; r < R; r++) {
            v16 w = v16_set1(p[(size_t)r * stride]);
            FORE_UNROLL for (int c = 0; c < C; c++) acc[r][c] = v16_fma(w, value[c], acc[r][c]);
        }
    }
    FORE_UNROLL for (int r = 0; r < R; r++) {
        FORE_UNROLL for (int c = 0; c < C; c++) v16_store_some(o[r] + d + 16 * c, acc[r][c], c + 1 < C ? 16 : n);
    }
}

FORE_INLINE void v16_values_of(const int R, float *const *o, size_t D, const float *p, size_t stride, const float *v,
                               size_t v_row, size_t keys) {
    size_t vectors = (D + 15) / 16, tail = D - (vectors - 1) * 16;
    for (size_t i = 0, C; i < vectors; i += C) {
        size_t left = vectors - i, d = 16 * i;
        C = left >= 2 * V16_VALUE_CHUNKS ? V16_VALUE_CHUNKS : left > V16_VALUE_CHUNKS ? (left + 1) / 2 : left;
        bool whole = C < left || tail == 16;
        switch (C) {
#define V16_CASE(c)                                                             \
    case c:                                                                     \
        if (whole) v16_value_tile(R, c, 16, o, d, p, stride, v + d, v_row, keys); \
        else v16_value_tile(R, c, tail, o, d, p, stride, v + d, v_row, keys);   \
        break;
            V16_VALUE_CASES(V16_CASE)
#undef V16_CASE
        }
    }
}

static void v16_values_rows(int R, float *const *o, size_t D, const float *p, size_t stride, const float *v,
                            size_t v_row, size_t keys) {
    switch (R) {
#define V16_CASE(r) \
    case r: v16_values_of(r, o, D, p, stride, v, v_row, keys); break;
        V16_VALUE_ROW_CASES(V16_CASE)
#undef V16_CASE
    }
}

static void v16_values(const v16_rows *rows, const fore_attend *a) {
    size_t D = (size_t)a->D, all = (size_t)rows->keys[rows->count - 1];
    for (size_t j0 = 0; j0 < all; j0 += V16_ATTEND_KEYS) {
        size_t j1 = all - j0 < V16_ATTEND_KEYS ? all : j0 + V16_ATTEND_KEYS;
        for (int i = 0, r; (r = v16_tile_start(rows->count, V16_VALUE_ROWS, i)) < rows->count; i++) {
            int R = v16_tile_start(rows->count, V16_VALUE_ROWS, i + 1) - r;
            size_t common = (size_t)rows->keys[r] < j1 ? (size_t)rows->keys[r] : j1;
            if (j0 < common)
                v16_values_rows(R, rows->o + r, D, rows->p + (size_t)r * rows->stride + j0, rows->stride,
                                a->v + j0 * a->v_row, a->v_row, common - j0);
            size_t from = common > j0 ? common : j0; /* what only the later rows see, row by row */
            for (int s = r + 1; s < r + R; s++) {
                size_t to = (size_t)rows->keys[s] < j1 ? (size_t)rows->keys[s] : j1;
                if (from < to)
                    v16_values_rows(1, rows->o + s, D, rows->p + (size_t)s * rows->stride + from, rows->stride,
                                    a->v + from * a->v_row, a->v_row, to - from);
            }
        }
    }
}

static void v16_attend(const fore_attend *a) {
    int last = a->causal ? a->first + a->T : a->keys;
    size_t D = (size_t)a->D, total = (size_t)a->T * (size_t)a->G, most = (size_t)fore_attend_rows(last);
    v16_rows rows = {.p = a->scratch, .stride = fore_attend_stride(last)};
    for (size_t begin = 0; begin < total; begin += most) {
        rows.count = (int)(total - begin < most ? total - begin : most);
        for (int r = 0; r < rows.count; r++) {
            size_t t = (begin + (size_t)r) / (size_t)a->G, g = (begin + (size_t)r) % (size_t)a->G;
            rows.q[r] = a->q + t * a->q_row + g * a->q_head;
            rows.o[r] = a->o + t * a->o_row + g * a->o_head;
            rows.keys[r] = a->causal ? a->first + (int)t + 1 : a->keys;
            memset(rows.o[r], 0, D * sizeof(float));
        }
        v16_scores(&rows, a->k, D, a->scale);
        for (int r = 0; r < rows.count; r++)
            rows.sum[r] = v16_weights(rows.p + (size_t)r * rows.stride, (size_t)rows.keys[r], rows.most[r], (size_t)rows.keys[0] / 16 * 16);
        v16_values(&rows, a);
        for (int r = 0; r < rows.count; r++) {
            v16 factor = v16_set1(1.0f / rows.sum[r]);
            for (size_t d = 0; d < D; d += 16) {
                size_t n = D - d < 16 ? D - d : 16;
                v16_store_some(rows.o[r] + d, v16_mul(v16_load_some(rows.o[r] + d, n), factor), n);
            }
        }
    }
}

#endif
