/* tokenizer.json and tokenizer_config.json into a fore_tokenizer. Everything in the files is untrusted; what would
 * change ids and is not done here is refused by name. Mirrors what the reference reads (models/bpe,
 * added_vocabulary.rs).
 *
 * Which regex cuts words: published tokenizer.json files and the class that the reference library builds for this
 * family disagree on combining marks. tokenizer_config.json's `pretokenize_regex` says what the class does, so it is
 * followed where it is there; else the file's own regex. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

enum {
    MAX_ID = (1 << 21) - 1, /* many times the largest published vocabulary */
    MAX_NESTING = 8,        /* of Sequence in Sequence */
    MAX_ADDED = 1024,       /* bytes of an added token: a text is compared with it from every byte on */
};

static fore_status no_memory(fore_error *err) {
    return fore_fail_nomem(err, "a tokenizer");
}

/* The value of "type", or "" when there is none. */
static const char *type_of(const cJSON *object) {
    const cJSON *type = fore_json_get(object, "type");
    return cJSON_IsString(type) ? type->valuestring : "";
}

/* ---- tokens ---- */

/* The byte that a character of a token's spelling stands for, or -1. */
static int char_to_byte(uint32_t c) {
    if (c >= 0x100 && c <= 0x120) return (int)c - 0x100;
    if (c > 0x120 && c <= 0x142) return (int)c - 0x121 + 0x7F;
    if (c == 0x143) return 0xAD;
    return c < 0x100 && fore_byte_to_char((unsigned char)c) == c ? (int)c : -1;
}

/* Appends what a spelling decodes to: its bytes, or the spelling itself if a character stands for no byte. */
static fore_status append_decoded(fore_buf *out, const char *spelling, size_t size) {
    size_t start = out->size;
    fore_status s = fore_buf_reserve(out, size);
    for (size_t i = 0; i < size && !s;) {
        uint32_t c;
        int n = fore_utf8_decode(spelling + i, size - i, &c);
        int byte = n > 0 ? char_to_byte(c) : -1;
        if (byte < 0) {
            out->size = start;
            return fore_buf_append(out, spelling, size);
        }
        s = fore_buf_putc(out, (char)byte);
        i += (size_t)n;
    }
    return s;
}

static fore_status grow_pieces(fore_tokenizer *t, size_t count, fore_error *err) {
    if (count <= t->piece_count) return FORE_OK;
    fore_piece *pieces = realloc(t->pieces, count * sizeof *pieces);
    if (!pieces) return no_memory(err);
    memset(pieces + t->piece_count, 0, (count - t->piece_count) * sizeof *pieces);
    t->pieces = pieces;
    t->piece_count = count;
    return FORE_OK;
}

static fore_status put_piece(fore_tokenizer *t, int32_t id, const char *spelling, size_t size, int flags,
                             fore_error *err) {
    fore_piece *p = &t->pieces[id];
    if (p->flags & FORE_TOKEN_PRESENT)
        return fore_fail(err, FORE_ERR_FORMAT, "id %d is given to two tokens; one of them is \"%.80s\"", (int)id,
                         spelling);
    size_t at = t->piece_bytes.size;
    if (at > UINT32_MAX - size) return fore_fail(err, FORE_ERR_LIMIT, "more than 4 GiB of tokens");
    if (append_decoded(&t->piece_bytes, spelling, size)) return no_memory(err);
    *p = (fore_piece){(uint32_t)at, (uint32_t)(t->piece_bytes.size - at), (uint8_t)(FORE_TOKEN_PRESENT | flags)};
    return FORE_OK;
}

static fore_status check_id(double value, const char *token, fore_error *err) {
    if (value >= 0 && value <= MAX_ID && value == (double)(int32_t)value) return FORE_OK;
    return fore_fail(err, FORE_ERR_FORMAT, "the id of \"%.80s\" is %g: expected a whole number from 0 to %d", token,
                     value, MAX_ID);
}

static const char *value_kind(fore_json_text value) { return value.at ? "something else" : "nothing"; }

/* Where in model.vocab, and the token before it. */
typedef struct vocab_walk {
    fore_json_walk at;
    fore_buf name;
    double id;
} vocab_walk;

