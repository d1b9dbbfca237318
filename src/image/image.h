/* Pixels: encoded bytes to RGB, RGB to the patches of the vision tower. Knows nothing of tokens or weights. */
#ifndef FORE_IMAGE_IMAGE_H
#define FORE_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

typedef struct fore_pixels {
    uint8_t *rgb; /* [height,width,3], owned (fore_pixels_free) */
    int width, height;
} fore_pixels;
void fore_pixels_free(fore_pixels *pixels);

/* Decodes JPEG, PNG or WebP (told by content) to RGB with the EXIF orientation applied; alpha is composited on white;
 * grey, palette, 16-bit and CMYK become RGB as Pillow's convert makes them; of an animation the first frame. Limits are
 * checked from the header, before memory is taken. `name` (may be NULL) names the picture in messages. */
fore_status fore_image_decode(const void *data, size_t size, const char *name, const fore_limits *limits, fore_pixels *out,
                              fore_error *err);

/* Settings of preprocessor_config.json, or of image_processor in processor_config.json, which wins. */
typedef struct fore_processor {
    int patch_size, temporal_patch_size, merge_size;
    int64_t min_pixels, max_pixels; /* areas */
    float mean[3], std[3];
    double rescale_factor;
    bool do_resize, do_rescale, do_normalize;
} fore_processor;
/* Whose settings they are, for what a folder leaves out. */
typedef struct fore_processor_family {
    bool qwen2_5;                                    /* Qwen2.5-VL; else Qwen3-VL and Qwen3.5 */
    int patch_size, temporal_patch_size, merge_size; /* of the vision tower */
} fore_processor_family;
/* Class defaults of Qwen2VLImageProcessor for missing keys. A folder with neither file gets the family's tower sizes and what its
 * published files say: Qwen2.5-VL the class's mean and std and 3136..12845056; the others mean and std 0.5 and 65536..16777216 (NULL:
 * these, with patches of 16). */
fore_status fore_processor_read(const char *dir, const fore_processor_family *family, fore_processor *out, fore_error *err);

/* The same from a parsed file; NULL: there is none. */
fore_status fore_processor_parse(const cJSON *settings, const fore_processor_family *family, fore_processor *out, fore_error *err);

/* Target size for height x width: multiples of factor, area within [min,max]; ratio above 200 is FORE_ERR_LIMIT. */
fore_status fore_smart_resize(int height, int width, int factor, int64_t min_pixels, int64_t max_pixels, int *out_height,
                              int *out_width, fore_error *err);
/* Bicubic with antialias on 8 bits, bit for bit torch's interpolate(mode="bicubic", antialias=True) on uint8. */
fore_status fore_image_resize(const fore_pixels *in, int height, int width, fore_pixels *out, fore_error *err);
/* The grid (t,h,w) in patches that fore_image_patches gives a picture of this size. */
fore_status fore_image_grid(const fore_processor *processor, int height, int width, const char *name,
                            int grid[3], fore_error *err);
/* pixel_values [P, 3*temporal*patch*patch] in merge order and the grid (t,h,w) in patches; *patches is owned (fore_free). */
fore_status fore_image_patches(const fore_processor *processor, const fore_pixels *pixels, const char *name, float **patches,
                               int grid[3], fore_error *err);

enum { FORE_DIGEST = 32 };
/* BLAKE2b of size and RGB bytes: the identity of a picture's content. */
void fore_pixels_digest(const fore_pixels *pixels, uint8_t digest[FORE_DIGEST]);
/* The same for a picture that was given as patches: its floats and its grid. */
void fore_patches_digest(const float *patches, size_t count, const int grid[3], uint8_t digest[FORE_DIGEST]);

#endif
