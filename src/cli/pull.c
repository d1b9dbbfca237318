/* foresight pull: downloads a checkpoint of the hub into its cache, where --model OWNER/NAME finds it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/hub.h"
#include "cli/progress.h"
#include "cli/signals.h"

enum { DEFAULT_JOBS = 4, MOST_LISTED = 40 };

static int read_name(const cli_options *o, fore_hub_name *name) {
    if (!o->operand) return cli_fail_usage(o->verb, "OWNER/NAME is missing: which repository?");
    if (!fore_hub_name_parse(o->operand, name))
        return cli_fail_usage(o->verb, "'%s': expected OWNER/NAME, or OWNER/NAME@REVISION, of letters, digits and - _ .", o->operand);
    if (!o->revision) return CLI_OK;
    if (strchr(o->operand, '@')) return cli_fail_usage(o->verb, "%s and --revision %s: give one of them", o->operand, o->revision);
    if (!fore_hub_name_revise(name, o->revision))
        return cli_fail_usage(o->verb, "--revision: expected a branch, a tag or a commit, found '%s'", o->revision);
    return CLI_OK;
}

static int print_dir(const char *dir) {
    cli_text line = {0};
    cli_text_puts(&line, dir);
    cli_text_puts(&line, "\n");
    int code = cli_print(line.data, line.size);
    cli_text_free(&line);
    return code;
}

/* Looks into the cache alone. */
static int find_offline(const fore_hub_settings *settings, const fore_hub_name *name) {
    fore_error err = {0};
    char *dir;
    fore_status s = fore_hub_find(settings->cache, name, &dir, &err);
    if (s) return cli_fail_status(s, &err);
    if (!dir)
        return cli_fail("%s (revision %s) is not in the cache %s; pull it without --offline and HF_HUB_OFFLINE", name->repo, name->revision,
                        settings->cache);
    s = fore_hub_check(dir, &err);
    int code = s ? cli_fail("%s; pull it without --offline and HF_HUB_OFFLINE", err.text) : print_dir(dir);
    fore_free(dir);
    return code;
}

static void list_files(const fore_hub_listing *listing, fore_hub_patterns patterns, const char *what) {
    size_t count = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const fore_hub_file *f = &listing->files[i];
        if (patterns.count && !fore_hub_matches(patterns, f->path)) continue;
        if (++count <= MOST_LISTED) fprintf(stderr, "%10.3f GB  %s\n", (double)f->size / 1e9, f->path);
    }
    if (count > MOST_LISTED) fprintf(stderr, "              and %zu more\n", count - MOST_LISTED);
    if (!count) fprintf(stderr, "              no %s\n", what);
}

/* Nothing is chosen: says what there is to choose from. */
static int fail_choice(const cli_options *o, const fore_hub_name *name, const fore_hub_listing *listing) {
    static const char *const gguf[] = {"*.gguf"};
    const fore_hub_patterns all = {0}, quantised = {gguf, 1};
    int code;
    if (o->includes.count) {
        code = cli_fail("%s: no file is named so with --include%s; it has:", name->repo, o->excludes.count ? " and --exclude" : "");
        list_files(listing, all, "files");
        return code;
    }
    code = cli_fail("%s: it has no weights in safetensors; say which of its files with --include NAME:", name->repo);
    bool found = false;
    for (size_t i = 0; i < listing->count && !found; i++) found = fore_hub_matches(quantised, listing->files[i].path);
    list_files(listing, found ? quantised : all, "files");
    return code;
}

/* Without --include there have to be weights among what is wanted. */
static bool choose(const cli_options *o, fore_hub_listing *listing) {
    static const char *const weights[] = {"*.safetensors"};
    const fore_hub_patterns include = {o->includes.items, o->includes.count}, exclude = {o->excludes.items, o->excludes.count};
    bool good = fore_hub_choose(listing, include, exclude) > 0;
    if (!good || include.count) return good;
    for (size_t i = 0; i < listing->count; i++)
        if (listing->files[i].wanted && fore_hub_matches((fore_hub_patterns){weights, 1}, listing->files[i].path)) return true;
    return false;
}

