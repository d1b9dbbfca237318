/* Quantising checkpoints: what each tensor becomes, the numbers against a second computation, config.json and the index, the
 * draft head's own file, experts of every layout, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "forge/quantize_config.h"
#include "kernels/half.h"
#include "kernels/quant.h"
#include "support/experts.h"
#include "support/scratch.h"

#define MODELS FORE_DATA "/models/"
#define MOE FORE_DATA "/moe/moe_bf16"

/* ---- plans ------------------------------------------------------------------------------------------------------- */

typedef struct planned {
    fore_arena arena;
    fore_config config;
    fore_store *store, *sidecar;
    fore_quantize_plan plan;
} planned;

static void plan_open(planned *p, const char *dir, const char *sidecar, fore_quantize_rules rules) {
    fore_error err = {0};
    *p = (planned){0};
    if (!rules.shard_bytes) rules.shard_bytes = 4000000000u;
    if (fore_config_read(dir, &p->arena, &p->config, &err) || fore_store_open(dir, &p->store, &err)) fail_msg("%s", err.text);
    if (sidecar && fore_store_open_file(sidecar, &p->sidecar, &err)) fail_msg("%s", err.text);
    if (fore_quantize_plan_make(&p->config, p->store, p->sidecar, sidecar ? "mtp.safetensors" : NULL, &rules, &p->plan, &err))
        fail_msg("%s", err.text);
}

static void plan_close(planned *p) {
    fore_quantize_plan_free(&p->plan);
    fore_store_close(p->sidecar);
    fore_store_close(p->store);
    fore_arena_free(&p->arena);
}

static const fore_quantize_job *job(const planned *p, const char *name) {
    for (size_t i = 0; i < p->plan.count; i++)
        if (!strcmp(p->plan.jobs[i].name, name)) return &p->plan.jobs[i];
    return NULL;
}

static const fore_quantize_job *need_job(const planned *p, const char *name) {
    const fore_quantize_job *j = job(p, name);
    if (!j) fail_msg("no tensor %s in the plan", name);
    return j;
}

static const fore_quantize_rules four = {.bits = 4, .group = 32, .head_bits = 4, .mtp_bits = 4, .vision_bits = 16};

static void test_plan_of_a_dense_model(void **state) {
    (void)state;
    static const struct {
        const char *name, *why; /* why NULL: quantised; "": no matrix */
    } cases[] = {
        {"model.language_model.embed_tokens.weight", NULL},
        {"lm_head.weight", NULL},
        {"model.language_model.layers.0.linear_attn.in_proj_qkv.weight", NULL},
        {"model.language_model.layers.0.linear_attn.in_proj_z.weight", NULL},
        {"model.language_model.layers.0.linear_attn.out_proj.weight", NULL},
        {"model.language_model.layers.0.linear_attn.in_proj_a.weight", "small"},
        {"model.language_model.layers.0.linear_attn.in_proj_b.weight", "small"},
        {"model.language_model.layers.0.linear_attn.conv1d.weight", ""},
        {"model.language_model.layers.0.linear_attn.A_log", ""},
        {"model.language_model.layers.0.linear_attn.dt_bias", ""},
        {"model.language_model.layers.0.linear_attn.norm.weight", ""},
        {"model.language_model.layers.0.input_layernorm.weight", ""},
        {"model.language_model.layers.3.self_attn.q_proj.weight", NULL},
        {"model.language_model.layers.3.self_attn.k_proj.weight", NULL},
        {"model.language_model.layers.3.self_attn.v_proj.weight", NULL},
        {"model.language_model.layers.3.self_attn.o_proj.weight", NULL},
        {"model.language_model.layers.3.self_attn.q_norm.weight", ""},
        {"model.language_model.layers.3.mlp.gate_proj.weight", NULL},
        {"model.language_model.layers.3.mlp.up_proj.weight", NULL},
        {"model.language_model.layers.3.mlp.down_proj.weight", NULL},
        {"model.language_model.norm.weight", ""},
        {"model.visual.patch_embed.proj.weight", "patch"},
        {"model.visual.pos_embed.weight", "position"},
        {"model.visual.blocks.0.attn.qkv.weight", "vision tower"},
        {"model.visual.blocks.0.attn.qkv.bias", ""},
        {"model.visual.merger.linear_fc2.weight", "vision tower"},
        {"mtp.fc.weight", NULL},
        {"mtp.layers.0.self_attn.q_proj.weight", NULL},
        {"mtp.layers.0.mlp.down_proj.weight", NULL},
        {"mtp.pre_fc_norm_hidden.weight", ""},
    };
    planned p;
    plan_open(&p, MODELS "dense_sharded_bf16", MODELS "dense_sharded_bf16/mtp.safetensors", four);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fore_quantize_job *j = need_job(&p, cases[i].name);
        const char *why = cases[i].why;
        if (!why ? j->bits != 4 || j->group != 32 || j->why || !j->module
                 : j->bits || !*why ? j->bits || j->module : !j->why || !strstr(j->why, why))
            fail_msg("%s: %d bits, %s", j->name, j->bits, j->why ? j->why : "no reason");
    }
    const fore_quantize_job *j = need_job(&p, "lm_head.weight");
    assert_string_equal(j->module, "lm_head");
    assert_string_equal(j->scales, "lm_head.scales");
    assert_string_equal(j->biases, "lm_head.biases");
    assert_int_equal(j->affine, FORE_DTYPE_BF16);
    /* The head's own file is its own again. */
    assert_int_equal(p.plan.file_count, 2);
    assert_string_equal(p.plan.files[0].name, "model.safetensors");
    assert_string_equal(p.plan.files[1].name, "mtp.safetensors");
    assert_true(p.plan.files[1].sidecar && !p.plan.files[0].sidecar);
    assert_int_equal(need_job(&p, "mtp.fc.weight")->file, 1);
    plan_close(&p);
}

