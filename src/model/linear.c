/* Products of activations with weights; see linear.h. The split never touches the summed axis, so it cannot change a bit. */
#include "model/linear.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/pages.h"
#include "model/profile.h"

enum { MAX_PRODUCTS = 8, TASKS_PER_THREAD = 8, MIN_OUTPUTS = 32, MANY = 32, WIDE = 256, NARROW = 64 };
enum { ALONE = 16384 }; /* numbers that are quantised by the caller itself, for waking the others takes longer */

fore_status fore_quantised_new(size_t values, fore_quantised *out, fore_error *err) {
    size_t groups = values / FORE_LEAST_GROUP;
    *out = (fore_quantised){.values = values, .bytes = 2 * (values + 2 * groups * sizeof(float) + 3 * (size_t)FORE_ARENA_ALIGN)};
    out->memory = malloc(out->bytes);
    if (!out->memory) return fore_fail_nomem(err, "the quantised rows of a session");
    fore_pages_wish_large(out->memory, out->bytes);
    char *at = out->memory;
    for (fore_qrows *rows = &out->rows; rows; rows = rows == &out->rows ? &out->next : NULL) {
        rows->scale = fore_carve(&at, groups);
        rows->sum = fore_carve(&at, groups);
        rows->q = (int8_t *)fore_carve(&at, values / sizeof(float));
    }
    return FORE_OK;
}

void fore_quantised_free(fore_quantised *q) {
    free(q->memory);
    *q = (fore_quantised){0};
}

bool fore_takes_same_rows(const fore_weight *a, const fore_weight *b) { return a->group == b->group && a->order == b->order; }

void fore_quantise_rows(const fore_kern *kern, const fore_weight *w, const fore_qrows *to, const float *x, size_t ldx, int T) {
    if (!w->order) {
        kern->quantize_rows(to, x, ldx, T, w->K, w->group);
        return;
    }
    float inputs[128]; /* of a group */
    const size_t group = (size_t)w->group;
    for (size_t t = 0; t < (size_t)T; t++, x += ldx)
        for (size_t k = 0; k < (size_t)w->K; k += group) {
            size_t at = t * to->groups + k / group;
            const fore_qrows part = {to->q + t * to->row + k, to->scale + at, to->sum + at, to->row, to->groups};
            for (size_t i = 0; i < group; i++) inputs[i] = x[w->order[k + i]];
            kern->quantize_rows(&part, inputs, group, 1, w->group, w->group);
        }
}

typedef struct quantise_job {
    const fore_kern *kern;
    const fore_weight *w;
    fore_qrows to;
    const float *x;
    size_t ldx;
} quantise_job;

static void quantise_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const quantise_job *j = context;
    size_t t = (size_t)first;
    const fore_qrows to = {j->to.q + t * j->to.row, j->to.scale + t * j->to.groups, j->to.sum + t * j->to.groups, j->to.row, j->to.groups};
    fore_quantise_rows(j->kern, j->w, &to, j->x + t * j->ldx, j->ldx, rows);
}

static fore_qrows *lay_out(const fore_engine *engine, fore_qrows *to, int T, int K, int group) {
    assert((size_t)T * (size_t)K <= engine->quantised->values);
    (void)engine, (void)T;
    to->row = (size_t)K;
    to->groups = (size_t)(K / group);
    return to;
}

const fore_qrows *fore_quantise(const fore_engine *engine, const fore_weight *w, const float *x, size_t ldx, int T) {
    const fore_qrows *to = lay_out(engine, &engine->quantised->rows, T, w->K, w->group);
    quantise_job j = {engine->kern, w, *to, x, ldx};
    if ((size_t)T * (size_t)w->K <= ALONE) quantise_task(&j, 0, T, 0);
    else fore_rows(engine, quantise_task, &j, T, T < 64 ? 1 : 8);
    return to;
}

const fore_qrows *fore_quantise_next(const fore_engine *engine, int T, int K, int group) {
    return lay_out(engine, &engine->quantised->next, T, K, group);
}

