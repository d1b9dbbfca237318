/* Which model the command means, and opening it. */
#ifndef FORE_CLI_MODEL_H
#define FORE_CLI_MODEL_H

#include "cli/cli.h"
#include "cli/text.h"
#include "cli/tuned.h"

/* Whether a model is in GGUF files: one, or a folder of such. */
bool cli_is_gguf(const char *path);
/* The checkpoint folder: the flag (or operand), else $FORESIGHT_MODEL, else models/tiny here, else the installed one. What is no
 * path but reads as OWNER/NAME or OWNER/NAME@REVISION is a checkpoint of the hub's cache.
 * Returns CLI_OK, or CLI_FAILED having said what to do. */
int cli_find_model(const char *given, cli_text *dir);
/* The same for an operand that a verb gives to the library as it is: only OWNER/NAME is looked up. */
int cli_find_operand(const char *given, cli_text *dir);
/* --isa, else $FORESIGHT_ISA, else NULL. */
const char *cli_isa(const cli_options *options);

typedef struct cli_model {
    cli_text dir;
    fore_model *model;     /* owned */
    fore_session *session; /* owned; NULL until cli_model_session */
    double load_seconds;
    cli_tuned tuned; /* of cli_model_session */
} cli_model;

/* What the flags say of the draft head and its contract. Verbs that draft nothing leave the head out. Returns an exit
 * code; *contract is owned (free), in any case, and `how` points to it. */
int cli_model_options(const cli_options *options, fore_model_options *how, char **contract);
/* Whether every field of --mtp-contract is one; an exit code. */
int cli_check_contract(const cli_options *options, const fore_model *model);
/* Finds and opens the model, with progress. Returns an exit code; close in any case. */
int cli_model_open(const cli_options *options, cli_model *out);
/* With what the flags say or, for run and chat, what foresight tune found. */
int cli_model_session(const cli_options *options, cli_model *model);
void cli_model_close(cli_model *model);

#endif
