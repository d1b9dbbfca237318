/* A table of strings and their numbers: strings are kept in one block and found by hash. */
#ifndef FORE_TEXT_NAMES_H
#define FORE_TEXT_NAMES_H

#include <stdint.h>

#include "base/buf.h"

typedef struct fore_name {
    uint32_t at, size; /* in text */
    int32_t id;
} fore_name;

typedef struct fore_names {
    fore_buf text;
    fore_name *names; /* owned, [count] in the order in which they came */
    uint64_t *slots;  /* owned; hash above 32 bits of index + 1 of a name, 0: free */
    size_t count, capacity, slot_count;
} fore_names;

void fore_names_free(fore_names *names);
/* Makes room for count names at once. */
fore_status fore_names_reserve(fore_names *names, size_t count);
/* The number of text[0..size), or -1. */
int32_t fore_names_find(const fore_names *names, const char *text, size_t size);
/* Adds a string that is not there yet (a copy is made). FORE_ERR_NOMEM; FORE_ERR_LIMIT beyond 4 GiB of text. */
fore_status fore_names_add(fore_names *names, const char *text, size_t size, int32_t id);

#endif
