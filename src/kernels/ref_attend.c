/* Scalar reference of softmax attention; see ref.h. */
#include <math.h>

#include "kernels/ref.h"

static void attend_row(const fore_attend *a, const float *q, float *o, int keys) {
    float *p = a->scratch, m = -INFINITY, lane[FORE_LANES] = {0};
    size_t D = (size_t)a->D;
    for (int j = 0; j < keys; j++) {
        const float *k = a->k + (size_t)(j / FORE_LANES) * D * FORE_LANES + (size_t)(j % FORE_LANES);
        float sum = 0.0f;
        for (size_t d = 0; d < D; d++) sum = fmaf(q[d], k[d * FORE_LANES], sum);
        p[j] = sum * a->scale;
        m = p[j] > m ? p[j] : m;
    }
    for (int j = 0; j < keys; j++) {
        p[j] = fore_expf(p[j] - m);
        lane[j % FORE_LANES] += p[j];
    }
    float r = 1.0f / fore_ref_fold(lane);
    for (size_t d = 0; d < D; d++) {
        float sum = 0.0f;
        for (int j = 0; j < keys; j++) sum = fmaf(p[j], a->v[(size_t)j * a->v_row + d], sum);
        o[d] = sum * r;
    }
}

void fore_ref_attend(const fore_attend *a) {
    for (int t = 0; t < a->T; t++)
        for (int g = 0; g < a->G; g++)
            attend_row(a, a->q + (size_t)t * a->q_row + (size_t)g * a->q_head,
                       a->o + (size_t)t * a->o_row + (size_t)g * a->o_head, a->causal ? a->first + t + 1 : a->keys);
}
