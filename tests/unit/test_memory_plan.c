/* What fore_model_plan says of memory against what a process takes that opens the model and fills a session: proportional set size and
 * the peak of resident memory, as the system counts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "foresight.h"
#include "support/scratch.h"

/* A sanitizer's own memory hides what is counted. */
static bool is_sanitized(void) {
#if defined(__SANITIZE_ADDRESS__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    return true;
#endif
#endif
    return false;
}

enum { VOCAB = 16384, C = 512, F = 1536, LAYERS = 4, HEADS = 8, KV = 2, D = 64, EXPERTS = 32, PICKED = 2, WIDTH = 128, CONTEXT = 1024 };
enum { MOST = 64, MIB = 1 << 20 };

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

typedef struct writer {
    fore_tensor tensors[MOST];
    char names[MOST][96];
    void *data[MOST];
    size_t count;
    uint32_t random;
} writer;

/* A BF16 tensor of small random numbers, or, of one dimension, of ones. */
static void put(writer *w, const char *name, int dims, uint64_t a, uint64_t b, uint64_t c) {
    size_t i = w->count++, n = (size_t)(a * b * c);
    assert_true(i < MOST);
    uint16_t *data = malloc(n * sizeof *data);
    assert_non_null(data);
    for (size_t k = 0; k < n; k++) {
        w->random = w->random * 1664525u + 1013904223u;
        data[k] = dims == 1 ? 0x3f80 : (uint16_t)(0x3c80 | (w->random >> 16 & 0x807f));
    }
    snprintf(w->names[i], sizeof w->names[0], "%s", name);
    w->data[i] = data;
    w->tensors[i] = (fore_tensor){.name = w->names[i], .dtype = "BF16", .dims = dims, .shape = {a, b, c}, .data = data};
}

static void put_layer(writer *w, int layer, const char *end, int dims, uint64_t a, uint64_t b, uint64_t c) {
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.%s", layer, end);
    put(w, name, dims, a, b, c);
}

static void write_model(const scratch *s, bool experts) {
    char config[1400], more[256];
    writer *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->random = 7;
    put(w, "model.embed_tokens.weight", 2, VOCAB, C, 1);
    put(w, "model.norm.weight", 1, C, 1, 1);
    put(w, "lm_head.weight", 2, VOCAB, C, 1);
    for (int i = 0; i < LAYERS; i++) {
        put_layer(w, i, "input_layernorm.weight", 1, C, 1, 1);
        put_layer(w, i, "post_attention_layernorm.weight", 1, C, 1, 1);
        put_layer(w, i, "self_attn.q_proj.weight", 2, HEADS * D, C, 1);
        put_layer(w, i, "self_attn.k_proj.weight", 2, KV * D, C, 1);
        put_layer(w, i, "self_attn.v_proj.weight", 2, KV * D, C, 1);
        put_layer(w, i, "self_attn.o_proj.weight", 2, C, HEADS * D, 1);
        put_layer(w, i, "self_attn.q_norm.weight", 1, D, 1, 1);
        put_layer(w, i, "self_attn.k_norm.weight", 1, D, 1, 1);
        if (experts) {
            put_layer(w, i, "mlp.gate.weight", 2, EXPERTS, C, 1);
            put_layer(w, i, "mlp.switch_mlp.gate_proj.weight", 3, EXPERTS, WIDTH, C);
            put_layer(w, i, "mlp.switch_mlp.up_proj.weight", 3, EXPERTS, WIDTH, C);
            put_layer(w, i, "mlp.switch_mlp.down_proj.weight", 3, EXPERTS, C, WIDTH);
        } else {
            put_layer(w, i, "mlp.gate_proj.weight", 2, F, C, 1);
            put_layer(w, i, "mlp.up_proj.weight", 2, F, C, 1);
            put_layer(w, i, "mlp.down_proj.weight", 2, C, F, 1);
        }
    }
    snprintf(more, sizeof more,
             ", \"num_experts\": %d, \"num_experts_per_tok\": %d, \"moe_intermediate_size\": %d, \"decoder_sparse_step\": 1, "
             "\"norm_topk_prob\": true, \"mlp_only_layers\": []", EXPERTS, PICKED, WIDTH);
    snprintf(config, sizeof config,
             "{\"architectures\": [\"%s\"], \"model_type\": \"%s\", \"vocab_size\": %d, \"hidden_size\": %d, \"intermediate_size\": %d, "
             "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d, \"rms_norm_eps\": 1e-6, "
             "\"rope_theta\": 1000000, \"max_position_embeddings\": 4096, \"tie_word_embeddings\": false, \"attention_bias\": false, "
             "\"hidden_act\": \"silu\"%s}",
             experts ? "Qwen3MoeForCausalLM" : "Qwen3ForCausalLM", experts ? "qwen3_moe" : "qwen3", VOCAB, C, F, LAYERS, HEADS, KV, D,
             experts ? more : "");
    scratch_write(s, "config.json", config, strlen(config));
    fore_error err = {0};
    if (fore_tensors_write(scratch_path(s, "model.safetensors"), w->tensors, w->count, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < w->count; i++) free(w->data[i]);
    free(w);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static long read_kib(const char *file, const char *key) {
    char line[256];
    long value = -1;
    FILE *f = fopen(file, "r");
    while (f && value < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key))) value = strtol(line + strlen(key), NULL, 10);
    if (f) fclose(f);
    return value;
}

