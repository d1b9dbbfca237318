/* Decoding equals Pillow's pixels for every golden picture; what is refused is refused by name, before memory is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/formats.h"
#include "support/tensors.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif

static uint8_t *load(const char *folder, const char *name, size_t *size) {
    char path[512];
    snprintf(path, sizeof path, FORE_DATA "/%s/%s", folder, name);
    return (uint8_t *)read_file(path, size);
}

static fore_status decode_file(const char *folder, const char *name, const fore_limits *limits, fore_pixels *out,
                               fore_error *err) {
    size_t size;
    uint8_t *data = load(folder, name, &size);
    fore_status s = fore_image_decode(data, size, name, limits, out, err);
    free(data);
    if (s) {
        assert_null(out->rgb);
        assert_int_equal(err->code, s);
        assert_non_null(strstr(err->text, name));
    }
    return s;
}

/* Every picture of decode.json: equal pixels, or an error where the reference has one or we refuse the format. */
static void check_folder(const char *folder, int expect_equal, int expect_refused) {
    char path[512];
    snprintf(path, sizeof path, FORE_DATA "/%s/decode.json", folder);
    char *text = read_file(path, NULL);
    cJSON *names = cJSON_Parse(text);
    assert_non_null(names);
    snprintf(path, sizeof path, FORE_DATA "/%s/decode.safetensors", folder);
    tensor_file *goldens = tensors_open(path);
    int equal = 0, refused = 0, wrong = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, names) {
        const char *name = item->string;
        fore_pixels pixels;
        fore_error err = {0};
        tensor_view g;
        fore_status s = decode_file(folder, name, NULL, &pixels, &err);
        bool unsupported = strstr(name, ".gif") || strstr(name, ".bmp");
        if (unsupported || !tensors_find(goldens, name, &g)) {
            refused++;
            if (s != (unsupported ? FORE_ERR_UNSUPPORTED : FORE_ERR_FORMAT)) wrong++, print_error("%s: status %d\n", name, s);
            fore_pixels_free(&pixels);
            continue;
        }
        if (s) {
            wrong++;
            print_error("%s\n", err.text);
            continue;
        }
        size_t bytes = (size_t)pixels.width * (size_t)pixels.height * 3;
        if ((size_t)pixels.height != g.shape[0] || (size_t)pixels.width != g.shape[1] || bytes != g.bytes ||
            memcmp(pixels.rgb, g.data, bytes) != 0) {
            wrong++;
            print_error("%s: pixels differ\n", name);
        }
        equal++;
        fore_pixels_free(&pixels);
    }
    tensors_close(goldens);
    cJSON_Delete(names);
    free(text);
    assert_int_equal(wrong, 0);
    assert_int_equal(equal, expect_equal);
    assert_int_equal(refused, expect_refused);
}

static void test_pictures(void **state) {
    (void)state;
    check_folder("pictures", 44, 2);
}

static void test_rare_forms(void **state) {
    (void)state;
    check_folder("pictures_more", 101, 5);
}

static void expect_error(const char *folder, const char *name, fore_status status, const char *words) {
    fore_pixels pixels;
    fore_error err = {0};
    fore_status s = decode_file(folder, name, NULL, &pixels, &err);
    if (s != status || !strstr(err.text, words)) print_error("%s: status %d, \"%s\"\n", name, s, err.text);
    assert_int_equal(s, status);
    assert_non_null(strstr(err.text, words));
}

