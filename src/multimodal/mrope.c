/* M-RoPE positions; see mrope.h. */
#include "multimodal/mrope.h"

#include <limits.h>
#include <string.h>

/* The block of a grid in merged patches; FORE_ERR_INVALID names the picture. */
static fore_status block_of(const int grid[3], size_t index, int merge, int block[3], fore_error *err) {
    if (grid[0] < 1 || grid[1] < 1 || grid[2] < 1)
        return fore_fail(err, FORE_ERR_INVALID, "mrope: picture %zu: grid %dx%dx%d is not positive", index + 1, grid[0], grid[1], grid[2]);
    if (merge < 1 || grid[1] % merge || grid[2] % merge)
        return fore_fail(err, FORE_ERR_INVALID, "mrope: picture %zu: grid %dx%dx%d does not divide by the merge size %d", index + 1, grid[0],
                         grid[1], grid[2], merge);
    block[0] = grid[0];
    block[1] = grid[1] / merge;
    block[2] = grid[2] / merge;
    if ((int64_t)block[1] * block[2] > INT32_MAX / block[0])
        return fore_fail(err, FORE_ERR_LIMIT, "mrope: picture %zu: grid %dx%dx%d overflows", index + 1, grid[0], grid[1], grid[2]);
    return FORE_OK;
}

/* What temporal patch t of a grid adds to the time axis; at most INT32_MAX. */
static int64_t time_of(const fore_mrope_time *time, int t) {
    if (!time->timed) return t;
    float at = ((float)time->step + (float)t) * time->interval;
    return at >= 0 && at < (float)INT32_MAX ? (int64_t)at : INT32_MAX;
}

/* Positions of the tokens of a block from token `at` on. */
static void fill_block(int32_t *const axis[3], size_t at, int64_t start, const int block[3], const fore_mrope_time *time) {
    for (int t = 0; t < block[0]; t++)
        for (int h = 0; h < block[1]; h++)
            for (int w = 0; w < block[2]; w++, at++) {
                axis[0][at] = (int32_t)(start + time_of(time, t));
                axis[1][at] = (int32_t)(start + h);
                axis[2][at] = (int32_t)(start + w);
            }
}

fore_status fore_mrope_positions(const int32_t *ids, size_t n, int32_t image_token_id, int32_t video_token_id, const int (*grids)[3],
                                 size_t grid_count, const fore_mrope_time *times, int merge, int32_t *table, int32_t *delta,
                                 fore_error *err) {
    if (n > INT32_MAX) return fore_fail(err, FORE_ERR_LIMIT, "mrope: %zu tokens are more than positions can count", n);
    int32_t *axis[3] = {table, table + n, table + 2 * n};
    int64_t next = 0, top = 0, start = 0; /* top: above every position; start: of the block at hand */
    size_t image = 0, i = 0;
    while (i < n) {
        int32_t pad = ids[i];
        if (pad < 0 || (pad != image_token_id && pad != video_token_id)) {
            for (int a = 0; a < 3; a++) axis[a][i] = (int32_t)next;
            next++;
            if (next > top) top = next;
            i++;
            continue;
        }
        if (image == grid_count)
            return fore_fail(err, FORE_ERR_INVALID, "mrope: %s pad at token %zu has no picture (%zu given)", pad == image_token_id ? "an image" : "a video", i,
                             grid_count);
        int block[3] = {0};
        fore_status s = block_of(grids[image], image, merge, block, err);
        if (s) return s;
        size_t want = (size_t)block[0] * (size_t)block[1] * (size_t)block[2], run = 0;
        while (run < want && i + run < n && ids[i + run] == pad) run++;
        if (run < want)
            return fore_fail(err, FORE_ERR_INVALID, "mrope: picture %zu needs %zu pads, the prompt has %zu there (token %zu)", image + 1, want, run, i);
        const fore_mrope_time time = times ? times[image] : (fore_mrope_time){0};
        bool goes_on = time.timed && time.step > 0;
        if (goes_on && (!image || !i || ids[i - 1] != pad || memcmp(grids[image] + 1, grids[image - 1] + 1, 2 * sizeof(int))))
            return fore_fail(err, FORE_ERR_INVALID, "mrope: grid %zu goes on with a video, which the one before it does not end with", image + 1);
        int64_t advance = time.timed ? 0 : block[0], last = time_of(&time, block[0] - 1);
        for (int a = 1; a < 3; a++)
            if (block[a] > advance) advance = block[a];
        if (!goes_on) start = next;
        if (start + advance > INT32_MAX || start + last >= INT32_MAX)
            return fore_fail(err, FORE_ERR_LIMIT, "mrope: positions overflow at token %zu", i);
        fill_block(axis, i, start, block, &time);
        i += want;
        if (!goes_on) next += advance;
        if (next > top) top = next;
        if (start + last >= top) top = start + last + 1;
        image++;
    }
    if (image < grid_count)
        return fore_fail(err, FORE_ERR_INVALID, "mrope: picture %zu of %zu has no pads in the prompt", image + 1, grid_count);
    *delta = (int32_t)(top - (int64_t)n);
    return FORE_OK;
}
