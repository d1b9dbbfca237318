/* Quantised matrices as they are bound: every row stands for what the file says, and every malformed set of tensors is refused
 * with the name of what is wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/half.h"
#include "model/weights.h"
#include "support/scratch.h"

#define SOURCE FORE_DATA "/quantised/model/"
#define LAYER "language_model.model.layers.1."

enum { MOST = 512 };

typedef struct copy {
    fore_tensor_file *file;
    fore_tensor tensors[MOST];
    size_t count;
} copy;

static void open_copy(copy *c) {
    fore_error err = {0};
    *c = (copy){0};
    if (fore_tensors_open(SOURCE "model.safetensors", &c->file, &err)) fail_msg("%s", err.text);
    for (const fore_tensor *t; (t = fore_tensors_at(c->file, c->count));) {
        assert_true(c->count < MOST);
        c->tensors[c->count++] = *t;
    }
}

static fore_tensor *find(copy *c, const char *name) {
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->tensors[i].name, name) == 0) return &c->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static fore_status open_dir(const char *dir, fore_network *n, fore_error *err) {
    const fore_kern *kern;
    assert_int_equal(fore_kern_get(NULL, &kern, err), 0);
    return fore_network_open(dir, kern, NULL, n, err);
}

/* Weight k of row n, read bit by bit from the file's words. */
static double stored(const copy *c, const char *module, size_t n, size_t k, size_t K) {
    char name[160];
    const fore_tensor *t[3];
    static const char *const ends[] = {".weight", ".scales", ".biases"};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", module, ends[i]);
        t[i] = fore_tensors_get(c->file, name);
        assert_non_null(t[i]);
    }
    size_t words = t[0]->shape[1], bits = words * 32 / K, groups = t[1]->shape[1], g = n * groups + k / (K / groups);
    unsigned q = 0;
    for (size_t b = 0; b < bits; b++) {
        size_t at = n * words * 32 + k * bits + b;
        q |= (((const unsigned char *)t[0]->data)[at / 8] >> at % 8 & 1u) << b;
    }
    double scale = (double)fore_load_bf16((const unsigned char *)t[1]->data + 2 * g);
    return scale * q + (double)fore_load_bf16((const unsigned char *)t[2]->data + 2 * g);
}

static void check_rows(const fore_network *n, const copy *c, const char *module, const fore_weight *w, int bits) {
    float *row = calloc((size_t)w->K, sizeof *row);
    assert_int_equal(w->bits, bits);
    const int rows[] = {0, 1, 15, 16, w->N / 2, w->N - 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fore_weight_row(n->kern, w, rows[i], row);
        for (int k = 0; k < w->K; k++) {
            double want = stored(c, module, (size_t)rows[i], (size_t)k, (size_t)w->K);
            if (row[k] != (float)want) fail_msg("%s [%d,%d]: %g, the file says %g", module, rows[i], k, (double)row[k], want);
        }
    }
    free(row);
}

static void test_rows(void **state) {
    (void)state;
    fore_error err = {0};
    fore_network n;
    copy c;
    open_copy(&c);
    if (open_dir(SOURCE, &n, &err)) fail_msg("%s", err.text);
    check_rows(&n, &c, "language_model.model.embed_tokens", &n.embed, 8);
    check_rows(&n, &c, "language_model.model.layers.2.mlp.gate_proj", &n.layers[2].gate_proj, 4);           /* 2 in the file */
    check_rows(&n, &c, LAYER "mlp.up_proj", &n.layers[1].up_proj, 4);                                      /* 3 */
    check_rows(&n, &c, LAYER "linear_attn.in_proj_z", &n.layers[1].in_proj_z, 4);                          /* 4 */
    check_rows(&n, &c, LAYER "linear_attn.in_proj_qkv", &n.layers[1].in_proj_qkv, 8);                      /* 5 */
    check_rows(&n, &c, "language_model.model.layers.3.self_attn.o_proj", &n.layers[3].o_proj, 8);           /* 6 */
    check_rows(&n, &c, LAYER "mlp.down_proj", &n.layers[1].down_proj, 8);                                  /* 8 */
    assert_true(n.panels.used <= n.panels.reserved);
    fore_network_close(&n);
    fore_tensors_close(c.file);
}