static void test_broken(void **state) {
    (void)state;
    expect_error("pictures", "broken_empty.png", FORE_ERR_FORMAT, "empty");
    expect_error("pictures", "broken_text.jpg", FORE_ERR_FORMAT, "not a picture but text");
    expect_error("pictures", "broken_truncated.jpg", FORE_ERR_FORMAT, "truncated");
    expect_error("pictures", "broken_truncated.png", FORE_ERR_FORMAT, "truncated");
    expect_error("pictures", "broken_crc.png", FORE_ERR_FORMAT, "broken PNG: IDAT");
    expect_error("pictures", "bomb_60000x60000.png", FORE_ERR_LIMIT, "60000x60000 pixels, the limit is 30000 a side");
    expect_error("pictures", "bomb_4g.png", FORE_ERR_LIMIT, "2147483647x2147483647");
    expect_error("pictures", "gif_static.gif", FORE_ERR_UNSUPPORTED, "GIF pictures are not supported; convert to PNG, JPEG or WebP");
    expect_error("pictures", "bmp_rgb.bmp", FORE_ERR_UNSUPPORTED, "BMP pictures are not supported");
    expect_error("pictures_more", "cut_late.jpg", FORE_ERR_FORMAT, "truncated");
    expect_error("pictures_more", "progressive_cut.jpg", FORE_ERR_FORMAT, "truncated");
    expect_error("pictures_more", "no_eoi.jpg", FORE_ERR_FORMAT, "truncated");
    expect_error("pictures_more", "cut.webp", FORE_ERR_FORMAT, "truncated");
    expect_error("pictures_more", "rgb8_no_iend.png", FORE_ERR_FORMAT, "truncated");
}

/* A wrong check sum is an error in any chunk, also in one whose content is not used. */
static void test_check_sums(void **state) {
    (void)state;
    static const struct {
        const char *name, *chunk;
    } cases[] = {{"rgb8.png", "IHDR"}, {"rgb8.png", "IDAT"}, {"rgb8_gamma.png", "gAMA"}, {"pal4.png", "PLTE"},
                 {"gray8_key.png", "tRNS"}, {"rgb8_exif_late.png", "eXIf"}, {"rgb8.png", "IEND"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size, at = 8;
        uint8_t *data = load("pictures_more", cases[i].name, &size);
        while (at + 12 <= size && memcmp(data + at + 4, cases[i].chunk, 4) != 0)
            at += 12 + ((size_t)data[at + 2] << 8 | data[at + 3]);
        assert_true(at + 12 <= size);
        at += 8 + ((size_t)data[at + 2] << 8 | data[at + 3]);
        data[at + 3] ^= 1;
        fore_pixels pixels;
        fore_error err = {0};
        assert_int_equal(fore_image_decode(data, size, NULL, NULL, &pixels, &err), FORE_ERR_FORMAT);
        if (!strstr(err.text, "CRC")) print_error("%s: %s\n", cases[i].chunk, err.text);
        assert_non_null(strstr(err.text, "CRC"));
        free(data);
    }
}

static void test_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *words;
        fore_status status;
    } cases[] = {
        {"II*\0\10\0\0\0", 8, "TIFF pictures", FORE_ERR_UNSUPPORTED},
        {"\0\0\0\x1c" "ftypavif\0\0\0\0", 16, "AVIF pictures", FORE_ERR_UNSUPPORTED},
        {"\0\0\0\x1c" "ftypheic\0\0\0\0", 16, "HEIC pictures", FORE_ERR_UNSUPPORTED},
        {"\0\0\0\x1c" "ftypisom\0\0\0\0", 16, "ISO media", FORE_ERR_UNSUPPORTED},
        {"\xff\x0a\0\0", 4, "JPEG XL pictures", FORE_ERR_UNSUPPORTED},
        {"<?xml version='1.0'?>\n<svg width='3'/>", 38, "SVG pictures", FORE_ERR_UNSUPPORTED},
        {"%PDF-1.7\n", 9, "PDF", FORE_ERR_UNSUPPORTED},
        {"\x89PNG\n\x1a\n\0\0\0\r", 12, "damaged signature", FORE_ERR_FORMAT},
        {"\x89PNG", 4, "truncated after 4 bytes", FORE_ERR_FORMAT},
        {"\xff\xd8", 2, "truncated after 2 bytes", FORE_ERR_FORMAT},
        {"RIFF\1\2", 6, "truncated after 6 bytes", FORE_ERR_FORMAT},
        {"\1\2\3\4\5", 5, "not a picture that is known here", FORE_ERR_UNSUPPORTED},
        {"<!DOCTYPE html>", 15, "not a picture but text", FORE_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fore_pixels pixels;
        fore_error err = {0};
        assert_int_equal(fore_image_decode(cases[i].bytes, cases[i].size, NULL, NULL, &pixels, &err), cases[i].status);
        if (!strstr(err.text, cases[i].words)) print_error("%s\n", err.text);
        assert_non_null(strstr(err.text, cases[i].words));
    }
    fore_pixels pixels;
    assert_int_equal(fore_image_decode(NULL, 0, NULL, NULL, &pixels, NULL), FORE_ERR_FORMAT);
}

