/* The element types of GGUF's tensors: their names, and how many bytes hold how many numbers. What the bytes say is model's business
 * (model/gguf_blocks.h). */
#ifndef FORE_CHECKPOINT_GGUF_TYPES_H
#define FORE_CHECKPOINT_GGUF_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

/* As the format numbers the types that are read. */
typedef enum fore_gguf_type_id {
    FORE_GGUF_TYPE_F32 = 0,
    FORE_GGUF_TYPE_F16 = 1,
    FORE_GGUF_TYPE_Q4_0 = 2,
    FORE_GGUF_TYPE_Q4_1 = 3,
    FORE_GGUF_TYPE_Q5_0 = 6,
    FORE_GGUF_TYPE_Q5_1 = 7,
    FORE_GGUF_TYPE_Q8_0 = 8,
    FORE_GGUF_TYPE_Q2_K = 10,
    FORE_GGUF_TYPE_Q3_K = 11,
    FORE_GGUF_TYPE_Q4_K = 12,
    FORE_GGUF_TYPE_Q5_K = 13,
    FORE_GGUF_TYPE_Q6_K = 14,
    FORE_GGUF_TYPE_IQ4_NL = 20,
    FORE_GGUF_TYPE_IQ4_XS = 23,
    FORE_GGUF_TYPE_BF16 = 30,
} fore_gguf_type_id;

typedef struct fore_gguf_type {
    const char *name; /* static; as the format's home spells it */
    uint32_t id;
    unsigned block, bytes; /* numbers in a block, and bytes of it; 0: known by name alone, not read */
    fore_dtype dtype;      /* OTHER: packed in blocks */
} fore_gguf_type;

/* NULL: not even its name is known. */
const fore_gguf_type *fore_gguf_find_type(uint32_t id);
/* By name, of the types that are packed in blocks; NULL: none. */
const fore_gguf_type *fore_gguf_find_blocks(const char *name);
/* What is read, for messages. */
extern const char fore_gguf_type_list[];

#endif