static void test_bits_of_parts(void **state) {
    (void)state;
    const fore_quantize_rules mixed = {.bits = 4, .group = 32, .head_bits = 8, .mtp_bits = 16, .vision_bits = 8};
    planned p;
    plan_open(&p, MODELS "dense_sharded_bf16", MODELS "dense_sharded_bf16/mtp.safetensors", mixed);
    assert_int_equal(need_job(&p, "lm_head.weight")->bits, 8);
    assert_int_equal(need_job(&p, "model.language_model.embed_tokens.weight")->bits, 4); /* not tied */
    assert_int_equal(need_job(&p, "mtp.layers.0.mlp.up_proj.weight")->bits, 0);
    assert_non_null(strstr(need_job(&p, "mtp.fc.weight")->why, "draft head"));
    assert_int_equal(need_job(&p, "model.visual.blocks.0.attn.qkv.weight")->bits, 8);
    assert_int_equal(need_job(&p, "model.visual.merger.linear_fc1.weight")->bits, 8);
    /* rows of 40 in groups of 32 */
    const fore_quantize_job *j = need_job(&p, "model.visual.blocks.0.mlp.linear_fc2.weight");
    assert_int_equal(j->bits, 0);
    assert_string_equal(j->why, "its rows of 40 are no multiple of the group 32");
    assert_int_equal(need_job(&p, "model.visual.pos_embed.weight")->bits, 0);
    plan_close(&p);
    /* The policy that keeps fc. */
    fore_quantize_rules layers = four;
    layers.mtp_layers_only = true;
    plan_open(&p, MODELS "dense_sharded_bf16", MODELS "dense_sharded_bf16/mtp.safetensors", layers);
    assert_int_equal(need_job(&p, "mtp.fc.weight")->bits, 0);
    assert_non_null(strstr(need_job(&p, "mtp.fc.weight")->why, "cyankiwi"));
    assert_int_equal(need_job(&p, "mtp.layers.0.mlp.up_proj.weight")->bits, 4);
    plan_close(&p);
    /* A tied head is the embedding. */
    plan_open(&p, "models/tiny", NULL, mixed);
    assert_int_equal(need_job(&p, "model.language_model.embed_tokens.weight")->bits, 8);
    assert_int_equal(need_job(&p, "model.language_model.layers.0.mlp.up_proj.weight")->bits, 4);
    assert_int_equal(need_job(&p, "mtp.layers.0.mlp.up_proj.weight")->bits, 0);
    plan_close(&p);
}

/* Every tensor is in one file, files keep the limit, names count. */
static void test_shards(void **state) {
    (void)state;
    fore_quantize_rules small = four;
    small.shard_bytes = 20000;
    planned p;
    plan_open(&p, MODELS "dense_untied_bf16", NULL, small);
    size_t next = 0, big = 0;
    uint64_t bytes = 0, source = 0;
    assert_true(p.plan.file_count > 3);
    for (size_t i = 0; i < p.plan.file_count; i++) {
        const fore_quantize_file *f = &p.plan.files[i];
        char name[64];
        snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, p.plan.file_count);
        assert_string_equal(f->name, name);
        assert_int_equal(f->first, next);
        assert_true(f->count > 0 && (f->bytes <= small.shard_bytes || f->count == 1));
        big += f->bytes > small.shard_bytes;
        for (size_t k = f->first; k < f->first + f->count; k++) assert_int_equal(p.plan.jobs[k].file, i);
        next += f->count;
        bytes += f->bytes;
        source += f->source_bytes;
    }
    assert_int_equal(next, p.plan.count);
    assert_int_equal(bytes, p.plan.bytes);
    assert_int_equal(source, p.plan.source_bytes);
    assert_int_equal(source, fore_store_bytes(p.store));
    assert_true(big > 0); /* one tensor alone has more than a file may hold: it gets a file */
    plan_close(&p);
}

