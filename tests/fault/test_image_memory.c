/* Memory runs out at the n-th request, for every n, while pictures are decoded, resized and cut: an error each time (when
 * only that one request fails, libjpeg may get by with a smaller one), nothing left behind, and the next try works. The allocator of this program is glibc's, behind a counter, so that the
 * requests of the picture libraries fail too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"
#include "support/tensors.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif

#ifndef ASAN
static bool armed, stays_out;
static long requests, fail_at, live; /* while armed: how many so far, which one fails, blocks not freed */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static bool refused(void) {
    if (!armed) return false;
    requests++;
    if (!fail_at || requests < fail_at || (requests > fail_at && !stays_out)) return false;
    errno = ENOMEM;
    return true;
}

static void *counted(void *p) {
    if (armed && p) live++;
    return p;
}

#define SEEN __attribute__((visibility("default"))) /* by the libraries too */
SEEN void *malloc(size_t size) { return refused() ? NULL : counted(__libc_malloc(size)); }
SEEN void *calloc(size_t count, size_t size) { return refused() ? NULL : counted(__libc_calloc(count, size)); }
SEEN void *realloc(void *p, size_t size) {
    if (refused()) return NULL;
    void *q = __libc_realloc(p, size);
    return p ? q : counted(q);
}
SEEN void free(void *p) {
    if (armed && p) live--;
    __libc_free(p);
}

static fore_status whole_way(const char *data, size_t size, float **patches, int grid[3], fore_error *err) {
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
    *patches = NULL;
    fore_status s = fore_image_decode(data, size, "p", NULL, &pixels, err);
    if (!s) s = fore_image_patches(&processor, &pixels, "p", patches, grid, err);
    fore_pixels_free(&pixels);
    return s;
}

/* What one try gives with the n-th request refused (0: none). */
static fore_status attempt(const char *data, size_t size, long n, long *made, long *left, fore_error *err) {
    float *patches;
    int grid[3];
    requests = live = 0;
    fail_at = n;
    armed = true;
    fore_status s = whole_way(data, size, &patches, grid, err);
    free(patches);
    armed = false;
    *made = requests;
    *left = live;
    return s;
}

static void check_file(const char *path) {
    size_t size;
    char *data = read_file(path, &size);
    long made, left, total;
    fore_error err = {0};
    assert_int_equal(attempt(data, size, 0, &total, &left, &err), FORE_OK);
    assert_int_equal(left, 0);
    assert_true(total > 8);
    for (long n = 1; n <= 2 * total; n++) {
        memset(&err, 0, sizeof err);
        stays_out = n > total;
        long at = stays_out ? n - total : n;
        fore_status s = attempt(data, size, at, &made, &left, &err);
        bool told = s ? strstr(err.text, "memory") != NULL : !stays_out;
        if (!told || left) print_error("%s: request %ld of %ld: status %d, %ld left: %s\n", path, at, total, s, left, err.text);
        assert_true(told);
        assert_int_equal(left, 0);
    }
    assert_int_equal(attempt(data, size, 0, &made, &left, &err), FORE_OK);
    assert_int_equal(made, total);
    free(data);
}
#endif

static void test_no_memory(void **state) {
    (void)state;
#ifdef ASAN
    skip(); /* the sanitizer has an allocator of its own */
#else
    check_file(FORE_DATA "/pictures/jpeg_97x61_q90_420.jpg");
    check_file(FORE_DATA "/pictures/jpeg_33x120_422_prog.jpg");
    check_file(FORE_DATA "/pictures/jpeg_cmyk.jpg");
    check_file(FORE_DATA "/pictures/jpeg_exif_6.jpg");
    check_file(FORE_DATA "/pictures/png_palette_trns.png");
    check_file(FORE_DATA "/pictures/png_exif_6.png");
    check_file(FORE_DATA "/pictures_more/rgba16_adam7.png");
    /* Lossy only: the lossless decoder of libwebp 1.2.4, which Debian 12 has, follows a pointer that it never set when the
     * memory for its Huffman tables is refused. */
    check_file(FORE_DATA "/pictures/webp_exif_8.webp");
    check_file(FORE_DATA "/pictures/webp_lossy.webp");
    check_file(FORE_DATA "/pictures_more/lossy_odd.webp");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