/* The next token; *more false: there is none. */
static fore_status next_token(vocab_walk *w, bool *more, fore_error *err) {
    *more = fore_json_more(&w->at);
    if (!*more) return FORE_OK;
    if (fore_json_take_name(&w->at, &w->name)) return no_memory(err);
    if (fore_json_peek(&w->at)) return fore_fail(err, FORE_ERR_FORMAT, "model.vocab: the id of \"%.80s\" is no number", w->name.data);
    w->id = fore_json_take_number(&w->at);
    fore_status s = check_id(w->id, w->name.data, err);
    return s ? fore_fail_prefix(err, s, "model.vocab") : FORE_OK;
}

static size_t power_of_2(size_t least) {
    size_t n = 64;
    while (n < least) n *= 2;
    return n;
}

/* Before memory is taken: what the tables of a vocabulary will take. */
static fore_status check_memory(const fore_tokenizer_source *source, size_t tokens, int32_t largest, size_t merges, fore_error *err) {
    size_t bytes = power_of_2(tokens) * (sizeof(fore_name) + 2 * sizeof(uint64_t)) + ((size_t)largest + 1) * sizeof(fore_piece) +
                   2 * source->vocab.size + power_of_2(2 * merges) * sizeof(fore_merge);
    if (fore_fits(bytes, source->size)) return FORE_OK;
    return fore_fail(err, FORE_ERR_LIMIT, "model: %zu tokens with ids up to %d and %zu merges would take %zu MiB of memory, and the file has %zu "
                     "bytes", tokens, (int)largest, merges, bytes >> 20, source->size);
}

static size_t count_merges(const fore_tokenizer_source *source) {
    size_t count = 0;
    if (!source->merges.at) return 0;
    fore_json_walk w = fore_json_walk_begin(source->merges);
    if (fore_json_peek(&w) != '[') return 0;
    for (fore_json_enter(&w); fore_json_more(&w); fore_json_skip(&w)) count++;
    return count;
}

static fore_status read_tokens(fore_tokenizer *t, const fore_tokenizer_source *source, vocab_walk *w, fore_error *err) {
    int32_t largest = 0;
    size_t count = 0;
    bool more = true;
    fore_status s = FORE_OK;
    w->at = fore_json_walk_begin(source->vocab);
    for (fore_json_enter(&w->at); !(s = next_token(w, &more, err)) && more; count++)
        if ((int32_t)w->id > largest) largest = (int32_t)w->id;
    if (s) return s;
    if (!count) return fore_fail(err, FORE_ERR_FORMAT, "model.vocab: expected an object of token: id, found something else");
    s = check_memory(source, count, largest, count_merges(source), err);
    if (s) return s;
    if (fore_buf_reserve(&t->piece_bytes, 1) || fore_names_reserve(&t->vocab, count)) return no_memory(err);
    s = grow_pieces(t, (size_t)largest + 1, err);
    w->at = fore_json_walk_begin(source->vocab);
    if (!s) fore_json_enter(&w->at);
    while (!s) {
        s = next_token(w, &more, err);
        if (s || !more) break;
        size_t size = w->name.size;
        if (fore_names_find(&t->vocab, w->name.data, size) >= 0)
            return fore_fail(err, FORE_ERR_FORMAT, "model.vocab: \"%.80s\" is there twice", w->name.data);
        s = put_piece(t, (int32_t)w->id, w->name.data, size, 0, err);
        if (s) return fore_fail_prefix(err, s, "model.vocab");
        if (fore_names_add(&t->vocab, w->name.data, size, (int32_t)w->id)) return no_memory(err);
    }
    return s;
}

static fore_status read_vocab(fore_tokenizer *t, const fore_tokenizer_source *source, fore_error *err) {
    vocab_walk w = {.at = source->vocab.at ? fore_json_walk_begin(source->vocab) : (fore_json_walk){0}};
    if (!source->vocab.at || fore_json_peek(&w.at) != '{')
        return fore_fail(err, FORE_ERR_FORMAT, "model.vocab: expected an object of token: id, found %s", value_kind(source->vocab));
    fore_status s = read_tokens(t, source, &w, err);
    fore_buf_free(&w.name);
    return s;
}

