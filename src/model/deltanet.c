/* Gated DeltaNet, token by token (transformers Qwen3_5GatedDeltaNet.forward, recurrent form). A task owns a key head: its
 * convolution channels, its value heads' states and outputs; nothing is shared between tasks. */
#include "model/profile.h"
#include "model/trunk.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64 };

typedef struct delta_job {
    const fore_pass *pass;
    const fore_layer *layer;
    fore_layer_state *state;
    float *u;           /* [T, channels] raw projections: queries, keys, values */
    float *c;           /* [T, channels] after convolution and silu */
    float *z;           /* [T, nv, dv] */
    float *b, *a;       /* [T, nv] */
    float *beta, *decay; /* [T, nv] */
    float *o;           /* [T, nv, dv] */
} delta_job;

size_t fore_deltanet_columns(const fore_text_config *t) {
    size_t nv = (size_t)t->linear_num_value_heads, vd = nv * (size_t)t->linear_value_head_dim;
    size_t grouped = t->linear_by_key_head ? fore_linear_channels(t) + vd + 2 * nv : 0;
    return 2 * fore_linear_channels(t) + 2 * vd + 4 * nv + grouped;
}

/* Projections that came grouped by key head, see fore_layer.in_proj_qkvz, into the order of the four. */
typedef struct spread_job {
    const fore_text_config *t;
    const float *qkvz, *ba; /* [T, channels + nv*dv], [T, 2*nv] */
    const delta_job *to;
} spread_job;

static void spread_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const spread_job *j = context;
    const fore_text_config *t = j->t;
    size_t nk = (size_t)t->linear_num_key_heads, dk = (size_t)t->linear_key_head_dim, nv = (size_t)t->linear_num_value_heads;
    size_t rep = nv / nk, dv = (size_t)t->linear_value_head_dim, channels = fore_linear_channels(t);
    for (size_t r = (size_t)first; r < (size_t)(first + rows); r++) {
        const float *x = j->qkvz + r * (channels + nv * dv), *ba = j->ba + r * 2 * nv;
        float *u = j->to->u + r * channels, *z = j->to->z + r * nv * dv, *b = j->to->b + r * nv, *a = j->to->a + r * nv;
        for (size_t g = 0; g < nk; g++) {
            memcpy(u + g * dk, x, dk * sizeof *u), x += dk;
            memcpy(u + (nk + g) * dk, x, dk * sizeof *u), x += dk;
            memcpy(u + 2 * nk * dk + g * rep * dv, x, rep * dv * sizeof *u), x += rep * dv;
            memcpy(z + g * rep * dv, x, rep * dv * sizeof *z), x += rep * dv;
            memcpy(b + g * rep, ba, rep * sizeof *b), ba += rep;
            memcpy(a + g * rep, ba, rep * sizeof *a), ba += rep;
        }
    }
}

static void project(const fore_pass *p, const fore_layer *layer, const float *x, const delta_job *j, float *spare) {
    const fore_text_config *t = p->text;
    size_t C = (size_t)t->hidden_size, channels = fore_linear_channels(t), nv = (size_t)t->linear_num_value_heads;
    size_t vd = nv * (size_t)t->linear_value_head_dim;
    if (t->linear_by_key_head) {
        const spread_job spread = {t, spare, spare + (size_t)p->T * (channels + vd), j};
        const fore_product both[2] = {{&layer->in_proj_qkvz, NULL, spare, channels + vd},
                                      {&layer->in_proj_ba, NULL, spare + (size_t)p->T * (channels + vd), 2 * nv}};
        fore_linear(p->engine, x, C, p->T, both, 2);
        fore_rows(p->engine, spread_task, (void *)&spread, p->T, 8);
        return;
    }
    const fore_product in[4] = {
        {&layer->in_proj_qkv, NULL, j->u, channels},
        {&layer->in_proj_z, NULL, j->z, vd},
        {&layer->in_proj_b, NULL, j->b, nv},
        {&layer->in_proj_a, NULL, j->a, nv},
    };
    fore_linear(p->engine, x, C, p->T, in, 4);
}

/* Moves the convolution's window of channels c0..c1-1 past T raw rows: it keeps what goes in, before convolution and silu. */
static void shift_window(const fore_text_config *t, float *prev, const float *u, int T, size_t c0, size_t c1) {
    size_t C = fore_linear_channels(t);
    int K = t->linear_conv_kernel_dim;
    for (int i = 0; i < K - 1; i++) {
        int row = T - (K - 1) + i;
        const float *from = row >= 0 ? u + (size_t)row * C : prev + (size_t)(K - 1 + row) * C;
        memcpy(prev + (size_t)i * C + c0, from + c0, (c1 - c0) * sizeof *prev);
    }
}

