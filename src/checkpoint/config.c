/* config.json; see config.h. This file finds out what kind of model it is and where its parts lie; config_text.c,
 * config_vision.c and config_stored.c read the parts, with the defaults of config_family.c. Settings that other programs honour (attn_output_gate,
 * layer_scale, ...) are refused where they would change the numbers. */
#include "checkpoint/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/config_part.h"
#include "checkpoint/config_stored.h"

enum { MAX_CONFIG = 16 * 1024 * 1024 };

/* ---- readers that fail once and say where ------------------------------------------------------------------------ */

void fore_config_keep(fore_config_part *p, fore_status s) {
    if (p->status) return;
    if (s && p->section[0]) s = fore_fail_prefix(p->err, s, "%s", p->section);
    if (s) s = fore_fail_prefix(p->err, s, "%s", p->what);
    p->status = s;
}

int fore_config_int(fore_config_part *p, const char *name, int low, int high, int fallback) {
    int64_t v = fallback;
    if (!p->status) fore_config_keep(p, fore_json_int(p->object, name, low, high, fallback, &v, p->err));
    return p->status ? fallback : (int)v;
}

double fore_config_number(fore_config_part *p, const char *name, double fallback) {
    double v = fallback;
    if (!p->status) fore_config_keep(p, fore_json_number(p->object, name, fallback, &v, p->err));
    if (!p->status && !isfinite(v)) fore_config_keep(p, fore_fail(p->err, FORE_ERR_FORMAT, "%s: expected a finite number", name));
    return p->status ? fallback : v;
}

bool fore_config_bool(fore_config_part *p, const char *name, bool fallback) {
    bool v = fallback;
    if (!p->status) fore_config_keep(p, fore_json_bool(p->object, name, fallback, &v, p->err));
    return p->status ? fallback : v;
}

const char *fore_config_string(fore_config_part *p, const char *name, const char *fallback) {
    const char *v = fallback;
    if (!p->status) fore_config_keep(p, fore_json_string(p->object, name, fallback, &v, p->err));
    return p->status ? fallback : v;
}

void fore_config_refuse(fore_config_part *p, fore_status code, const char *problem) {
    if (!p->status) fore_config_keep(p, fore_fail(p->err, code, "%s", problem));
}

void fore_config_check(fore_config_part *p, bool good, const char *problem) {
    if (!good) fore_config_refuse(p, FORE_ERR_FORMAT, problem);
}

void fore_config_only(fore_config_part *p, const char *name, const char *fallback, const char *const *accepted) {
    const char *v = fore_config_string(p, name, fallback);
    if (p->status) return;
    for (int i = 0; accepted[i]; i++)
        if (!strcmp(v, accepted[i])) return;
    char all[128];
    for (size_t i = 0, used = 0; accepted[i] && used < sizeof all; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s\"%s\"", i ? ", " : "", accepted[i]);
    fore_config_keep(p, fore_fail(p->err, FORE_ERR_UNSUPPORTED, "%s \"%s\" is not supported; supported: %s", name, v, all));
}

/* ---- what kind of model ------------------------------------------------------------------------------------------ */

typedef struct layout {
    const cJSON *top, *text, *vision; /* vision: NULL for a text-only model; text may be top */
    bool text_only;                   /* the flag on tied embeddings is text's */
    const fore_family *family;
} layout;

static fore_status read_kind(const cJSON *top, const char *what, const char **architecture, const char **model_type,
                             const fore_family **family, fore_error *err) {
    const cJSON *list = fore_json_get(top, "architectures");
    if (list && (!cJSON_IsArray(list) || (list->child && !cJSON_IsString(list->child))))
        return fore_fail(err, FORE_ERR_FORMAT, "%s: architectures: expected a list of names", what);
    *architecture = list && list->child ? list->child->valuestring : "";
    fore_status s = fore_json_string(top, "model_type", "", model_type, err);
    if (s) return fore_fail_prefix(err, s, "%s", what);
    if (!**architecture && !**model_type)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: expected \"model_type\" or \"architectures\", found neither; %s", what,
                         fore_family_list);
    const fore_family *by_name = fore_family_of_architecture(*architecture), *by_type = fore_family_of_type(*model_type);
    if ((**architecture && !by_name) || (**model_type && !by_type))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: architecture %s with model_type %s is not supported; %s", what,
                         **architecture ? *architecture : "(none)", **model_type ? *model_type : "(none)", fore_family_list);
    if (by_name && by_type && by_name != by_type)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: architecture %s and model_type %s contradict each other", what, *architecture,
                         *model_type);
    *family = by_type ? by_type : by_name;
    if (**model_type) return FORE_OK;
    *model_type = fore_json_get(top, "text_config") && by_name->model_type ? by_name->model_type : by_name->text_type;
    return FORE_OK;
}

static fore_status read_object(const cJSON *top, const char *name, const char *what, const cJSON **out, fore_error *err) {
    *out = fore_json_get(top, name);
    if (*out && !cJSON_IsObject(*out)) return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: expected an object", what, name);
    return FORE_OK;
}

static fore_status find_parts(const cJSON *top, const char *what, const char *architecture, const char *model_type,
                              layout *out, fore_stored_settings *stored, fore_error *err) {
    const cJSON *text, *vision;
    fore_status s = read_object(top, "text_config", what, &text, err);
    if (!s) s = read_object(top, "vision_config", what, &vision, err);
    if (!s) s = fore_config_read_stored(top, text ? text : top, what, stored, err);
    if (s) return s;
    out->top = top;
    out->text = text ? text : top;
    out->text_only = !strcmp(model_type, out->family->text_type) || fore_family_is_text(out->family, architecture);
    out->vision = out->text_only ? NULL : vision;
    return FORE_OK;
}

