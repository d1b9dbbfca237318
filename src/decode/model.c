/* Opening a checkpoint folder as a fore_model, and what is known about it; see model.h. */
#include "decode/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/gguf_model.h"
#include "decode/lookup.h"
#include "model/pack.h"
#include "model/tower.h"
#include "model/trunk.h"
#include "text/tokenizer.h"

enum { JSON_LIMIT = 64 << 20, TEMPLATE_LIMIT = 4 << 20 };

static void add_eos(fore_model *m, int32_t id) {
    if (id < 0) return;
    for (int i = 0; i < m->eos_count; i++)
        if (m->eos[i] == id) return;
    if (m->eos_count < FORE_MODEL_EOS) m->eos[m->eos_count++] = id;
}

/* Strings such as bos_token that transformers hands to the template: plain or as {"content": ...}. */
static fore_status collect_tokens(fore_model *m, const cJSON *config, fore_error *err) {
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
    m->template_tokens = cJSON_CreateObject();
    if (!m->template_tokens) return fore_fail_nomem(err, "the template's tokens");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cJSON *item = fore_json_get(config, names[i]);
        if (cJSON_IsObject(item)) item = fore_json_get(item, "content");
        if (cJSON_IsString(item) && !cJSON_AddStringToObject(m->template_tokens, names[i], item->valuestring))
            return fore_fail_nomem(err, "the template's tokens");
    }
    return FORE_OK;
}

/* "chat_template" of a config: a string, or a list of named ones of which "default" counts. */
static const char *config_template(const cJSON *config) {
    const cJSON *item = fore_json_get(config, "chat_template"), *entry;
    if (cJSON_IsString(item)) return item->valuestring;
    if (!cJSON_IsArray(item)) return NULL;
    cJSON_ArrayForEach(entry, item) {
        const cJSON *name = fore_json_get(entry, "name"), *text = fore_json_get(entry, "template");
        if (cJSON_IsString(name) && cJSON_IsString(text) && strcmp(name->valuestring, "default") == 0) return text->valuestring;
    }
    return NULL;
}

/* Reads dir/name as JSON when it is there; *out is owned, NULL when it is not. */
static fore_status read_json(const char *dir, const char *name, cJSON **out, fore_error *err) {
    *out = NULL;
    char *path = fore_path_join(dir, name);
    if (!path) return fore_fail_nomem(err, name);
    fore_status s = fore_file_exists(path) ? fore_json_read(path, JSON_LIMIT, out, err) : FORE_OK;
    free(path);
    return s;
}

/* chat_template.jinja, else the config's. A template that does not compile is remembered, not fatal. */
static fore_status load_template(fore_model *m, const cJSON *tokenizer_config, fore_error *err) {
    char *text = NULL;
    size_t size = 0;
    char *path = fore_path_join(m->dir, "chat_template.jinja");
    if (!path) return fore_fail_nomem(err, "a path");
    fore_status s = fore_file_exists(path) ? fore_file_read(path, TEMPLATE_LIMIT, &text, &size, err) : FORE_OK;
    free(path);
    if (s) return s;
    cJSON *other = NULL;
    const char *source = text;
    if (!source) source = config_template(tokenizer_config);
    if (!source) {
        s = read_json(m->dir, "chat_template.json", &other, err);
        if (s) return s;
        source = config_template(other);
    }
    if (source) {
        s = fore_template_compile(source, text ? size : strlen(source), &m->chat_template, &m->template_error);
    } else {
        fore_fail(&m->template_error, FORE_ERR_INVALID, "%s: it has no chat template (chat_template.jinja); give the prompt as raw text", m->dir);
    }
    free(text);
    cJSON_Delete(other);
    if (s == FORE_ERR_NOMEM) return fore_fail_nomem(err, "the chat template");
    return FORE_OK;
}

