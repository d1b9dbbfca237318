/* foresight forge convert: a checkpoint in the project's own form from one in any form. */
#include <math.h>
#include <string.h>

#include "cli/files.h"
#include "cli/forge.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/quantized.h"
#include "cli/signals.h"

static int print_json(const cli_options *o, const fore_quantize_report *r) {
    cJSON *json = cli_need(cJSON_CreateObject());
    cli_json_string(json, "out", o->second);
    cli_json_bool(json, "dry_run", o->dry_run);
    cli_json_whole(json, "source_bytes", r->source_bytes);
    cli_json_whole(json, "bytes", r->bytes);
    cli_json_whole(json, "files", (uint64_t)r->files);
    cli_json_whole(json, "files_kept", (uint64_t)r->files_kept);
    cli_json_whole(json, "copied", r->copied);
    cli_json_whole(json, "quantized", r->quantized);
    cli_json_whole(json, "left", r->count - r->quantized - r->copied);
    cli_need(cJSON_AddNumberToObject(json, "mean_error", r->mean_error));
    cJSON *modules = cli_need(cJSON_AddArrayToObject(json, "modules"));
    for (size_t i = 0; i < r->count; i++) {
        const fore_quantized *m = &r->modules[i];
        cJSON *item = cli_need(cJSON_CreateObject());
        cJSON_AddItemToArray(modules, item);
        cli_json_string(item, "name", m->name);
        cli_json_string(item, "becomes", m->copied ? "copied" : m->bits ? "quantized" : "left");
        cli_json_whole(item, "bits", (uint64_t)m->bits);
        cli_json_whole(item, "group", (uint64_t)m->group);
        cli_need(cJSON_AddNumberToObject(item, "error", m->error));
        if (!m->bits) cli_json_string(item, "why", m->why);
    }
    int code = cli_json_print(json);
    cJSON_Delete(json);
    return code;
}

/* How many matrices become what, by bits and group. */
static void print_kinds(const fore_quantize_report *r) {
    for (int copied = 1; copied >= 0; copied--)
        for (int bits = 2; bits <= 8; bits++)
            for (int group = 16; group <= 128; group *= 2) {
                size_t count = 0;
                double weights = 0;
                for (size_t i = 0; i < r->count; i++) {
                    const fore_quantized *m = &r->modules[i];
                    if (m->bits != bits || m->group != group || m->copied != (copied == 1)) continue;
                    count++;
                    weights += (double)m->weights;
                }
                if (count)
                    printf("%8zu %s, %d bits, groups of %d: %.1f M weights\n", count, copied ? "copied exactly" : "quantised", bits, group,
                           weights / 1e6);
            }
    size_t left = r->count - r->quantized - r->copied;
    if (left) printf("%8zu in floats\n", left);
}

static int print_report(const cli_options *o, const fore_quantize_report *r, double seconds) {
    if (o->verbose && !o->dry_run) cli_quantized_print_each(r);
    for (size_t i = 0; o->verbose && o->dry_run && i < r->count; i++) {
        const fore_quantized *m = &r->modules[i];
        if (m->bits) printf("%s %d bits, groups of %-3d  %s\n", m->copied ? "exact     " : "quantised ", m->bits, m->group, m->name);
        else printf("in floats                      %s: %s\n", m->name, m->why);
    }
    printf("%s: %s%.3f GB from %.3f GB, %d %s", o->second, o->dry_run ? "would have " : "", (double)r->bytes / 1e9, (double)r->source_bytes / 1e9,
           r->files, r->files == 1 ? "file" : "files");
    if (r->files_kept) printf(" (%d finished before)", r->files_kept);
    if (o->dry_run) printf("\n");
    else printf(", %.0f s\n", seconds);
    print_kinds(r);
    if (!o->dry_run) cli_quantized_print_errors(r);
    return cli_print("", 0);
}

static int check_usage(const cli_options *o) {
    if (!o->operand) return cli_fail_usage(o->verb, "SOURCE and OUT are missing: the checkpoint, or GGUF file, and the folder to make");
    if (!o->second) return cli_fail_usage(o->verb, "OUT is missing: the folder to make");
    if (o->exact && (o->bits >= 0 || o->head_bits >= 0 || o->mtp_bits >= 0 || o->vision_bits >= 0))
        return cli_fail_usage(o->verb, "--exact changes no weight: a number of bits makes no sense with it");
    return CLI_OK;
}

static int run(const cli_options *o) {
    fore_quantize_report *report = NULL;
    fore_error err = {0};
    cli_text source = {0};
    int code = check_usage(o);
    if (code == CLI_OK) code = cli_find_operand(o->operand, &source);
    if (code == CLI_OK) {
        fore_convert_options how;
        cli_progress progress;
        fore_convert_options_init(&how);
        how.quantize = cli_quantized_options(o);
        how.exact = o->exact;
        how.dry_run = o->dry_run;
        how.mmproj = o->mmproj;
        how.quantize.progress = cli_progress_call;
        how.quantize.user = &progress;
        cli_catch_interrupt(true);
        cli_progress_start(&progress, "convert");
        fore_status status = fore_convert(source.data, o->second, &how, &report, &err);
        double seconds = cli_seconds() - progress.started;
        cli_progress_end(&progress);
        if (status == FORE_ERR_CANCELLED)
            fprintf(stderr, "foresight: stopped; the same command goes on with %s where it was\n", o->second);
        if (status) code = cli_fail_status(status, &err);
        else code = o->json ? print_json(o, report) : print_report(o, report, seconds);
    }
    fore_quantize_report_free(report);
    cli_text_free(&source);
    return code;
}

const cli_verb cli_forge_convert_verb = {
    .name = "forge convert",
    .bit = CLI_CONVERT,
    .operand = "SOURCE",
    .second = "OUT",
    .usage = "SOURCE OUT [flags]",
    .summary = "any form that opens to the quantised one",
    .about = "Makes the quantised checkpoint OUT of the folder or GGUF file SOURCE. Without\n"
             "--bits integers stay what they are; what is in floats or FP8 gets 4 bits. An\n"
             "interrupted run is gone on with by the same command.\n",
    .run = run,
};
