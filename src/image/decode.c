/* The way in: says what an encoded file is, refuses what is too large or not a picture by name, calls the decoder of its
 * format and turns the result upright. Knows signatures and limits, no format's inside. */
#include <stdlib.h>
#include <string.h>

#include "image/formats.h"

void fore_limits_init(fore_limits *limits) {
    *limits = (fore_limits){
        .image_bytes = 64u << 20, .image_pixels = 100000000u, .image_side = 30000, .image_count = 64,
        .video_count = 16, .video_frames = 1000000};
}

fore_status fore_encoded_check(const fore_encoded *in, uint64_t width, uint64_t height, fore_error *err) {
    unsigned long long w = width, h = height;
    if (!width || !height) return fore_fail(err, FORE_ERR_FORMAT, "%s: a picture of %llux%llu pixels", in->name, w, h);
    uint64_t side = in->limits->image_side > 0 ? (uint64_t)in->limits->image_side : 0;
    if (width > side || height > side)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: %llux%llu pixels, the limit is %llu a side; make the picture smaller",
                         in->name, w, h, (unsigned long long)side);
    if (width > in->limits->image_pixels / height)
        return fore_fail(err, FORE_ERR_LIMIT,
                         "%s: %llux%llu pixels, the limit is %llu in all; make the picture smaller", in->name, w, h,
                         (unsigned long long)in->limits->image_pixels);
    return FORE_OK;
}

typedef struct signature {
    size_t at;
    size_t size;
    const char *bytes;
    const char *name;
} signature;

/* Formats that are known and refused. HEIC and AVIF brands follow the "ftyp" box name at byte 4. */
static const signature REFUSED[] = {
    {0, 6, "GIF87a", "GIF"},
    {0, 6, "GIF89a", "GIF"},
    {0, 2, "BM", "BMP"},
    {0, 4, "II*\0", "TIFF"},
    {0, 4, "MM\0*", "TIFF"},
    {0, 4, "II+\0", "TIFF"},
    {0, 4, "MM\0+", "TIFF"},
    {4, 8, "ftypavif", "AVIF"},
    {4, 8, "ftypavis", "AVIF"},
    {4, 8, "ftypheic", "HEIC"},
    {4, 8, "ftypheix", "HEIC"},
    {4, 8, "ftyphevc", "HEIC"},
    {4, 8, "ftypmif1", "HEIF"},
    {4, 8, "ftypmsf1", "HEIF"},
    {0, 12, "\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"},
    {0, 4, "\xff\x4f\xff\x51", "JPEG 2000"},
    {0, 12, "\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"},
    {0, 2, "\xff\x0a", "JPEG XL"},
    {0, 4, "\0\0\1\0", "ICO"},
    {0, 4, "8BPS", "Photoshop"},
    {0, 4, "qoif", "QOI"},
    {0, 4, "\x76\x2f\x31\x01", "OpenEXR"},
    {0, 5, "%PDF-", "PDF"},
    {4, 4, "ftyp", "MP4 or other ISO media"},
};

static bool has(const fore_encoded *in, size_t at, const char *bytes, size_t size) {
    return in->size >= at + size && !memcmp(in->data + at, bytes, size);
}

/* What the file starts with agrees with the signature as far as it goes, but it goes no further. */
static bool cut(const fore_encoded *in, const char *bytes, size_t size) {
    return in->size < size && !memcmp(in->data, bytes, in->size);
}

/* The start of the file reads as text. */
static bool is_text(const fore_encoded *in) {
    size_t n = in->size < 256 ? in->size : 256;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = in->data[i];
        if (c == 0x7f || (c < 32 && c != '\t' && c != '\n' && c != '\r')) return false;
    }
    return true;
}

static bool mentions(const fore_encoded *in, const char *word) {
    size_t n = in->size < 1024 ? in->size : 1024, m = strlen(word);
    for (size_t i = 0; i + m <= n; i++)
        if (!memcmp(in->data + i, word, m)) return true;
    return false;
}

static fore_status refuse(const fore_encoded *in, fore_error *err) {
    const char *kind = NULL;
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED && !kind; i++)
        if (has(in, REFUSED[i].at, REFUSED[i].bytes, REFUSED[i].size)) kind = REFUSED[i].name;
    if (!kind && is_text(in) && mentions(in, "<svg")) kind = "SVG";
    if (kind)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: %s pictures are not supported; convert to PNG, JPEG or WebP",
                         in->name, kind);
    if (cut(in, "\x89PNG\r\n\x1a\n", 8) || cut(in, "\xff\xd8\xff", 3) || cut(in, "RIFF", 4) ||
        (has(in, 0, "RIFF", 4) && in->size < 12))
        return fore_fail(err, FORE_ERR_FORMAT, "%s: the file is truncated after %zu bytes, inside its signature",
                         in->name, in->size);
    if (has(in, 1, "PNG", 3))
        return fore_fail(err, FORE_ERR_FORMAT,
                         "%s: a PNG file with a damaged signature (it was transferred as text); copy it again", in->name);
    if (is_text(in))
        return fore_fail(err, FORE_ERR_FORMAT, "%s: not a picture but text; expected a JPEG, PNG or WebP file", in->name);
    return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: not a picture that is known here; expected a JPEG, PNG or WebP file",
                     in->name);
}

fore_status fore_image_decode(const void *data, size_t size, const char *name, const fore_limits *limits, fore_pixels *out,
                              fore_error *err) {
    *out = (fore_pixels){0};
    fore_limits defaults;
    fore_limits_init(&defaults);
    fore_encoded in = {
        .data = data, .size = size, .name = name ? name : "picture", .limits = limits ? limits : &defaults};
    if (!data || !size) return fore_fail(err, FORE_ERR_FORMAT, "%s: the file is empty", in.name);
    if (size > in.limits->image_bytes)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: a file of %zu bytes, the limit is %llu", in.name, size,
                         (unsigned long long)in.limits->image_bytes);
    fore_status (*decode)(const fore_encoded *, fore_pixels *, int *, fore_error *) = NULL;
    if (has(&in, 0, "\xff\xd8\xff", 3)) decode = fore_jpeg_decode;
    if (has(&in, 0, "\x89PNG\r\n\x1a\n", 8)) decode = fore_png_decode;
    if (has(&in, 0, "RIFF", 4) && has(&in, 8, "WEBP", 4)) decode = fore_webp_decode;
    if (!decode) return refuse(&in, err);
    int orientation = -1;
    fore_status s = decode(&in, out, &orientation, err);
    if (!s && (s = fore_pixels_orient(out, orientation, err))) fore_pixels_free(out);
    return s;
}
