/* Making the checkpoint: opens and checks the source, plans, streams each file that is not finished yet, then writes what makes the
 * folder a checkpoint: the other files, the report, the index and, last, config.json. */
#include "forge/quantize_run.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "forge/journal.h"
#include "forge/quantize_config.h"
#include "forge/quantize_report.h"
#include "forge/quantize_stream.h"
#include "forge/source.h"

enum { SLACK_BYTES = 32 << 20 };

static const char config_name[] = "config.json", index_name[] = "model.safetensors.index.json";

typedef struct work {
    const fore_quantize_run *run;
    fore_source source;
    fore_quantize_plan plan;
    char settings[200], fingerprint[2 * crypto_generichash_BYTES + 1];
    fore_folder folder;
    fore_journal journal;
    fore_quantize_stream stream;
    double *errors;       /* owned */
    bool *finished;       /* owned: [plan.file_count] */
    int files_kept;
    uint64_t steps, step; /* of the stage "finish" */
    fore_quantize_report *report;
    fore_error *err;
} work;

/* ---- the folders ------------------------------------------------------------------------------------------------- */

/* Whether the folder `inner`, which need not be there, lies in the folder `outer`. */
static bool is_inside(const char *inner, const char *outer) {
    char *top = realpath(outer, NULL), *path = realpath(inner, NULL);
    if (top && !path && errno == ENOENT) { /* then what it will lie in */
        size_t n = strlen(inner);
        while (n && inner[n - 1] == '/') n--;
        while (n && inner[n - 1] != '/') n--;
        char *parent = n ? strndup(inner, n) : strdup(".");
        path = parent ? realpath(parent, NULL) : NULL;
        free(parent);
    }
    size_t n = top ? strlen(top) : 0;
    bool inside = top && path && !strncmp(path, top, n) && (path[n] == '/' || !path[n] || (n && top[n - 1] == '/'));
    free(top);
    free(path);
    return inside;
}

static fore_status check_out(const work *w) {
    const char *source = w->run->source, *out = w->run->out;
    struct stat a, b;
    if (stat(source, &a)) return FORE_OK; /* whoever opens it says so */
    bool there = !stat(out, &b);
    if (there && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return fore_fail(w->err, FORE_ERR_INVALID, "%s: the source itself; give another folder for the output", out);
    if (there && !S_ISDIR(b.st_mode)) return fore_fail(w->err, FORE_ERR_INVALID, "%s: there, and not a folder; give another one", out);
    if (w->plan.rules.any_form && S_ISDIR(a.st_mode) && is_inside(out, source))
        return fore_fail(w->err, FORE_ERR_INVALID, "%s: inside the source %s, which stays untouched; give a folder elsewhere", out, source);
    return FORE_OK;
}

/* ---- what work this is ------------------------------------------------------------------------------------------- */

static void describe(work *w) {
    const fore_quantize_rules *r = &w->run->rules;
    char bits[64], *to = w->settings;
    size_t size = sizeof w->settings;
    if (r->bits) snprintf(bits, sizeof bits, "%d bits", r->bits);
    else snprintf(bits, sizeof bits, "%s", r->exact ? "every weight exact" : "integers kept");
    if (!r->any_form || r->bits)
        snprintf(to, size, "%s%s, group %d, head %d, mtp %d (%s), vision %d, files of %" PRIu64, r->any_form ? "convert: " : "", bits, r->group,
                 r->head_bits, r->mtp_bits, r->mtp_layers_only ? "cyankiwi" : "all", r->vision_bits, r->shard_bytes);
    else
        snprintf(to, size, "convert: %s, else group %d, head %d, mtp %d (%s), vision %d, files of %" PRIu64, bits, r->group, r->head_bits,
                 r->mtp_bits, r->mtp_layers_only ? "cyankiwi" : "all", r->vision_bits, r->shard_bytes);
}

static void add_text(crypto_generichash_state *h, const char *text) {
    crypto_generichash_update(h, (const unsigned char *)text, strlen(text) + 1);
}

static void add_number(crypto_generichash_state *h, uint64_t n) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(n >> 8 * i);
    crypto_generichash_update(h, bytes, sizeof bytes);
}