/* Each prefix of a file is an error, never a picture (and with sanitizers never a stray read). */
static void test_every_prefix(void **state) {
    (void)state;
    static const char *const names[] = {"jpeg_17x3_q90_420.jpg", "jpeg_1x1_422_prog.jpg", "png_palette_trns.png",
                                        "png_exif_6.png", "webp_exif_8.webp", "webp_lossless.webp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size;
        uint8_t *data = load("pictures", names[i], &size);
        for (size_t n = 0; n < size; n += n < 700 ? 1 : 37) {
            uint8_t *part = malloc(n + !n); /* its own block, so that a read past its end is seen */
            assert_non_null(part);
            memcpy(part, data, n);
            fore_pixels pixels;
            fore_error err = {0};
            fore_status s = fore_image_decode(part, n, names[i], NULL, &pixels, &err);
            if (s != FORE_ERR_FORMAT) print_error("%s cut to %zu of %zu bytes: %d\n", names[i], n, size, s);
            assert_int_equal(s, FORE_ERR_FORMAT);
            free(part);
        }
        free(data);
    }
}

static void test_limits(void **state) {
    (void)state;
    fore_limits limits;
    fore_limits_init(&limits);
    assert_int_equal(limits.image_bytes, 64 << 20);
    assert_int_equal(limits.image_pixels, 100000000);
    assert_int_equal(limits.image_side, 30000);
    assert_int_equal(limits.image_count, 64);
    static const char *const names[] = {"jpeg_64x48_q90_420.jpg", "png_rgb.png", "webp_lossy.webp"};
    static const int width[] = {64, 80, 80}, height[] = {48, 50, 50};
    for (int i = 0; i < 3; i++) {
        fore_pixels pixels;
        fore_error err = {0};
        fore_limits_init(&limits);
        limits.image_side = width[i];
        limits.image_pixels = (uint64_t)(width[i] * height[i]);
        size_t size;
        free(load("pictures", names[i], &size));
        limits.image_bytes = size;
        assert_int_equal(decode_file("pictures", names[i], &limits, &pixels, &err), FORE_OK);
        fore_pixels_free(&pixels);
        limits.image_pixels--;
        assert_int_equal(decode_file("pictures", names[i], &limits, &pixels, &err), FORE_ERR_LIMIT);
        assert_non_null(strstr(err.text, "in all"));
        limits.image_pixels++;
        limits.image_side--;
        assert_int_equal(decode_file("pictures", names[i], &limits, &pixels, &err), FORE_ERR_LIMIT);
        assert_non_null(strstr(err.text, "a side"));
        limits.image_side++;
        limits.image_bytes--;
        assert_int_equal(decode_file("pictures", names[i], &limits, &pixels, &err), FORE_ERR_LIMIT);
        assert_non_null(strstr(err.text, "a file of"));
    }
}

/* With 256 MiB of address space left, a bomb is still "beyond the limit", not "out of memory": nothing was asked for.
 * Without limits the same file is out of memory, which shows that the ceiling works. */
static void test_bomb_takes_no_memory(void **state) {
    (void)state;
#ifdef ASAN
    skip(); /* needs terabytes of address space */
#else
    size_t size[2];
    uint8_t *data[2] = {load("pictures", "bomb_60000x60000.png", &size[0]), load("pictures", "bomb_4g.png", &size[1])};
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct rlimit ceiling = {.rlim_cur = 256u << 20, .rlim_max = 256u << 20};
        fore_limits none = {.image_bytes = UINT64_MAX, .image_pixels = UINT64_MAX, .image_side = INT_MAX};
        int bad = setrlimit(RLIMIT_AS, &ceiling) != 0;
        for (int i = 0; i < 2; i++) {
            fore_pixels pixels;
            bad += fore_image_decode(data[i], size[i], NULL, NULL, &pixels, NULL) != FORE_ERR_LIMIT;
            bad += fore_image_decode(data[i], size[i], NULL, &none, &pixels, NULL) != FORE_ERR_NOMEM;
        }
        _exit(bad);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    free(data[0]);
    free(data[1]);
#endif
}

