/* forge convert: from every form, the weights that the source stands for, to the bit where its integers are kept, and then
 * the same logits; requantising as from floats; and what config.json says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "kernels/half.h"
#include "support/alike.h"
#include "support/answer.h"
#include "support/scratch.h"

#define FORMS FORE_DATA "/forms/"
#define GGUF FORE_DATA "/gguf/"
#define FAMILY FORE_DATA "/family/"

/* In memory where that is possible: every file is synced. */
static void make_folder(scratch *s) {
    strcpy(s->dir, "/dev/shm/foresight-test-XXXXXX");
    if (!mkdtemp(s->dir)) scratch_make(s);
}

/* Converts to s/out; returns its path. */
static const char *convert(const scratch *s, const char *source, fore_convert_options o, fore_quantize_report **report) {
    fore_error err = {0};
    const char *out = scratch_path(s, "out");
    o.quantize.threads = 2;
    if (fore_convert(source, out, &o, report, &err)) fail_msg("%s: %s", source, err.text);
    return out;
}

static cJSON *read_json(const char *dir, const char *name) {
    char path[512];
    cJSON *json = NULL;
    fore_error err = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (fore_json_read(path, 1 << 24, &json, &err)) fail_msg("%s", err.text);
    return json;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static const struct source {
    const char *path, *mmproj;
    double most;       /* of a row's error, when converted without more said; 0: to the bit */
    int least;         /* matrices to compare */
    int logits;        /* the same ones: 1: without more said, 0: when exact */
} sources[] = {
    {FORMS "int4", NULL, 0, 14, 1},
    {FORMS "int4_zeros", NULL, 0, 14, 1},
    {FORMS "int8", NULL, 0, 14, 1},
    {FORMS "awq", NULL, 0, 14, 1},
    {FORMS "gptq", NULL, 0, 14, 1},
    {FORMS "gptq_order", NULL, 0, 14, 1},
    {FORMS "fp8", NULL, 0.2, 14, 0},
    {FORMS "fp8_channel", NULL, 0.2, 14, 0},
    {FORMS "fp8_experts", NULL, 0.2, 30, 0},
    {FORMS "fp8_head", NULL, 0.2, 14, 0},
    {FORE_DATA "/quantised/model", NULL, 0, 30, 1},
    {GGUF "blocks/model.gguf", GGUF "blocks/mmproj.gguf", 0, 37, 1},
    {GGUF "blocks", NULL, 0, 37, 1},
    {GGUF "moeblocks/model.gguf", NULL, 0.02, 67, 0},
    {GGUF "super/model.gguf", NULL, 0, 9, 1},
    {GGUF "apart", NULL, 0.2, 37, 0},
    {GGUF "parts/model-00001-of-00003.gguf", GGUF "q35/mmproj.gguf", 0.2, 37, 0},
    {GGUF "q35moe/model.gguf", NULL, 0.2, 67, 0},
    {GGUF "next/model.gguf", NULL, 0.2, 41, 0},
    {GGUF "q3/model.gguf", NULL, 0.2, 9, 0},
    {GGUF "q3moe/model.gguf", NULL, 0.2, 19, 0},
    {GGUF "vl/model.gguf", GGUF "vl/mmproj.gguf", 0.2, 23, 0},
    {GGUF "vlmoe/model.gguf", NULL, 0.2, 7, 0},
    {FORE_DATA "/models/dense_sharded_bf16", NULL, 0.2, 30, 0},
    {FORE_DATA "/models/dense_tied_f32", NULL, 0.2, 30, 0},
    {FORE_DATA "/moe/moe_bf16_numbered", NULL, 0.2, 30, 0},
    {FORE_DATA "/qwen2_5/bf16", NULL, 0.2, 7, 0},
    {FAMILY "qwen3_next_bf16", NULL, 0.2, 20, 0},
    {FAMILY "vl_moe_bf16", NULL, 0.2, 7, 0},
};
enum { SOURCES = sizeof sources / sizeof *sources };

static void compare_weights(const struct source *s, const char *out, double most) {
    opened a = alike_open(s->path, s->mmproj), b = alike_open(out, NULL);
    alike how = {.name = s->path, .most = most};
    alike_compare(&how, &a, &b);
    if (how.matrices < s->least) fail_msg("%s: %d matrices compared", s->path, how.matrices);
    assert_int_equal(a.n.norms_absolute, b.n.norms_absolute);
    if (a.mtp.attached) assert_int_equal(a.mtp.norms_absolute, b.mtp.norms_absolute);
    alike_close(&a);
    alike_close(&b);
}

static float *logits(const char *path, const char *mmproj, size_t *count) {
    static const int32_t ids[] = {11, 7, 42, 80, 3, 55, 23, 11, 9, 64};
    const fore_model_options how = {.mmproj = mmproj};
    subject s = subject_open(path, &how, 64);
    fore_request r;
    fore_trace *t;
    fore_error err = {0};
    fore_request_init(&r, s.model);
    r.ids = ids;
    r.id_count = sizeof ids / sizeof *ids;
    if (fore_session_trace(s.session, &r, &t, &err)) fail_msg("%s: %s", path, err.text);
    *count = (size_t)t->tokens * (size_t)t->vocab;
    float *copy = malloc(*count * sizeof *copy);
    memcpy(copy, t->logits, *count * sizeof *copy);
    fore_trace_free(t);
    subject_close(&s);
    return copy;
}

static void compare_logits(const struct source *s, const char *out) {
    size_t n, k;
    float *a = logits(s->path, s->mmproj, &n), *b = logits(out, NULL, &k);
    assert_int_equal(n, k);
    if (memcmp(a, b, n * sizeof *a)) fail_msg("%s: other logits", s->path);
    free(a);
    free(b);
}

/* Nothing is left of the source's way, and every quantised matrix is said to be one. */
static void check_config(const char *out) {
    cJSON *config = read_json(out, "config.json"), *index = read_json(out, "model.safetensors.index.json");
    const cJSON *block = fore_json_get(config, "quantization"), *place;
    assert_null(fore_json_get(block, "quant_method"));
    assert_true(!block || cJSON_Compare(block, fore_json_get(config, "quantization_config"), true));
    assert_null(fore_json_get(fore_json_get(config, "text_config"), "quantization_config"));
    int scales = 0;
    cJSON_ArrayForEach(place, fore_json_get(index, "weight_map")) {
        const char *name = place->string;
        scales += fore_name_ends_with(name, ".scales");
        if (strstr(name, "packed") || strstr(name, "qweight") || strstr(name, "zero") || strstr(name, "g_idx") || strstr(name, "weight_scale"))
            fail_msg("%s: %s", out, name);
    }
    assert_int_equal(block != NULL, scales > 0);
    cJSON_Delete(config);
    cJSON_Delete(index);
}

static void test_weights(void **state) {
    (void)state;
    for (int i = 0; i < SOURCES; i++) {
        const fore_quantize_report *r;
        scratch s;
        make_folder(&s);
        fore_quantize_report *report;
        const fore_convert_options o = {.mmproj = sources[i].mmproj};
        const char *out = convert(&s, sources[i].path, o, &report);
        r = report;
        compare_weights(&sources[i], out, sources[i].most);
        if (sources[i].most == 0) assert_true(r->copied > 0 && r->quantized == 0);
        for (size_t k = 0; k < r->count; k++) {
            const fore_quantized *m = &r->modules[k];
            if (m->copied ? !m->bits || m->error > 0 : m->bits ? !(m->error > 0 && m->error < 0.2) : !*m->why) fail_msg("%s: %s", sources[i].path, m->name);
        }
        if (sources[i].logits == 1) compare_logits(&sources[i], out);
        check_config(out);
        fore_quantize_report_free(report);
        scratch_remove(&s);
    }
}

/* Nothing changes: floats stay floats, FP8 becomes the floats that it stands for, and so do integers that no group holds. */
static void test_exact(void **state) {
    (void)state;
    for (int i = 0; i < SOURCES; i++) {
        scratch s;
        make_folder(&s);
        fore_quantize_report *r;
        const fore_convert_options o = {.exact = true, .mmproj = sources[i].mmproj};
        const char *out = convert(&s, sources[i].path, o, &r);
        assert_int_equal(r->quantized, 0);
        compare_weights(&sources[i], out, 0);
        compare_logits(&sources[i], out);
        check_config(out);
        fore_quantize_report_free(r);
        scratch_remove(&s);
    }
}

/* ---- single matrices --------------------------------------------------------------------------------------------- */

enum { MOST = 400 };

static float load(const char *dtype, const unsigned char *p, size_t i) {
    if (!strcmp(dtype, "F32")) return fore_load_f32(p + 4 * i);
    return !strcmp(dtype, "BF16") ? fore_load_bf16(p + 2 * i) : fore_load_f16(p + 2 * i);
}

/* What the matrix of a module stands for, from the tensors alone. *bits: 0 for floats. */
static float *read_module(const fore_tensor_file *f, const char *module, size_t N, size_t K, int *bits) {
    char name[160];
    const fore_tensor *t[3];
    static const char *const ends[] = {"weight", "scales", "biases"};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.%s", module, ends[i]);
        t[i] = fore_tensors_get(f, name);
    }
    if (!t[0] || t[0]->dims != 2 || t[0]->shape[0] != N) fail_msg("%s", module);
    float *y = malloc(N * K * sizeof *y);
    *bits = 0;
    if (strcmp(t[0]->dtype, "U32")) {
        assert_int_equal(t[0]->shape[1], K);
        for (size_t i = 0; i < N * K; i++) y[i] = load(t[0]->dtype, t[0]->data, i);
        return y;
    }
    assert_true(t[1] && t[2]);
    *bits = (int)(t[0]->shape[1] * 32 / K);
    size_t groups = (size_t)t[1]->shape[1];
    const unsigned char *q = t[0]->data;
    for (size_t n = 0; n < N; n++)
        for (size_t k = 0; k < K; k++) {
            unsigned v = 0;
            for (size_t b = 0; b < (size_t)*bits; b++) {
                size_t at = (n * K + k) * (size_t)*bits + b;
                v |= (unsigned)(q[at / 8] >> at % 8 & 1) << b;
            }
            size_t g = n * groups + k / (K / groups);
            y[n * K + k] = fmaf(load(t[1]->dtype, t[1]->data, g), (float)v, load(t[2]->dtype, t[2]->data, g));
        }
    return y;
}

