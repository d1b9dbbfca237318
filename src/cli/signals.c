/* Ctrl-C sets a flag, which the loop over the answer and the progress call look at. */
#include "cli/signals.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t interrupted;

static void note_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

void cli_catch_interrupt(bool once) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note_interrupt;
    sigemptyset(&action.sa_mask);
    /* SA_RESTART: a write to the terminal that Ctrl-C interrupts is not an error. Who waits for input uses ppoll. */
    action.sa_flags = once ? (int)(SA_RESTART | SA_RESETHAND) : SA_RESTART;
    sigaction(SIGINT, &action, NULL);
}

bool cli_interrupted(void) {
    return interrupted != 0;
}

void cli_clear_interrupt(void) {
    interrupted = 0;
}
