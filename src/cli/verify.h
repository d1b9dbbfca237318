/* The trials of foresight verify: what is run, and where the first difference is. */
#ifndef FORE_CLI_VERIFY_H
#define FORE_CLI_VERIFY_H

#include "cli/model.h"
#include "cli/request.h"

/* 0, 1 .. FORE_DRAFT_MAX, then auto, then two drafts of the head with look-ups. */
enum { CLI_VERIFY_AUTO = FORE_DRAFT_MAX + 1, CLI_VERIFY_LOOK, CLI_VERIFY_DEPTHS };

/* A prompt and a way to sample: what has one right answer. */
typedef struct cli_question {
    const char *label;    /* of the prompt */
    fore_request request; /* borrows everything */
    int32_t *ids;         /* owned: the answer at depth 0 */
    size_t id_count;
    int32_t *replay;    /* owned: drafts without a head; NULL with one */
    uint8_t digest[32]; /* of the session afterwards */
    uint64_t prompt_tokens, image_tokens;
    bool everywhere; /* also asked by the other instruction sets */
} cli_question;

/* How an answer is computed. */
typedef struct cli_setting {
    const char *isa;    /* borrowed */
    int threads, chunk; /* 0: the default */
} cli_setting;

typedef struct cli_difference {
    bool found;
    size_t question;
    size_t token;         /* index of the first one that differs; the count when only the final state differs */
    int32_t wanted, said; /* -1: the answer had ended */
} cli_difference;

typedef struct cli_row {
    cli_setting setting;
    cli_difference first[CLI_VERIFY_DEPTHS];
} cli_row;

typedef struct cli_trials {
    cli_question *questions; /* owned */
    size_t question_count;
    cli_row *rows; /* owned */
    size_t row_count;
    char *isas[8]; /* owned: the machine's instruction sets, the one that answers come from first */
    size_t isa_count;
    uint64_t runs, planned, drafted, accepted; /* answers compared; drafts in them */
} cli_trials;

/* Answers the questions by every setting at every depth; the model is opened again for each instruction set. what: the
 * model as already opened, by isas[0]; it is closed. Returns CLI_OK also when answers differ. */
int cli_trials_run(cli_trials *trials, const cli_options *options, cli_model *what);
void cli_trials_free(cli_trials *trials);

#endif
