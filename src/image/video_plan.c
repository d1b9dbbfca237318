/* Which frames of a video are taken, how large they become and when they were; see video.h. Numbers alone, in the order of operations
 * of the reference: video_processing_qwen3_vl.py and video_processing_qwen2_vl.py. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "image/video.h"

/* ---- which ------------------------------------------------------------------------------------------------------- */

/* As many as `wanted` a second give, within the bounds; none: fewer than a temporal patch has (FORE_VIDEO_QWEN2). */
static double count_by_rate(const fore_video_processor *p, size_t total, double fps, double wanted) {
    double all = (double)total, n = all / fps * wanted, temporal = p->frame.temporal_patch_size;
    if (p->kind == FORE_VIDEO_QWEN3) return fmin(fmin(fmax(trunc(n), p->min_frames), p->max_frames), all);
    double most = floor(fmin(p->max_frames, all) / temporal) * temporal;
    return floor(fmin(fmin(fmax(n, p->min_frames), most), all) / temporal) * temporal;
}

/* From the first to the last. */
static void spread_qwen3(size_t total, size_t taken, size_t *out) {
    double step = taken > 1 ? (double)(total - 1) / (double)(taken - 1) : 0;
    for (size_t i = 0; i < taken; i++) out[i] = (size_t)rint((double)i * step); /* halves to the even neighbour */
    if (taken > 1) out[taken - 1] = total - 1;
}

/* Each the first of its part of the video. torch.arange makes these numbers in f32, eight from each of two multiples at a time and
 * what is left one by one; beyond some ten thousand frames that shows. */
static void spread_qwen2(size_t total, size_t taken, size_t *out) {
    enum { LANES = 8, BLOCK = 2 * LANES };
    double step = (double)total / (double)taken;
    size_t in_blocks = taken - taken % BLOCK;
    for (size_t i = 0; i < taken; i++) {
        size_t lane = i < in_blocks ? i % LANES : 0;
        double from = step * (double)(i - lane);
        float at = lane ? (float)((double)(float)from + (double)lane * step) : (float)from;
        out[i] = at < (float)total ? (size_t)at : total - 1;
        if (out[i] >= total) out[i] = total - 1;
    }
}

fore_status fore_video_sample(const fore_video_processor *p, size_t total, double fps, double wanted, size_t **indices, size_t *count,
                              fore_error *err) {
    int temporal = p->frame.temporal_patch_size, number = wanted == 0 ? p->num_frames : 0;
    *indices = NULL;
    *count = 0;
    if (wanted == 0) wanted = p->fps;
    if (!total) return fore_fail(err, FORE_ERR_INVALID, "video: it has no frames");
    if (number && wanted > 0)
        return fore_fail(err, FORE_ERR_FORMAT, "the checkpoint's video processor has both fps and num_frames, and takes one of them only");
    if (!number && wanted == 0)
        return fore_fail(err, FORE_ERR_INVALID,
                         "the checkpoint's video processor leaves frames out (do_sample_frames) but does not say how many (fps, num_frames); "
                         "say how many a second are taken, or that all are (on the command line --take-fps X or --all-frames)");
    if (!number && !(isfinite(fps) && fps > 0 && isfinite(wanted) && wanted > 0))
        return fore_fail(err, FORE_ERR_INVALID, "video: %g frames a second, of which %g are wanted; expected numbers above 0", fps, wanted);
    double n = number ? rint((double)number / temporal) * temporal : count_by_rate(p, total, fps, wanted);
    if (n > (double)total)
        return fore_fail(err, FORE_ERR_INVALID, "a video of %zu frames, of which the checkpoint's video processor takes %.0f (num_frames)", total, n);
    if (n < 1 && total < (size_t)temporal)
        return fore_fail(err, FORE_ERR_INVALID, "a video of %zu frame%s, it needs at least %d; give a single one as a picture", total,
                         total == 1 ? "" : "s", temporal);
    if (n < 1)
        return fore_fail(err, FORE_ERR_INVALID, "a video of %zu frames, of which fewer than %d would be taken; more are needed, so take more a "
                         "second", total, temporal);
    size_t taken = (size_t)n;
    size_t *out = malloc(taken * sizeof *out);
    if (!out) return fore_fail_nomem(err, "the frames to take");
    if (p->kind == FORE_VIDEO_QWEN3) spread_qwen3(total, taken, out);
    else spread_qwen2(total, taken, out);
    *indices = out;
    *count = taken;
    return FORE_OK;
}

/* ---- how large --------------------------------------------------------------------------------------------------- */

/* The sides of a frame when all of them together are within the volumes. */
static fore_status size_of_all(const fore_video_processor *p, size_t frames, int height, int width, const char *name, double *out_height,
                               double *out_width, fore_error *err) {
    const double aspect_max = 200;
    int factor = p->frame.patch_size * p->frame.merge_size, temporal = p->frame.temporal_patch_size;
    if (frames < (size_t)temporal)
        return fore_fail(err, FORE_ERR_INVALID, "%s: a video of %zu frame%s, it needs at least %d; give a single one as a picture", name,
                         frames, frames == 1 ? "" : "s", temporal);
    double n = (double)frames, h = height, w = width, low = (double)p->frame.min_pixels, high = (double)p->frame.max_pixels;
    if (p->cap_frames) {
        double each = fmax(fmin((double)p->max_tokens * factor * factor, floor(high / n)), trunc(low * 1.05));
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
    *out_height = th;
    *out_width = tw;
    return FORE_OK;
}

/* The most pixels that a frame may have when each is within the areas. */
static int64_t area_of_each(const fore_video_processor *p, size_t frames) {
    double factor = p->frame.patch_size * p->frame.merge_size, high = (double)p->frame.max_pixels;
    if (!p->cap_frames) return p->frame.max_pixels;
    double budget = trunc(p->max_tokens * factor * factor * 0.9);
    double share = floor(budget * p->frame.temporal_patch_size / (double)frames), least = trunc((double)p->frame.min_pixels * 1.05);
    return (int64_t)fmax(fmin(high, share), least);
}

fore_status fore_video_size(const fore_video_processor *p, size_t frames, int height, int width, const char *name, int *out_height,
                            int *out_width, fore_error *err) {
    int factor = p->frame.patch_size * p->frame.merge_size;
    if (height < 1 || width < 1 || !frames)
        return fore_fail(err, FORE_ERR_INVALID, "%s: %zu frames of %dx%d pixels", name, frames, width, height);
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
    if (p->kind == FORE_VIDEO_QWEN2) {
        fore_status s = fore_smart_resize(height, width, factor, p->frame.min_pixels, area_of_each(p, frames), out_height, out_width, err);
        return s ? fore_fail_prefix(err, s, "%s", name) : FORE_OK;
    }
    double h = 0, w = 0;
    fore_status s = size_of_all(p, frames, height, width, name, &h, &w, err);
    if (s) return s;
    if (h < 1 || w < 1 || h > INT_MAX || w > INT_MAX)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: frames of %dx%d pixels would be resized to %.0fx%.0f, which cannot be", name, width, height, w, h);
    *out_height = (int)h;
    *out_width = (int)w;
    return FORE_OK;
}

/* ---- when -------------------------------------------------------------------------------------------------------- */

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
