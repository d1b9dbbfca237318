/* The mixture of experts: what the router picks, sums in the router's order, rows that get what they get alone, weights of
 * experts that nobody picked left unread, the same bits from every layout, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "decode/session.h"
#include "kernels/turn.h"
#include "model/moe.h"
#include "model/mtp.h"
#include "support/experts.h"

#define MOE FORE_DATA "/moe/moe_bf16"

/* ---- the router's choice ----------------------------------------------------------------------------------------- */

static void test_pick(void **state) {
    (void)state;
    int32_t experts[6];
    float weights[6], p[6] = {0.1f, 0.3f, 0.05f, 0.3f, 0.15f, 0.1f};
    fore_moe_pick(p, 6, 4, true, experts, weights);
    static const int32_t want[] = {1, 3, 4, 0}; /* of equals the lower one first, also at the end */
    assert_memory_equal(experts, want, sizeof want);
    float sum = ((0.3f + 0.3f) + 0.15f) + 0.1f;
    assert_true(weights[0] == 0.3f / sum && weights[1] == 0.3f / sum && weights[2] == 0.15f / sum && weights[3] == 0.1f / sum);
    float all[3] = {0.25f, 0.25f, 0.5f};
    fore_moe_pick(all, 3, 3, true, experts, weights);
    static const int32_t order[] = {2, 0, 1};
    assert_memory_equal(experts, order, sizeof order);
    assert_true(weights[0] == 0.5f && weights[1] == 0.25f && weights[2] == 0.25f);
    float raw[3] = {0.25f, 0.5f, 0.125f};
    fore_moe_pick(raw, 3, 2, false, experts, weights);
    assert_true(weights[0] == 0.5f && weights[1] == 0.25f);
    float one[2] = {0.0f, 0.0f};
    fore_moe_pick(one, 2, 1, true, experts, weights);
    assert_int_equal(experts[0], 0);
    float none[5] = {NAN, 0.5f, NAN, 0.25f, NAN};
    fore_moe_pick(none, 5, 4, true, experts, weights);
    for (int i = 0; i < 4; i++) {
        assert_in_range(experts[i], 0, 4);
        for (int j = 0; j < i; j++) assert_int_not_equal(experts[i], experts[j]);
    }
}

/* ---- a layer of its own ------------------------------------------------------------------------------------------ */

enum { E = 40, USED = 24, K = 5, C = 36, I = 20, F = 28, T = 33 };

typedef struct layer_test {
    fore_text_config text;
    fore_layer layer;
    float router[E * C], shared_gate[C], gate_proj[F * C], up_proj[F * C], down_proj[C * F];
    fore_weight gates[E], ups[E], downs[E];
    float *expert_data; /* [E, 3*I*C], experts past USED in pages that cannot be read */
    size_t bytes;
    float x[T * C];
    uint32_t seed;
} layer_test;

static float draw(layer_test *l) {
    l->seed = l->seed * 1664525u + 1013904223u;
    return (float)(l->seed >> 8) / (float)(1 << 23) - 1.0f;
}

static fore_weight matrix(layer_test *l, float *data, int n, int k, float scale) {
    for (int i = 0; i < n * k; i++) data[i] = draw(l) * scale;
    return (fore_weight){.data = data, .dtype = FORE_DTYPE_F32, .N = n, .K = k};
}

