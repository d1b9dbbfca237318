/* Problems and remarks of a model that was opened for looking at; see findings.h. */
#include "cli/findings.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN = 4, NAME = 200 };

/* OWNER/NAME of a snapshot in the hub's cache (.../models--OWNER--NAME/snapshots/...); false: it is none. */
static bool hub_name(const char *dir, char out[NAME]) {
    const char *at = strstr(dir, "models--"), *end = at ? strstr(at, "/snapshots/") : NULL;
    if (!end) return false;
    at += strlen("models--");
    const char *cut = strstr(at, "--");
    if (!cut || cut > end || end - at >= NAME - 1) return false;
    snprintf(out, NAME, "%.*s/%.*s", (int)(cut - at), at, (int)(end - cut - 2), cut + 2);
    return true;
}

/* How to get files; `what` names one, or a kind of them. */
static void advise_fetch(cli_text *out, const char *dir, const char *what, const char *pattern) {
    char name[NAME];
    if (hub_name(dir, name) && pattern) cli_text_print(out, "foresight pull %s --include '%s' fetches %s", name, pattern, what);
    else if (hub_name(dir, name)) cli_text_print(out, "foresight pull %s fetches %s", name, what);
    else cli_text_print(out, "fetch %s from where the checkpoint is from, for example with foresight pull OWNER/NAME", what);
}

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

static bool is_vision(const char *name) { return has(name, "visual.") || has(name, "vision_tower."); }
static bool is_draft(const char *name) { return strncmp(name, "mtp.", 4) == 0 || has(name, ".mtp."); }

static bool all_missing(const cli_problem *p, bool (*is)(const char *name)) {
    for (size_t i = 0; i < p->missing_count; i++)
        if (!is(p->missing[i])) return false;
    return p->missing_count > 0;
}

static void advise(cli_problem *p, const char *dir, bool files_wrong) {
    cli_text *out = &p->advice;
    bool gguf = p->missing_count && has(p->missing[0], ".gguf");
    if (!strcmp(p->topic, "files") && p->missing_count == 1) advise_fetch(out, dir, p->missing[0], gguf ? p->missing[0] : NULL);
    else if (!strcmp(p->topic, "files") && p->missing_count) advise_fetch(out, dir, "these files", NULL);
    else if (!strcmp(p->topic, "files")) cli_text_puts(out, "the file is damaged or cut short: remove it and fetch it again");
    else if (!strcmp(p->topic, "config") && has(cli_text_string(&p->text), "not supported"))
        cli_text_puts(out, "take the checkpoint of a supported model, or this one in a supported form");
    else if (!strcmp(p->topic, "config")) advise_fetch(out, dir, "config.json of a supported model", "config.json");
    else if (!strcmp(p->topic, "draft head") || all_missing(p, is_draft))
        cli_text_print(out, "--no-mtp opens the model without its draft head; foresight forge mtp attach FILE %.500s gives it a whole one", dir);
    else if (!strcmp(p->topic, "vision") || all_missing(p, is_vision))
        cli_text_print(out, "foresight forge graft --from SOURCE --into %.500s gives it the tower of the model that it was made of", dir);
    else if (!strcmp(p->topic, "tensors") && files_wrong) cli_text_puts(out, "they may lie in the files above");
    else if (!strcmp(p->topic, "tensors") && p->missing_count)
        cli_text_puts(out, "the checkpoint is incomplete or of another layout: fetch it again, or take the one that it was made of");
    else if (!strcmp(p->topic, "tensors")) cli_text_puts(out, "config.json and the weights are not of one model, or a form is not supported");
    else if (!strcmp(p->topic, "tokenizer")) advise_fetch(out, dir, "tokenizer.json and tokenizer_config.json", NULL);
    else if (!strcmp(p->topic, "template")) advise_fetch(out, dir, "chat_template.jinja or tokenizer_config.json", NULL);
    else if (!strcmp(p->topic, "pictures")) advise_fetch(out, dir, "preprocessor_config.json and video_preprocessor_config.json", NULL);
    else if (!strcmp(p->topic, "settings")) advise_fetch(out, dir, "generation_config.json", NULL);
    else cli_text_puts(out, "the message says what would do");
}

/* Several missing files or tensors become one problem. */
static cli_problem *find_group(cli_findings *f, const fore_problem *p) {
    for (size_t i = 0; i < f->problem_count && p->missing[0]; i++)
        if (!strcmp(f->problems[i].topic, p->topic) && f->problems[i].missing_count) return &f->problems[i];
    f->problems = cli_need(realloc(f->problems, (f->problem_count + 1) * sizeof *f->problems));
    cli_problem *fresh = &f->problems[f->problem_count++];
    *fresh = (cli_problem){.topic = p->topic};
    cli_text_add_printable(&fresh->text, p->text, strlen(p->text));
    return fresh;
}

