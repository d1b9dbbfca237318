/* The draft head against the reference: history rows, the greedy chain of three depths, without history, with the trunk's
 * hidden before the final norm, the verify pass of four rows and the round after one accepted draft. Also the sidecar with
 * absolute norms, and that a window leaves the state alone and its commit equals feeding row by row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/mtp.h"
#include "model/tower.h"
#include "multimodal/splice.h"
#include "support/experts.h"
#include "support/golden.h"
#include "support/scratch.h"

#define MODELS FORE_DATA "/models/"
#define MOE FORE_DATA "/moe/moe_bf16"
#define TOLERANCE 1e-4
enum { CAPACITY = 256 };

typedef struct run {
    golden g;
    fore_network network;
    fore_mtp mtp;
    fore_engine engine;
    fore_state trunk, head;
    fore_scratch scratch;
    fore_mtp_scratch own;
    fore_window window;
    fore_splice splice;
    size_t S, C, V;
    float *embeddings, *hidden, *residual; /* [S + 8, C] */
    const int32_t *ids;
} run;

static void open_run(run *r, const char *dir, const char *golden_file, const char *contract) {
    fore_error err = {0};
    const fore_kern *kern;
    *r = (run){0};
    cJSON *c = contract ? cJSON_Parse(contract) : NULL;
    if (fore_kern_get(NULL, &kern, &err) || fore_network_open(dir, kern, NULL, &r->network, &err) ||
        fore_mtp_open(dir, &r->network, c, NULL, &r->mtp, &err))
        fail_msg("%s", err.text);
    cJSON_Delete(c);
    if (!r->mtp.attached) fail_msg("%s", r->mtp.why);
    golden_open(&r->g, golden_file);
    fore_pool *pool;
    assert_int_equal(fore_pool_new(2, &pool, &err), 0);
    r->engine = (fore_engine){.kern = kern, .pool = pool};
    const fore_text_config *t = &r->network.config.text;
    assert_int_equal(fore_state_new(t, CAPACITY, &r->trunk, &err), 0);
    assert_int_equal(fore_state_new(&r->mtp.text, CAPACITY, &r->head, &err), 0);
    assert_int_equal(fore_scratch_new(t, CAPACITY, CAPACITY, 2, &r->scratch, &err), 0);
    assert_int_equal(fore_mtp_scratch_new(&r->mtp, CAPACITY, &r->own, &err), 0);
    assert_int_equal(fore_window_new(t, 9, &r->window, &err), 0);
    r->S = golden_count(golden_find(&r->g, "input_ids"));
    r->C = (size_t)t->hidden_size;
    r->V = (size_t)t->vocab_size;
    r->ids = golden_i32(&r->g, "input_ids", r->S);
    r->embeddings = calloc((r->S + 8) * r->C, sizeof(float));
    r->hidden = calloc((r->S + 8) * r->C, sizeof(float));
    r->residual = calloc((r->S + 8) * r->C, sizeof(float));
}

static void close_run(run *r) {
    free(r->embeddings);
    free(r->hidden);
    free(r->residual);
    fore_splice_free(&r->splice);
    fore_window_free(&r->window);
    fore_mtp_scratch_free(&r->own);
    fore_scratch_free(&r->scratch);
    fore_state_free(&r->head);
    fore_state_free(&r->trunk);
    golden_close(&r->g);
    fore_pool_free(r->engine.pool);
    fore_mtp_close(&r->mtp);
    fore_network_close(&r->network);
}

static void positions_at(const run *r, int at, int n, int32_t *out) {
    for (int i = 0; i < n; i++) out[i] = at + i + r->splice.mrope_delta;
}

