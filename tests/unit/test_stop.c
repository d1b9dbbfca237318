/* Stop strings against a search that tries everything: any strings, any split of the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/utf8.h"
#include "decode/stop.h"

static uint32_t counter;
static uint32_t below(uint32_t n) {
    return fore_random_bits(11, 0, counter++, 0) % n;
}

/* The stop string that completes first in text: earliest end, then earliest start, then lowest index; or -1. */
static int search(const char *text, size_t size, const char *const *strings, size_t count, size_t *start) {
    for (size_t end = 1; end <= size; end++) {
        int best = -1;
        for (size_t i = 0; i < count; i++) {
            size_t n = strlen(strings[i]);
            if (n > end || memcmp(text + end - n, strings[i], n) != 0) continue;
            if (best < 0 || n > strlen(strings[best])) best = (int)i;
        }
        if (best >= 0) {
            *start = end - strlen(strings[best]);
            return best;
        }
    }
    return -1;
}

/* Bytes at the end of text that begin some stop string. */
static size_t pending(const char *text, size_t size, const char *const *strings, size_t count) {
    for (size_t n = size; n > 0; n--)
        for (size_t i = 0; i < count; i++)
            if (n <= strlen(strings[i]) && memcmp(text + size - n, strings[i], n) == 0) return n;
    return 0;
}

/* Pushes text in pieces (of whole characters when `whole`), comparing with the search after each; returns the match. */
static int run_case(const char *text, size_t size, const char *const *strings, size_t count, uint32_t piece,
                    bool whole) {
    fore_stop *stop;
    fore_error err;
    assert_int_equal(fore_stop_new(strings, count, &stop, &err), FORE_OK);
    fore_buf out = {0};
    size_t start = 0, at = 0;
    int expected = search(text, size, strings, count, &start), matched = -1;
    while (at < size && matched < 0) {
        size_t n = 1 + below(piece);
        if (n > size - at) n = size - at;
        while (whole && at + n < size && (text[at + n] & 0xC0) == 0x80) n++;
        char *copy = malloc(n); /* exactly the bytes: a read past them is seen by the sanitizer */
        assert_non_null(copy);
        memcpy(copy, text + at, n);
        assert_int_equal(fore_stop_push(stop, copy, n, &out, &matched), FORE_OK);
        free(copy);
        at += n;
        if (matched < 0) {
            assert_int_equal(out.size, at - pending(text, at, strings, count));
            if (whole) assert_int_equal(fore_utf8_valid_prefix(out.data ? out.data : "", out.size), out.size);
        }
    }
    assert_int_equal(matched, expected);
    size_t held = matched < 0 ? pending(text, size, strings, count) : 0;
    size_t before = out.size;
    assert_int_equal(fore_stop_flush(stop, &out), FORE_OK);
    assert_int_equal(out.size - before, held);
    size_t want = matched < 0 ? size : start;
    assert_int_equal(out.size, want);
    if (want) assert_memory_equal(out.data, text, want);
    fore_buf_free(&out);
    fore_stop_free(stop);
    return matched;
}

static void every_split_of_random_texts(void **state) {
    (void)state;
    int matches = 0, misses = 0;
    for (int i = 0; i < 4000; i++) {
        uint32_t letters = 1 + below(3), count = below(5), longest = 1 + below(7);
        char text[64], strings[4][8];
        const char *list[4];
        size_t size = below(60);
        for (size_t j = 0; j < size; j++) text[j] = (char)('a' + below(letters));
        for (uint32_t s = 0; s < count; s++) {
            uint32_t n = 1 + below(longest);
            for (uint32_t j = 0; j < n; j++) strings[s][j] = (char)('a' + below(letters));
            strings[s][n] = 0;
            list[s] = strings[s];
        }
        if (run_case(text, size, list, count, 1 + below(9), false) < 0)
            misses++;
        else
            matches++;
    }
    assert_true(matches > 500 && misses > 500); /* both kinds were really tried */
}

/* Letters of one to four bytes that share lead and continuation bytes; pieces are whole characters, so is the output.
 */
