/* config.json and its like from the metadata of GGUF files; see gguf_model.h. Whatever a sister file of Hugging Face would say is put
 * under its name there, so that one reader checks both. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/config_part.h"
#include "checkpoint/gguf_part.h"

/* A builder remembers its first failure; later calls do nothing. */
typedef struct builder {
    const fore_gguf_model *m;
    const fore_gguf *file; /* that keys are looked up in */
    cJSON *object;         /* that members go to */
    fore_error *err;
    fore_status status;
} builder;

static void need_memory(builder *b, const void *made) {
    if (!made && !b->status) b->status = fore_fail_nomem(b->err, "a model's settings");
}

static void put_number(builder *b, const char *member, double value) {
    if (!b->status) need_memory(b, cJSON_AddNumberToObject(b->object, member, value));
}

static void put_bool(builder *b, const char *member, bool value) {
    if (!b->status) need_memory(b, cJSON_AddBoolToObject(b->object, member, value));
}

static void put_text(builder *b, const char *member, const char *value) {
    if (!b->status) need_memory(b, cJSON_AddStringToObject(b->object, member, value));
}

/* A new object or list under that name; NULL after a failure. */
static cJSON *put_new(builder *b, const char *member, bool list) {
    if (b->status) return NULL;
    cJSON *item = list ? cJSON_AddArrayToObject(b->object, member) : cJSON_AddObjectToObject(b->object, member);
    need_memory(b, item);
    return item;
}

static void list_item(builder *b, cJSON *list, cJSON *item) {
    if (item && list && cJSON_AddItemToArray(list, item)) return;
    cJSON_Delete(item);
    need_memory(b, NULL);
}

/* f32 numbers as a person wrote them: the shortest decimals that give them back. */
static double shortest(double value) {
    char text[40];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if ((float)strtod(text, NULL) == (float)value) break;
    }
    return strtod(text, NULL);
}

/* Key KEY's number as `member`; false when it is not there. */
static bool copy_number(builder *b, const char *key, const char *member) {
    const fore_gguf_value *v = fore_gguf_get(b->file, key);
    double value;
    if (b->status || !v) return false;
    b->status = fore_gguf_number(b->file, key, 0, &value, b->err);
    if (!b->status && !isfinite(value)) b->status = fore_fail(b->err, FORE_ERR_FORMAT, "%s: %s: expected a finite number", b->file->path, key);
    put_number(b, member, v->kind == FORE_GGUF_F32 ? shortest(value) : value);
    return true;
}

static void need_number(builder *b, const char *key, const char *member) {
    if (!copy_number(b, key, member) && !b->status) b->status = fore_fail(b->err, FORE_ERR_FORMAT, "%s: has no %s", b->file->path, key);
}

static const char *arch_key(const builder *b, char out[96], const char *name) {
    snprintf(out, 96, "%s.%s", b->m->family->architecture, name);
    return out;
}

static void need_arch(builder *b, const char *name, const char *member) {
    char key[96];
    need_number(b, arch_key(b, key, name), member);
}