static void test_paths_of_mlx(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"model.language_model.layers.0.mlp.up_proj", "language_model.model.layers.0.mlp.up_proj"},
        {"model.language_model.mtp.fc", "language_model.mtp.fc"},
        {"model.layers.0.mlp.up_proj", "language_model.model.layers.0.mlp.up_proj"},
        {"lm_head", "language_model.lm_head"},
        {"mtp.fc", "language_model.mtp.fc"},
        {"language_model.model.embed_tokens", "language_model.model.embed_tokens"},
        {"model.visual.merger.linear_fc1", "model.visual.merger.linear_fc1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fore_buf b = {0};
        assert_int_equal(fore_quantize_mlx_path(cases[i][0], &b), FORE_OK);
        assert_string_equal(b.data, cases[i][1]);
        fore_buf_free(&b);
    }
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static fore_store *open_store(const char *dir) {
    fore_store *st = NULL;
    fore_error err = {0};
    if (fore_store_open(dir, &st, &err)) fail_msg("%s", err.text);
    return st;
}

static const fore_entry *need_entry(const fore_store *st, const char *name) {
    const fore_entry *e = fore_store_find(st, name);
    if (!e) fail_msg("no tensor %s", name);
    return e;
}

static double value(const fore_entry *e, size_t i) {
    if (e->dtype == FORE_DTYPE_F32) return (double)fore_load_f32(e->data + 4 * i);
    return (double)(e->dtype == FORE_DTYPE_BF16 ? fore_load_bf16(e->data + 2 * i) : fore_load_f16(e->data + 2 * i));
}

static uint64_t elements(const fore_entry *e) {
    uint64_t n = 1;
    for (int d = 0; d < e->dims; d++) n *= e->shape[d];
    return n;
}

/* The relative error of M.weight, M.scales, M.biases against values given one by one, from the words themselves. */
static double measure(const fore_store *out, const char *module, size_t bits, double (*source)(const void *, size_t),
                      const void *of) {
    char name[256];
    snprintf(name, sizeof name, "%s.weight", module);
    const fore_entry *w = need_entry(out, name);
    snprintf(name, sizeof name, "%s.scales", module);
    const fore_entry *s = need_entry(out, name);
    snprintf(name, sizeof name, "%s.biases", module);
    const fore_entry *b = need_entry(out, name);
    assert_string_equal(w->dtype_name, "U32");
    assert_int_equal(elements(s), elements(b));
    size_t groups = (size_t)elements(s), group = (size_t)elements(w) * 32 / bits / groups;
    double error = 0, weights = 0;
    for (size_t g = 0; g < groups; g++)
        for (size_t k = 0; k < group; k++) {
            size_t i = g * group + k, word = i * bits / 32;
            uint32_t u = (uint32_t)w->data[4 * word] | (uint32_t)w->data[4 * word + 1] << 8 | (uint32_t)w->data[4 * word + 2] << 16 |
                         (uint32_t)w->data[4 * word + 3] << 24;
            double q = (double)(u >> i * bits % 32 & ((1u << bits) - 1)), x = source(of, i), d = value(s, g) * q + value(b, g) - x;
            error += d * d;
            weights += x * x;
        }
    return sqrt(error / weights);
}

static double of_entry(const void *e, size_t i) { return value(e, i); }

static fore_quantize_report *quantize(const char *source, const char *out, const fore_quantize_options *o) {
    fore_error err = {0};
    fore_quantize_report *r = NULL;
    if (fore_quantize(source, out, o, &r, &err)) fail_msg("%s", err.text);
    assert_non_null(r);
    return r;
}

static void check_reported(const char *source, const char *out, const fore_quantize_report *r) {
    fore_store *from = open_store(source), *to = open_store(out);
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++) {
        const fore_quantized *m = &r->modules[i];
        char name[256];
        snprintf(name, sizeof name, "%s.weight", m->name);
        const fore_entry *e = fore_store_find(from, name);
        if (!m->bits) {
            assert_true(*m->why && m->error == 0);
            continue;
        }
        assert_true(e && !*m->why && m->weights == elements(e));
        double got = measure(to, m->name, (size_t)m->bits, of_entry, e);
        if (!(fabs(got - m->error) <= 1e-9 * got)) fail_msg("%s: reported %.12g, is %.12g", m->name, m->error, got);
        assert_true(got > (m->bits == 4 ? 0.03 : 0.001) && got < (m->bits == 4 ? 0.12 : 0.01));
        sum += got;
        n++;
    }
    assert_int_equal(n, r->quantized);
    assert_true(fabs(sum / (double)n - r->mean_error) < 1e-9);
    fore_store_close(from);
    fore_store_close(to);
}

