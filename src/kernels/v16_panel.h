/* What every way of multiplying quantised panels shares (quant.h has their layout): sizes, scales and biases, spreading
 * packed panels, and sums on their way to y. Lanes are the 16 outputs of a panel; see v16.h. */
#ifndef FORE_KERNELS_V16_PANEL_H
#define FORE_KERNELS_V16_PANEL_H

#include <string.h>

#include "kernels/kern.h"

/* The forms of weights: packed with 4 or 8 bits, and spread from either into bytes. */
enum { V16_Q4, V16_Q8, V16_SPREAD4, V16_SPREAD8 };
enum {
    V16_MMQ_STEP = 32,         /* K of a step, which divides every group */
    V16_MMQ_HEAD = 64,         /* bytes of a packed group's scales and biases */
    V16_MMQ_SPREAD_HEAD = 128, /* the same, spread */
};

/* Bytes of one step of 16 outputs. */
FORE_INLINE size_t v16_mmq_step(const int form) {
    return form == V16_Q4 ? 16 * V16_MMQ_STEP / 2 : 16 * V16_MMQ_STEP;
}
FORE_INLINE size_t v16_mmq_head(const int form) {
    return form == V16_Q4 || form == V16_Q8 ? V16_MMQ_HEAD : V16_MMQ_SPREAD_HEAD;
}

/* Scales (which = 0) or biases (1) of a group's 16 outputs. */
FORE_INLINE v16 v16_mmq_affine(const int form, bool bf16, const unsigned char *head, const int which) {
    if (form == V16_SPREAD4 || form == V16_SPREAD8) return v16_load_f32(head + 64 * which);
    return bf16 ? v16_load_bf16(head + 32 * which) : v16_load_f16(head + 32 * which);
}

/* A tile's sums to R rows of y, the last panel with `last` outputs. */
FORE_INLINE void v16_mmq_finish(const int B, float *y, size_t ldy, size_t last, const float *acc, size_t R) {
    for (size_t r = 0; r < R; r++, y += ldy) FORE_UNROLL for (int b = 0; b < B; b++, acc += 16) {
            if (b == B - 1 && last < 16)
                v16_store_n(y + 16 * b, v16_load(acc), last);
            else
                v16_store(y + 16 * b, v16_load(acc));
        }
}

FORE_INLINE fore_qrows v16_mmq_from(const fore_qrows *x, size_t t, size_t k, size_t group) {
    size_t at = t * x->groups + k / group;
    return (fore_qrows){x->q + t * x->row + k, x->scale + at, x->sum + at, x->row, x->groups};
}

/* One packed panel's groups to spread ones. */
FORE_INLINE void v16_mmq_spread(const int form, unsigned char *to, const unsigned char *w, size_t groups, size_t group,
                                bool bf16) {
    for (size_t g = 0; g < groups; g++) {
        v16 scale = v16_mmq_affine(form, bf16, w, 0), bias = v16_mmq_affine(form, bf16, w, 1);
        memcpy(to, &scale, sizeof scale);
        memcpy(to + 64, &bias, sizeof bias);
        to += V16_MMQ_SPREAD_HEAD, w += V16_MMQ_HEAD;
        if (form == V16_Q4) {
            for (size_t k = 0; k < group; k += 8, to += 128, w += 64) {
                v16b both = v16b_load(w);
                v16b_store(to, v16b_low(both));
                v16b_store(to + 64, v16b_high(both));
            }
        } else {
            memcpy(to, w, 16 * group);
            to += 16 * group, w += 16 * group;
        }
    }
}

#endif
