/* Attaching the draft head: when it is left out and why, where its weights are looked for, what is an error, how its norms are
 * encoded, and heads of two layers. Checkpoints are made from a golden one by renaming, moving and changing its tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "decode/session.h"
#include "support/scratch.h"

#define SOURCE FORE_DATA "/models/dense_tied_f32/"
enum { MAX_TENSORS = 256, C = 48, LAYER_TENSORS = 11 };

/* The golden checkpoint on its way to another one: trunk and head apart, and its config. */
typedef struct kit {
    scratch s;
    fore_tensor_file *file;
    fore_tensor trunk[MAX_TENSORS], head[MAX_TENSORS];
    char names[MAX_TENSORS][96]; /* of the head */
    float *data[MAX_TENSORS];    /* owned copies of the head's tensors */
    size_t trunk_count, head_count;
    cJSON *config, *text;
} kit;

static size_t elements(const fore_tensor *t) {
    size_t n = 1;
    for (int i = 0; i < t->dims; i++) n *= (size_t)t->shape[i];
    return n;
}

static void add_head(kit *k, const fore_tensor *t, const char *name) {
    size_t i = k->head_count++;
    assert_true(i < MAX_TENSORS);
    k->head[i] = *t;
    snprintf(k->names[i], sizeof k->names[0], "%s", name);
    k->head[i].name = k->names[i];
    k->data[i] = malloc(elements(t) * sizeof(float));
    memcpy(k->data[i], t->data, elements(t) * sizeof(float));
    k->head[i].data = k->data[i];
}

static void kit_open(kit *k) {
    fore_error err = {0};
    *k = (kit){0};
    scratch_make(&k->s);
    if (fore_tensors_open(SOURCE "model.safetensors", &k->file, &err) || fore_json_read(SOURCE "config.json", 1 << 20, &k->config, &err))
        fail_msg("%s", err.text);
    k->text = cJSON_GetObjectItem(k->config, "text_config");
    const fore_tensor *t;
    for (size_t i = 0; (t = fore_tensors_at(k->file, i)); i++) {
        if (strncmp(t->name, "mtp.", 4) == 0) add_head(k, t, t->name);
        else k->trunk[k->trunk_count++] = *t;
    }
    assert_int_equal(k->head_count, 15);
}

static void kit_close(kit *k) {
    for (size_t i = 0; i < k->head_count; i++) free(k->data[i]);
    cJSON_Delete(k->config);
    fore_tensors_close(k->file);
    scratch_remove(&k->s);
}

static size_t head_index(const kit *k, const char *name) {
    for (size_t i = 0; i < k->head_count; i++)
        if (strcmp(k->names[i], name) == 0) return i;
    fail_msg("no tensor %s", name);
    return 0;
}

static void write_tensors(const kit *k, const char *name, const fore_tensor *a, size_t na, const fore_tensor *b, size_t nb) {
    fore_error err = {0};
    fore_tensor all[2 * MAX_TENSORS];
    if (na) memcpy(all, a, na * sizeof *a);
    if (nb) memcpy(all + na, b, nb * sizeof *b);
    scratch_write(&k->s, name, "", 0); /* makes the folders */
    if (fore_tensors_write(scratch_path(&k->s, name), all, na + nb, &err)) fail_msg("%s", err.text);
}

static void write_config(const kit *k) {
    char *text = cJSON_PrintUnformatted(k->config);
    scratch_write(&k->s, "config.json", text, strlen(text));
    free(text);
}

/* config.json, and the trunk with or without the head inside. */
static void write_main(const kit *k, bool with_head) {
    write_config(k);
    write_tensors(k, "model.safetensors", k->trunk, k->trunk_count, k->head, with_head ? k->head_count : 0);
}

/* The head with its first fc weight marked, as a file. */
static void write_sidecar(kit *k, const char *name, float mark) {
    float *fc = k->data[head_index(k, "mtp.fc.weight")], was = fc[0];
    fc[0] = mark;
    write_tensors(k, name, NULL, 0, k->head, k->head_count);
    fc[0] = was;
}

typedef struct opened {
    fore_status status;
    fore_error err;
    fore_network network;
    fore_mtp mtp;
} opened;

