/* The tokenizer against the reference: two vocabularies, the tiny model's prompts, tokenizers of many kinds, every
 * block of Unicode; then what the reference does not promise: repaired UTF-8, linear time, threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/nfc.h"
#include "text/tokenizer.h"
#include "text/unicode_tables.h"

#define TABLES FORE_DATA "/tables/tokenizer/"
#define REAL   FORE_DATA "/real/"
#define MADE   FORE_DATA "/tokenizers/"

/* Our JSON has no \\u0000, the cases have: it is read as U+FDD0, and raw() turns it back. */
static cJSON *parse_cases(const char *json, size_t size, const char *what) {
    char *copy = malloc(size + 1);
    assert_non_null(copy);
    memcpy(copy, json, size);
    copy[size] = 0;
    for (char *c = copy; (c = strchr(c, '\\')) != NULL; c += 2)
        if (strncmp(c + 1, "u0000", 5) == 0) memcpy(c + 2, "fdd0", 4);
    cJSON *tree;
    fore_error err;
    if (fore_json_parse(copy, size, what, &tree, &err)) fail_msg("%s", err.text);
    free(copy);
    return tree;
}

static cJSON *read_json(const char *path) {
    fore_map map;
    fore_error err;
    if (fore_map_open(path, &map, &err)) fail_msg("%s", err.text);
    cJSON *tree = parse_cases((const char *)map.data, map.size, path);
    fore_map_close(&map);
    return tree;
}

/* A copy of a case's text as it is meant, exactly as large. */
static char *raw(const char *text, size_t *size) {
    size_t n = 0, length = strlen(text);
    char *out = malloc(length + 1);
    assert_non_null(out);
    for (const char *c = text; *c;) {
        bool nul = strncmp(c, "\xEF\xB7\x90", 3) == 0;
        out[n++] = nul ? (char)0 : *c;
        c += nul ? 3 : 1;
    }
    *size = n;
    return n ? realloc(out, n) : out;
}

static fore_tokenizer *open_with(const char *path, const char *regex, bool no_jit) {
    fore_tokenizer *t;
    fore_error err;
    if (fore_tokenizer_open_with(path, regex, no_jit, &t, &err)) fail_msg("%s", err.text);
    return t;
}

static fore_tokenizer *make(const cJSON *file, const cJSON *config) {
    fore_tokenizer *t = NULL;
    fore_error err;
    fore_tokenizer_source source = {0};
    char *text = cJSON_PrintUnformatted(file);
    assert_non_null(text);
    fore_status s = fore_tokenizer_parse(text, strlen(text), "a file", &source, &err);
    source.config = config;
    if (s || fore_tokenizer_make(&source, &t, &err)) fail_msg("%s", err.text);
    cJSON_Delete(source.file);
    free(text);
    return t;
}

static void expect_ids(const fore_tokenizer *t, const char *text, const cJSON *expected, const char *what) {
    int32_t *ids;
    size_t count;
    fore_error err;
    size_t size, i = 0;
    char *bytes = raw(text, &size);
    if (fore_tokenizer_encode(t, bytes, size, &ids, &count, &err)) fail_msg("%s: %s", what, err.text);
    free(bytes);
    bool same = true;
    for (const cJSON *e = expected->child; e; e = e->next, i++) same = same && i < count && ids[i] == e->valueint;
    if (!same || i != count) {
        for (size_t k = 0; k < count; k++) printf("%d ", ids[k]);
        fail_msg("%s: \"%s\" is not encoded as the reference does: %zu ids, expected %zu", what, text, count, i);
    }
    free(ids);
}

