/* The mixture of experts; see moe.h. A slot is one (row, picked expert) pair; slots lie sorted by expert, then by row. */
#include "model/moe.h"

#include "model/profile.h"

#include <assert.h>
#include <string.h>

#include "kernels/turn.h"

/* ALONE: numbers that are quantised by the caller itself. */
enum { TASKS_PER_THREAD = 8, MIN_OUTPUTS = 16, ROW_BLOCK = 4, FEW_ROWS = 8, ALONE = 16384 };

typedef struct moe_job {
    const fore_pass *pass;
    const fore_layer *layer;
    const float *x;   /* [T,C] */
    float *y;         /* [T,C] in: the shared expert's output, if there is one */
    float *sigma;     /* [T] the shared expert's gate before its sigmoid */
    float *p;         /* [T,E] logits, then probabilities */
    float *weights;   /* [T,k] in router order */
    int32_t *experts; /* [T,k] */
    int32_t *slots;   /* [T,k] where each pick lies */
    int32_t *first;   /* [E+1] slots before each expert's */
    int32_t *active;  /* [E] experts that some row picked */
    float *gate, *up; /* [T*k,I] */
    float *rows;      /* [T*k,C] inputs by slot, then outputs by slot */
    const fore_experts *takes[2]; /* kinds of matrices that take the quantised rows in the engine's two rooms */
    const float *input;           /* ... and what they were made from, by slot */
    int T, C, E, I, k, active_count;
    bool shared; /* there is a shared expert */
    int blocks, block; /* pieces of an expert's outputs, and outputs of a piece */
} moe_job;

size_t fore_moe_columns(const fore_text_config *t) {
    size_t E = (size_t)t->num_experts, k = (size_t)t->num_experts_per_tok, I = (size_t)t->moe_intermediate_size;
    size_t C = (size_t)t->hidden_size, shared = 2 * (size_t)t->shared_expert_intermediate_size;
    size_t routed = 1 + E + 3 * k + (E + 1) + E + k * (2 * I + C); /* [E] tables are counted for each row: one may be all */
    return shared > routed ? shared : routed;
}

void fore_moe_pick(float *p, int E, int k, bool normalise, int32_t *experts, float *weights) {
    enum { TAKEN = -1 };
    float sum = 0;
    for (int j = 0; j < k; j++) {
        int best = -1;
        for (int e = 0; e < E; e++)
            if (p[e] != TAKEN && (best < 0 || p[e] > p[best])) best = e;
        experts[j] = best;
        weights[j] = p[best];
        sum += p[best];
        p[best] = TAKEN;
    }
    for (int j = 0; normalise && j < k; j++) weights[j] /= sum;
}

static void route_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const moe_job *j = context;
    for (int t = first; t < first + rows; t++) {
        float *p = j->p + (size_t)t * (size_t)j->E, largest = p[0], sum = 0;
        for (int e = 1; e < j->E; e++) largest = p[e] > largest ? p[e] : largest;
        for (int e = 0; e < j->E; e++) {
            p[e] = fore_expf(p[e] - largest);
            sum += p[e];
        }
        for (int e = 0; e < j->E; e++) p[e] /= sum;
        size_t at = (size_t)t * (size_t)j->k;
        fore_moe_pick(p, j->E, j->k, j->pass->text->norm_topk_prob, j->experts + at, j->weights + at);
    }
}

/* Counting sort of the picks by expert. */
static void group(moe_job *j) {
    int picks = j->T * j->k;
    memset(j->first, 0, ((size_t)j->E + 1) * sizeof *j->first);
    for (int i = 0; i < picks; i++) j->first[j->experts[i] + 1]++;
    j->active_count = 0;
    for (int e = 0; e < j->E; e++) {
        if (j->first[e + 1]) j->active[j->active_count++] = e;
        j->first[e + 1] += j->first[e];
    }
    for (int i = 0; i < picks; i++) j->slots[i] = j->first[j->experts[i]]++;
    for (int e = j->E; e > 0; e--) j->first[e] = j->first[e - 1];
    j->first[0] = 0;
}