/* The tokenizer of a folder's tokenizer.json, and *config, its tokenizer_config.json; each NULL where there is none. */
static fore_status open_tokenizer(fore_model *m, cJSON **config, fore_error *err) {
    char *path = fore_path_join(m->dir, "tokenizer.json");
    if (!path) return fore_fail_nomem(err, "a path");
    bool there = fore_file_exists(path);
    free(path);
    fore_status s = there ? fore_tokenizer_open(m->dir, &m->tokenizer, err) : FORE_OK;
    return s ? s : read_json(m->dir, "tokenizer_config.json", config, err);
}

/* The same from the metadata of GGUF files. */
static fore_status make_tokenizer(fore_model *m, const fore_gguf_model *gguf, cJSON **config, fore_error *err) {
    cJSON *file = NULL;
    fore_status s = fore_gguf_tokenizer_trees(gguf, &file, config, err);
    if (!s && file) {
        s = fore_tokenizer_make(&(fore_tokenizer_source){.file = file, .config = *config}, &m->tokenizer, err);
        if (s) s = fore_fail_prefix(err, s, "%s: tokenizer", m->dir);
    }
    cJSON_Delete(file);
    return s;
}

static fore_status load_text(fore_model *m, const fore_gguf_model *gguf, fore_error *err) {
    m->usable = m->network.config.text.vocab_size;
    cJSON *config = NULL;
    fore_status s = gguf ? make_tokenizer(m, gguf, &config, err) : open_tokenizer(m, &config, err);
    if (!s && m->tokenizer) {
        size_t size = fore_tokenizer_size(m->tokenizer);
        if (size < (size_t)m->usable) m->usable = (int)size; /* rows past the tokenizer's ids are padding, never trained */
        add_eos(m, fore_tokenizer_id(m->tokenizer, "<|im_end|>"));
    }
    if (!s && config) s = collect_tokens(m, config, err);
    if (!s) s = load_template(m, config, err);
    cJSON_Delete(config);
    return s;
}

static void note_dtypes(fore_model *m) {
    const char *seen[8];
    int count = 0;
    size_t used = 0;
    for (size_t i = 0; i < fore_store_count(m->network.store) && count < 8; i++) {
        const char *name = fore_store_at(m->network.store, i)->dtype_name;
        int k = 0;
        while (k < count && strcmp(seen[k], name)) k++;
        if (k < count) continue;
        size_t n = strlen(name);
        if (used + n + 2 > sizeof m->dtypes) break;
        if (used) m->dtypes[used++] = ' ';
        memcpy(m->dtypes + used, name, n + 1);
        used += n;
        seen[count++] = name;
    }
}

/* Whose settings for pictures and videos the folder's are. */
static fore_processor_family family_of(const fore_model *m) {
    const fore_vision_config *v = &m->network.config.vision;
    fore_processor_family f = {.qwen2_5 = v->tokens_per_second > 0, .patch_size = 16, .temporal_patch_size = 2, .merge_size = 2};
    if (!m->network.config.has_vision) return f;
    f.patch_size = v->patch_size;
    f.temporal_patch_size = v->temporal_patch_size;
    f.merge_size = v->spatial_merge_size;
    return f;
}

/* What sampling begins with and how pictures are cut, where the metadata of GGUF files says it. */
static fore_status read_settings(fore_model *m, const fore_gguf_model *gguf, fore_error *err) {
    const fore_processor_family family = family_of(m);
    cJSON *generation = NULL, *processor = NULL;
    fore_status s = fore_gguf_generation_tree(gguf, &generation, err);
    if (!s) s = fore_generation_config_parse(generation, &m->generation, err);
    if (!s) s = fore_gguf_processor_tree(gguf, &processor, err);
    if (!s) s = fore_processor_parse(processor, &family, &m->processor, err);
    char *path = s ? NULL : fore_path_join(m->dir, "preprocessor_config.json"); /* the files leave the limits of pictures out */
    if (!s && !path) s = fore_fail_nomem(err, "a path");
    if (!s && fore_file_exists(path)) s = fore_processor_read(m->dir, &family, &m->processor, err);
    free(path);
    if (s) s = fore_fail_prefix(err, s, "%s", m->dir);
    cJSON_Delete(generation);
    cJSON_Delete(processor);
    return s;
}

