/* Checkpoints that are in the cache, without the network; see hub.h. */
#include <stdlib.h>
#include <string.h>
#include <dirent.h>

#include "base/file.h"
#include "base/json.h"
#include "hub/cache.h"
#include "hub/hub.h"

fore_status fore_hub_find(const char *root, const fore_hub_name *name, char **dir, fore_error *err) {
    fore_hub_cache cache;
    char commit[FORE_HUB_DIGEST] = "";
    *dir = NULL;
    fore_status s = fore_hub_cache_open(root, name->repo, &cache, err);
    if (!s) s = fore_hub_cache_ref(&cache, name->revision, commit, err);
    if (!s && commit[0]) s = fore_hub_cache_snapshot(&cache, commit, dir, err);
    if (*dir && !fore_dir_exists(*dir)) {
        free(*dir);
        *dir = NULL;
    }
    fore_hub_cache_close(&cache);
    return s;
}

static fore_status check_file(const char *dir, const char *name, fore_error *err) {
    char *path = fore_path_join(dir, name);
    if (!path) return fore_fail_nomem(err, "a path of the cache");
    bool there = fore_file_exists(path);
    free(path);
    return there ? FORE_OK : fore_fail(err, FORE_ERR_IO, "%s: %.200s is missing", dir, name);
}

/* The files that the index names. */
static fore_status check_shards(const char *dir, fore_error *err) {
    char *path = fore_path_join(dir, "model.safetensors.index.json");
    if (!path) return fore_fail_nomem(err, "a path of the cache");
    cJSON *tree = NULL;
    const cJSON *shard;
    fore_status s = fore_file_exists(path) ? fore_json_read(path, (size_t)256 << 20, &tree, err) : FORE_OK;
    const cJSON *map = fore_json_get(tree, "weight_map");
    const char *last = "";
    cJSON_ArrayForEach(shard, map) {
        if (s || !cJSON_IsString(shard) || !strcmp(shard->valuestring, last)) continue; /* neighbours are mostly in one file */
        last = shard->valuestring;
        if (fore_hub_path_is_safe(last)) s = check_file(dir, last, err);
    }
    cJSON_Delete(tree);
    free(path);
    return s;
}

static bool has_gguf(const char *dir) {
    DIR *d = opendir(dir);
    bool found = false;
    for (const struct dirent *e; d && !found && (e = readdir(d));) found = fore_name_ends_with(e->d_name, ".gguf");
    if (d) closedir(d);
    return found;
}

fore_status fore_hub_check(const char *dir, fore_error *err) {
    fore_status s = check_file(dir, "config.json", err);
    if (s == FORE_ERR_IO && has_gguf(dir)) return FORE_OK;
    return s ? s : check_shards(dir, err);
}
