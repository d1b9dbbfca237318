/* Look-up drafts against a search without an index: the same match and the same drafts in any text, whatever was pushed and taken
 * back before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "decode/lookup.h"

enum { MOST = 8, PAD = 90, FILM = 91, TEXT = 600 };
static const int32_t PADS[2] = {PAD, FILM};

static bool pad(int32_t id) { return id == PAD || id == FILM; }

/* The same by looking everywhere. */
static int search(const int32_t *ids, int n, int most, int32_t *out, int *match) {
    int place = -1;
    *match = 0;
    for (int at = n - 2; at >= 1; at--) { /* a match ends at `at` */
        int k = 0;
        while (k < FORE_LOOKUP_MOST && k <= at && ids[at - k] == ids[n - 1 - k] && !pad(ids[at - k])) k++;
        if (k < FORE_LOOKUP_LEAST || k <= *match) continue;
        *match = k;
        place = at;
    }
    if (place < 0) return 0;
    for (int i = 0; i < most; i++) {
        int from = place + 1 + i;
        out[i] = from < n ? ids[from] : out[from - n];
        if (pad(out[i])) return i;
    }
    return most;
}

static fore_lookup open_index(int capacity) {
    fore_lookup l = {0};
    fore_error err;
    if (fore_lookup_reserve(&l, capacity, PADS, &err)) fail_msg("%s", err.text);
    return l;
}

static void check(fore_lookup *l, const int32_t *ids, int n, int more) {
    int32_t want[MOST], got[MOST];
    int want_match, match, most = 1 + n % MOST, count = search(ids, n, most, want, &want_match);
    int found = fore_lookup_find(l, ids + n - more, more, most, got, &match);
    if (found != count || match != want_match) fail_msg("%d tokens: %d drafts by %d, expected %d by %d", n, found, match, count, want_match);
    assert_memory_equal(got, want, (size_t)count * sizeof *want);
    assert_int_equal(l->length, n - more);
}

/* Few different tokens, so that there are many matches; fewer places with one pair than are looked at. */
static void test_random(void **state) {
    (void)state;
    for (uint32_t kinds = 8; kinds <= 40; kinds += 8) {
        int32_t ids[TEXT];
        fore_lookup l = open_index(TEXT);
        for (int i = 0; i < TEXT; i++) {
            uint32_t bits = fore_random_bits(kinds, (uint64_t)i, 0, 3);
            ids[i] = bits % 31 == 0 ? PAD + (int32_t)(bits / 31 % 2) : (int32_t)(bits / 64 % kinds);
            if (i > 40 && bits % 7 == 0) { /* spans that were there before */
                int from = (int)(bits / 8 % (uint32_t)(i - 20));
                for (int k = 0; k < 12 && i < TEXT; k++) ids[i++] = ids[from + k];
                i--;
            }
        }
        for (int n = 1; n <= TEXT; n++) {
            fore_lookup_push(&l, ids[n - 1]);
            check(&l, ids, n, 0);
            if (n % 5 == 0 && n > 9) { /* the last ones as drafts */
                fore_lookup_set(&l, ids, n - 6);
                check(&l, ids, n, 6);
                fore_lookup_set(&l, ids, n);
            }
        }
        int32_t other[TEXT]; /* another text with a common beginning, and back */
        memcpy(other, ids, sizeof other);
        for (int i = 100; i < TEXT; i++) other[i] = ids[TEXT - 1 - i];
        fore_lookup_set(&l, other, 500);
        check(&l, other, 500, 0);
        fore_lookup_set(&l, ids, 450);
        check(&l, ids, 450, 0);
        fore_lookup_set(&l, ids, 0);
        assert_int_equal(l.length, 0);
        for (uint32_t i = 0; i <= l.mask; i++) assert_int_equal(l.last[i], 0);
        fore_lookup_free(&l);
    }
}

static void test_rules(void **state) {
    (void)state;
    fore_lookup l = open_index(64);
    int32_t out[MOST];
    int match;
    assert_int_equal(fore_lookup_find(&l, NULL, 0, 8, out, &match), 0); /* nothing there */
    const int32_t twice[] = {1, 2, 3, 4, 1, 2, 3, 5, 9, 2, 3, 6, 1, 2, 3};
    fore_lookup_set(&l, twice, 15);
    assert_int_equal(fore_lookup_find(&l, NULL, 0, 1, out, &match), 1);
    assert_int_equal(match, 3); /* longer wins over later; of the two with three tokens the later one */
    assert_int_equal(out[0], 5);
    const int32_t circle[] = {7, 8, 9, 7, 8, 9, 7, 8};
    fore_lookup_set(&l, circle, 8);
    assert_int_equal(fore_lookup_find(&l, NULL, 0, 8, out, &match), 8);
    const int32_t on[] = {9, 7, 8, 9, 7, 8, 9, 7};
    assert_memory_equal(out, on, sizeof on);
    const int32_t picture[] = {5, 6, PAD, PAD, PAD, 5, 6};
    fore_lookup_set(&l, picture, 7);
    assert_int_equal(fore_lookup_find(&l, NULL, 0, 8, out, &match), 0); /* a pad is no draft */
    assert_int_equal(match, 2);
    fore_lookup_set(&l, picture, 5);
    assert_int_equal(fore_lookup_find(&l, NULL, 0, 8, out, &match), 0); /* and no match */
    assert_int_equal(match, 0);
    fore_lookup_free(&l);
}

static void test_full(void **state) {
    (void)state;
    fore_lookup l = open_index(10);
    const int32_t ids[] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1};
    fore_lookup_set(&l, ids, 9);
    int32_t out[MOST];
    int match;
    assert_int_equal(fore_lookup_find(&l, ids, 1, 4, out, &match), 4);
    assert_int_equal(fore_lookup_find(&l, ids, 2, 4, out, &match), 0); /* no room for what comes after */
    fore_lookup_push(&l, 1);
    fore_lookup_push(&l, 2);
    assert_int_equal(l.length, 10);
    fore_lookup_free(&l);
    assert_int_equal(fore_lookup_plan(10), (10 * 2 + 256) * 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_rules), cmocka_unit_test(test_full)};
    return cmocka_run_group_tests_name("lookup", tests, NULL, NULL);
}
