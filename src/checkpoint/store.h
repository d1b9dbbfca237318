/* The weight files of a checkpoint folder: which tensors there are, of what type and shape, and where their bytes lie.
 * Files are memory-mapped; nothing is copied, and bytes may have any alignment. It does not know what a tensor means.
 * Format: safetensors (8-byte little-endian header length, JSON header, data). */
#ifndef FORE_CHECKPOINT_STORE_H
#define FORE_CHECKPOINT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "base/notes.h"

enum { FORE_STORE_DIMS = 8 };

/* Rows, or columns, of a matrix that lie in another order in the file: of those from `begin` on, blocks of `size`, the one with the
 * numbers (a, b), b < inner, that counts as block a*inner + b, is the file's block a*outer_stride + b*inner_stride. */
typedef struct fore_order {
    bool columns;
    int begin, size, inner, outer_stride, inner_stride;
} fore_order;

static inline size_t fore_order_place(const fore_order *o, size_t i) {
    if (i < (size_t)o->begin) return i;
    size_t block = (i - (size_t)o->begin) / (size_t)o->size, in = (i - (size_t)o->begin) % (size_t)o->size;
    block = block / (size_t)o->inner * (size_t)o->outer_stride + block % (size_t)o->inner * (size_t)o->inner_stride;
    return (size_t)o->begin + block * (size_t)o->size + in;
}

typedef struct fore_entry {
    const char *name;       /* as in the file, NUL-terminated */
    const char *dtype_name; /* "BF16", "F8_E4M3", ... as in the file */
    fore_dtype dtype;
    int dims;
    uint64_t shape[FORE_STORE_DIMS];
    const unsigned char *data; /* borrowed until fore_store_close; any alignment */
    size_t bytes;
    int file; /* index into the store's files */
    const fore_order *order; /* NULL: the data lies as the shape says. Else dtype is OTHER, also of floats */
} fore_entry;

typedef struct fore_store fore_store;

/* Opens a folder: model.safetensors.index.json and the files that it names (each name must stay inside the folder); else
 * model.safetensors; else the numbered shards (NAME-00001-of-00003.safetensors), which must be complete; else every
 * *.safetensors in the folder, by name. The whole header of every file is checked here: sizes, overlaps, holes, ranges,
 * shapes against bytes, duplicate names, tensors that the index places elsewhere. A file that an index or the numbers
 * leave out (mtp.safetensors) is not opened. FORE_ERR_IO: a file is missing or cannot be read; FORE_ERR_FORMAT: malformed;
 * FORE_ERR_UNSUPPORTED: a dtype that the format does not have. */
fore_status fore_store_open(const char *dir, fore_store **out, fore_error *err);
/* The same for looking: what is missing or malformed is noted (topics "files" and "tensors"), and the rest is opened; the store may be
 * empty. With as many notes as before, fore_store_open would open the folder too. */
fore_status fore_store_look(const char *dir, fore_notes *notes, fore_store **out, fore_error *err);
/* Opens one file. */
fore_status fore_store_open_file(const char *path, fore_store **out, fore_error *err);
void fore_store_close(fore_store *store);

size_t fore_store_count(const fore_store *store);
const fore_entry *fore_store_at(const fore_store *store, size_t index);       /* sorted by name; borrowed until close */
const fore_entry *fore_store_find(const fore_store *store, const char *name); /* NULL: no such tensor */
int fore_store_files(const fore_store *store);
const char *fore_store_file_path(const fore_store *store, int file);
const fore_map *fore_store_file_map(const fore_store *store, int file); /* the whole file; borrowed until close */
uint64_t fore_store_bytes(const fore_store *store); /* of all tensors */

#endif