/* 2,400 files with a few changed bytes: each decodes or fails with a message; sanitizers watch. */
static void test_mutations(void **state) {
    (void)state;
    static const char *const names[] = {"jpeg_17x3_q90_420.jpg", "jpeg_1x1_422_prog.jpg", "jpeg_exif_6.jpg",
                                        "png_palette_trns.png",  "png_rgba16.png",        "webp_exif_8.webp",
                                        "webp_alpha.webp",       "webp_anim.webp"};
    fore_limits limits;
    fore_limits_init(&limits);
    limits.image_pixels = 1 << 18;
    uint32_t random = 12345;
    int failed = 0, decoded = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size;
        uint8_t *data = load("pictures", names[i], &size), *copy = malloc(size);
        assert_non_null(copy);
        for (int round = 0; round < 300; round++) {
            memcpy(copy, data, size);
            /* Half of the changes hit the first 128 bytes, where the headers are. */
            for (int k = 0; k < 1 + round % 4; k++) {
                random = random * 1664525u + 1013904223u;
                size_t reach = (random >> 8 & 1) && size > 128 ? 128 : size;
                copy[(random >> 9) % reach] ^= (uint8_t)(1u << (random >> 4 & 7) | (random >> 28));
            }
            fore_pixels pixels;
            fore_error err = {0};
            fore_status s = fore_image_decode(copy, size, names[i], &limits, &pixels, &err);
            if (s) {
                assert_null(pixels.rgb);
                assert_true(strlen(err.text) > strlen(names[i]));
                failed++;
            } else {
                assert_true(pixels.width > 0 && pixels.height > 0);
                uint8_t digest[FORE_DIGEST];
                fore_pixels_digest(&pixels, digest); /* reads every byte */
                decoded++;
            }
            fore_pixels_free(&pixels);
        }
        free(copy);
        free(data);
    }
    assert_int_equal(failed + decoded, 2400);
    assert_true(failed > 240 && decoded > 24);
}

static void test_exif(void **state) {
    (void)state;
    static const uint8_t big[] = "Exif\0\0MM\0*\0\0\0\x8\0\x2\1\0\0\3\0\0\0\1\0\1\0\0\1\x12\0\3\0\0\0\1\0\5\0\0";
    static const uint8_t little[] = "II*\0\x8\0\0\0\1\0\x12\1\4\0\1\0\0\0\7\0\0\0";
    assert_int_equal(fore_exif_orientation(big, sizeof big - 1), 5);
    assert_int_equal(fore_exif_orientation(big + 6, sizeof big - 7), 5);
    assert_int_equal(fore_exif_orientation(little, sizeof little - 1), 7);
    uint8_t damaged[sizeof little];
    for (size_t n = 0; n < sizeof little - 1; n++) {
        uint8_t *part = malloc(n + !n);
        assert_non_null(part);
        memcpy(part, little, n);
        assert_int_equal(fore_exif_orientation(part, n), -1);
        free(part);
    }
    memcpy(damaged, little, sizeof little);
    damaged[18] = 9; /* no such orientation, which is for the caller to ignore */
    assert_int_equal(fore_exif_orientation(damaged, sizeof damaged - 1), 9);
    damaged[18] = 7;
    damaged[14] = 2; /* two values */
    assert_int_equal(fore_exif_orientation(damaged, sizeof damaged - 1), -1);
    damaged[14] = 1;
    memset(damaged + 4, 0xff, 4); /* a directory far outside */
    assert_int_equal(fore_exif_orientation(damaged, sizeof damaged - 1), -1);
}

