/* Attaching the draft head: where its weights are, how its norms are encoded, every shape checked; see mtp.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/gguf_model.h"
#include "model/mtp.h"

const char *const fore_mtp_prefixes[FORE_MTP_PREFIXES] = {"mtp.", "language_model.mtp.", "model.mtp.", "model.language_model.mtp."};
const char *const fore_mtp_sidecars[FORE_MTP_SIDECARS] = {"mtp.safetensors", "mtp/weights.safetensors", "model-mtp.safetensors"};
enum { JSON_LIMIT = 64 << 20 };

/* The prefix under which the store has the head, NULL when it has none. */
const char *fore_mtp_prefix(const fore_store *store) {
    for (size_t i = 0; i < fore_store_count(store); i++)
        for (int p = 0; p < FORE_MTP_PREFIXES; p++)
            if (strncmp(fore_store_at(store, i)->name, fore_mtp_prefixes[p], strlen(fore_mtp_prefixes[p])) == 0) return fore_mtp_prefixes[p];
    return NULL;
}

static fore_status open_sidecar(const char *dir, const char *name, fore_mtp *m, fore_error *err) {
    char *path = fore_path_join(dir, name);
    if (!path) return fore_fail_nomem(err, "a path");
    fore_status s = FORE_OK;
    if (fore_file_exists(path)) {
        s = fore_store_open_file(path, &m->sidecar, err);
        if (!s) snprintf(m->source, sizeof m->source, "%s", path);
    }
    free(path);
    return s;
}

/* The store that has the head, in the order of precedence: the sidecar that config.json names, the usual sidecars, the
 * checkpoint's own files. *store stays NULL when it is nowhere. */
static fore_status find_weights(const char *dir, const fore_network *n, const cJSON *config, fore_mtp *m, const fore_store **store,
                                fore_error *err) {
    const char *named = NULL;
    fore_status s = fore_json_string(fore_json_get(config, "mlx_lm_extra_tensors"), "mtp_file", NULL, &named, err);
    if (s) return fore_fail_prefix(err, s, "config.json: mlx_lm_extra_tensors");
    *store = NULL;
    if (named) {
        if (!fore_path_stays_inside(named))
            return fore_fail(err, FORE_ERR_FORMAT, "config.json: mlx_lm_extra_tensors.mtp_file: \"%.100s\" leaves the model's folder", named);
        s = open_sidecar(dir, named, m, err);
        if (!s && !m->sidecar)
            return fore_fail(err, FORE_ERR_IO, "config.json names the draft head's file %.100s, which is not in %s", named, dir);
        if (!s && !fore_mtp_prefix(m->sidecar))
            return fore_fail(err, FORE_ERR_FORMAT, "config.json names the draft head's file %.100s, which has no mtp.* tensors", named);
    }
    for (int i = 0; i < FORE_MTP_SIDECARS && !s && !m->sidecar; i++) {
        s = open_sidecar(dir, fore_mtp_sidecars[i], m, err);
        if (s || !m->sidecar || fore_mtp_prefix(m->sidecar)) continue;
        fore_store_close(m->sidecar); /* a file of that name without a head in it */
        m->sidecar = NULL;
    }
    if (s) return s;
    if (m->sidecar) {
        *store = m->sidecar;
        return FORE_OK;
    }
    if (fore_mtp_prefix(n->store)) *store = n->store;
    snprintf(m->source, sizeof m->source, "the checkpoint's own files");
    return FORE_OK;
}

/* Mean of a stored vector, a piece at a time. */
static double mean_of(const fore_entry *e, const fore_kern *kern) {
    enum { PIECE = 256 };
    float v[PIECE];
    uint64_t n = e->shape[0];
    double sum = 0;
    for (uint64_t at = 0; at < n; at += PIECE) {
        int count = n - at < PIECE ? (int)(n - at) : PIECE;
        const fore_weight w = {.data = e->data + at * (e->bytes / n), .dtype = e->dtype, .N = 1, .K = count};
        fore_weight_row(kern, &w, 0, v);
        for (int i = 0; i < count; i++) sum += (double)v[i];
    }
    return n ? sum / (double)n : 0;
}

/* Judged once for the whole set, never tensor by tensor: zero-centred iff the means of all q and k norms are below 1.25 and the
 * smallest mean among input, post-attention and pre-fc norms is below 0.5. The final norm overlaps and is not asked. */
