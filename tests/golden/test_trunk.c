/* Every tensor of the forward pass against the reference implementation, for each checkpoint and each of its cases:
 * positions exact, all else within 1e-4 of the largest reference value, greedy tokens exact. Also chunked feeding, and
 * every layout of a mixture of experts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/tower.h"
#include "model/trunk.h"
#include "multimodal/mrope.h"
#include "multimodal/splice.h"
#include "support/experts.h"
#include "support/golden.h"

#define MODELS FORE_DATA "/models/"
#define MOE FORE_DATA "/moe/moe_bf16"
#define FAMILY FORE_DATA "/family/"
#define ROPE FORE_DATA "/rope/"
#define QWEN2_5 FORE_DATA "/qwen2_5/"
#define TOLERANCE 1e-4

typedef struct run {
    golden g;
    fore_network network;
    fore_engine engine;
    fore_state state;
    fore_scratch scratch;
    float *hidden, *logits;
    bool compare_layers;
} run;

/* Layer tensors that the golden file has are compared where the pass makes them. */
static void look(void *user, const char *name, int index, const float *data, size_t rows, size_t cols) {
    run *r = user;
    char full[64];
    snprintf(full, sizeof full, "%s.%d", name, index);
    if (r->compare_layers && golden_find(&r->g, full)) golden_compare(&r->g, full, data, rows * cols, TOLERANCE);
}

typedef struct vision_look {
    run *r;
    size_t row, merged_row; /* patches and merged rows of earlier pictures */
    size_t P;
} vision_look;

/* The golden file has the rows of all pictures in one tensor; ours have the given stride. */
static void compare_rows(run *r, const char *full, size_t first, const float *data, size_t stride, size_t rows, size_t cols) {
    size_t all = golden_count(golden_find(&r->g, full)) / cols;
    const float *reference = golden_f32(&r->g, full, all * cols);
    double largest = 0;
    for (size_t i = 0; i < all * cols; i++) largest = fmax(largest, fabs((double)reference[i]));
    for (size_t i = 0; i < rows * cols; i++) {
        double ours = (double)data[i / cols * stride + i % cols], theirs = (double)reference[first * cols + i];
        if (!(fabs(ours - theirs) <= TOLERANCE * largest))
            fail_msg("%s: row %zu col %zu: ours %g, reference %g", full, first + i / cols, i % cols, ours, theirs);
    }
}

static void look_vision(void *user, const char *name, int index, const float *data, size_t rows, size_t cols) {
    vision_look *v = user;
    char full[64];
    const char *part = strchr(name, '.') + 1;
    if (strcmp(part, "output")) {
        if (strcmp(part, "block") == 0) snprintf(full, sizeof full, "vision.image.block%d", index);
        else snprintf(full, sizeof full, "vision.image.%s", part);
        compare_rows(v->r, full, v->row, data, cols, rows, cols);
        return;
    }
    size_t C = (size_t)v->r->network.config.text.hidden_size;
    compare_rows(v->r, "vision.image.output", v->merged_row, data, cols, rows, C);
    for (size_t i = 1; i < cols / C; i++) {
        snprintf(full, sizeof full, "vision.image.deepstack%zu", i - 1);
        compare_rows(v->r, full, v->merged_row, data + i * C, cols, rows, C);
    }
}

static void open_run(run *r, const char *dir, const char *golden_file, int threads, const char *isa) {
    fore_error err = {0};
    *r = (run){0};
    const fore_kern *kern;
    if (fore_kern_get(isa, &kern, &err) || fore_network_open(dir, kern, NULL, &r->network, &err)) fail_msg("%s", err.text);
    fore_pool *pool;
    assert_int_equal(fore_pool_new(threads, &pool, &err), 0);
    r->engine = (fore_engine){.kern = kern, .pool = pool};
    golden_open(&r->g, golden_file);
    const fore_text_config *t = &r->network.config.text;
    assert_int_equal(fore_state_new(t, 256, &r->state, &err), 0);
    assert_int_equal(fore_scratch_new(t, 256, 256, threads, &r->scratch, &err), 0);
    r->hidden = calloc(256 * (size_t)t->hidden_size, sizeof(float));
    r->logits = calloc(256 * (size_t)t->vocab_size, sizeof(float));
}

