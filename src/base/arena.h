/* An arena: many allocations with one lifetime, freed together. Memory comes zeroed and aligned to 64 bytes. */
#ifndef FORE_BASE_ARENA_H
#define FORE_BASE_ARENA_H

#include <stddef.h>

typedef struct fore_arena_block fore_arena_block;
typedef struct fore_arena {
    fore_arena_block *blocks; /* owned */
    size_t bytes;             /* taken from the system so far */
} fore_arena;

/* count * size bytes, zeroed, aligned to 64; NULL when memory is out or the product overflows. */
void *fore_arena_alloc(fore_arena *arena, size_t count, size_t size);
/* A copy of text with a NUL behind it, or NULL. */
char *fore_arena_copy(fore_arena *arena, const char *text, size_t size);
void fore_arena_free(fore_arena *arena);

enum { FORE_ARENA_ALIGN = 64 };
/* The next `count` floats of a block of memory that the caller owns, aligned; *at moves behind them. The block must have
 * FORE_ARENA_ALIGN bytes to spare for each call. */
float *fore_carve(char **at, size_t count);

#endif
