/* Binding weights: every prefix that checkpoints use gives the same network; what is missing, misshapen or of another type
 * is refused by name. Checkpoints are made from a golden one by renaming and changing its tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/trunk.h"
#include "support/scratch.h"

#define SOURCE FORE_DATA "/models/dense_tied_f32/"
enum { MAX_TENSORS = 256 };

typedef struct copy {
    fore_tensor_file *file;
    fore_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][128];
    size_t count;
} copy;

static void open_copy(copy *c) {
    fore_error err;
    *c = (copy){0};
    if (fore_tensors_open(SOURCE "model.safetensors", &c->file, &err)) fail_msg("%s", err.text);
    for (const fore_tensor *t; (t = fore_tensors_at(c->file, c->count)); c->count++) {
        assert_true(c->count < MAX_TENSORS);
        c->tensors[c->count] = *t;
        snprintf(c->names[c->count], sizeof c->names[0], "%s", t->name);
        c->tensors[c->count].name = c->names[c->count];
    }
    assert_true(c->count > 60);
}

static fore_tensor *find(copy *c, const char *name) {
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->names[i], name) == 0) return &c->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void replace_prefix(copy *c, const char *from, const char *to) {
    int changed = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (strncmp(c->names[i], from, strlen(from))) continue;
        char name[128];
        snprintf(name, sizeof name, "%s%s", to, c->names[i] + strlen(from));
        memcpy(c->names[i], name, sizeof name);
        changed++;
    }
    assert_true(changed > 0);
}

static void drop(copy *c, const char *name) {
    fore_tensor *t = find(c, name);
    size_t i = (size_t)(t - c->tensors);
    c->count--;
    if (i == c->count) return;
    c->tensors[i] = c->tensors[c->count];
    memcpy(c->names[i], c->names[c->count], sizeof c->names[0]);
    c->tensors[i].name = c->names[i];
}

static void write_copy(const copy *c, const scratch *s) {
    fore_error err;
    scratch_copy(s, SOURCE "config.json", "config.json");
    if (fore_tensors_write(scratch_path(s, "model.safetensors"), c->tensors, c->count, &err)) fail_msg("%s", err.text);
}

static fore_status open_dir(const char *dir, fore_network *n, fore_error *err) {
    const fore_kern *kern;
    assert_int_equal(fore_kern_get(NULL, &kern, err), 0);
    return fore_network_open(dir, kern, NULL, n, err);
}

/* The hidden state of three tokens: a fingerprint of the text weights. */
static void fingerprint(const fore_network *n, float *out) {
    const fore_text_config *t = &n->config.text;
    fore_pool *pool;
    fore_state state;
    fore_scratch s;
    assert_int_equal(fore_pool_new(1, &pool, NULL), 0);
    assert_int_equal(fore_state_new(t, 4, &state, NULL), 0);
    assert_int_equal(fore_scratch_new(t, 4, 4, 1, &s, NULL), 0);
    size_t C = (size_t)t->hidden_size;
    float *e = calloc(3 * C, sizeof *e);
    for (int i = 0; i < 3; i++) fore_weight_row(n->kern, &n->embed, 10 + i, e + (size_t)i * C);
    const int32_t positions[] = {0, 1, 2};
    const fore_engine engine = {.kern = n->kern, .pool = pool};
    const fore_batch b = {.T = 3, .embeddings = e, .positions = {positions, positions, positions}, .hidden = out};
    fore_trunk_forward(&engine, n, &state, &s, &b);
    free(e);
    fore_scratch_free(&s);
    fore_state_free(&state);
    fore_pool_free(pool);
}

static void test_prefixes(void **state) {
    (void)state;
    fore_network n;
    fore_error err;
    float want[3 * 48], have[3 * 48];
    if (open_dir(SOURCE, &n, &err)) fail_msg("%s", err.text);
    assert_int_equal(n.config.text.hidden_size, 48);
    fingerprint(&n, want);
    int mtp = n.mtp_tensors;
    uint64_t vision = n.vision_parameters, text = n.text_parameters;
    assert_int_equal(mtp, 15);
    assert_true(vision > 0 && text > 0);
    fore_network_close(&n);
    static const char *const text_prefixes[] = {"language_model.model.", "language_model.", "model.", ""};
    static const char *const vision_prefixes[] = {"visual.", "vision_tower.", "model.vision_tower.", "visual."};
    static const char *const mtp_prefixes[] = {"language_model.mtp.", "model.mtp.", "mtp.", "model.language_model.mtp."};
    for (int i = 0; i < 4; i++) {
        copy c;
        scratch s;
        scratch_make(&s);
        open_copy(&c);
        replace_prefix(&c, "model.language_model.", text_prefixes[i]);
        replace_prefix(&c, "model.visual.", vision_prefixes[i]);
        replace_prefix(&c, "mtp.", mtp_prefixes[i]);
        write_copy(&c, &s);
        if (open_dir(s.dir, &n, &err)) fail_msg("%s", err.text);
        fingerprint(&n, have);
        assert_memory_equal(have, want, sizeof want);
        assert_true(n.config.has_vision);
        assert_int_equal(n.mtp_tensors, mtp);
        assert_int_equal(n.vision_parameters, vision);
        assert_int_equal(n.text_parameters, text);
        fore_network_close(&n);
        fore_tensors_close(c.file);
        scratch_remove(&s);
    }
}

