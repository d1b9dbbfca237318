/* Draft heads out of checkpoints and into them; see foresight.h and head.h. */
#include "forge/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/config_family.h"
#include "forge/json_text.h"
#include "forge/sidecar.h"
#include "model/mtp.h"

enum { MAX_CONFIG = 16 << 20, SLACK_BYTES = 32 << 20, MOST_LAYERS = 64 };

static const char config_name[] = "config.json", usual_name[] = "mtp.safetensors", prefix_out[] = "mtp.";

fore_status fore_head_find(const char *dir, fore_head_place *p, fore_error *err) {
    *p = (fore_head_place){.dir = dir};
    if (!fore_dir_exists(dir)) return fore_fail(err, FORE_ERR_IO, "%s: not a folder; give the folder of a checkpoint", dir);
    char *path = fore_path_join(dir, config_name);
    if (!path) return fore_fail_nomem(err, config_name);
    fore_status s = fore_json_read(path, MAX_CONFIG, &p->tree, err);
    free(path);
    if (!s) s = fore_config_read(dir, &p->arena, &p->config, err);
    if (!s) s = fore_store_open(dir, &p->store, err);
    if (!s) s = fore_sidecar_open(dir, p->tree, &p->sidecar, &p->sidecar_name, err);
    if (s) return s;
    p->head = p->sidecar ? p->sidecar : p->store;
    p->prefix = fore_mtp_prefix(p->head);
    if (!p->prefix) p->head = NULL;
    return FORE_OK;
}

void fore_head_close(fore_head_place *p) {
    fore_store_close(p->store);
    fore_store_close(p->sidecar);
    free(p->sidecar_name);
    cJSON_Delete(p->tree);
    fore_arena_free(&p->arena);
    *p = (fore_head_place){0};
}

fore_status fore_head_items(const fore_store *store, const char *prefix, fore_arena *arena, fore_safetensors_item **items, size_t *count,
                            uint64_t *bytes, int *layers, fore_error *err) {
    size_t n = strlen(prefix), all = fore_store_count(store);
    *count = 0;
    *bytes = 0;
    *layers = 0;
    *items = fore_arena_alloc(arena, all + 1, sizeof **items);
    if (!*items) return fore_fail_nomem(err, "the list of tensors");
    for (size_t i = 0; i < all; i++) {
        const fore_entry *e = fore_store_at(store, i);
        if (strncmp(e->name, prefix, n)) continue;
        size_t size = sizeof prefix_out + strlen(e->name + n);
        char *name = fore_arena_alloc(arena, size, 1);
        if (!name) return fore_fail_nomem(err, "the list of tensors");
        snprintf(name, size, "%s%s", prefix_out, e->name + n);
        (*items)[(*count)++] = fore_tensor_item(e, name);
        *bytes += e->bytes;
        int layer;
        if (sscanf(name, "mtp.layers.%4d.", &layer) == 1 && layer >= *layers) *layers = layer + 1;
    }
    return FORE_OK;
}

void fore_head_note_file(fore_head_report *r, const char *name) {
    snprintf(r->head, sizeof r->head, "%s", name);
    r->files[r->file_count++] = r->head;
}

fore_status fore_head_file(const char *dir, const cJSON *tree, const char **name, fore_error *err) {
    fore_status s = fore_json_string(fore_json_get(tree, "mlx_lm_extra_tensors"), "mtp_file", usual_name, name, err);
    if (s) return fore_fail_prefix(err, s, "%s/%s: mlx_lm_extra_tensors", dir, config_name);
    if (fore_path_stays_inside(*name)) return FORE_OK;
    return fore_fail(err, FORE_ERR_FORMAT, "%s/%s: mlx_lm_extra_tensors.mtp_file: \"%.100s\" leaves the model's folder", dir, config_name, *name);
}

static fore_status write_items(const fore_folder *folder, const char *name, fore_safetensors_item *items, size_t count, uint64_t bytes,
                               fore_error *err) {
    fore_tensor_step step = {.stage = "mtp", .total = bytes};
    uint64_t room = fore_folder_room(folder);
    if (bytes + SLACK_BYTES > room)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: needs %.2f GB, and the disk has %.2f GB left; make room", folder->path, (double)bytes / 1e9,
                         (double)room / 1e9);
    return fore_tensor_file_write(folder, name, items, count, &step, err);
}

