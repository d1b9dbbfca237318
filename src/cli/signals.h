/* Ctrl-C. */
#ifndef FORE_CLI_SIGNALS_H
#define FORE_CLI_SIGNALS_H

#include <stdbool.h>

/* Ctrl-C only sets a flag from here on. once: a second one ends the process, as if nothing had been caught. */
void cli_catch_interrupt(bool once);
bool cli_interrupted(void);
void cli_clear_interrupt(void);

#endif
