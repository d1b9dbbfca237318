/* Settings of preprocessor_config.json and processor_config.json: which file wins, which key, which default. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/image.h"

static char folder[] = "/tmp/fore-processor-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static void path_of(char path[128], const char *file) { snprintf(path, 128, "%s/%s", folder, file); }

/* text NULL: no such file. */
static void put(const char *file, const char *text) {
    char path[128];
    path_of(path, file);
    unlink(path);
    if (!text) return;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int remove_folder(void **state) {
    (void)state;
    put("preprocessor_config.json", NULL);
    put("processor_config.json", NULL);
    return rmdir(folder);
}

static fore_processor read_with(const char *preprocessor, const char *processor) {
    put("preprocessor_config.json", preprocessor);
    put("processor_config.json", processor);
    fore_processor p;
    fore_error err = {0};
    fore_status s = fore_processor_read(folder, NULL, &p, &err);
    if (s) print_error("%s\n", err.text);
    assert_int_equal(s, FORE_OK);
    return p;
}

static void expect_areas(const char *json, int64_t low, int64_t high) {
    fore_processor p = read_with(json, NULL);
    assert_int_equal(p.min_pixels, low);
    assert_int_equal(p.max_pixels, high);
}

static void test_published_file(void **state) {
    (void)state;
    fore_processor p;
    assert_int_equal(fore_processor_read(FORE_DATA "/models/dense_tied_f32", NULL, &p, NULL), FORE_OK);
    assert_int_equal(p.patch_size, 16);
    assert_int_equal(p.temporal_patch_size, 2);
    assert_int_equal(p.merge_size, 2);
    assert_int_equal(p.min_pixels, 65536);
    assert_int_equal(p.max_pixels, 16777216);
    for (int c = 0; c < 3; c++) assert_true(p.mean[c] == 0.5f && p.std[c] == 0.5f);
    assert_true(p.rescale_factor == 1.0 / 255);
    assert_true(p.do_resize && p.do_rescale && p.do_normalize);
}

static void test_no_file_is_published(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        fore_processor p = read_with(NULL, i ? "{\"processor_class\": \"Qwen3VLProcessor\"}" : NULL);
        assert_int_equal(p.patch_size, 16);
        assert_int_equal(p.min_pixels, 65536);
        assert_int_equal(p.max_pixels, 16777216);
        assert_true(p.mean[2] == 0.5f && p.std[0] == 0.5f);
    }
}

static void test_class_defaults(void **state) {
    (void)state;
    fore_processor p = read_with("{}", NULL);
    assert_int_equal(p.patch_size, 14);
    assert_int_equal(p.temporal_patch_size, 2);
    assert_int_equal(p.merge_size, 2);
    assert_int_equal(p.min_pixels, 3136);
    assert_int_equal(p.max_pixels, 1003520);
    assert_true(p.mean[0] == 0.48145466f && p.mean[1] == 0.4578275f && p.mean[2] == 0.40821073f);
    assert_true(p.std[0] == 0.26862954f && p.std[1] == 0.26130258f && p.std[2] == 0.27577711f);
    p = read_with("{\"patch_size\": 16, \"image_mean\": null, \"image_std\": 0.25}", NULL);
    assert_int_equal(p.patch_size, 16);
    assert_int_equal(p.max_pixels, 1003520);
    assert_true(p.mean[0] == 0.48145466f && p.std[0] == 0.25f && p.std[2] == 0.25f);
}

static void test_areas(void **state) {
    (void)state;
    expect_areas("{\"size\": {\"shortest_edge\": 5, \"longest_edge\": 7}}", 5, 7);
    expect_areas("{\"size\": {\"shortest_edge\": 5, \"longest_edge\": 7}, \"min_pixels\": 6}", 6, 7);
    expect_areas("{\"size\": {\"shortest_edge\": 5, \"longest_edge\": 7}, \"max_pixels\": 9}", 5, 9);
    expect_areas("{\"size\": {\"longest_edge\": 7}, \"min_pixels\": 3}", 3, 7);
    expect_areas("{\"min_pixels\": 10, \"max_pixels\": 20}", 10, 20);
    expect_areas("{\"min_pixels\": 10}", 10, 1003520);
    expect_areas("{\"size\": null, \"max_pixels\": null}", 3136, 1003520);
}

