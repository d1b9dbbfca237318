/* Reads the settings of the picture and the video processor. A key that is missing from a file takes the default of the reference
 * class (Qwen2VLImageProcessor: patches of 14, CLIP's mean and std, 3136 to 1003520 pixels), which is not what the published
 * files say: a file that names only some keys means the class's values for the others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "image/video.h"

enum { FILE_MAX = 1 << 20 };

static const fore_processor CLASS = {
    .patch_size = 14,
    .temporal_patch_size = 2,
    .merge_size = 2,
    .min_pixels = 56 * 56,
    .max_pixels = 28 * 28 * 1280,
    .mean = {0.48145466f, 0.4578275f, 0.40821073f},
    .std = {0.26862954f, 0.26130258f, 0.27577711f},
    .rescale_factor = 1.0 / 255,
    .do_resize = true,
    .do_rescale = true,
    .do_normalize = true,
};

/* What the published files of a family say. */
static fore_processor published(const fore_processor_family *family) {
    fore_processor p = CLASS;
    if (family && family->qwen2_5) {
        p.max_pixels = 12845056;
    } else {
        p.patch_size = 16;
        p.min_pixels = 65536;
        p.max_pixels = 16777216;
        for (int c = 0; c < 3; c++) p.mean[c] = p.std[c] = 0.5f;
    }
    if (!family) return p;
    p.patch_size = family->patch_size;
    p.temporal_patch_size = family->temporal_patch_size;
    p.merge_size = family->merge_size;
    return p;
}

static fore_status read_int(const cJSON *json, const char *key, int high, int *value, fore_error *err) {
    int64_t v;
    fore_status s = fore_json_int(json, key, 1, high, *value, &v, err);
    if (!s) *value = (int)v;
    return s;
}

/* A number for all channels, or a list of three. */
static fore_status read_channels(const cJSON *json, const char *key, float out[3], fore_error *err) {
    const cJSON *item = fore_json_get(json, key);
    if (!item) return FORE_OK;
    bool list = cJSON_IsArray(item) && cJSON_GetArraySize(item) == 3;
    for (int c = 0; c < 3; c++) {
        const cJSON *v = list ? cJSON_GetArrayItem(item, c) : item;
        if (!cJSON_IsNumber(v) || !isfinite((float)v->valuedouble))
            return fore_fail(err, FORE_ERR_FORMAT, "%s: expected a number or a list of 3", key);
        out[c] = (float)v->valuedouble;
    }
    return FORE_OK;
}

/* The areas: size.shortest_edge and size.longest_edge, each overridden by min_pixels and max_pixels beside size. */
static fore_status read_areas(const cJSON *json, fore_processor *p, fore_error *err) {
    const int64_t high = (int64_t)1 << 40;
    const cJSON *size = fore_json_get(json, "size");
    int64_t low_area = size ? 0 : p->min_pixels, high_area = size ? 0 : p->max_pixels;
    if (size && !cJSON_IsObject(size))
        return fore_fail(err, FORE_ERR_FORMAT, "size: expected an object with shortest_edge and longest_edge");
    fore_status s = fore_json_int(size, "shortest_edge", 1, high, low_area, &low_area, err);
    if (!s) s = fore_json_int(size, "longest_edge", 1, high, high_area, &high_area, err);
    if (s) return fore_fail_prefix(err, s, "size");
    s = fore_json_int(json, "min_pixels", 1, high, low_area, &low_area, err);
    if (!s) s = fore_json_int(json, "max_pixels", 1, high, high_area, &high_area, err);
    if (s) return s;
    if (!low_area || !high_area)
        return fore_fail(err, FORE_ERR_FORMAT, "size: expected shortest_edge and longest_edge (areas in pixels)");
    p->min_pixels = low_area;
    p->max_pixels = high_area;
    return FORE_OK;
}

/* Of a video: only size counts, volumes (frames x height x width). */
static fore_status read_volumes(const cJSON *json, fore_processor *p, fore_error *err) {
    const int64_t high = (int64_t)1 << 40;
    const cJSON *size = fore_json_get(json, "size");
    if (size && !cJSON_IsObject(size))
        return fore_fail(err, FORE_ERR_FORMAT, "size: expected an object with shortest_edge and longest_edge");
    int64_t none = size ? 0 : p->min_pixels;
    fore_status s = fore_json_int(size, "shortest_edge", 1, high, none, &p->min_pixels, err);
    none = size ? 0 : p->max_pixels;
    if (!s) s = fore_json_int(size, "longest_edge", 1, high, none, &p->max_pixels, err);
    if (s) return fore_fail_prefix(err, s, "size");
    if (!p->min_pixels || !p->max_pixels)
        return fore_fail(err, FORE_ERR_FORMAT, "size: expected shortest_edge and longest_edge (frames x height x width in pixels)");
    return FORE_OK;
}