typedef struct measured {
    int failed; /* step at which something did, 0: none */
    long before, opened, used, peak, one; /* KiB: Pss before, with the model, with a full session; growth of VmHWM; Pss after one token */
    uint64_t mapped, repacked, vectors, session, idle_experts, kv, kv_token;
} measured;

static void read_prompt(fore_session *session, const fore_model *model, int tokens, measured *m, int step) {
    static int32_t ids[CONTEXT];
    fore_request r;
    fore_chunk chunk = {0};
    fore_error err = {0};
    for (int i = 0; i < tokens; i++) ids[i] = (int32_t)((unsigned)i * (VOCAB / CONTEXT) % VOCAB);
    fore_request_init(&r, model);
    r.ids = ids;
    r.id_count = (size_t)tokens;
    r.max_tokens = 1;
    if (fore_session_begin(session, &r, &err) || fore_session_next(session, &chunk, &err)) m->failed = step;
}

/* In a process of its own. */
static measured measure_here(const char *dir) {
    measured m = {0};
    fore_model *model = NULL;
    fore_session *session = NULL, *small = NULL;
    const fore_session_options context = {.context = CONTEXT};
    fore_plan plan;
    m.before = read_kib("/proc/self/smaps_rollup", "Pss:");
    const long resident = read_kib("/proc/self/status", "VmRSS:");
    if (fore_model_open(dir, NULL, &model, NULL)) m.failed = 1;
    if (m.failed) return m;
    m.opened = read_kib("/proc/self/smaps_rollup", "Pss:");
    fore_model_plan(model, CONTEXT, &plan);
    if (fore_session_new(model, &context, &small, NULL)) m.failed = 2;
    if (!m.failed) read_prompt(small, model, 1, &m, 3);
    m.one = read_kib("/proc/self/smaps_rollup", "Pss:");
    fore_session_free(small);
    if (!m.failed && fore_session_new(model, &context, &session, NULL)) m.failed = 4;
    if (!m.failed) read_prompt(session, model, CONTEXT - 2, &m, 5);
    m.used = read_kib("/proc/self/smaps_rollup", "Pss:");
    m.peak = read_kib("/proc/self/status", "VmHWM:") - resident;
    m.mapped = plan.mapped;
    m.repacked = plan.repacked;
    m.vectors = plan.vectors + plan.draft_head;
    m.session = plan.total;
    m.idle_experts = plan.idle_experts;
    m.kv = plan.kv;
    m.kv_token = plan.kv_token;
    fore_session_free(session);
    fore_model_close(model);
    return m;
}

static measured measure(const char *dir) {
    int ends[2];
    measured m;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        m = measure_here(dir);
        _exit(write(ends[1], &m, sizeof m) == (ssize_t)sizeof m ? 0 : 1);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], &m, sizeof m);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    assert_int_equal(n, sizeof m);
    assert_int_equal(m.failed, 0);
    print_message("%s: mapped %.1f, repacked %.1f, vectors %.1f, session %.1f MiB; Pss %.1f, opened %.1f, one token %.1f, full %.1f; peak + %.1f\n", dir,
                  (double)m.mapped / MIB, (double)m.repacked / MIB, (double)m.vectors / MIB, (double)m.session / MIB, (double)m.before / 1024,
                  (double)m.opened / 1024, (double)m.one / 1024, (double)m.used / 1024, (double)m.peak / 1024);
    return m;
}

