/* A growable byte buffer; see buf.h. */
#include "base/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void fore_buf_free(fore_buf *buf) {
    free(buf->data);
    *buf = (fore_buf){.limit = buf->limit};
}

fore_status fore_buf_reserve(fore_buf *buf, size_t more) {
    if (more > SIZE_MAX / 2 - buf->size) return FORE_ERR_LIMIT;
    size_t need = buf->size + more;
    if (buf->limit && need > buf->limit) return FORE_ERR_LIMIT;
    if (need < buf->capacity) return FORE_OK;
    size_t capacity = buf->capacity ? buf->capacity : 64;
    while (capacity <= need) capacity += capacity / 2;
    char *data = realloc(buf->data, capacity);
    if (!data) return FORE_ERR_NOMEM;
    data[buf->size] = 0;
    buf->data = data;
    buf->capacity = capacity;
    return FORE_OK;
}

fore_status fore_buf_append(fore_buf *buf, const void *data, size_t size) {
    fore_status s = fore_buf_reserve(buf, size);
    if (s) return s;
    if (size) memcpy(buf->data + buf->size, data, size);
    buf->size += size;
    buf->data[buf->size] = 0;
    return FORE_OK;
}

fore_status fore_buf_puts(fore_buf *buf, const char *text) { return fore_buf_append(buf, text, strlen(text)); }

fore_status fore_buf_putc(fore_buf *buf, char c) { return fore_buf_append(buf, &c, 1); }

char *fore_buf_take(fore_buf *buf, size_t *size) {
    if (fore_buf_reserve(buf, 0)) return NULL;
    char *data = buf->data;
    if (size) *size = buf->size;
    *buf = (fore_buf){.limit = buf->limit};
    return data;
}
