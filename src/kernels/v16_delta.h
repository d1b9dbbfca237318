/* The gated delta rule on slices of the value axis, token by token; see v16.h. The slice's state stays in the first
 * cache, and one sweep over it does what it can at once: it ends a token (the update and the output) and begins the next
 * one (the decay and what the state remembers of the key). The first token reads state_in, the last one writes
 * state_out, those between use the scratch, where the state lies decayed for the token that comes. */
#ifndef FORE_KERNELS_V16_DELTA_H
#define FORE_KERNELS_V16_DELTA_H

#include "kernels/ref.h"

/* Sums over even and odd rows of the state. */
typedef struct v16_pairs {
    v16 sum[2][4];
} v16_pairs;

/* One token of a slice. */
typedef struct v16_token {
    const float *q, *k;
    float decay;
} v16_token;

/* What the decayed state remembers of the first token's key. */
FORE_INLINE void v16_delta_begin(const int V, const size_t n, const float *from, size_t row, size_t dk, v16_token t,
                                 v16_pairs *m) {
    v16 scale = v16_set1(t.decay);
    FORE_UNROLL for (int c = 0; c < V; c++) m->sum[0][c] = m->sum[1][c] = v16_zero();
    size_t i = 0;
    for (; i + 2 <= dk; i += 2) {
        FORE_UNROLL for (size_t j = 0; j < 2; j++) {
            v16 k = v16_set1(t.k[i + j]);
            FORE_UNROLL for (int c = 0; c < V; c++) {
                const float *p = from + (i + j) * row + 16 * c;
                m->sum[j][c] = v16_fma(k, v16_mul(v16_load_some(p, n), scale), m->sum[j][c]);
            }
        }
    }
    if (i < dk) {
        FORE_UNROLL for (int c = 0; c < V; c++)
            m->sum[0][c] = v16_fma(v16_set1(t.k[i]), v16_mul(v16_load_some(from + i * row + 16 * c, n), scale),
                                   m->sum[0][c]);
    }
}

/* Row i of the state, on side j of the sums. first: it is not decayed yet. next: another token follows. keep: the row
 * after the last token is stored. */
FORE_INLINE void v16_delta_row(const int V, const size_t n, const bool first, const bool next, const bool keep,
                               const float *from, float *to, size_t i, v16_token t, v16_token after, const v16 *u,
                               v16_pairs *o, v16_pairs *m, const int j) {
    v16 k = v16_set1(t.k[i]), q = v16_set1(t.q[i]), k1 = next ? v16_set1(after.k[i]) : k;
    FORE_UNROLL for (int c = 0; c < V; c++) {
        v16 s = v16_load_some(from + 16 * c, n);
        if (first) s = v16_mul(s, v16_set1(t.decay));
        s = v16_fma(k, u[c], s);
        o->sum[j][c] = v16_fma(q, s, o->sum[j][c]);
        if (next) {
            s = v16_mul(s, v16_set1(after.decay));
            m->sum[j][c] = v16_fma(k1, s, m->sum[j][c]);
        }
        if (next || keep) v16_store_some(to + 16 * c, s, n);
    }
}

FORE_INLINE void v16_delta_sweep(const int V, const size_t n, const bool first, const bool next, const bool keep,
                                 const float *from, size_t from_row, float *to, size_t to_row, size_t dk, v16_token t,
                                 v16_token after, const float *v, float beta, float *out, v16_pairs *m) {
    v16 u[4];
    v16_pairs o;
    FORE_UNROLL for (int c = 0; c < V; c++) {
        u[c] = v16_mul(v16_set1(beta), v16_sub(v16_load_some(v + 16 * c, n), v16_add(m->sum[0][c], m->sum[1][c])));
        o.sum[0][c] = o.sum[1][c] = m->sum[0][c] = m->sum[1][c] = v16_zero();
    }
    size_t i = 0;
    for (; i + 2 <= dk; i += 2, from += 2 * from_row, to += 2 * to_row) {
        v16_delta_row(V, n, first, next, keep, from, to, i, t, after, u, &o, m, 0);
        v16_delta_row(V, n, first, next, keep, from + from_row, to + to_row, i + 1, t, after, u, &o, m, 1);
    }
    if (i < dk) v16_delta_row(V, n, first, next, keep, from, to, i, t, after, u, &o, m, 0);
    FORE_UNROLL for (int c = 0; c < V; c++) v16_store_some(out + 16 * c, v16_add(o.sum[0][c], o.sum[1][c]), n);
}

FORE_INLINE v16_token v16_delta_token(const fore_delta *d, size_t t) {
    return (v16_token){d->q + t * d->qk_row, d->k + t * d->qk_row, d->decay[t * d->gate_row]};
}

/* All tokens on the columns from c on: V vectors of n lanes (n < 16 only when V is 1). */
FORE_INLINE void v16_delta_slice(const int V, const size_t n, const fore_delta *d, size_t c) {
    const float *from = d->state_in + c, *v = d->v + c;
    float *to = d->state_out ? d->state_out + c : NULL, *own = d->scratch, *o = d->o + c;
    size_t dv = (size_t)d->dv, dk = (size_t)d->dk, row = (size_t)(V - 1) * 16 + n, last = (size_t)d->T - 1;
    v16_token now = v16_delta_token(d, 0);
    v16_pairs m;
    v16_delta_begin(V, n, from, dv, dk, now, &m);
    for (size_t t = 0; t < last; t++, v += d->v_row, o += d->o_row) {
        v16_token after = v16_delta_token(d, t + 1);
        float beta = d->beta[t * d->gate_row];
        if (t) v16_delta_sweep(V, n, false, true, true, own, row, own, row, dk, now, after, v, beta, o, &m);
        else v16_delta_sweep(V, n, true, true, true, from, dv, own, row, dk, now, after, v, beta, o, &m);
        now = after;
    }
    float beta = d->beta[last * d->gate_row];
    if (last) from = own;
    if (last && to) v16_delta_sweep(V, n, false, false, true, own, row, to, dv, dk, now, now, v, beta, o, &m);
    else if (last) v16_delta_sweep(V, n, false, false, false, own, row, own, row, dk, now, now, v, beta, o, &m);
    else if (to) v16_delta_sweep(V, n, true, false, true, from, dv, to, dv, dk, now, now, v, beta, o, &m);
    else v16_delta_sweep(V, n, true, false, false, from, dv, own, row, dk, now, now, v, beta, o, &m);
}

static void v16_delta(const fore_delta *d) {
    size_t c = (size_t)d->v0, end = (size_t)d->v1;
    if (d->T < 1) { /* only the copy */
        fore_ref_delta(d);
        return;
    }
    for (; c + 16 * V16_DELTA_COLUMNS <= end; c += 16 * V16_DELTA_COLUMNS) v16_delta_slice(V16_DELTA_COLUMNS, 16, d, c);
    for (; c + 16 <= end; c += 16) v16_delta_slice(1, 16, d, c);
    if (c < end) v16_delta_slice(1, end - c, d, c);
}

#endif
