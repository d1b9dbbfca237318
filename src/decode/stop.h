/* Stop strings over a stream of text: holds back what may become a stop string, cuts at the first one that completes. */
#ifndef FORE_DECODE_STOP_H
#define FORE_DECODE_STOP_H

#include "base/buf.h"

typedef struct fore_stop fore_stop;

/* Copies the strings; an empty one is FORE_ERR_INVALID. */
fore_status fore_stop_new(const char *const *strings, size_t count, fore_stop **out, fore_error *err);
void fore_stop_free(fore_stop *stop);
/* Takes new text; appends to out what can no longer be part of a stop string. Returns in *matched the index of the stop
 * string that completed first (earliest end, then earliest start), or -1; what came before it has been appended, it and the rest are
 * dropped. Linear in the text whatever the strings. */
fore_status fore_stop_push(fore_stop *stop, const char *text, size_t size, fore_buf *out, int *matched);
/* At the end: releases what is held back. */
fore_status fore_stop_flush(fore_stop *stop, fore_buf *out);

#endif
