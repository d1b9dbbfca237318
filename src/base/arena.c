/* An arena; see arena.h. Small requests share blocks of 64 KiB, large ones get a block of their own. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = FORE_ARENA_ALIGN, BLOCK = 64 * 1024 };

struct fore_arena_block {
    fore_arena_block *next;
    void *raw;         /* what calloc gave; the block begins at the next multiple of ALIGN */
    size_t size, used; /* of the whole block, this header (padded to ALIGN) included */
};

static size_t round_up(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

static fore_arena_block *block_new(fore_arena *arena, size_t payload) {
    size_t size = round_up(sizeof(fore_arena_block)) + payload;
    /* calloc and not memset: pages of a large block that nobody touches take no memory. */
    char *raw = calloc(1, size + ALIGN);
    if (!raw) return NULL;
    fore_arena_block *b = (fore_arena_block *)(void *)(raw + (ALIGN - (uintptr_t)raw % ALIGN) % ALIGN);
    b->raw = raw;
    b->size = size;
    b->used = round_up(sizeof(fore_arena_block));
    arena->bytes += size;
    return b;
}

void *fore_arena_alloc(fore_arena *arena, size_t count, size_t size) {
    if (size && count > (SIZE_MAX / 4) / size) return NULL;
    size_t need = round_up(count * size + !(count && size));
    fore_arena_block *b = arena->blocks;
    if (!b || b->size - b->used < need) {
        bool own = need > (size_t)BLOCK / 4;
        fore_arena_block *fresh = block_new(arena, own ? need : BLOCK);
        if (!fresh) return NULL;
        if (own && b) { /* keep filling the shared block */
            fresh->next = b->next;
            b->next = fresh;
        } else {
            fresh->next = b;
            arena->blocks = fresh;
        }
        b = fresh;
    }
    void *p = (char *)b + b->used;
    b->used += need;
    return p;
}

char *fore_arena_copy(fore_arena *arena, const char *text, size_t size) {
    if (size == SIZE_MAX) return NULL;
    char *p = fore_arena_alloc(arena, size + 1, 1);
    if (p && size) memcpy(p, text, size);
    return p;
}

void fore_arena_free(fore_arena *arena) {
    while (arena->blocks) {
        fore_arena_block *next = arena->blocks->next;
        free(arena->blocks->raw);
        arena->blocks = next;
    }
    arena->bytes = 0;
}

float *fore_carve(char **at, size_t count) {
    *at = (char *)(((uintptr_t)*at + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    float *p = (float *)(void *)*at;
    *at += count * sizeof(float);
    return p;
}
