/* One safetensors file; see safetensors.h. As the format demands, the data must be covered by tensors without overlap
 * and without holes, and must end where the file ends. */
#include "checkpoint/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const fore_safetensors_type types[] = {
    {"F32", 32, FORE_DTYPE_F32},     {"BF16", 16, FORE_DTYPE_BF16},     {"F16", 16, FORE_DTYPE_F16},
    {"I32", 32, FORE_DTYPE_I32},     {"I64", 64, FORE_DTYPE_I64},       {"U8", 8, FORE_DTYPE_U8},
    {"F64", 64, FORE_DTYPE_OTHER},   {"U64", 64, FORE_DTYPE_OTHER},     {"C64", 64, FORE_DTYPE_OTHER},
    {"U32", 32, FORE_DTYPE_U32},   {"I16", 16, FORE_DTYPE_OTHER},     {"U16", 16, FORE_DTYPE_OTHER},
    {"I8", 8, FORE_DTYPE_OTHER},     {"BOOL", 8, FORE_DTYPE_OTHER},     {"F8_E4M3", 8, FORE_DTYPE_OTHER},
    {"F8_E5M2", 8, FORE_DTYPE_OTHER}, {"F8_E8M0", 8, FORE_DTYPE_OTHER}, {"F6_E2M3", 6, FORE_DTYPE_OTHER},
    {"F6_E3M2", 6, FORE_DTYPE_OTHER}, {"F4", 4, FORE_DTYPE_OTHER},
};

const fore_safetensors_type *fore_safetensors_find_type(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(types[i].name, name)) return &types[i];
    return NULL;
}

bool fore_safetensors_bytes(const fore_safetensors_type *type, int dims, const uint64_t *shape, uint64_t *bytes) {
    uint64_t n = 1;
    for (int i = 0; i < dims; i++)
        if (__builtin_mul_overflow(n, shape[i], &n)) return false;
    if (__builtin_mul_overflow(n, (uint64_t)type->bits, &n) || n % 8) return false;
    *bytes = n / 8;
    return *bytes <= SIZE_MAX / 2;
}

typedef struct reader {
    const char *path;
    const unsigned char *data; /* after the header */
    uint64_t data_size;
    uint64_t begin_of_data;
    fore_error *err;
} reader;

/* A whole number that a double holds exactly. */
static bool whole(const cJSON *item, uint64_t *out) {
    if (!cJSON_IsNumber(item)) return false;
    double v = item->valuedouble;
    if (!(v >= 0 && v <= 9007199254740992.0) || v != floor(v)) return false;
    *out = (uint64_t)v;
    return true;
}

static fore_status read_shape(const reader *r, const cJSON *item, fore_entry *e) {
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape");
    if (!cJSON_IsArray(shape))
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: expected a list \"shape\", found none", r->path, e->name);
    for (const cJSON *d = shape->child; d; d = d->next) {
        if (e->dims == FORE_STORE_DIMS)
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: expected at most %d dimensions, found %d", r->path,
                             e->name, FORE_STORE_DIMS, cJSON_GetArraySize(shape));
        if (!whole(d, &e->shape[e->dims]))
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: dimension %d of the shape is not a whole number",
                             r->path, e->name, e->dims);
        e->dims++;
    }
    return FORE_OK;
}

static fore_status read_offsets(const reader *r, const cJSON *item, fore_entry *e, uint64_t *begin, uint64_t *end) {
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !whole(offsets->child, begin) ||
        !whole(offsets->child->next, end))
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: expected \"data_offsets\": [begin, end]", r->path, e->name);
    if (*begin > *end)
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: begins at byte %llu of the data and ends before, at %llu",
                         r->path, e->name, (unsigned long long)*begin, (unsigned long long)*end);
    return FORE_OK;
}

/* Fills all but data, which has to wait until the file is known to be long enough. */
static fore_status read_entry(const reader *r, const cJSON *item, fore_entry *e, uint64_t *begin, uint64_t *end) {
    if (!cJSON_IsObject(item))
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: expected an object in the header", r->path, e->name);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    if (!cJSON_IsString(name))
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: expected a string \"dtype\"", r->path, e->name);
    const fore_safetensors_type *type = fore_safetensors_find_type(name->valuestring);
    if (!type)
        return fore_fail(r->err, FORE_ERR_UNSUPPORTED, "%s: tensor %s: unknown dtype %s", r->path, e->name, name->valuestring);
    e->dtype_name = type->name;
    e->dtype = type->dtype;
    fore_status s = read_shape(r, item, e);
    if (!s) s = read_offsets(r, item, e, begin, end);
    if (s) return s;
    uint64_t bytes;
    if (!fore_safetensors_bytes(type, e->dims, e->shape, &bytes))
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: the size of its %s shape is no whole number of bytes or "
                         "overflows", r->path, e->name, type->name);
    if (bytes != *end - *begin)
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: its shape in %s needs %llu bytes, its offsets give %llu",
                         r->path, e->name, type->name, (unsigned long long)bytes, (unsigned long long)(*end - *begin));
    e->bytes = (size_t)bytes;
    return FORE_OK;
}

typedef struct span {
    uint64_t begin, end;
    fore_entry *entry;
} span;

