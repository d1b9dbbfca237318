/* Which tokens a draft head may propose, and the small output head made of them: once a model (the ranked ids), and for each session
 * what its prompts and answers said besides.
 *
 * A session watches how many of the tokens that are said its drafts could not have been: recent tokens count, about the last 32. When
 * that is more than half of them (a text in a script that the ranked ids lack), drafts are made by the model's own head until it is
 * less than a quarter again; not where the caller said how many ids there are. */
#ifndef FORE_DECODE_DRAFT_VOCABULARY_H
#define FORE_DECODE_DRAFT_VOCABULARY_H

#include "decode/sampler.h"
#include "model/draft_head.h"

enum {
    FORE_DRAFT_VOCABULARY = 32768, /* ranked ids by default; models with no more keep their own head */
    FORE_DRAFT_EXTRAS = 4096,      /* ids that a session adds; the oldest ones go */
};

struct fore_model;

/* Makes model->draft_head for an attached MTP head, or leaves it empty: drafts then come from the model's own output head. Ids: the
 * folder's draft_vocabulary.json (a list, ranked), else 0, 1, 2, ... (byte-level BPE gives ids by rank), cut after
 * options->draft_vocabulary; added tokens and end tokens besides, image pads never. */
fore_status fore_draft_vocabulary_open(struct fore_model *model, const fore_model_options *options, fore_pool *pool, fore_error *err);

/* A session's drafting vocabulary. */
typedef struct fore_draft_words {
    const fore_draft_head *head; /* borrowed from the model */
    int32_t *ids;                /* [head.N + extras]: the head's, then the session's own */
    int32_t *places;             /* [V] place in ids, -1: not among them */
    float *logits;               /* [head.N + FORE_DRAFT_EXTRAS] */
    fore_weight rows;            /* N: extras so far, at most `room` */
    void *row_memory;            /* their data */
    int room, next;              /* extras that fit; where the next one goes */
    double outside;              /* recent share of said tokens that were not among ids */
    bool whole;                  /* so many that the model's own head drafts */
    void *work;                  /* for one row */
    void *memory;                /* owned */
    size_t bytes;
} fore_draft_words;

/* Bytes of a session's words; 0 where the model has no draft-only head. */
size_t fore_draft_words_plan(const struct fore_model *model);
/* Memory, with the head's ids alone; nothing happens when it is there or the model has no draft-only head. */
fore_status fore_draft_words_reserve(fore_draft_words *w, const struct fore_model *model, fore_error *err);
void fore_draft_words_free(fore_draft_words *w);
/* A token of a prompt, or one that was said, may be drafted from now on; only what was said counts as inside or outside. */
void fore_draft_words_add(fore_draft_words *w, const struct fore_model *model, int32_t id, bool said);
/* The session's own ones go. */
void fore_draft_words_forget(fore_draft_words *w);
/* logits of post [C] for the subset: the draft-only head's with the session's own rows. *out lends from w until the next call. */
void fore_draft_words_logits(fore_draft_words *w, const fore_engine *engine, const float *post, fore_subset *out);

#endif
