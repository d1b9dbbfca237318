/* Quantised products: lanes are the 16 outputs of a panel (quant.h has its layout); see v16.h and mm_q4 in kern.h. The
 * integer products within a group are exact in any order; the rest follows the contract step by step.
 *
 * Few rows: the panels stream through once, some side by side, each used for all rows while it is in the first cache.
 * Many rows: V16_MMQ_PANELS panels, V16_MMQ_DEPTH of K at a time, are spread into a buffer in the first cache (scales
 * and biases to f32, weights to bytes) and used by all tiles of rows. A tile has its integer sums in registers; its f32
 * sums wait in a buffer between groups and blocks of K, as there are not registers enough for both. Rows are taken so
 * many at a time that their x stays in the second cache.
 *
 * Set by the including file: V16_MMQ_FEW(X) lists X(R, B) for R = 1 .. V16_MMQ_STREAM_ROWS, the rows and panels of a
 * tile of the first way, which is taken for up to V16_MMQ_DIRECT rows; V16_MMQ_TILED(X) lists X(R) for the rows that a
 * tile of the second way can have when more than V16_MMQ_DIRECT rows are shared out evenly to tiles of at most
 * V16_MMQ_ROWS. V16_MMQ_DOT: v16i_add_dot(sum, w, x) adds the four products of each lane in one go, and v16i_pin keeps
 * a sum in its register. */
#ifndef FORE_KERNELS_V16_MATMUL_QUANT_H
#define FORE_KERNELS_V16_MATMUL_QUANT_H

#include "kernels/v16_panel.h"

enum {
    V16_MMQ_DEPTH = 512,        /* K of a block */
    V16_MMQ_AHEAD = 2048,       /* bytes that the few rows' way asks for in advance */
    V16_MMQ_MOST = 24,          /* sums of a tile */
    V16_MMQ_CACHED = 384 << 10, /* bytes of x that should stay in the second cache */
    V16_MMQ_WAITING = 128,      /* rows at most whose sums wait between blocks of K */
    V16_MMQ_LEAST = 32,         /* rows at least, even if their x is larger */
};

#ifndef V16_MMQ_SIGNED
#define v16b_signed(weight) (weight)
#define v16i_start(q, n) v16i_zero()
#endif

/* sum[r,b] += the products of a step, R rows with B panels that lie `panel` bytes apart. */
#ifdef V16_MMQ_DOT
FORE_INLINE void v16_mmq_products(const int form, const int R, const int B, v16i *sum, const unsigned char *w,
                                  size_t panel, const int8_t *x, size_t row) {
    if (form == V16_Q4) {
        FORE_UNROLL for (int k = 0; k < V16_MMQ_STEP; k += 8) {
            v16b low[V16_MMQ_MOST], high[V16_MMQ_MOST];
            FORE_UNROLL for (int b = 0; b < B; b++) {
                v16b both = v16b_load(w + (size_t)b * panel + 8 * k);
                low[b] = v16b_low(both), high[b] = v16b_high(both);
            }
            FORE_UNROLL for (int r = 0; r < R; r++) {
                v16b first = v16b_same4(x + (size_t)r * row + k), second = v16b_same4(x + (size_t)r * row + k + 4);
                FORE_UNROLL for (int b = 0; b < B; b++) {
                    sum[r * B + b] = v16i_add_dot(sum[r * B + b], low[b], first);
                    sum[r * B + b] = v16i_add_dot(sum[r * B + b], high[b], second);
                }
            }
            FORE_UNROLL for (int i = 0; i < R * B; i++) v16i_pin(sum + i);
        }
    } else {
        FORE_UNROLL for (int k = 0; k < (int)v16_mmq_deep(form); k += 4) {
            v16b weight[V16_MMQ_MOST];
            FORE_UNROLL for (int b = 0; b < B; b++) {
                weight[b] = v16b_load(w + (size_t)b * panel + 16 * k);
                if (v16_mmq_is_wide(form)) weight[b] = v16b_signed(weight[b]);
            }
            FORE_UNROLL for (int r = 0; r < R; r++) {
                v16b in = v16b_same4(x + (size_t)r * row + k);
                FORE_UNROLL for (int b = 0; b < B; b++) sum[r * B + b] = v16i_add_dot(sum[r * B + b], weight[b], in);
            }
            FORE_UNROLL for (int i = 0; i < R * B; i++)
                v16i_pin(sum + i); /* or gcc copies them around, and to memory */
        }
    }
}
#else
/* In 16 bits, which eight products of 4-bit weights do not overflow; weights of 8 bits are taken in two halves. */
FORE_INLINE void v16_mmq_products(const int form, const int R, const int B, v16i *sum, const unsigned char *w,
                                  size_t panel, const int8_t *x, size_t row) {
    const bool halves = v16_mmq_is_wide(form);
    v16h low[V16_MMQ_MOST], high[V16_MMQ_MOST];
    FORE_UNROLL for (int i = 0; i < R * B; i++) low[i] = high[i] = v16h_zero();
    FORE_UNROLL for (int k = 0; k < (int)v16_mmq_deep(form); k += form == V16_Q4 ? 8 : 4) {
        FORE_UNROLL for (int b = 0; b < B; b++) {
            v16b both = v16b_load(w + (size_t)b * panel + (form == V16_Q4 ? 8 : 16) * k);
            v16b one = form == V16_SPREAD4 ? both : v16b_low(both), two = v16b_high(both);
            FORE_UNROLL for (int r = 0; r < R; r++) {
                const int i = r * B + b;
                v16b in = v16b_same4(x + (size_t)r * row + k);
                low[i] = v16h_add_products(low[i], one, in);
                if (form == V16_Q4)
                    low[i] = v16h_add_products(low[i], two, v16b_same4(x + (size_t)r * row + k + 4));
                else if (halves)
                    high[i] = v16h_add_products(high[i], two, in);
            }
        }
    }
    FORE_UNROLL for (int i = 0; i < R * B; i++) {
        sum[i] = v16i_add_sums(sum[i], low[i], 1);
        if (halves) sum[i] = v16i_add_sums(sum[i], high[i], 16);
    }
}
#endif