static void expect_text(const fore_tokenizer *t, const cJSON *ids, bool skip, const char *expected, const char *what) {
    int32_t list[4096];
    size_t count = 0, size;
    for (const cJSON *e = ids->child; e; e = e->next) {
        assert_true(count < 4096);
        list[count++] = e->valueint;
    }
    char *text;
    assert_int_equal(fore_tokenizer_decode(t, list, count, skip, &text, &size, NULL), FORE_OK);
    size_t expected_size;
    char *bytes = raw(expected, &expected_size);
    if (size != expected_size || memcmp(text, bytes, size) != 0)
        fail_msg("%s: \"%s\", expected \"%s\"", what, text, expected);
    assert_int_equal(text[size], 0);
    free(bytes);
    fore_free(text);
}

static const char *text_of(const cJSON *object, const char *name) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsString(v));
    return v->valuestring;
}

static const cJSON *list_of(const cJSON *object, const char *name) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsArray(v));
    return v;
}

/* ---- against the reference ---- */

static void small_vocabulary(void **state) {
    (void)state;
    cJSON *cases = read_json(TABLES "cases.json");
    for (int no_jit = 0; no_jit < 2; no_jit++) {
        fore_tokenizer *own = open_with(TABLES "tokenizer.json", NULL, no_jit);
        fore_tokenizer *mark = open_with(TABLES "tokenizer.json", text_of(cases, "regex_class"), no_jit);
        assert_true(!no_jit || own->split.interpreted);
        int count = 0;
        for (const cJSON *c = list_of(cases, "cases")->child; c; c = c->next, count++) {
            expect_ids(own, text_of(c, "text"), list_of(c, "ids"), "own regex");
            expect_ids(mark, text_of(c, "text"), list_of(c, "ids_mark_regex"), "mark regex");
            expect_text(own, list_of(c, "ids"), false, text_of(c, "decoded"), "decode");
            expect_text(own, list_of(c, "ids"), true, text_of(c, "decoded_skip_special"),
                        "decode without special tokens");
        }
        assert_int_equal(count, 62);
        fore_tokenizer_close(own);
        fore_tokenizer_close(mark);
    }
    cJSON_Delete(cases);
}

static void real_vocabulary(void **state) {
    (void)state;
    fore_tokenizer *t = open_with(REAL "tokenizer.json", NULL, false);
    assert_int_equal(fore_tokenizer_size(t), 151646);
    fore_map map;
    assert_int_equal(fore_map_open(REAL "tokenizer_cases.jsonl", &map, NULL), FORE_OK);
    int count = 0;
    for (size_t at = 0; at < map.size;) {
        const char *line = (const char *)map.data + at, *end = memchr(line, '\n', map.size - at);
        size_t size = end ? (size_t)(end - line) : map.size - at;
        cJSON *c = parse_cases(line, size, "case");
        expect_ids(t, text_of(c, "text"), list_of(c, "ids"), text_of(c, "kind"));
        cJSON_Delete(c);
        at += size + 1;
        count++;
    }
    assert_int_equal(count, 2552);
    fore_map_close(&map);
    cJSON *decode = read_json(REAL "decode_cases.json");
    assert_int_equal(cJSON_GetArraySize(decode), 300);
    for (const cJSON *c = decode->child; c; c = c->next)
        expect_text(t, list_of(c, "ids"), false, text_of(c, "text"), "decode");
    cJSON_Delete(decode);
    fore_tokenizer_close(t);
}

