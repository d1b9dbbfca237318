/* Memory runs out at the n-th request, for every n, while pictures are decoded, resized and cut: an error when it stays
 * out, an error or a picture when only that request fails (libjpeg may get by with a smaller one), nothing left behind,
 * and the next try works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "image/image.h"
#include "support/failing_malloc.h"
#include "support/tensors.h"

static fore_status whole_way(const char *data, size_t size, fore_error *err) {
    static const fore_processor processor = {.patch_size = 16,
                                             .temporal_patch_size = 2,
                                             .merge_size = 2,
                                             .min_pixels = 4096,
                                             .max_pixels = 16384,
                                             .mean = {0.5f, 0.5f, 0.5f},
                                             .std = {0.5f, 0.5f, 0.5f},
                                             .rescale_factor = 1.0 / 255,
                                             .do_resize = true,
                                             .do_rescale = true,
                                             .do_normalize = true};
    fore_pixels pixels;
    float *patches = NULL;
    int grid[3];
    fore_status s = fore_image_decode(data, size, "p", NULL, &pixels, err);
    if (!s) s = fore_image_patches(&processor, &pixels, "p", &patches, grid, err);
    fore_pixels_free(&pixels);
    free(patches);
    return s;
}

#if FAILING_MALLOC
/* With the request after the first n refused; *refused: there was one. */
static fore_status attempt(const char *path, const char *data, size_t size, long n, bool *refused) {
    fore_error err = {0};
    long before = malloc_live;
    malloc_left = n;
    malloc_refused = false;
    malloc_armed = true;
    fore_status s = whole_way(data, size, &err);
    malloc_armed = false;
    *refused = malloc_refused;
    if (malloc_live != before) fail_msg("%s: %ld blocks left after request %ld failed", path, malloc_live - before, n);
    if (s && !strstr(err.text, "memory")) fail_msg("%s: request %ld: %d %s", path, n, s, err.text);
    if (!s && *refused && malloc_stays_out) fail_msg("%s: a picture without memory after request %ld", path, n);
    return s;
}

static void check_file(const char *path) {
    size_t size;
    char *data = read_file(path, &size);
    for (int stays_out = 0; stays_out < 2; stays_out++) {
        bool refused = true;
        int failed = 0;
        malloc_stays_out = stays_out;
        for (long n = 0; refused; n++) {
            fore_status s = attempt(path, data, size, n, &refused);
            failed += s != FORE_OK;
            assert_true(refused || !s);
        }
        assert_true(failed > 8);
    }
    free(data);
}
#else
/* The sanitizer looks for leaks and bad accesses of an undisturbed run. */
static void check_file(const char *path) {
    size_t size;
    char *data = read_file(path, &size);
    fore_error err = {0};
    if (whole_way(data, size, &err)) fail_msg("%s", err.text);
    free(data);
}
#endif

static void test_jpeg(void **state) {
    (void)state;
    check_file(FORE_DATA "/pictures/jpeg_97x61_q90_420.jpg");
    check_file(FORE_DATA "/pictures/jpeg_33x120_422_prog.jpg");
    check_file(FORE_DATA "/pictures/jpeg_cmyk.jpg");
    check_file(FORE_DATA "/pictures/jpeg_exif_6.jpg");
}

static void test_png(void **state) {
    (void)state;
    check_file(FORE_DATA "/pictures/png_palette_trns.png");
    check_file(FORE_DATA "/pictures/png_exif_6.png");
    check_file(FORE_DATA "/pictures_more/rgba16_adam7.png");
}

/* Lossy only: the lossless decoder of libwebp 1.2.4, which Debian 12 has, follows a pointer that it never set when the
 * memory for its Huffman tables is refused. */
static void test_webp(void **state) {
    (void)state;
    check_file(FORE_DATA "/pictures/webp_exif_8.webp");
    check_file(FORE_DATA "/pictures/webp_lossy.webp");
    check_file(FORE_DATA "/pictures_more/lossy_odd.webp");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_jpeg), cmocka_unit_test(test_png), cmocka_unit_test(test_webp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
