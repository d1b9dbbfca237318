/* A safetensors file made of tensors that lie in the files of a store, byte for byte, under other names. */
#ifndef FORE_FORGE_TENSOR_FILE_H
#define FORE_FORGE_TENSOR_FILE_H

#include "checkpoint/safetensors_layout.h"
#include "checkpoint/store.h"
#include "forge/folder.h"

typedef struct fore_tensor_step {
    fore_progress progress; /* may be NULL */
    void *user;
    const char *stage;
    uint64_t done, total; /* bytes of tensors */
} fore_tensor_step;

/* FORE_ERR_CANCELLED when progress says so. */
fore_status fore_tensor_step_call(const fore_tensor_step *step, fore_error *err);

/* The item that takes all of an entry under the name given. */
fore_safetensors_item fore_tensor_item(const fore_entry *entry, const char *name);

/* Writes the file, whole or not at all. Of each item, `user` is the fore_entry whose bytes it takes (its file is -1 when they lie in no
 * file, but in memory that must stay as it is); the items are sorted. */
fore_status fore_tensor_file_write(const fore_folder *folder, const char *name, fore_safetensors_item *items, size_t count,
                                   fore_tensor_step *step, fore_error *err);
/* *same: a file of that name is there and has these tensors, no others, with the same bytes. */
fore_status fore_tensor_file_same(const char *path, const fore_safetensors_item *items, size_t count, bool *same, fore_error *err);

#endif
