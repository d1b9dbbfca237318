/* Chat templates against jinja2 as transformers sets it up: published templates on real conversations, snippets of every
 * feature (tests/oracle/make_template_cases.py); then messages, limits on a small stack, threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "text/template.h"

#define REAL FORE_DATA "/real/"
#define MADE FORE_DATA "/templates/"

/* 2026-01-02 03:04:05 in local time: what strftime_now shows is then the same everywhere. */
static int64_t fixed_now(void) {
    struct tm tm = {.tm_year = 126, .tm_mon = 0, .tm_mday = 2, .tm_hour = 3, .tm_min = 4, .tm_sec = 5, .tm_isdst = -1};
    return (int64_t)mktime(&tm);
}

static fore_status render(const char *source, size_t size, const char *variables, bool as_chat, char **text,
                          size_t *text_size, fore_error *err) {
    fore_template *t;
    *text = NULL;
    *err = (fore_error){0};
    fore_status s = fore_template_compile(source, size, &t, err);
    if (s) return s;
    fore_trender how = {.now = fixed_now(), .as_chat = as_chat};
    s = fore_template_render_as(t, variables, strlen(variables), how, text, text_size, err);
    fore_template_free(t);
    return s;
}

static char *read_text(const char *path, size_t *size) {
    char *data;
    fore_error err;
    if (fore_file_read(path, 64 << 20, &data, size, &err)) fail_msg("%s", err.text);
    return data;
}

static cJSON *read_json(const char *path) {
    cJSON *j;
    fore_error err;
    if (fore_json_read(path, 64 << 20, &j, &err)) fail_msg("%s", err.text);
    return j;
}

/* The next line of a file of JSON lines, parsed; NULL at the end. */
static cJSON *next_line(char **at) {
    if (!**at) return NULL;
    char *end = strchr(*at, '\n');
    size_t n = end ? (size_t)(end - *at) : strlen(*at);
    cJSON *j = cJSON_ParseWithLength(*at, n);
    assert_non_null(j);
    *at += n + (end != NULL);
    return j;
}

/* Compares one rendering with what jinja2 gave: text, or an error (message NULL: of any text). Returns whether it is
 * right, and prints it when it is not. */
static bool check(const char *name, const char *source, const char *variables, const char *text, const char *message) {
    char *got;
    size_t size = 0;
    fore_error err;
    fore_status s = render(source, strlen(source), variables, false, &got, &size, &err);
    bool right = text ? !s && size == strlen(text) && memcmp(got, text, size) == 0
                      : s != FORE_OK && s != FORE_ERR_NOMEM && err.text[0] && (!message || strstr(err.text, message));
    if (!right)
        print_message("%s\n  expected: %s\n  got:      %s\n", name, text ? text : message ? message : "an error", s ? err.text : got);
    free(got);
    return right;
}

static void test_published_templates(void **state) {
    (void)state;
    cJSON *inputs = read_json(REAL "template_inputs.json");
    char path[256], last[64] = "", *source = NULL;
    size_t size, count = 0, wrong = 0;
    char *lines = read_text(REAL "template_cases.jsonl", &size), *at = lines;
    for (cJSON *c; (c = next_line(&at)); cJSON_Delete(c)) {
        const char *name = cJSON_GetObjectItem(c, "template")->valuestring;
        if (strcmp(name, last)) {
            free(source);
            snprintf(path, sizeof path, REAL "templates/%s.jinja", name);
            source = read_text(path, &size);
            snprintf(last, sizeof last, "%s", name);
        }
        const char *conversation = cJSON_GetObjectItem(c, "conversation")->valuestring;
        int option = (int)cJSON_GetObjectItem(c, "options")->valuedouble;
        cJSON *v = cJSON_Duplicate(cJSON_GetArrayItem(cJSON_GetObjectItem(inputs, "options"), option), true);
        cJSON *messages = cJSON_GetObjectItem(cJSON_GetObjectItem(inputs, "conversations"), conversation);
        cJSON_AddItemToObject(v, "messages", cJSON_Duplicate(messages, true));
        static const char *const tokens[] = {"bos_token", "eos_token", "pad_token"};
        for (int i = 0; i < 3; i++)
            cJSON_AddItemToObject(v, tokens[i], cJSON_Duplicate(cJSON_GetObjectItem(inputs, tokens[i]), true));
        char *json = cJSON_PrintUnformatted(v);
        const cJSON *text = cJSON_GetObjectItem(c, "text"), *message = cJSON_GetObjectItem(c, "message");
        snprintf(path, sizeof path, "%s, %s, options %d", name, conversation, option);
        wrong += !check(path, source, json, text ? text->valuestring : NULL, message ? message->valuestring : NULL);
        count++;
        free(json);
        cJSON_Delete(v);
    }
    free(source);
    free(lines);
    cJSON_Delete(inputs);
    assert_int_equal(count, 1666);
    assert_int_equal(wrong, 0);
}