/* Every width and packing of the formats' own writers: integers in no more bits than they need. */
static void test_widths(void **state) {
    (void)state;
    static const struct {
        const char *module;
        int bits; /* 0: no group holds it; -1: as panels have it */
    } cases[] = {
        {"int2_True", 2},  {"int3_True", 3},  {"int4_True", 4},  {"int5_True", 6},   {"int6_True", 8}, {"int7_True", 8}, {"int8_True", 8},
        {"int4_wide", 4},  {"int8_tensor", 8}, {"gptq2", -1},    {"gptq4", -1},      {"awq_32", -1},   {"int2_False", -1}, {"int3_False", -1},
        {"int4_False", -1}, {"int5_False", -1}, {"int6_False", -1}, {"int7_False", -1}, {"int8_False", -1}, {"int8_zeros", -1}, {"int4_cut", 0},
        {"int4_narrow", -1}, {"gptq2_zeros", -1}, {"gptq4_zeros", -1}, {"gptq8_zeros", -1}, {"gptq8", -1},
    };
    static const char *const configs[] = {FORMS "int4/config.json", FORMS "gptq/config.json", FORMS "awq/config.json"};
    static const char *const stems[] = {"int", "gptq", "awq"};
    size_t compared = 0;
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++) {
        scratch s;
        fore_error err = {0};
        fore_tensor_file *from, *made;
        make_folder(&s);
        scratch_copy(&s, configs[c], "source/config.json");
        if (fore_tensors_open(FORMS "extra/extra.safetensors", &from, &err)) fail_msg("%s", err.text);
        fore_tensor t[MOST];
        size_t count = 0;
        const fore_tensor *x;
        for (size_t i = 0; (x = fore_tensors_at(from, i)); i++) /* each is read as its own format's config says */
            if (!strncmp(x->name, stems[c], strlen(stems[c]))) t[count++] = *x;
        if (fore_tensors_write(scratch_path(&s, "source/model.safetensors"), t, count, &err)) fail_msg("%s", err.text);
        const char *out = convert(&s, scratch_path(&s, "source"), (fore_convert_options){.exact = true}, NULL);
        char path[256];
        snprintf(path, sizeof path, "%s/model.safetensors", out);
        if (fore_tensors_open(path, &made, &err)) fail_msg("%s", err.text);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const char *m = cases[i].module;
            if (strncmp(m, stems[c], strlen(stems[c]))) continue;
            char name[64];
            snprintf(name, sizeof name, "value.%s", m);
            const fore_tensor *value = fore_tensors_get(from, name);
            assert_non_null(value);
            int bits;
            float *y = read_module(made, m, (size_t)value->shape[0], (size_t)value->shape[1], &bits);
            for (size_t k = 0; k < value->shape[0] * value->shape[1]; k++) {
                float want = fore_load_f32((const unsigned char *)value->data + 4 * k);
                if (y[k] != want) fail_msg("%s: number %zu is %a, the writer has %a (%d bits)", m, k, (double)y[k], (double)want, bits);
            }
            if (cases[i].bits >= 0 && bits != cases[i].bits) fail_msg("%s: %d bits", m, bits);
            compared++;
            free(y);
        }
        fore_tensors_close(from);
        fore_tensors_close(made);
        scratch_remove(&s);
    }
    assert_int_equal(compared, sizeof cases / sizeof *cases);
}

