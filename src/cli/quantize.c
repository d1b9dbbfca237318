/* foresight quantize: a checkpoint of 4- or 8-bit weights from one of 16-bit weights. */
#include <string.h>
#include <sys/stat.h>

#include "cli/divergence.h"
#include "cli/files.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/quantized.h"
#include "cli/signals.h"

static int check_usage(const cli_options *o) {
    struct stat status;
    if (!o->operand) return cli_fail_usage(o->verb, "SOURCE and OUT are missing: the checkpoint's folder and the one to make");
    if (!o->second) return cli_fail_usage(o->verb, "OUT is missing: the folder to make");
    if (o->bits < 0) return cli_fail_usage(o->verb, "how many bits? --bits 4 or --bits 8 is missing");
    /* Said before the work rather than after. */
    if (o->check && strcmp(o->check, "-") && stat(o->check, &status)) return cli_fail("%s: there is no such file", o->check);
    return CLI_OK;
}

static void print_report(const cli_options *o, const fore_quantize_report *r, double seconds) {
    if (o->verbose) cli_quantized_print_each(r);
    printf("%s: %.3f GB from %.3f GB, %d %s", o->second, (double)r->bytes / 1e9, (double)r->source_bytes / 1e9, r->files,
           r->files == 1 ? "file" : "files");
    if (r->files_kept) printf(" (%d finished before)", r->files_kept);
    printf(", %.0f s\n%zu matrices quantised, %zu left as they were\n", seconds, r->quantized, r->count - r->quantized);
    cli_quantized_print_errors(r);
}

static void print_check(const cli_options *o, const cli_divergence *d) {
    printf("logits against the source, over %llu tokens of %s (windows of %d):\n"
           "KL divergence %.6f nats in the mean, %.6f at most; the same likeliest token in %.2f %%\n",
           (unsigned long long)d->tokens, o->check, d->window, d->mean, d->max, 100 * d->agreement);
}

static int print_json(const cli_options *o, const fore_quantize_report *r, const cli_divergence *d) {
    cJSON *json = cli_need(cJSON_CreateObject());
    cli_json_string(json, "out", o->second);
    cli_json_whole(json, "source_bytes", r->source_bytes);
    cli_json_whole(json, "bytes", r->bytes);
    cli_json_whole(json, "files", (uint64_t)r->files);
    cli_json_whole(json, "files_kept", (uint64_t)r->files_kept);
    cli_json_whole(json, "quantized", r->quantized);
    cli_json_whole(json, "left", r->count - r->quantized);
    cli_need(cJSON_AddNumberToObject(json, "mean_error", r->mean_error));
    if (o->check) {
        cJSON *check = cli_need(cJSON_AddObjectToObject(json, "check"));
        cli_json_whole(check, "tokens", d->tokens);
        cli_json_whole(check, "window", (uint64_t)d->window);
        cli_need(cJSON_AddNumberToObject(check, "kl_mean", d->mean));
        cli_need(cJSON_AddNumberToObject(check, "kl_max", d->max));
        cli_need(cJSON_AddNumberToObject(check, "top1_agreement", d->agreement));
    }
    int code = cli_json_print(json);
    cJSON_Delete(json);
    return code;
}

static int make(const cli_options *o, const char *source, fore_quantize_report **report, double *seconds) {
    fore_quantize_options how = cli_quantized_options(o);
    fore_error err = {0};
    cli_progress progress;
    cli_progress_start(&progress, "quantize");
    how.progress = cli_progress_call;
    how.user = &progress;
    fore_status status = fore_quantize(source, o->second, &how, report, &err);
    *seconds = cli_seconds() - progress.started;
    cli_progress_end(&progress);
    if (status == FORE_ERR_CANCELLED)
        fprintf(stderr, "foresight: stopped; the same command goes on with %s where it was\n", o->second);
    return status ? cli_fail_status(status, &err) : CLI_OK;
}

static int run(const cli_options *o) {
    fore_quantize_report *report = NULL;
    cli_divergence divergence = {0};
    double seconds = 0;
    cli_text source = {0};
    int code = check_usage(o);
    if (code == CLI_OK) code = cli_find_operand(o->operand, &source);
    if (code == CLI_OK) {
        cli_catch_interrupt(true);
        code = make(o, source.data, &report, &seconds);
    }
    if (code == CLI_OK && !o->json) print_report(o, report, seconds);
    if (code == CLI_OK && o->check) {
        fflush(stdout); /* what is done is said, whatever becomes of the comparison */
        code = cli_diverge(o, source.data, o->second, o->check, &divergence);
        if (code == CLI_OK && !o->json) print_check(o, &divergence);
    }
    if (code == CLI_OK) code = o->json ? print_json(o, report, &divergence) : cli_print("", 0);
    fore_quantize_report_free(report);
    cli_text_free(&source);
    return code;
}

const cli_verb cli_quantize_verb = {
    .name = "quantize",
    .bit = CLI_QUANTIZE,
    .operand = "SOURCE",
    .second = "OUT",
    .usage = "SOURCE OUT --bits 4|8 [flags]",
    .summary = "make a checkpoint of 4- or 8-bit weights",
    .about = "Reads the checkpoint in the folder SOURCE and writes a smaller one to the folder\n"
             "OUT. An interrupted run is gone on with by the same command.\n",
    .run = run,
};