static fore_status read_settings(const cJSON *json, bool video, fore_processor *p, fore_error *err) {
    if (!cJSON_IsObject(json)) return fore_fail(err, FORE_ERR_FORMAT, "expected an object of settings");
    fore_status s = read_int(json, "patch_size", 1024, &p->patch_size, err);
    if (!s) s = read_int(json, "temporal_patch_size", 64, &p->temporal_patch_size, err);
    if (!s) s = read_int(json, "merge_size", 64, &p->merge_size, err);
    if (!s) s = video ? read_volumes(json, p, err) : read_areas(json, p, err);
    if (!s) s = read_channels(json, "image_mean", p->mean, err);
    if (!s) s = read_channels(json, "image_std", p->std, err);
    if (!s) s = fore_json_number(json, "rescale_factor", p->rescale_factor, &p->rescale_factor, err);
    if (!s) s = fore_json_bool(json, "do_resize", p->do_resize, &p->do_resize, err);
    if (!s) s = fore_json_bool(json, "do_rescale", p->do_rescale, &p->do_rescale, err);
    if (!s) s = fore_json_bool(json, "do_normalize", p->do_normalize, &p->do_normalize, err);
    if (s) return s;
    if (p->do_rescale && (!isfinite(p->rescale_factor) || !(p->rescale_factor > 0)))
        return fore_fail(err, FORE_ERR_FORMAT, "rescale_factor: expected a number above 0, found %g", p->rescale_factor);
    for (int c = 0; c < 3; c++)
        if (p->do_normalize && p->std[c] == 0) return fore_fail(err, FORE_ERR_FORMAT, "image_std: expected no zero");
    enum { BICUBIC = 3 };
    const cJSON *resample = fore_json_get(json, "resample");
    if (resample && p->do_resize && (!cJSON_IsNumber(resample) || resample->valuedouble != BICUBIC))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "resample: only bicubic resizing (3) is supported");
    return FORE_OK;
}

/* Reads dir/file when it exists; *out stays NULL when not. */
static fore_status read_file(const char *dir, const char *file, cJSON **out, fore_error *err) {
    *out = NULL;
    char *path = fore_path_join(dir, file);
    if (!path) return fore_fail_nomem(err, file);
    fore_status s = fore_file_exists(path) ? fore_json_read(path, FILE_MAX, out, err) : FORE_OK;
    free(path);
    return s;
}

fore_status fore_processor_parse(const cJSON *settings, const fore_processor_family *family, fore_processor *out, fore_error *err) {
    fore_processor p = CLASS;
    *out = published(family);
    fore_status s = settings ? read_settings(settings, false, &p, err) : FORE_OK;
    if (!s && settings) *out = p;
    return s;
}

fore_status fore_processor_read(const char *dir, const fore_processor_family *family, fore_processor *out, fore_error *err) {
    *out = published(family);
    const char *file = "processor_config.json";
    cJSON *tree = NULL;
    fore_status s = read_file(dir, file, &tree, err);
    if (s) return s;
    const cJSON *settings = fore_json_get(tree, "image_processor");
    if (!settings) {
        cJSON_Delete(tree);
        file = "preprocessor_config.json";
        s = read_file(dir, file, &tree, err);
        if (s) return s;
        settings = tree;
    }
    if (settings) {
        s = fore_processor_parse(settings, family, out, err);
        if (s) fore_fail_prefix(err, s, "%s/%s", dir, file);
    }
    cJSON_Delete(tree);
    return s;
}

/* ---- videos ------------------------------------------------------------------------------------------------------ */

/* The classes' defaults. */
static fore_video_processor video_class(fore_video_kind kind) {
    fore_video_processor v = {.kind = kind, .frame = CLASS, .min_frames = 4, .max_frames = 768};
    if (kind == FORE_VIDEO_QWEN2) {
        v.frame.min_pixels = 128 * 28 * 28;
        v.frame.max_pixels = 28 * 28 * 768;
        v.max_tokens = 128000;
        return v;
    }
    v.frame.patch_size = 16;
    v.frame.min_pixels = 128 * 32 * 32;
    v.frame.max_pixels = 32 * 32 * 768;
    for (int c = 0; c < 3; c++) v.frame.mean[c] = v.frame.std[c] = 0.5f;
    v.fps = 2;
    v.samples = true;
    v.max_tokens = 768;
    return v;
}

