/* Tokenizer files that are broken, foreign or hostile: a status and a message that names the trouble, and nothing
 * leaked; and files that are merely unusual, which open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

static const char vocab[] = "{\"a\":0,\"b\":1,\"ab\":2,\"\xC4\xA0\":3,\"?\":4}";
static const char merges[] = "[[\"a\",\"b\"]]";
static const char byte_level[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}";

/* A tokenizer.json of parts. */
static char *file_of(const char *model_more, const char *words, const char *joins, const char *pre,
                     const char *top_more) {
    char *out;
    int n = asprintf(
        &out, "{\"model\":{\"type\":\"BPE\"%s%s%s%s%s},\"pre_tokenizer\":%s,\"decoder\":{\"type\":\"ByteLevel\"}%s}",
        words ? ",\"vocab\":" : "", words ? words : "", joins ? ",\"merges\":" : "", joins ? joins : "", model_more,
        pre, top_more);
    assert_true(n > 0);
    return out;
}

static fore_status try_make(const char *file, const char *config, fore_tokenizer **t, fore_error *err) {
    cJSON *b = NULL;
    fore_tokenizer_source source = {0};
    *err = (fore_error){0};
    *t = NULL;
    fore_status s = fore_tokenizer_parse(file, strlen(file), "tokenizer.json", &source, err);
    if (!s && config) s = fore_json_parse(config, strlen(config), "tokenizer_config.json", &b, err);
    source.config = b;
    if (!s) s = fore_tokenizer_make(&source, t, err);
    cJSON_Delete(source.file);
    cJSON_Delete(b);
    return s;
}

/* It fails with this status, and the message has these words. Takes the file. */
static void refuse(char *file, const char *config, fore_status status, const char *words) {
    fore_tokenizer *t;
    fore_error err;
    fore_status s = try_make(file, config, &t, &err);
    if (s != status || !strstr(err.text, words))
        fail_msg("%.200s\ngave %d \"%s\"; expected %d with \"%s\"", file, s, err.text, status, words);
    assert_null(t);
    assert_int_equal(err.code, status);
    free(file);
}

/* It opens, and text becomes these ids. Takes the file. */
static void accept(char *file, const char *config, const char *text, const int32_t *expected, size_t expected_count) {
    fore_tokenizer *t;
    fore_error err;
    if (try_make(file, config, &t, &err)) fail_msg("%s: %s", file, err.text);
    int32_t *ids;
    size_t count;
    assert_int_equal(fore_tokenizer_encode(t, text, strlen(text), &ids, &count, &err), FORE_OK);
    assert_int_equal(count, expected_count);
    if (count) assert_memory_equal(ids, expected, count * sizeof *ids);
    free(ids);
    fore_tokenizer_close(t);
    free(file);
}

#define ACCEPT(file, config, text, ...)                                                                                \
    do {                                                                                                               \
        const int32_t list[] = {__VA_ARGS__};                                                                          \
        accept(file, config, text, list, sizeof list / sizeof *list);                                                  \
    } while (0)

static char *copy(const char *text) {
    return strdup(text);
}
static char *with_model(const char *more) {
    return file_of(more, vocab, merges, byte_level, "");
}
static char *with_vocab(const char *words) {
    return file_of("", words, merges, byte_level, "");
}
static char *with_merges(const char *joins) {
    return file_of("", vocab, joins, byte_level, "");
}
static char *with_pre(const char *pre) {
    return file_of("", vocab, merges, pre, "");
}
static char *with_top(const char *more) {
    return file_of("", vocab, merges, byte_level, more);
}

static void base_opens(void **state) {
    (void)state;
    ACCEPT(with_top(""), NULL, "ab a?", 2, 3, 0, 4);
    ACCEPT(with_merges("[\"#version: 0.2\",\"a b\"]"), NULL, "ab", 2);
    ACCEPT(with_merges("[[\"a\",\"b\"],\"a b\"]"), NULL, "ab", 2);
    ACCEPT(with_top(",\"added_tokens\":null,\"normalizer\":null,\"post_processor\":{\"type\":\"Whatever\"}"), NULL, "b",
           1);
    ACCEPT(with_model(",\"unk_token\":\"?\",\"dropout\":null,\"continuing_subword_prefix\":\"\""), NULL, "aZ", 0, 4);
    ACCEPT(with_model(",\"dropout\":0"), NULL, "aZ", 0);
    ACCEPT(with_top(",\"added_tokens\":[{\"id\":9,\"content\":\"\"},{\"id\":5,\"content\":\"aba\"}]"), NULL, "abab", 5,
           1);
    ACCEPT(with_top(""), "{\"added_tokens_decoder\":{\"7\":{\"content\":\"aa\"}},\"pretokenize_regex\":null}", "aaa", 7,
           0);
}