/* ---- token ids --------------------------------------------------------------------------------------------------- */

/* The reference's default is of its own vocabulary: in a smaller one there is no such token. */
static int32_t read_token(fore_config_part *p, const char *name, int fallback, int vocab_size) {
    return fore_config_int(p, name, 0, vocab_size - 1, fallback < vocab_size ? fallback : -1);
}

static void read_eos(fore_config_part *p, const cJSON *text, int fallback, fore_config *out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(p->object, "eos_token_id");
    if (!item || cJSON_IsNull(item)) {
        const cJSON *inner = cJSON_GetObjectItemCaseSensitive(text, "eos_token_id");
        if (inner) item = inner;
    }
    if (!item) {
        if (fallback >= 0 && out->text.vocab_size > fallback) out->eos[out->eos_count++] = fallback;
        return;
    }
    if (cJSON_IsNull(item)) return;
    const cJSON *first = cJSON_IsArray(item) ? item->child : item;
    for (const cJSON *c = first; c; c = cJSON_IsArray(item) ? c->next : NULL) {
        double v = c->valuedouble;
        if (!cJSON_IsNumber(c) || v != floor(v) || v < 0 || v > INT32_MAX) {
            fore_config_refuse(p, FORE_ERR_FORMAT, "eos_token_id: expected a token id or a list of them");
            return;
        }
        if (out->eos_count == FORE_CONFIG_EOS) {
            fore_config_refuse(p, FORE_ERR_LIMIT, "eos_token_id: too many end tokens, the limit is 16");
            return;
        }
        out->eos[out->eos_count++] = (int32_t)v;
    }
}

static void read_tokens(fore_config_part *p, const layout *l, fore_config *out) {
    int vocab = out->text.vocab_size;
    out->image_token_id = out->video_token_id = out->vision_start_token_id = out->vision_end_token_id = -1;
    const fore_family *f = l->family;
    read_eos(p, l->text, f->eos, out);
    if (!out->has_vision) return;
    out->image_token_id = read_token(p, "image_token_id", f->image, vocab);
    out->video_token_id = read_token(p, "video_token_id", f->video, vocab);
    out->vision_start_token_id = read_token(p, "vision_start_token_id", f->vision_start, vocab);
    out->vision_end_token_id = read_token(p, "vision_end_token_id", f->vision_end, vocab);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static fore_status read_parts(const layout *l, const char *what, fore_arena *arena, fore_config *out, fore_error *err) {
    bool inner = l->text != l->top;
    fore_config_part text = {.object = l->text, .section = inner ? "text_config" : "", .what = what, .err = err};
    fore_config_read_text(&text, l->family, arena, &out->text);
    if (text.status) return text.status;
    fore_config_part top = {.object = l->top, .section = "", .what = what, .err = err};
    bool tied = l->family->inner_tie && out->text.tie_word_embeddings;
    if (!l->text_only) out->text.tie_word_embeddings = fore_config_bool(&top, "tie_word_embeddings", false) || tied;
    if (inner && l->family->draft_head && !out->text.mtp_num_hidden_layers)
        out->text.mtp_num_hidden_layers = fore_config_mtp_layers(&top);
    if (top.status) return top.status;
    out->has_vision = l->vision != NULL;
    if (l->vision) {
        fore_config_part vision = {.object = l->vision, .section = "vision_config", .what = what, .err = err};
        fore_config_read_vision(&vision, l->family, arena, &out->vision);
        fore_config_check(&vision, out->vision.out_hidden_size == out->text.hidden_size,
                          "out_hidden_size differs from the hidden_size of the text model");
        if (vision.status) return vision.status;
    }
    read_tokens(&top, l, out);
    return top.status;
}

static fore_status read_tree(const cJSON *top, const char *what, fore_arena *arena, fore_config *out, fore_error *err) {
    if (!cJSON_IsObject(top)) return fore_fail(err, FORE_ERR_FORMAT, "%s: expected a JSON object", what);
    const char *architecture = "", *model_type = "";
    layout l = {0};
    fore_status s = read_kind(top, what, &architecture, &model_type, &l.family, err);
    if (!s) s = find_parts(top, what, architecture, model_type, &l, &out->stored, err);
    if (s) return s;
    out->architecture = fore_arena_copy(arena, architecture, strlen(architecture));
    out->model_type = fore_arena_copy(arena, model_type, strlen(model_type));
    if (!out->architecture || !out->model_type) return fore_fail_nomem(err, what);
    return read_parts(&l, what, arena, out, err);
}

fore_status fore_config_parse(const char *json, size_t size, const char *what, fore_arena *arena, fore_config *out,
                              fore_error *err) {
    *out = (fore_config){0};
    cJSON *top;
    fore_status s = fore_json_parse(json, size, what, &top, err);
    if (s) return s;
    s = read_tree(top, what, arena, out, err);
    cJSON_Delete(top);
    return s;
}

fore_status fore_config_read(const char *dir, fore_arena *arena, fore_config *out, fore_error *err) {
    *out = (fore_config){0};
    char *path = fore_path_join(dir, "config.json");
    if (!path) return fore_fail_nomem(err, dir);
    char *text;
    size_t size;
    fore_status s = fore_file_read(path, MAX_CONFIG, &text, &size, err);
    if (!s) s = fore_config_parse(text, size, path, arena, out, err);
    free(text);
    free(path);
    return s;
}