static uint64_t matrix_bytes(const fore_experts *experts, int e) {
    fore_weight w = fore_expert_at(experts, e);
    return fore_weight_bytes(&w);
}

static void count(const moe_job *j) {
    fore_scratch *s = j->pass->scratch;
    const fore_layer *l = j->layer;
    unsigned char *seen = s->seen + (size_t)l->number * (size_t)j->E;
    uint64_t read = 0;
    for (int i = 0; i < j->active_count; i++) {
        int e = j->active[i];
        uint64_t bytes = matrix_bytes(&l->expert_gate, e) + matrix_bytes(&l->expert_up, e) + matrix_bytes(&l->expert_down, e);
        s->touched.read += bytes;
        read += bytes;
        if (seen[e]) continue;
        seen[e] = 1;
        s->touched.experts++;
        s->touched.bytes += bytes;
    }
    const fore_weight like = fore_expert_at(&l->expert_gate, 0);
    fore_profile_weights(j->pass->engine, FORE_OP_EXPERTS, &like, read, 6.0 * j->T * j->k * j->I * j->C);
}

static void gather_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const moe_job *j = context;
    size_t C = (size_t)j->C;
    for (int t = first; t < first + rows; t++)
        for (int i = t * j->k; i < (t + 1) * j->k; i++)
            memcpy(j->rows + (size_t)j->slots[i] * C, j->x + (size_t)t * C, C * sizeof(float));
}

/* Cuts the N outputs of every active expert so that all threads have work when few experts are active. */
static int cut(moe_job *j, int N) {
    int tasks = fore_pool_threads(j->pass->engine->pool) * TASKS_PER_THREAD;
    int blocks = (tasks + j->active_count - 1) / j->active_count;
    j->block = ((N + blocks - 1) / blocks + MIN_OUTPUTS - 1) / MIN_OUTPUTS * MIN_OUTPUTS;
    j->blocks = (N + j->block - 1) / j->block;
    return j->blocks * j->active_count;
}

typedef struct piece {
    int expert, slot, count; /* its slots */
    int n0, n1;              /* outputs */
} piece;

static piece piece_at(const moe_job *j, int index, int N) {
    int e = j->active[index / j->blocks], n0 = index % j->blocks * j->block;
    return (piece){e, j->first[e], j->first[e + 1] - j->first[e], n0, N - n0 < j->block ? N : n0 + j->block};
}

/* Room [T*k,K] for the rows of all slots, a place for each number of the smallest groups. */
static fore_qrows room_rows(const fore_qrows *room, size_t slot, int K) {
    size_t groups = (size_t)K / FORE_LEAST_GROUP, at = slot * groups;
    return (fore_qrows){room->q + slot * (size_t)K, room->scale + at, room->sum + at, (size_t)K, groups};
}

/* Rows first .. of an input by slot, as the matrices of each one's expert take it: for the first kind of matrix in one room, for the
 * second in the other where it takes them differently. */
static void quantise_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const moe_job *j = context;
    const fore_engine *engine = j->pass->engine;
    for (int i = 0, slot = first, end = first + rows; slot < end; i++) {
        int e = j->active[i], last = j->first[e + 1] < end ? j->first[e + 1] : end;
        if (last <= slot) continue;
        const fore_weight a = fore_expert_at(j->takes[0], e), b = fore_expert_at(j->takes[1], e);
        const float *x = j->input + (size_t)slot * (size_t)a.K;
        const fore_qrows to[2] = {room_rows(&engine->quantised->rows, (size_t)slot, a.K), room_rows(&engine->quantised->next, (size_t)slot, a.K)};
        if (a.bits) fore_quantise_rows(engine->kern, &a, &to[0], x, (size_t)a.K, last - slot);
        if (b.bits && !(a.bits && fore_takes_same_rows(&a, &b))) fore_quantise_rows(engine->kern, &b, &to[1], x, (size_t)a.K, last - slot);
        slot = last;
    }
}

