/* foresight forge graft: a vision tower for a conversion that dropped it. */
#include <inttypes.h>

#include "cli/files.h"
#include "cli/forge.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/signals.h"

static int print_json(const cli_options *o, const fore_graft_report *r) {
    cJSON *json = cli_need(cJSON_CreateObject());
    cli_json_string(json, "from", o->from);
    cli_json_string(json, "into", o->into);
    cli_json_bool(json, "already", r->already);
    cli_json_bool(json, "dry_run", o->dry_run);
    cli_json_whole(json, "tensors", r->tensors);
    cli_json_whole(json, "bytes", r->bytes);
    cli_json_whole(json, "parameters", r->parameters);
    cJSON *files = cli_need(cJSON_AddArrayToObject(json, "files"));
    for (int i = 0; i < r->file_count; i++) cJSON_AddItemToArray(files, cli_need(cJSON_CreateString(r->files[i])));
    int code = cli_json_print(json);
    cJSON_Delete(json);
    return code;
}

static int print_report(const cli_options *o, const fore_graft_report *r) {
    if (r->already) {
        printf("%s: it has a whole vision tower; nothing was touched\n", o->into);
        return cli_print("", 0);
    }
    printf("%s: %s%" PRIu64 " tensors, %.1f MB, %" PRIu64 " parameters of a vision tower\n", o->into, o->dry_run ? "would get " : "", r->tensors,
           (double)r->bytes / 1e6, r->parameters);
    printf("%s:", o->dry_run ? "to be written" : "written");
    for (int i = 0; i < r->file_count; i++) printf("%s %s", i ? "," : "", r->files[i]);
    if (!o->dry_run) printf("\nthe tower opens: foresight run --model %s --image FILE", o->into);
    return cli_print("\n", 1);
}

static int run(const cli_options *o) {
    if (!o->from) return cli_fail_usage(o->verb, "--from is missing: the folder of the checkpoint with the tower");
    if (!o->into) return cli_fail_usage(o->verb, "--into is missing: the folder of the checkpoint that gets it");
    fore_error err = {0};
    fore_graft_report report;
    cli_progress progress;
    cli_catch_interrupt(true);
    cli_progress_start(&progress, "graft");
    const fore_graft_options how = {.dry_run = o->dry_run, .progress = cli_progress_call, .user = &progress};
    fore_status status = fore_graft(o->from, o->into, &how, &report, &err);
    cli_progress_end(&progress);
    if (status == FORE_ERR_CANCELLED)
        fprintf(stderr, "foresight: stopped; %s opens as before, and the same command goes on\n", o->into);
    if (status) return cli_fail_status(status, &err);
    return o->json ? print_json(o, &report) : print_report(o, &report);
}

const cli_verb cli_forge_graft_verb = {
    .name = "forge graft",
    .bit = CLI_GRAFT,
    .usage = "--from SOURCE --into MODEL [--dry-run]",
    .summary = "give a checkpoint the vision tower that it lost",
    .about = "Copies the vision tower of the checkpoint SOURCE into the checkpoint MODEL,\n"
             "which is text alone. MODEL opens as before until the last file is in its\n"
             "place; after an interruption the same command goes on.\n",
    .run = run,
};
