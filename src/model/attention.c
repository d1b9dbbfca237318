/* Full attention with partial rotary and grouped heads, its output gated or not (transformers Qwen3_5Attention.forward,
 * Qwen3VLTextAttention.forward). */
#include "model/profile.h"
#include "model/trunk.h"

#include <math.h>
#include <string.h>

enum { PREPARE_ROWS = 16, ATTEND_ROWS = 32 };

typedef struct attention_job {
    const fore_pass *pass;
    const fore_layer *layer;
    fore_layer_state *state;
    float *q; /* [T, H, 2, D]: query, gate; [T, H, D] without a gate; rows before pass->from are not computed */
    float *k; /* [T, K, D] */
    float *v; /* [T, K, D] */
    float *o; /* [T, H, D] */
} attention_job;

/* Floats of a head in j.q: the gate, if there is one, follows the query. */
static size_t query_stride(const fore_text_config *t) { return (size_t)t->head_dim * (t->output_gate ? 2 : 1); }

size_t fore_attention_columns(const fore_text_config *t) {
    size_t D = (size_t)t->head_dim;
    return (size_t)t->num_attention_heads * (query_stride(t) + D) + 2 * (size_t)t->num_key_value_heads * D;
}

/* Norm and rope of queries and keys, then keys and values into the state. */
static void prepare_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const attention_job *j = context;
    const fore_pass *p = j->pass;
    const fore_text_config *t = p->text;
    const fore_kern *kern = p->engine->kern;
    int D = t->head_dim, H = t->num_attention_heads, K = t->num_key_value_heads, half = t->rotary_dim / 2;
    size_t q_head = query_stride(t), q_row = (size_t)H * q_head, kv_row = (size_t)K * (size_t)D;
    float *q = j->q + (size_t)first * q_row, *k = j->k + (size_t)first * kv_row;
    for (int r = 0; r < rows && j->layer->q_norm; r++) {
        float *qr = q + (size_t)r * q_row, *kr = k + (size_t)r * kv_row;
        if (first + r >= p->from) kern->rms_norm(qr, q_head, qr, q_head, j->layer->q_norm, H, D, t->rms_norm_eps);
        kern->rms_norm(kr, (size_t)D, kr, (size_t)D, j->layer->k_norm, K, D, t->rms_norm_eps);
    }
    const float *cos = p->scratch->cos + (size_t)first * (size_t)half, *sin = p->scratch->sin + (size_t)first * (size_t)half;
    int skip = p->from > first ? p->from - first : 0;
    if (skip < rows)
        kern->rope(q + (size_t)skip * q_row, q_row, q_head, rows - skip, H, half, cos + skip * half, sin + skip * half);
    kern->rope(k, kv_row, (size_t)D, rows, K, half, cos, sin);
    for (int r = 0; r < rows; r++) {
        int position = p->start + first + r;
        for (int h = 0; h < K; h++) {
            const float *kr = k + (size_t)r * kv_row + (size_t)h * (size_t)D;
            float *panel = j->state->k + fore_state_key_at(p->state, D, h, position, 0);
            for (int d = 0; d < D; d++) panel[(size_t)d * FORE_LANES] = kr[d];
            memcpy(j->state->v + ((size_t)h * (size_t)p->state->capacity + (size_t)position) * (size_t)D,
                   j->v + (size_t)(first + r) * kv_row + (size_t)h * (size_t)D, (size_t)D * sizeof(float));
        }
    }
}

