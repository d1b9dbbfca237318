/* Any bytes as a picture: decode with small limits, digest, cut into patches. The last two bytes choose the settings.
 * The check sums of PNG chunks are put right first, or else hardly any change would get past them; every eighth file is
 * left as it is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t crc32_of(const uint8_t *data, size_t size) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void mend_png(uint8_t *data, size_t size) {
    if (size < 8 || memcmp(data, "\x89PNG\r\n\x1a\n", 8) != 0) return;
    for (size_t at = 8; size - at >= 12;) {
        size_t length = (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
        if (length > size - at - 12) return;
        uint32_t crc = crc32_of(data + at + 4, length + 4);
        for (int i = 0; i < 4; i++) data[at + 8 + length + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += length + 12;
    }
}

static void look_at(const uint8_t *data, size_t size) {
    fore_limits limits = {.image_bytes = 1 << 20, .image_pixels = 1 << 16, .image_side = 4096, .image_count = 1};
    fore_pixels pixels;
    fore_error err;
    if (fore_image_decode(data, size, "fuzz", &limits, &pixels, &err)) {
        if (pixels.rgb) abort();
        return;
    }
    uint8_t digest[FORE_DIGEST];
    fore_pixels_digest(&pixels, digest);
    fore_processor processor = {.patch_size = 1 + data[size - 1] % 16,
                                .temporal_patch_size = 1 + data[size - 1] / 128,
                                .merge_size = 1 + data[size - 2] % 3,
                                .min_pixels = 1024,
                                .max_pixels = 16384,
                                .mean = {0.5f, 0.5f, 0.5f},
                                .std = {0.5f, 0.5f, 0.5f},
                                .rescale_factor = 1.0 / 255,
                                .do_resize = data[size - 2] < 200,
                                .do_rescale = true,
                                .do_normalize = true};
    float *patches;
    int grid[3];
    if (!fore_image_patches(&processor, &pixels, "fuzz", &patches, grid, &err)) {
        size_t last = (size_t)grid[1] * (size_t)grid[2] * 3 * (size_t)processor.temporal_patch_size *
                      (size_t)(processor.patch_size * processor.patch_size);
        volatile float end = patches[last - 1];
        (void)end;
        free(patches);
    } else if (patches) {
        abort();
    }
    fore_pixels_free(&pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size + !size);
    if (!copy) return 0;
    if (size) memcpy(copy, data, size);
    if (size && data[size - 1] % 8) mend_png(copy, size);
    look_at(copy, size);
    free(copy);
    return 0;
}
