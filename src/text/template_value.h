/* Values of the chat template engine, as Python has them, and the state of one rendering. Everything lives in the
 * rendering's arena and is freed with it; values are immutable except namespaces, loops, cyclers and iterators.
 * Letters: "t" in type names is for template. */
#ifndef FORE_TEXT_TEMPLATE_VALUE_H
#define FORE_TEXT_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

#define FORE_TRY(call)                     \
    do {                                   \
        fore_status try_status_ = (call);  \
        if (try_status_) return try_status_; \
    } while (0)

typedef enum fore_ttag {
    FORE_T_MISSING, /* an argument that was not given; never seen by a template */
    FORE_T_NONE,
    FORE_T_BOOL,
    FORE_T_INT,
    FORE_T_BIG, /* an integer beyond 64 bits, as its decimal digits: can be printed and compared, not computed with */
    FORE_T_FLOAT,
    FORE_T_STR,
    FORE_T_LIST,
    FORE_T_TUPLE,
    FORE_T_DICT,
    FORE_T_UNDEFINED,
    FORE_T_RANGE,
    FORE_T_VIEW,     /* dict.keys(), .values(), .items() */
    FORE_T_ITERATOR, /* what Python gives as a generator or iterator: no length, used up by reading */
    FORE_T_FUNCTION, /* a global function */
    FORE_T_METHOD,
    FORE_T_MACRO,
    FORE_T_NAMESPACE,
    FORE_T_LOOP,
    FORE_T_CYCLER,
    FORE_T_JOINER,
} fore_ttag;

typedef struct fore_tstr {
    const char *data; /* UTF-8, not NUL-terminated; may share bytes with other strings */
    size_t size;
    size_t chars; /* code points */
    bool markup;  /* of Python's class Markup: `+` and `%` escape what they add to it */
} fore_tstr;

typedef struct fore_tval {
    fore_ttag tag;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const fore_tstr *str; /* STR, BIG */
        struct fore_tlist *list; /* LIST, TUPLE */
        struct fore_tdict *dict;
        struct fore_tundefined *undefined;
        struct fore_trange *range;
        struct fore_tview *view;
        struct fore_titerator *iterator;
        const struct fore_tfunction *function;
        struct fore_tmethod *method;
        struct fore_tmacro *macro;
        struct fore_tnamespace *names;
        struct fore_tloop *loop;
        struct fore_tcycler *cycler;
        struct fore_tjoiner *joiner;
    } as;
} fore_tval;

typedef struct fore_tlist {
    fore_tval *items;
    size_t count;
    bool group; /* a tuple of the groupby filter: .grouper and .list */
} fore_tlist;

typedef struct fore_tpair {
    fore_tval key, value;
    uint64_t hash;
} fore_tpair;

/* In order of insertion; a hash index is kept once it pays. */
typedef struct fore_tdict {
    fore_tpair *pairs;
    size_t count, capacity;
    uint32_t *index; /* position + 1, or 0; NULL for small ones */
    size_t index_size;
} fore_tdict;

typedef struct fore_tundefined {
    const char *hint;      /* the whole message, or NULL */
    const char *type;      /* of the object that lacks it, or NULL */
    fore_tval name;        /* what was looked for */
} fore_tundefined;

typedef struct fore_trange {
    int64_t start, stop, step;
    size_t count;
} fore_trange;

typedef enum fore_tview_kind { FORE_T_KEYS, FORE_T_VALUES, FORE_T_ITEMS } fore_tview_kind;
typedef struct fore_tview {
    fore_tview_kind kind;
    fore_tdict *dict;
} fore_tview;

/* The items are made when the iterator is; an error on the way is kept and raised when reading gets there, as a
 * generator would. */
typedef struct fore_titerator {
    fore_tlist items;
    size_t next;
    const char *error; /* or NULL */
} fore_titerator;

typedef struct fore_tnamespace {
    fore_tdict *dict;
} fore_tnamespace;
typedef struct fore_tcycler {
    fore_tlist items;
    size_t position;
} fore_tcycler;
typedef struct fore_tjoiner {
    fore_tval separator;
    bool used;
} fore_tjoiner;

