/* Which model the command means, and opening it; see model.h. */
#include "cli/model.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/files.h"
#include "cli/hub.h"
#include "cli/json.h"
#include "cli/pack.h"
#include "cli/progress.h"

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* PREFIX/share/foresight/models/tiny, where PREFIX/bin holds this program or the build said that it would be. */
static bool find_installed(cli_text *dir) {
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = 0;
        char *slash = strrchr(program, '/');
        if (slash) {
            *slash = 0;
            cli_text_puts(dir, program);
            cli_text_puts(dir, "/../share/foresight/models/tiny");
            if (is_folder(dir->data)) return true;
            cli_text_free(dir);
        }
    }
#ifdef FORE_DATADIR
    if (is_folder(FORE_DATADIR "/models/tiny")) {
        cli_text_puts(dir, FORE_DATADIR "/models/tiny");
        return true;
    }
#endif
    return false;
}

/* A checkpoint of the hub's cache, which is looked for without the network. */
static int find_pulled(const char *given, const char *from, cli_text *dir) {
    fore_hub_name name;
    cli_text cache = {0};
    char *found = NULL;
    fore_error err = {0};
    int code = CLI_OK;
    if (!fore_hub_name_parse(given, &name))
        return cli_fail("%s%s: no such folder; give the folder of a Hugging Face checkpoint with --model DIR", given, from);
    cli_hub_cache(&cache);
    fore_status status = cache.data ? fore_hub_find(cache.data, &name, &found, &err) : FORE_OK;
    if (status)
        code = cli_fail_status(status, &err);
    else if (!found)
        code = cli_fail("%s%s: no such folder, and nothing of that name is in the cache %s; to download it: foresight pull %s", given, from,
                        cli_text_string(&cache), given);
    else
        cli_text_puts(dir, found);
    if (found && fore_hub_check(found, &err)) /* it may do all the same, for its tokenizer for example */
        fprintf(stderr, "foresight: note: %s; to complete it: foresight pull %s\n", err.text, given);
    fore_free(found);
    cli_text_free(&cache);
    return code;
}

/* A file of that name, or a folder with one that does not, with a config.json, have safetensors too. */
bool cli_is_gguf(const char *path) {
    if (!is_folder(path)) {
        size_t n = strlen(path);
        return n > 5 && strcmp(path + n - 5, ".gguf") == 0;
    }
    DIR *dir = opendir(path);
    bool some = false, config = false, weights = false;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        some = some || (n > 5 && strcmp(e->d_name + n - 5, ".gguf") == 0);
        config = config || strcmp(e->d_name, "config.json") == 0;
        weights = weights || strstr(e->d_name, ".safetensors") != NULL;
    }
    if (dir) closedir(dir);
    return some && !(config && weights);
}

int cli_find_model(const char *given, cli_text *dir) {
    const char *variable = getenv("FORESIGHT_MODEL");
    const char *from = "";
    if (!given && variable && *variable) {
        given = variable;
        from = " (from FORESIGHT_MODEL)";
    }
    if (given) {
        struct stat status;
        if (stat(given, &status)) return find_pulled(given, from, dir);
        cli_text_puts(dir, given);
        if (!S_ISDIR(status.st_mode) && !cli_is_gguf(given))
            return cli_fail("%s%s: not a folder; give the folder that holds config.json and the safetensors files, or a GGUF file",
                            given, from);
        return CLI_OK;
    }
    if (is_folder("models/tiny")) {
        cli_text_puts(dir, "models/tiny");
        return CLI_OK;
    }
    if (find_installed(dir)) return CLI_OK;
    return cli_fail("no model: give the folder of a Hugging Face checkpoint with --model DIR or in FORESIGHT_MODEL "
                    "(models/tiny is not in this folder and not installed)");
}

int cli_find_operand(const char *given, cli_text *dir) {
    struct stat status;
    fore_hub_name name;
    if (stat(given, &status) && fore_hub_name_parse(given, &name)) return find_pulled(given, "", dir);
    cli_text_puts(dir, given);
    return CLI_OK;
}

const char *cli_isa(const cli_options *options) {
    if (options->isa) return options->isa;
    const char *variable = getenv("FORESIGHT_ISA");
    return variable && *variable ? variable : NULL;
}

