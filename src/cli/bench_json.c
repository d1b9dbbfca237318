/* The JSON object of foresight bench --json; docs/foresight.1 lists its members. */
#include "cli/bench.h"
#include "cli/json.h"

static void add_median(cJSON *object, const char *name, const cli_series *s) {
    if (s->count) cli_json_number(object, name, cli_series_median(s));
}

static cJSON *add_object(cJSON *root, const char *name) {
    return cli_need(cJSON_AddObjectToObject(root, name));
}

static cJSON *append_object(cJSON *array) {
    cJSON *object = cli_need(cJSON_CreateObject());
    cJSON_AddItemToArray(array, object);
    return object;
}

static cJSON *add_array(cJSON *root, const char *name) {
    return cli_need(cJSON_AddArrayToObject(root, name));
}

static void add_machine(cJSON *root, const fore_machine *m) {
    cJSON *object = add_object(root, "machine");
    cli_json_string(object, "cpu", m->cpu);
    cli_json_whole(object, "processors", (uint64_t)m->processors);
    cli_json_whole(object, "cache_bytes", m->cache_bytes);
    cli_json_number(object, "read_gb_per_second", m->read_speed / 1e9);
    cli_json_number(object, "float_gops", m->float_speed / 1e9);
    cli_json_number(object, "integer_gops", m->integer_speed / 1e9);
    cli_json_number(object, "vector_integer_gops", m->vector_speed / 1e9);
}

static void add_loading(cJSON *root, const cli_bench *b) {
    cJSON *object = add_object(root, "load");
    cli_json_number(object, "ratio", cli_ratio(&b->ready_warm, &b->read_warm));
    add_median(object, "open_seconds", &b->open_warm);
    add_median(object, "first_token_seconds", &b->ready_warm);
    add_median(object, "read_seconds", &b->read_warm);
    if (b->read_cold.count) cli_json_number(object, "cold_ratio", cli_ratio(&b->ready_cold, &b->read_cold));
    add_median(object, "cold_first_token_seconds", &b->ready_cold);
    add_median(object, "cold_read_seconds", &b->read_cold);
    object = add_object(root, "memory");
    cli_json_whole(object, "peak_bytes", b->peak_bytes);
    cli_json_whole(object, "own_bytes", b->own_bytes);
    cli_json_whole(object, "weight_bytes", b->info.weight_bytes);
    cli_json_whole(object, "session_bytes", b->memory.total);
}

static void add_speed(cJSON *root, const cli_bench *b) {
    const char *limit;
    fore_operator prompt = cli_bench_sum(&b->profiles[1]), token = cli_bench_sum(&b->profiles[0]);
    double seconds = cli_series_median(&b->prefill);
    cJSON *object = add_object(root, "prefill");
    cli_json_whole(object, "tokens", (uint64_t)b->plan.prompt);
    cli_json_number(object, "share_of_roofline", cli_bench_least(&prompt, &b->machine, &limit) / seconds);
    cli_json_number(object, "share_of_integer_peak", cli_bench_integer_share(b, &b->integer_speed));
    cli_json_number(object, "share_of_vector_integer_peak", cli_bench_integer_share(b, &b->vector_speed));
    cli_json_number(object, "tokens_per_second", b->plan.prompt / seconds);
    cli_json_number(object, "seconds", seconds);
    cli_json_number(object, "gops", (prompt.float_operations + prompt.integer_operations) / seconds / 1e9);
    seconds = cli_series_median(&b->token);
    double bytes = (double)token.weight_bytes / b->plan.decode;
    object = add_object(root, "decode");
    cli_json_whole(object, "tokens", (uint64_t)b->plan.decode);
    cli_json_whole(object, "context", (uint64_t)b->plan.prompt);
    cli_json_number(object, "share_of_read", cli_bench_read_share(b));
    cli_json_number(object, "tokens_per_second", 1 / seconds);
    cli_json_number(object, "seconds_per_token", seconds);
    cli_json_number(object, "spread_seconds", cli_series_spread(&b->token));
    cli_json_number(object, "weight_bytes_per_token", bytes);
    cli_json_number(object, "weight_gb_per_second", bytes / seconds / 1e9);
}

static void add_passes(cJSON *root, const cli_bench *b) {
    cJSON *array = add_array(root, "verify");
    for (int i = 0; i < b->plan.width_count; i++) {
        int rows = b->plan.widths[i];
        cJSON *object = append_object(array);
        cli_json_whole(object, "rows", (uint64_t)rows);
        cli_json_number(object, "ratio", cli_ratio(&b->pass[rows], &b->one[rows]));
        cli_json_number(object, "commit_ratio", cli_ratio(&b->commit[rows], &b->one[rows]));
        add_median(object, "seconds", &b->pass[rows]);
        add_median(object, "commit_seconds", &b->commit[rows]);
    }
    if (!b->draft.count) return;
    cJSON *object = add_object(root, "draft");
    cli_json_number(object, "ratio", cli_ratio(&b->draft, &b->draft_one));
    add_median(object, "seconds", &b->draft);
}

