/* generation_config.json: transformers' defaults, every way to write end tokens, and messages for what makes no sense.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "decode/generation_config.h"

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/fore-generation-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    unlink(path);
    return rmdir(folder);
}

static fore_status read_text(const char *text, fore_generation_config *out, fore_error *err) {
    char path[128];
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
    memset(out, 0xEE, sizeof *out);
    return fore_generation_config_read(folder, out, err);
}

static void published_form(void **state) {
    (void)state;
    fore_generation_config c;
    assert_int_equal(
        read_text(
            "{\"bos_token_id\": 248044, \"do_sample\": true, \"eos_token_id\": [248046, 248044], \"pad_token_id\": "
            "248044, \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.95, \"min_p\": 0.05, "
            "\"repetition_penalty\": 1.05, \"transformers_version\": \"4.57.1\"}",
            &c, NULL),
        FORE_OK);
    assert_true(c.sampling.temperature == 0.6f && c.sampling.top_k == 20 && c.sampling.top_p == 0.95f);
    assert_true(c.sampling.min_p == 0.05f && c.sampling.repetition_penalty == 1.05f);
    assert_true(c.sampling.presence_penalty == 0 && c.sampling.frequency_penalty == 0 && c.sampling.seed == 0);
    assert_true(!c.sampling.bias && !c.sampling.bias_count);
    assert_int_equal(c.eos_count, 2);
    assert_int_equal(c.eos[0], 248046);
    assert_int_equal(c.eos[1], 248044);
}

static void defaults(void **state) {
    (void)state;
    fore_generation_config c;
    assert_int_equal(read_text("{\"do_sample\": true}", &c, NULL), FORE_OK);
    assert_true(c.sampling.temperature == 1 && c.sampling.top_k == 50 && c.sampling.top_p == 1 &&
                c.sampling.min_p == 0);
    assert_true(c.sampling.repetition_penalty == 1);
    assert_int_equal(c.eos_count, 0);
    const char *greedy[] = {"{}", "{\"do_sample\": false, \"temperature\": 0.7, \"eos_token_id\": null}",
                            " {\"do_sample\": null}\n"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_text(greedy[i], &c, NULL), FORE_OK);
        assert_true(c.sampling.temperature == 0 && c.sampling.top_k == 0 && c.sampling.top_p == 1);
        assert_true(c.sampling.repetition_penalty == 1);
        assert_int_equal(c.eos_count, 0);
    }
    assert_int_equal(read_text("{\"do_sample\": true, \"top_k\": -1, \"temperature\": null}", &c, NULL), FORE_OK);
    assert_true(c.sampling.top_k == 0 && c.sampling.temperature == 1);
}

static void no_file(void **state) {
    (void)state;
    fore_generation_config c;
    memset(&c, 0xEE, sizeof c);
    assert_int_equal(fore_generation_config_read("/nonexistent", &c, NULL), FORE_OK);
    assert_true(c.sampling.temperature == 0 && c.sampling.top_p == 1 && c.sampling.repetition_penalty == 1);
    assert_int_equal(c.eos_count, 0);
}

static void end_tokens(void **state) {
    (void)state;
    fore_generation_config c;
    fore_error err;
    assert_int_equal(read_text("{\"eos_token_id\": 7}", &c, &err), FORE_OK);
    assert_true(c.eos_count == 1 && c.eos[0] == 7);
    assert_int_equal(read_text("{\"eos_token_id\": [5, 3, 5, 0, 3]}", &c, &err), FORE_OK);
    assert_true(c.eos_count == 3 && c.eos[0] == 5 && c.eos[1] == 3 && c.eos[2] == 0);
    assert_int_equal(read_text("{\"eos_token_id\": []}", &c, &err), FORE_OK);
    assert_int_equal(c.eos_count, 0);
    assert_int_equal(read_text("{\"eos_token_id\": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}", &c, &err), FORE_OK);
    assert_int_equal(c.eos_count, FORE_GENERATION_EOS);
    assert_int_equal(read_text("{\"eos_token_id\": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}", &c, &err),
                     FORE_ERR_LIMIT);
    assert_non_null(strstr(err.text, "more than 16 end tokens"));
}

static void bad_files_are_named(void **state) {
    (void)state;
    static const char *cases[][2] = {
        {"", "not valid JSON"},
        {"[1]", "expected a JSON object"},
        {"{\"temperature\": \"hot\"}", "temperature: expected a number"},
        {"{\"do_sample\": 1}", "do_sample: expected true or false"},
        {"{\"do_sample\": true, \"temperature\": -1}",
         "temperature: expected 0 (greedy) or a positive number, found -1"},
        {"{\"do_sample\": true, \"temperature\": 1e300}", "temperature: expected"},
        {"{\"top_p\": 0}", "top_p: expected more than 0"},
        {"{\"min_p\": 2}", "min_p: expected 0 (off) to 1, found 2"},
        {"{\"repetition_penalty\": 0}", "repetition_penalty: expected a positive number"},
        {"{\"top_k\": 2.5}", "top_k: expected a whole number"},
        {"{\"top_k\": -2}", "top_k: expected a whole number"},
        {"{\"top_k\": 3000000000}", "top_k: expected a whole number"},
        {"{\"eos_token_id\": -1}", "eos_token_id: expected a token id"},
        {"{\"eos_token_id\": [1, 2.5]}", "eos_token_id: expected a token id"},
        {"{\"eos_token_id\": [1, 2147483648]}", "eos_token_id: expected a token id"},
        {"{\"eos_token_id\": 1e300}", "eos_token_id: expected a token id"},
        {"{\"eos_token_id\": \"</s>\"}", "eos_token_id: expected a token id"},
        {"{\"eos_token_id\": [[1]]}", "eos_token_id: expected a token id"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fore_generation_config c;
        fore_error err = {0};
        assert_int_equal(read_text(cases[i][0], &c, &err), FORE_ERR_FORMAT);
        assert_int_equal(err.code, FORE_ERR_FORMAT);
        assert_non_null(strstr(err.text, "generation_config.json: "));
        assert_non_null(strstr(err.text, cases[i][1]));
        assert_true(c.sampling.temperature == 0 && c.eos_count == 0); /* greedy, not half a file */
        assert_int_equal(read_text(cases[i][0], &c, NULL), FORE_ERR_FORMAT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_form),
        cmocka_unit_test(defaults),
        cmocka_unit_test(no_file),
        cmocka_unit_test(end_tokens),
        cmocka_unit_test(bad_files_are_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
