/* A table of strings; see names.h. Open addressing, at most half full. */
#include "text/names.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash(const char *text, size_t size) {
    uint64_t h = 0x9E3779B97F4A7C15u ^ size;
    for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001B3u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

void fore_names_free(fore_names *names) {
    fore_buf_free(&names->text);
    free(names->names);
    free(names->slots);
    *names = (fore_names){0};
}

/* The slot where the string is, or where it would go; slot_count must not be 0. */
static size_t probe(const fore_names *names, const char *text, size_t size) {
    size_t mask = names->slot_count - 1, i = (size_t)hash(text, size) & mask;
    for (; names->slots[i]; i = (i + 1) & mask) {
        const fore_name *n = &names->names[names->slots[i] - 1];
        if (n->size == size && (size == 0 || memcmp(names->text.data + n->at, text, size) == 0)) break;
    }
    return i;
}

int32_t fore_names_find(const fore_names *names, const char *text, size_t size) {
    if (!names->slot_count) return -1;
    size_t slot = probe(names, text, size);
    return names->slots[slot] ? names->names[names->slots[slot] - 1].id : -1;
}

static fore_status grow(fore_names *names) {
    size_t capacity = names->capacity ? names->capacity * 2 : 64;
    fore_name *list = realloc(names->names, capacity * sizeof *list);
    if (!list) return FORE_ERR_NOMEM;
    names->names = list;
    uint32_t *slots = calloc(capacity * 2, sizeof *slots);
    if (!slots) return FORE_ERR_NOMEM;
    free(names->slots);
    names->slots = slots;
    names->slot_count = capacity * 2;
    names->capacity = capacity;
    for (size_t i = 0; i < names->count; i++) {
        const fore_name *n = &list[i];
        slots[probe(names, names->text.data + n->at, n->size)] = (uint32_t)i + 1;
    }
    return FORE_OK;
}

fore_status fore_names_add(fore_names *names, const char *text, size_t size, int32_t id) {
    if (names->text.size > UINT32_MAX - size || names->count >= INT32_MAX) return FORE_ERR_LIMIT;
    if (names->count == names->capacity) {
        fore_status s = grow(names);
        if (s) return s;
    }
    size_t at = names->text.size;
    fore_status s = fore_buf_append(&names->text, text, size);
    if (s) return s;
    names->slots[probe(names, text, size)] = (uint32_t)names->count + 1;
    names->names[names->count++] = (fore_name){(uint32_t)at, (uint32_t)size, id};
    return FORE_OK;
}
