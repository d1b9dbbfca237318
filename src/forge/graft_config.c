/* Editing config.json and the index for a graft; see graft_config.h. */
#include "forge/graft_config.h"

#include <string.h>

#include "base/json.h"
#include "checkpoint/config_family.h"
#include "model/bind.h"

static const char config_name[] = "config.json", index_name[] = "model.safetensors.index.json";

static bool put(cJSON *object, const char *name, cJSON *item) {
    if (!item) return false;
    bool good = cJSON_HasObjectItem(object, name) ? cJSON_ReplaceItemInObjectCaseSensitive(object, name, item)
                                                  : cJSON_AddItemToObject(object, name, item);
    if (!good) cJSON_Delete(item);
    return good;
}

/* What belongs to the whole file rather than to the text model in it. */
static bool stays_at_top(const char *name) {
    static const char *const names[] = {"architectures", "model_type", "transformers_version", "quantization", "quantization_config",
                                        "mlx_lm_extra_tensors", "mtp_norm_encoding", "vision_config"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return !strncmp(name, "mtplx_", 6);
}

/* A flat file of a text model becomes a whole one with the text model inside. */
static bool nest(cJSON *host, const fore_family *family) {
    cJSON *text = cJSON_CreateObject();
    bool good = text != NULL;
    for (cJSON *item = host->child, *next; item && good; item = next) {
        next = item->next;
        if (stays_at_top(item->string)) continue;
        cJSON_DetachItemViaPointer(host, item);
        good = cJSON_AddItemToObject(text, item->string, item);
        if (!good) cJSON_Delete(item);
    }
    good = good && put(text, "model_type", cJSON_CreateString(family->text_type));
    const cJSON *tied = fore_json_get(text, "tie_word_embeddings"), *dtype = fore_json_get(text, "dtype");
    if (good && tied) good = put(host, "tie_word_embeddings", cJSON_Duplicate(tied, true));
    if (good && dtype) good = put(host, "dtype", cJSON_Duplicate(dtype, true));
    if (good && cJSON_AddItemToObject(host, "text_config", text)) return true;
    cJSON_Delete(text);
    return false;
}

static bool name_whole(cJSON *host, const fore_family *family) {
    if (!fore_json_get(host, "text_config") && !nest(host, family)) return false;
    const char *const whole[] = {family->whole[0]};
    return put(host, "model_type", cJSON_CreateString(family->model_type)) &&
           put(host, "architectures", cJSON_CreateStringArray(whole, 1));
}

fore_status fore_graft_config(const cJSON *donor, const fore_config *donor_config, cJSON *host, const fore_config *host_config,
                              bool *changed, fore_error *err) {
    const struct {
        const char *name;
        int32_t id;
    } tokens[] = {{"image_token_id", donor_config->image_token_id},
                  {"video_token_id", donor_config->video_token_id},
                  {"vision_start_token_id", donor_config->vision_start_token_id},
                  {"vision_end_token_id", donor_config->vision_end_token_id}};
    const fore_family *family = fore_family_of_type(host_config->model_type);
    const cJSON *vision = fore_json_get(donor, "vision_config"), *own = fore_json_get(host, "vision_config");
    *changed = false;
    bool text_only = !strcmp(host_config->model_type, family->text_type) || fore_family_is_text(family, host_config->architecture), good = true;
    if (text_only) {
        good = name_whole(host, family);
        *changed = true;
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens && good; i++) {
        if (tokens[i].id < 0 || fore_json_get(host, tokens[i].name)) continue;
        good = put(host, tokens[i].name, cJSON_CreateNumber(tokens[i].id));
        *changed = true;
    }
    if (good && !(own && cJSON_Compare(own, vision, true))) {
        good = put(host, "vision_config", cJSON_Duplicate(vision, true));
        *changed = true;
    }
    return good ? FORE_OK : fore_fail_nomem(err, config_name);
}

fore_status fore_graft_new_index(const fore_store *store, cJSON **out, fore_error *err) {
    cJSON *index = cJSON_CreateObject();
    cJSON *metadata = index ? cJSON_AddObjectToObject(index, "metadata") : NULL;
    cJSON *map = metadata ? cJSON_AddObjectToObject(index, "weight_map") : NULL;
    bool good = map && cJSON_AddNumberToObject(metadata, "total_size", (double)fore_store_bytes(store)), packed = false;
    double parameters = 0;
    for (size_t i = 0; i < fore_store_count(store) && good; i++) {
        const fore_entry *e = fore_store_at(store, i);
        const char *path = fore_store_file_path(store, e->file), *slash = strrchr(path, '/');
        double size = 1;
        for (int d = 0; d < e->dims; d++) size *= (double)e->shape[d];
        parameters += size;
        packed = packed || fore_bind_is_packed(store, e);
        good = cJSON_AddStringToObject(map, e->name, slash ? slash + 1 : path) != NULL;
    }
    /* Of packed integers the shapes do not say how many weights they are. */
    if (good && !packed) good = cJSON_AddNumberToObject(metadata, "total_parameters", parameters) != NULL;
    *out = good ? index : NULL;
    if (good) return FORE_OK;
    cJSON_Delete(index);
    return fore_fail_nomem(err, index_name);
}

static void add_number(cJSON *metadata, const char *name, uint64_t more) {
    cJSON *item = cJSON_GetObjectItemCaseSensitive(metadata, name);
    /* An index that does not say how much there was goes on not saying it. */
    if (cJSON_IsNumber(item)) cJSON_SetNumberValue(item, item->valuedouble + (double)more);
}

fore_status fore_graft_add_to_index(cJSON *index, const char *name, const fore_safetensors_item *items, size_t count, uint64_t bytes,
                                    uint64_t parameters, fore_error *err) {
    cJSON *map = cJSON_GetObjectItemCaseSensitive(index, "weight_map");
    cJSON *metadata = cJSON_GetObjectItemCaseSensitive(index, "metadata");
    bool good = true;
    add_number(metadata, "total_size", bytes);
    add_number(metadata, "total_parameters", parameters);
    for (size_t i = 0; i < count && good; i++) good = cJSON_AddStringToObject(map, items[i].name, name) != NULL;
    return good ? FORE_OK : fore_fail_nomem(err, index_name);
}
