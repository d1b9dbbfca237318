/* forge convert: from every form, the weights that the source stands for, to the bit where its integers are kept; the same answers and
 * tokens as GGUF files have; requantising as from floats; what config.json says; and what is refused, which leaves nothing behind. */
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
#include "decode/model.h"
#include "kernels/half.h"
#include "support/alike.h"
#include "support/answer.h"
#include "support/scratch.h"
#include "text/tokenizer.h"

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
    bool same_logits;  /* ... and the same kernels compute with them */
} sources[] = {
    {FORMS "int4", NULL, 0, 14, true},
    {FORMS "int4_zeros", NULL, 0, 14, true},
    {FORMS "int8", NULL, 0, 14, true},
    {FORMS "awq", NULL, 0, 14, true},
    {FORMS "gptq", NULL, 0, 14, true},
    {FORMS "gptq_order", NULL, 0.02, 14, false},
    {FORMS "fp8", NULL, 0.2, 14, false},
    {FORMS "fp8_channel", NULL, 0.2, 14, false},
    {FORMS "fp8_experts", NULL, 0.2, 30, false},
    {FORMS "fp8_head", NULL, 0.2, 14, false},
    {FORE_DATA "/quantised/model", NULL, 0, 30, true},
    {GGUF "blocks/model.gguf", GGUF "blocks/mmproj.gguf", 0, 37, true},
    {GGUF "blocks", NULL, 0, 37, true},
    {GGUF "moeblocks/model.gguf", NULL, 0.02, 67, false},
    {GGUF "super/model.gguf", NULL, 0.02, 9, false},
    {GGUF "apart", NULL, 0.2, 37, false},
    {GGUF "parts/model-00001-of-00003.gguf", GGUF "q35/mmproj.gguf", 0.2, 37, false},
    {GGUF "q35moe/model.gguf", NULL, 0.2, 67, false},
    {GGUF "next/model.gguf", NULL, 0.2, 41, false},
    {GGUF "q3/model.gguf", NULL, 0.2, 9, false},
    {GGUF "q3moe/model.gguf", NULL, 0.2, 19, false},
    {GGUF "vl/model.gguf", GGUF "vl/mmproj.gguf", 0.2, 23, false},
    {GGUF "vlmoe/model.gguf", NULL, 0.2, 7, false},
    {FORE_DATA "/models/dense_sharded_bf16", NULL, 0.2, 30, false},
    {FORE_DATA "/models/dense_tied_f32", NULL, 0.2, 30, false},
    {FORE_DATA "/moe/moe_bf16_numbered", NULL, 0.2, 30, false},
    {FORE_DATA "/qwen2_5/bf16", NULL, 0.2, 7, false},
    {FAMILY "qwen3_next_bf16", NULL, 0.2, 20, false},
    {FAMILY "vl_moe_bf16", NULL, 0.2, 7, false},
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
        if (sources[i].same_logits) compare_logits(&sources[i], out);
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

/* ---- files around the weights ------------------------------------------------------------------------------------ */

static void same_cut(const fore_processor *a, const fore_processor *b) {
    assert_true(a->patch_size == b->patch_size && a->temporal_patch_size == b->temporal_patch_size && a->merge_size == b->merge_size);
    if (a->min_pixels != b->min_pixels || a->max_pixels != b->max_pixels) fail_msg("%ld %ld, %ld %ld", (long)a->min_pixels, (long)a->max_pixels, (long)b->min_pixels, (long)b->max_pixels);
    assert_true(a->min_pixels == b->min_pixels && a->max_pixels == b->max_pixels && a->rescale_factor == b->rescale_factor);
    assert_true(a->do_resize == b->do_resize && a->do_rescale == b->do_rescale && a->do_normalize == b->do_normalize);
    assert_memory_equal(a->mean, b->mean, sizeof a->mean);
    assert_memory_equal(a->std, b->std, sizeof a->std);
}

/* Tokens, template, pictures, videos and sampling of a model in GGUF files and of the folder that was made of it. */
static void test_metadata(void **state) {
    (void)state;
    static const char *const texts[] = {"<|im_start|>user\nwhat is the red picture on?<|im_end|>\n", "it's 12345 WE'LL\r\n\r\n  d", ""};
    static const struct {
        const char *path, *mmproj;
    } models[] = {{GGUF "q35/model.gguf", GGUF "q35/mmproj.gguf"}, {GGUF "vl/model.gguf", GGUF "vl/mmproj.gguf"}, {GGUF "apart", NULL},
                  {GGUF "next/model.gguf", NULL}, {GGUF "q3/model.gguf", NULL}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        scratch s;
        make_folder(&s);
        const char *out = convert(&s, models[i].path, (fore_convert_options){.exact = true, .mmproj = models[i].mmproj}, NULL);
        subject a = subject_open(models[i].path, &(fore_model_options){.mmproj = models[i].mmproj}, 64), b = subject_open(out, NULL, 64);
        const fore_tokenizer *x = fore_model_tokenizer(a.model), *y = fore_model_tokenizer(b.model);
        assert_int_equal(fore_tokenizer_size(x), fore_tokenizer_size(y));
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            int32_t *p = NULL, *q = NULL;
            size_t n = 0, m = 0;
            assert_int_equal(fore_tokenizer_encode(x, texts[k], strlen(texts[k]), &p, &n, NULL), FORE_OK);
            assert_int_equal(fore_tokenizer_encode(y, texts[k], strlen(texts[k]), &q, &m, NULL), FORE_OK);
            assert_int_equal(n, m);
            if (n) assert_memory_equal(p, q, n * sizeof *p);
            fore_free(p);
            fore_free(q);
        }
        assert_int_equal(fore_model_template(a.model) != NULL, fore_model_template(b.model) != NULL);
        fore_sampling u, v;
        fore_model_default_sampling(a.model, &u);
        fore_model_default_sampling(b.model, &v);
        assert_true(u.temperature == v.temperature && u.top_p == v.top_p && u.top_k == v.top_k && u.min_p == v.min_p);
        assert_int_equal(a.model->eos_count, b.model->eos_count);
        assert_memory_equal(a.model->eos, b.model->eos, (size_t)a.model->eos_count * sizeof *a.model->eos);
        if (a.model->network.config.has_vision) {
            const fore_video_processor *c = &a.model->video_processor, *d = &b.model->video_processor;
            same_cut(&a.model->processor, &b.model->processor);
            same_cut(&c->frame, &d->frame);
            assert_true(c->fps == d->fps && c->min_frames == d->min_frames && c->max_frames == d->max_frames && c->frame_tokens == d->frame_tokens &&
                        c->cap_frames == d->cap_frames && c->samples == d->samples);
        }
        subject_close(&a);
        subject_close(&b);
        scratch_remove(&s);
    }
}

