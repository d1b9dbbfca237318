/* JSON texts with something else in one place; see mutate.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cjson/cJSON.h>

#include "support/mutate.h"

enum { MOST_PLACES = 4096, DEEP = 100000 };

/* What a place says instead; NULL: it is not there. */
static const char *const values[] = {"0", "-1", "2147483648", "9223372036854775808", "1e300", "\"x\"", "null", NULL,
                                     "1", "0.5", "16777216", "4096", "true", "[]", "{}", "1e999", "2147483647", "-2147483649"};
enum { VALUES = sizeof values / sizeof *values };

static const char *const patterns[] = {"(a+)+$", "((((((((((", "\\\\p{L}{1,65535}", "(?<=a+)b", "(?R)", "(?:", "", "a{65535}{65535}",
                                       "(?C1)x", "\\\\K", "(*NO_JIT)(a|aa)+$", "[[:foo:]]", "(.*)*(.*)*(.*)*x", "\\\\C", "x*"};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static cJSON *parse(const void *data, size_t size) {
    cJSON *tree = cJSON_ParseWithLength(data, size);
    assert_non_null(tree);
    return tree;
}

static void print(const cJSON *tree, bool formatted, mutant *out) {
    char *text = formatted ? cJSON_Print(tree) : cJSON_PrintUnformatted(tree);
    assert_non_null(text);
    mutant_copy(out, text, strlen(text), 0);
    free(text);
}

static const char *name_of(const cJSON *place) { return place->string ? place->string : "(an element)"; }

/* Puts text in the place of an item of `parent`; NULL takes the item out. */
static void put(cJSON *parent, cJSON *place, const char *text) {
    if (!text) {
        cJSON_Delete(cJSON_DetachItemViaPointer(parent, place));
        return;
    }
    cJSON *other = cJSON_CreateRaw(text);
    assert_non_null(other);
    if (place->string) {
        other->string = strdup(place->string);
        assert_non_null(other->string);
    }
    assert_true(cJSON_ReplaceItemViaPointer(parent, place, other));
}

static void list(cJSON *parent, cJSON **parents, cJSON **places, size_t *n) {
    for (cJSON *c = parent->child; c; c = c->next) {
        if (*n == MOST_PLACES) return;
        parents[*n] = parent;
        places[(*n)++] = c;
        list(c, parents, places, n);
    }
}

size_t mutate_json_steps(const void *data, size_t size) {
    static cJSON *parents[MOST_PLACES], *places[MOST_PLACES];
    size_t n = 0;
    cJSON *tree = parse(data, size);
    list(tree, parents, places, &n);
    cJSON_Delete(tree);
    return n * VALUES;
}

void mutate_json_value(size_t step, const void *data, size_t size, mutant *out) {
    static cJSON *parents[MOST_PLACES], *places[MOST_PLACES];
    size_t n = 0;
    cJSON *tree = parse(data, size);
    list(tree, parents, places, &n);
    assert_true(n > 0);
    size_t at = step % n;
    const char *value = values[(step / n + at) % VALUES];
    mutant_says(out, "%s: %s", name_of(places[at]), value ? value : "not there");
    put(parents[at], places[at], value);
    print(tree, false, out);
    cJSON_Delete(tree);
}

static char *filled(size_t n, const char *before, char c, const char *after) {
    size_t a = strlen(before), b = strlen(after);
    char *text = malloc(n + a + b + 1);
    assert_non_null(text);
    memcpy(text, before, a);
    memset(text + a, c, n);
    memcpy(text + a + n, after, b + 1);
    return text;
}

static void turn_members(cJSON *tree) { /* an object's members in the other order, all the way down */
    cJSON *kept[MOST_PLACES];
    int n = 0;
    for (cJSON *c = tree->child; c; c = c->next) turn_members(c);
    if (!cJSON_IsObject(tree) || cJSON_GetArraySize(tree) > MOST_PLACES) return;
    while (tree->child) kept[n++] = cJSON_DetachItemViaPointer(tree, tree->child);
    while (n > 0) assert_true(cJSON_AddItemToArray(tree, kept[--n]));
}

