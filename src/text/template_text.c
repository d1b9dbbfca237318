/* Text of values: str(), repr() and JSON as Python's json.dumps writes it, HTML escaping. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template_run.h"

fore_status fore_tstr_append(fore_trun *run, fore_buf *buf, const void *data, size_t size) {
    fore_status s = fore_buf_append(buf, data, size);
    if (s == FORE_ERR_NOMEM) return fore_fail_nomem(run->err, "text of a template");
    if (s) return fore_tlimit(run, "a text is longer than 16 MiB");
    return FORE_OK;
}

static fore_status puts_(fore_trun *run, fore_buf *buf, const char *text) {
    return fore_tstr_append(run, buf, text, strlen(text));
}

static fore_status repr_str(fore_trun *run, fore_buf *buf, const fore_tstr *s) {
    FORE_TRY(fore_tspend(run, s->size * 16));
    bool single = s->size && memchr(s->data, '\'', s->size), twice = s->size && memchr(s->data, '"', s->size);
    char quote = single && !twice ? '"' : '\'', text[16];
    FORE_TRY(fore_tstr_append(run, buf, &quote, 1));
    for (size_t i = 0; i < s->size;) {
        uint32_t c;
        int k = fore_utf8_decode(s->data + i, s->size - i, &c);
        size_t n = (size_t)(k < 0 ? -k : k);
        int m = 0;
        if (c == (uint32_t)quote || c == '\\') {
            m = snprintf(text, sizeof text, "\\%c", (char)c);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            m = snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        } else if (!fore_tis_printable(c)) {
            m = snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        }
        FORE_TRY(fore_tstr_append(run, buf, m ? text : s->data + i, m ? (size_t)m : n));
        i += n;
    }
    return fore_tstr_append(run, buf, &quote, 1);
}

static fore_status repr(fore_trun *run, fore_buf *buf, fore_tval v, int depth);

static fore_status repr_items(fore_trun *run, fore_buf *buf, const fore_tval *items, size_t count, int depth) {
    for (size_t i = 0; i < count; i++) {
        if (i) FORE_TRY(puts_(run, buf, ", "));
        FORE_TRY(repr(run, buf, items[i], depth + 1));
    }
    return FORE_OK;
}

static fore_status repr_dict(fore_trun *run, fore_buf *buf, const fore_tdict *d, int depth) {
    FORE_TRY(puts_(run, buf, "{"));
    for (size_t i = 0; i < d->count; i++) {
        if (i) FORE_TRY(puts_(run, buf, ", "));
        FORE_TRY(repr(run, buf, d->pairs[i].key, depth + 1));
        FORE_TRY(puts_(run, buf, ": "));
        FORE_TRY(repr(run, buf, d->pairs[i].value, depth + 1));
    }
    return puts_(run, buf, "}");
}

static fore_status repr_view(fore_trun *run, fore_buf *buf, const fore_tview *view, int depth) {
    FORE_TRY(puts_(run, buf, view->kind == FORE_T_KEYS     ? "dict_keys(["
                             : view->kind == FORE_T_VALUES ? "dict_values(["
                                                           : "dict_items(["));
    for (size_t i = 0; i < view->dict->count; i++) {
        const fore_tpair *p = &view->dict->pairs[i];
        if (i) FORE_TRY(puts_(run, buf, ", "));
        if (view->kind == FORE_T_ITEMS) FORE_TRY(puts_(run, buf, "("));
        if (view->kind != FORE_T_VALUES) FORE_TRY(repr(run, buf, p->key, depth + 1));
        if (view->kind == FORE_T_ITEMS) FORE_TRY(puts_(run, buf, ", "));
        if (view->kind != FORE_T_KEYS) FORE_TRY(repr(run, buf, p->value, depth + 1));
        if (view->kind == FORE_T_ITEMS) FORE_TRY(puts_(run, buf, ")"));
    }
    return puts_(run, buf, "])");
}

static fore_status repr_scalar(fore_trun *run, fore_buf *buf, fore_tval v) {
    char text[96];
    int n = 0;
    switch (v.tag) {
    case FORE_T_NONE: return puts_(run, buf, "None");
    case FORE_T_BOOL: return puts_(run, buf, v.as.boolean ? "True" : "False");
    case FORE_T_INT: n = snprintf(text, sizeof text, "%lld", (long long)v.as.integer); break;
    case FORE_T_FLOAT: n = (int)fore_treal_repr(v.as.real, text); break;
    case FORE_T_BIG: return fore_tstr_append(run, buf, v.as.str->data, v.as.str->size);
    case FORE_T_UNDEFINED: return puts_(run, buf, "Undefined");
    case FORE_T_RANGE: {
        const fore_trange *r = v.as.range;
        n = r->step == 1 ? snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop)
                         : snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start,
                                    (long long)r->stop, (long long)r->step);
        break;
    }
    case FORE_T_FUNCTION: n = snprintf(text, sizeof text, "<function %.60s>", v.as.function->name); break;
    case FORE_T_METHOD: n = snprintf(text, sizeof text, "<built-in method %.60s>", v.as.method->name); break;
    case FORE_T_LOOP:
        n = snprintf(text, sizeof text, "<LoopContext %zu/%zu>", v.as.loop->position + 1, v.as.loop->count);
        break;
    default: n = snprintf(text, sizeof text, "<%s object>", fore_ttype_name(v)); break;
    }
    return fore_tstr_append(run, buf, text, (size_t)n);
}

static fore_status repr(fore_trun *run, fore_buf *buf, fore_tval v, int depth) {
    if (depth > FORE_T_MAX_NESTING) return fore_tlimit(run, "values are nested too deeply");
    FORE_TRY(fore_tspend(run, 0));
    switch (v.tag) {
    case FORE_T_STR:
        if (!v.as.str->markup) return repr_str(run, buf, v.as.str);
        FORE_TRY(puts_(run, buf, "Markup("));
        FORE_TRY(repr_str(run, buf, v.as.str));
        return puts_(run, buf, ")");
    case FORE_T_LIST:
        FORE_TRY(puts_(run, buf, "["));
        FORE_TRY(repr_items(run, buf, v.as.list->items, v.as.list->count, depth));
        return puts_(run, buf, "]");
    case FORE_T_TUPLE:
        FORE_TRY(puts_(run, buf, "("));
        FORE_TRY(repr_items(run, buf, v.as.list->items, v.as.list->count, depth));
        return puts_(run, buf, v.as.list->count == 1 ? ",)" : ")");
    case FORE_T_DICT: return repr_dict(run, buf, v.as.dict, depth);
    case FORE_T_VIEW: return repr_view(run, buf, v.as.view, depth);
    case FORE_T_NAMESPACE:
        FORE_TRY(puts_(run, buf, "<Namespace "));
        FORE_TRY(repr_dict(run, buf, v.as.names->dict, depth));
        return puts_(run, buf, ">");
    case FORE_T_MACRO: {
        const fore_tstr *name = v.as.macro->signature->name;
        FORE_TRY(puts_(run, buf, "<Macro "));
        FORE_TRY(name ? repr_str(run, buf, name) : puts_(run, buf, "anonymous"));
        return puts_(run, buf, ">");
    }
    default: return repr_scalar(run, buf, v);
    }
}

fore_status fore_tappend_repr(fore_trun *run, fore_buf *buf, fore_tval v) { return repr(run, buf, v, 0); }

fore_status fore_tappend_str(fore_trun *run, fore_buf *buf, fore_tval v) {
    if (v.tag == FORE_T_UNDEFINED) return FORE_OK;
    if (v.tag != FORE_T_STR) return repr(run, buf, v, 0);
    FORE_TRY(fore_tspend(run, v.as.str->size));
    return fore_tstr_append(run, buf, v.as.str->data, v.as.str->size);
}

fore_status fore_tstring(fore_trun *run, fore_tval v, fore_tval *out) {
    *out = v;
    if (v.tag == FORE_T_STR) return FORE_OK;
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = fore_tappend_str(run, &buf, v);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s;
}

/* ---- JSON ---- */

