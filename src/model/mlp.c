/* The dense MLP, down(silu(gate x) * up x), and the choice between it and a mixture of experts. */
#include "model/moe.h"
#include "model/profile.h"

enum { MANY = 32, STEP = 64 }; /* rows, and what divides the outputs of a task */

typedef struct mlp_job {
    const fore_kern *kern;
    float *gate, *up; /* [T,F] */
    size_t F;
} mlp_job;

size_t fore_mlp_columns(const fore_text_config *t) {
    size_t experts = t->num_experts ? fore_moe_columns(t) : 0, dense = 2 * (size_t)t->intermediate_size;
    return experts > dense ? experts : dense;
}

static void activate_task(void *context, int first, int rows, int worker) {
    (void)worker;
    const mlp_job *j = context;
    float *gate = j->gate + (size_t)first * j->F;
    j->kern->silu_mul(gate, gate, j->up + (size_t)first * j->F, (size_t)rows * j->F);
}

void fore_mlp(const fore_pass *p, const fore_layer *layer, const float *x, float *y) {
    if (layer->moe) fore_moe(p, layer, x, y);
    else fore_dense_mlp(p, layer, x, y);
}

/* Many rows, all matrices quantised: a task takes some outputs of gate and up to what `down` reads, int8, and so the floats
 * between them never leave the core's cache. */
typedef struct strip_job {
    const fore_pass *pass;
    const fore_layer *layer;
    const fore_qrows *in, *out;
    int width; /* outputs of a task */
} strip_job;

static void strip_task(void *context, int index, int worker) {
    const strip_job *j = context;
    const fore_pass *p = j->pass;
    const fore_kern *kern = p->engine->kern;
    const fore_weight *all[2] = {&j->layer->gate_proj, &j->layer->up_proj};
    int n0 = index * j->width, n = all[0]->N - n0 < j->width ? all[0]->N - n0 : j->width;
    size_t columns = (size_t)n, floats = (size_t)p->T * columns;
    float *gate = p->scratch->wide + (size_t)worker * 2 * (size_t)p->T * (size_t)j->width, *y[2] = {gate, gate + floats};
    for (int i = 0; i < 2; i++) {
        const fore_weight part = fore_weight_part(all[i], n0, n);
        const fore_product product = {&part, NULL, y[i], columns};
        fore_product_slice(kern, &product, NULL, 0, j->in, p->T, 0, n);
    }
    double began = fore_profile_inside(p->engine);
    kern->silu_mul(gate, gate, y[1], floats);
    fore_profile_piece(p->engine, worker, FORE_OP_ACTIVATION, &began);
    fore_quantise_part(kern, j->out, gate, columns, p->T, n0, n, j->layer->down_proj.group);
    fore_profile_piece(p->engine, worker, FORE_OP_DOWN, &began);
}

/* Outputs of a task, so that all threads have about as much to do; 0: not by strips. */
static int strip_width(const fore_pass *p, const fore_layer *layer) {
    const fore_weight *gate = &layer->gate_proj, *up = &layer->up_proj, *down = &layer->down_proj;
    if (p->T < MANY || fore_pool_nodes(p->engine->pool) > 1 || !gate->bits || !up->bits || !down->bits || !fore_takes_same_rows(gate, up) || down->order)
        return 0;
    int threads = fore_pool_threads(p->engine->pool), width = fore_linear_width(gate->N, threads, down->group > STEP ? down->group : STEP);
    return width <= gate->N / threads ? width : 0; /* else `wide` has no room for all */
}

static void strips(const fore_pass *p, const fore_layer *layer, int width, const float *x, float *y) {
    int C = p->text->hidden_size, F = layer->gate_proj.N;
    const fore_product products[3] = {{.w = &layer->gate_proj}, {.w = &layer->up_proj}, {&layer->down_proj, NULL, y, (size_t)C}};
    strip_job j = {.pass = p, .layer = layer, .width = width};
    fore_profile_op(p->engine, FORE_OP_GATE_UP);
    if (p->engine->profile) fore_profile_count_products(p->engine->profile, products, 2, p->T);
    j.in = fore_quantise(p->engine, &layer->gate_proj, x, (size_t)C, p->T);
    j.out = fore_quantise_next(p->engine, p->T, F, layer->down_proj.group);
    fore_pool_run(p->engine->pool, strip_task, &j, (F + width - 1) / width);
    fore_profile_split(p->engine);
    fore_profile_op(p->engine, FORE_OP_DOWN);
    fore_linear_quantised(p->engine, j.out, p->T, &products[2]);
}

void fore_dense_mlp(const fore_pass *p, const fore_layer *layer, const float *x, float *y) {
    int width = strip_width(p, layer);
    if (width) {
        strips(p, layer, width, x, y);
        return;
    }
    size_t C = (size_t)p->text->hidden_size, F = (size_t)layer->gate_proj.N;
    mlp_job j = {p->engine->kern, p->scratch->wide, p->scratch->wide + (size_t)p->T * F, F};
    const fore_product in[2] = {{&layer->gate_proj, NULL, j.gate, F}, {&layer->up_proj, NULL, j.up, F}};
    fore_profile_op(p->engine, FORE_OP_GATE_UP);
    fore_linear(p->engine, x, C, p->T, in, 2);
    fore_profile_op(p->engine, FORE_OP_ACTIVATION);
    fore_rows(p->engine, activate_task, &j, p->T, 8);
    fore_profile_op(p->engine, FORE_OP_DOWN);
    const fore_product out = {&layer->down_proj, NULL, y, C};
    fore_linear(p->engine, j.gate, F, p->T, &out, 1);
}
