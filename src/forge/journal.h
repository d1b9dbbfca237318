/* What an interrupted run has finished: a small file in the folder that is being made, which names the work (what is made from
 * what, as a fingerprint) and each finished file. It is written anew, whole, after each of them, and removed at the end. */
#ifndef FORE_FORGE_JOURNAL_H
#define FORE_FORGE_JOURNAL_H

#include <cjson/cJSON.h>

#include "forge/folder.h"

extern const char fore_journal_name[];

typedef struct fore_journal {
    const fore_folder *folder; /* borrowed until close */
    cJSON *tree;               /* owned */
    bool begun;                /* by this open */
} fore_journal;

/* Goes on with the journal of the folder, or begins one in an empty folder. settings: the work in words, for the message when
 * the journal is of other work. FORE_ERR_INVALID: it is, or the folder has something else in it. */
fore_status fore_journal_open(const fore_folder *folder, const char *fingerprint, const char *settings, fore_journal *out,
                              fore_error *err);
void fore_journal_close(fore_journal *journal);
/* Whether the file was finished and still has as many bytes as then; values[0..count) are what was noted with it. */
bool fore_journal_find(const fore_journal *journal, const char *name, double *values, size_t count);
/* Notes a finished file of the folder. */
fore_status fore_journal_add(fore_journal *journal, const char *name, const double *values, size_t count, fore_error *err);
/* All is done: the journal goes. */
fore_status fore_journal_end(fore_journal *journal, fore_error *err);

#endif
