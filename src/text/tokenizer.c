/* The tokenizer's public calls; see tokenizer.h for the order of things. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "text/nfc.h"

enum {
    FILE_LIMIT = 256 << 20, /* bytes of tokenizer.json */
    TEXT_LIMIT = 1 << 30,   /* bytes of one text; offsets are 32 bits wide */
};

/* ---- open and close ---- */

void fore_tokenizer_close(fore_tokenizer *t) {
    if (!t) return;
    fore_names_free(&t->vocab);
    fore_merges_free(&t->merges);
    fore_split_free(&t->split);
    fore_added_free(&t->added);
    free(t->pieces);
    fore_buf_free(&t->piece_bytes);
    free(t);
}

fore_status fore_tokenizer_make(const fore_tokenizer_source *source, fore_tokenizer **out, fore_error *err) {
    *out = NULL;
    fore_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return fore_fail_nomem(err, "a tokenizer");
    fore_status s = fore_tokenizer_read(source, t, err);
    if (s)
        fore_tokenizer_close(t);
    else
        *out = t;
    return s;
}

fore_status fore_tokenizer_open_with(const char *path, const char *regex, bool no_jit, fore_tokenizer **out,
                                     fore_error *err) {
    *out = NULL;
    char *file = NULL, *config = NULL, *text = NULL;
    cJSON *config_tree = NULL;
    fore_tokenizer_source source = {.regex = regex, .no_jit = no_jit};
    size_t size = 0;
    fore_status s = FORE_OK;
    if (fore_dir_exists(path)) {
        file = fore_path_join(path, "tokenizer.json");
        config = fore_path_join(path, "tokenizer_config.json");
        if (!file || !config) s = fore_fail_nomem(err, "a path");
    }
    const char *name = file ? file : path;
    if (!s) s = fore_file_read(name, FILE_LIMIT, &text, &size, err);
    if (!s) s = fore_tokenizer_parse(text, size, name, &source, err);
    if (!s && config && fore_file_exists(config)) s = fore_json_read(config, FILE_LIMIT, &config_tree, err);
    source.config = config_tree;
    if (!s) {
        s = fore_tokenizer_make(&source, out, err);
        if (s) s = fore_fail_prefix(err, s, "%s", name);
    }
    cJSON_Delete(source.file);
    cJSON_Delete(config_tree);
    free(text);
    free(file);
    free(config);
    return s;
}

fore_status fore_tokenizer_open(const char *path, fore_tokenizer **out, fore_error *err) {
    return fore_tokenizer_open_with(path, NULL, false, out, err);
}

/* ---- encode ---- */

