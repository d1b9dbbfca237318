/* Pixel memory: taking it, freeing it, turning it as an EXIF orientation says. */
#include <stdlib.h>
#include <string.h>

#include "image/formats.h"

void fore_pixels_free(fore_pixels *pixels) {
    free(pixels->rgb);
    *pixels = (fore_pixels){0};
}

fore_status fore_pixels_new(int width, int height, fore_pixels *out, fore_error *err) {
    *out = (fore_pixels){0};
    if (width < 1 || height < 1)
        return fore_fail(err, FORE_ERR_INVALID, "image: %dx%d pixels: expected at least 1x1", width, height);
    size_t w = (size_t)width, h = (size_t)height;
    if (w > (size_t)PTRDIFF_MAX / 3 / h) return fore_fail_nomem(err, "the pixels of a picture");
    uint8_t *rgb = malloc(w * h * 3);
    if (!rgb) return fore_fail_nomem(err, "the pixels of a picture");
    *out = (fore_pixels){.rgb = rgb, .width = width, .height = height};
    return FORE_OK;
}

/* Pixels are copied in blocks of this side, so that turning by 90 degrees stays within the cache. */
enum { BLOCK = 32 };

fore_status fore_pixels_orient(fore_pixels *pixels, int orientation, fore_error *err) {
    if (orientation < 2 || orientation > 8) return FORE_OK;
    bool transposed = orientation >= 5;
    /* Where the output's column x and row y look in the input: mirrored when these are set. */
    bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    int w = pixels->width, h = pixels->height;
    fore_pixels turned;
    fore_status s = fore_pixels_new(transposed ? h : w, transposed ? w : h, &turned, err);
    if (s) return s;
    for (int y0 = 0; y0 < turned.height; y0 += BLOCK)
        for (int x0 = 0; x0 < turned.width; x0 += BLOCK)
            for (int y = y0; y < turned.height && y < y0 + BLOCK; y++)
                for (int x = x0; x < turned.width && x < x0 + BLOCK; x++) {
                    int sx = transposed ? y : x, sy = transposed ? x : y;
                    if (flip_x) sx = w - 1 - sx;
                    if (flip_y) sy = h - 1 - sy;
                    memcpy(turned.rgb + ((size_t)y * (size_t)turned.width + (size_t)x) * 3,
                           pixels->rgb + ((size_t)sy * (size_t)w + (size_t)sx) * 3, 3);
                }
    free(pixels->rgb);
    *pixels = turned;
    return FORE_OK;
}