/* Texts that say the same. */
static bool respell(dice *d, cJSON *tree, mutant *out) {
    out->same = true;
    switch (dice_roll(d, 3)) {
    case 0:
        turn_members(tree);
        mutant_says(out, "members in the other order");
        print(tree, false, out);
        return true;
    case 1:
        if (!cJSON_IsObject(tree)) return false;
        assert_non_null(cJSON_AddRawToObject(tree, "nobody_knows_this", "{\"a\": [1, 2.5e-7, \"\\ud83d\\ude00\", null, {}]}"));
        mutant_says(out, "a member that nobody knows");
        print(tree, true, out);
        return true;
    default:
        print(tree, true, out);
        mutant_says(out, "other spaces");
        return true;
    }
}

static void change(dice *d, cJSON *parent, cJSON *place, mutant *out) {
    char *text = NULL;
    mutant_says(out, "%s: ", name_of(place));
    uint32_t kind = dice_roll(d, 16);
    if (cJSON_IsString(place) && (kind & 1 || (place->string && !strcmp(place->string, "Regex")))) {
        const char *pattern = patterns[dice_roll(d, PATTERNS)];
        char quoted[128];
        snprintf(quoted, sizeof quoted, "\"%s\"", pattern);
        mutant_says(out, "%s", quoted);
        put(parent, place, quoted);
        return;
    }
    switch (kind) {
    case 0:
        text = filled(DEEP, "", '[', "");
        mutant_says(out, "%d brackets, not closed", DEEP);
        break;
    case 1:
        text = filled(300000, "\"", 'a', "\"");
        mutant_says(out, "a string of 300000");
        break;
    case 2: { /* once more, in an object under the same name */
        cJSON *again = cJSON_Duplicate(place, true);
        assert_non_null(again);
        if (place->string) assert_true(cJSON_AddItemToObject(parent, place->string, again));
        else assert_true(cJSON_AddItemToArray(parent, again));
        mutant_says(out, "twice");
        return;
    }
    case 3: { /* another's value */
        cJSON *other = cJSON_GetArrayItem(parent, (int)dice_roll(d, (size_t)cJSON_GetArraySize(parent)));
        if (other == place) break;
        mutant_says(out, "the value of %s", name_of(other));
        text = cJSON_PrintUnformatted(other);
        break;
    }
    case 4:
        if (!place->string) break;
        free(place->string);
        place->string = strdup(dice_roll(d, 2) ? "" : "x");
        mutant_says(out, "named \"%s\"", place->string);
        return;
    case 5:
        if (!cJSON_IsArray(place) || !place->child) break;
        mutant_says(out, "20000 elements more");
        for (int i = 0; i < 20000; i++) {
            cJSON *again = cJSON_Duplicate(place->child, true);
            assert_true(again && cJSON_AddItemToArray(place, again));
        }
        return;
    case 6:
        text = filled(0, "\"\\ud800 \\u0000 \xff\xfe", 'a', "\"");
        mutant_says(out, "a string that is none");
        break;
    default: break;
    }
    if (text) {
        put(parent, place, text);
        free(text);
        return;
    }
    const char *value = values[dice_roll(d, VALUES)];
    mutant_says(out, "%s", value ? value : "not there");
    put(parent, place, value);
}

void mutate_json(dice *d, const void *data, size_t size, mutant *out) {
    uint32_t kind = dice_roll(d, 10);
    if (kind == 0) {
        mutate_bytes(d, data, size, out);
        return;
    }
    cJSON *tree = parse(data, size), *parent = NULL, *place = tree;
    if (kind == 1 && respell(d, tree, out)) {
        cJSON_Delete(tree);
        return;
    }
    out->same = false;
    out->what[0] = 0;
    while (place->child && (place == tree || dice_roll(d, 6))) {
        parent = place;
        place = cJSON_GetArrayItem(parent, (int)dice_roll(d, (size_t)cJSON_GetArraySize(parent)));
        if (place->child && dice_roll(d, 6)) mutant_says(out, "%s.", name_of(place));
    }
    assert_non_null(parent);
    change(d, parent, place, out);
    print(tree, false, out);
    cJSON_Delete(tree);
}
