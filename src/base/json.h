/* JSON through cJSON, with UTF-8 checked first, and readers that say where a value is missing or of the wrong kind. */
#ifndef FORE_BASE_JSON_H
#define FORE_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Parses text[0..size). `what` names the source in messages (a path, mostly). *out is owned (cJSON_Delete).
 * FORE_ERR_FORMAT: not UTF-8, not JSON (with line and byte), something after the value, or \u0000 in a string, which
 * a C string cannot hold. FORE_ERR_LIMIT: so many short values that the tree would take more memory than fore_fits lets
 * a text of this size have. */
fore_status fore_json_parse(const char *text, size_t size, const char *what, cJSON **out, fore_error *err);
/* The same for a text that is a part of a file of `whole` bytes, which then count. */
fore_status fore_json_parse_part(const char *text, size_t size, size_t whole, const char *what, cJSON **out, fore_error *err);
/* Whether it is JSON; the same failures but for the last. */
fore_status fore_json_check(const char *text, size_t size, const char *what, fore_error *err);
/* Reads and parses a file of at most `limit` bytes. */
fore_status fore_json_read(const char *path, size_t limit, cJSON **out, fore_error *err);

/* Member `name` of object (case-sensitive), or NULL; a JSON null counts as absent. */
const cJSON *fore_json_get(const cJSON *object, const char *name);
/* Readers with a default: FORE_OK and *out = fallback when the key is absent, FORE_ERR_FORMAT (naming the key) when it
 * has the wrong kind or, for integers, is not a whole number in [low, high]. */
fore_status fore_json_int(const cJSON *object, const char *name, int64_t low, int64_t high, int64_t fallback,
                          int64_t *out, fore_error *err);
fore_status fore_json_number(const cJSON *object, const char *name, double fallback, double *out, fore_error *err);
fore_status fore_json_bool(const cJSON *object, const char *name, bool fallback, bool *out, fore_error *err);
/* *out is borrowed until the tree is deleted. */
fore_status fore_json_string(const cJSON *object, const char *name, const char *fallback, const char **out,
                             fore_error *err);

#endif