static void test_errors_as_reported(void **state) {
    (void)state;
    for (int bits = 4; bits <= 8; bits += 4) {
        scratch s;
        scratch_make(&s);
        fore_quantize_options o = {.bits = bits, .group = bits == 4 ? 32 : 64, .threads = 3};
        fore_quantize_report *r = quantize("models/tiny", s.dir, &o);
        check_reported("models/tiny", s.dir, r);
        assert_true(r->bytes < r->source_bytes && r->files == 1 && r->files_kept == 0);
        fore_quantize_report_free(r);
        scratch_remove(&s);
    }
}

/* At 8 bits every number is that of MLX's rule (tests/unit/test_quant.c has it against numpy), whatever block, thread or shard it
 * went through; at 4 bits the fitted form of it, with less error than the rule. What is left alone is copied byte for byte. */
static void test_streamed_as_at_once(void **state) {
    (void)state;
    fore_store *from = open_store("models/tiny");
    for (int bits = 4; bits <= 8; bits += 4) {
        scratch s;
        scratch_make(&s);
        fore_quantize_options o = {.bits = bits, .group = 64, .threads = 2, .shard_bytes = 300000};
        fore_quantize_report_free(quantize("models/tiny", s.dir, &o));
        fore_store *to = open_store(s.dir);
        assert_true(fore_store_files(to) > 3);
        for (size_t i = 0; i < fore_store_count(from); i++) {
            const fore_entry *e = fore_store_at(from, i), *w = need_entry(to, e->name);
            if (strcmp(w->dtype_name, "U32")) {
                assert_string_equal(w->dtype_name, e->dtype_name);
                assert_int_equal(w->bytes, e->bytes);
                assert_memory_equal(w->data, e->data, e->bytes);
                continue;
            }
            fore_qweight q = {bits, 64, (int)e->shape[0], (int)e->shape[1], FORE_DTYPE_BF16, NULL};
            size_t affine = fore_qweight_stored_affine(&q), size = fore_qweight_stored_q(&q);
            unsigned char *p = malloc(size + 2 * affine);
            char name[256];
            assert_non_null(p);
            assert_int_equal((bits == 4 ? fore_quantize_rows_fitted : fore_quantize_rows)(&q, p, p + size, p + size + affine, e->dtype,
                                                                                         e->data, NULL), FORE_OK);
            assert_int_equal(w->bytes, size);
            assert_memory_equal(w->data, p, size);
            int n = (int)(strlen(e->name) - strlen(".weight"));
            snprintf(name, sizeof name, "%.*s.scales", n, e->name);
            assert_memory_equal(need_entry(to, name)->data, p + size, affine);
            snprintf(name, sizeof name, "%.*s.biases", n, e->name);
            assert_memory_equal(need_entry(to, name)->data, p + size + affine, affine);
            free(p);
        }
        fore_store_close(to);
        scratch_remove(&s);
    }
    fore_store_close(from);
}

/* f16 and f32 sources: the same numbers give the same q; scales in f16 for f16, else bf16; f32 that is left alone stays f32. */
static void test_source_types(void **state) {
    (void)state;
    enum { N = 5, K = 64 };
    float x[N * K];
    unsigned char half[N * K * 2], q[2][N * K], scales[2][N * 4], biases[2][N * 4];
    for (int i = 0; i < N * K; i++) {
        uint16_t h = fore_to_f16((float)((i * 37) % 101 - 50) * 0.013f);
        half[2 * i] = (unsigned char)h, half[2 * i + 1] = (unsigned char)(h >> 8);
        x[i] = fore_load_f16(half + 2 * i);
    }
    for (int bits = 4; bits <= 8; bits += 4) {
        fore_qweight w = {bits, 32, N, K, FORE_DTYPE_F16, NULL};
        assert_int_equal(fore_quantize_rows(&w, q[0], scales[0], biases[0], FORE_DTYPE_F32, x, NULL), FORE_OK);
        assert_int_equal(fore_quantize_rows(&w, q[1], scales[1], biases[1], FORE_DTYPE_F16, half, NULL), FORE_OK);
        assert_memory_equal(q[0], q[1], fore_qweight_stored_q(&w));
        assert_memory_equal(scales[0], scales[1], N * 4);
        assert_memory_equal(biases[0], biases[1], N * 4);
    }
    planned p;
    plan_open(&p, MODELS "dense_tied_f32", NULL, four);
    const fore_quantize_job *j = need_job(&p, "model.language_model.embed_tokens.weight"); /* rows of 48 */
    assert_true(j->bits == 0 && strstr(j->why, "48") && !strcmp(j->dtype_name, "F32"));
    plan_close(&p);
}

