/* Byte-pair merging: which pairs merge into what, and merging one word. Knows ids only, no text.
 * Mirrors the reference's models/bpe (word.rs merge_all): a queue of candidates, the lowest rank first, the leftmost of
 * equal ranks, so that a word of n symbols takes O(n log n). */
#ifndef FORE_TEXT_BPE_H
#define FORE_TEXT_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct fore_merge {
    int32_t left, right, id; /* left < 0: a free slot */
    uint32_t rank;
} fore_merge;

typedef struct fore_merges {
    fore_merge *slots; /* owned, a power of two of them, at most half full */
    size_t slot_count;
} fore_merges;

/* Makes room for count merges. */
fore_status fore_merges_init(fore_merges *merges, size_t count);
void fore_merges_free(fore_merges *merges);
/* Adds left + right = id; a pair that was there gets the new rank and id, as in the reference. */
void fore_merges_put(fore_merges *merges, int32_t left, int32_t right, int32_t id, uint32_t rank);
/* NULL: the two do not merge. */
const fore_merge *fore_merges_get(const fore_merges *merges, int32_t left, int32_t right);

/* Memory of one caller, kept from word to word; zero it to begin. */
typedef struct fore_bpe_scratch {
    struct fore_bpe_symbol *symbols; /* owned */
    struct fore_bpe_candidate *heap; /* owned */
    size_t symbol_capacity, heap_capacity, heap_count;
    uint64_t steps; /* candidates taken so far: a measure of work that does not depend on the machine */
} fore_bpe_scratch;

void fore_bpe_scratch_free(fore_bpe_scratch *scratch);
/* Merges ids[0..*count) in place; *count becomes the number left. count must be below 2^31. FORE_ERR_NOMEM. */
fore_status fore_bpe_merge(const fore_merges *merges, fore_bpe_scratch *scratch, int32_t *ids, size_t *count);

#endif