static void tiny_model(void **state) {
    (void)state;
    fore_tokenizer *t = open_with("models/tiny", NULL, false);
    cJSON *samples = read_json("tests/samples/goldens.json");
    int count = 0;
    const cJSON *list = cJSON_IsArray(samples) ? samples : cJSON_GetObjectItemCaseSensitive(samples, "samples");
    for (const cJSON *s = list->child; s; s = s->next, count++) {
        expect_ids(t, text_of(s, "prompt"), list_of(s, "prompt_ids"), text_of(s, "id"));
        expect_text(t, list_of(s, "output_ids"), true, text_of(s, "output_text"), text_of(s, "id"));
    }
    assert_int_equal(count, 13);
    cJSON_Delete(samples);
    int32_t end = fore_tokenizer_id(t, "<|im_end|>");
    assert_int_equal(end, 1242);
    assert_true(fore_tokenizer_is_special(t, end));
    assert_false(fore_tokenizer_is_special(t, fore_tokenizer_id(t, "<tool_call>")));
    assert_int_equal(fore_tokenizer_id(t, "<|no such token|>"), -1);
    size_t size;
    int32_t the = fore_tokenizer_id(t, "\xC4\xA0the"); /* as the vocabulary spells " the" */
    const char *piece = fore_tokenizer_piece(t, the, &size);
    assert_int_equal(size, 4);
    assert_memory_equal(piece, " the", 4);
    assert_null(fore_tokenizer_piece(t, -1, &size));
    assert_null(fore_tokenizer_piece(t, 1 << 30, &size));
    assert_int_equal(size, 0);
    assert_false(fore_tokenizer_is_special(t, 1 << 30));
    fore_tokenizer_close(t);
}

/* The base tokenizer.json with members replaced. */
static cJSON *overlay(const cJSON *base, const cJSON *changes) {
    cJSON *out = cJSON_Duplicate(base, true);
    for (const cJSON *c = changes->child; c; c = c->next) {
        if (strcmp(c->string, "model") != 0) {
            cJSON_ReplaceItemInObjectCaseSensitive(out, c->string, cJSON_Duplicate(c, true));
            continue;
        }
        cJSON *model = cJSON_GetObjectItemCaseSensitive(out, "model");
        for (const cJSON *m = c->child; m; m = m->next)
            cJSON_ReplaceItemInObjectCaseSensitive(model, m->string, cJSON_Duplicate(m, true));
    }
    return out;
}

static void many_kinds(void **state) {
    (void)state;
    cJSON *base = read_json(TABLES "tokenizer.json"), *variants = read_json(MADE "variants.json");
    int count = 0;
    for (const cJSON *v = variants->child; v; v = v->next, count++) {
        cJSON *file = overlay(base, cJSON_GetObjectItemCaseSensitive(v, "set"));
        fore_tokenizer *t = make(file, NULL);
        cJSON_Delete(file);
        for (const cJSON *c = list_of(v, "cases")->child; c; c = c->next)
            expect_ids(t, c->child->valuestring, c->child->next, text_of(v, "name"));
        for (const cJSON *c = list_of(v, "decode")->child; c; c = c->next) {
            expect_text(t, c->child, false, c->child->next->valuestring, text_of(v, "name"));
            expect_text(t, c->child, true, c->child->next->next->valuestring, text_of(v, "name"));
        }
        fore_tokenizer_close(t);
    }
    assert_int_equal(count, 82);
    cJSON_Delete(base);
    cJSON_Delete(variants);
}

static void put(fore_buf *out, uint32_t code) {
    char bytes[4];
    int n = fore_utf8_encode(code, bytes);
    assert_int_equal(fore_buf_append(out, bytes, (size_t)n), FORE_OK);
}

/* block_text of make_tokenizer_cases.py. */
static void block_text(fore_buf *out, uint32_t first) {
    out->size = 0;
    for (uint32_t c = first; c < first + 64; c++) {
        if (c == 0 || (c >= 0xD800 && c < 0xE000)) continue;
        const uint32_t parts[] = {'e', c, 0x323, c, 0x301, ' ', c, '1', c, '\n'};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) put(out, parts[i]);
    }
}

static void expect_hash(const fore_tokenizer *t, const fore_buf *text, const char *expected, uint32_t first) {
    int32_t *ids;
    size_t count;
    assert_int_equal(fore_tokenizer_encode(t, text->data, text->size, &ids, &count, NULL), FORE_OK);
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < count; i++)
        for (int b = 0; b < 4; b++) h = (h ^ ((uint32_t)ids[i] >> 8 * b & 0xFF)) * 0x100000001B3u;
    free(ids);
    char hex[17];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)h);
    if (strcmp(hex, expected) != 0) fail_msg("the block at U+%04X is not encoded as the reference does", first);
}

