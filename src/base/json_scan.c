/* The grammar of JSON (RFC 8259), checked before cJSON, which lets some errors pass and cuts strings at \u0000. */
#include "base/json_scan.h"

#include <stdbool.h>
#include <string.h>

enum { MAX_DEPTH = 1000, MAX_NUMBER = 62 }; /* cJSON's own limits */

typedef struct scanner {
    const char *text;
    size_t size, at;
    size_t values, strings;
    const char *problem;
} scanner;

static bool fail(scanner *s, const char *problem) {
    s->problem = problem;
    return false;
}

static int peek(const scanner *s) { return s->at < s->size ? (unsigned char)s->text[s->at] : -1; }

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

static void skip_space(scanner *s) {
    const char *p = s->text + s->at, *end = s->text + s->size;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
    s->at = (size_t)(p - s->text);
}

/* Four hexadecimal digits, or -1. */
static int scan_hex(scanner *s) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(s), digit;
        if (is_digit(c)) digit = c - '0';
        else if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
        else return -1;
        value = value * 16 + digit;
        s->at++;
    }
    return value;
}

static bool scan_escape(scanner *s) {
    int c = peek(s);
    if (c != 'u') {
        if (c <= 0 || !strchr("\"\\/bfnrt", c)) return fail(s, "an unknown escape in a string");
        s->at++;
        return true;
    }
    s->at++;
    int code = scan_hex(s);
    if (code < 0) return fail(s, "\\u without four hexadecimal digits");
    if (code == 0) return fail(s, "\\u0000 in a string is not supported");
    if (code < 0xD800 || code > 0xDFFF) return true;
    if (code > 0xDBFF || peek(s) != '\\') return fail(s, "half a surrogate pair in a string");
    s->at++;
    if (peek(s) != 'u') return fail(s, "half a surrogate pair in a string");
    s->at++;
    code = scan_hex(s);
    return (code >= 0xDC00 && code <= 0xDFFF) || fail(s, "half a surrogate pair in a string");
}

static bool scan_string(scanner *s) {
    s->at++;
    s->strings++;
    for (;;) {
        const char *p = s->text + s->at, *end = s->text + s->size;
        while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') p++;
        s->at = (size_t)(p - s->text);
        if (p == end) return fail(s, "a string without an end");
        if ((unsigned char)*p < 0x20) return fail(s, "a control character in a string");
        s->at++;
        if (*p == '"') return true;
        if (!scan_escape(s)) return false;
    }
}

static bool scan_digits(scanner *s) {
    if (!is_digit(peek(s))) return fail(s, "a malformed number");
    while (is_digit(peek(s))) s->at++;
    return true;
}

static bool scan_number(scanner *s) {
    size_t start = s->at;
    if (peek(s) == '-') s->at++;
    if (peek(s) == '0') s->at++;
    else if (!scan_digits(s)) return false;
    if (peek(s) == '.') {
        s->at++;
        if (!scan_digits(s)) return false;
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-') s->at++;
        if (!scan_digits(s)) return false;
    }
    return s->at - start <= MAX_NUMBER || fail(s, "a number with too many digits");
}

static bool scan_word(scanner *s, const char *word) {
    size_t n = strlen(word);
    if (s->size - s->at < n || memcmp(s->text + s->at, word, n) != 0) return fail(s, "an unknown word");
    s->at += n;
    return true;
}

static bool scan_scalar(scanner *s) {
    int c = peek(s);
    if (c == '"') return scan_string(s);
    if (c == 't') return scan_word(s, "true");
    if (c == 'f') return scan_word(s, "false");
    if (c == 'n') return scan_word(s, "null");
    if (c == '-' || is_digit(c)) return scan_number(s);
    return fail(s, c < 0 ? "the text ends too early" : "a value is expected");
}

static bool scan_key(scanner *s) {
    skip_space(s);
    if (peek(s) != '"') return fail(s, peek(s) < 0 ? "the text ends too early" : "a name in quotes is expected");
    if (!scan_string(s)) return false;
    skip_space(s);
    if (peek(s) != ':') return fail(s, "':' is expected");
    s->at++;
    return true;
}

/* One value with all that it contains, without recursion: open[0..depth) are the closing brackets to come. */
static bool scan_value(scanner *s) {
    char open[MAX_DEPTH];
    int depth = 0;
    for (;;) {
        skip_space(s);
        int c = peek(s);
        s->values++;
        if (c == '{' || c == '[') {
            if (depth == MAX_DEPTH) return fail(s, "nested too deeply");
            open[depth++] = c == '{' ? '}' : ']';
            s->at++;
            skip_space(s);
            if (peek(s) != open[depth - 1]) {
                if (c == '{' && !scan_key(s)) return false;
                continue;
            }
            s->at++;
            depth--;
        } else if (!scan_scalar(s)) {
            return false;
        }
        skip_space(s);
        while (depth && peek(s) == open[depth - 1]) {
            s->at++;
            depth--;
            skip_space(s);
        }
        if (!depth) return true;
        if (peek(s) != ',') return fail(s, peek(s) < 0 ? "the text ends too early" : "',' or a closing bracket is expected");
        s->at++;
        if (open[depth - 1] == '}' && !scan_key(s)) return false;
    }
}

const char *fore_json_scan(const char *text, size_t size, size_t *at, size_t *values, size_t *strings) {
    scanner s = {.text = size ? text : "", .size = size};
    if (size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) s.at = 3;
    if (scan_value(&s)) {
        skip_space(&s);
        if (s.at < size) fail(&s, "something follows the value");
    }
    *at = s.at;
    *values = s.values;
    *strings = s.strings;
    return s.problem;
}
