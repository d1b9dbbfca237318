/* The base room: errors, buffers, arenas, UTF-8, JSON, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/pages.h"
#include "base/utf8.h"
#include "support/scratch.h"

static scratch dir;

static int setup(void **state) {
    (void)state;
    scratch_make(&dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    scratch_remove(&dir);
    return 0;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void test_error(void **state) {
    (void)state;
    fore_error err = {0};
    assert_int_equal(fore_fail(&err, FORE_ERR_FORMAT, "line %d", 3), FORE_ERR_FORMAT);
    assert_int_equal(err.code, FORE_ERR_FORMAT);
    assert_string_equal(err.text, "line 3");
    assert_int_equal(fore_fail_prefix(&err, FORE_ERR_IO, "%s", "file"), FORE_ERR_IO);
    assert_string_equal(err.text, "file: line 3");
    assert_int_equal(err.code, FORE_ERR_IO);
    assert_int_equal(fore_fail(NULL, FORE_ERR_IO, "x"), FORE_ERR_IO);
    assert_int_equal(fore_fail_prefix(NULL, FORE_ERR_IO, "x"), FORE_ERR_IO);
    assert_int_equal(fore_fail_nomem(&err, "soup"), FORE_ERR_NOMEM);
    assert_non_null(strstr(err.text, "soup"));
    /* Too long is cut, never overrun. */
    char longer[1000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    fore_fail(&err, FORE_ERR_IO, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    for (int i = 505; i < 515; i++) {
        fore_fail(&err, FORE_ERR_IO, "old");
        fore_fail_prefix(&err, FORE_ERR_IO, "%.*s", i, longer);
        size_t want = (size_t)i + 5 < sizeof err.text ? (size_t)i + 5 : sizeof err.text - 1;
        assert_in_range(strlen(err.text), want - 2, want);
    }
    assert_string_equal(fore_status_name(FORE_OK), "ok");
    assert_string_equal(fore_status_name(FORE_ERR_NOMEM), "out of memory");
    assert_string_equal(fore_status_name(77), "unknown status");
}

/* ---- buffers and arenas ------------------------------------------------------------------------------------------ */

static void test_buffer(void **state) {
    (void)state;
    fore_buf b = {0};
    for (int i = 0; i < 1000; i++) assert_int_equal(fore_buf_putc(&b, (char)('a' + i % 26)), FORE_OK);
    assert_int_equal(b.size, 1000);
    assert_int_equal(b.data[1000], 0);
    for (int i = 0; i < 1000; i++) assert_int_equal(b.data[i], 'a' + i % 26);
    assert_int_equal(fore_buf_reserve(&b, SIZE_MAX), FORE_ERR_LIMIT);
    assert_int_equal(fore_buf_reserve(&b, SIZE_MAX / 2), FORE_ERR_LIMIT);
    assert_int_equal(b.size, 1000);
    fore_buf_free(&b);
    b.limit = 5;
    assert_int_equal(fore_buf_puts(&b, "abc"), FORE_OK);
    assert_int_equal(fore_buf_puts(&b, "def"), FORE_ERR_LIMIT);
    assert_string_equal(b.data, "abc");
    assert_int_equal(fore_buf_puts(&b, "de"), FORE_OK);
    size_t size;
    char *taken = fore_buf_take(&b, &size);
    assert_string_equal(taken, "abcde");
    assert_int_equal(size, 5);
    free(taken);
    taken = fore_buf_take(&b, &size); /* empty, and still a string */
    assert_string_equal(taken, "");
    assert_int_equal(size, 0);
    free(taken);
    assert_int_equal(b.limit, 5);
}

static void test_arena(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, 16384, 16385, 70000, 1, 200000, 3};
    fore_arena a = {0};
    unsigned char *p[12];
    for (int i = 0; i < 12; i++) {
        p[i] = fore_arena_alloc(&a, sizes[i], 1);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(p[i][k], 0);
        memset(p[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < 12; i++)
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(p[i][k], i + 1); /* nothing overlaps */
    assert_null(fore_arena_alloc(&a, SIZE_MAX / 2, 3));
    assert_null(fore_arena_alloc(&a, SIZE_MAX, 1));
    assert_null(fore_arena_copy(&a, "x", SIZE_MAX));
    assert_string_equal(fore_arena_copy(&a, "hello", 3), "hel");
    assert_true(a.bytes >= 300000);
    fore_arena_free(&a);
    assert_int_equal(a.bytes, 0);
}

/* A large block costs memory only where it is used. */
static void test_arena_is_lazy(void **state) {
    (void)state;
    enum { SIZE = 256 * 1024 * 1024, PAGE = 4096 };
    fore_arena a = {0};
    unsigned char *p = fore_arena_alloc(&a, SIZE, 1);
    assert_non_null(p);
    static unsigned char present[SIZE / PAGE + 2];
    size_t resident = 0;
    assert_int_equal(mincore((void *)((uintptr_t)p & ~(uintptr_t)(PAGE - 1)), SIZE, present), 0);
    for (size_t i = 0; i < SIZE / PAGE; i++) resident += present[i] & 1;
    assert_true(resident < SIZE / PAGE / 8);
    fore_arena_free(&a);
}

/* ---- UTF-8 ------------------------------------------------------------------------------------------------------- */

static void test_utf8_all_scalars(void **state) {
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xD800 && c < 0xE000) continue;
        char text[4];
        uint32_t back;
        int n = fore_utf8_encode(c, text);
        if (fore_utf8_decode(text, (size_t)n, &back) != n || back != c) fail_msg("U+%04X", (unsigned)c);
        for (int cut = 1; cut < n; cut++) {
            if (fore_utf8_decode(text, (size_t)cut, &back) != -cut || back != 0xFFFD) fail_msg("cut U+%04X", (unsigned)c);
            if (fore_utf8_incomplete_tail(text, (size_t)cut) != (size_t)cut) fail_msg("tail of U+%04X", (unsigned)c);
        }
        if (fore_utf8_incomplete_tail(text, (size_t)n) != 0) fail_msg("no tail of U+%04X", (unsigned)c);
    }
}