static void make_layer(layer_test *l) {
    *l = (layer_test){.seed = 7};
    l->text = (fore_text_config){.num_hidden_layers = 1, .hidden_size = C, .num_experts = E, .num_experts_per_tok = K, .norm_topk_prob = true, .moe_intermediate_size = I,
                                 .shared_expert_intermediate_size = F, .num_attention_heads = 1, .num_key_value_heads = 1,
                                 .head_dim = 4, .linear_num_key_heads = 1, .linear_num_value_heads = 1, .linear_key_head_dim = 4,
                                 .linear_value_head_dim = 4, .linear_conv_kernel_dim = 4, .rotary_dim = 4};
    l->layer.moe = true;
    l->layer.router = matrix(l, l->router, E, C, 0.5f);
    for (int e = USED; e < E; e++) l->router[e * C] = -100; /* the first input is positive: nobody picks these */
    l->layer.shared_gate = matrix(l, l->shared_gate, 1, C, 0.5f);
    l->layer.gate_proj = matrix(l, l->gate_proj, F, C, 0.5f);
    l->layer.up_proj = matrix(l, l->up_proj, F, C, 0.5f);
    l->layer.down_proj = matrix(l, l->down_proj, C, F, 0.5f);
    size_t one = (3 * I * C * sizeof(float) + 4095) / 4096 * 4096;
    l->bytes = E * one;
    l->expert_data = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(l->expert_data != MAP_FAILED);
    for (int e = 0; e < E; e++) {
        float *at = l->expert_data + (size_t)e * one / sizeof(float);
        l->gates[e] = matrix(l, at, I, C, 0.5f);
        l->ups[e] = matrix(l, at + I * C, I, C, 0.5f);
        l->downs[e] = matrix(l, at + 2 * I * C, C, I, 0.5f);
    }
    assert_int_equal(mprotect((char *)l->expert_data + USED * one, (E - USED) * one, PROT_NONE), 0);
    l->layer.expert_gate.each = l->gates;
    l->layer.expert_up.each = l->ups;
    l->layer.expert_down.each = l->downs;
    for (int i = 0; i < T * C; i++) l->x[i] = i % C ? draw(l) : 1.5f + draw(l);
}

static void free_layer(layer_test *l) { munmap(l->expert_data, l->bytes); }

/* T rows of the layer in calls of `chunk` rows; what was read of the experts. */
static fore_touched compute(layer_test *l, const fore_kern *kern, int threads, int chunk, float *y) {
    fore_pool *pool;
    fore_scratch s;
    assert_int_equal(fore_pool_new(threads, &pool, NULL), 0);
    assert_int_equal(fore_scratch_new(&l->text, chunk, 16, threads, &s, NULL), 0);
    const fore_engine engine = {.kern = kern, .pool = pool};
    for (int at = 0; at < T; at += chunk) {
        int n = T - at < chunk ? T - at : chunk;
        const fore_pass pass = {.engine = &engine, .text = &l->text, .scratch = &s, .T = n};
        fore_mlp(&pass, &l->layer, l->x + at * C, y + at * C);
    }
    fore_touched touched = s.touched;
    fore_scratch_forget(&s, &l->text);
    for (int e = 0; e < E; e++) assert_int_equal(s.seen[e], 0);
    assert_int_equal(s.touched.experts + s.touched.bytes + s.touched.read, 0);
    fore_scratch_free(&s);
    fore_pool_free(pool);
    return touched;
}

static void dense(const fore_kern *kern, const float *x, const fore_weight *g, const fore_weight *u, const fore_weight *d, float *y) {
    float a[F], b[F];
    kern->mm_f32(a, F, x, C, g->data, 1, 0, g->N, C);
    kern->mm_f32(b, F, x, C, u->data, 1, 0, g->N, C);
    kern->silu_mul(a, a, b, (size_t)g->N);
    kern->mm_f32(y, C, a, F, d->data, 1, 0, C, g->N);
}

/* The definition in moe.h, a row at a time, with the reference kernels. */
static void define(const layer_test *l, const fore_kern *kern, float *y, bool *picked) {
    for (int t = 0; t < T; t++) {
        const float *x = l->x + t * C;
        float p[E], sum = 0, sigma, out[C], r[C] = {0};
        kern->mm_f32(p, E, x, C, l->router, 1, 0, E, C);
        kern->mm_f32(&sigma, 1, x, C, l->shared_gate, 1, 0, 1, C);
        float largest = p[0];
        for (int e = 1; e < E; e++) largest = fmaxf(largest, p[e]);
        for (int e = 0; e < E; e++) sum += p[e] = fore_expf(p[e] - largest);
        for (int e = 0; e < E; e++) p[e] /= sum;
        int order[K];
        bool taken[E] = {false};
        float total = 0;
        for (int j = 0; j < K; j++) {
            int best = -1;
            for (int e = 0; e < E; e++)
                if (!taken[e] && (best < 0 || p[e] > p[best])) best = e;
            taken[best] = picked[best] = true;
            order[j] = best;
            total += p[best];
        }
        for (int j = 0; j < K; j++) {
            float w = p[order[j]] / total;
            dense(kern, x, &l->gates[order[j]], &l->ups[order[j]], &l->downs[order[j]], out);
            for (int c = 0; c < C; c++) {
                float term = w * out[c];
                r[c] = r[c] + term;
            }
        }
        dense(kern, x, &l->layer.gate_proj, &l->layer.up_proj, &l->layer.down_proj, out);
        for (int c = 0; c < C; c++) {
            float term = fore_sigmoidf(sigma) * out[c];
            y[t * C + c] = r[c] + term;
        }
    }
}

