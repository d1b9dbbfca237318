/* The identity of a picture's content. */
#include <sodium.h>

#include "image/video.h"

static void put32(uint8_t *to, int value) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)((uint32_t)value >> 8 * i);
}

/* A tag keeps the two kinds of content apart. */
static void digest_of(char tag, const uint8_t *head, size_t head_size, const void *data, size_t size, uint8_t digest[FORE_DIGEST]) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, FORE_DIGEST);
    crypto_generichash_update(&state, (const uint8_t *)&tag, 1);
    crypto_generichash_update(&state, head, head_size);
    crypto_generichash_update(&state, data, size);
    crypto_generichash_final(&state, digest, FORE_DIGEST);
}

void fore_pixels_digest(const fore_pixels *pixels, uint8_t digest[FORE_DIGEST]) {
    uint8_t sides[8];
    put32(sides, pixels->width);
    put32(sides + 4, pixels->height);
    digest_of('p', sides, sizeof sides, pixels->rgb, (size_t)pixels->width * (size_t)pixels->height * 3, digest);
}

void fore_patches_digest(const float *patches, size_t count, const int grid[3], uint8_t digest[FORE_DIGEST]) {
    uint8_t sides[12];
    for (int i = 0; i < 3; i++) put32(sides + 4 * i, grid[i]);
    digest_of('f', sides, sizeof sides, patches, count * sizeof *patches, digest);
}

void fore_frames_digest(const fore_frames *frames, size_t first, size_t count, uint8_t digest[FORE_DIGEST]) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, FORE_DIGEST);
    crypto_generichash_update(&state, (const uint8_t *)"v", 1);
    for (size_t i = first; i < first + count; i++) {
        const fore_pixels *p = &frames->items[i < frames->count ? i : frames->count - 1];
        uint8_t sides[8];
        put32(sides, p->width);
        put32(sides + 4, p->height);
        crypto_generichash_update(&state, sides, sizeof sides);
        crypto_generichash_update(&state, p->rgb, (size_t)p->width * (size_t)p->height * 3);
    }
    crypto_generichash_final(&state, digest, FORE_DIGEST);
}
