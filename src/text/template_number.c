/* Numbers of the template engine: Python's arithmetic, and reading and writing numbers whatever the locale is. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template_value.h"

static const char *const op_names[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

/* The decimal point is dropped and the exponent adjusted, since strtod takes its point from the locale. */
double fore_treal_parse(const char *text, size_t size) {
    char small[128], *buf = size + 32 > sizeof small ? malloc(size + 32) : small;
    if (!buf) return 0; /* longer than any number that a model's input has; the caller's next allocation fails too */
    size_t n = 0;
    long exponent = 0, shift = 0;
    bool point = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '.') {
            point = true;
        } else if (c == 'e' || c == 'E') {
            char digits[24];
            size_t left = size - i - 1 < sizeof digits - 1 ? size - i - 1 : sizeof digits - 1;
            memcpy(digits, text + i + 1, left);
            digits[left] = 0;
            exponent = strtol(digits, NULL, 10);
            if (exponent > 1000000) exponent = 1000000;
            if (exponent < -1000000) exponent = -1000000;
            break;
        } else {
            buf[n++] = c;
            if (point) shift++;
        }
    }
    snprintf(buf + n, 32, "e%ld", exponent - shift);
    double v = strtod(buf, NULL);
    if (buf != small) free(buf);
    return v;
}

/* Shortest digits that read back to v, with the exponent of the first; digits has no point. */
static int shortest(double v, char digits[20], int *exponent) {
    char text[40];
    /* Up to 15 digits always read back, except for denormal numbers, which have fewer. */
    for (int precision = fabs(v) < 2.3e-308 ? 0 : 14; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, v);
        int n = 0;
        const char *p = text;
        for (; *p && *p != 'e'; p++)
            if (*p >= '0' && *p <= '9') digits[n++] = *p;
        *exponent = atoi(p + 1);
        digits[n] = 0;
        char back[40];
        int m = snprintf(back, sizeof back, "%se%d", digits, *exponent - precision);
        if (precision == 16 || fore_treal_parse(back, (size_t)m) == v) {
            while (n > 1 && digits[n - 1] == '0') digits[--n] = 0;
            return n;
        }
    }
    return 0;
}

