/* tokenizer.json and tokenizer_config.json from a GGUF file's metadata; see gguf_model.h. The metadata has tokens with types, merges and
 * the name of the way in which words are cut. What it does not say is the family's: NFC, no token that takes white space with it. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "checkpoint/gguf_part.h"

enum { MAX_TOKENS = 1 << 22, MAX_MERGES = 1 << 23 };
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

/* A text of the file with a NUL behind it, in buf until the next call. */
static fore_status text_of(const fore_gguf *f, const char *key, const unsigned char **at, fore_buf *buf, const char **out, fore_error *err) {
    size_t size;
    const char *text = fore_gguf_next(at, &size);
    if (memchr(text, 0, size) || fore_utf8_valid_prefix(text, size) != size)
        return fore_fail(err, FORE_ERR_FORMAT, "%s: %s: expected UTF-8 without zero bytes", f->path, key);
    buf->size = 0;
    if (fore_buf_reserve(buf, 1) || fore_buf_append(buf, text, size)) return fore_fail_nomem(err, "a tokenizer");
    buf->data[size] = 0;
    *out = buf->data;
    return FORE_OK;
}

static bool append(cJSON *list, cJSON *item) {
    if (item && cJSON_AddItemToArray(list, item)) return true;
    cJSON_Delete(item);
    return false;
}

/* A token that is looked for in the text itself. */
static bool add_added(cJSON *list, const char *content, uint64_t id, bool special) {
    cJSON *item = cJSON_CreateObject();
    bool good = item && cJSON_AddNumberToObject(item, "id", (double)id) && cJSON_AddStringToObject(item, "content", content) &&
                cJSON_AddBoolToObject(item, "special", special) && cJSON_AddBoolToObject(item, "normalized", false);
    if (good) return append(list, item);
    cJSON_Delete(item);
    return false;
}

static fore_status fill_tokens(const fore_gguf *f, const fore_gguf_value *tokens, const fore_gguf_value *types, cJSON *vocab, cJSON *added,
                               fore_error *err) {
    fore_buf buf = {0};
    const unsigned char *at = tokens->data;
    fore_status s = FORE_OK;
    for (uint64_t i = 0; i < tokens->count && !s; i++) {
        const char *text;
        int type = types ? (int)fore_gguf_member(types, i) : NORMAL;
        s = text_of(f, "tokenizer.ggml.tokens", &at, &buf, &text, err);
        if (s || type == UNUSED) continue;
        bool is_added = type == CONTROL || type == USER_DEFINED;
        if (!is_added && type != NORMAL) {
            s = fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: tokenizer.ggml.token_type: token %llu has type %d; supported: 1, 3, 4 and 5", f->path,
                          (unsigned long long)i, type);
        } else if (is_added ? !add_added(added, text, i, type == CONTROL) : !cJSON_AddNumberToObject(vocab, text, (double)i)) {
            s = fore_fail_nomem(err, "a tokenizer");
        }
    }
    fore_buf_free(&buf);
    return s;
}

static fore_status fill_merges(const fore_gguf *f, const fore_gguf_value *merges, cJSON *list, fore_error *err) {
    fore_buf buf = {0};
    const unsigned char *at = merges->data;
    fore_status s = FORE_OK;
    for (uint64_t i = 0; i < merges->count && !s; i++) {
        const char *text;
        s = text_of(f, "tokenizer.ggml.merges", &at, &buf, &text, err);
        if (!s && !append(list, cJSON_CreateString(text))) s = fore_fail_nomem(err, "a tokenizer");
    }
    fore_buf_free(&buf);
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

/* What stands around the model: the same text for every file but for the regex. */
static fore_status make_frame(const char *regex, cJSON **out, fore_error *err) {
    static const char frame[] =
        "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{},"
        "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"added_tokens\":[]}";
    fore_status s = fore_json_parse(frame, sizeof frame - 1, "the tokenizer's frame", out, err);
    if (s) return s;
    cJSON *steps = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(*out, "pre_tokenizer"), "pretokenizers");
    cJSON *pattern = cJSON_GetObjectItemCaseSensitive(steps->child, "pattern");
    return cJSON_AddStringToObject(pattern, "Regex", regex) ? FORE_OK : fore_fail_nomem(err, "a tokenizer");
}

static fore_status make_tokenizer(const fore_gguf *f, cJSON **out, fore_error *err) {
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
    if (!s) s = make_frame(regex, out, err);
    if (s) return s;
    cJSON *model = cJSON_GetObjectItemCaseSensitive(*out, "model");
    s = fill_tokens(f, tokens, types, cJSON_GetObjectItemCaseSensitive(model, "vocab"), cJSON_GetObjectItemCaseSensitive(*out, "added_tokens"),
                    err);
    if (!s && merges) s = fill_merges(f, merges, cJSON_GetObjectItemCaseSensitive(model, "merges"), err);
    return s;
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

fore_status fore_gguf_tokenizer_trees(const fore_gguf_model *m, cJSON **file, cJSON **config, fore_error *err) {
    const fore_gguf *f = &m->files[0];
    *file = NULL;
    *config = cJSON_CreateObject();
    fore_status s = *config ? make_config(f, *config, err) : fore_fail_nomem(err, "a tokenizer");
    if (!s) s = make_tokenizer(f, file, err);
    if (!s) return FORE_OK;
    cJSON_Delete(*file);
    cJSON_Delete(*config);
    *file = *config = NULL;
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
