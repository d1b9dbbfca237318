/* UTF-8: checking, decoding, encoding, replacing what is invalid. */
#ifndef FORE_BASE_UTF8_H
#define FORE_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Decodes the code point at text[0..size) (size >= 1) into *code and returns its length in bytes, 1 to 4; on an invalid
 * sequence sets *code to U+FFFD and returns minus the length of the maximal invalid part (as Unicode 3.9, table 3-7:
 * one replacement for each maximal subpart, what Python's errors="replace" does). */
int fore_utf8_decode(const char *text, size_t size, uint32_t *code);
/* Writes code (a scalar value) into out, returns 1 to 4. */
int fore_utf8_encode(uint32_t code, char out[4]);
/* Length of the longest valid prefix; equal to size when the text is valid UTF-8. */
size_t fore_utf8_valid_prefix(const char *text, size_t size);
/* Appends text to out with every invalid part replaced by U+FFFD. */
fore_status fore_utf8_sanitize(fore_buf *out, const char *text, size_t size);
/* Bytes at the end of text[0..size) that may be the start of a character whose rest has not come: 0 to 3. */
size_t fore_utf8_incomplete_tail(const char *text, size_t size);

#endif