/* Quantises the rows [T*k,K] of all slots when some expert's matrices are quantised. */
static void quantise_slots(moe_job *j, const fore_experts *a, const fore_experts *b, const float *rows, int K) {
    const int slots = j->T * j->k;
    bool any = false;
    for (int i = 0; i < j->active_count && !any; i++) any = fore_expert_at(a, j->active[i]).bits || fore_expert_at(b, j->active[i]).bits;
    if (!any) return;
    assert((size_t)slots * (size_t)K <= j->pass->engine->quantised->values);
    j->takes[0] = a;
    j->takes[1] = b;
    j->input = rows;
    if ((size_t)slots * (size_t)K <= ALONE) quantise_task(j, 0, slots, 0);
    else fore_rows(j->pass->engine, quantise_task, j, slots, slots < 64 ? 1 : 8);
}

/* Quantised rows from a slot on, as the expert's matrix takes them. */
static fore_qrows slot_rows(const moe_job *j, const fore_experts *experts, int e, int slot) {
    const fore_weight w = fore_expert_at(experts, e), a = fore_expert_at(j->takes[0], e);
    const fore_quantised *rooms = j->pass->engine->quantised;
    return room_rows(a.bits && fore_takes_same_rows(&w, &a) ? &rooms->rows : &rooms->next, (size_t)slot, w.K);
}

/* Columns n .. n+cols-1 of a transposed matrix, as rows of K. */
static void turn(void *to, const fore_weight *w, int across, int n, int cols) {
    size_t size = fore_dtype_size(w->dtype);
    const char *from = (const char *)w->data + (size_t)n * size;
    if (size == 4) fore_turn_32(to, from, (size_t)w->K, (size_t)across, (size_t)cols);
    else fore_turn_16(to, from, (size_t)w->K, (size_t)across, (size_t)cols);
}

/* Outputs of a piece of one expert's matrix, y [rows, ldy]. A transposed matrix is read as it lies by few rows, and turned a strip
 * at a time for many, to be read from the cache: the bits are the same. */
static void multiply(const moe_job *j, const fore_experts *experts, const piece *p, const float *x, size_t ldx, float *y, size_t ldy,
                     int worker) {
    const fore_kern *kern = j->pass->engine->kern;
    fore_weight w = fore_expert_at(experts, p->expert);
    if (!experts->across) {
        const fore_product whole = {&w, NULL, y, ldy};
        const fore_qrows q = w.bits ? slot_rows(j, experts, p->expert, p->slot) : (fore_qrows){0};
        fore_product_slice(kern, &whole, x, ldx, &q, p->count, p->n0, p->n1);
        return;
    }
    if (p->count <= FEW_ROWS) {
        kern->mm_across(y, ldy, x, ldx, w.data, w.dtype, experts->across, p->count, p->n0, p->n1, w.K);
        return;
    }
    float *room = j->pass->scratch->worker + (size_t)worker * j->pass->scratch->worker_floats;
    for (int n = p->n0, cols; n < p->n1; n += cols) {
        cols = p->n1 - n < FORE_STRIP ? p->n1 - n : FORE_STRIP;
        turn(room, &w, experts->across, n, cols);
        const fore_weight strip = {.data = room, .dtype = w.dtype, .N = cols, .K = w.K};
        const fore_product part = {&strip, NULL, y + n, ldy};
        fore_product_slice(kern, &part, x, ldx, NULL, p->count, 0, cols);
    }
}

/* silu(gate x) * up x, a piece of one expert's width for all of its rows. */
static void rise_task(void *context, int index, int worker) {
    const moe_job *j = context;
    const fore_kern *kern = j->pass->engine->kern;
    const piece p = piece_at(j, index, j->I);
    size_t C = (size_t)j->C, I = (size_t)j->I, at = (size_t)p.slot * I;
    const float *x = j->rows + (size_t)p.slot * C;
    multiply(j, &j->layer->expert_gate, &p, x, C, j->gate + at, I, worker);
    multiply(j, &j->layer->expert_up, &p, x, C, j->up + at, I, worker);
    for (int r = 0; r < p.count; r++) {
        size_t from = at + (size_t)r * I + (size_t)p.n0;
        kern->silu_mul(j->gate + from, j->gate + from, j->up + from, (size_t)(p.n1 - p.n0));
    }
}

