/* The sampler: a pure function of a row of logits, the position and what was said before. Gumbel-max: the token is the
 * argmax over the allowed tokens of log-probability + g(seed, position, id); lowest id on ties; temperature 0 is argmax. */
#ifndef FORE_DECODE_SAMPLER_H
#define FORE_DECODE_SAMPLER_H

#include "base/error.h"

typedef struct fore_sampler fore_sampler; /* owned scratch for one vocabulary; one thread at a time */

/* Copies the settings (bias included). vocab: rows of logits; usable: ids >= usable are never sampled (padding rows of
 * the embedding table). FORE_ERR_INVALID names the setting and its range. */
fore_status fore_sampler_new(const fore_sampling *settings, int vocab, int usable, fore_sampler **out, fore_error *err);
void fore_sampler_free(fore_sampler *sampler);
/* Counts a token of the prompt (repetition penalty) or of the answer (all penalties). */
void fore_sampler_count(fore_sampler *sampler, int32_t id, bool answer);
void fore_sampler_uncount(fore_sampler *sampler, int32_t id, bool answer); /* takes one count back */
/* Chooses the token at absolute position `position` (sequence index of the new token). logits [vocab] are not changed.
 * Takes no memory. */
int32_t fore_sampler_choose(fore_sampler *sampler, const float *logits, uint64_t position);

/* generation_config.json of a folder: sampling defaults (do_sample false: temperature 0) and end tokens. A missing file
 * is not an error: greedy and no end tokens. */
enum { FORE_GENERATION_EOS = 16 };
typedef struct fore_generation_config {
    fore_sampling sampling;
    int32_t eos[FORE_GENERATION_EOS];
    int eos_count;
} fore_generation_config;
fore_status fore_generation_config_read(const char *dir, fore_generation_config *out, fore_error *err);

#endif
