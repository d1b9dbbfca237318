/* A table of strings; see names.h. Open addressing, at most half full. */
#include "text/names.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash(const char *text, size_t size) {
    uint64_t h = 0x9E3779B97F4A7C15u ^ size;
    for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001B3u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return (uint32_t)(h ^ h >> 32);
}

void fore_names_free(fore_names *names) {
    fore_buf_free(&names->text);
    free(names->names);
    free(names->slots);
    *names = (fore_names){0};
}

/* The slot where the string is, or where it would go; slot_count must not be 0. A name is only looked at when its whole
 * hash is equal: most lookups then touch one slot and one name. */
static size_t probe(const fore_names *names, const char *text, size_t size, uint32_t h) {
    size_t mask = names->slot_count - 1, i = h & mask;
    for (; names->slots[i]; i = (i + 1) & mask) {
        if (names->slots[i] >> 32 != h) continue;
        const fore_name *n = &names->names[(uint32_t)names->slots[i] - 1];
        if (n->size == size && (size == 0 || memcmp(names->text.data + n->at, text, size) == 0)) break;
    }
    return i;
}

int32_t fore_names_find(const fore_names *names, const char *text, size_t size) {
    if (!names->slot_count) return -1;
    size_t slot = probe(names, text, size, hash(text, size));
    return names->slots[slot] ? names->names[(uint32_t)names->slots[slot] - 1].id : -1;
}

fore_status fore_names_reserve(fore_names *names, size_t count) {
    size_t capacity = names->capacity ? names->capacity : 64;
    while (capacity < count) capacity *= 2;
    if (capacity == names->capacity) return FORE_OK;
    fore_name *list = realloc(names->names, capacity * sizeof *list);
    if (!list) return FORE_ERR_NOMEM;
    names->names = list;
    uint64_t *slots = calloc(capacity * 2, sizeof *slots);
    if (!slots) return FORE_ERR_NOMEM;
    size_t mask = capacity * 2 - 1;
    for (size_t i = 0; i < names->slot_count; i++) {
        if (!names->slots[i]) continue;
        size_t at = (size_t)(names->slots[i] >> 32) & mask;
        while (slots[at]) at = (at + 1) & mask;
        slots[at] = names->slots[i];
    }
    free(names->slots);
    names->slots = slots;
    names->slot_count = capacity * 2;
    names->capacity = capacity;
    return FORE_OK;
}

fore_status fore_names_add(fore_names *names, const char *text, size_t size, int32_t id) {
    if (names->text.size > UINT32_MAX - size || names->count >= INT32_MAX) return FORE_ERR_LIMIT;
    if (names->count == names->capacity) {
        fore_status s = fore_names_reserve(names, names->count + 1);
        if (s) return s;
    }
    size_t at = names->text.size;
    fore_status s = fore_buf_append(&names->text, text, size);
    if (s) return s;
    uint32_t h = hash(text, size);
    names->slots[probe(names, text, size, h)] = (uint64_t)h << 32 | (names->count + 1);
    names->names[names->count++] = (fore_name){(uint32_t)at, (uint32_t)size, id};
    return FORE_OK;
}
