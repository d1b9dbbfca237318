/* The cache folder, in the layout of the huggingface_hub library, which other programs read and write too:
 *   models--OWNER--NAME/blobs/DIGEST                 content
 *   models--OWNER--NAME/refs/REVISION                the commit that a branch or tag meant when it was last asked
 *   models--OWNER--NAME/snapshots/COMMIT/PATH        -> ../../blobs/DIGEST
 *   .locks/models--OWNER--NAME/DIGEST.lock           held (flock) while the blob is being made
 * A blob grows under DIGEST.incomplete; every other file appears whole. */
#ifndef FORE_HUB_CACHE_H
#define FORE_HUB_CACHE_H

#include <stdint.h>

#include "hub/names.h"

typedef struct fore_hub_cache {
    char *root, *folder, *locks; /* owned: the cache, the repository's folder in it, the folder of its locks */
} fore_hub_cache;

/* Makes no folder. Close in any case. */
fore_status fore_hub_cache_open(const char *root, const char *repo, fore_hub_cache *out, fore_error *err);
void fore_hub_cache_close(fore_hub_cache *cache);
fore_status fore_hub_cache_make(const fore_hub_cache *cache, fore_error *err); /* the folders */

/* The commit that a revision means here; commit[0] is 0 when that is not known. */
fore_status fore_hub_cache_ref(const fore_hub_cache *cache, const char *revision, char commit[FORE_HUB_DIGEST], fore_error *err);
/* Appears at once or not at all; of a commit there is nothing to keep. */
fore_status fore_hub_cache_set_ref(const fore_hub_cache *cache, const char *revision, const char *commit, fore_error *err);

/* Paths, owned (fore_free). *out is NULL on failure. */
fore_status fore_hub_cache_snapshot(const fore_hub_cache *cache, const char *commit, char **out, fore_error *err);
fore_status fore_hub_cache_blob(const fore_hub_cache *cache, const char *digest, const char *suffix, char **out, fore_error *err);

/* A regular file of that size, also at the end of a link. */
bool fore_hub_file_has_size(const char *path, uint64_t size);
/* Makes snapshots/COMMIT/PATH mean the blob, unless a file of that size is there. */
fore_status fore_hub_cache_link(const fore_hub_cache *cache, const char *commit, const char *path, const char *digest, uint64_t size,
                                fore_error *err);
/* Bytes that may still be written; UINT64_MAX when the file system does not say. */
uint64_t fore_hub_cache_room(const fore_hub_cache *cache);

/* Takes the lock of a blob: *fd, to be closed, or -1 where there are no locks. *held: another has it (FORE_OK), ask again. */
fore_status fore_hub_cache_lock(const fore_hub_cache *cache, const char *digest, int *fd, bool *held, fore_error *err);

#endif
