/* Filters that make or change text, and those on single values. The lookup of filters by name is here too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template_run.h"

typedef fore_status filter(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out);

/* soft_str(v), then a method of it. */
static fore_status by_method(fore_trun *run, fore_tval v, const char *name, const fore_tcall *call, fore_tval *out) {
    fore_tstr key = {.data = name, .size = strlen(name)};
    FORE_TRY(fore_tstring(run, v, &v));
    return fore_tstr_method(&key)(run, v, call, out);
}

static filter f_upper, f_lower, f_capitalize, f_trim;
static fore_status f_upper(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    return by_method(run, v, "upper", call, out);
}
static fore_status f_lower(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    return by_method(run, v, "lower", call, out);
}
static fore_status f_capitalize(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    return by_method(run, v, "capitalize", call, out);
}
static fore_status f_trim(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval chars;
    FORE_TRY(fore_tbind(run, call, "trim", "chars?", &chars));
    return by_method(run, v, "strip", &(fore_tcall){.args = &chars, .count = chars.tag != FORE_T_MISSING}, out);
}

static fore_status f_center(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval width;
    FORE_TRY(fore_tbind(run, call, "center", "width?", &width));
    if (width.tag == FORE_T_MISSING) width = fore_tint(80);
    return by_method(run, v, "center", &(fore_tcall){.args = &width, .count = 1}, out);
}

static fore_status f_string(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "string", "", NULL));
    return fore_tstring(run, v, out);
}

static fore_status f_safe(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "safe", "", NULL));
    FORE_TRY(fore_tstring(run, v, out));
    return fore_tstr_as_markup(run, *out, true, out);
}

static fore_status f_escape(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "escape", "", NULL));
    return fore_tescape(run, v, out);
}

static fore_status f_forceescape(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "forceescape", "", NULL));
    FORE_TRY(fore_tstring(run, v, &v));
    FORE_TRY(fore_tstr_as_markup(run, v, false, &v));
    return fore_tescape(run, v, out);
}

static fore_status f_replace(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[3];
    FORE_TRY(fore_tbind(run, call, "replace", "old new count?", args));
    for (int i = -1; i < 2; i++) { /* str() of all three: no longer Markup */
        fore_tval *s = i < 0 ? &v : &args[i];
        FORE_TRY(fore_tstring(run, *s, s));
        FORE_TRY(fore_tstr_as_markup(run, *s, false, s));
    }
    size_t count = args[2].tag == FORE_T_MISSING || args[2].tag == FORE_T_NONE ? 2 : 3;
    return by_method(run, v, "replace", &(fore_tcall){.args = args, .count = count}, out);
}

static bool begins_word(uint32_t c) { return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || fore_tis_space(c); }

static fore_status f_title(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "title", "", NULL));
    FORE_TRY(fore_tstring(run, v, &v));
    const fore_tstr *s = v.as.str;
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status status = fore_tspend(run, s->size * 8);
    for (size_t i = 0; !status && i < s->size;) {
        size_t end = i, first = 0; /* a run of separators, or a word */
        uint32_t c;
        bool separators = false;
        while (end < s->size) {
            int n = fore_utf8_decode(s->data + end, s->size - end, &c);
            if (end == i) separators = begins_word(c);
            if (begins_word(c) != separators) break;
            end += (size_t)(n < 0 ? -n : n);
            if (!first) first = end - i;
        }
        if (separators) {
            status = fore_tstr_append(run, &buf, s->data + i, end - i);
        } else {
            fore_tval head = {0}, tail = {0};
            fore_tstr a = {.data = s->data + i, .size = first}, b = {.data = s->data + i + first, .size = end - i - first};
            status = fore_tcase_of(run, &a, FORE_CASE_UPPER, &head);
            if (!status) status = fore_tcase_of(run, &b, FORE_CASE_LOWER, &tail);
            if (!status) status = fore_tappend_str(run, &buf, head);
            if (!status) status = fore_tappend_str(run, &buf, tail);
        }
        i = end;
    }
    if (!status) status = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return status;
}

