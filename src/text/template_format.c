/* Formatting: the % operator of strings and str.format, as Python has them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template_run.h"

/* What a conversion asks for. */
typedef struct spec {
    char fill[4];
    size_t fill_size;
    char align; /* '<', '>', '^', '=' or 0 */
    char sign;  /* '+', ' ' or 0 */
    bool alternate, zero, comma;
    char group; /* ',', '_' or 0 */
    int64_t width, precision; /* precision -1: none */
    char type;                /* 0: none */
} spec;

/* Text padded to the width. `sign_size` bytes at its start stay in front of '=' padding. */
static fore_status put_padded(fore_trun *run, fore_buf *buf, const char *text, size_t size, size_t sign_size,
                              const spec *f, char default_align) {
    size_t chars = 0;
    for (size_t i = 0; i < size; i++) chars += ((unsigned char)text[i] & 0xc0) != 0x80;
    if (f->width > (int64_t)FORE_T_MAX_OUTPUT / 4) return fore_tlimit(run, "a format is too wide");
    size_t more = f->width > (int64_t)chars ? (size_t)f->width - chars : 0;
    char align = f->align ? f->align : default_align;
    size_t left = align == '>' || align == '=' ? more : align == '^' ? more / 2 : 0;
    const char *fill = f->fill_size ? f->fill : " ";
    size_t fill_size = f->fill_size ? f->fill_size : 1;
    FORE_TRY(fore_tspend(run, more * 8 + size));
    if (align != '=') sign_size = 0;
    FORE_TRY(fore_tstr_append(run, buf, text, sign_size));
    for (size_t i = 0; i < left; i++) FORE_TRY(fore_tstr_append(run, buf, fill, fill_size));
    FORE_TRY(fore_tstr_append(run, buf, text + sign_size, size - sign_size));
    for (size_t i = left; i < more; i++) FORE_TRY(fore_tstr_append(run, buf, fill, fill_size));
    return FORE_OK;
}

/* Separators between groups of `every` digits of the whole part digits[0..size). */
static size_t grouped(const char *digits, size_t size, size_t every, char separator, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (i && (size - i) % every == 0) out[n++] = separator;
        out[n++] = digits[i];
    }
    return n;
}