/* A tile of R rows and B panels over `groups` groups, which begin with a head; q, scale and sum begin at the first of its
 * rows. The f32 sums acc[r][b][lane] are changed in place. `ahead`: asks for the panels' bytes in advance, after the last
 * of these B panels (from `end` on) for those of the next B. */
FORE_INLINE void v16_mmq_tile(const int form, const int R, const int B, float *acc, const fore_qrows *x,
                              const unsigned char *w, size_t panel, size_t groups, size_t group,
                              const fore_panel_layout *l, bool ahead) {
    const int8_t *q = x->q;
    const float *by = x->scale, *add = x->sum;
    const size_t row = x->row, stride = x->groups;
    const unsigned char *end = w + panel, *head = w;
    for (size_t g = 0; g < groups; g++) {
        v16i sum[V16_MMQ_MOST];
        FORE_UNROLL for (int r = 0; r < R; r++) {
            v16i start = v16_mmq_is_wide(form) ? v16i_start(q + (size_t)r * row, group) : v16i_zero();
            FORE_UNROLL for (int b = 0; b < B; b++) sum[r * B + b] = start;
        }
        const size_t later = V16_MMQ_AHEAD + ((size_t)(end - w) <= V16_MMQ_AHEAD ? (size_t)(B - 1) * panel : 0);
        const size_t place = v16_mmq_is_spread(form) ? 0 : fore_panel_place(l, g);
        if (!place) {
            head = w;
            w += v16_mmq_is_spread(form) ? V16_MMQ_SPREAD_HEAD : l->head;
            for (size_t line = 0; ahead && line < l->head; line += 64)
                FORE_UNROLL for (int b = 0; b < B; b++) FORE_PREFETCH(head, later + (size_t)b * panel + line);
        }
        for (size_t k = 0; k < group; k += v16_mmq_deep(form), w += v16_mmq_step(form), q += v16_mmq_deep(form)) {
            if (ahead) {
                FORE_UNROLL for (int line = 0; line < (int)(v16_mmq_step(form) / 64); line++)
                    FORE_UNROLL for (int b = 0; b < B; b++)
                        FORE_PREFETCH(w, later + (size_t)b * panel + 64 * (size_t)line);
            }
            v16_mmq_products(form, R, B, sum, w, panel, q, row);
        }
        V16_FENCE(); /* or the compiler keeps acc in registers that it does not have */
        v16 scale[V16_MMQ_MOST], bias[V16_MMQ_MOST];
        v16_mmq_affine(form, B, scale, bias, l, head, panel, place);
        FORE_UNROLL for (int r = 0; r < R; r++) {
            v16 by_row = v16_set1(by[(size_t)r * stride + g]), add_row = v16_set1(add[(size_t)r * stride + g]);
            FORE_UNROLL for (int b = 0; b < B; b++) {
                float *to = acc + 16 * (r * B + b);
                v16 f = v16_fma(v16_mul(scale[b], by_row), v16_of_int(sum[r * B + b]), v16_load(to));
                v16_store(to, v16_fma(bias[b], add_row, f));
            }
        }
    }
}

