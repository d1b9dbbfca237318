/* The methods of strings: Python's str, on code points. Results keep the class of the string (Markup). */
#include <limits.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template_run.h"

typedef fore_status method(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out);

static fore_status none(fore_trun *run, const fore_tcall *call, const char *name) {
    return fore_tbind(run, call, name, "", NULL);
}

static size_t chars_in(const char *data, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += ((unsigned char)data[i] & 0xc0) != 0x80;
    return n;
}

/* A piece of self (bytes from..from+size), of its class. */
static fore_status piece(fore_trun *run, fore_tval self, const char *data, size_t size, fore_tval *out) {
    FORE_TRY(fore_tstr_view(run, data, size, out));
    return fore_tstr_as_markup(run, *out, self.as.str->markup, out);
}

/* ---- case ---- */
#define CASE_METHOD(name, how)                                                                          \
    static fore_status str_##name(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) { \
        FORE_TRY(none(run, call, #name));                                                               \
        return fore_tcase_of(run, self.as.str, how, out);                                               \
    }
CASE_METHOD(upper, FORE_CASE_UPPER)
CASE_METHOD(lower, FORE_CASE_LOWER)
CASE_METHOD(title, FORE_CASE_TITLE)
CASE_METHOD(capitalize, FORE_CASE_CAPITALIZE)
CASE_METHOD(swapcase, FORE_CASE_SWAP)
CASE_METHOD(casefold, FORE_CASE_FOLD)

/* ---- tests of all characters ---- */
static fore_status all_chars(fore_trun *run, fore_tval self, const fore_tcall *call, const char *name,
                             bool (*is)(uint32_t), bool empty, fore_tval *out) {
    FORE_TRY(none(run, call, name));
    const fore_tstr *s = self.as.str;
    FORE_TRY(fore_tspend(run, s->size * 8));
    bool yes = s->size ? true : empty;
    for (size_t i = 0; yes && i < s->size;) {
        uint32_t c;
        int n = fore_utf8_decode(s->data + i, s->size - i, &c);
        yes = is(c);
        i += (size_t)(n < 0 ? -n : n);
    }
    *out = fore_tbool(yes);
    return FORE_OK;
}
static bool is_alnum(uint32_t c) { return fore_tis_alpha(c) || fore_tis_numeric(c); }
static bool is_ascii(uint32_t c) { return c < 0x80; }
#define ALL_METHOD(name, is, empty)                                                                     \
    static fore_status str_##name(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) { \
        return all_chars(run, self, call, #name, is, empty, out);                                       \
    }
ALL_METHOD(isdigit, fore_tis_digit, false)
ALL_METHOD(isdecimal, fore_tis_decimal, false)
ALL_METHOD(isnumeric, fore_tis_numeric, false)
ALL_METHOD(isalpha, fore_tis_alpha, false)
ALL_METHOD(isalnum, is_alnum, false)
ALL_METHOD(isspace, fore_tis_space, false)
ALL_METHOD(isprintable, fore_tis_printable, true)
ALL_METHOD(isascii, is_ascii, true)

static fore_status str_isidentifier(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(all_chars(run, self, call, "isidentifier", fore_tis_word, false, out));
    uint32_t first = 0;
    if (self.as.str->size) fore_utf8_decode(self.as.str->data, self.as.str->size, &first);
    if (first != '_' && !fore_tis_alpha(first)) *out = fore_tbool(false);
    return FORE_OK;
}

/* isupper and islower: at least one cased letter, and none of the other case. */
static fore_status one_case(fore_trun *run, fore_tval self, const fore_tcall *call, bool upper, fore_tval *out) {
    FORE_TRY(none(run, call, upper ? "isupper" : "islower"));
    const fore_tstr *s = self.as.str;
    FORE_TRY(fore_tspend(run, s->size * 8));
    bool seen = false, other = false;
    for (size_t i = 0; i < s->size && !other;) {
        uint32_t c;
        int n = fore_utf8_decode(s->data + i, s->size - i, &c);
        bool up = fore_tis_upper(c), low = fore_tis_lower(c);
        seen |= upper ? up : low;
        other |= (upper ? low : up) || fore_tis_title(c);
        i += (size_t)(n < 0 ? -n : n);
    }
    *out = fore_tbool(seen && !other);
    return FORE_OK;
}
static method str_isupper, str_islower, str_istitle;
static fore_status str_isupper(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return one_case(run, self, call, true, out);
}
static fore_status str_islower(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return one_case(run, self, call, false, out);
}
static fore_status str_istitle(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(none(run, call, "istitle"));
    const fore_tstr *s = self.as.str;
    FORE_TRY(fore_tspend(run, s->size * 8));
    bool inside = false, seen = false, good = true;
    for (size_t i = 0; i < s->size && good;) {
        uint32_t c;
        int n = fore_utf8_decode(s->data + i, s->size - i, &c);
        bool up = fore_tis_upper(c) || fore_tis_title(c), low = fore_tis_lower(c);
        if ((up && inside) || (low && !inside)) good = false;
        inside = up || low;
        seen |= inside;
        i += (size_t)(n < 0 ? -n : n);
    }
    *out = fore_tbool(good && seen);
    return FORE_OK;
}

/* ---- strip, prefixes ---- */
static fore_status strip(fore_trun *run, fore_tval self, const fore_tcall *call, bool left, bool right, fore_tval *out) {
    fore_tval chars;
    FORE_TRY(fore_tbind(run, call, "strip", "/chars?", &chars));
    if (chars.tag != FORE_T_MISSING && chars.tag != FORE_T_NONE && chars.tag != FORE_T_STR)
        return fore_traise(run, "strip arg must be None or str");
    const char *p = self.as.str->data;
    size_t n = self.as.str->size;
    if (chars.tag == FORE_T_STR) {
        FORE_TRY(fore_tspend(run, chars.as.str->size));
        /* A character beyond ASCII is searched for in all of the set. */
        if (chars.as.str->chars != chars.as.str->size) FORE_TRY(fore_tspend(run, (n - self.as.str->chars) * chars.as.str->size));
    }
    fore_tstrip(&p, &n, chars.tag == FORE_T_STR ? chars.as.str : NULL, left, right);
    FORE_TRY(fore_tspend(run, self.as.str->size - n));
    return piece(run, self, p, n, out);
}
static fore_status str_strip(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return strip(run, self, call, true, true, out);
}
static fore_status str_lstrip(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return strip(run, self, call, true, false, out);
}
static fore_status str_rstrip(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return strip(run, self, call, false, true, out);
}

static bool ends(const char *data, size_t size, const fore_tstr *with, bool at_end) {
    return with->size <= size && memcmp(data + (at_end ? size - with->size : 0), with->data, with->size) == 0;
}

static fore_status remove_end(fore_trun *run, fore_tval self, const fore_tcall *call, bool at_end, fore_tval *out) {
    fore_tval arg;
    const fore_tstr *with;
    FORE_TRY(fore_tbind(run, call, at_end ? "removesuffix" : "removeprefix", "/text", &arg));
    FORE_TRY(fore_targ_str(run, arg, at_end ? "removesuffix" : "removeprefix", &with));
    const fore_tstr *s = self.as.str;
    size_t cut = ends(s->data, s->size, with, at_end) ? with->size : 0;
    return piece(run, self, s->data + (at_end ? 0 : cut), s->size - cut, out);
}
static fore_status str_removeprefix(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return remove_end(run, self, call, false, out);
}
static fore_status str_removesuffix(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return remove_end(run, self, call, true, out);
}

/* The part of s that optional start and end arguments choose; false when start lies behind the end. */
static fore_status bounds(fore_trun *run, const fore_tstr *s, fore_tval start, fore_tval end, size_t *from, size_t *to,
                          bool *valid) {
    int64_t a = 0, b = INT64_MAX, length = (int64_t)s->chars;
    if (start.tag != FORE_T_NONE) FORE_TRY(fore_targ_int(run, start, "str", 0, &a));
    if (end.tag != FORE_T_NONE) FORE_TRY(fore_targ_int(run, end, "str", INT64_MAX, &b));
    if (a < 0) a = a < -length ? 0 : a + length;
    if (b < 0) b = b < -length ? 0 : b + length;
    if (b > length) b = length;
    *valid = a <= b;
    *from = *valid ? fore_tstr_offset(s, (size_t)a) : 0;
    *to = *valid ? fore_tstr_offset(s, (size_t)b) : 0;
    return fore_tspend(run, s->chars == s->size ? 0 : s->size);
}

static fore_status starts_or_ends(fore_trun *run, fore_tval self, const fore_tcall *call, bool at_end, fore_tval *out) {
    const char *name = at_end ? "endswith" : "startswith";
    fore_tval args[3];
    size_t from, to;
    bool valid, yes = false;
    FORE_TRY(fore_tbind(run, call, name, "/prefix start? end?", args));
    FORE_TRY(bounds(run, self.as.str, args[1], args[2], &from, &to, &valid));
    const char *data = self.as.str->data + from;
    if (args[0].tag == FORE_T_TUPLE) {
        for (size_t i = 0; i < args[0].as.list->count && !yes; i++) {
            if (args[0].as.list->items[i].tag != FORE_T_STR)
                return fore_traise(run, "tuple for %s must only contain str", name);
            yes = valid && ends(data, to - from, args[0].as.list->items[i].as.str, at_end);
        }
    } else if (args[0].tag == FORE_T_STR) {
        yes = valid && ends(data, to - from, args[0].as.str, at_end);
    } else {
        return fore_traise(run, "%s first arg must be str or a tuple of str, not %s", name, fore_ttype_name(args[0]));
    }
    *out = fore_tbool(yes);
    return FORE_OK;
}
static fore_status str_startswith(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return starts_or_ends(run, self, call, false, out);
}
static fore_status str_endswith(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return starts_or_ends(run, self, call, true, out);
}

/* ---- searching ---- */

/* First or last place of part in data, or NULL; pays for the work of it. */
static fore_status search(fore_trun *run, const char *data, size_t size, const fore_tstr *part, bool last,
                          const char **hit) {
    *hit = NULL;
    if (part->size > size) return FORE_OK;
    if (!part->size) {
        *hit = last ? data + size : data;
        return FORE_OK;
    }
    if (!last) {
        *hit = memmem(data, size, part->data, part->size);
        return fore_tspend(run, *hit ? (size_t)(*hit - data) : size);
    }
    size_t work = 0;
    for (const char *p = data + size - part->size + 1; p > data;) {
        const char *next = memrchr(data, part->data[0], (size_t)(p - data));
        if (!next) break;
        size_t same = 0;
        while (same < part->size && next[same] == part->data[same]) same++;
        work += same + (size_t)(p - next);
        if (work > 65536) {
            FORE_TRY(fore_tspend(run, work));
            work = 0;
        }
        p = next;
        if (same < part->size) continue;
        *hit = p;
        break;
    }
    return fore_tspend(run, work);
}

static fore_status find(fore_trun *run, fore_tval self, const fore_tcall *call, bool last, bool raises, fore_tval *out) {
    const char *name = last ? (raises ? "rindex" : "rfind") : (raises ? "index" : "find");
    fore_tval args[3];
    const fore_tstr *s = self.as.str, *part;
    size_t from, to;
    bool valid;
    FORE_TRY(fore_tbind(run, call, name, "/sub start? end?", args));
    FORE_TRY(fore_targ_str(run, args[0], name, &part));
    FORE_TRY(bounds(run, s, args[1], args[2], &from, &to, &valid));
    const char *p = NULL;
    if (valid) FORE_TRY(search(run, s->data + from, to - from, part, last, &p));
    if (!p && raises) return fore_traise(run, "substring not found");
    *out = fore_tint(p ? (int64_t)chars_in(s->data, (size_t)(p - s->data)) : -1);
    return FORE_OK;
}
static fore_status str_find(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return find(run, self, call, false, false, out);
}
static fore_status str_rfind(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return find(run, self, call, true, false, out);
}
static fore_status str_index(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return find(run, self, call, false, true, out);
}
static fore_status str_rindex(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return find(run, self, call, true, true, out);
}

static fore_status str_count(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tval args[3];
    const fore_tstr *s = self.as.str, *part;
    size_t from, to;
    bool valid;
    FORE_TRY(fore_tbind(run, call, "count", "/sub start? end?", args));
    FORE_TRY(fore_targ_str(run, args[0], "count", &part));
    FORE_TRY(bounds(run, s, args[1], args[2], &from, &to, &valid));
    FORE_TRY(fore_tspend(run, to - from));
    int64_t n = 0;
    if (valid && !part->size) {
        n = (int64_t)chars_in(s->data + from, to - from) + 1;
    } else if (valid) {
        const char *p = s->data + from, *end = s->data + to, *hit;
        while ((hit = memmem(p, (size_t)(end - p), part->data, part->size))) {
            n++;
            p = hit + part->size;
        }
    }
    *out = fore_tint(n);
    return FORE_OK;
}

/* ---- splitting and joining ---- */

static void reverse(fore_tval *items, size_t count) {
    for (size_t i = 0; i < count / 2; i++) {
        fore_tval t = items[i];
        items[i] = items[count - 1 - i];
        items[count - 1 - i] = t;
    }
}

static fore_status split_spaces(fore_trun *run, fore_tval self, int64_t max, bool from_right, fore_tvec *parts) {
    const char *p = self.as.str->data;
    size_t n = self.as.str->size;
    fore_tval v;
    for (;;) {
        fore_tstrip(&p, &n, NULL, !from_right, from_right);
        if (!n) return FORE_OK;
        if (max >= 0 && (int64_t)parts->count == max) {
            FORE_TRY(piece(run, self, p, n, &v));
            return fore_tvec_push(run, parts, v);
        }
        size_t word = 0; /* bytes of the word at this end */
        while (word < n) {
            uint32_t c;
            size_t k = 1;
            if (from_right) {
                while (k < 4 && k < n - word && ((unsigned char)p[n - word - k] & 0xc0) == 0x80) k++;
                fore_utf8_decode(p + n - word - k, k, &c);
            } else {
                int d = fore_utf8_decode(p + word, n - word, &c);
                k = (size_t)(d < 0 ? -d : d);
            }
            if (fore_tis_space(c)) break;
            word += k;
        }
        FORE_TRY(piece(run, self, from_right ? p + n - word : p, word, &v));
        FORE_TRY(fore_tvec_push(run, parts, v));
        if (!from_right) p += word;
        n -= word;
    }
}

static fore_status split(fore_trun *run, fore_tval self, const fore_tcall *call, bool from_right, fore_tval *out) {
    fore_tval args[2];
    int64_t max;
    FORE_TRY(fore_tbind(run, call, from_right ? "rsplit" : "split", "sep? maxsplit?", args));
    FORE_TRY(fore_targ_int(run, args[1], "split", -1, &max));
    const fore_tstr *s = self.as.str;
    FORE_TRY(fore_tspend(run, s->size * 8));
    fore_tvec parts = {0};
    if (args[0].tag == FORE_T_MISSING || args[0].tag == FORE_T_NONE) {
        FORE_TRY(split_spaces(run, self, max, from_right, &parts));
    } else {
        const fore_tstr *sep;
        FORE_TRY(fore_targ_str(run, args[0], "split", &sep));
        if (!sep->size) return fore_traise(run, "empty separator");
        const char *p = s->data, *end = s->data + s->size, *hit;
        fore_tval v;
        while (max < 0 || (int64_t)parts.count < max) {
            FORE_TRY(search(run, p, (size_t)(end - p), sep, from_right, &hit));
            if (!hit) break;
            const char *from = from_right ? hit + sep->size : p;
            FORE_TRY(piece(run, self, from, (size_t)((from_right ? end : hit) - from), &v));
            FORE_TRY(fore_tvec_push(run, &parts, v));
            if (from_right) {
                end = hit;
            } else {
                p = hit + sep->size;
            }
        }
        FORE_TRY(piece(run, self, p, (size_t)(end - p), &v));
        FORE_TRY(fore_tvec_push(run, &parts, v));
    }
    if (from_right) reverse(parts.items, parts.count);
    return fore_tlist_wrap(run, FORE_T_LIST, parts.items, parts.count, out);
}
static fore_status str_split(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return split(run, self, call, false, out);
}
static fore_status str_rsplit(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return split(run, self, call, true, out);
}

static fore_status str_splitlines(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tval keep, v;
    FORE_TRY(fore_tbind(run, call, "splitlines", "keepends?", &keep));
    const fore_tstr *s = self.as.str;
    FORE_TRY(fore_tspend(run, s->size * 8));
    fore_tvec parts = {0};
    size_t start = 0;
    for (size_t i = 0; i < s->size;) {
        uint32_t c;
        int d = fore_utf8_decode(s->data + i, s->size - i, &c);
        size_t n = (size_t)(d < 0 ? -d : d);
        if (fore_tis_line_end(c)) {
            if (c == '\r' && i + 1 < s->size && s->data[i + 1] == '\n') n = 2;
            FORE_TRY(piece(run, self, s->data + start, i - start + (fore_ttrue(keep) ? n : 0), &v));
            FORE_TRY(fore_tvec_push(run, &parts, v));
            start = i + n;
        }
        i += n;
    }
    if (start < s->size) {
        FORE_TRY(piece(run, self, s->data + start, s->size - start, &v));
        FORE_TRY(fore_tvec_push(run, &parts, v));
    }
    return fore_tlist_wrap(run, FORE_T_LIST, parts.items, parts.count, out);
}

static fore_status partition(fore_trun *run, fore_tval self, const fore_tcall *call, bool last, fore_tval *out) {
    fore_tval arg, *items;
    const fore_tstr *s = self.as.str, *sep;
    FORE_TRY(fore_tbind(run, call, last ? "rpartition" : "partition", "/sep", &arg));
    FORE_TRY(fore_targ_str(run, arg, "partition", &sep));
    if (!sep->size) return fore_traise(run, "empty separator");
    FORE_TRY(fore_tlist_new(run, FORE_T_TUPLE, 3, out));
    items = out->as.list->items;
    const char *hit;
    FORE_TRY(search(run, s->data, s->size, sep, last, &hit));
    size_t before = hit ? (size_t)(hit - s->data) : last ? 0 : s->size;
    size_t after = hit ? before + sep->size : last ? 0 : s->size;
    FORE_TRY(piece(run, self, s->data, before, &items[0]));
    FORE_TRY(piece(run, self, s->data + before, after - before, &items[1]));
    return piece(run, self, s->data + after, s->size - after, &items[2]);
}
static fore_status str_partition(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return partition(run, self, call, false, out);
}
static fore_status str_rpartition(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return partition(run, self, call, true, out);
}

static fore_status join_into(fore_trun *run, fore_tval self, const fore_tlist *items, fore_buf *buf) {
    for (size_t i = 0; i < items->count; i++) {
        fore_tval item = items->items[i];
        if (self.as.str->markup) FORE_TRY(fore_tescape(run, item, &item));
        if (item.tag != FORE_T_STR)
            return fore_traise(run, "sequence item %zu: expected str instance, %s found", i, fore_ttype_name(item));
        if (i) FORE_TRY(fore_tstr_append(run, buf, self.as.str->data, self.as.str->size));
        FORE_TRY(fore_tstr_append(run, buf, item.as.str->data, item.as.str->size));
    }
    return FORE_OK;
}

static fore_status str_join(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tval over;
    fore_tlist items;
    FORE_TRY(fore_tbind(run, call, "join", "/iterable", &over));
    if (!fore_tis_iterable(over)) return fore_traise(run, "can only join an iterable");
    FORE_TRY(fore_tlist_from(run, over, &items));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = join_into(run, self, &items, &buf);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s ? s : fore_tstr_as_markup(run, *out, self.as.str->markup, out);
}

static fore_status replace_into(fore_trun *run, const fore_tstr *s, const fore_tstr *old, const fore_tstr *with,
                                int64_t max, fore_buf *buf) {
    const char *p = s->data, *end = s->data + s->size;
    int64_t n = 0;
    while (max < 0 || n < max) {
        const char *hit = p;
        if (old->size) {
            hit = p == end ? NULL : memmem(p, (size_t)(end - p), old->data, old->size);
            if (!hit) break;
        } else if (n) { /* between all characters, and at both ends */
            if (p == end) break;
            for (hit++; hit < end && ((unsigned char)*hit & 0xc0) == 0x80;) hit++;
        }
        FORE_TRY(fore_tstr_append(run, buf, p, (size_t)(hit - p)));
        FORE_TRY(fore_tstr_append(run, buf, with->data, with->size));
        FORE_TRY(fore_tspend(run, with->size));
        p = hit + old->size;
        n++;
    }
    return fore_tstr_append(run, buf, p, (size_t)(end - p));
}

static fore_status str_replace(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tval args[3];
    const fore_tstr *old, *with;
    int64_t max;
    FORE_TRY(fore_tbind(run, call, "replace", "/old new count?", args));
    FORE_TRY(fore_targ_str(run, args[0], "replace", &old));
    if (self.as.str->markup) FORE_TRY(fore_tescape(run, args[1], &args[1]));
    FORE_TRY(fore_targ_str(run, args[1], "replace", &with));
    FORE_TRY(fore_targ_int(run, args[2], "replace", -1, &max));
    FORE_TRY(fore_tspend(run, self.as.str->size * 2));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = replace_into(run, self.as.str, old, with, max, &buf);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s ? s : fore_tstr_as_markup(run, *out, self.as.str->markup, out);
}

/* ---- padding ---- */

static fore_status pad(fore_trun *run, fore_tval self, size_t left, size_t right, const fore_tstr *fill, fore_tval *out) {
    const fore_tstr *s = self.as.str;
    if (left + right > FORE_T_MAX_OUTPUT / 4) return fore_tlimit(run, "a string is too long");
    size_t size = s->size + (left + right) * fill->size;
    FORE_TRY(fore_tspend(run, size));
    char *p = fore_trun_alloc(run, size + 1, 1), *q = p;
    if (!p) return fore_trun_error(run);
    for (size_t i = 0; i < left; i++, q += fill->size) memcpy(q, fill->data, fill->size);
    if (s->size) memcpy(q, s->data, s->size);
    q += s->size;
    for (size_t i = 0; i < right; i++, q += fill->size) memcpy(q, fill->data, fill->size);
    return piece(run, self, p, size, out);
}

static fore_status justify(fore_trun *run, fore_tval self, const fore_tcall *call, const char *name, int side,
                           fore_tval *out) {
    static const fore_tstr space = {.data = " ", .size = 1, .chars = 1};
    fore_tval args[2];
    const fore_tstr *fill = &space;
    int64_t width, length = (int64_t)self.as.str->chars;
    FORE_TRY(fore_tbind(run, call, name, "/width fillchar?", args));
    FORE_TRY(fore_targ_int(run, args[0], name, 0, &width));
    if (args[1].tag != FORE_T_MISSING) FORE_TRY(fore_targ_str(run, args[1], name, &fill));
    if (fill->chars != 1) return fore_traise(run, "The fill character must be exactly one character long");
    size_t more = width > length ? (size_t)(width - length) : 0;
    size_t left = side < 0 ? 0 : side > 0 ? more : more / 2 + (more & (size_t)width & 1);
    return pad(run, self, left, more - left, fill, out);
}
static fore_status str_ljust(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return justify(run, self, call, "ljust", -1, out);
}
static fore_status str_rjust(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return justify(run, self, call, "rjust", 1, out);
}
static fore_status str_center(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return justify(run, self, call, "center", 0, out);
}

static fore_status str_zfill(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    static const fore_tstr zero = {.data = "0", .size = 1, .chars = 1};
    fore_tval arg, sign, rest;
    int64_t width, length = (int64_t)self.as.str->chars;
    FORE_TRY(fore_tbind(run, call, "zfill", "/width", &arg));
    FORE_TRY(fore_targ_int(run, arg, "zfill", 0, &width));
    const fore_tstr *s = self.as.str;
    size_t more = width > length ? (size_t)(width - length) : 0;
    bool signed_ = s->size && (*s->data == '-' || *s->data == '+');
    FORE_TRY(piece(run, self, s->data + signed_, s->size - signed_, &rest));
    FORE_TRY(pad(run, rest, more, 0, &zero, &rest));
    FORE_TRY(piece(run, self, s->data, signed_, &sign));
    return fore_tarith(run, FORE_OP_ADD, sign, rest, out);
}

static fore_status str_expandtabs(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tval arg;
    int64_t width;
    FORE_TRY(fore_tbind(run, call, "expandtabs", "tabsize?", &arg));
    FORE_TRY(fore_targ_int(run, arg, "expandtabs", 8, &width));
    if (width > 1000) return fore_tlimit(run, "a string is too long");
    const fore_tstr *s = self.as.str;
    FORE_TRY(fore_tspend(run, s->size * 8));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status status = FORE_OK;
    int64_t column = 0;
    for (size_t i = 0; i < s->size && !status; i++) {
        if (s->data[i] == '\t') {
            int64_t n = width > 0 ? width - column % width : 0;
            for (; n > 0 && !status; n--, column++) status = fore_tstr_append(run, &buf, " ", 1);
            continue;
        }
        status = fore_tstr_append(run, &buf, s->data + i, 1);
        if (((unsigned char)s->data[i] & 0xc0) != 0x80) column++;
        if (s->data[i] == '\n' || s->data[i] == '\r') column = 0;
    }
    if (!status) status = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return status ? status : fore_tstr_as_markup(run, *out, s->markup, out);
}

static fore_status str_format(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return fore_tformat_braces(run, self, call, out);
}

fore_tmethod_call fore_tstr_method(const fore_tstr *name) {
    static const struct {
        const char *name;
        fore_tmethod_call call;
    } table[] = {
#define M(name) {#name, str_##name}
        M(strip), M(split), M(startswith), M(endswith), M(replace), M(lstrip), M(rstrip), M(join), M(upper), M(lower),
        M(title), M(capitalize), M(swapcase), M(casefold), M(rsplit), M(splitlines), M(partition), M(rpartition),
        M(removeprefix), M(removesuffix), M(find), M(rfind), M(index), M(rindex), M(count), M(format), M(isdigit),
        M(isdecimal), M(isnumeric), M(isalpha), M(isalnum), M(isspace), M(isupper), M(islower), M(istitle),
        M(isidentifier), M(isprintable), M(isascii), M(ljust), M(rjust), M(center), M(zfill), M(expandtabs),
#undef M
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strlen(table[i].name) == name->size && memcmp(table[i].name, name->data, name->size) == 0)
            return table[i].call;
    return NULL;
}
