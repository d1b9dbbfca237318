/* Sampling, size and times of a video's frames, and the way from what a caller gives to the frames that the model sees; see
 * video.h. */
#include "image/video.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

static bool is_rate(double fps) { return isfinite(fps) && fps > 0; }

fore_status fore_video_sample(const fore_video_processor *p, size_t total, double fps, double wanted, size_t **indices, size_t *count,
                              fore_error *err) {
    *indices = NULL;
    *count = 0;
    if (wanted == 0) wanted = p->fps;
    if (!total) return fore_fail(err, FORE_ERR_INVALID, "video: it has no frames");
    if (!is_rate(fps) || !is_rate(wanted))
        return fore_fail(err, FORE_ERR_INVALID, "video: %g frames a second, of which %g are wanted; expected numbers above 0", fps, wanted);
    double n = trunc((double)total / fps * wanted);
    n = fmin(fmin(fmax(n, p->min_frames), p->max_frames), (double)total);
    size_t taken = (size_t)n;
    size_t *out = malloc(taken * sizeof *out);
    if (!out) return fore_fail_nomem(err, "the frames to take");
    double step = taken > 1 ? (double)(total - 1) / (double)(taken - 1) : 0;
    for (size_t i = 0; i < taken; i++) out[i] = (size_t)rint((double)i * step); /* halves to the even neighbour */
    if (taken > 1) out[taken - 1] = total - 1;
    *indices = out;
    *count = taken;
    return FORE_OK;
}

fore_status fore_video_size(const fore_video_processor *p, size_t frames, int height, int width, const char *name, int *out_height,
                            int *out_width, fore_error *err) {
    const double aspect_max = 200;
    int factor = p->frame.patch_size * p->frame.merge_size, temporal = p->frame.temporal_patch_size;
    if (height < 1 || width < 1)
        return fore_fail(err, FORE_ERR_INVALID, "%s: frames of %dx%d pixels", name, width, height);
    if (!p->frame.do_resize) {
        if (height % factor || width % factor)
            return fore_fail(err, FORE_ERR_INVALID,
                             "%s: frames of %dx%d pixels: the checkpoint's video processor does not resize (do_resize is false), so the "
                             "sides must be multiples of %d",
                             name, width, height, factor);
        *out_height = height;
        *out_width = width;
        return FORE_OK;
    }
    if (frames < (size_t)temporal)
        return fore_fail(err, FORE_ERR_INVALID, "%s: a video of %zu frame%s, it needs at least %d; give a single one as a picture", name,
                         frames, frames == 1 ? "" : "s", temporal);
    double n = (double)frames, h = height, w = width, low = (double)p->frame.min_pixels, high = (double)p->frame.max_pixels;
    if (p->cap_frames) {
        double each = fmax(fmin((double)p->frame_tokens * factor * factor, floor(high / n)), trunc(low * 1.05));
        high = each * n;
    }
    if (height < factor || width < factor) {
        double scale = fmax(factor / h, factor / w);
        h = trunc(h * scale);
        w = trunc(w * scale);
    }
    if (fmax(h, w) / fmin(h, w) > aspect_max)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: frames of %dx%d pixels: one side is more than %g times the other; crop them", name, width,
                         height, aspect_max);
    double th = rint(h / factor) * factor, tw = rint(w / factor) * factor, tn = rint(n / temporal) * temporal;
    if (tn * th * tw > high) {
        double beta = sqrt(n * h * w / high);
        th = fmax(factor, floor(h / beta / factor) * factor);
        tw = fmax(factor, floor(w / beta / factor) * factor);
    } else if (tn * th * tw < low) {
        double beta = sqrt(low / (n * h * w));
        th = ceil(h * beta / factor) * factor;
        tw = ceil(w * beta / factor) * factor;
    }
    if (th < 1 || tw < 1 || th > INT_MAX || tw > INT_MAX)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: frames of %dx%d pixels would be resized to %.0fx%.0f, which cannot be", name, width, height,
                         tw, th);
    *out_height = (int)th;
    *out_width = (int)tw;
    return FORE_OK;
}

size_t fore_video_steps(const fore_video_processor *p, size_t frames) {
    size_t temporal = (size_t)p->frame.temporal_patch_size;
    return frames / temporal + (frames % temporal != 0);
}

void fore_video_step_times(const fore_video_processor *p, const double *times, size_t frames, double *out) {
    size_t temporal = (size_t)p->frame.temporal_patch_size, steps = fore_video_steps(p, frames);
    for (size_t i = 0; i < steps; i++) {
        size_t last = (i + 1) * temporal - 1;
        out[i] = (times[i * temporal] + times[last < frames ? last : frames - 1]) / 2;
    }
}

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

/* Adds frame `index` in the tower's size to the `taken` ones. */
static fore_status add_frame(source *s, const fore_video_processor *p, size_t index, size_t wanted, fore_frames *out, fore_error *err) {
    fore_pixels pixels;
    fore_status st = read_frame(s, index, &pixels, err);
    if (st) return st;
    if (!out->count) {
        s->height = pixels.height;
        s->width = pixels.width;
        st = fore_video_size(p, wanted, s->height, s->width, s->name, &s->to_height, &s->to_width, err);
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

/* The indices of the frames to take, and the rate that gives their times (0: the caller's times). */
static fore_status choose(const fore_video_processor *p, source *s, size_t **indices, size_t *count, double *fps, fore_error *err) {
    const fore_video *v = s->video;
    size_t total = v->frame_count;
    fore_status st = FORE_OK;
    *fps = v->fps;
    if (v->frames && v->times) {
        *fps = 0;
        st = check_times(v, s->name, err);
    } else if (v->frames) {
        if (!is_rate(v->fps))
            st = fore_fail(err, FORE_ERR_INVALID, "%s: its frames are given with %g frames a second; expected a number above 0", s->name, v->fps);
    } else {
        st = fore_video_reader_open(v, s->name, s->limits, &s->reader, &total, fps, err);
    }
    if (st) return st;
    if (!total) return fore_fail(err, FORE_ERR_INVALID, "%s: a video without frames", s->name);
    if (s->limits->video_frames && total > s->limits->video_frames)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: %zu frames, the limit is %llu; cut it into shorter ones", s->name, total,
                         (unsigned long long)s->limits->video_frames);
    if (v->every_frame || (v->frames && v->times) || !p->samples) {
        *indices = malloc(total * sizeof **indices);
        if (!*indices) return fore_fail_nomem(err, "the frames to take");
        for (size_t i = 0; i < total; i++) (*indices)[i] = i;
        *count = total;
        return FORE_OK;
    }
    st = fore_video_sample(p, total, *fps, v->sample_fps, indices, count, err);
    return st ? fore_fail_prefix(err, st, "%s", s->name) : st;
}

fore_status fore_frames_take(const fore_video_processor *p, const fore_video *video, const char *name, const fore_limits *limits,
                             fore_progress progress, void *user, fore_frames *out, fore_error *err) {
    *out = (fore_frames){0};
    source s = {.video = video, .name = name, .limits = limits};
    if (!video->frames && !video->path && !video->data)
        return fore_fail(err, FORE_ERR_INVALID, "%s: it has neither frames nor a file nor patches", name);
    size_t *indices = NULL, count = 0;
    double fps = 0;
    fore_status st = choose(p, &s, &indices, &count, &fps, err);
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
    return st;
}
