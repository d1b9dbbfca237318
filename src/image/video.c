/* The way from what a caller gives, pictures or a file, to the frames that the model sees; see video.h. */
#include "image/video.h"

#include <math.h>
#include <stdlib.h>

void fore_frames_free(fore_frames *frames) {
    for (size_t i = 0; i < frames->count; i++) fore_pixels_free(&frames->items[i]);
    free(frames->items);
    free(frames->times);
    *frames = (fore_frames){0};
}

/* Where frames come from: index by index, those between are passed over. */
typedef struct source {
    const fore_video *video;
    const char *name;
    const fore_limits *limits;
    size_t tokens;             /* that it may become; 0: any number */
    fore_video_reader *reader; /* NULL: pictures */
    size_t at;                 /* of the reader: its next frame */
    int height, width;         /* of the first frame that was taken */
    int to_height, to_width;
} source;

static fore_status read_frame(source *s, size_t index, fore_pixels *out, fore_error *err) {
    *out = (fore_pixels){0};
    if (!s->reader) {
        const fore_image *frame = &s->video->frames[index];
        if (frame->patches)
            return fore_fail(err, FORE_ERR_INVALID, "%s: frame %zu is given as patches; give encoded pictures, or patches of the whole video",
                             s->name, index + 1);
        if (frame->name) return fore_image_decode(frame->data, frame->size, frame->name, s->limits, out, err);
        fore_status st = fore_image_decode(frame->data, frame->size, "a frame", s->limits, out, err);
        return st ? fore_fail_prefix(err, st, "%s: frame %zu", s->name, index + 1) : st;
    }
    for (fore_status st; s->at < index; s->at++)
        if ((st = fore_video_reader_next(s->reader, NULL, err))) return st;
    s->at++;
    return fore_video_reader_next(s->reader, out, err);
}

/* What is taken must fit into the context: before all of it is decoded. */
static fore_status check_tokens(const source *s, const fore_video_processor *p, size_t wanted, fore_error *err) {
    double side = p->frame.patch_size * p->frame.merge_size, steps = (double)fore_video_steps(p, wanted);
    double tokens = steps * (s->to_height / side) * (s->to_width / side);
    if (!s->tokens || tokens <= (double)s->tokens) return FORE_OK;
    return fore_fail(err, FORE_ERR_LIMIT,
                     "%s: %zu frames of it, %dx%d pixels each, become %.0f tokens, the context has %zu; take fewer frames (on the command "
                     "line --take-fps X), give smaller ones, or ask for a larger context",
                     s->name, wanted, s->to_width, s->to_height, tokens, s->tokens);
}

/* Adds frame `index` in the tower's size to the `taken` ones. */
static fore_status add_frame(source *s, const fore_video_processor *p, size_t index, size_t wanted, fore_frames *out, fore_error *err) {
    fore_pixels pixels;
    fore_status st = read_frame(s, index, &pixels, err);
    if (st) return st;
    if (!out->count) {
        s->height = pixels.height;
        s->width = pixels.width;
        st = fore_video_size(p, wanted, s->height, s->width, s->name, &s->to_height, &s->to_width, err);
        if (!st) st = check_tokens(s, p, wanted, err);
    } else if (pixels.height != s->height || pixels.width != s->width) {
        const char *name = s->reader ? NULL : s->video->frames[index].name;
        st = fore_fail(err, FORE_ERR_INVALID, "%s: frame %zu%s%s has %dx%d pixels, the first one %dx%d; the frames of a video have one size",
                       s->name, index + 1, name ? ", " : "", name ? name : "", pixels.width, pixels.height, s->width, s->height);
    }
    fore_pixels *slot = &out->items[out->count];
    if (!st && (pixels.height != s->to_height || pixels.width != s->to_width)) {
        st = fore_image_resize(&pixels, s->to_height, s->to_width, slot, err);
    } else if (!st) {
        *slot = pixels;
        pixels = (fore_pixels){0};
    }
    fore_pixels_free(&pixels);
    if (!st) out->count++;
    return st;
}