static bool detect_absolute(const fore_store *store, const char *prefix, const fore_kern *kern) {
    double largest_qk = 0, smallest = 1e30;
    for (size_t i = 0; i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        if (strncmp(e->name, prefix, strlen(prefix)) || !fore_dtype_is_float(e->dtype) || e->dims != 1) continue;
        bool qk = fore_name_ends_with(e->name, ".q_norm.weight") || fore_name_ends_with(e->name, ".k_norm.weight");
        bool other = fore_name_ends_with(e->name, "input_layernorm.weight") || fore_name_ends_with(e->name, "post_attention_layernorm.weight") ||
                     strstr(e->name, "pre_fc_norm_") != NULL;
        if (!qk && !other) continue;
        double mean = mean_of(e, kern);
        if (qk && mean > largest_qk) largest_qk = mean;
        if (other && mean < smallest) smallest = mean;
    }
    return !(largest_qk < 1.25 && smallest < 0.5);
}

/* A declared encoding wins over the detection. */
static fore_status norm_encoding(const cJSON *config, const fore_store *store, const char *prefix, const fore_kern *kern, fore_mtp *m,
                                 fore_error *err) {
    const cJSON *quantization = fore_json_get(config, "mtplx_mtp_quantization");
    const struct {
        const cJSON *in;
        const char *key;
    } places[] = {
        {config, "mtplx_mtp_norm_encoding"},
        {config, "mtp_norm_encoding"},
        {quantization, "norm_encoding"},
        {quantization, "norm_weight_encoding"},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = NULL;
        fore_status s = fore_json_string(places[i].in, places[i].key, NULL, &value, err);
        if (s) return fore_fail_prefix(err, s, "config.json");
        if (!value) continue;
        bool delta = !strcmp(value, "delta") || !strcmp(value, "delta_plus_one") || !strcmp(value, "mlx_delta");
        bool absolute = !strcmp(value, "absolute") || !strcmp(value, "gain") || !strcmp(value, "mlx");
        if (!delta && !absolute)
            return fore_fail(err, FORE_ERR_FORMAT, "config.json: %s: expected delta, delta_plus_one, mlx_delta or absolute, found \"%.40s\"",
                             places[i].key, value);
        m->norms_absolute = absolute;
        m->norms_rule = "declared in config.json";
        return FORE_OK;
    }
    m->norms_absolute = detect_absolute(store, prefix, kern);
    m->norms_rule = "detected from the means of the whole set";
    return FORE_OK;
}

/* The head's layers have the trunk's shape, all with full attention. */
static fore_status make_text(const fore_network *n, fore_mtp *m, fore_error *err) {
    m->text = n->config.text;
    int layers = n->config.text.mtp_num_hidden_layers;
    bool *full = fore_arena_alloc(&m->arena, (size_t)layers, sizeof *full); /* all layers have experts too, if any has */
    m->layers = fore_arena_alloc(&m->arena, (size_t)layers, sizeof *m->layers);
    if (!full || !m->layers) return fore_fail_nomem(err, "the draft head");
    for (int i = 0; i < layers; i++) full[i] = true;
    m->text.full_attention = full;
    if (m->text.sparse) m->text.sparse = full;
    m->text.num_hidden_layers = layers;
    return FORE_OK;
}

static fore_status bind(const fore_network *n, const fore_store *store, const char *prefix, const fore_load *load, fore_mtp *m,
                        fore_error *err) {
    fore_status s = make_text(n, m, err);
    if (s) return s;
    s = fore_panels_reserve(&m->panels, store, prefix, &n->config.stored, err);
    if (s) return s;
    fore_binder b = {store, &m->arena, &m->panels, n->kern, prefix, err, FORE_OK, NULL, 0};
    int C = m->text.hidden_size;
    float plus = m->norms_absolute ? 0.0f : 1.0f; /* every family with a head has zero-centred norms */
    fore_bind_vector(&b, &m->norm_embedding, C, plus, "pre_fc_norm_embedding.weight");
    fore_bind_vector(&b, &m->norm_hidden, C, plus, "pre_fc_norm_hidden.weight");
    fore_bind_vector(&b, &m->norm, C, plus, "norm.weight");
    fore_bind_matrix(&b, &m->fc, C, 2 * C, "fc.weight");
    for (int i = 0; i < m->text.num_hidden_layers && !b.status; i++) {
        fore_bind_layer(&b, &m->text, &m->layers[i], i, plus);
        m->layers[i].number += n->config.text.num_hidden_layers;
    }
    if (b.status) return fore_fail_prefix(err, b.status, "draft head from %s (no_mtp leaves it out)", m->source);
    return fore_panels_make(&m->panels, store, load, err);
}

