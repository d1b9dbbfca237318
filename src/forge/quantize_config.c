/* config.json and the index; see quantize_config.h. MLX-LM (utils.py) reads "quantization": the settings of most modules, and
 * by a module's path its own settings or false. */
#include "forge/quantize_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* Either that memory is there, or nothing more is added. */
typedef struct builder {
    bool failed;
} builder;

static void keep(builder *b, const cJSON *item) { b->failed = b->failed || !item; }

static void add_settings(builder *b, cJSON *to, int bits, int group) {
    keep(b, cJSON_AddNumberToObject(to, "group_size", group));
    keep(b, cJSON_AddNumberToObject(to, "bits", bits));
}

static void add_module(builder *b, cJSON *to, const char *path, const fore_quantize_job *j) {
    if (!j->bits) {
        keep(b, cJSON_AddFalseToObject(to, path));
        return;
    }
    cJSON *own = cJSON_AddObjectToObject(to, path);
    keep(b, own);
    if (own) add_settings(b, own, j->bits, j->group);
}

/* Modules that are not quantised as most are, under the names that their tensors have, and where MLX-LM reads settings
 * under names of its own, under these too. */
static void add_exceptions(builder *b, cJSON *to, const fore_quantize_plan *plan) {
    for (size_t i = 0; i < plan->count && !b->failed; i++) {
        const fore_quantize_job *j = &plan->jobs[i];
        if (!j->module || (j->bits == plan->bits && j->group == plan->group)) continue;
        add_module(b, to, j->module, j);
        fore_buf path = {0};
        if (j->bits && fore_quantize_mlx_path(j->module, &path)) b->failed = true;
        else if (j->bits && strcmp(path.data, j->module)) add_module(b, to, path.data, j);
        fore_buf_free(&path);
    }
}

/* NULL: nothing is quantised. */
static cJSON *make_block(builder *b, const fore_quantize_plan *plan) {
    if (!plan->bits) return NULL;
    cJSON *block = cJSON_CreateObject();
    keep(b, block);
    if (b->failed) return NULL;
    add_settings(b, block, plan->bits, plan->group);
    keep(b, cJSON_AddStringToObject(block, "mode", "affine"));
    add_exceptions(b, block, plan);
    return block;
}

/* How the draft head is quantised, for programs that ask for it: NULL when it is not. */
static cJSON *make_draft_block(builder *b, const fore_quantize_plan *plan) {
    const fore_quantize_job *found = NULL;
    for (size_t i = 0; i < plan->count && !found; i++) {
        const fore_quantize_job *j = &plan->jobs[i];
        if (j->bits && fore_quantize_is_draft(j->name)) found = j;
    }
    if (!found || b->failed) return NULL;
    cJSON *block = cJSON_CreateObject();
    keep(b, block);
    if (!block) return NULL;
    keep(b, cJSON_AddStringToObject(block, "policy", plan->rules.mtp_layers_only ? "cyankiwi" : "all"));
    add_settings(b, block, found->bits, found->group);
    keep(b, cJSON_AddStringToObject(block, "mode", "affine"));
    keep(b, cJSON_AddTrueToObject(block, "prequantized"));
    return block;
}

/* ,"name": VALUE before the brace that ends the text. */
static fore_status put_member(fore_buf *out, const char *name, const cJSON *value) {
    char *text = cJSON_Print(value);
    if (!text) return FORE_ERR_NOMEM;
    fore_status s = fore_buf_puts(out, ",\n  \"");
    if (!s) s = fore_buf_puts(out, name);
    if (!s) s = fore_buf_puts(out, "\": ");
    for (const char *p = text; *p && !s; p++) {
        /* The printer indents by tabs; the files of this kind have two spaces, and lie one level deeper here. */
        if (*p == '\t') s = fore_buf_puts(out, p > text && p[-1] == ':' ? " " : "  ");
        else s = fore_buf_putc(out, *p);
        if (!s && *p == '\n') s = fore_buf_puts(out, "  ");
    }
    free(text);
    return s;
}

/* The text of an object without its last brace and the space before it. */
static size_t cut_brace(const char *text, size_t size) {
    while (size && text[size - 1] != '}') size--;
    if (size) size--;
    while (size && strchr(" \t\r\n", text[size - 1])) size--;
    return size;
}

static fore_status put_blocks(fore_buf *out, const cJSON *config, const cJSON *block, const cJSON *draft) {
    fore_status s = block ? put_member(out, "quantization", block) : FORE_OK;
    if (!s && block) s = put_member(out, "quantization_config", block);
    if (!s && draft && !fore_json_get(config, "mtplx_mtp_quantization")) s = put_member(out, "mtplx_mtp_quantization", draft);
    return s ? s : fore_buf_puts(out, "\n}\n");
}

