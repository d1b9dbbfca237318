/* foresight forge check: whether a checkpoint is sound, with a verdict and an exit code. */
#include <inttypes.h>
#include <string.h>

#include "cli/files.h"
#include "cli/forge.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/signals.h"

static const char *const levels[] = {"fine", "remark", "problem"};

static void add_shape(cli_text *out, const fore_check_tensor *t) {
    cli_text_puts(out, "[");
    for (int d = 0; d < t->dims; d++) cli_text_print(out, "%s%" PRIu64, d ? "," : "", t->shape[d]);
    cli_text_puts(out, "]");
}

static void add_tensor(cli_text *out, const fore_check_tensor *t) {
    cli_text_print(out, "%-8s ", t->dtype);
    add_shape(out, t);
    cli_text_puts(out, "  ");
    cli_text_add_printable(out, t->name, strlen(t->name));
    if (t->nan + t->infinite) cli_text_print(out, "  %" PRIu64 " NaN, %" PRIu64 " infinite", t->nan, t->infinite);
    if (t->zero) cli_text_puts(out, "  all zero");
    cli_text_puts(out, "\n");
}

static void add_verdict(cli_text *out, const char *dir, const fore_check_report *r) {
    if (r->sound) cli_text_print(out, "%.900s: sound", dir);
    else cli_text_print(out, "%.900s: not sound, %zu problem%s", dir, r->problems, r->problems == 1 ? "" : "s");
    if (r->remarks) cli_text_print(out, ", %zu remark%s", r->remarks, r->remarks == 1 ? "" : "s");
    cli_text_puts(out, "\n");
}

static int print_report(const cli_options *o, const char *dir, const fore_check_report *r) {
    cli_text out = {0};
    for (size_t i = 0; i < r->tensor_count && o->verbose; i++) add_tensor(&out, &r->tensors[i]);
    for (size_t i = 0; i < r->finding_count; i++) {
        const fore_check_finding *f = &r->findings[i];
        cli_text_print(&out, "%-11s %s", f->topic, f->level == FORE_CHECK_FINE ? "" : f->level == FORE_CHECK_REMARK ? "remark: " : "PROBLEM: ");
        cli_text_add_printable(&out, f->text, strlen(f->text));
        cli_text_puts(&out, "\n");
    }
    if (r->answer[0]) {
        cli_text_print(&out, "%-11s to \"%s\": ", "", r->prompt);
        cli_text_add_printable(&out, r->answer, strlen(r->answer));
        cli_text_puts(&out, "\n");
    }
    add_verdict(&out, dir, r);
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static int print_json(const char *dir, const fore_check_report *r) {
    cJSON *json = cli_need(cJSON_CreateObject());
    cli_json_bool(json, "sound", r->sound);
    cli_json_string(json, "model", dir);
    cli_json_whole(json, "problems", r->problems);
    cli_json_whole(json, "remarks", r->remarks);
    cJSON *findings = cli_need(cJSON_AddArrayToObject(json, "findings"));
    for (size_t i = 0; i < r->finding_count; i++) {
        cJSON *f = cli_need(cJSON_CreateObject());
        cJSON_AddItemToArray(findings, f);
        cli_json_string(f, "level", levels[r->findings[i].level]);
        cli_json_string(f, "topic", r->findings[i].topic);
        cli_json_string(f, "text", r->findings[i].text);
    }
    cJSON *tensors = cli_need(cJSON_AddArrayToObject(json, "tensors"));
    for (size_t i = 0; i < r->tensor_count; i++) {
        const fore_check_tensor *t = &r->tensors[i];
        cJSON *item = cli_need(cJSON_CreateObject());
        cJSON_AddItemToArray(tensors, item);
        cli_json_string(item, "name", t->name);
        cli_json_string(item, "dtype", t->dtype);
        cJSON *shape = cli_need(cJSON_AddArrayToObject(item, "shape"));
        for (int d = 0; d < t->dims; d++) cJSON_AddItemToArray(shape, cli_need(cJSON_CreateNumber((double)t->shape[d])));
        cli_json_string(item, "file", t->file);
        cli_json_whole(item, "nan", t->nan);
        cli_json_whole(item, "infinite", t->infinite);
        cli_json_bool(item, "zero", t->zero);
    }
    cli_json_whole(json, "bytes", r->bytes);
    cli_json_string(json, "prompt", r->prompt);
    cli_json_string(json, "answer", r->answer);
    int code = cli_json_print(json);
    cJSON_Delete(json);
    return code;
}

static int run(const cli_options *o) {
    if (o->operand && o->model) return cli_fail_usage(o->verb, "--model and DIR exclude each other");
    cli_text dir = {0};
    int code = cli_find_model(o->operand ? o->operand : o->model, &dir);
    if (code == CLI_OK) {
        fore_check_report *report = NULL;
        fore_error err = {0};
        cli_progress progress;
        cli_catch_interrupt(true);
        cli_progress_start(&progress, "check");
        const fore_check_options how = {
            .isa = cli_isa(o), .threads = o->threads > 0 ? o->threads : 0, .mmproj = o->mmproj, .progress = cli_progress_call, .user = &progress};
        fore_status status = fore_check(dir.data, &how, &report, &err);
        cli_progress_end(&progress);
        if (status) code = cli_fail_status(status, &err);
        else code = o->json ? print_json(dir.data, report) : print_report(o, dir.data, report);
        if (code == CLI_OK && !report->sound) code = CLI_FAILED;
        fore_check_report_free(report);
    }
    cli_text_free(&dir);
    return code;
}

const cli_verb cli_forge_check_verb = {
    .name = "forge check",
    .bit = CLI_CHECK,
    .operand = "DIR",
    .usage = "[flags] [DIR]",
    .summary = "say whether a checkpoint is sound",
    .about = "Reads every number of the checkpoint in the folder DIR, opens it and lets it\n"
             "answer. The last line is the verdict; exit 0: sound, 1: not.\n",
    .run = run,
};
