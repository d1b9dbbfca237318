/* GGUF files with something wrong in them; see mutate.h. The walk trusts the file: it is one of the test data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/mutate.h"

enum { MOST_FIELDS = 8192, MOST_PARTS = 1024, ALIGNMENT = 32 };

typedef enum kind { HEAD, KEY_LENGTH, TYPE, NUMBER, COUNT, TEXT_LENGTH, MEMBER, NAME_LENGTH, DIMS, AXIS, BLOCK, OFFSET, KINDS } kind;
static const char *const kind_names[KINDS] = {"head", "length of a key", "type", "value", "count of a list", "length of a text", "member",
                                              "length of a name", "dimensions", "axis", "type of a tensor", "offset"};

typedef struct field {
    size_t at;
    int bytes;
    kind what;
    size_t name, name_size; /* of the key or tensor that it belongs to */
} field;

typedef struct part {
    size_t begin, end; /* a key with its value, or a tensor's entry */
} part;

typedef struct walk {
    const unsigned char *data;
    size_t size, at, header; /* the header's end, before the padding */
    field fields[MOST_FIELDS];
    size_t field_count;
    part keys[MOST_PARTS], tensors[MOST_PARTS];
    size_t key_count, tensor_count;
    size_t name, name_size;
} walk;

static uint64_t load(const unsigned char *p, int bytes) {
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static void store(unsigned char *p, int bytes, uint64_t v) {
    for (int i = 0; i < bytes; i++) p[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t take(walk *w, int bytes, kind what) {
    assert_true(w->at + (size_t)bytes <= w->size);
    uint64_t v = load(w->data + w->at, bytes);
    if (w->field_count < MOST_FIELDS) w->fields[w->field_count++] = (field){w->at, bytes, what, w->name, w->name_size};
    w->at += (size_t)bytes;
    return v;
}

static void take_name(walk *w, kind what) {
    size_t n = (size_t)take(w, 8, what);
    w->name = w->at;
    w->name_size = n;
    w->fields[w->field_count - 1].name = w->name;
    w->fields[w->field_count - 1].name_size = n;
    w->at += n;
}

static void take_value(walk *w, uint64_t type, kind what) {
    static const int bytes[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    assert_true(type < 13);
    if (type == 8) {
        w->at += (size_t)take(w, 8, TEXT_LENGTH);
    } else if (type == 9) {
        uint64_t inner = take(w, 4, TYPE), n = take(w, 8, COUNT);
        for (uint64_t i = 0; i < n; i++) take_value(w, inner, MEMBER);
    } else {
        take(w, bytes[type], what);
    }
}

static walk *walk_file(const void *data, size_t size) {
    walk *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->data = data;
    w->size = size;
    take(w, 4, HEAD);
    take(w, 4, HEAD);
    w->tensor_count = (size_t)take(w, 8, HEAD);
    w->key_count = (size_t)take(w, 8, HEAD);
    assert_true(w->tensor_count <= MOST_PARTS && w->key_count <= MOST_PARTS);
    for (size_t i = 0; i < w->key_count; i++) {
        w->keys[i].begin = w->at;
        take_name(w, KEY_LENGTH);
        take_value(w, take(w, 4, TYPE), NUMBER);
        w->keys[i].end = w->at;
    }
    for (size_t i = 0; i < w->tensor_count; i++) {
        w->tensors[i].begin = w->at;
        take_name(w, NAME_LENGTH);
        uint64_t dims = take(w, 4, DIMS);
        for (uint64_t k = 0; k < dims; k++) take(w, 8, AXIS);
        take(w, 4, BLOCK);
        take(w, 8, OFFSET);
        w->tensors[i].end = w->at;
    }
    w->header = w->at;
    return w;
}

static size_t data_begin(const walk *w) {
    size_t at = (w->header + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at < w->size ? at : w->size;
}

/* The file from its parts, in this order. */
typedef struct order {
    part keys[MOST_PARTS], tensors[MOST_PARTS];
    size_t key_count, tensor_count;
    const unsigned char *more; /* further keys */
    size_t more_size, more_count, alignment;
} order;

static void append(mutant *out, const void *data, size_t size) {
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void build(const walk *w, const order *o, mutant *out) {
    size_t data = data_begin(w);
    mutant_copy(out, w->data, 24, 2 * w->size + o->more_size + 64); /* a part may be there twice */
    store(out->data + 8, 8, o->tensor_count);
    store(out->data + 16, 8, o->key_count + o->more_count);
    for (size_t i = 0; i < o->key_count; i++) append(out, w->data + o->keys[i].begin, o->keys[i].end - o->keys[i].begin);
    if (o->more_size) append(out, o->more, o->more_size);
    for (size_t i = 0; i < o->tensor_count; i++) append(out, w->data + o->tensors[i].begin, o->tensors[i].end - o->tensors[i].begin);
    while (out->size % o->alignment) out->data[out->size++] = 0;
    append(out, w->data + data, w->size - data);
}

static order *same_order(const walk *w) {
    order *o = calloc(1, sizeof *o);
    assert_non_null(o);
    memcpy(o->keys, w->keys, sizeof o->keys);
    memcpy(o->tensors, w->tensors, sizeof o->tensors);
    o->key_count = w->key_count;
    o->tensor_count = w->tensor_count;
    o->alignment = ALIGNMENT;
    return o;
}

static void turn(part *p, size_t n) {
    for (size_t i = 0; i < n / 2; i++) {
        part t = p[i];
        p[i] = p[n - 1 - i];
        p[n - 1 - i] = t;
    }
}

static size_t put_key(unsigned char *at, const char *name, uint32_t type) {
    size_t n = strlen(name);
    store(at, 8, n);
    memcpy(at + 8, name, n);
    store(at + 8 + n, 4, type);
    return 12 + n;
}

/* Parts left out, twice, in another order, or more of them. */
static void rearrange(dice *d, const walk *w, mutant *out) {
    order *o = same_order(w);
    unsigned char *more = malloc(1 << 20);
    assert_non_null(more);
    o->more = more;
    bool keys = dice_roll(d, 2) || !o->tensor_count;
    part *list = keys ? o->keys : o->tensors;
    size_t *n = keys ? &o->key_count : &o->tensor_count, at = dice_roll(d, *n);
    const part *p = &list[at];
    size_t length = (size_t)load(w->data + p->begin, 8);
    mutant_says(out, "%.*s: ", (int)length, (const char *)w->data + p->begin + 8);
    switch (dice_roll(d, 8)) {
    case 0: case 1: case 2:
        mutant_says(out, "not there");
        memmove(list + at, list + at + 1, (--*n - at) * sizeof *list);
        break;
    case 3:
        mutant_says(out, "twice");
        list[*n] = list[at];
        ++*n;
        break;
    case 4:
        out->what[0] = 0;
        mutant_says(out, "keys and tensors in the other order");
        turn(o->keys, o->key_count);
        turn(o->tensors, o->tensor_count);
        out->same = true;
        break;
    case 5:
        out->what[0] = 0;
        mutant_says(out, "keys that nobody knows, another alignment");
        o->more_size = put_key(more, "nobody.knows", 9);
        store(more + o->more_size, 4, 9);
        store(more + o->more_size + 4, 8, 1);
        store(more + o->more_size + 12, 4, 5);
        store(more + o->more_size + 16, 8, 2);
        memset(more + o->more_size + 24, 0xff, 8);
        o->more_size += 32;
        o->more_size += put_key(more + o->more_size, "general.alignment", 4);
        store(more + o->more_size, 4, 8);
        o->more_size += 4;
        o->more_count = 2;
        o->alignment = 8;
        out->same = true;
        break;
    case 6: {
        out->what[0] = 0;
        uint32_t deep = dice_roll(d, 2) ? 60000 : 5;
        mutant_says(out, "%u lists in one another", deep);
        o->more_size = put_key(more, "nobody.knows", 9);
        for (uint32_t i = 0; i < deep; i++) {
            store(more + o->more_size, 4, 9);
            store(more + o->more_size + 4, 8, 1);
            o->more_size += 12;
        }
        o->more_count = 1;
        break;
    }
    default: /* padding as another alignment has it */
        out->what[0] = 0;
        o->alignment = 8;
        mutant_says(out, "data at 8 bytes");
    }
    build(w, o, out);
    free(more);
    free(o);
}

void mutate_gguf_keys(const void *data, size_t size, const char *const *without, const unsigned char *more, size_t more_size, size_t count,
                      mutant *out) {
    walk *w = walk_file(data, size);
    order *o = same_order(w);
    o->key_count = 0;
    for (size_t i = 0; i < w->key_count; i++) {
        const unsigned char *name = w->data + w->keys[i].begin + 8;
        size_t n = (size_t)load(name - 8, 8);
        bool stays = true;
        for (int k = 0; without[k]; k++) stays = stays && (strlen(without[k]) != n || memcmp(without[k], name, n) != 0);
        if (stays) o->keys[o->key_count++] = w->keys[i];
    }
    o->more = more;
    o->more_size = more_size;
    o->more_count = count;
    build(w, o, out);
    free(o);
    free(w);
}

static uint64_t other_value(dice *d, const walk *w, const field *f) {
    const uint64_t old = load(w->data + f->at, f->bytes);
    const uint64_t values[] = {0, 1, 2, 7, old + 1, old - 1, old * 2, old / 2, UINT64_C(1) << 31, (UINT64_C(1) << 31) - 1, UINT32_MAX,
                               UINT64_C(1) << 63, INT64_MAX, UINT64_MAX, UINT64_MAX - 7, w->size, w->size * 4, 1 << 24, 4096, 65536,
                               0x7f800000 /* infinite */, 0x7fc00000 /* no number */, 0xff7fffff, 1};
    if (f->what == TYPE) return dice_roll(d, 14);
    if (f->what == BLOCK) return dice_roll(d, 42);
    if (f->what == DIMS) return dice_roll(d, 7);
    return values[dice_roll(d, sizeof values / sizeof *values)];
}

static void change_field(dice *d, const walk *w, mutant *out) {
    kind what = (kind)dice_roll(d, KINDS);
    size_t first = dice_roll(d, w->field_count);
    /* Half of the time a value of the metadata: they are few beside the members of the token lists. */
    if (dice_roll(d, 2)) what = NUMBER;
    for (size_t i = 0; i < w->field_count; i++) {
        const field *f = &w->fields[(first + i) % w->field_count];
        if (f->what != what) continue;
        uint64_t v = other_value(d, w, f);
        mutant_copy(out, w->data, w->size, 0);
        store(out->data + f->at, f->bytes, v);
        mutant_says(out, "%.*s: %s %llu", (int)f->name_size, (const char *)w->data + f->name, kind_names[what], (unsigned long long)v);
        return;
    }
    mutate_bytes(d, w->data, w->size, out);
}

void mutate_gguf(dice *d, const void *data, size_t size, mutant *out) {
    walk *w = walk_file(data, size);
    uint32_t how = dice_roll(d, 12);
    if (how == 0) { /* bytes of the header */
        mutant_copy(out, data, size, 0);
        for (int i = 0; i < 4; i++) out->data[dice_roll(d, w->header)] ^= (unsigned char)(1u << dice_roll(d, 8));
        mutant_says(out, "4 bits of the header turned");
    } else if (how == 1) {
        mutant_copy(out, data, size, 0);
        out->size = dice_roll(d, 2) ? dice_roll(d, w->header) : dice_roll(d, size);
        mutant_says(out, "cut to %zu bytes of %zu", out->size, size);
    } else if (how == 2) { /* numbers */
        size_t from = data_begin(w);
        mutant_copy(out, data, size, 0);
        unsigned char fill = dice_roll(d, 2) ? 0xff : 0x7f;
        size_t at = from + dice_roll(d, size - from), n = 1 + dice_roll(d, 4096);
        if (n > size - at) n = size - at;
        memset(out->data + at, fill, n);
        mutant_says(out, "%zu bytes 0x%02x in the data", n, fill);
    } else if (how < 6) {
        rearrange(d, w, out);
    } else {
        change_field(d, w, out);
    }
    free(w);
}
