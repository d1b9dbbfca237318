/* NFC; see nfc.h. utf8proc decomposes and composes; the marks are sorted here, since utf8proc sorts them by exchanging
 * neighbours, which takes quadratic time. */
#include "text/nfc.h"

#include <stdint.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/unicode_tables.h"

enum {
    CODE_BITS = 21, /* a code point; its combining class sits above it while a window is sorted */
    WINDOW = 4096,  /* decomposed code points after which the next safe place ends the window */
    SHORT_RUN = 24, /* marks in a row that insertion sorts faster than counting */
};

typedef struct window {
    utf8proc_int32_t *codes; /* owned */
    utf8proc_int32_t *spare; /* owned; as large as codes, for sorting */
    size_t count, capacity;
} window;

bool fore_nfc_is_plain(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] >= 0xCC) return false; /* the first byte of U+0300 and of all that follow */
    return true;
}

static fore_status window_reserve(window *w, size_t more) {
    if (w->capacity - w->count >= more) return FORE_OK;
    size_t capacity = w->capacity ? w->capacity * 2 : 1024;
    utf8proc_int32_t *codes = realloc(w->codes, capacity * sizeof *codes);
    if (!codes) return FORE_ERR_NOMEM;
    w->codes = codes;
    utf8proc_int32_t *spare = realloc(w->spare, capacity * sizeof *spare);
    if (!spare) return FORE_ERR_NOMEM;
    w->spare = spare;
    w->capacity = capacity;
    return FORE_OK;
}

/* Sorts marks by class, equal ones in order, and takes the classes off. */
static void sort_marks(utf8proc_int32_t *marks, size_t count, utf8proc_int32_t *spare) {
    if (count <= SHORT_RUN) {
        for (size_t i = 1; i < count; i++) {
            utf8proc_int32_t m = marks[i];
            size_t k = i;
            for (; k > 0 && marks[k - 1] >> CODE_BITS > m >> CODE_BITS; k--) marks[k] = marks[k - 1];
            marks[k] = m;
        }
    } else {
        size_t start[257] = {0};
        for (size_t i = 0; i < count; i++) start[(marks[i] >> CODE_BITS) + 1]++;
        for (size_t c = 1; c < 257; c++) start[c] += start[c - 1];
        for (size_t i = 0; i < count; i++) spare[start[marks[i] >> CODE_BITS]++] = marks[i];
        for (size_t i = 0; i < count; i++) marks[i] = spare[i];
    }
    for (size_t i = 0; i < count; i++) marks[i] &= (1 << CODE_BITS) - 1;
}

/* Sorts, composes and appends what the window holds, and empties it. */
static fore_status window_flush(window *w, fore_buf *out) {
    for (size_t i = 0; i < w->count;) {
        size_t end = i;
        while (end < w->count && w->codes[end] >> CODE_BITS) end++;
        if (end > i) sort_marks(w->codes + i, end - i, w->spare);
        i = end + 1;
    }
    size_t count = 0;
    if (w->count) {
        utf8proc_ssize_t n =
            utf8proc_normalize_utf32(w->codes, (utf8proc_ssize_t)w->count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (n < 0) return FORE_ERR_BUG;
        count = (size_t)n;
    }
    fore_status s = fore_buf_reserve(out, count * 4);
    if (s) return s;
    for (size_t i = 0; i < count; i++) {
        char bytes[4];
        int n = fore_utf8_encode((uint32_t)w->codes[i], bytes);
        s = fore_buf_append(out, bytes, (size_t)n);
        if (s) return s;
    }
    w->count = 0;
    return FORE_OK;
}

static fore_status window_push(window *w, uint32_t code) {
    utf8proc_int32_t parts[32];
    int last_class = 0;
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)code, parts, 32, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &last_class);
    if (n < 0 || n > 32) return FORE_ERR_BUG;
    fore_status s = window_reserve(w, (size_t)n);
    if (s) return s;
    for (utf8proc_ssize_t i = 0; i < n; i++)
        w->codes[w->count++] = parts[i] | (utf8proc_int32_t)utf8proc_get_property(parts[i])->combining_class
                                              << CODE_BITS;
    return FORE_OK;
}

fore_status fore_nfc_append(fore_buf *out, const char *text, size_t size) {
    window w = {0};
    fore_status s = FORE_OK;
    for (size_t i = 0; i < size && !s;) {
        uint32_t code;
        int n = fore_utf8_decode(text + i, size - i, &code);
        if (code < 0x300) { /* begins something: it neither sorts nor composes backwards */
            if (w.count >= WINDOW) s = window_flush(&w, out);
            if (!s) s = window_push(&w, code);
        } else if (fore_code_range_find(fore_nfc_walls, fore_nfc_wall_count, code)) {
            s = window_flush(&w, out);
            if (!s) s = fore_buf_append(out, text + i, (size_t)n);
        } else {
            s = window_push(&w, code);
        }
        i += (size_t)n;
    }
    if (!s) s = window_flush(&w, out);
    free(w.codes);
    free(w.spare);
    return s;
}
