/* Which files make a model, and what they are; see gguf_model.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/config_part.h"
#include "checkpoint/gguf_part.h"

enum { MAX_FILES = 1000, MAX_LISTED = 4096 };

static const fore_gguf_family families[] = {
    {"qwen35", "qwen3_5", "qwen3_5_text", false, true, true, false},
    {"qwen35moe", "qwen3_5_moe", "qwen3_5_moe_text", true, true, true, false},
    {"qwen3next", NULL, "qwen3_next", true, false, true, false},
    {"qwen3vl", "qwen3_vl", "qwen3_vl_text", false, false, false, false},
    {"qwen3vlmoe", "qwen3_vl_moe", "qwen3_vl_moe_text", true, false, false, false},
    {"qwen2vl", "qwen2_5_vl", "qwen2_5_vl_text", false, false, false, true}, /* Qwen2-VL's text model is the same */
    {"qwen3", NULL, "qwen3", false, false, false, false},
    {"qwen3moe", NULL, "qwen3_moe", true, false, false, false},
};

const char fore_gguf_norms_rule[] = "the rule of GGUF files of this architecture";

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* "<stem>-00002-of-00003.gguf": the numbers and the stem's length. */
static bool numbered(const char *path, size_t *stem, int *number, int *of) {
    static const char form[] = "-ddddd-of-ddddd.gguf";
    const size_t digits = 15; /* the part of it in which a d stands for a digit */
    size_t n = strlen(path), tail = sizeof form - 1;
    if (n < tail) return false;
    const char *p = path + n - tail;
    for (size_t i = 0; i < tail; i++)
        if (i < digits && form[i] == 'd' ? p[i] < '0' || p[i] > '9' : p[i] != form[i]) return false;
    *stem = n - tail;
    *number = atoi(p + 1);
    *of = atoi(p + 10);
    return true;
}

typedef struct listing {
    char **names; /* owned */
    size_t count;
} listing;

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void free_listing(listing *l) {
    for (size_t i = 0; i < l->count; i++) free(l->names[i]);
    free(l->names);
    *l = (listing){0};
}

/* The GGUF files of a folder, sorted; of one in parts only the first. */
static fore_status list_folder(const char *dir, listing *l, fore_error *err) {
    DIR *d = opendir(dir);
    if (!d && errno == ENOMEM) return fore_fail_nomem(err, dir);
    if (!d) return fore_fail(err, FORE_ERR_IO, "%s: cannot read the folder: %s", dir, strerror(errno));
    fore_status s = FORE_OK;
    l->names = calloc(MAX_LISTED, sizeof *l->names);
    if (!l->names) s = fore_fail_nomem(err, dir);
    for (const struct dirent *e; !s && (e = readdir(d));) {
        size_t stem;
        int number, of;
        if (e->d_name[0] == '.' || !fore_gguf_is_name(e->d_name)) continue;
        if (numbered(e->d_name, &stem, &number, &of) && number != 1) continue;
        if (l->count == MAX_LISTED) s = fore_fail(err, FORE_ERR_LIMIT, "%s: more than %d GGUF files", dir, MAX_LISTED);
        else if (!(l->names[l->count] = strdup(e->d_name))) s = fore_fail_nomem(err, dir);
        else l->count++;
    }
    closedir(d);
    if (!s && l->count) qsort(l->names, l->count, sizeof *l->names, compare_names);
    return s;
}

/* A config.json alone does not say that the model is not the GGUF file beside it; with weights beside it, it does. */
static fore_status is_folder_of_other(const char *dir, bool *other, fore_error *err) {
    char *config = fore_path_join(dir, "config.json");
    if (!config) return fore_fail_nomem(err, dir);
    *other = fore_file_exists(config);
    free(config);
    DIR *d = *other ? opendir(dir) : NULL;
    bool weights = false, gguf = false;
    for (const struct dirent *e; d && (e = readdir(d));) {
        weights = weights || fore_name_ends_with(e->d_name, ".safetensors") || fore_name_ends_with(e->d_name, ".safetensors.index.json");
        gguf = gguf || (e->d_name[0] != '.' && fore_gguf_is_name(e->d_name));
    }
    if (d) closedir(d);
    if (gguf && !weights) *other = false;
    return FORE_OK;
}

