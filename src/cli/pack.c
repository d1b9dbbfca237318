/* foresight pack: keeps quantised matrices repacked in a file, so that later starts map them; see pack.h. */
#include "cli/pack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/files.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/progress.h"

int cli_pack_dir(const char *where, const char *model_dir, cli_text *out) {
    if (strcmp(where, "beside") == 0) {
        const char *slash = strrchr(model_dir, '/');
        struct stat status;
        bool file = stat(model_dir, &status) == 0 && !S_ISDIR(status.st_mode); /* a GGUF file: its folder */
        if (file && !slash) cli_text_puts(out, ".");
        else cli_text_add(out, model_dir, file ? (size_t)(slash - model_dir) : strlen(model_dir));
        return CLI_OK;
    }
    if (strcmp(where, "cache") != 0) {
        cli_text_puts(out, *where ? where : ".");
        return CLI_OK;
    }
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/') {
        cli_text_puts(out, cache);
    } else if (home && *home == '/') {
        cli_text_puts(out, home);
        cli_text_puts(out, "/.cache");
    } else {
        return cli_fail("--pack cache: neither XDG_CACHE_HOME nor HOME names a folder; give one with --pack DIR");
    }
    cli_text_puts(out, "/foresight");
    cli_make_parents(out->data);
    return CLI_OK;
}

void cli_pack_note(const fore_model *model) {
    fore_model_info info;
    fore_model_get_info(model, &info);
    if (info.pack_note[0]) fprintf(stderr, "foresight: note: %s\n", info.pack_note);
}

static int report(const cli_options *options, const fore_model *model, const char *dir, double seconds) {
    fore_error err = {0};
    fore_packs packs;
    fore_status status = fore_model_find_packs(model, dir, &packs, &err);
    if (status) return cli_fail_status(status, &err);
    if (!packs.wanted) return cli_fail("this model has no quantised weights, so there is nothing to keep: they are mapped as they are");
    int files = 0, code = CLI_OK;
    uint64_t bytes = 0;
    if (options->prune) status = fore_model_prune_packs(model, dir, &files, &bytes, &err);
    fore_model_info info;
    fore_model_get_info(model, &info);
    if (status) {
        code = cli_fail_status(status, &err);
    } else if (packs.present < packs.wanted) {
        code = cli_fail("%s", info.pack_note[0] ? info.pack_note : "the packed weights are not there");
    } else {
        printf("%s: %.1f MB in %d file%s, %s, %.2f s\n", packs.path, (double)packs.bytes / 1e6, packs.present,
               packs.present == 1 ? "" : "s", info.packs_written ? "made" : options->verify ? "there before, and right" : "there before",
               seconds);
        if (options->prune) printf("removed %d older file%s of %.1f MB\n", files, files == 1 ? "" : "s", (double)bytes / 1e6);
    }
    fore_free(packs.path);
    return code;
}

static int run(const cli_options *options) {
    if (options->operand && options->model) return cli_fail_usage(options->verb, "--model and DIR exclude each other");
    cli_options same = *options;
    if (options->operand) same.model = options->operand;
    if (!same.pack) same.pack = "cache";
    cli_model model;
    int code = cli_model_open(&same, &model);
    cli_text dir = {0};
    if (code == CLI_OK) code = cli_pack_dir(same.pack, model.dir.data, &dir);
    if (code == CLI_OK) code = report(options, model.model, dir.data, model.load_seconds);
    cli_text_free(&dir);
    cli_model_close(&model);
    return code;
}

const cli_verb cli_pack_verb = {
    .name = "pack",
    .bit = CLI_PACK,
    .operand = "DIR",
    .usage = "[flags] [DIR]",
    .summary = "keep quantised weights as the kernels read them",
    .about = "Repacks the quantised weights of the checkpoint in the folder DIR into a file,\n"
             "so that commands with the same --pack start without that work.\n",
    .run = run,
};
