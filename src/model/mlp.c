/* The dense MLP, down(silu(gate x) * up x), and the choice between it and a mixture of experts. */
#include "model/moe.h"
#include "model/profile.h"

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

void fore_dense_mlp(const fore_pass *p, const fore_layer *layer, const float *x, float *y) {
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
