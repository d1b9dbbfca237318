/* The vision tower's forward pass; see tower.h. */
#include "model/tower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/rope.h"

enum { ATTEND_ROWS = 64, MLP_ROWS = 512, ROWS = 16 };

typedef struct tower_pass {
    const fore_engine *engine;
    const fore_network *network;
    const fore_tower_block *block;
    const fore_merger *merger;
    int h, w, frame; /* patches down, across, and of one frame */
    size_t P;        /* patches in all */
    size_t C, D, H;  /* hidden, head dim, heads */
    float *x;        /* [P,C] the residual */
    float *n;        /* [P,C] normed rows, then attention's output */
    float *qkv;      /* [P,3C] */
    float *mid;      /* [MLP_ROWS,F] */
    float *mix;      /* [MLP_ROWS,C] */
    float *panels;   /* [H, ceil(frame/16), D, 16] keys of one frame */
    float *cos, *sin; /* [frame, D/2] */
    float *worker;
    size_t worker_floats;
    int frame_start; /* first patch of the frame at hand */
} tower_pass;

/* Patch i of a frame in merge order: block rows, block columns, then the merge x merge patches inside. */
static void patch_place(const tower_pass *p, int i, int *row, int *column) {
    int m = p->network->config.vision.spatial_merge_size, per_block = m * m, blocks_across = p->w / m;
    int block = i / per_block, inside = i % per_block;
    *row = block / blocks_across * m + inside / m;
    *column = block % blocks_across * m + inside % m;
}

/* Where a coordinate of n patches falls on a table side of s, both ends aligned: first tap, second tap, weight of the second. */
static void table_place(int i, int n, int s, int *a, int *b, float *f) {
    float at = n > 1 ? (float)i * (float)(s - 1) / (float)(n - 1) : 0; /* a single row or column sits at 0 */
    *a = (int)at;
    *b = *a + 1 < s ? *a + 1 : s - 1;
    *f = at - (float)*a;
}

/* Adds the learned position, bilinear between four rows of the table, and prepares rotary angles. */
static void positions_task(void *context, int first, int rows, int worker) {
    const tower_pass *p = context;
    const fore_tower *t = &p->network->tower;
    size_t C = p->C, frames = p->P / (size_t)p->frame;
    float *taps = p->worker + (size_t)worker * p->worker_floats; /* [4,C] */
    for (int i = first; i < first + rows; i++) {
        int row, column, r[2], c[2];
        float fr, fc;
        patch_place(p, i, &row, &column);
        table_place(row, p->h, t->side, &r[0], &r[1], &fr);
        table_place(column, p->w, t->side, &c[0], &c[1], &fc);
        const float weight[4] = {(1 - fr) * (1 - fc), (1 - fr) * fc, fr * (1 - fc), fr * fc};
        for (int k = 0; k < 4; k++) fore_weight_row(p->engine->kern, &t->pos_embed, r[k >> 1] * t->side + c[k & 1], taps + (size_t)k * C);
        for (size_t d = 0; d < C; d++) {
            float e = ((taps[d] * weight[0] + taps[C + d] * weight[1]) + taps[2 * C + d] * weight[2]) + taps[3 * C + d] * weight[3];
            for (size_t f = 0; f < frames; f++) p->x[(f * (size_t)p->frame + (size_t)i) * C + d] += e;
        }
        size_t half = p->D / 2;
        fore_rope_patch(p->network->vision_inv_freq, (int)(half / 2), row, column, p->cos + (size_t)i * half, p->sin + (size_t)i * half);
    }
}

static void norm1_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const tower_pass *p = context;
    size_t at = (size_t)first * p->C;
    p->engine->kern->layer_norm(p->n + at, p->C, p->x + at, p->C, p->block->norm1_w, p->block->norm1_b, rows, (int)p->C, 1e-6f);
}

static void norm2_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const tower_pass *p = context;
    size_t at = (size_t)first * p->C;
    p->engine->kern->layer_norm(p->n + at, p->C, p->x + at, p->C, p->block->norm2_w, p->block->norm2_b, rows, (int)p->C, 1e-6f);
}