/* What lies in a folder of GGUF files and is read with them comes along; what tells of other weights does not. */
static void test_files(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    scratch_copy(&s, GGUF "q35/model.gguf", "source/model.gguf");
    scratch_copy(&s, GGUF "q35/mmproj.gguf", "source/mmproj.gguf");
    scratch_write(&s, "source/preprocessor_config.json", "{\"min_pixels\": 70000, \"patch_size\": 16}", 39);
    scratch_write(&s, "source/tokenizer.json", "{}", 2);
    scratch_write(&s, "source/LICENSE", "free", 4);
    const char *out = convert(&s, scratch_path(&s, "source"), (fore_convert_options){.exact = true}, NULL);
    same_file(out, scratch_path(&s, "source"), "preprocessor_config.json");
    same_file(out, scratch_path(&s, "source"), "LICENSE");
    subject b = subject_open(out, NULL, 64);
    assert_int_equal(b.model->processor.min_pixels, 70000);
    assert_int_equal(fore_tokenizer_id(fore_model_tokenizer(b.model), "<|im_end|>"), 306);
    subject_close(&b);
    char path[256];
    snprintf(path, sizeof path, "%s/video_preprocessor_config.json", out);
    assert_false(fore_file_exists(path));
    scratch_remove(&s);

    make_folder(&s);
    scratch_copy(&s, FORMS "awq/config.json", "source/config.json");
    scratch_copy(&s, FORMS "awq/model.safetensors", "source/model.safetensors");
    scratch_write(&s, "source/quant_config.json", "{}", 2);
    scratch_write(&s, "source/quantize_config.json", "{}", 2);
    scratch_write(&s, "source/vocab.txt", "a", 1);
    scratch out_files;
    snprintf(out_files.dir, sizeof out_files.dir, "%s/out", s.dir);
    convert(&s, scratch_path(&s, "source"), (fore_convert_options){.exact = false}, NULL);
    assert_int_equal(scratch_count(&out_files), 5); /* config.json, the index, the weights, the report, vocab.txt */
    scratch_remove(&s);
}

