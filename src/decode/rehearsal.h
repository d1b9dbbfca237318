/* A rehearsal: an answer that is known, kept with what the trunk made of it, so that a draft head can be tried along it again and
 * again, fed in whatever way, without the trunk. What is tried is the session's own drafter: where a round would begin, it makes
 * the drafts that a round would. */
#ifndef FORE_DECODE_REHEARSAL_H
#define FORE_DECODE_REHEARSAL_H

#include "decode/session.h"

typedef struct fore_rehearsal {
    int prompt, answer; /* tokens; 0 and 0: empty */
    int32_t *ids;       /* [prompt + answer] expanded, with the end token where there was one; owned */
    float *post, *pre;  /* [prompt + answer - 1, C] the trunk's hiddens after and before its final norm; pre NULL: not kept; owned */
    fore_splice splice; /* of the prompt; owned */
    bool pictures;      /* it has pictures or videos */
    bool ignore_eos;    /* the answer went on past end tokens */
} fore_rehearsal;

/* Lets the session answer without drafts and keeps that: hiddens before the final norm if the model's contract wants them. The
 * request's sampling must be greedy and without penalties. free in any case. */
fore_status fore_rehearsal_take(fore_session *session, const fore_request *request, fore_rehearsal *out, fore_error *err);
void fore_rehearsal_free(fore_rehearsal *rehearsal);

/* Places where `depth` drafts can be judged: after 1, 2, ... tokens of the answer. */
int fore_rehearsal_places(const fore_rehearsal *rehearsal, int depth);
/* right[i]: how many of the drafts at place i are right with all before them, 0 .. depth. The session may be of another opening of
 * the same model; it is empty afterwards. FORE_ERR_UNSUPPORTED: no draft head. FORE_ERR_LIMIT: the context is too short.
 * FORE_ERR_INVALID: the contract wants hiddens that were not kept. */
fore_status fore_rehearsal_try(fore_session *session, const fore_rehearsal *rehearsal, int depth, uint8_t *right, fore_error *err);

#endif
