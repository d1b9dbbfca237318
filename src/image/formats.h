/* What the files of this room share: an encoded picture with its limits, one decoder a format, pixel helpers. A decoder
 * gives upright-or-not RGB and the EXIF orientation; decode.c turns it. All follow what Pillow gives for the same file
 * (image mode, then convert("RGB"), or convert("RGBA") composited on white where the file has transparency). */
#ifndef FORE_IMAGE_FORMATS_H
#define FORE_IMAGE_FORMATS_H

#include "image/image.h"

typedef struct fore_encoded {
    const uint8_t *data; /* borrowed */
    size_t size;
    const char *name; /* for messages, never NULL */
    const fore_limits *limits;
} fore_encoded;

/* On failure nothing is left in *out. *orientation: as fore_exif_orientation gives it. */
fore_status fore_jpeg_decode(const fore_encoded *in, fore_pixels *out, int *orientation, fore_error *err);
fore_status fore_png_decode(const fore_encoded *in, fore_pixels *out, int *orientation, fore_error *err);
fore_status fore_webp_decode(const fore_encoded *in, fore_pixels *out, int *orientation, fore_error *err);

/* Checks the size that a header announces: FORE_ERR_FORMAT when a side is 0, FORE_ERR_LIMIT when it is beyond limits. */
fore_status fore_encoded_check(const fore_encoded *in, uint64_t width, uint64_t height, fore_error *err);

/* Memory for width x height pixels, not cleared. FORE_ERR_NOMEM also when the size does not fit in memory at all. */
fore_status fore_pixels_new(int width, int height, fore_pixels *out, fore_error *err);

/* Value of the orientation tag of an EXIF block, with or without "Exif\0\0" before its TIFF header; -1 when there is none. */
int fore_exif_orientation(const uint8_t *data, size_t size);
/* The same of an XMP packet, which counts only where EXIF says nothing. */
int fore_xmp_orientation(const uint8_t *data, size_t size);
/* Turns the pixels as the orientation says (values other than 2 to 8: not at all); on failure they are as before. */
fore_status fore_pixels_orient(fore_pixels *pixels, int orientation, fore_error *err);

/* value of opacity alpha over white, rounded as Pillow's alpha_composite rounds. */
static inline uint8_t fore_over_white(uint8_t value, uint8_t alpha) {
    uint32_t front = (uint32_t)alpha * 128u, back = 255u * 128u - front;
    uint32_t sum = value * front + 255u * back + (0x80u << 7);
    return (uint8_t)(((sum >> 8) + sum) >> 15);
}

#endif
