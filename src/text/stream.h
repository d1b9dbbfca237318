/* Streaming detokenisation: tokens in, whole characters out. */
#ifndef FORE_TEXT_STREAM_H
#define FORE_TEXT_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

typedef struct fore_stream {
    const fore_tokenizer *tokenizer; /* borrowed */
    bool skip_special;
    char pending[8]; /* bytes of an incomplete character */
    size_t pending_size;
} fore_stream;

void fore_stream_init(fore_stream *stream, const fore_tokenizer *tokenizer, bool skip_special);
/* Appends to out the characters that token `id` completes. Invalid bytes become U+FFFD as soon as they are known to be
 * invalid; an incomplete character is held back. The sum of all pushes and the flush equals fore_tokenizer_decode. */
fore_status fore_stream_push(fore_stream *stream, int32_t id, fore_buf *out);
/* At the end: what is held back becomes U+FFFD. */
fore_status fore_stream_flush(fore_stream *stream, fore_buf *out);

#endif