/* A file is known by its name, size and time of change: reading it would take as long as the work itself. */
static fore_status add_files(const work *w, crypto_generichash_state *h, const fore_store *store) {
    for (int i = 0; store && i < fore_store_files(store); i++) {
        const char *path = fore_store_file_path(store, i), *slash = strrchr(path, '/');
        struct stat st;
        if (stat(path, &st)) return fore_fail(w->err, FORE_ERR_IO, "%s: cannot look at it: %s", path, strerror(errno));
        add_text(h, slash ? slash + 1 : path);
        add_number(h, (uint64_t)st.st_size);
        add_number(h, (uint64_t)st.st_mtim.tv_sec);
        add_number(h, (uint64_t)st.st_mtim.tv_nsec);
    }
    return FORE_OK;
}

static fore_status make_fingerprint(work *w) {
    crypto_generichash_state h;
    unsigned char digest[crypto_generichash_BYTES];
    crypto_generichash_init(&h, NULL, 0, sizeof digest);
    add_text(&h, w->settings);
    crypto_generichash_update(&h, (const unsigned char *)w->source.config_text, w->source.config_size);
    fore_status s = add_files(w, &h, w->source.store);
    if (!s) s = add_files(w, &h, w->source.sidecar);
    for (size_t i = 0; i < w->plan.count; i++) {
        const fore_quantize_job *j = &w->plan.jobs[i];
        add_text(&h, j->name);
        add_text(&h, j->dtype_name);
        add_number(&h, (uint64_t)j->bits);
        add_number(&h, j->file);
        for (int d = 0; d < j->dims; d++) add_number(&h, j->shape[d]);
        if (!w->plan.rules.any_form) continue;
        add_number(&h, (uint64_t)j->group);
        add_number(&h, j->exact);
        add_number(&h, (uint64_t)j->affine);
    }
    crypto_generichash_final(&h, digest, sizeof digest);
    sodium_bin2hex(w->fingerprint, sizeof w->fingerprint, digest, sizeof digest);
    return s;
}

/* ---- room -------------------------------------------------------------------------------------------------------- */

static fore_status compare_room(const work *w, uint64_t room) {
    uint64_t need = SLACK_BYTES;
    for (size_t i = 0; i < w->plan.file_count; i++) need += w->finished[i] ? 0 : w->plan.files[i].bytes;
    if (need <= room) return FORE_OK;
    return fore_fail(w->err, FORE_ERR_LIMIT, "%s: needs %.2f GB, and the disk has %.2f GB left; make room, or give a folder on "
                     "another disk", w->run->out, (double)need / 1e9, (double)room / 1e9);
}

/* Marks what is finished, and asks whether the rest has room. */
static fore_status check_room(work *w) {
    for (size_t i = 0; i < w->plan.file_count; i++) {
        const fore_quantize_file *f = &w->plan.files[i];
        w->finished[i] = fore_journal_find(&w->journal, f->name, w->errors + f->first, f->count);
    }
    fore_status s = compare_room(w, fore_folder_room(&w->folder));
    if (s && w->journal.begun) (void)fore_journal_end(&w->journal, NULL); /* the folder was empty, and is again */
    return s;
}