/* The first way for B panels: tiles of R rows; where R does not divide T, the last one computes some rows twice.
 * Several panels at a time, as one stream alone does not take all that the memory gives. */
FORE_INLINE void v16_mmq_stream(const int form, const int R, const int B, float *y, size_t ldy, const fore_qrows *x,
                                const fore_qweight *W, size_t T, size_t n, size_t last) {
    _Alignas(64) float acc[16 * R * B];
    const fore_panel_layout l = fore_panel_layout_of(W);
    size_t group = (size_t)W->group, groups = (size_t)W->K / group, from, panel = fore_panel_span(&l, groups);
    const unsigned char *w = (const unsigned char *)W->panels + n / 16 * panel;
    for (size_t t = 0; t < T; t += (size_t)R) {
        from = t < T - (size_t)R ? t : T - (size_t)R;
        fore_qrows rows = v16_mmq_from(x, from, 0, group);
        FORE_UNROLL for (int i = 0; i < R * B; i++) v16_store(acc + 16 * i, v16_zero());
        v16_mmq_tile(form, R, B, acc, &rows, w, panel, groups, group, &l, t == 0);
        v16_mmq_finish(B, y + from * ldy + n, ldy, last, acc, (size_t)R);
    }
}

FORE_INLINE void v16_mmq_direct(const int form, const int R, const int B, float *y, size_t ldy, const fore_qrows *x,
                                const fore_qweight *W, size_t T, size_t n, size_t n1) {
    for (; n1 - n > 16 * (size_t)(B - 1); n += 16 * (size_t)B) {
        size_t last = n1 - n - 16 * (size_t)(B - 1);
        v16_mmq_stream(form, R, B, y, ldy, x, W, T, n, last < 16 ? last : 16);
        if (last <= 16) return;
    }
    for (; n < n1; n += 16) v16_mmq_stream(form, R, 1, y, ldy, x, W, T, n, n1 - n < 16 ? n1 - n : 16);
}

/* All rows with B spread panels; `sums` holds V16_MMQ_ROWS * B * 16 floats a tile, which go to y when y is given. Asks
 * for what comes next while it computes: the rows of y, and a share of the `bytes` from each of the B panels that begin
 * at `next`, `stride` bytes apart. */
FORE_INLINE void v16_mmq_tiles(const int form, const int B, float *sums, float *y, size_t ldy, size_t last,
                               const fore_qrows *x, const unsigned char *w, size_t panel, size_t T, size_t k,
                               size_t groups, size_t group, const unsigned char *next, size_t stride, size_t bytes) {
    size_t tiles = (T + V16_MMQ_ROWS - 1) / V16_MMQ_ROWS, lines = bytes / 64;
    for (size_t i = 0; i < tiles; i++, sums += V16_MMQ_ROWS * B * 16) {
        size_t t = T * i / tiles, R = T * (i + 1) / tiles - t;
        for (size_t r = 0; y && r < R; r++)
            FORE_UNROLL for (int b = 0; b < B; b++) __builtin_prefetch(y + (t + r) * ldy + 16 * b, 1);
        for (size_t line = lines * i / tiles; line < lines * (i + 1) / tiles; line++)
            FORE_UNROLL for (int b = 0; b < B; b++) __builtin_prefetch(next + (size_t)b * stride + 64 * line, 0, 2);
        fore_qrows rows = v16_mmq_from(x, t, k, group);
        switch (R) {
#define V16_CASE(r)                                                                                                    \
    case r: v16_mmq_tile(form, r, B, sums, &rows, w, panel, groups, group, &v16_mmq_spread_layout, false); break;
            V16_MMQ_TILED(V16_CASE)
#undef V16_CASE
        }
        if (y) v16_mmq_finish(B, y + t * ldy, ldy, last, sums, R);
    }
}

