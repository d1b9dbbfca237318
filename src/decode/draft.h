/* The session's draft head: its history (the rows of everything that the trunk has seen), and proposing tokens.
 *
 * Row j of the history is (trunk hidden of token j, embedding of token j+1) at token j's rope position. Rows whose next token is
 * not known yet wait in `carry`. Rows of drafts beyond the first are made from the head's own output: they are provisional and
 * go when the next drafts are made. Between rounds, while history is kept: base + true_rows + carried == trunk length. */
#ifndef FORE_DECODE_DRAFT_H
#define FORE_DECODE_DRAFT_H

#include "decode/draft_vocabulary.h"
#include "decode/model.h"
#include "multimodal/splice.h"

enum { FORE_DRAFT_CARRY = 16 };

typedef struct fore_drafter {
    bool ready;           /* its memory is there */
    bool keeping;         /* the history follows the trunk */
    fore_state head;
    fore_mtp_scratch own;
    int rows;             /* most rows a call */
    int base;             /* sequence index of the history's first row */
    int true_rows;        /* history rows that are not provisional */
    float *carry;         /* [FORE_DRAFT_CARRY, C] hiddens of the rows that wait */
    int carried;
    float *embeddings;    /* [rows,C] */
    float *post;          /* [rows,C] */
    float *next;          /* [C] */
    float *hidden;        /* [C] what goes into the next depth */
    float *logits;        /* [V] */
    int32_t *positions;   /* [3,rows] */
    int prompt_len;       /* of the request at hand */
    int32_t prompt_tail[3]; /* rope position of its last token */
    fore_draft_words words;          /* memory NULL: the model's own head drafts */
    int32_t counted[FORE_DRAFT_MAX]; /* drafts of the round at hand that the sampler's penalties count */
    int counts;
    void *memory;         /* owned */
    size_t bytes;
} fore_drafter;

struct fore_session;

/* Memory for a context; nothing happens when it is there with as many rows. */
fore_status fore_drafter_reserve(fore_drafter *d, const fore_model *model, int context, int rows, fore_error *err);
void fore_drafter_free(fore_drafter *d);
/* Forgets the history; it begins again at sequence index `at`. */
void fore_drafter_restart(fore_drafter *d, int at);

/* A prompt is about to be prefilled: its length, the position of its last token, and its words, which may be drafted. */
void fore_drafter_begin(struct fore_session *s, const fore_splice *splice, const int32_t *ids);
/* A token was said. */
void fore_drafter_said(struct fore_session *s, int32_t id);
/* Prefill, after the trunk has seen tokens at .. at+T-1 of ids; hidden [T,C] as the contract wants it. The rows that waited
 * come first, the last row of the chunk waits: its next token is the next chunk's first, or the first one said. */
fore_status fore_drafter_prefill(struct fore_session *s, const fore_splice *splice, const int32_t *ids, size_t at, int T,
                                 const float *hidden, fore_error *err);
/* After the trunk has taken n more tokens (session->ids), whose hiddens are hidden [n,C]. */
void fore_drafter_follow(struct fore_session *s, const float *hidden, int n);
/* Draft number `depth` (from 0) of a round, which goes on from `before`, the draft made last (depth 0: ignored). *sure: the head's
 * probability of it; NULL: not wanted. Ask for no more after an end token, and call done after the last one. */
int32_t fore_drafter_step(struct fore_session *s, int depth, int32_t before, double *sure);
void fore_drafter_done(struct fore_session *s);

#endif
