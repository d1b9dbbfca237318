/* The profile of passes; see profile.h. */
#include "model/profile.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[FORE_PARTS][FORE_OPS] = {
#define FORE_XX(name, text) text,
    {FORE_OP_MAP(FORE_XX)},
#undef FORE_XX
#define FORE_XX(name, text) "mtp." text,
    {FORE_OP_MAP(FORE_XX)},
#undef FORE_XX
#define FORE_XX(name, text) "vision." text,
    {FORE_OP_MAP(FORE_XX)},
#undef FORE_XX
};

void fore_profile_forget(fore_profile *p) {
    memset(p->rows, 0, sizeof p->rows);
    for (int part = 0; part < FORE_PARTS; part++)
        for (int op = 0; op < FORE_OPS; op++) p->rows[part][op].name = names[part][op];
    memset(p->inside, 0, (size_t)p->threads * FORE_PROFILE_STRIDE * sizeof *p->inside);
    p->part = FORE_PART_TRUNK;
    p->op = FORE_OP_NONE;
}

fore_status fore_profile_new(int threads, fore_profile **out, fore_error *err) {
    *out = NULL;
    fore_profile *p = calloc(1, sizeof *p);
    if (!p) return fore_fail_nomem(err, "a profile");
    p->threads = threads;
    p->inside = calloc((size_t)threads * FORE_PROFILE_STRIDE, sizeof *p->inside);
    if (!p->inside) {
        free(p);
        return fore_fail_nomem(err, "a profile");
    }
    fore_profile_forget(p);
    *out = p;
    return FORE_OK;
}

void fore_profile_free(fore_profile *p) {
    if (p) free(p->inside);
    free(p);
}

void fore_profile_switch(fore_profile *p, fore_part part, fore_op op) {
    double now = fore_clock();
    if (p->op != FORE_OP_NONE) p->rows[p->part][p->op].seconds += now - p->began;
    p->part = part;
    p->op = op;
    p->began = now;
    if (op != FORE_OP_NONE) p->rows[part][op].calls++;
}

void fore_profile_count_products(fore_profile *p, const fore_product *products, int count, int T) {
    for (int i = 0; i < count; i++) {
        const fore_weight *w = products[i].w;
        fore_profile_add_products(p, p->op, w, fore_weight_bytes(w), 2.0 * T * w->N * w->K);
    }
}

void fore_profile_add_products(fore_profile *p, fore_op op, const fore_weight *like, uint64_t bytes, double operations) {
    if (op == FORE_OP_NONE) return;
    fore_operator *o = &p->rows[p->part][op];
    o->weight_bytes += bytes;
    if (like->bits) o->integer_operations += operations;
    else o->float_operations += operations;
}

void fore_profile_add_inside(fore_profile *p, int worker, fore_op op, double *began) {
    double now = fore_clock();
    p->inside[(size_t)worker * FORE_PROFILE_STRIDE + (size_t)op] += now - *began;
    *began = now;
}

void fore_profile_share_out(fore_profile *p) {
    fore_op from = p->op;
    fore_profile_switch(p, p->part, FORE_OP_NONE);
    for (size_t op = 0; op < FORE_OPS; op++) {
        double sum = 0;
        for (size_t i = 0; i < (size_t)p->threads; i++) {
            double *inside = &p->inside[i * FORE_PROFILE_STRIDE + op];
            sum += *inside;
            *inside = 0;
        }
        if (from == FORE_OP_NONE || !(sum > 0)) continue;
        p->rows[p->part][from].seconds -= sum / p->threads;
        p->rows[p->part][op].seconds += sum / p->threads;
        p->rows[p->part][op].calls++;
    }
}
