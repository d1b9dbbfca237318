/* Reads the image processor's settings. A key that is missing from a file takes the default of the reference class
 * (Qwen2VLImageProcessor: patches of 14, CLIP's mean and std, 3136 to 1003520 pixels), which is not what the published
 * files say: a file that names only some keys means the class's values for the others. */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "image/image.h"

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

static const fore_processor PUBLISHED = {
    .patch_size = 16,
    .temporal_patch_size = 2,
    .merge_size = 2,
    .min_pixels = 65536,
    .max_pixels = 16777216,
    .mean = {0.5f, 0.5f, 0.5f},
    .std = {0.5f, 0.5f, 0.5f},
    .rescale_factor = 1.0 / 255,
    .do_resize = true,
    .do_rescale = true,
    .do_normalize = true,
};

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

static fore_status read_settings(const cJSON *json, fore_processor *p, fore_error *err) {
    if (!cJSON_IsObject(json)) return fore_fail(err, FORE_ERR_FORMAT, "expected an object of settings");
    fore_status s = read_int(json, "patch_size", 1024, &p->patch_size, err);
    if (!s) s = read_int(json, "temporal_patch_size", 64, &p->temporal_patch_size, err);
    if (!s) s = read_int(json, "merge_size", 64, &p->merge_size, err);
    if (!s) s = read_areas(json, p, err);
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

fore_status fore_processor_parse(const cJSON *settings, fore_processor *out, fore_error *err) {
    fore_processor p = CLASS;
    *out = PUBLISHED;
    fore_status s = settings ? read_settings(settings, &p, err) : FORE_OK;
    if (!s && settings) *out = p;
    return s;
}

fore_status fore_processor_read(const char *dir, fore_processor *out, fore_error *err) {
    *out = PUBLISHED;
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
        s = fore_processor_parse(settings, out, err);
        if (s) fore_fail_prefix(err, s, "%s/%s", dir, file);
    }
    cJSON_Delete(tree);
    return s;
}
