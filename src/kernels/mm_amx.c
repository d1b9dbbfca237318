/* Quantised products with AMX, whose tdpbsud multiplies a tile of up to 16 rows by 16 outputs and 64 of K at once. The
 * int32 sums of a group go through memory to the vector registers, where scales and biases make f32 of them as kern.h
 * has it. Tile products run ahead of that, by one group or one batch, for what they store is not there at once. Both share
 * the ports of the processor: the float work takes twice as long while tiles are busy, and is most of the time.
 *
 * Few rows: two panels stream through side by side; 4-bit weights are spread into a ring of buffers.
 * Many rows (more than AMX_FEW): two panels, AMX_DEPTH of K at a time, are spread into the first cache and used for all
 * rows; a batch is 16 rows of a few groups.
 * The fewest rows are left to VNNI, which is as fast there; in small groups it is so with more of them. */
#include "kernels/v16_avx512.h"

#include "kernels/sets.h"
#include "kernels/v16_panel.h"

enum {
    AMX_ROWS = 16,        /* of a tile */
    AMX_FEW = 32,         /* rows of the first way at most */
    AMX_HALF = 8,         /* rows whose f32 sums with two panels fit in registers */
    AMX_TILE = 16 * 16,   /* numbers of a tile of sums */
    AMX_PANELS = 2,       /* side by side */
    AMX_LONGEST = 128,    /* group */
    AMX_RING = 4,         /* groups of spread weights at a time, few rows */
    AMX_AHEAD = 4096,     /* bytes that the few rows' way asks for in advance */
    AMX_DEPTH = 256,      /* K of a block */
    AMX_BATCH = 4,        /* tiles of x of a batch: one or two a group */
    AMX_LAG = 2,          /* tile products until a sum is stored: it is not waited for */
    AMX_CACHED = 1 << 20, /* bytes of x that should stay in the second cache */
    AMX_WAITING = 256,    /* rows at most whose sums wait between blocks of K */
    AMX_FEWEST = 64,      /* rows at least, even if their x is larger */
};

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* Tiles 0 to 3 are sums, 4 and 5 weights, 6 and 7 rows of x. */
enum { AMX_SUMS = 4, AMX_WEIGHT = 4, AMX_INPUT = 6, AMX_TILES = 8 };

/* The compiler does not know that tiles read and write memory. */
#define AMX_LOAD(tile, from, stride)                                                                                   \
    do {                                                                                                               \
        V16_FENCE();                                                                                                   \
        _tile_loadd(tile, from, stride);                                                                               \
        V16_FENCE();                                                                                                   \
    } while (0)
#define AMX_STORE(tile, to, stride)                                                                                    \
    do {                                                                                                               \
        _tile_stored(tile, to, stride);                                                                                \
        V16_FENCE();                                                                                                   \
    } while (0)

/* Tiles for `rows` rows and `depth` (a multiple of 4) of K. amx_close gives them back: what a thread leaves behind is
 * saved and restored with it. */
FORE_INLINE void amx_open(size_t rows, size_t depth) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < AMX_TILES; i++) {
        config.bytes[i] = (uint16_t)(i < AMX_INPUT ? 64 : depth);
        config.rows[i] = (uint8_t)(i >= AMX_WEIGHT && i < AMX_INPUT ? depth / 4 : rows);
    }
    __asm__ volatile("" : : "r"(&config) : "memory"); /* gcc's _tile_loadconfig says that it reads 8 bytes */
    _tile_loadconfig(&config);
}
FORE_INLINE void amx_close(void) { _tile_release(); }

