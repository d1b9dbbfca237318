/* The windows of a vision tower; see tower_windows.h. */
#include "model/tower_windows.h"

#include <stdlib.h>

#include "kernels/kern.h"

/* One window of `keys` patches from row `start` on: its spans and the places of its keys. */
static void add_window(fore_windows *w, int start, int keys, int most) {
    for (int i = 0; i < keys; i++) w->key_at[start + i] = w->panels * FORE_LANES + i;
    for (int i = 0; i < keys; i += most)
        w->spans[w->count++] = (fore_span){start + i, keys - i < most ? keys - i : most, start, keys, w->panels};
    w->panels += (keys + FORE_LANES - 1) / FORE_LANES;
}

fore_status fore_windows_make(const fore_vision_config *v, int h, int w, int most, fore_windows *out, fore_error *err) {
    *out = (fore_windows){0};
    int merge = v->spatial_merge_size, unit = merge * merge, down = h / merge, across = w / merge;
    int side = v->window_size / merge / v->patch_size; /* merged patches; a window at the edge has fewer */
    size_t merged = (size_t)down * (size_t)across, patches = merged * (size_t)unit;
    /* A window has a merged patch at least, and all but its last span are full. */
    size_t spans = merged + patches / (size_t)most;
    out->memory = malloc((merged + patches) * sizeof(int) + spans * sizeof(fore_span));
    if (!out->memory) return fore_fail_nomem(err, "the windows of a picture");
    out->spans = out->memory;
    out->order = (int *)(out->spans + spans);
    out->key_at = out->order + merged;
    int place = 0;
    for (int top = 0; top < down; top += side)
        for (int left = 0; left < across; left += side) {
            int start = place;
            for (int y = top; y < down && y - top < side; y++)
                for (int x = left; x < across && x - left < side; x++) out->order[place++] = y * across + x;
            add_window(out, start * unit, (place - start) * unit, most);
        }
    return FORE_OK;
}

void fore_windows_free(fore_windows *windows) {
    free(windows->memory);
    *windows = (fore_windows){0};
}
