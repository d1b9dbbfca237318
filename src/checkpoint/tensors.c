/* The public functions on files of tensors: safetensors through the store, and writing them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

struct fore_tensor_file {
    fore_store *store;
    fore_tensor *tensors; /* in the order of the store */
};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

fore_status fore_tensors_open(const char *path, fore_tensor_file **out, fore_error *err) {
    if (!out) return fore_fail(err, FORE_ERR_INVALID, "fore_tensors_open: out is NULL");
    *out = NULL;
    if (!path) return fore_fail(err, FORE_ERR_INVALID, "fore_tensors_open: path is NULL");
    fore_tensor_file *f = calloc(1, sizeof *f);
    if (!f) return fore_fail_nomem(err, path);
    fore_status s = fore_store_open_file(path, &f->store, err);
    if (s) goto fail;
    size_t count = fore_store_count(f->store);
    f->tensors = calloc(count + 1, sizeof *f->tensors);
    if (!f->tensors) {
        s = fore_fail_nomem(err, path);
        goto fail;
    }
    for (size_t i = 0; i < count; i++) {
        const fore_entry *e = fore_store_at(f->store, i);
        f->tensors[i] = (fore_tensor){.name = e->name, .dtype = e->dtype_name, .dims = e->dims, .data = e->data};
        memcpy(f->tensors[i].shape, e->shape, sizeof e->shape);
    }
    *out = f;
    return FORE_OK;
fail:
    fore_tensors_close(f);
    return s;
}

const fore_tensor *fore_tensors_get(const fore_tensor_file *file, const char *name) {
    const fore_entry *e = fore_store_find(file->store, name);
    return e ? &file->tensors[e - fore_store_at(file->store, 0)] : NULL;
}

const fore_tensor *fore_tensors_at(const fore_tensor_file *file, size_t index) {
    return index < fore_store_count(file->store) ? &file->tensors[index] : NULL;
}

void fore_tensors_close(fore_tensor_file *file) {
    if (!file) return;
    fore_store_close(file->store);
    free(file->tensors);
    free(file);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct item {
    const fore_tensor *tensor;
    const fore_safetensors_type *type;
    uint64_t bytes;
} item;

/* Wide types first: with a header padded to 8 bytes every tensor then lies at a multiple of its type's size. */
static int compare_items(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->type->bits != y->type->bits) return x->type->bits > y->type->bits ? -1 : 1;
    return strcmp(x->tensor->name, y->tensor->name);
}

static int compare_by_name(const void *a, const void *b) {
    return strcmp(((const item *)a)->tensor->name, ((const item *)b)->tensor->name);
}

static fore_status check_item(const fore_tensor *t, item *out, fore_error *err) {
    if (!t->name || !strcmp(t->name, "__metadata__") || fore_utf8_valid_prefix(t->name, strlen(t->name)) != strlen(t->name))
        return fore_fail(err, FORE_ERR_INVALID, "a tensor needs a name in UTF-8 other than __metadata__");
    out->tensor = t;
    out->type = t->dtype ? fore_safetensors_find_type(t->dtype) : NULL;
    if (!out->type)
        return fore_fail(err, FORE_ERR_INVALID, "tensor %s: unknown dtype %s", t->name, t->dtype ? t->dtype : "(none)");
    if (t->dims < 0 || t->dims > FORE_STORE_DIMS)
        return fore_fail(err, FORE_ERR_INVALID, "tensor %s: expected 0 to %d dimensions, found %d", t->name, FORE_STORE_DIMS,
                         t->dims);
    if (!fore_safetensors_bytes(out->type, t->dims, t->shape, &out->bytes))
        return fore_fail(err, FORE_ERR_INVALID, "tensor %s: the size of its shape overflows or ends within a byte", t->name);
    if (out->bytes && !t->data) return fore_fail(err, FORE_ERR_INVALID, "tensor %s: data is NULL", t->name);
    return FORE_OK;
}