/* Frames of a video as pictures: the metadata has one patch, mean and deviation for both. */
static void cut_alike(fore_model *m) {
    fore_processor *p = &m->video_processor.frame;
    const fore_processor *from = &m->processor;
    p->patch_size = from->patch_size;
    p->temporal_patch_size = from->temporal_patch_size;
    p->merge_size = from->merge_size;
    memcpy(p->mean, from->mean, sizeof p->mean);
    memcpy(p->std, from->std, sizeof p->std);
}

/* The pixels that the processor makes must be those that the tower reads. */
static fore_status check_processor(const fore_model *m, fore_error *err) {
    if (!m->network.config.has_vision) return FORE_OK;
    const fore_vision_config *v = &m->network.config.vision;
    const fore_processor *p = &m->processor;
    if (p->patch_size == v->patch_size && p->temporal_patch_size == v->temporal_patch_size && p->merge_size == v->spatial_merge_size)
        return FORE_OK;
    return fore_fail(err, FORE_ERR_FORMAT,
                     "%s: the picture processor's patch, temporal and merge sizes are %d, %d, %d; the vision tower's are %d, %d, %d; give the "
                     "folder the preprocessor_config.json of the model that the tower is from (without one, its published values are used)",
                     m->dir, p->patch_size, p->temporal_patch_size, p->merge_size, v->patch_size, v->temporal_patch_size, v->spatial_merge_size);
}

/* The draft head, unless the caller does not want it. */
static fore_status load_mtp(fore_model *m, const fore_model_options *o, const fore_load *load, fore_error *err) {
    if (o && o->no_mtp) {
        snprintf(m->mtp.why, sizeof m->mtp.why, "it was left out on request");
        fore_contract_init(&m->mtp.contract);
        return FORE_OK;
    }
    cJSON *contract = NULL;
    fore_status s = FORE_OK;
    if (o && o->mtp_contract) s = fore_json_parse(o->mtp_contract, strlen(o->mtp_contract), "the given MTP contract", &contract, err);
    if (!s) s = fore_mtp_open(m->dir, &m->network, contract, load, &m->mtp, err);
    cJSON_Delete(contract);
    if (!s && m->mtp.attached)
        snprintf(m->mtp_source, sizeof m->mtp_source, "%s, norms %s (%s)", m->mtp.source, m->mtp.norms_absolute ? "absolute" : "zero-centred",
                 m->mtp.norms_rule);
    return s;
}

bool fore_model_get_form(const fore_model *m, int index, fore_stored_form *out) {
    const fore_panels *const both[] = {&m->network.panels, &m->mtp.panels};
    int at = 0;
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < both[p]->kind_count; i++) {
            const fore_panels_kind *k = &both[p]->kinds[i];
            bool known = false; /* the draft head's that the model has too are counted with them */
            fore_stored_form form = {k->label, k->bits, k->group, k->memory_bits, k->parameters};
            for (int j = 0; j < both[!p]->kind_count; j++) {
                const fore_panels_kind *o = &both[!p]->kinds[j];
                if (strcmp(o->label, k->label) || o->bits != k->bits || o->group != k->group || o->memory_bits != k->memory_bits) continue;
                known = p == 1;
                form.parameters += o->parameters;
            }
            if (known || at++ != index) continue;
            *out = form;
            return true;
        }
    return false;
}

bool fore_model_get_contract(const fore_model *m, int index, const char **name, const char **value, const char **source) {
    if (index < 0 || index >= FORE_CONTRACT_FIELDS) return false;
    *name = fore_contract_field_name((fore_contract_field)index);
    *value = m->mtp.contract.value[index];
    *source = fore_contract_source_name(m->mtp.contract.source[index]);
    return true;
}