static void all_of_unicode(void **state) {
    (void)state;
    cJSON *cases = read_json(TABLES "cases.json"), *blocks = read_json(MADE "blocks.json");
    cJSON *base = read_json(TABLES "tokenizer.json");
    cJSON *file = overlay(base, cJSON_GetObjectItemCaseSensitive(blocks, "set"));
    cJSON *config = cJSON_CreateObject();
    cJSON_AddStringToObject(config, "pretokenize_regex", text_of(cases, "regex_class"));
    fore_tokenizer *own = make(file, NULL), *mark = make(file, config);
    fore_buf text = {0};
    int count = 0;
    for (const cJSON *b = list_of(blocks, "blocks")->child; b; b = b->next, count++) {
        uint32_t first = (uint32_t)b->child->valueint;
        block_text(&text, first);
        expect_hash(own, &text, b->child->next->valuestring, first);
        expect_hash(mark, &text, b->child->next->next->valuestring, first);
    }
    assert_true(count > 1300);
    fore_buf_free(&text);
    fore_tokenizer_close(own);
    fore_tokenizer_close(mark);
    cJSON_Delete(base);
    cJSON_Delete(file);
    cJSON_Delete(config);
    cJSON_Delete(cases);
    cJSON_Delete(blocks);
}

static void tables_are_sorted(void **state) {
    (void)state;
    char a[4], b[4];
    for (size_t i = 0; i < fore_stand_in_count; i++) {
        const fore_code_range *r = &fore_stand_ins[i];
        assert_true(r->first <= r->last && (i == 0 || r[-1].last < r->first));
        assert_int_equal(fore_utf8_encode(r->first, a), fore_utf8_encode(r->to, b));
        assert_int_equal(fore_utf8_encode(r->last, a), fore_utf8_encode(r->to, b));
        assert_null(fore_code_range_find(fore_stand_ins, fore_stand_in_count, r->to));
    }
    for (size_t i = 1; i < fore_nfc_wall_count; i++) assert_true(fore_nfc_walls[i - 1].last < fore_nfc_walls[i].first);
}

/* ---- a checkpoint folder ---- */

static cJSON *parse(const char *text) {
    cJSON *tree;
    fore_error err;
    if (fore_json_parse(text, strlen(text), "test", &tree, &err)) fail_msg("%s", err.text);
    return tree;
}

static void config_is_merged(void **state) {
    (void)state;
    cJSON *file = read_json(TABLES "tokenizer.json"), *cases = read_json(TABLES "cases.json");
    cJSON *config =
        parse("{\"added_tokens_decoder\":{\"684\":{\"content\":\"<more>\",\"special\":true},"
              "\"690\":{\"content\":\"<far>\",\"special\":false,\"normalized\":false},"
              "\"673\":{\"content\":\"<|im_start|>\",\"lstrip\":true,\"special\":false,\"normalized\":false}}}");
    cJSON_AddStringToObject(config, "pretokenize_regex", text_of(cases, "regex_class"));
    fore_tokenizer *t = make(file, config);
    assert_int_equal(fore_tokenizer_size(t), 691);
    assert_int_equal(fore_tokenizer_id(t, "<more>"), 684);
    assert_int_equal(fore_tokenizer_id(t, "<far>"), 690);
    assert_true(fore_tokenizer_is_special(t, 684));
    assert_false(fore_tokenizer_is_special(t, 690));
    assert_false(fore_tokenizer_is_special(t, 673)); /* its flags here count */
    size_t size;
    assert_null(fore_tokenizer_piece(t, 686, &size));
    cJSON *expected = parse("[64,673,684,64,690]");
    expect_ids(t, "a  <|im_start|><more>a<far>", expected, "config");
    for (const cJSON *c = list_of(cases, "cases")->child; c; c = c->next)
        if (!strchr(text_of(c, "text"), '<'))
            expect_ids(t, text_of(c, "text"), list_of(c, "ids_mark_regex"), "pretokenize_regex");
    fore_tokenizer_close(t);
    cJSON_Delete(expected);
    cJSON_Delete(config);
    cJSON_Delete(file);
    cJSON_Delete(cases);
}