fore_status fore_gguf_is_model(const char *path, bool *is, fore_error *err) {
    *is = false;
    if (!fore_dir_exists(path)) {
        *is = fore_gguf_is_name(path);
        return FORE_OK;
    }
    bool other = false;
    fore_status found = is_folder_of_other(path, &other, err);
    if (found || other) return found;
    listing l = {0};
    fore_status s = list_folder(path, &l, err);
    *is = !s && l.count;
    free_listing(&l);
    return s;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static fore_status open_file(fore_gguf_model *m, const char *path, fore_error *err) {
    fore_status s = fore_gguf_open(path, &m->arena, &m->files[m->count], err);
    if (!s) m->count++;
    return s;
}

/* The file, or all parts of it. */
static fore_status open_parts(fore_gguf_model *m, const char *path, fore_error *err) {
    size_t stem = 0;
    int number = 1, of = 1;
    bool parts = numbered(path, &stem, &number, &of);
    if (of < 1 || of > MAX_FILES)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: its name tells of %d parts; the limits are 1 and %d", path, of, MAX_FILES);
    m->files = fore_arena_alloc(&m->arena, (size_t)of + 2, sizeof *m->files);
    if (!m->files) return fore_fail_nomem(err, path);
    fore_status s = FORE_OK;
    for (int i = 1; i <= of && !s; i++) {
        char tail[32];
        snprintf(tail, sizeof tail, "-%05d-of-%05d.gguf", i, of);
        char *name = parts ? malloc(stem + sizeof tail) : strdup(path);
        if (!name) return fore_fail_nomem(err, path);
        if (parts) {
            memcpy(name, path, stem);
            memcpy(name + stem, tail, sizeof tail);
        }
        int64_t count = 1, no = 0;
        const bool there = fore_file_exists(name);
        s = open_file(m, name, err);
        if (s == FORE_ERR_IO && parts) s = fore_fail_prefix(err, s, "%s is one part of %d", path, of);
        if (s && m->count) {
            const char *slash = strrchr(name, '/');
            s = fore_notes_take(m->notes, "files", there ? NULL : slash ? slash + 1 : name, s, err);
            free(name);
            continue;
        }
        if (!s) s = fore_gguf_int(&m->files[m->count - 1], "split.count", 0, 65535, 1, &count, err);
        if (!s) s = fore_gguf_int(&m->files[m->count - 1], "split.no", 0, 65535, i - 1, &no, err);
        if (!s && ((count > 1 && count != of) || no != i - 1))
            s = fore_fail(err, FORE_ERR_FORMAT, "%s: it says that it is part %lld of %lld; parts are named NAME-%05lld-of-%05lld.gguf", name,
                          (long long)no + 1, (long long)count, (long long)no + 1, (long long)count);
        free(name);
    }
    m->parts = m->count;
    return s;
}

typedef enum role { MODEL, TOWER, HEAD } role;

/* By its metadata; a file of a model without its first layer has the draft head alone. */
static role role_of(const fore_gguf *f) {
    if (fore_gguf_text_is(f, "general.architecture", "clip") || fore_gguf_text_is(f, "general.type", "mmproj")) return TOWER;
    if (fore_gguf_find(f, "blk.0.attn_norm.weight") || !f->tensor_count) return MODEL;
    for (size_t i = 0; i < f->tensor_count; i++)
        if (strstr(f->tensors[i].name, ".nextn.")) return HEAD;
    return MODEL;
}

static fore_status role_of_path(const char *path, role *out, fore_error *err) {
    fore_arena arena = {0};
    fore_gguf f;
    fore_status s = fore_gguf_open(path, &arena, &f, err);
    if (!s) {
        *out = role_of(&f);
        fore_map_close(&f.map);
    }
    fore_arena_free(&arena);
    return s;
}

/* paths: of the folder's model, tower and head; owned, NULL: none. */
static fore_status choose(const char *dir, char *paths[3], fore_error *err) {
    listing l = {0};
    fore_status s = list_folder(dir, &l, err);
    for (size_t i = 0; i < l.count && !s; i++) {
        role r = MODEL;
        char *path = fore_path_join(dir, l.names[i]);
        if (!path) s = fore_fail_nomem(err, dir);
        if (!s) s = role_of_path(path, &r, err);
        if (!s && r != TOWER && paths[r])
            s = fore_fail(err, FORE_ERR_INVALID, "%s: has several models, %s and %s among them; give the file of the one that is meant", dir,
                          paths[r] + strlen(dir) + 1, l.names[i]);
        if (s || paths[r]) free(path);
        else paths[r] = path;
    }
    if (!s && !paths[MODEL]) s = fore_fail(err, FORE_ERR_IO, "%s: has no GGUF file of a text model", dir);
    free_listing(&l);
    return s;
}

/* ---- what they are ----------------------------------------------------------------------------------------------- */

fore_status fore_gguf_arch_int(const fore_gguf_model *m, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out,
                               fore_error *err) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", m->family->architecture, name);
    return fore_gguf_int(&m->files[0], key, low, high, fallback, out, err);
}