static bool copy_arch(builder *b, const char *name, const char *member) {
    char key[96];
    return copy_number(b, arch_key(b, key, name), member);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void put_linear(builder *b) {
    const fore_gguf_model *m = b->m;
    put_number(b, "linear_conv_kernel_dim", m->kernel);
    put_number(b, "linear_num_key_heads", m->key_heads);
    put_number(b, "linear_num_value_heads", m->value_heads);
    put_number(b, "linear_key_head_dim", m->key_dim);
    put_number(b, "linear_value_head_dim", m->value_dim);
    cJSON *types = put_new(b, "layer_types", true);
    for (int i = 0; i < m->layers && !b->status; i++)
        list_item(b, types, cJSON_CreateString(fore_gguf_layer_tensor(m, i, "ssm_a") ? "linear_attention" : "full_attention"));
}

static void put_experts(builder *b) {
    need_arch(b, "expert_count", "num_experts");
    need_arch(b, "expert_used_count", "num_experts_per_tok");
    need_arch(b, "expert_feed_forward_length", "moe_intermediate_size");
    copy_arch(b, "expert_shared_feed_forward_length", "shared_expert_intermediate_size");
    put_bool(b, "norm_topk_prob", true);
    cJSON *dense = put_new(b, "mlp_only_layers", true);
    for (int i = 0; i < b->m->layers && !b->status; i++)
        if (!fore_gguf_layer_tensor(b->m, i, "ffn_gate_inp.weight")) list_item(b, dense, cJSON_CreateNumber(i));
    copy_arch(b, "feed_forward_length", "intermediate_size");
    char key[96];
    double scale = 1;
    if (!b->status) b->status = fore_gguf_number(b->file, arch_key(b, key, "expert_weights_scale"), 1, &scale, b->err);
    if (!b->status && scale != 1 && scale != 0)
        b->status = fore_fail(b->err, FORE_ERR_UNSUPPORTED, "%s: %s is %g; supported: 1", b->file->path, key, scale);
}

/* How much of a head is turned, as the part that gives the whole number of dimensions back. */
static void put_rotary_part(builder *b) {
    char key[96];
    int64_t dim = 0, head = 0, hidden = 0, heads = 0;
    if (!b->status) b->status = fore_gguf_arch_int(b->m, "rope.dimension_count", 1, FORE_CONFIG_HEADS, 0, &dim, b->err);
    if (!b->status) b->status = fore_gguf_arch_int(b->m, "attention.key_length", 1, FORE_CONFIG_WIDTH, 0, &head, b->err);
    if (!b->status) b->status = fore_gguf_arch_int(b->m, "embedding_length", 1, FORE_CONFIG_WIDTH, 1, &hidden, b->err);
    if (!b->status) b->status = fore_gguf_arch_int(b->m, "attention.head_count", 1, FORE_CONFIG_HEADS, 1, &heads, b->err);
    if (b->status || !dim) return;
    if (!head) head = hidden / heads;
    if (dim > head) {
        b->status = fore_fail(b->err, FORE_ERR_FORMAT, "%s: %s is %lld, a head has %lld", b->file->path, arch_key(b, key, "rope.dimension_count"),
                              (long long)dim, (long long)head);
        return;
    }
    double part = (double)dim / (double)head;
    if ((int64_t)((double)head * part) < dim) part = nextafter(part, 2);
    put_number(b, "partial_rotary_factor", part);
}

static void put_rope(builder *b) {
    cJSON *outer = b->object, *rope = put_new(b, "rope_parameters", false);
    const char *type;
    size_t size;
    char key[96], name[32];
    if (!rope) return;
    b->object = rope;
    need_arch(b, "rope.freq_base", "rope_theta");
    put_rotary_part(b);
    if (!b->status) b->status = fore_gguf_text(b->file, arch_key(b, key, "rope.scaling.type"), &type, &size, b->err);
    if (!b->status && type && !(size == 4 && !memcmp(type, "none", 4))) {
        snprintf(name, sizeof name, "%.*s", (int)(size < 31 ? size : 31), type);
        put_text(b, "rope_type", name);
        static const char *const settings[][2] = {{"rope.scaling.factor", "factor"},
                                                  {"rope.scaling.original_context_length", "original_max_position_embeddings"},
                                                  {"rope.scaling.yarn_beta_fast", "beta_fast"},
                                                  {"rope.scaling.yarn_beta_slow", "beta_slow"}};
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) copy_arch(b, settings[i][0], settings[i][1]);
    }
    const fore_gguf_value *sections = fore_gguf_get(b->file, arch_key(b, key, "rope.dimension_sections"));
    if (!b->status && sections && b->m->family->whole) {
        if (!sections->array || sections->count < 3 || sections->kind == FORE_GGUF_STRING || sections->kind == FORE_GGUF_ARRAY)
            b->status = fore_fail(b->err, FORE_ERR_FORMAT, "%s: %s: expected a list of numbers", b->file->path, key);
        cJSON *list = put_new(b, "mrope_section", true);
        for (uint64_t i = 0; i < 3 && !b->status; i++) list_item(b, list, cJSON_CreateNumber(fore_gguf_member(sections, i)));
    }
    b->object = outer;
}