static opened open_kit(const kit *k) {
    opened o = {0};
    const fore_kern *kern = NULL;
    if (fore_kern_get(NULL, &kern, &o.err) || fore_network_open(k->s.dir, kern, NULL, &o.network, &o.err)) fail_msg("%s", o.err.text);
    o.status = fore_mtp_open(k->s.dir, &o.network, NULL, NULL, &o.mtp, &o.err);
    return o;
}

static void close_opened(opened *o) {
    fore_mtp_close(&o->mtp);
    fore_network_close(&o->network);
}

static void attaches(const kit *k, const char *source, float mark) {
    opened o = open_kit(k);
    if (o.status || !o.mtp.attached) fail_msg("%s%s", o.err.text, o.mtp.why);
    if (!strstr(o.mtp.source, source)) fail_msg("from %s, wanted %s", o.mtp.source, source);
    float first;
    memcpy(&first, o.mtp.fc.data, sizeof first);
    if (mark != 0) assert_true(first == mark);
    assert_string_equal(o.mtp.why, "");
    close_opened(&o);
}

/* What inspect shows: 15 tensors of the head, wherever they are. */
static void counts(const kit *k, uint64_t files, uint64_t tensors) {
    fore_model *model = NULL;
    fore_error err = {0};
    fore_model_info info;
    uint64_t parameters = 0;
    if (fore_model_open(k->s.dir, NULL, &model, &err)) fail_msg("%s", err.text);
    fore_model_get_info(model, &info);
    for (size_t i = 0; i < k->head_count; i++) parameters += elements(&k->head[i]);
    assert_int_equal(info.mtp_tensors, 15);
    assert_int_equal(info.mtp_parameters, parameters);
    assert_int_equal(info.file_count, files);
    assert_int_equal(info.tensor_count, tensors);
    fore_model_close(model);
}

static void stays_off(const kit *k, const char *why) {
    opened o = open_kit(k);
    if (o.status) fail_msg("%s", o.err.text);
    assert_false(o.mtp.attached);
    if (!strstr(o.mtp.why, why)) fail_msg("\"%s\", wanted \"%s\"", o.mtp.why, why);
    close_opened(&o);
    /* The model is a plain one, says why, and refuses drafts with the same words. */
    fore_model *model = NULL;
    fore_session *session = NULL;
    fore_error err = {0};
    fore_model_info info;
    const fore_session_options options = {.threads = 1, .context = 16};
    if (fore_model_open(k->s.dir, NULL, &model, &err) || fore_session_new(model, &options, &session, &err)) fail_msg("%s", err.text);
    fore_model_get_info(model, &info);
    assert_false(info.mtp_attached);
    assert_non_null(strstr(info.mtp_note, why));
    assert_string_equal(info.mtp_source, "");
    fore_request r;
    fore_request_init(&r, model);
    assert_int_equal(r.draft.depth, FORE_DRAFT_AUTO); /* look-ups need no head */
    r.ids = (const int32_t[]){1, 2, 3};
    r.id_count = 3;
    r.draft.depth = 2;
    assert_int_equal(fore_session_begin(session, &r, &err), FORE_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, why));
    r.draft.depth = FORE_DRAFT_AUTO;
    if (fore_session_begin(session, &r, &err)) fail_msg("%s", err.text);
    fore_session_free(session);
    fore_model_close(model);
}

static void fails(const kit *k, fore_status status, const char *a, const char *b) {
    opened o = open_kit(k);
    if (o.status != status || !strstr(o.err.text, a) || !strstr(o.err.text, b))
        fail_msg("%d \"%s\", wanted %d with \"%s\" and \"%s\"", o.status, o.err.text, status, a, b);
    assert_false(o.mtp.attached);
    assert_null(o.mtp.sidecar);
    close_opened(&o);
    fore_model *model = NULL;
    fore_error err = {0};
    assert_int_equal(fore_model_open(k->s.dir, NULL, &model, &err), status);
    const fore_model_options without = {.no_mtp = true}; /* the way out */
    if (fore_model_open(k->s.dir, &without, &model, &err)) fail_msg("%s", err.text);
    fore_model_close(model);
}