void fore_quantise_part(const fore_kern *kern, const fore_qrows *to, const float *x, size_t ldx, int T, int k0, int n, int group) {
    size_t at = (size_t)(k0 / group);
    const fore_qrows part = {to->q + k0, to->scale + at, to->sum + at, to->row, to->groups};
    kern->quantize_rows(&part, x, ldx, T, n, group);
}

typedef struct linear_job {
    const fore_kern *kern;
    const float *x;
    size_t ldx;
    const fore_qrows *q;
    int T, count, block;
    const fore_product *products;
    int first_task[MAX_PRODUCTS + 1]; /* task index at which each product begins */
    int parts; /* with several nodes of memory */
} linear_job;

void fore_product_slice(const fore_kern *kern, const fore_product *d, const float *x, size_t ldx, const fore_qrows *q, int T, int n0,
                        int n1) {
    const fore_weight *w = d->w;
    if (w->bits) {
        const fore_qweight panels = fore_weight_quantised(w);
        if (w->bits == 4) kern->mm_q4(d->y, d->ldy, q, &panels, T, n0, n1);
        else kern->mm_q8(d->y, d->ldy, q, &panels, T, n0, n1);
    } else if (w->dtype == FORE_DTYPE_BF16) {
        kern->mm_bf16(d->y, d->ldy, x, ldx, w->data, T, n0, n1, w->K);
    } else if (w->dtype == FORE_DTYPE_F16) {
        kern->mm_f16(d->y, d->ldy, x, ldx, w->data, T, n0, n1, w->K);
    } else {
        kern->mm_f32(d->y, d->ldy, x, ldx, w->data, T, n0, n1, w->K);
    }
    if (d->bias) kern->add_bias(d->y, d->ldy, d->bias, T, n0, n1);
}

static void linear_task(void *context, int index, int worker) {
    (void)worker;
    const linear_job *j = context;
    int p = 0;
    while (index >= j->first_task[p + 1]) p++;
    const fore_product *d = &j->products[p];
    int n0 = (index - j->first_task[p]) * j->block;
    int n1 = n0 + j->block < d->w->N ? n0 + j->block : d->w->N;
    fore_product_slice(j->kern, d, j->x, j->ldx, j->q, j->T, n0, n1);
}

/* The same part of every product: so each node of memory reads the part of a matrix that was placed there. */
static void parts_task(void *context, int index, int worker) {
    (void)worker;
    const linear_job *j = context;
    for (int p = 0; p < j->count; p++) {
        int N = j->products[p].w->N;
        int64_t panels = (N - 1) / FORE_LANES + 1;
        int n0 = (int)(panels * index / j->parts) * FORE_LANES, n1 = (int)(panels * (index + 1) / j->parts) * FORE_LANES;
        if (n1 > N) n1 = N;
        if (n0 < n1) fore_product_slice(j->kern, &j->products[p], j->x, j->ldx, j->q, j->T, n0, n1);
    }
}

int fore_linear_width(int outputs, int threads, int step) {
    int best = step, least = 0;
    for (int width = WIDE / step * step; width >= step; width -= step) {
        int tasks = (outputs + width - 1) / width, longest = (tasks + threads - 1) / threads * width;
        if (!least || longest < least) best = width, least = longest;
    }
    return best;
}

static void run_products(const fore_engine *engine, linear_job *j) {
    size_t outputs = 0;
    for (int p = 0; p < j->count; p++) outputs += (size_t)j->products[p].w->N;
    size_t tasks = (size_t)fore_pool_threads(engine->pool) * TASKS_PER_THREAD;
    if (fore_pool_nodes(engine->pool) > 1) {
        j->parts = (int)tasks;
        fore_pool_run(engine->pool, parts_task, j, j->parts);
        return;
    }
    size_t block = (outputs + tasks - 1) / tasks;
    block = (block + MIN_OUTPUTS - 1) / MIN_OUTPUTS * MIN_OUTPUTS;
    j->block = (int)block;
    if (j->T >= MANY && j->block < WIDE) j->block = fore_linear_width((int)outputs, fore_pool_threads(engine->pool), NARROW);
    for (int p = 0; p < j->count; p++) j->first_task[p + 1] = j->first_task[p] + (j->products[p].w->N + j->block - 1) / j->block;
    fore_pool_run(engine->pool, linear_task, j, j->first_task[j->count]);
}

