/* Finding tensors by name and checking their shapes. Matrices of 16 and 32 bits stay where the file has them (borrowed from
 * the store, any alignment); quantised ones are repacked into panels, or become floats. It does not know which tensor plays which
 * part. Other forms than this one are those of forms.h.
 *
 * A quantised matrix [N,K] of the module M is three tensors, the form of MLX: M.weight U32 [N, K*bits/32], M.scales and
 * M.biases [N, K/group] in BF16 or F16 (in F32 it becomes floats); bits (2 to 6 or 8) and group (32, 64, 128) follow from the
 * shapes. M.input_order I32 [K], where there is one, tells the input that each column is for. */
#ifndef FORE_MODEL_BIND_H
#define FORE_MODEL_BIND_H

#include "base/arena.h"
#include "checkpoint/store.h"
#include "model/panels.h"

/* One kind of matrix for every expert of a layer: slices of one tensor, or a tensor each. */
typedef struct fore_experts {
    fore_weight first;       /* the first expert's */
    size_t stride;           /* bytes from one expert's data to the next one's */
    const fore_weight *each; /* [E]; NULL: slices */
    int across;              /* not 0: stored transposed, [K, across] of which the N columns from data on are the matrix */
} fore_experts;

static inline fore_weight fore_expert_at(const fore_experts *experts, int e) {
    if (experts->each) return experts->each[e];
    fore_weight w = experts->first;
    w.data = (const char *)w.data + (size_t)e * experts->stride;
    return w;
}

/* A binder remembers its first failure; later calls do nothing, unless it has notes. */
typedef struct fore_binder {
    const fore_store *store;
    fore_arena *arena;
    fore_panels *panels; /* reserved for the store; what is quantised becomes readable with fore_panels_make */
    const fore_kern *kern;
    const char *prefix; /* put before every name */
    fore_error *err;
    fore_status status;
    fore_notes *notes; /* of a model that is opened for looking: failures are noted (topic "tensors") and binding goes on; else NULL */
    int32_t *order;      /* room for the order of a matrix' inputs, which the next one takes; NULL: none */
    size_t order_inputs; /* of so many */
} fore_binder;
/* The end of every step of binding, also of those that set status themselves. */
void fore_bind_settle(fore_binder *b);

/* A matrix of N*K elements stored with the given shape (dims sizes, product N*K), not quantised. */
void fore_bind_shape(fore_binder *b, fore_weight *out, int N, int K, int dims, const uint64_t *shape, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
/* A matrix [N,K]. */
void fore_bind_matrix(fore_binder *b, fore_weight *out, int N, int K, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Rows row0 .. row0+N-1 of each of the E matrices of a tensor [E,rows,K]; E*rows need not fit an int. */
void fore_bind_slices(fore_binder *b, fore_experts *out, int E, int rows, int row0, int N, int K, const char *format, ...)
    __attribute__((format(printf, 8, 9)));
/* Columns column0 .. column0+N-1 of each of the E matrices of a tensor [E,K,columns], in floats or FP8, as matrices [N,K]. */
void fore_bind_columns(fore_binder *b, fore_experts *out, int E, int K, int columns, int column0, int N, const char *format, ...)
    __attribute__((format(printf, 8, 9)));
/* A vector of n, widened; plus is added to each element (1 for a zero-centred norm). */
void fore_bind_vector(fore_binder *b, const float **out, int n, float plus, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* A tensor of floats, widened into the arena; NULL after a failure. */
float *fore_bind_floats(fore_binder *b, int dims, const uint64_t *shape, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The tensor prefix + name, or the one that has the weights of the matrix of this name in another form; NULL: the files have none. */
const fore_entry *fore_bind_find(const fore_binder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The order that M.input_order, I32 [K], tells: every input once, also checked. */
fore_status fore_bind_read_order(const fore_entry *e, size_t K, int32_t *order, fore_error *err);
/* Whether a tensor is part of a quantised matrix: packed integers, which fore_panels.parameters counts, or scales and
 * biases, which are no parameters of the model. */
bool fore_bind_is_packed(const fore_store *store, const fore_entry *e);

#endif
