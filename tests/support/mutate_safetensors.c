/* Safetensors files with something wrong in them; see mutate.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cjson/cJSON.h>

#include "support/mutate.h"

static const char *const sizes[] = {"0", "-1", "1", "2147483648", "4611686018427387904", "9223372036854775807", "18446744073709551615",
                                    "1e300", "0.5", "\"8\"", "null", "65536", "99999999999999999999999"};
static const char *const types[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "U16", "U32", "U64", "BOOL",
                                    "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "I4", "", "f32", "BF16 "};
enum { SIZES = sizeof sizes / sizeof *sizes, TYPES = sizeof types / sizeof *types };

typedef struct opened {
    cJSON *header;
    const unsigned char *data; /* after the header */
    size_t size;
} opened;

static void put_length(unsigned char *at, uint64_t n) {
    for (int i = 0; i < 8; i++) at[i] = (unsigned char)(n >> 8 * i);
}

static uint64_t length_of(const unsigned char *at) {
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | at[i];
    return n;
}

static void build(const char *header, const opened *o, mutant *out) {
    size_t n = strlen(header);
    out->data = malloc(8 + n + o->size + 1);
    assert_non_null(out->data);
    put_length(out->data, n);
    memcpy(out->data + 8, header, n);
    if (o->size) memcpy(out->data + 8 + n, o->data, o->size);
    out->size = 8 + n + o->size;
}

static void write_header(const opened *o, mutant *out) {
    char *text = cJSON_PrintUnformatted(o->header);
    assert_non_null(text);
    build(text, o, out);
    free(text);
}

static void set_raw(cJSON *list, int index, const char *text) {
    assert_true(cJSON_ReplaceItemInArray(list, index, cJSON_CreateRaw(text)));
}

/* An entry; those with a dear name are taken half of the time. */
static cJSON *pick(dice *d, const opened *o, const char *const *dear) {
    int n = cJSON_GetArraySize(o->header), first = (int)dice_roll(d, (size_t)n);
    bool choosy = dear && dice_roll(d, 2);
    for (int i = 0; i < n; i++) {
        cJSON *entry = cJSON_GetArrayItem(o->header, (first + i) % n);
        bool fits = strcmp(entry->string, "__metadata__") != 0;
        for (int k = 0; choosy && fits && dear[k]; k++) {
            fits = strstr(entry->string, dear[k]) != NULL;
            if (fits) break;
        }
        if (fits) return entry;
    }
    return pick(d, o, NULL);
}

static const cJSON *offsets_of(const cJSON *entry, size_t *begin, size_t *end) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    assert_int_equal(cJSON_GetArraySize(list), 2);
    *begin = (size_t)list->child->valuedouble;
    *end = (size_t)list->child->next->valuedouble;
    return list;
}

static void change_length(dice *d, const unsigned char *data, size_t size, mutant *out) {
    const uint64_t true_one = length_of(data);
    const uint64_t lengths[] = {0, 1, 7, size, size - 8, size - 7, true_one - 1, true_one + 1, true_one + 64, 100000000, 100000001,
                                UINT64_C(1) << 31, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 7, INT64_MAX};
    uint64_t n = lengths[dice_roll(d, sizeof lengths / sizeof *lengths)];
    mutant_copy(out, data, size, 0);
    put_length(out->data, n);
    mutant_says(out, "a header of %llu bytes", (unsigned long long)n);
}

static void change_shape(dice *d, cJSON *entry, mutant *out) {
    cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    int n = cJSON_GetArraySize(shape), at = (int)dice_roll(d, (size_t)n);
    mutant_says(out, "%s: shape: ", entry->string);
    switch (dice_roll(d, n ? 5 : 1)) {
    case 0:
        for (uint32_t k = dice_roll(d, 3) ? 1 : 20000; k > 0; k--) cJSON_AddItemToArray(shape, cJSON_CreateNumber(1));
        mutant_says(out, "more axes");
        break;
    case 1: {
        const char *text = sizes[dice_roll(d, SIZES)];
        set_raw(shape, at, text);
        mutant_says(out, "%s", text);
        break;
    }
    case 2: /* as many numbers */
        if (n > 1 && dice_roll(d, 2)) {
            cJSON_AddItemToArray(shape, cJSON_DetachItemFromArray(shape, 0));
            mutant_says(out, "turned");
        } else {
            double whole = 1;
            while (shape->child) {
                whole *= shape->child->valuedouble;
                cJSON_DeleteItemFromArray(shape, 0);
            }
            cJSON_AddItemToArray(shape, cJSON_CreateNumber(whole));
            mutant_says(out, "flat");
        }
        break;
    case 3:
        cJSON_DeleteItemFromArray(shape, at);
        mutant_says(out, "an axis less");
        break;
    default: { /* fewer numbers, and bytes to match */
        size_t begin, end;
        cJSON *first = shape->child, *list = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
        offsets_of(entry, &begin, &end);
        double rows = first->valuedouble, fewer = rows / 2;
        if (rows < 2 || (size_t)rows % 2) fewer = 0;
        cJSON_SetNumberValue(first, fewer);
        cJSON_SetNumberValue(list->child->next, (double)begin + (double)(end - begin) / (rows > 0 ? rows : 1) * fewer);
        mutant_says(out, "half of the rows");
    }
    }
}