/* ---- merges ---- */

/* left, then both: the two spellings one behind the other, left is the first left_size bytes. */
typedef struct merge_text {
    fore_buf both, part;
    size_t left_size;
} merge_text;

/* One merge in either spelling: "a b" or ["a", "b"]. *good false: neither; what stands there is stepped over. */
static fore_status read_merge(fore_json_walk *w, merge_text *m, bool *good) {
    char kind = fore_json_peek(w);
    *good = false;
    if (kind == '"') {
        fore_status s = fore_json_take_string(w, &m->both);
        char *space = s ? NULL : strchr(m->both.data, ' ');
        if (!space || strchr(space + 1, ' ')) return s;
        m->left_size = (size_t)(space - m->both.data);
        memmove(space, space + 1, m->both.size - m->left_size); /* with the NUL */
        m->both.size--;
        *good = true;
        return FORE_OK;
    }
    if (kind != '[') {
        fore_json_skip(w);
        return FORE_OK;
    }
    int count = 0;
    fore_status s = FORE_OK;
    bool strings = true;
    for (fore_json_enter(w); !s && fore_json_more(w); count++) {
        if (fore_json_peek(w) != '"' || count > 1) {
            strings = false;
            fore_json_skip(w);
            continue;
        }
        s = fore_json_take_string(w, count ? &m->part : &m->both);
        if (!count) m->left_size = m->both.size;
        else if (!s) s = fore_buf_append(&m->both, m->part.data, m->part.size);
    }
    *good = !s && strings && count == 2;
    return s;
}

static fore_status put_merge(fore_tokenizer *t, const merge_text *m, uint32_t at, uint32_t rank, fore_error *err) {
    const char *left_text = m->both.data, *right_text = left_text + m->left_size;
    size_t left_size = m->left_size, right_size = m->both.size - left_size;
    int32_t left = fore_names_find(&t->vocab, left_text, left_size);
    int32_t right = fore_names_find(&t->vocab, right_text, right_size);
    int32_t id = fore_names_find(&t->vocab, left_text, m->both.size);
    if (left < 0 || right < 0 || id < 0)
        return fore_fail(err, FORE_ERR_FORMAT, "model.merges: number %u, \"%.*s\" + \"%.*s\": %s not in model.vocab", at,
                         (int)(left_size < 60 ? left_size : 60), left_text, (int)(right_size < 60 ? right_size : 60), right_text,
                         left < 0    ? "the left one is"
                         : right < 0 ? "the right one is"
                                     : "what they make is");
    fore_merges_put(&t->merges, left, right, id, rank);
    return FORE_OK;
}

static fore_status read_merge_list(fore_tokenizer *t, const fore_tokenizer_source *source, merge_text *m, fore_error *err) {
    fore_json_walk w = fore_json_walk_begin(source->merges);
    fore_status s = FORE_OK;
    uint32_t rank = 0, at = 0;
    for (fore_json_enter(&w); !s && fore_json_more(&w); at++) {
        bool good, words = fore_json_peek(&w) == '"';
        if (read_merge(&w, m, &good)) return no_memory(err);
        if (words && strncmp(m->both.data, "#version", 8) == 0) continue; /* head of a merges.txt */
        if (!good) return fore_fail(err, FORE_ERR_FORMAT, "model.merges: number %u is neither \"a b\" nor [\"a\", \"b\"]", at);
        s = put_merge(t, m, at, rank++, err);
    }
    return s;
}

static fore_status read_merges(fore_tokenizer *t, const fore_tokenizer_source *source, fore_error *err) {
    size_t count = count_merges(source);
    if (!count) {
        fore_json_walk w = source->merges.at ? fore_json_walk_begin(source->merges) : (fore_json_walk){0};
        return fore_fail(err, FORE_ERR_FORMAT,
                         "model.merges: expected a list of pairs, found %s; without merges text cannot "
                         "be turned into tokens",
                         w.at && fore_json_peek(&w) == '[' ? "an empty one" : value_kind(source->merges));
    }
    if (count > UINT32_MAX / 4) return fore_fail(err, FORE_ERR_LIMIT, "model.merges: %zu merges are too many", count);
    if (fore_merges_init(&t->merges, count)) return no_memory(err);
    merge_text m = {0};
    fore_status s = read_merge_list(t, source, &m, err);
    fore_buf_free(&m.both);
    fore_buf_free(&m.part);
    return s;
}