static fore_status indent_into(fore_trun *run, const fore_tstr *s, const fore_tstr *by, bool first, bool blank,
                               fore_buf *buf) {
    if (first) FORE_TRY(fore_tstr_append(run, buf, by->data, by->size));
    for (size_t i = 0, line = 0; i <= s->size; line++) {
        size_t end = i, skip = 1; /* the text ends in one more "\n" than s has */
        while (end < s->size) {
            uint32_t c;
            int n = fore_utf8_decode(s->data + end, s->size - end, &c);
            skip = (size_t)(n < 0 ? -n : n);
            if (fore_tis_line_end(c)) {
                if (c == '\r' && end + 1 < s->size && s->data[end + 1] == '\n') skip = 2;
                if (c == '\r' && end + 1 == s->size) skip = 2; /* joined by the "\n" that is added */
                break;
            }
            end += skip;
        }
        if (line) FORE_TRY(fore_tstr_append(run, buf, "\n", 1));
        if (line && (end > i || blank)) FORE_TRY(fore_tstr_append(run, buf, by->data, by->size));
        FORE_TRY(fore_tstr_append(run, buf, s->data + i, end - i));
        FORE_TRY(fore_tspend(run, by->size));
        if (end >= s->size) break;
        i = end + skip;
    }
    return FORE_OK;
}

static fore_status f_indent(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[3];
    FORE_TRY(fore_tbind(run, call, "indent", "width? first? blank?", args));
    if (v.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, v.as.undefined);
    if (v.tag != FORE_T_STR) return fore_traise(run, "indent(): expected a string, not %s", fore_ttype_name(v));
    if (args[0].tag != FORE_T_STR) {
        int64_t width;
        fore_tval space;
        FORE_TRY(fore_targ_int(run, args[0], "indent", 4, &width));
        FORE_TRY(fore_tstr_view(run, " ", 1, &space));
        FORE_TRY(fore_tarith(run, FORE_OP_MUL, space, fore_tint(width), &args[0]));
    }
    FORE_TRY(fore_tspend(run, v.as.str->size * 8));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = indent_into(run, v.as.str, args[0].as.str, fore_ttrue(args[1]), fore_ttrue(args[2]), &buf);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s ? s : fore_tstr_as_markup(run, *out, v.as.str->markup, out);
}

static fore_status f_truncate(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[4], head;
    int64_t length, leeway = 5;
    FORE_TRY(fore_tbind(run, call, "truncate", "length? killwords? end? leeway?", args));
    FORE_TRY(fore_targ_int(run, args[0], "truncate", 255, &length));
    if (args[2].tag == FORE_T_MISSING) FORE_TRY(fore_tstr_view(run, "...", 3, &args[2]));
    const fore_tstr *end;
    FORE_TRY(fore_targ_str(run, args[2], "truncate", &end));
    if (args[3].tag != FORE_T_NONE) FORE_TRY(fore_targ_int(run, args[3], "truncate", 5, &leeway));
    if (length < (int64_t)end->chars || leeway < 0) return fore_traise(run, "truncate(): length or leeway is too small");
    size_t size;
    FORE_TRY(fore_tlength(run, v, &size));
    if ((int64_t)size <= length || (int64_t)size - length <= leeway) {
        *out = v;
        return FORE_OK;
    }
    if (v.tag != FORE_T_STR) return fore_traise(run, "truncate(): expected a string, not %s", fore_ttype_name(v));
    FORE_TRY(fore_tstr_sub(run, v.as.str, 0, (size_t)(length - (int64_t)end->chars), &head));
    if (!fore_ttrue(args[1]) && head.as.str->size) { /* without the last word, unless it is the only one */
        const char *space = memrchr(head.as.str->data, ' ', head.as.str->size);
        if (space) {
            bool markup = head.as.str->markup;
            FORE_TRY(fore_tstr_view(run, head.as.str->data, (size_t)(space - head.as.str->data), &head));
            FORE_TRY(fore_tstr_as_markup(run, head, markup, &head));
        }
    }
    return fore_tarith(run, FORE_OP_ADD, head, args[2], out);
}