static void fall_task(void *context, int index, int worker) {
    const moe_job *j = context;
    const piece p = piece_at(j, index, j->C);
    size_t C = (size_t)j->C, I = (size_t)j->I, slot = (size_t)p.slot;
    multiply(j, &j->layer->expert_down, &p, j->gate + slot * I, I, j->rows + slot * C, C, worker);
}

static void sum_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const moe_job *j = context;
    size_t C = (size_t)j->C, k = (size_t)j->k;
    for (size_t t = (size_t)first; t < (size_t)(first + rows); t++) {
        float *y = j->y + t * C;
        /* The first pick's slot is the sum's place: no other row reads it. */
        float *r = j->rows + (size_t)j->slots[t * k] * C;
        float w = j->weights[t * k];
        for (size_t c = 0; c < C; c++) r[c] = 0.0f + w * r[c];
        for (size_t i = 1; i < k; i++) {
            const float *out = j->rows + (size_t)j->slots[t * k + i] * C;
            w = j->weights[t * k + i];
            for (size_t c = 0; c < C; c++) r[c] += w * out[c];
        }
        if (!j->shared) {
            memcpy(y, r, C * sizeof *y);
            continue;
        }
        float shared = fore_sigmoidf(j->sigma[t]);
        for (size_t c = 0; c < C; c++) y[c] = r[c] + shared * y[c];
    }
}

/* Tables and buffers of a call, one behind the other; numbers of experts lie in the memory of as many floats. */
static void carve(moe_job *j, float *at) {
    size_t T = (size_t)j->T, E = (size_t)j->E, k = (size_t)j->k, I = (size_t)j->I;
    j->rows = at, at += T * k * (size_t)j->C;
    j->gate = at, at += T * k * I;
    j->up = at, at += T * k * I;
    j->p = at, at += T * E;
    j->weights = at, at += T * k;
    j->sigma = at, at += T;
    j->experts = (int32_t *)(void *)at, at += T * k;
    j->slots = (int32_t *)(void *)at, at += T * k;
    j->first = (int32_t *)(void *)at, at += E + 1;
    j->active = (int32_t *)(void *)at;
}

void fore_moe(const fore_pass *pass, const fore_layer *layer, const float *x, float *y) {
    const fore_text_config *t = pass->text;
    const fore_engine *engine = pass->engine;
    moe_job j = {.pass = pass, .layer = layer, .x = x, .y = y, .T = pass->T, .C = t->hidden_size, .E = t->num_experts,
                 .I = t->moe_intermediate_size, .k = t->num_experts_per_tok, .shared = t->shared_expert_intermediate_size > 0};
    if (j.shared) fore_dense_mlp(pass, layer, x, y); /* the scratch memory is free again after it */
    carve(&j, pass->scratch->wide);
    fore_profile_op(engine, FORE_OP_ROUTER);
    const fore_product route[2] = {{&layer->router, NULL, j.p, (size_t)j.E}, {&layer->shared_gate, NULL, j.sigma, 1}};
    fore_linear(engine, x, (size_t)j.C, j.T, route, j.shared ? 2 : 1);
    fore_rows(engine, route_task, &j, j.T, ROW_BLOCK);
    group(&j);
    fore_profile_op(engine, FORE_OP_EXPERTS);
    count(&j);
    fore_rows(engine, gather_task, &j, j.T, ROW_BLOCK);
    quantise_slots(&j, &layer->expert_gate, &layer->expert_up, j.rows, j.C);
    fore_pool_run(engine->pool, rise_task, &j, cut(&j, j.I));
    quantise_slots(&j, &layer->expert_down, &layer->expert_down, j.gate, j.I);
    fore_pool_run(engine->pool, fall_task, &j, cut(&j, j.C));
    fore_rows(engine, sum_task, &j, j.T, ROW_BLOCK);
}