static void close_run(run *r) {
    free(r->hidden);
    free(r->logits);
    fore_scratch_free(&r->scratch);
    fore_state_free(&r->state);
    golden_close(&r->g);
    fore_pool_free(r->engine.pool);
    fore_network_close(&r->network);
}

/* Keys and values [K,S,D], convolution [channels,4] (the reference keeps one more column) and recurrent state. */
static void compare_state(run *r, const char *when, int length) {
    const fore_text_config *t = &r->network.config.text;
    size_t S = (size_t)length, D = (size_t)t->head_dim, K = (size_t)t->num_key_value_heads;
    char name[64];
    for (int i = 0; i < t->num_hidden_layers; i++) {
        const fore_layer_state *l = &r->state.layers[i];
        if (t->full_attention[i]) {
            snprintf(name, sizeof name, "cache.%s.%d.k", when, i);
            if (!golden_find(&r->g, name)) continue;
            float *k = calloc(K * S * D, sizeof *k), *v = calloc(K * S * D, sizeof *v);
            for (size_t h = 0; h < K; h++)
                for (size_t j = 0; j < S; j++)
                    for (size_t d = 0; d < D; d++) {
                        k[(h * S + j) * D + d] = l->k[fore_state_key_at(&r->state, (int)D, (int)h, (int)j, (int)d)];
                        v[(h * S + j) * D + d] = l->v[(h * (size_t)r->state.capacity + j) * D + d];
                    }
            golden_compare(&r->g, name, k, K * S * D, TOLERANCE);
            snprintf(name, sizeof name, "cache.%s.%d.v", when, i);
            golden_compare(&r->g, name, v, K * S * D, TOLERANCE);
            free(k);
            free(v);
        } else {
            size_t nv = (size_t)t->linear_num_value_heads, dk = (size_t)t->linear_key_head_dim, dv = (size_t)t->linear_value_head_dim;
            size_t channels = 2 * (size_t)t->linear_num_key_heads * dk + nv * dv, kernel = (size_t)t->linear_conv_kernel_dim;
            snprintf(name, sizeof name, "state.%s.%d.recurrent", when, i);
            golden_compare(&r->g, name, l->S, nv * dk * dv, TOLERANCE);
            snprintf(name, sizeof name, "state.%s.%d.conv", when, i);
            const float *reference = golden_f32(&r->g, name, channels * kernel);
            double largest = 0;
            for (size_t c = 0; c < channels * kernel; c++) largest = fmax(largest, fabs((double)reference[c]));
            for (size_t c = 0; c < channels; c++)
                for (size_t j = 1; j < kernel; j++)
                    assert_true(fabs((double)l->conv[(j - 1) * channels + c] - (double)reference[c * kernel + j]) <= TOLERANCE * largest);
        }
    }
}

static void feed(run *r, const float *embeddings, const float *const *deepstack, const int32_t *table, size_t stride, int first, int T) {
    size_t C = (size_t)r->network.config.text.hidden_size;
    const fore_batch b = {
        .T = T,
        .embeddings = embeddings,
        .positions = {table, table + stride, table + 2 * stride},
        .deepstack = deepstack,
        .hidden = r->hidden + (size_t)first * C,
        .tap = look,
        .tap_user = r,
    };
    fore_trunk_forward(&r->engine, &r->network, &r->state, &r->scratch, &b);
}

/* Pictures through the tower into rows; grids are given. */
static float *see(run *r, const int (*grids)[3], size_t images, size_t pads) {
    size_t C = fore_picture_columns(&r->network.config), K = (size_t)r->network.tower.patch_embed.K;
    const float *pixels = golden_f32(&r->g, "pixel_values", golden_count(golden_find(&r->g, "pixel_values")));
    float *rows = calloc(pads ? pads * C : 1, sizeof *rows);
    vision_look v = {.r = r};
    for (size_t i = 0; i < images; i++) {
        size_t P = (size_t)(grids[i][0] * grids[i][1] * grids[i][2]);
        fore_error err = {0};
        assert_int_equal(fore_tower_forward(&r->engine, &r->network, pixels + v.row * K, grids[i], rows + v.merged_row * C, NULL, NULL,
                                            look_vision, &v, &err), 0);
        v.row += P;
        v.merged_row += P / 4;
    }
    return rows;
}

