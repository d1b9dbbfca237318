/* fore_head_heal. Conversions that turn gain - 1 into gains go by the ends of names, and may know those of a decoder layer and miss
 * those around it, or the other way round. Published heads have means of 0.73 to 0.75 (gain - 1) or 1.73 up (gains) for queries and
 * keys, and of 0.30 to 0.39 or 0.87 up for the smallest of the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "forge/graft_config.h"
#include "forge/head.h"
#include "forge/json_text.h"
#include "kernels/half.h"
#include "model/mtp.h"

typedef enum encoding { UNCLEAR, DELTA, GAIN } encoding;

typedef struct healing {
    fore_head_place place;
    fore_safetensors_item *items;
    size_t count;
    encoding layers, around;
    double qk, smallest; /* means: the largest of queries and keys, the smallest before fc */
    const char *name;    /* of the head's own file */
    fore_head_report *report;
    fore_error *err;
} healing;

static bool is_norm(const char *name) {
    return fore_name_ends_with(name, "norm.weight") || strstr(name, "pre_fc_norm_") != NULL;
}

static bool is_in_layer(const char *name) { return strstr(name, ".layers.") != NULL; }

static float load(const fore_entry *e, size_t i) {
    if (e->dtype == FORE_DTYPE_F32) return fore_load_f32(e->data + 4 * i);
    return e->dtype == FORE_DTYPE_BF16 ? fore_load_bf16(e->data + 2 * i) : fore_load_f16(e->data + 2 * i);
}

static double mean_of(const fore_entry *e) {
    double sum = 0;
    for (size_t i = 0; i < e->shape[0]; i++) sum += (double)load(e, i);
    return e->shape[0] ? sum / (double)e->shape[0] : 0;
}

static bool is_vector(const fore_safetensors_item *it) {
    const fore_entry *e = it->user;
    return is_norm(it->name) && e->dims == 1 && fore_dtype_is_float(e->dtype);
}

static void judge(healing *h) {
    h->qk = 0;
    h->smallest = 1e30;
    for (size_t i = 0; i < h->count; i++) {
        const fore_safetensors_item *it = &h->items[i];
        if (!is_vector(it)) continue;
        double mean = mean_of(it->user);
        bool qk = fore_name_ends_with(it->name, ".q_norm.weight") || fore_name_ends_with(it->name, ".k_norm.weight");
        if (qk && mean > h->qk) h->qk = mean;
        if (strstr(it->name, "pre_fc_norm_") && mean < h->smallest) h->smallest = mean;
    }
    h->layers = h->qk < 1.25 ? DELTA : GAIN;
    h->around = h->smallest < 0.5 ? DELTA : h->smallest > 0.8 ? GAIN : UNCLEAR;
    if (h->around == UNCLEAR) h->around = h->layers;
}

/* What config.json says; UNCLEAR: nothing. key: where. */
static encoding declared(const cJSON *tree, const char **key) {
    static const char *const keys[] = {"mtplx_mtp_norm_encoding", "mtp_norm_encoding", "norm_encoding", "norm_weight_encoding"};
    for (int i = 0; i < 4; i++) {
        const cJSON *item = fore_json_get(i < 2 ? tree : fore_json_get(tree, "mtplx_mtp_quantization"), keys[i]);
        if (!cJSON_IsString(item)) continue;
        *key = keys[i];
        return strstr(item->valuestring, "delta") ? DELTA : GAIN;
    }
    return UNCLEAR;
}

/* A norm less 1, in F32, where every difference of 16-bit numbers near 1 is exact. */
static fore_status lower(healing *h, fore_safetensors_item *it) {
    const fore_entry *e = it->user;
    fore_entry *made = fore_arena_alloc(&h->place.arena, 1, sizeof *made);
    unsigned char *data = fore_arena_alloc(&h->place.arena, (size_t)e->shape[0] + 1, 4);
    if (!made || !data) return fore_fail_nomem(h->err, "the norms");
    for (size_t i = 0; i < e->shape[0]; i++) {
        float v = load(e, i) - 1.0f;
        uint32_t u;
        memcpy(&u, &v, sizeof u);
        for (int k = 0; k < 4; k++) data[4 * i + (size_t)k] = (unsigned char)(u >> 8 * k);
    }
    *made = *e;
    made->file = -1;
    made->dtype = FORE_DTYPE_F32;
    made->dtype_name = "F32";
    made->data = data;
    made->bytes = 4 * (size_t)e->shape[0];
    *it = fore_tensor_item(made, it->name);
    h->report->changed++;
    return FORE_OK;
}