static fore_status json_str(fore_trun *run, fore_buf *buf, const char *data, size_t size, bool ascii) {
    FORE_TRY(fore_tspend(run, size * 2));
    FORE_TRY(puts_(run, buf, "\""));
    size_t from = 0; /* bytes that need no escape are copied in runs */
    for (size_t i = 0; i < size;) {
        unsigned char byte = (unsigned char)data[i];
        if (byte >= 32 && byte != '"' && byte != '\\' && (byte < 0x7f || !ascii)) {
            i++;
            continue;
        }
        uint32_t c;
        int k = fore_utf8_decode(data + i, size - i, &c);
        size_t n = (size_t)(k < 0 ? -k : k);
        char text[16];
        static const char escapes[] = "\bb\tt\nn\ff\rr\"\"\\\\";
        const char *found = NULL;
        for (const char *e = escapes; *e && !found; e += 2)
            if ((uint32_t)*e == c) found = e;
        if (found) {
            snprintf(text, sizeof text, "\\%c", found[1]);
        } else if (c >= 0x10000) {
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
        } else {
            snprintf(text, sizeof text, "\\u%04x", c);
        }
        FORE_TRY(fore_tstr_append(run, buf, data + from, i - from));
        FORE_TRY(puts_(run, buf, text));
        FORE_TRY(fore_tspend(run, 32));
        i += n;
        from = i;
    }
    FORE_TRY(fore_tstr_append(run, buf, data + from, size - from));
    return puts_(run, buf, "\"");
}

