/* The draft head's contract: every field with every value that is allowed, what is refused and that the message lists what would not
 * be, shares of a mix, and which source wins. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "model/contract.h"

static fore_status read_from(fore_contract *c, const char *json, fore_contract_source source, const char *what, fore_error *err) {
    cJSON *object = cJSON_Parse(json);
    if (!object) fail_msg("%s", json);
    *err = (fore_error){0};
    fore_status s = fore_contract_read(c, object, source, what, err);
    cJSON_Delete(object);
    return s;
}

static fore_contract read_one(const char *json) {
    fore_contract c;
    fore_error err;
    fore_contract_init(&c);
    if (read_from(&c, json, FORE_CONTRACT_CONFIG, "config.json", &err)) fail_msg("%s: %s", json, err.text);
    return c;
}

static void test_defaults(void **state) {
    (void)state;
    static const char *const want[FORE_CONTRACT_FIELDS][2] = {
        {"base_hidden_variant", "post_norm"}, {"hidden_variant", "post_norm"}, {"concat_order", "embedding_hidden"},
        {"mtp_position_mode", "cache"},       {"mtp_norm_encoding", "detected"}, {"mtp_quant_bits", "none"},
        {"mtp_quant_group_size", "64"},       {"mtp_quant_mode", "affine"},      {"mtp_quant_policy", "none"},
    };
    fore_contract c;
    fore_error err;
    fore_contract_init(&c);
    for (int round = 0; round < 2; round++) { /* as they are made, and after sources that set nothing */
        for (int f = 0; f < FORE_CONTRACT_FIELDS; f++) {
            assert_string_equal(fore_contract_field_name((fore_contract_field)f), want[f][0]);
            assert_string_equal(c.value[f], want[f][1]);
            assert_string_equal(fore_contract_source_name(c.source[f]), "default");
        }
        assert_false(c.base_pre_norm || c.hidden_first || c.quant_layers_only);
        assert_true(c.left == FORE_HEAD_POST_NORM && c.mix == 1 && c.position == FORE_MTP_CACHE && c.quant_bits == 0 && c.quant_group == 64);
        assert_int_equal(fore_contract_read(&c, NULL, FORE_CONTRACT_CALLER, "x", &err), FORE_OK);
        assert_int_equal(read_from(&c, "{\"other\": 1, \"hidden_variant\": null, \"mtp_quant_bits\": null}", FORE_CONTRACT_CALLER, "x", &err), FORE_OK);
    }
}

static void test_words(void **state) {
    (void)state;
    assert_true(read_one("{\"base_hidden_variant\": \"pre_norm\"}").base_pre_norm);
    assert_false(read_one("{\"base_hidden_variant\": \"post_norm\"}").base_pre_norm);
    assert_true(read_one("{\"concat_order\": \"hidden_embedding\"}").hidden_first);
    assert_false(read_one("{\"concat_order\": \"embedding_hidden\"}").hidden_first);
    assert_int_equal(read_one("{\"mtp_position_mode\": \"cache\"}").position, FORE_MTP_CACHE);
    assert_int_equal(read_one("{\"mtp_position_mode\": \"local\"}").position, FORE_MTP_LOCAL);
    assert_int_equal(read_one("{\"mtp_position_mode\": \"absolute\"}").position, FORE_MTP_ABSOLUTE);
    static const char *const variants[] = {"fc", "pre_norm", "post_norm", "embedding", "prev"};
    for (int i = 0; i < 5; i++) {
        char json[64];
        snprintf(json, sizeof json, "{\"hidden_variant\": \"%s\"}", variants[i]);
        fore_contract c = read_one(json);
        assert_true(c.left == (fore_head_output)i && c.right == (fore_head_output)i && c.mix == 1);
        assert_string_equal(c.value[FORE_CONTRACT_HIDDEN], variants[i]);
        assert_int_equal(c.source[FORE_CONTRACT_HIDDEN], FORE_CONTRACT_CONFIG);
        assert_int_equal(c.source[FORE_CONTRACT_CONCAT], FORE_CONTRACT_DEFAULT);
    }
    assert_string_equal(read_one("{\"mtp_quant_mode\": \"affine\"}").value[FORE_CONTRACT_QUANT_MODE], "affine");
    static const char *const policies[] = {"all", "none", "cyankiwi", "prequantized-int4"};
    for (int i = 0; i < 4; i++) {
        char json[64];
        snprintf(json, sizeof json, "{\"mtp_quant_policy\": \"%s\"}", policies[i]);
        fore_contract c = read_one(json);
        assert_int_equal(c.quant_layers_only, i >= 2);
        assert_string_equal(c.value[FORE_CONTRACT_QUANT_POLICY], policies[i]);
    }
    static const char *const norms[] = {"detected", "delta", "delta_plus_one", "mlx_delta", "absolute", "gain", "mlx"};
    for (int i = 0; i < 7; i++) {
        char json[64];
        snprintf(json, sizeof json, "{\"mtp_norm_encoding\": \"%s\"}", norms[i]);
        assert_int_equal(read_one(json).norms, !i ? FORE_NORMS_DETECTED : i < 4 ? FORE_NORMS_DELTA : FORE_NORMS_ABSOLUTE);
        assert_string_equal(read_one(json).value[FORE_CONTRACT_NORMS], norms[i]);
    }
    static const int bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    for (int i = 0; i < 6; i++) {
        char json[64];
        snprintf(json, sizeof json, "{\"mtp_quant_bits\": %d, \"mtp_quant_group_size\": %d}", bits[i], groups[i % 3]);
        fore_contract c = read_one(json);
        assert_int_equal(c.quant_bits, bits[i]);
        assert_int_equal(c.quant_group, groups[i % 3]);
        assert_int_equal(c.value[FORE_CONTRACT_QUANT_BITS][0], '0' + bits[i]);
    }
}

