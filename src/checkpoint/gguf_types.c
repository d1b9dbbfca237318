/* The table of GGUF's types; see gguf_types.h. */
#include "checkpoint/gguf_types.h"

#include <string.h>

const char fore_gguf_type_list[] =
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, IQ4_XS, Q2_K, Q3_K, Q4_K, Q5_K and Q6_K";

static const fore_gguf_type types[] = {
    {"F32", FORE_GGUF_TYPE_F32, 1, 4, FORE_DTYPE_F32},
    {"F16", FORE_GGUF_TYPE_F16, 1, 2, FORE_DTYPE_F16},
    {"BF16", FORE_GGUF_TYPE_BF16, 1, 2, FORE_DTYPE_BF16},
    {"Q4_0", FORE_GGUF_TYPE_Q4_0, 32, 18, FORE_DTYPE_OTHER},
    {"Q4_1", FORE_GGUF_TYPE_Q4_1, 32, 20, FORE_DTYPE_OTHER},
    {"Q5_0", FORE_GGUF_TYPE_Q5_0, 32, 22, FORE_DTYPE_OTHER},
    {"Q5_1", FORE_GGUF_TYPE_Q5_1, 32, 24, FORE_DTYPE_OTHER},
    {"Q8_0", FORE_GGUF_TYPE_Q8_0, 32, 34, FORE_DTYPE_OTHER},
    {"IQ4_NL", FORE_GGUF_TYPE_IQ4_NL, 32, 18, FORE_DTYPE_OTHER},
    {"IQ4_XS", FORE_GGUF_TYPE_IQ4_XS, 256, 136, FORE_DTYPE_OTHER},
    {"Q2_K", FORE_GGUF_TYPE_Q2_K, 256, 84, FORE_DTYPE_OTHER},
    {"Q3_K", FORE_GGUF_TYPE_Q3_K, 256, 110, FORE_DTYPE_OTHER},
    {"Q4_K", FORE_GGUF_TYPE_Q4_K, 256, 144, FORE_DTYPE_OTHER},
    {"Q5_K", FORE_GGUF_TYPE_Q5_K, 256, 176, FORE_DTYPE_OTHER},
    {"Q6_K", FORE_GGUF_TYPE_Q6_K, 256, 210, FORE_DTYPE_OTHER},
    {"Q8_1", 9, 0, 0, FORE_DTYPE_OTHER},
    {"Q8_K", 15, 0, 0, FORE_DTYPE_OTHER},
    {"IQ2_XXS", 16, 0, 0, FORE_DTYPE_OTHER},
    {"IQ2_XS", 17, 0, 0, FORE_DTYPE_OTHER},
    {"IQ3_XXS", 18, 0, 0, FORE_DTYPE_OTHER},
    {"IQ1_S", 19, 0, 0, FORE_DTYPE_OTHER},
    {"IQ3_S", 21, 0, 0, FORE_DTYPE_OTHER},
    {"IQ2_S", 22, 0, 0, FORE_DTYPE_OTHER},
    {"I8", 24, 0, 0, FORE_DTYPE_OTHER},
    {"I16", 25, 0, 0, FORE_DTYPE_OTHER},
    {"I32", 26, 0, 0, FORE_DTYPE_OTHER},
    {"I64", 27, 0, 0, FORE_DTYPE_OTHER},
    {"F64", 28, 0, 0, FORE_DTYPE_OTHER},
    {"IQ1_M", 29, 0, 0, FORE_DTYPE_OTHER},
    {"TQ1_0", 34, 0, 0, FORE_DTYPE_OTHER},
    {"TQ2_0", 35, 0, 0, FORE_DTYPE_OTHER},
    {"MXFP4", 39, 0, 0, FORE_DTYPE_OTHER},
    {"NVFP4", 40, 0, 0, FORE_DTYPE_OTHER},
    {"Q1_0", 41, 0, 0, FORE_DTYPE_OTHER},
    {"Q2_0", 42, 0, 0, FORE_DTYPE_OTHER},
};
enum { TYPES = sizeof types / sizeof *types };

const fore_gguf_type *fore_gguf_find_type(uint32_t id) {
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

const fore_gguf_type *fore_gguf_find_blocks(const char *name) {
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].block > 1 && !strcmp(types[i].name, name)) return &types[i];
    return NULL;
}