static void test_declaration(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    write_main(&k, true);
    attaches(&k, "the checkpoint's own files", 0);
    cJSON_DeleteItemFromObject(k.text, "mtp_num_hidden_layers");
    write_config(&k);
    stays_off(&k, "declares no draft head");
    /* The other name, and both at the top. */
    cJSON_AddNumberToObject(k.text, "num_nextn_predict_layers", 1);
    write_config(&k);
    attaches(&k, "the checkpoint's own files", 0);
    cJSON_DeleteItemFromObject(k.text, "num_nextn_predict_layers");
    cJSON_AddNumberToObject(k.config, "num_nextn_predict_layers", 1);
    write_config(&k);
    attaches(&k, "the checkpoint's own files", 0);
    cJSON_DeleteItemFromObject(k.config, "num_nextn_predict_layers");
    cJSON_AddNumberToObject(k.config, "mtp_num_hidden_layers", 1);
    write_config(&k);
    attaches(&k, "the checkpoint's own files", 0);
    cJSON_SetNumberValue(cJSON_GetObjectItem(k.config, "mtp_num_hidden_layers"), 0);
    write_config(&k);
    stays_off(&k, "declares no draft head");
    kit_close(&k);
}

static void test_absent(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    write_main(&k, false);
    static const char *const places[] = {"absent", "mtp.safetensors", "mtp/weights.safetensors", "model-mtp.safetensors", "own files"};
    for (int i = 0; i < 5; i++) stays_off(&k, places[i]);
    /* Files of the usual names that hold something else do not count. */
    write_tensors(&k, "mtp.safetensors", k.trunk, 1, NULL, 0);
    stays_off(&k, "absent");
    write_sidecar(&k, "model-mtp.safetensors", 7);
    attaches(&k, "model-mtp.safetensors", 7);
    kit_close(&k);
}

static void test_incomplete(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    size_t count = k.head_count;
    for (size_t i = 0; i < count; i++) { /* each tensor in its turn, inside and in a sidecar with the whole head inside */
        fore_tensor without[MAX_TENSORS];
        size_t n = 0;
        for (size_t j = 0; j < count; j++)
            if (j != i) without[n++] = k.head[j];
        write_config(&k);
        write_tensors(&k, "model.safetensors", k.trunk, k.trunk_count, without, n);
        fails(&k, FORE_ERR_FORMAT, k.names[i], "missing");
        if (i % 5) continue;
        write_main(&k, true);
        write_tensors(&k, "mtp.safetensors", NULL, 0, without, n);
        fails(&k, FORE_ERR_FORMAT, k.names[i], "mtp.safetensors");
        remove(scratch_path(&k.s, "mtp.safetensors"));
    }
    kit_close(&k);
}

static void test_misshapen(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    for (size_t i = 0; i < k.head_count; i++) {
        fore_tensor was = k.head[i];
        if (was.dims == 2) {
            k.head[i].shape[0] = was.shape[1];
            k.head[i].shape[1] = was.shape[0];
            if (was.shape[0] == was.shape[1]) continue;
        } else {
            k.head[i].dims = 2;
            k.head[i].shape[1] = 1;
        }
        write_main(&k, true);
        fails(&k, FORE_ERR_FORMAT, k.names[i], "expected [");
        k.head[i] = was;
    }
    k.head[3].dtype = "I32";
    write_main(&k, true);
    fails(&k, FORE_ERR_UNSUPPORTED, k.names[3], "type I32");
    k.head[3].dtype = "F32";
    /* Two layers are declared, one is there. */
    cJSON_SetNumberValue(cJSON_GetObjectItem(k.text, "mtp_num_hidden_layers"), 2);
    write_main(&k, true);
    fails(&k, FORE_ERR_FORMAT, "mtp.layers.1.", "missing");
    kit_close(&k);
}