static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Spans against the file's size and each other. Sorts them. */
static fore_status check_spans(const reader *r, span *spans, size_t count) {
    uint64_t need = 0;
    for (size_t i = 0; i < count; i++)
        if (spans[i].end > need) need = spans[i].end;
    if (need > r->data_size)
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: truncated or corrupt: the header describes %llu bytes, the file has "
                         "%llu", r->path, (unsigned long long)(need + r->begin_of_data),
                         (unsigned long long)(r->data_size + r->begin_of_data));
    qsort(spans, count, sizeof *spans, compare_spans);
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (spans[i].begin < at)
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensors %s and %s overlap at byte %llu of the data", r->path,
                             spans[i - 1].entry->name, spans[i].entry->name, (unsigned long long)spans[i].begin);
        if (spans[i].begin > at)
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: bytes %llu to %llu of the data, before tensor %s, belong to no "
                             "tensor", r->path, (unsigned long long)at, (unsigned long long)spans[i].begin, spans[i].entry->name);
        at = spans[i].end;
    }
    if (at != r->data_size)
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: the header describes %llu bytes, the file has %llu: something follows "
                         "the last tensor", r->path, (unsigned long long)(at + r->begin_of_data),
                         (unsigned long long)(r->data_size + r->begin_of_data));
    return FORE_OK;
}

/* Copies all names into one block; *count tensors, __metadata__ left out. */
static fore_status make_entries(const cJSON *header, int file, fore_arena *arena, fore_entry **entries, size_t *count) {
    size_t n = 0, text = 0;
    for (const cJSON *c = header->child; c; c = c->next) {
        if (!strcmp(c->string, "__metadata__")) continue;
        text += strlen(c->string) + 1;
        n++;
    }
    fore_entry *e = fore_arena_alloc(arena, n, sizeof *e);
    char *names = fore_arena_alloc(arena, text, 1);
    if (!e || !names) return FORE_ERR_NOMEM;
    size_t i = 0;
    for (const cJSON *c = header->child; c; c = c->next) {
        if (!strcmp(c->string, "__metadata__")) continue;
        size_t size = strlen(c->string) + 1;
        memcpy(names, c->string, size);
        e[i].name = names;
        e[i++].file = file;
        names += size;
    }
    *entries = e;
    *count = n;
    return FORE_OK;
}

static fore_status read_header(const reader *r, const cJSON *header, int file, fore_arena *arena, fore_entry **entries,
                               size_t *count) {
    if (!cJSON_IsObject(header)) return fore_fail(r->err, FORE_ERR_FORMAT, "%s: the header is not a JSON object", r->path);
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(header, "__metadata__");
    if (metadata && !cJSON_IsObject(metadata))
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: __metadata__ of the header is not an object", r->path);
    fore_entry *e;
    size_t n;
    if (make_entries(header, file, arena, &e, &n)) return fore_fail_nomem(r->err, r->path);
    span *spans = malloc((n + 1) * sizeof *spans);
    if (!spans) return fore_fail_nomem(r->err, r->path);
    size_t i = 0;
    fore_status s = FORE_OK;
    for (const cJSON *c = header->child; c && !s; c = c->next) {
        if (!strcmp(c->string, "__metadata__")) continue;
        s = read_entry(r, c, &e[i], &spans[i].begin, &spans[i].end);
        spans[i].entry = &e[i];
        i++;
    }
    if (!s) s = check_spans(r, spans, n);
    for (i = 0; i < n && !s; i++) spans[i].entry->data = r->data + spans[i].begin;
    free(spans);
    *entries = e;
    *count = n;
    return s;
}

static fore_status refuse_pointer(const char *path, const fore_map *map, fore_error *err) {
    static const char lfs[] = "version https://git-lfs";
    if (map->size >= sizeof lfs - 1 && !memcmp(map->data, lfs, sizeof lfs - 1))
        return fore_fail(err, FORE_ERR_FORMAT, "%s: a Git LFS pointer, not the weights: fetch them with `git lfs pull`", path);
    return FORE_OK;
}

fore_status fore_safetensors_open(const char *path, int file_number, fore_arena *arena, fore_map *map,
                                  fore_entry **entries, size_t *count, fore_error *err) {
    *entries = NULL;
    *count = 0;
    fore_status s = fore_map_open(path, map, err);
    if (s) return s;
    cJSON *header = NULL;
    s = refuse_pointer(path, map, err);
    if (s) goto done;
    if (map->size < 8) {
        s = fore_fail(err, FORE_ERR_FORMAT, "%s: truncated: expected at least 8 bytes, found %zu", path, map->size);
        goto done;
    }
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | map->data[i];
    if (length > FORE_SAFETENSORS_MAX_HEADER) {
        s = fore_fail(err, FORE_ERR_FORMAT, "%s: not a safetensors file: its header would have %llu bytes, the limit is %d",
                      path, (unsigned long long)length, FORE_SAFETENSORS_MAX_HEADER);
        goto done;
    }
    if (length > map->size - 8) {
        s = fore_fail(err, FORE_ERR_FORMAT, "%s: truncated or not a safetensors file: the header needs %llu bytes, the file "
                      "has %zu", path, (unsigned long long)length + 8, map->size);
        goto done;
    }
    const char *text = (const char *)map->data + 8;
    s = fore_json_parse_part(text, (size_t)length, map->size, "header", &header, err);
    if (s) {
        s = fore_fail_prefix(err, s, "%s", path);
        goto done;
    }
    const reader r = {.path = path, .data = map->data + 8 + length, .data_size = map->size - 8 - length,
                      .begin_of_data = 8 + length, .err = err};
    s = read_header(&r, header, file_number, arena, entries, count);
done:
    cJSON_Delete(header);
    if (s) fore_map_close(map);
    return s;
}
