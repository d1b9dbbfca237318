/* generation_config.json of a checkpoint folder: sampling defaults and end tokens. Knows the file, not who samples. */
#ifndef FORE_DECODE_GENERATION_CONFIG_H
#define FORE_DECODE_GENERATION_CONFIG_H

#include "base/error.h"
#include "base/json.h"

enum { FORE_GENERATION_EOS = 16 };
typedef struct fore_generation_config {
    fore_sampling sampling;           /* seed 0, no biases */
    int32_t eos[FORE_GENERATION_EOS]; /* different ids, in the file's order */
    int eos_count;
} fore_generation_config;

/* As transformers reads it: do_sample false or absent is greedy (temperature 0); with do_sample, what is absent is
 * temperature 1, top_k 50, top_p 1, min_p 0, repetition_penalty 1 (without, top_k is off). A top_k of 0 or -1 is off.
 * A missing file is not an error: greedy and no end tokens. FORE_ERR_FORMAT: malformed, or a value out of its range
 * (the file and the setting are named); FORE_ERR_LIMIT: more than FORE_GENERATION_EOS end tokens, or more than 1 MiB.
 */
fore_status fore_generation_config_read(const char *dir, fore_generation_config *out, fore_error *err);
/* The same from a parsed file; NULL: there is none. */
fore_status fore_generation_config_parse(const cJSON *root, fore_generation_config *out, fore_error *err);

#endif
