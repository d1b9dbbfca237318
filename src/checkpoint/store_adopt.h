/* Inside the checkpoint room: a store over files that were opened otherwise than as safetensors. */
#ifndef FORE_CHECKPOINT_STORE_ADOPT_H
#define FORE_CHECKPOINT_STORE_ADOPT_H

#include "base/arena.h"
#include "checkpoint/store.h"

typedef struct fore_store_part {
    const char *path;    /* in the arena */
    fore_map *map;       /* taken: left empty */
    fore_entry *entries; /* in the arena; `file` is the part's number */
    size_t count;
} fore_store_part;

/* Takes the arena (left empty) and the maps, unless memory is out before they are. FORE_ERR_FORMAT: two tensors of one name. */
fore_status fore_store_adopt(fore_arena *arena, const fore_store_part *parts, int count, fore_store **out, fore_error *err);

#endif
