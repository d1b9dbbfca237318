/* What long work shows on a terminal, and how Ctrl-C reaches it. */
#ifndef FORE_CLI_PROGRESS_H
#define FORE_CLI_PROGRESS_H

#include <pthread.h>

#include "cli/cli.h"

/* Does not move between start and end: a thread draws from it. */
typedef struct cli_progress {
    double started;
    bool drawing; /* standard error is a terminal, and the thread is there */
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    char stage[16];
    uint64_t done, total;
    bool bytes; /* done and total are, and are shown; set before the first call */
    bool ended;
} cli_progress;

/* Starts the clock: a line appears on a terminal when the work takes more than a second. stage: what to show until the
 * work says it. */
void cli_progress_start(cli_progress *progress, const char *stage);
/* A fore_progress with a cli_progress as `user`; cancels the work after Ctrl-C. */
int cli_progress_call(void *user, const char *stage, uint64_t done, uint64_t total);
void cli_progress_end(cli_progress *progress); /* takes the line away */

#endif