static fore_status put_int(fore_trun *run, fore_buf *buf, int64_t v, const spec *f) {
    char digits[80], text[240];
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    unsigned base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    size_t n = 0, size = 0;
    do {
        digits[sizeof digits - 1 - n++] = (f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
        u /= base;
    } while (u);
    while ((int64_t)n < f->precision && n < 70) digits[sizeof digits - 1 - n++] = '0';
    if (v < 0) {
        text[size++] = '-';
    } else if (f->sign) {
        text[size++] = f->sign;
    }
    if (f->alternate && base != 10) {
        text[size++] = '0';
        text[size++] = f->type;
    }
    size_t sign = size;
    const char *start = digits + sizeof digits - n;
    if (f->group) {
        size += grouped(start, n, base == 10 ? 3 : 4, f->group, text + size);
    } else {
        memcpy(text + size, start, n);
        size += n;
    }
    return put_padded(run, buf, text, size, sign, f, '>');
}

static fore_status put_real(fore_trun *run, fore_buf *buf, double v, const spec *f) {
    char raw[800], text[1200], how[16];
    char type = f->type ? f->type : 'r';
    double scaled = type == '%' ? v * 100 : v;
    int64_t precision = f->precision;
    if (precision > 400) return fore_tlimit(run, "a format has too many digits");
    size_t n, size = 0;
    if (signbit(v) && !isnan(v)) {
        text[size++] = '-';
    } else if (f->sign) {
        text[size++] = f->sign;
    }
    size_t sign = size;
    if (isnan(v) || isinf(v)) {
        bool upper = type == 'E' || type == 'F' || type == 'G';
        memcpy(text + size, isnan(v) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf", 3);
        size += 3;
        return put_padded(run, buf, text, size, sign, f, '>');
    }
    if (type == 'r' && precision < 0) {
        n = fore_treal_repr(fabs(v), raw);
    } else {
        char c = type == 'r' || type == 'n' ? 'g' : type == '%' ? 'f' : type;
        if (precision < 0) precision = 6;
        snprintf(how, sizeof how, f->alternate ? "%%#.*%c" : "%%.*%c", c);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        n = (size_t)snprintf(raw, sizeof raw, how, (int)precision, fabs(scaled));
#pragma GCC diagnostic pop
        if (n >= sizeof raw) return fore_tlimit(run, "a format has too many digits");
    }
    size_t whole = 0; /* digits before the point, which the locale may have spelled in its own way */
    while (whole < n && raw[whole] >= '0' && raw[whole] <= '9') whole++;
    if (f->group) {
        size += grouped(raw, whole, 3, f->group, text + size);
    } else {
        memcpy(text + size, raw, whole);
        size += whole;
    }
    size_t i = whole;
    if (i < n && raw[i] != 'e' && raw[i] != 'E') {
        text[size++] = '.';
        while (i < n && !(raw[i] >= '0' && raw[i] <= '9') && raw[i] != 'e' && raw[i] != 'E') i++;
    }
    memcpy(text + size, raw + i, n - i);
    size += n - i;
    if (type == 'r' && precision >= 0 && !memchr(text, '.', size) && !memchr(text, 'e', size)) {
        text[size++] = '.';
        text[size++] = '0';
    }
    if (type == '%') text[size++] = '%';
    return put_padded(run, buf, text, size, sign, f, '>');
}

static fore_status put_text(fore_trun *run, fore_buf *buf, const fore_tstr *s, const spec *f) {
    size_t size = s->size;
    if (f->precision >= 0 && f->precision < (int64_t)s->chars) size = fore_tstr_offset(s, (size_t)f->precision);
    return put_padded(run, buf, s->data, size, 0, f, '<');
}

static fore_status repr_text(fore_trun *run, fore_tval v, fore_tval *out) {
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = fore_tappend_repr(run, &buf, v);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s;
}

/* ---- % ---- */

static size_t digits_at(const char *p, size_t left, int64_t *out) {
    size_t n = 0;
    *out = 0;
    for (; n < left && p[n] >= '0' && p[n] <= '9'; n++)
        if (*out < 1000000000) *out = *out * 10 + (p[n] - '0');
    return n;
}

typedef struct percent {
    const fore_tstr *format;
    size_t at;
    const fore_tval *args;
    size_t count, used;
    const fore_tdict *names; /* or NULL */
} percent;

static fore_status next_arg(fore_trun *run, percent *p, fore_tval *out) {
    if (p->used >= p->count) return fore_traise(run, "not enough arguments for format string");
    *out = p->args[p->used++];
    return FORE_OK;
}

static fore_status percent_number(fore_trun *run, percent *p, int64_t *out) {
    const fore_tstr *s = p->format;
    if (p->at < s->size && s->data[p->at] == '*') {
        fore_tval v;
        p->at++;
        FORE_TRY(next_arg(run, p, &v));
        return fore_targ_int(run, v, "*", 0, out);
    }
    p->at += digits_at(s->data + p->at, s->size - p->at, out);
    return FORE_OK;
}

static fore_status put_percent(fore_trun *run, fore_buf *buf, fore_tval v, spec *f, bool markup) {
    switch (f->type) {
    case 's':
    case 'r':
    case 'a':
        if (f->type != 's') {
            FORE_TRY(repr_text(run, v, &v));
            if (markup) FORE_TRY(fore_tescape(run, v, &v));
        } else {
            FORE_TRY(markup ? fore_tescape(run, v, &v) : fore_tstring(run, v, &v));
        }
        if (!f->align) f->align = '>';
        f->fill_size = 0;
        return put_text(run, buf, v.as.str, f);
    case 'c':
        if (v.tag == FORE_T_INT && v.as.integer >= 0 && v.as.integer <= 0x10ffff) {
            char utf8[4];
            int n = fore_utf8_encode((uint32_t)v.as.integer, utf8);
            FORE_TRY(fore_tstr_copy(run, utf8, (size_t)n, &v));
        }
        if (v.tag != FORE_T_STR || v.as.str->chars != 1) return fore_traise(run, "%%c requires int or char");
        if (!f->align) f->align = '>';
        return put_text(run, buf, v.as.str, f);
    case 'd':
    case 'i':
    case 'u':
        if (v.tag == FORE_T_FLOAT) FORE_TRY(fore_treal_to_int(run, v.as.real, &v));
        if (v.tag == FORE_T_BIG) return put_text(run, buf, v.as.str, f);
        f->type = 'd'; /* fall through */
    case 'x':
    case 'X':
    case 'o':
        if (!fore_tis_integral(v))
            return fore_traise(run, "%%%c format: an integer is required, not %s", f->type, fore_ttype_name(v));
        return put_int(run, buf, fore_tinteger(v), f);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (v.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, v.as.undefined);
        if (!fore_tis_number(v)) return fore_traise(run, "must be real number, not %s", fore_ttype_name(v));
        return put_real(run, buf, fore_tdouble(v), f);
    default: return fore_traise(run, "unsupported format character");
    }
}

static fore_status percent_one(fore_trun *run, percent *p, fore_buf *buf) {
    const fore_tstr *s = p->format;
    spec f = {.precision = -1};
    fore_tval v = {.tag = FORE_T_MISSING};
    bool minus = false;
    if (p->at < s->size && s->data[p->at] == '(') {
        size_t start = ++p->at, open = 1;
        for (; p->at < s->size; p->at++) {
            open += s->data[p->at] == '(';
            open -= s->data[p->at] == ')';
            if (!open) break;
        }
        if (p->at >= s->size) return fore_traise(run, "incomplete format key");
        if (!p->names) return fore_traise(run, "format requires a mapping");
        v = fore_tdict_text(p->names, s->data + start, p->at - start);
        if (v.tag == FORE_T_MISSING) return fore_traise(run, "KeyError in a format string");
        p->at++;
    }
    for (; p->at < s->size && s->data[p->at] && strchr("-+ #0", s->data[p->at]); p->at++) {
        char c = s->data[p->at];
        if (c == '-') minus = true;
        if (c == '+' || (c == ' ' && !f.sign)) f.sign = c;
        if (c == '#') f.alternate = true;
        if (c == '0') f.zero = true;
    }
    FORE_TRY(percent_number(run, p, &f.width));
    if (f.width < 0) {
        minus = true;
        f.width = f.width < -1000000000 ? 1000000000 : -f.width;
    }
    if (p->at < s->size && s->data[p->at] == '.') {
        p->at++;
        FORE_TRY(percent_number(run, p, &f.precision));
        if (f.precision < 0) f.precision = 0;
    }
    while (p->at < s->size && s->data[p->at] && strchr("hlL", s->data[p->at])) p->at++;
    if (p->at >= s->size) return fore_traise(run, "incomplete format");
    f.type = s->data[p->at++];
    if (f.type == '%') return fore_tstr_append(run, buf, "%", 1);
    if (minus) {
        f.align = '<';
    } else if (f.zero) {
        f.align = '=';
        f.fill[0] = '0';
        f.fill_size = 1;
    }
    if (v.tag == FORE_T_MISSING) FORE_TRY(next_arg(run, p, &v));
    return put_percent(run, buf, v, &f, s->markup);
}

static fore_status percent_into(fore_trun *run, percent *p, fore_buf *buf) {
    const fore_tstr *s = p->format;
    while (p->at < s->size) {
        const char *next = memchr(s->data + p->at, '%', s->size - p->at);
        size_t n = next ? (size_t)(next - s->data) - p->at : s->size - p->at;
        FORE_TRY(fore_tstr_append(run, buf, s->data + p->at, n));
        p->at += n + (next != NULL);
        if (next) FORE_TRY(percent_one(run, p, buf));
    }
    return FORE_OK;
}

fore_status fore_tformat_percent(fore_trun *run, fore_tval format, fore_tval args, fore_tval *out) {
    percent p = {.format = format.as.str, .args = &args, .count = 1};
    if (args.tag == FORE_T_TUPLE) {
        p.args = args.as.list->items;
        p.count = args.as.list->count;
    }
    if (args.tag == FORE_T_DICT) p.names = args.as.dict;
    FORE_TRY(fore_tspend(run, format.as.str->size));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = percent_into(run, &p, &buf);
    /* Python only complains about what is left over when it is a tuple or cannot be indexed. */
    bool may_be_left = args.tag == FORE_T_DICT || args.tag == FORE_T_LIST || args.tag == FORE_T_UNDEFINED ||
                       args.tag == FORE_T_RANGE;
    if (!s && p.used < p.count && !may_be_left)
        s = fore_traise(run, "not all arguments converted during string formatting");
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s ? s : fore_tstr_as_markup(run, *out, format.as.str->markup, out);
}

/* ---- str.format ---- */

static fore_status read_spec(fore_trun *run, const char *p, size_t size, spec *f) {
    *f = (spec){.precision = -1};
    size_t i = 0;
    if (size) {
        uint32_t c;
        int n = fore_utf8_decode(p, size, &c);
        if (n > 0 && (size_t)n < size && strchr("<>^=", p[n]) && p[n]) {
            memcpy(f->fill, p, (size_t)n);
            f->fill_size = (size_t)n;
            i = (size_t)n;
        }
        if (i < size && p[i] && strchr("<>^=", p[i])) f->align = p[i++];
    }
    if (i < size && (p[i] == '+' || p[i] == '-' || p[i] == ' ')) {
        f->sign = p[i] == '-' ? 0 : p[i];
        i++;
    }
    if (i < size && p[i] == '#') f->alternate = true, i++;
    if (i < size && p[i] == '0') {
        f->zero = true;
        i++;
        if (!f->fill_size) {
            f->fill[0] = '0';
            f->fill_size = 1;
        }
    }
    i += digits_at(p + i, size - i, &f->width);
    if (i < size && (p[i] == ',' || p[i] == '_')) f->group = p[i++];
    if (i < size && p[i] == '.') {
        size_t n = digits_at(p + i + 1, size - i - 1, &f->precision);
        if (!n) return fore_traise(run, "Format specifier missing precision");
        i += n + 1;
    }
    if (i < size) f->type = p[i++];
    return i == size ? FORE_OK : fore_traise(run, "Invalid format specifier");
}

static fore_status put_value(fore_trun *run, fore_buf *buf, fore_tval v, const char *text, size_t size, bool markup) {
    spec f;
    if (markup && !fore_tis_number(v)) FORE_TRY(fore_tescape(run, v, &v));
    if (!size) return fore_tappend_str(run, buf, v);
    FORE_TRY(read_spec(run, text, size, &f));
    if (v.tag == FORE_T_STR) {
        if (f.sign || f.group || f.alternate || f.align == '=' || (f.type && f.type != 's'))
            return fore_traise(run, "a format specifier is not allowed for a string");
        return put_text(run, buf, v.as.str, &f);
    }
    if (v.tag == FORE_T_BOOL && (!f.type || f.type == 's')) {
        if (f.type == 's') return fore_traise(run, "Unknown format code 's' for object of type 'bool'");
        v = fore_tint(v.as.boolean);
    }
    if (f.zero && !f.align) f.align = '=';
    if (fore_tis_integral(v) && (!f.type || strchr("bdoxXn", f.type))) {
        if (f.precision >= 0) return fore_traise(run, "Precision not allowed in integer format specifier");
        return put_int(run, buf, fore_tinteger(v), &f);
    }
    if (fore_tis_integral(v) && f.type == 'c') {
        if (fore_tinteger(v) < 0 || fore_tinteger(v) > 0x10ffff) return fore_traise(run, "%%c arg not in range(0x110000)");
        char utf8[4];
        int n = fore_utf8_encode((uint32_t)fore_tinteger(v), utf8);
        return put_padded(run, buf, utf8, (size_t)n, 0, &f, '<');
    }
    if (fore_tis_number(v) && (!f.type || strchr("eEfFgGn%", f.type))) return put_real(run, buf, fore_tdouble(v), &f);
    if (fore_tis_number(v)) return fore_traise(run, "Unknown format code for object of type '%s'", fore_ttype_name(v));
    return fore_traise(run, "unsupported format string passed to %s.__format__", fore_ttype_name(v));
}

/* Where a field's name comes from: "", "0" or "name", then .attribute and [key]. */
static fore_status field_value(fore_trun *run, const fore_tcall *call, const char *p, size_t size, int64_t *automatic,
                               fore_tval *out) {
    size_t n = 0;
    while (n < size && p[n] != '.' && p[n] != '[') n++;
    int64_t index;
    size_t digits = digits_at(p, n, &index);
    if (!n) {
        if (*automatic < 0)
            return fore_traise(run, "cannot switch from manual field specification to automatic field numbering");
        index = (*automatic)++;
    } else if (digits == n) {
        if (*automatic > 0)
            return fore_traise(run, "cannot switch from automatic field numbering to manual field specification");
        *automatic = -1;
    }
    if (digits == n) {
        if (index >= (int64_t)call->count)
            return fore_traise(run, "Replacement index %lld out of range for positional args tuple", (long long)index);
        *out = call->args[index];
    } else {
        *out = (fore_tval){.tag = FORE_T_MISSING};
        for (size_t i = 0; i < call->keyword_count; i++)
            if (call->keywords[i].name->size == n && memcmp(call->keywords[i].name->data, p, n) == 0)
                *out = call->keywords[i].value;
        if (out->tag == FORE_T_MISSING) return fore_traise(run, "KeyError in a format string: '%.*s'", (int)(n & 127), p);
    }
    while (n < size) {
        fore_tval name;
        size_t start = n + 1, end = start;
        bool item = p[n] == '[';
        while (end < size && (item ? p[end] != ']' : p[end] != '.' && p[end] != '[')) end++;
        if (item && end >= size) return fore_traise(run, "Missing ']' in format string");
        if (end == start) return fore_traise(run, "Empty attribute in format string");
        FORE_TRY(fore_tstr_copy(run, p + start, end - start, &name));
        if (item && digits_at(p + start, end - start, &index) == end - start) name = fore_tint(index);
        FORE_TRY(item ? fore_tgetitem(run, *out, name, out) : fore_tgetattr(run, *out, name, out));
        n = end + item;
    }
    return FORE_OK;
}

static fore_status braces_into(fore_trun *run, const fore_tstr *s, const fore_tcall *call, fore_buf *buf) {
    int64_t automatic = 0;
    for (size_t i = 0; i < s->size; i++) {
        char c = s->data[i];
        if (c != '{' && c != '}') {
            FORE_TRY(fore_tstr_append(run, buf, &c, 1));
            continue;
        }
        if (i + 1 < s->size && s->data[i + 1] == c) {
            FORE_TRY(fore_tstr_append(run, buf, &c, 1));
            i++;
            continue;
        }
        if (c == '}') return fore_traise(run, "Single '}' encountered in format string");
        size_t end = i + 1, name_end;
        while (end < s->size && s->data[end] != '}' && s->data[end] != '{') end++;
        if (end >= s->size) return fore_traise(run, "expected '}' before end of string");
        if (s->data[end] == '{') return fore_traise(run, "nested fields in a format string are not supported");
        const char *p = s->data + i + 1;
        size_t size = end - i - 1;
        for (name_end = 0; name_end < size && p[name_end] != '!' && p[name_end] != ':';) name_end++;
        fore_tval v;
        FORE_TRY(field_value(run, call, p, name_end, &automatic, &v));
        size_t at = name_end;
        if (at < size && p[at] == '!') {
            char how = at + 1 < size ? p[at + 1] : 0;
            if (how == 's') {
                FORE_TRY(fore_tstring(run, v, &v));
            } else if (how == 'r') {
                FORE_TRY(repr_text(run, v, &v));
            } else {
                return fore_traise(run, "unknown conversion in a format string");
            }
            at += 2;
            if (at < size && p[at] != ':') return fore_traise(run, "expected ':' after conversion specifier");
        }
        if (at < size) at++;
        FORE_TRY(put_value(run, buf, v, p + at, size - at, s->markup));
        i = end;
    }
    return FORE_OK;
}

fore_status fore_tformat_braces(fore_trun *run, fore_tval format, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tspend(run, format.as.str->size * 8));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = braces_into(run, format.as.str, call, &buf);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s ? s : fore_tstr_as_markup(run, *out, format.as.str->markup, out);
}
