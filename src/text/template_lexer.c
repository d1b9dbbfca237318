/* Template source to tokens, as jinja2's lexer does with trim_blocks and lstrip_blocks: the newline behind a block tag
 * goes, white space before a block tag that begins a line goes, "-" strips, "+" keeps. */
#include "text/template_lexer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template_value.h"

typedef struct lexer {
    fore_arena *arena;
    fore_error *err;
    const char *s;
    size_t size, pos;
    int line;
    bool line_starting;
    fore_ttoken *tokens; /* malloc'd while it grows */
    size_t count, capacity;
    char balance[256]; /* open brackets of the tag */
    int open;
} lexer;

static fore_status fail(lexer *l, const char *message) {
    return fore_fail(l->err, FORE_ERR_FORMAT, "template line %d: %s", l->line, message);
}

static fore_status push(lexer *l, fore_ttoken_kind kind, const char *text, size_t size) {
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 256;
        fore_ttoken *tokens = realloc(l->tokens, capacity * sizeof *tokens);
        if (!tokens) return fore_fail_nomem(l->err, "tokens of a template");
        l->tokens = tokens;
        l->capacity = capacity;
    }
    l->tokens[l->count++] = (fore_ttoken){.kind = kind, .line = l->line, .text = text, .size = size};
    return FORE_OK;
}

static void count_lines(lexer *l, const char *from, const char *to) {
    for (const char *p = from; p < to; p++) l->line += *p == '\n';
}

static bool at(const lexer *l, size_t pos, const char *text) {
    size_t n = strlen(text);
    return pos + n <= l->size && memcmp(l->s + pos, text, n) == 0;
}

static size_t skip_space(const lexer *l, size_t pos) {
    while (pos < l->size) {
        uint32_t c;
        int n = fore_utf8_decode(l->s + pos, l->size - pos, &c);
        if (n < 1 || !fore_tis_space(c)) break;
        pos += (size_t)n;
    }
    return pos;
}

static bool all_space(const char *p, const char *end) {
    if (p == end) return false;
    while (p < end) {
        uint32_t c;
        int n = fore_utf8_decode(p, (size_t)(end - p), &c);
        if (n < 1 || !fore_tis_space(c)) return false;
        p += n;
    }
    return true;
}

/* Text before a tag, cut as the tag's sign ('-', '+' or 0) and lstrip_blocks say. Counts the lines of all of it. */
static fore_status push_data(lexer *l, size_t from, size_t to, char sign, bool strips) {
    const char *p = l->s + from;
    size_t size = to - from;
    if (sign == '-') {
        fore_tstrip(&p, &size, NULL, false, true);
    } else if (sign != '+' && strips) {
        const char *newline = size ? memrchr(p, '\n', size) : NULL;
        size_t start = newline ? (size_t)(newline - p) + 1 : 0;
        if ((start > 0 || l->line_starting) && all_space(p + start, p + size)) size = start;
    }
    if (size) {
        fore_status s = push(l, FORE_K_DATA, p, size);
        if (s) return s;
    }
    count_lines(l, l->s + from, l->s + to);
    return FORE_OK;
}

/* Moves to `to`, the end of a tag. */
static void finish(lexer *l, size_t to) {
    count_lines(l, l->s + l->pos, l->s + to);
    l->line_starting = to > 0 && l->s[to - 1] == '\n';
    l->pos = to;
}

/* The end of a tag at pos: "%}" with its sign; trims what follows. 0: no end here. */
static size_t tag_end(const lexer *l, size_t pos, const char *end, bool trims) {
    if (trims && l->s[pos] == '+' && at(l, pos + 1, end)) return pos + 1 + 2;
    if (l->s[pos] == '-' && at(l, pos + 1, end)) return skip_space(l, pos + 1 + 2);
    if (!at(l, pos, end)) return 0;
    pos += 2;
    return trims && pos < l->size && l->s[pos] == '\n' ? pos + 1 : pos;
}

static fore_status lex_comment(lexer *l) {
    for (size_t p = l->pos; p < l->size; p++) {
        size_t end = tag_end(l, p, "#}", true);
        if (end) {
            finish(l, end);
            return FORE_OK;
        }
    }
    return l->pos < l->size ? fail(l, "Missing end of comment tag") : FORE_OK; /* at the very end it is let through */
}

/* "{% raw %}" at pos: the position behind it, or 0. */
static size_t raw_begin(const lexer *l, size_t pos) {
    pos += 2;
    if (pos < l->size && (l->s[pos] == '-' || l->s[pos] == '+')) pos++;
    pos = skip_space(l, pos);
    if (!at(l, pos, "raw")) return 0;
    pos = skip_space(l, pos + 3);
    if (at(l, pos, "-%}")) return skip_space(l, pos + 3);
    return at(l, pos, "%}") ? pos + 2 : 0;
}

