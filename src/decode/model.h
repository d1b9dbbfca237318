/* The public fore_model: a network with its tokenizer, template, picture processor and generation defaults. Immutable after
 * open. */
#ifndef FORE_DECODE_MODEL_H
#define FORE_DECODE_MODEL_H

#include <cjson/cJSON.h>

#include "decode/generation_config.h"
#include "decode/draft_vocabulary.h"
#include "image/video.h"
#include "model/mtp.h"

enum { FORE_MODEL_EOS = 32, FORE_DEFAULT_CONTEXT = 32768, FORE_DEFAULT_CHUNK = 256 };

struct fore_model {
    char *dir;                    /* owned */
    bool gguf;                    /* it is, or has, GGUF files */
    fore_network network;
    fore_mtp mtp; /* the draft head; mtp.attached tells */
    char mtp_source[400];
    fore_draft_head draft_head; /* rows.N 0: drafts come from the network's own output head */
    bool fixed_draft_vocabulary; /* the caller's number of ids: no session changes to the network's own head */
    fore_tokenizer *tokenizer;    /* owned; NULL when the folder has none */
    fore_template *chat_template; /* owned; NULL when there is none or it does not compile */
    fore_error template_error;    /* why chat_template is NULL */
    cJSON *template_tokens;       /* owned: bos_token, eos_token, ... as template variables; NULL without tokenizer_config */
    fore_processor processor;
    fore_video_processor video_processor;
    fore_generation_config generation;
    int32_t eos[FORE_MODEL_EOS]; /* end tokens: generation_config, config, <|im_end|> */
    int eos_count;
    int usable; /* ids below it may be sampled: the tokenizer's, when there is one */
    char dtypes[64];
};

/* The default context of a session of this model. */
int fore_model_default_context(const fore_model *model);

#endif