/* ---- any bytes ---- */

static void bad_utf8_is_replaced(void **state) {
    (void)state;
    fore_tokenizer *t = open_with(TABLES "tokenizer.json", NULL, false);
    static const struct {
        const char *bytes;
        size_t size;
        const char *read_as;
    } cases[] = {
        {"a\xFFz", 3, "a\xEF\xBF\xBDz"},
        {"\xC3", 1, "\xEF\xBF\xBD"},
        {"\xE2\x82", 2, "\xEF\xBF\xBD"},
        {"\xE2\x82x\xED\xA0\x80", 6, "\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF0\x9F\x98 <|im_end|>\x80", 15, "\xEF\xBF\xBD <|im_end|>\xEF\xBF\xBD"},
        {"\xC0\xAF", 2, "\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t *a, *b;
        size_t na, nb;
        char *copy = malloc(cases[i].size); /* exactly the bytes, for the sanitizer */
        memcpy(copy, cases[i].bytes, cases[i].size);
        assert_int_equal(fore_tokenizer_encode(t, copy, cases[i].size, &a, &na, NULL), FORE_OK);
        assert_int_equal(fore_tokenizer_encode(t, cases[i].read_as, strlen(cases[i].read_as), &b, &nb, NULL), FORE_OK);
        assert_int_equal(na, nb);
        assert_memory_equal(a, b, na * sizeof *a);
        free(a);
        free(b);
        free(copy);
    }
    /* A NUL is a byte like others. */
    int32_t *ids;
    size_t count, size;
    char *text;
    assert_int_equal(fore_tokenizer_encode(t, "a\0b\0", 4, &ids, &count, NULL), FORE_OK);
    assert_int_equal(fore_tokenizer_decode(t, ids, count, false, &text, &size, NULL), FORE_OK);
    assert_int_equal(size, 4);
    assert_memory_equal(text, "a\0b\0", 5);
    free(ids);
    fore_free(text);
    assert_int_equal(fore_tokenizer_encode(t, NULL, 0, &ids, &count, NULL), FORE_OK);
    assert_int_equal(count, 0);
    assert_non_null(ids);
    free(ids);
    const int32_t odd[] = {-1, 1 << 30, INT32_MIN, INT32_MAX};
    assert_int_equal(fore_tokenizer_decode(t, odd, 4, false, &text, &size, NULL), FORE_OK);
    assert_int_equal(size, 0);
    fore_free(text);
    fore_tokenizer_close(t);
}

/* ---- linear time ---- */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Encodes `unit` repeated to `size` bytes and back; returns CPU seconds, and merge candidates in *steps. */
static double run(const fore_tokenizer *t, const char *unit, const char *end, size_t size, uint64_t *steps) {
    size_t n = strlen(unit), used = size / n * n;
    char *text = malloc(used + strlen(end) + 1);
    assert_non_null(text);
    for (size_t i = 0; i < used; i += n) memcpy(text + i, unit, n);
    strcpy(text + used, end);
    int32_t *ids;
    size_t count, back_size;
    char *back;
    fore_error err;
    double start = seconds();
    if (fore_tokenizer_encode_counted(t, text, used + strlen(end), &ids, &count, steps, &err)) fail_msg("%s", err.text);
    double took = seconds() - start;
    assert_int_equal(fore_tokenizer_decode(t, ids, count, false, &back, &back_size, NULL), FORE_OK);
    assert_int_equal(back_size, used + strlen(end));
    assert_memory_equal(back, text, back_size);
    free(ids);
    free(text);
    fore_free(back);
    return took;
}

/* Opening the real vocabulary against parsing its JSON, which any program has to do: tables, not searches. */
static void opening_is_quick(void **state) {
    (void)state;
    double parse_took = 1e9, open_took = 1e9;
    for (int i = 0; i < 2; i++) {
        double start = seconds();
        char *text;
        size_t size;
        assert_int_equal(fore_file_read(REAL "tokenizer.json", (size_t)1 << 28, &text, &size, NULL), FORE_OK);
        cJSON *tree = cJSON_ParseWithLength(text, size);
        assert_non_null(tree);
        cJSON_Delete(tree);
        free(text);
        double middle = seconds();
        fore_tokenizer_close(open_with(REAL "tokenizer.json", NULL, false));
        double end = seconds();
        if (middle - start < parse_took) parse_took = middle - start;
        if (end - middle < open_took) open_took = end - middle;
    }
    if (open_took > 3 * parse_took + 0.1) fail_msg("opening takes %g s, its JSON %g s", open_took, parse_took);
}

static const struct {
    const char *unit, *end;
} hostile[] = {
    {"a", ""},
    {"a", "!"},
    {" ", ""},
    {" ", "x"},
    {"\n", ""},
    {"\n", "x"},
    {" \n", "x"},
    {"\r\n ", ""},
    {"ab", ""},
    {"=", ""},
    {"aA", ""},
    {"the", ""},
    {"1", ""},
    {"a1", ""},
    {" a", ""},
    {"'s", ""},
    {"'", ""},
    {"\t ", "x"},
    {"\xE6\x97\xA5", ""},
    {"\xE0\xA4\xA8\xE0\xA4\xAE", ""},
    {"\xC2\xA0", "x"},
    {"<|im_", ""},
    {"<|im_end|", ""},
    {"<|endoftext|>", ""},
    {"<", ""},
    {"abcdefghijklmnopqrstuvwxyz", ""},
    {"!\n", ""},
    {"\xF0\x9F\x91\xA9\xE2\x80\x8D", ""},
    {"e\xCC\xA3\xCC\x82", ""},
};

static void time_is_linear(void **state) {
    (void)state;
    enum { SMALL = 1 << 16, LARGE = 1 << 19 };
    fore_tokenizer *t = open_with(REAL "tokenizer.json", NULL, false);
    t->nfc = false; /* so that the text comes back as it was */
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        uint64_t few, many;
        double small = run(t, hostile[i].unit, hostile[i].end, SMALL, &few);
        double large = run(t, hostile[i].unit, hostile[i].end, LARGE, &many);
        /* Every merge ends one symbol and offers at most two candidates more. */
        assert_true(many <= 3 * (uint64_t)LARGE);
        /* 8 times the text: 64 times the time if it were quadratic; the floor is for coarse clocks. */
        if (large > 24 * (small + 0.02))
            fail_msg("%s...%s: %g s for 1/8, %g s for the whole", hostile[i].unit, hostile[i].end, small, large);
    }
    fore_tokenizer_close(t);
}

