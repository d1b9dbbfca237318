/* The trunk's state; see state.h. */
#include "model/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

enum { ALIGN = FORE_ARENA_ALIGN };

/* *total += a*b*c*d floats, in bytes; false when it does not fit. */
static bool add_floats(size_t *total, size_t a, size_t b, size_t c, size_t d) {
    size_t n;
    return !__builtin_mul_overflow(a, b, &n) && !__builtin_mul_overflow(n, c, &n) && !__builtin_mul_overflow(n, d, &n) &&
           !__builtin_mul_overflow(n, sizeof(float), &n) && !__builtin_add_overflow(n, (size_t)ALIGN, &n) &&
           !__builtin_add_overflow(*total, n, total);
}

fore_status fore_state_plan(const fore_text_config *t, int capacity, size_t *kv_bytes, size_t *recurrent_bytes, fore_error *err) {
    size_t panels = ((size_t)capacity + FORE_LANES - 1) / FORE_LANES, heads = (size_t)t->num_key_value_heads, D = (size_t)t->head_dim;
    *kv_bytes = *recurrent_bytes = ALIGN;
    bool fits = true;
    for (int i = 0; i < t->num_hidden_layers; i++) {
        if (t->full_attention[i]) {
            fits = fits && add_floats(kv_bytes, heads, panels, D, FORE_LANES) && add_floats(kv_bytes, heads, (size_t)capacity, D, 1);
        } else {
            fits = fits &&
                   add_floats(recurrent_bytes, (size_t)t->linear_num_value_heads, (size_t)t->linear_key_head_dim,
                              (size_t)t->linear_value_head_dim, 1) &&
                   add_floats(recurrent_bytes, (size_t)t->linear_conv_kernel_dim - 1, fore_linear_channels(t), 1, 1);
        }
    }
    if (!fits) return fore_fail(err, FORE_ERR_LIMIT, "state: a context of %d tokens does not fit the address space", capacity);
    return FORE_OK;
}

fore_status fore_state_new(const fore_text_config *t, int capacity, fore_state *out, fore_error *err) {
    *out = (fore_state){.capacity = capacity};
    fore_status s = fore_state_plan(t, capacity, &out->kv_bytes, &out->recurrent_bytes, err);
    if (s) return s;
    out->layers = calloc((size_t)t->num_hidden_layers, sizeof *out->layers);
    out->kv_memory = calloc(1, out->kv_bytes);
    out->recurrent_memory = calloc(1, out->recurrent_bytes);
    if (!out->layers || !out->kv_memory || !out->recurrent_memory) {
        fore_state_free(out);
        return fore_fail(err, FORE_ERR_NOMEM, "out of memory: a context of %d tokens needs %zu MiB; ask for a smaller context", capacity,
                         (out->kv_bytes + out->recurrent_bytes) >> 20);
    }
    fore_pages_wish_large(out->kv_memory, out->kv_bytes);
    fore_pages_wish_large(out->recurrent_memory, out->recurrent_bytes);
    size_t panels = ((size_t)capacity + FORE_LANES - 1) / FORE_LANES, heads = (size_t)t->num_key_value_heads, D = (size_t)t->head_dim;
    char *kv = out->kv_memory, *recurrent = out->recurrent_memory;
    for (int i = 0; i < t->num_hidden_layers; i++) {
        fore_layer_state *l = &out->layers[i];
        if (t->full_attention[i]) {
            l->k = fore_carve(&kv, heads * panels * D * FORE_LANES);
            l->v = fore_carve(&kv, heads * (size_t)capacity * D);
        } else {
            l->S = fore_carve(&recurrent, (size_t)t->linear_num_value_heads * (size_t)t->linear_key_head_dim * (size_t)t->linear_value_head_dim);
            l->conv = fore_carve(&recurrent, ((size_t)t->linear_conv_kernel_dim - 1) * fore_linear_channels(t));
        }
    }
    return FORE_OK;
}

void fore_state_place(const fore_state *state, const fore_text_config *t, const fore_pool *pool) {
    size_t panels = ((size_t)state->capacity + FORE_LANES - 1) / FORE_LANES, D = (size_t)t->head_dim;
    size_t sizes = (size_t)t->linear_num_value_heads * (size_t)t->linear_key_head_dim * (size_t)t->linear_value_head_dim;
    for (int i = 0; i < t->num_hidden_layers; i++) {
        const fore_layer_state *l = &state->layers[i];
        if (t->full_attention[i]) {
            fore_pool_place(pool, l->k, panels * D * FORE_LANES * sizeof(float), t->num_key_value_heads);
            fore_pool_place(pool, l->v, (size_t)state->capacity * D * sizeof(float), t->num_key_value_heads);
        } else {
            fore_pool_place(pool, l->S, sizes / (size_t)t->linear_num_key_heads * sizeof(float), t->linear_num_key_heads);
        }
    }
}

void fore_state_free(fore_state *state) {
    free(state->layers);
    free(state->kv_memory);
    free(state->recurrent_memory);
    *state = (fore_state){0};
}

void fore_state_reset(fore_state *state) {
    /* Key/value rows past the length are never read, stale panel lanes are masked. */
    memset(state->recurrent_memory, 0, state->recurrent_bytes);
    state->length = 0;
}
