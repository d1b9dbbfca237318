/* fore_quantize: opens and checks the source, plans, streams each file that is not finished yet, then writes what makes the
 * folder a checkpoint: the other files, the report, the index and, last, config.json. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "forge/journal.h"
#include "forge/quantize_config.h"
#include "forge/quantize_report.h"
#include "forge/quantize_stream.h"
#include "forge/sidecar.h"

enum { MAX_CONFIG = 16 << 20, SLACK_BYTES = 32 << 20 };

static const char config_name[] = "config.json", index_name[] = "model.safetensors.index.json",
                  report_name[] = "quantization_report.json";

typedef struct work {
    const char *source, *out;
    const fore_quantize_options *options;
    fore_arena arena;
    fore_config config;
    char *config_text; /* owned */
    size_t config_size;
    char *sidecar_name; /* owned: the draft head's own file inside the folder, or NULL */
    fore_store *store, *sidecar;
    fore_quantize_plan plan;
    char settings[160], fingerprint[2 * crypto_generichash_BYTES + 1];
    fore_folder folder;
    fore_journal journal;
    fore_quantize_stream stream;
    double *errors;       /* owned */
    int files_kept;
    uint64_t steps, step; /* of the stage "finish" */
    fore_quantize_report *report;
    fore_error *err;
} work;

/* ---- options ----------------------------------------------------------------------------------------------------- */

void fore_quantize_options_init(fore_quantize_options *options, int bits) {
    *options = (fore_quantize_options){.bits = bits};
}

static fore_status check_bits(const char *name, int value, bool four, bool sixteen, fore_error *err) {
    if (value == 8 || (four && value == 4) || (sixteen && value == 16)) return FORE_OK;
    return fore_fail(err, FORE_ERR_INVALID, "quantize: %s: expected %s, found %d", name,
                     four ? sixteen ? "4, 8 or 16" : "4 or 8" : "8 or 16", value);
}

static fore_status read_rules(const fore_quantize_options *o, fore_quantize_rules *r, fore_error *err) {
    *r = (fore_quantize_rules){.bits = o->bits,
                               .group = o->group ? o->group : 64,
                               .head_bits = o->head_bits ? o->head_bits : o->bits,
                               .mtp_bits = o->mtp_bits ? o->mtp_bits : o->bits,
                               .vision_bits = o->vision_bits ? o->vision_bits : 16,
                               .mtp_layers_only = o->mtp_layers_only,
                               .shard_bytes = o->shard_bytes ? o->shard_bytes : 4000000000u};
    fore_status s = check_bits("bits", r->bits, true, false, err);
    if (!s) s = check_bits("head_bits", r->head_bits, true, true, err);
    if (!s) s = check_bits("mtp_bits", r->mtp_bits, true, true, err);
    if (!s) s = check_bits("vision_bits", r->vision_bits, false, true, err);
    if (!s && r->group != 32 && r->group != 64 && r->group != 128)
        s = fore_fail(err, FORE_ERR_INVALID, "quantize: group: expected 32, 64 or 128, found %d", r->group);
    return s;
}

/* ---- the source -------------------------------------------------------------------------------------------------- */

static fore_status check_folders(const work *w) {
    struct stat a, b;
    if (stat(w->source, &a)) return fore_fail(w->err, FORE_ERR_IO, "%s: cannot open: %s", w->source, strerror(errno));
    if (!S_ISDIR(a.st_mode)) return fore_fail(w->err, FORE_ERR_INVALID, "%s: not a folder; give the folder of a checkpoint", w->source);
    if (stat(w->out, &b)) return FORE_OK; /* not there */
    if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return fore_fail(w->err, FORE_ERR_INVALID, "%s: the source itself; give another folder for the output", w->out);
    if (!S_ISDIR(b.st_mode)) return fore_fail(w->err, FORE_ERR_INVALID, "%s: there, and not a folder; give another one", w->out);
    return FORE_OK;
}

