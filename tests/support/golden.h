/* Golden tensors: a safetensors file made by the reference implementation, and comparison by the largest difference relative
 * to the largest reference value. */
#ifndef FORE_TESTS_GOLDEN_H
#define FORE_TESTS_GOLDEN_H

#include "foresight.h"

typedef struct golden {
    fore_tensor_file *file;
    const char *path;
    double worst;     /* largest relative difference so far */
    char worst_name[96];
} golden;

void golden_open(golden *g, const char *path); /* fails the test when it cannot be opened */
void golden_close(golden *g);
const fore_tensor *golden_find(const golden *g, const char *name); /* NULL: not in this file */
const float *golden_f32(const golden *g, const char *name, size_t count);   /* fails the test when absent or of another size */
const int32_t *golden_i32(const golden *g, const char *name, size_t count);
size_t golden_count(const fore_tensor *t);
/* |ours - reference| <= tolerance * max |reference|, over count values; fails the test with the name and the index. */
void golden_compare(golden *g, const char *name, const float *ours, size_t count, double tolerance);

#endif
