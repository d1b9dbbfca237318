/* Look-up drafts: what followed the last tokens the last time that they stood in the context. An index of pairs of neighbours
 * over prompt and answer, kept token by token; knows ids, no text and no model. Image pads are in no pair and in no draft: two
 * pictures have the same pads. */
#ifndef FORE_DECODE_LOOKUP_H
#define FORE_DECODE_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    FORE_LOOKUP_LEAST = 2, /* tokens that must match */
    FORE_LOOKUP_MOST = 32, /* matches are not followed further back */
    FORE_LOOKUP_TRIES = 64 /* earlier places looked at, the latest first */
};

typedef struct fore_lookup {
    int capacity, length;
    int32_t *ids;    /* [capacity] */
    int32_t *before; /* [capacity] 1 + the place of the pair before with the same hash; 0: none */
    int32_t *last;   /* [mask + 1] 1 + the place of the latest pair by hash; a pair's place is that of its second token */
    uint32_t mask;
    int32_t pads[2]; /* ids that never match; -1: none */
    void *memory;    /* owned */
    size_t bytes;
} fore_lookup;

/* Bytes for a capacity. */
size_t fore_lookup_plan(int capacity);
/* Memory for `capacity` tokens; what is there with as many stays, with what it holds. */
fore_status fore_lookup_reserve(fore_lookup *l, int capacity, const int32_t pads[2], fore_error *err);
void fore_lookup_free(fore_lookup *l);
/* Makes it hold ids[0..n), n <= capacity; what it holds already in common is not indexed again. */
void fore_lookup_set(fore_lookup *l, const int32_t *ids, int n);
/* One more token; nothing happens when it is full. */
void fore_lookup_push(fore_lookup *l, int32_t id);
/* What may follow the context and, after it, more[0..count): the longest match of its end (the latest one of equals), at least
 * FORE_LOOKUP_LEAST. Puts up to `most` tokens into out, which go on in a circle when the match reaches into itself. Returns how
 * many, 0 without a match; *match: tokens that match. */
int fore_lookup_find(fore_lookup *l, const int32_t *more, int count, int most, int32_t *out, int *match);

#endif
