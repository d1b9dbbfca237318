/* How far one checkpoint's answers are from another's: logits of both over a text. */
#ifndef FORE_CLI_DIVERGENCE_H
#define FORE_CLI_DIVERGENCE_H

#include "cli/cli.h"

typedef struct cli_divergence {
    uint64_t tokens;        /* places compared */
    double mean, max;       /* Kullback-Leibler divergence of the second's distribution from the first's, in nats */
    double agreement;       /* share of places where both have the same likeliest token */
    int window;             /* tokens of context that a place has at most */
} cli_divergence;

/* Reads the text of `file` with both checkpoints, teacher forced. Returns an exit code. */
int cli_diverge(const cli_options *options, const char *first, const char *second, const char *file, cli_divergence *out);

#endif
