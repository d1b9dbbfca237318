/* One GGUF file; see gguf.h. A cursor walks the header; nothing is taken from it before the bytes are known to be there. */
#include "checkpoint/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum {
    MAX_VALUES = 1 << 16,
    MAX_TENSORS = 1 << 16,
    MAX_NAME = 255,         /* bytes of a key or of a tensor's name */
    MAX_NESTING = 4,        /* of arrays in arrays */
    MAX_ALIGNMENT = 1 << 20,
    ALIGNMENT = 32,
};

bool fore_gguf_is_name(const char *path) { return fore_name_ends_with(path, ".gguf"); }

/* ---- walking ----------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const char *path;
    const unsigned char *at, *end, *begin;
    fore_arena *arena;
    fore_error *err;
} reader;

static fore_status truncated(const reader *r, const char *in) {
    return fore_fail(r->err, FORE_ERR_FORMAT, "%s: truncated or corrupt: the file ends within %s", r->path, in);
}

static uint64_t load(const unsigned char *p, int bytes) {
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

/* A number of `bytes` bytes. */
static bool take(reader *r, int bytes, uint64_t *out) {
    if (r->end - r->at < bytes) return false;
    *out = load(r->at, bytes);
    r->at += bytes;
    return true;
}

static bool take_text(reader *r, const char **text, size_t *size) {
    uint64_t n;
    if (!take(r, 8, &n) || n > (uint64_t)(r->end - r->at)) return false;
    *text = (const char *)r->at;
    *size = (size_t)n;
    r->at += n;
    return true;
}

/* A name, copied with a NUL behind it. */
static fore_status take_name(reader *r, const char *what, const char **out) {
    const char *text;
    size_t size;
    if (!take_text(r, &text, &size)) return truncated(r, what);
    if (!size || size > MAX_NAME || memchr(text, 0, size) || fore_utf8_valid_prefix(text, size) != size)
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: %s: expected a name of 1 to %d bytes of UTF-8, found another of %zu", r->path, what,
                         MAX_NAME, size);
    *out = fore_arena_copy(r->arena, text, size);
    return *out ? FORE_OK : fore_fail_nomem(r->err, r->path);
}

static int kind_bytes(fore_gguf_kind kind) {
    static const int bytes[FORE_GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[kind];
}

static fore_status take_kind(reader *r, const char *name, fore_gguf_kind *out) {
    uint64_t kind;
    if (!take(r, 4, &kind)) return truncated(r, name);
    if (kind >= FORE_GGUF_KINDS)
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: %s: its type is %llu; the format has 0 to %d", r->path, name,
                         (unsigned long long)kind, FORE_GGUF_KINDS - 1);
    *out = (fore_gguf_kind)kind;
    return FORE_OK;
}

/* Steps over `count` values of a kind. Every one has at least a byte, so the work is bounded by the file. */
static fore_status skip(reader *r, const char *name, fore_gguf_kind kind, uint64_t count, int depth) {
    int bytes = kind_bytes(kind);
    if (bytes) {
        if (count > (uint64_t)(r->end - r->at) / (uint64_t)bytes) return truncated(r, name);
        r->at += count * (uint64_t)bytes;
        return FORE_OK;
    }
    fore_status s = FORE_OK;
    for (uint64_t i = 0; i < count && !s; i++) {
        const char *text;
        size_t size;
        if (kind == FORE_GGUF_STRING) {
            if (!take_text(r, &text, &size)) s = truncated(r, name);
            continue;
        }
        fore_gguf_kind inner = FORE_GGUF_U8;
        uint64_t n = 0;
        if (depth == MAX_NESTING)
            return fore_fail(r->err, FORE_ERR_LIMIT, "%s: %s: more than %d arrays in one another", r->path, name, MAX_NESTING);
        s = take_kind(r, name, &inner);
        if (!s && !take(r, 8, &n)) s = truncated(r, name);
        if (!s) s = skip(r, name, inner, n, depth + 1);
    }
    return s;
}

/* ---- keys and values --------------------------------------------------------------------------------------------- */

static fore_status read_value(reader *r, fore_gguf_value *v) {
    fore_status s = take_name(r, "a key", &v->name);
    if (!s) s = take_kind(r, v->name, &v->kind);
    if (s) return s;
    v->count = 1;
    if (v->kind == FORE_GGUF_ARRAY) {
        v->array = true;
        s = take_kind(r, v->name, &v->kind);
        if (s) return s;
        if (!take(r, 8, &v->count)) return truncated(r, v->name);
    }
    v->data = r->at;
    s = skip(r, v->name, v->kind, v->count, 0);
    v->end = r->at;
    return s;
}

