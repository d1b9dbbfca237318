/* foresight forge mtp: the draft head of a checkpoint, in a file of its own and out of it, its norms, and whether it works. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/forge.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/signals.h"

static int print_json(const char *name, const fore_head_report *r, bool dry_run) {
    cJSON *json = cli_need(cJSON_CreateObject());
    cli_json_string(json, "head", name);
    cli_json_bool(json, "already", r->already);
    cli_json_bool(json, "dry_run", dry_run);
    cli_json_whole(json, "tensors", r->tensors);
    cli_json_whole(json, "bytes", r->bytes);
    cli_json_whole(json, "layers", (uint64_t)r->layers);
    cli_json_whole(json, "changed_norms", (uint64_t)r->changed);
    cli_json_string(json, "norms", r->note);
    cJSON *files = cli_need(cJSON_AddArrayToObject(json, "files"));
    for (int i = 0; i < r->file_count; i++) cJSON_AddItemToArray(files, cli_need(cJSON_CreateString(r->files[i])));
    int code = cli_json_print(json);
    cJSON_Delete(json);
    return code;
}

static void add_files(cli_text *out, const char *verb, const fore_head_report *r) {
    cli_text_puts(out, verb);
    for (int i = 0; i < r->file_count; i++) cli_text_print(out, "%s %.900s", i ? "," : "", r->files[i]);
    cli_text_puts(out, "\n");
}

static int print_report(const char *name, const fore_head_report *r) {
    cli_text out = {0};
    cli_text_print(&out, "%.900s: a draft head of %d layer%s, %" PRIu64 " tensors, %.1f MB\n", name, r->layers, r->layers == 1 ? "" : "s", r->tensors,
                   (double)r->bytes / 1e6);
    if (r->already) cli_text_puts(&out, "it is there already; nothing was touched\n");
    else add_files(&out, "written:", r);
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static int run_extract(const cli_options *o) {
    fore_error err = {0};
    fore_head_report r;
    if (!o->operand || !o->second) return cli_fail_usage(o->verb, "DIR or FILE is missing: the checkpoint's folder and the file to make");
    fore_status s = fore_head_extract(o->operand, o->second, &r, &err);
    if (s) return cli_fail_status(s, &err);
    return o->json ? print_json(o->second, &r, false) : print_report(o->second, &r);
}

static int run_attach(const cli_options *o) {
    fore_error err = {0};
    fore_head_report r;
    if (!o->operand || !o->second) return cli_fail_usage(o->verb, "FILE or DIR is missing: the head's file and the checkpoint's folder");
    fore_status s = fore_head_attach(o->operand, o->second, &r, &err);
    if (s) return cli_fail_status(s, &err);
    return o->json ? print_json(o->second, &r, false) : print_report(o->second, &r);
}

static int run_heal(const cli_options *o) {
    fore_error err = {0};
    fore_head_report r;
    if (!o->operand) return cli_fail_usage(o->verb, "DIR is missing: the checkpoint's folder");
    fore_status s = fore_head_heal(o->operand, o->dry_run, &r, &err);
    if (s) return cli_fail_status(s, &err);
    if (o->json) return print_json(o->operand, &r, o->dry_run);
    cli_text out = {0};
    cli_text_print(&out, "norms of the draft head: %s\n", r.note);
    if (r.already) cli_text_puts(&out, "they are of one encoding; nothing was touched\n");
    else if (r.changed) cli_text_print(&out, "%d norms %s gain - 1\n", r.changed, o->dry_run ? "would become" : "became");
    if (!r.already) add_files(&out, o->dry_run ? "to be written:" : "written:", &r);
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

/* ---- verify ------------------------------------------------------------------------------------------------------ */

typedef struct trial {
    cli_text text;
    fore_stats stats;
} trial;

static int answer(const cli_model *m, const cli_options *o, int depth, trial *out) {
    fore_request r;
    fore_error err = {0};
    cli_text data = {0};
    fore_image image = {0};
    int code = CLI_OK;
    fore_request_init(&r, m->model);
    r.sampling.temperature = 0;
    r.max_tokens = 64;
    r.draft.depth = depth;
    r.draft.lookup = FORE_LOOKUP_OFF;
    if (o->images.count) {
        r.messages = "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"Describe the picture.\"}]}]";
        code = cli_read(o->images.items[0], (size_t)64 << 20, &data);
        image = (fore_image){.data = data.data, .size = data.size, .name = o->images.items[0]};
        r.images = &image;
        r.image_count = 1;
    } else if (fore_model_template(m->model)) {
        r.messages = "[{\"role\":\"user\",\"content\":\"Count from one to twenty in words.\"}]";
    } else {
        r.prompt = "One, two, three, four, five,";
    }
    fore_status s = code ? FORE_OK : fore_session_begin(m->session, &r, &err);
    for (fore_chunk c = {0}; !code && !s && c.finish == FORE_FINISH_NONE;) {
        s = fore_session_next(m->session, &c, &err);
        if (!s) cli_text_add(&out->text, c.text, c.size);
    }
    fore_session_get_stats(m->session, &out->stats);
    cli_text_free(&data);
    return s ? cli_fail_status(s, &err) : code;
}

