/* A growable byte buffer. The bytes are always followed by a NUL, which is not counted, so data may be read as a C
 * string. A failed append leaves the buffer as it was. */
#ifndef FORE_BASE_BUF_H
#define FORE_BASE_BUF_H

#include <stddef.h>

#include "base/error.h"

typedef struct fore_buf {
    char *data; /* owned; NULL while nothing was appended */
    size_t size;
    size_t capacity;
    size_t limit; /* no more bytes than this (FORE_ERR_LIMIT); 0: no limit */
} fore_buf;

void fore_buf_free(fore_buf *buf);
/* Makes room for `more` bytes beyond size. FORE_ERR_NOMEM or FORE_ERR_LIMIT. */
fore_status fore_buf_reserve(fore_buf *buf, size_t more);
fore_status fore_buf_append(fore_buf *buf, const void *data, size_t size);
fore_status fore_buf_puts(fore_buf *buf, const char *text);
fore_status fore_buf_putc(fore_buf *buf, char c);
/* Hands the bytes to the caller (free with fore_free) and leaves the buffer empty; never NULL unless memory is out. */
char *fore_buf_take(fore_buf *buf, size_t *size);

#endif
