/* The contract; see contract.h. */
#include "model/contract.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

static const char *const FIELD_NAMES[FORE_CONTRACT_FIELDS] = {
    "base_hidden_variant", "hidden_variant", "concat_order", "mtp_position_mode", "mtp_norm_encoding", "mtp_quant_bits", "mtp_quant_group_size", "mtp_quant_mode", "mtp_quant_policy",
};
/* What each takes, for messages. */
static const char *const ALLOWED[FORE_CONTRACT_FIELDS] = {
    "pre_norm or post_norm",
    "fc, pre_norm, post_norm, embedding, prev or mix:LEFT:RIGHT:SHARE with a share from 0 to 1",
    "embedding_hidden or hidden_embedding",
    "cache, local or absolute",
    "detected, delta, delta_plus_one, mlx_delta, absolute, gain or mlx",
    "2, 3, 4, 5, 6 or 8",
    "32, 64 or 128",
    "affine",
    "all, cyankiwi, prequantized-int4 or none",
};
static const char *const OUTPUT_NAMES[] = {"fc", "pre_norm", "post_norm", "embedding", "prev"};

const char *fore_contract_field_name(fore_contract_field field) { return FIELD_NAMES[field]; }

const char *fore_contract_source_name(fore_contract_source source) {
    static const char *const names[] = {"default", "config.json", "mtplx_runtime.json", "calibrated", "command line"};
    return names[source];
}

void fore_contract_init(fore_contract *c) {
    *c = (fore_contract){.left = FORE_HEAD_POST_NORM, .right = FORE_HEAD_POST_NORM, .mix = 1, .quant_group = 64};
    static const char *const defaults[FORE_CONTRACT_FIELDS] = {"post_norm", "post_norm", "embedding_hidden", "cache", "detected", "none", "64", "affine", "none"};
    for (int i = 0; i < FORE_CONTRACT_FIELDS; i++) snprintf(c->value[i], sizeof c->value[i], "%s", defaults[i]);
}

/* Index of text (of n bytes) among names, or -1. */
static int choose(const char *text, size_t n, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == n && memcmp(names[i], text, n) == 0) return i;
    return -1;
}

/* "0.25" or "0p25", in [0,1], whatever the locale; at most 15 characters, so that digits and power of ten are exact. */
static bool read_share(const char *text, float *out) {
    double digits = 0, scale = 1;
    bool point = false;
    size_t n = strlen(text), count = 0;
    if (n > 15) return false;
    for (size_t i = 0; i < n; i++) {
        bool dot = text[i] == '.' || text[i] == 'p';
        if (dot ? point : text[i] < '0' || text[i] > '9') return false;
        if (dot) {
            point = true;
            continue;
        }
        digits = digits * 10 + (text[i] - '0');
        if (point) scale *= 10;
        count++;
    }
    if (!count || digits > scale) return false;
    *out = (float)(digits / scale);
    return true;
}

static fore_status refuse(const char *what, fore_contract_field field, const char *found, fore_error *err) {
    return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: expected %s, found %.42s", what, FIELD_NAMES[field], ALLOWED[field], found);
}

static fore_status refuse_text(const char *what, fore_contract_field field, const char *text, fore_error *err) {
    char found[48];
    snprintf(found, sizeof found, "\"%.40s\"", text);
    return refuse(what, field, found, err);
}

static bool read_variant(fore_contract *c, const char *text) {
    int one = choose(text, strlen(text), OUTPUT_NAMES, 5);
    if (one >= 0) {
        c->left = c->right = (fore_head_output)one;
        c->mix = 1;
        return true;
    }
    if (strncmp(text, "mix:", 4)) return false;
    const char *left = text + 4, *right = strchr(left, ':'), *share = right ? strchr(right + 1, ':') : NULL;
    if (!share) return false;
    int l = choose(left, (size_t)(right - left), OUTPUT_NAMES, 5), r = choose(right + 1, (size_t)(share - right - 1), OUTPUT_NAMES, 5);
    float mix;
    if (l < 0 || r < 0 || !read_share(share + 1, &mix)) return false;
    c->left = (fore_head_output)l;
    c->right = (fore_head_output)r;
    c->mix = mix;
    return true;
}