/* ---- model ---- */

static fore_status refuse_text(const cJSON *model, const char *name, fore_error *err) {
    const cJSON *v = fore_json_get(model, name);
    if (!v || (cJSON_IsString(v) && !v->valuestring[0])) return FORE_OK;
    return fore_fail(err, FORE_ERR_UNSUPPORTED, "model.%s: set, which is not supported; expected null or \"\"", name);
}

/* Bytes as tokens, and what stands for those without one. */
static fore_status read_bytes(fore_tokenizer *t, const cJSON *model, fore_error *err) {
    const char *unk;
    bool byte_fallback;
    fore_status s = fore_json_string(model, "unk_token", "", &unk, err);
    if (!s) s = fore_json_bool(model, "fuse_unk", false, &t->fuse_unk, err);
    if (!s) s = fore_json_bool(model, "byte_fallback", false, &byte_fallback, err);
    if (!s) s = fore_json_bool(model, "ignore_merges", false, &t->ignore_merges, err);
    if (s) return fore_fail_prefix(err, s, "model");
    int missing = 0;
    for (int b = 0; b < 256; b++) {
        char text[4];
        int n = fore_utf8_encode(fore_byte_to_char((unsigned char)b), text);
        t->byte_ids[b] = fore_names_find(&t->vocab, text, (size_t)n);
        missing += t->byte_ids[b] < 0;
    }
    t->unk_id = unk[0] ? fore_names_find(&t->vocab, unk, strlen(unk)) : -1;
    if (!missing) return FORE_OK;
    if (missing == 256)
        return fore_fail(err, FORE_ERR_UNSUPPORTED,
                         "model.vocab: no single byte is a token: not a byte-level vocabulary");
    if (byte_fallback)
        return fore_fail(err, FORE_ERR_UNSUPPORTED,
                         "model.byte_fallback: true with %d bytes missing from model.vocab, which is not supported",
                         missing);
    if (unk[0] && t->unk_id < 0)
        return fore_fail(err, FORE_ERR_FORMAT, "model.unk_token: \"%.80s\" is not in model.vocab", unk);
    return FORE_OK;
}

static fore_status read_model(fore_tokenizer *t, const fore_tokenizer_source *source, fore_error *err) {
    const cJSON *model = fore_json_get(source->file, "model");
    if (!cJSON_IsObject(model))
        return fore_fail(err, FORE_ERR_FORMAT, "model: expected an object, found %s; not a tokenizer.json",
                         model ? "something else" : "nothing");
    if (fore_json_get(model, "type") && strcmp(type_of(model), "BPE") != 0)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "model.type: \"%.80s\" is not supported; expected \"BPE\"",
                         type_of(model));
    fore_status s = refuse_text(model, "continuing_subword_prefix", err);
    if (!s) s = refuse_text(model, "end_of_word_suffix", err);
    if (s) return s;
    const cJSON *dropout = fore_json_get(model, "dropout");
    if (dropout && !(cJSON_IsNumber(dropout) && dropout->valuedouble == 0))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "model.dropout: random merges are not supported; expected null");
    s = read_vocab(t, source, err);
    if (!s) s = read_bytes(t, model, err);
    if (!s) s = read_merges(t, source, err);
    return s;
}

/* ---- normaliser, pre-tokeniser, decoder ---- */

static fore_status bad_type(const char *what, const cJSON *object, const char *expected, fore_error *err) {
    if (!object) return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: none is there; expected %s", what, expected);
    if (!type_of(object)[0]) return fore_fail(err, FORE_ERR_FORMAT, "%s: has no type; expected %s", what, expected);
    return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: \"%.80s\" is not supported; expected %s", what, type_of(object),
                     expected);
}

