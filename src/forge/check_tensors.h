/* Looking at every number of the tensors of some stores. */
#ifndef FORE_FORGE_CHECK_TENSORS_H
#define FORE_FORGE_CHECK_TENSORS_H

#include "base/arena.h"
#include "base/pool.h"
#include "checkpoint/store.h"

typedef struct fore_check_look {
    fore_pool *pool;
    fore_progress progress; /* stage "check", bytes; may be NULL */
    void *user;
    uint64_t done, total;
} fore_check_look;

/* Fills tensors [fore_store_count(store)], in the store's order; names and shapes are copied to the arena. FORE_ERR_NOMEM,
 * FORE_ERR_CANCELLED. */
fore_status fore_check_tensors(fore_check_look *look, const fore_store *store, fore_arena *arena, fore_check_tensor *tensors,
                               fore_error *err);

#endif
