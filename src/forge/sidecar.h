/* The draft head's own file in a checkpoint folder. */
#ifndef FORE_FORGE_SIDECAR_H
#define FORE_FORGE_SIDECAR_H

#include <cjson/cJSON.h>

#include "checkpoint/store.h"

/* Opens the file that config.json names (mlx_lm_extra_tensors.mtp_file), else the first of the usual ones that is there and has a
 * head. *out is owned (fore_store_close), *name its path inside the folder (fore_free); both NULL when there is none. */
fore_status fore_sidecar_open(const char *dir, const cJSON *config, fore_store **out, char **name, fore_error *err);

#endif