/* ---- experts ----------------------------------------------------------------------------------------------------- */

typedef struct half {
    const fore_entry *fused;
    size_t I, C, offset;
} half;

static double of_half(const void *context, size_t i) {
    const half *h = context;
    size_t per = h->I * h->C, e = i / per;
    return value(h->fused, e * 2 * per + h->offset * per + i % per);
}

static void test_experts(void **state) {
    (void)state;
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    scratch first;
    scratch_make(&first);
    fore_quantize_options o = {.bits = 4, .group = 32};
    fore_quantize_report_free(quantize(MOE, first.dir, &o));
    fore_store *from = open_store(MOE), *to = open_store(first.dir);
    static const char layer[] = "model.language_model.layers.1.mlp.";
    char name[256];
    snprintf(name, sizeof name, "%sexperts.gate_up_proj", layer);
    const fore_entry *fused = need_entry(from, name);
    assert_null(fore_store_find(to, name));
    half h = {fused, (size_t)fused->shape[1] / 2, (size_t)fused->shape[2], 0};
    for (; h.offset < 2; h.offset++) {
        snprintf(name, sizeof name, "%sswitch_mlp.%s.weight", layer, parts[h.offset]);
        const fore_entry *w = need_entry(to, name);
        assert_true(w->dims == 3 && w->shape[0] == fused->shape[0] && w->shape[1] == h.I && w->shape[2] == h.C / 8);
        snprintf(name, sizeof name, "%sswitch_mlp.%s", layer, parts[h.offset]);
        double error = measure(to, name, 4, of_half, &h);
        assert_true(error > 0.03 && error < 0.12);
    }
    snprintf(name, sizeof name, "%sgate.weight", layer);
    assert_string_equal(need_entry(to, name)->dtype_name, "BF16");
    snprintf(name, sizeof name, "%sshared_expert_gate.weight", layer);
    assert_string_equal(need_entry(to, name)->dtype_name, "BF16");
    snprintf(name, sizeof name, "%sshared_expert.up_proj.weight", layer);
    assert_string_equal(need_entry(to, name)->dtype_name, "U32");
    /* Stacked, numbered and transposed ones, the same weights, give the same tensors. */
    static const experts_layout layouts[] = {EXPERTS_STACKED, EXPERTS_NUMBERED, EXPERTS_TURNED};
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        scratch source, out;
        scratch_make(&source);
        scratch_make(&out);
        experts_copy(&source, MOE, layouts[l]);
        fore_quantize_report_free(quantize(source.dir, out.dir, &o));
        fore_store *other = open_store(out.dir);
        assert_int_equal(fore_store_count(other), fore_store_count(to));
        for (size_t i = 0; i < fore_store_count(to); i++) {
            const fore_entry *a = fore_store_at(to, i), *b = fore_store_at(other, i);
            assert_string_equal(a->name, b->name);
            assert_int_equal(a->bytes, b->bytes);
            assert_memory_equal(a->data, b->data, a->bytes);
        }
        fore_store_close(other);
        scratch_remove(&source);
        scratch_remove(&out);
    }
    /* Of mixed types there is no stack: each is quantised under its number. */
    scratch mixed;
    scratch_make(&mixed);
    experts_copy(&mixed, MOE, EXPERTS_MIXED);
    planned p;
    plan_open(&p, mixed.dir, NULL, four);
    snprintf(name, sizeof name, "%sexperts.0.gate_proj.weight", layer);
    assert_int_equal(need_job(&p, name)->bits, 4);
    snprintf(name, sizeof name, "%sswitch_mlp.gate_proj.weight", layer);
    assert_null(job(&p, name));
    plan_close(&p);
    scratch_remove(&mixed);
    fore_store_close(from);
    fore_store_close(to);
    scratch_remove(&first);
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

static cJSON *read_json(const scratch *s, const char *name) {
    cJSON *json = NULL;
    fore_error err = {0};
    if (fore_json_read(scratch_path(s, name), 1 << 24, &json, &err)) fail_msg("%s", err.text);
    return json;
}

static int number(const cJSON *object, const char *name) {
    const cJSON *n = fore_json_get(object, name);
    if (!cJSON_IsNumber(n)) fail_msg("no number %s", name);
    return n->valueint;
}

