/* Target sizes, resampled pixels and pixel_values equal the reference's bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/formats.h"
#include "support/tensors.h"

static fore_processor settings(int64_t min_pixels, int64_t max_pixels) {
    return (fore_processor){.patch_size = 16,
                            .temporal_patch_size = 2,
                            .merge_size = 2,
                            .min_pixels = min_pixels,
                            .max_pixels = max_pixels,
                            .mean = {0.5f, 0.5f, 0.5f},
                            .std = {0.5f, 0.5f, 0.5f},
                            .rescale_factor = 1.0 / 255,
                            .do_resize = true,
                            .do_rescale = true,
                            .do_normalize = true};
}

static cJSON *read_json(const char *path) {
    char *text = read_file(path, NULL);
    cJSON *tree = cJSON_Parse(text);
    assert_non_null(tree);
    free(text);
    return tree;
}

static void test_smart_resize_table(void **state) {
    (void)state;
    cJSON *tree = read_json(FORE_DATA "/tables/tables/smart_resize.json");
    const cJSON *row;
    int count = 0, refused = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tree, "image")) {
        double v[5];
        for (int i = 0; i < 5; i++) v[i] = cJSON_GetArrayItem(row, i)->valuedouble;
        const cJSON *expected = cJSON_GetArrayItem(row, 5);
        int h = -1, w = -1;
        fore_error err = {0};
        fore_status s = fore_smart_resize((int)v[0], (int)v[1], (int)v[2], (int64_t)v[3], (int64_t)v[4], &h, &w, &err);
        if (cJSON_IsNull(expected)) {
            assert_int_equal(s, FORE_ERR_LIMIT);
            assert_non_null(strstr(err.text, "200 times"));
            refused++;
        } else {
            assert_int_equal(s, FORE_OK);
            assert_int_equal(h, cJSON_GetArrayItem(expected, 0)->valueint);
            assert_int_equal(w, cJSON_GetArrayItem(expected, 1)->valueint);
        }
        count++;
    }
    assert_int_equal(count, 200);
    assert_true(refused > 0);
    cJSON_Delete(tree);
}

static void test_smart_resize_extremes(void **state) {
    (void)state;
    int h = 0, w = 0;
    /* Halves go to the even multiple. */
    assert_int_equal(fore_smart_resize(48, 80, 32, 1, 1 << 20, &h, &w, NULL), FORE_OK);
    assert_int_equal(h, 64);
    assert_int_equal(w, 64);
    /* Exactly 200 is allowed. */
    assert_int_equal(fore_smart_resize(10, 2000, 32, 65536, 16777216, &h, &w, NULL), FORE_OK);
    assert_int_equal(fore_smart_resize(10, 2001, 32, 65536, 16777216, &h, &w, NULL), FORE_ERR_LIMIT);
    /* The longest sides do not overflow. */
    assert_int_equal(fore_smart_resize(INT_MAX, INT_MAX, 32, 65536, 16777216, &h, &w, NULL), FORE_OK);
    assert_int_equal(h, 4096);
    assert_int_equal(w, 4096);
    assert_int_equal(fore_smart_resize(INT_MAX, INT_MAX, 32, 65536, INT64_MAX, &h, &w, NULL), FORE_ERR_LIMIT);
    assert_int_equal(fore_smart_resize(1, 1, INT_MAX, INT64_MAX, INT64_MAX, &h, &w, NULL), FORE_ERR_LIMIT);
    assert_int_equal(fore_smart_resize(0, 5, 32, 65536, 16777216, &h, &w, NULL), FORE_ERR_INVALID);
    assert_int_equal(fore_smart_resize(5, 5, 0, 65536, 16777216, &h, &w, NULL), FORE_ERR_INVALID);
    assert_int_equal(fore_smart_resize(5, 5, 32, 0, 16777216, &h, &w, NULL), FORE_ERR_INVALID);
}

static void hex_digest(const void *data, size_t size, char hex[65]) {
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(hash, data, size);
    sodium_bin2hex(hex, 65, hash, sizeof hash);
}

