/* The memory of a window under verification; see trunk.h. */
#include <stdlib.h>

#include "base/pages.h"
#include "model/trunk.h"

fore_status fore_window_plan(const fore_text_config *t, int rows, size_t *bytes, fore_error *err) {
    size_t nv = (size_t)t->linear_num_value_heads, per_row = 2 * fore_linear_channels(t) + 2 * nv, linear = 0, total;
    for (int i = 0; i < t->num_hidden_layers; i++) linear += !t->full_attention[i];
    if (__builtin_mul_overflow(linear, per_row, &total) ||
        __builtin_add_overflow(total, nv * (size_t)t->linear_value_head_dim, &total) ||
        __builtin_mul_overflow(total, (size_t)rows * sizeof(float), &total) ||
        __builtin_add_overflow(total, (linear * 4 + 1) * FORE_ARENA_ALIGN, &total))
        return fore_fail(err, FORE_ERR_LIMIT, "window: %d rows do not fit the address space", rows);
    *bytes = total;
    return FORE_OK;
}

fore_status fore_window_new(const fore_text_config *t, int rows, fore_window *out, fore_error *err) {
    *out = (fore_window){.rows = rows};
    fore_status s = fore_window_plan(t, rows, &out->bytes, err);
    if (s) return s;
    out->layers = calloc((size_t)t->num_hidden_layers, sizeof *out->layers);
    out->memory = calloc(1, out->bytes);
    if (!out->layers || !out->memory) {
        fore_window_free(out);
        return fore_fail_nomem(err, "the memory of a window");
    }
    fore_pages_wish_large(out->memory, out->bytes);
    char *at = out->memory;
    size_t n = (size_t)rows, nv = (size_t)t->linear_num_value_heads;
    for (int i = 0; i < t->num_hidden_layers; i++) {
        if (t->full_attention[i]) continue;
        out->layers[i].u = fore_carve(&at, n * fore_linear_channels(t));
        out->layers[i].c = fore_carve(&at, n * fore_linear_channels(t));
        out->layers[i].beta = fore_carve(&at, n * nv);
        out->layers[i].decay = fore_carve(&at, n * nv);
    }
    out->spare = fore_carve(&at, n * nv * (size_t)t->linear_value_head_dim);
    return FORE_OK;
}

void fore_window_free(fore_window *window) {
    free(window->layers);
    free(window->memory);
    *window = (fore_window){0};
}