static void test_places(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    write_main(&k, true);
    static const char *const names[] = {"model-mtp.safetensors", "mtp/weights.safetensors", "mtp.safetensors"}; /* the later ones win */
    for (int i = 0; i < 3; i++) {
        write_sidecar(&k, names[i], (float)(i + 2));
        attaches(&k, names[i], (float)(i + 2));
    }
    cJSON *extra = cJSON_AddObjectToObject(k.config, "mlx_lm_extra_tensors");
    cJSON *file = cJSON_AddStringToObject(extra, "mtp_file", "heads/./draft.safetensors");
    write_config(&k);
    fails(&k, FORE_ERR_IO, "heads/./draft.safetensors", "which is not in");
    write_sidecar(&k, "heads/draft.safetensors", 9);
    attaches(&k, "draft.safetensors", 9);
    write_tensors(&k, "heads/draft.safetensors", k.trunk, 2, NULL, 0);
    fails(&k, FORE_ERR_FORMAT, "heads/./draft.safetensors", "no mtp.* tensors");
    scratch_write(&k.s, "heads/draft.safetensors", "not a tensor file", 17);
    fails(&k, FORE_ERR_FORMAT, "draft.safetensors", "");
    static const char *const outside[] = {"../mtp.safetensors", "heads/../../mtp.safetensors", "/tmp/mtp.safetensors", "..", "heads/..", ""};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        cJSON_SetValuestring(file, outside[i]);
        write_config(&k);
        fails(&k, FORE_ERR_FORMAT, "mlx_lm_extra_tensors.mtp_file", "leaves the model's folder");
    }
    cJSON_SetValuestring(file, "..mtp.safetensors"); /* a name, not a way up */
    write_config(&k);
    write_sidecar(&k, "..mtp.safetensors", 11);
    attaches(&k, "..mtp.safetensors", 11);
    cJSON_DeleteItemFromObject(extra, "mtp_file");
    cJSON_AddNumberToObject(extra, "mtp_file", 3);
    write_config(&k);
    fails(&k, FORE_ERR_FORMAT, "config.json", "mtp_file: expected");
    kit_close(&k);
}

static void test_prefixes(void **state) {
    (void)state;
    static const char *const prefixes[] = {"mtp.", "language_model.mtp.", "model.mtp.", "model.language_model.mtp."};
    for (int i = 0; i < 8; i++) {
        kit k;
        kit_open(&k);
        for (size_t j = 0; j < k.head_count; j++) {
            char name[96];
            snprintf(name, sizeof name, "%s%s", prefixes[i / 2], k.names[j] + 4);
            memcpy(k.names[j], name, sizeof name);
        }
        write_main(&k, i % 2 == 0);
        if (i % 2) write_tensors(&k, "mtp.safetensors", NULL, 0, k.head, k.head_count);
        attaches(&k, i % 2 ? "mtp.safetensors" : "own files", 0);
        k.head_count--;
        char gone[96];
        snprintf(gone, sizeof gone, "%s", k.names[k.head_count]);
        write_main(&k, i % 2 == 0);
        if (i % 2) write_tensors(&k, "mtp.safetensors", NULL, 0, k.head, k.head_count);
        fails(&k, FORE_ERR_FORMAT, gone, "missing");
        k.head_count++;
        kit_close(&k);
    }
}