static bool is_near(double planned, double taken, double more) { return taken <= planned * 1.1 + more && taken >= planned * 0.9 - 4; }

/* The plan is right within a tenth and 4 MiB of what the process takes (8 at the peak): the program's own pages, and what it frees
 * late. A machine that is short of memory takes mapped pages away meanwhile, so it is tried a few times. */
static measured compare(const char *dir) {
    measured m = {0};
    double planned = 0, taken = 0, peak = 0;
    for (int tries = 0; tries < 4; tries++) {
        m = measure(dir);
        planned = (double)(m.mapped + m.repacked + m.vectors + m.session) / MIB;
        taken = (double)(m.used - m.before) / 1024;
        peak = (double)m.peak / 1024;
        if (is_near(planned, taken, 4) && is_near(planned, peak, 8)) break;
    }
    if (!is_near(planned, taken, 4)) fail_msg("planned %.1f MiB, taken %.1f MiB", planned, taken);
    if (!is_near(planned, peak, 8)) fail_msg("planned %.1f MiB, at the peak %.1f MiB", planned, peak);
    assert_true(m.kv_token * CONTEXT <= m.kv && m.kv <= m.kv_token * (CONTEXT + 64));
    return m;
}

static scratch dense, sparse, small;

static int set_up(void **state) {
    (void)state;
    scratch_make(&dense);
    scratch_make(&sparse);
    scratch_make(&small);
    write_model(&dense, false);
    write_model(&sparse, true);
    fore_quantize_options o;
    fore_error err = {0};
    fore_quantize_options_init(&o, 4);
    if (fore_quantize(dense.dir, scratch_path(&small, "q"), &o, NULL, &err)) fail_msg("%s", err.text);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    scratch_remove(&dense);
    scratch_remove(&sparse);
    scratch_remove(&small);
    return 0;
}

static void test_floats(void **state) {
    (void)state;
    if (is_sanitized() || read_kib("/proc/self/smaps_rollup", "Pss:") < 0) skip();
    const measured m = compare(dense.dir);
    assert_int_equal(m.repacked, 0);
    assert_true(m.mapped > 40 * MIB && !m.idle_experts);
}

static void test_quantised(void **state) {
    (void)state;
    if (is_sanitized() || read_kib("/proc/self/smaps_rollup", "Pss:") < 0) skip();
    const measured m = compare(scratch_path(&small, "q"));
    assert_true(m.repacked > 10 * MIB && m.mapped < MIB);
}

static void test_experts(void **state) {
    (void)state;
    if (is_sanitized() || read_kib("/proc/self/smaps_rollup", "Pss:") < 0) skip();
    const measured m = compare(sparse.dir);
    assert_true(m.idle_experts == (uint64_t)LAYERS * EXPERTS * 3 * C * WIDTH * 2);
    /* One token leaves most experts on the disk. */
    double most = (double)(m.mapped - m.idle_experts / 2 + m.vectors + m.session) / MIB + 4, taken = (double)(m.one - m.before) / 1024;
    if (!(taken <= most)) fail_msg("after one token %.1f MiB are taken, of %.1f at most", taken, most);
}

/* What a look at a model predicts is what the open one says, and takes no more than its vectors. */
static void test_look(void **state) {
    (void)state;
    const char *const dirs[] = {dense.dir, sparse.dir, scratch_path(&small, "q")};
    for (int i = 0; i < 3; i++) {
        fore_error err = {0};
        fore_model *model[2];
        fore_plan plan[2];
        for (int look = 0; look < 2; look++) {
            const fore_model_options o = {.look = look};
            if (fore_model_open(dirs[i], &o, &model[look], &err)) fail_msg("%s", err.text);
            fore_model_plan(model[look], CONTEXT, &plan[look]);
        }
        assert_memory_equal(&plan[0], &plan[1], sizeof plan[0]);
        fore_session *session;
        assert_int_equal(fore_session_new(model[1], NULL, &session, &err), FORE_ERR_INVALID);
        assert_non_null(strstr(err.text, "looking"));
        for (int look = 0; look < 2; look++) fore_model_close(model[look]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_quantised),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_look),
    };
    return cmocka_run_group_tests_name("unit/memory_plan", tests, set_up, tear_down);
}
