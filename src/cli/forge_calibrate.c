/* foresight forge calibrate: how the draft head of a checkpoint wants to be fed, by trying. */
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/forge.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/pack.h"
#include "cli/progress.h"
#include "cli/prompts.h"
#include "cli/signals.h"

static const double HOPELESS = 0.05; /* share of first drafts that are right */

static void add_fields(cli_text *out, const fore_calibrate_report *r) {
    for (size_t i = 0; i < r->field_count; i++) {
        const fore_calibrate_field *f = &r->fields[i];
        cli_text_print(out, "%-9s %-19s %.60s", i ? "" : "contract", f->name, f->value);
        if (f->tried) cli_text_print(out, ", and %d other%s tried", f->tried, f->tried == 1 ? "" : "s");
        else if (f->why[0]) cli_text_print(out, ", not varied: %s", f->why);
        cli_text_puts(out, "\n");
    }
}

static void add_variants(cli_text *out, const fore_calibrate_report *r) {
    cli_text_puts(out, "\n");
    for (int d = 0; d < r->depth; d++) cli_text_print(out, "%s%6d", d ? "  " : "depth ", d + 1);
    cli_text_print(out, "  tokens a pass, to the present contract%*scontract\n", 3, "");
    for (size_t i = 0; i < r->count; i++) {
        const fore_calibrate_variant *v = &r->variants[i];
        for (int d = 0; d < r->depth; d++) cli_text_print(out, "%s%5.1f %%", d ? " " : "     ", 100 * v->accepted[d]);
        cli_text_print(out, "  %13.3f", v->tokens);
        if (i) cli_text_print(out, "  %+.3f (%+.3f to %+.3f) ", v->difference, v->low, v->high);
        else cli_text_print(out, "%27s", "");
        cli_text_print(out, "  %.400s%s\n", i ? v->contract : "the present one", i && i == r->best ? "  chosen" : "");
    }
}

static void add_verdict(cli_text *out, const cli_options *o, const fore_calibrate_report *r) {
    const fore_calibrate_variant *v = &r->variants[r->best];
    if (r->places < r->places_needed) {
        cli_text_print(out, "Too little to judge by: %zu places of at least %zu. ", r->places, r->places_needed);
        cli_text_puts(out, "Give more prompts (--prompts), or longer answers (--max-tokens). Nothing was tried or written.\n");
        return;
    }
    if (r->count == 1) {
        cli_text_puts(out, "\nNothing was left to vary (--all tries what the checkpoint's files state). Nothing was written.\n");
        return;
    }
    if (!r->best)
        cli_text_print(out, "\nAlready the best: of %zu other contracts none gives at least %.2f tokens a pass more, and that by more than chance\n"
                       "explains (%g %% for all of them together). Nothing was written.\n", r->count - 1, r->least, 100 * r->alpha);
    else
        cli_text_print(out, "\nBetter: %.400s\n%+.2f tokens a pass, by more than chance explains (%g %% for all %zu comparisons together);\n"
                       "the answers with its drafts are the same.\n", v->contract, v->difference, 100 * r->alpha, r->count - 1);
    if (v->accepted[0] < HOPELESS)
        cli_text_puts(out, "Drafts are hardly ever right, however the head is fed: it may belong to another model, or `forge check` may say more.\n");
    if (r->written) cli_text_print(out, "Written to %.900s, where every later start finds it; --reset removes it.\n", r->path);
    else if (r->best) cli_text_print(out, "Nothing was written%s.\n", o->dry_run ? " (--dry-run)" : "");
    if (!o->prompts && !o->images.count)
        cli_text_puts(out, "The prompts were built-in texts: your own prompts and pictures say more (--prompts, --image).\n");
}