static void test_which_file(void **state) {
    (void)state;
    const char *plain = "{\"patch_size\": 12, \"merge_size\": 3}";
    assert_int_equal(read_with(plain, "{\"image_processor\": {\"patch_size\": 18}}").patch_size, 18);
    assert_int_equal(read_with(plain, "{\"image_processor\": {\"patch_size\": 18}}").merge_size, 2); /* not merged */
    assert_int_equal(read_with(plain, "{\"image_processor\": null}").patch_size, 12);
    assert_int_equal(read_with(plain, "{\"patch_size\": 18}").patch_size, 12);
    assert_int_equal(read_with(NULL, "{\"image_processor\": {\"patch_size\": 18}}").patch_size, 18);
}

static void test_switches(void **state) {
    (void)state;
    fore_processor p = read_with("{\"do_resize\": false, \"do_rescale\": false, \"do_normalize\": false, "
                                 "\"rescale_factor\": 0.5, \"temporal_patch_size\": 1, \"resample\": 2}", NULL);
    assert_false(p.do_resize || p.do_rescale || p.do_normalize);
    assert_true(p.rescale_factor == 0.5);
    assert_int_equal(p.temporal_patch_size, 1);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *json;
        fore_status status;
        const char *words;
    } cases[] = {
        {"{", FORE_ERR_FORMAT, "not valid JSON"},
        {"[]", FORE_ERR_FORMAT, "object"},
        {"{\"patch_size\": 0}", FORE_ERR_FORMAT, "patch_size"},
        {"{\"patch_size\": 1.5}", FORE_ERR_FORMAT, "patch_size"},
        {"{\"patch_size\": 1e30}", FORE_ERR_FORMAT, "patch_size"},
        {"{\"merge_size\": \"2\"}", FORE_ERR_FORMAT, "merge_size"},
        {"{\"size\": 224}", FORE_ERR_FORMAT, "size"},
        {"{\"size\": {\"height\": 224, \"width\": 224}}", FORE_ERR_FORMAT, "shortest_edge and longest_edge"},
        {"{\"size\": {\"shortest_edge\": -1, \"longest_edge\": 5}}", FORE_ERR_FORMAT, "shortest_edge"},
        {"{\"min_pixels\": 0}", FORE_ERR_FORMAT, "min_pixels"},
        {"{\"max_pixels\": 1e300}", FORE_ERR_FORMAT, "max_pixels"},
        {"{\"image_mean\": [0.5, 0.5]}", FORE_ERR_FORMAT, "image_mean"},
        {"{\"image_mean\": [0.5, \"a\", 0.5]}", FORE_ERR_FORMAT, "image_mean"},
        {"{\"image_std\": [0.5, 0, 0.5]}", FORE_ERR_FORMAT, "image_std"},
        {"{\"rescale_factor\": 0}", FORE_ERR_FORMAT, "rescale_factor"},
        {"{\"do_resize\": 1}", FORE_ERR_FORMAT, "do_resize"},
        {"{\"resample\": 2}", FORE_ERR_UNSUPPORTED, "resample"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("preprocessor_config.json", cases[i].json);
        put("processor_config.json", NULL);
        fore_processor p;
        fore_error err = {0};
        fore_status s = fore_processor_read(folder, NULL, &p, &err);
        if (s != cases[i].status || !strstr(err.text, cases[i].words)) print_error("%s: %d %s\n", cases[i].json, s, err.text);
        assert_int_equal(s, cases[i].status);
        assert_non_null(strstr(err.text, cases[i].words));
        assert_non_null(strstr(err.text, "preprocessor_config.json"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_file), cmocka_unit_test(test_no_file_is_published),
        cmocka_unit_test(test_class_defaults), cmocka_unit_test(test_areas),
        cmocka_unit_test(test_which_file),     cmocka_unit_test(test_switches),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