/* Opens what is there, or makes it, once there is room for all. */
static fore_status open_out(work *w) {
    struct stat st;
    fore_status s = FORE_OK;
    if (stat(w->run->out, &st)) s = compare_room(w, fore_folder_room_for(w->run->out));
    if (!s) s = fore_folder_open(w->run->out, &w->folder, w->err);
    if (!s) s = fore_journal_open(&w->folder, w->fingerprint, w->settings, &w->journal, w->err);
    return s ? s : check_room(w);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static fore_status write_weights(work *w) {
    for (size_t i = 0; i < w->plan.file_count; i++) {
        const fore_quantize_file *f = &w->plan.files[i];
        if (w->finished[i]) {
            w->files_kept++;
            w->stream.done += f->source_bytes;
            continue;
        }
        fore_status s = fore_quantize_stream_file(&w->stream, i, w->err);
        if (!s) s = fore_quantize_stream_step(&w->stream, w->err); /* between the file and its note */
        if (!s) s = fore_journal_add(&w->journal, f->name, w->errors + f->first, f->count, w->err);
        if (s) return s;
    }
    return fore_quantize_stream_step(&w->stream, w->err);
}

static fore_status make_weights(work *w) {
    const fore_quantize_run *r = w->run;
    w->stream = (fore_quantize_stream){.plan = &w->plan, .folder = &w->folder, .stage = r->stage, .progress = r->progress, .user = r->user,
                                       .errors = w->errors};
    fore_status s = fore_pool_new(r->threads, &w->stream.pool, w->err);
    if (!s) s = write_weights(w);
    fore_pool_free(w->stream.pool);
    w->stream.pool = NULL;
    return s;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static fore_status next_step(work *w) {
    if (w->run->progress && w->run->progress(w->run->user, "finish", w->step, w->steps))
        return fore_fail(w->err, FORE_ERR_CANCELLED, "cancelled while finishing");
    if (w->step < w->steps) w->step++;
    return FORE_OK;
}

static fore_status count_one(void *user, const char *name, const char *path, const char *text) {
    (void)name, (void)path, (void)text;
    ((work *)user)->steps++;
    return FORE_OK;
}

static fore_status put_one(void *user, const char *name, const char *path, const char *text) {
    work *w = user;
    fore_status s = path ? fore_folder_copy(&w->folder, path, name, w->err) : fore_folder_write(&w->folder, name, text, strlen(text), w->err);
    return s ? s : next_step(w);
}

static fore_status put_text(work *w, const char *name, char *text, fore_status made) {
    fore_status s = made ? made : fore_folder_write(&w->folder, name, text, strlen(text), w->err);
    free(text);
    return s ? s : next_step(w);
}

static fore_status finish(work *w) {
    char *text = NULL;
    fore_status s = fore_quantize_report_make(&w->plan, w->errors, w->files_kept, &w->report, w->err);
    w->steps += 3; /* the report, the index, config.json */
    if (!s) s = next_step(w);
    if (!s) s = fore_source_files(&w->source, put_one, w, w->err);
    if (s) return s;
    s = fore_quantize_report_json(&w->plan, w->report, &text, w->err);
    return put_text(w, fore_source_report, text, s);
}

static fore_status make_config(const work *w, char **text) {
    return fore_quantize_config(&w->plan, w->source.config_text, w->source.config_size, config_name, text, w->err);
}

static fore_status finish_config(work *w) {
    char *text = NULL;
    fore_status made = fore_quantize_index(&w->plan, &text, w->err);
    fore_status s = put_text(w, index_name, text, made);
    if (s) return s;
    made = make_config(w, &text);
    s = put_text(w, config_name, text, made);
    return s ? s : fore_journal_end(&w->journal, w->err);
}

/* Opens the source, plans, and finds out whether the files around the weights can be made: before the long part. */
static fore_status prepare(work *w) {
    const fore_quantize_run *r = w->run;
    char *text = NULL;
    w->plan.rules = r->rules;
    fore_status s = check_out(w);
    if (!s) s = fore_source_open(r->source, r->mmproj, r->rules.any_form, &w->source, w->err);
    if (!s)
        s = fore_quantize_plan_make(&w->source.config, w->source.store, w->source.sidecar, w->source.sidecar_name, &r->rules, &w->plan, w->err);
    if (!s) s = make_config(w, &text);
    free(text);
    if (!s) s = fore_source_files(&w->source, count_one, w, w->err);
    if (s) return s;
    w->errors = calloc(w->plan.count + 1, sizeof *w->errors);
    w->finished = calloc(w->plan.file_count + 1, sizeof *w->finished);
    describe(w);
    return w->errors && w->finished ? make_fingerprint(w) : fore_fail_nomem(w->err, "the list of files");
}

static fore_status make(work *w) {
    fore_status s = prepare(w);
    if (!s && w->run->dry_run) return fore_quantize_report_make(&w->plan, w->errors, 0, &w->report, w->err);
    if (!s) s = open_out(w);
    if (!s) s = make_weights(w);
    if (!s) s = finish(w);
    return s ? s : finish_config(w);
}

fore_status fore_quantize_run_make(const fore_quantize_run *run, fore_quantize_report **report, fore_error *err) {
    work w = {.run = run, .folder = {.fd = -1}, .err = err};
    fore_status s = make(&w);
    if (!s && report) *report = w.report;
    else fore_quantize_report_free(w.report);
    fore_journal_close(&w.journal);
    fore_folder_close(&w.folder);
    fore_quantize_plan_free(&w.plan);
    fore_source_close(&w.source);
    free(w.errors);
    free(w.finished);
    return s;
}
