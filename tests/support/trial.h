/* Opening a checkpoint and asking it something in a process of its own, so that whatever its files do ends there: how it ended,
 * what it said, and how much memory it took. */
#ifndef FORE_TESTS_TRIAL_H
#define FORE_TESTS_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "foresight.h"
#include "support/scratch.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRIAL_SANITIZED 1 /* memory is then the sanitizer's, and is not bounded */
#else
#define TRIAL_SANITIZED 0
#endif

enum { TRIAL_IDS = 6 };

typedef struct trial_report {
    bool opened, finished; /* finished: the process came to its end */
    fore_error error;      /* of opening */
    fore_error question;   /* of a question; code FORE_OK: answered */
    int32_t ids[TRIAL_IDS];
    int count;
    bool pictures;   /* the question had one */
    bool silent;     /* a failure without an error */
    fore_error check; /* of fore_check, where that was asked for */
    long base_kib, peak_kib; /* resident memory before, and at most */
} trial_report;

typedef struct trial {
    char dir[96];     /* folder or file to open */
    size_t bytes;     /* of its files */
    bool checks;      /* runs fore_check, too */
    trial_report *report; /* shared with the process; owned by trial_new */
    pid_t process;    /* 0: not running */
} trial;

/* Memory that a process may take: three times the files and 64 MiB. */
static inline size_t trial_limit(size_t bytes) { return 3 * bytes + ((size_t)64 << 20); }

/* A folder of links to the files of the checkpoint in `dir`, in which `file` has other bytes (data NULL: its own; file NULL: none is
 * changed); if that is a GGUF file, the folder has such files alone. Gives the files' size. */
size_t trial_folder(scratch *s, const char *dir, const char *file, const void *data, size_t size);

void trial_new(trial *t);
void trial_free(trial *t);
/* Starts a process that opens t->dir and asks; it ends after 20 seconds of computing or 200 of waiting. */
void trial_start(trial *t);
/* Waits for one of them: its index, and how it ended, as waitpid says. */
size_t trial_wait(trial *const *list, size_t count, int *status);

#endif