fore_status fore_model_open(const char *dir, const fore_model_options *options, fore_model **out, fore_error *err) {
    *out = NULL;
    bool is_gguf;
    fore_status s = fore_gguf_is_model(dir, &is_gguf, err);
    if (s) return s;
    if (!is_gguf && !fore_dir_exists(dir))
        return fore_fail(err, FORE_ERR_IO, "%s: not a folder; give a Hugging Face checkpoint folder with config.json and *.safetensors, or a "
                         "GGUF file", dir);
    if (!is_gguf && options && options->mmproj)
        return fore_fail(err, FORE_ERR_INVALID, "%s: not a model of GGUF files: an mmproj file belongs to such a one", dir);
    const fore_kern *kern;
    s = fore_kern_get(options ? options->isa : NULL, &kern, err);
    if (s) return s;
    fore_model *m = calloc(1, sizeof *m);
    if (!m) return fore_fail_nomem(err, "a model");
    m->gguf = is_gguf;
    m->dir = malloc(strlen(dir) + 1);
    if (!m->dir) s = fore_fail_nomem(err, "a model");
    else memcpy(m->dir, dir, strlen(dir) + 1);
    fore_pool *pool = NULL;
    if (!s && fore_pool_new(0, &pool, NULL)) pool = NULL; /* without threads it takes longer */
    char stem[96] = "";
    fore_load load = {.pool = pool};
    if (options && options->pack_dir) {
        fore_pack_stem(dir, options->pack_dir, stem);
        load = (fore_load){pool, options->pack_dir, stem, options->pack_read_only, options->pack_verify, NULL};
    }
    if (!s && is_gguf) s = fore_gguf_model_open(dir, options ? options->mmproj : NULL, &load.gguf, err);
    if (!s) s = fore_network_open(dir, kern, &load, &m->network, err);
    if (!s) s = load_mtp(m, options, &load, err);
    if (!s && options && options->progress && options->progress(options->user, "load", 1, 2))
        s = fore_fail(err, FORE_ERR_CANCELLED, "cancelled while loading");
    if (!s) s = is_gguf ? read_settings(m, load.gguf, err) : fore_generation_config_read(dir, &m->generation, err);
    if (!s) s = load_text(m, load.gguf, err);
    const fore_processor_family family = family_of(m);
    if (!s && !is_gguf) s = fore_processor_read(dir, &family, &m->processor, err);
    fore_gguf_model_close(load.gguf);
    if (!s) s = fore_video_processor_read(dir, &family, &m->video_processor, err);
    if (!s && is_gguf) cut_alike(m);
    if (!s) s = check_processor(m, err);
    if (!s) {
        for (int i = 0; i < m->generation.eos_count; i++) add_eos(m, m->generation.eos[i]);
        for (int i = 0; i < m->network.config.eos_count; i++) add_eos(m, m->network.config.eos[i]);
        s = fore_draft_vocabulary_open(m, options, pool, err);
    }
    fore_pool_free(pool);
    if (s) {
        fore_model_close(m);
        return s;
    }
    note_dtypes(m);
    if (options && options->progress && options->progress(options->user, "load", 2, 2)) {
        fore_model_close(m);
        return fore_fail(err, FORE_ERR_CANCELLED, "cancelled while loading");
    }
    *out = m;
    return FORE_OK;
}

void fore_model_close(fore_model *m) {
    if (!m) return;
    fore_tokenizer_close(m->tokenizer);
    fore_template_free(m->chat_template);
    cJSON_Delete(m->template_tokens);
    fore_draft_head_free(&m->draft_head);
    fore_mtp_close(&m->mtp);
    fore_network_close(&m->network);
    free(m->dir);
    free(m);
}

const fore_tokenizer *fore_model_tokenizer(const fore_model *model) { return model->tokenizer; }

const fore_template *fore_model_template(const fore_model *model) { return model->chat_template; }

void fore_model_default_sampling(const fore_model *model, fore_sampling *out) { *out = model->generation.sampling; }

