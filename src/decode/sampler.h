/* The sampler: a pure function of a row of logits, the position and what was said before. Gumbel-max: the token is the
 * argmax over the allowed tokens of log-probability + g(seed, position, id); lowest id on ties; temperature 0 is
 * argmax. Knows nothing of text or states. Speculation counts drafted tokens provisionally and takes the counts back.
 */
#ifndef FORE_DECODE_SAMPLER_H
#define FORE_DECODE_SAMPLER_H

#include "base/error.h"

typedef struct fore_sampler fore_sampler; /* owned scratch for one vocabulary; one thread at a time */

/* Ranges: temperature >= 0; top_k >= 0; top_p in (0, 1]; min_p in [0, 1]; repetition_penalty > 0; presence_penalty and
 * frequency_penalty in [-2, 2], as OpenAI; everything finite; each bias id in [0, usable), once; a bias finite or minus
 * infinity (never that token). FORE_ERR_INVALID names the setting, its range and the value. */
fore_status fore_sampling_check(const fore_sampling *settings, int usable, fore_error *err);

/* Copies the settings (bias included). vocab: rows of logits; usable: ids >= usable are never sampled (padding rows of
 * the embedding table). FORE_ERR_INVALID as fore_sampling_check. */
fore_status fore_sampler_new(const fore_sampling *settings, int vocab, int usable, fore_sampler **out, fore_error *err);
void fore_sampler_free(fore_sampler *sampler);
/* Counts a token of the prompt (repetition penalty) or of the answer (all penalties). Ids outside [0, usable) do
 * nothing. */
void fore_sampler_count(fore_sampler *sampler, int32_t id, bool answer);
void fore_sampler_uncount(fore_sampler *sampler, int32_t id,
                          bool answer); /* takes one count back; none: does nothing */
/* Some of the ids, for rows that have logits of these alone: whatever is not among them counts as minus infinity. */
typedef struct fore_subset {
    const int32_t *ids;    /* [count] the id of each place, all different and below usable */
    const int32_t *places; /* [vocab] the place of each id, -1: not among them */
    int count;
} fore_subset;

/* Chooses the token at absolute position `position` (sequence index of the new token). logits [vocab] are not changed.
 * Takes no memory. A logit that is NaN counts as minus infinity; a row without any other gives id 0. */
int32_t fore_sampler_choose(fore_sampler *sampler, const float *logits, uint64_t position);
/* The same for a row of a subset's logits [count], by place; NULL: all of them. Returns an id. */
int32_t fore_sampler_choose_of(fore_sampler *sampler, const fore_subset *subset, const float *logits, uint64_t position);

/* What the processors leave of a row: the distribution that choose draws from is softmax over these scores. Never
 * empty. Greedy leaves one id; so does a row whose best score overflows when divided by the temperature (the limit of
 * small temperatures). */
typedef struct fore_candidates {
    const int32_t *ids;  /* [count] increasing; of a subset its places; borrowed until the next call on the sampler */
    const float *scores; /* [usable] by id (place), of the ids above; borrowed likewise */
    int count;
    int32_t best; /* highest score, lowest id on ties */
} fore_candidates;
void fore_sampler_process(fore_sampler *sampler, const float *logits, fore_candidates *out);
void fore_sampler_process_of(fore_sampler *sampler, const fore_subset *subset, const float *logits, fore_candidates *out);

/* The noise: 32 uniform bits to -log(-log(u)), where u = 1 - (bits + 1/2) / 2^32; between -3.13 and 22.88. */
float fore_gumbel(uint32_t bits);

#endif