static void test_features(void **state) {
    (void)state;
    cJSON *variables = read_json(MADE "variables.json");
    size_t size, count = 0, wrong = 0;
    char *lines = read_text(MADE "cases.jsonl", &size), *at = lines;
    for (cJSON *c; (c = next_line(&at)); cJSON_Delete(c)) {
        const char *source = cJSON_GetObjectItem(c, "t")->valuestring;
        const cJSON *text = cJSON_GetObjectItem(c, "x");
        const char *json = cJSON_GetArrayItem(variables, (int)cJSON_GetObjectItem(c, "v")->valuedouble)->valuestring;
        wrong += !check(source, source, json, text ? text->valuestring : NULL, NULL);
        count++;
    }
    free(lines);
    cJSON_Delete(variables);
    assert_true(count > 10000);
    assert_int_equal(wrong, 0);
}

/* ---- what the messages say, and what is prepared ---- */

static void expect_text(const char *source, const char *variables, bool as_chat, const char *text) {
    char *got;
    size_t size = 0;
    fore_error err;
    if (render(source, strlen(source), variables, as_chat, &got, &size, &err)) fail_msg("%s: %s", source, err.text);
    assert_string_equal(got, text);
    assert_int_equal(size, strlen(text));
    free(got);
}

static void expect_error(const char *source, const char *variables, fore_status code, const char *text) {
    char *got;
    size_t size = 0;
    fore_error err;
    fore_status s = render(source, strlen(source), variables, false, &got, &size, &err);
    if (s != code || (text && !strstr(err.text, text)))
        fail_msg("%.80s: expected %d \"%s\", got %d \"%s\"", source, code, text ? text : "", s, s ? err.text : "");
    assert_null(got);
    assert_int_equal(err.code, code);
}

static void test_messages(void **state) {
    (void)state;
    expect_error("a\nb\n{{ raise_exception('No tools: ' ~ n) }}", "{\"n\": 3}", FORE_ERR_FORMAT, "template line 3: No tools: 3");
    expect_error("{% if true %}\n\n{{ x.y }}{% endif %}", "{}", FORE_ERR_FORMAT, "template line 3: 'x' is undefined");
    expect_error("\n{{ d.a.b }}", "{\"d\": {}}", FORE_ERR_FORMAT, "template line 2: 'dict object' has no attribute 'a'");
    expect_error("{{ l[3].x }}", "{\"l\": []}", FORE_ERR_FORMAT, "list object has no element 3");
    expect_error("\n\n{% if %}", "{}", FORE_ERR_FORMAT, "template line 3: Expected an expression");
    expect_error("\n{% for x in y %}", "{}", FORE_ERR_FORMAT, "Unexpected end of template. Looking for 'endfor'.");
    expect_error("{{ 'a' + 1 }}", "{}", FORE_ERR_FORMAT, "can only concatenate str (not \"int\") to str");
    expect_error("{{ l.append(1) }}", "{\"l\": []}", FORE_ERR_FORMAT, "access to attribute 'append' of 'list' object is unsafe.");
    expect_error("{{ ''.__class__.mro() }}", "{}", FORE_ERR_FORMAT, "'__class__' of 'str' object is unsafe.");
    expect_error("{{ ().__class__.__base__.__subclasses__() }}", "{}", FORE_ERR_FORMAT, "unsafe");
    expect_error("{% include '/etc/passwd' %}", "{}", FORE_ERR_FORMAT, "no loader");
    expect_error("{{ x|urlize }}", "{}", FORE_ERR_UNSUPPORTED, "not supported");
    expect_error("x", "[1]", FORE_ERR_FORMAT, "expected a JSON object");
    expect_error("x", "{", FORE_ERR_FORMAT, "not valid JSON");
    expect_error("\xff", "{}", FORE_ERR_FORMAT, "invalid UTF-8 at byte 0");
    expect_error("{{ a['b\xcc\x81'].c }}", "{\"a\": {}}", FORE_ERR_FORMAT, "has no attribute");
}

