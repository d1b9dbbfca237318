/* The windows of a vision tower whose blocks look at parts of a frame (Qwen2.5-VL): which patches share a window, and the order
 * that puts them side by side. A matter of the grid alone. Reference: transformers vision_utils.py, get_vision_window_index. */
#ifndef FORE_MODEL_TOWER_WINDOWS_H
#define FORE_MODEL_TOWER_WINDOWS_H

#include "checkpoint/config.h"

/* Queries that share their keys. Rows of a frame, in the windows' order. */
typedef struct fore_span {
    int first, rows; /* queries */
    int start, keys; /* rows of the keys and values */
    int panel;       /* where the keys begin, in panels of FORE_LANES */
} fore_span;

typedef struct fore_windows {
    int *order;       /* [h*w/merge^2] the merged patch of the frame that stands at each place */
    int *key_at;      /* [h*w] where a patch's key lies: panels begin anew with every window */
    fore_span *spans; /* [count] of a frame */
    int count, panels; /* panels: of all windows of a frame */
    void *memory;     /* owned */
} fore_windows;

/* h, w: patches of a frame, multiples of the merge size. A span has at most `most` queries. Release with fore_windows_free. */
fore_status fore_windows_make(const fore_vision_config *vision, int h, int w, int most, fore_windows *out, fore_error *err);
void fore_windows_free(fore_windows *windows);

#endif