/* Decode, resize and cut the six pictures with both settings; compare with the tensors and with the SHA-256 values. */
static void test_goldens(void **state) {
    (void)state;
    cJSON *tree = read_json(FORE_DATA "/images/images/images.json");
    tensor_file *goldens = tensors_open(FORE_DATA "/images/images/golden_images.safetensors");
    const cJSON *item;
    int resized = 0, hashes = 0, tensors = 0;
    cJSON_ArrayForEach(item, tree) {
        if (item->string[0] == '_') continue;
        char path[512], key[256];
        size_t size;
        snprintf(path, sizeof path, FORE_DATA "/images/images/%s", item->string);
        char *data = read_file(path, &size);
        fore_pixels pixels;
        fore_error err = {0};
        assert_int_equal(fore_image_decode(data, size, item->string, NULL, &pixels, &err), FORE_OK);
        free(data);
        for (int small = 0; small < 2; small++) {
            const char *name = small ? "small" : "default";
            fore_processor p = small ? settings(4096, 16384) : settings(65536, 16777216);
            const cJSON *want = cJSON_GetObjectItem(cJSON_GetObjectItem(item, name), "torchvision");
            snprintf(key, sizeof key, "%s/%s/torchvision/resized_u8", item->string, name);
            tensor_view g = tensors_get(goldens, key, "U8");
            int h, w;
            assert_int_equal(fore_smart_resize(pixels.height, pixels.width, 32, p.min_pixels, p.max_pixels, &h, &w, &err), 0);
            assert_int_equal(h, g.shape[0]);
            assert_int_equal(w, g.shape[1]);
            fore_pixels out;
            assert_int_equal(fore_image_resize(&pixels, h, w, &out, &err), FORE_OK);
            assert_memory_equal(out.rgb, g.data, g.bytes);
            fore_pixels_free(&out);
            resized++;

            float *patches;
            int grid[3], announced[3];
            assert_int_equal(fore_image_patches(&p, &pixels, item->string, &patches, grid, &err), FORE_OK);
            assert_int_equal(fore_image_grid(&p, pixels.height, pixels.width, item->string, announced, &err), FORE_OK);
            assert_memory_equal(grid, announced, sizeof grid);
            for (int i = 0; i < 3; i++)
                assert_int_equal(grid[i], cJSON_GetArrayItem(cJSON_GetObjectItem(want, "grid_thw"), i)->valueint);
            size_t bytes = (size_t)grid[1] * (size_t)grid[2] * 1536 * sizeof(float);
            char hex[65];
            hex_digest(patches, bytes, hex);
            assert_string_equal(hex, cJSON_GetObjectItem(want, "pixel_values_sha256")->valuestring);
            hashes++;
            snprintf(key, sizeof key, "%s/%s/torchvision/pixel_values", item->string, name);
            if (tensors_find(goldens, key, &g)) {
                assert_int_equal(g.bytes, bytes);
                assert_memory_equal(patches, g.data, bytes);
                tensors++;
            }
            free(patches);
        }
        fore_pixels_free(&pixels);
    }
    assert_int_equal(resized, 12);
    assert_int_equal(hashes, 12);
    assert_true(tensors >= 6);
    tensors_close(goldens);
    cJSON_Delete(tree);
}

/* Pseudo-random pixels; the oracle script makes the same. */
static void fill(fore_pixels *p, uint32_t seed) {
    for (size_t i = 0; i < (size_t)p->width * (size_t)p->height * 3; i++) {
        seed = seed * 1664525u + 1013904223u;
        p->rgb[i] = (uint8_t)(seed >> 24);
    }
}

/* Sizes up and down, far and near, one axis and both, against torch's own interpolate (tests/oracle/make_resizes.py). */
static void test_against_torch(void **state) {
    (void)state;
    static const struct {
        int h, w, out_h, out_w;
        const char *sha256;
    } cases[] = {
#include "support/resizes.inc"
    };
    assert_true(sizeof cases / sizeof *cases >= 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fore_pixels in, out;
        assert_int_equal(fore_pixels_new(cases[i].w, cases[i].h, &in, NULL), FORE_OK);
        fill(&in, (uint32_t)i + 1);
        assert_int_equal(fore_image_resize(&in, cases[i].out_h, cases[i].out_w, &out, NULL), FORE_OK);
        char hex[65];
        hex_digest(out.rgb, (size_t)out.width * (size_t)out.height * 3, hex);
        if (strcmp(hex, cases[i].sha256) != 0)
            print_error("%dx%d to %dx%d differs\n", cases[i].w, cases[i].h, cases[i].out_w, cases[i].out_h);
        assert_string_equal(hex, cases[i].sha256);
        fore_pixels_free(&in);
        fore_pixels_free(&out);
    }
}