static void check_files(const char *dir, const char *golden_file, int chunk) {
    run r;
    open_run(&r, dir, golden_file, 2, NULL);
    const fore_config *c = &r.network.config;
    size_t C = (size_t)c->text.hidden_size, V = (size_t)c->text.vocab_size;
    size_t S = golden_count(golden_find(&r.g, "input_ids"));
    const int32_t *ids = golden_i32(&r.g, "input_ids", S);
    int grids[8][3] = {{0}};
    size_t pads[8] = {0}, images = 0, total = 0;
    const fore_tensor *grid = golden_find(&r.g, "image_grid_thw");
    if (grid) {
        images = golden_count(grid) / 3;
        memcpy(grids, golden_i32(&r.g, "image_grid_thw", images * 3), images * 3 * sizeof(int32_t));
        for (size_t i = 0; i < images; i++) total += pads[i] = (size_t)(grids[i][0] * grids[i][1] * grids[i][2]) / 4;
    }
    float *rows = images ? see(&r, (const int(*)[3])grids, images, total) : NULL;
    fore_splice splice;
    fore_error err = {0};
    const fore_splice_input in = {.ids = ids, .n = S, .embeddings = rows, .rows = total, .hidden = (int)C,
                                  .grids = (const int(*)[3])grids, .pad_counts = pads, .images = images};
    if (fore_splice_init(&r.network, &in, &splice, &err)) fail_msg("%s", err.text);
    assert_memory_equal(splice.mrope_table, golden_i32(&r.g, "position_ids", 3 * S), 3 * S * sizeof(int32_t));
    assert_int_equal(splice.mrope_delta, golden_i32(&r.g, "rope_delta", 1)[0]);

    float *embeddings = calloc(S * C, sizeof *embeddings);
    r.compare_layers = chunk == 0;
    for (size_t at = 0; at < S;) {
        size_t T = chunk && (size_t)chunk < S - at ? (size_t)chunk : S - at;
        if (fore_splice_chunk(&splice, ids + at, T, embeddings + at * C, &err)) fail_msg("%s", err.text);
        feed(&r, embeddings + at * C, splice.deepstack ? splice.deepstack + at : NULL, splice.mrope_table + at, S, (int)at, (int)T);
        at += T;
    }
    assert_int_equal(fore_splice_finish(&splice, &err), 0);
    if (golden_find(&r.g, "inputs_embeds")) golden_compare(&r.g, "inputs_embeds", embeddings, S * C, TOLERANCE);
    golden_compare(&r.g, "final_norm", r.hidden, S * C, TOLERANCE);
    fore_trunk_logits(&r.engine, &r.network, r.hidden, (int)S, r.logits);
    golden_compare(&r.g, "logits", r.logits, S * V, TOLERANCE);
    compare_state(&r, "prompt", (int)S);

    /* Greedy decoding: each token is the argmax of the row before it. */
    size_t steps = golden_count(golden_find(&r.g, "decode.tokens"));
    const int32_t *tokens = golden_i32(&r.g, "decode.tokens", steps);
    const int32_t *places = golden_i32(&r.g, "decode.position_ids", steps);
    float *row = r.logits + (S - 1) * V, *decoded = calloc(steps * V, sizeof *decoded), *final = calloc(steps * C, sizeof *final);
    r.compare_layers = false;
    for (size_t i = 0; i < steps; i++) {
        assert_int_equal(r.engine.kern->argmax(row, V), tokens[i]);
        int32_t position = (int32_t)(S + i) + splice.mrope_delta;
        assert_int_equal(position, places[i]);
        float *e = calloc(C, sizeof *e);
        fore_weight_row(r.engine.kern, &r.network.embed, tokens[i], e);
        feed(&r, e, NULL, &position, 0, 0, 1);
        free(e);
        memcpy(final + i * C, r.hidden, C * sizeof *final);
        row = decoded + i * V;
        fore_trunk_logits(&r.engine, &r.network, r.hidden, 1, row);
    }
    golden_compare(&r.g, "decode.logits", decoded, steps * V, TOLERANCE);
    golden_compare(&r.g, "decode.final_norm", final, steps * C, TOLERANCE);
    compare_state(&r, "decoded", (int)(S + steps));
    print_message("%s chunk %d: largest difference %.2g of the tensor's largest value (%s)\n", golden_file, chunk, r.g.worst,
                  r.g.worst_name);
    free(decoded);
    free(final);
    free(embeddings);
    fore_splice_free(&splice);
    close_run(&r);
}

