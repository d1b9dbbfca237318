/* The digest of what a model is, for keeping what was measured of it. */
#include <sodium.h>
#include <string.h>

#include "base/file.h"
#include "decode/model.h"

static void add_store(crypto_generichash_state *h, const fore_store *store) {
    for (size_t i = 0; store && i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        uint64_t sizes[FORE_STORE_DIMS] = {0};
        for (int d = 0; d < e->dims; d++) sizes[d] = e->shape[d];
        crypto_generichash_update(h, (const unsigned char *)e->name, strlen(e->name) + 1);
        crypto_generichash_update(h, (const unsigned char *)e->dtype_name, strlen(e->dtype_name) + 1);
        crypto_generichash_update(h, (const unsigned char *)sizes, sizeof sizes);
    }
}

fore_status fore_model_digest(const fore_model *m, uint8_t digest[32], fore_error *err) {
    enum { LIMIT = 64 << 20 };
    char *path = fore_path_join(m->dir, "config.json"), *text = NULL;
    size_t size = 0;
    if (!path) return fore_fail_nomem(err, "a path");
    /* GGUF files have none: names, types and sizes of the tensors say enough of them. */
    fore_status s = m->gguf ? FORE_OK : fore_file_read(path, LIMIT, &text, &size, err);
    fore_free(path);
    if (s) return s;
    crypto_generichash_state h;
    crypto_generichash_init(&h, NULL, 0, 32);
    if (text) crypto_generichash_update(&h, (const unsigned char *)text, size);
    add_store(&h, m->network.store);
    add_store(&h, m->mtp.sidecar);
    crypto_generichash_final(&h, digest, 32);
    fore_free(text);
    return FORE_OK;
}
