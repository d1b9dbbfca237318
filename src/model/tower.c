/* The vision tower's forward pass; see tower.h. */
#include "model/tower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/profile.h"
#include "model/rope.h"
#include "model/tower_windows.h"

/* Rows that a task takes through a whole block: what it keeps of them, WORK floats, stays in the second cache, and the
 * weights, which every task reads, are shared by as many rows as that allows. */
enum { WORK = 384 << 10, STEP = 6, ATTEND_ROWS = 96, POSITION_ROWS = 16 };

typedef struct tower_pass {
    const fore_engine *engine;
    const fore_network *network;
    const fore_tower_block *block; /* whose second half is at hand: NULL before the first */
    const fore_tower_block *next;  /* whose first half is: NULL after the last */
    const float *patches;
    float *rows;     /* the result */
    const fore_merger *merger; /* at hand, and the part of a row that it makes */
    size_t part;
    fore_windows windows; /* of a tower that has them: rows are in their order. Else all 0 */
    bool within;          /* the attention at hand is within windows */
    int h, w, frame; /* patches down, across, and of one frame */
    int tasks;       /* of row blocks */
    size_t P;        /* patches in all */
    size_t C, D, H;  /* hidden, head dim, heads */
    float *x;        /* [P,C] the residual */
    float *q, *o;    /* [P,C] queries, attention's output */
    float *v;        /* [frames, H, frame, D] */
    float *panels;   /* [frames, H, panels, D, 16] keys: of a frame from the first lane on, or of each window in panels of its own */
    float *cos, *sin; /* [frame, D/2] */
    float *worker;   /* [threads, worker_floats] */
    size_t worker_floats;
    size_t quantised; /* of them, in front: numbers of rows that are quantised for a product */
} tower_pass;

/* The merged patch at place i of a frame, in the order of patches. */
static int merged_at(const tower_pass *p, int i) { return p->windows.order ? p->windows.order[i] : i; }

/* Patch i of a frame in merge order: block rows, block columns, then the merge x merge patches inside; or with the blocks in the
 * order of windows. */