static void test_config_and_files(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    fore_quantize_options o = {.bits = 4, .group = 32, .head_bits = 8, .vision_bits = 8, .mtp_layers_only = true, .shard_bytes = 40000};
    fore_quantize_report *r = quantize(MODELS "dense_sharded_bf16", s.dir, &o);
    cJSON *config = read_json(&s, "config.json"), *source = NULL;
    fore_error err = {0};
    assert_int_equal(fore_json_read(MODELS "dense_sharded_bf16/config.json", 1 << 20, &source, &err), FORE_OK);
    const cJSON *q = fore_json_get(config, "quantization");
    assert_int_equal(number(q, "bits"), 4);
    assert_int_equal(number(q, "group_size"), 32);
    assert_string_equal(fore_json_get(q, "mode")->valuestring, "affine");
    assert_true(cJSON_Compare(q, fore_json_get(config, "quantization_config"), true));
    const char *const eight[] = {"lm_head", "language_model.lm_head", "model.visual.blocks.0.attn.qkv"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(number(fore_json_get(q, eight[i]), "bits"), 8);
        assert_int_equal(number(fore_json_get(q, eight[i]), "group_size"), 32);
    }
    const char *const left[] = {"mtp.fc", "model.language_model.layers.0.linear_attn.in_proj_a", "model.visual.pos_embed",
                                "model.visual.blocks.1.mlp.linear_fc2"};
    for (int i = 0; i < 4; i++) assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(q, left[i])));
    assert_null(fore_json_get(q, "model.language_model.embed_tokens"));
    assert_string_equal(fore_json_get(fore_json_get(config, "mtplx_mtp_quantization"), "policy")->valuestring, "cyankiwi");
    /* The rest of it is as it was. */
    for (const cJSON *c = source->child; c; c = c->next) assert_true(cJSON_Compare(c, fore_json_get(config, c->string), true));
    /* The index names every tensor of the shards and none of the head's own file. */
    cJSON *index = read_json(&s, "model.safetensors.index.json");
    fore_store *st = open_store(s.dir);
    assert_int_equal(cJSON_GetArraySize(fore_json_get(index, "weight_map")), (int)fore_store_count(st));
    assert_int_equal(number(fore_json_get(index, "metadata"), "total_size"), (int)fore_store_bytes(st));
    assert_null(fore_store_find(st, "mtp.fc.weight"));
    fore_store_close(st);
    assert_true(fore_file_exists(scratch_path(&s, "mtp.safetensors")));
    assert_true(fore_file_exists(scratch_path(&s, "generation_config.json")));
    assert_true(fore_file_exists(scratch_path(&s, "preprocessor_config.json")));
    assert_false(fore_file_exists(scratch_path(&s, "golden_mm.safetensors")));
    assert_false(fore_file_exists(scratch_path(&s, "quantization_journal.json")));
    cJSON *report = read_json(&s, "quantization_report.json");
    assert_int_equal(cJSON_GetArraySize(fore_json_get(report, "modules")), (int)r->count);
    cJSON_Delete(report);
    cJSON_Delete(index);
    cJSON_Delete(source);
    cJSON_Delete(config);
    fore_quantize_report_free(r);
    /* It is a model, with its draft head. */
    fore_model *model = NULL;
    fore_model_info info;
    if (fore_model_open(s.dir, NULL, &model, &err)) fail_msg("%s", err.text);
    fore_model_get_info(model, &info);
    assert_true(info.mtp_attached && info.has_vision);
    fore_model_close(model);
    scratch_remove(&s);
}