/* A head that came from a file of its own: what the checkpoint's files have of one plays no part. */
static void count_sidecar(const fore_model *m, fore_model_info *out) {
    const fore_store *head = m->mtp.sidecar, *store = m->network.store;
    out->mtp_tensors = (int)fore_store_count(head);
    out->mtp_parameters = m->mtp.panels.parameters;
    for (size_t i = 0; i < fore_store_count(head); i++) {
        const fore_entry *e = fore_store_at(head, i);
        uint64_t size = fore_bind_is_packed(head, e) ? 0 : 1;
        for (int d = 0; d < e->dims; d++) size *= e->shape[d];
        out->mtp_parameters += size;
    }
    for (int i = 0; i < fore_store_files(store); i++)
        if (strcmp(fore_store_file_path(store, i), fore_store_file_path(head, 0)) == 0) return; /* an index names it too */
    out->weight_bytes += fore_store_bytes(head);
    out->tensor_count += fore_store_count(head);
    out->file_count++;
}

void fore_model_get_info(const fore_model *m, fore_model_info *out) {
    const fore_config *c = &m->network.config;
    const fore_text_config *t = &c->text;
    *out = (fore_model_info){
        .architecture = c->architecture,
        .model_type = c->model_type,
        .isa = m->network.kern->name,
        .dtypes = m->dtypes,
        .layers = t->num_hidden_layers,
        .hidden_size = t->hidden_size,
        .intermediate_size = t->intermediate_size,
        .vocab_size = t->vocab_size,
        .context_length = t->max_position_embeddings,
        .attention_heads = t->num_attention_heads,
        .kv_heads = t->num_key_value_heads,
        .head_dim = t->head_dim,
        .linear_key_heads = t->linear_num_key_heads,
        .linear_value_heads = t->linear_num_value_heads,
        .tied_embeddings = t->tie_word_embeddings,
        .has_tokenizer = m->tokenizer != NULL,
        .has_template = m->chat_template != NULL,
        .has_vision = c->has_vision,
        .mtp_declared = t->mtp_num_hidden_layers > 0,
        .mtp_layers = t->mtp_num_hidden_layers,
        .mtp_tensors = m->network.mtp_tensors,
        .mtp_attached = m->mtp.attached,
        .mtp_source = m->mtp_source,
        .mtp_note = m->mtp.why,
        .draft_vocabulary = m->draft_head.rows.N,
        .draft_head_bits = !m->draft_head.rows.N ? 0 : m->draft_head.rows.bits ? m->draft_head.rows.bits : 16,
        .text_parameters = m->network.text_parameters,
        .vision_parameters = m->network.vision_parameters,
        .mtp_parameters = m->network.mtp_parameters + m->mtp.panels.parameters,
        .weight_bytes = fore_store_bytes(m->network.store),
        .tensor_count = fore_store_count(m->network.store),
        .file_count = (uint64_t)fore_store_files(m->network.store),
        .experts = t->num_experts,
        .experts_per_token = t->num_experts_per_tok,
        .expert_intermediate_size = t->moe_intermediate_size,
        .shared_expert_intermediate_size = t->shared_expert_intermediate_size,
        .active_parameters = m->network.active_parameters,
        .repacked_bytes = m->network.panels.used + m->mtp.panels.used,
        .packs_used = m->network.panels.packed.used + m->mtp.panels.packed.used,
        .packs_written = m->network.panels.packed.written + m->mtp.panels.packed.written,
        .pack_note = m->network.panels.packed.note[0] ? m->network.panels.packed.note : m->mtp.panels.packed.note,
    };
    if (m->mtp.sidecar) count_sidecar(m, out);
    for (int i = 0; i < t->num_hidden_layers; i++) {
        if (t->full_attention[i]) out->full_attention_layers++;
        else out->linear_attention_layers++;
    }
    if (c->has_vision) {
        out->vision_depth = c->vision.depth;
        out->vision_hidden_size = c->vision.hidden_size;
        out->patch_size = c->vision.patch_size;
        out->merge_size = c->vision.spatial_merge_size;
        out->video_fps = m->video_processor.samples ? m->video_processor.fps : 0;
        out->video_min_frames = m->video_processor.min_frames;
        out->video_max_frames = m->video_processor.max_frames;
    }
}

