/* The gated delta rule on slices of the value axis, token by token; see v16.h. The slice's state stays in the first
 * cache: the first token reads it from state_in, the last one writes it to state_out, those between use the scratch. */
#ifndef FORE_KERNELS_V16_DELTA_H
#define FORE_KERNELS_V16_DELTA_H

#include "kernels/ref.h"

/* One token: columns of V vectors of n lanes (n < 16 only when V is 1). to may be from. */
FORE_INLINE void v16_delta_step(const int V, const size_t n, const float *from, size_t from_row, float *to,
                                size_t to_row, size_t dk, const float *q, const float *k, const float *v, float *o,
                                float decay, float beta) {
    v16 even[4], odd[4], u[4], scale = v16_set1(decay);
    FORE_UNROLL for (int c = 0; c < V; c++) even[c] = odd[c] = v16_zero();
    size_t i = 0;
    for (; i + 2 <= dk; i += 2) {
        v16 k0 = v16_set1(k[i]), k1 = v16_set1(k[i + 1]);
        FORE_UNROLL for (int c = 0; c < V; c++) {
            even[c] = v16_fma(k0, v16_mul(v16_load_some(from + i * from_row + 16 * c, n), scale), even[c]);
            odd[c] = v16_fma(k1, v16_mul(v16_load_some(from + (i + 1) * from_row + 16 * c, n), scale), odd[c]);
        }
    }
    if (i < dk) {
        FORE_UNROLL for (int c = 0; c < V; c++)
            even[c] = v16_fma(v16_set1(k[i]), v16_mul(v16_load_some(from + i * from_row + 16 * c, n), scale), even[c]);
    }
    FORE_UNROLL for (int c = 0; c < V; c++) {
        u[c] = v16_mul(v16_set1(beta), v16_sub(v16_load_some(v + 16 * c, n), v16_add(even[c], odd[c])));
        even[c] = odd[c] = v16_zero();
    }
    for (i = 0; i + 2 <= dk; i += 2) {
        v16 k0 = v16_set1(k[i]), k1 = v16_set1(k[i + 1]), q0 = v16_set1(q[i]), q1 = v16_set1(q[i + 1]);
        FORE_UNROLL for (int c = 0; c < V; c++) {
            v16 s = v16_fma(k0, u[c], v16_mul(v16_load_some(from + i * from_row + 16 * c, n), scale));
            v16_store_some(to + i * to_row + 16 * c, s, n);
            even[c] = v16_fma(q0, s, even[c]);
            s = v16_fma(k1, u[c], v16_mul(v16_load_some(from + (i + 1) * from_row + 16 * c, n), scale));
            v16_store_some(to + (i + 1) * to_row + 16 * c, s, n);
            odd[c] = v16_fma(q1, s, odd[c]);
        }
    }
    if (i < dk) {
        FORE_UNROLL for (int c = 0; c < V; c++) {
            v16 s = v16_fma(v16_set1(k[i]), u[c], v16_mul(v16_load_some(from + i * from_row + 16 * c, n), scale));
            v16_store_some(to + i * to_row + 16 * c, s, n);
            even[c] = v16_fma(v16_set1(q[i]), s, even[c]);
        }
    }
    FORE_UNROLL for (int c = 0; c < V; c++) v16_store_some(o + 16 * c, v16_add(even[c], odd[c]), n);
}

/* All tokens on the columns from c on. */
FORE_INLINE void v16_delta_slice(const int V, const size_t n, const fore_delta *d, size_t c) {
    const float *from = d->state_in + c;
    size_t dv = (size_t)d->dv, dk = (size_t)d->dk, from_row = dv, own_row = (size_t)(V - 1) * 16 + n;
    for (size_t t = 0; t < (size_t)d->T; t++) {
        bool last = t + 1 == (size_t)d->T && d->state_out;
        float *to = last ? d->state_out + c : d->scratch;
        size_t to_row = last ? dv : own_row;
        v16_delta_step(V, n, from, from_row, to, to_row, dk, d->q + t * d->qk_row, d->k + t * d->qk_row,
                       d->v + t * d->v_row + c, d->o + t * d->o_row + c, d->decay[t * d->gate_row],
                       d->beta[t * d->gate_row]);
        from = to;
        from_row = to_row;
    }
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