static void attend_task(void *context, int index, int worker) {
    const attention_job *j = context;
    const fore_pass *p = j->pass;
    const fore_text_config *t = p->text;
    int D = t->head_dim, H = t->num_attention_heads, K = t->num_key_value_heads, G = H / K;
    int head = index % K, first = p->from + index / K * ATTEND_ROWS;
    int rows = p->T - first < ATTEND_ROWS ? p->T - first : ATTEND_ROWS;
    size_t q_head = query_stride(t), q_row = (size_t)H * q_head, o_row = (size_t)H * (size_t)D;
    float *q = j->q + (size_t)first * q_row + (size_t)head * (size_t)G * q_head;
    float *o = j->o + (size_t)first * o_row + (size_t)head * (size_t)G * (size_t)D;
    fore_attend a = {
        .q = q,
        .o = o,
        .k = j->state->k + fore_state_key_at(p->state, D, head, 0, 0),
        .v = j->state->v + (size_t)head * (size_t)p->state->capacity * (size_t)D,
        .q_row = q_row,
        .q_head = q_head,
        .o_row = o_row,
        .o_head = (size_t)D,
        .v_row = (size_t)D,
        .T = rows,
        .G = G,
        .D = D,
        .first = p->start + first, /* causal by sequence index, never by rope position */
        .causal = true,
        .scale = 1.0f / sqrtf((float)D),
        .scratch = p->scratch->worker + (size_t)worker * p->scratch->worker_floats,
    };
    p->engine->kern->attend(&a);
    for (int r = 0; r < rows && t->output_gate; r++)
        for (int g = 0; g < G; g++) /* the gate is a sigmoid here, a silu in the linear layers */
            p->engine->kern->sigmoid_mul(o + (size_t)r * o_row + (size_t)g * (size_t)D,
                                         q + (size_t)r * q_row + (size_t)g * q_head + (size_t)D, (size_t)D);
}

/* Keys and values that the pass reads, each counted once. */
static uint64_t attention_bytes(const fore_pass *p) {
    uint64_t row = 2 * (uint64_t)p->text->num_key_value_heads * (uint64_t)p->text->head_dim * sizeof(float);
    return row * (uint64_t)(p->start + p->T);
}

/* Scores and values of the rows from p->from on: a row sees the keys up to its own. */
static double attention_operations(const fore_pass *p) {
    double rows = p->T - p->from, keys = rows * (p->start + p->from) + rows * (rows + 1) / 2;
    return 4 * keys * p->text->num_attention_heads * p->text->head_dim;
}

void fore_attention(const fore_pass *p, const fore_layer *layer, fore_layer_state *state, const float *x, float *y) {
    const fore_text_config *t = p->text;
    int D = t->head_dim, H = t->num_attention_heads, K = t->num_key_value_heads, C = t->hidden_size;
    size_t T = (size_t)p->T;
    attention_job j = {.pass = p, .layer = layer, .state = state};
    j.q = p->scratch->wide;
    size_t q_row = (size_t)H * query_stride(t), from = (size_t)p->from;
    j.k = j.q + T * q_row;
    j.v = j.k + T * (size_t)K * (size_t)D;
    j.o = j.v + T * (size_t)K * (size_t)D;
    int asked = p->T - p->from; /* rows whose branch is wanted */
    const fore_product in[3] = {
        {&layer->k_proj, layer->k_bias, j.k, (size_t)K * (size_t)D},
        {&layer->v_proj, layer->v_bias, j.v, (size_t)K * (size_t)D},
        {&layer->q_proj, layer->q_bias, j.q, q_row},
    };
    fore_profile_op(p->engine, FORE_OP_QKV);
    fore_linear(p->engine, x, (size_t)C, p->T, in, from ? 2 : 3);
    if (from && asked) {
        const fore_product query = {&layer->q_proj, layer->q_bias, j.q + from * q_row, q_row};
        fore_linear(p->engine, x + from * (size_t)C, (size_t)C, asked, &query, 1);
    }
    fore_profile_op(p->engine, FORE_OP_ROPE);
    fore_rows(p->engine, prepare_task, &j, p->T, PREPARE_ROWS);
    if (!asked) return;
    fore_profile_op(p->engine, FORE_OP_ATTENTION);
    fore_profile_work(p->engine, attention_bytes(p), attention_operations(p));
    fore_pool_run(p->engine->pool, attend_task, &j, K * ((asked + ATTEND_ROWS - 1) / ATTEND_ROWS));
    fore_profile_op(p->engine, FORE_OP_O_PROJ);
    const fore_product out = {&layer->o_proj, layer->o_bias, y + from * (size_t)C, (size_t)C};
    fore_linear(p->engine, j.o + from * (size_t)H * (size_t)D, (size_t)H * (size_t)D, asked, &out, 1);
}