static int compare_values(const void *a, const void *b) {
    return strcmp(((const fore_gguf_value *)a)->name, ((const fore_gguf_value *)b)->name);
}

static fore_status read_values(reader *r, fore_gguf *f) {
    fore_status s = FORE_OK;
    f->values = fore_arena_alloc(r->arena, f->value_count + 1, sizeof *f->values);
    if (!f->values) return fore_fail_nomem(r->err, r->path);
    for (size_t i = 0; i < f->value_count && !s; i++) s = read_value(r, &f->values[i]);
    if (s) return s;
    qsort(f->values, f->value_count, sizeof *f->values, compare_values);
    for (size_t i = 1; i < f->value_count; i++)
        if (!strcmp(f->values[i].name, f->values[i - 1].name))
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: key %s is there twice", r->path, f->values[i].name);
    return FORE_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Its offset is left in `bytes`' neighbour *offset until the place of the data is known. */
static fore_status read_tensor(reader *r, fore_gguf_tensor *t, uint64_t *offset) {
    uint64_t dims, id, count = 1;
    fore_status s = take_name(r, "a tensor's name", &t->name);
    if (s) return s;
    if (!take(r, 4, &dims)) return truncated(r, t->name);
    if (dims < 1 || dims > FORE_GGUF_DIMS)
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: expected 1 to %d dimensions, found %llu", r->path, t->name, FORE_GGUF_DIMS,
                         (unsigned long long)dims);
    t->dims = (int)dims;
    for (int i = t->dims - 1; i >= 0; i--) {
        if (!take(r, 8, &t->shape[i])) return truncated(r, t->name);
        if (!t->shape[i] || __builtin_mul_overflow(count, t->shape[i], &count) || count > INT64_MAX / 256)
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: its shape has a zero, or overflows", r->path, t->name);
    }
    if (!take(r, 4, &id) || !take(r, 8, offset)) return truncated(r, t->name);
    t->type = fore_gguf_find_type((uint32_t)id);
    if (!t->type)
        return fore_fail(r->err, FORE_ERR_UNSUPPORTED, "%s: tensor %s: type number %llu is unknown; supported: %s", r->path, t->name,
                         (unsigned long long)id, fore_gguf_type_list);
    if (!t->type->block)
        return fore_fail(r->err, FORE_ERR_UNSUPPORTED, "%s: tensor %s: type %s is not supported; supported: %s", r->path, t->name,
                         t->type->name, fore_gguf_type_list);
    uint64_t row = t->shape[t->dims - 1];
    if (row % t->type->block)
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: rows of %llu are no multiple of %s's blocks of %u", r->path, t->name,
                         (unsigned long long)row, t->type->name, t->type->block);
    t->bytes = (size_t)(count / t->type->block * t->type->bytes);
    return FORE_OK;
}

typedef struct span {
    uint64_t begin, end;
    fore_gguf_tensor *tensor;
} span;

static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int compare_tensors(const void *a, const void *b) {
    return strcmp((*(const fore_gguf_tensor *const *)a)->name, (*(const fore_gguf_tensor *const *)b)->name);
}

static fore_status sort_names(const reader *r, fore_gguf *f) {
    const fore_gguf_tensor **list = f->sorted = fore_arena_alloc(r->arena, f->tensor_count + 1, sizeof *list);
    if (!list) return fore_fail_nomem(r->err, r->path);
    for (size_t i = 0; i < f->tensor_count; i++) list[i] = &f->tensors[i];
    qsort(list, f->tensor_count, sizeof *list, compare_tensors);
    for (size_t i = 1; i < f->tensor_count; i++)
        if (!strcmp(list[i]->name, list[i - 1]->name))
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s is there twice", r->path, list[i]->name);
    return FORE_OK;
}

/* Where the tensors lie, of which spans has the offsets: aligned, inside the file, not in one another. */
static fore_status place_tensors(const reader *r, fore_gguf *f, span *spans, uint64_t alignment) {
    uint64_t head = (uint64_t)(r->at - r->begin), size = (uint64_t)(r->end - r->begin);
    uint64_t data = (head + alignment - 1) / alignment * alignment, room = data < size ? size - data : 0;
    for (size_t i = 0; i < f->tensor_count; i++) {
        fore_gguf_tensor *t = &f->tensors[i];
        uint64_t at = spans[i].begin;
        if (at % alignment)
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensor %s: its offset %llu is no multiple of the alignment %llu", r->path, t->name,
                             (unsigned long long)at, (unsigned long long)alignment);
        if (at > room || t->bytes > room - at)
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: truncated or corrupt: tensor %s needs %zu bytes from byte %llu on, the file has "
                             "%llu", r->path, t->name, t->bytes, (unsigned long long)data + at, (unsigned long long)size);
        t->data = r->begin + data + at;
        spans[i].end = at + t->bytes;
        spans[i].tensor = t;
    }
    qsort(spans, f->tensor_count, sizeof *spans, compare_spans);
    for (size_t i = 1; i < f->tensor_count; i++)
        if (spans[i].begin < spans[i - 1].end)
            return fore_fail(r->err, FORE_ERR_FORMAT, "%s: tensors %s and %s overlap", r->path, spans[i - 1].tensor->name,
                             spans[i].tensor->name);
    return FORE_OK;
}