static void characters_stay_whole(void **state) {
    (void)state;
    static const char *letters[] = {
        "a", "\xC3\xA9", "\xC3\xA8", "\xE2\x82\xAC", "\xE2\x82\xA9", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\xA9"};
    int matches = 0;
    for (int i = 0; i < 3000; i++) {
        char text[200] = "", strings[3][40] = {"", "", ""};
        const char *list[3];
        uint32_t size = below(30), count = 1 + below(3), kinds = 2 + below(6);
        for (uint32_t j = 0; j < size; j++) strcat(text, letters[below(kinds)]);
        for (uint32_t s = 0; s < count; s++) {
            for (uint32_t n = 1 + below(4); n > 0; n--) strcat(strings[s], letters[below(kinds)]);
            list[s] = strings[s];
        }
        if (run_case(text, strlen(text), list, count, 1 + below(6), true) >= 0) matches++;
        run_case(text, strlen(text), list, count, 3, false);
    }
    assert_true(matches > 300);
}

static void first_end_then_first_start(void **state) {
    (void)state;
    const char *nested[] = {"abcd", "bc"};
    assert_int_equal(run_case("xabcd", 5, nested, 2, 1, false), 1); /* "bc" completes before "abcd" */
    const char *same_end[] = {"c", "abc", "bc", "abc"};
    assert_int_equal(run_case("xabc", 4, same_end, 4, 4, false), 1); /* all end together: the longest, given first */
    const char *line[] = {"\n\n"};
    assert_int_equal(run_case("a\nb\n", 4, line, 1, 2, false), -1);
}

static void no_strings_hold_nothing(void **state) {
    (void)state;
    assert_int_equal(run_case("anything", 8, NULL, 0, 3, false), -1);
    fore_stop *stop;
    assert_int_equal(fore_stop_new(NULL, 0, &stop, NULL), FORE_OK);
    fore_buf out = {0};
    int matched = 5;
    assert_int_equal(fore_stop_push(stop, NULL, 0, &out, &matched), FORE_OK);
    assert_int_equal(matched, -1);
    fore_buf_free(&out);
    fore_stop_free(stop);
    fore_stop_free(NULL);
}

static void a_match_ends_the_text(void **state) {
    (void)state;
    const char *list[] = {"END"};
    fore_stop *stop;
    fore_buf out = {0};
    int matched;
    assert_int_equal(fore_stop_new(list, 1, &stop, NULL), FORE_OK);
    assert_int_equal(fore_stop_push(stop, "oneEN", 5, &out, &matched), FORE_OK);
    assert_string_equal(out.data, "one");
    assert_int_equal(fore_stop_push(stop, "Dtwo", 4, &out, &matched), FORE_OK);
    assert_int_equal(matched, 0);
    assert_int_equal(fore_stop_push(stop, "D.", 2, &out, &matched), FORE_OK); /* a new text: the old "EN" is gone */
    assert_int_equal(matched, -1);
    assert_int_equal(fore_stop_flush(stop, &out), FORE_OK);
    assert_string_equal(out.data, "oneD.");
    fore_buf_free(&out);
    fore_stop_free(stop);
}

static void a_full_buffer_changes_nothing(void **state) {
    (void)state;
    const char *list[] = {"aab"};
    fore_stop *stop;
    fore_buf out = {.limit = 3};
    int matched;
    assert_int_equal(fore_stop_new(list, 1, &stop, NULL), FORE_OK);
    assert_int_equal(fore_stop_push(stop, "xaa", 3, &out, &matched), FORE_OK);
    assert_int_equal(fore_stop_push(stop, "aaaaxyz", 7, &out, &matched), FORE_ERR_LIMIT);
    assert_string_equal(out.data, "x");
    assert_int_equal(fore_stop_push(stop, "ab", 2, &out, &matched), FORE_OK); /* still "aa" held: "aaab" */
    assert_int_equal(matched, 0);
    assert_string_equal(out.data, "xa");
    assert_int_equal(fore_stop_push(stop, "aa", 2, &out, &matched), FORE_OK);
    assert_int_equal(fore_stop_flush(stop, &out), FORE_ERR_LIMIT);
    out.limit = 4;
    assert_int_equal(fore_stop_flush(stop, &out), FORE_OK);
    assert_string_equal(out.data, "xaaa");
    fore_buf_free(&out);
    fore_stop_free(stop);
}

static void bad_strings_are_refused(void **state) {
    (void)state;
    fore_stop *stop;
    fore_error err;
    const char *empty[] = {"ok", ""};
    assert_int_equal(fore_stop_new(empty, 2, &stop, &err), FORE_ERR_INVALID);
    assert_null(stop);
    assert_string_equal(err.text, "stop string 2: expected at least one byte, found none");
    const char *null[] = {NULL};
    assert_int_equal(fore_stop_new(null, 1, &stop, &err), FORE_ERR_INVALID);
    const char *half[] = {"a\xC3"};
    assert_int_equal(fore_stop_new(half, 1, &stop, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "invalid byte at 1"));
    char *large = malloc(FORE_STOP_BYTES + 1);
    assert_non_null(large);
    memset(large, 'x', FORE_STOP_BYTES);
    large[FORE_STOP_BYTES] = 0;
    const char *most[] = {large, "y"};
    assert_int_equal(fore_stop_new(most, 2, &stop, &err), FORE_ERR_LIMIT);
    assert_int_equal(fore_stop_new(most, 1, &stop, &err), FORE_OK);
    fore_stop_free(stop);
    free(large);
}

/* Strings that make a search which starts again at every byte quadratic: 16 kB of one letter, 4 MB of text. */
static void linear_time(void **state) {
    (void)state;
    char *string = malloc(FORE_STOP_BYTES + 1), *text = malloc(1 << 16);
    assert_true(string && text);
    memset(string, 'a', FORE_STOP_BYTES);
    string[FORE_STOP_BYTES - 1] = 'b';
    string[FORE_STOP_BYTES] = 0;
    memset(text, 'a', 1 << 16);
    const char *list[] = {string};
    fore_stop *stop;
    assert_int_equal(fore_stop_new(list, 1, &stop, NULL), FORE_OK);
    fore_buf out = {0};
    int matched;
    for (int i = 0; i < 64; i++) assert_int_equal(fore_stop_push(stop, text, 1 << 16, &out, &matched), FORE_OK);
    assert_int_equal(out.size, (64u << 16) - (FORE_STOP_BYTES - 1));
    assert_int_equal(fore_stop_push(stop, "b", 1, &out, &matched), FORE_OK);
    assert_int_equal(matched, 0);
    assert_int_equal(out.size, (64u << 16) - (FORE_STOP_BYTES - 1));
    fore_buf_free(&out);
    fore_stop_free(stop);
    free(string);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_of_random_texts), cmocka_unit_test(characters_stay_whole),
        cmocka_unit_test(first_end_then_first_start),  cmocka_unit_test(no_strings_hold_nothing),
        cmocka_unit_test(a_match_ends_the_text),       cmocka_unit_test(a_full_buffer_changes_nothing),
        cmocka_unit_test(bad_strings_are_refused),     cmocka_unit_test(linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