/* utf8proc's own sorting of marks is quadratic; so would be a window that never ends. */
static void marks_without_end(void **state) {
    (void)state;
    double took[2];
    for (int k = 0; k < 2; k++) {
        size_t pairs = k ? 1 << 18 : 1 << 15;
        fore_buf text = {0}, out = {0};
        assert_int_equal(fore_buf_append(&text, "q", 1), FORE_OK);
        for (size_t i = 0; i < pairs; i++) assert_int_equal(fore_buf_append(&text, "\xCC\x81\xCC\xA3", 4), FORE_OK);
        double start = seconds();
        assert_int_equal(fore_nfc_append(&out, text.data, text.size), FORE_OK);
        took[k] = seconds() - start;
        assert_int_equal(out.size, text.size);
        for (size_t i = 0; i < 2 * pairs; i++)
            assert_memory_equal(out.data + 1 + 2 * i, i < pairs ? "\xCC\xA3" : "\xCC\x81", 2);
        fore_buf_free(&text);
        fore_buf_free(&out);
    }
    if (took[1] > 24 * (took[0] + 0.02)) fail_msg("%g s for 1/8, %g s for the whole", took[0], took[1]);
}

/* The interpreter of PCRE2 counts steps and takes memory where JIT does not; more text than its own limit of ten
 * million steps would do. */
