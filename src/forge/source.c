/* Opening what is converted, and the files around its weights; see source.h. */
#include "forge/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "forge/journal.h"
#include "forge/sidecar.h"

enum { MAX_CONFIG = 16 << 20 };

const char fore_source_report[] = "quantization_report.json";
static const char config_name[] = "config.json", pictures_name[] = "preprocessor_config.json";

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static fore_status open_folder(fore_source *s, fore_error *err) {
    char *path = fore_path_join(s->path, config_name);
    if (!path) return fore_fail_nomem(err, config_name);
    fore_status status = fore_file_read(path, MAX_CONFIG, &s->config_text, &s->config_size, err);
    if (!status) status = fore_config_parse(s->config_text, s->config_size, path, &s->arena, &s->config, err);
    free(path);
    return status ? status : fore_store_open(s->path, &s->store, err);
}

static fore_status print_tree(cJSON *tree, char **text, fore_error *err) {
    *text = cJSON_Print(tree);
    cJSON_Delete(tree);
    return *text ? FORE_OK : fore_fail_nomem(err, "a model's settings");
}

static fore_status open_gguf(fore_source *s, const char *mmproj, fore_error *err) {
    cJSON *tree = NULL;
    fore_status status = fore_gguf_model_open(s->path, mmproj, &s->gguf, err);
    if (!status) status = fore_gguf_config_tree(s->gguf, &tree, err);
    if (!status) status = print_tree(tree, &s->config_text, err);
    if (!status) s->config_size = strlen(s->config_text);
    if (!status) status = fore_gguf_config_read(s->gguf, &s->arena, &s->config, err);
    return status ? status : fore_gguf_store_make(s->gguf, &s->store, err);
}

static fore_status open_sidecar(fore_source *s, fore_error *err) {
    cJSON *config = NULL;
    fore_status status = fore_json_parse(s->config_text, s->config_size, config_name, &config, err);
    if (!status) status = fore_sidecar_open(s->path, config, &s->sidecar, &s->sidecar_name, err);
    cJSON_Delete(config);
    return status;
}

static fore_status check_path(const char *path, const char *mmproj, bool gguf, bool *is_gguf, fore_error *err) {
    struct stat st;
    if (stat(path, &st)) return fore_fail(err, FORE_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    fore_status s = fore_gguf_is_model(path, is_gguf, err);
    if (s) return s;
    if (*is_gguf && !gguf)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: a model in GGUF files: foresight forge convert makes a checkpoint of it", path);
    if (!*is_gguf && !S_ISDIR(st.st_mode))
        return fore_fail(err, FORE_ERR_INVALID, "%s: not a folder; give the folder of a checkpoint%s", path, gguf ? ", or a GGUF file" : "");
    if (!*is_gguf && mmproj)
        return fore_fail(err, FORE_ERR_INVALID, "%s: not a model of GGUF files: an mmproj file belongs to such a one", path);
    return FORE_OK;
}

fore_status fore_source_open(const char *path, const char *mmproj, bool gguf, fore_source *out, fore_error *err) {
    bool is_gguf = false;
    *out = (fore_source){.path = path};
    fore_status s = check_path(path, mmproj, gguf, &is_gguf, err);
    if (!s) s = is_gguf ? open_gguf(out, mmproj, err) : open_folder(out, err);
    if (!s && fore_dir_exists(path)) s = open_sidecar(out, err);
    if (s) fore_source_close(out);
    return s;
}

void fore_source_close(fore_source *s) {
    fore_store_close(s->sidecar);
    fore_store_close(s->store);
    fore_gguf_model_close(s->gguf);
    free(s->sidecar_name);
    free(s->config_text);
    fore_arena_free(&s->arena);
    *s = (fore_source){0};
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Weights of any format, what is written anew or tells of the old weights, and hidden files stay behind. */
static bool is_copied(const fore_source *s, const char *name) {
    static const char *const weights[] = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack", ".npz",
                                          ".index.json", ".partial"};
    static const char *const others[] = {config_name, fore_source_report, fore_journal_name, "quantize_config.json", "quant_config.json"};
    static const char *const made[] = {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}; /* of a model in GGUF files */
    if (name[0] == '.') return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i])) return false;
    for (size_t i = 0; s->gguf && i < sizeof made / sizeof *made; i++)
        if (!strcmp(name, made[i])) return false;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        if (fore_name_ends_with(name, weights[i])) return false;
    return true;
}

