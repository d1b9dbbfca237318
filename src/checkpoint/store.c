/* A folder of weight files; see store.h. */
#include "checkpoint/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store_adopt.h"

enum { MAX_INDEX = 256 * 1024 * 1024, MAX_FILES = 65536 };

typedef struct shard {
    const char *path; /* in the arena */
    const char *name; /* its end, relative to the folder */
    fore_map map;
    fore_entry *entries; /* in the arena, until they are merged */
    size_t count;
} shard;

struct fore_store {
    fore_arena arena;
    shard *shards; /* in the arena */
    int files;
    fore_entry *entries; /* in the arena, sorted by name */
    size_t count;
    uint64_t bytes;
    fore_notes *notes; /* borrowed while it is opened for looking; else NULL */
};

/* What an index says of one tensor. */
typedef struct place {
    const char *tensor, *file; /* borrowed from the index's JSON tree */
} place;

static const char index_name[] = "model.safetensors.index.json";
static const char suffix[] = ".safetensors";

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }
static int compare_entries(const void *a, const void *b) {
    return strcmp(((const fore_entry *)a)->name, ((const fore_entry *)b)->name);
}
static int compare_places(const void *a, const void *b) {
    return strcmp(((const place *)a)->tensor, ((const place *)b)->tensor);
}

static const char *shard_name(const fore_store *st, const fore_entry *e) { return st->shards[e->file].name; }

static char *join(fore_arena *arena, const char *dir, const char *name) {
    char *joined = fore_path_join(dir, name);
    if (!joined) return NULL;
    char *copy = fore_arena_copy(arena, joined, strlen(joined));
    free(joined);
    return copy;
}

/* ---- opening shards and merging what they hold ------------------------------------------------------------------- */

/* Opens names[0..count), which differ from each other. */
static fore_status open_shards(fore_store *st, const char *dir, const char *const *names, size_t count, fore_error *err) {
    if (count > MAX_FILES)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: expected at most %d weight files, found %zu", dir, MAX_FILES, count);
    st->shards = fore_arena_alloc(&st->arena, count, sizeof *st->shards);
    if (!st->shards) return fore_fail_nomem(err, "the list of weight files");
    for (size_t i = 0; i < count; i++) {
        shard *sh = &st->shards[st->files];
        sh->path = join(&st->arena, dir, names[i]);
        if (!sh->path) return fore_fail_nomem(err, "the list of weight files");
        sh->name = sh->path + strlen(sh->path) - strlen(names[i]);
        bool there = !st->notes || fore_file_exists(sh->path);
        fore_status s = fore_safetensors_open(sh->path, st->files, &st->arena, &sh->map, &sh->entries, &sh->count, err);
        if (!s) st->files++;
        else s = fore_notes_take(st->notes, "files", there ? NULL : names[i], s, err);
        if (s) return s;
    }
    return FORE_OK;
}

static fore_status merge(fore_store *st, fore_error *err) {
    size_t total = 0;
    for (int i = 0; i < st->files; i++) total += st->shards[i].count;
    if (st->files == 1) {
        st->entries = st->shards[0].entries;
    } else {
        st->entries = fore_arena_alloc(&st->arena, total, sizeof *st->entries);
        if (!st->entries) return fore_fail_nomem(err, "the list of tensors");
        size_t at = 0;
        for (int i = 0; i < st->files; i++) {
            if (st->shards[i].count)
                memcpy(st->entries + at, st->shards[i].entries, st->shards[i].count * sizeof *st->entries);
            at += st->shards[i].count;
        }
    }
    st->count = total;
    qsort(st->entries, total, sizeof *st->entries, compare_entries);
    for (size_t i = 0; i < total; i++) {
        st->bytes += st->entries[i].bytes;
        if (!i || strcmp(st->entries[i].name, st->entries[i - 1].name)) continue;
        const fore_entry *a = &st->entries[i - 1], *b = &st->entries[i];
        fore_status s;
        if (a->file == b->file) s = fore_fail(err, FORE_ERR_FORMAT, "%s: tensor %s is there twice", st->shards[a->file].path, a->name);
        else s = fore_fail(err, FORE_ERR_FORMAT, "%s: tensor %s is also in %s", st->shards[a->file].path, a->name, shard_name(st, b));
        s = fore_notes_take(st->notes, "files", NULL, s, err);
        if (s) return s;
    }
    return FORE_OK;
}

/* ---- the index --------------------------------------------------------------------------------------------------- */

/* A relative path without "." and ".." whose spelling is unique, so that equal files have equal names. */
static bool inside_folder(const char *name) {
    for (const char *p = name;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) return false;
        if (!p[n]) return true;
        p += n + 1;
    }
}