static void test_chat_preparation(void **state) {
    (void)state;
    const char *variables = "{\"messages\": [{\"role\": \"a\", \"content\": null, \"reasoning\": \"why\"}, {\"thinking\": \"t\", "
                            "\"reasoning_content\": \"r\"}]}";
    expect_text("{{ messages|tojson }}", variables, true,
                "[{\"thinking\": \"why\", \"role\": \"a\", \"reasoning\": \"why\", \"reasoning_content\": \"why\"}, "
                "{\"thinking\": \"t\", \"reasoning_content\": \"r\"}]");
    expect_text("{{ messages[0]|tojson }}", variables, false, "{\"role\": \"a\", \"content\": null, \"reasoning\": \"why\"}");
    expect_text("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}", "{}", false, "TrueTrueFalse");
    expect_text("{{ tools }}{{ add_generation_prompt }}", "{\"tools\": 1, \"add_generation_prompt\": true}", false, "1True");
}

static void test_numbers_keep_their_spelling(void **state) {
    (void)state;
    expect_text("{{ a|tojson }}", "{\"s\": \"1 \\\" 2\", \"a\": [1, 1.0, -0, -0.0, 1e2, 12345678901234567890123, 0.1, 1E400, -5]}", false,
                "[1, 1.0, 0, -0.0, 100.0, 12345678901234567890123, 0.1, Infinity, -5]");
}

static void test_clock(void **state) {
    (void)state;
    fore_template *t;
    fore_error err;
    const char *source = "{{ strftime_now('%s') }}";
    assert_int_equal(fore_template_compile(source, strlen(source), &t, &err), FORE_OK);
    char *text;
    size_t size;
    time_t before = time(NULL);
    assert_int_equal(fore_template_render(t, "{}", 2, &text, &size, &err), FORE_OK);
    time_t after = time(NULL);
    assert_true(atoll(text) >= before && atoll(text) <= after);
    fore_free(text);
    fore_template_free(t);
}

/* ---- limits ---- */

static void repeat(fore_buf *out, const char *text, int count) {
    for (int i = 0; i < count; i++) assert_int_equal(fore_buf_puts(out, text), FORE_OK);
}

/* before * count, middle, after * count */
static void expect_nested(const char *before, const char *middle, const char *after, int count, fore_status code) {
    fore_buf b = {0};
    repeat(&b, before, count);
    repeat(&b, middle, 1);
    repeat(&b, after, count);
    char *text;
    size_t size;
    fore_error err;
    fore_status s = render(b.data, b.size, "{}", false, &text, &size, &err);
    if (s != code) fail_msg("%d times \"%s\": %d %s", count, before, s, s ? err.text : "");
    free(text);
    fore_buf_free(&b);
}