size_t fore_treal_repr(double v, char out[32]) {
    if (isnan(v)) return (size_t)snprintf(out, 32, "nan");
    if (isinf(v)) return (size_t)snprintf(out, 32, v < 0 ? "-inf" : "inf");
    size_t n = 0;
    if (signbit(v)) out[n++] = '-';
    char digits[20];
    int exponent, count = shortest(fabs(v), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        out[n++] = digits[0];
        if (count > 1) {
            out[n++] = '.';
            memcpy(out + n, digits + 1, (size_t)count - 1);
            n += (size_t)count - 1;
        }
        return n + (size_t)snprintf(out + n, 32 - n, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (exponent < 0) {
        out[n++] = '0';
        out[n++] = '.';
        for (int i = -1; i > exponent; i--) out[n++] = '0';
        memcpy(out + n, digits, (size_t)count);
        n += (size_t)count;
    } else {
        for (int i = 0; i <= exponent; i++) out[n++] = i < count ? digits[i] : '0';
        out[n++] = '.';
        if (count <= exponent + 1) out[n++] = '0';
        for (int i = exponent + 1; i < count; i++) out[n++] = digits[i];
    }
    out[n] = 0;
    return n;
}

fore_status fore_tnumber(fore_trun *run, const char *text, size_t size, fore_tval *out) {
    bool real = false;
    for (size_t i = 0; i < size; i++) real |= text[i] == '.' || text[i] == 'e' || text[i] == 'E';
    if (real) {
        *out = fore_treal(fore_treal_parse(text, size));
        return FORE_OK;
    }
    int64_t i;
    bool big = false;
    if (!fore_tint_parse(text, size, 10, &i, &big)) return fore_traise(run, "not a number");
    if (!big) {
        *out = fore_tint(i);
        return FORE_OK;
    }
    bool negative = text[0] == '-';
    size_t from = negative || text[0] == '+';
    while (from + 1 < size && text[from] == '0') from++;
    if (negative) from--; /* JSON has no leading zeros, so that the sign is right before the digits */
    FORE_TRY(fore_tstr_copy(run, text + from, size - from, out));
    out->tag = FORE_T_BIG;
    return FORE_OK;
}

/* White space and a sign at the ends, as int() and float() allow. */
static void trim(const char **text, size_t *size) { fore_tstrip(text, size, NULL, true, true); }

bool fore_tint_parse(const char *text, size_t size, int64_t base, int64_t *out, bool *big) {
    trim(&text, &size);
    *big = false;
    if (base != 0 && (base < 2 || base > 36)) return false;
    bool negative = size && *text == '-';
    if (size && (*text == '-' || *text == '+')) text++, size--;
    bool prefixed = false;
    if (size > 1 && text[0] == '0') {
        char p = (char)(text[1] | 32);
        int64_t of = p == 'x' ? 16 : p == 'o' ? 8 : p == 'b' ? 2 : 0;
        if (of && (base == 0 || base == of)) {
            base = of;
            text += 2;
            size -= 2;
            prefixed = true;
            if (size && *text == '_') text++, size--;
        }
    }
    bool strict_zero = base == 0; /* 012 is no number when the base is to be found out */
    if (base == 0) base = 10;
    if (!size || text[size - 1] == '_' || *text == '_') return false;
    uint64_t v = 0, limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    bool nonzero = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '_') {
            if (text[i + 1] == '_') return false;
            continue;
        }
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
        if (d >= base) return false;
        nonzero |= d != 0;
        if (*big || v > (limit - (uint64_t)d) / (uint64_t)base) {
            *big = true;
        } else {
            v = v * (uint64_t)base + (uint64_t)d;
        }
    }
    if (strict_zero && !prefixed && nonzero && text[0] == '0') return false;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

static bool word(const char *text, size_t size, const char *name) {
    return size == strlen(name) && strncasecmp(text, name, size) == 0;
}

bool fore_treal_read(const char *text, size_t size, double *out) {
    trim(&text, &size);
    bool negative = size && *text == '-';
    if (size && (*text == '-' || *text == '+')) text++, size--;
    if (word(text, size, "inf") || word(text, size, "infinity")) {
        *out = negative ? -HUGE_VAL : HUGE_VAL;
        return true;
    }
    if (word(text, size, "nan")) {
        *out = (double)NAN;
        return true;
    }
    char clean[400];
    size_t n = 0;
    bool digits = false, point = false, exponent = false, after = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9') {
            if (exponent) {
                after = true;
            } else {
                digits = true;
            }
        } else if (c == '_') {
            bool left = i && text[i - 1] >= '0' && text[i - 1] <= '9';
            bool right = i + 1 < size && text[i + 1] >= '0' && text[i + 1] <= '9';
            if (!left || !right) return false;
            continue;
        } else if (c == '.' && !point && !exponent) {
            point = true;
        } else if ((c == 'e' || c == 'E') && digits && !exponent) {
            exponent = true;
            if (i + 1 < size && (text[i + 1] == '-' || text[i + 1] == '+')) {
                if (n + 2 >= sizeof clean) return false;
                clean[n++] = c;
                c = text[++i];
            }
        } else {
            return false;
        }
        if (n + 1 >= sizeof clean) return false;
        clean[n++] = c;
    }
    if (!digits || (exponent && !after)) return false;
    *out = fore_treal_parse(clean, n);
    if (negative) *out = -*out;
    return true;
}

/* round() works on the exact decimal expansion, halves to even, as printf does. */
double fore_tround(double v, int64_t digits) {
    if (!isfinite(v) || digits > 320) return v;
    if (digits < -308) return 0 * v;
    if (digits >= 0) {
        char text[700], clean[700];
        snprintf(text, sizeof text, "%.*f", (int)digits, v);
        size_t n = 0;
        for (const char *p = text; *p; p++) clean[n++] = (*p >= '0' && *p <= '9') || *p == '-' ? *p : '.';
        return fore_treal_parse(clean, n);
    }
    /* Digits before the point: let %e round at the right place. */
    char text[700];
    int exponent = v == 0 ? 0 : (int)floor(log10(fabs(v)));
    char probe[40];
    snprintf(probe, sizeof probe, "%.16e", v);
    const char *e = strchr(probe, 'e');
    if (e) exponent = atoi(e + 1);
    int64_t keep = exponent + digits;
    if (keep < -1) return copysign(0.0, v);
    if (keep == -1) {
        double unit = pow(10, (double)-digits);
        return fabs(v) > unit / 2 ? copysign(unit, v) : copysign(0.0, v);
    }
    snprintf(text, sizeof text, "%.*e", (int)keep, v);
    char clean[700];
    size_t n = 0;
    for (const char *p = text; *p; p++)
        clean[n++] = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e' ? *p : '.';
    return fore_treal_parse(clean, n);
}

