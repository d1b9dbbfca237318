/* What the hub says of a repository: the commit of a revision, and the files in it with their sizes and digests. */
#ifndef FORE_HUB_LISTING_H
#define FORE_HUB_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "hub/names.h"

typedef struct fore_hub_file {
    char *path; /* owned; safe (names.h) */
    uint64_t size;
    char digest[FORE_HUB_DIGEST]; /* which is the file's ETag and the name of its blob */
    bool wanted;
} fore_hub_file;

typedef struct fore_hub_listing {
    char commit[FORE_HUB_DIGEST];
    fore_hub_file *files; /* owned */
    size_t count, capacity;
} fore_hub_listing;

void fore_hub_listing_free(fore_hub_listing *listing);
/* Reads the answer to .../revision/R: sets the commit. `what` names the source in messages. */
fore_status fore_hub_listing_read_commit(fore_hub_listing *listing, const char *json, size_t size, const char *what, fore_error *err);
/* Reads one page of .../tree/R?recursive=true and adds its files. FORE_ERR_FORMAT: also for names that cannot be kept. */
fore_status fore_hub_listing_add(fore_hub_listing *listing, const char *json, size_t size, const char *what, fore_error *err);

typedef struct fore_hub_patterns {
    const char *const *items; /* shell patterns, whose * crosses slashes; one that ends with a slash means all below */
    size_t count;
} fore_hub_patterns;

/* Marks what is wanted: what some pattern of include matches (without any: what Foresight needs of a checkpoint in safetensors)
 * and none of exclude. Returns how many files that are. */
size_t fore_hub_choose(fore_hub_listing *listing, fore_hub_patterns include, fore_hub_patterns exclude);
/* Whether some pattern matches the path. */
bool fore_hub_matches(fore_hub_patterns patterns, const char *path);

#endif
