/* The JSON files of a checkpoint that gets a vision tower: config.json and the index of its weight files. */
#ifndef FORE_FORGE_GRAFT_CONFIG_H
#define FORE_FORGE_GRAFT_CONFIG_H

#include <cjson/cJSON.h>

#include "checkpoint/config.h"
#include "checkpoint/safetensors_layout.h"
#include "checkpoint/store.h"

/* Puts the tower's part of the donor's config.json into the host's: vision_config, the ids of the tokens around pictures where the
 * host names none, and, where the host is text alone, the names of the whole architecture. *changed: there was something to
 * put. */
fore_status fore_graft_config(const cJSON *donor, const fore_config *donor_config, cJSON *host, const fore_config *host_config,
                              bool *changed, fore_error *err);

/* An index of the files that the store has; *out is owned (cJSON_Delete). */
fore_status fore_graft_new_index(const fore_store *store, cJSON **out, fore_error *err);
/* Enters the tensors of the file `name` into an index, with their bytes and parameters. */
fore_status fore_graft_add_to_index(cJSON *index, const char *name, const fore_safetensors_item *items, size_t count, uint64_t bytes,
                                    uint64_t parameters, fore_error *err);

#endif
