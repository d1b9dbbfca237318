/* Files made of other files' tensors; see tensor_file.h. */
#include "forge/tensor_file.h"

#include <string.h>

enum { BLOCK_BYTES = 8 << 20 };

fore_status fore_tensor_step_call(const fore_tensor_step *step, fore_error *err) {
    if (step->progress && step->progress(step->user, step->stage, step->done, step->total))
        return fore_fail(err, FORE_ERR_CANCELLED, "cancelled");
    return FORE_OK;
}

fore_safetensors_item fore_tensor_item(const fore_entry *entry, const char *name) {
    fore_safetensors_item it = {.name = name, .dtype = entry->dtype_name, .dims = entry->dims, .user = entry};
    memcpy(it.shape, entry->shape, sizeof it.shape);
    return it;
}

static fore_status copy_tensor(const fore_folder_file *file, const fore_safetensors_item *it, fore_tensor_step *step, fore_error *err) {
    const fore_entry *e = it->user;
    for (size_t at = 0; at < e->bytes;) {
        size_t size = e->bytes - at < BLOCK_BYTES ? e->bytes - at : BLOCK_BYTES;
        fore_status s = fore_tensor_step_call(step, err);
        if (!s) s = fore_folder_write_at(file, it->offset + at, e->data + at, size, err);
        if (s) return s;
        if (e->file >= 0) fore_map_release(e->data + at, size);
        at += size;
        step->done += size;
    }
    return FORE_OK;
}

fore_status fore_tensor_file_write(const fore_folder *folder, const char *name, fore_safetensors_item *items, size_t count,
                                   fore_tensor_step *step, fore_error *err) {
    fore_buf header = {0};
    fore_folder_file file = {.fd = -1};
    uint64_t size = 0;
    fore_status s = fore_safetensors_layout(items, count, &header, &size, err);
    if (!s) s = fore_folder_begin(folder, name, &file, err);
    if (!s) s = fore_folder_write_at(&file, 0, header.data, header.size, err);
    for (size_t i = 0; i < count && !s; i++) s = copy_tensor(&file, &items[i], step, err);
    if (!s) s = fore_folder_commit(&file, err);
    else if (file.folder) fore_folder_abandon(&file);
    fore_buf_free(&header);
    return s;
}

static bool same_tensor(const fore_entry *a, const fore_entry *b) {
    return a && !strcmp(a->dtype_name, b->dtype_name) && a->dims == b->dims &&
           !memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) && a->bytes == b->bytes &&
           (!a->bytes || !memcmp(a->data, b->data, a->bytes));
}

fore_status fore_tensor_file_same(const char *path, const fore_safetensors_item *items, size_t count, bool *same, fore_error *err) {
    fore_store *store = NULL;
    *same = false;
    if (!fore_file_exists(path)) return FORE_OK;
    fore_status s = fore_store_open_file(path, &store, err);
    if (s == FORE_ERR_NOMEM || s == FORE_ERR_IO) return s;
    if (s) return FORE_OK; /* no file of tensors, so another one */
    *same = fore_store_count(store) == count;
    for (size_t i = 0; i < count && *same; i++) *same = same_tensor(fore_store_find(store, items[i].name), items[i].user);
    fore_store_close(store);
    return FORE_OK;
}