/* Results of Python's bytes.decode("utf-8", errors="replace"); R is U+FFFD. */
#define R "\xEF\xBF\xBD"
static void test_utf8_replace(void **state) {
    (void)state;
    static const struct {
        const char *in;
        size_t size;
        const char *out;
    } cases[] = {
        {"plain", 5, "plain"},
        {"a\x80z", 3, "a" R "z"},
        {"\xC0\xAF", 2, R R},
        {"\xC1\xBF!", 3, R R "!"},
        {"\xE0\x80\xAF", 3, R R R},
        {"\xE0\x9F\xBF", 3, R R R},
        {"\xE0\xA0", 2, R},
        {"\xE0\xA0z", 3, R "z"},
        {"\xED\xA0\x80", 3, R R R},          /* a surrogate */
        {"\xED\x9F\xBF", 3, "\xED\x9F\xBF"}, /* the last before them */
        {"\xF0\x80\x80\x80", 4, R R R R},
        {"\xF0\x8F\xBF\xBF", 4, R R R R},
        {"\xF0\x9F\x98", 3, R},
        {"\xF0\x9F\x98" "A", 4, R "A"},
        {"\xF0\x9F\xF0\x9F\x98\x80", 6, R "\xF0\x9F\x98\x80"},
        {"\xF4\x8F\xBF\xBF", 4, "\xF4\x8F\xBF\xBF"},
        {"\xF4\x90\x80\x80", 4, R R R R},
        {"\xF5\x80\x80\x80", 4, R R R R},
        {"\xFE\xFF", 2, R R},
        {"\xC3\xA9\xC3", 3, "\xC3\xA9" R},
        {"\xE2\x82\xE2\x82\xAC", 5, R "\xE2\x82\xAC"},
        {"\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", 12, R R R "b" R "c" R R "d"}, /* the standard's table 3-8 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fore_buf b = {0};
        assert_int_equal(fore_utf8_sanitize(&b, cases[i].in, cases[i].size), FORE_OK);
        if (strcmp(b.data, cases[i].out)) fail_msg("case %zu: %s", i, b.data);
        assert_int_equal(fore_utf8_valid_prefix(b.data, b.size), b.size);
        fore_buf_free(&b);
    }
    assert_int_equal(fore_utf8_valid_prefix("ab\xC3\xA9\xFFz", 6), 4);
    assert_int_equal(fore_utf8_valid_prefix("", 0), 0);
    fore_buf b = {.limit = 3};
    assert_int_equal(fore_utf8_sanitize(&b, "\xFF\xFF", 2), FORE_ERR_LIMIT);
    fore_buf_free(&b);
}

static void test_utf8_tail(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t tail;
    } cases[] = {
        {"", 0}, {"abc", 0}, {"ab\xC3", 1}, {"\xE2\x82", 2}, {"x\xF0\x9F\x98", 3}, {"\xF0\x9F\x98\x80", 0},
        {"\x80\x80\x80", 0}, {"\xC0", 0}, {"\xE0\x80", 0}, {"\xED\xA0", 0}, {"\xF4\x90", 0}, {"\xC3\xA9\xC3", 1}, {"\xFF", 0},
        {"\xC3\xA9\xA9", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(fore_utf8_incomplete_tail(cases[i].text, strlen(cases[i].text)), cases[i].tail);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void refuse_json(const char *text, size_t size, const char *part) {
    fore_error err = {0};
    cJSON *tree = (cJSON *)&err;
    if (fore_json_parse(text, size, "src", &tree, &err) != FORE_ERR_FORMAT || !strstr(err.text, part) ||
        strncmp(err.text, "src: ", 5) != 0)
        fail_msg("%s: expected \"%s\", got %s", text, part, err.text);
    assert_null(tree);
}

static void test_json_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "the text ends too early (line 1, byte 1 of it; byte 0 of 0)"},
        {"  \n ", "the text ends too early (line 2, byte 2 of it"},
        {"{\"a\":1,}", "a name in quotes is expected"},
        {"{\"a\":1", "the text ends too early"},
        {"{\"a\" 1}", "':' is expected"},
        {"{1:2}", "a name in quotes is expected"},
        {"{,}", "a name in quotes is expected"},
        {"[1,]", "a value is expected"},
        {"[1 2]", "',' or a closing bracket is expected (line 1, byte 4"},
        {"[1}", "',' or a closing bracket is expected"},
        {"]", "a value is expected"},
        {"1 2", "something follows the value (line 1, byte 3"},
        {"{}x", "something follows the value"},
        {"nul", "an unknown word"},
        {"NaN", "a value is expected"},
        {"-Infinity", "a malformed number"},
        {"01", "something follows the value"},
        {"1.", "a malformed number"},
        {".5", "a value is expected"},
        {"1e", "a malformed number"},
        {"-", "a malformed number"},
        {"+1", "a value is expected"},
        {"1234567890123456789012345678901234567890123456789012345678901234567890", "too many digits"},
        {"\"abc", "a string without an end"},
        {"\"a\nb\"", "a control character in a string"},
        {"\"\\x\"", "an unknown escape"},
        {"\"\\u12G4\"", "\\u without four hexadecimal digits"},
        {"\"\\u0000\"", "\\u0000 in a string is not supported"},
        {"\"\\ud800\"", "half a surrogate pair"},
        {"\"\\udc00\"", "half a surrogate pair"},
        {"\"\\ud800\\u0041\"", "half a surrogate pair"},
        {"\"\\", "an unknown escape"},
        {"\"\xFF\"", "invalid UTF-8 at byte 1"},
        {"'a'", "a value is expected"},
        {"// x\n1", "a value is expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) refuse_json(cases[i][0], strlen(cases[i][0]), cases[i][1]);
    refuse_json("\"a\0b\"", 5, "a control character");
    refuse_json("1\0", 2, "something follows");
    static char deep[4000];
    memset(deep, '[', 2000);
    memset(deep + 2000, ']', 2000);
    refuse_json(deep, 4000, "nested too deeply");
    refuse_json(deep, 2000, "nested too deeply");
}

static void test_json_accepted(void **state) {
    (void)state;
    static const char *const cases[] = {
        "{}", "[]", " [ [] , {} , [ { } ] ] ", "0", "-0.5e+10", "true", "null", "\"\"", "\xEF\xBB\xBF{\"a\":1}",
        "{\"a\":[1,{\"b\":[]}],\"c\":{}}", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"", "\r\n\t1\r\n",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fore_error err = {0};
        cJSON *tree;
        if (fore_json_parse(cases[i], strlen(cases[i]), "src", &tree, &err)) fail_msg("%s: %s", cases[i], err.text);
        assert_non_null(tree);
        cJSON_Delete(tree);
    }
    static char deep[2000];
    memset(deep, '[', 1000);
    memset(deep + 1000, ']', 1000);
    fore_error err = {0};
    cJSON *tree;
    if (fore_json_parse(deep, 2000, "src", &tree, &err)) fail_msg("%s", err.text);
    cJSON_Delete(tree);
    /* The bytes behind the text are not looked at. */
    if (fore_json_parse("12345", 2, "src", &tree, &err)) fail_msg("%s", err.text);
    assert_int_equal(tree->valueint, 12);
    cJSON_Delete(tree);
}

static void test_json_readers(void **state) {
    (void)state;
    static const char text[] = "{\"i\":5,\"n\":null,\"x\":1.5,\"s\":\"t\",\"b\":true,\"I\":6,\"big\":9223372036854775808,\"inf\":1e999}";
    fore_error err = {0};
    cJSON *tree;
    if (fore_json_parse(text, sizeof text - 1, "src", &tree, &err)) fail_msg("%s", err.text);
    int64_t i;
    double d;
    bool b;
    const char *s;
    assert_int_equal(fore_json_int(tree, "i", 0, 9, 3, &i, &err), FORE_OK);
    assert_int_equal(i, 5); /* and not "I" */
    assert_int_equal(fore_json_int(tree, "n", 0, 9, 3, &i, &err), FORE_OK);
    assert_int_equal(i, 3);
    assert_int_equal(fore_json_int(tree, "none", 0, 9, -3, &i, &err), FORE_OK);
    assert_int_equal(i, -3);
    assert_int_equal(fore_json_int(tree, "i", 6, 9, 3, &i, &err), FORE_ERR_FORMAT);
    assert_string_equal(err.text, "i: expected a whole number from 6 to 9, found 5");
    assert_int_equal(fore_json_int(tree, "x", 0, 9, 3, &i, &err), FORE_ERR_FORMAT);
    assert_int_equal(fore_json_int(tree, "big", 0, INT64_MAX, 3, &i, &err), FORE_ERR_FORMAT);
    assert_int_equal(fore_json_int(tree, "s", 0, 9, 3, &i, &err), FORE_ERR_FORMAT);
    assert_string_equal(err.text, "s: expected a whole number from 0 to 9, found a string");
    assert_int_equal(fore_json_number(tree, "x", 0, &d, &err), FORE_OK);
    assert_true(d == 1.5);
    assert_int_equal(fore_json_number(tree, "inf", 0, &d, &err), FORE_ERR_FORMAT);
    assert_int_equal(fore_json_number(tree, "b", 0, &d, &err), FORE_ERR_FORMAT);
    assert_string_equal(err.text, "b: expected a number, found true or false");
    assert_int_equal(fore_json_bool(tree, "b", false, &b, &err), FORE_OK);
    assert_true(b);
    assert_int_equal(fore_json_bool(tree, "i", false, &b, &err), FORE_ERR_FORMAT);
    assert_int_equal(fore_json_string(tree, "s", "u", &s, &err), FORE_OK);
    assert_string_equal(s, "t");
    assert_int_equal(fore_json_string(tree, "none", "u", &s, &err), FORE_OK);
    assert_string_equal(s, "u");
    assert_int_equal(fore_json_string(tree, "i", "u", &s, &err), FORE_ERR_FORMAT);
    assert_null(fore_json_get(NULL, "a"));
    cJSON_Delete(tree);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void test_read(void **state) {
    (void)state;
    fore_error err = {0};
    char *data;
    size_t size;
    scratch_write(&dir, "f", "12345", 5);
    const char *path = scratch_path(&dir, "f");
    assert_int_equal(fore_file_read(path, 5, &data, &size, &err), FORE_OK);
    assert_int_equal(size, 5);
    assert_string_equal(data, "12345");
    free(data);
    assert_int_equal(fore_file_read(path, 4, &data, &size, &err), FORE_ERR_LIMIT);
    assert_non_null(strstr(err.text, "5 bytes, the limit is 4"));
    assert_null(data);
    scratch_write(&dir, "f", "", 0);
    assert_int_equal(fore_file_read(path, 4, &data, &size, &err), FORE_OK);
    assert_string_equal(data, "");
    free(data);
    assert_int_equal(fore_file_read(dir.dir, 4, &data, &size, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "it is a folder"));
    assert_int_equal(fore_file_read(scratch_path(&dir, "none"), 4, &data, &size, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "none: cannot open: No such file or directory"));
    /* No size is known before: read to the end, or to the limit. */
    if (fore_file_exists("/proc/self/status")) { /* not in a bare chroot */
        assert_int_equal(fore_file_read("/proc/self/status", 1 << 20, &data, &size, &err), FORE_OK);
        assert_true(size > 100);
        free(data);
    }
    assert_int_equal(fore_file_read("/dev/zero", 100000, &data, &size, &err), FORE_ERR_LIMIT);
    assert_null(data);
    assert_true(fore_file_exists(path));
    assert_false(fore_file_exists(dir.dir));
    assert_true(fore_dir_exists(dir.dir));
    assert_false(fore_dir_exists(path));
    char *joined = fore_path_join("a", "b"), *slash = fore_path_join("a/", "b"), *none = fore_path_join("", "b");
    assert_string_equal(joined, "a/b");
    assert_string_equal(slash, "a/b");
    assert_string_equal(none, "b");
    free(joined), free(slash), free(none);
}

static void test_map(void **state) {
    (void)state;
    fore_error err = {0};
    fore_map map;
    scratch_write(&dir, "f", "12345", 5);
    assert_int_equal(fore_map_open(scratch_path(&dir, "f"), &map, &err), FORE_OK);
    assert_int_equal(map.size, 5);
    assert_memory_equal(map.data, "12345", 5);
    fore_map_close(&map);
    fore_map_close(&map);
    scratch_write(&dir, "f", "", 0);
    assert_int_equal(fore_map_open(scratch_path(&dir, "f"), &map, &err), FORE_OK);
    assert_int_equal(map.size, 0);
    fore_map_close(&map);
    assert_int_equal(fore_map_open(dir.dir, &map, &err), FORE_ERR_IO);
    assert_int_equal(mkfifo(scratch_path(&dir, "pipe"), 0600), 0);
    assert_int_equal(fore_map_open(scratch_path(&dir, "pipe"), &map, &err), FORE_ERR_IO); /* and does not wait */
    assert_non_null(strstr(err.text, "not a regular file"));
}

static void write_text(const char *path, const char *text) {
    fore_error err = {0};
    fore_writer w;
    if (fore_writer_open(path, &w, &err) || fore_writer_write(&w, text, strlen(text), &err) || fore_writer_commit(&w, &err))
        fail_msg("%s", err.text);
}

static void expect_text(const char *path, const char *text) {
    fore_error err = {0};
    char *data;
    size_t size;
    if (fore_file_read(path, 1000, &data, &size, &err)) fail_msg("%s", err.text);
    assert_string_equal(data, text);
    free(data);
}

static void test_write(void **state) {
    (void)state;
    fore_error err = {0};
    fore_writer w;
    const char *path = scratch_path(&dir, "f");
    write_text(path, "one");
    expect_text(path, "one");
    assert_int_equal(scratch_count(&dir), 1);
    /* Until commit the old text is there; after abandon still, and nothing is left beside it. */
    assert_int_equal(fore_writer_open(path, &w, &err), FORE_OK);
    assert_int_equal(fore_writer_write(&w, "two", 3, &err), FORE_OK);
    expect_text(path, "one");
    fore_writer_abandon(&w);
    expect_text(path, "one");
    assert_int_equal(scratch_count(&dir), 1);
    /* The mode stays, and a link is followed. */
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("f", scratch_path(&dir, "link")), 0);
    write_text(scratch_path(&dir, "link"), "three");
    expect_text(path, "three");
    struct stat st;
    assert_int_equal(lstat(scratch_path(&dir, "link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(scratch_count(&dir), 2);
}

static void test_write_fails(void **state) {
    (void)state;
    fore_error err = {0};
    fore_writer w;
    assert_int_equal(fore_writer_open(dir.dir, &w, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "it is a folder"));
    assert_int_equal(fore_writer_open(scratch_path(&dir, "no/f"), &w, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "no/f: cannot create: No such file or directory"));
    /* A device is written to and stays a device. */
    assert_int_equal(fore_writer_open("/dev/full", &w, &err), FORE_OK);
    assert_int_equal(fore_writer_write(&w, "x", 1, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "/dev/full: cannot write: No space left on device"));
    fore_writer_abandon(&w);
    write_text("/dev/null", "x");
    struct stat st;
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    assert_int_equal(stat("/dev/full", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

/* A folder that may not be written to; the superuser may always, so the test runs as somebody else. */
static void test_read_only_folder(void **state) {
    (void)state;
    fore_error err = {0};
    fore_writer w;
    scratch_write(&dir, "f", "old", 3);
    assert_int_equal(chmod(scratch_path(&dir, "f"), 0444), 0);
    assert_int_equal(chmod(dir.dir, 0555), 0);
    uid_t uid = geteuid();
    if (uid == 0) assert_int_equal(seteuid(65534), 0);
    fore_status fresh = fore_writer_open(scratch_path(&dir, "g"), &w, &err);
    fore_error other = {0};
    fore_status old = fore_writer_open(scratch_path(&dir, "f"), &w, &other);
    if (uid == 0) assert_int_equal(seteuid(0), 0);
    chmod(dir.dir, 0755);
    assert_int_equal(fresh, FORE_ERR_IO);
    assert_non_null(strstr(err.text, "g: cannot create: Permission denied"));
    assert_int_equal(old, FORE_ERR_IO);
    expect_text(scratch_path(&dir, "f"), "old");
    assert_int_equal(scratch_count(&dir), 1);
}

/* A disk that fills up in the middle leaves neither a half file nor a temporary one. */
static void test_full_disk(void **state) {
    (void)state;
    fore_error err = {0};
    fore_writer w;
    static char block[65536];
    scratch_write(&dir, "f", "old", 3);
    struct rlimit keep, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &keep), 0);
    small = (struct rlimit){.rlim_cur = 100000, .rlim_max = keep.rlim_max};
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fore_status opened = fore_writer_open(scratch_path(&dir, "f"), &w, &err);
    fore_status first = fore_writer_write(&w, block, sizeof block, &err);
    fore_status second = fore_writer_write(&w, block, sizeof block, &err);
    fore_writer_abandon(&w);
    setrlimit(RLIMIT_FSIZE, &keep);
    signal(SIGXFSZ, old);
    assert_int_equal(opened, FORE_OK);
    assert_int_equal(first, FORE_OK);
    assert_int_equal(second, FORE_ERR_IO);
    assert_non_null(strstr(err.text, "f: cannot write: File too large"));
    expect_text(scratch_path(&dir, "f"), "old");
    assert_int_equal(scratch_count(&dir), 1);
}

static void test_pages(void **state) {
    (void)state;
    static const size_t sizes[] = {1, FORE_LARGE_PAGE - 1, FORE_LARGE_PAGE, 2 * FORE_LARGE_PAGE + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *memory = fore_pages_new(sizes[i]), any = 0;
        assert_non_null(memory);
        for (size_t k = 0; k < sizes[i]; k++) any |= memory[k];
        assert_int_equal(any, 0);
        if (sizes[i] >= FORE_LARGE_PAGE) assert_int_equal((uintptr_t)memory % FORE_LARGE_PAGE, 0);
        free(memory);
    }
    assert_null(fore_pages_new(SIZE_MAX - 5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_buffer),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_is_lazy),
        cmocka_unit_test(test_utf8_all_scalars),
        cmocka_unit_test(test_utf8_replace),
        cmocka_unit_test(test_utf8_tail),
        cmocka_unit_test(test_json_refused),
        cmocka_unit_test(test_json_accepted),
        cmocka_unit_test(test_json_readers),
        cmocka_unit_test(test_pages),
        cmocka_unit_test_setup_teardown(test_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_map, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_only_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
