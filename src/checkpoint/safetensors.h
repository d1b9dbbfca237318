/* One safetensors file: the map, and the check of its whole header. Knows neither folders nor what a tensor means.
 * Format: 8-byte little-endian header length, JSON header, data without holes; offsets count from the header's end. */
#ifndef FORE_CHECKPOINT_SAFETENSORS_H
#define FORE_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/file.h"
#include "checkpoint/store.h"

enum { FORE_SAFETENSORS_MAX_HEADER = 100 * 1000 * 1000 }; /* the format's own limit, bytes */

/* An element type of the format. */
typedef struct fore_safetensors_type {
    const char *name; /* static */
    unsigned bits;
    fore_dtype dtype;
} fore_safetensors_type;

/* NULL: the format has no such type. */
const fore_safetensors_type *fore_safetensors_find_type(const char *name);
/* Bytes of a tensor; false when the product overflows or ends within a byte. */
bool fore_safetensors_bytes(const fore_safetensors_type *type, int dims, const uint64_t *shape, uint64_t *bytes);

/* Maps `path` and checks every entry of the header. *entries [*count] is in the order of the header, its memory and the
 * names lie in the arena, `file` is `file_number`; names may still repeat. On failure *map is closed. */
fore_status fore_safetensors_open(const char *path, int file_number, fore_arena *arena, fore_map *map,
                                  fore_entry **entries, size_t *count, fore_error *err);

#endif
