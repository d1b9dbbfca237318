/* The drafts of one round: which ones it gets (from the head, from a recorded answer in its place, from the context), and what is
 * learnt from what became of them. Nothing here can change an answer. */
#ifndef FORE_DECODE_DRAFTS_H
#define FORE_DECODE_DRAFTS_H

#include "decode/lookup.h"
#include "decode/pace.h"

struct fore_session;

enum { FORE_LOOKUP_FIXED = 3 }; /* tokens that must match at a fixed depth, where no pace weighs a look-up */

typedef struct fore_drafts {
    int count; /* to be checked, 0 .. FORE_DRAFT_MAX: the head's first, then look-ups */
    int32_t id[FORE_DRAFT_MAX];
    int match[FORE_DRAFT_MAX]; /* tokens that match before a look-up; 0: not one */
    int heads;                 /* the first so many are the head's */
    int made;                  /* by the head; one more than heads: `dropped` was made and is not checked */
    int32_t dropped;
    double sure[FORE_DRAFT_MAX]; /* [made] the head's probability; negative: unknown */
    /* What the context offers at the round's beginning, whether it is used or not. */
    int offered, offer_match;
    int32_t offer[FORE_DRAFT_MAX];
} fore_drafts;

/* Drafts for the places after the pending token. `rounds` before it are in the statistics. */
void fore_drafts_make(struct fore_session *s, fore_drafts *out);
/* What the round said, said[0..count), of which the first `agreed` are drafts; `ended`: the answer is over. Statistics and pace. */
void fore_drafts_learn(struct fore_session *s, const fore_drafts *d, const int32_t *said, int count, int agreed, bool ended,
                       double verify_seconds, double draft_seconds);

#endif
