/* What the two halves of the parser share: statements are in template_parser.c, expressions in template_expression.c. */
#ifndef FORE_TEXT_TEMPLATE_PARSER_H
#define FORE_TEXT_TEMPLATE_PARSER_H

#include "text/template_lexer.h"
#include "text/template_run.h"

enum {
    FORE_T_MAX_PARSE = 100,       /* nested brackets and blocks */
    FORE_T_MAX_TREE = 300,        /* levels of one expression's tree, long chains of operators included */
};

typedef struct fore_tparser {
    struct fore_template *t;
    fore_error *err;
    const fore_ttoken *token; /* the current one */
    int depth;
    int for_depth;            /* loops around, macros not regarded: `loop` cannot be assigned in them */
    bool in_loop;             /* break and continue are allowed */
    bool soft;                /* an unknown filter or test fails when it is used, not when the template is compiled */
    bool uses_caller, uses_varargs, uses_kwargs; /* of the macro that is being read */
    int unknown;              /* filters and tests that do not exist, outside of soft places */
    fore_error unknown_error; /* about the first of them */
    uint32_t *index;          /* hash of the names: id + 1 */
    size_t index_size, name_capacity;
} fore_tparser;

fore_status fore_tparse_fail(fore_tparser *p, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
fore_status fore_tparse_enter(fore_tparser *p); /* a level deeper; p->depth-- on the way out */
bool fore_tparse_is_name(const fore_tparser *p, const char *name);
bool fore_tparse_is_op(const fore_tparser *p, const char *op);
bool fore_tparse_skip_name(fore_tparser *p, const char *name);
bool fore_tparse_skip_op(fore_tparser *p, const char *op);
fore_status fore_tparse_expect_op(fore_tparser *p, const char *op);
fore_status fore_tparse_expect_kind(fore_tparser *p, fore_ttoken_kind kind, const char *what);
fore_status fore_tparse_node(fore_tparser *p, fore_tkind kind, int line, fore_tnode **out);
fore_status fore_tparse_text(fore_tparser *p, const char *data, size_t size, const fore_tstr **out);
fore_status fore_tparse_id(fore_tparser *p, const char *data, size_t size, int *id);

/* A growing list of nodes. */
typedef struct fore_tnodes {
    fore_tnode **items;
    size_t count, capacity;
} fore_tnodes;
fore_status fore_tnodes_push(fore_tparser *p, fore_tnodes *nodes, fore_tnode *n);

/* ---- template_expression.c ---- */
fore_status fore_tparse_expression(fore_tparser *p, bool with_cond, fore_tnode **out);
typedef struct fore_ttuple_rules {
    bool simple;       /* names and literals only */
    bool with_cond;    /* a conditional expression may stand in it */
    bool parentheses;  /* it stands in parentheses, so that it may be empty */
    bool names_spaces; /* ns.x is allowed, as a target */
} fore_ttuple_rules;
fore_status fore_tparse_tuple(fore_tparser *p, fore_ttuple_rules rules, fore_tnode **out);
/* Filters behind `node` (NULL: the body of a block); `inline_first`: the first one comes without "|". */
fore_status fore_tparse_filters(fore_tparser *p, fore_tnode *node, bool inline_first, fore_tnode **out);

#endif