/* The prompt through tower and trunk. */
static void prefill(run *r) {
    int grids[8][3] = {{0}};
    size_t pads[8] = {0}, images = 0, total = 0;
    fore_error err = {0};
    float *rows = NULL;
    if (golden_find(&r->g, "image_grid_thw")) {
        images = golden_count(golden_find(&r->g, "image_grid_thw")) / 3;
        memcpy(grids, golden_i32(&r->g, "image_grid_thw", images * 3), images * 3 * sizeof(int32_t));
        for (size_t i = 0; i < images; i++) total += pads[i] = (size_t)(grids[i][0] * grids[i][1] * grids[i][2]) / 4;
        const float *pixels = golden_f32(&r->g, "pixel_values", golden_count(golden_find(&r->g, "pixel_values")));
        rows = calloc(total * r->C, sizeof *rows);
        for (size_t i = 0, at = 0; i < images; at += pads[i++])
            assert_int_equal(fore_tower_forward(&r->engine, &r->network, pixels + at * 4 * 1536, grids[i], rows + at * r->C, NULL, NULL,
                                                NULL, NULL, &err), 0);
    }
    const fore_splice_input in = {.ids = r->ids, .n = r->S, .embeddings = rows, .rows = total, .hidden = (int)r->C,
                                  .grids = (const int(*)[3])grids, .pad_counts = pads, .images = images};
    if (fore_splice_init(&r->network, &in, &r->splice, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_splice_chunk(&r->splice, r->ids, r->S, r->embeddings, &err), 0);
    const int32_t *table = r->splice.mrope_table;
    const fore_batch b = {.T = (int)r->S, .embeddings = r->embeddings, .positions = {table, table + r->S, table + 2 * r->S},
                          .hidden = r->hidden, .residual = r->residual};
    fore_trunk_forward(&r->engine, &r->network, &r->trunk, &r->scratch, &b);
}

static void head_logits(run *r, const float *post, int T, float *logits) {
    fore_trunk_logits(&r->engine, &r->network, post, T, logits);
}

/* The chain that begins with the last row of a batch: depth 1 is given, 2 and 3 are computed and compared. */
static void check_chain(run *r, const char *tag, const float *post, const float *next, int position) {
    char name[64];
    float *logits = calloc(r->V, sizeof *logits), *row = calloc(r->C, sizeof *row), *e = calloc(r->C, sizeof *e), *out = calloc(r->C, sizeof *out);
    memcpy(row, post, r->C * sizeof *row);
    memcpy(out, next, r->C * sizeof *out);
    for (int depth = 1; depth <= 3; depth++) {
        head_logits(r, row, 1, logits);
        snprintf(name, sizeof name, "%sdepth%d.logits", tag, depth);
        golden_compare(&r->g, name, logits, r->V, TOLERANCE);
        snprintf(name, sizeof name, "%sdepth%d.hidden", tag, depth);
        if (golden_find(&r->g, name)) golden_compare(&r->g, name, row, r->C, TOLERANCE);
        snprintf(name, sizeof name, "%sdepth%d.token", tag, depth);
        int32_t token = (int32_t)r->engine.kern->argmax(logits, r->V);
        assert_int_equal(token, golden_i32(&r->g, name, 1)[0]);
        if (depth == 3) break;
        fore_weight_row(r->engine.kern, &r->network.embed, token, e);
        int32_t p = (int32_t)position + depth;
        float *in = calloc(r->C, sizeof *in);
        memcpy(in, out, r->C * sizeof *in);
        const fore_mtp_batch b = {.T = 1, .hidden = in, .embeddings = e, .positions = {&p, &p, &p}, .post_norm = row, .next = out};
        fore_mtp_forward(&r->engine, &r->network, &r->mtp, &r->head, &r->scratch, &r->own, &b);
        free(in);
    }
    free(logits);
    free(row);
    free(e);
    free(out);
}

/* Head rows [first, S) of the prompt: embeddings are the trunk's, shifted by one; the last one is the next token's. */
static void feed_history(run *r, const float *hidden, size_t first, size_t last, int from, float *post, float *next) {
    float *e = calloc((last - first) * r->C, sizeof *e);
    int32_t token = golden_i32(&r->g, "mtp.next_token", 1)[0];
    for (size_t j = first; j < last; j++) {
        float *to = e + (j - first) * r->C;
        if (j + 1 < r->S) memcpy(to, r->embeddings + (j + 1) * r->C, r->C * sizeof *to);
        else fore_weight_row(r->engine.kern, &r->network.embed, token, to);
    }
    const int32_t *table = r->splice.mrope_table + first;
    const fore_mtp_batch b = {.T = (int)(last - first), .from = from, .hidden = hidden + first * r->C, .embeddings = e,
                              .positions = {table, table + r->S, table + 2 * r->S}, .post_norm = post, .next = next};
    fore_mtp_forward(&r->engine, &r->network, &r->mtp, &r->head, &r->scratch, &r->own, &b);
    free(e);
}

static int last_position(const run *r) { return r->splice.mrope_table[r->S - 1]; }

static void compare_head_cache(run *r, const char *which, int length) {
    size_t S = (size_t)length, D = (size_t)r->mtp.text.head_dim, K = (size_t)r->mtp.text.num_key_value_heads;
    float *k = calloc(K * S * D, sizeof *k), *v = calloc(K * S * D, sizeof *v);
    const fore_layer_state *l = &r->head.layers[0];
    for (size_t h = 0; h < K; h++)
        for (size_t j = 0; j < S; j++)
            for (size_t d = 0; d < D; d++) {
                k[(h * S + j) * D + d] = l->k[fore_state_key_at(&r->head, (int)D, (int)h, (int)j, (int)d)];
                v[(h * S + j) * D + d] = l->v[(h * CAPACITY + j) * D + d];
            }
    char name[64];
    snprintf(name, sizeof name, "%sk", which);
    golden_compare(&r->g, name, k, K * S * D, TOLERANCE);
    snprintf(name, sizeof name, "%sv", which);
    golden_compare(&r->g, name, v, K * S * D, TOLERANCE);
    free(k);
    free(v);
}

static void check_history(run *r) {
    float *post = calloc(r->S * r->C, sizeof *post), *next = calloc(r->C, sizeof *next), *logits = calloc(r->S * r->V, sizeof *logits);
    feed_history(r, r->hidden, 0, r->S, 0, post, next);
    golden_compare(&r->g, "mtp.history.hidden", post, r->S * r->C, TOLERANCE);
    head_logits(r, post, (int)r->S, logits);
    if (golden_find(&r->g, "mtp.history.logits")) golden_compare(&r->g, "mtp.history.logits", logits, r->S * r->V, TOLERANCE);
    compare_head_cache(r, "mtp.history.", (int)r->S);
    /* Keys and values only, in chunks, then the last row: the same bits. */
    float *again = calloc(r->S * r->C, sizeof *again), *next2 = calloc(r->C, sizeof *next2);
    fore_state_reset(&r->head);
    for (size_t at = 0; at < r->S - 1;) {
        size_t n = r->S - 1 - at < 5 ? r->S - 1 - at : 5;
        feed_history(r, r->hidden, at, at + n, (int)n, NULL, NULL);
        at += n;
    }
    feed_history(r, r->hidden, r->S - 1, r->S, 0, again, next2);
    assert_memory_equal(again, post + (r->S - 1) * r->C, r->C * sizeof *again);
    assert_memory_equal(next, next2, r->C * sizeof *next);
    compare_head_cache(r, "mtp.history.", (int)r->S);
    check_chain(r, "mtp.", post + (r->S - 1) * r->C, next, last_position(r));
    free(post);
    free(next);
    free(logits);
    free(again);
    free(next2);
}

/* Trunk on [x_L, d1, d2, d3]: a window that leaves the state alone; then one draft is accepted. */
static void check_verify(run *r) {
    const int32_t *tokens = golden_i32(&r->g, "mtp.verify.tokens", 4);
    float *e = calloc(4 * r->C, sizeof *e), *hidden = calloc(4 * r->C, sizeof *hidden), *logits = calloc(4 * r->V, sizeof *logits);
    for (size_t i = 0; i < 4; i++) fore_weight_row(r->engine.kern, &r->network.embed, tokens[i], e + i * r->C);
    int32_t p[4];
    positions_at(r, (int)r->S, 4, p);
    assert_memory_equal(p, golden_i32(&r->g, "mtp.verify.position_ids", 4), sizeof p);
    unsigned char *before = malloc(r->trunk.recurrent_bytes);
    memcpy(before, r->trunk.recurrent_memory, r->trunk.recurrent_bytes);
    const fore_batch b = {.T = 4, .embeddings = e, .positions = {p, p, p}, .hidden = hidden, .window = &r->window};
    fore_trunk_forward(&r->engine, &r->network, &r->trunk, &r->scratch, &b);
    assert_memory_equal(before, r->trunk.recurrent_memory, r->trunk.recurrent_bytes);
    assert_int_equal(r->trunk.length, r->S);
    fore_trunk_logits(&r->engine, &r->network, hidden, 4, logits);
    golden_compare(&r->g, "mtp.verify.hidden", hidden, 4 * r->C, TOLERANCE);
    golden_compare(&r->g, "mtp.verify.logits", logits, 4 * r->V, TOLERANCE);
    /* Committing n rows equals feeding them one by one, for every n, in every byte. */
    unsigned char *committed = malloc(r->trunk.recurrent_bytes);
    for (int n = 0; n <= 4; n++) {
        memcpy(r->trunk.recurrent_memory, before, r->trunk.recurrent_bytes);
        r->trunk.length = (int)r->S;
        fore_trunk_forward(&r->engine, &r->network, &r->trunk, &r->scratch, &b);
        fore_trunk_commit(&r->engine, &r->network, &r->trunk, &r->scratch, &r->window, n);
        assert_int_equal(r->trunk.length, r->S + (size_t)n);
        memcpy(committed, r->trunk.recurrent_memory, r->trunk.recurrent_bytes);
        memcpy(r->trunk.recurrent_memory, before, r->trunk.recurrent_bytes);
        r->trunk.length = (int)r->S;
        for (int i = 0; i < n; i++) {
            float *one = calloc(r->C, sizeof *one);
            const fore_batch step = {.T = 1, .embeddings = e + (size_t)i * r->C, .positions = {p + i, p + i, p + i}, .hidden = one};
            fore_trunk_forward(&r->engine, &r->network, &r->trunk, &r->scratch, &step);
            assert_memory_equal(one, hidden + (size_t)i * r->C, r->C * sizeof *one);
            free(one);
        }
        assert_memory_equal(committed, r->trunk.recurrent_memory, r->trunk.recurrent_bytes);
    }
    /* Round two: d1 was accepted, y follows; drafted rows go, two true rows come. */
    r->head.length = (int)r->S;
    int32_t follow[2] = {golden_i32(&r->g, "mtp.depth1.token", 1)[0], golden_i32(&r->g, "mtp.round2.next_token", 1)[0]};
    float *e2 = calloc(2 * r->C, sizeof *e2), *post = calloc(2 * r->C, sizeof *post), *next = calloc(r->C, sizeof *next);
    for (size_t i = 0; i < 2; i++) fore_weight_row(r->engine.kern, &r->network.embed, follow[i], e2 + i * r->C);
    const fore_mtp_batch rows = {.T = 2, .hidden = hidden, .embeddings = e2, .positions = {p, p, p}, .post_norm = post, .next = next};
    fore_mtp_forward(&r->engine, &r->network, &r->mtp, &r->head, &r->scratch, &r->own, &rows);
    golden_compare(&r->g, "mtp.round2.history.hidden", post, 2 * r->C, TOLERANCE);
    check_chain(r, "mtp.round2.", post + r->C, next, p[1]);
    free(before);
    free(committed);
    free(e);
    free(hidden);
    free(logits);
    free(e2);
    free(post);
    free(next);
}

static void check_other_inputs(run *r) {
    float *post = calloc(r->S * r->C, sizeof *post), *logits = calloc(r->V, sizeof *logits);
    fore_state_reset(&r->head);
    feed_history(r, r->hidden, r->S - 1, r->S, 0, post, NULL);
    head_logits(r, post, 1, logits);
    golden_compare(&r->g, "mtp.nohistory.depth1.hidden", post, r->C, TOLERANCE);
    golden_compare(&r->g, "mtp.nohistory.depth1.logits", logits, r->V, TOLERANCE);
    fore_state_reset(&r->head);
    feed_history(r, r->residual, 0, r->S, (int)r->S - 1, post, NULL);
    head_logits(r, post + (r->S - 1) * r->C, 1, logits);
    golden_compare(&r->g, "mtp.prenorm_variant.depth1.logits", logits, r->V, TOLERANCE);
    free(post);
    free(logits);
}

static void check_model(const char *dir, const char *golden_file) {
    run r;
    open_run(&r, dir, golden_file, NULL);
    prefill(&r);
    check_history(&r);
    check_verify(&r);
    check_other_inputs(&r);
    print_message("%s: largest difference %.2g (%s); head from %s, norms %s\n", golden_file, r.g.worst, r.g.worst_name, r.mtp.source,
                  r.mtp.norms_absolute ? "absolute" : "zero-centred");
    close_run(&r);
}

static void test_untied_bf16(void **state) {
    (void)state;
    check_model(MODELS "dense_untied_bf16", MODELS "dense_untied_bf16/golden_mm.safetensors");
    check_model(MODELS "dense_untied_bf16", MODELS "dense_untied_bf16/golden_text_long.safetensors");
}
static void test_tied_f32(void **state) {
    (void)state;
    check_model(MODELS "dense_tied_f32", MODELS "dense_tied_f32/golden_mm.safetensors");
    check_model(MODELS "dense_tied_f32", MODELS "dense_tied_f32/golden_text.safetensors");
}
static void test_sharded_bf16(void **state) {
    (void)state;
    check_model(MODELS "dense_sharded_bf16", MODELS "dense_sharded_bf16/golden_mm.safetensors");
}

/* The head's layer has experts too, in every layout. */
static void check_experts(const char *dir) {
    check_model(dir, MOE "/golden_mm.safetensors");
    check_model(dir, MOE "/golden_text.safetensors");
}
static void test_experts(void **state) {
    (void)state;
    check_experts(MOE);
    check_experts(MOE "_numbered");
    scratch s;
    scratch_make(&s);
    experts_copy(&s, MOE, EXPERTS_STACKED);
    check_experts(s.dir);
    scratch_remove(&s);
}

/* A sidecar whose norms hold the gain itself wins over the zero-centred head inside; the numbers stay. */
static void test_absolute_sidecar(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    scratch_copy(&s, MODELS "dense_tied_f32/config.json", "config.json");
    scratch_copy(&s, MODELS "dense_tied_f32/model.safetensors", "model.safetensors");
    scratch_copy(&s, MODELS "dense_tied_f32/sidecar_absolute/mtp.safetensors", "mtp.safetensors");
    run r;
    open_run(&r, s.dir, MODELS "dense_tied_f32/golden_mm.safetensors", NULL);
    assert_true(r.mtp.norms_absolute);
    assert_non_null(strstr(r.mtp.source, "mtp.safetensors"));
    close_run(&r);
    check_model(s.dir, MODELS "dense_tied_f32/golden_mm.safetensors");
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untied_bf16),
        cmocka_unit_test(test_tied_f32),
        cmocka_unit_test(test_sharded_bf16),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_absolute_sidecar),
    };
    return cmocka_run_group_tests_name("golden/mtp", tests, NULL, NULL);
}
