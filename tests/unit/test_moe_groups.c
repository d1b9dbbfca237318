/* Experts that are quantised in groups of several sizes, with scales of several kinds and inputs in orders of their own: what each
 * would give alone, to the bit, in calls of any number of rows, by any number of threads and every kernel set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/quant.h"
#include "model/moe.h"

enum { E = 6, K = 3, C = 256, I = 256, T = 19 };

typedef struct experts_test {
    fore_text_config text;
    fore_layer layer;
    float router[E * C], x[T * C];
    fore_weight each[3][E]; /* gate, up, down */
    int32_t orders[3][C];
    uint64_t seed;
} experts_test;

static uint32_t draw(experts_test *t) {
    t->seed = t->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->seed >> 32);
}

static float real(experts_test *t) { return (float)(draw(t) >> 8) * 0x1p-23f - 1; }

/* A matrix of a form with numbers of about 1/16. */
static fore_weight matrix(experts_test *t, int bits, int group, fore_dtype dtype, int N, int width) {
    fore_qweight q = {.bits = bits, .group = group, .N = N, .K = width, .dtype = dtype};
    size_t size, affine = fore_qweight_stored_affine(&q), step = dtype == FORE_DTYPE_F32 ? 4 : 2;
    assert_int_equal(fore_qweight_check(bits, group, N, width, dtype, &size, NULL), FORE_OK);
    unsigned char *stored = malloc(fore_qweight_stored_q(&q)), *scales[2] = {malloc(affine), malloc(affine)}, *panels = malloc(size);
    for (size_t i = 0; i < fore_qweight_stored_q(&q); i++) stored[i] = (unsigned char)draw(t);
    for (int k = 0; k < 2; k++)
        for (size_t at = 0; at < affine; at += step) {
            float f = real(t) / (k ? 16 : bits == 8 ? 2048 : 128);
            uint32_t u;
            memcpy(&u, &f, sizeof u);
            if (dtype == FORE_DTYPE_BF16) u >>= 16;
            else if (dtype != FORE_DTYPE_F32) u = 0x0400 | (draw(t) & 0x87ff); /* f16, small */
            memcpy(scales[k] + at, &u, step);
            if (dtype != FORE_DTYPE_U8 && dtype != FORE_DTYPE_I8) continue;
            for (int j = 0; j < 256 / group; j++) scales[k][at + 2 + (size_t)j] = (unsigned char)draw(t);
            at += (size_t)(256 / group);
        }
    fore_qweight_pack(&q, panels, stored, scales[0], scales[1]);
    free(stored), free(scales[0]), free(scales[1]);
    return (fore_weight){.data = panels, .dtype = dtype, .N = N, .K = width, .bits = bits, .group = group};
}

static void make(experts_test *t) {
    static const struct {
        int bits, group;
        fore_dtype dtype;
    } forms[3][3] = {{{4, 32, FORE_DTYPE_U8}, {4, 32, FORE_DTYPE_F32}, {8, 32, FORE_DTYPE_BF16}},
                     {{8, 16, FORE_DTYPE_I8}, {8, 16, FORE_DTYPE_F32}, {4, 32, FORE_DTYPE_U8}},
                     {{8, 16, FORE_DTYPE_I8}, {4, 64, FORE_DTYPE_BF16}, {8, 64, FORE_DTYPE_F32}}};
    *t = (experts_test){.seed = 5};
    t->text = (fore_text_config){.num_hidden_layers = 1, .hidden_size = C, .num_experts = E, .num_experts_per_tok = K, .norm_topk_prob = true,
                                 .moe_intermediate_size = I, .num_attention_heads = 1, .num_key_value_heads = 1, .head_dim = 4, .rotary_dim = 4};
    t->layer.moe = true;
    for (int i = 0; i < E * C; i++) t->router[i] = real(t) / 4;
    t->layer.router = (fore_weight){.data = t->router, .dtype = FORE_DTYPE_F32, .N = E, .K = C};
    for (int k = 0; k < 3; k++)
        for (int e = 0; e < E; e++)
            t->each[k][e] = matrix(t, forms[k][e % 3].bits, forms[k][e % 3].group, forms[k][e % 3].dtype, k == 2 ? C : I, k == 2 ? I : C);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < C; i++) t->orders[k][i] = (i * (2 * k + 3) + k) % C;
        t->each[k][1].order = t->orders[k];      /* each its own */
        if (k < 2) t->each[k][4].order = t->orders[0]; /* the same for two */
    }
    t->each[1][5].order = t->orders[1]; /* one has, the other not */
    float *floats = malloc(sizeof *floats * I * C); /* and one that is not quantised */
    for (int i = 0; i < I * C; i++) floats[i] = real(t) / 16;
    free((void *)t->each[0][2].data);
    t->each[0][2] = (fore_weight){.data = floats, .dtype = FORE_DTYPE_F32, .N = I, .K = C};
    t->layer.expert_gate.each = t->each[0];
    t->layer.expert_up.each = t->each[1];
    t->layer.expert_down.each = t->each[2];
    for (int i = 0; i < T * C; i++) t->x[i] = real(t);
}