static fore_status give_copy(const fore_source *s, const char *name, fore_source_file each, void *user, fore_error *err) {
    char *path = fore_path_join(s->path, name);
    if (!path) return fore_fail_nomem(err, name);
    fore_status status = fore_file_exists(path) ? each(user, name, path, NULL) : FORE_OK;
    free(path);
    return status;
}

static fore_status give_copies(const fore_source *s, fore_source_file each, void *user, fore_error *err) {
    DIR *d = opendir(s->path);
    if (!d && errno == ENOMEM) return fore_fail_nomem(err, s->path);
    if (!d) return fore_fail(err, FORE_ERR_IO, "%s: cannot read the folder: %s", s->path, strerror(errno));
    fore_status status = FORE_OK;
    for (const struct dirent *e; !status && (e = readdir(d));)
        if (is_copied(s, e->d_name)) status = give_copy(s, e->d_name, each, user, err);
    closedir(d);
    return status;
}

/* Takes the tree, which may be NULL. */
static fore_status give_tree(const char *name, cJSON *tree, fore_source_file each, void *user, fore_error *err) {
    char *text = NULL;
    if (!tree) return FORE_OK;
    fore_status s = print_tree(tree, &text, err);
    if (!s) s = each(user, name, NULL, text);
    free(text);
    return s;
}

/* Frames of videos are cut as pictures are, and have limits of their own, which metadata do not have: those of the published files. */
static fore_status set_video_limits(cJSON *tree, fore_error *err) {
    cJSON_DeleteItemFromObjectCaseSensitive(tree, "min_pixels");
    cJSON_DeleteItemFromObjectCaseSensitive(tree, "max_pixels");
    cJSON *size = cJSON_AddObjectToObject(tree, "size");
    bool good = size && cJSON_AddNumberToObject(size, "shortest_edge", 4096) && cJSON_AddNumberToObject(size, "longest_edge", 25165824);
    return good ? FORE_OK : fore_fail_nomem(err, "a model's settings");
}

static fore_status give_processors(const fore_source *s, fore_source_file each, void *user, fore_error *err) {
    static const char *const own[] = {pictures_name, "processor_config.json"};
    cJSON *tree = NULL;
    bool there = false; /* then it was copied */
    for (size_t i = 0; i < 2 && !there && fore_dir_exists(s->path); i++) {
        char *path = fore_path_join(s->path, own[i]);
        if (!path) return fore_fail_nomem(err, own[i]);
        there = fore_file_exists(path);
        free(path);
    }
    fore_status status = there ? FORE_OK : fore_gguf_processor_tree(s->gguf, &tree, err);
    if (!status) status = give_tree(pictures_name, tree, each, user, err);
    tree = NULL;
    if (!status && !there) status = fore_gguf_processor_tree(s->gguf, &tree, err);
    if (!status && tree) status = set_video_limits(tree, err);
    if (!status) return give_tree("video_preprocessor_config.json", tree, each, user, err);
    cJSON_Delete(tree);
    return status;
}

static fore_status give_metadata(const fore_source *s, fore_source_file each, void *user, fore_error *err) {
    char *tokenizer = NULL;
    size_t size;
    cJSON *config = NULL, *generation = NULL;
    fore_status status = fore_gguf_tokenizer_text(s->gguf, &tokenizer, &size, &config, err);
    if (status) return status;
    if (tokenizer) status = each(user, "tokenizer.json", NULL, tokenizer);
    free(tokenizer);
    if (!status) status = give_tree("tokenizer_config.json", config, each, user, err);
    else cJSON_Delete(config);
    if (!status) status = fore_gguf_generation_tree(s->gguf, &generation, err);
    if (!status) status = give_tree("generation_config.json", generation, each, user, err);
    return status ? status : give_processors(s, each, user, err);
}

fore_status fore_source_files(const fore_source *s, fore_source_file each, void *user, fore_error *err) {
    fore_status status = fore_dir_exists(s->path) ? give_copies(s, each, user, err) : FORE_OK;
    return status || !s->gguf ? status : give_metadata(s, each, user, err);
}