/* Rows t0 .. t0+rows-1 of channels c0..c1-1, to c. */
static void convolve(const delta_job *j, float *c, int t0, int rows, size_t c0, size_t c1) {
    const fore_pass *p = j->pass;
    size_t C = fore_linear_channels(p->text);
    int K = p->text->linear_conv_kernel_dim;
    const float *u = j->u + (size_t)t0 * C, *prev = t0 ? u - (size_t)(K - 1) * C : j->state->conv;
    p->engine->kern->conv_silu(c, C, u, C, prev, j->layer->conv, rows, (int)c0, (int)c1, (int)C, K);
}

/* Rows t0 .. t0+rows-1 of a key head, whose queries, keys and values go through c. */
static void head_rows(const delta_job *j, int g, int t0, int rows, int worker) {
    const fore_pass *p = j->pass;
    const fore_text_config *t = p->text;
    const fore_kern *kern = p->engine->kern;
    int dk = t->linear_key_head_dim, dv = t->linear_value_head_dim, nv = t->linear_num_value_heads;
    int rep = nv / t->linear_num_key_heads, h0 = g * rep;
    size_t C = fore_linear_channels(t), kd = (size_t)t->linear_num_key_heads * (size_t)dk, vd = (size_t)nv * (size_t)dv;
    size_t q0 = (size_t)g * (size_t)dk, k0 = kd + q0, v0 = 2 * kd + (size_t)h0 * (size_t)dv, gate0 = (size_t)t0 * (size_t)nv;
    float *c = p->window ? j->c + (size_t)t0 * C : j->c; /* only a window's are read again */
    float *beta = j->beta + gate0, *decay = j->decay + gate0;
    double began = fore_profile_inside(p->engine);
    convolve(j, c, t0, rows, q0, q0 + (size_t)dk);
    convolve(j, c, t0, rows, k0, k0 + (size_t)dk);
    convolve(j, c, t0, rows, v0, v0 + (size_t)rep * (size_t)dv);
    fore_profile_piece(p->engine, worker, FORE_OP_CONV, &began);
    /* The query's scale comes after its norm; eps is added to the sum, not to the mean. */
    kern->l2_norm(c + q0, C, c + q0, C, rows, dk, 1e-6f, 1.0f / sqrtf((float)dk));
    kern->l2_norm(c + k0, C, c + k0, C, rows, dk, 1e-6f, 1.0f);
    kern->delta_gates(beta + h0, decay + h0, (size_t)nv, j->b + gate0 + h0, (size_t)nv, j->a + gate0 + h0, (size_t)nv,
                      j->layer->neg_exp_A + h0, j->layer->dt_bias + h0, rows, rep);
    for (int h = h0; h < h0 + rep; h++) {
        size_t at = (size_t)t0 * vd + (size_t)h * (size_t)dv;
        float *S = j->state->S + (size_t)h * (size_t)dk * (size_t)dv, *o = j->o + at;
        fore_delta d = {
            .state_in = S,
            .state_out = p->window ? NULL : S, /* a window runs on a copy in the core's cache */
            .q = c + q0,
            .k = c + k0,
            .v = c + 2 * kd + (size_t)h * (size_t)dv,
            .o = o,
            .decay = decay + h,
            .beta = beta + h,
            .qk_row = C,
            .v_row = C,
            .o_row = vd,
            .gate_row = (size_t)nv,
            .T = rows,
            .dk = dk,
            .dv = dv,
            .v0 = 0,
            .v1 = dv,
            .scratch = p->scratch->worker + (size_t)worker * p->scratch->worker_floats,
        };
        kern->delta(&d);
        kern->gated_rms_norm(o, vd, o, vd, j->z + at, vd, j->layer->gated_norm, rows, dv, t->rms_norm_eps);
    }
}

/* A window goes in one piece, for its state is not kept; a long chunk in blocks of rows that stay in the core's cache from
 * the convolution to the norm. */
static void head_task(void *context, int g, int worker) {
    const delta_job *j = context;
    const fore_pass *p = j->pass;
    const fore_text_config *t = p->text;
    int K = t->linear_conv_kernel_dim, block = p->window ? p->T : K > BLOCK ? K : BLOCK;
    for (int t0 = 0; t0 < p->T; t0 += block) head_rows(j, g, t0, p->T - t0 < block ? p->T - t0 : block, worker);
    if (p->window) return;
    int dk = t->linear_key_head_dim, dv = t->linear_value_head_dim, rep = t->linear_num_value_heads / t->linear_num_key_heads;
    size_t kd = (size_t)t->linear_num_key_heads * (size_t)dk, q0 = (size_t)g * (size_t)dk, width = (size_t)rep * (size_t)dv;
    size_t v0 = 2 * kd + (size_t)g * width;
    shift_window(t, j->state->conv, j->u, p->T, q0, q0 + (size_t)dk);
    shift_window(t, j->state->conv, j->u, p->T, kd + q0, kd + q0 + (size_t)dk);
    shift_window(t, j->state->conv, j->u, p->T, v0, v0 + width);
}