uint32_t fore_byte_to_char(unsigned char byte) {
    if ((byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE) return byte;
    if (byte <= ' ') return 0x100u + byte;
    if (byte < 0xA1) return 0x100u + 33 + (byte - 0x7Fu);
    return 0x143; /* 0xAD, the soft hyphen */
}

typedef struct encoder {
    const fore_tokenizer *t;
    int32_t *ids; /* owned */
    size_t count, capacity;
    fore_cut cut;
    fore_bpe_scratch bpe;
    fore_buf clean, normal, spelling;
    fore_error *err;
} encoder;

static fore_status out_of_memory(encoder *e) {
    return fore_fail_nomem(e->err, "token ids");
}

static fore_status reserve_ids(encoder *e, size_t more) {
    if (e->capacity - e->count >= more) return FORE_OK;
    size_t capacity = e->capacity * 2 > e->count + more ? e->capacity * 2 : e->count + more;
    int32_t *ids = realloc(e->ids, capacity * sizeof *ids);
    if (!ids) return out_of_memory(e);
    e->ids = ids;
    e->capacity = capacity;
    return FORE_OK;
}

/* The token that is the whole word, or -1. */
static fore_status find_word(encoder *e, const char *word, size_t size, int32_t *id) {
    *id = -1;
    e->spelling.size = 0;
    for (size_t i = 0; i < size; i++) {
        char bytes[4];
        int n = fore_utf8_encode(fore_byte_to_char((unsigned char)word[i]), bytes);
        if (fore_buf_append(&e->spelling, bytes, (size_t)n)) return out_of_memory(e);
    }
    *id = fore_names_find(&e->t->vocab, e->spelling.data, e->spelling.size);
    return FORE_OK;
}

static fore_status encode_word(encoder *e, const char *word, size_t size) {
    const fore_tokenizer *t = e->t;
    fore_status s = reserve_ids(e, size);
    if (s) return s;
    if (t->ignore_merges) {
        int32_t id;
        s = find_word(e, word, size, &id);
        if (s) return s;
        if (id >= 0) {
            e->ids[e->count++] = id;
            return FORE_OK;
        }
    }
    int32_t *ids = e->ids + e->count;
    size_t n = 0;
    bool in_unk = false;
    for (size_t i = 0; i < size; i++) {
        int32_t id = t->byte_ids[(unsigned char)word[i]];
        bool unk = id < 0;
        if (unk) id = in_unk && t->fuse_unk ? -1 : t->unk_id;
        if (id >= 0) ids[n++] = id;
        in_unk = unk;
    }
    if (fore_bpe_merge(&t->merges, &e->bpe, ids, &n)) return out_of_memory(e);
    e->count += n;
    return FORE_OK;
}

static fore_status encode_words(encoder *e, const char *text, size_t size) {
    fore_status s = fore_split_run(&e->t->split, &e->cut, text, size, e->err);
    for (size_t i = 0; i < e->cut.count && !s; i++) {
        fore_span span = e->cut.spans[i];
        s = encode_word(e, e->cut.text + span.begin, span.end - span.begin);
    }
    return s;
}

static fore_status push_added(encoder *e, int32_t token) {
    fore_status s = reserve_ids(e, 1);
    if (!s) e->ids[e->count++] = e->t->added.tokens[token].id;
    return s;
}

/* Text between the added tokens that are looked for in the raw text. */
static fore_status encode_between(encoder *e, const char *text, size_t size) {
    if (e->t->nfc && !fore_nfc_is_plain(text, size)) {
        e->normal.size = 0;
        fore_status s = fore_nfc_append(&e->normal, text, size);
        if (s)
            return s == FORE_ERR_NOMEM ? out_of_memory(e) : fore_fail(e->err, s, "tokenizer: NFC fails on this text");
        text = e->normal.data;
        size = e->normal.size;
        if (size > TEXT_LIMIT)
            return fore_fail(e->err, FORE_ERR_LIMIT, "tokenizer: the normalised text has %zu bytes, the limit is %d",
                             size, TEXT_LIMIT);
    }
    fore_added_scan scan = {.added = &e->t->added, .trie = &e->t->added.normalized, .text = text, .size = size};
    fore_segment part;
    fore_status s = FORE_OK;
    while (!s && fore_added_next(&scan, &part))
        s = part.token >= 0 ? push_added(e, part.token) : encode_words(e, text + part.begin, part.end - part.begin);
    return s;
}

static fore_status encode_text(encoder *e, const char *text, size_t size) {
    if (size > TEXT_LIMIT)
        return fore_fail(e->err, FORE_ERR_LIMIT, "tokenizer: the text has %zu bytes, the limit is %d", size,
                         TEXT_LIMIT);
    if (fore_utf8_valid_prefix(text, size) != size) {
        if (fore_utf8_sanitize(&e->clean, text, size)) return out_of_memory(e);
        text = e->clean.data;
        size = e->clean.size;
        if (size > TEXT_LIMIT)
            return fore_fail(e->err, FORE_ERR_LIMIT, "tokenizer: the repaired text has %zu bytes, the limit is %d",
                             size, TEXT_LIMIT);
    }
    fore_added_scan scan = {.added = &e->t->added, .trie = &e->t->added.raw, .text = text, .size = size};
    fore_segment part;
    fore_status s = reserve_ids(e, 1);
    while (!s && fore_added_next(&scan, &part))
        s = part.token >= 0 ? push_added(e, part.token) : encode_between(e, text + part.begin, part.end - part.begin);
    return s;
}

fore_status fore_tokenizer_encode_counted(const fore_tokenizer *t, const char *text, size_t size, int32_t **ids,
                                          size_t *count, uint64_t *steps, fore_error *err) {
    *ids = NULL;
    *count = 0;
    encoder e = {.t = t, .err = err};
    fore_status s = encode_text(&e, text, size);
    if (s) {
        free(e.ids);
    } else {
        int32_t *fit = realloc(e.ids, (e.count ? e.count : 1) * sizeof *fit);
        if (fit) e.ids = fit;
        *ids = e.ids;
        *count = e.count;
    }
    if (steps) *steps = e.bpe.steps;
    fore_cut_free(&e.cut);
    fore_bpe_scratch_free(&e.bpe);
    fore_buf_free(&e.clean);
    fore_buf_free(&e.normal);
    fore_buf_free(&e.spelling);
    return s;
}

fore_status fore_tokenizer_encode(const fore_tokenizer *t, const char *text, size_t size, int32_t **ids, size_t *count,
                                  fore_error *err) {
    return fore_tokenizer_encode_counted(t, text, size, ids, count, NULL, err);
}

/* ---- decode and look up ---- */

static const fore_piece *find_piece(const fore_tokenizer *t, int32_t id) {
    if (id < 0 || (size_t)id >= t->piece_count) return NULL;
    const fore_piece *p = &t->pieces[id];
    return p->flags & FORE_TOKEN_PRESENT ? p : NULL;
}

fore_status fore_tokenizer_decode(const fore_tokenizer *t, const int32_t *ids, size_t count, bool skip_special,
                                  char **text, size_t *size, fore_error *err) {
    *text = NULL;
    *size = 0;
    fore_buf bytes = {0}, clean = {0};
    fore_status s = FORE_OK;
    for (size_t i = 0; i < count && !s; i++) {
        const fore_piece *p = find_piece(t, ids[i]);
        if (!p || (skip_special && p->flags & FORE_TOKEN_SPECIAL)) continue;
        s = fore_buf_append(&bytes, t->piece_bytes.data + p->at, p->size);
    }
    if (!s && fore_utf8_valid_prefix(bytes.data, bytes.size) != bytes.size) {
        s = fore_utf8_sanitize(&clean, bytes.data, bytes.size);
        fore_buf_free(&bytes);
        bytes = clean;
    }
    if (!s && !(*text = fore_buf_take(&bytes, size))) s = FORE_ERR_NOMEM;
    fore_buf_free(&bytes);
    return s ? fore_fail_nomem(err, "decoded text") : FORE_OK;
}

const char *fore_tokenizer_piece(const fore_tokenizer *t, int32_t id, size_t *size) {
    const fore_piece *p = find_piece(t, id);
    *size = p ? p->size : 0;
    return p ? t->piece_bytes.data + p->at : NULL;
}

int32_t fore_tokenizer_id(const fore_tokenizer *t, const char *token) {
    size_t size = strlen(token);
    int32_t added = fore_added_find(&t->added, token, size);
    return added >= 0 ? t->added.tokens[added].id : fore_names_find(&t->vocab, token, size);
}

bool fore_tokenizer_is_special(const fore_tokenizer *t, int32_t id) {
    const fore_piece *p = find_piece(t, id);
    return p && p->flags & FORE_TOKEN_SPECIAL;
}

size_t fore_tokenizer_size(const fore_tokenizer *t) {
    return t->piece_count;
}