static void print_report(const fore_hub_name *name, const fore_hub_listing *listing, const fore_hub_report *r) {
    fprintf(stderr, "foresight: %s at %.12s: %zu file%s, %.3f GB", name->repo, listing->commit, r->files, r->files == 1 ? "" : "s",
            (double)r->bytes / 1e9);
    if (r->fetched)
        fprintf(stderr, "; %zu downloaded, %.3f GB in %.1f s (%.1f MB/s)\n", r->fetched, (double)r->fetched_bytes / 1e9, r->seconds,
                r->seconds > 0 ? (double)r->fetched_bytes / 1e6 / r->seconds : 0);
    else
        fputs(", all there before\n", stderr);
}

/* The server cannot be had; what was pulled before may do. */
static void hint_cached(const fore_hub_settings *settings, const fore_hub_name *name) {
    char *dir;
    if (fore_hub_find(settings->cache, name, &dir, NULL) || !dir) return;
    fprintf(stderr, "foresight: it was pulled before, and is used as it is: %s\n", dir);
    fore_free(dir);
}

static int pull(const cli_options *o, const fore_hub_settings *settings, const fore_hub_name *name) {
    fore_hub_settings how = *settings;
    fore_hub_listing listing;
    fore_hub_report report = {0};
    fore_error err = {0};
    cli_progress progress;
    cli_progress_start(&progress, "list");
    progress.bytes = true;
    how.progress = cli_progress_call;
    how.user = &progress;
    fore_status s = fore_hub_list(&how, name, &listing, &err);
    bool listed = !s, chosen = listed && choose(o, &listing);
    if (chosen) s = fore_hub_fetch(&how, name, &listing, &report, &err);
    cli_progress_end(&progress);
    int code = CLI_OK;
    if (s == FORE_ERR_CANCELLED) {
        fputs("foresight: stopped; the same command goes on where it was\n", stderr);
        code = CLI_INTERRUPTED;
    } else if (s) {
        code = cli_fail_status(s, &err);
        if (!listed) hint_cached(settings, name);
    } else if (!chosen) {
        code = fail_choice(o, name, &listing);
    } else {
        print_report(name, &listing, &report);
        code = print_dir(report.dir);
    }
    fore_free(report.dir);
    fore_hub_listing_free(&listing);
    return code;
}

static int run(const cli_options *o) {
    fore_hub_name name;
    cli_hub hub = {0};
    int code = read_name(o, &name);
    if (code == CLI_OK) code = cli_hub_open(&hub);
    if (code == CLI_OK && (o->offline || hub.offline)) {
        code = find_offline(&hub.settings, &name);
    } else if (code == CLI_OK) {
        hub.settings.jobs = o->jobs > 0 ? o->jobs : DEFAULT_JOBS;
        hub.settings.retry_seconds = isfinite(o->retry_seconds) ? o->retry_seconds : 1;
        cli_catch_interrupt(true);
        code = pull(o, &hub.settings, &name);
    }
    cli_hub_free(&hub);
    return code;
}

const cli_verb cli_pull_verb = {
    .name = "pull",
    .bit = CLI_PULL,
    .operand = "OWNER/NAME",
    .usage = "OWNER/NAME[@REVISION] [flags]",
    .summary = "download a checkpoint from the Hugging Face hub",
    .about = "Downloads what Foresight needs of the repository into the hub's cache folder,\n"
             "which other programs share, and prints where it is. After that,\n"
             "--model OWNER/NAME means it. An interrupted pull is gone on with by the same\n"
             "command. $HF_TOKEN, $HF_HOME, $HF_HUB_CACHE and $HF_ENDPOINT have their meaning.\n",
    .run = run,
};
