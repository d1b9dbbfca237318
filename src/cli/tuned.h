/* What foresight tune found to be fastest, kept in the user's tune.json by model, processor and instruction set, and used where no
 * flag says otherwise. It changes the speed, never the answer. */
#ifndef FORE_CLI_TUNED_H
#define FORE_CLI_TUNED_H

#include "cli/cli.h"
#include "cli/text.h"

typedef struct cli_tuned {
    bool found;
    int depth;     /* FORE_DRAFT_AUTO or a number of drafts a round */
    int threads;   /* 0: the processors of this process */
    fore_draft_lookup lookup;
    double ratio;  /* how much faster than the usual setting it was */
    bool in_use;   /* set by cli_tuned_apply: some of it is */
} cli_tuned;

/* Of which model on which machine. */
typedef struct cli_tuned_key {
    char model[65]; /* its digest */
    char cpu[96], isa[16];
    int processors;
} cli_tuned_key;

/* $XDG_CONFIG_HOME/foresight/tune.json, else that under ~/.config. False when the environment names neither. */
bool cli_tuned_path(cli_text *path);
int cli_tuned_key_of(const fore_model *model, cli_tuned_key *key); /* an exit code */
/* What is kept for the key; a file that is missing has nothing, one that cannot be understood is warned of and has nothing. */
void cli_tuned_find(const cli_tuned_key *key, cli_tuned *out);
/* Keeps it (NULL: forgets it), whole or not at all; what is kept for others stays. Returns an exit code. */
int cli_tuned_keep(const cli_tuned_key *key, const char *folder, const cli_tuned *tuned);

/* For run and chat: looks it up and, for what no flag sets, puts it into the settings. Never fails: what cannot be found is not used. */
void cli_tuned_apply(const cli_options *options, const fore_model *model, cli_tuned *tuned, fore_session_options *session);
/* The drafts of a request, unless a flag sets them. */
void cli_tuned_request(const cli_options *options, cli_tuned *tuned, fore_draft *draft);
/* "3 drafts a round, 2 threads" */
const char *cli_tuned_text(const cli_tuned *tuned, char out[64]);

#endif
