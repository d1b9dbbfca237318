/* Is a text JSON, and if not, where and why. */
#ifndef FORE_BASE_JSON_SCAN_H
#define FORE_BASE_JSON_SCAN_H

#include <stddef.h>

/* NULL when text[0..size) is one JSON value in white space (a byte order mark before it is let pass) that cJSON reads
 * without loss; else what is wrong (static text) and in *at the byte where. UTF-8 is not checked here. *values: how many values there
 * are, *strings: how many strings, names of members among them. */
const char *fore_json_scan(const char *text, size_t size, size_t *at, size_t *values, size_t *strings);

#endif