/* The members of a Sequence, or an error. */
static fore_status sequence(const char *what, const cJSON *object, const char *name, int depth, const cJSON **out,
                            fore_error *err) {
    const cJSON *list = fore_json_get(object, name);
    if (!cJSON_IsArray(list))
        return fore_fail(err, FORE_ERR_FORMAT, "%s: a Sequence without the list \"%s\"", what, name);
    if (depth >= MAX_NESTING)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: more than %d Sequences in one another", what, MAX_NESTING);
    *out = list->child;
    return FORE_OK;
}

static fore_status read_normalizer(fore_tokenizer *t, const cJSON *n, int depth, fore_error *err) {
    if (!n) return FORE_OK;
    if (strcmp(type_of(n), "NFC") == 0) {
        t->nfc = true;
        return FORE_OK;
    }
    if (strcmp(type_of(n), "Sequence") != 0) return bad_type("normalizer", n, "NFC, a Sequence of it, or null", err);
    const cJSON *m = NULL;
    fore_status s = sequence("normalizer", n, "normalizers", depth, &m, err);
    for (; m && !s; m = m->next) s = read_normalizer(t, m, depth + 1, err);
    return s;
}

static fore_status read_decoder(const cJSON *d, int depth, bool *byte_level, fore_error *err) {
    static const char expected[] = "ByteLevel";
    if (d && strcmp(type_of(d), "ByteLevel") == 0) {
        *byte_level = true;
        return FORE_OK;
    }
    if (d && strcmp(type_of(d), "Fuse") == 0) return FORE_OK; /* joins strings, which ByteLevel does anyway */
    if (!d || strcmp(type_of(d), "Sequence") != 0) return bad_type("decoder", d, expected, err);
    const cJSON *m = NULL;
    fore_status s = sequence("decoder", d, "decoders", depth, &m, err);
    for (; m && !s; m = m->next) s = read_decoder(m, depth + 1, byte_level, err);
    return s;
}

typedef struct step_reader {
    fore_tokenizer *t;
    const char *regex; /* for the first Split with a Regex; NULL: used up, or none */
    bool jit;
    bool byte_level; /* has been read: nothing may follow */
} step_reader;

static fore_status read_behavior(const cJSON *split, fore_split_behavior *out, fore_error *err) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name;
    fore_status s = fore_json_string(split, "behavior", "", &name, err);
    if (s) return fore_fail_prefix(err, s, "pre_tokenizer.Split");
    for (int i = 0; i < 5; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (fore_split_behavior)i;
            return FORE_OK;
        }
    return fore_fail(err, FORE_ERR_FORMAT,
                     "pre_tokenizer.Split.behavior: \"%.80s\" is unknown; expected Isolated, Removed, "
                     "MergedWithPrevious, MergedWithNext or Contiguous",
                     name);
}

static fore_status read_split(step_reader *r, const cJSON *split, fore_error *err) {
    fore_split_behavior behavior = FORE_SPLIT_ISOLATED;
    bool invert;
    fore_status s = read_behavior(split, &behavior, err);
    if (!s) s = fore_json_bool(split, "invert", false, &invert, err);
    if (s) return s;
    const cJSON *pattern = fore_json_get(split, "pattern");
    const cJSON *regex = fore_json_get(pattern, "Regex"), *literal = fore_json_get(pattern, "String");
    if (cJSON_IsString(regex) && !literal) {
        const char *text = r->regex ? r->regex : regex->valuestring;
        r->regex = NULL;
        return fore_split_add_regex(&r->t->split, text, behavior, invert, r->jit, err);
    }
    if (cJSON_IsString(literal) && !regex)
        return fore_split_add_literal(&r->t->split, literal->valuestring, behavior, invert, err);
    return fore_fail(err, FORE_ERR_FORMAT,
                     "pre_tokenizer.Split.pattern: expected {\"Regex\": text} or {\"String\": text}");
}

