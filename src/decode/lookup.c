/* Look-up drafts; see lookup.h. Chains of places by hash, the latest place first; the newest token is always the head of its
 * chain, so that tokens can be taken back in turn. */
#include "decode/lookup.h"

#include <stdlib.h>
#include <string.h>

static uint32_t slots_of(int capacity) {
    uint32_t slots = 256;
    while (slots < (uint32_t)capacity) slots *= 2;
    return slots;
}

size_t fore_lookup_plan(int capacity) { return ((size_t)capacity * 2 + slots_of(capacity)) * sizeof(int32_t); }

fore_status fore_lookup_reserve(fore_lookup *l, int capacity, const int32_t pads[2], fore_error *err) {
    if (l->capacity >= capacity && memcmp(l->pads, pads, sizeof l->pads) == 0) return FORE_OK;
    fore_lookup n = {.capacity = capacity, .mask = slots_of(capacity) - 1, .pads = {pads[0], pads[1]}, .bytes = fore_lookup_plan(capacity)};
    n.memory = calloc(1, n.bytes);
    if (!n.memory) return fore_fail_nomem(err, "the index of the context");
    n.ids = n.memory;
    n.before = n.ids + capacity;
    n.last = n.before + capacity;
    fore_lookup_free(l);
    *l = n;
    return FORE_OK;
}

void fore_lookup_free(fore_lookup *l) {
    free(l->memory);
    *l = (fore_lookup){0};
}

static bool is_pad(const fore_lookup *l, int32_t id) { return id >= 0 && (id == l->pads[0] || id == l->pads[1]); }

static uint32_t slot_of(const fore_lookup *l, int32_t a, int32_t b) {
    uint32_t h = (uint32_t)a * 0x9e3779b1u ^ (uint32_t)b * 0x85ebca77u;
    return (h ^ h >> 15) * 0x2c1b3c6du >> 7 & l->mask;
}

/* Whether the tokens at `at` - 1 and `at` are a pair of the index. */
static bool is_pair(const fore_lookup *l, int at) { return at > 0 && !is_pad(l, l->ids[at - 1]) && !is_pad(l, l->ids[at]); }

void fore_lookup_push(fore_lookup *l, int32_t id) {
    if (l->length >= l->capacity) return;
    int at = l->length++;
    l->ids[at] = id;
    if (!is_pair(l, at)) return;
    int32_t *last = &l->last[slot_of(l, l->ids[at - 1], id)];
    l->before[at] = *last;
    *last = at + 1;
}

static void cut(fore_lookup *l, int length) {
    while (l->length > length) {
        int at = --l->length;
        if (is_pair(l, at)) l->last[slot_of(l, l->ids[at - 1], l->ids[at])] = l->before[at];
    }
}

void fore_lookup_set(fore_lookup *l, const int32_t *ids, int n) {
    int common = 0;
    while (common < n && common < l->length && l->ids[common] == ids[common]) common++;
    cut(l, common);
    for (int i = common; i < n; i++) fore_lookup_push(l, ids[i]);
}

/* Tokens before and at `at` that equal those before and at the end. */
static int match_at(const fore_lookup *l, int at) {
    int n = 0, end = l->length - 1;
    while (n < FORE_LOOKUP_MOST && n <= at && l->ids[at - n] == l->ids[end - n] && !is_pad(l, l->ids[at - n])) n++;
    return n;
}

/* The place where the longest match ends, or -1. */
static int find_place(const fore_lookup *l, int *match) {
    int end = l->length - 1, place = -1, tries = FORE_LOOKUP_TRIES;
    *match = 0;
    if (!is_pair(l, end)) return -1;
    for (int at = l->before[end] - 1; at >= 0 && tries > 0; at = l->before[at] - 1, tries--) {
        int n = match_at(l, at);
        if (n < FORE_LOOKUP_LEAST || n <= *match) continue; /* another pair with this hash, or no longer than a later one */
        *match = n;
        place = at;
        if (n == FORE_LOOKUP_MOST) break;
    }
    return place;
}

int fore_lookup_find(fore_lookup *l, const int32_t *more, int count, int most, int32_t *out, int *match) {
    int length = l->length, n = 0;
    *match = 0;
    if (count > l->capacity - length) return 0;
    for (int i = 0; i < count; i++) fore_lookup_push(l, more[i]);
    int place = l->length ? find_place(l, match) : -1;
    for (; place >= 0 && n < most; n++) {
        int from = place + 1 + n;
        int32_t id = from < l->length ? l->ids[from] : out[from - l->length];
        if (is_pad(l, id)) break;
        out[n] = id;
    }
    cut(l, length);
    return n;
}
