/* JSON through cJSON; see json.h. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json_scan.h"
#include "base/utf8.h"

/* A tree's memory, about: cJSON has a block for each value and one for each string. */
static size_t tree_bytes(size_t values, size_t strings, size_t text) {
    enum { BLOCK = 16 }; /* what an allocation takes besides */
    return values * (sizeof(cJSON) + BLOCK) + strings * BLOCK + text;
}

static fore_status check(const char *text, size_t size, const char *what, size_t *tree, fore_error *err) {
    size_t valid = fore_utf8_valid_prefix(text, size);
    if (valid != size) return fore_fail(err, FORE_ERR_FORMAT, "%s: invalid UTF-8 at byte %zu", what, valid);
    size_t at, values, strings;
    const char *problem = fore_json_scan(text, size, &at, &values, &strings);
    *tree = tree_bytes(values, strings, size);
    if (!problem) return FORE_OK;
    size_t line = 1, start = 0;
    for (size_t i = 0; i < at; i++)
        if (text[i] == '\n') {
            line++;
            start = i + 1;
        }
    return fore_fail(err, FORE_ERR_FORMAT, "%s: not valid JSON: %s (line %zu, byte %zu of it; byte %zu of %zu)", what, problem, line,
                     at - start + 1, at, size);
}

fore_status fore_json_check(const char *text, size_t size, const char *what, fore_error *err) {
    size_t tree;
    return check(text, size, what, &tree, err);
}

fore_status fore_json_parse_part(const char *text, size_t size, size_t whole, const char *what, cJSON **out, fore_error *err) {
    *out = NULL;
    size_t bytes;
    fore_status s = check(text, size, what, &bytes, err);
    if (s) return s;
    if (!fore_fits(bytes, whole))
        return fore_fail(err, FORE_ERR_LIMIT, "%s: so many short values in %zu bytes that they would take %zu MiB of memory", what, size, bytes >> 20);
    cJSON *tree = cJSON_ParseWithLength(text, size);
    if (!tree) return fore_fail_nomem(err, what); /* the grammar is right */
    *out = tree;
    return FORE_OK;
}

fore_status fore_json_parse(const char *text, size_t size, const char *what, cJSON **out, fore_error *err) {
    return fore_json_parse_part(text, size, size, what, out, err);
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

/* What was found instead, for messages. */
static fore_status wrong(const cJSON *item, const char *name, const char *expected, fore_error *err) {
    if (cJSON_IsNumber(item))
        return fore_fail(err, FORE_ERR_FORMAT, "%s: expected %s, found %.12g", name, expected, item->valuedouble);
    const char *kind = cJSON_IsString(item)   ? "a string"
                       : cJSON_IsBool(item)   ? "true or false"
                       : cJSON_IsArray(item)  ? "a list"
                       : cJSON_IsObject(item) ? "an object"
                                              : "another kind of value";
    return fore_fail(err, FORE_ERR_FORMAT, "%s: expected %s, found %s", name, expected, kind);
}

fore_status fore_json_int(const cJSON *object, const char *name, int64_t low, int64_t high, int64_t fallback,
                          int64_t *out, fore_error *err) {
    const cJSON *item = fore_json_get(object, name);
    *out = fallback;
    if (!item) return FORE_OK;
    double v = item->valuedouble;
    /* A double of 2^63 is above every int64_t, though INT64_MAX as a double equals it. */
    if (!cJSON_IsNumber(item) || v != floor(v) || v < (double)low || v > (double)high || v >= 9223372036854775808.0) {
        char expected[96];
        snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)low, (long long)high);
        return wrong(item, name, expected, err);
    }
    *out = (int64_t)v;
    return FORE_OK;
}

fore_status fore_json_number(const cJSON *object, const char *name, double fallback, double *out, fore_error *err) {
    const cJSON *item = fore_json_get(object, name);
    *out = fallback;
    if (!item) return FORE_OK;
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) return wrong(item, name, "a number", err);
    *out = item->valuedouble;
    return FORE_OK;
}

fore_status fore_json_bool(const cJSON *object, const char *name, bool fallback, bool *out, fore_error *err) {
    const cJSON *item = fore_json_get(object, name);
    *out = fallback;
    if (!item) return FORE_OK;
    if (!cJSON_IsBool(item)) return wrong(item, name, "true or false", err);
    *out = cJSON_IsTrue(item);
    return FORE_OK;
}

fore_status fore_json_string(const cJSON *object, const char *name, const char *fallback, const char **out,
                             fore_error *err) {
    const cJSON *item = fore_json_get(object, name);
    *out = fallback;
    if (!item) return FORE_OK;
    if (!cJSON_IsString(item)) return wrong(item, name, "a string", err);
    *out = item->valuestring;
    return FORE_OK;
}
