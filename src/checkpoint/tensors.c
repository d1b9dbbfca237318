/* The public functions on files of tensors: safetensors through the store, and writing them. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/safetensors_layout.h"

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

static fore_status write_all(const char *path, const fore_buf *header, const fore_safetensors_item *items, size_t count,
                             fore_error *err) {
    fore_writer w;
    fore_status s = fore_writer_open(path, &w, err);
    if (s) return s;
    s = fore_writer_write(&w, header->data, header->size, err);
    for (size_t i = 0; i < count && !s; i++)
        if (items[i].bytes)
            s = fore_writer_write(&w, ((const fore_tensor *)items[i].user)->data, (size_t)items[i].bytes, err);
    if (!s) return fore_writer_commit(&w, err);
    fore_writer_abandon(&w);
    return s;
}

fore_status fore_tensors_write(const char *path, const fore_tensor *tensors, size_t count, fore_error *err) {
    if (!path || (count && !tensors)) return fore_fail(err, FORE_ERR_INVALID, "fore_tensors_write: an argument is NULL");
    fore_safetensors_item *items = calloc(count + 1, sizeof *items);
    if (!items) return fore_fail_nomem(err, path);
    for (size_t i = 0; i < count; i++) {
        const fore_tensor *t = &tensors[i];
        items[i] = (fore_safetensors_item){.name = t->name, .dtype = t->dtype, .dims = t->dims, .user = t};
        memcpy(items[i].shape, t->shape, sizeof t->shape);
    }
    fore_buf header;
    uint64_t size;
    fore_status s = fore_safetensors_layout(items, count, &header, &size, err);
    for (size_t i = 0; i < count && !s; i++)
        if (items[i].bytes && !((const fore_tensor *)items[i].user)->data)
            s = fore_fail(err, FORE_ERR_INVALID, "tensor %s: data is NULL", items[i].name);
    if (s) s = fore_fail_prefix(err, s, "%s", path);
    else s = write_all(path, &header, items, count, err);
    fore_buf_free(&header);
    free(items);
    return s;
}
