/* Reads a safetensors file for tests, independently of the library's own store. Anything unexpected ends the test
 * program with a message: golden files are not under test. */
#ifndef FORE_TESTS_TENSORS_H
#define FORE_TESTS_TENSORS_H

#include <stddef.h>

typedef struct tensor_file tensor_file;
typedef struct tensor_view {
    const char *dtype; /* "F32", "U8", ...; borrowed until tensors_close */
    int dims;
    size_t shape[8];
    size_t bytes;
    const void *data; /* borrowed until tensors_close; aligned to 64 bytes */
} tensor_view;

tensor_file *tensors_open(const char *path);
void tensors_close(tensor_file *file);
/* false: no such tensor */
int tensors_find(tensor_file *file, const char *name, tensor_view *out);
/* The tensor, which must exist with this dtype. */
tensor_view tensors_get(tensor_file *file, const char *name, const char *dtype);

/* A whole file, NUL-terminated; free with free. */
char *read_file(const char *path, size_t *size);

#endif