/* ---- extract ----------------------------------------------------------------------------------------------------- */

/* What a matrix needs besides its tensors, as block sizes of FP8, stands in config.json and does not come along. */
static fore_status check_forms(const fore_head_place *p, const fore_safetensors_item *items, size_t count, fore_error *err) {
    for (size_t i = 0; i < count; i++) {
        const fore_entry *e = items[i].user;
        if (fore_dtype_is_float(e->dtype) || e->dtype == FORE_DTYPE_U32) continue;
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: %s is %s: a head in this form cannot stand alone, since config.json has its settings",
                         p->dir, e->name, e->dtype_name);
    }
    return FORE_OK;
}

static fore_status put_file(const char *out, fore_safetensors_item *items, size_t count, uint64_t bytes, fore_error *err) {
    const char *slash = strrchr(out, '/'), *base = slash ? slash + 1 : out;
    char *parent = slash ? strndup(out, slash == out ? 1 : (size_t)(slash - out)) : strdup(".");
    fore_folder folder = {.fd = -1};
    fore_status s = parent ? FORE_OK : fore_fail_nomem(err, out);
    if (!s && !*base) s = fore_fail(err, FORE_ERR_INVALID, "%s: a folder; give the name of a file", out);
    if (!s && !fore_dir_exists(parent)) s = fore_fail(err, FORE_ERR_IO, "%s: no such folder", parent);
    if (!s) s = fore_folder_open(parent, &folder, err);
    if (!s) s = write_items(&folder, base, items, count, bytes, err);
    fore_folder_close(&folder);
    free(parent);
    return s;
}

static fore_status extract(fore_head_place *p, const char *dir, const char *out, fore_head_report *r, fore_error *err) {
    fore_safetensors_item *items;
    size_t count;
    fore_status s = fore_head_find(dir, p, err);
    if (s) return s;
    if (!p->head)
        return fore_fail(err, FORE_ERR_INVALID, "%s: it has no draft head: looked for mtp.safetensors, mtp/weights.safetensors, "
                         "model-mtp.safetensors and mtp.* in the checkpoint's own files", dir);
    s = fore_head_items(p->head, p->prefix, &p->arena, &items, &count, &r->bytes, &r->layers, err);
    r->tensors = count;
    if (!s) s = check_forms(p, items, count, err);
    if (!s) s = fore_tensor_file_same(out, items, count, &r->already, err);
    if (s || r->already) return s;
    if (fore_file_exists(out) || fore_dir_exists(out))
        return fore_fail(err, FORE_ERR_INVALID, "%s: there, and not this head; give another name", out);
    r->files[r->file_count++] = out;
    return put_file(out, items, count, r->bytes, err);
}

fore_status fore_head_extract(const char *dir, const char *out, fore_head_report *report, fore_error *err) {
    fore_head_report unused = {0};
    fore_head_place p = {0};
    if (!dir || !out) return fore_fail(err, FORE_ERR_INVALID, "fore_head_extract: an argument is NULL");
    if (!report) report = &unused;
    *report = (fore_head_report){0};
    fore_status s = extract(&p, dir, out, report, err);
    fore_head_close(&p);
    return s;
}

/* ---- attach ------------------------------------------------------------------------------------------------------ */

typedef struct joining {
    fore_head_place host;
    fore_store *store; /* owned: the head's file */
    const char *prefix, *name; /* name: of the file in the folder */
    fore_safetensors_item *items;
    size_t count;
    bool has_file, declares;
    fore_head_report *report;
    fore_error *err;
} joining;