/* Shards without an index: by number, the head in one of them. With an index: the head in a file that it does not name. */
static void test_shards(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    write_config(&k);
    size_t half = k.trunk_count / 2;
    write_tensors(&k, "model-00001-of-00002.safetensors", k.trunk, half, NULL, 0);
    write_tensors(&k, "model-00002-of-00002.safetensors", k.trunk + half, k.trunk_count - half, k.head, k.head_count);
    attaches(&k, "own files", 0);
    counts(&k, 2, k.trunk_count + 15);
    write_sidecar(&k, "mtp.safetensors", 5);
    attaches(&k, "mtp.safetensors", 5);
    write_tensors(&k, "model-00002-of-00002.safetensors", k.trunk + half, k.trunk_count - half, NULL, 0);
    attaches(&k, "mtp.safetensors", 5);
    cJSON *index = cJSON_CreateObject(), *map = cJSON_AddObjectToObject(index, "weight_map");
    for (size_t i = 0; i < k.trunk_count; i++)
        cJSON_AddStringToObject(map, k.trunk[i].name, i < half ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors");
    char *text = cJSON_PrintUnformatted(index);
    scratch_write(&k.s, "model.safetensors.index.json", text, strlen(text));
    attaches(&k, "mtp.safetensors", 5);
    counts(&k, 3, k.trunk_count + 15);
    remove(scratch_path(&k.s, "mtp.safetensors"));
    stays_off(&k, "absent");
    free(text);
    cJSON_Delete(index);
    kit_close(&k);
}

static void test_quantised(void **state) {
    (void)state;
    static const char *const companions[] = {"mtp.fc.scales", "mtp.layers.0.mlp.up_proj.weight_scale_inv", "mtp.layers.0.mlp.up_proj.weight_packed"};
    for (int i = 0; i < 3; i++) {
        kit k;
        kit_open(&k);
        add_head(&k, &k.head[head_index(&k, "mtp.norm.weight")], companions[i]);
        write_main(&k, true);
        stays_off(&k, "quantised");
        kit_close(&k);
    }
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

static bool is_norm(const char *name) { return strstr(name, "norm") != NULL; }

static void fill_norms(kit *k, const char *part, float value) {
    int filled = 0;
    for (size_t i = 0; i < k->head_count; i++) {
        if (!is_norm(k->names[i]) || !strstr(k->names[i], part)) continue;
        for (size_t j = 0; j < elements(&k->head[i]); j++) k->data[i][j] = value;
        filled++;
    }
    assert_true(filled > 0);
}

static void judged(const kit *k, bool absolute, const char *rule) {
    write_main(k, true);
    opened o = open_kit(k);
    if (o.status) fail_msg("%s", o.err.text);
    assert_int_equal(o.mtp.norms_absolute, absolute);
    if (!strstr(o.mtp.norms_rule, rule)) fail_msg("%s", o.mtp.norms_rule);
    /* Every gain follows, also those that were not asked. */
    float plus = absolute ? 0 : 1;
    assert_true(o.mtp.norm[3] == k->data[head_index(k, "mtp.norm.weight")][3] + plus);
    assert_true(o.mtp.norm_hidden[3] == k->data[head_index(k, "mtp.pre_fc_norm_hidden.weight")][3] + plus);
    assert_true(o.mtp.norm_embedding[3] == k->data[head_index(k, "mtp.pre_fc_norm_embedding.weight")][3] + plus);
    const fore_layer *l = &o.mtp.layers[0];
    assert_true(l->input_norm[3] == k->data[head_index(k, "mtp.layers.0.input_layernorm.weight")][3] + plus);
    assert_true(l->post_norm[3] == k->data[head_index(k, "mtp.layers.0.post_attention_layernorm.weight")][3] + plus);
    assert_true(l->q_norm[3] == k->data[head_index(k, "mtp.layers.0.self_attn.q_norm.weight")][3] + plus);
    assert_true(l->k_norm[3] == k->data[head_index(k, "mtp.layers.0.self_attn.k_norm.weight")][3] + plus);
    close_opened(&o);
}

static void test_norms(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    judged(&k, false, "detected");
    for (size_t i = 0; i < k.head_count; i++) /* as an MLX conversion has them */
        for (size_t j = 0; is_norm(k.names[i]) && j < elements(&k.head[i]); j++) k.data[i][j] += 1;
    judged(&k, true, "detected");
    fill_norms(&k, "", 0.9f); /* published means: 0.30 to 0.39, q and k 0.73 to 0.75; absolute 0.87 and up, 1.73 and up */
    fill_norms(&k, "q_norm", 0.75f);
    fill_norms(&k, "k_norm", 0.73f);
    judged(&k, true, "detected"); /* small q and k norms alone do not make it */
    fill_norms(&k, "pre_fc_norm_hidden", 0.39f);
    judged(&k, false, "detected"); /* one small norm of the others does */
    fill_norms(&k, "k_norm", 1.26f);
    judged(&k, true, "detected"); /* unless q or k are large */
    fill_norms(&k, "k_norm", 1.24f);
    fill_norms(&k, "mtp.norm", 1.9f);
    judged(&k, false, "detected"); /* the final norm is not asked */
    fill_norms(&k, "pre_fc_norm_hidden", 0.9f);
    fill_norms(&k, "mtp.norm", 0.1f);
    judged(&k, true, "detected");
    /* What is declared wins, in the order of the keys. */
    cJSON *quantization = cJSON_AddObjectToObject(k.config, "mtplx_mtp_quantization");
    cJSON_AddStringToObject(quantization, "norm_weight_encoding", "mlx_delta");
    judged(&k, false, "declared");
    cJSON_AddStringToObject(quantization, "norm_encoding", "absolute");
    judged(&k, true, "declared");
    cJSON_AddStringToObject(k.config, "mtp_norm_encoding", "delta_plus_one");
    judged(&k, false, "declared");
    fill_norms(&k, "", 0.2f);
    cJSON_AddStringToObject(k.config, "mtplx_mtp_norm_encoding", "absolute");
    judged(&k, true, "declared");
    cJSON_SetValuestring(cJSON_GetObjectItem(k.config, "mtplx_mtp_norm_encoding"), "delta");
    judged(&k, false, "declared");
    cJSON_SetValuestring(cJSON_GetObjectItem(k.config, "mtplx_mtp_norm_encoding"), "none");
    write_config(&k);
    fails(&k, FORE_ERR_FORMAT, "mtplx_mtp_norm_encoding", "expected delta, delta_plus_one, mlx_delta or absolute, found \"none\"");
    kit_close(&k);
}

/* ---- the contract's files ---------------------------------------------------------------------------------------- */

static void test_contract_sources(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    cJSON *c = cJSON_AddObjectToObject(k.config, "mtplx_mtp_contract");
    cJSON_AddStringToObject(c, "concat_order", "hidden_embedding");
    cJSON_AddStringToObject(c, "hidden_variant", "fc");
    cJSON_AddStringToObject(c, "base_hidden_variant", "pre_norm");
    write_main(&k, true);
    static const char runtime[] = "{\"mtp_contract\": {\"hidden_variant\": \"prev\", \"base_hidden_variant\": \"post_norm\"}}";
    scratch_write(&k.s, "mtplx_runtime.json", runtime, strlen(runtime));
    const fore_model_options options = {.mtp_contract = "{\"hidden_variant\": \"post_norm\"}"};
    static const char *const want[4][2] = {
        {"post_norm", "mtplx_runtime.json"}, {"post_norm", "command line"}, {"hidden_embedding", "config.json"}, {"cache", "default"}};
    fore_model *model = NULL;
    fore_error err = {0};
    if (fore_model_open(k.s.dir, &options, &model, &err)) fail_msg("%s", err.text);
    const char *name, *value, *source;
    for (int i = 0; i < 4; i++) {
        assert_true(fore_model_get_contract(model, i, &name, &value, &source));
        assert_string_equal(value, want[i][0]);
        assert_string_equal(source, want[i][1]);
    }
    assert_false(fore_model_get_contract(model, -1, &name, &value, &source));
    assert_false(fore_model_get_contract(model, FORE_CONTRACT_FIELDS, &name, &value, &source));
    fore_model_close(model);
    static const struct {
        const char *contract, *part;
    } wrong[] = {
        {"{\"hidden_variant\": \"x\"}", "the given MTP contract: hidden_variant: expected fc"},
        {"{", "the given MTP contract: not valid JSON"},
        {"[]", "the given MTP contract: the MTP contract: expected an object"},
    };
    for (int i = 0; i < 3; i++) {
        const fore_model_options bad = {.mtp_contract = wrong[i].contract};
        assert_int_equal(fore_model_open(k.s.dir, &bad, &model, &err), FORE_ERR_FORMAT);
        if (!strstr(err.text, wrong[i].part)) fail_msg("%s", err.text);
    }
    scratch_write(&k.s, "mtplx_runtime.json", "{\"mtp_contract\": {\"concat_order\": 1}}", 37);
    fails(&k, FORE_ERR_FORMAT, "mtplx_runtime.json: concat_order", "expected embedding_hidden or hidden_embedding, found 1");
    scratch_write(&k.s, "mtplx_runtime.json", "{\"mtp_contract\"", 15);
    fails(&k, FORE_ERR_FORMAT, "mtplx_runtime.json", "not valid JSON");
    kit_close(&k);
}

/* ---- two layers -------------------------------------------------------------------------------------------------- */

/* A second layer, the copy of the first; silent: the branches of that layer add nothing. */
static void make_two_layers(kit *k, int silent) {
    size_t n = k->head_count;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(k->names[i], "mtp.layers.0.", 13)) continue;
        char name[96];
        snprintf(name, sizeof name, "mtp.layers.1.%s", k->names[i] + 13);
        add_head(k, &k->head[i], name);
    }
    assert_int_equal(k->head_count, n + LAYER_TENSORS);
    for (int b = 0; b < 2 && silent >= 0; b++) {
        char name[96];
        snprintf(name, sizeof name, "mtp.layers.%d.%s", silent, b ? "mlp.down_proj.weight" : "self_attn.o_proj.weight");
        size_t i = head_index(k, name);
        memset(k->data[i], 0, elements(&k->head[i]) * sizeof(float));
    }
    cJSON_SetNumberValue(cJSON_GetObjectItem(k->text, "mtp_num_hidden_layers"), 2);
    write_main(k, true);
}