/* Quantised matrices that take the same rows a round; those that are not quantised go with the first one. */
void fore_linear(const fore_engine *engine, const float *x, size_t ldx, int T, const fore_product *products, int count) {
    fore_product now[MAX_PRODUCTS], later[MAX_PRODUCTS];
    int left = count;
    assert(count <= MAX_PRODUCTS);
    if (engine->profile) fore_profile_count_products(engine->profile, products, count, T);
    memcpy(later, products, (size_t)count * sizeof *products);
    while (left) {
        linear_job j = {.kern = engine->kern, .x = x, .ldx = ldx, .T = T, .products = now};
        const fore_weight *first = NULL;
        int rest = 0;
        for (int p = 0; p < left; p++) {
            const fore_weight *w = later[p].w;
            if (!first && w->bits) first = w;
            if (w->bits && !fore_takes_same_rows(w, first)) later[rest++] = later[p];
            else now[j.count++] = later[p];
        }
        left = rest;
        if (first) j.q = fore_quantise(engine, first, x, ldx, T);
        run_products(engine, &j);
    }
}

void fore_linear_quantised(const fore_engine *engine, const fore_qrows *q, int T, const fore_product *product) {
    linear_job j = {.kern = engine->kern, .q = q, .T = T, .count = 1, .products = product};
    if (engine->profile) fore_profile_count_products(engine->profile, product, 1, T);
    run_products(engine, &j);
}

typedef struct rows_job {
    fore_rows_task task;
    void *context;
    int T, block;
} rows_job;

static void rows_task(void *context, int index, int worker) {
    const rows_job *j = context;
    int first = index * j->block;
    int rows = j->T - first < j->block ? j->T - first : j->block;
    j->task(j->context, first, rows, worker);
}

void fore_rows(const fore_engine *engine, fore_rows_task task, void *context, int T, int block) {
    rows_job j = {task, context, T, block};
    fore_pool_run(engine->pool, rows_task, &j, (T + block - 1) / block);
}

typedef struct norm_job {
    const fore_kern *kern;
    float *y, *x;
    const float *branch, *gain; /* branch NULL: x is only read */
    int C;
    float eps;
} norm_job;

static void norm_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const norm_job *j = context;
    size_t C = (size_t)j->C, at = (size_t)first * C;
    if (j->branch) j->kern->add(j->x + at, j->branch + at, (size_t)rows * C);
    j->kern->rms_norm(j->y + at, C, j->x + at, C, j->gain, rows, j->C, j->eps);
}

void fore_norm_rows(const fore_engine *engine, float *y, const float *x, const float *gain, int T, int C, float eps) {
    norm_job j = {engine->kern, y, (float *)x, NULL, gain, C, eps};
    fore_rows(engine, norm_task, &j, T, 16);
}

void fore_add_norm_rows(const fore_engine *engine, float *y, float *x, const float *branch, const float *gain, int T, int C, float eps) {
    norm_job j = {engine->kern, y, x, branch, gain, C, eps};
    fore_rows(engine, norm_task, &j, T, 8);
}

typedef struct add_job {
    const fore_kern *kern;
    float *y;
    const float *x;
    size_t C;
} add_job;

static void add_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const add_job *j = context;
    size_t at = (size_t)first * j->C;
    j->kern->add(j->y + at, j->x + at, (size_t)rows * j->C);
}

void fore_add_rows(const fore_engine *engine, float *y, const float *x, int T, int C) {
    add_job j = {engine->kern, y, x, (size_t)C};
    fore_rows(engine, add_task, &j, T, 16);
}