fore_status fore_treal_to_int(fore_trun *run, double v, fore_tval *out) {
    if (isnan(v)) return fore_traise(run, "cannot convert float NaN to integer");
    if (isinf(v)) return fore_traise(run, "cannot convert float infinity to integer");
    if (v >= 9223372036854775808.0 || v < -9223372036854775808.0)
        return fore_tlimit(run, "integers beyond 64 bits can be printed, not computed with");
    *out = fore_tint((int64_t)v);
    return FORE_OK;
}

static fore_status overflow(fore_trun *run) {
    return fore_tlimit(run, "integers beyond 64 bits can be printed, not computed with");
}

static fore_status int_power(fore_trun *run, int64_t a, int64_t b, fore_tval *out) {
    if (b < 0) {
        if (a == 0) return fore_traise(run, "0.0 cannot be raised to a negative power");
        *out = fore_treal(pow((double)a, (double)b));
        return FORE_OK;
    }
    int64_t result = 1, base = a;
    while (b) {
        if ((b & 1) && __builtin_mul_overflow(result, base, &result)) return overflow(run);
        b >>= 1;
        if (b && __builtin_mul_overflow(base, base, &base)) return overflow(run);
    }
    *out = fore_tint(result);
    return FORE_OK;
}

static fore_status int_arith(fore_trun *run, fore_top op, int64_t a, int64_t b, fore_tval *out) {
    int64_t r = 0;
    bool over = false;
    switch (op) {
    case FORE_OP_ADD: over = __builtin_add_overflow(a, b, &r); break;
    case FORE_OP_SUB: over = __builtin_sub_overflow(a, b, &r); break;
    case FORE_OP_MUL: over = __builtin_mul_overflow(a, b, &r); break;
    case FORE_OP_DIV:
        if (b == 0) return fore_traise(run, "division by zero");
        *out = fore_treal((double)a / (double)b);
        return FORE_OK;
    case FORE_OP_FLOORDIV:
    case FORE_OP_MOD:
        if (b == 0) return fore_traise(run, "integer division or modulo by zero");
        if (b == -1) { /* INT64_MIN / -1 overflows */
            if (op == FORE_OP_FLOORDIV) over = __builtin_sub_overflow((int64_t)0, a, &r);
            break;
        }
        r = a / b;
        if (a % b != 0 && (a < 0) != (b < 0)) r--;
        if (op == FORE_OP_MOD) r = a - r * b;
        break;
    case FORE_OP_POW: return int_power(run, a, b, out);
    }
    if (over) return overflow(run);
    *out = fore_tint(r);
    return FORE_OK;
}

static fore_status real_arith(fore_trun *run, fore_top op, double a, double b, fore_tval *out) {
    double r = 0;
    switch (op) {
    case FORE_OP_ADD: r = a + b; break;
    case FORE_OP_SUB: r = a - b; break;
    case FORE_OP_MUL: r = a * b; break;
    case FORE_OP_DIV:
        if (b == 0) return fore_traise(run, "float division by zero");
        r = a / b;
        break;
    case FORE_OP_FLOORDIV:
    case FORE_OP_MOD: {
        if (b == 0) return fore_traise(run, "float floor division by zero");
        double m = fmod(a, b), d = (a - m) / b;
        if (m != 0) {
            if ((b < 0) != (m < 0)) {
                m += b;
                d -= 1;
            }
        } else {
            m = copysign(0.0, b);
        }
        double f = d != 0 ? floor(d) : copysign(0.0, a / b);
        if (d != 0 && d - f > 0.5) f += 1;
        r = op == FORE_OP_MOD ? m : f;
        break;
    }
    case FORE_OP_POW:
        if (a == 0 && b < 0) return fore_traise(run, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(b) && b != floor(b)) return fore_traise(run, "complex numbers are not supported");
        r = pow(a, b);
        if (isinf(r) && isfinite(a) && isfinite(b)) return fore_traise(run, "(34, 'Numerical result out of range')");
        break;
    }
    *out = fore_treal(r);
    return FORE_OK;
}

