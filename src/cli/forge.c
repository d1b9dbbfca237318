/* foresight forge: checkpoints made from checkpoints, and whether they are sound; each part is a verb of two words. */
#include "cli/forge.h"

static const cli_verb *const parts[] = {&cli_forge_check_verb, &cli_forge_graft_verb, NULL};

const cli_verb cli_forge_verb = {
    .name = "forge",
    .usage = "COMMAND [flags]",
    .summary = "mend checkpoints: a vision tower back, checks",
    .about = "Makes checkpoints from checkpoints, and finds out whether one is sound.\n",
    .parts = parts,
};
