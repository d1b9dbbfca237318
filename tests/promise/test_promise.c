/* The one promise: the same bits whatever the chunk size, the thread count, the instruction set, the run. Everything is
 * compared with memcmp: logits of every prompt row, generated ids, and the state that generation leaves behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/timeline.h"

#define MODELS FORE_DATA "/models/"
#define MOE FORE_DATA "/moe/moe_bf16"
#define FAMILY FORE_DATA "/family/"
enum { ANSWER = 24 };

/* One way of computing. */
typedef struct way {
    const char *isa;
    int threads, chunk;
} way;

/* What a way gives: logits of the prompt, the answer, the state after it. */
typedef struct outcome {
    float *logits;
    size_t logit_count;
    int32_t answer[ANSWER];
    int answered;
    unsigned char *state;
    size_t state_size;
} outcome;

static void compute(const char *dir, const prompt *p, way w, float temperature, outcome *o) {
    fore_error err = {0};
    fore_model *model;
    fore_session *session;
    const fore_model_options mo = {.isa = w.isa};
    const fore_session_options so = {.threads = w.threads, .context = 512};
    if (fore_model_open(dir, &mo, &model, &err)) fail_msg("%s", err.text);
    if (fore_session_new(model, &so, &session, &err)) fail_msg("%s", err.text);
    *o = (outcome){0};
    fore_request r;
    prompt_request(&r, model, p);
    r.prefill_chunk = w.chunk;
    r.ignore_eos = true;
    r.max_tokens = ANSWER;
    r.sampling = (fore_sampling){.temperature = temperature, .top_p = 1, .repetition_penalty = 1, .seed = 7};
    fore_trace *trace;
    if (fore_session_trace(session, &r, &trace, &err)) fail_msg("%s", err.text);
    o->logit_count = trace->tokens * (size_t)trace->vocab;
    o->logits = trace->logits;
    trace->logits = NULL;
    fore_trace_free(trace);
    if (fore_session_begin(session, &r, &err)) fail_msg("%s", err.text);
    fore_chunk c = {0};
    while (c.finish == FORE_FINISH_NONE) {
        if (fore_session_next(session, &c, &err)) fail_msg("%s", err.text);
        for (size_t i = 0; i < c.id_count; i++) o->answer[o->answered++] = c.ids[i];
    }
    assert_int_equal(o->answered, ANSWER);
    o->state = timeline_bytes(session, &o->state_size);
    fore_session_free(session);
    fore_model_close(model);
}

static void free_outcome(outcome *o) {
    free(o->logits);
    free(o->state);
}

static void check_same(const outcome *a, const outcome *b, way w) {
    char label[96];
    snprintf(label, sizeof label, "isa %s, %d threads, chunk %d", w.isa ? w.isa : "best", w.threads, w.chunk);
    if (a->logit_count != b->logit_count || memcmp(a->logits, b->logits, a->logit_count * sizeof(float)))
        fail_msg("%s: other logits", label);
    if (a->answered != b->answered || memcmp(a->answer, b->answer, sizeof a->answer)) fail_msg("%s: other tokens", label);
    if (a->state_size != b->state_size || memcmp(a->state, b->state, a->state_size)) fail_msg("%s: another state", label);
}

static void check_prompt(const char *dir, const prompt *p, float temperature) {
    const fore_kern *kerns[8];
    int sets = fore_kern_list(kerns);
    assert_true(sets >= 1);
    outcome base, other;
    const way plain = {"ref", 1, 1 << 20};
    compute(dir, p, plain, temperature, &base);
    const way ways[] = {{NULL, 1, 1}, {NULL, 1, 7}, {NULL, 2, 64}, {NULL, 2, 1 << 20}, {NULL, 5, 7}, {NULL, 5, 0}, {NULL, 1, 16}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        compute(dir, p, ways[i], temperature, &other);
        check_same(&base, &other, ways[i]);
        free_outcome(&other);
    }
    for (int i = 0; i < sets; i++)
        for (int again = 0; again < (i ? 2 : 1); again++) { /* twice in one process; the slow reference ran before */
            const way w = {kerns[i]->name, 2, 9};
            compute(dir, p, w, temperature, &other);
            check_same(&base, &other, w);
            free_outcome(&other);
        }
    free_outcome(&base);
}

static void check_files(const char *dir, const char *path) {
    prompt p;
    prompt_open(&p, path);
    check_prompt(dir, &p, p.image_count || p.video_count ? 0 : 1);
    prompt_close(&p);
}

static void check_golden(const char *model, const char *which) {
    char dir[256], path[300];
    snprintf(dir, sizeof dir, MODELS "%s", model);
    snprintf(path, sizeof path, "%s/golden_%s.safetensors", dir, which);
    check_files(dir, path);
}

static void test_untied_bf16(void **state) {
    (void)state;
    check_golden("dense_untied_bf16", "mm");
    check_golden("dense_untied_bf16", "text_long");
    check_golden("dense_untied_bf16", "video");
}
static void test_tied_f32(void **state) {
    (void)state;
    check_golden("dense_tied_f32", "mm");
}
static void test_sharded_bf16(void **state) {
    (void)state;
    check_golden("dense_sharded_bf16", "mm");
}

static void test_experts(void **state) {
    (void)state;
    check_files(MOE, MOE "/golden_mm.safetensors");
    check_files(MOE, MOE "/golden_text.safetensors");
    check_files(MOE "_numbered", MOE "/golden_text.safetensors");
}

/* Without gates and heads, with rows added after the first layers; experts transposed in the file. */
static void test_vl(void **state) {
    (void)state;
    check_files(FAMILY "vl_dense_bf16", FAMILY "vl_dense_bf16/golden_mm.safetensors");
    check_files(FAMILY "vl_dense_bf16", FORE_DATA "/video/vl_dense_video.safetensors");
    check_files(FAMILY "vl_moe_bf16", FAMILY "vl_moe_bf16/golden_mm.safetensors");
}

/* The trained model, whose head sizes and widths are others: text of its own vocabulary and a picture of noise. */
static void test_tiny(void **state) {
    (void)state;
    static float patches[2][10 * 10 * 1536];
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof patches[0] / sizeof(float); i++)
            patches[k][i] = (float)((i * 2654435761u >> 7) % (200 + k)) / 100.0f - 1.0f;
    static const int32_t ids[] = {1241, 388, 198, 1249, 1252, 1250, 383, 1249, 1252, 1250, 261, 276, 13, 1242, 198, 1241, 393, 198};
    prompt p = {.ids = ids, .n = sizeof ids / sizeof *ids, .image_count = 2};
    p.images[0] = (fore_image){.patches = patches[0], .grid = {1, 10, 10}};
    p.images[1] = (fore_image){.patches = patches[1], .grid = {1, 4, 8}};
    check_prompt("models/tiny", &p, 0);
    check_prompt("models/tiny", &p, 0.7f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untied_bf16),
        cmocka_unit_test(test_tied_f32),
        cmocka_unit_test(test_sharded_bf16),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_vl),
        cmocka_unit_test(test_tiny),
    };
    return cmocka_run_group_tests_name("promise", tests, NULL, NULL);
}