static void test_resize_refuses(void **state) {
    (void)state;
    uint8_t rgb[3] = {1, 2, 3};
    fore_pixels in = {.rgb = rgb, .width = 1, .height = 1}, none = {0}, out;
    assert_int_equal(fore_image_resize(&none, 3, 3, &out, NULL), FORE_ERR_INVALID);
    assert_int_equal(fore_image_resize(&in, 0, 3, &out, NULL), FORE_ERR_INVALID);
    assert_int_equal(fore_image_resize(&in, 3, -1, &out, NULL), FORE_ERR_INVALID);
    assert_int_equal(fore_image_resize(&in, INT_MAX, INT_MAX, &out, NULL), FORE_ERR_NOMEM);
    assert_null(out.rgb);
}

/* The order of a patch's floats, and what the settings do to a byte. */
static void test_patch_settings(void **state) {
    (void)state;
    enum { H = 12, W = 16 };
    fore_pixels in;
    assert_int_equal(fore_pixels_new(W, H, &in, NULL), FORE_OK);
    fill(&in, 99);
    fore_processor p = settings(1, 1 << 20);
    p.patch_size = 2;
    p.temporal_patch_size = 3;
    p.do_resize = false;
    float mean[3] = {0.48145466f, 0.4578275f, 0.40821073f}, std[3] = {0.26862954f, 0.26130258f, 0.27577711f};
    memcpy(p.mean, mean, sizeof mean);
    memcpy(p.std, std, sizeof std);
    for (int mode = 0; mode < 4; mode++) {
        p.do_rescale = mode & 1;
        p.do_normalize = mode & 2;
        float *patches;
        int grid[3];
        assert_int_equal(fore_image_patches(&p, &in, NULL, &patches, grid, NULL), FORE_OK);
        assert_int_equal(grid[0], 1);
        assert_int_equal(grid[1], H / 2);
        assert_int_equal(grid[2], W / 2);
        const float *at = patches;
        for (int by = 0; by < H / 4; by++)
            for (int bx = 0; bx < W / 4; bx++)
                for (int my = 0; my < 2; my++)
                    for (int mx = 0; mx < 2; mx++)
                        for (int c = 0; c < 3; c++)
                            for (int t = 0; t < 3; t++)
                                for (int y = 0; y < 2; y++)
                                    for (int x = 0; x < 2; x++) {
                                        int row = by * 4 + my * 2 + y, column = bx * 4 + mx * 2 + x;
                                        float v = in.rgb[(row * W + column) * 3 + c], want = v;
                                        if (mode == 1) want = v * (float)(1.0 / 255);
                                        if (mode == 2) want = (v - mean[c]) / std[c];
                                        if (mode == 3) want = (v - mean[c] * 255.0f) / (std[c] * 255.0f);
                                        assert_memory_equal(&want, at, sizeof want);
                                        at++;
                                    }
        free(patches);
    }
    float *patches;
    int grid[3];
    fore_error err = {0};
    in.height = 10;
    assert_int_equal(fore_image_grid(&p, in.height, in.width, "x.png", grid, NULL), FORE_ERR_INVALID);
    assert_int_equal(fore_image_patches(&p, &in, "x.png", &patches, grid, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "x.png"));
    assert_non_null(strstr(err.text, "multiples of 4"));
    p.patch_size = 0;
    assert_int_equal(fore_image_patches(&p, &in, NULL, &patches, grid, NULL), FORE_ERR_INVALID);
    p = settings(65536, 16777216);
    fore_pixels strip = {.rgb = in.rgb, .width = 191, .height = 1};
    assert_int_equal(fore_image_patches(&p, &strip, NULL, &patches, grid, NULL), FORE_OK);
    free(patches);
    strip.width = 201; /* never read: refused first */
    assert_int_equal(fore_image_patches(&p, &strip, "strip.png", &patches, grid, &err), FORE_ERR_LIMIT);
    assert_null(patches);
    assert_non_null(strstr(err.text, "strip.png"));
    in.height = H;
    fore_pixels_free(&in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smart_resize_table), cmocka_unit_test(test_smart_resize_extremes),
        cmocka_unit_test(test_goldens),            cmocka_unit_test(test_against_torch),
        cmocka_unit_test(test_resize_refuses),     cmocka_unit_test(test_patch_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
