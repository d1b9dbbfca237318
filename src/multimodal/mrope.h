/* M-RoPE positions: a pure function of ids and grids, recomputed for each request and never stored with cached state.
 * Reference: transformers modeling_qwen3_5.py, get_rope_index; modeling_qwen2_5_vl.py for absolute time. */
#ifndef FORE_MULTIMODAL_MROPE_H
#define FORE_MULTIMODAL_MROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* What a grid is to a video whose temporal patches share one block, in families with fore_vision_config.tokens_per_second. */
typedef struct fore_mrope_time {
    bool timed;     /* false: no such video's; a block of its own */
    int step;       /* which temporal patch of the video the grid begins with; above 0 it goes on with the block of the grid before */
    float interval; /* positions from one temporal patch to the next, >= 0: tokens_per_second times the seconds of one */
} fore_mrope_time;

/* table [3,n] (axes t, h, w, one after the other), filled; *delta: token i >= n has position i + *delta on all axes.
 * Text advances all axes by one; a block of t x h/merge x w/merge image tokens takes next + (t,h,w), and next advances by
 * max(t, h/merge, w/merge). Two pad runs may touch: the grid says where one ends. grids [grid_count][3] in patches, in the order of
 * the prompt: one a picture (image pads), and one 1 x h x w for each temporal patch of a video (video pads), which timestamps part.
 * Refused, each with its own message (the table is never guessed): pads without a grid, a grid without pads, a run shorter
 * than its block, h or w not a multiple of merge, a grid that is not positive or overflows. times [grid_count] or NULL: a timed
 * grid takes next + (floor(step * interval), h, w), and next advances by max(h/merge, w/merge), so that what follows may stand
 * before the video's last time; *delta then counts from the largest position of all. */
fore_status fore_mrope_positions(const int32_t *ids, size_t n, int32_t image_token_id, int32_t video_token_id, const int (*grids)[3],
                                 size_t grid_count, const fore_mrope_time *times, int merge, int32_t *table, int32_t *delta,
                                 fore_error *err);

#endif