static fore_status read_places(const cJSON *index, const char *path, place **out, size_t *count, fore_error *err) {
    const cJSON *map = fore_json_get(index, "weight_map");
    if (!cJSON_IsObject(map) || !map->child)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: expected an object \"weight_map\" that names tensors", path);
    size_t n = (size_t)cJSON_GetArraySize(map);
    place *places = malloc(n * sizeof *places);
    if (!places) return fore_fail_nomem(err, path);
    *out = places;
    *count = n;
    size_t i = 0;
    for (const cJSON *c = map->child; c; c = c->next) {
        if (!cJSON_IsString(c))
            return fore_fail(err, FORE_ERR_FORMAT, "%s: tensor %s: expected a file name", path, c->string);
        if (!inside_folder(c->valuestring))
            return fore_fail(err, FORE_ERR_FORMAT, "%s: tensor %s: file name \"%s\" leaves the folder or is not in its "
                             "shortest form", path, c->string, c->valuestring);
        places[i++] = (place){c->string, c->valuestring};
    }
    qsort(places, n, sizeof *places, compare_places);
    for (i = 1; i < n; i++)
        if (!strcmp(places[i].tensor, places[i - 1].tensor))
            return fore_fail(err, FORE_ERR_FORMAT, "%s: tensor %s is named twice", path, places[i].tensor);
    return FORE_OK;
}

/* Whether one of the opened files has this name. */
static bool is_open(const fore_store *st, const char *name) {
    for (int i = 0; i < st->files; i++)
        if (!strcmp(st->shards[i].name, name)) return true;
    return false;
}

/* Walks both sorted lists: all that the index promises must be where it says. Of a file that was noted, nothing more is. */
static fore_status check_places(const fore_store *st, const char *path, const place *places, size_t count, fore_error *err) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        int order = -1;
        while (at < st->count && (order = strcmp(st->entries[at].name, places[i].tensor)) < 0) at++;
        fore_status s = FORE_OK;
        if (at == st->count || order) {
            if (st->notes && !is_open(st, places[i].file)) continue;
            s = fore_fail(err, FORE_ERR_FORMAT, "%s: tensor %s: expected in %s, found in no file", path, places[i].tensor, places[i].file);
            s = fore_notes_take(st->notes, "tensors", places[i].tensor, s, err);
        } else if (strcmp(shard_name(st, &st->entries[at]), places[i].file)) {
            s = fore_fail(err, FORE_ERR_FORMAT, "%s: tensor %s: expected in %s, found in %s", path, places[i].tensor, places[i].file,
                          shard_name(st, &st->entries[at]));
            s = fore_notes_take(st->notes, "files", NULL, s, err);
        }
        if (s) return s;
    }
    return FORE_OK;
}

static fore_status open_index(fore_store *st, const char *dir, const char *path, fore_error *err) {
    cJSON *index = NULL;
    place *places = NULL;
    const char **names = NULL;
    size_t count = 0, files = 0;
    fore_status s = fore_json_read(path, MAX_INDEX, &index, err);
    if (!s) s = read_places(index, path, &places, &count, err);
    if (s) goto done;
    names = malloc(count * sizeof *names);
    if (!names) {
        s = fore_fail_nomem(err, path);
        goto done;
    }
    for (size_t i = 0; i < count; i++) names[i] = places[i].file;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++)
        if (!files || strcmp(names[i], names[files - 1])) names[files++] = names[i];
    s = open_shards(st, dir, names, files, err);
    if (s == FORE_ERR_IO) s = fore_fail_prefix(err, s, "%s names a file that cannot be read", path);
    if (!s) s = merge(st, err);
    if (!s) s = check_places(st, path, places, count, err);
done:
    free(names);
    free(places);
    cJSON_Delete(index);
    return s;
}

/* ---- a folder without an index ----------------------------------------------------------------------------------- */

typedef struct listing {
    char **names; /* owned */
    size_t count, capacity;
} listing;

static void free_listing(listing *l) {
    for (size_t i = 0; i < l->count; i++) free(l->names[i]);
    free(l->names);
}

static bool ends_with_suffix(const char *name) {
    size_t n = strlen(name), m = sizeof suffix - 1;
    return n > m && !strcmp(name + n - m, suffix) && name[0] != '.';
}

static fore_status list_folder(const char *dir, listing *l, fore_error *err) {
    DIR *d = opendir(dir);
    if (!d && errno == ENOMEM) return fore_fail_nomem(err, dir);
    if (!d) return fore_fail(err, FORE_ERR_IO, "%s: cannot read the folder: %s", dir, strerror(errno));
    fore_status s = FORE_OK;
    for (const struct dirent *e; !s && (e = readdir(d));) {
        if (!ends_with_suffix(e->d_name)) continue;
        if (l->count == l->capacity) {
            size_t capacity = l->capacity ? l->capacity * 2 : 16;
            char **more = realloc(l->names, capacity * sizeof *more);
            if (!more) {
                s = fore_fail_nomem(err, dir);
                break;
            }
            l->names = more;
            l->capacity = capacity;
        }
        l->names[l->count] = strdup(e->d_name);
        if (l->names[l->count]) l->count++;
        else s = fore_fail_nomem(err, dir);
    }
    closedir(d);
    if (!s && l->count) qsort(l->names, l->count, sizeof *l->names, compare_names);
    return s;
}

