/* Products of activations with weights; see linear.h. The split never touches the summed axis, so it cannot change a bit. */
#include "model/linear.h"

#include "model/profile.h"

enum { MAX_PRODUCTS = 8, TASKS_PER_THREAD = 8, MIN_OUTPUTS = 32 };

typedef struct linear_job {
    const fore_kern *kern;
    const float *x;
    size_t ldx;
    int T, count, block;
    const fore_product *products;
    int first_task[MAX_PRODUCTS + 1]; /* task index at which each product begins */
} linear_job;

void fore_product_slice(const fore_kern *kern, const fore_product *d, const float *x, size_t ldx, int T, int n0, int n1) {
    if (d->w->dtype == FORE_DTYPE_BF16) kern->mm_bf16(d->y, d->ldy, x, ldx, d->w->data, T, n0, n1, d->w->K);
    else if (d->w->dtype == FORE_DTYPE_F16) kern->mm_f16(d->y, d->ldy, x, ldx, d->w->data, T, n0, n1, d->w->K);
    else kern->mm_f32(d->y, d->ldy, x, ldx, d->w->data, T, n0, n1, d->w->K);
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
    fore_product_slice(j->kern, d, j->x, j->ldx, j->T, n0, n1);
}

void fore_linear(const fore_engine *engine, const float *x, size_t ldx, int T, const fore_product *products, int count) {
    if (engine->profile) fore_profile_count_products(engine->profile, products, count, T);
    linear_job j = {.kern = engine->kern, .x = x, .ldx = ldx, .T = T, .count = count, .products = products};
    size_t outputs = 0;
    for (int p = 0; p < count; p++) outputs += (size_t)products[p].w->N;
    size_t tasks = (size_t)fore_pool_threads(engine->pool) * TASKS_PER_THREAD;
    size_t block = (outputs + tasks - 1) / tasks;
    block = (block + MIN_OUTPUTS - 1) / MIN_OUTPUTS * MIN_OUTPUTS;
    j.block = (int)block;
    for (int p = 0; p < count; p++) j.first_task[p + 1] = j.first_task[p] + (products[p].w->N + j.block - 1) / j.block;
    fore_pool_run(engine->pool, linear_task, &j, j.first_task[count]);
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
    float *y;
    const float *x, *gain;
    int C;
    float eps;
} norm_job;

static void norm_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const norm_job *j = context;
    size_t C = (size_t)j->C, at = (size_t)first * C;
    j->kern->rms_norm(j->y + at, C, j->x + at, C, j->gain, rows, j->C, j->eps);
}

void fore_norm_rows(const fore_engine *engine, float *y, const float *x, const float *gain, int T, int C, float eps) {
    norm_job j = {engine->kern, y, x, gain, C, eps};
    fore_rows(engine, norm_task, &j, T, 16);
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
