/* Where the tensors of a safetensors file lie, before any of their bytes is known: the header and every offset from names,
 * types and shapes alone, so that a file can be written in any order and as its numbers come. */
#ifndef FORE_CHECKPOINT_SAFETENSORS_LAYOUT_H
#define FORE_CHECKPOINT_SAFETENSORS_LAYOUT_H

#include "base/buf.h"
#include "checkpoint/safetensors.h"

typedef struct fore_safetensors_item {
    const char *name;  /* borrowed */
    const char *dtype; /* as the format spells it; borrowed */
    int dims;
    uint64_t shape[FORE_STORE_DIMS];
    const void *user; /* the caller's: items are sorted */
    /* Filled by the layout. */
    const fore_safetensors_type *type;
    uint64_t bytes, offset; /* offset: from the start of the file */
} fore_safetensors_item;

/* Checks the items (names in UTF-8, each once; known types; sizes that do not overflow), sorts them as they lie in the file
 * (wide types first, so that each lies at a multiple of its type's size) and fills them. The file begins with the bytes of
 * *header (fore_buf_free, also on failure) and has *size bytes in all. FORE_ERR_INVALID names the tensor;
 * FORE_ERR_LIMIT: more than the format can describe. */
fore_status fore_safetensors_layout(fore_safetensors_item *items, size_t count, fore_buf *header, uint64_t *size,
                                    fore_error *err);

#endif