static void *hostile(void *unused) {
    (void)unused;
    static const char *const sources[] = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(l=[0]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% if true %}{% for x in [1] %}{% set y %}{% filter upper %}{{ m() }}{% endfilter %}{% endset %}{% endfor %}{% endif %}{% endmacro %}{{ m() }}",
        "{% macro m(x) %}{% call m(x) %}{% endcall %}{{ caller() }}{% endmacro %}{{ m(1) }}",
        "{% macro m() %}{{ [[[[[[[[(1, {'a': [m() ~ 'x'|upper]}, 2)[1].a[0]]]]]]]]] }}{% endmacro %}{{ m() }}",
        "{% macro m(a=m()) %}{% endmacro %}{{ m() }}",
        "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ 'x' * 1000000000 }}",
        "{{ 'x' * 9223372036854775807 }}",
        "{{ ['x'] * 1000000000 }}",
        "{{ ('x' * 1000000)|replace('', 'y' * 1000000) }}",
        "{{ 'x'.center(9223372036854775807) }}",
        "{{ 'x'|center(10000000000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '%.1000000000f' % 1.5 }}",
        "{{ 'x\n'|indent(1000000000) }}",
        "{{ [1]|tojson(indent=1000000000) }}",
        "{{ [1]|batch(1000000000, 'x')|list }}",
        "{{ [1]|slice(1000000000, 'x')|list }}",
        "{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}",
        "{% set ns = namespace(x={}) %}{% for i in range(100000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x|tojson(indent=1) }}",
        "{% set ns = namespace(x=[], y=[]) %}{% for i in range(50000) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "{% set ns = namespace(x=[], y=[]) %}{% for i in range(50000) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x < ns.y }}",
        "{% set ns = namespace(x=()) %}{% for i in range(50000) %}{% set ns.x = (ns.x,) %}{% endfor %}{{ {ns.x: 1} }}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}",
        "{% set a = 'a' * 500000 %}{% for i in range(1000) %}{{ (a + 'b' + a).rfind('a' * 100000 + 'c') }}{% endfor %}",
        "{% set a = 'a' * 1000000 %}{% for i in range(100000) %}{{ a in a ~ 'b' }}{% endfor %}",
        "{% set a = 'a' * 1000000 %}{% set b = 'b' * 1000000 %}{% for i in range(100000) %}{{ a.strip(b ~ 'a') }}{% endfor %}",
        "{% set a = '\u00e9' * 1000000 %}{% set b = '\u00e8' * 1000000 %}{{ a.strip(b ~ '\u00e9') }}",
        "{{ strftime_now('%900000000d') }}",
        "{{ 9223372036854775807 * 2 }}",
        "{{ 2 ** 1000000000 }}",
        "{{ [1]|map('map', 'map', 'map', 'map', 'map', 'upper')|list }}{{ 1 ** 2 ** 99999 * 10 ** 99 }}",
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) expect_error(sources[i], "{}", FORE_ERR_LIMIT, "stopped");
    /* Deep nesting in the source. */
    expect_nested("{{ ", "1", " }}", 1, FORE_OK);
    static const char *const nests[][3] = {
        {"(", "1", ")"}, {"[", "1", "]"}, {"{'a': ", "1", "}"}, {"not ", "1", ""}, {"- ", "1", ""}, {"a[", "1", "]"},
        {"a(", "1", ")"}, {"1 if 1 else ", "1", ""}, {"", "1", " + 1"}, {"", "a", ".b"}, {"", "a", "|list"}, {"", "a", "()"},
        {"", "1", " or 1"}, {"1 ** ", "1", ""}, {"a|default(", "1", ")"}, {"1 is eq(", "1", ")"}, {"1 < (", "1", ")"},
    };
    for (size_t i = 0; i < sizeof nests / sizeof nests[0]; i++) {
        fore_buf b = {0};
        repeat(&b, "{{ ", 1);
        repeat(&b, nests[i][0], 7000);
        repeat(&b, nests[i][1], 1);
        repeat(&b, nests[i][2], 7000);
        repeat(&b, " }}", 1);
        fore_buf_putc(&b, 0);
        expect_error(b.data, "{}", FORE_ERR_LIMIT, "template line 1");
        fore_buf_free(&b);
    }
    expect_nested("{% if 1 %}", "x", "{% endif %}", 90, FORE_OK);
    expect_nested("{% if 1 %}", "x", "{% endif %}", 2200, FORE_ERR_LIMIT);
    expect_nested("{% for x in [1] %}", "x", "{% endfor %}", 2200, FORE_ERR_LIMIT);
    expect_nested("{% set x %}", "x", "{% endset %}", 2200, FORE_ERR_LIMIT);
    expect_nested("{% macro m() %}", "x", "{% endmacro %}", 2200, FORE_ERR_LIMIT);
    expect_nested("{% filter upper %}{% call m() %}", "x", "{% endcall %}{% endfilter %}", 2200, FORE_ERR_LIMIT);
    expect_nested("", "{% if 0 %}", "{% elif 0 %}", 5000, FORE_ERR_FORMAT);
    return NULL;
}