/* Times that the caller gives: seconds that do not go back. */
static fore_status check_times(const fore_video *v, const char *name, fore_error *err) {
    for (size_t i = 0; i < v->frame_count; i++)
        if (!isfinite(v->times[i]) || v->times[i] < (i ? v->times[i - 1] : 0))
            return fore_fail(err, FORE_ERR_INVALID, "%s: frame %zu at %g seconds; expected times from 0 up that do not go back", name, i + 1,
                             v->times[i]);
    return FORE_OK;
}

/* The indices of the frames to take of all, and the rate that gives their times (0: the caller's times). */
static fore_status choose(const fore_video_processor *p, source *s, size_t **indices, size_t *count, size_t *all, double *fps,
                          fore_error *err) {
    const fore_video *v = s->video;
    size_t total = v->frame_count;
    fore_status st = FORE_OK;
    *fps = v->fps;
    if (v->frames && v->times) {
        *fps = 0;
        st = check_times(v, s->name, err);
    } else if (v->frames) {
        if (!(isfinite(v->fps) && v->fps > 0))
            st = fore_fail(err, FORE_ERR_INVALID, "%s: its frames are given with %g frames a second; expected a number above 0", s->name, v->fps);
    } else {
        st = fore_video_reader_open(v, s->name, s->limits, &s->reader, &total, fps, err);
    }
    if (st) return st;
    *all = total;
    if (!total) return fore_fail(err, FORE_ERR_INVALID, "%s: a video without frames", s->name);
    if (s->limits->video_frames && total > s->limits->video_frames)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: %zu frames, the limit is %llu; cut it into shorter ones", s->name, total,
                         (unsigned long long)s->limits->video_frames);
    if (v->every_frame || (v->frames && v->times) || (!p->samples && v->sample_fps == 0)) {
        *indices = malloc(total * sizeof **indices);
        if (!*indices) return fore_fail_nomem(err, "the frames to take");
        for (size_t i = 0; i < total; i++) (*indices)[i] = i;
        *count = total;
        return FORE_OK;
    }
    st = fore_video_sample(p, total, *fps, v->sample_fps, indices, count, err);
    return st ? fore_fail_prefix(err, st, "%s", s->name) : st;
}

/* Seconds from one temporal patch to the next: by the frames a second that were taken, or on average. */
static double seconds_of(const fore_video_processor *p, const fore_frames *f, size_t all, double fps) {
    double temporal = p->frame.temporal_patch_size, count = (double)f->count;
    if (fps > 0) return temporal / (count / (double)all * fps);
    return f->count > 1 ? temporal * ((f->times[f->count - 1] - f->times[0]) / (count - 1)) : temporal;
}

fore_status fore_frames_take(const fore_video_processor *p, const fore_video *video, const char *name, const fore_limits *limits,
                             size_t tokens, fore_progress progress, void *user, fore_frames *out, fore_error *err) {
    *out = (fore_frames){0};
    source s = {.video = video, .name = name, .limits = limits, .tokens = tokens};
    if (!video->frames && !video->path && !video->data)
        return fore_fail(err, FORE_ERR_INVALID, "%s: it has neither frames nor a file nor patches", name);
    size_t *indices = NULL, count = 0, all = 0;
    double fps = 0;
    fore_status st = choose(p, &s, &indices, &count, &all, &fps, err);
    if (!st) {
        out->items = calloc(count, sizeof *out->items);
        out->times = calloc(count, sizeof *out->times);
        if (!out->items || !out->times) st = fore_fail_nomem(err, "the frames of a video");
    }
    for (size_t i = 0; i < count && !st; i++) {
        out->times[i] = fps > 0 ? (double)indices[i] / fps : video->times[indices[i]];
        st = add_frame(&s, p, indices[i], count, out, err);
        if (!st && progress && progress(user, "video", i + 1, count)) st = fore_fail(err, FORE_ERR_CANCELLED, "cancelled while reading a video");
    }
    fore_video_reader_close(s.reader);
    free(indices);
    if (st) fore_frames_free(out);
    else out->patch_seconds = seconds_of(p, out, all, fps);
    return st;
}
