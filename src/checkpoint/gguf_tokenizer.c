/* tokenizer.json and tokenizer_config.json from a GGUF file's metadata; see gguf_model.h. The metadata has tokens with types, merges and
 * the name of the way in which words are cut. What it does not say is the family's: NFC, no token that takes white space with it.
 * tokenizer.json is made as text: a tree of as many short strings takes ten times the memory. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "checkpoint/gguf_part.h"

enum { MAX_TOKENS = 1 << 22, MAX_MERGES = 1 << 23, MAX_ADDED = 1 << 16 };
/* Types of tokens, as the format numbers them. */
enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

/* How words are cut: the regexes of the families' tokenizer.json files by the names that the files have for them. */
static const struct {
    const char *name, *regex;
} cuts[] = {
    {"qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"qwen35", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
               "\\s+(?!\\S)|\\s+"},
};

/* A text of the file as a JSON string. */
static fore_status put_text(const fore_gguf *f, const char *key, const char *text, size_t size, fore_buf *out, fore_error *err) {
    if (memchr(text, 0, size) || fore_utf8_valid_prefix(text, size) != size)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: expected UTF-8 without zero bytes", f->path, key);
    fore_status s = fore_buf_putc(out, '"');
    for (const char *end = text + size; text < end && !s;) {
        const char *p = text;
        while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20) p++;
        s = fore_buf_append(out, text, (size_t)(p - text));
        char escape[8];
        if (p < end) snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*p);
        if (p < end && !s) s = fore_buf_puts(out, escape);
        text = p + (p < end);
    }
    return s || fore_buf_putc(out, '"') ? fore_fail_nomem(err, "a tokenizer") : FORE_OK;
}

static int type_of(const fore_gguf_value *types, uint64_t i) { return types ? (int)fore_gguf_member(types, i) : NORMAL; }

static bool is_added(int type) { return type == CONTROL || type == USER_DEFINED; }

static fore_status check_types(const fore_gguf *f, const fore_gguf_value *types, uint64_t count, fore_error *err) {
    uint64_t added = 0;
    for (uint64_t i = 0; i < count; i++) {
        int type = type_of(types, i);
        added += is_added(type);
        if (!is_added(type) && type != NORMAL && type != UNUSED)
            return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: tokenizer.ggml.token_type: token %llu has type %d; supported: 1, 3, 4 and 5", f->path,
                             (unsigned long long)i, type);
    }
    if (added > MAX_ADDED)
        return fore_fail(err, FORE_ERR_LIMIT, "%s: tokenizer.ggml.token_type: %llu tokens that texts are searched for; the limit is %d", f->path,
                         (unsigned long long)added, MAX_ADDED);
    return FORE_OK;
}

/* The tokens that are added ones, or the others: members of a list or of an object. */
static fore_status put_tokens(const fore_gguf *f, const fore_gguf_value *tokens, const fore_gguf_value *types, bool added, fore_buf *out,
                              fore_error *err) {
    const unsigned char *at = tokens->data;
    fore_status s = FORE_OK;
    bool first = true;
    for (uint64_t i = 0; i < tokens->count && !s; i++) {
        int type = type_of(types, i);
        size_t size;
        const char *text = fore_gguf_next(&at, &size);
        if (type == UNUSED || is_added(type) != added) continue;
        char more[64];
        bool full = (!first && fore_buf_putc(out, ',')) || (added && fore_buf_puts(out, "{\"content\":"));
        s = full ? fore_fail_nomem(err, "a tokenizer") : put_text(f, "tokenizer.ggml.tokens", text, size, out, err);
        if (added) snprintf(more, sizeof more, ",\"id\":%llu,\"special\":%s,\"normalized\":false}", (unsigned long long)i, type == CONTROL ? "true" : "false");
        else snprintf(more, sizeof more, ":%llu", (unsigned long long)i);
        if (!s && fore_buf_puts(out, more)) s = fore_fail_nomem(err, "a tokenizer");
        first = false;
    }
    return s;
}

