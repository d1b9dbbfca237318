/* Reads a safetensors file for tests, independently of the library's own store. Anything unexpected ends the test
 * program with a message: golden files are not under test. */
#ifndef FORE_TESTS_TENSORS_H
#define FORE_TESTS_TENSORS_H

#include <stddef.h>

typedef struct golden_file golden_file;
typedef struct golden {
    const char *dtype; /* "F32", "U8", ...; borrowed until golden_close */
    int dims;
    size_t shape[8];
    size_t bytes;
    const void *data; /* borrowed until golden_close; aligned to 64 bytes */
} golden;

golden_file *golden_open(const char *path);
void golden_close(golden_file *file);
/* false: no such tensor */
int golden_find(golden_file *file, const char *name, golden *out);
/* The tensor, which must exist with this dtype. */
golden golden_get(golden_file *file, const char *name, const char *dtype);

/* A whole file, NUL-terminated; free with free. */
char *golden_read(const char *path, size_t *size);

#endif
