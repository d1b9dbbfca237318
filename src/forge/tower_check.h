/* Whether the files of a checkpoint have a whole vision tower: every tensor there, of the right shape and type, without opening the
 * text model. */
#ifndef FORE_FORGE_TOWER_CHECK_H
#define FORE_FORGE_TOWER_CHECK_H

#include "checkpoint/config.h"
#include "checkpoint/store.h"

/* Binds the tower of `config` strictly to the tensors under the prefix. parameters: of the tower; may be NULL. FORE_ERR_FORMAT names
 * what is wrong. */
fore_status fore_tower_check(const fore_config *config, const fore_store *store, const char *prefix, uint64_t *parameters,
                             fore_error *err);

/* The first tensor under one of the prefixes of towers, and how many there are; NULL: none. */
const fore_entry *fore_tower_find(const fore_store *store, size_t *count);

#endif