static void change_offsets(dice *d, const opened *o, cJSON *entry, mutant *out) {
    size_t begin, end, other_begin, other_end;
    cJSON *list = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    offsets_of(entry, &begin, &end);
    offsets_of(pick(d, o, NULL), &other_begin, &other_end);
    int which = (int)dice_roll(d, 2);
    mutant_says(out, "%s: offsets: ", entry->string);
    char text[32];
    switch (dice_roll(d, 6)) {
    case 0: set_raw(list, which, sizes[dice_roll(d, SIZES)]); break;
    case 1: cJSON_AddItemToArray(list, cJSON_DetachItemFromArray(list, 0)); break;
    case 2: /* over another */
        cJSON_SetNumberValue(list->child, (double)other_begin);
        cJSON_SetNumberValue(list->child->next, (double)other_begin + (double)(end - begin));
        break;
    case 3: /* past the end */
        cJSON_SetNumberValue(list->child, (double)o->size);
        cJSON_SetNumberValue(list->child->next, (double)o->size + (double)(end - begin));
        break;
    case 4: /* a sum that wraps */
        snprintf(text, sizeof text, "%llu", (unsigned long long)(UINT64_MAX - (end - begin) + 1));
        set_raw(list, 0, text);
        set_raw(list, 1, "0");
        break;
    default: set_raw(list, which, (snprintf(text, sizeof text, "%zu", dice_roll(d, 2) ? begin + 1 : end - 1), text));
    }
    char *shown = cJSON_PrintUnformatted(list);
    mutant_says(out, "%s", shown);
    free(shown);
}

/* Numbers of one tensor; the file stays sound. */
static void change_numbers(dice *d, const opened *o, const cJSON *entry, mutant *out) {
    static const unsigned char fills[] = {0x00, 0xff, 0x7f, 0x80, 0x7e};
    size_t begin, end;
    offsets_of(entry, &begin, &end);
    write_header(o, out);
    unsigned char *at = out->data + out->size - o->size;
    unsigned char fill = fills[dice_roll(d, sizeof fills)];
    bool all = dice_roll(d, 2);
    if (end > o->size || begin >= end) return;
    if (all) memset(at + begin, fill, end - begin);
    else for (int i = 0; i < 4; i++) at[begin + dice_roll(d, end - begin)] = fill;
    mutant_says(out, "%s: %s 0x%02x", entry->string, all ? "all bytes" : "some bytes", fill);
}

