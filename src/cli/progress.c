/* A line on standard error that comes after a second, is redrawn five times a second, and goes when the work is done. A
 * thread draws it, because the work may say nothing for long. */
#include "cli/progress.h"

#include <time.h>
#include <unistd.h>

#include "cli/files.h"
#include "cli/signals.h"

static void draw(const cli_progress *progress) {
    double seconds = cli_seconds() - progress->started;
    fprintf(stderr, "\r\033[K%s ", cli_interrupted() ? "stopping," : progress->stage);
    if (progress->total) fprintf(stderr, "%3.0f %%  ", 100 * (double)progress->done / (double)progress->total);
    if (progress->bytes && progress->total) fprintf(stderr, "%.3f of %.3f GB  ", (double)progress->done / 1e9, (double)progress->total / 1e9);
    fprintf(stderr, "%.0f s", seconds);
    fflush(stderr);
}

static void *draw_until_ended(void *argument) {
    cli_progress *progress = argument;
    struct timespec next;
    bool visible = false;
    clock_gettime(CLOCK_MONOTONIC, &next);
    next.tv_sec++;
    pthread_mutex_lock(&progress->lock);
    while (!progress->ended) {
        if (!pthread_cond_timedwait(&progress->changed, &progress->lock, &next)) continue;
        draw(progress);
        visible = true;
        next.tv_nsec += 200000000;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
    }
    pthread_mutex_unlock(&progress->lock);
    if (visible) fputs("\r\033[K", stderr);
    return NULL;
}

void cli_progress_start(cli_progress *progress, const char *stage) {
    *progress = (cli_progress){.started = cli_seconds()};
    snprintf(progress->stage, sizeof progress->stage, "%s", stage);
    if (!isatty(STDERR_FILENO)) return;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&progress->changed, &clock);
    pthread_mutex_init(&progress->lock, NULL);
    pthread_condattr_destroy(&clock);
    progress->drawing = pthread_create(&progress->thread, NULL, draw_until_ended, progress) == 0;
}

int cli_progress_call(void *user, const char *stage, uint64_t done, uint64_t total) {
    cli_progress *progress = user;
    if (progress->drawing) {
        pthread_mutex_lock(&progress->lock);
        snprintf(progress->stage, sizeof progress->stage, "%s", stage);
        progress->done = done;
        progress->total = total;
        pthread_mutex_unlock(&progress->lock);
    }
    return cli_interrupted();
}

void cli_progress_end(cli_progress *progress) {
    if (!progress->drawing) return;
    pthread_mutex_lock(&progress->lock);
    progress->ended = true;
    pthread_cond_signal(&progress->changed);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    pthread_cond_destroy(&progress->changed);
    pthread_mutex_destroy(&progress->lock);
    progress->drawing = false;
}