/* The second way for B panels from output n on; `more` panels of the matrix follow them. */
FORE_INLINE void v16_mmq_panels(const int form, const int B, float *y, size_t ldy, const fore_qrows *x,
                                const fore_qweight *W, size_t T, size_t n, size_t last, size_t more) {
    const int spread = v16_mmq_spread_form(form);
    _Alignas(64) unsigned char buffer[V16_MMQ_PANELS * (V16_MMQ_DEPTH * 16 + V16_MMQ_DEPTH / V16_MMQ_LEAST_GROUP * V16_MMQ_SPREAD_HEAD)];
    _Alignas(64) float sums[(V16_MMQ_WAITING + V16_MMQ_ROWS) * V16_MMQ_PANELS * 16];
    const fore_panel_layout l = fore_panel_layout_of(W);
    size_t group = (size_t)W->group, K = (size_t)W->K, tiles = (T + V16_MMQ_ROWS - 1) / V16_MMQ_ROWS;
    size_t wide = V16_MMQ_SPREAD_HEAD + 16 * group, stride = fore_panel_span(&l, K / group), packed;
    memset(sums, 0, tiles * V16_MMQ_ROWS * (size_t)B * 16 * sizeof *sums);
    const unsigned char *w = (const unsigned char *)W->panels + n / 16 * stride;
    for (size_t k = 0, groups; k < K; k += V16_MMQ_DEPTH, w += packed) {
        groups = (K - k < V16_MMQ_DEPTH ? K - k : V16_MMQ_DEPTH) / group;
        packed = fore_panel_span(&l, groups);
        for (size_t b = 0; b < (size_t)B; b++)
            v16_mmq_spread(form, buffer + b * groups * wide, w + b * stride, groups, group, &l);
        bool end = k + V16_MMQ_DEPTH >= K;
        size_t left = end ? K : K - k - V16_MMQ_DEPTH, ahead = left < V16_MMQ_DEPTH ? left : V16_MMQ_DEPTH;
        const unsigned char *next = end ? w + packed + (size_t)(B - 1) * stride : w + packed;
        v16_mmq_tiles(spread, B, sums, end ? y + n : NULL, ldy, last, x, buffer, groups * wide, T, k, groups, group,
                      next, stride, end && more < (size_t)B ? 0 : fore_panel_span(&l, ahead / group));
    }
}

/* The second way. */
FORE_INLINE void v16_mmq_many(const int form, float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W,
                              size_t T, size_t n0, size_t n1) {
    for (size_t n = n0; n < n1;) {
        size_t panels = (n1 - n + 15) / 16, B = panels < V16_MMQ_PANELS ? 1 : V16_MMQ_PANELS;
        size_t last = panels == B ? n1 - n - 16 * (B - 1) : 16;
        if (B == 1)
            v16_mmq_panels(form, 1, y, ldy, x, W, T, n, last, panels - B);
        else
            v16_mmq_panels(form, V16_MMQ_PANELS, y, ldy, x, W, T, n, last, panels - B);
        n += 16 * B;
    }
}

FORE_INLINE void v16_mmq(const int form, float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int rows,
                         int n0, int n1) {
    if (rows < 1) return;
    size_t T = (size_t)rows;
    if (T > V16_MMQ_DIRECT) {
        size_t most = V16_MMQ_CACHED / (size_t)W->K;
        most = most > V16_MMQ_WAITING ? V16_MMQ_WAITING : most < V16_MMQ_LEAST ? V16_MMQ_LEAST : most;
        size_t passes = (T + most - 1) / most;
        for (size_t i = 0; i < passes; i++) {
            size_t t = T * i / passes;
            fore_qrows part = v16_mmq_from(x, t, 0, (size_t)W->group);
            v16_mmq_many(form, y + t * ldy, ldy, &part, W, T * (i + 1) / passes - t, (size_t)n0, (size_t)n1);
        }
        return;
    }
    size_t tiles = (T + V16_MMQ_STREAM_ROWS - 1) / V16_MMQ_STREAM_ROWS;
    switch ((T + tiles - 1) / tiles) {
#define V16_CASE(r, b)                                                                                                 \
    case r: v16_mmq_direct(form, r, b, y, ldy, x, W, T, (size_t)n0, (size_t)n1); break;
        V16_MMQ_FEW(V16_CASE)
#undef V16_CASE
    }
}

static void v16_mm_q4(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1) {
    v16_mmq(V16_Q4, y, ldy, x, W, T, n0, n1);
}

static void v16_mm_q8(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1) {
    if (W->group < V16_MMQ_STEP) v16_mmq(V16_NARROW8, y, ldy, x, W, T, n0, n1);
    else v16_mmq(V16_Q8, y, ldy, x, W, T, n0, n1);
}

#endif