static void test_xmp(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int orientation;
    } cases[] = {{"<d tiff:Orientation=\"6\"/>", 6}, {"<tiff:Orientation>3</", 3}, {"tiff:Orientationtiff:Orientation>2", 2},
                 {"", -1}, {"t", -1}, {"tiff:Orientation", -1}, {"tiff:Orientation=", -1}, {"tiff:Orientation=\"", -1},
                 {"tiff:Orientation=\"x", -1}, {"tiff:Orientation>", -1}, {"tiff:Orientation='6'", -1},
                 {"ttttttttttttttttttttttttttt", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = strlen(cases[i].text);
        uint8_t *part = malloc(size + !size);
        assert_non_null(part);
        memcpy(part, cases[i].text, size);
        assert_int_equal(fore_xmp_orientation(part, size), cases[i].orientation);
        free(part);
    }
}

/* Pixels whose values say where they were: each orientation on a picture larger than one block. */
static void test_orient(void **state) {
    (void)state;
    enum { W = 70, H = 41 };
    for (int o = 1; o <= 8; o++) {
        fore_pixels p;
        assert_int_equal(fore_pixels_new(W, H, &p, NULL), FORE_OK);
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                uint8_t *at = p.rgb + (y * W + x) * 3;
                at[0] = (uint8_t)x, at[1] = (uint8_t)y, at[2] = 7;
            }
        assert_int_equal(fore_pixels_orient(&p, o, NULL), FORE_OK);
        assert_int_equal(p.width, o < 5 ? W : H);
        assert_int_equal(p.height, o < 5 ? H : W);
        /* Where the stored picture's first pixel and the end of its first row are seen, by the EXIF standard. */
        int right = p.width - 1, bottom = p.height - 1;
        int first[9][2] = {{0}, {0, 0}, {right, 0}, {right, bottom}, {0, bottom}, {0, 0}, {right, 0}, {right, bottom}, {0, bottom}};
        int end[9][2] = {{0}, {right, 0}, {0, 0}, {0, bottom}, {right, bottom}, {0, bottom}, {right, bottom}, {right, 0}, {0, 0}};
        const uint8_t *a = p.rgb + (first[o][1] * p.width + first[o][0]) * 3;
        const uint8_t *b = p.rgb + (end[o][1] * p.width + end[o][0]) * 3;
        assert_int_equal(a[0], 0);
        assert_int_equal(a[1], 0);
        assert_int_equal(b[0], W - 1);
        assert_int_equal(b[1], 0);
        fore_pixels_free(&p);
    }
}

static void test_digest(void **state) {
    (void)state;
    uint8_t rgb[6 * 3] = {1, 2, 3};
    fore_pixels wide = {.rgb = rgb, .width = 3, .height = 2}, tall = {.rgb = rgb, .width = 2, .height = 3};
    uint8_t a[FORE_DIGEST], b[FORE_DIGEST];
    fore_pixels_digest(&wide, a);
    fore_pixels_digest(&wide, b);
    assert_memory_equal(a, b, FORE_DIGEST);
    fore_pixels_digest(&tall, b);
    assert_memory_not_equal(a, b, FORE_DIGEST);
    rgb[17] = 1;
    fore_pixels_digest(&wide, b);
    assert_memory_not_equal(a, b, FORE_DIGEST);
    float patches[6] = {1, 2, 3};
    fore_patches_digest(patches, 6, (int[]){1, 2, 3}, a);
    fore_patches_digest(patches, 6, (int[]){1, 2, 3}, b);
    assert_memory_equal(a, b, FORE_DIGEST);
    fore_patches_digest(patches, 6, (int[]){1, 3, 2}, b);
    assert_memory_not_equal(a, b, FORE_DIGEST);
    patches[5] = 1;
    fore_patches_digest(patches, 6, (int[]){1, 2, 3}, b);
    assert_memory_not_equal(a, b, FORE_DIGEST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_rare_forms),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_check_sums),
        cmocka_unit_test(test_refused_by_name),
        cmocka_unit_test(test_every_prefix),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_bomb_takes_no_memory),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_exif),
        cmocka_unit_test(test_xmp),
        cmocka_unit_test(test_orient),
        cmocka_unit_test(test_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
