/* Walking through JSON text value by value, without a tree of it: a tree takes ten times the memory of a text that is made of many
 * short values. The text must have passed fore_json_check. */
#ifndef FORE_BASE_JSON_WALK_H
#define FORE_BASE_JSON_WALK_H

#include "base/buf.h"
#include "base/json.h"

typedef struct fore_json_text {
    const char *at; /* borrowed; NULL: none */
    size_t size;
} fore_json_text;

typedef struct fore_json_walk {
    const char *at, *end;
} fore_json_walk;

fore_json_walk fore_json_walk_begin(fore_json_text text);
/* How the next value begins: one of { [ " t f n, or 0 for a number. */
char fore_json_peek(fore_json_walk *w);
/* Steps into an object or a list. */
void fore_json_enter(fore_json_walk *w);
/* Whether another member or element follows; if not, steps out. */
bool fore_json_more(fore_json_walk *w);
/* The next string, or the name of the next member, decoded into `out` (whose bytes before are dropped). FORE_ERR_NOMEM. */
fore_status fore_json_take_string(fore_json_walk *w, fore_buf *out);
fore_status fore_json_take_name(fore_json_walk *w, fore_buf *out);
double fore_json_take_number(fore_json_walk *w);
/* The text of the next value, stepped over. */
fore_json_text fore_json_skip(fore_json_walk *w);

/* fore_json_parse, but for members names[0..count) of the top's member `within`: in the tree they are null, and their text is
 * parts[i] (at NULL: not there, or null). Of members of one name the first counts, as it does in a tree. */
fore_status fore_json_parse_without(const char *text, size_t size, const char *what, const char *within, const char *const *names,
                                    fore_json_text *parts, int count, cJSON **out, fore_error *err);

#endif
