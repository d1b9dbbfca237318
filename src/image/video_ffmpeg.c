/* Video files through FFmpeg's libraries. They are loaded when the first file is opened (they bring some fifty others, which
 * would slow every start of a program that never sees a video), by the version that the headers have; they stay loaded.
 * A file is opened twice: once to count its packets, as what it announces is not always what it holds, and to decode.
 * What is wrong with a file is in the error; FFmpeg's own log would go to standard error. Of its contexts only decoders have a level of
 * their own, so the process is silenced while a file is open. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libswscale/swscale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pool.h"
#include "image/formats.h"
#include "image/video.h"

#define FFMPEG_CALLS(XX)                                                                                                      \
    XX(AVUTIL, av_frame_alloc) XX(AVUTIL, av_frame_free) XX(AVUTIL, av_frame_unref) XX(AVUTIL, av_malloc) XX(AVUTIL, av_free) \
    XX(AVUTIL, av_strerror) XX(AVUTIL, av_log_get_level) XX(AVUTIL, av_log_set_level) XX(AVUTIL, av_display_rotation_get)     \
    XX(SWSCALE, sws_getContext) XX(SWSCALE, sws_scale) XX(SWSCALE, sws_freeContext) XX(SWSCALE, sws_setColorspaceDetails)     \
    XX(SWSCALE, sws_getCoefficients)                                                                                          \
    XX(AVCODEC, avcodec_find_decoder) XX(AVCODEC, avcodec_alloc_context3) XX(AVCODEC, avcodec_free_context)                   \
    XX(AVCODEC, avcodec_parameters_to_context) XX(AVCODEC, avcodec_open2) XX(AVCODEC, avcodec_send_packet)                    \
    XX(AVCODEC, avcodec_receive_frame) XX(AVCODEC, av_packet_alloc) XX(AVCODEC, av_packet_free) XX(AVCODEC, av_packet_unref)  \
    XX(AVFORMAT, avformat_alloc_context) XX(AVFORMAT, avformat_open_input) XX(AVFORMAT, avformat_close_input)                 \
    XX(AVFORMAT, avformat_find_stream_info) XX(AVFORMAT, av_find_best_stream) XX(AVFORMAT, av_read_frame)                     \
    XX(AVFORMAT, avio_alloc_context) XX(AVFORMAT, avio_context_free) FFMPEG_SIDE_DATA(XX)
#if LIBAVFORMAT_VERSION_MAJOR >= 61
#define FFMPEG_SIDE_DATA(XX) XX(AVCODEC, av_packet_side_data_get)
#else
#define FFMPEG_SIDE_DATA(XX) XX(AVFORMAT, av_stream_get_side_data)
#endif

enum { AVUTIL, SWSCALE, AVCODEC, AVFORMAT, LIBRARIES };

struct fore_video_reader {
    void *library[LIBRARIES];
#define XX(library, name) __typeof__(&name) name;
    FFMPEG_CALLS(XX)
#undef XX
    int log_level; /* what the process had; AV_LOG_QUIET: so it wishes, or another open file has seen to it and will set it back */
    const char *name;
    const fore_limits *limits;
    const uint8_t *data; /* the file's bytes, else NULL */
    int64_t size, at;
    int fd;
    AVIOContext *io;
    AVFormatContext *format;
    int stream;
    AVCodecContext *codec;
    AVPacket *packet;
    AVFrame *frame;
    struct SwsContext *scaler;
    int scaled[5]; /* width, height, format, colours and range that the scaler was made for */
    bool draining;
    uint64_t decoded;
};

static void unload(const fore_video_reader *r) {
    for (int i = 0; i < LIBRARIES; i++)
        if (r->library[i]) dlclose(r->library[i]);
}

