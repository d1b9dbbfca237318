/* Where the command keeps quantised matrices repacked: the meaning of --pack. */
#ifndef FORE_CLI_PACK_H
#define FORE_CLI_PACK_H

#include "cli/cli.h"
#include "cli/text.h"

/* --pack's folder for a model: "beside": the model's own; "cache": the user's, $XDG_CACHE_HOME/foresight or else
 * ~/.cache/foresight, whose parents are made; anything else is the folder itself. Returns CLI_OK or, having said why,
 * CLI_FAILED. */
int cli_pack_dir(const char *where, const char *model_dir, cli_text *out);
/* Says on standard error why nothing was kept or used, if that was asked for. */
void cli_pack_note(const fore_model *model);

#endif