/* A conversion that lost the tower is a text model; half a tower is an error. */
static void test_no_tower(void **state) {
    (void)state;
    copy c;
    scratch s;
    fore_network n;
    fore_error err;
    scratch_make(&s);
    open_copy(&c);
    for (size_t i = c.count; i-- > 0;)
        if (strncmp(c.names[i], "model.visual.", 13) == 0) {
            char name[128];
            memcpy(name, c.names[i], sizeof name);
            drop(&c, name);
        }
    write_copy(&c, &s);
    if (open_dir(s.dir, &n, &err)) fail_msg("%s", err.text);
    assert_false(n.config.has_vision);
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
    write_copy(&c, &s);
    fore_status got = open_dir(s.dir, &n, &err);
    if (got != want || !strstr(err.text, part)) fail_msg("%d \"%s\", wanted %d \"%s\"", got, err.text, want, part);
    fore_tensors_close(c.file);
    scratch_remove(&s);
}

static void no_embedding(copy *c) { drop(c, "model.language_model.embed_tokens.weight"); }
static void no_gate(copy *c) { drop(c, "model.language_model.layers.2.mlp.gate_proj.weight"); }
static void no_vision_bias(copy *c) { drop(c, "model.visual.blocks.1.attn.qkv.bias"); }
static void no_A_log(copy *c) { drop(c, "model.language_model.layers.0.linear_attn.A_log"); }
static void swapped_shape(copy *c) {
    fore_tensor *t = find(c, "model.language_model.layers.1.mlp.down_proj.weight");
    uint64_t x = t->shape[0];
    t->shape[0] = t->shape[1];
    t->shape[1] = x;
}
static void turn(fore_tensor *t) {
    t->shape[1] = t->shape[2];
    t->shape[2] = 1;
}
static void mixed_conv(copy *c) { turn(find(c, "model.language_model.layers.1.linear_attn.conv1d.weight")); }
static void flat_norm(copy *c) {
    fore_tensor *t = find(c, "model.language_model.norm.weight");
    t->dims = 2;
    t->shape[1] = 1;
}
static void integer_weight(copy *c) { find(c, "model.language_model.layers.3.self_attn.o_proj.weight")->dtype = "I32"; }

/* MLX's layout: the convolution's axes turned, and norms that hold the gain. */
static void test_mlx(void **state) {
    (void)state;
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm", "q_norm", "k_norm", "language_model.norm"};
    float want[3 * 48], have[3 * 48], gains[64][64];
    int changed = 0, turned = 0;
    fore_network n;
    fore_error err;
    copy c;
    scratch s;
    if (open_dir(SOURCE, &n, &err)) fail_msg("%s", err.text);
    fingerprint(&n, want);
    fore_network_close(&n);
    scratch_make(&s);
    open_copy(&c);
    for (size_t i = 0; i < c.count; i++) {
        fore_tensor *t = &c.tensors[i];
        if (strncmp(t->name, "model.language_model.", 21)) continue;
        if (strstr(t->name, "conv1d")) turned++, turn(t);
        for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
            if (!strstr(t->name, norms[k])) continue;
            float *gain = gains[changed++];
            assert_true(changed < 64 && t->shape[0] <= 64 && !strcmp(t->dtype, "F32"));
            memcpy(gain, t->data, t->shape[0] * sizeof *gain);
            for (uint64_t j = 0; j < t->shape[0]; j++) gain[j] += 1;
            t->data = gain;
        }
    }
    assert_true(turned == 3 && changed > 8);
    write_copy(&c, &s);
    if (open_dir(s.dir, &n, &err)) fail_msg("%s", err.text);
    fingerprint(&n, have);
    assert_memory_equal(have, want, sizeof want);
    fore_network_close(&n);
    fore_tensors_close(c.file);
    scratch_remove(&s);
}

static void test_refused(void **state) {
    (void)state;
    refuse(no_embedding, FORE_ERR_FORMAT, "embed_tokens.weight: missing");
    refuse(no_gate, FORE_ERR_FORMAT, "layers.2.mlp.gate_proj.weight: missing");
    refuse(no_vision_bias, FORE_ERR_FORMAT, "model.visual.blocks.1.attn.qkv.bias: missing");
    refuse(no_A_log, FORE_ERR_FORMAT, "layers.0.linear_attn.A_log: missing");
    refuse(swapped_shape, FORE_ERR_FORMAT, "layers.1.mlp.down_proj.weight: expected [48,");
    refuse(mixed_conv, FORE_ERR_FORMAT, "conv1d.weight: expected [192,1,4], the file has F32 [192,4,1]");
    refuse(flat_norm, FORE_ERR_FORMAT, "model.language_model.norm.weight: expected [48], the file has F32 [48,1]");
    refuse(integer_weight, FORE_ERR_UNSUPPORTED, "o_proj.weight: type I32; supported are F32, F16 and BF16");
}

static void test_untied_without_head(void **state) {
    (void)state;
    copy c;
    scratch s;
    fore_network n;
    fore_error err = {0};
    scratch_make(&s);
    open_copy(&c);
    write_copy(&c, &s);
    scratch_copy(&s, FORE_DATA "/models/dense_untied_bf16/config.json", "config.json");
    assert_int_not_equal(open_dir(s.dir, &n, &err), FORE_OK); /* the other checkpoint's sizes */
    assert_non_null(strstr(err.text, "expected ["));
    fore_tensors_close(c.file);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_no_tower),
        cmocka_unit_test(test_mlx),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_untied_without_head),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