static void test_mix(void **state) {
    (void)state;
    static const struct {
        const char *text;
        fore_head_output left, right;
        float mix;
    } good[] = {
        {"mix:fc:prev:0.25", FORE_HEAD_FC, FORE_HEAD_PREV, 0.25f},
        {"mix:fc:prev:0p25", FORE_HEAD_FC, FORE_HEAD_PREV, 0.25f},
        {"mix:post_norm:pre_norm:0", FORE_HEAD_POST_NORM, FORE_HEAD_PRE_NORM, 0},
        {"mix:post_norm:pre_norm:1", FORE_HEAD_POST_NORM, FORE_HEAD_PRE_NORM, 1},
        {"mix:embedding:embedding:1.0", FORE_HEAD_EMBEDDING, FORE_HEAD_EMBEDDING, 1},
        {"mix:prev:embedding:.1", FORE_HEAD_PREV, FORE_HEAD_EMBEDDING, 0.1f},
        {"mix:embedding:post_norm:0p3333333333333", FORE_HEAD_EMBEDDING, FORE_HEAD_POST_NORM, 0.3333333333333f},
    };
    /* A host program's locale must not change what a share means. */
    const char *locale = setlocale(LC_NUMERIC, "de_DE.UTF-8");
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char json[96];
        snprintf(json, sizeof json, "{\"hidden_variant\": \"%s\"}", good[i].text);
        fore_contract c = read_one(json);
        assert_true(c.left == good[i].left && c.right == good[i].right && c.mix == good[i].mix);
        assert_string_equal(c.value[FORE_CONTRACT_HIDDEN], good[i].text);
    }
    if (locale) setlocale(LC_NUMERIC, "C");
}

static void refused(const char *json, const char *part) {
    fore_contract c, before;
    fore_error err;
    memset(&c, 0, sizeof c);
    fore_contract_init(&c);
    memcpy(&before, &c, sizeof c);
    fore_status s = read_from(&c, json, FORE_CONTRACT_RUNTIME, "mtplx_runtime.json", &err);
    if (s != FORE_ERR_FORMAT || !strstr(err.text, part) || strncmp(err.text, "mtplx_runtime.json: ", 20))
        fail_msg("%s: %d \"%s\", wanted \"%s\"", json, s, err.text, part);
    assert_memory_equal(&c, &before, sizeof c); /* whole or not at all */
}