/* ---- looking, and what is refused -------------------------------------------------------------------------------- */

static void test_dry_run(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    fore_quantize_report *r, *done;
    convert(&s, FORMS "int4", (fore_convert_options){.dry_run = true}, &r);
    assert_int_equal(scratch_count(&s), 0);
    convert(&s, FORMS "int4", (fore_convert_options){.dry_run = false}, &done);
    assert_int_equal(r->copied, 13);
    assert_int_equal(r->copied, done->copied);
    assert_int_equal(r->bytes, done->bytes);
    assert_int_equal(r->count, done->count);
    fore_quantize_report_free(r);
    fore_quantize_report_free(done);
    scratch_remove(&s);
}

static void refuse(const char *source, const char *out, const fore_convert_options *o, fore_status code, const char *says) {
    fore_error err = {0};
    fore_quantize_report *r = NULL;
    fore_status s = fore_convert(source, out, o, &r, &err);
    if (s != code || r || !strstr(err.text, says)) fail_msg("expected %d \"%s\", got %d: %s", code, says, s, err.text);
}

static void test_refused(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    const char *out = scratch_path(&s, "out");
    const fore_convert_options plain = {.exact = false};
    refuse(FORMS "none", out, &plain, FORE_ERR_IO, "none: cannot open");
    refuse("README.md", out, &plain, FORE_ERR_INVALID, "give the folder of a checkpoint, or a GGUF file");
    refuse("tests/samples", out, &plain, FORE_ERR_IO, "config.json");
    refuse(GGUF "tokenizer/model.gguf", out, &plain, FORE_ERR_FORMAT, "token_embd.weight");
    refuse(GGUF "q35/mmproj.gguf", out, &plain, FORE_ERR_INVALID, "a vision tower alone");
    refuse(FORMS "int4", out, &(fore_convert_options){.mmproj = GGUF "q35/mmproj.gguf"}, FORE_ERR_INVALID, "not a model of GGUF files");
    refuse(FORMS "int4", out, &(fore_convert_options){.quantize = {.bits = 5}}, FORE_ERR_INVALID, "convert: bits: expected 4 or 8, found 5");
    refuse(FORMS "int4", out, &(fore_convert_options){.quantize = {.group = 16}}, FORE_ERR_INVALID, "convert: group");
    refuse(FORMS "int4", out, &(fore_convert_options){.exact = true, .quantize = {.mtp_bits = 4}}, FORE_ERR_INVALID, "makes no sense");
    refuse(FORMS "int4", FORMS "int4", &plain, FORE_ERR_INVALID, "the source itself");
    refuse(FORMS "int4", FORMS "int4/new", &plain, FORE_ERR_INVALID, "inside the source");
    refuse(FORMS "int4", FORMS "int4/../int4/new/", &plain, FORE_ERR_INVALID, "inside the source");
    refuse(FORMS "int4", "README.md", &plain, FORE_ERR_INVALID, "there, and not a folder");
    refuse(FORMS "int4", "tests", &plain, FORE_ERR_INVALID, "not empty");
    refuse(FORMS "int4", scratch_path(&s, "no/such"), &plain, FORE_ERR_IO, "cannot make the folder");
    assert_int_equal(scratch_count(&s), 0);
    scratch_remove(&s);
    /* quantize names the way. */
    fore_error err = {0};
    const fore_quantize_options q = {.bits = 4};
    assert_int_equal(fore_quantize(GGUF "q35/model.gguf", out, &q, NULL, &err), FORE_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "foresight forge convert"));
    assert_int_equal(fore_quantize(FORMS "awq", out, &q, NULL, &err), FORE_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "foresight forge convert"));
}

