#include "support/experts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024 };

struct experts_file {
    const char *dir;
    fore_tensor_file *file;
    fore_tensor tensors[MOST];
    char names[MOST][160];
    void *data[MOST]; /* owned; NULL: the file's */
    size_t count;
};

/* Adds a tensor under a name; data NULL: the source's own. */
static fore_tensor *add(experts_file *f, const fore_tensor *like, const char *name, void *data) {
    assert_true(f->count < MOST);
    size_t i = f->count++;
    f->tensors[i] = *like;
    snprintf(f->names[i], sizeof f->names[0], "%s", name);
    f->tensors[i].name = f->names[i];
    f->data[i] = data;
    if (data) f->tensors[i].data = data;
    return &f->tensors[i];
}

static void *need(size_t size) {
    void *p = malloc(size);
    assert_non_null(p);
    return p;
}

/* Rows row0 .. row0+N-1 of every expert of [E,rows,K], as one tensor [E,N,K]. */
static void add_stack(experts_file *f, const fore_tensor *t, const char *name, size_t row0, size_t N) {
    size_t E = t->shape[0], rows = t->shape[1], row = t->shape[2] * 2;
    char *data = need(E * N * row);
    for (size_t e = 0; e < E; e++) memcpy(data + e * N * row, (const char *)t->data + (e * rows + row0) * row, N * row);
    add(f, t, name, data)->shape[1] = N;
}

static void add_one(experts_file *f, const fore_tensor *t, const char *name, size_t e, size_t row0, size_t N, bool wide) {
    size_t rows = t->shape[1], K = t->shape[2], row = K * 2;
    const char *from = (const char *)t->data + (e * rows + row0) * row;
    char *data = need(N * K * 4);
    memcpy(data, from, N * row);
    for (size_t i = 0; wide && i < N * K; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, 2);
        uint32_t bits = (uint32_t)half << 16;
        memcpy(data + 4 * i, &bits, 4);
    }
    fore_tensor *out = add(f, t, name, data);
    out->dims = 2;
    out->shape[0] = N;
    out->shape[1] = K;
    if (wide) out->dtype = "F32";
}

static void turn(experts_file *f, const fore_tensor *t) {
    size_t E = t->shape[0], A = t->shape[1], B = t->shape[2];
    uint16_t *data = need(E * A * B * sizeof *data);
    for (size_t e = 0; e < E; e++)
        for (size_t a = 0; a < A; a++)
            for (size_t b = 0; b < B; b++)
                memcpy(&data[(e * B + b) * A + a], (const char *)t->data + ((e * A + a) * B + b) * sizeof *data, sizeof *data);
    fore_tensor *out = add(f, t, t->name, data);
    out->shape[1] = B;
    out->shape[2] = A;
}

static void split(experts_file *f, const fore_tensor *t, experts_layout layout, const char *stem, bool down) {
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    assert_string_equal(t->dtype, "BF16");
    assert_int_equal(t->dims, 3);
    size_t N = down ? t->shape[1] : t->shape[1] / 2;
    for (size_t k = down ? 2 : 0; k < (down ? 3u : 2u); k++) {
        char name[200];
        size_t row0 = k == 1 ? N : 0;
        if (layout == EXPERTS_STACKED) {
            snprintf(name, sizeof name, "%sswitch_mlp.%s.weight", stem, parts[k]);
            add_stack(f, t, name, row0, N);
            continue;
        }
        for (size_t e = 0; e < t->shape[0]; e++) {
            snprintf(name, sizeof name, "%sexperts.%zu.%s.weight", stem, e, parts[k]);
            add_one(f, t, name, e, row0, N, layout == EXPERTS_MIXED && (e + k) % 3 == 0);
        }
    }
}

experts_file *experts_open(const char *dir, experts_layout layout) {
    experts_file *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->dir = dir;
    char path[256];
    fore_error err;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (fore_tensors_open(path, &f->file, &err)) fail_msg("%s", err.text);
    const fore_tensor *t;
    for (size_t i = 0; (t = fore_tensors_at(f->file, i)); i++) {
        const char *leaf = strstr(t->name, "experts.gate_up_proj");
        bool down = !leaf;
        if (!leaf) leaf = strstr(t->name, "experts.down_proj");
        if (layout == EXPERTS_FUSED || !leaf) {
            add(f, t, t->name, NULL);
            continue;
        }
        if (layout == EXPERTS_TURNED) {
            turn(f, t);
            continue;
        }
        char stem[128];
        snprintf(stem, sizeof stem, "%.*s", (int)(leaf - t->name), t->name);
        split(f, t, layout, stem, down);
    }
    return f;
}

fore_tensor *experts_find(experts_file *f, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

void experts_drop(experts_file *f, const char *name) {
    size_t i = (size_t)(experts_find(f, name) - f->tensors);
    free(f->data[i]);
    f->count--;
    memmove(f->tensors + i, f->tensors + i + 1, (f->count - i) * sizeof *f->tensors);
    memmove(f->names + i, f->names + i + 1, (f->count - i) * sizeof *f->names);
    memmove(f->data + i, f->data + i + 1, (f->count - i) * sizeof *f->data);
    for (; i < f->count; i++) f->tensors[i].name = f->names[i];
}

void experts_write(const experts_file *f, const scratch *s) {
    char path[256];
    fore_error err;
    snprintf(path, sizeof path, "%s/config.json", f->dir);
    scratch_copy(s, path, "config.json");
    if (fore_tensors_write(scratch_path(s, "model.safetensors"), f->tensors, f->count, &err)) fail_msg("%s", err.text);
}

void experts_close(experts_file *f) {
    for (size_t i = 0; i < f->count; i++) free(f->data[i]);
    fore_tensors_close(f->file);
    free(f);
}

void experts_copy(const scratch *s, const char *dir, experts_layout layout) {
    experts_file *f = experts_open(dir, layout);
    experts_write(f, s);
    experts_close(f);
}
