/* The header of a safetensors file that is to be written; see safetensors_layout.h. */
#include "checkpoint/safetensors_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* With a header padded to 8 bytes, every tensor then lies at a multiple of its type's size. */
static int compare_by_width(const void *a, const void *b) {
    const fore_safetensors_item *x = a, *y = b;
    if (x->type->bits != y->type->bits) return x->type->bits > y->type->bits ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_by_name(const void *a, const void *b) {
    return strcmp(((const fore_safetensors_item *)a)->name, ((const fore_safetensors_item *)b)->name);
}

static fore_status check_item(fore_safetensors_item *t, fore_error *err) {
    if (!t->name || !strcmp(t->name, "__metadata__") || fore_utf8_valid_prefix(t->name, strlen(t->name)) != strlen(t->name))
        return fore_fail(err, FORE_ERR_INVALID, "a tensor needs a name in UTF-8 other than __metadata__");
    t->type = t->dtype ? fore_safetensors_find_type(t->dtype) : NULL;
    if (!t->type)
        return fore_fail(err, FORE_ERR_INVALID, "tensor %s: unknown dtype %s", t->name, t->dtype ? t->dtype : "(none)");
    if (t->dims < 0 || t->dims > FORE_STORE_DIMS)
        return fore_fail(err, FORE_ERR_INVALID, "tensor %s: expected 0 to %d dimensions, found %d", t->name, FORE_STORE_DIMS,
                         t->dims);
    if (!fore_safetensors_bytes(t->type, t->dims, t->shape, &t->bytes))
        return fore_fail(err, FORE_ERR_INVALID, "tensor %s: the size of its shape overflows or ends within a byte", t->name);
    return FORE_OK;
}

static fore_status check_items(fore_safetensors_item *items, size_t count, fore_error *err) {
    for (size_t i = 0; i < count; i++) {
        fore_status s = check_item(&items[i], err);
        if (s) return s;
    }
    if (count) qsort(items, count, sizeof *items, compare_by_name);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(items[i].name, items[i - 1].name))
            return fore_fail(err, FORE_ERR_INVALID, "tensor %s is given twice", items[i].name);
    if (count) qsort(items, count, sizeof *items, compare_by_width);
    return FORE_OK;
}

static fore_status put_quoted(fore_buf *buf, const char *text) {
    fore_status s = fore_buf_putc(buf, '"');
    for (const char *p = text; *p && !s; p++) {
        char escaped[8];
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c < 0x20) snprintf(escaped, sizeof escaped, "\\u%04x", c);
        else snprintf(escaped, sizeof escaped, "%c", c);
        s = fore_buf_puts(buf, escaped);
    }
    return s ? s : fore_buf_putc(buf, '"');
}

static fore_status put_number(fore_buf *buf, uint64_t n) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, n);
    return fore_buf_puts(buf, text);
}

static fore_status put_item(fore_buf *buf, const fore_safetensors_item *it, uint64_t begin) {
    fore_status s = put_quoted(buf, it->name);
    if (!s) s = fore_buf_puts(buf, ":{\"dtype\":\"");
    if (!s) s = fore_buf_puts(buf, it->type->name);
    if (!s) s = fore_buf_puts(buf, "\",\"shape\":[");
    for (int i = 0; i < it->dims && !s; i++) {
        if (i) s = fore_buf_putc(buf, ',');
        if (!s) s = put_number(buf, it->shape[i]);
    }
    if (!s) s = fore_buf_puts(buf, "],\"data_offsets\":[");
    if (!s) s = put_number(buf, begin);
    if (!s) s = fore_buf_putc(buf, ',');
    if (!s) s = put_number(buf, begin + it->bytes);
    return s ? s : fore_buf_puts(buf, "]}");
}

/* The whole header with its length before it; offsets count from its end until it is known where that is. */
static fore_status put_header(fore_buf *buf, fore_safetensors_item *items, size_t count, uint64_t *size) {
    uint64_t at = 0;
    fore_status s = fore_buf_append(buf, "\0\0\0\0\0\0\0\0{", 9);
    for (size_t i = 0; i < count && !s; i++) {
        if (i) s = fore_buf_putc(buf, ',');
        if (!s) s = put_item(buf, &items[i], at);
        items[i].offset = at;
        if (!s && __builtin_add_overflow(at, items[i].bytes, &at)) s = FORE_ERR_LIMIT;
    }
    if (!s) s = fore_buf_putc(buf, '}');
    while (!s && buf->size % 8) s = fore_buf_putc(buf, ' ');
    if (s) return s;
    uint64_t length = buf->size - 8;
    if (length > FORE_SAFETENSORS_MAX_HEADER || at > INT64_MAX - buf->size) return FORE_ERR_LIMIT;
    for (int i = 0; i < 8; i++) buf->data[i] = (char)(length >> (8 * i) & 0xFF);
    for (size_t i = 0; i < count; i++) items[i].offset += buf->size;
    *size = at + buf->size;
    return FORE_OK;
}

fore_status fore_safetensors_layout(fore_safetensors_item *items, size_t count, fore_buf *header, uint64_t *size,
                                    fore_error *err) {
    *header = (fore_buf){0};
    *size = 0;
    fore_status s = check_items(items, count, err);
    if (s) return s;
    s = put_header(header, items, count, size);
    if (s == FORE_ERR_NOMEM) return fore_fail_nomem(err, "the header of a safetensors file");
    return s ? fore_fail(err, s, "more tensors than a safetensors header can describe") : FORE_OK;
}
