/* A trial answer of an open model: finite numbers, and the same tokens with drafts and without. */
#ifndef FORE_FORGE_CHECK_ANSWER_H
#define FORE_FORGE_CHECK_ANSWER_H

#include "base/arena.h"
#include "foresight.h"

typedef struct fore_check_answer {
    bool picture;     /* the prompt had one */
    const char *prompt, *text; /* in the arena, or static */
    const char *problem; /* NULL: none; in the arena, or static */
    uint64_t drafted, accepted;
} fore_check_answer;

/* FORE_ERR_NOMEM, FORE_ERR_CANCELLED; any other failure is a problem. */
fore_status fore_check_try(const fore_model *model, const fore_check_options *options, fore_arena *arena, fore_check_answer *out,
                           fore_error *err);

#endif
