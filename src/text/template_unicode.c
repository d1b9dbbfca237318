/* Characters of the template engine: Python's classes of code points and its case mappings. utf8proc has the one-to-one
 * mappings; the tables here are those of Unicode's SpecialCasing that give several characters. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/template_value.h"

typedef struct special {
    uint16_t code, to[3];
} special;

/* clang-format off */
static const special special_upper[] = {
    {0x00df, {0x0053, 0x0053}}, {0x0149, {0x02bc, 0x004e}}, {0x01f0, {0x004a, 0x030c}},
    {0x0390, {0x0399, 0x0308, 0x0301}}, {0x03b0, {0x03a5, 0x0308, 0x0301}}, {0x0587, {0x0535, 0x0552}},
    {0x1e96, {0x0048, 0x0331}}, {0x1e97, {0x0054, 0x0308}}, {0x1e98, {0x0057, 0x030a}}, {0x1e99, {0x0059, 0x030a}},
    {0x1e9a, {0x0041, 0x02be}}, {0x1f50, {0x03a5, 0x0313}}, {0x1f52, {0x03a5, 0x0313, 0x0300}},
    {0x1f54, {0x03a5, 0x0313, 0x0301}}, {0x1f56, {0x03a5, 0x0313, 0x0342}}, {0x1f80, {0x1f08, 0x0399}},
    {0x1f81, {0x1f09, 0x0399}}, {0x1f82, {0x1f0a, 0x0399}}, {0x1f83, {0x1f0b, 0x0399}}, {0x1f84, {0x1f0c, 0x0399}},
    {0x1f85, {0x1f0d, 0x0399}}, {0x1f86, {0x1f0e, 0x0399}}, {0x1f87, {0x1f0f, 0x0399}}, {0x1f88, {0x1f08, 0x0399}},
    {0x1f89, {0x1f09, 0x0399}}, {0x1f8a, {0x1f0a, 0x0399}}, {0x1f8b, {0x1f0b, 0x0399}}, {0x1f8c, {0x1f0c, 0x0399}},
    {0x1f8d, {0x1f0d, 0x0399}}, {0x1f8e, {0x1f0e, 0x0399}}, {0x1f8f, {0x1f0f, 0x0399}}, {0x1f90, {0x1f28, 0x0399}},
    {0x1f91, {0x1f29, 0x0399}}, {0x1f92, {0x1f2a, 0x0399}}, {0x1f93, {0x1f2b, 0x0399}}, {0x1f94, {0x1f2c, 0x0399}},
    {0x1f95, {0x1f2d, 0x0399}}, {0x1f96, {0x1f2e, 0x0399}}, {0x1f97, {0x1f2f, 0x0399}}, {0x1f98, {0x1f28, 0x0399}},
    {0x1f99, {0x1f29, 0x0399}}, {0x1f9a, {0x1f2a, 0x0399}}, {0x1f9b, {0x1f2b, 0x0399}}, {0x1f9c, {0x1f2c, 0x0399}},
    {0x1f9d, {0x1f2d, 0x0399}}, {0x1f9e, {0x1f2e, 0x0399}}, {0x1f9f, {0x1f2f, 0x0399}}, {0x1fa0, {0x1f68, 0x0399}},
    {0x1fa1, {0x1f69, 0x0399}}, {0x1fa2, {0x1f6a, 0x0399}}, {0x1fa3, {0x1f6b, 0x0399}}, {0x1fa4, {0x1f6c, 0x0399}},
    {0x1fa5, {0x1f6d, 0x0399}}, {0x1fa6, {0x1f6e, 0x0399}}, {0x1fa7, {0x1f6f, 0x0399}}, {0x1fa8, {0x1f68, 0x0399}},
    {0x1fa9, {0x1f69, 0x0399}}, {0x1faa, {0x1f6a, 0x0399}}, {0x1fab, {0x1f6b, 0x0399}}, {0x1fac, {0x1f6c, 0x0399}},
    {0x1fad, {0x1f6d, 0x0399}}, {0x1fae, {0x1f6e, 0x0399}}, {0x1faf, {0x1f6f, 0x0399}}, {0x1fb2, {0x1fba, 0x0399}},
    {0x1fb3, {0x0391, 0x0399}}, {0x1fb4, {0x0386, 0x0399}}, {0x1fb6, {0x0391, 0x0342}},
    {0x1fb7, {0x0391, 0x0342, 0x0399}}, {0x1fbc, {0x0391, 0x0399}}, {0x1fc2, {0x1fca, 0x0399}},
    {0x1fc3, {0x0397, 0x0399}}, {0x1fc4, {0x0389, 0x0399}}, {0x1fc6, {0x0397, 0x0342}},
    {0x1fc7, {0x0397, 0x0342, 0x0399}}, {0x1fcc, {0x0397, 0x0399}}, {0x1fd2, {0x0399, 0x0308, 0x0300}},
    {0x1fd3, {0x0399, 0x0308, 0x0301}}, {0x1fd6, {0x0399, 0x0342}}, {0x1fd7, {0x0399, 0x0308, 0x0342}},
    {0x1fe2, {0x03a5, 0x0308, 0x0300}}, {0x1fe3, {0x03a5, 0x0308, 0x0301}}, {0x1fe4, {0x03a1, 0x0313}},
    {0x1fe6, {0x03a5, 0x0342}}, {0x1fe7, {0x03a5, 0x0308, 0x0342}}, {0x1ff2, {0x1ffa, 0x0399}},
    {0x1ff3, {0x03a9, 0x0399}}, {0x1ff4, {0x038f, 0x0399}}, {0x1ff6, {0x03a9, 0x0342}},
    {0x1ff7, {0x03a9, 0x0342, 0x0399}}, {0x1ffc, {0x03a9, 0x0399}}, {0xfb00, {0x0046, 0x0046}},
    {0xfb01, {0x0046, 0x0049}}, {0xfb02, {0x0046, 0x004c}}, {0xfb03, {0x0046, 0x0046, 0x0049}},
    {0xfb04, {0x0046, 0x0046, 0x004c}}, {0xfb05, {0x0053, 0x0054}}, {0xfb06, {0x0053, 0x0054}},
    {0xfb13, {0x0544, 0x0546}}, {0xfb14, {0x0544, 0x0535}}, {0xfb15, {0x0544, 0x053b}}, {0xfb16, {0x054e, 0x0546}},
    {0xfb17, {0x0544, 0x053d}},
};
static const special special_title[] = {
    {0x00df, {0x0053, 0x0073}}, {0x0149, {0x02bc, 0x004e}}, {0x01f0, {0x004a, 0x030c}},
    {0x0390, {0x0399, 0x0308, 0x0301}}, {0x03b0, {0x03a5, 0x0308, 0x0301}}, {0x0587, {0x0535, 0x0582}},
    {0x1e96, {0x0048, 0x0331}}, {0x1e97, {0x0054, 0x0308}}, {0x1e98, {0x0057, 0x030a}}, {0x1e99, {0x0059, 0x030a}},
    {0x1e9a, {0x0041, 0x02be}}, {0x1f50, {0x03a5, 0x0313}}, {0x1f52, {0x03a5, 0x0313, 0x0300}},
    {0x1f54, {0x03a5, 0x0313, 0x0301}}, {0x1f56, {0x03a5, 0x0313, 0x0342}}, {0x1fb2, {0x1fba, 0x0345}},
    {0x1fb4, {0x0386, 0x0345}}, {0x1fb6, {0x0391, 0x0342}}, {0x1fb7, {0x0391, 0x0342, 0x0345}},
    {0x1fc2, {0x1fca, 0x0345}}, {0x1fc4, {0x0389, 0x0345}}, {0x1fc6, {0x0397, 0x0342}},
    {0x1fc7, {0x0397, 0x0342, 0x0345}}, {0x1fd2, {0x0399, 0x0308, 0x0300}}, {0x1fd3, {0x0399, 0x0308, 0x0301}},
    {0x1fd6, {0x0399, 0x0342}}, {0x1fd7, {0x0399, 0x0308, 0x0342}}, {0x1fe2, {0x03a5, 0x0308, 0x0300}},
    {0x1fe3, {0x03a5, 0x0308, 0x0301}}, {0x1fe4, {0x03a1, 0x0313}}, {0x1fe6, {0x03a5, 0x0342}},
    {0x1fe7, {0x03a5, 0x0308, 0x0342}}, {0x1ff2, {0x1ffa, 0x0345}}, {0x1ff4, {0x038f, 0x0345}},
    {0x1ff6, {0x03a9, 0x0342}}, {0x1ff7, {0x03a9, 0x0342, 0x0345}}, {0xfb00, {0x0046, 0x0066}},
    {0xfb01, {0x0046, 0x0069}}, {0xfb02, {0x0046, 0x006c}}, {0xfb03, {0x0046, 0x0066, 0x0069}},
    {0xfb04, {0x0046, 0x0066, 0x006c}}, {0xfb05, {0x0053, 0x0074}}, {0xfb06, {0x0053, 0x0074}},
    {0xfb13, {0x0544, 0x0576}}, {0xfb14, {0x0544, 0x0565}}, {0xfb15, {0x0544, 0x056b}}, {0xfb16, {0x054e, 0x0576}},
    {0xfb17, {0x0544, 0x056d}},
};
/* clang-format on */

