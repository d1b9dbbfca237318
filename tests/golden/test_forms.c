/* Checkpoints in the forms of the hub, made by the formats' own writers: every weight is what the writer's own dequantisation
 * gives, and the model computes what the reference does with these weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sodium.h>

#include "model/mtp.h"
#include "support/golden.h"
#include "support/scratch.h"

#define FORMS FORE_DATA "/forms/"

/* exact: no panels, so that the inputs are not rounded to 8 bits and the trunk's tolerance holds. */
static const struct {
    const char *name;
    bool exact;
    int bits;     /* of k_proj in memory */
    int matrices; /* with a digest */
} cases[] = {
    {"fp8", true, 0, 21},       {"fp8_experts", true, 0, 57}, {"fp8_channel", true, 0, 13}, {"fp8_head", true, 0, 8}, {"int4", false, 4, 13},
    {"int4_zeros", false, 4, 13}, {"int8", false, 8, 21},     {"awq", false, 4, 13},        {"gptq", false, 4, 13}, {"gptq_order", false, 4, 13},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct opened {
    fore_network network;
    fore_mtp mtp;
} opened;

static void open_dir(opened *o, const char *dir, const fore_load *load) {
    fore_error err = {0};
    const fore_kern *kern;
    if (fore_kern_get(NULL, &kern, &err) || fore_network_open(dir, kern, load, &o->network, &err)) fail_msg("%s: %s", dir, err.text);
    if (fore_mtp_open(dir, &o->network, NULL, load, &o->mtp, &err)) fail_msg("%s: %s", dir, err.text);
}

static void close_opened(opened *o) {
    fore_mtp_close(&o->mtp);
    fore_network_close(&o->network);
}

/* The matrix of a module as the files name it. */
static fore_weight weight_of(const opened *o, const char *module) {
    static const struct {
        const char *name;
        size_t at;
    } parts[] = {
#define PART(name, field) {name, offsetof(fore_layer, field)}
        PART("self_attn.q_proj", q_proj),         PART("self_attn.k_proj", k_proj),
        PART("self_attn.v_proj", v_proj),         PART("self_attn.o_proj", o_proj),
        PART("linear_attn.in_proj_qkv", in_proj_qkv), PART("linear_attn.in_proj_z", in_proj_z),
        PART("linear_attn.out_proj", out_proj),   PART("mlp.gate_proj", gate_proj),
        PART("mlp.up_proj", up_proj),             PART("mlp.down_proj", down_proj),
        PART("mlp.shared_expert.gate_proj", gate_proj), PART("mlp.shared_expert.up_proj", up_proj),
        PART("mlp.shared_expert.down_proj", down_proj),
    };
    int layer, expert, used = 0;
    char kind[32];
    bool head = strncmp(module, "mtp.", 4) == 0;
    if (head) assert_true(o->mtp.attached);
    if (strcmp(module, "mtp.fc") == 0) return o->mtp.fc;
    if (sscanf(module, head ? "mtp.layers.%d.%n" : "model.layers.%d.%n", &layer, &used) != 1) fail_msg("%s", module);
    const fore_layer *l = head ? &o->mtp.layers[layer] : &o->network.layers[layer];
    if (sscanf(module + used, "mlp.experts.%d.%31[a-z]", &expert, kind) == 2)
        return fore_expert_at(!strcmp(kind, "gate") ? &l->expert_gate : !strcmp(kind, "up") ? &l->expert_up : &l->expert_down, expert);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(module + used, parts[i].name) == 0) return *(const fore_weight *)(const void *)((const char *)l + parts[i].at);
    fail_msg("%s: which one is it?", module);
    return (fore_weight){0};
}

static void digest_of(const opened *o, const fore_weight *w, uint8_t digest[32]) {
    crypto_generichash_state h;
    crypto_generichash_init(&h, NULL, 0, 32);
    float *row = malloc((size_t)w->K * sizeof *row);
    for (int n = 0; n < w->N; n++) {
        fore_weight_row(o->network.kern, w, n, row);
        for (int k = 0; k < w->K; k++) row[k] += 0.0f; /* no negative zeros */
        crypto_generichash_update(&h, (const unsigned char *)row, (size_t)w->K * sizeof *row);
    }
    free(row);
    crypto_generichash_final(&h, digest, 32);
}