/* Whether some matrix of the head is in a form that is not read, as its companions tell: then the model opens without it. */
static bool is_unknown_form(const fore_store *store, const char *prefix) {
    static const char *const companions[] = {".weight_scale", ".weight_scale_inv", ".weight_packed", ".qweight", ".scales"};
    for (size_t i = 0; i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        if (strncmp(e->name, prefix, strlen(prefix)) || fore_bind_is_packed(store, e)) continue;
        for (size_t k = 0; k < sizeof companions / sizeof *companions; k++)
            if (fore_name_ends_with(e->name, companions[k])) return true;
    }
    return false;
}

fore_status fore_mtp_fits(const fore_network *network, const fore_store *store, const cJSON *config_tree, fore_error *err) {
    fore_mtp m = {0};
    const char *prefix = fore_mtp_prefix(store);
    snprintf(m.source, sizeof m.source, "%s", fore_store_file_path(store, 0));
    if (!prefix) return fore_fail(err, FORE_ERR_INVALID, "%s: no tensors of a draft head (mtp.*)", m.source);
    if (is_unknown_form(store, prefix)) return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: the draft head is quantised in a form that is not supported", m.source);
    fore_status s = norm_encoding(config_tree, store, prefix, network->kern, &m, err);
    if (!s) s = bind(network, store, prefix, NULL, &m, err);
    fore_panels_free(&m.panels);
    fore_arena_free(&m.arena);
    return s;
}

static fore_status read_contract(const char *dir, const cJSON *config, const cJSON *caller, fore_contract *c, fore_error *err) {
    fore_contract_init(c);
    fore_status s = fore_contract_read(c, fore_json_get(config, "mtplx_mtp_contract"), FORE_CONTRACT_CONFIG, "config.json", err);
    if (s) return s;
    char *path = fore_path_join(dir, "mtplx_runtime.json");
    if (!path) return fore_fail_nomem(err, "a path");
    cJSON *runtime = NULL;
    if (fore_file_exists(path)) s = fore_json_read(path, JSON_LIMIT, &runtime, err);
    free(path);
    if (!s) s = fore_contract_read(c, fore_json_get(runtime, "mtp_contract"), FORE_CONTRACT_RUNTIME, "mtplx_runtime.json", err);
    cJSON_Delete(runtime);
    if (!s) s = fore_contract_read(c, caller, FORE_CONTRACT_CALLER, "the given MTP contract", err);
    return s;
}

static fore_status attach(const char *dir, const fore_network *n, const cJSON *config, const cJSON *caller, const fore_load *load, fore_mtp *m,
                          fore_error *err) {
    fore_status s = read_contract(dir, config, caller, &m->contract, err);
    if (s) return s;
    if (n->config.text.mtp_num_hidden_layers < 1) {
        snprintf(m->why, sizeof m->why, "config.json declares no draft head (mtp_num_hidden_layers)");
        return FORE_OK;
    }
    const fore_store *store = NULL;
    s = find_weights(dir, n, config, m, &store, err);
    if (s) return s;
    if (!store) {
        snprintf(m->why, sizeof m->why,
                 "config.json declares a draft head, its weights are absent: looked for mtp.safetensors, mtp/weights.safetensors, "
                 "model-mtp.safetensors and mtp.* in the checkpoint's own files");
        return FORE_OK;
    }
    const char *prefix = fore_mtp_prefix(store);
    if (is_unknown_form(store, prefix)) {
        snprintf(m->why, sizeof m->why, "the draft head is quantised in a form that is not supported");
        return FORE_OK;
    }
    s = norm_encoding(config, store, prefix, n->kern, m, err);
    if (!s) s = bind(n, store, prefix, load, m, err);
    if (!s) m->attached = true;
    return s;
}

fore_status fore_mtp_open(const char *dir, const fore_network *network, const cJSON *contract, const fore_load *load, fore_mtp *out,
                          fore_error *err) {
    *out = (fore_mtp){.norms_rule = ""};
    cJSON *config = NULL;
    fore_status s = FORE_OK;
    if (load && load->gguf) {
        s = fore_gguf_config_tree(load->gguf, &config, err);
    } else {
        char *path = fore_path_join(dir, "config.json");
        if (!path) return fore_fail_nomem(err, "a path");
        s = fore_json_read(path, JSON_LIMIT, &config, err);
        free(path);
    }
    if (!s) s = attach(dir, network, config, contract, load, out, err);
    cJSON_Delete(config);
    if (s) fore_mtp_close(out);
    return s;
}

void fore_mtp_close(fore_mtp *mtp) {
    fore_store_close(mtp->sidecar);
    fore_panels_free(&mtp->panels);
    fore_arena_free(&mtp->arena);
    *mtp = (fore_mtp){0};
}
