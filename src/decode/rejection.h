/* The rejection sampler of speculative decoding (Leviathan et al. 2023, Chen et al. 2023): a draft x from q is accepted with
 * probability min(1, p(x)/q(x)), else the token comes from max(p - q, 0) normalised; p and q are the processed distributions.
 * Every random number is a function of seed and place. */
#ifndef FORE_DECODE_REJECTION_H
#define FORE_DECODE_REJECTION_H

#include <stdbool.h>

#include "decode/sampler.h"

typedef struct fore_rejection fore_rejection;

/* One step on plain distributions p, q [n] (each adds up to 1; q(drafted) > 0). Returns the token; *accepted: it is the
 * draft. A pure function. */
int32_t fore_rejection_step(const float *p, const float *q, int n, int32_t drafted, uint64_t seed, uint64_t place, bool *accepted);

/* Memory for FORE_DRAFT_MAX distributions over `vocab`. */
fore_status fore_rejection_new(int vocab, uint64_t seed, fore_rejection **out, fore_error *err);
void fore_rejection_free(fore_rejection *r);
/* Draws the draft at `depth` (from 0) from the head's processed distribution and keeps the distribution. subset: as for the sampler;
 * NULL: logits of all ids. */
int32_t fore_rejection_draft(fore_rejection *r, fore_sampler *sampler, const fore_subset *subset, const float *logits, int depth,
                             uint64_t place);
/* A draft at `depth` that was not drawn: q is `id` alone. */
void fore_rejection_certain(fore_rejection *r, int depth, int32_t id);
/* The token at `place` for the target's logits and the draft made there. */
int32_t fore_rejection_choose(fore_rejection *r, fore_sampler *sampler, const float *logits, int depth, uint64_t place, int32_t drafted,
                              bool *accepted);

#endif