static fore_status json_scalar(fore_trun *run, fore_buf *buf, fore_tval v) {
    switch (v.tag) {
    case FORE_T_NONE: return puts_(run, buf, "null");
    case FORE_T_BOOL: return puts_(run, buf, v.as.boolean ? "true" : "false");
    case FORE_T_INT:
    case FORE_T_BIG: return repr_scalar(run, buf, v);
    case FORE_T_FLOAT:
        if (isnan(v.as.real)) return puts_(run, buf, "NaN");
        if (isinf(v.as.real)) return puts_(run, buf, v.as.real < 0 ? "-Infinity" : "Infinity");
        return repr_scalar(run, buf, v);
    default: return fore_traise(run, "Object of type %s is not JSON serializable", fore_ttype_name(v));
    }
}

static fore_status json_newline(fore_trun *run, fore_buf *buf, const fore_tjson_style *style, int depth) {
    if (!style->indented) return FORE_OK;
    FORE_TRY(puts_(run, buf, "\n"));
    for (int i = 0; i < depth; i++) FORE_TRY(fore_tstr_append(run, buf, style->indent, style->indent_size));
    return FORE_OK;
}

static fore_status json(fore_trun *run, fore_buf *buf, fore_tval v, const fore_tjson_style *style, int depth);

static fore_status json_key(fore_trun *run, fore_buf *buf, fore_tval key, const fore_tjson_style *style) {
    if (key.tag == FORE_T_STR) return json_str(run, buf, key.as.str->data, key.as.str->size, style->ensure_ascii);
    if (key.tag != FORE_T_NONE && key.tag != FORE_T_BIG && !fore_tis_number(key))
        return fore_traise(run, "keys must be str, int, float, bool or None, not %s", fore_ttype_name(key));
    FORE_TRY(puts_(run, buf, "\""));
    FORE_TRY(json_scalar(run, buf, key));
    return puts_(run, buf, "\"");
}

