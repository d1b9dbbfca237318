/* JSON through cJSON; see json.h. */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/utf8.h"

fore_status fore_json_parse(const char *text, size_t size, const char *what, cJSON **out, fore_error *err) {
    *out = NULL;
    size_t valid = fore_utf8_valid_prefix(text, size);
    if (valid != size) return fore_fail(err, FORE_ERR_FORMAT, "%s: invalid UTF-8 at byte %zu", what, valid);
    const char *end = NULL;
    cJSON *tree = cJSON_ParseWithLengthOpts(text, size, &end, 0);
    if (!tree) {
        size_t at = end ? (size_t)(end - text) : 0;
        return fore_fail(err, FORE_ERR_FORMAT, "%s: not valid JSON (or memory is out) near byte %zu of %zu", what, at, size);
    }
    while (end < text + size && (*end == ' ' || *end == '\t' || *end == '\n' || *end == '\r')) end++;
    if (end != text + size) {
        cJSON_Delete(tree);
        return fore_fail(err, FORE_ERR_FORMAT, "%s: something follows the JSON value at byte %zu", what, (size_t)(end - text));
    }
    *out = tree;
    return FORE_OK;
}

fore_status fore_json_read(const char *path, size_t limit, cJSON **out, fore_error *err) {
    char *text;
    size_t size;
    *out = NULL;
    fore_status s = fore_file_read(path, limit, &text, &size, err);
    if (s) return s;
    s = fore_json_parse(text, size, path, out, err);
    free(text);
    return s;
}

const cJSON *fore_json_get(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
    return cJSON_IsNull(item) ? NULL : item;
}

fore_status fore_json_int(const cJSON *object, const char *name, int64_t low, int64_t high, int64_t fallback,
                          int64_t *out, fore_error *err) {
    const cJSON *item = fore_json_get(object, name);
    *out = fallback;
    if (!item) return FORE_OK;
    double v = item->valuedouble;
    if (!cJSON_IsNumber(item) || v != floor(v) || v < (double)low || v > (double)high)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: expected a whole number from %lld to %lld", name, (long long)low,
                         (long long)high);
    *out = (int64_t)v;
    return FORE_OK;
}

fore_status fore_json_number(const cJSON *object, const char *name, double fallback, double *out, fore_error *err) {
    const cJSON *item = fore_json_get(object, name);
    *out = fallback;
    if (!item) return FORE_OK;
    if (!cJSON_IsNumber(item)) return fore_fail(err, FORE_ERR_FORMAT, "%s: expected a number", name);
    *out = item->valuedouble;
    return FORE_OK;
}

fore_status fore_json_bool(const cJSON *object, const char *name, bool fallback, bool *out, fore_error *err) {
    const cJSON *item = fore_json_get(object, name);
    *out = fallback;
    if (!item) return FORE_OK;
    if (!cJSON_IsBool(item)) return fore_fail(err, FORE_ERR_FORMAT, "%s: expected true or false", name);
    *out = cJSON_IsTrue(item);
    return FORE_OK;
}

fore_status fore_json_string(const cJSON *object, const char *name, const char *fallback, const char **out,
                             fore_error *err) {
    const cJSON *item = fore_json_get(object, name);
    *out = fallback;
    if (!item) return FORE_OK;
    if (!cJSON_IsString(item)) return fore_fail(err, FORE_ERR_FORMAT, "%s: expected a string", name);
    *out = item->valuestring;
    return FORE_OK;
}