static void merger_norm_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const tower_pass *p = context;
    const fore_merger *m = p->merger;
    size_t C = m->wide ? (size_t)m->fc1.K : p->C, at = (size_t)first * C;
    p->engine->kern->layer_norm(p->n + at, C, p->x + at, C, m->norm_w, m->norm_b, rows, (int)C, 1e-6f);
}

/* Rotates queries and keys of the frame's rows. */
static void rope_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const tower_pass *p = context;
    size_t row = 3 * p->C, half = p->D / 2, at = (size_t)(p->frame_start + first) * row;
    const float *cos = p->cos + (size_t)first * half, *sin = p->sin + (size_t)first * half;
    p->engine->kern->rope(p->qkv + at, row, p->D, rows, (int)p->H, (int)half, cos, sin);
    p->engine->kern->rope(p->qkv + at + p->C, row, p->D, rows, (int)p->H, (int)half, cos, sin);
}

static size_t panel_floats(const tower_pass *p) {
    return ((size_t)p->frame + FORE_LANES - 1) / FORE_LANES * p->D * FORE_LANES;
}

static void panels_task(void *context, int head, int worker) {
    (void)worker;
    const tower_pass *p = context;
    float *panel = p->panels + (size_t)head * panel_floats(p);
    for (int i = 0; i < p->frame; i++) {
        const float *k = p->qkv + (size_t)(p->frame_start + i) * 3 * p->C + p->C + (size_t)head * p->D;
        float *to = panel + (size_t)(i / FORE_LANES) * p->D * FORE_LANES + (size_t)(i % FORE_LANES);
        for (size_t d = 0; d < p->D; d++) to[d * FORE_LANES] = k[d];
    }
}

static void attend_task(void *context, int index, int worker) {
    const tower_pass *p = context;
    int head = index % (int)p->H, first = index / (int)p->H * ATTEND_ROWS;
    int rows = p->frame - first < ATTEND_ROWS ? p->frame - first : ATTEND_ROWS;
    size_t at = (size_t)p->frame_start * 3 * p->C + (size_t)head * p->D;
    fore_attend a = {
        .q = p->qkv + at + (size_t)first * 3 * p->C,
        .o = p->n + (size_t)(p->frame_start + first) * p->C + (size_t)head * p->D,
        .k = p->panels + (size_t)head * panel_floats(p),
        .v = p->qkv + at + 2 * p->C,
        .q_row = 3 * p->C,
        .q_head = p->D,
        .o_row = p->C,
        .o_head = p->D,
        .v_row = 3 * p->C,
        .T = rows,
        .G = 1,
        .D = (int)p->D,
        .keys = p->frame,
        .causal = false,
        .scale = 1.0f / sqrtf((float)p->D),
        .scratch = p->worker + (size_t)worker * p->worker_floats,
    };
    p->engine->kern->attend(&a);
}

/* Attention within each frame; the output lands in p->n. */
static void tower_attention(tower_pass *p) {
    int blocks = (p->frame + ATTEND_ROWS - 1) / ATTEND_ROWS;
    for (int start = 0; (size_t)start < p->P; start += p->frame) {
        p->frame_start = start;
        fore_rows(p->engine, rope_task, p, p->frame, ROWS);
        fore_pool_run(p->engine->pool, panels_task, p, (int)p->H);
        fore_pool_run(p->engine->pool, attend_task, p, (int)p->H * blocks);
    }
}

typedef struct gelu_job {
    void (*gelu)(float *y, size_t n);
    float *y;
    size_t cols;
} gelu_job;

static void gelu_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const gelu_job *j = context;
    j->gelu(j->y + (size_t)first * j->cols, (size_t)rows * j->cols);
}