int cli_model_options(const cli_options *options, fore_model_options *how, char **contract) {
    const cli_list *fields = &options->contract;
    *contract = NULL;
    how->mmproj = options->mmproj;
    how->no_mtp = options->no_mtp ||
                  !(options->verb->bit & (CLI_RUN | CLI_CHAT | CLI_VERIFY | CLI_INSPECT | CLI_TUNE | CLI_PACK | CLI_MTP_VERIFY));
    static const int bits[] = {0, 4, 8, 16};
    if (options->draft_head_bits >= 0) how->draft_head_bits = bits[options->draft_head_bits];
    if (options->draft_vocabulary > 0) how->draft_vocabulary = options->draft_vocabulary;
    if (!fields->count) return CLI_OK;
    if (options->no_mtp) return cli_fail_usage(options->verb, "--no-mtp and --mtp-contract exclude each other");
    cJSON *object = cli_need(cJSON_CreateObject());
    int code = CLI_OK;
    for (size_t i = 0; i < fields->count && code == CLI_OK; i++) {
        const char *text = fields->items[i], *equals = strchr(text, '=');
        if (!equals || equals == text || !equals[1]) {
            code = cli_fail_usage(
                options->verb, "--mtp-contract: expected FIELD=VALUE such as concat_order=hidden_embedding, found '%s'",
                text);
            break;
        }
        cli_text name = {0};
        cli_text_add(&name, text, (size_t)(equals - text));
        cJSON_DeleteItemFromObjectCaseSensitive(object, name.data);
        char *end = NULL;
        double number = strtod(equals + 1, &end); /* the sizes of quantisation are numbers, the rest are words */
        if (*end || !isfinite(number))
            cli_json_string(object, name.data, equals + 1);
        else
            cli_json_number(object, name.data, number);
        cli_text_free(&name);
    }
    if (code == CLI_OK) how->mtp_contract = *contract = cli_json_text(object);
    cJSON_Delete(object);
    return code;
}

int cli_check_contract(const cli_options *options, const fore_model *model) {
    enum { MOST = 32 };
    const char *names[MOST], *value, *source;
    int count = 0;
    while (count < MOST && fore_model_get_contract(model, count, &names[count], &value, &source)) count++;
    for (size_t i = 0; i < options->contract.count; i++) {
        const char *text = options->contract.items[i];
        char field[48];
        bool known = false;
        snprintf(field, sizeof field, "%.*s", (int)strcspn(text, "="), text);
        for (int k = 0; k < count; k++) known = known || strcmp(names[k], field) == 0;
        if (known) continue;
        const char *nearest = cli_nearest(field, names, (size_t)count);
        if (nearest)
            return cli_fail_usage(options->verb, "--mtp-contract: unknown field %s; did you mean %s?", field, nearest);
        return cli_fail_usage(options->verb, "--mtp-contract: unknown field %s; `foresight inspect` lists them", field);
    }
    return CLI_OK;
}

int cli_model_open(const cli_options *options, cli_model *out) {
    *out = (cli_model){0};
    int code = cli_find_model(options->model, &out->dir);
    if (code) return code;
    fore_model_options how = {.isa = cli_isa(options)};
    char *contract = NULL;
    cli_text pack = {0};
    code = cli_model_options(options, &how, &contract);
    if (code == CLI_OK && options->pack) code = cli_pack_dir(options->pack, out->dir.data, &pack);
    if (code) {
        free(contract);
        return code;
    }
    how.pack_dir = pack.data;
    how.pack_verify = options->verify;
    cli_progress progress;
    cli_progress_start(&progress, "load");
    how.progress = cli_progress_call;
    how.user = &progress;
    fore_error err = {0};
    fore_status status = fore_model_open(out->dir.data, &how, &out->model, &err);
    out->load_seconds = cli_seconds() - progress.started;
    cli_progress_end(&progress);
    free(contract);
    cli_text_free(&pack);
    if (status) return cli_fail_status(status, &err);
    if (options->pack) cli_pack_note(out->model);
    return cli_check_contract(options, out->model);
}

int cli_model_session(const cli_options *options, cli_model *model) {
    fore_session_options how = {.threads = options->threads > 0 ? options->threads : 0,
                                .context = options->context > 0 ? options->context : 0,
                                .cpus = options->cpus};
    fore_error err = {0};
    if (options->verb->bit & (CLI_RUN | CLI_CHAT)) cli_tuned_apply(options, model->model, &model->tuned, &how);
    fore_status status = fore_session_new(model->model, &how, &model->session, &err);
    return status ? cli_fail_status(status, &err) : CLI_OK;
}

void cli_model_close(cli_model *model) {
    fore_session_free(model->session);
    fore_model_close(model->model);
    cli_text_free(&model->dir);
    *model = (cli_model){0};
}
