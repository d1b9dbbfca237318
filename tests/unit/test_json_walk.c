/* Walking through JSON text without a tree: every value as a tree has it, members that are left out of a tree, and trees that would
 * take far more memory than their text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/json_walk.h"

static void compare(fore_json_walk *w, const cJSON *want) {
    fore_buf text = {0};
    char kind = fore_json_peek(w);
    if (cJSON_IsObject(want) || cJSON_IsArray(want)) {
        assert_int_equal(kind, cJSON_IsObject(want) ? '{' : '[');
        fore_json_enter(w);
        for (const cJSON *c = want->child; c; c = c->next) {
            assert_true(fore_json_more(w));
            if (kind == '{') {
                assert_int_equal(fore_json_take_name(w, &text), FORE_OK);
                assert_string_equal(text.data, c->string);
                assert_int_equal(text.size, strlen(c->string));
            }
            compare(w, c);
        }
        assert_false(fore_json_more(w));
    } else if (cJSON_IsString(want)) {
        assert_int_equal(kind, '"');
        assert_int_equal(fore_json_take_string(w, &text), FORE_OK);
        assert_string_equal(text.data, want->valuestring);
    } else if (cJSON_IsNumber(want)) {
        assert_int_equal(kind, 0);
        assert_true(fore_json_take_number(w) == want->valuedouble);
    } else {
        const fore_json_text word = fore_json_skip(w);
        assert_int_equal(word.at[0], cJSON_IsTrue(want) ? 't' : cJSON_IsFalse(want) ? 'f' : 'n');
        assert_int_equal(word.size, cJSON_IsFalse(want) ? 5 : 4);
    }
    fore_buf_free(&text);
}

static void test_values(void **state) {
    (void)state;
    static const char *const texts[] = {
        "\xEF\xBB\xBF {\"a\" : 1 , \"b\":[ ],\"c\":{ } }\n", "[1,-2.5e3,0,123456789012345678,1e300,-0.0]", "\"\"", "17", "null", " [[[[]]],{\"x\":{\"y\":[true,false,null]}}] ",
        "[\"\\b\\f\\n\\r\\t\\/\\\\\\\"\",\"\\u00e9\\u4f60\\ud83d\\ude42\xc3\xa9\",\"]}\\\\\",\"\\\\\\\"[{,\"]", "{\"\":\"\",\"\\\"\":{\"a]\":\"}\"},\"a\":1,\"a\":2}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const fore_json_text text = {texts[i], strlen(texts[i])};
        cJSON *tree;
        fore_error err = {0};
        if (fore_json_parse(text.at, text.size, "text", &tree, &err)) fail_msg("%s", err.text);
        fore_json_walk w = fore_json_walk_begin(text);
        compare(&w, tree);
        w = fore_json_walk_begin(text);
        const fore_json_text all = fore_json_skip(&w); /* in one step */
        assert_int_equal(strspn(w.at, " \n"), strlen(w.at));
        assert_true(all.at + all.size == w.at);
        cJSON_Delete(tree);
    }
}

static void without(const char *text, const char *tree_text, const char *first, const char *second) {
    static const char *const names[] = {"vocab", "merges"};
    fore_json_text parts[2];
    cJSON *tree;
    fore_error err = {0};
    if (fore_json_parse_without(text, strlen(text), "text", "model", names, parts, 2, &tree, &err)) fail_msg("%s: %s", text, err.text);
    char *printed = cJSON_PrintUnformatted(tree);
    assert_string_equal(printed, tree_text);
    free(printed);
    const char *const expected[] = {first, second};
    for (int i = 0; i < 2; i++) {
        if (!expected[i]) {
            assert_null(parts[i].at);
            continue;
        }
        assert_int_equal(parts[i].size, strlen(expected[i]));
        assert_memory_equal(parts[i].at, expected[i], parts[i].size);
    }
    cJSON_Delete(tree);
}

static void test_parts(void **state) {
    (void)state;
    without("{\"a\":1,\"model\":{\"merges\":[1,2] ,\"vocab\" : {\"x\":[]},\"b\":3},\"vocab\":4}", "{\"a\":1,\"model\":{\"merges\":null,\"vocab\":null,\"b\":3},\"vocab\":4}",
            "{\"x\":[]}", "[1,2]");
    without("{\"model\":{\"vocab\":\"}\",\"vocab\":[7]}}", "{\"model\":{\"vocab\":null,\"vocab\":[7]}}", "\"}\"", NULL); /* the first one counts */
    without("{\"model\":{\"vocab\":null,\"merges\":12}}", "{\"model\":{\"vocab\":null,\"merges\":null}}", NULL, "12");
    without("{\"model\":[{\"vocab\":1}]}", "{\"model\":[{\"vocab\":1}]}", NULL, NULL);
    without("{\"model\":{\"v\\u006fcab\":true}}", "{\"model\":{\"vocab\":null}}", "true", NULL);
    without("{}", "{}", NULL, NULL);
    without("[\"model\"]", "[\"model\"]", NULL, NULL);
    cJSON *tree;
    fore_json_text part;
    static const char *const name[] = {"a"};
    fore_error err = {0};
    assert_int_equal(fore_json_parse_without("{\"model\":{\"a\":[}}", 16, "text", "model", name, &part, 1, &tree, &err), FORE_ERR_FORMAT);
    assert_null(tree);
    assert_non_null(strstr(err.text, "text: not valid JSON"));
}

/* 32 MiB besides twice the text: 400,000 empty lists fit, ten times as many do not, unless they are a part of a large file. */
static void test_memory(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        size_t count = k ? 4000000 : 400000, size = 3 * count + 1;
        char *text = malloc(size);
        assert_non_null(text);
        text[0] = '[';
        for (size_t i = 0; i < count; i++) memcpy(text + 1 + 3 * i, i + 1 < count ? "[]," : "[]]", 3);
        cJSON *tree;
        fore_error err = {0};
        fore_status s = fore_json_parse_part(text, size, k == 2 ? (size_t)1 << 32 : size, "text", &tree, &err);
        assert_int_equal(s, k == 1 ? FORE_ERR_LIMIT : FORE_OK);
        assert_int_equal(tree != NULL, k != 1);
        if (k == 1) assert_non_null(strstr(err.text, "text: so many short values in 12000001 bytes"));
        assert_int_equal(fore_json_check(text, size, "text", &err), FORE_OK);
        cJSON_Delete(tree);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_parts), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
