/* foresight bench: what a model costs on this machine, and how near to the machine's limits that is. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/files.h"
#include "cli/json.h"
#include "cli/pack.h"
#include "cli/signals.h"

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static int take_lists(const cli_options *options, cli_bench_plan *p) {
    int count = 0;
    if (options->depths) {
        p->depth_count = cli_whole_list(options->depths, 0, FORE_DRAFT_MAX, p->depths, FORE_DRAFT_MAX + 1);
        if (!p->depth_count)
            return cli_fail_usage(options->verb, "--depths: expected whole numbers from 0 to %d as in 1,2,3, found '%s'", FORE_DRAFT_MAX, options->depths);
    }
    if (options->sides) {
        p->side_count = strcmp(options->sides, "0") == 0 ? 0 : cli_whole_list(options->sides, 1, 4096, p->sides, CLI_BENCH_SIDES);
        if (!p->side_count && strcmp(options->sides, "0") != 0)
            return cli_fail_usage(options->verb, "--vision: expected at most %d sides from 1 to 4096 as in 448,1024, or 0 for none, found '%s'",
                                  CLI_BENCH_SIDES, options->sides);
    }
    if (options->acceptance) {
        count = cli_share_list(options->acceptance, p->acceptance, FORE_DRAFT_MAX);
        if (!count)
            return cli_fail_usage(options->verb, "--acceptance: expected at most %d numbers from 0 to 1 as in 0.86,0.66,0.51, found '%s'",
                                  FORE_DRAFT_MAX, options->acceptance);
    }
    for (int i = 1; i < count; i++)
        if (p->acceptance[i] > p->acceptance[i - 1])
            return cli_fail_usage(options->verb, "--acceptance: a draft counts when all before it were right, so the numbers cannot rise, found '%s'",
                                  options->acceptance);
    double last = count > 1 && p->acceptance[count - 2] > 0 ? p->acceptance[count - 1] / p->acceptance[count - 2] : p->acceptance[0];
    for (int i = 1; i < FORE_DRAFT_MAX; i++)
        if (count && i >= count) p->acceptance[i] = p->acceptance[i - 1] * last; /* as the last one given */
    p->accepts = count > 0;
    return CLI_OK;
}

/* Depths in increasing order, each once, 0 first: the others are compared with it; auto last. */
static void order_depths(cli_bench_plan *p) {
    bool wanted[FORE_DRAFT_MAX + 1] = {true};
    for (int i = 0; i < p->depth_count; i++) wanted[p->depths[i]] = true;
    p->depth_count = 0;
    for (int d = 0; d <= FORE_DRAFT_MAX; d++)
        if (wanted[d]) p->depths[p->depth_count++] = d;
    p->depths[p->depth_count++] = FORE_DRAFT_AUTO;
}

/* Those that a round of the depths needs; otherwise all, or a few when it should be quick. */
static void choose_widths(cli_bench_plan *p, bool quick) {
    static const bool few[FORE_PASS_MAX + 1] = {[1] = true, [2] = true, [4] = true, [8] = true, [16] = true};
    bool wanted[FORE_PASS_MAX + 1] = {0};
    for (int rows = 1; rows <= FORE_PASS_MAX; rows++) wanted[rows] = !quick || few[rows];
    for (int i = 0; i < p->depth_count; i++)
        if (p->depths[i] < FORE_PASS_MAX) wanted[p->depths[i] + 1] = true;
    for (int rows = 1; rows <= FORE_PASS_MAX; rows++)
        if (wanted[rows]) p->widths[p->width_count++] = rows;
}

static int make_plan(const cli_options *options, cli_bench_plan *p) {
    bool quick = options->quick;
    *p = (cli_bench_plan){.runs = quick ? 2 : 5, .prompt = quick ? 64 : 512, .decode = quick ? 16 : 64, .cold = !quick,
                          .depths = {1, 2, 3, 4}, .depth_count = 4, .sides = {448, 1024}, .side_count = quick ? 1 : 2};
    if (options->runs > 0) p->runs = options->runs;
    if (options->prompt_tokens > 0) p->prompt = options->prompt_tokens;
    if (options->decode_tokens > 0) p->decode = options->decode_tokens;
    int code = take_lists(options, p);
    order_depths(p);
    choose_widths(p, quick);
    return code;
}