/* On a stack of 512 KiB: whatever is nested stops before it. A sanitizer's frames are larger. */
static void test_limits(void **state) {
    (void)state;
    pthread_attr_t attr;
    pthread_t thread;
    size_t stack = 512 << 10;
#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
    stack = 8 << 20;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    stack = 8 << 20;
#endif
#endif
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, stack), 0);
    assert_int_equal(pthread_create(&thread, &attr, hostile, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
}

static void test_long_templates_in_linear_time(void **state) {
    (void)state;
    /* A prompt of 2 MB that is put together piece by piece: quadratic copying would exceed every limit. */
    const char *source = "{% set ns = namespace(s='') %}{% for i in range(20000) %}{% set ns.s = ns.s + 'x' * 100 %}{% endfor %}{{ ns.s|length }}";
    expect_text(source, "{}", false, "2000000");
    /* Two strings that grow in turn, and a message that is walked over letter by letter. */
    source = "{% set ns = namespace(s='', t='') %}{% for i in range(20000) %}{% set ns.s = ns.s + 'x' * 50 %}{% set ns.t = ns.t ~ 'y' * 50 %}"
             "{% endfor %}{{ ns.s|length }} {{ ns.t|length }}";
    expect_text(source, "{}", false, "1000000 1000000");
    fore_buf long_text = {0};
    assert_int_equal(fore_buf_puts(&long_text, "{\"s\": \""), FORE_OK);
    for (int i = 0; i < 1000000; i++) assert_int_equal(fore_buf_putc(&long_text, 'x'), FORE_OK);
    assert_int_equal(fore_buf_append(&long_text, "\"}", 3), FORE_OK);
    source = "{% for c in s if c == 'y' or c.type == 'y' %}{{ c }}{% endfor %}{% for c in s if c == 'y' or c.type == 'y' %}{{ c }}{% endfor %}";
    expect_text(source, long_text.data, false, "");
    fore_buf_free(&long_text);
    expect_text("{% set ns = namespace(s='') %}{% for i in range(9) %}{% set a = ns.s + 'a' %}{% set b = ns.s + 'b' %}{% set ns.s = a %}"
                "{% endfor %}{{ ns.s }}{{ a }}{{ b }}", "{}", false, "aaaaaaaaa");
}

/* ---- threads ---- */

static void *render_often(void *t) {
    for (int i = 0; i < 200; i++) {
        char variables[64], expected[64], *text;
        size_t size;
        fore_error err;
        snprintf(variables, sizeof variables, "{\"n\": %d}", i);
        snprintf(expected, sizeof expected, "<%d:%d>", i, i * 2);
        if (fore_template_render(t, variables, strlen(variables), &text, &size, &err)) return "failed";
        bool same = strcmp(text, expected) == 0;
        fore_free(text);
        if (!same) return "differs";
    }
    return NULL;
}

static void test_threads_share_a_template(void **state) {
    (void)state;
    const char *source = "{% macro m(x) %}{% set ns = namespace(v=0) %}{% for i in [x, x] %}{% set ns.v = ns.v + i %}{% endfor %}"
                         "{{ ns.v }}{% endmacro %}<{{ n }}:{{ m(n) }}>";
    fore_template *t;
    fore_error err;
    pthread_t threads[4];
    assert_int_equal(fore_template_compile(source, strlen(source), &t, &err), FORE_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, render_often, t), 0);
    for (int i = 0; i < 4; i++) {
        void *problem;
        assert_int_equal(pthread_join(threads[i], &problem), 0);
        assert_null(problem);
    }
    fore_template_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_templates), cmocka_unit_test(test_features),
        cmocka_unit_test(test_messages),            cmocka_unit_test(test_chat_preparation),
        cmocka_unit_test(test_numbers_keep_their_spelling), cmocka_unit_test(test_clock),
        cmocka_unit_test(test_limits),              cmocka_unit_test(test_long_templates_in_linear_time),
        cmocka_unit_test(test_threads_share_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