/* A key that says nothing is not in the way. */
static void test_config_with_empty_block(void **state) {
    (void)state;
    static const char text[] = "{\"model_type\": \"x\", \"quantization\": null, \"quantization_config\": {}, \"e\": 1e-06}\n";
    planned p;
    char *out = NULL;
    fore_error err = {0};
    cJSON *config = NULL;
    plan_open(&p, "models/tiny", NULL, four);
    assert_int_equal(fore_quantize_config(&p.plan, text, strlen(text), "config.json", &out, &err), FORE_OK);
    assert_int_equal(fore_json_parse(out, strlen(out), "out", &config, &err), FORE_OK);
    assert_int_equal(number(fore_json_get(config, "quantization"), "bits"), 4);
    assert_int_equal(cJSON_GetArraySize(config), 5);
    cJSON_Delete(config);
    fore_free(out);
    static const char already[] = "{\"text_config\": {\"quantization\": {\"bits\": 4}}}";
    assert_int_equal(fore_quantize_config(&p.plan, already, strlen(already), "config.json", &out, &err), FORE_ERR_UNSUPPORTED);
    assert_null(out);
    plan_close(&p);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void refuse(const char *source, const char *out, const fore_quantize_options *o, fore_status code, const char *says) {
    fore_error err = {0};
    fore_quantize_report *r = (fore_quantize_report *)(void *)&err;
    fore_status s = fore_quantize(source, out, o, &r, &err);
    if (s != code || err.code != code || !strstr(err.text, says)) fail_msg("expected %d \"%s\", got %d: %s", code, says, s, err.text);
    assert_null(r);
}

static void test_refused_options(void **state) {
    (void)state;
    static const struct {
        fore_quantize_options o;
        const char *says;
    } bad[] = {
        {{.bits = 3}, "bits: expected 4 or 8, found 3"},
        {{.bits = 16}, "bits: expected 4 or 8, found 16"},
        {{.bits = 0}, "found 0"},
        {{.bits = 4, .group = 16}, "group: expected 32, 64 or 128, found 16"},
        {{.bits = 4, .head_bits = 5}, "head_bits: expected 4, 8 or 16, found 5"},
        {{.bits = 4, .mtp_bits = 2}, "mtp_bits: expected 4, 8 or 16, found 2"},
        {{.bits = 4, .vision_bits = 4}, "vision_bits: expected 8 or 16, found 4"},
    };
    scratch s;
    scratch_make(&s);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse("models/tiny", s.dir, &bad[i].o, FORE_ERR_INVALID, bad[i].says);
    fore_quantize_options o = {.bits = 4};
    refuse(NULL, s.dir, &o, FORE_ERR_INVALID, "NULL");
    refuse("models/tiny", NULL, &o, FORE_ERR_INVALID, "NULL");
    refuse("models/tiny", s.dir, NULL, FORE_ERR_INVALID, "NULL");
    assert_int_equal(scratch_count(&s), 0);
    scratch_remove(&s);
}

static void test_refused_folders(void **state) {
    (void)state;
    scratch s;
    fore_quantize_options o = {.bits = 4};
    scratch_make(&s);
    refuse("models/tiny", "models/tiny", &o, FORE_ERR_INVALID, "the source itself");
    refuse("models/tiny", "models/../models/tiny/", &o, FORE_ERR_INVALID, "the source itself");
    refuse("models/tiny", "models/tiny/config.json", &o, FORE_ERR_INVALID, "not a folder");
    refuse("models/tiny", scratch_path(&s, "no/such"), &o, FORE_ERR_IO, "cannot make the folder");
    refuse("models/none", s.dir, &o, FORE_ERR_IO, "cannot open");
    refuse("models/tiny/config.json", s.dir, &o, FORE_ERR_INVALID, "not a folder");
    refuse(s.dir, scratch_path(&s, "out"), &o, FORE_ERR_IO, "config.json");
    assert_int_equal(scratch_count(&s), 0);
    scratch_write(&s, "notes.txt", "mine", 4);
    refuse("models/tiny", s.dir, &o, FORE_ERR_INVALID, "not empty (it has notes.txt)");
    assert_int_equal(scratch_count(&s), 1);
    /* A finished checkpoint is not made again, nor quantised again. */
    fore_quantize_report_free(quantize("models/tiny", scratch_path(&s, "made"), &o));
    refuse("models/tiny", scratch_path(&s, "made"), &o, FORE_ERR_INVALID, "not empty");
    refuse(scratch_path(&s, "made"), scratch_path(&s, "again"), &o, FORE_ERR_UNSUPPORTED, "quantised already");
    assert_false(fore_dir_exists(scratch_path(&s, "again")));
    scratch_remove(&s);
}

/* A copy of models/tiny whose weights may be changed. */
static void copy_tiny(const scratch *s) {
    scratch_copy(s, "models/tiny/config.json", "config.json");
    scratch_copy(s, "models/tiny/model.safetensors", "model.safetensors");
}

static void change_weight(const scratch *s, const char *tensor, size_t element, uint16_t bits) {
    fore_store *st = open_store(s->dir);
    fore_map map;
    fore_error err = {0};
    const fore_entry *e = need_entry(st, tensor);
    assert_int_equal(fore_map_open(fore_store_file_path(st, 0), &map, &err), FORE_OK);
    size_t end = (size_t)elements(e) * 2;
    assert_true(element * 2 < end);
    /* Where the tensor lies in the file: its bytes are there once. */
    const unsigned char *at = memmem(map.data, map.size, e->data, e->bytes);
    assert_non_null(at);
    long offset = (long)(at - map.data) + (long)element * 2;
    FILE *f = fopen(scratch_path(s, "model.safetensors"), "r+b");
    assert_non_null(f);
    fseek(f, offset, SEEK_SET);
    fputc(bits & 255, f);
    fputc(bits >> 8, f);
    fclose(f);
    fore_map_close(&map);
    fore_store_close(st);
}

static void test_weights_that_are_not_finite(void **state) {
    (void)state;
    scratch source, out;
    fore_quantize_options o = {.bits = 4, .threads = 2};
    static const char name[] = "model.language_model.layers.2.mlp.down_proj.weight"; /* [128,384] */
    scratch_make(&source);
    scratch_make(&out);
    copy_tiny(&source);
    change_weight(&source, name, 77 * 384 + 200, 0x7fc0); /* NaN */
    refuse(source.dir, out.dir, &o, FORE_ERR_FORMAT, "layers.2.mlp.down_proj.weight: row 77, column 200 is not a finite number");
    assert_false(fore_file_exists(scratch_path(&out, "model.safetensors")));
    assert_false(fore_file_exists(scratch_path(&out, "model.safetensors.partial")));
    assert_false(fore_file_exists(scratch_path(&out, "config.json")));
    change_weight(&source, name, 77 * 384 + 200, 0xff80); /* -infinity */
    scratch_remove(&out);
    scratch_make(&out);
    refuse(source.dir, out.dir, &o, FORE_ERR_FORMAT, "row 77, column 200");
    scratch_remove(&source);
    scratch_remove(&out);
}

static void test_damaged_sources(void **state) {
    (void)state;
    scratch source, out;
    fore_quantize_options o = {.bits = 8};
    scratch_make(&source);
    scratch_make(&out);
    copy_tiny(&source);
    struct stat st;
    assert_int_equal(stat(scratch_path(&source, "model.safetensors"), &st), 0);
    assert_int_equal(truncate(scratch_path(&source, "model.safetensors"), st.st_size - 1000), 0);
    refuse(source.dir, out.dir, &o, FORE_ERR_FORMAT, "truncated");
    assert_int_equal(scratch_count(&out), 0);
    scratch_remove(&source);
    /* Packed weights without a word of it in config.json. */
    scratch_make(&source);
    scratch_copy(&source, "models/tiny/config.json", "config.json");
    static const float x[4] = {1, 2, 3, 4};
    static const fore_tensor t[2] = {
        {.name = "model.language_model.embed_tokens.weight", .dtype = "U32", .dims = 2, .shape = {2, 2}, .data = x},
        {.name = "model.language_model.embed_tokens.scales", .dtype = "F32", .dims = 2, .shape = {2, 2}, .data = x}};
    fore_error err = {0};
    assert_int_equal(fore_tensors_write(scratch_path(&source, "model.safetensors"), t, 2, &err), FORE_OK);
    refuse(source.dir, out.dir, &o, FORE_ERR_UNSUPPORTED, "quantised already: it has model.language_model.embed_tokens.scales");
    assert_int_equal(fore_tensors_write(scratch_path(&source, "model.safetensors"), t, 1, &err), FORE_OK);
    refuse(source.dir, out.dir, &o, FORE_ERR_UNSUPPORTED, "a matrix of type U32");
    assert_int_equal(scratch_count(&out), 0);
    scratch_remove(&source);
    scratch_remove(&out);
}

/* Room on the disk is asked for before the work. The source is a file of four terabytes that has nothing written in it. */
static void test_no_room(void **state) {
    (void)state;
    static const char header[] = "{\"lm_head.weight\":{\"dtype\":\"BF16\",\"shape\":[16777216,131072],\"data_offsets\":[0,4398046511104]}}  ";
    scratch source, out;
    scratch_make(&source);
    scratch_make(&out);
    char file[8 + sizeof header] = {(char)(sizeof header - 1)};
    memcpy(file + 8, header, sizeof header - 1);
    scratch_copy(&source, "models/tiny/config.json", "config.json");
    scratch_write(&source, "model.safetensors", file, 8 + sizeof header - 1);
    fore_quantize_options o = {.bits = 4};
    if (truncate(scratch_path(&source, "model.safetensors"), (off_t)(8 + sizeof header - 1) + 4398046511104) == 0) {
        refuse(source.dir, out.dir, &o, FORE_ERR_LIMIT, "needs 1236.98 GB, and the disk has ");
        assert_int_equal(scratch_count(&out), 0);
        refuse(source.dir, scratch_path(&out, "new"), &o, FORE_ERR_LIMIT, "needs 1236.98 GB, and the disk has ");
        assert_int_equal(scratch_count(&out), 0);
    } else {
        print_message("this file system has no files of that size\n");
    }
    scratch_remove(&source);
    scratch_remove(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_of_a_dense_model), cmocka_unit_test(test_bits_of_parts),
        cmocka_unit_test(test_shards),                cmocka_unit_test(test_paths_of_mlx),
        cmocka_unit_test(test_errors_as_reported),    cmocka_unit_test(test_streamed_as_at_once),
        cmocka_unit_test(test_source_types),          cmocka_unit_test(test_experts),
        cmocka_unit_test(test_config_and_files),      cmocka_unit_test(test_config_with_empty_block),
        cmocka_unit_test(test_refused_options),       cmocka_unit_test(test_refused_folders),
        cmocka_unit_test(test_weights_that_are_not_finite), cmocka_unit_test(test_damaged_sources),
        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