static void no_tokenizer(void **state) {
    (void)state;
    refuse(copy(""), NULL, FORE_ERR_FORMAT, "tokenizer.json");
    refuse(copy("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,"), NULL, FORE_ERR_FORMAT, "not valid JSON");
    refuse(copy("[1,2]"), NULL, FORE_ERR_FORMAT, "object");
    refuse(copy("{}"), NULL, FORE_ERR_FORMAT, "model");
    refuse(copy("{\"model\":7}"), NULL, FORE_ERR_FORMAT, "model: expected an object");
    refuse(with_top(""), "[]", FORE_ERR_FORMAT, "tokenizer_config.json");
    refuse(copy("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}"), NULL, FORE_ERR_UNSUPPORTED, "WordPiece");
    refuse(copy("{\"model\":{\"type\":\"Unigram\"}}"), NULL, FORE_ERR_UNSUPPORTED, "Unigram");
}

static void bad_vocab(void **state) {
    (void)state;
    refuse(with_vocab(NULL), NULL, FORE_ERR_FORMAT, "model.vocab: expected an object of token: id, found nothing");
    refuse(with_vocab("{}"), NULL, FORE_ERR_FORMAT, "model.vocab");
    refuse(with_vocab("[\"a\"]"), NULL, FORE_ERR_FORMAT, "model.vocab");
    refuse(with_vocab("{\"a\":\"0\"}"), NULL, FORE_ERR_FORMAT, "\"a\" is no number");
    refuse(with_vocab("{\"a\":-1}"), NULL, FORE_ERR_FORMAT, "from 0");
    refuse(with_vocab("{\"a\":0.5}"), NULL, FORE_ERR_FORMAT, "whole number");
    refuse(with_vocab("{\"a\":2097152}"), NULL, FORE_ERR_FORMAT, "2097151");
    refuse(with_vocab("{\"a\":1e300}"), NULL, FORE_ERR_FORMAT, "whole number");
    refuse(with_vocab("{\"a\":4294967296}"), NULL, FORE_ERR_FORMAT, "whole number");
    refuse(with_vocab("{\"a\":0,\"b\":0}"), NULL, FORE_ERR_FORMAT, "id 0 is given to two tokens");
    refuse(with_vocab("{\"a\":0,\"b\":1,\"a\":2}"), NULL, FORE_ERR_FORMAT, "twice");
    refuse(with_vocab("{\"\xE6\x97\xA5\":0}"), NULL, FORE_ERR_UNSUPPORTED, "byte-level");
}

static void bad_merges(void **state) {
    (void)state;
    refuse(with_merges(NULL), NULL, FORE_ERR_FORMAT, "model.merges: expected a list of pairs, found nothing");
    refuse(with_merges("[]"), NULL, FORE_ERR_FORMAT, "an empty one");
    refuse(with_merges("{\"a\":\"b\"}"), NULL, FORE_ERR_FORMAT, "model.merges");
    refuse(with_merges("[7]"), NULL, FORE_ERR_FORMAT, "number 0");
    refuse(with_merges("[[\"a\",\"b\"],[\"a\"]]"), NULL, FORE_ERR_FORMAT, "number 1");
    refuse(with_merges("[[\"a\",\"b\",\"a\"]]"), NULL, FORE_ERR_FORMAT, "number 0");
    refuse(with_merges("[[\"a\",1]]"), NULL, FORE_ERR_FORMAT, "number 0");
    refuse(with_merges("[[]]"), NULL, FORE_ERR_FORMAT, "number 0");
    refuse(with_merges("[\"ab\"]"), NULL, FORE_ERR_FORMAT, "number 0");
    refuse(with_merges("[\"a b a\"]"), NULL, FORE_ERR_FORMAT, "number 0");
    refuse(with_merges("[[\"x\",\"b\"]]"), NULL, FORE_ERR_FORMAT, "the left one is not in model.vocab");
    refuse(with_merges("[[\"a\",\"x\"]]"), NULL, FORE_ERR_FORMAT, "the right one is not in model.vocab");
    refuse(with_merges("[[\"b\",\"a\"]]"), NULL, FORE_ERR_FORMAT, "what they make is not in model.vocab");
}

static void unsupported_model(void **state) {
    (void)state;
    refuse(with_model(",\"dropout\":0.1"), NULL, FORE_ERR_UNSUPPORTED, "dropout");
    refuse(with_model(",\"continuing_subword_prefix\":\"##\""), NULL, FORE_ERR_UNSUPPORTED,
           "continuing_subword_prefix");
    refuse(with_model(",\"end_of_word_suffix\":\"</w>\""), NULL, FORE_ERR_UNSUPPORTED, "end_of_word_suffix");
    refuse(with_model(",\"byte_fallback\":true"), NULL, FORE_ERR_UNSUPPORTED, "byte_fallback");
    refuse(with_model(",\"byte_fallback\":1"), NULL, FORE_ERR_FORMAT, "byte_fallback");
    refuse(with_model(",\"unk_token\":\"<unk>\""), NULL, FORE_ERR_FORMAT, "<unk>");
    refuse(with_model(",\"unk_token\":3"), NULL, FORE_ERR_FORMAT, "unk_token");
    refuse(with_model(",\"ignore_merges\":\"yes\""), NULL, FORE_ERR_FORMAT, "ignore_merges");
}

