/* Where the bytes of a panel are (quant.h has the form): heads of scales and biases, and the weights of the groups that
 * each is for. */
#ifndef FORE_KERNELS_PANEL_LAYOUT_H
#define FORE_KERNELS_PANEL_LAYOUT_H

#include "kernels/kern.h"

enum {
    FORE_SUPER = 256, /* inputs that share a step of scales and one of biases, where these are products */
    FORE_STEPS = 64,  /* bytes of both steps */
};

typedef struct fore_panel_layout {
    fore_dtype dtype;
    size_t head, block; /* bytes of a head, and of a group's weights */
    unsigned shift;     /* a head is for 2^shift groups */
} fore_panel_layout;

/* Whether scales and biases are small whole numbers times steps. */
static inline bool fore_has_steps(fore_dtype dtype) { return dtype == FORE_DTYPE_U8 || dtype == FORE_DTYPE_I8; }

static inline fore_panel_layout fore_panel_layout_of(const fore_qweight *w) {
    fore_panel_layout l = {.dtype = w->dtype, .head = 64, .block = 2 * (size_t)w->bits * (size_t)w->group};
    if (w->dtype == FORE_DTYPE_F32) l.head = 128;
    else if (fore_has_steps(w->dtype)) l.head = 320, l.shift = w->dtype == FORE_DTYPE_U8 ? 3 : 4;
    return l;
}

/* Where the head and the weights of group g begin in their panel. */
static inline size_t fore_panel_head(const fore_panel_layout *l, size_t g) {
    return (g >> l->shift) * (l->head + (l->block << l->shift));
}
static inline size_t fore_panel_weights(const fore_panel_layout *l, size_t g) {
    return ((g >> l->shift) + 1) * l->head + g * l->block;
}
/* Which of its head's groups g is. */
static inline size_t fore_panel_place(const fore_panel_layout *l, size_t g) { return g & (((size_t)1 << l->shift) - 1); }
/* Bytes of so many groups, which are all of their heads. */
static inline size_t fore_panel_span(const fore_panel_layout *l, size_t groups) { return fore_panel_head(l, groups); }

#endif