/* Scales and biases in F32 that 16 bits do not hold: panels that have them so, each weight rounded once. */
static void test_wide_scales(void **state) {
    (void)state;
    static const char *const modules[] = {LAYER "mlp.up_proj", LAYER "mlp.down_proj", LAYER "linear_attn.in_proj_qkv"};
    copy c;
    scratch s;
    fore_network n;
    fore_error err = {0};
    float *wide[3][2];
    const fore_tensor *q[3];
    scratch_make(&s);
    open_copy(&c);
    for (int i = 0; i < 3; i++) {
        char name[160];
        snprintf(name, sizeof name, "%s.weight", modules[i]);
        q[i] = fore_tensors_get(c.file, name);
        for (int k = 0; k < 2; k++) {
            snprintf(name, sizeof name, "%s.%s", modules[i], k ? "biases" : "scales");
            fore_tensor *t = find(&c, name);
            size_t count = (size_t)(t->shape[0] * t->shape[1]);
            wide[i][k] = malloc(count * sizeof(float));
            for (size_t j = 0; j < count; j++)
                wide[i][k][j] = fore_load_bf16((const unsigned char *)t->data + 2 * j) * (1 + (float)(j % 997) * 0x1p-20f);
            t->dtype = "F32";
            t->data = wide[i][k];
        }
    }
    scratch_copy(&s, SOURCE "config.json", "config.json");
    if (fore_tensors_write(scratch_path(&s, "model.safetensors"), c.tensors, c.count, &err)) fail_msg("%s", err.text);
    if (open_dir(s.dir, &n, &err)) fail_msg("%s", err.text);
    const fore_weight *const weights[3] = {&n.layers[1].up_proj, &n.layers[1].down_proj, &n.layers[1].in_proj_qkv};
    for (int i = 0; i < 3; i++) {
        const fore_weight *w = weights[i];
        size_t K = (size_t)w->K, bits = (size_t)q[i]->shape[1] * 32 / K, groups = 0;
        char name[160];
        snprintf(name, sizeof name, "%s.scales", modules[i]);
        groups = (size_t)fore_tensors_get(c.file, name)->shape[1];
        float *row = malloc(K * sizeof *row);
        assert_true(w->bits == (bits <= 4 ? 4 : 8) && w->dtype == FORE_DTYPE_F32);
        for (int r = 0; r < w->N; r++) {
            fore_weight_row(n.kern, w, r, row);
            for (size_t k = 0; k < K; k++) {
                unsigned v = 0;
                size_t g = (size_t)r * groups + k / (K / groups);
                for (size_t b = 0; b < bits; b++) {
                    size_t at = ((size_t)r * K + k) * bits + b;
                    v |= (((const unsigned char *)q[i]->data)[at / 8] >> at % 8 & 1u) << b;
                }
                if (row[k] != fmaf(wide[i][0][g], (float)v, wide[i][1][g])) fail_msg("%s [%d,%zu]: %g", modules[i], r, k, (double)row[k]);
            }
        }
        free(row);
        free(wide[i][0]);
        free(wide[i][1]);
    }
    assert_true(n.panels.used <= n.panels.reserved);
    fore_network_close(&n);
    fore_tensors_close(c.file);
    scratch_remove(&s);
}

static void refuse(void (*change)(copy *c), fore_status want, const char *part) {
    copy c;
    scratch s;
    fore_network n;
    fore_error err = {0};
    scratch_make(&s);
    open_copy(&c);
    change(&c);
    scratch_copy(&s, SOURCE "config.json", "config.json");
    if (fore_tensors_write(scratch_path(&s, "model.safetensors"), c.tensors, c.count, &err)) fail_msg("%s", err.text);
    fore_status got = open_dir(s.dir, &n, &err);
    if (got == FORE_OK) fore_network_close(&n);
    if (got != want || !strstr(err.text, part)) fail_msg("%d \"%s\", wanted %d \"%s\"", got, err.text, want, part);
    fore_tensors_close(c.file);
    scratch_remove(&s);
}