static fore_status lex_raw(lexer *l) {
    for (size_t p = l->pos; p + 1 < l->size; p++) {
        if (!at(l, p, "{%")) continue;
        size_t q = p + 2;
        char sign = q < l->size && (l->s[q] == '-' || l->s[q] == '+') ? l->s[q++] : 0;
        q = skip_space(l, q);
        if (!at(l, q, "endraw")) continue;
        q = skip_space(l, q + 6);
        size_t end = q < l->size ? tag_end(l, q, "%}", true) : 0;
        if (!end) continue;
        size_t from = l->pos;
        l->pos = p;
        fore_status s = push_data(l, from, p, sign, true);
        if (s) return s;
        finish(l, end);
        return FORE_OK;
    }
    return l->pos < l->size ? fail(l, "Missing end of raw directive") : FORE_OK;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A string's inside with Python's escapes resolved; unknown ones stay as they are. */
static fore_status unescape(lexer *l, const char *p, size_t size, const char **text, size_t *out_size) {
    if (!size || !memchr(p, '\\', size)) {
        *text = p;
        *out_size = size;
        return FORE_OK;
    }
    char *out = fore_arena_alloc(l->arena, size + 4, 1);
    if (!out) return fore_fail_nomem(l->err, "a string of a template");
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (p[i] != '\\' || i + 1 == size) {
            out[n++] = p[i];
            continue;
        }
        char c = p[++i];
        static const char simple[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
        const char *found = NULL;
        for (const char *e = simple; *e && !found; e += 2)
            if (*e == c) found = e;
        if (found) {
            out[n++] = found[1];
        } else if (c == '\n') {
            continue;
        } else if (c == 'x' || c == 'u' || c == 'U') {
            size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            uint32_t code = 0;
            for (size_t k = 1; k <= digits; k++) {
                int d = i + k < size ? hex_digit(p[i + k]) : -1;
                if (d < 0 || code > 0xfffffff) return fail(l, "truncated \\xXX, \\uXXXX or \\UXXXXXXXX escape in a string");
                code = code * 16 + (uint32_t)d;
            }
            if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
                return fail(l, "a string has an escape that is not a character");
            n += (size_t)fore_utf8_encode(code, out + n);
            i += digits;
        } else if (c >= '0' && c <= '7') {
            uint32_t code = 0;
            size_t k = 0;
            for (; k < 3 && i + k < size && p[i + k] >= '0' && p[i + k] <= '7'; k++)
                code = code * 8 + (uint32_t)(p[i + k] - '0');
            n += (size_t)fore_utf8_encode(code, out + n);
            i += k - 1;
        } else if (c == 'N') {
            return fail(l, "named characters (\\N{...}) are not supported in a string");
        } else {
            out[n++] = '\\';
            out[n++] = c;
        }
    }
    *text = out;
    *out_size = n;
    return FORE_OK;
}

static fore_status lex_string(lexer *l) {
    char quote = l->s[l->pos];
    size_t p = l->pos + 1;
    while (p < l->size && l->s[p] != quote) p += l->s[p] == '\\' ? 2 : 1;
    if (p >= l->size) return fail(l, quote == '"' ? "unexpected char '\"': a string without an end"
                                                  : "unexpected char \"'\": a string without an end");
    const char *text = NULL;
    size_t size = 0;
    fore_status s = unescape(l, l->s + l->pos + 1, p - l->pos - 1, &text, &size);
    if (!s) s = push(l, FORE_K_STRING, text, size);
    if (!s) finish(l, p + 1);
    return s;
}

static bool digit(const lexer *l, size_t p) { return p < l->size && l->s[p] >= '0' && l->s[p] <= '9'; }

/* Digits with single underscores between them. */
static size_t digits(const lexer *l, size_t p) {
    if (!digit(l, p)) return p;
    while (digit(l, p) || (p < l->size && l->s[p] == '_' && digit(l, p + 1))) p++;
    return p;
}

static size_t exponent(const lexer *l, size_t p) {
    if (p >= l->size || (l->s[p] | 32) != 'e') return p;
    size_t q = p + 1;
    if (q < l->size && (l->s[q] == '-' || l->s[q] == '+')) q++;
    size_t end = digits(l, q);
    return end > q ? end : p;
}

static fore_status lex_number(lexer *l) {
    size_t start = l->pos, end = digits(l, start);
    bool real = false;
    if (!(start && l->s[start - 1] == '.')) {
        size_t fraction = end < l->size && l->s[end] == '.' ? digits(l, end + 1) : end;
        bool has_fraction = fraction > end + 1;
        size_t after = exponent(l, has_fraction ? fraction : end);
        real = has_fraction || after > end;
        if (real) end = after;
    }
    if (!real) {
        char p = start + 1 < l->size && l->s[start] == '0' ? (char)(l->s[start + 1] | 32) : 0;
        int base = p == 'x' ? 16 : p == 'o' ? 8 : p == 'b' ? 2 : 10;
        if (base != 10) {
            size_t q = start + 2;
            for (;;) {
                size_t r = q < l->size && l->s[q] == '_' ? q + 1 : q;
                int d = r < l->size ? hex_digit(l->s[r]) : -1;
                if (d < 0 || d >= base) break;
                q = r + 1;
            }
            end = q > start + 2 ? q : start + 1;
        } else if (l->s[start] == '0') { /* no leading zeros: 012 is 0 and then 12 */
            end = start + 1;
            while (end < l->size && (l->s[end] == '0' || at(l, end, "_0"))) end++;
        }
    }
    char *text = fore_arena_alloc(l->arena, end - start + 1, 1);
    if (!text) return fore_fail_nomem(l->err, "a number of a template");
    size_t n = 0;
    for (size_t i = start; i < end; i++)
        if (l->s[i] != '_') text[n++] = l->s[i];
    fore_status s = push(l, real ? FORE_K_FLOAT : FORE_K_INTEGER, text, n);
    if (!s) finish(l, end);
    return s;
}

static size_t name_end(const lexer *l, size_t p) {
    while (p < l->size) {
        uint32_t c;
        int n = fore_utf8_decode(l->s + p, l->size - p, &c);
        if (n < 1 || !(c < 0x80 ? (c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))
                                : fore_tis_word(c)))
            break;
        p += (size_t)n;
    }
    return p;
}