static fore_status refuse_quantised(const cJSON *config, const char *what, fore_error *err) {
    static const char *const keys[] = {"quantization", "quantization_config"};
    const cJSON *const objects[] = {config, fore_json_get(config, "text_config")};
    for (int i = 0; i < 4; i++) {
        const cJSON *q = fore_json_get(objects[i / 2], keys[i % 2]);
        const cJSON *method = fore_json_get(q, "quant_method");
        /* Ways that have FP8, whose weights become floats: of the others the tensors were refused. */
        if (cJSON_IsString(method) && (!strcmp(method->valuestring, "fp8") || !strcmp(method->valuestring, "compressed-tensors"))) continue;
        if (q && !cJSON_IsFalse(q) && !(cJSON_IsObject(q) && !q->child))
            return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: %s: the source is quantised already; give the checkpoint that it was made "
                             "from, or take foresight forge convert", what, keys[i % 2]);
    }
    return FORE_OK;
}

/* null, false and {} say the same as nothing, other forms are gone, and all would be in the way. */
static bool drop_old(cJSON *config) {
    static const char *const keys[] = {"quantization", "quantization_config"};
    cJSON *const objects[] = {config, cJSON_GetObjectItemCaseSensitive(config, "text_config")};
    bool dropped = false;
    for (int i = 0; i < 4; i++) {
        if (!cJSON_IsObject(objects[i / 2])) continue;
        cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(objects[i / 2], keys[i % 2]);
        dropped = dropped || item;
        cJSON_Delete(item);
    }
    return dropped;
}

/* Bits and group of a draft head that was quantised before, where they are others now. */
static bool correct_draft(cJSON *config, const cJSON *draft) {
    static const char *const names[] = {"bits", "group_size"};
    cJSON *old = cJSON_GetObjectItemCaseSensitive(config, "mtplx_mtp_quantization");
    bool changed = false;
    for (int i = 0; i < 2 && draft; i++) {
        cJSON *value = cJSON_GetObjectItemCaseSensitive(old, names[i]);
        double now = fore_json_get(draft, names[i])->valuedouble;
        if (!cJSON_IsNumber(value) || value->valuedouble == now) continue;
        cJSON_SetNumberValue(value, now);
        changed = true;
    }
    return changed;
}

fore_status fore_quantize_config(const fore_quantize_plan *plan, const char *source, size_t size, const char *what, char **text,
                                 fore_error *err) {
    *text = NULL;
    cJSON *config = NULL;
    char *printed = NULL;
    fore_buf out = {0};
    builder b = {false};
    fore_status s = fore_json_parse(source, size, what, &config, err);
    if (s) return s;
    if (!cJSON_IsObject(config)) s = fore_fail(err, FORE_ERR_FORMAT, "%s: expected an object", what);
    else if (!plan->rules.any_form) s = refuse_quantised(config, what, err);
    if (s) {
        cJSON_Delete(config);
        return s;
    }
    cJSON *block = make_block(&b, plan), *draft = make_draft_block(&b, plan);
    bool changed = drop_old(config);
    if (plan->rules.any_form && !b.failed) changed |= correct_draft(config, draft);
    if (changed) {
        printed = cJSON_Print(config);
        source = printed;
        size = printed ? strlen(printed) : 0;
    }
    s = b.failed || !source ? FORE_ERR_NOMEM : fore_buf_append(&out, source, cut_brace(source, size));
    if (!s) s = put_blocks(&out, config, block, draft);
    if (!s) *text = fore_buf_take(&out, &size);
    if (s || !*text) s = fore_fail_nomem(err, what);
    fore_buf_free(&out);
    free(printed);
    cJSON_Delete(block);
    cJSON_Delete(draft);
    cJSON_Delete(config);
    return s;
}

static void add_place(builder *b, cJSON *map, const char *tensor, const char *file) {
    if (!b->failed) keep(b, cJSON_AddStringToObject(map, tensor, file));
}

fore_status fore_quantize_index(const fore_quantize_plan *plan, char **text, fore_error *err) {
    builder b = {false};
    double total = 0;
    *text = NULL;
    for (size_t i = 0; i < plan->file_count; i++)
        if (!plan->files[i].sidecar) total += (double)plan->files[i].bytes;
    cJSON *index = cJSON_CreateObject();
    cJSON *metadata = index ? cJSON_AddObjectToObject(index, "metadata") : NULL;
    cJSON *map = metadata ? cJSON_AddObjectToObject(index, "weight_map") : NULL;
    keep(&b, map);
    if (map) keep(&b, cJSON_AddNumberToObject(metadata, "total_size", total));
    for (size_t i = 0; i < plan->count && !b.failed; i++) {
        const fore_quantize_job *j = &plan->jobs[i];
        const fore_quantize_file *f = &plan->files[j->file];
        if (f->sidecar) continue;
        add_place(&b, map, j->name, f->name);
        if (j->bits) add_place(&b, map, j->scales, f->name);
        if (j->bits) add_place(&b, map, j->biases, f->name);
        if (j->order) add_place(&b, map, j->order_name, f->name);
    }
    if (!b.failed) *text = cJSON_Print(index);
    cJSON_Delete(index);
    return *text ? FORE_OK : fore_fail_nomem(err, "the index of the shards");
}
