/* One GGUF file: the map, and the check of its whole header. Knows the format, neither folders nor what a key or a tensor means.
 * Format (versions 2 and 3, little-endian): magic, version, counts; key-value pairs; tensor descriptions; after padding to the
 * alignment (general.alignment, else 32) the data, to whose begin the tensors' offsets count. */
#ifndef FORE_CHECKPOINT_GGUF_H
#define FORE_CHECKPOINT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/file.h"
#include "checkpoint/gguf_types.h"

/* As the format numbers them. */
typedef enum fore_gguf_kind {
    FORE_GGUF_U8,
    FORE_GGUF_I8,
    FORE_GGUF_U16,
    FORE_GGUF_I16,
    FORE_GGUF_U32,
    FORE_GGUF_I32,
    FORE_GGUF_F32,
    FORE_GGUF_BOOL,
    FORE_GGUF_STRING,
    FORE_GGUF_ARRAY,
    FORE_GGUF_U64,
    FORE_GGUF_I64,
    FORE_GGUF_F64,
    FORE_GGUF_KINDS
} fore_gguf_kind;

typedef struct fore_gguf_value {
    const char *name;        /* NUL-terminated, in the arena */
    fore_gguf_kind kind;     /* of the members, when it is an array */
    bool array;
    uint64_t count;          /* members; 1 unless it is an array */
    const unsigned char *data; /* the first member, in the map; strings have their length of 8 bytes before them */
    const unsigned char *end;
} fore_gguf_value;

enum { FORE_GGUF_DIMS = 4 };

typedef struct fore_gguf_tensor {
    const char *name; /* NUL-terminated, in the arena */
    const fore_gguf_type *type;
    int dims;
    uint64_t shape[FORE_GGUF_DIMS]; /* the other way round than in the file: the last one's elements are neighbours */
    const unsigned char *data;      /* in the map */
    size_t bytes;
} fore_gguf_tensor;

typedef struct fore_gguf {
    const char *path; /* in the arena */
    fore_map map;
    fore_gguf_value *values; /* [value_count] in the arena, sorted by name */
    size_t value_count;
    fore_gguf_tensor *tensors; /* [tensor_count] in the arena, in the file's order */
    size_t tensor_count;
    const fore_gguf_tensor **sorted; /* [tensor_count] by name */
} fore_gguf;

/* Whether a name ends as those of such files do. */
bool fore_gguf_is_name(const char *path);
/* Maps `path` and checks every key, value, tensor and offset of it. Memory comes from the arena. FORE_ERR_UNSUPPORTED: another
 * version, big-endian numbers, a tensor of a type that is not read. On failure the map is closed; otherwise its owner closes it. */
fore_status fore_gguf_open(const char *path, fore_arena *arena, fore_gguf *out, fore_error *err);

/* NULL: the file does not have the key. */
const fore_gguf_value *fore_gguf_get(const fore_gguf *file, const char *name);
/* Readers with a fallback for a key that is not there. FORE_ERR_FORMAT names file and key where the value is of another kind or,
 * for whole numbers (of any width), outside [low, high]. */
fore_status fore_gguf_int(const fore_gguf *file, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out,
                          fore_error *err);
fore_status fore_gguf_number(const fore_gguf *file, const char *name, double fallback, double *out, fore_error *err);
/* *text is borrowed from the map, without a NUL; NULL for a key that is not there. It is valid UTF-8 without a zero byte. */
fore_status fore_gguf_text(const fore_gguf *file, const char *name, const char **text, size_t *size, fore_error *err);
bool fore_gguf_text_is(const fore_gguf *file, const char *name, const char *text);
/* An array of this kind; NULL and FORE_OK for a key that is not there. */
fore_status fore_gguf_array(const fore_gguf *file, const char *name, fore_gguf_kind kind, const fore_gguf_value **out, fore_error *err);
/* Member i of an array of numbers (or the number itself, for i 0), widened. */
double fore_gguf_member(const fore_gguf_value *value, uint64_t i);
/* Strings of an array one by one: *at begins as value->data. The text is borrowed from the map. */
const char *fore_gguf_next(const unsigned char **at, size_t *size);

const fore_gguf_tensor *fore_gguf_find(const fore_gguf *file, const char *name);

#endif