static fore_status lex_operator(lexer *l) {
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
                                            "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        const char *op = operators[i];
        if (!at(l, l->pos, op)) continue;
        if (strchr("([{", *op)) {
            if (l->open == (int)sizeof l->balance)
                return fore_fail(l->err, FORE_ERR_LIMIT, "template line %d: brackets are nested too deeply", l->line);
            l->balance[l->open++] = *op == '(' ? ')' : *op == '[' ? ']' : '}';
        } else if (strchr(")]}", *op)) {
            if (!l->open || l->balance[--l->open] != *op)
                return fore_fail(l->err, FORE_ERR_FORMAT, "template line %d: unexpected '%c'", l->line, *op);
        }
        fore_status s = push(l, FORE_K_OPERATOR, op, strlen(op));
        if (!s) finish(l, l->pos + strlen(op));
        return s;
    }
    return fore_fail(l->err, FORE_ERR_FORMAT, "template line %d: unexpected char at byte %zu", l->line, l->pos);
}

/* The inside of {{ }} or {% %}. */
static fore_status lex_tag(lexer *l, bool block) {
    l->open = 0;
    while (l->pos < l->size) {
        char c = l->s[l->pos];
        size_t end = l->open ? 0 : tag_end(l, l->pos, block ? "%}" : "}}", block);
        if (end) {
            fore_status s = push(l, block ? FORE_K_BLOCK_END : FORE_K_VARIABLE_END, l->s + l->pos, 0);
            if (!s) finish(l, end);
            return s;
        }
        fore_status s = FORE_OK;
        size_t space = skip_space(l, l->pos), name;
        if (space > l->pos) {
            finish(l, space);
        } else if (c >= '0' && c <= '9') {
            s = lex_number(l);
        } else if ((name = name_end(l, l->pos)) > l->pos) {
            s = push(l, FORE_K_NAME, l->s + l->pos, name - l->pos);
            if (!s) finish(l, name);
        } else if (c == '"' || c == '\'') {
            s = lex_string(l);
        } else {
            s = lex_operator(l);
        }
        if (s) return s;
    }
    return FORE_OK;
}

static fore_status lex_all(lexer *l) {
    fore_status s = FORE_OK;
    while (!s && l->pos < l->size) {
        size_t p = l->pos; /* the next tag */
        while (p + 1 < l->size && !(l->s[p] == '{' && (l->s[p + 1] == '{' || l->s[p + 1] == '%' || l->s[p + 1] == '#')))
            p++;
        if (p + 1 >= l->size) {
            s = push_data(l, l->pos, l->size, '+', false);
            l->pos = l->size;
            break;
        }
        char kind = l->s[p + 1], sign = p + 2 < l->size ? l->s[p + 2] : 0;
        if (sign != '-' && sign != '+') sign = 0;
        size_t raw = kind == '%' ? raw_begin(l, p) : 0;
        s = push_data(l, l->pos, p, sign, kind != '{');
        if (s) break;
        l->pos = p;
        if (raw) {
            finish(l, raw);
            s = lex_raw(l);
            continue;
        }
        if (kind != '#') s = push(l, kind == '%' ? FORE_K_BLOCK_BEGIN : FORE_K_VARIABLE_BEGIN, l->s + p, 0);
        if (s) break;
        finish(l, p + 2 + (sign != 0));
        s = kind == '#' ? lex_comment(l) : lex_tag(l, kind == '%');
    }
    return s ? s : push(l, FORE_K_EOF, l->s + l->size, 0);
}

fore_status fore_tlex(fore_arena *arena, const char *source, size_t size, fore_ttoken **tokens, size_t *count,
                      fore_error *err) {
    lexer l = {.arena = arena, .err = err, .s = source, .size = size, .line = 1, .line_starting = true};
    fore_status s = lex_all(&l);
    if (!s) {
        *tokens = fore_arena_alloc(arena, l.count, sizeof **tokens);
        if (*tokens) memcpy(*tokens, l.tokens, l.count * sizeof **tokens);
        *count = l.count;
        if (!*tokens) s = fore_fail_nomem(err, "tokens of a template");
    }
    free(l.tokens);
    return s;
}