static fore_status json_dict(fore_trun *run, fore_buf *buf, const fore_tdict *d, const fore_tjson_style *style,
                             int depth) {
    if (!d->count) return puts_(run, buf, "{}");
    fore_tval *order = NULL; /* positions of the pairs, as INTs */
    if (style->sort_keys) {
        order = fore_trun_alloc(run, d->count, 2 * sizeof *order);
        if (!order) return fore_trun_error(run);
        for (size_t i = 0; i < d->count; i++) {
            order[i] = fore_tint((int64_t)i);
            order[d->count + i] = d->pairs[i].key;
        }
        FORE_TRY(fore_tsort(run, order, order + d->count, d->count, false));
    }
    FORE_TRY(puts_(run, buf, "{"));
    for (size_t i = 0; i < d->count; i++) {
        const fore_tpair *p = &d->pairs[order ? (size_t)order[i].as.integer : i];
        if (i) FORE_TRY(fore_tstr_append(run, buf, style->item, style->item_size));
        FORE_TRY(json_newline(run, buf, style, depth + 1));
        FORE_TRY(json_key(run, buf, p->key, style));
        FORE_TRY(fore_tstr_append(run, buf, style->key, style->key_size));
        FORE_TRY(json(run, buf, p->value, style, depth + 1));
    }
    FORE_TRY(json_newline(run, buf, style, depth));
    return puts_(run, buf, "}");
}

static fore_status json(fore_trun *run, fore_buf *buf, fore_tval v, const fore_tjson_style *style, int depth) {
    if (depth > FORE_T_MAX_NESTING) return fore_tlimit(run, "values are nested too deeply");
    FORE_TRY(fore_tspend(run, 0));
    if (v.tag == FORE_T_STR) return json_str(run, buf, v.as.str->data, v.as.str->size, style->ensure_ascii);
    if (v.tag == FORE_T_DICT) return json_dict(run, buf, v.as.dict, style, depth);
    if (v.tag != FORE_T_LIST && v.tag != FORE_T_TUPLE) return json_scalar(run, buf, v);
    if (!v.as.list->count) return puts_(run, buf, "[]");
    FORE_TRY(puts_(run, buf, "["));
    for (size_t i = 0; i < v.as.list->count; i++) {
        if (i) FORE_TRY(fore_tstr_append(run, buf, style->item, style->item_size));
        FORE_TRY(json_newline(run, buf, style, depth + 1));
        FORE_TRY(json(run, buf, v.as.list->items[i], style, depth + 1));
    }
    FORE_TRY(json_newline(run, buf, style, depth));
    return puts_(run, buf, "]");
}

fore_status fore_tappend_json(fore_trun *run, fore_buf *buf, fore_tval v, const fore_tjson_style *style) {
    return json(run, buf, v, style, 0);
}

/* ---- HTML ---- */

fore_status fore_tappend_escaped(fore_trun *run, fore_buf *buf, const char *data, size_t size) {
    FORE_TRY(fore_tspend(run, size * 8));
    for (size_t i = 0; i < size; i++) {
        const char *to = data[i] == '&'    ? "&amp;"
                         : data[i] == '<'  ? "&lt;"
                         : data[i] == '>'  ? "&gt;"
                         : data[i] == '"'  ? "&#34;"
                         : data[i] == '\'' ? "&#39;"
                                           : NULL;
        FORE_TRY(fore_tstr_append(run, buf, to ? to : data + i, to ? strlen(to) : 1));
    }
    return FORE_OK;
}

fore_status fore_tescape(fore_trun *run, fore_tval v, fore_tval *out) {
    *out = v;
    if (v.tag == FORE_T_STR && v.as.str->markup) return FORE_OK;
    fore_tval text;
    FORE_TRY(fore_tstring(run, v, &text));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = fore_tappend_escaped(run, &buf, text.as.str->data, text.as.str->size);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s ? s : fore_tstr_as_markup(run, *out, true, out);
}