static fore_status read_byte_level(step_reader *r, const cJSON *step, fore_error *err) {
    bool prefix, regex;
    fore_status s = fore_json_bool(step, "add_prefix_space", true, &prefix, err);
    if (!s) s = fore_json_bool(step, "use_regex", true, &regex, err);
    if (s) return fore_fail_prefix(err, s, "pre_tokenizer.ByteLevel");
    if (prefix) s = fore_split_add_prefix(&r->t->split, err);
    if (!s && regex) s = fore_split_add_regex(&r->t->split, fore_split_gpt2, FORE_SPLIT_ISOLATED, false, r->jit, err);
    r->byte_level = true;
    return s;
}

static fore_status read_step(step_reader *r, const cJSON *step, int depth, fore_error *err) {
    const char *type = type_of(step);
    if (step && strcmp(type, "Sequence") == 0) {
        const cJSON *m = NULL;
        fore_status s = sequence("pre_tokenizer", step, "pretokenizers", depth, &m, err);
        for (; m && !s; m = m->next) s = read_step(r, m, depth + 1, err);
        return s;
    }
    if (r->byte_level)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "pre_tokenizer: \"%.80s\" after ByteLevel is not supported", type);
    if (step && strcmp(type, "Split") == 0) return read_split(r, step, err);
    if (step && strcmp(type, "ByteLevel") == 0) return read_byte_level(r, step, err);
    return bad_type("pre_tokenizer", step, "Split, ByteLevel or a Sequence of them", err);
}

static fore_status read_pre_tokenizer(fore_tokenizer *t, const fore_tokenizer_source *source, fore_error *err) {
    step_reader r = {.t = t, .regex = source->regex, .jit = !source->no_jit};
    if (!r.regex) {
        fore_status s = fore_json_string(source->config, "pretokenize_regex", NULL, &r.regex, err);
        if (s) return fore_fail_prefix(err, s, "tokenizer_config.json");
    }
    bool replace = r.regex != NULL;
    fore_status s = read_step(&r, fore_json_get(source->file, "pre_tokenizer"), 0, err);
    if (s) return s;
    if (!r.byte_level)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "pre_tokenizer: no ByteLevel in it: not a byte-level tokenizer");
    if (replace && r.regex)
        return fore_fail(err, FORE_ERR_FORMAT, "pre_tokenizer: has no Split with a Regex that %s could replace",
                         source->regex ? "the given one" : "tokenizer_config.json's pretokenize_regex");
    return FORE_OK;
}

/* ---- added tokens ---- */

static fore_status add_token(fore_tokenizer *t, const char *content, fore_added_token token, fore_error *err) {
    size_t size = strlen(content);
    if (!size) return FORE_OK; /* the reference passes over them, too */
    if (size > MAX_ADDED)
        return fore_fail(err, FORE_ERR_LIMIT, "\"%.80s...\" has %zu bytes, the limit is %d", content, size, MAX_ADDED);
    int32_t known = fore_names_find(&t->vocab, content, size);
    if (known >= 0) token.id = known; /* the reference's choice where the two differ */
    int32_t at = fore_added_find(&t->added, content, size);
    int flags = FORE_TOKEN_ADDED | (token.special ? FORE_TOKEN_SPECIAL : 0);
    if (at >= 0) {
        if (t->added.tokens[at].id != token.id)
            return fore_fail(err, FORE_ERR_FORMAT, "\"%.80s\" has the ids %d and %d", content,
                             (int)t->added.tokens[at].id, (int)token.id);
        t->added.tokens[at] = token;
    } else {
        fore_status s = grow_pieces(t, (size_t)token.id + 1, err);
        if (!s && known < 0) s = put_piece(t, token.id, content, size, 0, err);
        if (s) return s;
        s = fore_added_put(&t->added, content, size, token);
        if (s == FORE_ERR_LIMIT) return fore_fail(err, s, "\"%.80s\": the added tokens have more than %d bytes together", content, FORE_ADDED_BYTES);
        if (s) return no_memory(err);
    }
    t->pieces[token.id].flags = (uint8_t)(FORE_TOKEN_PRESENT | flags);
    return FORE_OK;
}