static void test_layer(void **state) {
    (void)state;
    static layer_test l;
    static float want[T * C], have[T * C];
    bool picked[E] = {false};
    const fore_kern *kerns[8];
    int sets = fore_kern_list(kerns);
    make_layer(&l);
    define(&l, kerns[0], want, picked);
    int count = 0;
    for (int e = 0; e < E; e++) count += picked[e];
    assert_true(count > K && count <= USED); /* rows differ in what they pick */
    static const int chunks[] = {T, 1, 4, 16}, threads[] = {1, 3, 2, 5};
    for (int k = 0; k < sets; k++)
        for (int i = 0; i < 4; i++) {
            memset(have, 0, sizeof have);
            const fore_touched touched = compute(&l, kerns[k], threads[i], chunks[i], have);
            const uint64_t one = 3 * I * C * sizeof(float);
            assert_int_equal(touched.experts, count);
            assert_int_equal(touched.bytes, (uint64_t)count * one);
            if (chunks[i] == T) assert_int_equal(touched.read, touched.bytes); /* once for all rows */
            if (chunks[i] == 1) assert_int_equal(touched.read, T * K * one);
            for (int n = 0; n < T * C; n++)
                if (memcmp(&have[n], &want[n], sizeof(float)))
                    fail_msg("%s, calls of %d rows: row %d column %d is %.9g, by definition %.9g", kerns[k]->name, chunks[i], n / C, n % C,
                             (double)have[n], (double)want[n]);
        }
    free_layer(&l);
}

/* Without a shared expert y is the routed sum alone, and the weights may be left as they are. */
static void test_without_shared(void **state) {
    (void)state;
    static layer_test l;
    static float all[T * C], routed[T * C], raw[T * C];
    const fore_kern *kern;
    assert_int_equal(fore_kern_get(NULL, &kern, NULL), 0);
    make_layer(&l);
    memset(l.down_proj, 0, sizeof l.down_proj); /* a shared expert that gives zeros */
    compute(&l, kern, 2, 4, all);
    l.text.shared_expert_intermediate_size = 0;
    l.layer.gate_proj = l.layer.up_proj = l.layer.down_proj = l.layer.shared_gate = (fore_weight){0};
    memset(routed, 0xff, sizeof routed); /* what was there plays no part */
    compute(&l, kern, 2, 4, routed);
    for (int i = 0; i < T * C; i++) assert_true(all[i] == routed[i]);
    l.text.norm_topk_prob = false;
    compute(&l, kern, 2, 4, raw);
    for (int t = 0; t < T; t++) { /* every number of a row by the same factor: the sum of the picked probabilities */
        float p[E], sum = 0, weights[E];
        int32_t experts[E];
        kern->mm_f32(p, E, l.x + t * C, C, l.router, 1, 0, E, C);
        for (int e = 0; e < E; e++) sum += p[e] = fore_expf(p[e]);
        for (int e = 0; e < E; e++) p[e] /= sum;
        fore_moe_pick(p, E, K, false, experts, weights);
        float total = 0;
        for (int k = 0; k < K; k++) total += weights[k];
        assert_true(total < 0.999f);
        for (int c = 0; c < C; c++)
            assert_true(fabsf(raw[t * C + c] - total * routed[t * C + c]) <= 1e-5f * (fabsf(routed[t * C + c]) + 1));
    }
    free_layer(&l);
}

