/* Stop strings over a stream of text: holds back what may become a stop string, cuts at the first one that completes.
 * Knows bytes, not tokens. Stop strings are valid UTF-8, so text that comes in whole characters leaves in whole
 * characters. */
#ifndef FORE_DECODE_STOP_H
#define FORE_DECODE_STOP_H

#include "base/buf.h"

enum { FORE_STOP_BYTES = 16384 }; /* of all stop strings of a request together */

typedef struct fore_stop fore_stop;

/* Copies the strings (count may be 0: everything passes). FORE_ERR_INVALID: a string that is NULL, empty or not UTF-8;
 * FORE_ERR_LIMIT: more than FORE_STOP_BYTES. *out is owned by the caller (fore_stop_free). */
fore_status fore_stop_new(const char *const *strings, size_t count, fore_stop **out, fore_error *err);
void fore_stop_free(fore_stop *stop);
/* Takes new text; appends to out what can no longer be part of a stop string. Returns in *matched the index of the stop
 * string that completed first (earliest end, then earliest start; of equal strings the first given), or -1; what came
 * before it has been appended, it and the rest are dropped, and the next push begins a new text. Linear in the text
 * whatever the strings. On failure (out cannot grow) nothing is changed. */
fore_status fore_stop_push(fore_stop *stop, const char *text, size_t size, fore_buf *out, int *matched);
/* At the end: releases what is held back. On failure nothing is changed. */
fore_status fore_stop_flush(fore_stop *stop, fore_buf *out);

#endif
