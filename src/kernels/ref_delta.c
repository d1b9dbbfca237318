/* Scalar reference of the gated delta rule; see ref.h. */
#include <math.h>

#include "kernels/ref.h"

/* One token on one column of the state: s[i*step] for i < dk. */
static float delta_step(float *s, size_t step, int dk, const float *q, const float *k, float v, float decay,
                        float beta) {
    float m[2] = {0}, o[2] = {0};
    for (int i = 0; i < dk; i++) {
        s[(size_t)i * step] *= decay;
        m[i % 2] = fmaf(k[i], s[(size_t)i * step], m[i % 2]);
    }
    float u = beta * (v - (m[0] + m[1]));
    for (int i = 0; i < dk; i++) {
        s[(size_t)i * step] = fmaf(k[i], u, s[(size_t)i * step]);
        o[i % 2] = fmaf(q[i], s[(size_t)i * step], o[i % 2]);
    }
    return o[0] + o[1];
}

void fore_ref_delta(const fore_delta *d) {
    size_t columns = (size_t)(d->v1 - d->v0), dv = (size_t)d->dv, v0 = (size_t)d->v0;
    float *s = d->scratch;
    for (size_t i = 0; i < (size_t)d->dk; i++)
        for (size_t c = 0; c < columns; c++) s[i * columns + c] = d->state_in[i * dv + v0 + c];
    for (size_t t = 0; t < (size_t)d->T; t++)
        for (size_t c = 0; c < columns; c++)
            d->o[t * d->o_row + v0 + c] =
                delta_step(s + c, columns, d->dk, d->q + t * d->qk_row, d->k + t * d->qk_row,
                           d->v[t * d->v_row + v0 + c], d->decay[t * d->gate_row], d->beta[t * d->gate_row]);
    if (!d->state_out) return;
    for (size_t i = 0; i < (size_t)d->dk; i++)
        for (size_t c = 0; c < columns; c++) d->state_out[i * dv + v0 + c] = s[i * columns + c];
}