static fore_status f_wordcount(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "wordcount", "", NULL));
    FORE_TRY(fore_tstring(run, v, &v));
    FORE_TRY(fore_tspend(run, v.as.str->size * 8));
    int64_t count = 0;
    bool inside = false;
    for (size_t i = 0; i < v.as.str->size;) {
        uint32_t c;
        int n = fore_utf8_decode(v.as.str->data + i, v.as.str->size - i, &c);
        bool word = fore_tis_word(c);
        count += word && !inside;
        inside = word;
        i += (size_t)(n < 0 ? -n : n);
    }
    *out = fore_tint(count);
    return FORE_OK;
}

static fore_status f_format(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args;
    if (call->count && call->keyword_count)
        return fore_traise(run, "can't handle positional and keyword arguments at the same time");
    if (call->keyword_count) {
        fore_tdict *dict;
        FORE_TRY(fore_tdict_new(run, &dict));
        for (size_t i = 0; i < call->keyword_count; i++)
            FORE_TRY(fore_tdict_set(run, dict, (fore_tval){.tag = FORE_T_STR, .as.str = call->keywords[i].name},
                                    call->keywords[i].value));
        args = (fore_tval){.tag = FORE_T_DICT, .as.dict = dict};
    } else {
        FORE_TRY(fore_tlist_wrap(run, FORE_T_TUPLE, (fore_tval *)call->args, call->count, &args));
    }
    FORE_TRY(fore_tstring(run, v, &v));
    return fore_tformat_percent(run, v, args, out);
}

static fore_status json_options(fore_trun *run, const fore_tval *args, fore_tjson_style *style) {
    *style = (fore_tjson_style){.ensure_ascii = fore_ttrue(args[0]), .sort_keys = fore_ttrue(args[3]), .item = ", ",
                                .item_size = 2, .key = ": ", .key_size = 2, .indent = ""};
    fore_tval indent = args[1], separators = args[2];
    if (indent.tag != FORE_T_MISSING && indent.tag != FORE_T_NONE) {
        style->indented = true;
        style->item_size = 1;
        if (indent.tag != FORE_T_STR) {
            int64_t width;
            fore_tval space;
            FORE_TRY(fore_targ_int(run, indent, "tojson", 0, &width));
            if (width > 1000) return fore_tlimit(run, "an indent is too wide");
            FORE_TRY(fore_tstr_view(run, " ", 1, &space));
            FORE_TRY(fore_tarith(run, FORE_OP_MUL, space, fore_tint(width), &indent));
        }
        style->indent = indent.as.str->data;
        style->indent_size = indent.as.str->size;
    }
    if (separators.tag != FORE_T_MISSING && separators.tag != FORE_T_NONE) {
        fore_tlist pair;
        const fore_tstr *item, *key;
        FORE_TRY(fore_tlist_from(run, separators, &pair));
        if (pair.count != 2) return fore_traise(run, "tojson: separators must be a pair");
        FORE_TRY(fore_targ_str(run, pair.items[0], "tojson", &item));
        FORE_TRY(fore_targ_str(run, pair.items[1], "tojson", &key));
        style->item = item->data;
        style->item_size = item->size;
        style->key = key->data;
        style->key_size = key->size;
    }
    return FORE_OK;
}

static fore_status f_tojson(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[4];
    fore_tjson_style style;
    FORE_TRY(fore_tbind(run, call, "tojson", "ensure_ascii? indent? separators? sort_keys?", args));
    FORE_TRY(json_options(run, args, &style));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = fore_tappend_json(run, &buf, v, &style);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s;
}

