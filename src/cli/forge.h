/* The parts of foresight forge. */
#ifndef FORE_CLI_FORGE_H
#define FORE_CLI_FORGE_H

#include "cli/cli.h"

extern const cli_verb cli_forge_graft_verb, cli_forge_check_verb, cli_forge_convert_verb, cli_forge_mtp_verb, cli_forge_calibrate_verb;

#endif
