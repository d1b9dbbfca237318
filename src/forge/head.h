/* Inside the forge room: the draft head of a checkpoint folder, wherever it lies. */
#ifndef FORE_FORGE_HEAD_H
#define FORE_FORGE_HEAD_H

#include <cjson/cJSON.h>

#include "base/arena.h"
#include "checkpoint/config.h"
#include "forge/tensor_file.h"

typedef struct fore_head_place {
    fore_arena arena;
    const char *dir;
    cJSON *tree; /* owned: config.json */
    fore_config config;
    fore_store *store, *sidecar; /* owned; the latter NULL: the head has no file of its own */
    char *sidecar_name;          /* owned */
    const fore_store *head;      /* the one that has it; NULL: neither */
    const char *prefix;          /* of its tensors' names there */
} fore_head_place;

/* close in any case. */
fore_status fore_head_find(const char *dir, fore_head_place *out, fore_error *err);
void fore_head_close(fore_head_place *place);

/* The head's tensors in a store, their names beginning with "mtp.", in the arena. layers: one more than the largest number of a
 * layer. */
fore_status fore_head_items(const fore_store *store, const char *prefix, fore_arena *arena, fore_safetensors_item **items, size_t *count,
                            uint64_t *bytes, int *layers, fore_error *err);
/* The name of the head's own file inside a folder: what config.json calls it, else mtp.safetensors. Borrowed from the tree. */
fore_status fore_head_file(const char *dir, const cJSON *tree, const char **name, fore_error *err);
/* Adds that file to the report's written ones. */
void fore_head_note_file(fore_head_report *report, const char *name);

#endif