static fore_status put_merges(const fore_gguf *f, const fore_gguf_value *merges, fore_buf *out, fore_error *err) {
    const unsigned char *at = merges ? merges->data : NULL;
    fore_status s = FORE_OK;
    for (uint64_t i = 0; merges && i < merges->count && !s; i++) {
        size_t size;
        const char *text = fore_gguf_next(&at, &size);
        if (i && fore_buf_putc(out, ',')) s = fore_fail_nomem(err, "a tokenizer");
        if (!s) s = put_text(f, "tokenizer.ggml.merges", text, size, out, err);
    }
    return s;
}

/* The regex that the file means. */
static fore_status find_cut(const fore_gguf *f, const char **regex, fore_error *err) {
    const char *name;
    size_t size;
    fore_status s = fore_gguf_text(f, "tokenizer.ggml.pre", &name, &size, err);
    if (s) return s;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        if (fore_gguf_text_is(f, "tokenizer.ggml.pre", cuts[i].name)) {
            *regex = cuts[i].regex;
            return FORE_OK;
        }
    return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: tokenizer.ggml.pre is \"%.*s\": words cut that way are not supported; supported: qwen2 and "
                     "qwen35", f->path, (int)(size < 60 ? size : 60), name ? name : "");
}

static fore_status put(fore_buf *out, const char *text, fore_error *err) {
    return fore_buf_puts(out, text) ? fore_fail_nomem(err, "a tokenizer") : FORE_OK;
}

/* The whole text; what stands around the tokens is the same for every file but for the regex. */
static fore_status put_file(const fore_gguf *f, const fore_gguf_value *tokens, const fore_gguf_value *types, const fore_gguf_value *merges,
                            const char *regex, fore_buf *out, fore_error *err) {
    fore_status s = put(out, "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                             "\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":", err);
    if (!s) s = put_text(f, "tokenizer.ggml.pre", regex, strlen(regex), out, err);
    if (!s) s = put(out, "}},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},\"decoder\":{\"type\":\"ByteLevel\"},"
                         "\"added_tokens\":[", err);
    if (!s) s = put_tokens(f, tokens, types, true, out, err);
    if (!s) s = put(out, "],\"model\":{\"type\":\"BPE\",\"vocab\":{", err);
    if (!s) s = put_tokens(f, tokens, types, false, out, err);
    if (!s) s = put(out, "},\"merges\":[", err);
    if (!s) s = put_merges(f, merges, out, err);
    return s ? s : put(out, "]}}", err);
}

/* As much as the text will mostly take: without quotes and control characters in tokens all of it. */
static size_t expected_size(const fore_gguf_value *list) { return list ? (size_t)(list->end - list->data) + (size_t)list->count * 6 + 1024 : 0; }

static fore_status make_tokenizer(const fore_gguf *f, fore_buf *out, fore_error *err) {
    const fore_gguf_value *tokens, *types, *merges;
    const char *regex = NULL;
    fore_status s = fore_gguf_array(f, "tokenizer.ggml.tokens", FORE_GGUF_STRING, &tokens, err);
    if (!s) s = fore_gguf_array(f, "tokenizer.ggml.token_type", FORE_GGUF_I32, &types, err);
    if (!s) s = fore_gguf_array(f, "tokenizer.ggml.merges", FORE_GGUF_STRING, &merges, err);
    if (s || !tokens) return s;
    if (!fore_gguf_text_is(f, "tokenizer.ggml.model", "gpt2"))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: tokenizer.ggml.model: only byte-level merges (gpt2) are supported", f->path);
    if (tokens->count > MAX_TOKENS || (merges && merges->count > MAX_MERGES))
        return fore_fail(err, FORE_ERR_LIMIT, "%s: %llu tokens and %llu merges; the limits are %d and %d", f->path,
                         (unsigned long long)tokens->count, (unsigned long long)(merges ? merges->count : 0), MAX_TOKENS, MAX_MERGES);
    if (types && types->count != tokens->count)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: tokenizer.ggml.token_type has %llu members, tokenizer.ggml.tokens %llu", f->path,
                         (unsigned long long)types->count, (unsigned long long)tokens->count);
    s = find_cut(f, &regex, err);
    if (!s) s = check_types(f, types, tokens->count, err);
    if (s) return s;
    if (fore_buf_reserve(out, expected_size(tokens) + expected_size(merges))) return fore_fail_nomem(err, "a tokenizer");
    return put_file(f, tokens, types, merges, regex, out, err);
}