static fore_status check_items(const fore_tensor *tensors, size_t count, item *items, fore_error *err) {
    for (size_t i = 0; i < count; i++) {
        fore_status s = check_item(&tensors[i], &items[i], err);
        if (s) return s;
    }
    qsort(items, count, sizeof *items, compare_by_name);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(items[i].tensor->name, items[i - 1].tensor->name))
            return fore_fail(err, FORE_ERR_INVALID, "tensor %s is given twice", items[i].tensor->name);
    qsort(items, count, sizeof *items, compare_items);
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

static fore_status put_item(fore_buf *buf, const item *it, uint64_t begin) {
    fore_status s = put_quoted(buf, it->tensor->name);
    if (!s) s = fore_buf_puts(buf, ":{\"dtype\":\"");
    if (!s) s = fore_buf_puts(buf, it->type->name);
    if (!s) s = fore_buf_puts(buf, "\",\"shape\":[");
    for (int i = 0; i < it->tensor->dims && !s; i++) {
        if (i) s = fore_buf_putc(buf, ',');
        if (!s) s = put_number(buf, it->tensor->shape[i]);
    }
    if (!s) s = fore_buf_puts(buf, "],\"data_offsets\":[");
    if (!s) s = put_number(buf, begin);
    if (!s) s = fore_buf_putc(buf, ',');
    if (!s) s = put_number(buf, begin + it->bytes);
    return s ? s : fore_buf_puts(buf, "]}");
}

/* The whole header with its length before it. FORE_ERR_LIMIT: more than the format allows. */
static fore_status put_header(fore_buf *buf, const item *items, size_t count) {
    uint64_t at = 0;
    fore_status s = fore_buf_append(buf, "\0\0\0\0\0\0\0\0{", 9);
    for (size_t i = 0; i < count && !s; i++) {
        if (i) s = fore_buf_putc(buf, ',');
        if (!s) s = put_item(buf, &items[i], at);
        if (!s && __builtin_add_overflow(at, items[i].bytes, &at)) s = FORE_ERR_LIMIT;
    }
    if (!s) s = fore_buf_putc(buf, '}');
    while (!s && buf->size % 8) s = fore_buf_putc(buf, ' ');
    if (s) return s;
    uint64_t length = buf->size - 8;
    if (length > FORE_SAFETENSORS_MAX_HEADER) return FORE_ERR_LIMIT;
    for (int i = 0; i < 8; i++) buf->data[i] = (char)(length >> (8 * i) & 0xFF);
    return FORE_OK;
}

static fore_status write_all(const char *path, const fore_buf *header, const item *items, size_t count, fore_error *err) {
    fore_writer w;
    fore_status s = fore_writer_open(path, &w, err);
    if (s) return s;
    s = fore_writer_write(&w, header->data, header->size, err);
    for (size_t i = 0; i < count && !s; i++)
        if (items[i].bytes) s = fore_writer_write(&w, items[i].tensor->data, (size_t)items[i].bytes, err);
    if (!s) return fore_writer_commit(&w, err);
    fore_writer_abandon(&w);
    return s;
}

fore_status fore_tensors_write(const char *path, const fore_tensor *tensors, size_t count, fore_error *err) {
    if (!path || (count && !tensors)) return fore_fail(err, FORE_ERR_INVALID, "fore_tensors_write: an argument is NULL");
    item *items = calloc(count + 1, sizeof *items);
    if (!items) return fore_fail_nomem(err, path);
    fore_buf header = {0};
    fore_status s = check_items(tensors, count, items, err);
    if (s) {
        s = fore_fail_prefix(err, s, "%s", path);
        goto done;
    }
    s = put_header(&header, items, count);
    if (s == FORE_ERR_NOMEM) fore_fail_nomem(err, path);
    else if (s) fore_fail(err, s, "%s: more tensors than a safetensors header can describe", path);
    if (!s) s = write_all(path, &header, items, count, err);
done:
    fore_buf_free(&header);
    free(items);
    return s;
}