static void add_missing(cli_problem *p, const char *name) {
    for (size_t i = p->missing_count > 64 ? p->missing_count - 64 : 0; i < p->missing_count; i++)
        if (!strcmp(p->missing[i], name)) return; /* an index and the model may both miss it */
    if ((p->missing_count & (p->missing_count - 1)) == 0)
        p->missing = cli_need(realloc(p->missing, (p->missing_count ? 2 * p->missing_count : 1) * sizeof *p->missing));
    p->missing[p->missing_count++] = name;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void finish(cli_problem *p, bool files_wrong, const char *dir) {
    if (p->missing_count > 1) {
        size_t kept = 1;
        qsort(p->missing, p->missing_count, sizeof *p->missing, compare_names);
        for (size_t i = 1; i < p->missing_count; i++)
            if (strcmp(p->missing[i], p->missing[kept - 1])) p->missing[kept++] = p->missing[i];
        p->missing_count = kept;
    }
    if (p->missing_count > 1) {
        cli_text_free(&p->text);
        cli_text_print(&p->text, "%zu %s are missing:", p->missing_count, p->topic);
        for (size_t i = 0; i < p->missing_count && i < SHOWN; i++) {
            cli_text_puts(&p->text, i ? ", " : " ");
            cli_text_add_printable(&p->text, p->missing[i], strlen(p->missing[i]));
        }
        if (p->missing_count > SHOWN) cli_text_puts(&p->text, ", ...");
    }
    advise(p, dir, files_wrong);
}

static bool has_topic(const cli_findings *f, const char *topic) {
    for (size_t i = 0; i < f->problem_count; i++)
        if (!strcmp(f->problems[i].topic, topic)) return true;
    return false;
}

static cli_text *remark(cli_findings *f, const char *text) {
    cli_text *out = &f->remarks[f->remark_count++];
    cli_text_puts(out, text);
    return out;
}

static void find_remarks(const fore_model_info *info, const char *dir, bool no_mtp, bool files_wrong, cli_findings *f) {
    if (!info->configured) return;
    if (!info->has_tokenizer && !has_topic(f, "tokenizer")) {
        cli_text *r = remark(f, "no tokenizer.json: only `logits --ids` and `verify` will work; ");
        if (info->gguf) cli_text_puts(r, "take a GGUF file with tokenizer.ggml.tokens");
        else advise_fetch(r, dir, "it", "tokenizer*");
    }
    if (!info->has_template && !has_topic(f, "template")) {
        cli_text *r = remark(f, "no chat template: `run` will need --raw; ");
        if (info->gguf) cli_text_puts(r, "take a GGUF file with tokenizer.chat_template");
        else advise_fetch(r, dir, "chat_template.jinja or tokenizer_config.json", "chat_template.jinja");
    }
    if (info->vision_declared && !info->has_vision && !files_wrong)
        cli_text_print(remark(f, ""), "the vision tower that config.json declares is not in the files, so that no picture can be seen; foresight forge "
                       "graft --from SOURCE --into %.500s gives it the tower of the model that it was made of", dir);
    if (info->gguf && !info->has_vision && (has(info->model_type, "_text") || has(info->model_type, "_vl")))
        remark(f, "text alone: the vision tower of such a model is in an mmproj file, to be put into its folder or given with --mmproj");
    if (info->has_vision && !info->has_processor && !has_topic(f, "pictures"))
        advise_fetch(remark(f, "no preprocessor_config.json: pictures are cut as the published models want it; "), dir, "it", "*preprocessor_config.json");
    if (info->mtp_declared && !info->mtp_attached && !no_mtp && !files_wrong && !f->problem_count)
        cli_text_print(remark(f, ""), "warning: the declared MTP head is off, so drafts come from look-ups alone; foresight forge mtp attach FILE %.500s "
                       "gives the model one", dir);
    if (!info->mtp_declared && info->mtp_tensors)
        remark(f, "the files have tensors of an MTP head that the config does not declare (mtp_num_hidden_layers)");
}

void cli_find_findings(const fore_model *model, const fore_model_info *info, const char *dir, bool no_mtp, cli_findings *out) {
    fore_problem p;
    bool files_wrong = false;
    *out = (cli_findings){0};
    for (int i = 0; fore_model_get_problem(model, i, &p); i++) {
        cli_problem *group = find_group(out, &p);
        if (p.missing[0]) add_missing(group, p.missing);
        files_wrong = files_wrong || !strcmp(p.topic, "files");
    }
    for (size_t i = 0; i < out->problem_count; i++) finish(&out->problems[i], files_wrong, dir);
    find_remarks(info, dir, no_mtp, files_wrong, out);
}

void cli_findings_free(cli_findings *f) {
    for (size_t i = 0; i < f->problem_count; i++) {
        cli_text_free(&f->problems[i].text);
        cli_text_free(&f->problems[i].advice);
        free(f->problems[i].missing);
    }
    free(f->problems);
    for (int i = 0; i < f->remark_count; i++) cli_text_free(&f->remarks[i]);
    *f = (cli_findings){0};
}
