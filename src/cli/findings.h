/* What `inspect` says of a model's problems and of what it lacks, with what to do about each. */
#ifndef FORE_CLI_FINDINGS_H
#define FORE_CLI_FINDINGS_H

#include "cli/text.h"

enum { CLI_MOST_REMARKS = 12 };

typedef struct cli_problem {
    const char *topic; /* static */
    cli_text text;     /* for one missing file or tensor: as the failure says it; for several: how many, and some of their names */
    const char **missing; /* [missing_count] owned; the names are borrowed from the model */
    size_t missing_count;
    cli_text advice;
} cli_problem;

typedef struct cli_findings {
    cli_problem *problems; /* owned: why it would not open */
    size_t problem_count;
    cli_text remarks[CLI_MOST_REMARKS]; /* what works less than it could, and what would do */
    int remark_count;
} cli_findings;

/* `dir`: as the user gave it, or where OWNER/NAME was found. */
void cli_find_findings(const fore_model *model, const fore_model_info *info, const char *dir, bool no_mtp, cli_findings *out);
void cli_findings_free(cli_findings *findings);

#endif
