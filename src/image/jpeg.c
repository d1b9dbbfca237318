/* JPEG through libjpeg-turbo with its defaults (accurate integer DCT, fancy upsampling), which are Pillow's. Pictures of
 * one component are grey, of three RGB, of four CMYK that is stored inverted, as Pillow takes all of them to be. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "image/formats.h"

/* A progressive file may ask for any number of passes over the picture; encoders write about ten. */
enum { SCANS_MAX = 200 };

typedef struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    const fore_encoded *in;
    fore_pixels pixels;
    int orientation;
    fore_status status;
    fore_error *err;
} reader;

/* Ends the decoding with a status that is already set. */
static _Noreturn void leave(reader *r, fore_status status) {
    r->status = status;
    longjmp(r->escape, 1);
}

static void on_error(j_common_ptr jpeg) {
    reader *r = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY) leave(r, fore_fail_nomem(r->err, "the decoder of a JPEG picture"));
    jpeg->err->format_message(jpeg, text);
    leave(r, fore_fail(r->err, FORE_ERR_FORMAT, "%s: broken JPEG: %s", r->in->name, text));
}

/* Warnings are damage that the library can paint over; data that is missing is an error here. */
static void on_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    reader *r = jpeg->client_data;
    if (jpeg->err->msg_code == JWRN_JPEG_EOF)
        leave(r, fore_fail(r->err, FORE_ERR_FORMAT,
                           "%s: the JPEG file is truncated: its %zu bytes end before the picture does", r->in->name,
                           r->in->size));
    if (jpeg->err->msg_code == JWRN_HIT_MARKER)
        leave(r, fore_fail(r->err, FORE_ERR_FORMAT, "%s: broken JPEG: a part of the picture data is missing", r->in->name));
}

static void on_progress(j_common_ptr jpeg) {
    reader *r = jpeg->client_data;
    if (r->jpeg.input_scan_number > SCANS_MAX)
        leave(r, fore_fail(r->err, FORE_ERR_LIMIT, "%s: a progressive JPEG of more than %d scans", r->in->name, SCANS_MAX));
}

static uint8_t times(uint32_t a, uint32_t b) { /* a * b / 255, rounded */
    uint32_t t = a * b + 128;
    return (uint8_t)(((t >> 8) + t) >> 8);
}

static void grey_to_rgb(const uint8_t *in, uint8_t *rgb, size_t width) {
    for (size_t x = 0; x < width; x++) memset(rgb + 3 * x, in[x], 3);
}

/* Inverted CMYK: 255 is no ink. */
static void cmyk_to_rgb(const uint8_t *in, uint8_t *rgb, size_t width) {
    for (size_t x = 0; x < width; x++, in += 4)
        for (size_t c = 0; c < 3; c++) rgb[3 * x + c] = (uint8_t)(in[3] - times(255u - in[c], in[3]));
}

static void read_orientation(reader *r) {
    static const char xmp[] = "http://ns.adobe.com/xap/1.0/"; /* its NUL belongs to the signature */
    int from_exif = -1, from_xmp = -1;
    for (jpeg_saved_marker_ptr m = r->jpeg.marker_list; m; m = m->next) {
        if (from_exif < 0 && m->data_length >= 6 && !memcmp(m->data, "Exif\0\0", 6))
            from_exif = fore_exif_orientation(m->data, m->data_length);
        else if (m->data_length >= sizeof xmp && !memcmp(m->data, xmp, sizeof xmp))
            from_xmp = fore_xmp_orientation(m->data, m->data_length);
    }
    r->orientation = from_exif >= 0 ? from_exif : from_xmp;
}

static fore_status read_picture(reader *r) {
    struct jpeg_decompress_struct *j = &r->jpeg;
    jpeg_create_decompress(j);
    j->client_data = r;
    j->progress = &r->progress;
    r->progress.progress_monitor = on_progress;
    jpeg_mem_src(j, r->in->data, (unsigned long)r->in->size);
    jpeg_save_markers(j, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(j, TRUE);
    read_orientation(r);
    fore_status s = fore_encoded_check(r->in, j->image_width, j->image_height, r->err);
    if (s) return s;
    switch (j->num_components) {
    case 1: j->out_color_space = JCS_GRAYSCALE; break;
    case 3: j->out_color_space = JCS_RGB; break;
    case 4: j->out_color_space = JCS_CMYK; break;
    default:
        return fore_fail(r->err, FORE_ERR_UNSUPPORTED, "%s: a JPEG of %d components; expected 1, 3 or 4", r->in->name,
                         j->num_components);
    }
    s = fore_pixels_new((int)j->image_width, (int)j->image_height, &r->pixels, r->err);
    if (s) return s;
    jpeg_start_decompress(j);
    size_t width = j->output_width;
    JSAMPROW scratch = NULL; /* freed with the decoder */
    if (j->num_components != 3)
        scratch = j->mem->alloc_sarray((j_common_ptr)j, JPOOL_IMAGE, j->output_width * (JDIMENSION)j->num_components, 1)[0];
    while (j->output_scanline < j->output_height) {
        uint8_t *rgb = r->pixels.rgb + (size_t)j->output_scanline * width * 3;
        JSAMPROW row = scratch ? scratch : rgb;
        if (jpeg_read_scanlines(j, &row, 1) != 1)
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: broken JPEG: a row is missing", r->in->name);
        if (j->num_components == 1) grey_to_rgb(scratch, rgb, width);
        if (j->num_components == 4) cmyk_to_rgb(scratch, rgb, width);
    }
    jpeg_finish_decompress(j); /* looks for the end marker */
    return FORE_OK;
}

/* The reader belongs to the caller's frame: what a jump finds in it is then well defined. */
static void read_guarded(reader *r) {
    if (!setjmp(r->escape)) r->status = read_picture(r);
}

fore_status fore_jpeg_decode(const fore_encoded *in, fore_pixels *out, int *orientation, fore_error *err) {
    reader r = {.in = in, .orientation = -1, .err = err};
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.jpeg.client_data = &r;
    r.errors.error_exit = on_error;
    r.errors.emit_message = on_message;
    read_guarded(&r);
    jpeg_destroy_decompress(&r.jpeg); /* harmless when creating it failed: the struct is zero then */
    if (r.status) {
        fore_pixels_free(&r.pixels);
        return r.status;
    }
    *out = r.pixels;
    *orientation = r.orientation;
    return FORE_OK;
}
