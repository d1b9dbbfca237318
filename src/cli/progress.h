/* What long work shows on a terminal, and how Ctrl-C reaches it. */
#ifndef FORE_CLI_PROGRESS_H
#define FORE_CLI_PROGRESS_H

#include "cli/cli.h"

typedef struct cli_progress {
    bool terminal; /* standard error is one */
    double started, drawn;
    bool visible;
} cli_progress;

/* Starts the clock: a line appears when the work takes more than a second. */
void cli_progress_start(cli_progress *progress);
/* A fore_progress with a cli_progress as `user`; cancels the work after Ctrl-C. */
int cli_progress_call(void *user, const char *stage, uint64_t done, uint64_t total);
void cli_progress_end(cli_progress *progress); /* takes the line away */

#endif
