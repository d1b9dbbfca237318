/* RGB to the rows that the vision tower takes: resize, rescale and normalise in one step, cut into patches whose order
 * already groups the merge_size x merge_size neighbours that become one token; a still picture fills every frame of a patch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "image/formats.h"
#include "image/video.h"

enum { TEMPORAL_MAX = 64 }; /* frames of a patch */

/* value[c][v]: what byte v of channel c becomes. The reference folds the rescale into mean and std, each rounded to f32:
 * (v - mean/rescale) / (std/rescale). */
static void make_table(const fore_processor *p, float value[3][256]) {
    for (int c = 0; c < 3; c++) {
        float mean = p->mean[c], std = p->std[c];
        if (p->do_rescale) {
            float by = (float)(1 / p->rescale_factor);
            mean *= by;
            std *= by;
        }
        for (int v = 0; v < 256; v++) {
            float x = (float)v;
            if (p->do_normalize)
                x = (x - mean) / std;
            else if (p->do_rescale)
                x *= (float)p->rescale_factor;
            value[c][v] = x;
        }
    }
}

/* One patch of the frames [temporal], `at` bytes into each (its upper left pixel), into out [3,temporal,patch,patch]. */
static void cut_patch(const fore_processor *p, float value[3][256], const uint8_t *const *frames, size_t at, size_t stride, float *out) {
    size_t side = (size_t)p->patch_size, plane = side * side;
    for (size_t c = 0; c < 3; c++) {
        const float *before = out;
        for (int t = 0; t < p->temporal_patch_size; t++, out += plane) {
            const uint8_t *rgb = frames[t] + at;
            if (t && frames[t] == frames[t - 1]) {
                memcpy(out, before, plane * sizeof *out);
            } else {
                for (size_t y = 0; y < side; y++)
                    for (size_t x = 0; x < side; x++) out[y * side + x] = value[c][rgb[y * stride + 3 * x + c]];
            }
            before = out;
        }
    }
}

/* All patches of one time step of frames [temporal] of a size that divides into them. */
static fore_status cut_step(const fore_processor *p, const uint8_t *const *frames, int height, int width, float **patches, int grid[3],
                            fore_error *err) {
    size_t side = (size_t)p->patch_size, merge = (size_t)p->merge_size, stride = (size_t)width * 3;
    size_t rows = (size_t)height / side, columns = (size_t)width / side;
    size_t length = 3 * (size_t)p->temporal_patch_size * side * side; /* floats a patch, below 2^28 */
    if (rows * columns > (size_t)PTRDIFF_MAX / sizeof(float) / length || !(*patches = malloc(rows * columns * length * sizeof(float))))
        return fore_fail_nomem(err, "the patches of a picture");
    float value[3][256];
    make_table(p, value);
    float *out = *patches;
    for (size_t by = 0; by < rows; by += merge)
        for (size_t bx = 0; bx < columns; bx += merge)
            for (size_t y = by; y < by + merge; y++)
                for (size_t x = bx; x < bx + merge; x++, out += length) cut_patch(p, value, frames, y * side * stride + x * side * 3, stride, out);
    grid[0] = 1;
    grid[1] = (int)rows;
    grid[2] = (int)columns;
    return FORE_OK;
}

static fore_status check_settings(const fore_processor *p, const char *name, fore_error *err) {
    if (p->patch_size < 1 || p->patch_size > 1024 || p->merge_size < 1 || p->merge_size > 64 ||
        p->temporal_patch_size < 1 || p->temporal_patch_size > TEMPORAL_MAX)
        return fore_fail(err, FORE_ERR_INVALID, "%s: patches of %d pixels and %d time steps, merged by %d: out of range", name,
                         p->patch_size, p->temporal_patch_size, p->merge_size);
    return FORE_OK;
}

/* Sides after the resize: multiples of patch_size * merge_size. */
static fore_status target_size(const fore_processor *p, const char *name, int *height, int *width, fore_error *err) {
    fore_status s = check_settings(p, name, err);
    if (s) return s;
    int factor = p->patch_size * p->merge_size;
    if (p->do_resize) {
        s = fore_smart_resize(*height, *width, factor, p->min_pixels, p->max_pixels, height, width, err);
        return s ? fore_fail_prefix(err, s, "%s", name) : FORE_OK;
    }
    if (*height < 1 || *width < 1 || *height % factor || *width % factor)
        return fore_fail(err, FORE_ERR_INVALID,
                         "%s: %dx%d pixels: the checkpoint's processor does not resize (do_resize is false), so the sides "
                         "must be multiples of %d",
                         name, *width, *height, factor);
    return FORE_OK;
}

fore_status fore_image_grid(const fore_processor *p, int height, int width, const char *name, int grid[3], fore_error *err) {
    fore_status s = target_size(p, name ? name : "picture", &height, &width, err);
    if (s) return s;
    grid[0] = 1;
    grid[1] = height / p->patch_size;
    grid[2] = width / p->patch_size;
    return FORE_OK;
}

fore_status fore_image_patches(const fore_processor *p, const fore_pixels *pixels, const char *name, float **patches,
                               int grid[3], fore_error *err) {
    *patches = NULL;
    if (!name) name = "picture";
    int height = pixels->height, width = pixels->width;
    fore_pixels resized = {0};
    fore_status s = target_size(p, name, &height, &width, err);
    if (s) return s;
    if (height != pixels->height || width != pixels->width) {
        s = fore_image_resize(pixels, height, width, &resized, err);
        if (s) return fore_fail_prefix(err, s, "%s", name);
    }
    const uint8_t *frames[TEMPORAL_MAX];
    for (int t = 0; t < p->temporal_patch_size; t++) frames[t] = resized.rgb ? resized.rgb : pixels->rgb;
    s = cut_step(p, frames, height, width, patches, grid, err);
    fore_pixels_free(&resized);
    return s;
}

fore_status fore_video_patches(const fore_video_processor *video, const fore_frames *f, size_t step, float **patches, int grid[3],
                               fore_error *err) {
    *patches = NULL;
    const fore_processor *p = &video->frame;
    fore_status s = check_settings(p, "video", err);
    if (s) return s;
    const uint8_t *frames[TEMPORAL_MAX];
    for (int t = 0; t < p->temporal_patch_size; t++) {
        size_t i = step * (size_t)p->temporal_patch_size + (size_t)t;
        frames[t] = f->items[i < f->count ? i : f->count - 1].rgb; /* the last one fills its patch */
    }
    return cut_step(p, frames, f->items[0].height, f->items[0].width, patches, grid, err);
}