/* x += W2 act(W1 n + b1) + b2 or x += W2 n + b2 (fc1 NULL), in blocks of rows that bound the memory. */
static void branch(tower_pass *p, const fore_weight *fc1, const float *b1, const fore_weight *fc2, const float *b2) {
    for (size_t at = 0; at < p->P; at += MLP_ROWS) {
        int rows = p->P - at < MLP_ROWS ? (int)(p->P - at) : MLP_ROWS;
        const float *in = p->n + at * p->C;
        size_t cols = p->C;
        if (fc1) {
            const fore_product up = {fc1, b1, p->mid, (size_t)fc1->N};
            fore_linear(p->engine, in, p->C, rows, &up, 1);
            gelu_job g = {p->engine->kern->gelu_tanh, p->mid, (size_t)fc1->N}; /* tanh here, erf in the merger */
            fore_rows(p->engine, gelu_task, &g, rows, ROWS);
            in = p->mid;
            cols = (size_t)fc1->N;
        }
        const fore_product down = {fc2, b2, p->mix, p->C};
        fore_linear(p->engine, in, cols, rows, &down, 1);
        fore_add_rows(p->engine, p->x + at * p->C, p->mix, rows, (int)p->C);
    }
}

/* LayerNorm per patch, or of the patches of a row side by side; then merge^2 neighbouring rows side by side through two layers.
 * rows: of the whole row's columns, of which this part comes first. */
static void merge(tower_pass *p, const fore_merger *m, float *rows) {
    size_t merged = (size_t)m->fc1.K, per_row = merged / p->C, n = p->P / per_row, columns = fore_picture_columns(&p->network->config);
    p->merger = m;
    fore_rows(p->engine, merger_norm_task, p, (int)(m->wide ? n : p->P), ROWS);
    size_t step = MLP_ROWS / per_row > 0 ? MLP_ROWS / per_row : 1; /* step rows of `merged` fit where mix has MLP_ROWS of C */
    for (size_t at = 0; at < n; at += step) {
        int count = n - at < step ? (int)(n - at) : (int)step;
        const fore_product up = {&m->fc1, m->fc1_b, p->mix, merged};
        fore_linear(p->engine, p->n + at * merged, merged, count, &up, 1);
        gelu_job g = {p->engine->kern->gelu_erf, p->mix, merged};
        fore_rows(p->engine, gelu_task, &g, count, 4);
        const fore_product down = {&m->fc2, m->fc2_b, rows + at * columns, columns};
        fore_linear(p->engine, p->mix, merged, count, &down, 1);
    }
}

static size_t mix_rows(const fore_vision_config *v) {
    size_t per_row = (size_t)v->spatial_merge_size * (size_t)v->spatial_merge_size;
    return per_row > MLP_ROWS ? per_row : MLP_ROWS;
}

static size_t worker_floats(const fore_vision_config *v, size_t frame) {
    size_t n = fore_attend_scratch((int)frame, 1), taps = 4 * (size_t)v->hidden_size;
    return ((n > taps ? n : taps) + 15) / 16 * 16;
}

static size_t tower_floats(const fore_vision_config *v, int threads, size_t P, size_t frame) {
    size_t C = (size_t)v->hidden_size, D = C / (size_t)v->num_heads;
    return P * 5 * C + mix_rows(v) * ((size_t)v->intermediate_size + C) + (frame + FORE_LANES) * C + frame * D +
           (size_t)threads * worker_floats(v, frame);
}

/* Numbers of the widest product's input, rows times columns. */
static size_t widest_call(const fore_vision_config *v, size_t P) {
    size_t C = (size_t)v->hidden_size, mlp = mix_rows(v) * (size_t)v->intermediate_size, merged = mix_rows(v) * C;
    size_t n = P * C > mlp ? P * C : mlp;
    return ((n > merged ? n : merged) + 31) / 32 * 32;
}

