/* The command line: a table of flags, a parser that walks it, help made from it. */
#ifndef FORE_CLI_ARGS_H
#define FORE_CLI_ARGS_H

#include "cli/cli.h"

typedef enum cli_kind {
    CLI_ON,    /* bool: true when given */
    CLI_SET,   /* int: `set` when given, the last one wins */
    CLI_TEXT,  /* const char * */
    CLI_LIST,  /* cli_list: may be repeated */
    CLI_FILES, /* cli_list: all up to the next flag, after a NULL; may be repeated */
    CLI_WHOLE, /* int in [low, high] */
    CLI_REAL,  /* double in [low, high] */
    CLI_SEED,  /* uint64_t seed, has_seed */
    CLI_DEPTH, /* int in [low, high], or FORE_DRAFT_AUTO for "auto" */
    CLI_WORD,  /* int: index of the word among those of `value`, which are split by | */
    CLI_BITS,  /* unsigned: 1 << index of the word, may be repeated */
} cli_kind;

typedef struct cli_flag {
    const char *name; /* without the dashes */
    char letter;      /* short form, or 0 */
    cli_kind kind;
    size_t offset; /* in cli_options */
    unsigned verbs;
    const char *value; /* name of the value in the help; NULL for CLI_ON and CLI_SET */
    const char *help;  /* a line or two; or a heading, below; NULL: said with the flag before it */
    double low, high;
    int set;
} cli_flag;

/* Headings of flags that the help lists by name only; what is hidden is not listed at all. */
extern const char cli_sampling[], cli_drafting[], cli_machine[], cli_video[], cli_hidden[];

/* The table, ended by a flag without a name (options.c). */
extern const cli_flag cli_flags[];

void cli_options_init(cli_options *options, const cli_verb *verb);
void cli_options_free(cli_options *options);
/* Parses argv[0..argc), what follows the verb. Returns CLI_OK or, having said why, CLI_USAGE. `--flag=value`, `--flag
 * value`, `-f value`; `--` ends the flags; `-` alone is an operand. */
int cli_parse(cli_options *options, int argc, char **argv);
void cli_print_help(const cli_verb *verb, FILE *out);

/* The least number of letters to insert, delete, replace or swap with a neighbour that turns a into b. */
size_t cli_distance(const char *a, const char *b);
/* The name nearest to what was typed, or NULL when none is near. */
const char *cli_nearest(const char *typed, const char *const *names, size_t count);

#endif