enum { ROWS = 21, CAPACITY = 32 };

typedef struct outcome {
    float post[ROWS * C], next[C];
    int layers, length;
    size_t floats; /* of a layer's keys, and of its values */
    float *k[2], *v[2];
} outcome;

/* ROWS rows of the head, in steps; all but the last row only append keys and values when `spare`. */
static outcome run_head(const kit *k, int step, bool spare) {
    opened o = open_kit(k);
    if (o.status || !o.mtp.attached) fail_msg("%s%s", o.err.text, o.mtp.why);
    outcome out = {.layers = o.mtp.text.num_hidden_layers};
    fore_pool *pool;
    fore_state head;
    fore_scratch room;
    fore_mtp_scratch own;
    assert_int_equal(fore_pool_new(2, &pool, &o.err), 0);
    assert_int_equal(fore_state_new(&o.mtp.text, CAPACITY, &head, &o.err), 0);
    assert_int_equal(fore_scratch_new(&o.network.config.text, CAPACITY, CAPACITY, 2, &room, &o.err), 0);
    assert_int_equal(fore_mtp_scratch_new(&o.mtp, CAPACITY, &own, &o.err), 0);
    const fore_engine e = {.kern = o.network.kern, .pool = pool};
    float hidden[ROWS * C], embeddings[ROWS * C];
    int32_t positions[ROWS];
    for (int i = 0; i < ROWS; i++) {
        fore_weight_row(e.kern, &o.network.embed, 3 + 7 * i, embeddings + i * C);
        for (int c = 0; c < C; c++) hidden[i * C + c] = (float)((i * 31 + c * 17) % 23 - 11) * 0.1f;
        positions[i] = i + i / 5;
    }
    for (int at = 0; at < ROWS; at += step) {
        int n = ROWS - at < step ? ROWS - at : step, from = !spare ? 0 : at + n < ROWS ? n : n - 1;
        const int32_t *p = positions + at;
        const fore_mtp_batch b = {.T = n, .from = from, .hidden = hidden + at * C, .embeddings = embeddings + at * C, .positions = {p, p, p},
                                  .post_norm = out.post + at * C, .next = out.next};
        fore_mtp_forward(&e, &o.network, &o.mtp, &head, &room, &own, &b);
        assert_int_equal(head.length, at + n);
    }
    out.length = head.length;
    size_t D = (size_t)o.mtp.text.head_dim, K = (size_t)o.mtp.text.num_key_value_heads;
    out.floats = K * CAPACITY * D;
    for (int i = 0; i < out.layers; i++) {
        out.k[i] = malloc(out.floats * sizeof(float));
        out.v[i] = malloc(out.floats * sizeof(float));
        memcpy(out.k[i], head.layers[i].k, out.floats * sizeof(float));
        memcpy(out.v[i], head.layers[i].v, out.floats * sizeof(float));
        for (size_t h = 0; h < K; h++) { /* the last row is there, the one after it is not */
            const float *v = out.v[i] + h * CAPACITY * D;
            int last = 0, past = 0;
            for (size_t d = 0; d < D; d++) {
                last += v[(ROWS - 1) * D + d] != 0;
                past += v[ROWS * D + d] != 0;
            }
            assert_true(last > 0 && past == 0);
        }
    }
    fore_mtp_scratch_free(&own);
    fore_scratch_free(&room);
    fore_state_free(&head);
    fore_pool_free(pool);
    close_opened(&o);
    return out;
}

