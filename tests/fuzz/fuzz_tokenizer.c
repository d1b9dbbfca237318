/* A tokenizer.json and a text, parted by the first byte 0xFE (in no UTF-8 text; no such byte: all is text, for a fixed
 * tokenizer). What opens must encode, decode, and stream to what it decodes; with the fixed one, the text must come
 * back. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "foresight.h"
#include "text/stream.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make(const char *json, size_t size, fore_tokenizer **t) {
    fore_tokenizer_source source = {.no_jit = size % 2 == 1};
    fore_error err;
    *t = NULL;
    if (fore_tokenizer_parse(json, size, "input", &source, &err) == FORE_OK) {
        source.config = source.file; /* its own config, too */
        fore_status s = fore_tokenizer_make(&source, t, &err);
        assert((s == FORE_OK) == (*t != NULL));
    }
    cJSON_Delete(source.file);
}

/* All bytes, some merges, an added token; cuts words as the family does. No NFC: texts come back as they were. */
static fore_tokenizer *make_fixed(void) {
    fore_buf json = {0};
    fore_status s = fore_buf_puts(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int b = 0; b < 256; b++) {
        char spelling[5] = "", entry[24];
        fore_utf8_encode(fore_byte_to_char((unsigned char)b), spelling);
        snprintf(entry, sizeof entry, "\"%s%s\":%d,", b == '"' || b == '\\' ? "\\" : "", spelling, b);
        s |= fore_buf_puts(&json, entry);
    }
    s |= fore_buf_puts(
        &json,
        "\"aa\":256,\"aaa\":257,\"ab\":258},\"merges\":[\"a b\",[\"a\",\"a\"],\"aa a\"]},"
        "\"added_tokens\":[{\"id\":259,\"content\":\"<s>\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
        "\"pattern\":{\"Regex\":\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}| ?[^\\\\s\\\\p{L}"
        "\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}},{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"use_regex\":false}]},\"decoder\":{\"type\":\"ByteLevel\"}}");
    fore_tokenizer *t;
    make(json.data, json.size, &t);
    assert(s == FORE_OK && t != NULL);
    fore_buf_free(&json);
    return t;
}

static void use(const fore_tokenizer *t, const char *text, size_t size, bool comes_back) {
    int32_t *ids;
    size_t count, back_size;
    char *back;
    fore_error err;
    if (fore_tokenizer_encode(t, text, size, &ids, &count, &err) != FORE_OK) {
        assert(!comes_back && err.text[0]); /* a regex without end, for one */
        return;
    }
    fore_status s = fore_tokenizer_decode(t, ids, count, false, &back, &back_size, &err);
    assert(s == FORE_OK && fore_utf8_valid_prefix(back, back_size) == back_size);
    fore_buf clean = {0}, out = {0};
    fore_stream stream;
    fore_stream_init(&stream, t, false);
    for (size_t i = 0; i < count; i++) s |= fore_stream_push(&stream, ids[i], &out);
    s |= fore_stream_flush(&stream, &out) | fore_utf8_sanitize(&clean, text, size);
    assert(s == FORE_OK && out.size == back_size && (back_size == 0 || memcmp(out.data, back, back_size) == 0));
    if (comes_back) assert(clean.size == back_size && (back_size == 0 || memcmp(clean.data, back, back_size) == 0));
    fore_buf_free(&clean);
    fore_buf_free(&out);
    fore_free(back);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fore_tokenizer *fixed; /* lives as long as the program */
    if (fixed == NULL) fixed = make_fixed();
    const char *text = (const char *)data;
    const char *mark = size ? memchr(text, 0xFE, size) : NULL;
    if (mark == NULL) {
        use(fixed, text, size, true);
        return 0;
    }
    fore_tokenizer *t;
    make(text, (size_t)(mark - text), &t);
    if (t != NULL) use(t, mark + 1, size - (size_t)(mark + 1 - text), false);
    fore_tokenizer_close(t);
    return 0;
}
