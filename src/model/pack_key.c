/* Digests of packs; see pack_key.h. */
#include "model/pack_key.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/quant.h"

enum { SAMPLES = 64, SAMPLE_BYTES = 256, PIECE = 4 << 20 };
enum { GGUF_HEAD = 16 << 20 }; /* more than the keys and tensors' names of a large vocabulary take */

static void add_number(crypto_generichash_state *h, uint64_t n) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(n >> 8 * i);
    crypto_generichash_update(h, bytes, sizeof bytes);
}

/* Times and inode tell of every write to a file, its header which tensors it has; the samples are for file systems that keep
 * times badly. */
static void add_file(crypto_generichash_state *h, const fore_map *map) {
    const fore_file_id *id = &map->id;
    add_number(h, id->size);
    add_number(h, id->inode);
    for (int i = 0; i < 2; i++) {
        add_number(h, (uint64_t)id->modified[i]);
        add_number(h, (uint64_t)id->changed[i]);
    }
    uint64_t header = 0;
    for (int i = 7; map->size >= 8 && i >= 0; i--) header = header << 8 | map->data[i];
    size_t head = map->size >= 8 && header <= map->size - 8 ? 8 + (size_t)header : map->size;
    if (map->size >= 4 && !memcmp(map->data, "GGUF", 4)) head = map->size < GGUF_HEAD ? map->size : GGUF_HEAD;
    crypto_generichash_update(h, map->data, head);
    size_t room = map->size > SAMPLE_BYTES ? map->size - SAMPLE_BYTES : 0;
    for (size_t i = 0; room && i < SAMPLES; i++) crypto_generichash_update(h, map->data + room / (SAMPLES - 1) * i, SAMPLE_BYTES);
}

static bool lies_in(const fore_map *map, const unsigned char *p) {
    uintptr_t first = (uintptr_t)map->data, at = (uintptr_t)p;
    return map->data && at >= first && at - first < map->size;
}

/* The file that a pointer into a store points into; neighbours in the list mostly lie in the same one. */
static int file_of(const fore_store *store, const unsigned char *p, int likely) {
    int files = fore_store_files(store);
    for (int i = 0; i < files; i++) {
        int file = (likely + i) % files;
        if (lies_in(fore_store_file_map(store, file), p)) return file;
    }
    return -1;
}

static void add_place(crypto_generichash_state *h, const fore_store *store, const unsigned char *p, int *file) {
    *file = file_of(store, p, *file < 0 ? 0 : *file);
    const fore_map *map = fore_store_file_map(store, *file);
    add_number(h, (uint64_t)*file);
    add_number(h, map ? (uint64_t)((uintptr_t)p - (uintptr_t)map->data) : 0);
}

/* All that rows of a form depend on. */
static void add_form(crypto_generichash_state *h, const fore_store *store, const fore_form_matrix *m, int *file) {
    crypto_generichash_update(h, (const unsigned char *)m->form->name, strlen(m->form->name) + 1);
    add_number(h, (uint64_t)m->form->version);
    add_number(h, m->matrices);
    add_number(h, m->rows);
    for (int i = 0; i < FORE_FORM_NUMBERS; i++) add_number(h, (uint64_t)m->own[i]);
    for (int i = 0; i < FORE_FORM_PARTS; i++) {
        add_number(h, m->part[i] != NULL);
        if (!m->part[i]) continue;
        crypto_generichash_update(h, (const unsigned char *)m->part[i]->dtype_name, strlen(m->part[i]->dtype_name) + 1);
        add_place(h, store, m->part[i]->data, file);
    }
}

void fore_pack_key(const fore_panels *p, const fore_store *store, uint8_t key[32]) {
    static const char tag[] = "foresight panels";
    crypto_generichash_state h;
    crypto_generichash_init(&h, NULL, 0, 32);
    crypto_generichash_update(&h, (const unsigned char *)tag, sizeof tag);
    add_number(&h, FORE_PANEL_FORM);
    add_number(&h, (uint64_t)fore_store_files(store));
    for (int i = 0; i < fore_store_files(store); i++) add_file(&h, fore_store_file_map(store, i));
    add_number(&h, p->used);
    add_number(&h, p->count);
    int file = 0;
    for (size_t i = 0; i < p->count; i++) {
        const fore_panel_job *job = &p->jobs[i];
        add_number(&h, (uint64_t)((const unsigned char *)job->w.panels - p->memory));
        add_number(&h, (uint64_t)job->w.N);
        add_number(&h, (uint64_t)job->w.K);
        add_number(&h, (uint64_t)job->w.bits << 32 | (uint64_t)job->w.group);
        add_number(&h, (uint64_t)job->w.dtype);
        add_number(&h, (uint64_t)job->stored_bits);
        if (job->from) {
            add_form(&h, store, job->from, &file);
            add_number(&h, job->row0);
            continue;
        }
        add_place(&h, store, job->q, &file);
        add_place(&h, store, job->scales, &file);
        add_place(&h, store, job->biases, &file);
    }
    crypto_generichash_final(&h, key, 32);
}

bool fore_pack_sources_same(const fore_store *store) {
    for (int i = 0; i < fore_store_files(store); i++) {
        const fore_file_id *then = &fore_store_file_map(store, i)->id;
        fore_file_id now;
        if (!fore_file_identify(fore_store_file_path(store, i), &now)) return false;
        if (now.size != then->size || now.inode != then->inode || memcmp(now.modified, then->modified, sizeof now.modified) ||
            memcmp(now.changed, then->changed, sizeof now.changed))
            return false;
    }
    return true;
}

typedef struct digest_run {
    const fore_panels *panels;
    unsigned char *digests; /* [pieces][32] */
} digest_run;

static void digest_piece(void *context, int index, int worker) {
    (void)worker;
    const digest_run *run = context;
    size_t at = (size_t)index * PIECE, left = run->panels->used - at;
    crypto_generichash(run->digests + (size_t)index * 32, 32, run->panels->memory + at, left < PIECE ? left : PIECE, NULL, 0);
}

bool fore_pack_content(const fore_panels *p, fore_pool *pool, uint8_t digest[32]) {
    size_t pieces = (p->used + PIECE - 1) / PIECE;
    if (pieces > INT32_MAX) return false;
    digest_run run = {p, malloc(pieces * 32 + 1)};
    if (!run.digests) return false;
    if (pool) fore_pool_run(pool, digest_piece, &run, (int)pieces);
    else
        for (int i = 0; i < (int)pieces; i++) digest_piece(&run, i, 0);
    crypto_generichash(digest, 32, run.digests, pieces * 32, NULL, 0);
    free(run.digests);
    return true;
}