static void drop(copy *c, const char *name) {
    fore_tensor *t = find(c, name);
    *t = c->tensors[--c->count];
}
static void no_scales(copy *c) { drop(c, LAYER "mlp.up_proj.scales"); }
static void no_biases(copy *c) { drop(c, LAYER "mlp.up_proj.biases"); }
static void fewer_words(copy *c) { find(c, LAYER "mlp.up_proj.weight")->shape[1] -= 1; }
static void fewer_rows(copy *c) { find(c, LAYER "mlp.up_proj.weight")->shape[0] -= 1; }
static void fewer_groups(copy *c) { find(c, LAYER "mlp.up_proj.scales")->shape[1] -= 1; }
static void other_biases(copy *c) { find(c, LAYER "mlp.up_proj.biases")->dtype = "F16"; }
static void byte_scales(copy *c) {
    fore_tensor *t = find(c, LAYER "mlp.up_proj.scales");
    t->dtype = "U8";
    t->shape[0] /= 2;
    t->shape[1] *= 2;
}
static void seven_bits(copy *c) {
    fore_tensor *t = find(c, LAYER "mlp.down_proj.weight");
    t->shape[1] = t->shape[1] * 7 / 8;
}
static void wide_groups(copy *c) {
    find(c, LAYER "mlp.down_proj.scales")->shape[1] = 1;
    find(c, LAYER "mlp.down_proj.biases")->shape[1] = 1;
}
static void no_integers(copy *c) { find(c, LAYER "mlp.up_proj.weight")->dtype = "I32"; }

static void test_refused(void **state) {
    (void)state;
    refuse(no_scales, FORE_ERR_FORMAT, "up_proj.scales: missing");
    refuse(no_biases, FORE_ERR_FORMAT, "up_proj.biases: missing");
    refuse(fewer_words, FORE_ERR_FORMAT, "up_proj.weight: expected [384,");
    refuse(fewer_rows, FORE_ERR_FORMAT, "up_proj.weight: expected [384,12], the file has U32 [383,12]");
    refuse(fewer_groups, FORE_ERR_FORMAT, "up_proj.scales: expected [384,");
    refuse(other_biases, FORE_ERR_FORMAT, "up_proj.biases");
    refuse(byte_scales, FORE_ERR_FORMAT, "up_proj.scales");
    refuse(seven_bits, FORE_ERR_UNSUPPORTED, "down_proj.weight: 7 bits a weight; supported are");
    refuse(wide_groups, FORE_ERR_UNSUPPORTED, "down_proj.weight: quant: expected groups of 32, 64 or 128, found 384");
    refuse(no_integers, FORE_ERR_UNSUPPORTED, "up_proj.weight: type I32; supported are");
}

/* What belongs to a quantised matrix, also one that experts share, is known by its company. */
static void test_companions(void **state) {
    (void)state;
    static const uint32_t words[8];
    static const struct {
        const char *name, *dtype;
        bool packed;
    } all[] = {{"a.weight", "U32", true},          {"a.scales", "BF16", true},          {"a.biases", "BF16", true},
               {"b.weight", "BF16", false},        {"b.scales", "BF16", false},         {"c.biases", "BF16", false},
               {"mlp.experts.down", "U32", true},  {"mlp.experts.down.scales", "BF16", true}, {"mlp.experts.down.biases", "BF16", true},
               {"mlp.experts.down.bias", "BF16", false}};
    enum { COUNT = sizeof all / sizeof *all };
    fore_tensor tensors[COUNT];
    for (int i = 0; i < COUNT; i++)
        tensors[i] = (fore_tensor){.name = all[i].name, .dtype = all[i].dtype, .dims = 1, .shape = {4}, .data = (const void *)words};
    fore_error err = {0};
    scratch s;
    scratch_make(&s);
    const char *path = scratch_path(&s, "t.safetensors");
    fore_store *store;
    if (fore_tensors_write(path, tensors, COUNT, &err) || fore_store_open_file(path, &store, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < COUNT; i++)
        if (fore_bind_is_packed(store, fore_store_find(store, all[i].name)) != all[i].packed) fail_msg("%s", all[i].name);
    fore_store_close(store);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_wide_scales),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_companions),
    };
    return cmocka_run_group_tests_name("panels", tests, NULL, NULL);
}