int fore_model_default_context(const fore_model *model) {
    int n = model->network.config.text.max_position_embeddings;
    return n < FORE_DEFAULT_CONTEXT ? n : FORE_DEFAULT_CONTEXT;
}

void fore_model_plan(const fore_model *model, int context, fore_plan *out) {
    const fore_text_config *t = &model->network.config.text;
    size_t kv = 0, recurrent = 0, scratch = 0;
    int threads = fore_pool_processors();
    if (context <= 0) context = fore_model_default_context(model);
    if (fore_state_plan(t, context, &kv, &recurrent, NULL)) kv = SIZE_MAX / 4;
    if (fore_scratch_plan(t, FORE_DEFAULT_CHUNK, context, threads, &scratch, NULL)) scratch = SIZE_MAX / 4;
    size_t rows = FORE_DEFAULT_CHUNK;
    size_t draft = 0, window = 0, none = 0;
    if (model->mtp.attached) {
        if (fore_state_plan(&model->mtp.text, context, &draft, &none, NULL)) draft = SIZE_MAX / 8;
        draft += 8 * rows * (size_t)t->hidden_size * sizeof(float) + fore_draft_words_plan(model);
    }
    if (fore_window_plan(t, FORE_DRAFT_MAX + 1, &window, NULL)) window = SIZE_MAX / 8;
    draft += window + (size_t)(FORE_DRAFT_MAX + 1) * (size_t)t->vocab_size * sizeof(float) + fore_lookup_plan(context + FORE_DRAFT_MAX + 1);
    scratch += (rows * 2 * (size_t)t->hidden_size + (size_t)t->vocab_size + (size_t)context) * sizeof(float);
    *out = (fore_plan){.draft_head = model->draft_head.bytes,
                       .weights = fore_store_bytes(model->network.store) + model->network.panels.used + model->mtp.panels.used,
                       .kv = kv,
                       .recurrent = recurrent,
                       .scratch = scratch,
                       .draft = draft,
                       .total = (uint64_t)kv + recurrent + scratch + draft};
}

static int collect_keys(const fore_model *m, uint8_t keys[2][32]) {
    const fore_packed *packed[2] = {&m->network.panels.packed, &m->mtp.panels.packed};
    int count = 0;
    for (int i = 0; i < 2; i++)
        if (packed[i]->keyed) memcpy(keys[count++], packed[i]->key, 32);
    return count;
}

fore_status fore_model_find_packs(const fore_model *m, const char *pack_dir, fore_packs *out, fore_error *err) {
    uint8_t keys[2][32];
    char stem[96];
    *out = (fore_packs){.wanted = collect_keys(m, keys)};
    fore_pack_stem(m->dir, pack_dir, stem);
    for (int i = 0; i < out->wanted; i++) {
        char *path = fore_pack_path(pack_dir, stem, keys[i]);
        if (!path) {
            free(out->path);
            *out = (fore_packs){0};
            return fore_fail_nomem(err, "a path");
        }
        uint64_t bytes;
        bool good = fore_pack_is_good(path, keys[i], &bytes), first = good && !out->present;
        out->present += good;
        out->bytes += bytes;
        if (first || !out->path) {
            free(out->path);
            out->path = path;
        } else {
            free(path);
        }
    }
    return FORE_OK;
}

fore_status fore_model_prune_packs(const fore_model *m, const char *pack_dir, int *files, uint64_t *bytes, fore_error *err) {
    uint8_t keys[2][32];
    char stem[96];
    fore_pack_stem(m->dir, pack_dir, stem);
    return fore_pack_prune(pack_dir, stem, (const uint8_t(*)[32])keys, collect_keys(m, keys), files, bytes, err);
}
