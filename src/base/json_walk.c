/* Walking through JSON text; see json_walk.h. */
#include "base/json_walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static void skip_space(fore_json_walk *w) {
    while (w->at < w->end && (*w->at == ' ' || *w->at == '\n' || *w->at == '\t' || *w->at == '\r')) w->at++;
}

fore_json_walk fore_json_walk_begin(fore_json_text text) {
    fore_json_walk w = {text.at, text.at + text.size};
    if (text.size >= 3 && !memcmp(text.at, "\xEF\xBB\xBF", 3)) w.at += 3;
    return w;
}

char fore_json_peek(fore_json_walk *w) {
    skip_space(w);
    char c = w->at < w->end ? *w->at : 'n';
    return (c >= '0' && c <= '9') || c == '-' ? 0 : c;
}

void fore_json_enter(fore_json_walk *w) {
    skip_space(w);
    w->at++;
}

bool fore_json_more(fore_json_walk *w) {
    skip_space(w);
    if (w->at < w->end && *w->at == ',') w->at++;
    skip_space(w);
    if (w->at < w->end && *w->at != '}' && *w->at != ']') return true;
    if (w->at < w->end) w->at++;
    return false;
}

static unsigned hex(const char *p) {
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)p[i];
        v = v << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return v;
}

/* At a backslash: what it means. */
static fore_status put_escape(fore_json_walk *w, fore_buf *out) {
    static const char names[] = "bfnrt", bytes[] = "\b\f\n\r\t";
    char c = w->at[1], utf8[4];
    w->at += 2;
    if (c != 'u') {
        const char *p = strchr(names, c);
        return fore_buf_putc(out, p ? bytes[p - names] : c);
    }
    uint32_t code = hex(w->at);
    w->at += 4;
    if (code >= 0xD800 && code < 0xDC00) { /* its other half follows */
        code = 0x10000 + ((code - 0xD800) << 10 | (hex(w->at + 2) - 0xDC00));
        w->at += 6;
    }
    return fore_buf_append(out, utf8, (size_t)fore_utf8_encode(code, utf8));
}

fore_status fore_json_take_string(fore_json_walk *w, fore_buf *out) {
    skip_space(w);
    w->at++;
    out->size = 0;
    fore_status s = fore_buf_reserve(out, 1);
    while (!s && *w->at != '"') {
        const char *p = w->at;
        while (*p != '"' && *p != '\\') p++;
        s = fore_buf_append(out, w->at, (size_t)(p - w->at));
        w->at = p;
        if (!s && *p == '\\') s = put_escape(w, out);
    }
    w->at++;
    if (!s) out->data[out->size] = 0;
    return s;
}

fore_status fore_json_take_name(fore_json_walk *w, fore_buf *out) {
    fore_status s = fore_json_take_string(w, out);
    skip_space(w);
    w->at++; /* the colon */
    return s;
}

double fore_json_take_number(fore_json_walk *w) {
    const fore_json_text text = fore_json_skip(w);
    double v = 0;
    size_t i = 0;
    for (; i < text.size && i < 15 && text.at[i] >= '0' && text.at[i] <= '9'; i++) v = v * 10 + (text.at[i] - '0');
    if (i == text.size) return v;
    cJSON *number = cJSON_ParseWithLength(text.at, text.size); /* as numbers in trees are read */
    v = number ? number->valuedouble : -1;
    cJSON_Delete(number);
    return v;
}

static void skip_string(fore_json_walk *w) {
    for (w->at++; *w->at != '"'; w->at++)
        if (*w->at == '\\') w->at++;
    w->at++;
}

fore_json_text fore_json_skip(fore_json_walk *w) {
    skip_space(w);
    const char *begin = w->at;
    int depth = 0;
    do {
        char c = *w->at;
        if (c == '"') {
            skip_string(w);
            continue;
        }
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        w->at++;
        if (depth || c == '}' || c == ']') continue;
        while (w->at < w->end && !strchr(",]} \n\t\r", *w->at)) w->at++; /* a number or a word */
    } while (depth);
    return (fore_json_text){begin, (size_t)(w->at - begin)};
}

/* ---- trees without some members ---------------------------------------------------------------------------------- */

/* Steps to the value of the first member `name`; false: there is none, and w is behind the object. */
static fore_status find(fore_json_walk *w, const char *name, fore_buf *buf, bool *found) {
    *found = false;
    for (fore_json_enter(w); fore_json_more(w); fore_json_skip(w)) {
        fore_status s = fore_json_take_name(w, buf);
        if (s) return s;
        *found = !strcmp(buf->data, name);
        if (*found) return FORE_OK;
    }
    return FORE_OK;
}

static fore_status find_parts(fore_json_text text, const char *within, const char *const *names, fore_json_text *parts, int count, fore_buf *buf) {
    fore_json_walk w = fore_json_walk_begin(text);
    bool found;
    if (fore_json_peek(&w) != '{') return FORE_OK;
    fore_status s = find(&w, within, buf, &found);
    if (s || !found || fore_json_peek(&w) != '{') return s;
    for (fore_json_enter(&w); !s && fore_json_more(&w);) {
        s = fore_json_take_name(&w, buf);
        int i = 0;
        while (!s && i < count && (parts[i].at || strcmp(names[i], buf->data))) i++;
        if (s) return s;
        const fore_json_text value = fore_json_skip(&w);
        if (i < count) parts[i] = value;
    }
    return s;
}

static int by_place(const void *a, const void *b) {
    const fore_json_text *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

fore_status fore_json_parse_without(const char *text, size_t size, const char *what, const char *within, const char *const *names,
                                    fore_json_text *parts, int count, cJSON **out, fore_error *err) {
    enum { MOST = 4 };
    fore_json_text sorted[MOST];
    fore_buf rest = {0};
    *out = NULL;
    for (int i = 0; i < count; i++) parts[i] = (fore_json_text){0};
    if (count > MOST) return fore_fail(err, FORE_ERR_BUG, "%s: %d parts of a text", what, count);
    fore_status s = fore_json_check(text, size, what, err);
    if (s) return s;
    s = find_parts((fore_json_text){text, size}, within, names, parts, count, &rest);
    rest.size = 0;
    const char *at = text;
    for (int i = 0; i < count; i++) sorted[i] = parts[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_place);
    for (int i = 0; i < count && !s; i++) {
        if (!sorted[i].at) continue;
        s = fore_buf_append(&rest, at, (size_t)(sorted[i].at - at));
        if (!s) s = fore_buf_puts(&rest, "null");
        at = sorted[i].at + sorted[i].size;
    }
    if (!s) s = fore_buf_append(&rest, at, (size_t)(text + size - at));
    s = s ? fore_fail_nomem(err, what) : fore_json_parse(rest.data ? rest.data : "", rest.size, what, out, err);
    fore_buf_free(&rest);
    for (int i = 0; i < count; i++)
        if (parts[i].at && parts[i].at[0] == 'n') parts[i] = (fore_json_text){0};
    return s;
}
