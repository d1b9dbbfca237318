/* What follows from the figures of foresight bench: limits of operators, speeds to expect; see bench.h. */
#include "cli/bench.h"

double cli_bench_least(const fore_operator *o, const fore_machine *m, const char **limit) {
    double bytes = (double)(o->weight_bytes + o->state_bytes);
    double memory = m->read_speed > 0 ? bytes / m->read_speed : 0, compute = 0;
    if (m->float_speed > 0) compute += o->float_operations / m->float_speed;
    if (m->integer_speed > 0) compute += o->integer_operations / m->integer_speed;
    *limit = memory > compute ? "memory" : compute > 0 ? "compute" : "";
    return memory > compute ? memory : compute;
}

double cli_bench_integer_share(const cli_bench *o, const cli_series *peak) {
    cli_series share = {0};
    fore_operator sum = cli_bench_sum(&o->profiles[1]);
    for (int i = 0; i < o->prefill.count && i < peak->count; i++)
        cli_series_add(&share, sum.integer_operations / o->prefill.values[i] / peak->values[i]);
    return cli_series_median(&share);
}

fore_operator cli_bench_sum(const cli_bench_profile *p) {
    fore_operator sum = {.name = p->name, .seconds = p->seconds, .calls = (uint64_t)p->steps};
    for (int i = 0; i < p->count; i++) {
        sum.weight_bytes += p->rows[i].weight_bytes;
        sum.state_bytes += p->rows[i].state_bytes;
        sum.float_operations += p->rows[i].float_operations;
        sum.integer_operations += p->rows[i].integer_operations;
    }
    return sum;
}

const char *cli_bench_depth_name(int depth, char out[12]) {
    if (depth == FORE_DRAFT_AUTO) return "auto";
    snprintf(out, 12, "%d", depth);
    return out;
}

double cli_bench_read_share(const cli_bench *o) {
    cli_series share = {0};
    fore_operator sum = cli_bench_sum(&o->profiles[0]);
    for (int i = 0; i < o->token.count; i++)
        cli_series_add(&share, (double)sum.weight_bytes / o->plan.decode / o->token.values[i] / o->read_speed.values[i]);
    return cli_series_median(&share);
}

/* Tokens of a round by its cost in passes of one row; 0 when a width was not measured. */
static double expect(const cli_bench *o, int depth, const double *accepted) {
    int rows = depth + 1;
    if (depth == 0) return 1;
    if (depth == FORE_DRAFT_AUTO) return 0; /* it changes its mind */
    if (rows > FORE_PASS_MAX || !o->pass[rows].count || !o->draft.count) return 0;
    double cost = cli_ratio(&o->pass[rows], &o->one[rows]) + cli_ratio(&o->commit[rows], &o->one[rows]) + depth * cli_ratio(&o->draft, &o->draft_one);
    double tokens = 1;
    for (int i = 0; i < depth; i++) tokens += accepted[i];
    return tokens / cost;
}

void cli_bench_conclude(cli_bench *o) {
    o->machine.read_speed = cli_series_median(&o->read_speed);
    o->machine.float_speed = cli_series_median(&o->float_speed);
    o->machine.integer_speed = cli_series_median(&o->integer_speed);
    o->machine.vector_speed = cli_series_median(&o->vector_speed);
    for (int i = 0; i < o->plan.depth_count; i++) {
        cli_bench_depth *d = &o->depths[i];
        d->expected = expect(o, d->depth, d->accepted);
        if (o->plan.accepts) d->expected_at = expect(o, d->depth, o->plan.acceptance);
    }
}