static void drop_declarations(cJSON *tree) {
    static const char *const keys[] = {"mtplx_mtp_norm_encoding", "mtp_norm_encoding"}, *const inner[] = {"norm_encoding", "norm_weight_encoding"};
    cJSON *quantization = cJSON_GetObjectItemCaseSensitive(tree, "mtplx_mtp_quantization");
    for (int i = 0; i < 2; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(tree, keys[i]);
        cJSON_DeleteItemFromObjectCaseSensitive(quantization, inner[i]);
    }
}

static fore_status declare(healing *h, const fore_folder *folder, encoding now) {
    char *text = NULL;
    drop_declarations(h->place.tree);
    bool good = cJSON_AddStringToObject(h->place.tree, "mtp_norm_encoding", now == DELTA ? "delta" : "absolute") != NULL;
    fore_status s = good ? fore_json_text(h->place.tree, "config.json", &text, h->err) : fore_fail_nomem(h->err, "config.json");
    if (!s) s = fore_folder_write(folder, "config.json", text, strlen(text), h->err);
    free(text);
    return s;
}

/* Without an index every weight file of a folder may count, and a second head would clash with the first. */
static fore_status keep_apart(healing *h, const fore_folder *folder) {
    static const char index_name[] = "model.safetensors.index.json";
    cJSON *index = NULL;
    char *text = NULL;
    if (fore_folder_has(folder, index_name, NULL)) return FORE_OK;
    fore_status s = fore_graft_new_index(h->place.store, &index, h->err);
    if (!s) s = fore_json_text(index, index_name, &text, h->err);
    if (!s) s = fore_folder_write(folder, index_name, text, strlen(text), h->err);
    cJSON_Delete(index);
    free(text);
    return s;
}

static const char *name_of(encoding e) { return e == DELTA ? "gain - 1" : "gains"; }

static fore_status heal(healing *h, const char *dir, bool dry_run) {
    fore_head_report *r = h->report;
    fore_head_place *p = &h->place;
    const char *key = "";
    fore_folder folder = {.fd = -1};
    fore_status s = fore_head_find(dir, p, h->err);
    if (s) return s;
    if (!p->head) return fore_fail(h->err, FORE_ERR_INVALID, "%s: it has no draft head", dir);
    s = fore_head_items(p->head, p->prefix, &p->arena, &h->items, &h->count, &r->bytes, &r->layers, h->err);
    r->tensors = h->count;
    if (!s) s = fore_head_file(dir, p->tree, &h->name, h->err);
    if (s) return s;
    if (p->sidecar) h->name = p->sidecar_name;
    judge(h);
    encoding says = declared(p->tree, &key), now = h->layers;
    bool mixed = h->layers != h->around, wrong = says != UNCLEAR && (mixed || says != now);
    int used = snprintf(r->note, sizeof r->note, "in the layers %s (mean of queries and keys at most %.2f), around them %s (mean before fc at least %.2f)",
                        name_of(h->layers), h->qk, name_of(h->around), h->smallest);
    if (says != UNCLEAR && used > 0) snprintf(r->note + used, sizeof r->note - (size_t)used, "; config.json says %s (%s)", name_of(says), key);
    r->already = !mixed && !wrong;
    if (r->already) return FORE_OK;
    for (size_t i = 0; i < h->count && mixed && !s; i++)
        if (is_vector(&h->items[i]) && (is_in_layer(h->items[i].name) ? h->layers : h->around) == GAIN) s = lower(h, &h->items[i]);
    if (mixed) {
        now = DELTA;
        fore_head_note_file(r, h->name);
    }
    if (wrong) r->files[r->file_count++] = "config.json";
    if (s || dry_run) return s;
    fore_tensor_step step = {.stage = "mtp", .total = r->bytes};
    s = fore_folder_open(dir, &folder, h->err);
    if (!s && mixed && !p->sidecar) s = keep_apart(h, &folder);
    if (!s && mixed) s = fore_tensor_file_write(&folder, h->name, h->items, h->count, &step, h->err);
    if (!s && wrong) s = declare(h, &folder, now);
    fore_folder_close(&folder);
    return s;
}

fore_status fore_head_heal(const char *dir, bool dry_run, fore_head_report *report, fore_error *err) {
    fore_head_report unused = {0};
    if (!dir) return fore_fail(err, FORE_ERR_INVALID, "fore_head_heal: an argument is NULL");
    healing h = {.report = report ? report : &unused, .err = err};
    *h.report = (fore_head_report){0};
    fore_status s = heal(&h, dir, dry_run);
    fore_head_close(&h.place);
    return s;
}