static void add_shares(cJSON *object, const char *name, const double *shares, int count) {
    cJSON *array = add_array(object, name);
    for (int i = 0; i < count; i++) cJSON_AddItemToArray(array, cli_need(cJSON_CreateNumber(shares[i])));
}

static void add_depths(cJSON *root, const cli_bench *b) {
    cJSON *array = add_array(root, "depths");
    for (int i = 0; i < b->plan.depth_count; i++) {
        const cli_bench_depth *d = &b->depths[i];
        cJSON *object = append_object(array);
        if (d->depth == FORE_DRAFT_AUTO) cli_json_string(object, "depth", "auto");
        else cli_json_whole(object, "depth", (uint64_t)d->depth);
        add_median(object, "ratio", &d->ratio);
        if (d->expected > 0) cli_json_number(object, "expected_ratio", d->expected);
        cli_json_number(object, "tokens_per_second", 1 / cli_series_median(&d->seconds));
        add_shares(object, "accepted", d->accepted, d->accepted_count);
        add_median(object, "ratio_at_acceptance", &d->at);
        if (d->expected_at > 0) cli_json_number(object, "expected_ratio_at_acceptance", d->expected_at);
    }
    if (b->plan.accepts) add_shares(root, "acceptance", b->plan.acceptance, FORE_DRAFT_MAX);
}

static void add_vision(cJSON *root, const cli_bench *b) {
    cJSON *array = add_array(root, "vision");
    for (int i = 0; i < b->plan.side_count; i++) {
        if (!b->vision[i].count) continue;
        int across = b->plan.sides[i] / b->info.patch_size;
        cJSON *object = append_object(array);
        cli_json_whole(object, "side", (uint64_t)b->plan.sides[i]);
        cli_json_whole(object, "patches", (uint64_t)(across * across));
        add_median(object, "seconds", &b->vision[i]);
        add_median(object, "first_token_seconds", &b->whole[i]);
    }
}

static void add_profile(cJSON *root, const cli_bench_profile *p, const fore_machine *m) {
    cJSON *object = add_object(root, p->name);
    cli_json_string(object, "step", p->step);
    cli_json_whole(object, "steps", (uint64_t)p->steps);
    cli_json_number(object, "seconds", p->seconds);
    cJSON *array = add_array(object, "operators");
    for (int i = 0; i < p->count; i++) {
        const fore_operator *o = &p->rows[i];
        const char *limit;
        double least = cli_bench_least(o, m, &limit), bytes = (double)(o->weight_bytes + o->state_bytes);
        double operations = o->float_operations + o->integer_operations, seconds = o->seconds > 0 ? o->seconds : 1e-9;
        cJSON *row = append_object(array);
        cli_json_string(row, "name", o->name);
        cli_json_whole(row, "calls", o->calls);
        cli_json_number(row, "seconds", o->seconds);
        cli_json_number(row, "share", p->seconds > 0 ? o->seconds / p->seconds : 0);
        cli_json_whole(row, "weight_bytes", o->weight_bytes);
        cli_json_whole(row, "state_bytes", o->state_bytes);
        cli_json_number(row, "operations", operations);
        cli_json_number(row, "gb_per_second", bytes / seconds / 1e9);
        cli_json_number(row, "gops", operations / seconds / 1e9);
        cli_json_number(row, "share_of_roofline", least / seconds);
        cli_json_string(row, "limit", limit);
    }
}

cJSON *cli_bench_json(const cli_bench *b) {
    cJSON *root = cli_need(cJSON_CreateObject());
    cli_json_string(root, "model", b->dir);
    cli_json_whole(root, "parameters", b->info.text_parameters + b->info.vision_parameters + b->info.mtp_parameters);
    cli_json_string(root, "dtypes", b->dtypes);
    cli_json_string(root, "isa", b->info.isa);
    cli_json_whole(root, "threads", (uint64_t)b->machine.threads);
    cli_json_whole(root, "runs", (uint64_t)b->plan.runs);
    add_machine(root, &b->machine);
    add_loading(root, b);
    add_speed(root, b);
    add_passes(root, b);
    add_depths(root, b);
    add_vision(root, b);
    cJSON *profile = add_object(root, "profile");
    for (int i = 0; i < 4; i++)
        if (b->profiles[i].steps) add_profile(profile, &b->profiles[i], &b->machine);
    return root;
}