static void put_text_model(builder *b) {
    const fore_gguf_model *m = b->m;
    const fore_gguf_tensor *embedding = fore_gguf_text_tensor(m, "token_embd.weight");
    if (!b->status && (!embedding || embedding->dims != 2))
        b->status = fore_fail(b->err, FORE_ERR_FORMAT, "%s: has no token_embd.weight of two dimensions", b->file->path);
    if (b->status) return;
    put_text(b, "model_type", m->family->text_only);
    put_number(b, "vocab_size", (double)embedding->shape[0]);
    put_number(b, "num_hidden_layers", m->layers);
    put_number(b, "mtp_num_hidden_layers", m->draft_layers);
    need_arch(b, "embedding_length", "hidden_size");
    need_arch(b, "context_length", "max_position_embeddings");
    need_arch(b, "attention.head_count", "num_attention_heads");
    if (!copy_arch(b, "attention.head_count_kv", "num_key_value_heads")) need_arch(b, "attention.head_count", "num_key_value_heads");
    if (!copy_arch(b, "attention.key_length", "head_dim") && !b->status) {
        const cJSON *hidden = fore_json_get(b->object, "hidden_size"), *heads = fore_json_get(b->object, "num_attention_heads");
        if (heads->valuedouble >= 1) put_number(b, "head_dim", floor(hidden->valuedouble / heads->valuedouble));
    }
    need_arch(b, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
    put_bool(b, "attention_bias", fore_gguf_layer_tensor(m, m->layers - 1, "attn_q.bias") != NULL);
    if (m->family->moe) put_experts(b);
    else need_arch(b, "feed_forward_length", "intermediate_size");
    if (m->family->absolute) put_linear(b);
    put_rope(b);
}

/* ---- vision ------------------------------------------------------------------------------------------------------ */

static void put_deepstack(builder *b) {
    cJSON *list = put_new(b, "deepstack_visual_indexes", true);
    const fore_gguf_value *flags = NULL;
    if (!b->status) b->status = fore_gguf_array(b->file, "clip.vision.is_deepstack_layers", FORE_GGUF_BOOL, &flags, b->err);
    for (uint64_t i = 0; !b->status && flags && i < flags->count && i < FORE_CONFIG_LAYERS; i++)
        if (fore_gguf_member(flags, i) != 0) list_item(b, list, cJSON_CreateNumber((double)i));
}

static void put_vision(builder *b) {
    const fore_gguf *text = b->file;
    cJSON *outer = b->object, *vision = put_new(b, "vision_config", false);
    if (!vision) return;
    b->file = &b->m->files[b->m->tower];
    b->object = vision;
    const fore_gguf_tensor *positions = fore_gguf_find(b->file, "v.position_embd.weight");
    if (!positions || positions->dims != 2) {
        b->status = fore_fail(b->err, FORE_ERR_FORMAT, "%s: has no v.position_embd.weight of two dimensions", b->file->path);
        return;
    }
    put_number(b, "num_position_embeddings", (double)positions->shape[0]);
    need_number(b, "clip.vision.block_count", "depth");
    need_number(b, "clip.vision.embedding_length", "hidden_size");
    need_number(b, "clip.vision.feed_forward_length", "intermediate_size");
    need_number(b, "clip.vision.attention.head_count", "num_heads");
    need_number(b, "clip.vision.patch_size", "patch_size");
    need_number(b, "clip.vision.projection_dim", "out_hidden_size");
    copy_number(b, "clip.vision.spatial_merge_size", "spatial_merge_size");
    put_deepstack(b);
    b->file = text;
    b->object = outer;
    static const char *const tokens[][2] = {{"<|image_pad|>", "image_token_id"}, {"<|video_pad|>", "video_token_id"},
                                            {"<|vision_start|>", "vision_start_token_id"}, {"<|vision_end|>", "vision_end_token_id"}};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        int32_t id = fore_gguf_token(b->m, tokens[i][0]);
        if (id >= 0) put_number(b, tokens[i][1], id);
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void put_ends(builder *b) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    int64_t ids[3] = {-1, -1, fore_gguf_token(b->m, "<|endoftext|>")};
    cJSON *list = put_new(b, "eos_token_id", true);
    for (int i = 0; i < 2 && !b->status; i++) b->status = fore_gguf_int(b->file, keys[i], -1, INT32_MAX, -1, &ids[i], b->err);
    for (int i = 0; i < 3 && !b->status; i++) {
        bool seen = ids[i] < 0;
        for (int k = 0; k < i; k++) seen = seen || ids[k] == ids[i];
        if (!seen) list_item(b, list, cJSON_CreateNumber((double)ids[i]));
    }
}

static fore_status finish(builder *b, cJSON *tree, cJSON **out) {
    if (!b->status) *out = tree;
    else cJSON_Delete(tree);
    return b->status;
}

fore_status fore_gguf_config_tree(const fore_gguf_model *m, cJSON **out, fore_error *err) {
    *out = NULL;
    cJSON *top = cJSON_CreateObject();
    builder b = {m, &m->files[0], top, err, FORE_OK};
    need_memory(&b, top);
    bool whole = m->tower >= 0, tied = !fore_gguf_text_tensor(m, "output.weight");
    const char *type = whole ? m->family->whole : m->family->text_only;
    const fore_family *family = fore_family_of_type(type);
    put_text(&b, "model_type", type);
    cJSON *classes = family ? put_new(&b, "architectures", true) : NULL;
    if (classes) list_item(&b, classes, cJSON_CreateString(whole ? family->whole[0] : family->text_only[0]));
    put_bool(&b, "tie_word_embeddings", tied);
    if (m->family->absolute) put_text(&b, "mtp_norm_encoding", "absolute");
    put_ends(&b);
    if (whole) b.object = put_new(&b, "text_config", false);
    put_text_model(&b);
    b.object = top;
    if (whole) put_vision(&b);
    return finish(&b, top, out);
}

fore_status fore_gguf_config_read(const fore_gguf_model *m, fore_arena *arena, fore_config *out, fore_error *err) {
    *out = (fore_config){0};
    cJSON *tree;
    fore_status s = fore_gguf_config_tree(m, &tree, err);
    if (s) return s;
    char *text = cJSON_PrintUnformatted(tree);
    cJSON_Delete(tree);
    if (!text) return fore_fail_nomem(err, "a model's settings");
    s = fore_config_parse(text, strlen(text), m->files[0].path, arena, out, err);
    cJSON_free(text);
    if (s) return s;
    out->architecture = fore_arena_copy(arena, m->family->architecture, strlen(m->family->architecture));
    if (!out->architecture) return fore_fail_nomem(err, "a model's settings");
    if (out->text.linear_by_key_head) out->text.linear_by_key_head = fore_gguf_layer_tensor(m, 0, "ssm_in.weight") != NULL;
    return FORE_OK;
}

fore_status fore_gguf_generation_tree(const fore_gguf_model *m, cJSON **out, fore_error *err) {
    static const char *const keys[][2] = {{"general.sampling.temp", "temperature"}, {"general.sampling.top_k", "top_k"},
                                          {"general.sampling.top_p", "top_p"}, {"general.sampling.min_p", "min_p"},
                                          {"general.sampling.penalty_repeat", "repetition_penalty"}};
    *out = NULL;
    cJSON *tree = cJSON_CreateObject();
    builder b = {m, &m->files[0], tree, err, FORE_OK};
    need_memory(&b, tree);
    bool any = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) any |= copy_number(&b, keys[i][0], keys[i][1]);
    put_bool(&b, "do_sample", true);
    if (!b.status && !any) {
        cJSON_Delete(tree);
        return FORE_OK;
    }
    return finish(&b, tree, out);
}