/* "<stem>-00002-of-00003.safetensors": the numbers and the stem's length. */
static bool numbered(const char *name, size_t *stem, unsigned long *number, unsigned long *of) {
    size_t n = strlen(name) - (sizeof suffix - 1);
    const size_t tail = sizeof "-00002-of-00003" - 1;
    if (n < tail) return false;
    const char *p = name + n - tail;
    for (size_t i = 0; i < tail; i++) {
        char want = "-ddddd-of-ddddd"[i];
        if (want == 'd' ? p[i] < '0' || p[i] > '9' : p[i] != want) return false;
    }
    *stem = n - tail;
    *number = strtoul(p + 1, NULL, 10);
    *of = strtoul(p + 10, NULL, 10);
    return true;
}

/* Shards from..to-1 of the set of which `like` is one are missing. */
static fore_status note_missing(fore_store *st, const char *dir, const char *like, size_t from, size_t to, unsigned long of, fore_error *err) {
    fore_status s = FORE_OK;
    size_t stem = 0;
    unsigned long number = 0, unused = 0;
    numbered(like, &stem, &number, &unused);
    for (size_t i = from; i < to && !s; i++) {
        char tail[64];
        snprintf(tail, sizeof tail, "-%05zu-of-%05lu%s", i, of, suffix);
        char *name = malloc(stem + strlen(tail) + 1);
        if (!name) return fore_fail_nomem(err, dir);
        memcpy(name, like, stem);
        strcpy(name + stem, tail);
        fore_fail(err, FORE_ERR_FORMAT, "%s: shard %zu of %lu is missing", dir, i, of);
        s = fore_notes_take(st->notes, "files", name, FORE_ERR_FORMAT, err);
        free(name);
    }
    return s;
}

/* Keeps only numbered shards when there are any, and demands one complete set of them. */
static fore_status choose_files(fore_store *st, const char *dir, listing *l, fore_error *err) {
    size_t kept = 0, stem = 0, first_stem = 0, next = 1; /* next: the number that is expected */
    unsigned long number = 0, of = 0, total = 0;
    fore_status s = FORE_OK;
    for (size_t i = 0; i < l->count && !s; i++) {
        if (!numbered(l->names[i], &stem, &number, &of)) continue;
        if (!kept) {
            first_stem = stem;
            total = of;
        }
        char *keep = l->names[i];
        l->names[i] = l->names[kept];
        l->names[kept] = keep;
        if (stem != first_stem || of != total || strncmp(keep, l->names[0], stem))
            return fore_fail(err, FORE_ERR_FORMAT, "%s: no %s, and the shards %s and %s are of different sets", dir, index_name,
                             l->names[0], keep);
        if (number != next && !st->notes)
            return fore_fail(err, FORE_ERR_FORMAT, "%s: shard %zu of %lu is missing before %s", dir, next, total, keep);
        if (number > next) s = note_missing(st, dir, keep, next, number, total, err);
        else if (number < next) s = fore_notes_take(st->notes, "files", NULL, fore_fail(err, FORE_ERR_FORMAT, "%s: %s: shards count from 1", dir, keep), err);
        next = number + 1;
        kept++;
    }
    if (!kept || s) return s;
    if (next != total + 1 && !st->notes)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: shard %zu of %lu is missing after %s", dir, next, total, l->names[kept - 1]);
    if (next <= total) s = note_missing(st, dir, l->names[0], next, total + 1, total, err);
    if (s) return s;
    for (size_t i = kept; i < l->count; i++) free(l->names[i]);
    l->count = kept;
    return FORE_OK;
}