static void free_outcome(outcome *o) {
    for (int i = 0; i < o->layers; i++) {
        free(o->k[i]);
        free(o->v[i]);
    }
}

static void test_two_layers(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    make_two_layers(&k, -1);
    outcome all = run_head(&k, ROWS, false);
    assert_int_equal(all.layers, 2);
    assert_int_not_equal(memcmp(all.v[0], all.v[1], all.floats * sizeof(float)), 0); /* the second layer sees the first one's output */
    static const struct {
        int step;
        bool spare;
    } ways[] = {{ROWS, true}, {1, false}, {1, true}, {5, false}, {5, true}, {16, true}, {20, true}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        outcome o = run_head(&k, ways[i].step, ways[i].spare);
        assert_memory_equal(o.post + (ROWS - 1) * C, all.post + (ROWS - 1) * C, C * sizeof(float));
        if (!ways[i].spare) assert_memory_equal(o.post, all.post, sizeof all.post);
        assert_memory_equal(o.next, all.next, sizeof all.next);
        for (int l = 0; l < 2; l++) {
            assert_memory_equal(o.k[l], all.k[l], all.floats * sizeof(float));
            assert_memory_equal(o.v[l], all.v[l], all.floats * sizeof(float));
        }
        free_outcome(&o);
    }
    free_outcome(&all);
    kit_close(&k);
}

