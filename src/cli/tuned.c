/* The file of tuned settings; see tuned.h. Form: {"version": 1, "tuned": [{"model": digest, "cpu": "...", "processors": 2, "isa": "...",
 * "folder": "...", "depth": "auto" or 0 .. 8, "lookup": "off" or absent, "threads": 2, "ratio": 1.2}]}; members that are not known stay as they are. */
#include "cli/tuned.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/files.h"
#include "cli/json.h"

bool cli_tuned_path(cli_text *path) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && *config == '/') {
        cli_text_puts(path, config);
    } else if (home && *home) {
        cli_text_puts(path, home);
        cli_text_puts(path, "/.config");
    } else {
        return false;
    }
    cli_text_puts(path, "/foresight/tune.json");
    return true;
}

int cli_tuned_key_of(const fore_model *model, cli_tuned_key *key) {
    fore_machine machine;
    fore_model_info info;
    fore_error err = {0};
    uint8_t digest[32];
    *key = (cli_tuned_key){0};
    fore_model_get_info(model, &info);
    fore_status status = fore_model_digest(model, digest, &err);
    if (!status) status = fore_machine_measure(info.isa, 1, 0, &machine, &err);
    if (status) return cli_fail_status(status, &err);
    for (size_t i = 0; i < 32; i++) snprintf(key->model + 2 * i, 3, "%02x", digest[i]);
    snprintf(key->cpu, sizeof key->cpu, "%s", machine.cpu);
    snprintf(key->isa, sizeof key->isa, "%s", info.isa);
    key->processors = machine.processors;
    return CLI_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The list in the file, detached from what is around it in *root (owned, cJSON_Delete). NULL and *root NULL: there is no file;
 * NULL and *broken: it is not what it should be. */
static cJSON *read_list(const char *path, cJSON **root, bool *broken) {
    *root = NULL;
    *broken = false;
    if (access(path, F_OK) != 0) return NULL;
    *broken = true;
    if (cli_json_read(path, root) != CLI_OK) return NULL;
    cJSON *list = cJSON_GetObjectItemCaseSensitive(*root, "tuned");
    if (!cJSON_IsArray(list)) {
        cli_fail("%s: expected an object with the list \"tuned\"", path);
        return NULL;
    }
    *broken = false;
    return list;
}

static const char *text_of(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static double number_of(const cJSON *object, const char *name, double absent) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

static bool is_entry(const cJSON *entry, const cli_tuned_key *key) {
    return strcmp(text_of(entry, "model"), key->model) == 0 && strcmp(text_of(entry, "cpu"), key->cpu) == 0 &&
           strcmp(text_of(entry, "isa"), key->isa) == 0 && number_of(entry, "processors", 0) == key->processors;
}

/* A whole number of [low, high]; false when it is none. */
static bool take_whole(const cJSON *object, const char *name, int low, int high, int *out) {
    double value = number_of(object, name, -1);
    if (!(value >= low && value <= high) || value != (int)value) return false;
    *out = (int)value;
    return true;
}

void cli_tuned_find(const cli_tuned_key *key, cli_tuned *out) {
    cli_text path = {0};
    cJSON *root = NULL;
    bool broken = false;
    *out = (cli_tuned){.depth = FORE_DRAFT_AUTO};
    const cJSON *list = cli_tuned_path(&path) ? read_list(path.data, &root, &broken) : NULL, *entry;
    cJSON_ArrayForEach(entry, list) {
        if (!is_entry(entry, key)) continue;
        bool automatic = strcmp(text_of(entry, "depth"), "auto") == 0;
        out->found = take_whole(entry, "threads", 0, 1024, &out->threads) && (automatic || take_whole(entry, "depth", 0, FORE_DRAFT_MAX, &out->depth));
        out->ratio = number_of(entry, "ratio", 1);
        if (strcmp(text_of(entry, "lookup"), "off") == 0) out->lookup = FORE_LOOKUP_OFF;
        broken = !out->found;
        if (broken) cli_fail("%s: the settings of this model: expected depth auto or 0 to %d and threads 0 to 1024", path.data, FORE_DRAFT_MAX);
        break;
    }
    if (broken) fputs("foresight: warning: going on without what `foresight tune` had found\n", stderr);
    cJSON_Delete(root);
    cli_text_free(&path);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int make_folders(const char *path) {
    char *copy = cli_need(strdup(path));
    int code = CLI_OK;
    for (char *p = copy + 1; (p = strchr(p, '/')) != NULL && code == CLI_OK; p++) {
        *p = 0;
        if (mkdir(copy, 0777) && errno != EEXIST) code = cli_fail("%s: cannot make the folder: %s", copy, strerror(errno));
        *p = '/';
    }
    free(copy);
    return code;
}

/* Under another name first, so that a reader never sees half of it. */
static int write_whole(const char *path, const cli_text *text) {
    int code = make_folders(path);
    if (code) return code;
    cli_text temporary = {0};
    cli_text_puts(&temporary, path);
    cli_text_print(&temporary, ".%ld", (long)getpid());
    FILE *f = fopen(temporary.data, "we");
    bool good = f && fwrite(text->data, 1, text->size, f) == text->size && fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (f && fclose(f)) good = false;
    if (good && rename(temporary.data, path)) good = false;
    if (!good) {
        code = cli_fail("%s: cannot write: %s", path, strerror(errno));
        unlink(temporary.data);
    }
    cli_text_free(&temporary);
    return code;
}

static cJSON *new_entry(const cli_tuned_key *key, const char *folder, const cli_tuned *tuned) {
    cJSON *entry = cli_need(cJSON_CreateObject());
    cli_json_string(entry, "model", key->model);
    cli_json_string(entry, "cpu", key->cpu);
    cli_json_whole(entry, "processors", (uint64_t)key->processors);
    cli_json_string(entry, "isa", key->isa);
    cli_json_string(entry, "folder", folder);
    if (tuned->depth == FORE_DRAFT_AUTO) cli_json_string(entry, "depth", "auto");
    else cli_json_whole(entry, "depth", (uint64_t)tuned->depth);
    if (tuned->lookup == FORE_LOOKUP_OFF) cli_json_string(entry, "lookup", "off");
    cli_json_whole(entry, "threads", (uint64_t)tuned->threads);
    cli_json_number(entry, "ratio", tuned->ratio);
    return entry;
}

int cli_tuned_keep(const cli_tuned_key *key, const char *folder, const cli_tuned *tuned) {
    cli_text path = {0}, text = {0};
    cJSON *root = NULL;
    bool broken = false;
    if (!cli_tuned_path(&path)) return cli_fail("no place for tune.json: neither XDG_CONFIG_HOME nor HOME is set");
    cJSON *list = read_list(path.data, &root, &broken);
    if (broken) fputs("foresight: warning: a new file takes its place\n", stderr);
    if (!list) {
        cJSON_Delete(root);
        root = cli_need(cJSON_CreateObject());
        cli_json_whole(root, "version", 1);
        list = cli_need(cJSON_AddArrayToObject(root, "tuned"));
    }
    for (int i = cJSON_GetArraySize(list) - 1; i >= 0; i--)
        if (is_entry(cJSON_GetArrayItem(list, i), key)) cJSON_DeleteItemFromArray(list, i);
    if (tuned) cJSON_AddItemToArray(list, new_entry(key, folder, tuned));
    char *json = cli_need(cJSON_Print(root));
    cli_text_puts(&text, json);
    cli_text_puts(&text, "\n");
    free(json);
    int code = write_whole(path.data, &text);
    cJSON_Delete(root);
    cli_text_free(&text);
    cli_text_free(&path);
    return code;
}

/* ---- using ------------------------------------------------------------------------------------------------------- */

void cli_tuned_apply(const cli_options *options, const fore_model *model, cli_tuned *tuned, fore_session_options *session) {
    cli_tuned_key key;
    cli_text path = {0};
    bool there = cli_tuned_path(&path) && access(path.data, F_OK) == 0;
    cli_text_free(&path);
    *tuned = (cli_tuned){0};
    if (!there || cli_tuned_key_of(model, &key) != CLI_OK) return;
    cli_tuned_find(&key, tuned);
    if (!tuned->found || options->threads > 0 || options->cpus || !tuned->threads) return;
    session->threads = tuned->threads;
    tuned->in_use = true;
}

void cli_tuned_request(const cli_options *options, cli_tuned *tuned, fore_draft *draft) {
    if (!tuned->found || options->has_depth || options->draft_replay || options->no_mtp) return;
    draft->depth = tuned->depth;
    if (options->lookup < 0) draft->lookup = tuned->lookup;
    tuned->in_use = true;
}

const char *cli_tuned_text(const cli_tuned *t, char out[64]) {
    char drafts[32] = "auto drafts", count[24] = "all threads";
    if (t->depth == 0) snprintf(drafts, sizeof drafts, "no drafts");
    else if (t->depth > 0) snprintf(drafts, sizeof drafts, "%d draft%s a round", t->depth, t->depth == 1 ? "" : "s");
    else if (t->lookup == FORE_LOOKUP_OFF) snprintf(drafts, sizeof drafts, "auto drafts, no look-ups");
    if (t->threads) snprintf(count, sizeof count, "%d thread%s", t->threads, t->threads == 1 ? "" : "s");
    snprintf(out, 64, "%s, %s", drafts, count);
    return out;
}