static fore_status read_text(fore_contract *c, fore_contract_field f, const char *text, const char *what, fore_error *err) {
    static const char *const bases[] = {"post_norm", "pre_norm"}, *const orders[] = {"embedding_hidden", "hidden_embedding"};
    static const char *const norms[] = {"detected", "delta", "delta_plus_one", "mlx_delta", "absolute", "gain", "mlx"};
    static const char *const positions[] = {"cache", "local", "absolute"}, *const policies[] = {"all", "cyankiwi", "prequantized-int4", "none"};
    int i;
    switch (f) {
    case FORE_CONTRACT_BASE_HIDDEN:
        i = choose(text, strlen(text), bases, 2);
        if (i < 0) return refuse_text(what, f, text, err);
        c->base_pre_norm = i == 1;
        break;
    case FORE_CONTRACT_HIDDEN:
        if (!read_variant(c, text)) return refuse_text(what, f, text, err);
        break;
    case FORE_CONTRACT_CONCAT:
        i = choose(text, strlen(text), orders, 2);
        if (i < 0) return refuse_text(what, f, text, err);
        c->hidden_first = i == 1;
        break;
    case FORE_CONTRACT_POSITION:
        i = choose(text, strlen(text), positions, 3);
        if (i < 0) return refuse_text(what, f, text, err);
        c->position = (fore_mtp_position)i;
        break;
    case FORE_CONTRACT_NORMS:
        i = choose(text, strlen(text), norms, 7);
        if (i < 0) return refuse_text(what, f, text, err);
        c->norms = !i ? FORE_NORMS_DETECTED : i < 4 ? FORE_NORMS_DELTA : FORE_NORMS_ABSOLUTE;
        break;
    case FORE_CONTRACT_QUANT_MODE:
        if (strcmp(text, "affine")) return refuse_text(what, f, text, err);
        break;
    case FORE_CONTRACT_QUANT_POLICY:
        i = choose(text, strlen(text), policies, 4);
        if (i < 0) return refuse_text(what, f, text, err);
        c->quant_layers_only = i == 1 || i == 2;
        break;
    default: return refuse_text(what, f, text, err);
    }
    snprintf(c->value[f], sizeof c->value[f], "%s", text);
    return FORE_OK;
}

static fore_status read_number(fore_contract *c, fore_contract_field f, double v, const char *what, fore_error *err) {
    char found[32];
    snprintf(found, sizeof found, "%g", v);
    if (f == FORE_CONTRACT_QUANT_BITS) {
        if (v != 2 && v != 3 && v != 4 && v != 5 && v != 6 && v != 8) return refuse(what, f, found, err);
        c->quant_bits = (int)v;
    } else if (f == FORE_CONTRACT_QUANT_GROUP) {
        if (v != 32 && v != 64 && v != 128) return refuse(what, f, found, err);
        c->quant_group = (int)v;
    } else {
        return refuse(what, f, found, err);
    }
    snprintf(c->value[f], sizeof c->value[f], "%s", found);
    return FORE_OK;
}

fore_status fore_contract_read(fore_contract *contract, const cJSON *object, fore_contract_source source, const char *what, fore_error *err) {
    if (!object) return FORE_OK;
    if (!cJSON_IsObject(object)) return fore_fail(err, FORE_ERR_FORMAT, "%s: the MTP contract: expected an object", what);
    fore_contract c = *contract;
    for (int f = 0; f < FORE_CONTRACT_FIELDS; f++) {
        const cJSON *item = fore_json_get(object, FIELD_NAMES[f]);
        if (!item) continue;
        fore_status s;
        if (cJSON_IsString(item)) s = read_text(&c, (fore_contract_field)f, item->valuestring, what, err);
        else if (cJSON_IsNumber(item)) s = read_number(&c, (fore_contract_field)f, item->valuedouble, what, err);
        else s = refuse(what, (fore_contract_field)f, cJSON_IsArray(item) ? "a list" : cJSON_IsObject(item) ? "an object" : "true or false", err);
        if (s) return s;
        c.source[f] = source;
    }
    *contract = c;
    return FORE_OK;
}