static fore_status load(fore_video_reader *r, fore_error *err) {
#define SONAME_OF(name, version) "lib" name ".so." AV_STRINGIFY(version)
    static const char *const names[LIBRARIES] = {
        [AVUTIL] = SONAME_OF("avutil", LIBAVUTIL_VERSION_MAJOR),
        [SWSCALE] = SONAME_OF("swscale", LIBSWSCALE_VERSION_MAJOR),
        [AVCODEC] = SONAME_OF("avcodec", LIBAVCODEC_VERSION_MAJOR),
        [AVFORMAT] = SONAME_OF("avformat", LIBAVFORMAT_VERSION_MAJOR),
    };
    for (int i = 0; i < LIBRARIES; i++) {
        r->library[i] = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!r->library[i])
            return fore_fail(err, FORE_ERR_UNSUPPORTED,
                             "%s: video files need %s of FFmpeg, which this machine lacks; install it, or give the frames as pictures, on the "
                             "command line with --frames and --fps",
                             r->name, names[i]);
    }
    void *symbol;
#define XX(from, call)                                                                                                              \
    symbol = dlsym(r->library[from], #call);                                                                                        \
    if (!symbol) return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: %s has no %s", r->name, names[from], #call);                       \
    memcpy(&r->call, &symbol, sizeof symbol);
    FFMPEG_CALLS(XX)
#undef XX
    return FORE_OK;
}

static fore_status fail(const fore_video_reader *r, int code, const char *what, fore_error *err) {
    char text[128] = "";
    if (code == AVERROR(ENOMEM)) return fore_fail_nomem(err, "a video");
    r->av_strerror(code, text, sizeof text);
    return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: %s", r->name, what, text);
}

/* ---- the one file ------------------------------------------------------------------------------------------------ */

static int read_bytes(void *user, uint8_t *to, int size) {
    fore_video_reader *r = user;
    int64_t left = r->size - r->at;
    if (left <= 0) return AVERROR_EOF;
    if (size > left) size = (int)left;
    if (r->data) {
        memcpy(to, r->data + r->at, (size_t)size);
    } else {
        ssize_t n;
        do n = pread(r->fd, to, (size_t)size, (off_t)r->at);
        while (n < 0 && errno == EINTR);
        if (n <= 0) return n ? AVERROR(errno) : AVERROR_EOF;
        size = (int)n;
    }
    r->at += size;
    return size;
}

static int64_t seek_bytes(void *user, int64_t offset, int whence) {
    fore_video_reader *r = user;
    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE) return r->size;
    if (whence == SEEK_CUR) offset += r->at;
    if (whence == SEEK_END) offset += r->size;
    if (offset < 0) return AVERROR(EINVAL);
    return r->at = offset;
}

/* A playlist or reference in the file must not open others: by this call, nor (what opens them itself) by any protocol. */
static int refuse_open(AVFormatContext *format, AVIOContext **io, const char *url, int flags, AVDictionary **options) {
    (void)format, (void)io, (void)url, (void)flags, (void)options;
    return AVERROR(EACCES);
}

static fore_status open_source(fore_video_reader *r, const fore_video *video, fore_error *err) {
    if (!video->path) {
        if (!video->size) return fore_fail(err, FORE_ERR_FORMAT, "%s: the file is empty", r->name);
        if (video->size > INT64_MAX) return fore_fail(err, FORE_ERR_LIMIT, "%s: too large", r->name);
        r->data = video->data;
        r->size = (int64_t)video->size;
        return FORE_OK;
    }
    struct stat status;
    r->fd = open(video->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0 || fstat(r->fd, &status)) return fore_fail(err, FORE_ERR_IO, "%s: cannot open: %s", r->name, strerror(errno));
    if (!S_ISREG(status.st_mode)) return fore_fail(err, FORE_ERR_IO, "%s: not a file; a video must be one that can be read twice", r->name);
    if (!status.st_size) return fore_fail(err, FORE_ERR_FORMAT, "%s: the file is empty", r->name);
    r->size = status.st_size;
    return FORE_OK;
}

/* ---- demultiplexing ---------------------------------------------------------------------------------------------- */

