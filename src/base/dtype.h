/* Element types of stored tensors. */
#ifndef FORE_BASE_DTYPE_H
#define FORE_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum fore_dtype {
    FORE_DTYPE_OTHER, /* known to the file format, not to this program */
    FORE_DTYPE_F32,
    FORE_DTYPE_F16,
    FORE_DTYPE_BF16,
    FORE_DTYPE_I32,
    FORE_DTYPE_I64,
    FORE_DTYPE_U32,
    FORE_DTYPE_U8,
    FORE_DTYPE_I8, /* of scales in panels (kernels/quant.h) alone; to the files' reader it is another type */
} fore_dtype;

static inline bool fore_dtype_is_float(fore_dtype dtype) {
    return dtype == FORE_DTYPE_F32 || dtype == FORE_DTYPE_F16 || dtype == FORE_DTYPE_BF16;
}
/* Bytes of a float of that type. */
static inline size_t fore_dtype_size(fore_dtype dtype) { return dtype == FORE_DTYPE_F32 ? 4 : 2; }

#endif
