/* One file of the hub into the cache: gone on with where an earlier run ended, checked, and only then under its name. */
#ifndef FORE_HUB_DOWNLOAD_H
#define FORE_HUB_DOWNLOAD_H

#include "hub/cache.h"
#include "hub/http.h"

/* *fetched: whether it was not there. The bytes are added to the shared `done`, in any case all of the file's when it is there
 * in the end. */
fore_status fore_hub_download(fore_http *http, const fore_hub_cache *cache, const fore_hub_name *name, const char *commit,
                              const fore_hub_file *file, bool *fetched, uint64_t *bytes, fore_error *err);

#endif
