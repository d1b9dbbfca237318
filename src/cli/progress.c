/* A line on standard error that comes after a second, is redrawn ten times a second, and goes when the work is done. */
#include "cli/progress.h"

#include <unistd.h>

#include "cli/files.h"
#include "cli/signals.h"

void cli_progress_start(cli_progress *progress) {
    *progress = (cli_progress){.terminal = isatty(STDERR_FILENO) != 0, .started = cli_seconds()};
}

int cli_progress_call(void *user, const char *stage, uint64_t done, uint64_t total) {
    cli_progress *progress = user;
    if (progress->terminal) {
        double now = cli_seconds();
        if (now - progress->started > 1 && now - progress->drawn > 0.1) {
            double percent = total ? 100 * (double)done / (double)total : 0;
            fprintf(stderr, "\r\033[K%s %3.0f %%  %.0f s", stage, percent, now - progress->started);
            fflush(stderr);
            progress->drawn = now;
            progress->visible = true;
        }
    }
    return cli_interrupted();
}

void cli_progress_end(cli_progress *progress) {
    if (progress->visible) fputs("\r\033[K", stderr);
    progress->visible = false;
}
