/* UTF-8; see utf8.h. Ranges of the second byte are those of table 3-7 of the Unicode standard. */
#include "base/utf8.h"

#include <string.h>

int fore_utf8_decode(const char *text, size_t size, uint32_t *code) {
    const unsigned char *s = (const unsigned char *)text;
    unsigned c = s[0];
    *code = 0xFFFD;
    if (c < 0x80) {
        *code = c;
        return 1;
    }
    if (c < 0xC2 || c > 0xF4) return -1;
    unsigned low = 0x80, high = 0xBF;
    int length;
    uint32_t value;
    if (c < 0xE0) {
        length = 2;
        value = c & 0x1F;
    } else if (c < 0xF0) {
        length = 3;
        value = c & 0x0F;
        if (c == 0xE0) low = 0xA0;
        if (c == 0xED) high = 0x9F;
    } else {
        length = 4;
        value = c & 0x07;
        if (c == 0xF0) low = 0x90;
        if (c == 0xF4) high = 0x8F;
    }
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= size || s[i] < low || s[i] > high) return -i;
        value = value << 6 | (s[i] & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    *code = value;
    return length;
}

int fore_utf8_encode(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

size_t fore_utf8_valid_prefix(const char *text, size_t size) {
    size_t i = 0;
    while (i < size) {
        uint64_t eight; /* ASCII, mostly */
        if (size - i >= sizeof eight) {
            memcpy(&eight, text + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        }
        uint32_t code;
        int n = fore_utf8_decode(text + i, size - i, &code);
        if (n < 0) break;
        i += (size_t)n;
    }
    return i;
}

fore_status fore_utf8_sanitize(fore_buf *out, const char *text, size_t size) {
    size_t i = 0;
    while (i < size) {
        size_t good = fore_utf8_valid_prefix(text + i, size - i);
        fore_status s = fore_buf_append(out, text + i, good);
        if (s) return s;
        i += good;
        if (i == size) break;
        uint32_t code;
        int n = fore_utf8_decode(text + i, size - i, &code);
        i += (size_t)-n;
        s = fore_buf_append(out, "\xEF\xBF\xBD", 3);
        if (s) return s;
    }
    return FORE_OK;
}

size_t fore_utf8_incomplete_tail(const char *text, size_t size) {
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char c = (unsigned char)text[size - back];
        if ((c & 0xC0) == 0x80) continue;
        if (c < 0xC2 || c > 0xF4) return 0;
        uint32_t code;
        int n = fore_utf8_decode(text + size - back, back, &code);
        return n == -(int)back ? back : 0; /* invalid only because the text ends here */
    }
    return 0;
}