static fore_status urlquote(fore_trun *run, fore_buf *buf, fore_tval v, bool query) {
    fore_tval text;
    FORE_TRY(fore_tstring(run, v, &text));
    FORE_TRY(fore_tspend(run, text.as.str->size * 16));
    for (size_t i = 0; i < text.as.str->size; i++) {
        unsigned char c = (unsigned char)text.as.str->data[i];
        char out[4] = {(char)c};
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("_.-~", c)) ||
                     (c == '/' && !query);
        if (query && c == ' ') {
            out[0] = '+';
        } else if (!plain) {
            snprintf(out, sizeof out, "%%%02X", c);
        }
        FORE_TRY(fore_tstr_append(run, buf, out, plain || out[0] == '+' ? 1 : 3));
    }
    return FORE_OK;
}

static fore_status urlencode_into(fore_trun *run, fore_tval v, fore_buf *buf) {
    if (v.tag == FORE_T_STR || !fore_tis_iterable(v)) return urlquote(run, buf, v, false);
    fore_tlist items, pair;
    if (v.tag == FORE_T_DICT) {
        fore_tview view = {.kind = FORE_T_ITEMS, .dict = v.as.dict};
        FORE_TRY(fore_tlist_from(run, (fore_tval){.tag = FORE_T_VIEW, .as.view = &view}, &items));
    } else {
        FORE_TRY(fore_tlist_from(run, v, &items));
    }
    for (size_t i = 0; i < items.count; i++) {
        FORE_TRY(fore_tlist_from(run, items.items[i], &pair));
        if (pair.count != 2) return fore_traise(run, "urlencode(): expected pairs");
        if (i) FORE_TRY(fore_tstr_append(run, buf, "&", 1));
        FORE_TRY(urlquote(run, buf, pair.items[0], true));
        FORE_TRY(fore_tstr_append(run, buf, "=", 1));
        FORE_TRY(urlquote(run, buf, pair.items[1], true));
    }
    return FORE_OK;
}

static fore_status f_urlencode(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "urlencode", "", NULL));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = urlencode_into(run, v, &buf);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s;
}