static fore_status check_fits(joining *j) {
    fore_head_place *h = &j->host;
    const fore_family *family = fore_family_of_type(h->config.model_type);
    int *declared = &h->config.text.mtp_num_hidden_layers, layers = j->report->layers;
    if (!family->draft_head)
        return fore_fail(j->err, FORE_ERR_INVALID, "%s: models of type %s have no draft head", h->dir, h->config.model_type);
    if (layers < 1 || layers > MOST_LAYERS)
        return fore_fail(j->err, FORE_ERR_FORMAT, "%s: a head of %d layers; expected 1 to %d", fore_store_file_path(j->store, 0), layers, MOST_LAYERS);
    j->declares = *declared > 0;
    if (j->declares && *declared != layers)
        return fore_fail(j->err, FORE_ERR_INVALID, "%s: config.json declares a head of %d layers, the file has %d", h->dir, *declared, layers);
    *declared = layers;
    fore_network n = {.config = h->config};
    fore_status s = fore_kern_get(NULL, &n.kern, j->err);
    return s ? s : fore_mtp_fits(&n, j->store, h->tree, j->err);
}

/* Whether the model has this head already, or another one. */
static fore_status look_for_head(joining *j) {
    const fore_head_place *h = &j->host;
    char *path = fore_path_join(h->dir, j->name);
    if (!path) return fore_fail_nomem(j->err, j->name);
    fore_status s = fore_tensor_file_same(path, j->items, j->count, &j->has_file, j->err);
    bool there = fore_file_exists(path);
    free(path);
    if (s || j->has_file) return s;
    if (h->head)
        return fore_fail(j->err, FORE_ERR_INVALID, "%s: it has a draft head of its own (%s); remove that first", h->dir,
                         h->sidecar ? h->sidecar_name : "in the checkpoint's own files");
    if (there) return fore_fail(j->err, FORE_ERR_INVALID, "%s/%s: there, and no draft head; remove it first", h->dir, j->name);
    return FORE_OK;
}

static fore_status declare(joining *j, const fore_folder *folder) {
    cJSON *tree = j->host.tree, *text = cJSON_GetObjectItemCaseSensitive(tree, "text_config");
    if (!cJSON_IsObject(text)) text = tree;
    char *printed = NULL;
    cJSON_DeleteItemFromObjectCaseSensitive(text, "mtp_num_hidden_layers");
    fore_status s = cJSON_AddNumberToObject(text, "mtp_num_hidden_layers", j->report->layers) ? FORE_OK : fore_fail_nomem(j->err, config_name);
    if (!s) s = fore_json_text(tree, config_name, &printed, j->err);
    if (!s) s = fore_folder_write(folder, config_name, printed, strlen(printed), j->err);
    free(printed);
    return s;
}

static fore_status attach(joining *j, const char *from, const char *into) {
    fore_head_report *r = j->report;
    fore_folder folder = {.fd = -1};
    fore_status s = fore_store_open_file(from, &j->store, j->err);
    if (s) return s;
    j->prefix = fore_mtp_prefix(j->store);
    if (!j->prefix) return fore_fail(j->err, FORE_ERR_INVALID, "%s: no tensors of a draft head (mtp.*)", from);
    s = fore_head_find(into, &j->host, j->err);
    if (!s) s = fore_head_items(j->store, j->prefix, &j->host.arena, &j->items, &j->count, &r->bytes, &r->layers, j->err);
    r->tensors = j->count;
    if (!s) s = fore_head_file(into, j->host.tree, &j->name, j->err);
    if (!s) s = check_fits(j);
    if (!s) s = look_for_head(j);
    r->already = !s && j->has_file && j->declares;
    if (s || r->already) return s;
    if (!j->has_file) fore_head_note_file(r, j->name);
    if (!j->declares) r->files[r->file_count++] = config_name;
    s = fore_folder_open(into, &folder, j->err);
    if (!s && !j->has_file) s = write_items(&folder, j->name, j->items, j->count, r->bytes, j->err);
    if (!s && !j->declares) s = declare(j, &folder);
    fore_folder_close(&folder);
    return s;
}

fore_status fore_head_attach(const char *from, const char *into, fore_head_report *report, fore_error *err) {
    fore_head_report unused = {0};
    if (!from || !into) return fore_fail(err, FORE_ERR_INVALID, "fore_head_attach: an argument is NULL");
    joining j = {.report = report ? report : &unused, .err = err};
    *j.report = (fore_head_report){0};
    fore_status s = attach(&j, from, into);
    fore_head_close(&j.host);
    fore_store_close(j.store);
    return s;
}
