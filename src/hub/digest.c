/* Digests of files; see digest.h. */
#include "hub/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void fore_hub_digest_init(fore_hub_digest *d, bool git, uint64_t size) {
    d->git = git;
    if (!git) {
        crypto_hash_sha256_init(&d->state.sha256);
        return;
    }
    char head[32];
    int n = snprintf(head, sizeof head, "blob %" PRIu64, size);
    fore_sha1_init(&d->state.sha1);
    fore_sha1_update(&d->state.sha1, head, (size_t)n + 1); /* with the NUL */
}

void fore_hub_digest_update(fore_hub_digest *d, const void *data, size_t size) {
    if (d->git) fore_sha1_update(&d->state.sha1, data, size);
    else crypto_hash_sha256_update(&d->state.sha256, data, size);
}

void fore_hub_digest_final(fore_hub_digest *d, char text[FORE_HUB_DIGEST]) {
    uint8_t bytes[32];
    size_t count = d->git ? 20 : 32;
    if (d->git) fore_sha1_final(&d->state.sha1, bytes);
    else crypto_hash_sha256_final(&d->state.sha256, bytes);
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    text[2 * count] = 0;
}
