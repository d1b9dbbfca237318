/* Where a draft head's contract is read from, and which head a calibration was made for; see mtp.h and contract.h. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "model/mtp.h"

enum { JSON_LIMIT = 64 << 20 };

const char fore_mtp_calibration_file[] = "mtp_calibration.json";

/* Norms are read as every store has them, so that the digest outlives a conversion that leaves their values alone. */
static void digest_norm(const fore_entry *e, const char *name, const fore_kern *kern, uint8_t out[FORE_MTP_DIGEST]) {
    enum { PIECE = 256 };
    crypto_generichash_state h;
    float v[PIECE];
    uint64_t n = e->shape[0];
    crypto_generichash_init(&h, NULL, 0, FORE_MTP_DIGEST);
    crypto_generichash_update(&h, (const unsigned char *)name, strlen(name) + 1);
    for (uint64_t at = 0; at < n; at += PIECE) {
        int count = n - at < PIECE ? (int)(n - at) : PIECE;
        const fore_weight w = {.data = e->data + at * (e->bytes / n), .dtype = e->dtype, .N = 1, .K = count};
        fore_weight_row(kern, &w, 0, v);
        crypto_generichash_update(&h, (const unsigned char *)v, (size_t)count * sizeof *v);
    }
    crypto_generichash_final(&h, out, FORE_MTP_DIGEST);
}

void fore_mtp_digest(const fore_store *store, const char *prefix, const fore_kern *kern, char hex[2 * FORE_MTP_DIGEST + 1]) {
    uint8_t all[FORE_MTP_DIGEST] = {0}, one[FORE_MTP_DIGEST];
    size_t skip = strlen(prefix);
    for (size_t i = 0; i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        if (strncmp(e->name, prefix, skip) || !fore_dtype_is_float(e->dtype) || e->dims != 1 || !strstr(e->name, "norm")) continue;
        digest_norm(e, e->name + skip, kern, one);
        for (int k = 0; k < FORE_MTP_DIGEST; k++) all[k] ^= one[k]; /* in whatever order the files have them */
    }
    static const char digits[] = "0123456789abcdef";
    for (int k = 0; k < FORE_MTP_DIGEST; k++) {
        hex[2 * k] = digits[all[k] >> 4];
        hex[2 * k + 1] = digits[all[k] & 15];
    }
    hex[2 * FORE_MTP_DIGEST] = 0;
}

static fore_status read_file(const char *dir, const char *name, cJSON **out, fore_error *err) {
    *out = NULL;
    char *path = fore_path_join(dir, name);
    if (!path) return fore_fail_nomem(err, "a path");
    fore_status s = fore_file_exists(path) ? fore_json_read(path, JSON_LIMIT, out, err) : FORE_OK;
    free(path);
    return s;
}

/* What was measured for another head is left alone: this one may want something else. */
static fore_status read_calibration(const char *dir, const fore_store *store, const fore_kern *kern, fore_mtp *m, fore_error *err) {
    cJSON *tree;
    const char *head = NULL;
    fore_status s = read_file(dir, fore_mtp_calibration_file, &tree, err);
    if (!s) s = fore_json_string(tree, "head", NULL, &head, err);
    if (!s && head && store) {
        char hex[2 * FORE_MTP_DIGEST + 1];
        fore_mtp_digest(store, fore_mtp_prefix(store), kern, hex);
        if (strcmp(head, hex)) m->calibration_note = "mtp_calibration.json was made for another head and is not used";
    }
    if (!s && !m->calibration_note[0])
        s = fore_contract_read(&m->contract, fore_json_get(tree, "mtp_contract"), FORE_CONTRACT_CALIBRATED, fore_mtp_calibration_file, err);
    cJSON_Delete(tree);
    return s ? fore_fail_prefix(err, s, "the draft head's calibration (the file may be removed)") : FORE_OK;
}

fore_status fore_mtp_read_contract(const char *dir, const cJSON *config, const cJSON *caller, const fore_store *store, const fore_kern *kern,
                                   fore_mtp *m, fore_error *err) {
    fore_contract *c = &m->contract;
    cJSON *runtime;
    fore_contract_init(c);
    m->calibration_note = "";
    fore_status s = fore_contract_read(c, fore_json_get(config, "mtplx_mtp_contract"), FORE_CONTRACT_CONFIG, "config.json", err);
    if (s) return s;
    s = read_file(dir, "mtplx_runtime.json", &runtime, err);
    if (!s) s = fore_contract_read(c, fore_json_get(runtime, "mtp_contract"), FORE_CONTRACT_RUNTIME, "mtplx_runtime.json", err);
    cJSON_Delete(runtime);
    if (!s) s = read_calibration(dir, store, kern, m, err);
    if (!s) s = fore_contract_read(c, caller, FORE_CONTRACT_CALLER, "the given MTP contract", err);
    return s;
}