static void product(const fore_kern *ref, const fore_weight *w, const float *x, float *y) {
    int8_t q[C];
    float scale[C / 16], sum[C / 16];
    const fore_qrows rows = {q, scale, sum, C, C / 16};
    const fore_qweight panels = fore_weight_quantised(w);
    float in_order[C];
    for (int k = 0; k < C; k++) in_order[k] = w->order ? x[w->order[k]] : x[k];
    if (!w->bits) {
        ref->mm_f32(y, C, x, C, w->data, 1, 0, w->N, C);
        return;
    }
    ref->quantize_rows(&rows, in_order, C, 1, w->K, w->group);
    (w->bits == 4 ? ref->mm_q4 : ref->mm_q8)(y, C, &rows, &panels, 1, 0, w->N);
}

/* moe.h, a row at a time. */
static void define(const experts_test *t, const fore_kern *ref, float *y) {
    for (int r = 0; r < T; r++) {
        float p[E], sum = 0, weights[K], gate[I], up[I], out[C], *to = y + r * C;
        int32_t picks[K];
        ref->mm_f32(p, E, t->x + r * C, C, t->router, 1, 0, E, C);
        float largest = p[0];
        for (int e = 1; e < E; e++) largest = p[e] > largest ? p[e] : largest;
        for (int e = 0; e < E; e++) sum += p[e] = fore_expf(p[e] - largest);
        for (int e = 0; e < E; e++) p[e] /= sum;
        fore_moe_pick(p, E, K, true, picks, weights);
        memset(to, 0, C * sizeof *to);
        for (int k = 0; k < K; k++) {
            product(ref, &t->each[0][picks[k]], t->x + r * C, gate);
            product(ref, &t->each[1][picks[k]], t->x + r * C, up);
            ref->silu_mul(gate, gate, up, I);
            product(ref, &t->each[2][picks[k]], gate, out);
            for (int c = 0; c < C; c++) {
                float term = weights[k] * out[c];
                to[c] = to[c] + term;
            }
        }
    }
}

static void inputs_differ(void **state) {
    (void)state;
    static experts_test t;
    static float want[T * C], have[T * C];
    const fore_kern *kerns[8];
    int sets = fore_kern_list(kerns);
    make(&t);
    define(&t, kerns[0], want);
    static const int chunks[] = {T, 1, 7}, threads[] = {2, 1, 3};
    for (int s = 0; s < sets; s++)
        for (int i = 0; i < 3; i++) {
            fore_pool *pool;
            fore_scratch scratch;
            assert_int_equal(fore_pool_new(threads[i], &pool, NULL), 0);
            assert_int_equal(fore_scratch_new(&t.text, chunks[i], 16, threads[i], &scratch, NULL), 0);
            const fore_engine engine = {.kern = kerns[s], .pool = pool, .quantised = &scratch.quantised};
            for (int at = 0; at < T; at += chunks[i]) {
                const fore_pass pass = {.engine = &engine, .text = &t.text, .scratch = &scratch, .T = T - at < chunks[i] ? T - at : chunks[i]};
                fore_mlp(&pass, &t.layer, t.x + at * C, have + at * C);
            }
            for (int n = 0; n < T * C; n++)
                if (memcmp(&have[n], &want[n], sizeof(float)))
                    fail_msg("%s, calls of %d rows: row %d column %d is %a, by definition %a", kerns[s]->name, chunks[i], n / C, n % C,
                             (double)have[n], (double)want[n]);
            fore_scratch_free(&scratch);
            fore_pool_free(pool);
        }
    for (int k = 0; k < 3; k++)
        for (int e = 0; e < E; e++) free((void *)t.each[k][e].data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(inputs_differ)};
    return cmocka_run_group_tests_name("experts that take their inputs differently", tests, NULL, NULL);
}
