/* The one promise: the same bits whatever the chunk size, the thread count, the instruction set, the run. Everything is
 * compared with memcmp: logits of every prompt row, generated ids, and the state that generation leaves behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "decode/session.h"
#include "support/golden.h"

#define MODELS FORE_DATA "/models/"
#define MOE FORE_DATA "/moe/moe_bf16"
enum { ANSWER = 24 };

/* A prompt of ids and prepared pictures, from a golden file. */
typedef struct prompt {
    golden g;
    fore_image images[8];
    size_t image_count;
    const int32_t *ids;
    size_t n;
} prompt;

static void open_prompt(prompt *p, const char *path) {
    *p = (prompt){0};
    golden_open(&p->g, path);
    p->n = golden_count(golden_find(&p->g, "input_ids"));
    p->ids = golden_i32(&p->g, "input_ids", p->n);
    const fore_tensor *grid = golden_find(&p->g, "image_grid_thw");
    if (!grid) return;
    p->image_count = golden_count(grid) / 3;
    const int32_t *grids = golden_i32(&p->g, "image_grid_thw", p->image_count * 3);
    const float *pixels = golden_f32(&p->g, "pixel_values", golden_count(golden_find(&p->g, "pixel_values")));
    size_t row = 0;
    for (size_t i = 0; i < p->image_count; i++) {
        memcpy(p->images[i].grid, grids + 3 * i, 3 * sizeof(int));
        p->images[i].patches = pixels + row * 1536;
        row += (size_t)(grids[3 * i] * grids[3 * i + 1] * grids[3 * i + 2]);
    }
}

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

/* Key/value rows in use, recurrent and convolution state, as one run of bytes. */
static void keep_state(const fore_session *s, outcome *o) {
    const fore_text_config *t = &s->model->network.config.text;
    size_t D = (size_t)t->head_dim, K = (size_t)t->num_key_value_heads, S = (size_t)s->state.length;
    o->state_size = s->state.recurrent_bytes + (size_t)t->num_hidden_layers * 2 * K * S * D * sizeof(float);
    o->state = calloc(1, o->state_size);
    unsigned char *at = o->state;
    for (int i = 0; i < t->num_hidden_layers; i++) {
        const fore_layer_state *l = &s->state.layers[i];
        if (l->S) {
            size_t n = (size_t)t->linear_num_value_heads * (size_t)t->linear_key_head_dim * (size_t)t->linear_value_head_dim;
            size_t m = ((size_t)t->linear_conv_kernel_dim - 1) *
                       (2 * (size_t)t->linear_num_key_heads * (size_t)t->linear_key_head_dim +
                        (size_t)t->linear_num_value_heads * (size_t)t->linear_value_head_dim);
            memcpy(at, l->S, n * sizeof(float));
            memcpy(at + n * sizeof(float), l->conv, m * sizeof(float));
            at += (n + m) * sizeof(float);
            continue;
        }
        for (size_t h = 0; h < K; h++)
            for (size_t j = 0; j < S; j++)
                for (size_t d = 0; d < D; d++, at += 2 * sizeof(float)) {
                    memcpy(at, &l->k[fore_state_key_at(&s->state, (int)D, (int)h, (int)j, (int)d)], sizeof(float));
                    memcpy(at + sizeof(float), &l->v[(h * (size_t)s->state.capacity + j) * D + d], sizeof(float));
                }
    }
}

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
    fore_request_init(&r, model);
    r.ids = p->ids;
    r.id_count = p->n;
    r.images = p->images;
    r.image_count = p->image_count;
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
    keep_state(session, o);
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
    open_prompt(&p, path);
    check_prompt(dir, &p, p.image_count ? 0 : 1);
    golden_close(&p.g);
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
        cmocka_unit_test(test_tiny),
    };
    return cmocka_run_group_tests_name("promise", tests, NULL, NULL);
}
