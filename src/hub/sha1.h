/* SHA-1 (FIPS 180-4), which is what Git names blobs by. It tells damaged files, not forged ones. */
#ifndef FORE_HUB_SHA1_H
#define FORE_HUB_SHA1_H

#include <stddef.h>
#include <stdint.h>

typedef struct fore_sha1 {
    uint32_t state[5];
    uint64_t size; /* bytes so far */
    uint8_t block[64];
} fore_sha1;

void fore_sha1_init(fore_sha1 *h);
void fore_sha1_update(fore_sha1 *h, const void *data, size_t size);
void fore_sha1_final(fore_sha1 *h, uint8_t digest[20]);

#endif