static fore_status read_tensors(reader *r, fore_gguf *f) {
    int64_t alignment;
    fore_status s = fore_gguf_int(f, "general.alignment", 1, MAX_ALIGNMENT, ALIGNMENT, &alignment, r->err);
    if (s) return s;
    if (alignment & (alignment - 1))
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: general.alignment: expected a power of 2, found %lld", r->path, (long long)alignment);
    span *spans = malloc((f->tensor_count + 1) * sizeof *spans);
    f->tensors = fore_arena_alloc(r->arena, f->tensor_count + 1, sizeof *f->tensors);
    if (!spans || !f->tensors) s = fore_fail_nomem(r->err, r->path);
    for (size_t i = 0; i < f->tensor_count && !s; i++) s = read_tensor(r, &f->tensors[i], &spans[i].begin);
    if (!s) s = sort_names(r, f);
    if (!s) s = place_tensors(r, f, spans, (uint64_t)alignment);
    free(spans);
    return s;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static fore_status read_head(reader *r, fore_gguf *f) {
    static const char lfs[] = "version https://git-lfs";
    uint64_t version, tensors, values;
    if (f->map.size >= sizeof lfs - 1 && !memcmp(f->map.data, lfs, sizeof lfs - 1))
        return fore_fail(r->err, FORE_ERR_FORMAT, "%s: a Git LFS pointer, not the weights: fetch them with `git lfs pull`", r->path);
    if (f->map.size < 4 || memcmp(f->map.data, "GGUF", 4)) return fore_fail(r->err, FORE_ERR_FORMAT, "%s: not a GGUF file", r->path);
    r->at += 4;
    if (!take(r, 4, &version)) return truncated(r, "its head");
    if (version && !(version & 0xffff))
        return fore_fail(r->err, FORE_ERR_UNSUPPORTED, "%s: a GGUF file with big-endian numbers; supported: little-endian", r->path);
    if (version != 2 && version != 3)
        return fore_fail(r->err, FORE_ERR_UNSUPPORTED, "%s: version %llu of GGUF; supported: 2 and 3", r->path, (unsigned long long)version);
    if (!take(r, 8, &tensors) || !take(r, 8, &values)) return truncated(r, "its head");
    if (tensors > MAX_TENSORS || values > MAX_VALUES)
        return fore_fail(r->err, FORE_ERR_LIMIT, "%s: %llu tensors and %llu keys; the limits are %d and %d", r->path,
                         (unsigned long long)tensors, (unsigned long long)values, MAX_TENSORS, MAX_VALUES);
    /* A key takes 13 bytes and more, a tensor 33: counts that cannot be right take no memory. */
    uint64_t left = (uint64_t)(r->end - r->at);
    if (values * 13 > left || tensors * 33 > left - values * 13) return truncated(r, "its keys or tensors");
    f->value_count = (size_t)values;
    f->tensor_count = (size_t)tensors;
    return FORE_OK;
}

fore_status fore_gguf_open(const char *path, fore_arena *arena, fore_gguf *out, fore_error *err) {
    *out = (fore_gguf){0};
    fore_status s = fore_map_open(path, &out->map, err);
    if (s) return s;
    const unsigned char *data = out->map.data;
    reader r = {path, data, data ? data + out->map.size : NULL, data, arena, err};
    out->path = fore_arena_copy(arena, path, strlen(path));
    if (!out->path) s = fore_fail_nomem(err, path);
    if (!s) s = read_head(&r, out);
    if (!s) s = read_values(&r, out);
    if (!s) s = read_tensors(&r, out);
    if (s) fore_map_close(&out->map);
    return s;
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

const fore_gguf_value *fore_gguf_get(const fore_gguf *f, const char *name) {
    const fore_gguf_value key = {.name = name};
    return f->value_count ? bsearch(&key, f->values, f->value_count, sizeof key, compare_values) : NULL;
}

static fore_status wrong(const fore_gguf *f, const char *name, const char *expected, fore_error *err) {
    return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: expected %s", f->path, name, expected);
}

/* A whole number of any width; false: not one that 63 bits hold. */
static bool whole(const fore_gguf_value *v, int64_t *out) {
    if (v->array) return false; /* which may be empty, at the end of the file */
    int bytes = kind_bytes(v->kind);
    uint64_t raw = bytes ? load(v->data, bytes) : 0;
    switch (v->kind) {
    case FORE_GGUF_U8: case FORE_GGUF_U16: case FORE_GGUF_U32: *out = (int64_t)raw; return true;
    case FORE_GGUF_I8: *out = (int8_t)raw; return true;
    case FORE_GGUF_I16: *out = (int16_t)raw; return true;
    case FORE_GGUF_I32: *out = (int32_t)raw; return true;
    case FORE_GGUF_U64: case FORE_GGUF_I64: *out = (int64_t)raw; return v->kind == FORE_GGUF_I64 || raw <= INT64_MAX;
    default: return false;
    }
}

fore_status fore_gguf_int(const fore_gguf *f, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out,
                          fore_error *err) {
    const fore_gguf_value *v = fore_gguf_get(f, name);
    *out = fallback;
    if (!v) return FORE_OK;
    int64_t n;
    if (!whole(v, &n) || n < low || n > high)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: expected a whole number from %lld to %lld", f->path, name, (long long)low,
                         (long long)high);
    *out = n;
    return FORE_OK;
}

double fore_gguf_member(const fore_gguf_value *v, uint64_t i) {
    int bytes = kind_bytes(v->kind);
    const unsigned char *p = v->data + i * (uint64_t)bytes;
    const fore_gguf_value one = {.kind = v->kind, .count = 1, .data = p};
    int64_t n;
    float f;
    double d;
    uint32_t half = bytes == 4 ? (uint32_t)load(p, 4) : 0;
    uint64_t full = bytes == 8 ? load(p, 8) : 0;
    if (v->kind == FORE_GGUF_F32) return memcpy(&f, &half, sizeof f), (double)f;
    if (v->kind == FORE_GGUF_F64) return memcpy(&d, &full, sizeof d), d;
    if (v->kind == FORE_GGUF_BOOL) return p[0] != 0;
    if (v->kind == FORE_GGUF_U64) return (double)full;
    return bytes && whole(&one, &n) ? (double)n : 0;
}

fore_status fore_gguf_number(const fore_gguf *f, const char *name, double fallback, double *out, fore_error *err) {
    const fore_gguf_value *v = fore_gguf_get(f, name);
    *out = fallback;
    if (!v) return FORE_OK;
    if (v->array || v->kind == FORE_GGUF_STRING || v->kind == FORE_GGUF_BOOL) return wrong(f, name, "a number", err);
    *out = fore_gguf_member(v, 0);
    return FORE_OK;
}

const char *fore_gguf_next(const unsigned char **at, size_t *size) {
    *size = (size_t)load(*at, 8);
    const char *text = (const char *)*at + 8;
    *at = (const unsigned char *)text + *size;
    return text;
}

fore_status fore_gguf_text(const fore_gguf *f, const char *name, const char **text, size_t *size, fore_error *err) {
    const fore_gguf_value *v = fore_gguf_get(f, name);
    *text = NULL;
    *size = 0;
    if (!v) return FORE_OK;
    if (v->array || v->kind != FORE_GGUF_STRING) return wrong(f, name, "a text", err);
    const unsigned char *at = v->data;
    *text = fore_gguf_next(&at, size);
    if (memchr(*text, 0, *size) || fore_utf8_valid_prefix(*text, *size) != *size) return wrong(f, name, "UTF-8 without a zero byte", err);
    return FORE_OK;
}

bool fore_gguf_text_is(const fore_gguf *f, const char *name, const char *text) {
    const char *have;
    size_t size;
    return !fore_gguf_text(f, name, &have, &size, NULL) && have && size == strlen(text) && !memcmp(have, text, size);
}

fore_status fore_gguf_array(const fore_gguf *f, const char *name, fore_gguf_kind kind, const fore_gguf_value **out, fore_error *err) {
    const fore_gguf_value *v = fore_gguf_get(f, name);
    *out = NULL;
    if (v && (!v->array || v->kind != kind)) return wrong(f, name, "a list, of another kind of members", err);
    *out = v;
    return FORE_OK;
}

const fore_gguf_tensor *fore_gguf_find(const fore_gguf *f, const char *name) {
    size_t low = 0, high = f->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, f->sorted[middle]->name);
        if (!order) return f->sorted[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}