typedef struct fore_tkeyword {
    const fore_tstr *name;
    fore_tval value;
} fore_tkeyword;

/* The arguments of one call. */
typedef struct fore_tcall {
    const fore_tval *args;
    size_t count;
    const fore_tkeyword *keywords;
    size_t keyword_count;
} fore_tcall;

typedef struct fore_trun fore_trun;
typedef fore_status (*fore_tfunction_call)(fore_trun *run, const fore_tcall *call, fore_tval *out);
typedef struct fore_tfunction {
    const char *name;
    fore_tfunction_call call;
} fore_tfunction;
typedef fore_status (*fore_tmethod_call)(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out);
typedef struct fore_tmethod {
    const char *name;
    fore_tmethod_call call;
    fore_tval self;
} fore_tmethod;

/* Where a string made by adding ends, and the bytes that are free behind it. */
typedef struct fore_ttail {
    char *end;
    size_t room;
} fore_ttail;
enum { FORE_T_TAILS = 8 };

/* One rendering. */
struct fore_trun {
    fore_arena arena;
    char *chunk; /* small objects are cut from it */
    size_t chunk_left;
    fore_ttail tails[FORE_T_TAILS]; /* of strings that may grow in place */
    unsigned tail_next;             /* the one to give up next */
    size_t memory, memory_most; /* bytes given out, and that may be */
    uint64_t steps;     /* left */
    int depth;          /* of nested evaluation */
    int line;           /* of the template, for messages */
    int jump;           /* FORE_N_BREAK or FORE_N_CONTINUE on the way to its loop, else 0 */
    int64_t now;        /* seconds since 1970, for strftime_now */
    size_t out_bytes;   /* in all open output buffers */
    fore_buf *out;      /* where output goes */
    const struct fore_template *tmpl;
    const fore_tval *globals; /* by name id: variables and functions */
    fore_error *err;
};

enum {
    FORE_T_MAX_DEPTH = 900,       /* nested evaluations */
    FORE_T_MAX_FILTERS = 32,      /* on one block */
    FORE_T_MAX_NESTING = 400,     /* of values, where they are walked */
    FORE_T_MAX_RANGE = 100000,    /* the sandbox's limit */
};
/* For a rendering, and more for each byte of its variables: a template may well walk over a long message by letters. */
#define FORE_T_MAX_STEPS 20000000u
#define FORE_T_STEPS_PER_BYTE 64u
#define FORE_T_MEMORY ((size_t)24 << 20)
#define FORE_T_MEMORY_PER_BYTE 512u
#define FORE_T_MAX_MEMORY ((size_t)512 << 20)
#define FORE_T_MAX_OUTPUT ((size_t)16 << 20)

