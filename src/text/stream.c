/* Streaming detokenisation; see stream.h. */
#include "text/stream.h"

#include <string.h>

#include "base/utf8.h"

void fore_stream_init(fore_stream *stream, const fore_tokenizer *tokenizer, bool skip_special) {
    *stream = (fore_stream){.tokenizer = tokenizer, .skip_special = skip_special};
}

fore_status fore_stream_push(fore_stream *stream, int32_t id, fore_buf *out) {
    size_t size;
    const char *piece = fore_tokenizer_piece(stream->tokenizer, id, &size);
    if (!piece || (stream->skip_special && fore_tokenizer_is_special(stream->tokenizer, id))) return FORE_OK;
    /* Room for the worst case first: a byte becomes at most the three of U+FFFD. A failure then changes nothing. */
    fore_status s = fore_buf_reserve(out, 3 * (size + stream->pending_size));
    if (s) return s;
    size_t at = 0;
    while (stream->pending_size && at < size) {
        stream->pending[stream->pending_size++] = piece[at++];
        uint32_t code;
        int n = fore_utf8_decode(stream->pending, stream->pending_size, &code);
        if (n == -(int)stream->pending_size) continue; /* still incomplete */
        if (n > 0) {
            s = fore_buf_append(out, stream->pending, stream->pending_size);
        } else { /* the byte does not belong to the character: it begins the next one */
            at--;
            s = fore_buf_append(out, "\xEF\xBF\xBD", 3);
        }
        if (s) return s;
        stream->pending_size = 0;
    }
    size_t tail = fore_utf8_incomplete_tail(piece + at, size - at);
    if (tail) {
        memcpy(stream->pending, piece + size - tail, tail);
        stream->pending_size = tail;
    }
    return fore_utf8_sanitize(out, piece + at, size - at - tail);
}

fore_status fore_stream_flush(fore_stream *stream, fore_buf *out) {
    if (!stream->pending_size) return FORE_OK;
    fore_status s = fore_buf_append(out, "\xEF\xBF\xBD", 3);
    if (!s) stream->pending_size = 0;
    return s;
}