FORE_INLINE void amx_load_input(const int a, const int8_t *q, size_t row) {
    if (a) AMX_LOAD(7, q, row);
    else AMX_LOAD(6, q, row);
}
/* Sum c += input a times the weights at w. */
FORE_INLINE void amx_dot(const int c, const int a, const unsigned char *w) {
    if (c % 2) AMX_LOAD(5, w, 64);
    else AMX_LOAD(4, w, 64);
    switch (2 * c + a) {
    case 0: _tile_dpbsud(0, 6, 4); break;
    case 1: _tile_dpbsud(0, 7, 4); break;
    case 2: _tile_dpbsud(1, 6, 5); break;
    case 3: _tile_dpbsud(1, 7, 5); break;
    case 4: _tile_dpbsud(2, 6, 4); break;
    case 5: _tile_dpbsud(2, 7, 4); break;
    case 6: _tile_dpbsud(3, 6, 5); break;
    case 7: _tile_dpbsud(3, 7, 5); break;
    }
}
FORE_INLINE void amx_clear(const int c) {
    switch (c) {
    case 0: _tile_zero(0); break;
    case 1: _tile_zero(1); break;
    case 2: _tile_zero(2); break;
    case 3: _tile_zero(3); break;
    }
}
FORE_INLINE void amx_store(const int c, int32_t *to) {
    switch (c) {
    case 0: AMX_STORE(0, to, 64); break;
    case 1: AMX_STORE(1, to, 64); break;
    case 2: AMX_STORE(2, to, 64); break;
    case 3: AMX_STORE(3, to, 64); break;
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* acc[r,b] takes one group's dots of R rows with B panels. */
FORE_INLINE void amx_add(const int R, const int B, v16 *acc, const int32_t *dots, const v16 *scale, const v16 *bias,
                         const float *by, const float *add, size_t stride) {
    FORE_UNROLL for (int r = 0; r < R; r++) {
        v16 by_row = v16_set1(by[(size_t)r * stride]), add_row = v16_set1(add[(size_t)r * stride]);
        FORE_UNROLL for (int b = 0; b < B; b++) {
            v16 dot = v16_of_int(_mm512_load_si512(dots + b * AMX_TILE + r * 16));
            acc[r * B + b] = v16_fma(v16_mul(scale[b], by_row), dot, acc[r * B + b]);
            acc[r * B + b] = v16_fma(bias[b], add_row, acc[r * B + b]);
        }
    }
}

/* ---- few rows ---------------------------------------------------------------------------------------------------- */

/* Weights of one group as bytes, B panels, to a slot of the ring. */
FORE_INLINE void amx_spread(const int B, unsigned char *to, const unsigned char *w, size_t panel, size_t group,
                            size_t ahead) {
    for (size_t k = 0; k < group; k += 32, w += 16 * 32 / 2, to += 16 * 32) {
        FORE_UNROLL for (int b = 0; b < B; b++) {
            FORE_UNROLL for (int i = 0; i < 4; i++) {
                const unsigned char *from = w + (size_t)b * panel + 64 * i;
                unsigned char *out = to + b * 16 * AMX_LONGEST + 128 * i;
                FORE_PREFETCH(from, ahead);
                v16b both = v16b_load(from);
                v16b_store(out, v16b_low(both));
                v16b_store(out + 64, v16b_high(both));
            }
        }
    }
}

/* The dots of one group, B panels that begin at w and are `apart` bytes apart. */
FORE_INLINE void amx_group(const int B, int32_t *dots, const int8_t *q, size_t row, const unsigned char *w,
                           size_t apart, size_t group) {
    const bool two = group > 64;
    amx_load_input(0, q, row);
    if (two) amx_load_input(1, q + 64, row);
    FORE_UNROLL for (int b = 0; b < B; b++) {
        amx_clear(b);
        amx_dot(b, 0, w + (size_t)b * apart);
        if (two) amx_dot(b, 1, w + (size_t)b * apart + 16 * 64);
        amx_store(b, dots + b * AMX_TILE);
    }
}

/* B panels from output n on with the T rows, in H parts of R rows (the last two parts may share rows). */
FORE_INLINE void amx_stream(const int form, const int H, const int R, const int B, float *y, size_t ldy,
                            const fore_qrows *x, const fore_qweight *W, size_t T, size_t n, size_t last) {
    _Alignas(64) unsigned char ring[AMX_RING][AMX_PANELS * 16 * AMX_LONGEST];
    _Alignas(64) int32_t dots[2][AMX_PANELS * AMX_TILE];
    _Alignas(64) float sums[2][AMX_HALF * AMX_PANELS * 16];
    const size_t group = (size_t)W->group, groups = (size_t)W->K / group, second = T - (size_t)R;
    const fore_panel_layout l = fore_panel_layout_of(W);
    const size_t panel = fore_panel_span(&l, groups);
    const unsigned char *w = (const unsigned char *)W->panels + n / 16 * panel, *end = w + panel;
    /* Of the groups s, s - 1 and s - 2: the head, the weights behind it, and which of the head's groups it is. */
    const unsigned char *head[3] = {w, w, w}, *from[2] = {w + l.head, w + l.head};
    size_t place[3] = {0, 0, 0};
    v16 acc[AMX_HALF * AMX_PANELS];
    FORE_UNROLL for (int i = 0; i < R * B; i++) acc[i] = v16_zero();
    if (H > 1) memset(sums, 0, sizeof sums);
    for (size_t s = 0; s < groups + 2; s++) {
        if (s < groups) {
            size_t ahead = AMX_AHEAD + ((size_t)(end - from[0]) <= AMX_AHEAD ? (size_t)(B - 1) * panel : 0);
            for (size_t i = 0; !place[0] && i < l.head; i += 64)
                FORE_UNROLL for (int b = 0; b < B; b++) FORE_PREFETCH(head[0], ahead + i + (size_t)b * panel);
            if (form == V16_Q4) {
                amx_spread(B, ring[s % AMX_RING], from[0], panel, group, ahead);
            } else {
                for (size_t i = 0; i < l.block; i += 64)
                    FORE_UNROLL for (int b = 0; b < B; b++) FORE_PREFETCH(from[0], ahead + i + (size_t)b * panel);
            }
        }
        if (s >= 1 && s <= groups) {
            size_t g = s - 1;
            if (form == V16_Q4)
                amx_group(B, dots[g % 2], x->q + g * group, x->row, ring[g % AMX_RING], 16 * AMX_LONGEST, group);
            else
                amx_group(B, dots[g % 2], x->q + g * group, x->row, from[1], panel, group);
        }
        if (s >= 2) {
            size_t g = s - 2;
            v16 scale[AMX_PANELS], bias[AMX_PANELS];
            v16_mmq_affine(form, B, scale, bias, &l, head[2], panel, place[2]);
            FORE_UNROLL for (int h = 0; h < H; h++) {
                size_t t = h ? second : 0, at = t * x->groups + g;
                if (H > 1) FORE_UNROLL for (int i = 0; i < R * B; i++) acc[i] = v16_load(sums[h] + 16 * i);
                amx_add(R, B, acc, dots[g % 2] + t * 16, scale, bias, x->scale + at, x->sum + at, x->groups);
                if (H > 1) FORE_UNROLL for (int i = 0; i < R * B; i++) v16_store(sums[h] + 16 * i, acc[i]);
            }
        }
        head[2] = head[1], head[1] = head[0];
        place[2] = place[1], place[1] = place[0];
        from[1] = from[0], from[0] += l.block;
        if (++place[0] >> l.shift) {
            place[0] = 0;
            head[0] = from[0];
            from[0] += l.head;
        }
    }
    if (H == 1) FORE_UNROLL for (int i = 0; i < R * B; i++) v16_store(sums[0] + 16 * i, acc[i]);
    FORE_UNROLL for (int h = 0; h < H; h++)
        v16_mmq_finish(B, y + (h ? second : 0) * ldy + n, ldy, last, sums[h], (size_t)R);
}

/* The T rows, `rows` at a time (the last ones may be computed twice), with two panels while these are in a cache. */
FORE_INLINE void amx_few(const int form, const int H, const int R, float *y, size_t ldy, const fore_qrows *x,
                         const fore_qweight *W, size_t T, size_t rows, size_t n0, size_t n1) {
    for (size_t n = n0, last; n < n1; n += 32) {
        last = n1 - n;
        for (size_t t = 0; t < T; t += rows) {
            size_t from = t < T - rows ? t : T - rows;
            fore_qrows part = v16_mmq_from(x, from, 0, (size_t)W->group);
            float *to = y + from * ldy;
            if (last > 16) amx_stream(form, H, R, 2, to, ldy, &part, W, rows, n, last < 32 ? last - 16 : 16);
            else amx_stream(form, H, R, 1, to, ldy, &part, W, rows, n, last);
        }
    }
}

/* ---- many rows --------------------------------------------------------------------------------------------------- */

/* 16 rows of a batch's groups, and where their f32 sums are. */
typedef struct amx_batch {
    fore_qrows x;
    const unsigned char *w;
    int32_t *dots; /* [group, panel] tiles */
    float *sums;   /* [half, row, panel, output] */
} amx_batch;

/* Step m of the tile products of a batch of G groups: tile m, in the order of groups and panels within a group; the
 * sums of tile m - AMX_LAG go to memory meanwhile, and there are AMX_LAG steps more than tiles for the last ones. A group
 * has `parts` tiles of depth K. */
FORE_INLINE void amx_multiply(const int parts, const int G, const int B, const amx_batch *d, const int m, size_t panel,
                              size_t depth) {
    const int i = m / B, b = m % B;
    size_t wide = V16_MMQ_SPREAD_HEAD + 16 * depth * (size_t)parts;
    const unsigned char *w = d->w + (size_t)b * panel + (size_t)i * wide + V16_MMQ_SPREAD_HEAD;
    if (m < G * B) {
        if (b == 0) {
            FORE_UNROLL for (int p = 0; p < parts; p++)
                amx_load_input((i + p) % 2, d->x.q + (size_t)(i * parts + p) * depth, d->x.row);
        }
        amx_clear(m % AMX_SUMS);
        FORE_UNROLL for (int p = 0; p < parts; p++) amx_dot(m % AMX_SUMS, (i + p) % 2, w + (size_t)p * 16 * depth);
    }
    if (m >= AMX_LAG && m < G * B + AMX_LAG) amx_store((m - AMX_LAG) % AMX_SUMS, d->dots + (m - AMX_LAG) * AMX_TILE);
}

/* The f32 sums of one batch of G groups, and meanwhile the dots of the next. */
FORE_INLINE void amx_work(const int parts, const int G, const int B, const amx_batch *d, const amx_batch *next,
                          size_t panel, size_t depth) {
    size_t wide = V16_MMQ_SPREAD_HEAD + 16 * depth * (size_t)parts;
    FORE_UNROLL for (int h = 0; h < 2; h++) {
        v16 acc[AMX_HALF * AMX_PANELS];
        float *sums = d->sums + h * AMX_HALF * B * 16;
        size_t at = (size_t)(h * AMX_HALF) * d->x.groups;
        FORE_UNROLL for (int i = 0; i < AMX_HALF * B; i++) acc[i] = v16_load(sums + 16 * i);
        FORE_UNROLL for (int i = 0; i < G; i++) {
            amx_multiply(parts, G, B, next, h * G + i, panel, depth);
            v16 scale[AMX_PANELS], bias[AMX_PANELS];
            v16_mmq_affine(V16_SPREAD8, B, scale, bias, &v16_mmq_spread_layout, d->w + (size_t)i * wide, panel, 0);
            amx_add(AMX_HALF, B, acc, d->dots + i * B * AMX_TILE + h * AMX_HALF * 16, scale, bias, d->x.scale + at + i,
                    d->x.sum + at + i, d->x.groups);
        }
        FORE_UNROLL for (int i = 0; i < AMX_HALF * B; i++) v16_store(sums + 16 * i, acc[i]);
    }
    FORE_UNROLL for (int m = 2 * G; m < G * B + AMX_LAG; m++) amx_multiply(parts, G, B, next, m, panel, depth);
}

/* All rows with `batches` batches of G groups of a spread block. x begins at the block's first group. Asks for what comes
 * next while it computes: `lines` lines of each of the B panels that begin at `next`, `stride` bytes apart, and the rows
 * of y when it is given. */
FORE_INLINE void amx_batches(const int parts, const int G, const int B, float *sums, const fore_qrows *x, size_t T,
                             const unsigned char *w, size_t panel, size_t group, size_t batches,
                             const unsigned char *next, size_t stride, size_t lines, const float *y, size_t ldy) {
    _Alignas(64) int32_t dots[2][AMX_BATCH * AMX_PANELS * AMX_TILE];
    size_t wide = V16_MMQ_SPREAD_HEAD + 16 * group, depth = group / (size_t)parts;
    size_t tiles = (T + AMX_ROWS - 1) / AMX_ROWS, jobs = tiles * batches;
    amx_batch d = {.x = *x, .w = w, .dots = dots[0], .sums = sums}, then = d;
    FORE_UNROLL for (int m = 0; m < G * B + AMX_LAG; m++) amx_multiply(parts, G, B, &d, m, panel, depth);
    for (size_t job = 0, tile = 0, batch = 0; job < jobs; job++) {
        for (size_t line = lines * job / jobs; line < lines * (job + 1) / jobs; line++)
            FORE_UNROLL for (int b = 0; b < B; b++) FORE_PREFETCH_FAR(next, (size_t)b * stride + 64 * line);
        for (size_t r = T * job / jobs; y && r < T * (job + 1) / jobs; r++)
            FORE_UNROLL for (int b = 0; b < B; b++) __builtin_prefetch(y + r * ldy + 16 * b, 1);
        if (job + 1 < jobs) { /* or this batch's dots again, for nobody */
            if (++batch == batches) batch = 0, tile++;
            size_t t = tile * AMX_ROWS < T - AMX_ROWS ? tile * AMX_ROWS : T - AMX_ROWS;
            then.x = v16_mmq_from(x, t, batch * (size_t)G * group, group);
            then.w = w + batch * (size_t)G * wide;
            then.sums = sums + tile * AMX_ROWS * (size_t)B * 16;
        }
        then.dots = dots[(job + 1) % 2];
        amx_work(parts, G, B, &d, &then, panel, depth);
        d = then;
    }
}

/* B panels from output n on, with T > AMX_ROWS rows; `more` panels of the matrix follow them. */
FORE_INLINE void amx_panels(const int form, const int parts, const int B, float *y, size_t ldy, const fore_qrows *x,
                            const fore_qweight *W, size_t T, size_t n, size_t last, size_t more) {
    _Alignas(64) unsigned char buffer[AMX_PANELS * (AMX_DEPTH * 16 + AMX_DEPTH / V16_MMQ_LEAST_GROUP * V16_MMQ_SPREAD_HEAD)];
    _Alignas(64) float sums[AMX_WAITING * AMX_PANELS * 16];
    const int G = AMX_BATCH / parts;
    size_t group = (size_t)W->group, K = (size_t)W->K, tiles = (T + AMX_ROWS - 1) / AMX_ROWS;
    const fore_panel_layout l = fore_panel_layout_of(W);
    size_t wide = V16_MMQ_SPREAD_HEAD + 16 * group, stride = fore_panel_span(&l, K / group), packed;
    memset(sums, 0, tiles * AMX_ROWS * (size_t)B * 16 * sizeof *sums);
    const unsigned char *w = (const unsigned char *)W->panels + n / 16 * stride;
    for (size_t k = 0, groups; k < K; k += AMX_DEPTH, w += packed) {
        groups = (K - k < AMX_DEPTH ? K - k : AMX_DEPTH) / group;
        packed = fore_panel_span(&l, groups);
        size_t panel = groups * wide, batches = groups / (size_t)G, rest = groups - batches * (size_t)G;
        for (size_t b = 0; b < (size_t)B; b++)
            v16_mmq_spread(form, buffer + b * panel, w + b * stride, groups, group, &l);
        bool end = k + AMX_DEPTH >= K;
        size_t left = end ? K : K - k - AMX_DEPTH, ahead = left < AMX_DEPTH ? left : AMX_DEPTH;
        size_t lines = end && more < (size_t)B ? 0 : fore_panel_span(&l, ahead / group) / 64;
        const unsigned char *next = w + packed + (end ? (size_t)(B - 1) * stride : 0);
        fore_qrows from = v16_mmq_from(x, 0, k, group);
        if (batches)
            amx_batches(parts, G, B, sums, &from, T, buffer, panel, group, batches, next, stride, lines,
                        end ? y + n : NULL, ldy);
        if (!rest) continue;
        size_t done = batches * (size_t)G;
        from = v16_mmq_from(&from, 0, done * group, group);
        amx_batches(parts, 1, B, sums, &from, T, buffer + done * wide, panel, group, rest, next, stride,
                    batches ? 0 : lines, NULL, ldy);
    }
    for (size_t i = 0; i < tiles; i++) {
        size_t t = i * AMX_ROWS < T - AMX_ROWS ? i * AMX_ROWS : T - AMX_ROWS;
        v16_mmq_finish(B, y + t * ldy + n, ldy, last, sums + i * AMX_ROWS * (size_t)B * 16, AMX_ROWS);
    }
}

FORE_INLINE void amx_many(const int form, const int parts, float *y, size_t ldy, const fore_qrows *x,
                          const fore_qweight *W, size_t T, size_t n0, size_t n1) {
    for (size_t n = n0; n < n1; n += 32) {
        size_t left = n1 - n, more = left > 32 ? (left - 32 + 15) / 16 : 0;
        if (left > 16) amx_panels(form, parts, 2, y, ldy, x, W, T, n, left < 32 ? left - 16 : 16, more);
        else amx_panels(form, parts, 1, y, ldy, x, W, T, n, left, 0);
    }
}

/* ---- any rows ---------------------------------------------------------------------------------------------------- */

FORE_INLINE void amx_mm(const int form, float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, size_t T,
                        size_t n0, size_t n1) {
    size_t tiles = (T + AMX_ROWS - 1) / AMX_ROWS, rows = T > AMX_FEW ? AMX_ROWS : (T + tiles - 1) / tiles;
    amx_open(rows, W->group < 64 ? (size_t)W->group : 64);
    if (T > AMX_FEW) {
        size_t most = AMX_CACHED / (size_t)W->K / AMX_ROWS * AMX_ROWS;
        most = most > AMX_WAITING ? AMX_WAITING : most < AMX_FEWEST ? AMX_FEWEST : most;
        size_t passes = (T + most - 1) / most;
        for (size_t i = 0; i < passes; i++) {
            size_t t = T * i / passes, part = T * (i + 1) / passes - t;
            fore_qrows from = v16_mmq_from(x, t, 0, (size_t)W->group);
            if (W->group > 64) amx_many(form, 2, y + t * ldy, ldy, &from, W, part, n0, n1);
            else amx_many(form, 1, y + t * ldy, ldy, &from, W, part, n0, n1);
        }
    } else {
        switch (rows > AMX_HALF ? AMX_HALF + (rows + 1) / 2 : rows) {
#define AMX_CASE(R)                                                                                                    \
    case R: amx_few(form, 1, R, y, ldy, x, W, T, rows, n0, n1); break;                                                 \
    case AMX_HALF + R: amx_few(form, 2, R, y, ldy, x, W, T, rows, n0, n1); break;
            AMX_CASE(5)
            AMX_CASE(6)
            AMX_CASE(7)
            AMX_CASE(8)
#undef AMX_CASE
        }
    }
    amx_close();
}

/* Whether so few rows are better off with VNNI. */
static bool is_few(const fore_qweight *W, int T) { return T < (W->group >= 64 ? 5 : W->group == 32 ? 9 : 32); }

void fore_mm_q4_amx(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1) {
    if (is_few(W, T)) fore_mm_q4_avx512vnni(y, ldy, x, W, T, n0, n1);
    else amx_mm(V16_Q4, y, ldy, x, W, (size_t)T, (size_t)n0, (size_t)n1);
}

void fore_mm_q8_amx(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1) {
    if (is_few(W, T)) fore_mm_q8_avx512vnni(y, ldy, x, W, T, n0, n1);
    else amx_mm(V16_Q8, y, ldy, x, W, (size_t)T, (size_t)n0, (size_t)n1);
}
