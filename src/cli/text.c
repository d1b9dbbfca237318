/* Text in memory; see text.h. */
#include "cli/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void *cli_need(void *p) {
    if (!p) exit(cli_fail("out of memory"));
    return p;
}

void cli_text_add(cli_text *text, const char *data, size_t size) {
    if (size >= text->capacity - text->size) {
        size_t capacity = text->capacity ? text->capacity : 64;
        while (capacity - text->size <= size) capacity = capacity > SIZE_MAX / 2 ? 0 : capacity * 2;
        text->data = cli_need(realloc(text->data, capacity));
        text->capacity = capacity;
    }
    if (size) memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = 0;
}

void cli_text_puts(cli_text *text, const char *string) {
    cli_text_add(text, string, strlen(string));
}

void cli_text_print(cli_text *text, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cli_text_puts(text, line);
}

void cli_text_free(cli_text *text) {
    free(text->data);
    *text = (cli_text){0};
}

const char *cli_text_string(const cli_text *text) {
    return text->data ? text->data : "";
}

size_t cli_utf8_length(const char *text, size_t size) {
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80) return 1;
    size_t length = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
                    : p[0] >= 0xe0 && p[0] <= 0xef ? 3
                    : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                   : 0;
    if (!length || size < length) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0; /* longer than needed */
    if (p[0] == 0xed && p[1] > 0x9f) return 0; /* a surrogate */
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0; /* beyond U+10FFFF */
    return length;
}

static const char replacement[] = "\xef\xbf\xbd";

void cli_text_add_clean(cli_text *text, const char *data, size_t size) {
    for (size_t i = 0; i < size;) {
        size_t length = cli_utf8_length(data + i, size - i);
        if (length)
            cli_text_add(text, data + i, length);
        else
            cli_text_puts(text, replacement);
        i += length ? length : 1;
    }
}

void cli_text_add_printable(cli_text *text, const char *data, size_t size) {
    for (size_t i = 0; i < size;) {
        size_t length = cli_utf8_length(data + i, size - i);
        unsigned char c = (unsigned char)data[i];
        bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ||
                       (length == 2 && c == 0xc2 && (unsigned char)data[i + 1] < 0xa0); /* U+0080 to U+009F */
        if (length && !control)
            cli_text_add(text, data + i, length);
        else
            cli_text_puts(text, replacement);
        i += length ? length : 1;
    }
}