static void pipeline(void **state) {
    (void)state;
    refuse(with_top(",\"normalizer\":{\"type\":\"NFKC\"}"), NULL, FORE_ERR_UNSUPPORTED, "NFKC");
    refuse(with_top(
               ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"}]}"),
           NULL, FORE_ERR_UNSUPPORTED, "Lowercase");
    refuse(with_top(",\"normalizer\":{\"type\":\"Sequence\"}"), NULL, FORE_ERR_FORMAT, "normalizers");
    refuse(with_top(",\"normalizer\":\"NFC\""), NULL, FORE_ERR_FORMAT, "normalizer");
    refuse(with_pre("null"), NULL, FORE_ERR_UNSUPPORTED, "pre_tokenizer");
    refuse(with_pre("{\"type\":\"Whitespace\"}"), NULL, FORE_ERR_UNSUPPORTED, "Whitespace");
    refuse(with_pre("{\"type\":\"Sequence\",\"pretokenizers\":[]}"), NULL, FORE_ERR_UNSUPPORTED, "ByteLevel");
    refuse(with_pre("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}"), NULL,
           FORE_ERR_UNSUPPORTED, "Digits");
    refuse(with_pre("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},7]}"), NULL,
           FORE_ERR_UNSUPPORTED, "after ByteLevel");
    refuse(with_pre("{\"type\":\"Split\",\"behavior\":\"Isolated\"}"), NULL, FORE_ERR_FORMAT, "pattern");
    refuse(with_pre("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"}}"), NULL, FORE_ERR_FORMAT, "behavior");
    refuse(with_pre("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Upwards\"}"), NULL,
           FORE_ERR_FORMAT, "Upwards");
    refuse(with_pre("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}"), NULL,
           FORE_ERR_FORMAT, "(a");
    refuse(with_pre("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\",\"String\":\"a\"},\"behavior\":\"Isolated\"}"),
           NULL, FORE_ERR_FORMAT, "pattern");
    refuse(with_pre(byte_level), "{\"pretokenize_regex\":\"a\"}", FORE_ERR_FORMAT, "pretokenize_regex");
    refuse(with_pre(byte_level), "{\"pretokenize_regex\":[\"a\"]}", FORE_ERR_FORMAT, "pretokenize_regex");

    char deep[4096] = "", *many = deep;
    for (int i = 0; i < 40; i++) many = stpcpy(many, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    many = stpcpy(many, byte_level);
    for (int i = 0; i < 40; i++) many = stpcpy(many, "]}");
    refuse(with_pre(deep), NULL, FORE_ERR_LIMIT, "Sequences");
    many = stpcpy(deep, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < 40; i++)
        many = stpcpy(many, "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},");
    many = stpcpy(many, byte_level);
    stpcpy(many, "]}");
    refuse(with_pre(deep), NULL, FORE_ERR_LIMIT, "steps");

    char *file = with_top("");
    char *decoder = strstr(file, "{\"type\":\"ByteLevel\"}}");
    assert_non_null(decoder);
    strcpy(decoder, "null}");
    refuse(file, NULL, FORE_ERR_UNSUPPORTED, "decoder");
    file = with_top("");
    strcpy(strstr(file, "{\"type\":\"ByteLevel\"}}"), "{\"type\":\"Metaspac\"}}");
    refuse(file, NULL, FORE_ERR_UNSUPPORTED, "Metaspac");
}

static void bad_added(void **state) {
    (void)state;
    refuse(with_top(",\"added_tokens\":{}"), NULL, FORE_ERR_FORMAT, "added_tokens");
    refuse(with_top(",\"added_tokens\":[{}]"), NULL, FORE_ERR_FORMAT, "content");
    refuse(with_top(",\"added_tokens\":[{\"content\":\"<x>\"}]"), NULL, FORE_ERR_FORMAT, "<x>");
    refuse(with_top(",\"added_tokens\":[{\"content\":\"<x>\",\"id\":1e12}]"), NULL, FORE_ERR_FORMAT, "2097151");
    refuse(with_top(",\"added_tokens\":[{\"content\":\"<x>\",\"id\":-3}]"), NULL, FORE_ERR_FORMAT, "<x>");
    refuse(with_top(",\"added_tokens\":[{\"content\":\"<x>\",\"id\":1}]"), NULL, FORE_ERR_FORMAT,
           "id 1 is given to two");
    refuse(with_top(",\"added_tokens\":[{\"content\":\"<x>\",\"id\":9},{\"content\":\"<y>\",\"id\":9}]"), NULL,
           FORE_ERR_FORMAT, "<y>");
    refuse(with_top(",\"added_tokens\":[{\"content\":\"<x>\",\"id\":9},{\"content\":\"<x>\",\"id\":8}]"), NULL,
           FORE_ERR_FORMAT, "ids 9 and 8");
    refuse(with_top(",\"added_tokens\":[{\"content\":\"<x>\",\"id\":9,\"lstrip\":0}]"), NULL, FORE_ERR_FORMAT,
           "lstrip");
    refuse(with_top(",\"added_tokens\":[7]"), NULL, FORE_ERR_FORMAT, "content");
    refuse(with_top(""), "{\"added_tokens_decoder\":[]}", FORE_ERR_FORMAT, "added_tokens_decoder");
    refuse(with_top(""), "{\"added_tokens_decoder\":{\"x\":{\"content\":\"<x>\"}}}", FORE_ERR_FORMAT, "<x>");
    refuse(with_top(""), "{\"added_tokens_decoder\":{\"\":{\"content\":\"<x>\"}}}", FORE_ERR_FORMAT, "<x>");
    refuse(with_top(""), "{\"added_tokens_decoder\":{\"99999999999999999999999\":{\"content\":\"<x>\"}}}",
           FORE_ERR_FORMAT, "<x>");
    refuse(with_top(""), "{\"added_tokens_decoder\":{\"1\":{\"content\":\"<x>\"}}}", FORE_ERR_FORMAT,
           "tokenizer_config.json");

    char *longest;
    assert_true(asprintf(&longest, ",\"added_tokens\":[{\"content\":\"%01025d\",\"id\":9}]", 0) > 0);
    refuse(with_top(longest), NULL, FORE_ERR_LIMIT, "1025 bytes");
    free(longest);
}

/* Every prefix of a good file is refused, or is the file. */
static void every_truncation(void **state) {
    (void)state;
    char *file = with_top(",\"added_tokens\":[{\"content\":\"<x>\",\"id\":9}]");
    size_t size = strlen(file);
    for (size_t n = 0; n < size; n++) {
        char *part = malloc(n ? n : 1);
        memcpy(part, file, n);
        cJSON *tree;
        fore_error err;
        assert_int_equal(fore_json_parse(part, n, "tokenizer.json", &tree, &err), FORE_ERR_FORMAT);
        free(part);
    }
    free(file);
}

static void paths(void **state) {
    (void)state;
    fore_tokenizer *t = (fore_tokenizer *)1;
    fore_error err;
    assert_int_equal(fore_tokenizer_open("no/such/place", &t, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "no/such/place"));
    assert_null(t);
    assert_int_equal(fore_tokenizer_open("tests", &t, &err), FORE_ERR_IO); /* a folder without tokenizer.json */
    assert_non_null(strstr(err.text, "tokenizer.json"));

    /* A bad tokenizer_config.json next to a good tokenizer.json. */
    char dir[] = "/tmp/test_tokenizer_XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *a = fore_path_join(dir, "tokenizer.json"), *b = fore_path_join(dir, "tokenizer_config.json"),
         *text = with_top("");
    fore_writer w;
    assert_int_equal(fore_writer_open(a, &w, &err), FORE_OK);
    assert_int_equal(fore_writer_write(&w, text, strlen(text), &err), FORE_OK);
    assert_int_equal(fore_writer_commit(&w, &err), FORE_OK);
    assert_int_equal(fore_tokenizer_open(dir, &t, &err), FORE_OK);
    fore_tokenizer_close(t);
    assert_int_equal(fore_writer_open(b, &w, &err), FORE_OK);
    assert_int_equal(fore_writer_write(&w, "{\"added", 7, &err), FORE_OK);
    assert_int_equal(fore_writer_commit(&w, &err), FORE_OK);
    assert_int_equal(fore_tokenizer_open(dir, &t, &err), FORE_ERR_FORMAT);
    assert_non_null(strstr(err.text, "tokenizer_config.json"));
    assert_int_equal(fore_tokenizer_open(a, &t, &err), FORE_OK); /* the file alone does not look at its neighbour */
    fore_tokenizer_close(t);
    unlink(a);
    unlink(b);
    rmdir(dir);
    free(a);
    free(b);
    free(text);
    fore_tokenizer_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_opens), cmocka_unit_test(no_tokenizer),      cmocka_unit_test(bad_vocab),
        cmocka_unit_test(bad_merges), cmocka_unit_test(unsupported_model), cmocka_unit_test(pipeline),
        cmocka_unit_test(bad_added),  cmocka_unit_test(every_truncation),  cmocka_unit_test(paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