/* ---- memory, budget, errors (template_value.c) ---- */
/* Zeroed memory of the rendering, or NULL with the error filled: FORE_ERR_LIMIT or FORE_ERR_NOMEM. */
void *fore_trun_alloc(fore_trun *run, size_t count, size_t size);
fore_status fore_trun_error(const fore_trun *run); /* the code of the last failure of fore_trun_alloc */
/* FORE_ERR_FORMAT with the template's line. */
fore_status fore_traise(fore_trun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* FORE_ERR_LIMIT with the template's line. */
fore_status fore_tlimit(fore_trun *run, const char *what);
fore_status fore_tspend(fore_trun *run, size_t bytes); /* pays for work on so many bytes or items */

/* ---- making values; those that take memory return a status ---- */
static inline fore_tval fore_tnone(void) { return (fore_tval){.tag = FORE_T_NONE}; }
static inline fore_tval fore_tbool(bool b) { return (fore_tval){.tag = FORE_T_BOOL, .as.boolean = b}; }
static inline fore_tval fore_tint(int64_t i) { return (fore_tval){.tag = FORE_T_INT, .as.integer = i}; }
static inline fore_tval fore_treal(double f) { return (fore_tval){.tag = FORE_T_FLOAT, .as.real = f}; }

/* A string over bytes that outlive the rendering or belong to it. */
fore_status fore_tstr_view(fore_trun *run, const char *data, size_t size, fore_tval *out);
fore_status fore_tstr_copy(fore_trun *run, const char *data, size_t size, fore_tval *out);
/* Takes the bytes of buf (which is emptied and freed); markup as given. */
fore_status fore_tstr_take(fore_trun *run, fore_buf *buf, fore_tval *out);
/* a then b; grows a in place when a was made so and is among the last few that grew, so that adding piece by piece, to
 * several strings in turn too, takes linear time. */
fore_status fore_tstr_concat(fore_trun *run, const fore_tstr *a, const fore_tstr *b, fore_tval *out); /* no Markup */
fore_status fore_tstr_as_markup(fore_trun *run, fore_tval s, bool markup, fore_tval *out);
/* Code points [from, from + count) of s, which must be inside. */
fore_status fore_tstr_sub(fore_trun *run, const fore_tstr *s, size_t from, size_t count, fore_tval *out);
/* Byte offset of code point `index` (index <= chars). */
size_t fore_tstr_offset(const fore_tstr *s, size_t index);

fore_status fore_tlist_new(fore_trun *run, fore_ttag tag, size_t count, fore_tval *out); /* items are NONE */
fore_status fore_tlist_wrap(fore_trun *run, fore_ttag tag, fore_tval *items, size_t count, fore_tval *out);
fore_status fore_tpair_new(fore_trun *run, fore_tval a, fore_tval b, fore_tval *out); /* a tuple of two */
fore_status fore_titerator_new(fore_trun *run, fore_tval *items, size_t count, const char *error, fore_tval *out);

/* A growing array of values. */
typedef struct fore_tvec {
    fore_tval *items;
    size_t count, capacity;
} fore_tvec;
fore_status fore_tvec_push(fore_trun *run, fore_tvec *vec, fore_tval v);

fore_status fore_tdict_new(fore_trun *run, fore_tdict **out);
fore_status fore_tdict_set(fore_trun *run, fore_tdict *dict, fore_tval key, fore_tval value); /* unhashable: raises */
/* *out is MISSING when the key is not there; raises for an unhashable key. */
fore_status fore_tdict_get(fore_trun *run, const fore_tdict *dict, fore_tval key, fore_tval *out);
fore_tval fore_tdict_text(const fore_tdict *dict, const char *key, size_t size); /* MISSING: not there */

fore_status fore_tundefined_name(fore_trun *run, fore_tval name, fore_tval *out);
fore_status fore_tundefined_hint(fore_trun *run, const char *hint, fore_tval *out); /* hint outlives the rendering */
fore_status fore_tundefined_of(fore_trun *run, fore_tval object, fore_tval name, fore_tval *out);
fore_status fore_traise_undefined(fore_trun *run, const fore_tundefined *u);

/* ---- looking at values ---- */
const char *fore_ttype_name(fore_tval v); /* as Python's type(v).__name__ */
bool fore_ttrue(fore_tval v);
bool fore_tis_text(fore_tval v, const char *text);
static inline bool fore_tis_number(fore_tval v) {
    return v.tag == FORE_T_BOOL || v.tag == FORE_T_INT || v.tag == FORE_T_FLOAT;
}
static inline bool fore_tis_integral(fore_tval v) { return v.tag == FORE_T_BOOL || v.tag == FORE_T_INT; }
static inline int64_t fore_tinteger(fore_tval v) {
    return v.tag == FORE_T_BOOL ? v.as.boolean : v.as.integer;
}
static inline double fore_tdouble(fore_tval v) {
    return v.tag == FORE_T_FLOAT ? v.as.real : (double)fore_tinteger(v);
}
/* len(v); raises for what has none. */
fore_status fore_tlength(fore_trun *run, fore_tval v, size_t *out);
bool fore_thas_length(fore_tval v);
fore_status fore_tequal(fore_trun *run, fore_tval a, fore_tval b, bool *out);
/* a < b as Python's sort and comparison operators see it: *out is -1, 0 or 1; raises for what has no order. A NaN
 * gives 2. */
fore_status fore_tcompare(fore_trun *run, fore_tval a, fore_tval b, const char *op, int *out);
fore_status fore_tcontains(fore_trun *run, fore_tval item, fore_tval container, bool *out);

/* ---- iterating (template_sequence.c) ---- */
typedef struct fore_tcursor {
    fore_tval over;
    size_t position, offset;
} fore_tcursor;
fore_status fore_titerate(fore_trun *run, fore_tval v, fore_tcursor *out); /* raises when v cannot be iterated */
bool fore_tis_iterable(fore_tval v);
fore_status fore_tnext(fore_trun *run, fore_tcursor *cursor, fore_tval *item, bool *done);
/* All items that are left, as list(v). The items must not be changed. */
fore_status fore_tlist_from(fore_trun *run, fore_tval v, fore_tlist *out);
/* v[index], MISSING when Python would raise TypeError or LookupError. */
fore_status fore_tindex(fore_trun *run, fore_tval v, fore_tval index, fore_tval *out);
/* v[start:stop:step], NONE where absent. */
fore_status fore_tslice(fore_trun *run, fore_tval v, fore_tval start, fore_tval stop, fore_tval step, fore_tval *out);
/* Stable sort by keys[i]; items and keys move together. */
fore_status fore_tsort(fore_trun *run, fore_tval *items, fore_tval *keys, size_t count, bool reverse);

/* ---- text of values (template_text.c) ---- */
fore_status fore_tstr_append(fore_trun *run, fore_buf *buf, const void *data, size_t size); /* with the output limit */
fore_status fore_tappend_str(fore_trun *run, fore_buf *buf, fore_tval v);  /* str(v) */
fore_status fore_tappend_repr(fore_trun *run, fore_buf *buf, fore_tval v); /* repr(v) */
fore_status fore_tstring(fore_trun *run, fore_tval v, fore_tval *out);     /* str(v); a STR is given back as it is */
typedef struct fore_tjson_style {
    bool ensure_ascii, sort_keys, indented;
    const char *indent;
    size_t indent_size;
    const char *item, *key;
    size_t item_size, key_size;
} fore_tjson_style;
fore_status fore_tappend_json(fore_trun *run, fore_buf *buf, fore_tval v, const fore_tjson_style *style);
fore_status fore_tappend_escaped(fore_trun *run, fore_buf *buf, const char *data, size_t size); /* &<>"' for HTML */
fore_status fore_tescape(fore_trun *run, fore_tval v, fore_tval *out); /* markupsafe.escape(v) */
size_t fore_treal_repr(double v, char out[32]); /* as Python's repr */

/* ---- numbers (template_number.c) ---- */
typedef enum fore_top {
    FORE_OP_ADD, FORE_OP_SUB, FORE_OP_MUL, FORE_OP_DIV, FORE_OP_FLOORDIV, FORE_OP_MOD, FORE_OP_POW,
} fore_top;
fore_status fore_tarith(fore_trun *run, fore_top op, fore_tval a, fore_tval b, fore_tval *out);
fore_status fore_tnegate(fore_trun *run, fore_tval v, bool negative, fore_tval *out);
/* Decimal text (digits, point, exponent; nothing else) to the nearest double, whatever the locale. */
double fore_treal_parse(const char *text, size_t size);
/* The spelling of a JSON or template number to INT, BIG or FLOAT. */
fore_status fore_tnumber(fore_trun *run, const char *text, size_t size, fore_tval *out);
/* int(text, base) and float(text): false when Python would raise ValueError. */
bool fore_tint_parse(const char *text, size_t size, int64_t base, int64_t *out, bool *big);
bool fore_treal_read(const char *text, size_t size, double *out);
double fore_tround(double v, int64_t digits);
fore_status fore_treal_to_int(fore_trun *run, double v, fore_tval *out); /* raises for nan, inf and beyond 64 bits */

/* ---- characters (template_unicode.c) ---- */
bool fore_tis_space(uint32_t c);     /* str.isspace */
bool fore_tis_printable(uint32_t c); /* str.isprintable */
bool fore_tis_alpha(uint32_t c);
bool fore_tis_digit(uint32_t c);
bool fore_tis_decimal(uint32_t c);
bool fore_tis_numeric(uint32_t c);
bool fore_tis_upper(uint32_t c);
bool fore_tis_lower(uint32_t c);
bool fore_tis_title(uint32_t c);
bool fore_tis_word(uint32_t c); /* \w of a regular expression */
bool fore_tis_line_end(uint32_t c); /* where str.splitlines cuts */
typedef enum fore_tcase {
    FORE_CASE_UPPER, FORE_CASE_LOWER, FORE_CASE_TITLE, FORE_CASE_CAPITALIZE, FORE_CASE_SWAP, FORE_CASE_FOLD,
} fore_tcase;
fore_status fore_tcase_of(fore_trun *run, const fore_tstr *s, fore_tcase how, fore_tval *out);
/* Byte range of s without the white space, or the characters of `chars`, at its ends. */
void fore_tstrip(const char **data, size_t *size, const fore_tstr *chars, bool left, bool right);

/* ---- calls ---- */
/* Binds arguments to parameters: spec "/old new count?": names, "?" after the optional ones, a leading "/" where
 * keywords are not allowed. out has one entry a name, MISSING where nothing was given. */
fore_status fore_tbind(fore_trun *run, const fore_tcall *call, const char *function, const char *spec, fore_tval *out);
/* Checks on bound arguments; MISSING gives the fallback. */
fore_status fore_targ_int(fore_trun *run, fore_tval v, const char *function, int64_t fallback, int64_t *out);
fore_status fore_targ_str(fore_trun *run, fore_tval v, const char *function, const fore_tstr **out);

fore_status fore_tcall_value(fore_trun *run, fore_tval f, const fore_tcall *call, fore_tval *out);
/* environment.getattr and .getitem of the sandbox. */
fore_status fore_tgetattr(fore_trun *run, fore_tval v, fore_tval name, fore_tval *out);
fore_status fore_tgetitem(fore_trun *run, fore_tval v, fore_tval index, fore_tval *out);
/* The attribute of the object itself: *out is MISSING when it has none of this name. */
fore_status fore_tattribute(fore_trun *run, fore_tval v, const fore_tstr *name, fore_tval *out);
fore_status fore_tloop_attribute(fore_trun *run, struct fore_tloop *loop, const fore_tstr *name, fore_tval *out);
fore_status fore_tmacro_attribute(fore_trun *run, struct fore_tmacro *macro, const fore_tstr *name, fore_tval *out);
fore_status fore_tmacro_call(fore_trun *run, struct fore_tmacro *macro, const fore_tcall *call, fore_tval *out);
fore_status fore_tloop_call(fore_trun *run, struct fore_tloop *loop, const fore_tcall *call, fore_tval *out);
fore_tmethod_call fore_tstr_method(const fore_tstr *name);
fore_status fore_tformat_percent(fore_trun *run, fore_tval format, fore_tval args, fore_tval *out);
fore_status fore_tformat_braces(fore_trun *run, fore_tval format, const fore_tcall *call, fore_tval *out);

/* ---- tables that the parser looks up ---- */
typedef fore_status (*fore_tfilter_call)(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out);
typedef struct fore_tfilter {
    const char *name;
    fore_tfilter_call call;
} fore_tfilter;
const fore_tfilter *fore_tfilter_find(const char *name, size_t size); /* NULL: none of this name */
extern const fore_tfilter fore_tfilters_text[], fore_tfilters_sequence[], fore_tfilters_select[]; /* end at a NULL name */
typedef fore_status (*fore_ttest_call)(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out);
typedef struct fore_ttest {
    const char *name;
    fore_ttest_call call;
} fore_ttest;
const fore_ttest *fore_ttest_find(const char *name, size_t size);
const fore_tfunction *fore_tglobal_find(const char *name, size_t size);

#endif