/* What only the opened model can say of the plan. */
static int check_plan(const cli_options *options, const cli_bench_plan *p, const fore_model *model) {
    fore_model_info info;
    fore_model_get_info(model, &info);
    if (p->prompt + p->decode + FORE_PASS_MAX > info.context_length)
        return cli_fail_usage(options->verb, "--prompt %d and --decode %d: the model's context is %d tokens", p->prompt, p->decode, info.context_length);
    if (info.vocab_size < 64) return cli_fail("%d words are too few to measure with", info.vocab_size);
    int unit = info.has_vision ? info.patch_size * info.merge_size : 1;
    for (int i = 0; i < p->side_count; i++)
        if (p->sides[i] % unit)
            return cli_fail_usage(options->verb, "--vision: %d is no multiple of %d, which the model's patches want", p->sides[i], unit);
    return CLI_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* With tiles there are two int8 peaks. */
static bool has_tiles(const cli_bench *b) {
    return b->machine.integer_speed > b->machine.vector_speed;
}

static void add_head(cli_text *out, const cli_bench *b) {
    const fore_machine *m = &b->machine;
    double parameters = (double)(b->info.text_parameters + b->info.vision_parameters + b->info.mtp_parameters);
    cli_text_print(out, "model     %s: %.3g %s parameters, %s\n", b->dir, parameters / (parameters < 1e9 ? 1e6 : 1e9), parameters < 1e9 ? "M" : "G",
                   b->dtypes);
    cli_text_print(out, "machine   %s, %s, %d of %d processors; median of %d\n", m->cpu, m->isa, m->threads, m->processors, b->plan.runs);
    cli_text_print(out, "          reads %.1f GB/s, computes %.0f GFLOPS in f32 and %.0f GOPS in int8", m->read_speed / 1e9, m->float_speed / 1e9,
                   m->vector_speed / 1e9);
    if (has_tiles(b)) cli_text_print(out, ", %.0f with AMX", m->integer_speed / 1e9);
    cli_text_puts(out, "\n\n");
}

static void add_speed(cli_text *out, const cli_bench *b) {
    const char *limit;
    fore_operator prompt = cli_bench_sum(&b->profiles[1]), token = cli_bench_sum(&b->profiles[0]);
    double prefill = cli_series_median(&b->prefill), one = cli_series_median(&b->token);
    double bytes = (double)token.weight_bytes / b->plan.decode, operations = prompt.float_operations + prompt.integer_operations;
    double least = cli_bench_least(&prompt, &b->machine, &limit);
    cli_text_print(out, "prefill   %5.1f %% of the roofline   %9.1f tok/s   %d tokens in %.3g s, %.0f GOPS", 100 * least / prefill, b->plan.prompt / prefill,
                   b->plan.prompt, prefill, operations / prefill / 1e9);
    if (prompt.integer_operations > prompt.float_operations) {
        cli_text_print(out, ", %.1f %% of the %sint8 peak", 100 * cli_bench_integer_share(b, &b->vector_speed), has_tiles(b) ? "vector " : "");
        if (has_tiles(b)) cli_text_print(out, " (VNNI), %.1f %% of the AMX peak", 100 * cli_bench_integer_share(b, &b->integer_speed));
    }
    cli_text_puts(out, "\n");
    cli_text_print(out, "decode    %5.1f %% of the read       %9.2f tok/s   %.3g ms a token (give or take %.2g), %.4g MB at %.1f GB/s\n",
                   100 * cli_bench_read_share(b), 1 / one, 1e3 * one, 1e3 * cli_series_spread(&b->token), bytes / 1e6, bytes / one / 1e9);
}

static void add_costs(cli_text *out, const cli_bench *b) {
    cli_text_puts(out, "verify   ");
    for (int i = 0; i < b->plan.width_count; i++) cli_text_print(out, " %5d", b->plan.widths[i]);
    cli_text_puts(out, "   rows a pass\n         ");
    for (int i = 0; i < b->plan.width_count; i++)
        cli_text_print(out, " %5.2f", cli_ratio(&b->pass[b->plan.widths[i]], &b->one[b->plan.widths[i]]));
    cli_text_print(out, "   x one row (%.3g ms)\n         ", 1e3 * cli_series_median(&b->pass[1]));
    for (int i = 0; i < b->plan.width_count; i++)
        cli_text_print(out, " %5.2f", cli_ratio(&b->commit[b->plan.widths[i]], &b->one[b->plan.widths[i]]));
    cli_text_puts(out, "   and to commit all of them\n");
    if (b->draft.count)
        cli_text_print(out, "draft     %5.2f x one row           %9.3g ms\n", cli_ratio(&b->draft, &b->draft_one), 1e3 * cli_series_median(&b->draft));
    for (int i = 0; i < b->plan.side_count; i++) {
        if (!b->vision[i].count) continue;
        char name[32];
        snprintf(name, sizeof name, "%dx%d", b->plan.sides[i], b->plan.sides[i]);
        cli_text_print(out, "vision    %-9s               %9.3g s       %.3g s until the first token\n", name, cli_series_median(&b->vision[i]),
                       cli_series_median(&b->whole[i]));
    }
    cli_text_print(out, "load      %5.2f x reading the files %9.3g s       until the first token (open %.3g s, read %.3g s)\n",
                   cli_ratio(&b->ready_warm, &b->read_warm), cli_series_median(&b->ready_warm), cli_series_median(&b->open_warm),
                   cli_series_median(&b->read_warm));
    if (b->ready_cold.count)
        cli_text_print(out, "          %5.2f x, not in the cache %9.3g s       until the first token (read %.3g s)\n",
                       cli_ratio(&b->ready_cold, &b->read_cold), cli_series_median(&b->ready_cold), cli_series_median(&b->read_cold));
    cli_text_print(out, "memory    %5.2f x the weights       %9.3g GB      at most, %.3g GB of it not mapped files; a session is planned at %.3g GB\n",
                   (double)b->peak_bytes / (double)b->info.weight_bytes, (double)b->peak_bytes / 1e9, (double)b->own_bytes / 1e9,
                   (double)b->memory.total / 1e9);
}

/* "   1.20 x"; as wide a gap when it is not known. */
static const char *times(double ratio, char out[16]) {
    if (ratio > 0) snprintf(out, 16, "%7.2f x", ratio);
    else snprintf(out, 16, "%9s", "");
    return out;
}

static void add_depths(cli_text *out, const cli_bench *b) {
    const cli_bench_plan *p = &b->plan;
    char name[12], value[16];
    if (p->depth_count < 2) return;
    cli_text_print(out, "\n%-9s %8s %9s", "drafts", "speed", "expected");
    if (p->accepts) cli_text_print(out, " %9s %9s", "at given", "expected");
    cli_text_print(out, " %9s   accepted\n", "tok/s");
    for (int i = 0; i < p->depth_count; i++) {
        const cli_bench_depth *d = &b->depths[i];
        cli_text_print(out, "%-9s %6.2f x %s", cli_bench_depth_name(d->depth, name), cli_series_median(&d->ratio), times(d->expected, value));
        if (p->accepts) {
            cli_text_print(out, " %s", times(cli_series_median(&d->at), value));
            cli_text_print(out, " %s", times(d->depth ? d->expected_at : 0, value));
        }
        cli_text_print(out, " %9.2f  ", 1 / cli_series_median(&d->seconds));
        for (int k = 0; k < d->accepted_count; k++) cli_text_print(out, " %.2f", d->accepted[k]);
        cli_text_puts(out, "\n");
    }
}

static void add_profile(cli_text *out, const cli_bench_profile *p, const fore_machine *m) {
    if (!p->steps || !(p->seconds > 0)) return;
    fore_operator all = cli_bench_sum(p);
    cli_text_print(out, "\n%-18s %9s %6s %9s %7s %7s %9s  limit\n", p->name, "ms", "share", "MB", "GB/s", "GOPS", "roofline");
    for (int i = 0; i <= p->count; i++) {
        const fore_operator *o = i < p->count ? &p->rows[i] : &all;
        const char *limit;
        double least = cli_bench_least(o, m, &limit), bytes = (double)(o->weight_bytes + o->state_bytes);
        double operations = o->float_operations + o->integer_operations, seconds = o->seconds > 0 ? o->seconds : 1e-9;
        char share[48] = "";
        if (*limit) snprintf(share, sizeof share, " %7.0f %%  %s", 100 * least / seconds, limit);
        char name[40];
        if (i < p->count) snprintf(name, sizeof name, "  %s", o->name);
        else snprintf(name, sizeof name, "  a %s", p->step);
        cli_text_print(out, "%-18s %9.3f %4.0f %% %9.2f %7.1f %7.1f%s\n", name, 1e3 * o->seconds / p->steps, 100 * o->seconds / p->seconds,
                       bytes / p->steps / 1e6, bytes / seconds / 1e9, operations / seconds / 1e9, share);
    }
}

static int print_table(const cli_bench *b) {
    cli_text out = {0};
    add_head(&out, b);
    add_speed(&out, b);
    add_costs(&out, b);
    add_depths(&out, b);
    for (int i = 0; i < 4; i++) add_profile(&out, &b->profiles[i], &b->machine);
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static int write_plot(const cli_bench *b, const char *path) {
    cli_text out = {0};
    cli_bench_plot(b, &out);
    FILE *f = fopen(path, "we");
    bool good = f && fwrite(out.data, 1, out.size, f) == out.size;
    if (f && fclose(f)) good = false;
    cli_text_free(&out);
    return good ? CLI_OK : cli_fail("%s: cannot write the picture", path);
}

static int run(const cli_options *options) {
    if (options->operand && options->model) return cli_fail_usage(options->verb, "--model and DIR exclude each other");
    cli_text dir = {0}, pack = {0};
    cli_bench *bench = cli_need(calloc(1, sizeof *bench));
    int code = make_plan(options, &bench->plan);
    if (code == CLI_OK) code = cli_find_model(options->operand ? options->operand : options->model, &dir);
    if (code == CLI_OK && options->pack) code = cli_pack_dir(options->pack, dir.data, &pack);
    if (code == CLI_OK) {
        cli_catch_interrupt(true);
        fore_model *model = NULL;
        fore_error err = {0};
        const fore_model_options how = {.isa = cli_isa(options), .no_mtp = options->no_mtp, .mmproj = options->mmproj, .pack_dir = pack.data};
        fore_status status = fore_model_open(dir.data, &how, &model, &err);
        code = status ? cli_fail_status(status, &err) : check_plan(options, &bench->plan, model);
        fore_model_close(model);
    }
    bench->dir = dir.data;
    bench->pack_dir = pack.data;
    if (code == CLI_OK) code = cli_bench_measure(bench, options);
    if (code == CLI_OK && options->plot) code = write_plot(bench, options->plot);
    if (code == CLI_OK && options->json) {
        cJSON *json = cli_bench_json(bench);
        code = cli_json_print(json);
        cJSON_Delete(json);
    } else if (code == CLI_OK) {
        code = print_table(bench);
    }
    cli_text_free(&dir);
    cli_text_free(&pack);
    free(bench);
    return code;
}

const cli_verb cli_bench_verb = {
    .name = "bench",
    .bit = CLI_BENCH,
    .operand = "DIR",
    .usage = "[flags] [DIR]",
    .summary = "measure a model on this machine",
    .about = "Measures loading, prefill, decoding, verifying, drafting, vision and memory of\n"
             "the checkpoint in DIR, beside what the machine can read and compute.\n",
    .run = run,
};