static void copy_channels(builder *b, const char *key, const char *member) {
    const fore_gguf_value *v = NULL;
    if (!b->status) b->status = fore_gguf_array(b->file, key, FORE_GGUF_F32, &v, b->err);
    cJSON *list = v ? put_new(b, member, true) : NULL;
    for (uint64_t i = 0; list && !b->status && i < v->count && i < 4; i++)
        list_item(b, list, cJSON_CreateNumber(fore_gguf_member(v, i)));
}

fore_status fore_gguf_processor_tree(const fore_gguf_model *m, cJSON **out, fore_error *err) {
    *out = NULL;
    if (m->tower < 0) return FORE_OK;
    cJSON *tree = cJSON_CreateObject();
    builder b = {m, &m->files[m->tower], tree, err, FORE_OK};
    need_memory(&b, tree);
    need_number(&b, "clip.vision.patch_size", "patch_size");
    put_number(&b, "temporal_patch_size", 2);
    copy_number(&b, "clip.vision.spatial_merge_size", "merge_size");
    copy_channels(&b, "clip.vision.image_mean", "image_mean");
    copy_channels(&b, "clip.vision.image_std", "image_std");
    /* The converter leaves the areas out: then they are those of the published files. */
    if (!copy_number(&b, "clip.vision.image_min_pixels", "min_pixels")) put_number(&b, "min_pixels", 65536);
    if (!copy_number(&b, "clip.vision.image_max_pixels", "max_pixels")) put_number(&b, "max_pixels", 16777216);
    return finish(&b, tree, out);
}
