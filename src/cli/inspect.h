/* What the two ways of `inspect`, a table and JSON, share. */
#ifndef FORE_CLI_INSPECT_H
#define FORE_CLI_INSPECT_H

#include "cli/findings.h"

/* What a session takes when none is given; see fore_session_options. */
int cli_inspect_context(const fore_model_info *info);
/* The given context (0: the default one), then others that a session may have; how many. */
enum { CLI_CONTEXTS = 6 };
int cli_inspect_contexts(const fore_model_info *info, int given, int out[CLI_CONTEXTS]);

typedef struct cli_kept {
    int wanted, present;
    uint64_t bytes;
    cli_text path; /* of the first that is present */
} cli_kept;
/* The packs of --pack's folder, else those beside the model, else those of the user's cache. */
cli_kept cli_inspect_packs(const cli_options *options, const char *dir, const fore_model *model);

/* Prints the object that docs/foresight.1 describes; an exit code. */
int cli_inspect_json(const cli_options *options, const char *dir, const fore_model *model, int context, const cli_findings *findings);
int cli_inspect_json_failure(const char *dir, const char *error);

#endif