const fore_gguf_tensor *fore_gguf_text_tensor(const fore_gguf_model *m, const char *name) {
    const fore_gguf_tensor *t = NULL;
    for (int i = 0; i < m->parts && !t; i++) t = fore_gguf_find(&m->files[i], name);
    return t || m->head < 0 ? t : fore_gguf_find(&m->files[m->head], name);
}

const fore_gguf_tensor *fore_gguf_layer_tensor(const fore_gguf_model *m, int layer, const char *name) {
    char full[96];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    return fore_gguf_text_tensor(m, full);
}

bool fore_gguf_some_layer(const fore_gguf_model *m, const char *name) {
    for (int i = 0; i < m->layers; i++)
        if (fore_gguf_layer_tensor(m, i, name)) return true;
    return false;
}

static fore_status find_family(fore_gguf_model *m, fore_error *err) {
    const char *name = NULL;
    size_t size = 0;
    fore_status s = fore_gguf_text(&m->files[0], "general.architecture", &name, &size, err);
    if (s) return s;
    if (!name) return fore_fail(err, FORE_ERR_FORMAT, "%s: has no general.architecture", m->files[0].path);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (fore_gguf_text_is(&m->files[0], "general.architecture", families[i].architecture)) m->family = &families[i];
    if (m->family) return FORE_OK;
    if (size == 4 && !memcmp(name, "clip", 4))
        return fore_fail(err, FORE_ERR_INVALID, "%s: a vision tower alone; give the text model's file, and this one with --mmproj",
                         m->files[0].path);
    return fore_fail(err, FORE_ERR_UNSUPPORTED,
                     "%s: architecture %.*s is not supported; supported: qwen35, qwen35moe, qwen3next, qwen3vl, qwen3vlmoe, qwen2vl, qwen3 "
                     "and qwen3moe", m->files[0].path, (int)(size < 60 ? size : 60), name);
}

static fore_status read_sizes(fore_gguf_model *m, fore_error *err) {
    int64_t blocks = 0, draft = 0, kernel = 0, keys = 0, values = 0, dim = 0, inner = 0;
    fore_status s = fore_gguf_arch_int(m, "block_count", 1, FORE_CONFIG_LAYERS, 0, &blocks, err);
    if (!s) s = fore_gguf_arch_int(m, "nextn_predict_layers", 0, FORE_CONFIG_LAYERS, 0, &draft, err);
    if (!s && m->head >= 0) { /* the file apart counts them, the other one need not */
        char key[96];
        int64_t with = 0, apart = 0;
        snprintf(key, sizeof key, "%s.nextn_predict_layers", m->family->architecture);
        s = fore_gguf_int(&m->files[m->head], key, 0, FORE_CONFIG_LAYERS, 0, &apart, err);
        snprintf(key, sizeof key, "%s.block_count", m->family->architecture);
        if (!s) s = fore_gguf_int(&m->files[m->head], key, 1, FORE_CONFIG_LAYERS, 0, &with, err);
        if (!s && (apart < 1 || with - apart != blocks - draft))
            s = fore_fail(err, FORE_ERR_FORMAT, "%s: its draft head belongs to %lld layers of architecture %s, %s has %lld", m->files[m->head].path,
                          (long long)(with - apart), m->family->architecture, m->files[0].path, (long long)(blocks - draft));
        if (!s) blocks += apart - draft, draft = apart;
    }
    if (s) return s;
    if (blocks <= draft)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: %s.block_count is %lld, of which %lld are of the draft head", m->files[0].path,
                         m->family->architecture, (long long)blocks, (long long)draft);
    m->layers = (int)(blocks - draft);
    m->draft_layers = (int)draft;
    if (!m->family->absolute) return FORE_OK; /* none of its layers are linear */
    s = fore_gguf_arch_int(m, "ssm.conv_kernel", 1, 1024, 0, &kernel, err);
    if (!s) s = fore_gguf_arch_int(m, "ssm.group_count", 1, FORE_CONFIG_HEADS, 0, &keys, err);
    if (!s) s = fore_gguf_arch_int(m, "ssm.time_step_rank", 1, FORE_CONFIG_HEADS, 0, &values, err);
    if (!s) s = fore_gguf_arch_int(m, "ssm.state_size", 1, FORE_CONFIG_HEADS, 0, &dim, err);
    if (!s) s = fore_gguf_arch_int(m, "ssm.inner_size", 1, FORE_CONFIG_WIDTH, 0, &inner, err);
    if (s) return s;
    if (!kernel || !keys || !values || !dim || !inner || values % keys || inner % values)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: %s.ssm.{conv_kernel,group_count,time_step_rank,state_size,inner_size} are %lld, %lld, %lld, "
                         "%lld, %lld: expected numbers of which each of the second, third and fifth divides the next", m->files[0].path,
                         m->family->architecture, (long long)kernel, (long long)keys, (long long)values, (long long)dim, (long long)inner);
    m->kernel = (int)kernel;
    m->key_heads = (int)keys;
    m->value_heads = (int)values;
    m->key_dim = (int)dim;
    m->value_dim = (int)(inner / values);
    return FORE_OK;
}