/* The recurrent state, read, and written unless a window leaves it alone. */
static uint64_t state_bytes(const fore_pass *p) {
    const fore_text_config *t = p->text;
    uint64_t size = (uint64_t)t->linear_num_value_heads * (uint64_t)t->linear_key_head_dim * (uint64_t)t->linear_value_head_dim;
    return size * sizeof(float) * (p->window ? 1 : 2);
}

/* Decay, m, the update and the output: 1 + 2 + 2 + 2 for each element of the state. */
static double state_operations(const fore_text_config *t, int T) {
    return 7.0 * T * t->linear_num_value_heads * t->linear_key_head_dim * t->linear_value_head_dim;
}

void fore_deltanet(const fore_pass *p, const fore_layer *layer, int index, fore_layer_state *state, const float *x, float *y) {
    const fore_text_config *t = p->text;
    int C = t->hidden_size;
    size_t T = (size_t)p->T, channels = fore_linear_channels(t), nv = (size_t)t->linear_num_value_heads;
    size_t vd = nv * (size_t)t->linear_value_head_dim;
    delta_job j = {.pass = p, .layer = layer, .state = state};
    j.u = p->scratch->wide;
    j.c = j.u + T * channels;
    j.z = j.c + T * channels;
    j.o = j.z + T * vd;
    j.b = j.o + T * vd;
    j.a = j.b + T * nv;
    j.beta = j.a + T * nv;
    j.decay = j.beta + T * nv;
    float *spare = j.decay + T * nv;
    if (p->window) { /* kept for the commit */
        struct fore_window_layer *w = &p->window->layers[index];
        j.u = w->u;
        j.c = w->c;
        j.beta = w->beta;
        j.decay = w->decay;
    }
    fore_profile_op(p->engine, FORE_OP_IN_PROJ);
    project(p, layer, x, &j, spare);
    fore_profile_op(p->engine, FORE_OP_DELTANET);
    fore_profile_work(p->engine, state_bytes(p), state_operations(t, p->T));
    fore_pool_run(p->engine->pool, head_task, &j, t->linear_num_key_heads);
    fore_profile_split(p->engine);
    fore_profile_op(p->engine, FORE_OP_OUT_PROJ);
    const fore_product out = {&layer->out_proj, NULL, y, (size_t)C};
    fore_linear(p->engine, j.o, vd, p->T, &out, 1);
}

typedef struct replay_job {
    const fore_pass *pass;
    const fore_layer *layer;
    fore_layer_state *state;
    const struct fore_window_layer *window;
    int n;
} replay_job;

static void replay_task(void *context, int g, int worker) {
    const replay_job *j = context;
    const fore_pass *p = j->pass;
    const fore_text_config *t = p->text;
    int dk = t->linear_key_head_dim, dv = t->linear_value_head_dim, nv = t->linear_num_value_heads;
    int rep = nv / t->linear_num_key_heads, h0 = g * rep;
    size_t C = fore_linear_channels(t), kd = (size_t)t->linear_num_key_heads * (size_t)dk;
    size_t q0 = (size_t)g * (size_t)dk, k0 = kd + q0, v0 = 2 * kd + (size_t)h0 * (size_t)dv;
    shift_window(t, j->state->conv, j->window->u, j->n, q0, q0 + (size_t)dk);
    shift_window(t, j->state->conv, j->window->u, j->n, k0, k0 + (size_t)dk);
    shift_window(t, j->state->conv, j->window->u, j->n, v0, v0 + (size_t)rep * (size_t)dv);
    for (int h = h0; h < h0 + rep; h++) {
        float *S = j->state->S + (size_t)h * (size_t)dk * (size_t)dv;
        const fore_delta d = {
            .state_in = S,
            .state_out = S,
            .q = j->window->c + q0,
            .k = j->window->c + k0,
            .v = j->window->c + 2 * kd + (size_t)h * (size_t)dv,
            .o = p->window->spare + (size_t)h * (size_t)dv,
            .decay = j->window->decay + h,
            .beta = j->window->beta + h,
            .qk_row = C,
            .v_row = C,
            .o_row = (size_t)nv * (size_t)dv,
            .gate_row = (size_t)nv,
            .T = j->n,
            .dk = dk,
            .dv = dv,
            .v0 = 0,
            .v1 = dv,
            .scratch = p->scratch->worker + (size_t)worker * p->scratch->worker_floats,
        };
        p->engine->kern->delta(&d);
    }
}

void fore_deltanet_replay(const fore_pass *p, const fore_layer *layer, int index, fore_layer_state *state, int n) {
    replay_job j = {p, layer, state, &p->window->layers[index], n};
    fore_pool_run(p->engine->pool, replay_task, &j, p->text->linear_num_key_heads);
}