static void interpreted_is_enough(void **state) {
    (void)state;
    enum { SIZE = 12 << 20 };
    fore_tokenizer *t = open_with(REAL "tokenizer.json", NULL, true);
    t->nfc = false;
    char *text = malloc(SIZE);
    assert_non_null(text);
    fore_cut cut = {0};
    fore_error err;
    for (size_t i = 0; i < 4; i++) {
        memset(text, " \na="[i], SIZE);
        text[SIZE - 1] = 'x';
        if (fore_split_run(&t->split, &cut, text, SIZE, &err)) fail_msg("%s", err.text);
        assert_int_equal(cut.count, i == 0 ? 2 : i == 2 ? 1 : 2);
    }
    free(text);
    fore_cut_free(&cut);
    uint64_t steps;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        run(t, hostile[i].unit, hostile[i].end, 1 << 14, &steps);
    fore_tokenizer_close(t);
}

static void endless_regex_is_stopped(void **state) {
    (void)state;
    char text[41];
    memset(text, 'a', 40);
    text[40] = 0;
    for (int no_jit = 0; no_jit < 2; no_jit++) {
        fore_tokenizer *t = open_with(TABLES "tokenizer.json", "(a|a)+b|(aa?)+c", no_jit);
        int32_t *ids = (int32_t *)text;
        size_t count;
        fore_error err;
        assert_int_equal(fore_tokenizer_encode(t, text, 40, &ids, &count, &err), FORE_ERR_LIMIT);
        assert_null(ids);
        assert_non_null(strstr(err.text, "regex"));
        fore_tokenizer_close(t);
    }
}

/* ---- threads ---- */

typedef struct worker {
    const fore_tokenizer *t;
    const cJSON *cases;
    int wrong;
} worker;

static void *work(void *arg) {
    worker *w = arg;
    for (int round = 0; round < 20; round++)
        for (const cJSON *c = w->cases->child; c; c = c->next) {
            const char *text = cJSON_GetObjectItemCaseSensitive(c, "text")->valuestring;
            const cJSON *expected = cJSON_GetObjectItemCaseSensitive(c, "ids")->child;
            int32_t *ids;
            size_t count, i = 0;
            size_t size;
            char *bytes = raw(text, &size);
            if (fore_tokenizer_encode(w->t, bytes, size, &ids, &count, NULL)) return NULL;
            free(bytes);
            for (; expected; expected = expected->next, i++) w->wrong += i >= count || ids[i] != expected->valueint;
            w->wrong += i != count;
            free(ids);
        }
    return w;
}

static void threads_share_it(void **state) {
    (void)state;
    cJSON *cases = read_json(TABLES "cases.json");
    fore_tokenizer *t = open_with(TABLES "tokenizer.json", NULL, false);
    worker workers[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){t, list_of(cases, "cases"), 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *done;
        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_ptr_equal(done, &workers[i]);
        assert_int_equal(workers[i].wrong, 0);
    }
    fore_tokenizer_close(t);
    cJSON_Delete(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_vocabulary),
        cmocka_unit_test(real_vocabulary),
        cmocka_unit_test(tiny_model),
        cmocka_unit_test(many_kinds),
        cmocka_unit_test(all_of_unicode),
        cmocka_unit_test(tables_are_sorted),
        cmocka_unit_test(config_is_merged),
        cmocka_unit_test(bad_utf8_is_replaced),
        cmocka_unit_test(time_is_linear),
        cmocka_unit_test(marks_without_end),
        cmocka_unit_test(interpreted_is_enough),
        cmocka_unit_test(endless_regex_is_stopped),
        cmocka_unit_test(threads_share_it),
        cmocka_unit_test(opening_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
