/* Any bytes as a picture: decode with small limits, digest, cut into patches. The last two bytes choose the settings. */
#include <stdint.h>
#include <stdlib.h>

#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fore_limits limits = {.image_bytes = 1 << 20, .image_pixels = 1 << 16, .image_side = 4096, .image_count = 1};
    fore_pixels pixels;
    fore_error err;
    if (fore_image_decode(data, size, "fuzz", &limits, &pixels, &err)) {
        if (pixels.rgb) abort();
        return 0;
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
    return 0;
}