static void close_input(fore_video_reader *r) {
    if (r->format) r->avformat_close_input(&r->format);
    if (r->io) {
        r->av_free(r->io->buffer);
        r->avio_context_free(&r->io);
    }
}

static fore_status open_input(fore_video_reader *r, fore_error *err) {
    enum { BUFFER = 64 << 10 };
    static const char protocols[] = "none";
    close_input(r);
    r->at = 0;
    uint8_t *buffer = r->av_malloc(BUFFER);
    r->io = buffer ? r->avio_alloc_context(buffer, BUFFER, 0, r, read_bytes, NULL, seek_bytes) : NULL;
    r->format = r->io ? r->avformat_alloc_context() : NULL;
    if (!r->format) {
        if (!r->io) r->av_free(buffer);
        return fore_fail_nomem(err, "a video");
    }
    r->format->pb = r->io;
    r->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    r->format->io_open = refuse_open;
    r->format->protocol_whitelist = r->av_malloc(sizeof protocols);
    if (!r->format->protocol_whitelist) return fore_fail_nomem(err, "a video");
    memcpy(r->format->protocol_whitelist, protocols, sizeof protocols);
    int code = r->avformat_open_input(&r->format, NULL, NULL, NULL); /* frees the context when it fails */
    if (code < 0) return fail(r, code, "not a video that FFmpeg knows, or cut short", err);
    code = r->avformat_find_stream_info(r->format, NULL);
    if (code < 0) return fail(r, code, "its streams cannot be read", err);
    r->stream = r->av_find_best_stream(r->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    if (r->stream < 0) return fore_fail(err, FORE_ERR_FORMAT, "%s: there is no video in it", r->name);
    for (unsigned i = 0; i < r->format->nb_streams; i++)
        if ((int)i != r->stream) r->format->streams[i]->discard = AVDISCARD_ALL;
    const AVCodecParameters *p = r->format->streams[r->stream]->codecpar;
    const fore_encoded shape = {.name = r->name, .limits = r->limits};
    return fore_encoded_check(&shape, p->width > 0 ? (uint64_t)p->width : 0, p->height > 0 ? (uint64_t)p->height : 0, err);
}

/* The next packet of the stream; *end at the end of the file. */
static fore_status next_packet(fore_video_reader *r, bool *end, fore_error *err) {
    int code;
    do {
        r->av_packet_unref(r->packet);
        code = r->av_read_frame(r->format, r->packet);
    } while (code >= 0 && r->packet->stream_index != r->stream);
    *end = code == AVERROR_EOF;
    return code >= 0 || *end ? FORE_OK : fail(r, code, "damaged or cut short", err);
}

static double rate(AVRational q) { return q.den > 0 && q.num > 0 ? (double)q.num / q.den : 0; }

static fore_status count_frames(fore_video_reader *r, size_t *total, double *fps, fore_error *err) {
    const AVStream *stream = r->format->streams[r->stream];
    int64_t first = INT64_MAX, last = INT64_MIN, announced = stream->nb_frames;
    *total = 0;
    for (bool end = false;;) {
        fore_status s = next_packet(r, &end, err);
        if (s) return s;
        if (end) break;
        if (r->packet->flags & AV_PKT_FLAG_DISCARD) continue;
        ++*total;
        int64_t pts = r->packet->pts != AV_NOPTS_VALUE ? r->packet->pts : r->packet->dts, after;
        if (pts == AV_NOPTS_VALUE || __builtin_add_overflow(pts, r->packet->duration, &after)) continue;
        if (pts < first) first = pts;
        if (after > last) last = after;
    }
    if (!*total) return fore_fail(err, FORE_ERR_FORMAT, "%s: there is no frame in it", r->name);
    if (announced > 0 && *total < (uint64_t)announced && r->at >= r->size)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: cut short: it announces %lld frames and holds %zu", r->name, (long long)announced, *total);
    double seconds = last > first ? ((double)last - (double)first) * stream->time_base.num / stream->time_base.den : 0;
    double whole = r->format->duration > 0 ? (double)r->format->duration / AV_TIME_BASE : 0;
    /* Of files that count no frames, those that announce how long they are; with sound beside it the video may be shorter. */
    if (r->format->nb_streams == 1 && r->format->duration_estimation_method != AVFMT_DURATION_FROM_BITRATE && seconds < 0.9 * whole)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: cut short: it announces %.1f seconds and holds %.1f", r->name, whole, seconds);
    *fps = seconds > 0 ? (double)*total / seconds : 0;
    if (!(*fps > 0) || !isfinite(*fps)) *fps = rate(stream->avg_frame_rate);
    if (!(*fps > 0)) *fps = rate(stream->r_frame_rate);
    if (!(*fps > 0)) *fps = 24; /* what the reference takes when nobody says */
    return FORE_OK;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static fore_status open_decoder(fore_video_reader *r, fore_error *err) {
    enum { THREADS = 4 };
    const AVCodecParameters *p = r->format->streams[r->stream]->codecpar;
    const AVCodec *codec = r->avcodec_find_decoder(p->codec_id);
    if (!codec) return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: this FFmpeg has no decoder for its video", r->name);
    r->codec = r->avcodec_alloc_context3(codec);
    if (!r->codec) return fore_fail_nomem(err, "a video decoder");
    int code = r->avcodec_parameters_to_context(r->codec, p), processors = fore_pool_processors();
    r->codec->thread_count = processors < THREADS ? processors : THREADS;
    r->codec->max_pixels = r->limits->image_pixels < INT64_MAX ? (int64_t)r->limits->image_pixels : INT64_MAX;
    r->codec->pkt_timebase = r->format->streams[r->stream]->time_base;
    if (code >= 0) code = r->avcodec_open2(r->codec, codec, NULL);
    return code < 0 ? fail(r, code, "its decoder cannot be opened", err) : FORE_OK;
}

fore_status fore_video_reader_open(const fore_video *video, const char *name, const fore_limits *limits, fore_video_reader **out,
                                   size_t *total, double *fps, fore_error *err) {
    *out = NULL;
    fore_video_reader *r = calloc(1, sizeof *r);
    if (!r) return fore_fail_nomem(err, "a video");
    r->name = name;
    r->limits = limits;
    r->fd = -1;
    fore_status s = open_source(r, video, err);
    if (!s) s = load(r, err);
    if (s) {
        if (r->fd >= 0) close(r->fd);
        unload(r);
        free(r);
        return s;
    }
    r->log_level = r->av_log_get_level();
    r->av_log_set_level(AV_LOG_QUIET);
    r->packet = r->av_packet_alloc();
    r->frame = r->av_frame_alloc();
    if (!r->packet || !r->frame) s = fore_fail_nomem(err, "a video");
    if (!s) s = open_input(r, err);
    if (!s) s = count_frames(r, total, fps, err);
    if (!s) s = open_input(r, err);
    if (!s) s = open_decoder(r, err);
    if (s) fore_video_reader_close(r);
    else *out = r;
    return s;
}

void fore_video_reader_close(fore_video_reader *r) {
    if (!r) return;
    if (r->codec) r->avcodec_free_context(&r->codec);
    if (r->packet) r->av_packet_free(&r->packet);
    if (r->frame) r->av_frame_free(&r->frame);
    if (r->scaler) r->sws_freeContext(r->scaler);
    close_input(r);
    if (r->log_level != AV_LOG_QUIET) r->av_log_set_level(r->log_level);
    if (r->fd >= 0) close(r->fd);
    unload(r);
    free(r);
}

/* EXIF's number for the way in which the file says that its frames are turned. */
static int orientation(const fore_video_reader *r) {
    const AVStream *stream = r->format->streams[r->stream];
    const int32_t *matrix = NULL;
#if LIBAVFORMAT_VERSION_MAJOR >= 61
    const AVPacketSideData *side = r->av_packet_side_data_get(stream->codecpar->coded_side_data, stream->codecpar->nb_coded_side_data,
                                                              AV_PKT_DATA_DISPLAYMATRIX);
    if (side && side->size >= 9 * sizeof *matrix) matrix = (const int32_t *)(const void *)side->data;
#else
    size_t size = 0;
    const uint8_t *side = r->av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
    if (side && size >= 9 * sizeof *matrix) matrix = (const int32_t *)(const void *)side;
#endif
    double degrees = matrix ? r->av_display_rotation_get(matrix) : 0; /* against the clock */
    if (!isfinite(degrees)) return -1;
    switch ((int)lround(degrees / 90) & 3) {
    case 1: return 8;
    case 2: return 3;
    case 3: return 6;
    default: return -1;
    }
}

static fore_status convert(fore_video_reader *r, fore_pixels *out, fore_error *err) {
    const AVFrame *f = r->frame;
    const fore_encoded shape = {.name = r->name, .limits = r->limits};
    fore_status s = fore_encoded_check(&shape, f->width > 0 ? (uint64_t)f->width : 0, f->height > 0 ? (uint64_t)f->height : 0, err);
    if (!s) s = fore_pixels_new(f->width, f->height, out, err);
    if (s) return s;
    const int wanted[5] = {f->width, f->height, f->format, (int)f->colorspace, (int)f->color_range};
    if (!r->scaler || memcmp(wanted, r->scaled, sizeof wanted) != 0) {
        /* The same bits whatever the processor. */
        const int flags = SWS_BILINEAR | SWS_ACCURATE_RND | SWS_BITEXACT;
        if (r->scaler) r->sws_freeContext(r->scaler);
        r->scaler = r->sws_getContext(f->width, f->height, f->format, f->width, f->height, AV_PIX_FMT_RGB24, flags, NULL, NULL, NULL);
        memcpy(r->scaled, wanted, sizeof wanted);
        if (r->scaler) {
            const int *from = r->sws_getCoefficients((int)f->colorspace), *to = r->sws_getCoefficients(SWS_CS_DEFAULT);
            r->sws_setColorspaceDetails(r->scaler, from, f->color_range == AVCOL_RANGE_JPEG, to, 1, 0, 1 << 16, 1 << 16);
        }
    }
    uint8_t *const rows[4] = {out->rgb};
    const int strides[4] = {3 * f->width};
    if (!r->scaler || r->sws_scale(r->scaler, (const uint8_t *const *)f->data, f->linesize, 0, f->height, rows, strides) != f->height) {
        fore_pixels_free(out);
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: its pixels cannot be converted to RGB", r->name);
    }
    s = fore_pixels_orient(out, orientation(r), err);
    if (s) fore_pixels_free(out);
    return s;
}

fore_status fore_video_reader_next(fore_video_reader *r, fore_pixels *out, fore_error *err) {
    if (out) *out = (fore_pixels){0};
    int code;
    while ((code = r->avcodec_receive_frame(r->codec, r->frame)) == AVERROR(EAGAIN)) {
        bool end = false;
        fore_status s = r->draining ? FORE_OK : next_packet(r, &end, err);
        if (s) return s;
        code = r->avcodec_send_packet(r->codec, end ? NULL : r->packet);
        r->draining = end;
        if (code < 0) break;
    }
    if (code == AVERROR_EOF)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: cut short or damaged: it ends after %llu frames", r->name, (unsigned long long)r->decoded);
    if (code < 0) {
        fore_status s = fail(r, code, "a frame cannot be decoded", err);
        return s == FORE_ERR_FORMAT ? fore_fail_prefix(err, s, "after %llu frames", (unsigned long long)r->decoded) : s;
    }
    r->decoded++;
    fore_status s = out ? convert(r, out, err) : FORE_OK;
    r->av_frame_unref(r->frame);
    return s;
}

bool fore_video_files(void) { return true; }
