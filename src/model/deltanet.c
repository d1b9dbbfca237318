/* Gated DeltaNet, token by token (transformers Qwen3_5GatedDeltaNet.forward, recurrent form). A task owns a key head: its
 * convolution channels, its value heads' states and outputs; nothing is shared between tasks. */
#include "model/profile.h"
#include "model/trunk.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64, MANY = 32 };

typedef struct delta_job {
    const fore_pass *pass;
    const fore_layer *layer;
    fore_layer_state *state;
    float *u;           /* [T, channels] raw projections: queries, keys, values */
    float *c;           /* of a window, after convolution and silu: [key heads, T, channels of one] */
    float *z;           /* [T, nv, dv] */
    float *b, *a;       /* [T, nv] */
    float *beta, *decay; /* [T, nv] */
    float *o;           /* [T, nv, dv] */
} delta_job;

size_t fore_deltanet_columns(const fore_text_config *t) {
    size_t nv = (size_t)t->linear_num_value_heads, vd = nv * (size_t)t->linear_value_head_dim;
    size_t grouped = t->linear_by_key_head ? fore_linear_channels(t) + vd + 2 * nv : 0;
    return fore_linear_channels(t) + 2 * vd + 4 * nv + grouped;
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

/* What a key head owns: channels of the convolution (queries, keys, and the values of its value heads) and value heads. */
typedef struct head {
    size_t q, k, v;    /* first channels */
    size_t dk, values; /* channels of q and k each, and of v */
    size_t h, heads;   /* first value head, and how many */
    size_t row;        /* floats of a row of all its channels */
} head;

static head head_of(const fore_text_config *t, int g) {
    size_t dk = (size_t)t->linear_key_head_dim, dv = (size_t)t->linear_value_head_dim, nk = (size_t)t->linear_num_key_heads;
    size_t rep = (size_t)t->linear_num_value_heads / nk, at = (size_t)g;
    return (head){.q = at * dk, .k = (nk + at) * dk, .v = 2 * nk * dk + at * rep * dv, .dk = dk, .values = rep * dv, .h = at * rep,
                  .heads = rep, .row = 2 * dk + rep * dv};
}

/* Raw projections of a key head as they lie in memory: its first row, and floats from one row to the next. */
typedef struct raw {
    const float *q, *k, *v, *z;
    size_t row, z_row;
} raw;

/* Moves the convolution's window of n channels from c0 on past T raw rows: it keeps what goes in, before convolution and silu. */
static void shift_window(const fore_text_config *t, float *prev, const float *u, size_t row, int T, size_t c0, size_t n) {
    size_t C = fore_linear_channels(t);
    int K = t->linear_conv_kernel_dim;
    for (int i = 0; i < K - 1; i++) {
        int r = T - (K - 1) + i;
        const float *from = r >= 0 ? u + (size_t)r * row : prev + (size_t)(K - 1 + r) * C + c0;
        memcpy(prev + (size_t)i * C + c0, from, n * sizeof *prev);
    }
}

static void shift_head(const fore_text_config *t, float *prev, const raw *in, int T, const head *own) {
    shift_window(t, prev, in->q, in->row, T, own->q, own->dk);
    shift_window(t, prev, in->k, in->row, T, own->k, own->dk);
    shift_window(t, prev, in->v, in->row, T, own->v, own->values);
}

/* Where a head's projections are among those of all heads. */
static raw raw_of(const fore_text_config *t, const head *own, const float *u, const float *z) {
    size_t dv = (size_t)t->linear_value_head_dim, nv = (size_t)t->linear_num_value_heads;
    return (raw){u + own->q, u + own->k, u + own->v, z ? z + own->h * dv : NULL, fore_linear_channels(t), nv * dv};
}

/* Rows t0 .. t0+rows-1 of n channels from c0 on, whose raw rows begin at u, to c. t0 is 0 unless u's rows are those of all channels. */
static void convolve(const delta_job *j, float *c, size_t row, const float *u, size_t u_row, int t0, int rows, size_t c0, size_t n) {
    const fore_pass *p = j->pass;
    size_t C = fore_linear_channels(p->text);
    int K = p->text->linear_conv_kernel_dim;
    u += (size_t)t0 * u_row;
    const float *prev = t0 ? u - (size_t)(K - 1) * u_row : j->state->conv + c0;
    p->engine->kern->conv_silu(c, row, u, u_row, prev, j->layer->conv + c0, rows, 0, (int)n, (int)C, K);
}

/* Value head h of the head's over n rows: of c, of the gates from gate on (a row of nv), to o (a row of o_row). */
static void recur(const fore_pass *p, const head *own, const float *c, const float *beta, const float *decay, float *S, bool keep, float *o,
                  size_t o_row, size_t h, int n, int worker) {
    int dv = p->text->linear_value_head_dim;
    const fore_delta d = {
        .state_in = S,
        .state_out = keep ? S : NULL,
        .q = c,
        .k = c + own->dk,
        .v = c + 2 * own->dk + (h - own->h) * (size_t)dv,
        .o = o,
        .decay = decay + h,
        .beta = beta + h,
        .qk_row = own->row,
        .v_row = own->row,
        .o_row = o_row,
        .gate_row = (size_t)p->text->linear_num_value_heads,
        .T = n,
        .dk = (int)own->dk,
        .dv = dv,
        .v0 = 0,
        .v1 = dv,
        .scratch = p->scratch->worker + (size_t)worker * p->scratch->worker_floats,
    };
    p->engine->kern->delta(&d);
}

/* Rows that a long chunk takes at a time; the convolution looks at no rows before the last such block. */
static int block_rows(const fore_text_config *t) {
    return t->linear_conv_kernel_dim > BLOCK ? t->linear_conv_kernel_dim : BLOCK;
}

/* A thread's room: the delta rule's, then a block's channels of a key head and outputs of a value head. */
size_t fore_deltanet_room(const fore_text_config *t) {
    size_t dv = (size_t)t->linear_value_head_dim, row = t->linear_num_key_heads ? head_of(t, 0).row : 0;
    return fore_delta_scratch(t->linear_key_head_dim, t->linear_value_head_dim) + (size_t)block_rows(t) * (row + dv);
}

/* Where the outputs of a head's rows go. */
typedef struct sink {
    float *room;           /* [rows,dv] for a value head, or NULL: straight to their rows, which hold up the stores of the state */
    const fore_qrows *out; /* int8; NULL: */
    float *o;              /* [T, nv, dv] */
} sink;

/* Rows t0 .. t0+rows-1 of a key head, whose queries, keys and values go through c, [rows, own->row]. */
static void head_rows(const delta_job *j, const head *own, const raw *in, float *c, const sink *to, int t0, int rows, int worker) {
    const fore_pass *p = j->pass;
    const fore_text_config *t = p->text;
    const fore_kern *kern = p->engine->kern;
    int dk = t->linear_key_head_dim, dv = t->linear_value_head_dim;
    size_t nv = (size_t)t->linear_num_value_heads, vd = nv * (size_t)dv, gate = (size_t)t0 * nv, row = own->row;
    float *q = c, *k = c + own->dk, *v = k + own->dk;
    float *beta = j->beta + gate, *decay = j->decay + gate;
    double began = fore_profile_inside(p->engine);
    convolve(j, q, row, in->q, in->row, t0, rows, own->q, own->dk);
    convolve(j, k, row, in->k, in->row, t0, rows, own->k, own->dk);
    convolve(j, v, row, in->v, in->row, t0, rows, own->v, own->values);
    fore_profile_piece(p->engine, worker, FORE_OP_CONV, &began);
    /* The query's scale comes after its norm; eps is added to the sum, not to the mean. */
    kern->l2_norm(q, row, q, row, rows, dk, 1e-6f, 1.0f / sqrtf((float)dk));
    kern->l2_norm(k, row, k, row, rows, dk, 1e-6f, 1.0f);
    kern->delta_gates(beta + own->h, decay + own->h, nv, j->b + gate + own->h, nv, j->a + gate + own->h, nv, j->layer->neg_exp_A + own->h,
                      j->layer->dt_bias + own->h, rows, (int)own->heads);
    for (size_t h = own->h; h < own->h + own->heads; h++) {
        size_t at = (size_t)t0 * vd + h * (size_t)dv, o_row = to->room ? (size_t)dv : vd;
        const float *z = in->z + (size_t)t0 * in->z_row + (h - own->h) * (size_t)dv;
        float *o = to->room ? to->room : to->o + at, *y = to->out ? o : to->o + at;
        /* a window runs on a copy in the core's cache */
        recur(p, own, c, beta, decay, j->state->S + h * own->dk * (size_t)dv, !p->window, o, o_row, h, rows, worker);
        kern->gated_rms_norm(y, to->out ? o_row : vd, o, o_row, z, in->z_row, j->layer->gated_norm, rows, dv, t->rms_norm_eps);
        if (to->out) fore_quantise_part(kern, to->out, y, o_row, rows, (int)h * dv, dv, j->layer->out_proj.group);
    }
}

/* A window goes in one piece, for its state is not kept; a long chunk in blocks of rows that stay in the core's cache from
 * the convolution to the norm. */
static void head_task(void *context, int g, int worker) {
    const delta_job *j = context;
    const fore_pass *p = j->pass;
    const head own = head_of(p->text, g);
    const raw in = raw_of(p->text, &own, j->u, j->z);
    sink to = {.o = j->o};
    if (p->window) {
        head_rows(j, &own, &in, j->c + (size_t)g * (size_t)p->T * own.row, &to, 0, p->T, worker);
        return;
    }
    int block = block_rows(p->text);
    float *c = p->scratch->worker + (size_t)worker * p->scratch->worker_floats +
               fore_delta_scratch(p->text->linear_key_head_dim, p->text->linear_value_head_dim);
    to.room = c + (size_t)block * own.row;
    for (int t0 = 0; t0 < p->T; t0 += block) head_rows(j, &own, &in, c, &to, t0, p->T - t0 < block ? p->T - t0 : block, worker);
    shift_head(p->text, j->state->conv, &in, p->T, &own);
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

/* ---- many rows, quantised weights: a task takes a key head from the projections to the input of out_proj, int8, and the
 * floats between them stay in the core's cache ---- */

typedef struct whole_job {
    delta_job delta;
    const fore_qrows *in, *out;
    float *room; /* [threads, T, whole_row] */
} whole_job;

/* Floats of a thread's row: raw projections with z, what comes out of the convolution, outputs of a value head. */
static size_t whole_row(const fore_text_config *t) {
    const head own = head_of(t, 0);
    return 2 * own.row + own.values + (size_t)t->linear_value_head_dim;
}

static void whole_task(void *context, int g, int worker) {
    const whole_job *w = context;
    const delta_job *j = &w->delta;
    const fore_pass *p = j->pass;
    const head own = head_of(p->text, g);
    size_t T = (size_t)p->T, row = own.row + own.values, z0 = own.h * (size_t)p->text->linear_value_head_dim;
    float *u = w->room + (size_t)worker * T * whole_row(p->text), *c = u + T * row;
    const raw in = {u, u + own.dk, u + 2 * own.dk, u + own.row, row, row};
    const fore_weight *qkv = &j->layer->in_proj_qkv;
    const struct {
        const fore_weight *w;
        size_t n0, n;
    } parts[4] = {{qkv, own.q, own.dk}, {qkv, own.k, own.dk}, {qkv, own.v, own.values}, {&j->layer->in_proj_z, z0, own.values}};
    double began = fore_profile_inside(p->engine);
    for (int i = 0; i < 4; u += parts[i++].n) {
        const fore_weight part = fore_weight_part(parts[i].w, (int)parts[i].n0, (int)parts[i].n);
        const fore_product product = {&part, NULL, u, row};
        fore_product_slice(p->engine->kern, &product, NULL, 0, w->in, p->T, 0, part.N);
    }
    fore_profile_piece(p->engine, worker, FORE_OP_IN_PROJ, &began);
    const sink to = {.room = c + T * own.row, .out = w->out};
    head_rows(j, &own, &in, c, &to, 0, p->T, worker);
    shift_head(p->text, j->state->conv, &in, p->T, &own);
}

static bool whole_heads(const fore_pass *p, const fore_layer *l) {
    const fore_text_config *t = p->text;
    int threads = fore_pool_threads(p->engine->pool), heads = t->linear_num_key_heads;
    bool fits = (size_t)threads * whole_row(t) + 4 * (size_t)t->linear_num_value_heads <= fore_deltanet_columns(t);
    bool even = heads % threads == 0 || heads >= 4 * threads; /* or some threads have a head more than others for long */
    return p->T >= MANY && !p->window && fits && even && fore_pool_nodes(p->engine->pool) == 1 && !t->linear_by_key_head &&
           l->in_proj_qkv.bits && l->in_proj_z.bits && fore_takes_same_rows(&l->in_proj_qkv, &l->in_proj_z) && l->out_proj.bits && !l->out_proj.order &&
           t->linear_value_head_dim % l->out_proj.group == 0 && t->linear_key_head_dim % 16 == 0;
}

static void by_whole_heads(const fore_pass *p, const fore_layer *layer, fore_layer_state *state, const float *x, float *y) {
    const fore_text_config *t = p->text;
    const fore_engine *e = p->engine;
    size_t T = (size_t)p->T, nv = (size_t)t->linear_num_value_heads, C = (size_t)t->hidden_size;
    int vd = t->linear_num_value_heads * t->linear_value_head_dim;
    whole_job w = {.delta = {.pass = p, .layer = layer, .state = state}};
    delta_job *j = &w.delta;
    j->b = p->scratch->wide;
    j->a = j->b + T * nv;
    j->beta = j->a + T * nv;
    j->decay = j->beta + T * nv;
    w.room = j->decay + T * nv;
    const fore_product gates[2] = {{&layer->in_proj_b, NULL, j->b, nv}, {&layer->in_proj_a, NULL, j->a, nv}};
    const fore_product wide[2] = {{.w = &layer->in_proj_qkv}, {.w = &layer->in_proj_z}};
    fore_profile_op(e, FORE_OP_IN_PROJ);
    fore_linear(e, x, C, p->T, gates, 2);
    if (e->profile) fore_profile_count_products(e->profile, wide, 2, p->T);
    w.in = fore_quantise(e, &layer->in_proj_qkv, x, C, p->T);
    w.out = fore_quantise_next(e, p->T, vd, layer->out_proj.group);
    fore_profile_op(e, FORE_OP_DELTANET);
    fore_profile_work(e, state_bytes(p), state_operations(t, p->T));
    fore_pool_run(e->pool, whole_task, &w, t->linear_num_key_heads);
    fore_profile_split(e);
    fore_profile_op(e, FORE_OP_OUT_PROJ);
    const fore_product out = {&layer->out_proj, NULL, y, C};
    fore_linear_quantised(e, w.out, p->T, &out);
}

void fore_deltanet(const fore_pass *p, const fore_layer *layer, int index, fore_layer_state *state, const float *x, float *y) {
    const fore_text_config *t = p->text;
    if (whole_heads(p, layer)) {
        by_whole_heads(p, layer, state, x, y);
        return;
    }
    int C = t->hidden_size;
    size_t T = (size_t)p->T, channels = fore_linear_channels(t), nv = (size_t)t->linear_num_value_heads;
    size_t vd = nv * (size_t)t->linear_value_head_dim;
    delta_job j = {.pass = p, .layer = layer, .state = state};
    j.u = p->scratch->wide;
    j.z = j.u + T * channels;
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
    fore_layer_state *state;
    const fore_window *window;
    const struct fore_window_layer *layer;
    int n;
} replay_job;

static void replay_task(void *context, int g, int worker) {
    const replay_job *j = context;
    const fore_pass *p = j->pass;
    const fore_text_config *t = p->text;
    const head own = head_of(t, g);
    size_t dv = (size_t)t->linear_value_head_dim;
    const float *c = j->layer->c + (size_t)g * (size_t)j->window->T * own.row;
    const raw in = raw_of(t, &own, j->layer->u, NULL);
    shift_head(t, j->state->conv, &in, j->n, &own);
    for (size_t h = own.h; h < own.h + own.heads; h++)
        recur(p, &own, c, j->layer->beta, j->layer->decay, j->state->S + h * own.dk * dv, true, j->window->spare + h * dv,
              (size_t)t->linear_num_value_heads * dv, h, j->n, worker);
}

void fore_deltanet_replay(const fore_pass *p, int index, fore_layer_state *state, int n) {
    replay_job j = {p, state, p->window, &p->window->layers[index], n};
    fore_pool_run(p->engine->pool, replay_task, &j, p->text->linear_num_key_heads);
}
