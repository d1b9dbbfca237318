/* Streaming detokenisation: what comes out is whole characters at every step, and in sum what decode gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/random.h"
#include "base/utf8.h"
#include "text/stream.h"

static fore_tokenizer *open_real(void) {
    fore_tokenizer *t;
    fore_error err;
    if (fore_tokenizer_open(FORE_DATA "/real/tokenizer.json", &t, &err)) fail_msg("%s", err.text);
    return t;
}

/* Streams ids and compares with decode; returns how many pushes held something back. */
static int stream_ids(const fore_tokenizer *t, const int32_t *ids, size_t count, bool skip) {
    char *whole;
    size_t size;
    assert_int_equal(fore_tokenizer_decode(t, ids, count, skip, &whole, &size, NULL), FORE_OK);
    fore_stream stream;
    fore_stream_init(&stream, t, skip);
    fore_buf out = {0};
    int held = 0;
    for (size_t i = 0; i < count; i++) {
        size_t before = out.size;
        assert_int_equal(fore_stream_push(&stream, ids[i], &out), FORE_OK);
        assert_int_equal(fore_utf8_valid_prefix(out.data + before, out.size - before), out.size - before);
        assert_true(stream.pending_size <= 3);
        held += stream.pending_size > 0;
    }
    assert_int_equal(fore_stream_flush(&stream, &out), FORE_OK);
    assert_int_equal(fore_stream_flush(&stream, &out), FORE_OK); /* once is enough */
    assert_int_equal(out.size, size);
    if (size) assert_memory_equal(out.data, whole, size);
    fore_buf_free(&out);
    fore_free(whole);
    return held;
}

static void decode_cases(void **state) {
    (void)state;
    fore_tokenizer *t = open_real();
    cJSON *cases;
    assert_int_equal(fore_json_read(FORE_DATA "/real/decode_cases.json", 1 << 20, &cases, NULL), FORE_OK);
    int count = 0;
    for (const cJSON *c = cases->child; c; c = c->next, count++) {
        int32_t ids[1024];
        size_t n = 0;
        for (const cJSON *e = cJSON_GetObjectItemCaseSensitive(c, "ids")->child; e && n < 1024; e = e->next)
            ids[n++] = e->valueint;
        stream_ids(t, ids, n, false);
        stream_ids(t, ids, n, true);
    }
    assert_int_equal(count, 300);
    cJSON_Delete(cases);
    fore_tokenizer_close(t);
}

/* Tokens of one byte, in any order: characters in pieces, cut off, overlong, continued without a beginning. */
static void single_bytes(void **state) {
    (void)state;
    fore_tokenizer *t = open_real();
    int32_t by_byte[256];
    memset(by_byte, -1, sizeof by_byte);
    for (int32_t id = 0; id < 151643; id++) {
        size_t size;
        const char *piece = fore_tokenizer_piece(t, id, &size);
        if (piece && size == 1) by_byte[(unsigned char)*piece] = id;
    }
    for (int b = 0; b < 256; b++) assert_true(by_byte[b] >= 0);
    static const unsigned char usual[] = {'a',  0x80, 0x9F, 0xA0, 0xBF, 0x90, 0x8F, 0xC3,
                                          0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF, 0xC0};
    int held = 0;
    for (uint32_t round = 0; round < 3000; round++) {
        int32_t ids[24];
        for (uint32_t i = 0; i < 24; i++) {
            uint32_t r = fore_random_bits(5, round, i, 0);
            ids[i] = round % 3 == 0   ? (int32_t)(r % 151646)
                     : round % 3 == 1 ? by_byte[usual[r % sizeof usual]]
                                      : by_byte[r % 256];
            if (r >> 28 == 3) ids[i] = 151643 + (int32_t)(r % 6) - 1; /* special tokens and ids without one */
        }
        held += stream_ids(t, ids, 24, round & 1);
    }
    assert_true(held > 3000); /* the case is there at all */
    fore_tokenizer_close(t);
}

static void a_character_waits_for_its_end(void **state) {
    (void)state;
    fore_tokenizer *t = open_real();
    const char *bytes = "\xF0\x9F\x98\x80";
    fore_stream stream;
    fore_stream_init(&stream, t, true);
    fore_buf out = {0};
    for (int i = 0; i < 4; i++) {
        for (int32_t id = 0; id < 300; id++) {
            size_t size;
            const char *piece = fore_tokenizer_piece(t, id, &size);
            if (size != 1 || *piece != bytes[i]) continue;
            assert_int_equal(fore_stream_push(&stream, id, &out), FORE_OK);
            assert_int_equal(fore_stream_push(&stream, 151643, &out), FORE_OK); /* skipped: does not come between */
        }
        assert_int_equal(out.size, i < 3 ? 0 : 4);
    }
    assert_memory_equal(out.data, bytes, 4);
    fore_buf_free(&out);

    /* No room: nothing changes, and the push can be made again. */
    out.limit = 4;
    int32_t hello = fore_tokenizer_id(t, "Hello");
    assert_true(hello >= 0);
    assert_int_equal(fore_stream_push(&stream, hello, &out), FORE_ERR_LIMIT);
    assert_int_equal(out.size, 0);
    out.limit = 0;
    assert_int_equal(fore_stream_push(&stream, hello, &out), FORE_OK);
    assert_string_equal(out.data, "Hello");
    fore_buf_free(&out);
    fore_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_cases),
        cmocka_unit_test(single_bytes),
        cmocka_unit_test(a_character_waits_for_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
