/* Products of activations with weights, split over threads by outputs. */
#ifndef FORE_MODEL_LINEAR_H
#define FORE_MODEL_LINEAR_H

#include "base/pool.h"
#include "model/weights.h"

/* Rows that were quantised for the quantised matrices that take them. Two rooms: while products read one, their tasks can fill
 * the other for the product that comes next. */
typedef struct fore_quantised {
    fore_qrows rows, next;
    size_t values; /* numbers in all, of each room */
    void *memory;  /* owned */
    size_t bytes;
} fore_quantised;

enum { FORE_LEAST_GROUP = 16 }; /* fewest numbers of a group */

/* Room for `values` numbers, a multiple of 32. */
fore_status fore_quantised_new(size_t values, fore_quantised *out, fore_error *err);
void fore_quantised_free(fore_quantised *quantised);

/* What computes: the kernels and the threads. Borrowed by whatever holds it. */
typedef struct fore_engine {
    const fore_kern *kern;
    fore_pool *pool;
    fore_quantised *quantised; /* room for the widest call; may be NULL where no matrix is quantised */
    struct fore_profile *profile; /* NULL: nobody looks at the time; see profile.h */
} fore_engine;

/* One product of a group that shares its input. */
typedef struct fore_product {
    const fore_weight *w; /* [N,K] */
    const float *bias;    /* [N] or NULL */
    float *y;             /* [T,N], row stride ldy */
    size_t ldy;
} fore_product;

/* Whether rows quantised for one quantised matrix are those for the other: in the same groups and order. */
bool fore_takes_same_rows(const fore_weight *a, const fore_weight *b);
/* x [T,K] as a quantised matrix takes its inputs, by the calling thread alone. */
void fore_quantise_rows(const fore_kern *kern, const fore_weight *w, const fore_qrows *to, const float *x, size_t ldx, int T);
/* The same into the engine's room for quantised rows, by all threads. It is overwritten by the next call. */
const fore_qrows *fore_quantise(const fore_engine *engine, const fore_weight *w, const float *x, size_t ldx, int T);
/* The second room for T rows of K, which tasks fill by fore_quantise_part. It lasts until the next call. */
const fore_qrows *fore_quantise_next(const fore_engine *engine, int T, int K, int group);
/* Numbers k0 .. k0+n-1 of T rows, from x [T,n], by the calling thread alone; k0 and n are multiples of group. For matrices without
 * an order. */
void fore_quantise_part(const fore_kern *kern, const fore_qrows *to, const float *x, size_t ldx, int T, int k0, int n, int group);
/* Outputs n0 .. n1-1 of a product, by the calling thread alone; n0 is a multiple of 16, n1 too or N. q: the same rows
 * quantised by the matrix's group, when it is quantised. */
void fore_product_slice(const fore_kern *kern, const fore_product *product, const float *x, size_t ldx, const fore_qrows *q, int T,
                        int n0, int n1);
/* y = x W^T + bias for each of count products; x [T,K] with row stride ldx; every K is the same. */
void fore_linear(const fore_engine *engine, const float *x, size_t ldx, int T, const fore_product *products, int count);

/* Outputs of a task when many rows are multiplied: a multiple of `step`, at most 256, with which the thread that has most to do
 * has least; the widest such one, since narrow tasks leave the kernels with tiles that are not full. */
int fore_linear_width(int outputs, int threads, int step);
/* fore_linear for one quantised matrix and rows that are quantised by its group. */
void fore_linear_quantised(const fore_engine *engine, const fore_qrows *q, int T, const fore_product *product);

/* Rows of elementwise work handed out in blocks: task(context, first row, rows, worker). */
typedef void (*fore_rows_task)(void *context, int first, int rows, int worker);
void fore_rows(const fore_engine *engine, fore_rows_task task, void *context, int T, int block);

/* RMSNorm of T rows, split by rows. */
void fore_norm_rows(const fore_engine *engine, float *y, const float *x, const float *gain, int T, int C, float eps);
/* x += branch, then y = RMSNorm of x: row by row, while it is in the cache. */
void fore_add_norm_rows(const fore_engine *engine, float *y, float *x, const float *branch, const float *gain, int T, int C, float eps);
/* y += x, T rows of C. */
void fore_add_rows(const fore_engine *engine, float *y, const float *x, int T, int C);

#endif