static void test_refused(void **state) {
    (void)state;
    static const char *const allowed[FORE_CONTRACT_FIELDS] = {
        "expected pre_norm or post_norm",
        "expected fc, pre_norm, post_norm, embedding, prev or mix:LEFT:RIGHT:SHARE with a share from 0 to 1",
        "expected embedding_hidden or hidden_embedding",
        "expected cache, local or absolute",
        "expected detected, delta, delta_plus_one, mlx_delta, absolute, gain or mlx",
        "expected 2, 3, 4, 5, 6 or 8",
        "expected 32, 64 or 128",
        "expected affine",
        "expected all, cyankiwi, prequantized-int4 or none",
    };
    /* Every field refuses values of every kind, and says what it takes. */
    static const char *const values[][2] = {
        {"\"other\"", "found \"other\""}, {"\"\"", "found \"\""}, {"\"Post_Norm\"", "found \"Post_Norm\""}, {"1", "found 1"}, {"-4", "found -4"},
        {"4.5", "found 4.5"}, {"1e300", "found 1e+300"}, {"true", "found true or false"}, {"[\"fc\"]", "found a list"}, {"{}", "found an object"},
        {"\"cache \"", "found \"cache \""},
    };
    for (int f = 0; f < FORE_CONTRACT_FIELDS; f++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            char json[128], part[160];
            snprintf(json, sizeof json, "{\"%s\": %s}", fore_contract_field_name((fore_contract_field)f), values[i][0]);
            refused(json, allowed[f]);
            snprintf(part, sizeof part, "%s: expected", fore_contract_field_name((fore_contract_field)f));
            refused(json, part);
            refused(json, values[i][1]);
        }
    static const char *const mixes[] = {
        "mix", "mix:", "mix:fc", "mix:fc:prev", "mix:fc:prev:", "mix:fc:prev:.", "mix:fc:prev:p", "mix:fc:prev:1.1", "mix:fc:prev:2", "mix:fc:prev:-0.5",
        "mix:fc:prev:0.5.5", "mix:fc:prev:0,5", "mix:fc:prev:0x1", "mix:fc:prev:1e-1", "mix:fc:prev:nan", "mix:fc:prev: 1", "mix:fc:other:0.5",
        "mix::fc:0.5", "mix:fc::0.5", "mix:fc:prev:0.5:1", "mix:mix:fc:0.5", "mix:fc:prev:0.00000000000001", "mix:fc:prev:1.00000000001", "Mix:fc:prev:0.5",
    };
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        char json[96];
        snprintf(json, sizeof json, "{\"hidden_variant\": \"%s\"}", mixes[i]);
        refused(json, allowed[FORE_CONTRACT_HIDDEN]);
    }
    refused("{\"mtp_quant_bits\": 7}", "found 7");
    refused("{\"mtp_quant_bits\": \"4\"}", "found \"4\"");
    refused("{\"mtp_quant_group_size\": 48}", "found 48");
    refused("{\"concat_order\": \"hidden_embedding\", \"mtp_position_mode\": \"both\"}", "mtp_position_mode");
    refused("[]", "expected an object");
    refused("\"post_norm\"", "expected an object");
    fore_contract c;
    fore_error err;
    fore_contract_init(&c);
    char json[512];
    snprintf(json, sizeof json, "{\"mtp_quant_mode\": \"%0300d\"}", 7); /* a long value is cut, not the rest of the message */
    assert_int_equal(read_from(&c, json, FORE_CONTRACT_CALLER, "the given MTP contract", &err), FORE_ERR_FORMAT);
    assert_non_null(strstr(err.text, "expected affine, found \"0000"));
}

/* A later source wins wherever it sets a field, also when it sets the default; what it leaves alone stays with its source. */
static void test_sources(void **state) {
    (void)state;
    fore_contract c;
    fore_error err;
    fore_contract_init(&c);
    assert_int_equal(read_from(&c, "{\"hidden_variant\": \"fc\", \"concat_order\": \"hidden_embedding\", \"base_hidden_variant\": \"pre_norm\","
                                   "\"mtp_quant_bits\": 4}", FORE_CONTRACT_CONFIG, "config.json", &err), FORE_OK);
    assert_int_equal(read_from(&c, "{\"hidden_variant\": \"prev\", \"concat_order\": \"embedding_hidden\", \"mtp_position_mode\": \"local\"}",
                               FORE_CONTRACT_RUNTIME, "mtplx_runtime.json", &err), FORE_OK);
    assert_int_equal(read_from(&c, "{\"hidden_variant\": \"fc\", \"mtp_norm_encoding\": \"delta\"}", FORE_CONTRACT_CALIBRATED,
                               "mtp_calibration.json", &err), FORE_OK);
    assert_int_equal(read_from(&c, "{\"hidden_variant\": \"post_norm\", \"mtp_position_mode\": \"cache\"}", FORE_CONTRACT_CALLER, "the given MTP contract",
                               &err), FORE_OK);
    static const char *const want[FORE_CONTRACT_FIELDS][2] = {
        {"pre_norm", "config.json"},  {"post_norm", "command line"}, {"embedding_hidden", "mtplx_runtime.json"}, {"cache", "command line"},
        {"delta", "calibrated"},      {"4", "config.json"},          {"64", "default"},                          {"affine", "default"},
        {"none", "default"},
    };
    for (int f = 0; f < FORE_CONTRACT_FIELDS; f++) {
        assert_string_equal(c.value[f], want[f][0]);
        assert_string_equal(fore_contract_source_name(c.source[f]), want[f][1]);
    }
    assert_true(c.base_pre_norm && !c.hidden_first && c.position == FORE_MTP_CACHE && c.left == FORE_HEAD_POST_NORM && c.quant_bits == 4);
    /* A plain variant after a mix is plain again. */
    assert_int_equal(read_from(&c, "{\"hidden_variant\": \"mix:fc:prev:0.5\"}", FORE_CONTRACT_CONFIG, "x", &err), FORE_OK);
    assert_int_equal(read_from(&c, "{\"hidden_variant\": \"pre_norm\"}", FORE_CONTRACT_CALLER, "x", &err), FORE_OK);
    assert_true(c.left == FORE_HEAD_PRE_NORM && c.right == FORE_HEAD_PRE_NORM && c.mix == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_words),   cmocka_unit_test(test_mix),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_sources),
    };
    return cmocka_run_group_tests_name("contract", tests, NULL, NULL);
}