static fore_status open_listing(fore_store *st, const char *dir, fore_error *err) {
    listing l = {0};
    fore_status s = list_folder(dir, &l, err);
    if (!s && !l.count)
        s = fore_fail(err, FORE_ERR_IO, "%s: no weights: expected %s, model.safetensors or other *.safetensors files", dir,
                      index_name);
    s = fore_notes_take(st->notes, "files", s == FORE_ERR_IO ? "model.safetensors" : NULL, s, err);
    if (!s) s = choose_files(st, dir, &l, err);
    if (!s) s = open_shards(st, dir, (const char *const *)l.names, l.count, err);
    if (!s) s = merge(st, err);
    free_listing(&l);
    return s;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static fore_status open_folder(fore_store *st, const char *dir, fore_error *err) {
    static const char *const single[] = {"model.safetensors"};
    if (!fore_dir_exists(dir)) return fore_fail(err, FORE_ERR_IO, "%s: no such folder", dir);
    char *index = join(&st->arena, dir, index_name), *file = join(&st->arena, dir, single[0]);
    if (!index || !file) return fore_fail_nomem(err, dir);
    if (fore_file_exists(index)) {
        fore_status s = open_index(st, dir, index, err);
        if (!s || !st->notes || st->files) return s;
        s = fore_notes_take(st->notes, "files", NULL, s, err);
        return s ? s : open_listing(st, dir, err);
    }
    if (!fore_file_exists(file)) return open_listing(st, dir, err);
    fore_status s = open_shards(st, dir, single, 1, err);
    return s ? s : merge(st, err);
}

static fore_status open_one(fore_store *st, const char *path, fore_error *err) {
    st->shards = fore_arena_alloc(&st->arena, 1, sizeof *st->shards);
    if (!st->shards) return fore_fail_nomem(err, path);
    shard *sh = &st->shards[0];
    sh->path = fore_arena_copy(&st->arena, path, strlen(path));
    if (!sh->path) return fore_fail_nomem(err, path);
    const char *slash = strrchr(sh->path, '/');
    sh->name = slash ? slash + 1 : sh->path;
    fore_status s = fore_safetensors_open(path, 0, &st->arena, &sh->map, &sh->entries, &sh->count, err);
    if (s) return s;
    st->files = 1;
    return merge(st, err);
}

static fore_status open_with(fore_status (*how)(fore_store *, const char *, fore_error *), const char *path, fore_notes *notes,
                             fore_store **out, fore_error *err) {
    *out = NULL;
    fore_store *st = calloc(1, sizeof *st);
    if (!st) return fore_fail_nomem(err, path);
    st->notes = notes;
    fore_status s = fore_notes_take(notes, "files", NULL, how(st, path, err), err);
    st->notes = NULL;
    if (s) fore_store_close(st);
    else *out = st;
    return s;
}

fore_status fore_store_open(const char *dir, fore_store **out, fore_error *err) {
    return open_with(open_folder, dir, NULL, out, err);
}

fore_status fore_store_look(const char *dir, fore_notes *notes, fore_store **out, fore_error *err) {
    return open_with(open_folder, dir, notes, out, err);
}

fore_status fore_store_open_file(const char *path, fore_store **out, fore_error *err) {
    return open_with(open_one, path, NULL, out, err);
}

fore_status fore_store_adopt(fore_arena *arena, const fore_store_part *parts, int count, fore_store **out, fore_error *err) {
    *out = NULL;
    fore_store *st = calloc(1, sizeof *st);
    if (!st) return fore_fail_nomem(err, "the list of tensors");
    fore_status s = FORE_OK;
    shard *shards = fore_arena_alloc(arena, (size_t)count, sizeof *shards);
    if (!shards) {
        free(st);
        return fore_fail_nomem(err, "the list of weight files");
    }
    for (int i = 0; i < count; i++) {
        const char *slash = strrchr(parts[i].path, '/');
        shards[i] = (shard){parts[i].path, slash ? slash + 1 : parts[i].path, *parts[i].map, parts[i].entries, parts[i].count};
        *parts[i].map = (fore_map){0};
    }
    st->arena = *arena;
    *arena = (fore_arena){0};
    st->shards = shards;
    st->files = count;
    s = merge(st, err);
    if (s) fore_store_close(st);
    else *out = st;
    return s;
}

void fore_store_close(fore_store *store) {
    if (!store) return;
    for (int i = 0; i < store->files; i++) fore_map_close(&store->shards[i].map);
    fore_arena_free(&store->arena);
    free(store);
}

/* ---- looking up -------------------------------------------------------------------------------------------------- */

size_t fore_store_count(const fore_store *store) { return store->count; }

const fore_entry *fore_store_at(const fore_store *store, size_t index) {
    return index < store->count ? &store->entries[index] : NULL;
}

const fore_entry *fore_store_find(const fore_store *store, const char *name) {
    size_t low = 0, high = store->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, store->entries[middle].name);
        if (!order) return &store->entries[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

int fore_store_files(const fore_store *store) { return store->files; }

const char *fore_store_file_path(const fore_store *store, int file) {
    return file >= 0 && file < store->files ? store->shards[file].path : NULL;
}

const fore_map *fore_store_file_map(const fore_store *store, int file) {
    return file >= 0 && file < store->files ? &store->shards[file].map : NULL;
}

uint64_t fore_store_bytes(const fore_store *store) { return store->bytes; }