typedef struct range {
    uint32_t first, last;
} range;

/* Digits that are not decimals, letters that count as lower or upper case without being of category Ll or Lu, the
 * commonest ideographs that stand for numbers. */
static const range more_digits[] = {
    {178, 179},   {185, 185},   {4969, 4977},   {6618, 6618},   {8304, 8304},     {8308, 8313},     {8320, 8329},
    {9312, 9320}, {9332, 9340}, {9352, 9360},   {9450, 9450},   {9461, 9469},     {9471, 9471},     {10102, 10110},
    {10112, 10120}, {10122, 10130}, {68160, 68163}, {69216, 69224}, {69714, 69722}, {127232, 127242},
};
static const range more_lower[] = {
    {170, 170},   {186, 186},   {688, 696},   {704, 705},   {736, 740},     {837, 837},     {890, 890},     {7468, 7530},
    {7544, 7544}, {7579, 7615}, {8305, 8305}, {8319, 8319}, {8336, 8348},   {8560, 8575},   {9424, 9449},   {11388, 11389},
    {42652, 42653}, {42864, 42864}, {43000, 43001}, {43868, 43871}, {67456, 67456}, {67459, 67461}, {67463, 67504},
    {67506, 67514},
};
static const range more_upper[] = {{8544, 8559}, {9398, 9423}, {127280, 127305}, {127312, 127337}, {127344, 127369}};
static const range more_numeric[] = {
    {0x3405, 0x3405}, {0x4e00, 0x4e00}, {0x4e03, 0x4e03}, {0x4e07, 0x4e07}, {0x4e09, 0x4e09}, {0x4e5d, 0x4e5d},
    {0x4e8c, 0x4e8c}, {0x4e94, 0x4e94}, {0x4ebf, 0x4ebf}, {0x5146, 0x5146}, {0x516b, 0x516b}, {0x516d, 0x516d},
    {0x5341, 0x5341}, {0x5343, 0x5343}, {0x56db, 0x56db}, {0x767e, 0x767e}, {0x842c, 0x842c},
};

