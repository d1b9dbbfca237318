/* WebP through libwebp and its demultiplexer. Of an animation the first frame, on its canvas, which is transparent where
 * the frame does not reach. Whether alpha counts is said by the file's header, as Pillow reads it. */
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "image/formats.h"

static fore_status fail_decode(const fore_encoded *in, VP8StatusCode code, fore_error *err) {
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY: return fore_fail_nomem(err, "the decoder of a WebP picture");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return fore_fail(err, FORE_ERR_FORMAT, "%s: the WebP file is truncated: its %zu bytes end before the picture does",
                         in->name, in->size);
    default: /* the library does not always tell the two apart */
        return fore_fail(err, FORE_ERR_FORMAT, "%s: broken WebP: its picture data cannot be decoded (or memory is out)",
                         in->name);
    }
}

/* Decodes a frame into its place on the canvas rgba [height,width,4]. */
static fore_status decode_frame(const fore_encoded *in, const WebPIterator *frame, uint8_t *rgba, int width, int height,
                                fore_error *err) {
    if (frame->x_offset < 0 || frame->y_offset < 0 || frame->width < 1 || frame->height < 1 ||
        frame->width > width - frame->x_offset || frame->height > height - frame->y_offset)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: broken WebP: a frame lies outside the picture", in->name);
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return fore_fail(err, FORE_ERR_BUG, "image: libwebp is not the version that this program was built with");
    size_t stride = (size_t)width * 4;
    size_t start = (size_t)frame->y_offset * stride + (size_t)frame->x_offset * 4;
    config.output.colorspace = MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = rgba + start;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = stride * (size_t)height - start;
    VP8StatusCode code = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
    WebPFreeDecBuffer(&config.output);
    return code == VP8_STATUS_OK ? FORE_OK : fail_decode(in, code, err);
}

static int read_orientation(const WebPDemuxer *demux) {
    int orientation = -1;
    WebPChunkIterator chunk = {0};
    if (WebPDemuxGetChunk(demux, "EXIF", 1, &chunk)) orientation = fore_exif_orientation(chunk.chunk.bytes, chunk.chunk.size);
    WebPDemuxReleaseChunkIterator(&chunk);
    if (orientation < 0 && WebPDemuxGetChunk(demux, "XMP ", 1, &chunk)) {
        orientation = fore_xmp_orientation(chunk.chunk.bytes, chunk.chunk.size);
        WebPDemuxReleaseChunkIterator(&chunk);
    }
    return orientation;
}

fore_status fore_webp_decode(const fore_encoded *in, fore_pixels *out, int *orientation, fore_error *err) {
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(in->data, in->size, &features);
    if (code != VP8_STATUS_OK) return fail_decode(in, code, err);
    int width = features.width, height = features.height;
    fore_status s = fore_encoded_check(in, width > 0 ? (uint64_t)width : 0, height > 0 ? (uint64_t)height : 0, err);
    if (s) return s;
    /* The frame's own header may announce another size than the file's; the demultiplexer checks that they agree. */
    WebPData data = {.bytes = in->data, .size = in->size};
    WebPDemuxState state;
    WebPDemuxer *demux = WebPDemuxPartial(&data, &state);
    WebPIterator frame = {0};
    uint8_t *rgba = NULL;
    *out = (fore_pixels){0};
    if (!demux || state == WEBP_DEMUX_PARSE_ERROR) {
        s = fore_fail(err, FORE_ERR_FORMAT, "%s: broken WebP: its chunks make no sense (or memory is out)", in->name);
        goto done;
    }
    if (state != WEBP_DEMUX_DONE) {
        s = fail_decode(in, VP8_STATUS_NOT_ENOUGH_DATA, err);
        goto done;
    }
    if (WebPDemuxGetI(demux, WEBP_FF_CANVAS_WIDTH) != (uint32_t)width ||
        WebPDemuxGetI(demux, WEBP_FF_CANVAS_HEIGHT) != (uint32_t)height || !WebPDemuxGetFrame(demux, 1, &frame)) {
        s = fore_fail(err, FORE_ERR_FORMAT, "%s: broken WebP: no frame of the announced size", in->name);
        goto done;
    }
    s = fore_pixels_new(width, height, out, err);
    if (s) goto done;
    size_t pixels = (size_t)width * (size_t)height;
    if (pixels > (size_t)PTRDIFF_MAX / 4 || width > INT32_MAX / 4 || !(rgba = calloc(pixels, 4))) {
        s = fore_fail_nomem(err, "the canvas of a WebP picture");
        goto done;
    }
    s = decode_frame(in, &frame, rgba, width, height, err);
    if (s) goto done;
    for (size_t i = 0; i < pixels; i++) {
        uint8_t alpha = features.has_alpha ? rgba[4 * i + 3] : 255;
        for (size_t c = 0; c < 3; c++) out->rgb[3 * i + c] = fore_over_white(rgba[4 * i + c], alpha);
    }
    *orientation = read_orientation(demux);
done:
    free(rgba);
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demux);
    if (s) fore_pixels_free(out);
    return s;
}