/* ---- requantising ------------------------------------------------------------------------------------------------ */

/* A copy of the checkpoint in s/wide whose matrices are the floats that they stand for, made by way of `exact` and read_module. */
static void widen(const scratch *s, const char *source) {
    scratch exact;
    fore_error err = {0};
    fore_tensor_file *f;
    fore_tensor t[MOST];
    void *rows[MOST] = {0};
    size_t count = 0;
    char path[256];
    make_folder(&exact);
    snprintf(path, sizeof path, "%s/model.safetensors", convert(&exact, source, (fore_convert_options){.exact = true}, NULL));
    if (fore_tensors_open(path, &f, &err)) fail_msg("%s", err.text);
    cJSON *config = read_json(scratch_path(&exact, "out"), "config.json");
    const cJSON *block = fore_json_get(config, "quantization");
    const fore_tensor *x;
    for (size_t i = 0; (x = fore_tensors_at(f, i)); i++) {
        if (fore_name_ends_with(x->name, ".scales") || fore_name_ends_with(x->name, ".biases")) continue;
        assert_true(count < MOST);
        t[count] = *x;
        if (!strcmp(x->dtype, "U32")) {
            char module[160], name[176];
            snprintf(module, sizeof module, "%.*s", (int)(strlen(x->name) - strlen(".weight")), x->name);
            snprintf(name, sizeof name, "%s.scales", module);
            const fore_tensor *scales = fore_tensors_get(f, name);
            const cJSON *own = fore_json_get(block, module);
            size_t K = (size_t)scales->shape[1] * (size_t)fore_json_get(own ? own : block, "group_size")->valuedouble;
            int bits;
            rows[count] = read_module(f, module, (size_t)x->shape[0], K, &bits);
            t[count].dtype = "F32";
            t[count].shape[1] = K;
            t[count].data = rows[count];
        }
        count++;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(config, "quantization");
    cJSON_DeleteItemFromObjectCaseSensitive(config, "quantization_config");
    char *text = cJSON_Print(config);
    scratch_write(s, "wide/config.json", text, strlen(text));
    if (fore_tensors_write(scratch_path(s, "wide/model.safetensors"), t, count, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < count; i++) free(rows[i]);
    free(text);
    cJSON_Delete(config);
    fore_tensors_close(f);
    scratch_remove(&exact);
}

static void same_file(const char *a, const char *b, const char *name) {
    char path[2][256], *text[2];
    size_t size[2];
    fore_error err = {0};
    const char *const dirs[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", dirs[i], name);
        if (fore_file_read(path[i], 1 << 24, &text[i], &size[i], &err)) fail_msg("%s", err.text);
    }
    if (size[0] != size[1] || memcmp(text[0], text[1], size[0])) fail_msg("%s and %s differ", path[0], path[1]);
    free(text[0]);
    free(text[1]);
}

/* With bits, what comes out is what quantising the floats gives that the source stands for. */
static void test_requantised(void **state) {
    (void)state;
    /* Scales in BF16, which those of floats in F32 become too. */
    static const char *const names[] = {FORMS "int4", FORMS "fp8", FORMS "fp8_experts", GGUF "super/model.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        scratch s;
        fore_error err = {0};
        const fore_quantize_options q = {.bits = i % 2 ? 8 : 4, .group = 32, .threads = 1};
        make_folder(&s);
        if (i == 0) { /* its draft head lies in a file of its own: the body alone */
            scratch_copy(&s, FORMS "int4/config.json", "source/config.json");
            scratch_copy(&s, FORMS "int4/model.safetensors", "source/model.safetensors");
        }
        const char *source = i == 0 ? scratch_path(&s, "source") : names[i];
        widen(&s, source);
        if (fore_quantize(scratch_path(&s, "wide"), scratch_path(&s, "b"), &q, NULL, &err)) fail_msg("%s", err.text);
        convert(&s, source, (fore_convert_options){.quantize = q}, NULL);
        same_file(scratch_path(&s, "out"), scratch_path(&s, "b"), "model.safetensors");
        same_file(scratch_path(&s, "out"), scratch_path(&s, "b"), "model.safetensors.index.json");
        scratch_remove(&s);
    }
}

/* Columns in the order of their groups: quantised anew they are what they were before, and an order that is none is refused. */
static void test_order(void **state) {
    (void)state;
    scratch a, b, c;
    make_folder(&a);
    make_folder(&b);
    make_folder(&c);
    const fore_convert_options eight = {.quantize = {.bits = 8, .group = 32}};
    const char *kept = convert(&a, FORMS "gptq_order", (fore_convert_options){.exact = true}, NULL);
    convert(&b, kept, eight, NULL);
    convert(&c, FORMS "gptq_order", eight, NULL);
    same_file(scratch_path(&b, "out"), scratch_path(&c, "out"), "model.safetensors");
    fore_error err = {0};
    fore_tensor_file *f;
    fore_tensor t[MOST];
    size_t n = 0, orders = 0;
    const fore_tensor *x;
    static int32_t wrong[4096];
    if (fore_tensors_open(scratch_path(&a, "out/model.safetensors"), &f, &err)) fail_msg("%s", err.text);
    for (; (x = fore_tensors_at(f, n)); n++) {
        t[n] = *x;
        if (!fore_name_ends_with(x->name, ".input_order")) continue;
        assert_true(x->dims == 1 && x->shape[0] <= 4096 && !strcmp(x->dtype, "I32"));
        for (size_t k = 0; k < x->shape[0]; k++) wrong[k] = (int32_t)k;
        if (!orders++) t[n].data = wrong;
    }
    assert_true(orders >= 10);
    for (int i = 0; i < 2; i++) {
        wrong[7] = i ? 4096 : 6; /* twice; outside */
        scratch s;
        make_folder(&s);
        char path[256];
        snprintf(path, sizeof path, "%s/config.json", kept);
        scratch_copy(&s, path, "config.json");
        if (fore_tensors_write(scratch_path(&s, "model.safetensors"), t, n, &err)) fail_msg("%s", err.text);
        fore_model *model = NULL;
        assert_int_equal(fore_model_open(s.dir, NULL, &model, &err), FORE_ERR_FORMAT);
        assert_non_null(strstr(err.text, ".input_order: number "));
        assert_int_equal(fore_convert(s.dir, scratch_path(&c, "new"), NULL, NULL, &err), FORE_ERR_FORMAT);
        assert_non_null(strstr(err.text, ".input_order: number 7"));
        scratch_remove(&s);
    }
    fore_tensors_close(f);
    scratch_remove(&a);
    scratch_remove(&b);
    scratch_remove(&c);
}

/* Parts that are asked for otherwise than the rest. */
static void test_parts(void **state) {
    (void)state;
    scratch s;
    fore_quantize_report *r;
    make_folder(&s);
    /* Integers stay, and the output head, which the source has in floats, becomes 8 bits. */
    convert(&s, FORMS "int4", (fore_convert_options){.quantize = {.head_bits = 8, .group = 32}}, &r);
    int copied = 0, heads = 0;
    for (size_t i = 0; i < r->count; i++) {
        const fore_quantized *m = &r->modules[i];
        bool head = strstr(m->name, "lm_head") || strstr(m->name, "embed_tokens");
        copied += m->copied;
        if (m->bits && !m->copied) assert_true(head && m->bits == 8);
        heads += m->bits && !m->copied;
    }
    assert_int_equal(copied, 13);
    assert_true(heads >= 1);
    fore_quantize_report_free(r);
    scratch_remove(&s);
    /* With bits everywhere the draft head keeps what it has. */
    make_folder(&s);
    convert(&s, FORE_DATA "/quantised/model", (fore_convert_options){.quantize = {.bits = 8, .mtp_bits = 16, .vision_bits = 8}}, &r);
    int kept = 0, vision = 0;
    for (size_t i = 0; i < r->count; i++) {
        const fore_quantized *m = &r->modules[i];
        bool draft = strstr(m->name, "mtp.") != NULL;
        if (m->copied && !draft && !strstr(m->name, "in_proj_") && !strstr(m->name, "pos_embed")) fail_msg("%s", m->name);
        kept += m->copied && draft;
        vision += strstr(m->name, "blocks") && m->bits == 8 && !m->copied;
    }
    assert_true(kept >= 8);
    assert_true(vision >= 4);
    fore_quantize_report_free(r);
    scratch_remove(&s);
}

/* Experts of Qwen3-VL, transposed, in FP8 with one scale for each expert's matrix: as from the floats that they stand for. */
static void test_transposed_fp8(void **state) {
    (void)state;
    enum { E = 4, C = 64, I = 32 };
    static unsigned char up[E * C * 2 * I], down[E * I * C];
    static uint16_t wide_up[E * C * 2 * I], wide_down[E * I * C];
    static float scales[2][E];
    scratch s;
    fore_error err = {0};
    for (size_t i = 0; i < sizeof up; i++) up[i] = (unsigned char)(i * 37 % 127 | (i & 4 ? 128 : 0));
    for (size_t i = 0; i < sizeof down; i++) down[i] = (unsigned char)(i * 53 % 127 | (i & 8 ? 128 : 0));
    for (int e = 0; e < E; e++) scales[0][e] = 0.01f + 0.003f * (float)e, scales[1][e] = 0.02f - 0.002f * (float)e;
    for (size_t k = 0; k < 2; k++) {
        const unsigned char *from = k ? down : up;
        uint16_t *to = k ? wide_down : wide_up;
        size_t all = k ? sizeof down : sizeof up;
        for (size_t i = 0; i < all; i++) {
            unsigned v = from[i], exponent = v >> 3 & 15;
            float x = exponent ? ldexpf((float)(8 + (v & 7)), (int)exponent - 10) : ldexpf((float)(v & 7), -9);
            to[i] = fore_to_bf16((v & 128 ? -x : x) * scales[k][i / (all / E)]);
        }
    }
    fore_arena arena = {0};
    fore_config config;
    if (fore_config_read(FAMILY "vl_moe_bf16", &arena, &config, &err)) fail_msg("%s", err.text);
    fore_arena_free(&arena);
    cJSON *json = read_json(FAMILY "vl_moe_bf16", "config.json"), *text_config = cJSON_GetObjectItem(json, "text_config");
    cJSON_SetNumberValue(cJSON_GetObjectItem(text_config, "num_experts"), E);
    cJSON_SetNumberValue(cJSON_GetObjectItem(text_config, "num_experts_per_tok"), 2);
    cJSON_SetNumberValue(cJSON_GetObjectItem(text_config, "hidden_size"), C);
    cJSON_SetNumberValue(cJSON_GetObjectItem(text_config, "moe_intermediate_size"), I);
    char *text = cJSON_Print(json);
    make_folder(&s);
    scratch_write(&s, "a/config.json", text, strlen(text));
    scratch_write(&s, "b/config.json", text, strlen(text));
    free(text);
    cJSON_Delete(json);
    const char *names[] = {"model.language_model.layers.0.mlp.experts.gate_up_proj", "model.language_model.layers.0.mlp.experts.down_proj"};
    const fore_tensor packed[] = {
        {.name = names[0], .dtype = "F8_E4M3", .dims = 3, .shape = {E, C, 2 * I}, .data = up},
        {.name = "model.language_model.layers.0.mlp.experts.gate_up_proj_scale_inv", .dtype = "F32", .dims = 3, .shape = {E, 1, 1}, .data = scales[0]},
        {.name = names[1], .dtype = "F8_E4M3", .dims = 3, .shape = {E, I, C}, .data = down},
        {.name = "model.language_model.layers.0.mlp.experts.down_proj_scale_inv", .dtype = "F32", .dims = 3, .shape = {E, 1, 1}, .data = scales[1]},
    };
    const fore_tensor floats[] = {{.name = names[0], .dtype = "BF16", .dims = 3, .shape = {E, C, 2 * I}, .data = wide_up},
                                  {.name = names[1], .dtype = "BF16", .dims = 3, .shape = {E, I, C}, .data = wide_down}};
    if (fore_tensors_write(scratch_path(&s, "a/model.safetensors"), packed, 4, &err) ||
        fore_tensors_write(scratch_path(&s, "b/model.safetensors"), floats, 2, &err))
        fail_msg("%s", err.text);
    const fore_quantize_options q = {.bits = 4, .group = 32};
    if (fore_quantize(scratch_path(&s, "b"), scratch_path(&s, "want"), &q, NULL, &err)) fail_msg("%s", err.text);
    convert(&s, scratch_path(&s, "a"), (fore_convert_options){.quantize = q}, NULL);
    same_file(scratch_path(&s, "out"), scratch_path(&s, "want"), "model.safetensors");
    cJSON *index = read_json(scratch_path(&s, "out"), "model.safetensors.index.json");
    assert_non_null(fore_json_get(fore_json_get(index, "weight_map"), "model.language_model.layers.0.mlp.switch_mlp.up_proj.scales"));
    cJSON_Delete(index);
    scratch_remove(&s);
}

static const fore_quantized *find_module(const fore_quantize_report *r, const char *name) {
    for (size_t i = 0; i < r->count; i++)
        if (!strcmp(r->modules[i].name, name)) return &r->modules[i];
    fail_msg("no module %s", name);
    return NULL;
}

/* Tensors of `from` with other names: pairs of old and new beginnings. */
static size_t rename_tensors(const fore_tensor_file *from, const char *const (*pairs)[2], size_t count, char names[][96], fore_tensor *t) {
    size_t n = 0;
    const fore_tensor *x;
    for (size_t i = 0; (x = fore_tensors_at(from, i)); i++)
        for (size_t k = 0; k < count; k++) {
            size_t length = strlen(pairs[k][0]);
            if (strncmp(x->name, pairs[k][0], length) || x->name[length] != '.') continue;
            assert_true(n < MOST);
            snprintf(names[n], sizeof names[n], "%s%s", pairs[k][1], x->name + length);
            t[n] = *x;
            t[n].name = names[n];
            n++;
        }
    return n;
}

/* Floats among integers stay, FP8 among them becomes 8 bits, and so do experts that are packed alike become one stack. */
static void test_mixed(void **state) {
    (void)state;
    static char names[MOST][96];
    static const char *const pairs[][2] = {
        {"int4_True", "model.layers.0.mlp.experts.0.gate_proj"}, {"int4_True", "model.layers.0.mlp.experts.0.up_proj"},
        {"int3_True", "model.layers.0.mlp.experts.0.down_proj"}, {"int4_True", "model.layers.0.mlp.experts.1.gate_proj"},
        {"int4_True", "model.layers.0.mlp.experts.1.up_proj"},   {"int3_True", "model.layers.0.mlp.experts.1.down_proj"},
        {"int4_True", "model.layers.1.mlp.experts.0.gate_proj"}, {"int4_True", "model.layers.1.mlp.experts.0.up_proj"},
        {"int3_True", "model.layers.1.mlp.experts.0.down_proj"}, {"int4_True", "model.layers.1.mlp.experts.1.gate_proj"},
        {"int5_True", "model.layers.1.mlp.experts.1.up_proj"},   {"int3_True", "model.layers.1.mlp.experts.1.down_proj"},
    };
    static unsigned char fp8[16 * 64], floats[64 * 64 * 2];
    static const float scale = 0.01f;
    fore_error err = {0};
    fore_tensor_file *f;
    fore_tensor t[MOST];
    fore_quantize_report *r;
    scratch s;
    make_folder(&s);
    for (size_t i = 0; i < sizeof fp8; i++) fp8[i] = (unsigned char)(i * 29 % 120);
    if (fore_tensors_open(FORMS "extra/extra.safetensors", &f, &err)) fail_msg("%s", err.text);
    size_t n = rename_tensors(f, pairs, sizeof pairs / sizeof *pairs, names, t);
    t[n++] = (fore_tensor){.name = "model.layers.0.self_attn.q_proj.weight", .dtype = "F8_E4M3", .dims = 2, .shape = {16, 64}, .data = fp8};
    t[n++] = (fore_tensor){.name = "model.layers.0.self_attn.q_proj.weight_scale", .dtype = "F32", .dims = 1, .shape = {1}, .data = &scale};
    t[n++] = (fore_tensor){.name = "lm_head.weight", .dtype = "BF16", .dims = 2, .shape = {64, 64}, .data = floats};
    cJSON *config = read_json(FORMS "fp8_experts", "config.json");
    cJSON_DeleteItemFromObject(config, "quantization_config");
    cJSON_SetNumberValue(cJSON_GetObjectItem(config, "num_experts"), 2);
    cJSON_SetNumberValue(cJSON_GetObjectItem(config, "num_experts_per_tok"), 2);
    char *text = cJSON_Print(config);
    scratch_write(&s, "source/config.json", text, strlen(text));
    if (fore_tensors_write(scratch_path(&s, "source/model.safetensors"), t, n, &err)) fail_msg("%s", err.text);
    const char *out = convert(&s, scratch_path(&s, "source"), (fore_convert_options){.exact = false}, &r);
    const fore_quantized *m = find_module(r, "model.layers.0.self_attn.q_proj");
    assert_true(m->bits == 8 && !m->copied && m->error < 0.01);
    m = find_module(r, "lm_head");
    assert_true(!m->bits && strstr(m->why, "among matrices of integers"));
    m = find_module(r, "model.layers.0.mlp.switch_mlp.gate_proj");
    assert_true(m->bits == 4 && m->copied && m->weights == 2 * 24 * 64);
    m = find_module(r, "model.layers.0.mlp.switch_mlp.down_proj");
    assert_true(m->bits == 3 && m->copied);
    m = find_module(r, "model.layers.1.mlp.experts.1.up_proj"); /* packed otherwise than the other one's */
    assert_true(m->copied && find_module(r, "model.layers.1.mlp.experts.0.up_proj")->bits == 4);
    fore_quantize_report_free(r);
    /* A stack is its experts, one behind the other. */
    fore_tensor_file *made;
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", out);
    if (fore_tensors_open(path, &made, &err)) fail_msg("%s", err.text);
    static const char *const ends[] = {"weight", "scales", "biases"};
    for (int i = 0; i < 3; i++) {
        char one[96], all[96];
        snprintf(one, sizeof one, "model.layers.1.mlp.experts.0.gate_proj.%s", ends[i]);
        snprintf(all, sizeof all, "model.layers.0.mlp.switch_mlp.gate_proj.%s", ends[i]);
        const fore_tensor *a = fore_tensors_get(made, one), *b = fore_tensors_get(made, all);
        assert_true(a && b && b->dims == 3 && b->shape[0] == 2 && b->shape[1] == a->shape[0] && b->shape[2] == a->shape[1]);
        size_t bytes = (size_t)(a->shape[0] * a->shape[1]) * (strcmp(a->dtype, "BF16") ? 4 : 2);
        assert_memory_equal(b->data, a->data, bytes);
        assert_memory_equal((const char *)b->data + bytes, a->data, bytes);
    }
    fore_tensors_close(made);
    fore_tensors_close(f);
    free(text);
    cJSON_Delete(config);
    scratch_remove(&s);
}

/* A draft head that lies apart, in MLX's form with bits of its own. */
static void test_packed_sidecar(void **state) {
    (void)state;
    static const char packed[] = FORE_DATA "/quantised/model";
    fore_error err = {0};
    fore_tensor_file *f;
    fore_tensor body[MOST], head[MOST];
    size_t n = 0, k = 0;
    const fore_tensor *x;
    scratch s;
    make_folder(&s);
    scratch_copy(&s, FORE_DATA "/quantised/model/config.json", "source/config.json");
    if (fore_tensors_open(FORE_DATA "/quantised/model/model.safetensors", &f, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; (x = fore_tensors_at(f, i)); i++) {
        assert_true(n < MOST && k < MOST);
        if (strstr(x->name, "mtp.")) head[k++] = *x;
        else body[n++] = *x;
    }
    assert_true(k > 15);
    if (fore_tensors_write(scratch_path(&s, "source/model.safetensors"), body, n, &err) ||
        fore_tensors_write(scratch_path(&s, "source/mtp.safetensors"), head, k, &err))
        fail_msg("%s", err.text);
    const struct source same = {.path = packed, .least = 30};
    static const fore_quantize_options ways[] = {{.bits = 0}, {.bits = 8, .group = 32, .mtp_bits = 16}};
    for (int i = 0; i < 2; i++) {
        scratch made;
        make_folder(&made);
        const char *out = convert(&made, scratch_path(&s, "source"), (fore_convert_options){.quantize = ways[i]}, NULL);
        char path[256];
        snprintf(path, sizeof path, "%s/mtp.safetensors", out);
        fore_tensor_file *apart;
        if (fore_tensors_open(path, &apart, &err)) fail_msg("%s", err.text);
        size_t count = 0;
        for (; (x = fore_tensors_at(apart, count)); count++) {
            size_t at = 0;
            while (at < k && strcmp(head[at].name, x->name)) at++;
            if (at == k) fail_msg("%s", x->name);
            assert_string_equal(head[at].dtype, x->dtype);
            size_t bytes = !strcmp(x->dtype, "BF16") ? 2 : 4;
            for (int d = 0; d < x->dims; d++) bytes *= (size_t)x->shape[d];
            assert_memory_equal(head[at].data, x->data, bytes);
        }
        assert_int_equal(count, k);
        fore_tensors_close(apart);
        if (i == 0) compare_weights(&same, out, 0);
        else compare_weights(&same, out, 0.5);
        scratch_remove(&made);
    }
    fore_tensors_close(f);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),        cmocka_unit_test(test_exact), cmocka_unit_test(test_widths), cmocka_unit_test(test_requantised), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_transposed_fp8), cmocka_unit_test(test_mixed), cmocka_unit_test(test_packed_sidecar),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