/* The same tensors, said in another way. */
static void respell(dice *d, opened *o, mutant *out) {
    out->same = true;
    uint32_t kind = dice_roll(d, 4);
    if (kind == 0) { /* the entries in the other order */
        cJSON *turned = cJSON_CreateObject();
        while (o->header->child) {
            int last = cJSON_GetArraySize(o->header) - 1;
            cJSON_AddItemToArray(turned, cJSON_DetachItemFromArray(o->header, last));
        }
        cJSON_Delete(o->header);
        o->header = turned;
        mutant_says(out, "entries in the other order");
        write_header(o, out);
    } else if (kind == 1) {
        cJSON_DeleteItemFromObject(o->header, "__metadata__");
        cJSON *m = cJSON_AddObjectToObject(o->header, "__metadata__");
        cJSON_AddStringToObject(m, "made by", "nobody \xf0\x9f\x98\x80");
        mutant_says(out, "other metadata");
        write_header(o, out);
    } else if (kind == 2) { /* the numbers in the other order */
        unsigned char *data = malloc(o->size + 1), *from = data + o->size;
        size_t at = 0, begin, end;
        assert_non_null(data);
        for (int i = cJSON_GetArraySize(o->header) - 1; i >= 0; i--) {
            cJSON *e = cJSON_GetArrayItem(o->header, i), *list = cJSON_GetObjectItemCaseSensitive(e, "data_offsets");
            if (!list) continue;
            offsets_of(e, &begin, &end);
            memcpy(data + at, o->data + begin, end - begin);
            cJSON_SetNumberValue(list->child, (double)at);
            at += end - begin;
            cJSON_SetNumberValue(list->child->next, (double)at);
        }
        (void)from;
        assert_int_equal(at, o->size);
        mutant_says(out, "tensors' numbers in the other order");
        const opened turned = {o->header, data, o->size};
        write_header(&turned, out);
        free(data);
    } else {
        char *text = cJSON_PrintUnformatted(o->header), *spaced = malloc(strlen(text) + 129);
        assert_non_null(spaced);
        sprintf(spaced, "%s%*s", text, (int)dice_roll(d, 128), "");
        mutant_says(out, "a header filled up with spaces");
        build(spaced, o, out);
        free(spaced);
        free(text);
    }
}

static void change_entry(dice *d, opened *o, cJSON *entry, mutant *out) {
    switch (dice_roll(d, 12)) {
    case 0: case 1: case 2: change_shape(d, entry, out); break;
    case 3: case 4: change_offsets(d, o, entry, out); break;
    case 5: case 6: {
        const char *type = types[dice_roll(d, TYPES)];
        mutant_says(out, "%s: %s", entry->string, type);
        cJSON_ReplaceItemInObjectCaseSensitive(entry, "dtype", cJSON_CreateString(type));
        break;
    }
    case 7:
        mutant_says(out, "%s is not there", entry->string);
        cJSON_Delete(cJSON_DetachItemViaPointer(o->header, entry));
        break;
    case 8: {
        cJSON *other = pick(d, o, NULL);
        mutant_says(out, "%s is named %s", entry->string, other->string);
        if (entry == other) break;
        free(entry->string);
        entry->string = strdup(other->string);
        break;
    }
    case 9: {
        cJSON *other = pick(d, o, NULL);
        if (entry == other) break;
        mutant_says(out, "%s and %s change places", entry->string, other->string);
        char *name = entry->string;
        entry->string = other->string;
        other->string = name;
        break;
    }
    default: change_numbers(d, o, entry, out); return;
    }
    write_header(o, out);
}

void mutate_safetensors(dice *d, const void *data, size_t size, const char *const *dear, mutant *out) {
    const unsigned char *bytes = data;
    size_t n = (size_t)length_of(bytes);
    opened o = {cJSON_ParseWithLength((const char *)bytes + 8, n), bytes + 8 + n, size - 8 - n};
    assert_non_null(o.header);
    uint32_t kind = dice_roll(d, 16);
    if (kind == 0) change_length(d, data, size, out);
    else if (kind == 1) {
        mutate_bytes(d, data, 8 + n, out); /* the header's; the rest follows as it was */
        mutant whole = *out;
        whole.data = malloc(out->size + o.size + 1);
        assert_non_null(whole.data);
        memcpy(whole.data, out->data, out->size);
        memcpy(whole.data + out->size, o.data, o.size);
        whole.size = out->size + o.size;
        free(out->data);
        *out = whole;
    } else if (kind == 2) {
        mutant_copy(out, data, size, 64);
        uint32_t by = dice_roll(d, 64);
        if (dice_roll(d, 2)) {
            memset(out->data + size, 0, by);
            out->size += by;
        } else {
            out->size = dice_roll(d, 2) ? size - by : dice_roll(d, size);
        }
        mutant_says(out, "%zu bytes of %zu", out->size, size);
    } else if (kind == 3) {
        mutant text = {0};
        char *printed = cJSON_PrintUnformatted(o.header);
        mutate_json(d, printed, strlen(printed), &text);
        text.data[text.size] = 0;
        out->same = text.same && !strstr((char *)text.data, "nobody_knows_this"); /* which is no tensor */
        mutant_says(out, "%s", text.what);
        build((char *)text.data, &o, out);
        mutant_free(&text);
        free(printed);
    } else if (kind < 6) respell(d, &o, out);
    else change_entry(d, &o, pick(d, &o, dear), out);
    cJSON_Delete(o.header);
}