static int print_report(const cli_options *o, const char *dir, const fore_calibrate_report *r) {
    cli_text out = {0};
    cli_text_print(&out, "%-9s %.900s\n%-9s %zu%s, %zu with pictures; %zu places in their answers, %d draft%s at each\n", "model", dir, "prompts",
                   r->prompts, o->prompts ? "" : o->images.count ? ", built-in texts among them" : " built-in texts", r->picture_prompts, r->places,
                   r->depth, r->depth == 1 ? "" : "s");
    add_fields(&out, r);
    if (r->count) add_variants(&out, r);
    add_verdict(&out, o, r);
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static void add_json_fields(cJSON *json, const fore_calibrate_report *r) {
    cJSON *fields = cli_need(cJSON_AddObjectToObject(json, "contract"));
    for (size_t i = 0; i < r->field_count; i++) {
        cJSON *f = cli_need(cJSON_AddObjectToObject(fields, r->fields[i].name));
        cli_json_string(f, "value", r->fields[i].value);
        cli_json_whole(f, "others_tried", (uint64_t)r->fields[i].tried);
        if (r->fields[i].why[0]) cli_json_string(f, "not_varied", r->fields[i].why);
    }
}

static int print_json(const cli_options *o, const char *dir, const fore_calibrate_report *r) {
    cJSON *json = cli_need(cJSON_CreateObject());
    cli_json_string(json, "model", dir);
    cli_json_whole(json, "prompts", r->prompts);
    cli_json_whole(json, "prompts_with_pictures", r->picture_prompts);
    cli_json_whole(json, "places", r->places);
    cli_json_whole(json, "places_needed", r->places_needed);
    cli_json_bool(json, "enough", r->places >= r->places_needed);
    cli_json_whole(json, "drafts", (uint64_t)r->depth);
    cli_json_number(json, "alpha", r->alpha);
    cli_json_number(json, "least_difference", r->least);
    add_json_fields(json, r);
    cJSON *variants = cli_need(cJSON_AddArrayToObject(json, "variants"));
    for (size_t i = 0; i < r->count; i++) {
        const fore_calibrate_variant *v = &r->variants[i];
        cJSON *item = cli_need(cJSON_CreateObject());
        cJSON_AddItemToArray(variants, item);
        cli_json_string(item, "contract", v->contract);
        cJSON *accepted = cli_need(cJSON_AddArrayToObject(item, "accepted"));
        for (int d = 0; d < r->depth; d++) cJSON_AddItemToArray(accepted, cli_need(cJSON_CreateNumber(v->accepted[d])));
        cli_json_number(item, "tokens_a_pass", v->tokens);
        cli_json_number(item, "difference", v->difference);
        cli_json_number(item, "low", v->low);
        cli_json_number(item, "high", v->high);
    }
    if (r->count) cli_json_whole(json, "best", r->best);
    cli_json_bool(json, "better", r->best > 0);
    cli_json_bool(json, "dry_run", o->dry_run);
    cli_json_bool(json, "written", r->written);
    if (r->written) cli_json_string(json, "path", r->path);
    int code = cli_json_print(json);
    cJSON_Delete(json);
    return code;
}

static int reset(const cli_options *o, const char *dir) {
    fore_error err = {0};
    bool there = false;
    fore_status status = fore_calibrate_reset(dir, o->dry_run, &there, &err);
    if (status) return cli_fail_status(status, &err);
    cli_text out = {0};
    if (o->json) {
        cJSON *json = cli_need(cJSON_CreateObject());
        cli_json_string(json, "model", dir);
        cli_json_bool(json, "was_calibrated", there);
        cli_json_bool(json, "removed", there && !o->dry_run);
        int code = cli_json_print(json);
        cJSON_Delete(json);
        return code;
    }
    cli_text_print(&out, "%.900s: %s\n", dir,
                   !there       ? "it was not calibrated; there is nothing to remove"
                   : o->dry_run ? "mtp_calibration.json would be removed"
                                : "mtp_calibration.json is removed; the head is fed as the checkpoint says");
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static int calibrate(const cli_options *o, const char *dir, const cli_prompts *prompts, const cli_pictures *pictures, const char *pack) {
    fore_calibrate_report *report = NULL;
    fore_error err = {0};
    cli_progress progress;
    cli_catch_interrupt(true);
    cli_progress_start(&progress, "calibrate");
    const fore_calibrate_options how = {
        .isa = cli_isa(o),
        .pack_dir = pack,
        .mmproj = o->mmproj,
        .threads = o->threads > 0 ? o->threads : 0,
        .requests = prompts->items,
        .request_count = prompts->count,
        .images = pictures->items,
        .image_count = pictures->count,
        .max_tokens = o->max_tokens > 0 ? o->max_tokens : 0,
        .depth = o->depth > 0 ? o->depth : 0,
        .all = o->all,
        .dry_run = o->dry_run,
        .progress = cli_progress_call,
        .user = &progress,
    };
    fore_status status = fore_calibrate(dir, &how, &report, &err);
    cli_progress_end(&progress);
    if (status) return cli_fail_status(status, &err);
    int code = (o->json ? print_json : print_report)(o, dir, report);
    if (code == CLI_OK && report->places < report->places_needed) code = CLI_FAILED;
    fore_calibrate_report_free(report);
    return code;
}

static int run(const cli_options *o) {
    if (o->operand && o->model) return cli_fail_usage(o->verb, "--model and DIR exclude each other");
    if (o->raw && !o->prompts) return cli_fail_usage(o->verb, "--raw is about the prompts of --prompts FILE");
    cli_text dir = {0}, pack = {0};
    cli_prompts prompts = {0};
    cli_pictures pictures = {0};
    int code = cli_find_model(o->operand ? o->operand : o->model, &dir);
    if (code == CLI_OK && o->reset) {
        code = reset(o, dir.data);
    } else {
        if (code == CLI_OK && o->prompts) code = cli_prompts_read(o->prompts, o->raw, &prompts);
        if (code == CLI_OK) code = cli_pictures_add_all(&pictures, &o->images);
        if (code == CLI_OK && o->pack) code = cli_pack_dir(o->pack, dir.data, &pack);
        if (code == CLI_OK) code = calibrate(o, dir.data, &prompts, &pictures, pack.data);
    }
    cli_prompts_free(&prompts);
    cli_pictures_cut(&pictures, 0);
    cli_text_free(&dir);
    cli_text_free(&pack);
    return code;
}

const cli_verb cli_forge_calibrate_verb = {
    .name = "forge calibrate",
    .bit = CLI_CALIBRATE,
    .operand = "DIR",
    .usage = "[flags] [DIR]",
    .summary = "find out how a draft head wants to be fed",
    .about = "Tries contracts of the draft head of the checkpoint in the folder DIR along its\n"
             "own answers, and keeps the best one in DIR/mtp_calibration.json, if it is\n"
             "better than the present one by more than chance. No answer changes by it.\n",
    .run = run,
};