/* Strips of every width and odd lengths, of 16 and 32 bits, at odd addresses. */
static void test_turn(void **state) {
    (void)state;
    enum { ROWS = 77, ACROSS = 50, MOST = 40 };
    static char file[ROWS * ACROSS * 4 + 1];
    static uint32_t strip[MOST * ROWS + 1];
    for (size_t i = 0; i < sizeof file; i++) file[i] = (char)(i * 31 + i / 256);
    for (size_t size = 2; size <= 4; size += 2)
        for (size_t cols = 1; cols <= MOST; cols++)
            for (size_t rows = ROWS; rows; rows = rows > 60 ? rows - 5 : rows / 2) {
                char *out = (char *)strip;
                size_t used = cols * rows * size;
                out[used] = 77;
                if (size == 2) fore_turn_16((uint16_t *)(void *)strip, file + 1 + 8 * size, rows, ACROSS, cols);
                else fore_turn_32(strip, file + 1 + 8 * size, rows, ACROSS, cols);
                assert_int_equal(out[used], 77);
                for (size_t c = 0; c < cols; c++)
                    for (size_t k = 0; k < rows; k++)
                        assert_memory_equal(out + (c * rows + k) * size, file + 1 + (k * ACROSS + 8 + c) * size, size);
            }
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static fore_status open_dir(const char *dir, fore_network *n, fore_error *err) {
    const fore_kern *kern;
    assert_int_equal(fore_kern_get(NULL, &kern, err), 0);
    return fore_network_open(dir, kern, NULL, n, err);
}

static void same_matrix(const fore_kern *kern, const fore_experts *a, const fore_experts *b, int e) {
    float x[128], y[128];
    fore_weight v = fore_expert_at(a, e), w = fore_expert_at(b, e);
    assert_int_equal(v.N, w.N);
    assert_int_equal(v.K, w.K);
    for (int i = 0; i < v.N; i++) {
        fore_weight_row(kern, &v, i, x);
        fore_weight_row(kern, &w, i, y);
        assert_memory_equal(x, y, (size_t)v.K * sizeof *x);
    }
}

static void same_layer(const fore_kern *kern, const fore_layer *a, const fore_layer *b, int experts) {
    assert_true(a->moe && b->moe);
    for (int e = 0; e < experts; e++) {
        same_matrix(kern, &a->expert_gate, &b->expert_gate, e);
        same_matrix(kern, &a->expert_up, &b->expert_up, e);
        same_matrix(kern, &a->expert_down, &b->expert_down, e);
    }
}

/* Hidden states of some tokens. */
static void fingerprint(const fore_network *n, float *out, int rows) {
    const fore_text_config *t = &n->config.text;
    fore_pool *pool;
    fore_state state;
    fore_scratch s;
    assert_int_equal(fore_pool_new(2, &pool, NULL), 0);
    assert_int_equal(fore_state_new(t, rows, &state, NULL), 0);
    assert_int_equal(fore_scratch_new(t, rows, rows, 2, &s, NULL), 0);
    float *e = calloc((size_t)(rows * t->hidden_size), sizeof *e);
    int32_t *positions = calloc((size_t)rows, sizeof *positions);
    for (int i = 0; i < rows; i++) {
        fore_weight_row(n->kern, &n->embed, 10 + i, e + i * t->hidden_size);
        positions[i] = i;
    }
    const fore_engine engine = {.kern = n->kern, .pool = pool};
    const fore_batch b = {.T = rows, .embeddings = e, .positions = {positions, positions, positions}, .hidden = out};
    fore_trunk_forward(&engine, n, &state, &s, &b);
    free(e);
    free(positions);
    fore_scratch_free(&s);
    fore_state_free(&state);
    fore_pool_free(pool);
}

static void open_both(const char *dir, fore_network *n, fore_mtp *m) {
    fore_error err;
    if (open_dir(dir, n, &err) || fore_mtp_open(dir, n, NULL, NULL, m, &err)) fail_msg("%s", err.text);
    assert_true(m->attached);
}

static void test_layouts(void **state) {
    (void)state;
    enum { ROWS = 12, WIDTH = 64 };
    fore_network n, other;
    fore_mtp m, other_head;
    static float want[ROWS * WIDTH], have[ROWS * WIDTH];
    open_both(MOE, &n, &m);
    assert_int_equal(n.config.text.hidden_size, WIDTH);
    fingerprint(&n, want, ROWS);
    assert_int_equal(n.text_parameters - n.active_parameters, 4 * (8 - 3) * 3 * 24 * 64);
    for (int layout = EXPERTS_FUSED; layout <= EXPERTS_MIXED + 1; layout++) {
        scratch s;
        scratch_make(&s);
        bool shards = layout > EXPERTS_MIXED; /* the numbered layout as the reference wrote it */
        if (!shards) experts_copy(&s, MOE, (experts_layout)layout);
        open_both(shards ? MOE "_numbered" : s.dir, &other, &other_head);
        for (int i = 0; i < n.config.text.num_hidden_layers; i++) same_layer(n.kern, &n.layers[i], &other.layers[i], 8);
        same_layer(n.kern, &m.layers[0], &other_head.layers[0], 8);
        fingerprint(&other, have, ROWS);
        assert_memory_equal(have, want, sizeof want);
        assert_int_equal(other.text_parameters, n.text_parameters);
        assert_int_equal(other.active_parameters, n.active_parameters);
        assert_int_equal(other.mtp_parameters, n.mtp_parameters);
        fore_mtp_close(&other_head);
        fore_network_close(&other);
        scratch_remove(&s);
    }
    fore_mtp_close(&m);
    fore_network_close(&n);
}

/* ---- what an answer touches -------------------------------------------------------------------------------------- */

static void answer(const char *dir, int depth, fore_stats *out) {
    fore_model *model;
    fore_session *session;
    fore_error err;
    static const int32_t ids[] = {5, 77, 130, 6, 201, 19, 44};
    if (fore_model_open(dir, NULL, &model, &err) || fore_session_new(model, NULL, &session, &err)) fail_msg("%s", err.text);
    fore_request r;
    fore_request_init(&r, model);
    r.ids = ids;
    r.id_count = sizeof ids / sizeof *ids;
    r.ignore_eos = true;
    r.max_tokens = 12;
    r.draft.depth = depth;
    for (int again = 0; again < 2; again++) { /* each request is counted by itself */
        fore_session_reset(session);
        if (fore_session_begin(session, &r, &err)) fail_msg("%s", err.text);
        fore_chunk c = {0};
        while (c.finish == FORE_FINISH_NONE) assert_int_equal(fore_session_next(session, &c, &err), 0);
        fore_stats before = *out;
        fore_session_get_stats(session, out);
        if (again) assert_int_equal(out->expert_bytes_read, before.expert_bytes_read);
    }
    fore_session_free(session);
    fore_model_close(model);
}

/* Both tensors transposed, as the files of Qwen3-VL have them: the same bits, in the trunk and in the head. */
static void test_transposed(void **state) {
    (void)state;
    enum { ROWS = 12, WIDTH = 64 };
    static const char *const dirs[] = {MOE, FORE_DATA "/family/vl_moe_bf16"};
    static float want[ROWS * WIDTH], have[ROWS * WIDTH];
    for (size_t d = 0; d < 2; d++) {
        fore_network n, other;
        fore_error err;
        scratch s;
        scratch_make(&s);
        experts_copy(&s, dirs[d], EXPERTS_TURNED);
        if (open_dir(dirs[d], &n, &err) || open_dir(s.dir, &other, &err)) fail_msg("%s", err.text);
        assert_int_equal(n.layers[0].expert_gate.across, d ? 80 : 0);
        assert_int_equal(n.layers[0].expert_down.across, d ? 64 : 0);
        assert_int_equal(other.layers[0].expert_gate.across, d ? 0 : 48);
        assert_int_equal(other.layers[0].expert_up.across, d ? 0 : 48);
        fingerprint(&n, want, ROWS);
        fingerprint(&other, have, ROWS);
        assert_memory_equal(have, want, sizeof want);
        assert_int_equal(other.active_parameters, n.active_parameters);
        fore_network_close(&other);
        fore_network_close(&n);
        if (!d) {
            fore_stats turned = {0}, plain = {0};
            answer(MOE, 3, &plain);
            scratch_copy(&s, MOE "/generation_config.json", "generation_config.json");
            answer(s.dir, 3, &turned);
            assert_int_equal(turned.expert_bytes_touched, plain.expert_bytes_touched);
            assert_int_equal(turned.expert_bytes_read, plain.expert_bytes_read);
        }
        scratch_remove(&s);
    }
}

static void test_touched(void **state) {
    (void)state;
    enum { ONE = 3 * 24 * 64 * 2, LAYERS = 4, EXPERTS = 8, PICKS = 3 };
    fore_stats plain = {0}, drafted = {0}, dense_model = {0};
    answer(MOE, 0, &plain);
    assert_in_range(plain.experts_touched, LAYERS * PICKS, LAYERS * EXPERTS);
    assert_int_equal(plain.expert_bytes_touched, plain.experts_touched * ONE);
    /* The prompt reads an expert at most once a layer, each of the 11 passes after it three a layer. */
    assert_in_range(plain.expert_bytes_read, (11 + 1) * LAYERS * PICKS * ONE, (11 * LAYERS * PICKS + LAYERS * EXPERTS) * ONE);
    answer(MOE, 3, &drafted); /* the head's experts are its own */
    assert_true(drafted.experts_touched > plain.experts_touched);
    assert_true(drafted.experts_touched <= (LAYERS + 1) * EXPERTS);
    answer(FORE_DATA "/models/dense_tied_f32", 0, &dense_model);
    assert_int_equal(dense_model.experts_touched + dense_model.expert_bytes_touched + dense_model.expert_bytes_read, 0);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

#define LAYER "model.language_model.layers.2.mlp."

static void refuse(experts_layout layout, void (*change)(experts_file *f), const char *part) {
    scratch s;
    fore_network n = {0};
    fore_mtp m = {0};
    fore_error err = {0};
    scratch_make(&s);
    experts_file *f = experts_open(MOE, layout);
    change(f);
    experts_write(f, &s);
    experts_close(f);
    fore_status got = open_dir(s.dir, &n, &err);
    if (!got) got = fore_mtp_open(s.dir, &n, NULL, NULL, &m, &err);
    if (got != FORE_ERR_FORMAT || !strstr(err.text, part)) fail_msg("%d \"%s\", wanted \"%s\"", got, err.text, part);
    fore_mtp_close(&m);
    fore_network_close(&n);
    scratch_remove(&s);
}

static void swap(fore_tensor *t, int a, int b) {
    uint64_t x = t->shape[a];
    t->shape[a] = t->shape[b];
    t->shape[b] = x;
}
static void no_expert_5(experts_file *f) {
    experts_drop(f, LAYER "experts.5.gate_proj.weight");
    experts_drop(f, LAYER "experts.5.up_proj.weight");
    experts_drop(f, LAYER "experts.5.down_proj.weight");
}
static void no_two_parts(experts_file *f) {
    experts_drop(f, LAYER "experts.0.up_proj.weight");
    experts_drop(f, LAYER "experts.7.down_proj.weight");
}
static void only_one_part(experts_file *f) {
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    for (int e = 0; e < 8; e++)
        for (int k = 0; k < 3; k++) {
            char name[128];
            if (e == 7 && k == 2) continue;
            snprintf(name, sizeof name, LAYER "experts.%d.%s.weight", e, parts[k]);
            experts_drop(f, name);
        }
}
static void no_head_expert(experts_file *f) { experts_drop(f, "mtp.layers.0.mlp.experts.3.up_proj.weight"); }
static void no_fused_down(experts_file *f) { experts_drop(f, LAYER "experts.down_proj"); }
static void no_fused_up(experts_file *f) { experts_drop(f, LAYER "experts.gate_up_proj"); }
static void no_experts(experts_file *f) {
    experts_drop(f, LAYER "experts.gate_up_proj");
    experts_drop(f, LAYER "experts.down_proj");
}
static void no_stacked_up(experts_file *f) { experts_drop(f, LAYER "switch_mlp.up_proj.weight"); }
static void no_router(experts_file *f) { experts_drop(f, LAYER "gate.weight"); }
static void no_shared(experts_file *f) { experts_drop(f, LAYER "shared_expert.up_proj.weight"); }
static void no_shared_gate(experts_file *f) { experts_drop(f, LAYER "shared_expert_gate.weight"); }
static void turned_router(experts_file *f) { swap(experts_find(f, LAYER "gate.weight"), 0, 1); }
static void turned_fused(experts_file *f) { swap(experts_find(f, LAYER "experts.gate_up_proj"), 1, 2); }
static void turned_stacked(experts_file *f) { swap(experts_find(f, LAYER "switch_mlp.down_proj.weight"), 1, 2); }
static void turned_numbered(experts_file *f) { swap(experts_find(f, LAYER "experts.6.down_proj.weight"), 0, 1); }
static void fewer_fused(experts_file *f) { experts_find(f, LAYER "experts.down_proj")->shape[0] = 7; }

static void test_refused(void **state) {
    (void)state;
    refuse(EXPERTS_NUMBERED, no_expert_5, LAYER "experts: 3 of 24 tensors missing: 5.gate_proj.weight, 5.up_proj.weight, "
                                                "5.down_proj.weight; the checkpoint is incomplete");
    refuse(EXPERTS_NUMBERED, no_two_parts, LAYER "experts: 2 of 24 tensors missing: 0.up_proj.weight, 7.down_proj.weight;");
    refuse(EXPERTS_NUMBERED, only_one_part, LAYER "experts: 23 of 24 tensors missing: 0.gate_proj.weight, 0.up_proj.weight, "
                                                  "0.down_proj.weight, 1.gate_proj.weight, 1.up_proj.weight, 1.down_proj.weight, "
                                                  "2.gate_proj.weight, 2.up_proj.weight, ...; the checkpoint");
    refuse(EXPERTS_NUMBERED, no_head_expert, "mtp.layers.0.mlp.experts: 1 of 24 tensors missing: 3.up_proj.weight;");
    refuse(EXPERTS_FUSED, no_fused_down, LAYER "experts.down_proj: missing");
    refuse(EXPERTS_FUSED, no_fused_up, LAYER "experts.gate_up_proj: missing");
    refuse(EXPERTS_FUSED, no_experts, LAYER "experts: none found");
    refuse(EXPERTS_STACKED, no_stacked_up, LAYER "switch_mlp.up_proj.weight: missing");
    refuse(EXPERTS_FUSED, no_router, LAYER "gate.weight: missing");
    refuse(EXPERTS_FUSED, no_shared, LAYER "shared_expert.up_proj.weight: missing");
    refuse(EXPERTS_FUSED, no_shared_gate, LAYER "shared_expert_gate.weight: missing");
    refuse(EXPERTS_FUSED, turned_router, LAYER "gate.weight: expected [8,64], the file has BF16 [64,8]");
    refuse(EXPERTS_FUSED, turned_fused, LAYER "experts.gate_up_proj: expected [8,48,64], the file has BF16 [8,64,48]");
    refuse(EXPERTS_STACKED, turned_stacked, LAYER "switch_mlp.down_proj.weight: expected [8,64,24], the file has BF16 [8,24,64]");
    refuse(EXPERTS_NUMBERED, turned_numbered, LAYER "experts.6.down_proj.weight: expected [64,24], the file has BF16 [24,64]");
    refuse(EXPERTS_FUSED, fewer_fused, LAYER "experts.down_proj: expected [8,64,24], the file has BF16 [7,64,24]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pick),
        cmocka_unit_test(test_layer),
        cmocka_unit_test(test_without_shared),
        cmocka_unit_test(test_turn),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_touched),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("moe", tests, NULL, NULL);
}
