/* foresight forge: checkpoints made from checkpoints, and whether they are sound; each part is a verb of two words or three. */
#include "cli/forge.h"

static const cli_verb *const parts[] = {&cli_forge_calibrate_verb, &cli_forge_check_verb, &cli_forge_convert_verb, &cli_forge_graft_verb, &cli_forge_mtp_verb, NULL};

const cli_verb cli_forge_verb = {
    .name = "forge",
    .usage = "COMMAND [flags]",
    .summary = "check, convert and mend checkpoints",
    .about = "Makes checkpoints from checkpoints, and finds out whether one is sound.\n",
    .parts = parts,
};
