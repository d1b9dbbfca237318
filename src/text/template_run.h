/* What the parser hands to the evaluator: the syntax tree of a template. Made once by fore_template_compile, then only
 * read, so that threads may share it. */
#ifndef FORE_TEXT_TEMPLATE_RUN_H
#define FORE_TEXT_TEMPLATE_RUN_H

#include "text/template_value.h"

typedef enum fore_tkind {
    /* expressions */
    FORE_N_CONST,   /* value */
    FORE_N_NAME,    /* id */
    FORE_N_LIST,    /* items */
    FORE_N_TUPLE,   /* items */
    FORE_N_DICT,    /* items: key, value, key, value... */
    FORE_N_AND,     /* a, b */
    FORE_N_OR,
    FORE_N_NOT,     /* a */
    FORE_N_COMPARE, /* a, items; ops[i] before items[i] */
    FORE_N_ARITH,   /* op, a, b */
    FORE_N_NEG,
    FORE_N_POS,
    FORE_N_CONCAT,  /* items */
    FORE_N_COND,    /* b if a else c (c may be NULL) */
    FORE_N_GETATTR, /* a, name */
    FORE_N_GETITEM, /* a, b */
    FORE_N_SLICE,   /* a, items[3], each may be NULL */
    FORE_N_CALL,    /* a, args */
    FORE_N_FILTER,  /* a (NULL: the body of a filter block), filter or NULL, name, args */
    FORE_N_TEST,    /* a, test or NULL, name, args */
    FORE_N_NSREF,   /* id.name, only as a target */
    /* statements */
    FORE_N_DATA,     /* value */
    FORE_N_OUTPUT,   /* a */
    FORE_N_IF,       /* a, body, orelse (an IF for elif) */
    FORE_N_FOR,      /* b target, a iterable, c filter, body, orelse, flag: recursive */
    FORE_N_SET,      /* b target, a value */
    FORE_N_SETBLOCK, /* b target, a filter or NULL, body */
    FORE_N_MACRO,    /* id, macro, body */
    FORE_N_CALLBLOCK,/* a call, macro, body */
    FORE_N_FILTERBLOCK, /* a, body */
    FORE_N_WITH,     /* items: target, value, ...; body */
    FORE_N_SCOPE,    /* body in a scope of its own; flag: block (sees only the top level) */
    FORE_N_BREAK,
    FORE_N_CONTINUE,
    FORE_N_LOADER,   /* include, import, extends: there is nothing to load from */
} fore_tkind;

typedef enum fore_tcompare_op {
    FORE_C_EQ, FORE_C_NE, FORE_C_LT, FORE_C_LE, FORE_C_GT, FORE_C_GE, FORE_C_IN, FORE_C_NOTIN,
} fore_tcompare_op;

typedef struct fore_tnode fore_tnode;

typedef struct fore_targs {
    fore_tnode **positional;
    size_t count;
    const fore_tstr **names; /* of keywords */
    fore_tnode **keywords;
    size_t keyword_count;
    fore_tnode *star, *starstar; /* or NULL */
} fore_targs;

typedef struct fore_tsignature {
    const fore_tstr *name; /* of the macro; NULL for a call block */
    const fore_tstr **names;
    int *ids;
    fore_tnode **defaults; /* NULL where there is none */
    size_t count;
    bool uses_caller, uses_varargs, uses_kwargs, has_caller;
    int caller_id, varargs_id, kwargs_id;
} fore_tsignature;

struct fore_tnode {
    fore_tkind kind;
    int line;
    int op; /* fore_top */
    int id; /* of a name */
    int depth;
    bool flag;
    fore_tval value;
    const fore_tstr *name;
    fore_tnode *a, *b, *c;
    fore_tnode **items;
    size_t count;
    unsigned char *ops;
    const fore_targs *args;
    const fore_tfilter *filter;
    const fore_ttest *test;
    fore_tsignature *macro;
    fore_tnode *body, *orelse; /* lists of statements through next */
    fore_tnode *next;
};

struct fore_template {
    fore_arena arena; /* of the tree, the names and the source */
    fore_tnode *body;
    const fore_tstr **names; /* every name of the template, by id */
    size_t name_count;
    int loop_id;
};

/* Variables of one scope; scopes are chained to the one that they were written in. */
typedef struct fore_tbinding {
    int id;
    fore_tval value;
} fore_tbinding;
typedef struct fore_tscope {
    struct fore_tscope *parent;
    fore_tbinding *bindings;
    size_t count, capacity;
} fore_tscope;

typedef struct fore_tmacro {
    const fore_tsignature *signature;
    const fore_tnode *body;
    fore_tscope *scope; /* that it was defined in */
} fore_tmacro;

typedef struct fore_tloop {
    const fore_tval *items;
    size_t count, position;
    int64_t depth0;
    fore_tval changed; /* arguments of the last loop.changed, or MISSING */
    const fore_tnode *node; /* to call again when it is recursive */
    fore_tscope *scope;     /* that the loop stands in */
} fore_tloop;

/* ---- template_scope.c ---- */
fore_tscope *fore_tscope_new(fore_trun *run, fore_tscope *parent); /* NULL: no memory, error filled */
fore_status fore_tscope_set(fore_trun *run, fore_tscope *scope, int id, fore_tval v);
fore_status fore_tscope_get(fore_trun *run, const fore_tscope *scope, int id, fore_tval *out);
/* Assigns v to a target node (name, tuple, namespace attribute). */
fore_status fore_tassign(fore_trun *run, fore_tscope *scope, const fore_tnode *target, fore_tval v);

/* ---- template_expr.c ---- */
fore_status fore_teval(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out);
/* Evaluates arguments; `caller` (or NULL) is added as a keyword. */
fore_status fore_teval_args(fore_trun *run, fore_tscope *scope, const fore_targs *args, const fore_tval *caller,
                            fore_tcall *out);
fore_status fore_tapply_filter(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval v, fore_tval *out);
fore_status fore_tdeeper(fore_trun *run); /* counts a level of nesting; run->depth-- on the way back */

/* ---- template_exec.c ---- */
fore_status fore_texec(fore_trun *run, fore_tscope *scope, const fore_tnode *statements);
/* Output of a run of statements as a string. */
fore_status fore_tcapture(fore_trun *run, fore_tscope *scope, const fore_tnode *statements, fore_tval *out);

/* ---- compiling (template_lexer.c, template_parser.c, template_expression.c) ---- */
fore_status fore_tparse(struct fore_template *t, const char *source, size_t size, fore_error *err);

/* ---- template_input.c ---- */
/* The variables of a rendering from JSON; as_chat: prepared as apply_chat_template does it. */
fore_status fore_tinput(fore_trun *run, const char *json, size_t size, bool as_chat, fore_tdict **out);

#endif
