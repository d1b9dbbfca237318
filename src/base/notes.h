/* What is wrong with something that is looked at as a whole: where opening it would end with the first failure, looking notes each and
 * goes on. */
#ifndef FORE_BASE_NOTES_H
#define FORE_BASE_NOTES_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

typedef struct fore_note {
    const char *topic;   /* static: "config", "files", "tensors", "draft head", "tokenizer", "template", "pictures", ... */
    const char *missing; /* the file or tensor that is not there; "": something else is wrong */
    const char *text;    /* as a failure says it */
} fore_note;

enum { FORE_NOTES_MOST = 10000 }; /* the last one says that more is wrong */

typedef struct fore_notes {
    fore_arena arena;
    fore_note *list; /* owned */
    size_t count, capacity;
} fore_notes;

/* Adds a note, unless there are so many; text and missing are copied, missing may be NULL. FORE_ERR_NOMEM alone. */
fore_status fore_notes_add(fore_notes *notes, const char *topic, const char *missing, const char *text, fore_error *err);
/* Notes a failure (err has its message) and gives FORE_OK, so that the caller goes on; what ends the looking too (memory, a
 * cancelled call) and FORE_OK come back as they are. notes NULL: nothing is noted, `status` comes back. */
fore_status fore_notes_take(fore_notes *notes, const char *topic, const char *missing, fore_status status, fore_error *err);
static inline bool fore_notes_full(const fore_notes *notes) { return notes->count == FORE_NOTES_MOST; }
void fore_notes_free(fore_notes *notes);

#endif