/* Half a file, and matrices in a form that is not known: nothing is made. */
static void test_damaged(void **state) {
    (void)state;
    static const char *const files[][2] = {{FORMS "gptq/model.safetensors", "model.safetensors"}, {GGUF "blocks/model.gguf", "model.gguf"}};
    scratch s;
    make_folder(&s);
    for (int i = 0; i < 2; i++) {
        char name[64], *path;
        struct stat st;
        snprintf(name, sizeof name, "%d/%s", i, files[i][1]);
        scratch_copy(&s, files[i][0], name);
        if (i == 0) scratch_copy(&s, FORMS "gptq/config.json", "0/config.json");
        path = strdup(scratch_path(&s, name));
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, st.st_size - 4000), 0);
        refuse(i ? path : scratch_path(&s, "0"), scratch_path(&s, "out"), NULL, FORE_ERR_FORMAT, "truncated");
        free(path);
    }
    static const unsigned char x[64 * 64];
    fore_error err = {0};
    static const struct {
        fore_tensor t[2];
        size_t count;
        fore_status code;
        const char *says;
    } cases[] = {
        {{{.name = "lm_head.weight", .dtype = "F8_E5M2", .dims = 2, .shape = {64, 64}, .data = x}}, 1, FORE_ERR_UNSUPPORTED, "a matrix of type F8_E5M2"},
        {{{.name = "lm_head.weight", .dtype = "U32", .dims = 2, .shape = {64, 8}, .data = x}}, 1, FORE_ERR_FORMAT, "no .scales"},
        {{{.name = "lm_head.weight", .dtype = "U32", .dims = 2, .shape = {64, 7}, .data = x},
          {.name = "lm_head.scales", .dtype = "BF16", .dims = 2, .shape = {64, 1}, .data = x}}, 2, FORE_ERR_FORMAT, "no .scales and .biases"},
        {{{.name = "lm_head.qweight", .dtype = "I32", .dims = 2, .shape = {8, 64}, .data = x}}, 1, FORE_ERR_FORMAT, "scales"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_copy(&s, FORMS "int4/config.json", "2/config.json");
        if (fore_tensors_write(scratch_path(&s, "2/model.safetensors"), cases[i].t, cases[i].count, &err)) fail_msg("%s", err.text);
        refuse(scratch_path(&s, "2"), scratch_path(&s, "out"), NULL, cases[i].code, cases[i].says);
    }
    assert_false(fore_dir_exists(scratch_path(&s, "out")));
    scratch_remove(&s);
}

/* A source of four terabytes with nothing written in it: asked before the folder is made. */
static void test_no_room(void **state) {
    (void)state;
    static const char header[] = "{\"lm_head.weight\":{\"dtype\":\"BF16\",\"shape\":[16777216,131072],\"data_offsets\":[0,4398046511104]}}  ";
    scratch s;
    scratch_make(&s);
    char file[8 + sizeof header] = {(char)(sizeof header - 1)};
    memcpy(file + 8, header, sizeof header - 1);
    scratch_copy(&s, FORMS "int4/config.json", "source/config.json");
    scratch_write(&s, "source/model.safetensors", file, 8 + sizeof header - 1);
    const fore_convert_options exact = {.exact = true};
    if (truncate(scratch_path(&s, "source/model.safetensors"), (off_t)(8 + sizeof header - 1) + 4398046511104) == 0) {
        refuse(scratch_path(&s, "source"), scratch_path(&s, "out"), NULL, FORE_ERR_LIMIT, "needs 1236.98 GB, and the disk has ");
        refuse(scratch_path(&s, "source"), scratch_path(&s, "out"), &exact, FORE_ERR_LIMIT, "needs 4398.08 GB, and the disk has ");
        assert_false(fore_dir_exists(scratch_path(&s, "out")));
        assert_int_equal(mkdir(scratch_path(&s, "out"), 0755), 0);
        refuse(scratch_path(&s, "source"), scratch_path(&s, "out"), NULL, FORE_ERR_LIMIT, "needs 1236.98 GB");
        assert_int_equal(rmdir(scratch_path(&s, "out")), 0); /* it is empty */
    } else {
        print_message("this file system has no files of that size\n");
    }
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),     cmocka_unit_test(test_exact),   cmocka_unit_test(test_widths),         cmocka_unit_test(test_requantised),
        cmocka_unit_test(test_parts),       cmocka_unit_test(test_transposed_fp8), cmocka_unit_test(test_metadata), cmocka_unit_test(test_files),
        cmocka_unit_test(test_dry_run),     cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged),        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
