/* PNG through libpng, which undoes compression, filters and interlace; the samples come raw and become RGB here, because
 * Pillow's conversions are its own: 16 bits keep the high byte, except grey, which is cut off at 255; a transparency key
 * is compared by its low byte with the converted sample; palette entries beyond the end are black. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "image/formats.h"

typedef struct reader {
    png_structp png;
    png_infop info;
    jmp_buf escape;
    const fore_encoded *in;
    size_t at; /* bytes handed to the library */
    int color, depth;
    uint8_t palette[256][3]; /* composited */
    bool has_key;
    uint8_t key[3]; /* this colour is transparent */
    uint8_t *raw;   /* one row, or the whole picture when interlaced */
    png_bytep *rows;
    fore_pixels pixels;
    int orientation;
    bool no_memory, truncated;
    fore_status status;
    fore_error *err;
} reader;

static void on_error(png_structp png, png_const_charp text) {
    reader *r = png_get_error_ptr(png);
    if (r->no_memory)
        r->status = fore_fail_nomem(r->err, "the decoder of a PNG picture");
    else if (r->truncated)
        r->status = fore_fail(r->err, FORE_ERR_FORMAT, "%s: the PNG file is truncated: more is expected after byte %zu",
                              r->in->name, r->in->size);
    else
        r->status = fore_fail(r->err, FORE_ERR_FORMAT, "%s: broken PNG: %s", r->in->name, text);
    longjmp(r->escape, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static void on_read(png_structp png, png_bytep out, size_t size) {
    reader *r = png_get_io_ptr(png);
    if (size > r->in->size - r->at) {
        r->truncated = true;
        png_error(png, "truncated");
    }
    memcpy(out, r->in->data + r->at, size);
    r->at += size;
}

static png_voidp on_alloc(png_structp png, png_alloc_size_t size) {
    reader *r = png_get_mem_ptr(png);
    void *p = malloc(size);
    if (!p) r->no_memory = true;
    return p;
}

static void on_free(png_structp png, png_voidp p) {
    (void)png;
    free(p);
}

static uint32_t be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The orientation in an iTXt chunk that holds an XMP packet; not when it is compressed. */
static int text_orientation(const uint8_t *text, size_t size) {
    static const char xmp[] = "XML:com.adobe.xmp"; /* its NUL ends the keyword; flag 0: not compressed */
    if (size <= sizeof xmp || memcmp(text, xmp, sizeof xmp) != 0 || text[sizeof xmp]) return -1;
    return fore_xmp_orientation(text + sizeof xmp, size - sizeof xmp);
}

/* From the last eXIf chunk, else from XMP; wherever they stand, before or after the picture. */
static void read_orientation(reader *r) {
    const uint8_t *data = r->in->data;
    size_t size = r->in->size, at = 8;
    int from_exif = -1, from_xmp = -1;
    while (size - at >= 12) {
        size_t length = be32(data + at);
        if (length > size - at - 12) break;
        if (!memcmp(data + at + 4, "eXIf", 4)) from_exif = fore_exif_orientation(data + at + 8, length);
        if (!memcmp(data + at + 4, "iTXt", 4) && from_xmp < 0) from_xmp = text_orientation(data + at + 8, length);
        at += length + 12;
    }
    r->orientation = from_exif >= 0 ? from_exif : from_xmp;
}

static void read_transparency(reader *r) {
    png_colorp colors = NULL;
    png_bytep alpha = NULL;
    png_color_16p key = NULL;
    int count = 0, alphas = 0;
    if (r->color == PNG_COLOR_TYPE_PALETTE) png_get_PLTE(r->png, r->info, &colors, &count);
    bool transparent = png_get_tRNS(r->png, r->info, &alpha, &alphas, &key) & PNG_INFO_tRNS;
    for (int i = 0; i < count && i < 256; i++) {
        uint8_t a = transparent && alpha && i < alphas ? alpha[i] : 255;
        r->palette[i][0] = fore_over_white(colors[i].red, a);
        r->palette[i][1] = fore_over_white(colors[i].green, a);
        r->palette[i][2] = fore_over_white(colors[i].blue, a);
    }
    if (!transparent || !key) return;
    r->has_key = r->color == PNG_COLOR_TYPE_GRAY || r->color == PNG_COLOR_TYPE_RGB;
    if (r->color == PNG_COLOR_TYPE_RGB) {
        r->key[0] = (uint8_t)key->red;
        r->key[1] = (uint8_t)key->green;
        r->key[2] = (uint8_t)key->blue;
    } else {
        uint8_t v = r->depth == 1 ? (key->gray ? 255 : 0) : (uint8_t)key->gray;
        memset(r->key, v, 3);
    }
}

/* Sample x of a row of 1, 2, 4 or 8 bits. */
static uint32_t packed_sample(const uint8_t *raw, size_t x, int depth) {
    size_t bit = x * (size_t)depth, below = 8 - (size_t)depth - (bit & 7);
    return (uint32_t)raw[bit >> 3] >> below & ((1u << depth) - 1);
}

static void convert_row(const reader *r, const uint8_t *raw, uint8_t *rgb) {
    size_t width = (size_t)r->pixels.width, wide = r->depth == 16 ? 2 : 1; /* bytes a sample; the high one is first */
    switch (r->color) {
    case PNG_COLOR_TYPE_PALETTE:
        for (size_t x = 0; x < width; x++) memcpy(rgb + 3 * x, r->palette[packed_sample(raw, x, r->depth)], 3);
        return;
    case PNG_COLOR_TYPE_GRAY:
        for (size_t x = 0; x < width; x++) {
            uint32_t v = r->depth == 16 ? (raw[2 * x] ? 255u : raw[2 * x + 1])
                                        : packed_sample(raw, x, r->depth) * (255u / ((1u << r->depth) - 1));
            memset(rgb + 3 * x, (int)v, 3);
        }
        break;
    case PNG_COLOR_TYPE_RGB:
        if (wide == 1) memcpy(rgb, raw, 3 * width);
        for (size_t i = 0; wide == 2 && i < 3 * width; i++) rgb[i] = raw[2 * i];
        break;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        for (size_t x = 0; x < width; x++, raw += 2 * wide) memset(rgb + 3 * x, fore_over_white(raw[0], raw[wide]), 3);
        return;
    default: /* RGB and alpha */
        for (size_t x = 0; x < width; x++, raw += 4 * wide)
            for (size_t c = 0; c < 3; c++) rgb[3 * x + c] = fore_over_white(raw[c * wide], raw[3 * wide]);
        return;
    }
    for (size_t x = 0; r->has_key && x < width; x++)
        if (!memcmp(rgb + 3 * x, r->key, 3)) memset(rgb + 3 * x, 255, 3);
}

static fore_status read_rows(reader *r) {
    size_t row = png_get_rowbytes(r->png, r->info), height = (size_t)r->pixels.height, width = (size_t)r->pixels.width;
    bool interlaced = png_get_interlace_type(r->png, r->info) != PNG_INTERLACE_NONE;
    size_t kept = interlaced ? height : 1;
    if (row > (size_t)PTRDIFF_MAX / kept || !(r->raw = calloc(kept, row)))
        return fore_fail_nomem(r->err, "the raw rows of a PNG picture");
    if (!interlaced) {
        for (size_t y = 0; y < height; y++) {
            png_read_row(r->png, r->raw, NULL);
            convert_row(r, r->raw, r->pixels.rgb + y * width * 3);
        }
        return FORE_OK;
    }
    r->rows = malloc(height * sizeof *r->rows);
    if (!r->rows) return fore_fail_nomem(r->err, "the rows of a PNG picture");
    for (size_t y = 0; y < height; y++) r->rows[y] = r->raw + y * row;
    png_read_image(r->png, r->rows);
    for (size_t y = 0; y < height; y++) convert_row(r, r->rows[y], r->pixels.rgb + y * width * 3);
    return FORE_OK;
}

static fore_status read_picture(reader *r) {
    const fore_encoded *in = r->in;
    if (in->size < 33) { /* signature and header chunk */
        r->truncated = true;
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: the PNG file is truncated: %zu bytes, its header takes 33", in->name,
                         in->size);
    }
    /* Before the library sees it, so that a size beyond the limits is named as such. */
    if (!memcmp(in->data + 12, "IHDR", 4)) {
        fore_status s = fore_encoded_check(in, be32(in->data + 16), be32(in->data + 20), r->err);
        if (s) return s;
    }
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, on_error, on_warning, r, on_alloc, on_free);
    if (!r->png) return fore_fail_nomem(r->err, "the decoder of a PNG picture");
    r->info = png_create_info_struct(r->png);
    if (!r->info) return fore_fail_nomem(r->err, "the decoder of a PNG picture");
    png_set_read_fn(r->png, r, on_read);
    png_set_user_limits(r->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* ours are checked above */
    png_set_crc_action(r->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    /* Text, profiles and the like are passed over, so that none of them can unpack to more than it is. */
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(r->png, r->info);
    r->color = png_get_color_type(r->png, r->info);
    r->depth = png_get_bit_depth(r->png, r->info);
    read_transparency(r);
    read_orientation(r);
    png_uint_32 width = png_get_image_width(r->png, r->info), height = png_get_image_height(r->png, r->info);
    fore_status s = fore_encoded_check(in, width, height, r->err);
    if (!s) s = fore_pixels_new((int)width, (int)height, &r->pixels, r->err);
    if (!s) s = read_rows(r);
    if (!s) png_read_end(r->png, NULL);
    return s;
}

/* The reader belongs to the caller's frame: what a jump finds in it is then well defined. */
static void read_guarded(reader *r) {
    if (!setjmp(r->escape)) r->status = read_picture(r);
}

fore_status fore_png_decode(const fore_encoded *in, fore_pixels *out, int *orientation, fore_error *err) {
    reader r = {.in = in, .orientation = -1, .err = err};
    read_guarded(&r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    free(r.rows);
    free(r.raw);
    if (r.status) {
        fore_pixels_free(&r.pixels);
        return r.status;
    }
    *out = r.pixels;
    *orientation = r.orientation;
    return FORE_OK;
}
