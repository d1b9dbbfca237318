/* What a sequence leaves behind in the trunk: key/value rows of the full-attention layers, recurrent and convolution state
 * of the linear ones. Keys lie in panels of 16 positions (see fore_attend), so that lanes of a kernel are positions. */
#ifndef FORE_MODEL_STATE_H
#define FORE_MODEL_STATE_H

#include "base/pool.h"
#include "model/weights.h"

typedef struct fore_layer_state {
    float *k;    /* full: [K, ceil(capacity/16), D, 16], after norm and rope */
    float *v;    /* full: [K, capacity, D] */
    float *S;    /* linear: [nv, dk, dv] */
    float *conv; /* linear: [kernel-1, channels] raw inputs of the convolution, oldest first */
} fore_layer_state;

typedef struct fore_state {
    int length;   /* tokens that it has seen */
    int capacity; /* tokens that its key/value rows can hold */
    fore_layer_state *layers; /* owned */
    void *kv_memory, *recurrent_memory; /* owned */
    size_t kv_bytes, recurrent_bytes;
} fore_state;

/* Bytes for a capacity; FORE_ERR_LIMIT when the product does not fit. */
fore_status fore_state_plan(const fore_text_config *text, int capacity, size_t *kv_bytes, size_t *recurrent_bytes, fore_error *err);
/* Pages of the key/value rows are touched only when they are written. */
fore_status fore_state_new(const fore_text_config *text, int capacity, fore_state *out, fore_error *err);
/* Puts each head's rows and recurrent state near the threads that the pool will give the head to; before anything is fed. */
void fore_state_place(const fore_state *state, const fore_text_config *text, const fore_pool *pool);
void fore_state_free(fore_state *state);
/* Back to the empty sequence. */
void fore_state_reset(fore_state *state);

/* Element (head, position, channel) of a layer's keys. */
static inline size_t fore_state_key_at(const fore_state *s, int D, int head, int position, int d) {
    size_t panels = ((size_t)s->capacity + FORE_LANES - 1) / FORE_LANES;
    return (((size_t)head * panels + (size_t)position / FORE_LANES) * (size_t)D + (size_t)d) * FORE_LANES + (size_t)position % FORE_LANES;
}

#endif