static fore_status f_filesizeformat(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    static const char *const units[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                            {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    fore_tval binary;
    double bytes;
    FORE_TRY(fore_tbind(run, call, "filesizeformat", "binary?", &binary));
    if (v.tag == FORE_T_STR ? !fore_treal_read(v.as.str->data, v.as.str->size, &bytes) : !fore_tis_number(v))
        return fore_traise(run, "could not convert to float");
    if (v.tag != FORE_T_STR) bytes = fore_tdouble(v);
    double base = fore_ttrue(binary) ? 1024 : 1000, unit = base;
    char text[64];
    if (bytes == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (bytes < base) {
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    } else {
        int i = 0;
        for (unit *= base; i < 7 && bytes >= unit; i++) unit *= base;
        double tenths = fore_tround(base * bytes / unit, 1);
        if (!(tenths < 1e15)) return fore_traise(run, "filesizeformat(): the number is too large");
        long long whole = (long long)tenths;
        snprintf(text, sizeof text, "%lld.%d %s", whole, (int)lround((tenths - (double)whole) * 10), units[base == 1024][i]);
    }
    return fore_tstr_copy(run, text, strlen(text), out);
}

/* Tags and comments out, white space runs to one space, the five entities that escape makes back to characters. */
static fore_status striptags_into(fore_trun *run, const fore_tstr *s, fore_buf *buf) {
    static const char *const entities[][2] = {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&#34;", "\""},
                                              {"&#39;", "'"}, {"&quot;", "\""}};
    bool space = false;
    for (size_t i = 0; i < s->size;) {
        const char *p = s->data + i, *end = NULL;
        size_t left = s->size - i;
        if (left >= 4 && memcmp(p, "<!--", 4) == 0 && (end = memmem(p, left, "-->", 3))) {
            i = (size_t)(end - s->data) + 3;
            continue;
        }
        if (*p == '<' && (end = memchr(p, '>', left))) {
            i = (size_t)(end - s->data) + 1;
            continue;
        }
        if (*p == '<') FORE_TRY(fore_tspend(run, left));
        uint32_t c;
        int n = fore_utf8_decode(p, left, &c);
        if (fore_tis_space(c)) {
            space = true;
            i += (size_t)n;
            continue;
        }
        if (space && buf->size) FORE_TRY(fore_tstr_append(run, buf, " ", 1));
        space = false;
        size_t e = 0, count = sizeof entities / sizeof entities[0];
        while (e < count && !(strlen(entities[e][0]) <= left && memcmp(p, entities[e][0], strlen(entities[e][0])) == 0)) e++;
        FORE_TRY(fore_tstr_append(run, buf, e < count ? entities[e][1] : p, e < count ? 1 : (size_t)(n < 0 ? -n : n)));
        i += e < count ? strlen(entities[e][0]) : (size_t)(n < 0 ? -n : n);
    }
    return FORE_OK;
}

static fore_status f_striptags(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "striptags", "", NULL));
    FORE_TRY(fore_tstring(run, v, &v));
    FORE_TRY(fore_tspend(run, v.as.str->size * 8));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = striptags_into(run, v.as.str, &buf);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s;
}

/* ---- numbers and single values ---- */

static fore_status f_default(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[2];
    FORE_TRY(fore_tbind(run, call, "default", "default_value? boolean?", args));
    *out = v;
    if (v.tag != FORE_T_UNDEFINED && !(fore_ttrue(args[1]) && !fore_ttrue(v))) return FORE_OK;
    *out = args[0];
    return args[0].tag == FORE_T_MISSING ? fore_tstr_view(run, "", 0, out) : FORE_OK;
}

static fore_status f_int(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[2];
    int64_t base, i;
    bool big = false;
    double real;
    FORE_TRY(fore_tbind(run, call, "int", "default? base?", args));
    FORE_TRY(fore_targ_int(run, args[1], "int", 10, &base));
    *out = args[0].tag == FORE_T_MISSING ? fore_tint(0) : args[0];
    if (v.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, v.as.undefined);
    if (v.tag == FORE_T_BIG) *out = v;
    if (fore_tis_integral(v)) *out = fore_tint(fore_tinteger(v));
    if (v.tag == FORE_T_FLOAT && !isnan(v.as.real)) return fore_treal_to_int(run, v.as.real, out);
    if (v.tag != FORE_T_STR) return FORE_OK;
    if (fore_tint_parse(v.as.str->data, v.as.str->size, base, &i, &big)) {
        if (big) return fore_tlimit(run, "integers beyond 64 bits can be printed, not computed with");
        *out = fore_tint(i);
    } else if (fore_treal_read(v.as.str->data, v.as.str->size, &real) && isfinite(real)) {
        return fore_treal_to_int(run, real, out);
    }
    return FORE_OK;
}

static fore_status f_float(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval fallback;
    double real;
    FORE_TRY(fore_tbind(run, call, "float", "default?", &fallback));
    *out = fallback.tag == FORE_T_MISSING ? fore_treal(0) : fallback;
    if (v.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, v.as.undefined);
    if (fore_tis_number(v)) *out = fore_treal(fore_tdouble(v));
    if (v.tag == FORE_T_BIG) *out = fore_treal(fore_treal_parse(v.as.str->data, v.as.str->size));
    if (v.tag == FORE_T_STR && fore_treal_read(v.as.str->data, v.as.str->size, &real)) *out = fore_treal(real);
    return FORE_OK;
}

static fore_status f_abs(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "abs", "", NULL));
    if (v.tag == FORE_T_BIG) { /* without its sign */
        bool negative = v.as.str->data[0] == '-';
        FORE_TRY(fore_tstr_view(run, v.as.str->data + negative, v.as.str->size - negative, out));
        out->tag = FORE_T_BIG;
        return FORE_OK;
    }
    if (!fore_tis_number(v)) return fore_traise(run, "bad operand type for abs(): '%s'", fore_ttype_name(v));
    return fore_tnegate(run, v, v.tag == FORE_T_FLOAT ? signbit(v.as.real) != 0 : fore_tinteger(v) < 0, out);
}

