/* Checkpoints with quantised weights: the files of the test data, changed in ways that leave them well-formed, which bytes changed at
 * random seldom do. An input's first byte chooses the checkpoint; then come changes of four bytes: what, of which tensor (or number of
 * config.json), where, and what it becomes. Offsets follow the shapes; the numbers are the tensors' own, again and again where there
 * are more. What opens must answer. */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"fp8", "fp8_head", "int4", "int4_zeros", "int8", "awq", "gptq", "gptq_order"};
enum { BASES = sizeof names / sizeof *names, MOST_TENSORS = 128, MOST_NUMBERS = 128, MOST_CHANGES = 16, MOST_BYTES = 1 << 21 };

static const struct {
    const char *name;
    size_t bytes;
} types[] = {{"F32", 4}, {"BF16", 2}, {"F16", 2}, {"I32", 4}, {"I64", 8}, {"U32", 4}, {"I8", 1}, {"U8", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
enum { TYPES = sizeof types / sizeof *types };

typedef struct tensor {
    char name[96];
    const char *dtype;
    int dims;
    size_t shape[8];
    const unsigned char *data; /* of the map */
    size_t bytes;              /* that are there */
    bool gone;
    int fill; /* -1: its own numbers */
} tensor;

typedef struct base {
    fore_tensor_file *file;
    tensor tensors[MOST_TENSORS];
    size_t count;
    char *config;
} base;

static base bases[BASES];
static char folder[64];

static void remove_folder(void) {
    static const char *const files[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void make_folder(void) {
    strcpy(folder, "/dev/shm/foresight-fuzz-XXXXXX");
    if (!mkdtemp(folder)) {
        strcpy(folder, "/tmp/foresight-fuzz-XXXXXX");
        if (!mkdtemp(folder)) exit(1);
    }
    atexit(remove_folder);
}

static void put(const char *name, const void *data, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f)) exit(1);
}

static size_t size_of(const char *dtype, int dims, const size_t *shape) {
    size_t n = 0;
    for (int i = 0; i < TYPES; i++)
        if (!strcmp(types[i].name, dtype)) n = types[i].bytes;
    for (int d = 0; d < dims && n <= MOST_BYTES; d++) n = shape[d] > MOST_BYTES ? (size_t)MOST_BYTES + 1 : n * shape[d];
    return n;
}

static void open_base(size_t i) {
    base *b = &bases[i];
    char path[256];
    size_t size;
    fore_error err;
    snprintf(path, sizeof path, FORE_DATA "/forms/%s/model.safetensors", names[i]);
    if (fore_tensors_open(path, &b->file, &err)) exit(1);
    for (const fore_tensor *t; (t = fore_tensors_at(b->file, b->count)) && b->count < MOST_TENSORS; b->count++) {
        tensor *o = &b->tensors[b->count];
        snprintf(o->name, sizeof o->name, "%s", t->name);
        o->dtype = t->dtype;
        o->dims = t->dims;
        for (int d = 0; d < t->dims; d++) o->shape[d] = (size_t)t->shape[d];
        o->data = t->data;
        o->bytes = size_of(t->dtype, t->dims, o->shape);
        o->fill = -1;
    }
    snprintf(path, sizeof path, FORE_DATA "/forms/%s/config.json", names[i]);
    if (fore_file_read(path, 1 << 16, &b->config, &size, &err)) exit(1);
}

/* ---- changes ------------------------------------------------------------------------------------------------------ */

static void change_shape(tensor *t, unsigned where, unsigned value) {
    static const size_t sizes[] = {0, 1, 2, 3, 4, 8, 16, 32, 33, 64, 96, 128, 192, 256, 1000, 65536};
    size_t *axis = &t->shape[where % 8 < (unsigned)t->dims ? where % 8 : 0];
    switch (where / 8 % 4) {
    case 0: *axis = value < 128 ? sizes[value % 16] : *axis + value - 192; break;
    case 1: *axis = value % 2 ? *axis * 2 : *axis / 2; break;
    case 2: /* an axis more or less */
        if (value % 2 && t->dims < 7) t->shape[t->dims++] = 1;
        else if (t->dims) t->dims--;
        break;
    default: /* turned */
        for (int d = 0; d < t->dims / 2; d++) {
            size_t n = t->shape[d];
            t->shape[d] = t->shape[t->dims - 1 - d];
            t->shape[t->dims - 1 - d] = n;
        }
    }
}

static void list_values(cJSON *tree, cJSON **list, size_t *n) {
    for (cJSON *c = tree->child; c; c = c->next) {
        if (*n < MOST_NUMBERS) list[(*n)++] = c;
        list_values(c, list, n);
    }
}

static void change_config(cJSON *config, unsigned which, unsigned value) {
    static const double numbers[] = {0, -1, 1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 96, 128, 256, 1000, 2147483648.0, 1e300, 0.5};
    cJSON *list[MOST_NUMBERS], *item;
    size_t n = 0;
    list_values(config, list, &n);
    item = list[which % n];
    if (cJSON_IsNumber(item)) cJSON_SetNumberValue(item, numbers[value % (sizeof numbers / sizeof *numbers)]);
    else if (cJSON_IsBool(item)) item->type = cJSON_IsTrue(item) ? cJSON_False : cJSON_True;
    else if (item->string) item->string[0] = (char)('a' + value % 26); /* then it is not there */
}

static void change(base *b, cJSON *config, const uint8_t c[4]) {
    tensor *t = &b->tensors[c[1] % b->count], *other = &b->tensors[c[3] % b->count];
    char name[sizeof t->name];
    switch (c[0] % 8) {
    case 0: case 1: change_shape(t, c[2], c[3]); break;
    case 2: t->dtype = types[c[3] % TYPES].name; break;
    case 3: t->fill = c[3]; break;
    case 4: t->gone = true; break;
    case 5:
        memcpy(name, t->name, sizeof name);
        memcpy(t->name, other->name, sizeof name);
        memcpy(other->name, name, sizeof name);
        break;
    default: change_config(config, c[1], c[3]);
    }
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static bool write_tensors(const base *b) {
    static uint8_t file[8 + (1 << 16) + MOST_BYTES];
    char *at = (char *)file + 8;
    size_t used = 0;
    *at++ = '{';
    for (size_t i = 0; i < b->count; i++) {
        const tensor *t = &b->tensors[i];
        size_t bytes = size_of(t->dtype, t->dims, t->shape);
        if (t->gone) continue;
        if (used + bytes > MOST_BYTES) return false;
        at += sprintf(at, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", at[-1] == '{' ? "" : ",", t->name, t->dtype);
        for (int d = 0; d < t->dims; d++) at += sprintf(at, "%s%zu", d ? "," : "", t->shape[d]);
        at += sprintf(at, "],\"data_offsets\":[%zu,%zu]}", used, used + bytes);
        used += bytes;
    }
    *at++ = '}';
    size_t header = (size_t)((uint8_t *)at - file) - 8;
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)(header >> 8 * i);
    uint8_t *data = (uint8_t *)at;
    for (size_t i = 0; i < b->count; i++) {
        const tensor *t = &b->tensors[i];
        size_t bytes = size_of(t->dtype, t->dims, t->shape);
        for (size_t k = 0; k < bytes && !t->gone; k++) *data++ = t->fill >= 0 || !t->bytes ? (uint8_t)t->fill : t->data[k % t->bytes];
    }
    put("model.safetensors", file, 8 + header + used);
    return true;
}

static void check(fore_status s, const fore_error *err) {
    if (s && (!err->text[0] || err->code != s || s == FORE_ERR_BUG)) __builtin_trap(); /* every failure says what is wrong */
}

static void ask(const fore_model *m) {
    static const int32_t ids[] = {1, 2, 3};
    fore_error err = {0};
    fore_session *s;
    fore_model_info info;
    fore_model_get_info(m, &info);
    const fore_session_options o = {.threads = 1, .context = info.context_length < 16 ? info.context_length : 16};
    fore_status st = fore_session_new(m, &o, &s, &err);
    check(st, &err);
    if (st) return;
    fore_request r;
    fore_request_init(&r, m);
    r.ids = ids;
    r.id_count = 3;
    r.max_tokens = 2;
    r.ignore_eos = true;
    st = fore_session_begin(s, &r, &err);
    check(st, &err);
    for (fore_chunk c = {0}; !st && c.finish == FORE_FINISH_NONE;) {
        st = fore_session_next(s, &c, &err);
        check(st, &err);
        for (size_t i = 0; !st && i < c.id_count; i++)
            if (c.ids[i] < 0 || c.ids[i] >= info.vocab_size) __builtin_trap();
    }
    fore_session_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    if (!folder[0]) {
        make_folder();
        for (size_t i = 0; i < BASES; i++) open_base(i);
    }
    static base b;
    b = bases[data[0] % BASES];
    cJSON *config = cJSON_Parse(b.config);
    for (size_t i = 0; i < MOST_CHANGES && 5 + 4 * i <= size; i++) change(&b, config, data + 1 + 4 * i);
    char *text = cJSON_PrintUnformatted(config);
    if (!text) exit(1);
    put("config.json", text, strlen(text));
    free(text);
    cJSON_Delete(config);
    if (!write_tensors(&b)) return 0;
    fore_error err = {0};
    fore_model *m;
    fore_status s = fore_model_open(folder, &(fore_model_options){.isa = "ref"}, &m, &err);
    check(s, &err);
    if (!s != (m != NULL)) __builtin_trap();
    if (!s) ask(m);
    fore_model_close(m);
    return 0;
}
