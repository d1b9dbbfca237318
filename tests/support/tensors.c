/* The tests' own reader of safetensors files; see tensors.h. */
#include "support/tensors.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct copy {
    struct copy *next;
    const void *from;
    void *data;
} copy;

struct tensor_file {
    char *bytes;
    size_t size, start; /* start of the data */
    cJSON *header;
    copy *copies; /* aligned copies that were handed out */
};

static _Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void give_up(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(99);
}

char *read_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) give_up("%s: cannot be opened", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *bytes = n < 0 ? NULL : malloc((size_t)n + 1);
    if (!bytes || fread(bytes, 1, (size_t)n, f) != (size_t)n) give_up("%s: cannot be read", path);
    fclose(f);
    bytes[n] = 0;
    if (size) *size = (size_t)n;
    return bytes;
}

tensor_file *tensors_open(const char *path) {
    tensor_file *file = calloc(1, sizeof *file);
    if (!file) give_up("out of memory");
    file->bytes = read_file(path, &file->size);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | (unsigned char)file->bytes[i];
    if (file->size < 8 || length > file->size - 8) give_up("%s: not a safetensors file", path);
    file->start = 8 + (size_t)length;
    file->header = cJSON_ParseWithLength(file->bytes + 8, (size_t)length);
    if (!file->header) give_up("%s: its header is not JSON", path);
    return file;
}

void tensors_close(tensor_file *file) {
    for (copy *c = file->copies, *next; c; c = next) {
        next = c->next;
        free(c->data);
        free(c);
    }
    cJSON_Delete(file->header);
    free(file->bytes);
    free(file);
}

static const void *aligned(tensor_file *file, const char *from, size_t bytes) {
    for (copy *c = file->copies; c; c = c->next)
        if (c->from == from) return c->data;
    copy *c = calloc(1, sizeof *c);
    void *data = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!c || !data) give_up("out of memory");
    memcpy(data, from, bytes);
    *c = (copy){.next = file->copies, .from = from, .data = data};
    file->copies = c;
    return data;
}

int tensors_find(tensor_file *file, const char *name, tensor_view *out) {
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(file->header, name);
    if (!entry) return 0;
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape"), *side;
    size_t begin = (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble;
    size_t end = (size_t)cJSON_GetArrayItem(offsets, 1)->valuedouble;
    *out = (tensor_view){.dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype")->valuestring, .bytes = end - begin};
    if (end < begin || end > file->size - file->start) give_up("%s: outside the file", name);
    cJSON_ArrayForEach(side, shape) {
        if (out->dims == 8) give_up("%s: more than 8 dimensions", name);
        out->shape[out->dims++] = (size_t)side->valuedouble;
    }
    out->data = aligned(file, file->bytes + file->start + begin, out->bytes);
    return 1;
}

tensor_view tensors_get(tensor_file *file, const char *name, const char *dtype) {
    tensor_view g;
    if (!tensors_find(file, name, &g)) give_up("%s: no such tensor", name);
    if (strcmp(g.dtype, dtype) != 0) give_up("%s: dtype %s, expected %s", name, g.dtype, dtype);
    return g;
}
