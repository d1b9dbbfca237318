/* A list of what is wrong; see notes.h. */
#include "base/notes.h"

#include <stdlib.h>
#include <string.h>

fore_status fore_notes_add(fore_notes *n, const char *topic, const char *missing, const char *text, fore_error *err) {
    if (fore_notes_full(n)) return FORE_OK;
    if (n->count == FORE_NOTES_MOST - 1) {
        text = "more than ten thousand things are wrong, and the others are not told";
        missing = NULL;
    }
    if (n->count == n->capacity) {
        size_t capacity = n->capacity ? 2 * n->capacity : 16;
        fore_note *more = realloc(n->list, capacity * sizeof *more);
        if (!more) return fore_fail_nomem(err, "the list of what is wrong");
        n->list = more;
        n->capacity = capacity;
    }
    if (!missing) missing = "";
    const fore_note note = {topic, fore_arena_copy(&n->arena, missing, strlen(missing)), fore_arena_copy(&n->arena, text, strlen(text))};
    if (!note.missing || !note.text) return fore_fail_nomem(err, "the list of what is wrong");
    n->list[n->count++] = note;
    return FORE_OK;
}

fore_status fore_notes_take(fore_notes *n, const char *topic, const char *missing, fore_status status, fore_error *err) {
    if (!n || !status || status == FORE_ERR_NOMEM || status == FORE_ERR_CANCELLED) return status;
    fore_error why = {0};
    status = fore_notes_add(n, topic, missing, err && err->text[0] ? err->text : fore_status_name(status), &why);
    if (err) *err = status ? why : (fore_error){0};
    return status;
}

void fore_notes_free(fore_notes *n) {
    free(n->list);
    fore_arena_free(&n->arena);
    *n = (fore_notes){0};
}
