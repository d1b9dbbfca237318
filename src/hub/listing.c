/* Reading the hub's listings; see listing.h. */
#include "hub/listing.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { MAX_FILES = 100000 };

void fore_hub_listing_free(fore_hub_listing *listing) {
    for (size_t i = 0; i < listing->count; i++) free(listing->files[i].path);
    free(listing->files);
    *listing = (fore_hub_listing){0};
}

fore_status fore_hub_listing_read_commit(fore_hub_listing *listing, const char *json, size_t size, const char *what, fore_error *err) {
    cJSON *tree = NULL;
    const char *commit = NULL;
    fore_status s = fore_json_parse(json, size, what, &tree, err);
    if (s) return s;
    s = fore_json_string(tree, "sha", "", &commit, err);
    if (s) fore_fail_prefix(err, s, "%s", what);
    else if (!fore_hub_is_commit(commit)) s = fore_fail(err, FORE_ERR_FORMAT, "%s: expected the commit as sha, 40 hexadecimal digits", what);
    else memcpy(listing->commit, commit, strlen(commit) + 1);
    cJSON_Delete(tree);
    return s;
}

static fore_status grow(fore_hub_listing *l, fore_error *err) {
    if (l->count < l->capacity) return FORE_OK;
    if (l->count >= MAX_FILES) return fore_fail(err, FORE_ERR_LIMIT, "more than %d files, which is the limit", MAX_FILES);
    size_t capacity = l->capacity ? 2 * l->capacity : 32;
    fore_hub_file *files = realloc(l->files, capacity * sizeof *files);
    if (!files) return fore_fail_nomem(err, "the list of files");
    l->files = files;
    l->capacity = capacity;
    return FORE_OK;
}

static fore_status add_entry(fore_hub_listing *l, const cJSON *entry, fore_error *err) {
    const int64_t most = (int64_t)1 << 53; /* as far as a JSON number is exact */
    const char *type, *path, *digest;
    int64_t size = 0;
    if (!cJSON_IsObject(entry)) return fore_fail(err, FORE_ERR_FORMAT, "expected a list of objects");
    fore_status s = fore_json_string(entry, "type", "", &type, err);
    if (!s) s = fore_json_string(entry, "path", "", &path, err);
    if (s) return s;
    if (strcmp(type, "file") != 0) return FORE_OK; /* a folder; what is in it is listed too */
    if (!fore_hub_path_is_safe(path))
        return fore_fail(err, FORE_ERR_FORMAT, "the server lists a file whose name cannot be kept ('..', a control character or the "
                         "like in it); nothing of it was downloaded");
    const cJSON *lfs = fore_json_get(entry, "lfs"), *source = cJSON_IsObject(lfs) ? lfs : entry;
    s = fore_json_string(source, "oid", "", &digest, err);
    if (!s) s = fore_json_int(source, "size", 0, most, -1, &size, err);
    if (!s && (size < 0 || strlen(digest) != (source == lfs ? 64 : 40) || !fore_hub_is_digest(digest)))
        s = fore_fail(err, FORE_ERR_FORMAT, "expected a size and a digest as oid");
    if (!s) s = grow(l, err);
    if (s) return fore_fail_prefix(err, s, "%.200s", path);
    fore_hub_file *file = &l->files[l->count];
    *file = (fore_hub_file){.path = strdup(path), .size = (uint64_t)size};
    if (!file->path) return fore_fail_nomem(err, "the list of files");
    memcpy(file->digest, digest, strlen(digest) + 1);
    l->count++;
    return FORE_OK;
}

fore_status fore_hub_listing_add(fore_hub_listing *listing, const char *json, size_t size, const char *what, fore_error *err) {
    cJSON *tree = NULL;
    fore_status s = fore_json_parse(json, size, what, &tree, err);
    if (s) return s;
    if (!cJSON_IsArray(tree)) s = fore_fail(err, FORE_ERR_FORMAT, "%s: expected a list of files", what);
    for (const cJSON *entry = s ? NULL : tree->child; entry && !s; entry = entry->next) {
        s = add_entry(listing, entry, err);
        if (s) fore_fail_prefix(err, s, "%s", what);
    }
    cJSON_Delete(tree);
    return s;
}