static void patch_place(const tower_pass *p, int i, int *row, int *column) {
    int m = p->network->config.vision.spatial_merge_size, per_block = m * m, blocks_across = p->w / m;
    int block = merged_at(p, i / per_block), inside = i % per_block;
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

static size_t quantised_floats(size_t values) {
    return (values / sizeof(float) + 2 * (values / FORE_LEAST_GROUP) + 47) / 16 * 16;
}

/* The worker's memory behind the room for quantised rows. */
static float *work_of(const tower_pass *p, int worker) {
    return p->worker + (size_t)worker * p->worker_floats + (p->quantised ? quantised_floats(p->quantised) : 0);
}

/* Adds the learned position of patch i of a frame, bilinear between four rows of the table. */
static void add_position(const tower_pass *p, int i, int row, int column, float *taps) {
    const fore_tower *t = &p->network->tower;
    size_t C = p->C, frames = p->P / (size_t)p->frame;
    int r[2], c[2];
    float fr, fc;
    table_place(row, p->h, t->side, &r[0], &r[1], &fr);
    table_place(column, p->w, t->side, &c[0], &c[1], &fc);
    const float weight[4] = {(1 - fr) * (1 - fc), (1 - fr) * fc, fr * (1 - fc), fr * fc};
    for (int k = 0; k < 4; k++) fore_weight_row(p->engine->kern, &t->pos_embed, r[k >> 1] * t->side + c[k & 1], taps + (size_t)k * C);
    for (size_t d = 0; d < C; d++) {
        float e = ((taps[d] * weight[0] + taps[C + d] * weight[1]) + taps[2 * C + d] * weight[2]) + taps[3 * C + d] * weight[3];
        for (size_t f = 0; f < frames; f++) p->x[(f * (size_t)p->frame + (size_t)i) * C + d] += e;
    }
}

/* The row of patch i in every frame, from where embed_task put it: into the order of windows. */
static void put_in_order(const tower_pass *p, int i) {
    int merge = p->network->config.vision.spatial_merge_size, unit = merge * merge;
    size_t C = p->C, frame = (size_t)p->frame, from = (size_t)(merged_at(p, i / unit) * unit + i % unit);
    for (size_t f = 0; f < p->P / frame; f++) memcpy(p->x + (f * frame + (size_t)i) * C, p->q + (f * frame + from) * C, C * sizeof *p->x);
}

/* Learned positions, where there are any, and rotary angles. */
static void positions_task(void *context, int first, int rows, int worker) {
    const tower_pass *p = context;
    for (int i = first; i < first + rows; i++) {
        int row, column;
        patch_place(p, i, &row, &column);
        if (p->windows.order) put_in_order(p, i);
        if (p->network->tower.side) add_position(p, i, row, column, work_of(p, worker)); /* [4,C] */
        size_t half = p->D / 2;
        fore_rope_patch(p->network->vision_inv_freq, (int)(half / 2), row, column, p->cos + (size_t)i * half, p->sin + (size_t)i * half);
    }
}

/* ---- rows through a block ------------------------------------------------------------------------------------------ */

/* Row at which task i begins: all have about as many, in steps that fill the kernels' tiles. */
static int task_start(size_t rows, int tasks, int i) {
    size_t steps = (rows + STEP - 1) / STEP, at = steps * (size_t)i / (size_t)tasks * STEP;
    return (int)(at < rows ? at : rows);
}

/* Tasks of at most `most` rows, as many for every thread. */
static int count_tasks(size_t rows, size_t most, int threads) {
    size_t n = (rows + most - 1) / most, t = (size_t)threads;
    return (int)((n + t - 1) / t * t);
}

/* y = x W^T + b of some rows, ldy apart, by this thread alone. */
static void product_to(const tower_pass *p, int worker, const fore_weight *w, const float *bias, const float *x, int rows, float *y,
                       size_t ldy) {
    const fore_kern *kern = p->engine->kern;
    size_t K = (size_t)w->K, values = p->quantised;
    const fore_product d = {w, bias, y, ldy};
    fore_qrows q = {0};
    if (w->bits) {
        float *room = p->worker + (size_t)worker * p->worker_floats;
        float *scale = room + values / sizeof(float);
        q = (fore_qrows){(int8_t *)room, scale, scale + values / FORE_LEAST_GROUP, K, K / (size_t)w->group};
        fore_quantise_rows(kern, w, &q, x, K, rows);
    }
    fore_product_slice(kern, &d, x, K, &q, rows, 0, w->N);
}

static void product(const tower_pass *p, int worker, const fore_weight *w, const float *bias, const float *x, int rows, float *y) {
    product_to(p, worker, w, bias, x, rows, y, (size_t)w->N);
}

static void embed_task(void *context, int index, int worker) {
    const tower_pass *p = context;
    const fore_tower *t = &p->network->tower;
    int first = task_start(p->P, p->tasks, index), rows = task_start(p->P, p->tasks, index + 1) - first;
    float *to = p->windows.order ? p->q : p->x;
    product(p, worker, &t->patch_embed, t->patch_b, p->patches + (size_t)first * (size_t)t->patch_embed.K, rows, to + (size_t)first * p->C);
}

static size_t panel_floats(const tower_pass *p) {
    size_t all = ((size_t)p->frame + FORE_LANES - 1) / FORE_LANES, windows = (size_t)p->windows.panels;
    return (all > windows ? all : windows) * p->D * FORE_LANES;
}

/* Rows of one frame: rotates queries and keys, then puts queries, keys and values where attention wants them. */
static void spread(const tower_pass *p, float *qkv, int first, int rows) {
    size_t row = 3 * p->C, half = p->D / 2, frame = (size_t)(first / p->frame), i0 = (size_t)(first % p->frame);
    const float *cos = p->cos + i0 * half, *sin = p->sin + i0 * half;
    p->engine->kern->rope(qkv, row, p->D, rows, (int)p->H, (int)half, cos, sin);
    p->engine->kern->rope(qkv + p->C, row, p->D, rows, (int)p->H, (int)half, cos, sin);
    for (size_t r = 0; r < (size_t)rows; r++) memcpy(p->q + ((size_t)first + r) * p->C, qkv + r * row, p->C * sizeof *qkv);
    for (size_t h = 0; h < p->H; h++) {
        float *panels = p->panels + (frame * p->H + h) * panel_floats(p);
        float *v = p->v + ((frame * p->H + h) * (size_t)p->frame + i0) * p->D;
        for (size_t r = 0; r < (size_t)rows; r++) {
            const float *k = qkv + r * row + p->C + h * p->D;
            size_t at = p->within ? (size_t)p->windows.key_at[i0 + r] : i0 + r;
            float *to = panels + at / FORE_LANES * p->D * FORE_LANES + at % FORE_LANES;
            for (size_t d = 0; d < p->D; d++) to[d * FORE_LANES] = k[d];
            memcpy(v + r * p->D, k + p->C, p->D * sizeof *v);
        }
    }
}

/* LayerNorm; without a bias to add, RMSNorm. */
static void norm_rows(const tower_pass *p, float *y, const float *x, const float *w, const float *b, int rows, size_t C) {
    if (b) p->engine->kern->layer_norm(y, C, x, C, w, b, rows, (int)C, 1e-6f);
    else p->engine->kern->rms_norm(y, C, x, C, w, rows, (int)C, 1e-6f);
}

/* The second half of a block (projection of attention's output, MLP) and the first half of the next one (norm, queries,
 * keys, values): everything between two attentions is a matter of one row. */
static void block_task(void *context, int index, int worker) {
    const tower_pass *p = context;
    const fore_kern *kern = p->engine->kern;
    const fore_tower_block *b = p->block, *next = p->next;
    size_t C = p->C;
    int first = task_start(p->P, p->tasks, index), rows = task_start(p->P, p->tasks, index + 1) - first;
    size_t n = (size_t)rows * C;
    float *x = p->x + (size_t)first * C, *norm = work_of(p, worker), *mix = norm + n, *wide = mix + n;
    double began = fore_profile_inside(p->engine);
    if (b) {
        product(p, worker, &b->proj, b->proj_b, p->o + (size_t)first * C, rows, mix);
        fore_profile_piece(p->engine, worker, FORE_OP_O_PROJ, &began);
        kern->add(x, mix, n);
        norm_rows(p, norm, x, b->norm2_w, b->norm2_b, rows, C);
        fore_profile_piece(p->engine, worker, FORE_OP_NORM, &began);
        product(p, worker, &b->fc1, b->fc1_b, norm, rows, wide);
        float *up = wide + (size_t)rows * (size_t)b->fc1.N;
        if (b->up.N) product(p, worker, &b->up, b->up_b, norm, rows, up);
        fore_profile_piece(p->engine, worker, FORE_OP_GATE_UP, &began);
        if (b->up.N) kern->silu_mul(wide, wide, up, (size_t)rows * (size_t)b->fc1.N);
        else kern->gelu_tanh(wide, (size_t)rows * (size_t)b->fc1.N); /* tanh here, erf in the merger */
        fore_profile_piece(p->engine, worker, FORE_OP_ACTIVATION, &began);
        product(p, worker, &b->fc2, b->fc2_b, wide, rows, mix);
        fore_profile_piece(p->engine, worker, FORE_OP_DOWN, &began);
        kern->add(x, mix, n);
    }
    if (next) {
        norm_rows(p, norm, x, next->norm1_w, next->norm1_b, rows, C);
        fore_profile_piece(p->engine, worker, FORE_OP_NORM, &began);
        product(p, worker, &next->qkv, next->qkv_b, norm, rows, wide);
        fore_profile_piece(p->engine, worker, FORE_OP_QKV, &began);
        for (int r = 0, count; r < rows; r += count) {
            int left = p->frame - (first + r) % p->frame;
            count = rows - r < left ? rows - r : left;
            spread(p, wide + (size_t)r * 3 * C, first + r, count);
        }
    }
    fore_profile_piece(p->engine, worker, next ? FORE_OP_ROPE : FORE_OP_NORM, &began);
}

/* Part i of a frame's queries, and the keys that they see. */
static fore_span span_at(const tower_pass *p, int i) {
    if (p->within) return p->windows.spans[i];
    int first = i * ATTEND_ROWS, left = p->frame - first;
    return (fore_span){first, left < ATTEND_ROWS ? left : ATTEND_ROWS, 0, p->frame, 0};
}

static int count_spans(const tower_pass *p) { return p->within ? p->windows.count : (p->frame + ATTEND_ROWS - 1) / ATTEND_ROWS; }

/* Attention of some rows of one frame in one head. The tasks of a head follow each other: its keys and values are read
 * from the cache. */
static void attend_task(void *context, int index, int worker) {
    const tower_pass *p = context;
    int spans = count_spans(p);
    const fore_span s = span_at(p, index % spans);
    size_t plane = (size_t)(index / spans), frame = plane / p->H, head = plane % p->H;
    size_t at = (frame * (size_t)p->frame + (size_t)s.first) * p->C + head * p->D;
    fore_attend a = {
        .q = p->q + at,
        .o = p->o + at,
        .k = p->panels + plane * panel_floats(p) + (size_t)s.panel * p->D * FORE_LANES,
        .v = p->v + (plane * (size_t)p->frame + (size_t)s.start) * p->D,
        .q_row = p->C,
        .q_head = p->D,
        .o_row = p->C,
        .o_head = p->D,
        .v_row = p->D,
        .T = s.rows,
        .G = 1,
        .D = (int)p->D,
        .keys = s.keys,
        .causal = false,
        .scale = 1.0f / sqrtf((float)p->D),
        .scratch = work_of(p, worker),
    };
    p->engine->kern->attend(&a);
}

/* A norm per patch, or of the patches of a row side by side; then merge^2 neighbouring rows side by side through two layers,
 * into one part of the result's rows. */
static void merge_task(void *context, int index, int worker) {
    const tower_pass *p = context;
    const fore_kern *kern = p->engine->kern;
    const fore_merger *m = p->merger;
    size_t merged = (size_t)m->fc1.K, all = p->P * p->C / merged, columns = fore_picture_columns(&p->network->config);
    int first = task_start(all, p->tasks, index), rows = task_start(all, p->tasks, index + 1) - first;
    float *norm = work_of(p, worker), *mid = norm + (size_t)rows * merged;
    size_t normed = m->wide ? merged : p->C; /* columns of a row that is normed */
    norm_rows(p, norm, p->x + (size_t)first * merged, m->norm_w, m->norm_b, rows * (int)(merged / normed), normed);
    product(p, worker, &m->fc1, m->fc1_b, norm, rows, mid);
    kern->gelu_erf(mid, (size_t)rows * merged);
    size_t N = (size_t)m->fc2.N;
    if (!p->windows.order) {
        product_to(p, worker, &m->fc2, m->fc2_b, mid, rows, p->rows + (size_t)first * columns + p->part * N, columns);
        return;
    }
    float *out = mid + (size_t)rows * merged;
    product(p, worker, &m->fc2, m->fc2_b, mid, rows, out);
    int frame = (int)((size_t)p->frame * p->C / merged);
    for (int r = 0; r < rows; r++) {
        int place = (first + r) % frame, to = first + r - place + merged_at(p, place);
        memcpy(p->rows + (size_t)to * columns + p->part * N, out + (size_t)r * N, N * sizeof *out);
    }
}

/* ---- the whole tower ------------------------------------------------------------------------------------------------ */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Floats of one row of a block: two of C, and the widest between them. */
static size_t row_floats(const fore_vision_config *v) {
    size_t C = (size_t)v->hidden_size, F = (size_t)v->intermediate_size;
    return 2 * C + larger(3 * C, v->gated ? 2 * F : F);
}

static size_t merged_width(const fore_vision_config *v) {
    return (size_t)v->hidden_size * (size_t)v->spatial_merge_size * (size_t)v->spatial_merge_size;
}

/* Floats of one row of a merger: before and after its first layer, and a result that is yet to find its place. */
static size_t merger_floats(const fore_vision_config *v) {
    return 2 * merged_width(v) + (v->window_size ? (size_t)v->out_hidden_size : 0);
}

/* Rows of a task: of a block, or merged ones. */
static size_t block_rows(const fore_vision_config *v) { return larger(WORK / row_floats(v), 2 * STEP); }
static size_t merge_rows(const fore_vision_config *v) { return larger(WORK / merger_floats(v), STEP); }

enum { ARRAYS = 8 };

/* Floats of each array of a pass, in the order of point_at. */
static void count_floats(tower_pass *p, const fore_vision_config *v, bool quantised, int threads, size_t floats[ARRAYS]) {
    size_t frame = (size_t)p->frame, planes = p->P / frame * p->H, rows = block_rows(v) + STEP, merged = merge_rows(v) + STEP;
    size_t K = larger((size_t)p->network->tower.patch_embed.K, larger(p->C, (size_t)v->intermediate_size));
    size_t work = larger(larger(rows * row_floats(v), merged * merger_floats(v)), fore_attend_scratch(p->frame, 1));
    p->quantised = quantised ? (larger(rows * K, merged * merged_width(v)) + 31) / 32 * 32 : 0;
    p->worker_floats = (larger(work, 4 * p->C) + 15) / 16 * 16 + (quantised ? quantised_floats(p->quantised) : 0);
    for (int i = 0; i < 4; i++) floats[i] = p->P * p->C;
    floats[4] = planes * panel_floats(p);
    floats[5] = floats[6] = frame * p->D / 2;
    floats[7] = (size_t)threads * p->worker_floats;
}

static void point_at(tower_pass *p, char *memory, const size_t floats[ARRAYS]) {
    float **const arrays[ARRAYS] = {&p->x, &p->q, &p->o, &p->v, &p->panels, &p->cos, &p->sin, &p->worker};
    for (int i = 0; i < ARRAYS; i++) *arrays[i] = fore_carve(&memory, floats[i]);
}

/* For the profile: a product of `rows` rows, and those of two halves of blocks. */
static void count_weights(const tower_pass *p, fore_op op, const fore_weight *w, size_t rows) {
    fore_profile_weights(p->engine, op, w, fore_weight_bytes(w), 2.0 * (double)rows * w->N * w->K);
}

static void count_block(const tower_pass *p) {
    fore_profile_op(p->engine, FORE_OP_BLOCK);
    if (p->block) {
        count_weights(p, FORE_OP_O_PROJ, &p->block->proj, p->P);
        count_weights(p, FORE_OP_GATE_UP, &p->block->fc1, p->P);
        if (p->block->up.N) count_weights(p, FORE_OP_GATE_UP, &p->block->up, p->P);
        count_weights(p, FORE_OP_DOWN, &p->block->fc2, p->P);
    }
    if (p->next) count_weights(p, FORE_OP_QKV, &p->next->qkv, p->P);
}

/* For the profile: keys that a query sees, on average. */
static double keys_seen(const tower_pass *p) {
    double pairs = 0;
    for (int i = 0, n = count_spans(p); i < n; i++) pairs += (double)span_at(p, i).rows * span_at(p, i).keys;
    return pairs / p->frame;
}

/* Part 0 of the rows is what is spliced, part i what deepstack merger i-1 makes. */
static void merge(tower_pass *p, size_t part) {
    const fore_vision_config *v = &p->network->config.vision;
    size_t rows = p->P * p->C / merged_width(v);
    p->part = part;
    p->merger = part ? &p->network->tower.deepstack[part - 1] : &p->network->tower.merger;
    fore_profile_op(p->engine, FORE_OP_MERGE);
    count_weights(p, FORE_OP_MERGE, &p->merger->fc1, rows);
    count_weights(p, FORE_OP_MERGE, &p->merger->fc2, rows);
    int tasks = p->tasks;
    p->tasks = count_tasks(rows, merge_rows(v), fore_pool_threads(p->engine->pool));
    fore_pool_run(p->engine->pool, merge_task, p, p->tasks);
    p->tasks = tasks;
}

fore_status fore_tower_forward(const fore_engine *engine, const fore_network *network, const float *patches, const int grid[3],
                               float *rows, fore_progress progress, void *user, fore_tap tap, void *tap_user, fore_error *err) {
    const fore_vision_config *v = &network->config.vision;
    const fore_tower *t = &network->tower;
    int frame = grid[1] * grid[2], threads = fore_pool_threads(engine->pool);
    tower_pass p = {.engine = engine, .network = network, .patches = patches, .rows = rows, .h = grid[1], .w = grid[2], .frame = frame};
    p.P = (size_t)grid[0] * (size_t)frame;
    p.C = (size_t)v->hidden_size;
    p.H = (size_t)v->num_heads;
    p.D = p.C / p.H;
    if (v->window_size) {
        fore_status made = fore_windows_make(v, p.h, p.w, ATTEND_ROWS, &p.windows, err);
        if (made) return made;
    }
    size_t floats[ARRAYS], bytes = ARRAYS * (size_t)FORE_ARENA_ALIGN;
    count_floats(&p, v, t->quantised, threads, floats);
    for (int i = 0; i < ARRAYS; i++) bytes += floats[i] * sizeof(float);
    void *memory = malloc(bytes);
    if (!memory) {
        fore_windows_free(&p.windows);
        return fore_fail(err, FORE_ERR_NOMEM, "out of memory: the vision tower needs %zu MiB for a picture of %zu patches", bytes >> 20, p.P);
    }
    point_at(&p, memory, floats);
    size_t planes = (size_t)grid[0] * p.H;
    memset(p.panels, 0, planes * panel_floats(&p) * sizeof(float)); /* lanes past the last key must hold finite values */

    fore_profile_part(engine, FORE_PART_VISION);
    fore_profile_op(engine, FORE_OP_EMBED);
    count_weights(&p, FORE_OP_EMBED, &t->patch_embed, p.P);
    p.tasks = count_tasks(p.P, block_rows(v), threads);
    fore_pool_run(engine->pool, embed_task, &p, p.tasks);
    if (tap) tap(tap_user, "vision.patch_embed", 0, p.windows.order ? p.q : p.x, p.P, p.C);
    fore_rows(engine, positions_task, &p, frame, POSITION_ROWS);
    fore_status s = FORE_OK;
    for (int i = 0, parts = 0; i <= v->depth && !s; i++) {
        p.block = i ? &t->blocks[i - 1] : NULL;
        p.next = i < v->depth ? &t->blocks[i] : NULL;
        p.within = p.next && p.windows.order && !v->full_attention[i];
        count_block(&p);
        fore_pool_run(engine->pool, block_task, &p, p.tasks);
        fore_profile_split(engine);
        if (i && tap) tap(tap_user, "vision.block", i - 1, p.x, p.P, p.C);
        if (parts < v->deepstack_count && v->deepstack_visual_indexes[parts] == i - 1) merge(&p, (size_t)++parts);
        if (i && progress && progress(user, "vision", (uint64_t)i, (uint64_t)v->depth))
            s = fore_fail(err, FORE_ERR_CANCELLED, "cancelled while looking at a picture");
        if (!p.next || s) continue;
        fore_profile_op(engine, FORE_OP_ATTENTION);
        fore_profile_work(engine, 2 * p.P * p.C * sizeof(float), 4.0 * (double)p.P * keys_seen(&p) * (double)p.C);
        fore_pool_run(engine->pool, attend_task, &p, (int)planes * count_spans(&p));
    }
    if (!s) {
        merge(&p, 0);
        if (tap) tap(tap_user, "vision.output", 0, rows, p.P * p.C / merged_width(v), fore_picture_columns(&network->config));
    }
    fore_profile_part(engine, FORE_PART_TRUNK);
    free(memory);
    fore_windows_free(&p.windows);
    return s;
}
