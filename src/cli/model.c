/* Which model the command means, and opening it; see model.h. */
#include "cli/model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/files.h"
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

int cli_find_model(const char *given, cli_text *dir) {
    const char *variable = getenv("FORESIGHT_MODEL");
    const char *from = "";
    if (!given && variable && *variable) {
        given = variable;
        from = " (from FORESIGHT_MODEL)";
    }
    if (given) {
        cli_text_puts(dir, given);
        struct stat status;
        if (stat(given, &status))
            return cli_fail("%s%s: no such folder; give the folder of a Hugging Face checkpoint with --model DIR",
                            given, from);
        if (!S_ISDIR(status.st_mode))
            return cli_fail("%s%s: not a folder; give the folder that holds config.json and the safetensors files",
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

const char *cli_isa(const cli_options *options) {
    if (options->isa) return options->isa;
    const char *variable = getenv("FORESIGHT_ISA");
    return variable && *variable ? variable : NULL;
}

int cli_model_open(const cli_options *options, cli_model *out) {
    *out = (cli_model){0};
    int code = cli_find_model(options->model, &out->dir);
    if (code) return code;
    cli_progress progress;
    cli_progress_start(&progress, "load");
    fore_model_options how = {.isa = cli_isa(options), .progress = cli_progress_call, .user = &progress};
    fore_error err = {0};
    fore_status status = fore_model_open(out->dir.data, &how, &out->model, &err);
    out->load_seconds = cli_seconds() - progress.started;
    cli_progress_end(&progress);
    return status ? cli_fail_status(status, &err) : CLI_OK;
}

int cli_model_session(const cli_options *options, cli_model *model) {
    fore_session_options how = {.threads = options->threads > 0 ? options->threads : 0,
                                .context = options->context > 0 ? options->context : 0};
    fore_error err = {0};
    fore_status status = fore_session_new(model->model, &how, &model->session, &err);
    return status ? cli_fail_status(status, &err) : CLI_OK;
}

void cli_model_close(cli_model *model) {
    fore_session_free(model->session);
    fore_model_close(model->model);
    cli_text_free(&model->dir);
    *model = (cli_model){0};
}
