/* generation_config.json; see generation_config.h. Mirrors transformers' GenerationConfig and its defaults at generate.
 */
#include "decode/generation_config.h"

#include <limits.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "decode/sampler.h"

enum { FILE_LIMIT = 1 << 20 };

static fore_status read_float(const cJSON *root, const char *name, double fallback, float *out, fore_error *err) {
    double value;
    fore_status s = fore_json_number(root, name, fallback, &value, err);
    *out = (float)value; /* infinite when too large: the check of the ranges says so */
    return s;
}

static fore_status read_sampling(const cJSON *root, fore_sampling *out, fore_error *err) {
    bool sample;
    int64_t top_k;
    fore_status s = fore_json_bool(root, "do_sample", false, &sample, err);
    if (!s) s = read_float(root, "temperature", 1, &out->temperature, err);
    if (!s) s = fore_json_int(root, "top_k", -1, INT_MAX, sample ? 50 : 0, &top_k, err);
    if (!s) s = read_float(root, "top_p", 1, &out->top_p, err);
    if (!s) s = read_float(root, "min_p", 0, &out->min_p, err);
    if (!s) s = read_float(root, "repetition_penalty", 1, &out->repetition_penalty, err);
    if (s) return s;
    out->top_k = top_k < 0 ? 0 : (int)top_k;
    if (!sample) out->temperature = 0;
    return fore_sampling_check(out, INT_MAX, err) ? FORE_ERR_FORMAT : FORE_OK;
}

static fore_status add_end_token(const cJSON *item, fore_generation_config *out, fore_error *err) {
    double v = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(v >= 0 && v <= INT32_MAX) || v != (double)(int32_t)v)
        return fore_fail(err, FORE_ERR_FORMAT, "eos_token_id: expected a token id or a list of token ids");
    for (int i = 0; i < out->eos_count; i++)
        if (out->eos[i] == (int32_t)v) return FORE_OK;
    if (out->eos_count == FORE_GENERATION_EOS)
        return fore_fail(err, FORE_ERR_LIMIT, "eos_token_id: more than %d end tokens", FORE_GENERATION_EOS);
    out->eos[out->eos_count++] = (int32_t)v;
    return FORE_OK;
}

static fore_status read_end_tokens(const cJSON *root, fore_generation_config *out, fore_error *err) {
    const cJSON *eos = fore_json_get(root, "eos_token_id");
    if (!eos) return FORE_OK;
    if (!cJSON_IsArray(eos)) return add_end_token(eos, out, err);
    for (const cJSON *item = eos->child; item; item = item->next) {
        fore_status s = add_end_token(item, out, err);
        if (s) return s;
    }
    return FORE_OK;
}

fore_status fore_generation_config_parse(const cJSON *root, fore_generation_config *out, fore_error *err) {
    *out = (fore_generation_config){.sampling = {.top_p = 1, .repetition_penalty = 1}};
    if (!root) return FORE_OK;
    fore_generation_config read = {0};
    fore_status s = cJSON_IsObject(root) ? read_sampling(root, &read.sampling, err) : fore_fail(err, FORE_ERR_FORMAT, "expected a JSON object");
    if (!s) s = read_end_tokens(root, &read, err);
    if (!s) *out = read;
    return s;
}

fore_status fore_generation_config_read(const char *dir, fore_generation_config *out, fore_error *err) {
    char *path = fore_path_join(dir, "generation_config.json");
    if (!path) return fore_fail_nomem(err, "a path");
    cJSON *root = NULL;
    fore_status s = fore_generation_config_parse(NULL, out, err);
    if (!s && fore_file_exists(path)) {
        s = fore_json_read(path, FILE_LIMIT, &root, err);
        if (!s) {
            s = fore_generation_config_parse(root, out, err);
            if (s) fore_fail_prefix(err, s, "%s", path);
        }
        cJSON_Delete(root);
    }
    free(path);
    return s;
}
