/* The digest by which the hub names a file: SHA-256 of what it keeps apart from Git (64 digits), else Git's of a blob (40). */
#ifndef FORE_HUB_DIGEST_H
#define FORE_HUB_DIGEST_H

#include <sodium.h>
#include <stdbool.h>

#include "hub/names.h"
#include "hub/sha1.h"

typedef struct fore_hub_digest {
    bool git;
    union {
        fore_sha1 sha1;
        crypto_hash_sha256_state sha256;
    } state;
} fore_hub_digest;

/* git: of a Git blob, whose digest covers its size too. */
void fore_hub_digest_init(fore_hub_digest *d, bool git, uint64_t size);
void fore_hub_digest_update(fore_hub_digest *d, const void *data, size_t size);
void fore_hub_digest_final(fore_hub_digest *d, char text[FORE_HUB_DIGEST]);

#endif