static int print_trial(const cli_options *o, const cli_model *m, const fore_model_info *info, const trial *plain, const trial *drafted, bool same) {
    const fore_source_stats *h = &drafted->stats.head;
    if (o->json) {
        cJSON *json = cli_need(cJSON_CreateObject());
        cli_json_bool(json, "works", same);
        cli_json_string(json, "model", m->dir.data);
        cli_json_string(json, "source", info->mtp_source);
        cli_json_whole(json, "tensors", (uint64_t)info->mtp_tensors);
        cli_json_whole(json, "drafted", h->drafted);
        cli_json_whole(json, "accepted", h->accepted);
        cli_json_string(json, "answer", cli_text_string(&plain->text));
        int code = cli_json_print(json);
        cJSON_Delete(json);
        return code;
    }
    cli_text out = {0};
    cli_text_print(&out, "%.300s: %d layer%s, %d tensors, from %.500s\n", m->dir.data, info->mtp_layers, info->mtp_layers == 1 ? "" : "s", info->mtp_tensors,
                   info->mtp_source);
    cli_text_print(&out, "%" PRIu64 " of %" PRIu64 " drafts were right; the answer with them is %s\n", h->accepted, h->drafted, same ? "the same" : "ANOTHER ONE");
    int code = cli_print(out.data, out.size);
    cli_text_free(&out);
    return code;
}

static int run_verify(const cli_options *o) {
    if (o->operand && o->model) return cli_fail_usage(o->verb, "--model and DIR exclude each other");
    cli_options same = *o;
    if (o->operand) same.model = o->operand;
    cli_model m;
    fore_model_info info;
    trial plain = {0}, drafted = {0};
    int code = cli_model_open(&same, &m);
    if (code == CLI_OK) {
        fore_model_get_info(m.model, &info);
        if (!info.mtp_attached) code = cli_fail("%s: the draft head does not work: %s", m.dir.data, info.mtp_note);
        else if (!info.has_tokenizer) code = cli_fail("%s: no tokenizer.json, so there is nothing to try it with", m.dir.data);
    }
    if (code == CLI_OK) code = cli_model_session(&same, &m);
    if (code == CLI_OK) code = answer(&m, o, 0, &plain);
    if (code == CLI_OK) code = answer(&m, o, 2, &drafted);
    if (code == CLI_OK) {
        bool equal = plain.text.size == drafted.text.size && (!plain.text.size || !memcmp(plain.text.data, drafted.text.data, plain.text.size));
        code = print_trial(o, &m, &info, &plain, &drafted, equal);
        if (code == CLI_OK && !equal) code = CLI_FAILED;
    }
    cli_text_free(&plain.text);
    cli_text_free(&drafted.text);
    cli_model_close(&m);
    return code;
}

static const cli_verb extract_verb = {
    .name = "forge mtp extract",
    .bit = CLI_EXTRACT,
    .operand = "DIR",
    .second = "FILE",
    .usage = "DIR FILE [flags]",
    .summary = "write a checkpoint's draft head to a file",
    .about = "Writes the draft head of the checkpoint in the folder DIR to the safetensors\n"
             "file FILE, byte for byte.\n",
    .run = run_extract,
};
static const cli_verb attach_verb = {
    .name = "forge mtp attach",
    .bit = CLI_ATTACH,
    .operand = "FILE",
    .second = "DIR",
    .usage = "FILE DIR [flags]",
    .summary = "give a checkpoint the draft head of a file",
    .about = "Checks the draft head in FILE against the checkpoint in the folder DIR, which\n"
             "has none, and puts it there.\n",
    .run = run_attach,
};
static const cli_verb heal_verb = {
    .name = "forge mtp heal",
    .bit = CLI_HEAL,
    .operand = "DIR",
    .usage = "DIR [flags]",
    .summary = "set norms right that a conversion mixed up",
    .about = "Finds out whether all norms of the draft head are stored in one way, and\n"
             "writes the head anew where they are not.\n",
    .run = run_heal,
};
static const cli_verb verify_verb = {
    .name = "forge mtp verify",
    .bit = CLI_MTP_VERIFY,
    .operand = "DIR",
    .usage = "[flags] [DIR]",
    .summary = "try a checkpoint's draft head",
    .about = "Lets the checkpoint in the folder DIR answer with drafts and without, and says\n"
             "how many of them were right; exit 1 when it has no working head.\n",
    .run = run_verify,
};

static const cli_verb *const parts[] = {&extract_verb, &attach_verb, &heal_verb, &verify_verb, NULL};

const cli_verb cli_forge_mtp_verb = {
    .name = "forge mtp",
    .usage = "COMMAND [flags]",
    .summary = "draft heads: extract, attach, heal, verify",
    .about = "Moves and mends the draft head of a checkpoint.\n",
    .parts = parts,
};