static fore_status open_source(work *w) {
    char *path = fore_path_join(w->source, config_name);
    if (!path) return fore_fail_nomem(w->err, config_name);
    cJSON *config = NULL;
    fore_status s = fore_file_read(path, MAX_CONFIG, &w->config_text, &w->config_size, w->err);
    if (!s) s = fore_config_parse(w->config_text, w->config_size, path, &w->arena, &w->config, w->err);
    if (!s) s = fore_json_parse(w->config_text, w->config_size, path, &config, w->err);
    free(path);
    if (!s) s = fore_store_open(w->source, &w->store, w->err);
    if (!s) s = fore_sidecar_open(w->source, config, &w->sidecar, &w->sidecar_name, w->err);
    cJSON_Delete(config);
    return s;
}

/* ---- what work this is ------------------------------------------------------------------------------------------- */

static void describe(work *w, const fore_quantize_rules *r) {
    snprintf(w->settings, sizeof w->settings, "%d bits, group %d, head %d, mtp %d (%s), vision %d, files of %" PRIu64, r->bits, r->group,
             r->head_bits, r->mtp_bits, r->mtp_layers_only ? "cyankiwi" : "all", r->vision_bits, r->shard_bytes);
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
    crypto_generichash_update(&h, (const unsigned char *)w->config_text, w->config_size);
    fore_status s = add_files(w, &h, w->store);
    if (!s) s = add_files(w, &h, w->sidecar);
    for (size_t i = 0; i < w->plan.count; i++) {
        const fore_quantize_job *j = &w->plan.jobs[i];
        add_text(&h, j->name);
        add_text(&h, j->dtype_name);
        add_number(&h, (uint64_t)j->bits);
        add_number(&h, j->file);
        for (int d = 0; d < j->dims; d++) add_number(&h, j->shape[d]);
    }
    crypto_generichash_final(&h, digest, sizeof digest);
    sodium_bin2hex(w->fingerprint, sizeof w->fingerprint, digest, sizeof digest);
    return s;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Marks what is finished, and asks whether the rest has room. */
static fore_status check_room(work *w, bool *finished) {
    uint64_t need = SLACK_BYTES, room = fore_folder_room(&w->folder);
    for (size_t i = 0; i < w->plan.file_count; i++) {
        const fore_quantize_file *f = &w->plan.files[i];
        finished[i] = fore_journal_find(&w->journal, f->name, w->errors + f->first, f->count);
        if (!finished[i]) need += f->bytes;
    }
    if (need > room)
        return fore_fail(w->err, FORE_ERR_LIMIT, "%s: needs %.2f GB, and the disk has %.2f GB left; make room, or give a folder on "
                         "another disk", w->out, (double)need / 1e9, (double)room / 1e9);
    return FORE_OK;
}

static fore_status write_weights(work *w, const bool *finished) {
    for (size_t i = 0; i < w->plan.file_count; i++) {
        const fore_quantize_file *f = &w->plan.files[i];
        if (finished[i]) {
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
    bool *finished = calloc(w->plan.file_count + 1, sizeof *finished);
    w->errors = calloc(w->plan.count + 1, sizeof *w->errors);
    if (!finished || !w->errors) {
        free(finished);
        return fore_fail_nomem(w->err, "the list of files");
    }
    w->stream = (fore_quantize_stream){.plan = &w->plan, .folder = &w->folder, .progress = w->options->progress,
                                       .user = w->options->user, .errors = w->errors};
    fore_status s = check_room(w, finished);
    if (!s) s = fore_pool_new(w->options->threads, &w->stream.pool, w->err);
    if (!s) s = write_weights(w, finished);
    fore_pool_free(w->stream.pool);
    w->stream.pool = NULL;
    free(finished);
    return s;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static fore_status next_step(work *w) {
    if (w->options->progress && w->options->progress(w->options->user, "finish", w->step, w->steps))
        return fore_fail(w->err, FORE_ERR_CANCELLED, "cancelled while finishing");
    if (w->step < w->steps) w->step++;
    return FORE_OK;
}

/* Weights of any format, what is written anew, and hidden files stay behind. */
static bool is_copied(const char *name) {
    static const char *const weights[] = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack", ".npz",
                                          ".index.json", ".partial"};
    if (name[0] == '.' || !strcmp(name, config_name) || !strcmp(name, report_name) || !strcmp(name, fore_journal_name)) return false;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        if (fore_name_ends_with(name, weights[i])) return false;
    return true;
}

static fore_status copy_one(work *w, const char *name) {
    char *path = fore_path_join(w->source, name);
    if (!path) return fore_fail_nomem(w->err, name);
    fore_status s = FORE_OK;
    if (fore_file_exists(path)) s = fore_folder_copy(&w->folder, path, name, w->err);
    free(path);
    return s ? s : next_step(w);
}

/* Calls `each` for the name of every file that is copied. */
static fore_status for_files(work *w, fore_status (*each)(work *w, const char *name)) {
    DIR *d = opendir(w->source);
    if (!d && errno == ENOMEM) return fore_fail_nomem(w->err, w->source);
    if (!d) return fore_fail(w->err, FORE_ERR_IO, "%s: cannot read the folder: %s", w->source, strerror(errno));
    fore_status s = FORE_OK;
    for (const struct dirent *e; !s && (e = readdir(d));)
        if (is_copied(e->d_name)) s = each(w, e->d_name);
    closedir(d);
    return s;
}

static fore_status count_one(work *w, const char *name) {
    (void)name;
    w->steps++;
    return FORE_OK;
}

static fore_status put_text(work *w, const char *name, char *text, fore_status made) {
    fore_status s = made ? made : fore_folder_write(&w->folder, name, text, strlen(text), w->err);
    free(text);
    return s ? s : next_step(w);
}

static fore_status finish(work *w) {
    char *text = NULL;
    fore_status s = fore_quantize_report_make(&w->plan, w->errors, w->files_kept, &w->report, w->err);
    w->steps = 3; /* the report, the index, config.json */
    if (!s) s = for_files(w, count_one);
    if (!s) s = next_step(w);
    if (!s) s = for_files(w, copy_one);
    if (s) return s;
    s = fore_quantize_report_json(&w->plan, w->report, &text, w->err);
    return put_text(w, report_name, text, s);
}

static fore_status finish_config(work *w) {
    char *text = NULL;
    fore_status made = fore_quantize_index(&w->plan, &text, w->err);
    fore_status s = put_text(w, index_name, text, made);
    if (s) return s;
    made = fore_quantize_config(&w->plan, w->config_text, w->config_size, config_name, &text, w->err);
    s = put_text(w, config_name, text, made);
    return s ? s : fore_journal_end(&w->journal, w->err);
}

static fore_status make(work *w) {
    fore_quantize_rules rules;
    fore_status s = read_rules(w->options, &rules, w->err);
    if (!s) s = check_folders(w);
    if (!s) s = open_source(w);
    if (!s) s = fore_quantize_plan_make(&w->config, w->store, w->sidecar, w->sidecar_name, &rules, &w->plan, w->err);
    if (s) return s;
    /* Whether config.json can be written is known before the long part. */
    char *text = NULL;
    s = fore_quantize_config(&w->plan, w->config_text, w->config_size, config_name, &text, w->err);
    free(text);
    describe(w, &rules);
    if (!s) s = make_fingerprint(w);
    if (!s) s = fore_folder_open(w->out, &w->folder, w->err);
    if (!s) s = fore_journal_open(&w->folder, w->fingerprint, w->settings, &w->journal, w->err);
    if (!s) s = make_weights(w);
    if (!s) s = finish(w);
    return s ? s : finish_config(w);
}

fore_status fore_quantize(const char *source, const char *out, const fore_quantize_options *options,
                          fore_quantize_report **report, fore_error *err) {
    if (report) *report = NULL;
    if (!source || !out || !options) return fore_fail(err, FORE_ERR_INVALID, "fore_quantize: an argument is NULL");
    work w = {.source = source, .out = out, .options = options, .folder = {.fd = -1}, .err = err};
    fore_status s = make(&w);
    if (!s && report) *report = w.report;
    else fore_quantize_report_free(w.report);
    fore_journal_close(&w.journal);
    fore_folder_close(&w.folder);
    fore_quantize_plan_free(&w.plan);
    fore_store_close(w.sidecar);
    fore_store_close(w.store);
    free(w.sidecar_name);
    free(w.config_text);
    free(w.errors);
    fore_arena_free(&w.arena);
    return s;
}