static fore_status repeat(fore_trun *run, fore_tval v, int64_t times, fore_tval *out) {
    if (times < 0) times = 0;
    size_t n = (size_t)times;
    if (v.tag == FORE_T_STR) {
        const fore_tstr *s = v.as.str;
        if (!s->size) n = 0;
        if (s->size && n > FORE_T_MAX_OUTPUT / s->size) return fore_tlimit(run, "a string is too long");
        FORE_TRY(fore_tspend(run, n * s->size));
        char *p = fore_trun_alloc(run, n * s->size + 1, 1);
        if (!p) return fore_trun_error(run);
        for (size_t i = 0; i < n; i++) memcpy(p + i * s->size, s->data, s->size);
        FORE_TRY(fore_tstr_view(run, p, n * s->size, out));
        return s->markup ? fore_tstr_as_markup(run, *out, true, out) : FORE_OK;
    }
    const fore_tlist *list = v.as.list;
    if (!list->count) n = 0;
    if (list->count && n > FORE_T_MAX_OUTPUT / 16 / list->count) return fore_tlimit(run, "a list is too long");
    FORE_TRY(fore_tspend(run, n * list->count * sizeof(fore_tval)));
    FORE_TRY(fore_tlist_new(run, v.tag, n * list->count, out));
    for (size_t i = 0; i < n; i++)
        memcpy(out->as.list->items + i * list->count, list->items, list->count * sizeof(fore_tval));
    return FORE_OK;
}

static fore_status add_text(fore_trun *run, fore_tval a, fore_tval b, fore_tval *out) {
    bool markup = a.as.str->markup || b.as.str->markup;
    if (markup && !a.as.str->markup) FORE_TRY(fore_tescape(run, a, &a));
    if (markup && !b.as.str->markup) FORE_TRY(fore_tescape(run, b, &b));
    FORE_TRY(fore_tstr_concat(run, a.as.str, b.as.str, out));
    return markup ? fore_tstr_as_markup(run, *out, true, out) : FORE_OK;
}

static fore_status add_lists(fore_trun *run, fore_tval a, fore_tval b, fore_tval *out) {
    FORE_TRY(fore_tlist_new(run, a.tag, a.as.list->count + b.as.list->count, out));
    fore_tval *items = out->as.list->items;
    if (a.as.list->count) memcpy(items, a.as.list->items, a.as.list->count * sizeof *items);
    if (b.as.list->count) memcpy(items + a.as.list->count, b.as.list->items, b.as.list->count * sizeof *items);
    return FORE_OK;
}

static bool repeatable(fore_tval v) { return v.tag == FORE_T_STR || v.tag == FORE_T_LIST || v.tag == FORE_T_TUPLE; }

fore_status fore_tarith(fore_trun *run, fore_top op, fore_tval a, fore_tval b, fore_tval *out) {
    if (fore_tis_integral(a) && fore_tis_integral(b)) return int_arith(run, op, fore_tinteger(a), fore_tinteger(b), out);
    if (fore_tis_number(a) && fore_tis_number(b)) return real_arith(run, op, fore_tdouble(a), fore_tdouble(b), out);
    if (op == FORE_OP_MOD && a.tag == FORE_T_STR) return fore_tformat_percent(run, a, b, out);
    if (a.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, a.as.undefined);
    if (b.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, b.as.undefined);
    if (op == FORE_OP_ADD && a.tag == b.tag) {
        if (a.tag == FORE_T_STR) return add_text(run, a, b, out);
        if (a.tag == FORE_T_LIST || a.tag == FORE_T_TUPLE) return add_lists(run, a, b, out);
    }
    if (op == FORE_OP_MUL && repeatable(a) && fore_tis_integral(b)) return repeat(run, a, fore_tinteger(b), out);
    if (op == FORE_OP_MUL && repeatable(b) && fore_tis_integral(a)) return repeat(run, b, fore_tinteger(a), out);
    if (a.tag == FORE_T_BIG || b.tag == FORE_T_BIG) return overflow(run);
    if (op == FORE_OP_ADD && (a.tag == FORE_T_STR || a.tag == FORE_T_LIST || a.tag == FORE_T_TUPLE))
        return fore_traise(run, "can only concatenate %s (not \"%s\") to %s", fore_ttype_name(a), fore_ttype_name(b),
                           fore_ttype_name(a));
    return fore_traise(run, "unsupported operand type(s) for %s: '%s' and '%s'", op_names[op], fore_ttype_name(a),
                       fore_ttype_name(b));
}

fore_status fore_tnegate(fore_trun *run, fore_tval v, bool negative, fore_tval *out) {
    if (v.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, v.as.undefined);
    if (v.tag == FORE_T_FLOAT) {
        *out = fore_treal(negative ? -v.as.real : v.as.real);
        return FORE_OK;
    }
    if (!fore_tis_integral(v))
        return fore_traise(run, "bad operand type for unary %c: '%s'", negative ? '-' : '+', fore_ttype_name(v));
    int64_t i = fore_tinteger(v);
    if (negative && i == INT64_MIN) return overflow(run);
    *out = fore_tint(negative ? -i : i);
    return FORE_OK;
}