#define IN(table, c) in_ranges(table, sizeof(table) / sizeof(table)[0], c)

static bool in_ranges(const range *table, size_t count, uint32_t c) {
    for (size_t i = 0; i < count; i++)
        if (c >= table[i].first && c <= table[i].last) return true;
    return false;
}

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

bool fore_tis_space(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool fore_tis_line_end(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool fore_tis_printable(uint32_t c) {
    if (c < 0x7f) return c >= 32;
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

bool fore_tis_alpha(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool fore_tis_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool fore_tis_digit(uint32_t c) { return fore_tis_decimal(c) || IN(more_digits, c); }
bool fore_tis_numeric(uint32_t c) {
    utf8proc_category_t k = category(c);
    return (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) || IN(more_numeric, c);
}
bool fore_tis_upper(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LU || IN(more_upper, c); }
bool fore_tis_lower(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || IN(more_lower, c); }
bool fore_tis_title(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool fore_tis_word(uint32_t c) { return c == '_' || fore_tis_alpha(c) || fore_tis_numeric(c); }

static bool cased(uint32_t c) { return fore_tis_upper(c) || fore_tis_lower(c) || fore_tis_title(c); }

/* The ASCII characters of a set have a bit each, so that only others are searched for. */
typedef struct ascii_set {
    uint64_t bits[2];
} ascii_set;

static bool in_set(uint32_t c, const fore_tstr *chars, const ascii_set *ascii) {
    if (!chars) return fore_tis_space(c);
    if (c < 128) return ascii->bits[c >> 6] >> (c & 63) & 1;
    char utf8[4];
    int n = fore_utf8_encode(c, utf8);
    return chars->size && memmem(chars->data, chars->size, utf8, (size_t)n) != NULL;
}

void fore_tstrip(const char **data, size_t *size, const fore_tstr *chars, bool left, bool right) {
    const char *p = *data;
    size_t n = *size;
    uint32_t c;
    ascii_set ascii = {{0, 0}};
    for (size_t i = 0; chars && i < chars->size; i++) {
        unsigned char byte = (unsigned char)chars->data[i];
        if (byte < 128) ascii.bits[byte >> 6] |= (uint64_t)1 << (byte & 63);
    }
    while (left && n) {
        int k = fore_utf8_decode(p, n, &c);
        if (k < 1 || !in_set(c, chars, &ascii)) break;
        p += k;
        n -= (size_t)k;
    }
    while (right && n) {
        size_t k = 1;
        while (k < 4 && k < n && ((unsigned char)p[n - k] & 0xc0) == 0x80) k++;
        if (fore_utf8_decode(p + n - k, k, &c) != (int)k || !in_set(c, chars, &ascii)) break;
        n -= k;
    }
    *data = p;
    *size = n;
}

static int compare_special(const void *key, const void *entry) {
    return (int)*(const uint32_t *)key - (int)((const special *)entry)->code;
}

static const special *special_of(const special *table, size_t count, uint32_t c) {
    return c > 0xffff ? NULL : bsearch(&c, table, count, sizeof *table, compare_special);
}

/* U+03A3 at the end of a word becomes the final sigma. */
static bool final_sigma(const fore_tstr *s, size_t at, size_t size) {
    bool before = false, after = false;
    uint32_t c;
    for (size_t i = 0; i < at;) { /* the last cased letter before, past case-ignorable marks */
        int n = fore_utf8_decode(s->data + i, at - i, &c);
        utf8proc_category_t k = category(c);
        bool ignorable = c == '\'' || c == '.' || c == ':' || c == 0x2019 || k == UTF8PROC_CATEGORY_MN ||
                         k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM ||
                         k == UTF8PROC_CATEGORY_SK;
        if (!ignorable) before = cased(c);
        i += (size_t)(n < 0 ? -n : n);
    }
    for (size_t i = at + size; i < s->size;) {
        int n = fore_utf8_decode(s->data + i, s->size - i, &c);
        utf8proc_category_t k = category(c);
        bool ignorable = c == '\'' || c == '.' || c == ':' || c == 0x2019 || k == UTF8PROC_CATEGORY_MN ||
                         k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM ||
                         k == UTF8PROC_CATEGORY_SK;
        if (!ignorable) {
            after = cased(c);
            break;
        }
        i += (size_t)(n < 0 ? -n : n);
    }
    return before && !after;
}

static fore_status put(fore_trun *run, fore_buf *buf, uint32_t c) {
    char utf8[4];
    int n = fore_utf8_encode(c, utf8);
    return fore_tstr_append(run, buf, utf8, (size_t)n);
}

static fore_status put_mapped(fore_trun *run, fore_buf *buf, const fore_tstr *s, size_t at, size_t size, uint32_t c,
                              fore_tcase how) {
    const special *many = NULL;
    if (how == FORE_CASE_UPPER || how == FORE_CASE_FOLD)
        many = special_of(special_upper, sizeof special_upper / sizeof special_upper[0], c);
    if (how == FORE_CASE_TITLE) many = special_of(special_title, sizeof special_title / sizeof special_title[0], c);
    if (many) {
        for (int i = 0; i < 3 && many->to[i]; i++) {
            uint32_t m = many->to[i];
            FORE_TRY(put(run, buf, how == FORE_CASE_FOLD ? (uint32_t)utf8proc_tolower((utf8proc_int32_t)m) : m));
        }
        return FORE_OK;
    }
    if (c == 0x130 && how != FORE_CASE_UPPER && how != FORE_CASE_TITLE) { /* I with a dot: i and a combining dot */
        FORE_TRY(put(run, buf, 'i'));
        return put(run, buf, 0x307);
    }
    switch (how) {
    case FORE_CASE_UPPER: return put(run, buf, (uint32_t)utf8proc_toupper((utf8proc_int32_t)c));
    case FORE_CASE_TITLE: return put(run, buf, (uint32_t)utf8proc_totitle((utf8proc_int32_t)c));
    case FORE_CASE_FOLD: return put(run, buf, c == 0x3c2 ? 0x3c3 : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    default: break;
    }
    if (c == 0x3a3) {
        FORE_TRY(fore_tspend(run, s->size));
        return put(run, buf, final_sigma(s, at, size) ? 0x3c2 : 0x3c3);
    }
    return put(run, buf, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
}

static fore_status map_case(fore_trun *run, const fore_tstr *s, fore_tcase how, fore_buf *buf) {
    bool inside = false; /* a word, for title */
    for (size_t i = 0; i < s->size;) {
        uint32_t c;
        int k = fore_utf8_decode(s->data + i, s->size - i, &c);
        size_t n = (size_t)(k < 0 ? -k : k);
        fore_tcase one = how;
        if (how == FORE_CASE_CAPITALIZE) one = i ? FORE_CASE_LOWER : FORE_CASE_TITLE;
        if (how == FORE_CASE_TITLE) one = inside ? FORE_CASE_LOWER : FORE_CASE_TITLE;
        if (how == FORE_CASE_SWAP)
            one = fore_tis_upper(c) ? FORE_CASE_LOWER : fore_tis_lower(c) ? FORE_CASE_UPPER : FORE_CASE_SWAP;
        inside = cased(c);
        if (one == FORE_CASE_SWAP) {
            FORE_TRY(put(run, buf, c));
        } else if (c < 0x80) {
            bool up = one == FORE_CASE_UPPER || one == FORE_CASE_TITLE;
            if (up && c >= 'a' && c <= 'z') c -= 32;
            if (!up && c >= 'A' && c <= 'Z') c += 32;
            FORE_TRY(put(run, buf, c));
        } else {
            FORE_TRY(put_mapped(run, buf, s, i, n, c, one));
        }
        i += n;
    }
    return FORE_OK;
}

fore_status fore_tcase_of(fore_trun *run, const fore_tstr *s, fore_tcase how, fore_tval *out) {
    FORE_TRY(fore_tspend(run, s->size * 16));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status status = map_case(run, s, how, &buf);
    if (!status) status = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    if (!status && s->markup) status = fore_tstr_as_markup(run, *out, true, out);
    return status;
}