static fore_status round_int(fore_trun *run, int64_t v, int64_t digits, fore_tval *out) {
    *out = fore_tint(v);
    if (digits >= 0) return FORE_OK;
    int64_t unit = 1;
    for (; digits < 0 && unit <= INT64_MAX / 10; digits++) unit *= 10;
    if (digits < 0) {
        *out = fore_tint(0);
        return FORE_OK;
    }
    int64_t rest = v % unit, low = v - rest;
    if (rest < 0) {
        rest += unit;
        low -= unit;
    }
    bool up = rest > unit - rest || (rest == unit - rest && (low / unit) % 2 != 0);
    if (up && __builtin_add_overflow(low, unit, &low)) return fore_tlimit(run, "a number is beyond 64 bits");
    *out = fore_tint(low);
    return FORE_OK;
}

static fore_status f_round(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[2];
    int64_t digits;
    FORE_TRY(fore_tbind(run, call, "round", "precision? method?", args));
    FORE_TRY(fore_targ_int(run, args[0], "round", 0, &digits));
    bool ceil_ = fore_tis_text(args[1], "ceil"), floor_ = fore_tis_text(args[1], "floor");
    if (!ceil_ && !floor_ && args[1].tag != FORE_T_MISSING && !fore_tis_text(args[1], "common"))
        return fore_traise(run, "method must be common, ceil or floor");
    if (!fore_tis_number(v)) return fore_traise(run, "type %s doesn't define __round__ method", fore_ttype_name(v));
    if (!ceil_ && !floor_) {
        if (fore_tis_integral(v)) return round_int(run, fore_tinteger(v), digits, out);
        *out = fore_treal(fore_tround(v.as.real, digits));
        return FORE_OK;
    }
    double unit = pow(10, (double)digits), scaled = fore_tdouble(v) * unit;
    if (!isfinite(scaled)) return fore_traise(run, "cannot convert float infinity or NaN to integer");
    *out = fore_treal((ceil_ ? ceil(scaled) : floor(scaled)) / unit);
    return FORE_OK;
}

static fore_status f_attr(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval name;
    const fore_tstr *text;
    FORE_TRY(fore_tbind(run, call, "attr", "name", &name));
    FORE_TRY(fore_targ_str(run, name, "attr", &text));
    if (v.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, v.as.undefined);
    FORE_TRY(fore_tattribute(run, v, text, out));
    return out->tag == FORE_T_MISSING ? fore_tundefined_of(run, v, name, out) : FORE_OK;
}

static fore_status f_unsupported(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    (void)v, (void)call, (void)out;
    return fore_fail(run->err, FORE_ERR_UNSUPPORTED, "template line %d: this filter is not supported in chat templates",
                     run->line);
}

const fore_tfilter fore_tfilters_text[] = {
    {"trim", f_trim},
    {"tojson", f_tojson},
    {"string", f_string},
    {"safe", f_safe},
    {"default", f_default},
    {"d", f_default},
    {"upper", f_upper},
    {"lower", f_lower},
    {"title", f_title},
    {"capitalize", f_capitalize},
    {"replace", f_replace},
    {"indent", f_indent},
    {"int", f_int},
    {"float", f_float},
    {"round", f_round},
    {"abs", f_abs},
    {"escape", f_escape},
    {"e", f_escape},
    {"forceescape", f_forceescape},
    {"format", f_format},
    {"truncate", f_truncate},
    {"wordcount", f_wordcount},
    {"center", f_center},
    {"attr", f_attr},
    {"urlencode", f_urlencode},
    {"filesizeformat", f_filesizeformat},
    {"striptags", f_striptags},
    {"random", f_unsupported},
    {"pprint", f_unsupported},
    {"urlize", f_unsupported},
    {"wordwrap", f_unsupported},
    {"xmlattr", f_unsupported},
    {NULL, NULL},
};

const fore_tfilter *fore_tfilter_find(const char *name, size_t size) {
    const fore_tfilter *const tables[] = {fore_tfilters_text, fore_tfilters_sequence, fore_tfilters_select};
    for (size_t t = 0; t < 3; t++)
        for (const fore_tfilter *f = tables[t]; f->name; f++)
            if (strlen(f->name) == size && memcmp(f->name, name, size) == 0) return f;
    return NULL;
}
