/* fore_graft: looks at both checkpoints and decides everything before the first byte is written. What is written has no effect until
 * the index names the tower's file, which comes last: a folder without an index gets one of what it has first, since there every
 * weight file counts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/config_family.h"
#include "forge/graft_config.h"
#include "forge/json_text.h"
#include "forge/tensor_file.h"
#include "forge/tower_check.h"
#include "image/image.h"
#include "model/weights.h"

enum { MAX_CONFIG = 16 << 20, MAX_INDEX = 256 << 20, SLACK_BYTES = 32 << 20, PROCESSORS = 3 };

static const char config_name[] = "config.json", index_name[] = "model.safetensors.index.json", tower_name[] = "model-vision.safetensors";
static const char *const processor_names[PROCESSORS] = {"preprocessor_config.json", "video_preprocessor_config.json",
                                                        "processor_config.json"};
static const char tower_prefix[] = "vision_tower.";

typedef struct side {
    const char *dir;
    cJSON *tree; /* owned: config.json */
    fore_config config;
    fore_store *store; /* owned */
} side;

typedef struct graft {
    side donor, host;
    const char *prefix; /* of the donor's tower */
    fore_arena arena;
    fore_safetensors_item *items; /* in the arena */
    size_t count;
    uint64_t bytes, parameters;
    bool has_index, has_tower_file; /* of the host; the latter as it shall be */
    bool copies[PROCESSORS], changes_config;
    fore_folder folder;
    fore_tensor_step step;
    fore_graft_report *report;
    fore_error *err;
} graft;

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static fore_status look_at(const char *dir, struct stat *st, fore_error *err) {
    if (stat(dir, st)) return fore_fail(err, FORE_ERR_IO, "%s: cannot open: %s", dir, strerror(errno));
    if (!S_ISDIR(st->st_mode)) return fore_fail(err, FORE_ERR_INVALID, "%s: not a folder; give the folder of a checkpoint", dir);
    return FORE_OK;
}