/* A layer that adds nothing, below or above: what comes out is what one layer gives. */
static void test_silent_layer(void **state) {
    (void)state;
    kit one;
    kit_open(&one);
    write_main(&one, true);
    outcome want = run_head(&one, ROWS, false);
    assert_int_equal(want.layers, 1);
    for (int silent = 0; silent < 2; silent++) {
        kit k;
        kit_open(&k);
        make_two_layers(&k, silent);
        outcome o = run_head(&k, 5, true);
        assert_memory_equal(o.post + (ROWS - 1) * C, want.post + (ROWS - 1) * C, C * sizeof(float));
        assert_memory_equal(o.next, want.next, sizeof want.next);
        assert_memory_equal(o.k[!silent], want.k[0], want.floats * sizeof(float));
        free_outcome(&o);
        kit_close(&k);
    }
    free_outcome(&want);
    kit_close(&one);
}

static void answer(fore_session *s, const fore_request *r, int32_t ids[64], uint8_t digest[32], fore_stats *stats) {
    fore_error err = {0};
    fore_chunk c = {0};
    size_t n = 0;
    fore_session_reset(s);
    if (fore_session_begin(s, r, &err)) fail_msg("%s", err.text);
    while (c.finish == FORE_FINISH_NONE) {
        if (fore_session_next(s, &c, &err)) fail_msg("%s", err.text);
        assert_true(n + c.id_count <= 64);
        memcpy(ids + n, c.ids, c.id_count * sizeof *ids);
        n += c.id_count;
    }
    assert_int_equal(n, 64);
    fore_session_digest(s, digest);
    fore_session_get_stats(s, stats);
}

static void test_two_layers_answers(void **state) {
    (void)state;
    kit k;
    kit_open(&k);
    make_two_layers(&k, -1);
    static const char *const contracts[] = {NULL, "{\"hidden_variant\": \"mix:post_norm:prev:0.5\", \"mtp_position_mode\": \"local\"}",
                                            "{\"base_hidden_variant\": \"pre_norm\", \"mtp_position_mode\": \"absolute\"}"};
    for (int i = 0; i < 3; i++) {
        fore_model *model = NULL;
        fore_session *session = NULL;
        fore_error err = {0};
        const fore_model_options mo = {.mtp_contract = contracts[i]};
        const fore_session_options so = {.threads = 2, .context = 128};
        if (fore_model_open(k.s.dir, &mo, &model, &err) || fore_session_new(model, &so, &session, &err)) fail_msg("%s", err.text);
        fore_request r;
        fore_request_init(&r, model);
        int32_t prompt[20], base[64], ids[64];
        uint8_t want[32], have[32];
        fore_stats stats;
        for (int j = 0; j < 20; j++) prompt[j] = 5 + 11 * j;
        r.ids = prompt;
        r.id_count = 20;
        r.max_tokens = 64;
        r.ignore_eos = true;
        r.prefill_chunk = 6;
        for (int heat = 0; heat < 2; heat++) {
            r.sampling.temperature = (float)heat;
            r.sampling.seed = 3;
            r.draft.depth = 0;
            answer(session, &r, base, want, &stats);
            static const int depths[] = {1, 2, 3, 8};
            for (int d = 0; d < 4; d++) {
                r.draft.depth = depths[d];
                answer(session, &r, ids, have, &stats);
                assert_memory_equal(ids, base, sizeof base);
                assert_memory_equal(have, want, sizeof want);
                assert_true(stats.draft[0].drafted[0] > 0 && stats.draft[0].tokens > 0);
                assert_int_equal(session->drafter.base + session->drafter.true_rows + session->drafter.carried, session->state.length);
            }
        }
        fore_session_free(session);
        fore_model_close(model);
    }
    kit_close(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declaration),        cmocka_unit_test(test_absent),       cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_misshapen),          cmocka_unit_test(test_places),       cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_shards),             cmocka_unit_test(test_quantised),    cmocka_unit_test(test_norms),
        cmocka_unit_test(test_contract_sources),   cmocka_unit_test(test_two_layers),   cmocka_unit_test(test_silent_layer),
        cmocka_unit_test(test_two_layers_answers),
    };
    return cmocka_run_group_tests_name("mtp/attach", tests, NULL, NULL);
}