fore_status fore_tower_forward(const fore_engine *caller, const fore_network *network, const float *patches, const int grid[3],
                               float *rows, fore_progress progress, void *user, fore_tap tap, void *tap_user, fore_error *err) {
    const fore_vision_config *v = &network->config.vision;
    const fore_tower *t = &network->tower;
    int frame = grid[1] * grid[2], threads = fore_pool_threads(caller->pool);
    fore_quantised quantised = {0};
    const fore_engine own = {caller->kern, caller->pool, &quantised}, *engine = &own;
    tower_pass p = {.engine = engine, .network = network, .h = grid[1], .w = grid[2], .frame = frame};
    p.P = (size_t)grid[0] * (size_t)frame;
    p.C = (size_t)v->hidden_size;
    p.H = (size_t)v->num_heads;
    p.D = p.C / p.H;
    p.worker_floats = worker_floats(v, (size_t)frame);
    size_t bytes = tower_floats(v, threads, p.P, (size_t)frame) * sizeof(float) + 16 * (size_t)FORE_ARENA_ALIGN;
    void *memory = malloc(bytes);
    if (!memory)
        return fore_fail(err, FORE_ERR_NOMEM, "out of memory: the vision tower needs %zu MiB for a picture of %zu patches", bytes >> 20, p.P);
    if (t->quantised) {
        fore_status failed = fore_quantised_new(widest_call(v, p.P), &quantised, err);
        if (failed) {
            free(memory);
            return failed;
        }
    }
    char *at = memory;
    p.x = fore_carve(&at, p.P * p.C);
    p.n = fore_carve(&at, p.P * p.C);
    p.qkv = fore_carve(&at, p.P * 3 * p.C);
    p.mid = fore_carve(&at, mix_rows(v) * (size_t)v->intermediate_size);
    p.mix = fore_carve(&at, mix_rows(v) * p.C);
    p.panels = fore_carve(&at, p.H * panel_floats(&p));
    p.cos = fore_carve(&at, (size_t)frame * p.D / 2);
    p.sin = fore_carve(&at, (size_t)frame * p.D / 2);
    p.worker = fore_carve(&at, (size_t)threads * p.worker_floats);
    memset(p.panels, 0, p.H * panel_floats(&p) * sizeof(float)); /* lanes past the last key must hold finite values */

    const fore_product embed = {&t->patch_embed, t->patch_b, p.x, p.C};
    fore_linear(engine, patches, (size_t)t->patch_embed.K, (int)p.P, &embed, 1);
    if (tap) tap(tap_user, "vision.patch_embed", 0, p.x, p.P, p.C);
    fore_rows(engine, positions_task, &p, frame, ROWS);
    fore_status s = FORE_OK;
    for (int i = 0, parts = 0; i < v->depth && !s; i++) {
        p.block = &t->blocks[i];
        fore_rows(engine, norm1_task, &p, (int)p.P, ROWS);
        const fore_product qkv = {&p.block->qkv, p.block->qkv_b, p.qkv, 3 * p.C};
        fore_linear(engine, p.n, p.C, (int)p.P, &qkv, 1);
        tower_attention(&p);
        branch(&p, NULL, NULL, &p.block->proj, p.block->proj_b);
        fore_rows(engine, norm2_task, &p, (int)p.P, ROWS);
        branch(&p, &p.block->fc1, p.block->fc1_b, &p.block->fc2, p.block->fc2_b);
        if (tap) tap(tap_user, "vision.block", i, p.x, p.P, p.C);
        if (parts < v->deepstack_count && v->deepstack_visual_indexes[parts] == i) {
            merge(&p, &t->deepstack[parts], rows + (size_t)(parts + 1) * (size_t)v->out_hidden_size);
            parts++;
        }
        if (progress && progress(user, "vision", (uint64_t)i + 1, (uint64_t)v->depth))
            s = fore_fail(err, FORE_ERR_CANCELLED, "cancelled while looking at a picture");
    }
    if (!s) {
        merge(&p, &t->merger, rows);
        size_t merged_rows = p.P / ((size_t)v->spatial_merge_size * (size_t)v->spatial_merge_size);
        if (tap) tap(tap_user, "vision.output", 0, rows, merged_rows, fore_picture_columns(&network->config));
    }
    free(memory);
    fore_quantised_free(&quantised);
    return s;
}