/* How many matrices were compared; -1: one differs. */
static int compare_weights(const opened *o, const golden *g) {
    int count = 0;
    const fore_tensor *t;
    for (size_t i = 0; (t = fore_tensors_at(g->file, i)); i++) {
        if (strncmp(t->name, "digest.", 7)) continue;
        uint8_t digest[32];
        const fore_weight w = weight_of(o, t->name + 7);
        digest_of(o, &w, digest);
        if (memcmp(digest, t->data, 32)) {
            print_message("%s: %s differs\n", g->path, t->name);
            return -1;
        }
        count++;
    }
    return count;
}

static void test_weights(void **state) {
    (void)state;
    fore_pool *pool;
    assert_int_equal(fore_pool_new(3, &pool, NULL), 0);
    for (int i = 0; i < CASES; i++) {
        char dir[128], path[160];
        snprintf(dir, sizeof dir, FORMS "%s", cases[i].name);
        snprintf(path, sizeof path, "%s/golden.safetensors", dir);
        golden g;
        opened o;
        golden_open(&g, path);
        for (int threads = 0; threads < 2; threads++) {
            const fore_load load = {.pool = threads ? pool : NULL};
            open_dir(&o, dir, &load);
            if (compare_weights(&o, &g) != cases[i].matrices) fail_msg("%s: %d matrices", dir, compare_weights(&o, &g));
            if (strcmp(cases[i].name, "fp8_head")) assert_int_equal(o.network.layers[1].k_proj.bits, cases[i].bits);
            close_opened(&o);
        }
        golden_close(&g);
    }
    fore_pool_free(pool);
}

static void near(const golden *g, const char *name, const float *ours, size_t count, double limit) {
    const float *reference = golden_f32(g, name, count);
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)ours[i] - (double)reference[i], 2);
        size += pow((double)reference[i], 2);
    }
    print_message("%s: %s: %.2g\n", g->path, name, sqrt(error / size));
    if (!(sqrt(error / size) <= limit)) fail_msg("%s: %s is %g away from the reference", g->path, name, sqrt(error / size));
}

static void test_logits(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        char dir[128], path[160];
        snprintf(dir, sizeof dir, FORMS "%s", cases[i].name);
        snprintf(path, sizeof path, "%s/golden.safetensors", dir);
        golden g;
        golden_open(&g, path);
        fore_error err = {0};
        fore_model *model;
        fore_session *session = NULL;
        fore_trace *t;
        if (fore_model_open(dir, NULL, &model, &err) || fore_session_new(model, NULL, &session, &err)) fail_msg("%s", err.text);
        fore_request r;
        fore_request_init(&r, model);
        r.id_count = golden_count(golden_find(&g, "input_ids"));
        r.ids = golden_i32(&g, "input_ids", r.id_count);
        if (fore_session_trace(session, &r, &t, &err)) fail_msg("%s: %s", dir, err.text);
        size_t hidden = r.id_count * (size_t)t->hidden, logits = r.id_count * (size_t)t->vocab;
        if (cases[i].exact) {
            golden_compare(&g, "final_norm", t->final_hidden, hidden, 1e-4);
            golden_compare(&g, "logits", t->logits, logits, 1e-4);
        } else {
            near(&g, "final_norm", t->final_hidden, hidden, 0.02);
            near(&g, "logits", t->logits, logits, 0.02);
        }
        fore_trace_free(t);
        fore_session_free(session);
        fore_model_close(model);
        golden_close(&g);
    }
}

/* A pack of one reading of the files is not used for another. */
static void test_packs(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    scratch_copy(&s, FORMS "gptq/config.json", "config.json");
    scratch_copy(&s, FORMS "gptq/model.safetensors", "model.safetensors");
    const fore_load load = {.pack_dir = scratch_path(&s, "packs"), .pack_stem = "m"};
    golden g;
    opened o;
    golden_open(&g, FORMS "gptq/golden.safetensors");
    for (int i = 0; i < 2; i++) {
        open_dir(&o, s.dir, &load);
        assert_true(o.network.panels.packed.used && o.network.panels.packed.written == (i == 0));
        assert_int_equal(compare_weights(&o, &g), 13);
        close_opened(&o);
    }
    FILE *f = fopen(scratch_path(&s, "config.json"), "rb");
    static char text[8192], changed[8192];
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    char *at = strstr(text, "\"desc_act\"");
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s\"checkpoint_format\": \"gptq_v2\", %s", (int)(at - text), text, at);
    scratch_write(&s, "config.json", changed, strlen(changed));
    open_dir(&o, s.dir, &load);
    assert_true(o.network.panels.packed.written);
    assert_int_equal(compare_weights(&o, &g), -1);
    close_opened(&o);
    golden_close(&g);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_packs),
    };
    return cmocka_run_group_tests_name("golden/forms", tests, NULL, NULL);
}