/* value: {"content": ..., flags}. */
static fore_status read_added(fore_tokenizer *t, const cJSON *value, double id, fore_error *err) {
    const cJSON *content = fore_json_get(value, "content");
    if (!cJSON_IsString(content)) return fore_fail(err, FORE_ERR_FORMAT, "an entry without a text \"content\"");
    fore_status s = check_id(id, content->valuestring, err);
    if (s) return s;
    fore_added_token token = {.id = (int32_t)id};
    s = fore_json_bool(value, "special", false, &token.special, err);
    if (!s) s = fore_json_bool(value, "normalized", !token.special, &token.normalized, err);
    if (!s) s = fore_json_bool(value, "lstrip", false, &token.lstrip, err);
    if (!s) s = fore_json_bool(value, "rstrip", false, &token.rstrip, err);
    if (!s) s = fore_json_bool(value, "single_word", false, &token.single_word, err);
    return s ? fore_fail_prefix(err, s, "\"%.80s\"", content->valuestring)
             : add_token(t, content->valuestring, token, err);
}

static fore_status read_added_list(fore_tokenizer *t, const cJSON *list, fore_error *err) {
    if (!list) return FORE_OK;
    if (!cJSON_IsArray(list)) return fore_fail(err, FORE_ERR_FORMAT, "added_tokens: expected a list");
    for (const cJSON *a = list->child; a; a = a->next) {
        const cJSON *id = fore_json_get(a, "id");
        fore_status s = read_added(t, a, cJSON_IsNumber(id) ? id->valuedouble : -1, err);
        if (s) return fore_fail_prefix(err, s, "added_tokens");
    }
    return FORE_OK;
}

/* tokenizer_config.json often has more added tokens than tokenizer.json; its flags count where both name a token. */
static fore_status read_added_decoder(fore_tokenizer *t, const cJSON *config, fore_error *err) {
    const cJSON *object = fore_json_get(config, "added_tokens_decoder");
    if (!object) return FORE_OK;
    if (!cJSON_IsObject(object))
        return fore_fail(err, FORE_ERR_FORMAT,
                         "tokenizer_config.json: added_tokens_decoder: expected an object of id: token");
    for (const cJSON *a = object->child; a; a = a->next) {
        double id = 0;
        for (const char *c = a->string; *c && id >= 0; c++)
            id = *c >= '0' && *c <= '9' && id < 1e9 ? id * 10 + (*c - '0') : -1;
        fore_status s = read_added(t, a, a->string[0] ? id : -1, err);
        if (s) return fore_fail_prefix(err, s, "tokenizer_config.json: added_tokens_decoder");
    }
    return FORE_OK;
}

fore_status fore_tokenizer_parse(const char *text, size_t size, const char *what, fore_tokenizer_source *out, fore_error *err) {
    static const char *const names[] = {"vocab", "merges"};
    fore_json_text parts[2];
    fore_status s = fore_json_parse_without(text, size, what, "model", names, parts, 2, &out->file, err);
    out->vocab = parts[0];
    out->merges = parts[1];
    out->size = size;
    return s;
}

fore_status fore_tokenizer_read(const fore_tokenizer_source *source, fore_tokenizer *t, fore_error *err) {
    if (!cJSON_IsObject(source->file))
        return fore_fail(err, FORE_ERR_FORMAT, "expected an object at the top of tokenizer.json");
    if (source->config && !cJSON_IsObject(source->config))
        return fore_fail(err, FORE_ERR_FORMAT, "tokenizer_config.json: expected an object at the top");
    fore_status s = read_model(t, source, err);
    if (!s) s = read_normalizer(t, fore_json_get(source->file, "normalizer"), 0, err);
    if (!s) s = read_pre_tokenizer(t, source, err);
    bool byte_level = false;
    if (!s) s = read_decoder(fore_json_get(source->file, "decoder"), 0, &byte_level, err);
    if (!s && !byte_level) s = fore_fail(err, FORE_ERR_UNSUPPORTED, "decoder: a Sequence without ByteLevel");
    if (!s) s = read_added_list(t, fore_json_get(source->file, "added_tokens"), err);
    if (!s) s = read_added_decoder(t, source->config, err);
    if (!s && fore_added_build(&t->added, t->nfc)) s = no_memory(err);
    return s;
}
