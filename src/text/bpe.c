/* Byte-pair merging; see bpe.h. */
#include "text/bpe.h"

#include <stdbool.h>
#include <stdlib.h>

struct fore_bpe_symbol {
    int32_t id;             /* -1: merged into its left neighbour */
    int32_t previous, next; /* -1: none */
};

struct fore_bpe_candidate {
    uint32_t rank;
    int32_t position; /* of the left symbol */
    int32_t id;       /* what the pair would become; tells a stale candidate */
};

typedef struct fore_bpe_symbol symbol;
typedef struct fore_bpe_candidate candidate;

fore_status fore_merges_init(fore_merges *merges, size_t count) {
    size_t slots = 16;
    while (slots < count * 2) slots *= 2;
    merges->slots = malloc(slots * sizeof *merges->slots);
    if (!merges->slots) return FORE_ERR_NOMEM;
    for (size_t i = 0; i < slots; i++) merges->slots[i].left = -1;
    merges->slot_count = slots;
    return FORE_OK;
}

void fore_merges_free(fore_merges *merges) {
    free(merges->slots);
    *merges = (fore_merges){0};
}

static size_t probe(const fore_merges *merges, int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    size_t mask = merges->slot_count - 1, i = (size_t)(h ^ h >> 32) & mask;
    while (merges->slots[i].left >= 0 && (merges->slots[i].left != left || merges->slots[i].right != right))
        i = (i + 1) & mask;
    return i;
}

void fore_merges_put(fore_merges *merges, int32_t left, int32_t right, int32_t id, uint32_t rank) {
    merges->slots[probe(merges, left, right)] = (fore_merge){left, right, id, rank};
}

const fore_merge *fore_merges_get(const fore_merges *merges, int32_t left, int32_t right) {
    const fore_merge *m = &merges->slots[probe(merges, left, right)];
    return m->left >= 0 ? m : NULL;
}

void fore_bpe_scratch_free(fore_bpe_scratch *scratch) {
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (fore_bpe_scratch){0};
}

static bool before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->position < b->position;
}

static fore_status heap_push(fore_bpe_scratch *s, candidate c) {
    if (s->heap_count == s->heap_capacity) {
        size_t capacity = s->heap_capacity ? s->heap_capacity * 2 : 64;
        candidate *heap = realloc(s->heap, capacity * sizeof *heap);
        if (!heap) return FORE_ERR_NOMEM;
        s->heap = heap;
        s->heap_capacity = capacity;
    }
    size_t i = s->heap_count++;
    while (i > 0 && before(&c, &s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = c;
    return FORE_OK;
}

static candidate heap_pop(fore_bpe_scratch *s) {
    candidate top = s->heap[0], last = s->heap[--s->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->heap_count) break;
        if (child + 1 < s->heap_count && before(&s->heap[child + 1], &s->heap[child])) child++;
        if (!before(&s->heap[child], &last)) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* Queues the pair that begins at `position`, if it merges. */
static fore_status consider(const fore_merges *merges, fore_bpe_scratch *s, int32_t position) {
    const symbol *left = &s->symbols[position];
    if (left->next < 0) return FORE_OK;
    const fore_merge *m = fore_merges_get(merges, left->id, s->symbols[left->next].id);
    return m ? heap_push(s, (candidate){m->rank, position, m->id}) : FORE_OK;
}

fore_status fore_bpe_merge(const fore_merges *merges, fore_bpe_scratch *scratch, int32_t *ids, size_t *count) {
    size_t n = *count;
    if (n < 2) return FORE_OK;
    if (n > scratch->symbol_capacity) {
        size_t capacity = scratch->symbol_capacity * 2 > n ? scratch->symbol_capacity * 2 : n;
        symbol *fresh = realloc(scratch->symbols, capacity * sizeof *fresh);
        if (!fresh) return FORE_ERR_NOMEM;
        scratch->symbols = fresh;
        scratch->symbol_capacity = capacity;
    }
    symbol *symbols = scratch->symbols;
    for (size_t i = 0; i < n; i++) symbols[i] = (symbol){ids[i], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
    scratch->heap_count = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        fore_status s = consider(merges, scratch, (int32_t)i);
        if (s) return s;
    }
    while (scratch->heap_count) {
        candidate c = heap_pop(scratch);
        scratch->steps++;
        symbol *left = &symbols[c.position];
        if (left->id < 0 || left->next < 0) continue;
        symbol *right = &symbols[left->next];
        const fore_merge *m = fore_merges_get(merges, left->id, right->id);
        if (!m || m->id != c.id) continue; /* one of the two has merged with another since */
        left->id = c.id;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0) symbols[left->next].previous = c.position;
        fore_status s = left->previous >= 0 ? consider(merges, scratch, left->previous) : FORE_OK;
        if (!s) s = consider(merges, scratch, c.position);
        if (s) return s;
    }
    size_t kept = 0;
    for (int32_t i = 0; i >= 0; i = symbols[i].next) ids[kept++] = symbols[i].id;
    *count = kept;
    return FORE_OK;
}
