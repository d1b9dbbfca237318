/* The identity of a picture's content. */
#include <sodium.h>

#include "image/image.h"

void fore_pixels_digest(const fore_pixels *pixels, uint8_t digest[FORE_DIGEST]) {
    crypto_generichash_state state;
    uint8_t sides[8];
    for (int i = 0; i < 4; i++) {
        sides[i] = (uint8_t)((uint32_t)pixels->width >> 8 * i);
        sides[4 + i] = (uint8_t)((uint32_t)pixels->height >> 8 * i);
    }
    crypto_generichash_init(&state, NULL, 0, FORE_DIGEST);
    crypto_generichash_update(&state, sides, sizeof sides);
    crypto_generichash_update(&state, pixels->rgb, (size_t)pixels->width * (size_t)pixels->height * 3);
    crypto_generichash_final(&state, digest, FORE_DIGEST);
}