/* ---- tokenizer_config.json --------------------------------------------------------------------------------------- */

static fore_status add_text(const fore_gguf *f, cJSON *object, const char *member, const char *text, size_t size, fore_error *err) {
    fore_buf buf = {0};
    fore_status s = fore_buf_append(&buf, text, size);
    if (s || !cJSON_AddStringToObject(object, member, buf.data ? buf.data : "")) s = fore_fail_nomem(err, f->path);
    fore_buf_free(&buf);
    return s;
}

/* Names of tokens that templates may use. */
static fore_status add_specials(const fore_gguf *f, cJSON *object, fore_error *err) {
    static const char *const names[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token"}, {"tokenizer.ggml.eos_token_id", "eos_token"},
                                           {"tokenizer.ggml.padding_token_id", "pad_token"}, {"tokenizer.ggml.unknown_token_id", "unk_token"}};
    const fore_gguf_value *tokens;
    fore_status s = fore_gguf_array(f, "tokenizer.ggml.tokens", FORE_GGUF_STRING, &tokens, err);
    for (size_t i = 0; i < sizeof names / sizeof *names && !s && tokens; i++) {
        int64_t id;
        size_t size = 0;
        const char *text = NULL;
        s = fore_gguf_int(f, names[i][0], -1, INT32_MAX, -1, &id, err);
        const unsigned char *at = tokens->data;
        for (int64_t k = 0; !s && k <= id && (uint64_t)id < tokens->count; k++) text = fore_gguf_next(&at, &size);
        if (!s && text && !memchr(text, 0, size) && fore_utf8_valid_prefix(text, size) == size) s = add_text(f, object, names[i][1], text, size, err);
    }
    return s;
}

static fore_status make_config(const fore_gguf *f, cJSON *object, fore_error *err) {
    const char *text;
    size_t size;
    fore_status s = fore_gguf_text(f, "tokenizer.chat_template", &text, &size, err);
    if (!s && text) s = add_text(f, object, "chat_template", text, size, err);
    return s ? s : add_specials(f, object, err);
}

fore_status fore_gguf_tokenizer_text(const fore_gguf_model *m, char **text, size_t *size, cJSON **config, fore_error *err) {
    const fore_gguf *f = &m->files[0];
    fore_buf file = {0};
    *text = NULL;
    *size = 0;
    *config = cJSON_CreateObject();
    fore_status s = *config ? make_config(f, *config, err) : fore_fail_nomem(err, "a tokenizer");
    if (!s) s = make_tokenizer(f, &file, err);
    if (!s && file.size) *text = fore_buf_take(&file, size);
    fore_buf_free(&file);
    if (!s) return FORE_OK;
    cJSON_Delete(*config);
    *config = NULL;
    return s;
}

int32_t fore_gguf_token(const fore_gguf_model *m, const char *text) {
    const fore_gguf_value *tokens;
    size_t size, want = strlen(text);
    if (fore_gguf_array(&m->files[0], "tokenizer.ggml.tokens", FORE_GGUF_STRING, &tokens, NULL) || !tokens) return -1;
    const unsigned char *at = tokens->data;
    for (uint64_t i = 0; i < tokens->count && i < MAX_TOKENS; i++) {
        const char *have = fore_gguf_next(&at, &size);
        if (size == want && !memcmp(have, text, want)) return (int32_t)i;
    }
    return -1;
}