static fore_video_kind kind_of(const fore_processor_family *family) {
    return family && family->qwen2_5 ? FORE_VIDEO_QWEN2 : FORE_VIDEO_QWEN3;
}

/* What the published files say. Those of Qwen2.5-VL have no settings for videos: the class takes those for pictures. */
static fore_video_processor video_published(const fore_processor_family *family) {
    fore_video_processor v = video_class(kind_of(family));
    v.frame = published(family);
    if (v.kind == FORE_VIDEO_QWEN3) {
        v.frame.min_pixels = 4096;
        v.frame.max_pixels = 25165824;
    }
    return v;
}

/* The class that the settings are for: of a picture's class only the name without "Fast" tells, as in the reference. */
static fore_status read_kind(const cJSON *json, const fore_processor_family *family, fore_video_processor *v, fore_error *err) {
    const char *type, *picture;
    fore_status s = fore_json_string(json, "video_processor_type", NULL, &type, err);
    if (!s) s = fore_json_string(json, "image_processor_type", NULL, &picture, err);
    if (s) return s;
    fore_video_kind kind = kind_of(family);
    if (type && !strcmp(type, "Qwen2VLVideoProcessor")) kind = FORE_VIDEO_QWEN2;
    else if (type && !strcmp(type, "Qwen3VLVideoProcessor")) kind = FORE_VIDEO_QWEN3;
    else if (type) kind = FORE_VIDEO_UNKNOWN;
    else if (picture && !strcmp(picture, "Qwen2VLImageProcessor")) kind = FORE_VIDEO_QWEN2;
    *v = video_class(kind);
    if (kind == FORE_VIDEO_UNKNOWN) snprintf(v->class_name, sizeof v->class_name, "%s", type);
    return FORE_OK;
}

static fore_status read_video_settings(const cJSON *json, const fore_processor_family *family, fore_video_processor *v, fore_error *err) {
    enum { FRAMES_MAX = 1 << 20 };
    if (!cJSON_IsObject(json)) return fore_fail(err, FORE_ERR_FORMAT, "expected an object of settings");
    fore_status s = read_kind(json, family, v, err);
    if (s || v->kind == FORE_VIDEO_UNKNOWN) return s; /* said when a video comes */
    s = read_settings(json, v->kind == FORE_VIDEO_QWEN3, &v->frame, err);
    if (!s) s = read_int(json, "min_frames", FRAMES_MAX, &v->min_frames, err);
    if (!s) s = read_int(json, "max_frames", FRAMES_MAX, &v->max_frames, err);
    if (!s) s = read_int(json, "num_frames", FRAMES_MAX, &v->num_frames, err);
    if (!s) s = read_int(json, "max_video_tokens", FRAMES_MAX, &v->max_tokens, err);
    if (!s) s = fore_json_bool(json, "cap_pixels_per_frame", false, &v->cap_frames, err);
    if (!s) s = fore_json_bool(json, "do_sample_frames", v->samples, &v->samples, err);
    if (!s) s = fore_json_number(json, "fps", v->fps, &v->fps, err);
    if (!s && fore_json_get(json, "fps") && !(isfinite(v->fps) && v->fps > 0))
        s = fore_fail(err, FORE_ERR_FORMAT, "fps: expected a number above 0, found %g", v->fps);
    return s;
}

fore_status fore_video_processor_read(const char *dir, const fore_processor_family *family, fore_video_processor *out, fore_error *err) {
    static const char *const files[] = {"processor_config.json", "video_preprocessor_config.json", "preprocessor_config.json"};
    *out = video_published(family);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cJSON *tree = NULL;
        fore_status s = read_file(dir, files[i], &tree, err);
        if (s) return s;
        const cJSON *settings = i ? tree : fore_json_get(tree, "video_processor");
        if (settings) {
            fore_video_processor v;
            s = read_video_settings(settings, family, &v, err);
            if (s) fore_fail_prefix(err, s, "%s/%s", dir, files[i]);
            else *out = v;
        }
        bool done = settings != NULL;
        cJSON_Delete(tree);
        if (done) return s;
    }
    return FORE_OK;
}
