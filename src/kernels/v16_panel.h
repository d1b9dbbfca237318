/* What every way of multiplying quantised panels shares (quant.h has their layout): sizes, scales and biases, spreading
 * packed panels, and sums on their way to y. Lanes are the 16 outputs of a panel; see v16.h. */
#ifndef FORE_KERNELS_V16_PANEL_H
#define FORE_KERNELS_V16_PANEL_H

#include <string.h>

#include "kernels/panel_layout.h"

/* The forms of weights: packed with 4 or 8 bits, and spread from either into bytes with scales and biases in f32; narrow:
 * 8 bits in groups of 16, half a step. */
enum { V16_Q4, V16_Q8, V16_NARROW8, V16_SPREAD4, V16_SPREAD8, V16_SPREAD_NARROW };
enum {
    V16_MMQ_STEP = 32,         /* K of a step, which divides every group but the narrow ones */
    V16_MMQ_SPREAD_HEAD = 128, /* bytes of a spread group's scales and biases */
    V16_MMQ_LEAST_GROUP = 16,
};

FORE_INLINE bool v16_mmq_is_spread(const int form) { return form >= V16_SPREAD4; }
/* What a packed form is spread into. */
FORE_INLINE int v16_mmq_spread_form(const int form) { return form + V16_SPREAD4 - V16_Q4; }
/* Whether weights may be larger than 15. */
FORE_INLINE bool v16_mmq_is_wide(const int form) { return form != V16_Q4 && form != V16_SPREAD4; }
/* K of a step. */
FORE_INLINE size_t v16_mmq_deep(const int form) {
    return form == V16_NARROW8 || form == V16_SPREAD_NARROW ? V16_MMQ_STEP / 2 : V16_MMQ_STEP;
}
/* Bytes of one step of 16 outputs. */
FORE_INLINE size_t v16_mmq_step(const int form) { return 16 * v16_mmq_deep(form) / (form == V16_Q4 ? 2 : 1); }

/* That of spread panels, as far as it does not depend on the group. */
static const fore_panel_layout v16_mmq_spread_layout = {.dtype = FORE_DTYPE_F32, .head = V16_MMQ_SPREAD_HEAD};

/* Scales and biases of B panels' outputs, whose heads are `panel` bytes apart, for group `place` of the head. */
FORE_INLINE void v16_mmq_affine(const int form, const int B, v16 *scale, v16 *bias, const fore_panel_layout *l,
                                const unsigned char *head, size_t panel, size_t place) {
    const fore_dtype dtype = v16_mmq_is_spread(form) ? FORE_DTYPE_F32 : l->dtype;
    if (dtype == FORE_DTYPE_BF16) {
        FORE_UNROLL for (int b = 0; b < B; b++, head += panel)
            scale[b] = v16_load_bf16(head), bias[b] = v16_load_bf16(head + 32);
    } else if (dtype == FORE_DTYPE_F16) {
        FORE_UNROLL for (int b = 0; b < B; b++, head += panel)
            scale[b] = v16_load_f16(head), bias[b] = v16_load_f16(head + 32);
    } else if (dtype == FORE_DTYPE_F32) {
        FORE_UNROLL for (int b = 0; b < B; b++, head += panel)
            scale[b] = v16_load_f32(head), bias[b] = v16_load_f32(head + 64);
    } else if (dtype == FORE_DTYPE_U8) {
        FORE_UNROLL for (int b = 0; b < B; b++, head += panel) {
            const unsigned char *u = head + FORE_STEPS + 16 * place, *v = u + ((size_t)16 << l->shift);
            scale[b] = v16_mul(v16_load_f16(head), v16_load_u8(u));
            bias[b] = v16_mul(v16_load_f16(head + 32), v16_load_u8(v));
        }
    } else {
        FORE_UNROLL for (int b = 0; b < B; b++, head += panel) {
            v16 u = v16_load_i8(head + FORE_STEPS + 16 * place);
            scale[b] = v16_mul(v16_load_f16(head), u);
            bias[b] = v16_mul(v16_load_f16(head + 32), u);
        }
    }
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

/* One packed panel's groups to spread ones; w begins with a head. */
FORE_INLINE void v16_mmq_spread(const int form, unsigned char *to, const unsigned char *w, size_t groups, size_t group,
                                const fore_panel_layout *l) {
    for (size_t g = 0; g < groups; g++) {
        v16 scale, bias;
        v16_mmq_affine(form, 1, &scale, &bias, l, w + fore_panel_head(l, g), 0, fore_panel_place(l, g));
        memcpy(to, &scale, sizeof scale);
        memcpy(to + 64, &bias, sizeof bias);
        to += V16_MMQ_SPREAD_HEAD;
        const unsigned char *from = w + fore_panel_weights(l, g);
        if (form == V16_Q4) {
            for (size_t k = 0; k < group; k += 8, to += 128, from += 64) {
                v16b both = v16b_load(from);
                v16b_store(to, v16b_low(both));
                v16b_store(to + 64, v16b_high(both));
            }
        } else {
            memcpy(to, from, 16 * group);
            to += 16 * group;
        }
    }
}

#endif