static fore_status check_folders(const graft *g) {
    struct stat a, b;
    fore_status s = look_at(g->donor.dir, &a, g->err);
    if (!s) s = look_at(g->host.dir, &b, g->err);
    if (!s && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        s = fore_fail(g->err, FORE_ERR_INVALID, "%s: source and model are the same folder", g->host.dir);
    return s;
}

static fore_status open_side(graft *g, side *d) {
    char *path = fore_path_join(d->dir, config_name);
    if (!path) return fore_fail_nomem(g->err, config_name);
    fore_status s = fore_json_read(path, MAX_CONFIG, &d->tree, g->err);
    free(path);
    if (!s) s = fore_config_read(d->dir, &g->arena, &d->config, g->err);
    return s ? s : fore_store_open(d->dir, &d->store, g->err);
}

static void close_side(side *d) {
    fore_store_close(d->store);
    cJSON_Delete(d->tree);
}

static fore_status has_file(const graft *g, const char *dir, const char *name, bool *there) {
    char *path = fore_path_join(dir, name);
    *there = path && fore_file_exists(path);
    free(path);
    return path ? FORE_OK : fore_fail_nomem(g->err, name);
}

/* Whether processor_config.json has the settings of pictures, which then win. */
static fore_status has_settings(const graft *g, const char *dir, bool *there) {
    cJSON *tree = NULL;
    char *path = fore_path_join(dir, processor_names[2]);
    if (!path) return fore_fail_nomem(g->err, processor_names[2]);
    fore_status s = fore_file_exists(path) ? fore_json_read(path, MAX_CONFIG, &tree, g->err) : FORE_OK;
    *there = fore_json_get(tree, "image_processor") != NULL;
    cJSON_Delete(tree);
    free(path);
    return s;
}

static fore_status check_processor(graft *g) {
    const fore_vision_config *v = &g->donor.config.vision;
    const char *dir = g->donor.dir;
    fore_processor p;
    bool plain = false, whole = false;
    fore_status s = has_file(g, dir, processor_names[0], &plain);
    if (!s) s = has_settings(g, dir, &whole);
    if (s) return s;
    if (!plain && !whole)
        return fore_fail(g->err, FORE_ERR_INVALID, "%s: neither %s nor an image_processor in %s, which say how pictures are cut for its "
                         "tower; give a source that has them", dir, processor_names[0], processor_names[2]);
    s = fore_processor_read(dir, NULL, &p, g->err);
    if (!s && (p.patch_size != v->patch_size || p.temporal_patch_size != v->temporal_patch_size || p.merge_size != v->spatial_merge_size))
        s = fore_fail(g->err, FORE_ERR_FORMAT, "%s: the picture processor's patch, temporal and merge sizes are %d, %d, %d; the vision "
                      "tower's are %d, %d, %d", dir, p.patch_size, p.temporal_patch_size, p.merge_size, v->patch_size,
                      v->temporal_patch_size, v->spatial_merge_size);
    return s;
}

static fore_status look_at_donor(graft *g) {
    side *d = &g->donor;
    fore_status s = open_side(g, d);
    if (s) return s;
    g->prefix = fore_tower_prefix(d->store);
    if (!g->prefix)
        return fore_fail(g->err, FORE_ERR_INVALID, "%s: it has no vision tower (looked for patch_embed.proj.weight under model.visual., "
                         "visual., vision_tower. and model.vision_tower.); give a source with one", d->dir);
    if (!d->config.has_vision)
        return fore_fail(g->err, FORE_ERR_INVALID, "%s/%s: no vision_config, which says how its tower is built; give a source that has one",
                         d->dir, config_name);
    if (d->config.image_token_id < 0)
        return fore_fail(g->err, FORE_ERR_INVALID, "%s/%s: no image_token_id inside its vocabulary; give a source that has one", d->dir,
                         config_name);
    s = check_processor(g);
    if (s) return s;
    s = fore_tower_check(&d->config, d->store, g->prefix, &g->parameters, g->err);
    return s ? fore_fail_prefix(g->err, s, "%s: its tower is not whole", d->dir) : FORE_OK;
}

/* Whether the host has its tower; a part of one is a collision. */
static fore_status look_for_tower(graft *g) {
    const side *h = &g->host;
    size_t count;
    const fore_entry *first = fore_tower_find(h->store, &count);
    if (!first) return FORE_OK;
    const char *prefix = fore_tower_prefix(h->store);
    fore_error why = {0};
    fore_status s = FORE_ERR_FORMAT;
    if (!prefix) fore_fail(&why, s, "no patch_embed.proj.weight");
    else if (!h->config.has_vision) fore_fail(&why, s, "config.json has no vision_config");
    else s = fore_tower_check(&h->config, h->store, prefix, NULL, &why);
    g->report->already = s == FORE_OK;
    if (!s) return FORE_OK;
    if (s == FORE_ERR_NOMEM) return fore_fail_nomem(g->err, h->dir);
    return fore_fail(g->err, FORE_ERR_INVALID, "%s: it has %zu vision tensors already (%.100s), but no whole tower (%.200s); remove them "
                     "before another one comes in", h->dir, count, first->name, why.text);
}

/* The text of a token; owned (fore_free), NULL without a tokenizer. */
static fore_status read_token(const graft *g, const char *dir, int32_t id, char **text) {
    bool there;
    fore_tokenizer *t = NULL;
    size_t size = 0;
    *text = NULL;
    fore_status s = has_file(g, dir, "tokenizer.json", &there);
    if (s || !there) return s;
    s = fore_tokenizer_open(dir, &t, g->err);
    const char *piece = s ? NULL : fore_tokenizer_piece(t, id, &size);
    if (!s) *text = strndup(piece ? piece : "", size);
    if (!s && !*text) s = fore_fail_nomem(g->err, "a token");
    fore_tokenizer_close(t);
    return s;
}

/* Pictures stand where the image token stands: both sides must mean the same one. */
static fore_status check_token(const graft *g) {
    const side *d = &g->donor, *h = &g->host;
    int64_t id;
    char *a = NULL, *b = NULL;
    fore_status s = fore_json_int(h->tree, "image_token_id", 0, INT32_MAX, d->config.image_token_id, &id, g->err);
    if (!s && id >= h->config.text.vocab_size)
        s = fore_fail(g->err, FORE_ERR_INVALID, "%s: its vocabulary of %d has no token %d, which stands for pictures in %s", h->dir,
                      h->config.text.vocab_size, (int)id, d->dir);
    if (!s) s = read_token(g, d->dir, d->config.image_token_id, &a);
    if (!s) s = read_token(g, h->dir, (int32_t)id, &b);
    if (!s && a && b && strcmp(a, b))
        s = fore_fail(g->err, FORE_ERR_INVALID, "%s: its token %d is \"%.60s\", and pictures stand at \"%.60s\" in %s: the two have different "
                      "vocabularies", h->dir, (int)id, b, a, d->dir);
    free(a);
    free(b);
    return s;
}

static fore_status check_fit(const graft *g) {
    const side *d = &g->donor, *h = &g->host;
    const fore_family *a = fore_family_of_type(d->config.model_type), *b = fore_family_of_type(h->config.model_type);
    if (!b->model_type)
        return fore_fail(g->err, FORE_ERR_INVALID, "%s: model_type %s takes no pictures, with no tower", h->dir, h->config.model_type);
    if (a->deepstack != b->deepstack || a->linear != b->linear)
        return fore_fail(g->err, FORE_ERR_INVALID, "the tower of %s is for models of type %s, and %s is of type %s", d->dir, a->model_type, h->dir,
                         h->config.model_type);
    if (d->config.vision.out_hidden_size != h->config.text.hidden_size)
        return fore_fail(g->err, FORE_ERR_INVALID, "the tower of %s gives rows of %d (out_hidden_size), and %s takes rows of %d (hidden_size): "
                         "they are of different sizes of model", d->dir, d->config.vision.out_hidden_size, h->dir, h->config.text.hidden_size);
    return check_token(g);
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

static fore_status list_tensors(graft *g) {
    const fore_store *store = g->donor.store;
    size_t all = fore_store_count(store), n = strlen(g->prefix);
    g->items = fore_arena_alloc(&g->arena, all + 1, sizeof *g->items);
    if (!g->items) return fore_fail_nomem(g->err, "the list of tensors");
    for (size_t i = 0; i < all; i++) {
        const fore_entry *e = fore_store_at(store, i);
        if (strncmp(e->name, g->prefix, n)) continue;
        size_t size = sizeof tower_prefix + strlen(e->name + n);
        char *name = fore_arena_alloc(&g->arena, size, 1);
        if (!name) return fore_fail_nomem(g->err, "the list of tensors");
        snprintf(name, size, "%s%s", tower_prefix, e->name + n);
        g->items[g->count++] = fore_tensor_item(e, name);
        g->bytes += e->bytes;
    }
    return FORE_OK;
}

/* Files that are in the way: another model-vision.safetensors, and settings that would win over those that come. */
static fore_status check_files(graft *g) {
    const char *dir = g->host.dir;
    bool there = false, donors = false, hosts = false;
    fore_status s = has_file(g, dir, index_name, &g->has_index);
    if (!s) s = has_file(g, dir, tower_name, &there);
    char *path = s ? NULL : fore_path_join(dir, tower_name);
    if (!s && !path) s = fore_fail_nomem(g->err, tower_name);
    if (!s) s = fore_tensor_file_same(path, g->items, g->count, &g->has_tower_file, g->err);
    free(path);
    if (!s && there && !g->has_tower_file)
        s = fore_fail(g->err, FORE_ERR_INVALID, "%s/%s: there, and not the tower of %s; remove it first", dir, tower_name, g->donor.dir);
    if (!s) s = has_settings(g, dir, &hosts);
    if (!s) s = has_file(g, g->donor.dir, processor_names[2], &donors);
    if (!s && hosts && !donors)
        s = fore_fail(g->err, FORE_ERR_INVALID, "%s/%s: its image_processor would win over the settings of %s; remove it first", dir,
                      processor_names[2], g->donor.dir);
    return s;
}

static fore_status same_bytes(const graft *g, const char *name, bool *same) {
    char *a = fore_path_join(g->donor.dir, name), *b = fore_path_join(g->host.dir, name);
    fore_map x = {0}, y = {0};
    fore_status s = a && b ? FORE_OK : fore_fail_nomem(g->err, name);
    *same = false;
    if (!s && fore_file_exists(b)) {
        s = fore_map_open(a, &x, g->err);
        if (!s) s = fore_map_open(b, &y, g->err);
        *same = !s && x.size == y.size && (!x.size || !memcmp(x.data, y.data, x.size));
    }
    fore_map_close(&x);
    fore_map_close(&y);
    free(a);
    free(b);
    return s;
}

static void note_file(graft *g, const char *name) {
    fore_graft_report *r = g->report;
    if (r->file_count < (int)(sizeof r->files / sizeof *r->files)) r->files[r->file_count++] = name;
}

/* What there is to do, in the order in which it is done. */
static fore_status decide(graft *g) {
    fore_status s = list_tensors(g);
    if (!s) s = check_files(g);
    for (int i = 0; i < PROCESSORS && !s; i++) {
        bool there, same = true;
        s = has_file(g, g->donor.dir, processor_names[i], &there);
        if (!s && there) s = same_bytes(g, processor_names[i], &same);
        g->copies[i] = !same;
    }
    if (!s) s = fore_graft_config(g->donor.tree, &g->donor.config, g->host.tree, &g->host.config, &g->changes_config, g->err);
    if (s) return s;
    if (!g->has_index) note_file(g, index_name);
    if (!g->has_tower_file) note_file(g, tower_name);
    for (int i = 0; i < PROCESSORS; i++)
        if (g->copies[i]) note_file(g, processor_names[i]);
    if (g->changes_config) note_file(g, config_name);
    note_file(g, index_name);
    g->report->tensors = g->count;
    g->report->bytes = g->bytes;
    g->report->parameters = g->parameters;
    return FORE_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static fore_status put_json(const graft *g, const char *name, const cJSON *tree) {
    char *text = NULL;
    fore_status s = fore_tensor_step_call(&g->step, g->err);
    if (!s) s = fore_json_text(tree, name, &text, g->err);
    if (!s) s = fore_folder_write(&g->folder, name, text, strlen(text), g->err);
    free(text);
    return s;
}

static fore_status first_index(graft *g) {
    cJSON *index = NULL;
    fore_status s = fore_graft_new_index(g->host.store, &index, g->err);
    if (!s) s = put_json(g, index_name, index);
    cJSON_Delete(index);
    return s;
}

static fore_status last_index(graft *g) {
    cJSON *index = NULL;
    char *path = fore_path_join(g->host.dir, index_name);
    fore_status s = path ? fore_json_read(path, MAX_INDEX, &index, g->err) : fore_fail_nomem(g->err, index_name);
    free(path);
    if (!s) s = fore_graft_add_to_index(index, tower_name, g->items, g->count, g->bytes, g->parameters, g->err);
    if (!s) s = put_json(g, index_name, index);
    cJSON_Delete(index);
    return s;
}

static fore_status copy_settings(graft *g, const char *name) {
    char *path = fore_path_join(g->donor.dir, name);
    if (!path) return fore_fail_nomem(g->err, name);
    fore_status s = fore_tensor_step_call(&g->step, g->err);
    if (!s) s = fore_folder_copy(&g->folder, path, name, g->err);
    free(path);
    return s;
}

static fore_status write_all(graft *g) {
    fore_status s = fore_folder_open(g->host.dir, &g->folder, g->err);
    if (s) return s;
    uint64_t need = (g->has_tower_file ? 0 : g->bytes) + SLACK_BYTES, room = fore_folder_room(&g->folder);
    if (need > room)
        return fore_fail(g->err, FORE_ERR_LIMIT, "%s: needs %.2f GB, and the disk has %.2f GB left; make room", g->host.dir, (double)need / 1e9,
                         (double)room / 1e9);
    if (!g->has_index) s = first_index(g);
    if (!s && !g->has_tower_file) s = fore_tensor_file_write(&g->folder, tower_name, g->items, g->count, &g->step, g->err);
    for (int i = 0; i < PROCESSORS && !s; i++)
        if (g->copies[i]) s = copy_settings(g, processor_names[i]);
    if (!s && g->changes_config) s = put_json(g, config_name, g->host.tree);
    return s ? s : last_index(g);
}

/* As it lies there: the tower, strictly, from the files. */
static fore_status verify(graft *g) {
    side now = {.dir = g->host.dir};
    fore_status s = open_side(g, &now);
    const char *prefix = s ? NULL : fore_tower_prefix(now.store);
    if (!s && (!prefix || !now.config.has_vision)) s = fore_fail(g->err, FORE_ERR_BUG, "no tower is there");
    if (!s) s = fore_tower_check(&now.config, now.store, prefix, NULL, g->err);
    close_side(&now);
    return s ? fore_fail_prefix(g->err, s, "%s: written, but it does not load", g->host.dir) : FORE_OK;
}

static fore_status run(graft *g, bool dry_run) {
    fore_status s = check_folders(g);
    if (!s) s = look_at_donor(g);
    if (!s) s = open_side(g, &g->host);
    if (!s) s = look_for_tower(g);
    if (s || g->report->already) return s;
    s = check_fit(g);
    if (!s) s = decide(g);
    g->step.total = g->bytes;
    if (s || dry_run) return s;
    s = write_all(g);
    return s ? s : verify(g);
}

fore_status fore_graft(const char *from, const char *into, const fore_graft_options *options, fore_graft_report *report,
                       fore_error *err) {
    fore_graft_report unused;
    if (!from || !into) return fore_fail(err, FORE_ERR_INVALID, "fore_graft: an argument is NULL");
    if (!report) report = &unused;
    *report = (fore_graft_report){0};
    graft g = {.donor = {.dir = from}, .host = {.dir = into}, .folder = {.fd = -1}, .report = report, .err = err};
    g.step = (fore_tensor_step){.stage = "graft", .progress = options ? options->progress : NULL, .user = options ? options->user : NULL};
    fore_status s = run(&g, options && options->dry_run);
    fore_folder_close(&g.folder);
    close_side(&g.donor);
    close_side(&g.host);
    fore_arena_free(&g.arena);
    return s;
}