static void check_case(const char *model, const char *which, int chunk) {
    char dir[256], path[300];
    snprintf(dir, sizeof dir, MODELS "%s", model);
    snprintf(path, sizeof path, "%s/golden_%s.safetensors", dir, which);
    check_files(dir, path, chunk);
}

static void test_untied_bf16_images(void **state) {
    (void)state;
    check_case("dense_untied_bf16", "mm", 0);
    check_case("dense_untied_bf16", "mm", 7);
}
static void test_untied_bf16_long_text(void **state) {
    (void)state;
    check_case("dense_untied_bf16", "text_long", 0);
    check_case("dense_untied_bf16", "text_long", 64);
}
static void test_tied_f32_images(void **state) {
    (void)state;
    check_case("dense_tied_f32", "mm", 0);
    check_case("dense_tied_f32", "mm", 1);
}
static void test_tied_f32_text(void **state) {
    (void)state;
    check_case("dense_tied_f32", "text", 0);
}
static void test_sharded_bf16_images(void **state) {
    (void)state;
    check_case("dense_sharded_bf16", "mm", 0);
    check_case("dense_sharded_bf16", "mm", 5);
}

/* Pictures and text, in one go, in chunks and row by row: rows of many experts, and of one. */
static void check_experts(const char *dir) {
    static const int chunks[] = {0, 5, 1};
    for (size_t i = 0; i < 3; i++) {
        check_files(dir, MOE "/golden_mm.safetensors", chunks[i]);
        check_files(dir, MOE "/golden_text.safetensors", chunks[i]);
    }
}
static void test_experts_fused(void **state) {
    (void)state;
    check_experts(MOE);
}
static void test_experts_numbered(void **state) {
    (void)state;
    check_experts(MOE "_numbered");
}
static void test_experts_stacked(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    experts_copy(&s, MOE, EXPERTS_STACKED);
    check_experts(s.dir);
    scratch_remove(&s);
}

/* ---- the other families ------------------------------------------------------------------------------------------- */

static void check_family(const char *family, const char *model, const char *which) {
    static const int chunks[] = {0, 5, 1};
    char path[300];
    snprintf(path, sizeof path, "%s%s/golden_%s.safetensors", family, model, which);
    char dir[256];
    snprintf(dir, sizeof dir, "%s%s", family, model);
    for (size_t i = 0; i < 3; i++) check_files(dir, path, chunks[i]);
}
/* Plain norms, no gate, rows added after the first layers. */
static void test_vl(void **state) {
    (void)state;
    check_family(FAMILY, "vl_dense_bf16", "mm");
    check_family(FAMILY, "vl_dense_bf16", "text");
}
static void test_vl_moe(void **state) {
    (void)state;
    check_family(FAMILY, "vl_moe_bf16", "mm");
}
/* Windows in the tower, whole ones and parts at the edges; M-RoPE in blocks; biases; both generations of names. */
static void test_qwen2_5(void **state) {
    (void)state;
    check_family(QWEN2_5, "bf16", "mm");
    check_family(QWEN2_5, "bf16", "text");
    check_family(QWEN2_5, "tied_f32", "mm");
}
/* Text alone: biases, some layers dense, weights that do not add up to 1, projections grouped by key head. */
static void test_text_only(void **state) {
    (void)state;
    static const char *const models[] = {"qwen3_tied_f32", "qwen3_moe_bf16", "qwen3_next_bf16", "qwen3_5_text_bf16", "qwen3_5_moe_text_bf16"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_family(FAMILY, models[i], "text");
}
/* Positions within and beyond those that the model was trained on. */
static void test_yarn(void **state) {
    (void)state;
    check_family(ROPE, "qwen3_5_text_yarn_bf16", "text");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untied_bf16_images), cmocka_unit_test(test_untied_bf16_long_text), cmocka_unit_test(test_tied_f32_images),
        cmocka_unit_test(test_tied_f32_text),      cmocka_unit_test(test_sharded_bf16_images),
        cmocka_unit_test(test_experts_fused),      cmocka_unit_test(test_experts_numbered),    cmocka_unit_test(test_experts_stacked),
        cmocka_unit_test(test_vl),                 cmocka_unit_test(test_vl_moe),             cmocka_unit_test(test_text_only), cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_qwen2_5),
    };
    return cmocka_run_group_tests_name("golden/trunk", tests, NULL, NULL);
}