static fore_status check_tower(const fore_gguf_model *m, fore_error *err) {
    if (m->tower < 0) return FORE_OK;
    const fore_gguf *f = &m->files[m->tower];
    const char *key = fore_gguf_get(f, "clip.vision.projector_type") ? "clip.vision.projector_type" : "clip.projector_type", *kind = NULL;
    size_t size = 0;
    if (!fore_gguf_text_is(f, "general.architecture", "clip"))
        return fore_fail(err, FORE_ERR_INVALID, "%s: not an mmproj file: its general.architecture is not clip", f->path);
    fore_status s = fore_gguf_text(f, key, &kind, &size, err);
    if (s) return s;
    static const char *const kinds[] = {"qwen3vl_merger", "qwen2.5vl_merger"};
    if (fore_gguf_text_is(f, key, "qwen2vl_merger"))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: a vision tower of kind qwen2vl_merger, that of Qwen2-VL, is not supported; supported: %s "
                         "and %s (Qwen2.5-VL)", f->path, kinds[0], kinds[1]);
    if (!fore_gguf_text_is(f, key, kinds[0]) && !fore_gguf_text_is(f, key, kinds[1]))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: a vision tower of kind %.*s is not supported; supported: %s and %s", f->path,
                         (int)(size < 60 ? size : 60), kind ? kind : "", kinds[0], kinds[1]);
    if (!m->family->whole)
        return fore_fail(err, FORE_ERR_INVALID, "%s: models of architecture %s take no pictures; leave the mmproj file out", f->path,
                         m->family->architecture);
    if (!fore_gguf_text_is(f, key, kinds[m->family->windows]))
        return fore_fail(err, FORE_ERR_INVALID, "%s: its vision tower is of kind %.*s; models of architecture %s have one of kind %s", f->path,
                         (int)size, kind, m->family->architecture, kinds[m->family->windows]);
    return FORE_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static fore_status open_all(fore_gguf_model *m, const char *path, const char *mmproj, fore_error *err) {
    char *paths[3] = {NULL, NULL, NULL};
    bool folder = fore_dir_exists(path);
    m->head = m->tower = -1;
    m->dir = fore_arena_copy(&m->arena, path, strlen(path));
    fore_status s = m->dir ? FORE_OK : fore_fail_nomem(err, path);
    if (!s && folder) s = choose(path, paths, err);
    if (!s) s = open_parts(m, folder ? paths[MODEL] : path, err);
    if (!s && paths[HEAD]) s = open_file(m, paths[HEAD], err);
    if (!s && paths[HEAD]) m->head = m->count - 1;
    if (!mmproj) mmproj = paths[TOWER];
    if (!s && mmproj) s = open_file(m, mmproj, err);
    if (!s && mmproj) m->tower = m->count - 1;
    if (!s) s = find_family(m, err);
    if (!s) s = read_sizes(m, err);
    if (!s) s = check_tower(m, err);
    for (int i = 0; i < 3; i++) free(paths[i]);
    return s;
}

fore_status fore_gguf_model_open(const char *path, const char *mmproj, fore_gguf_model **out, fore_error *err) {
    return fore_gguf_model_look(path, mmproj, NULL, out, err);
}

fore_status fore_gguf_model_look(const char *path, const char *mmproj, fore_notes *notes, fore_gguf_model **out, fore_error *err) {
    *out = NULL;
    fore_gguf_model *m = calloc(1, sizeof *m);
    if (!m) return fore_fail_nomem(err, path);
    m->notes = notes;
    fore_status s = open_all(m, path, mmproj, err);
    m->notes = NULL;
    if (s) fore_gguf_model_close(m);
    else *out = m;
    return s;
}

void fore_gguf_model_close(fore_gguf_model *m) {
    if (!m) return;
    for (int i = 0; i < m->count; i++) fore_map_close(&m->files[i].map);
    fore_arena_free(&m->arena);
    free(m);
}
