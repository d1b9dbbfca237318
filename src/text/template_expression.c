/* Expressions of a template: tokens to tree, with jinja2's precedence. */
#include <string.h>

#include "text/template_parser.h"

static fore_status parse_primary(fore_tparser *p, bool names_spaces, fore_tnode **out);
static fore_status parse_unary(fore_tparser *p, bool with_filter, fore_tnode **out);

static int depth_of(const fore_tnode *n) { return n ? n->depth : 0; }

/* Sets the depth of a tree whose children are in place. */
static fore_status close_node(fore_tparser *p, fore_tnode *n) {
    int d = depth_of(n->a);
    if (depth_of(n->b) > d) d = depth_of(n->b);
    if (depth_of(n->c) > d) d = depth_of(n->c);
    for (size_t i = 0; i < n->count; i++)
        if (depth_of(n->items[i]) > d) d = depth_of(n->items[i]);
    if (n->args) {
        for (size_t i = 0; i < n->args->count; i++)
            if (depth_of(n->args->positional[i]) > d) d = depth_of(n->args->positional[i]);
        for (size_t i = 0; i < n->args->keyword_count; i++)
            if (depth_of(n->args->keywords[i]) > d) d = depth_of(n->args->keywords[i]);
        if (depth_of(n->args->star) > d) d = depth_of(n->args->star);
        if (depth_of(n->args->starstar) > d) d = depth_of(n->args->starstar);
    }
    n->depth = d + 1;
    if (n->depth > FORE_T_MAX_TREE)
        return fore_fail(p->err, FORE_ERR_LIMIT, "template line %d: an expression is too long or nested too deeply",
                         n->line);
    return FORE_OK;
}

static fore_status pair(fore_tparser *p, fore_tkind kind, int line, fore_tnode *a, fore_tnode *b, fore_tnode **out) {
    fore_tnode *n = NULL;
    FORE_TRY(fore_tparse_node(p, kind, line, &n));
    n->a = a;
    n->b = b;
    *out = n;
    return close_node(p, n);
}

static fore_status constant(fore_tparser *p, int line, fore_tval v, fore_tnode **out) {
    FORE_TRY(fore_tparse_node(p, FORE_N_CONST, line, out));
    (*out)->value = v;
    (*out)->depth = 1;
    return FORE_OK;
}

static fore_tval text_value(const fore_tstr *s) { return (fore_tval){.tag = FORE_T_STR, .as.str = s}; }

static fore_status parse_name(fore_tparser *p, bool names_spaces, fore_tnode **out) {
    const fore_ttoken *t = p->token++;
    static const struct {
        const char *name;
        int value;
    } words[] = {{"true", 1}, {"True", 1}, {"false", 0}, {"False", 0}, {"none", -1}, {"None", -1}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].name) == t->size && memcmp(words[i].name, t->text, t->size) == 0)
            return constant(p, t->line, words[i].value < 0 ? fore_tnone() : fore_tbool(words[i].value == 1), out);
    fore_tnode *n = NULL;
    FORE_TRY(fore_tparse_node(p, FORE_N_NAME, t->line, &n));
    FORE_TRY(fore_tparse_id(p, t->text, t->size, &n->id));
    n->depth = 1;
    if (names_spaces && fore_tparse_skip_op(p, ".")) {
        if (p->token->kind != FORE_K_NAME) return fore_tparse_expect_kind(p, FORE_K_NAME, "name");
        n->kind = FORE_N_NSREF;
        FORE_TRY(fore_tparse_text(p, p->token->text, p->token->size, &n->name));
        p->token++;
    } else {
        p->uses_caller |= t->size == 6 && memcmp(t->text, "caller", 6) == 0;
        p->uses_varargs |= t->size == 7 && memcmp(t->text, "varargs", 7) == 0;
        p->uses_kwargs |= t->size == 6 && memcmp(t->text, "kwargs", 6) == 0;
    }
    *out = n;
    return FORE_OK;
}

static fore_status parse_string(fore_tparser *p, fore_tnode **out) {
    int line = p->token->line;
    size_t size = 0;
    const fore_ttoken *end = p->token;
    for (; end->kind == FORE_K_STRING; end++) size += end->size;
    const fore_tstr *s;
    if (end == p->token + 1) {
        FORE_TRY(fore_tparse_text(p, p->token->text, size, &s));
    } else { /* adjacent strings are one */
        char *joined = fore_arena_alloc(&p->t->arena, size + 1, 1);
        if (!joined) return fore_fail_nomem(p->err, "a string of a template");
        size_t n = 0;
        for (const fore_ttoken *t = p->token; t < end; t++) {
            if (t->size) memcpy(joined + n, t->text, t->size);
            n += t->size;
        }
        FORE_TRY(fore_tparse_text(p, joined, size, &s));
    }
    p->token = end;
    return constant(p, line, text_value(s), out);
}

static fore_status parse_number(fore_tparser *p, fore_tnode **out) {
    const fore_ttoken *t = p->token++;
    if (t->kind == FORE_K_FLOAT) return constant(p, t->line, fore_treal(fore_treal_parse(t->text, t->size)), out);
    int64_t i;
    bool big;
    if (!fore_tint_parse(t->text, t->size, 0, &i, &big)) return fore_tparse_fail(p, t->line, "malformed number");
    if (!big) return constant(p, t->line, fore_tint(i), out);
    if (t->text[0] == '0') return fore_fail(p->err, FORE_ERR_LIMIT, "template line %d: a number beyond 64 bits", t->line);
    const fore_tstr *s;
    FORE_TRY(fore_tparse_text(p, t->text, t->size, &s));
    return constant(p, t->line, (fore_tval){.tag = FORE_T_BIG, .as.str = s}, out);
}

static fore_status parse_list(fore_tparser *p, fore_tnode **out) {
    fore_tnode *n = NULL;
    FORE_TRY(fore_tparse_node(p, FORE_N_LIST, p->token->line, &n));
    p->token++;
    fore_tnodes items = {0};
    while (!fore_tparse_is_op(p, "]")) {
        fore_tnode *item;
        if (items.count) FORE_TRY(fore_tparse_expect_op(p, ","));
        if (fore_tparse_is_op(p, "]")) break;
        FORE_TRY(fore_tparse_expression(p, true, &item));
        FORE_TRY(fore_tnodes_push(p, &items, item));
    }
    FORE_TRY(fore_tparse_expect_op(p, "]"));
    n->items = items.items;
    n->count = items.count;
    *out = n;
    return close_node(p, n);
}

static fore_status parse_dict(fore_tparser *p, fore_tnode **out) {
    fore_tnode *n = NULL;
    FORE_TRY(fore_tparse_node(p, FORE_N_DICT, p->token->line, &n));
    p->token++;
    fore_tnodes items = {0};
    while (!fore_tparse_is_op(p, "}")) {
        fore_tnode *item;
        if (items.count) FORE_TRY(fore_tparse_expect_op(p, ","));
        if (fore_tparse_is_op(p, "}")) break;
        FORE_TRY(fore_tparse_expression(p, true, &item));
        FORE_TRY(fore_tnodes_push(p, &items, item));
        FORE_TRY(fore_tparse_expect_op(p, ":"));
        FORE_TRY(fore_tparse_expression(p, true, &item));
        FORE_TRY(fore_tnodes_push(p, &items, item));
    }
    FORE_TRY(fore_tparse_expect_op(p, "}"));
    n->items = items.items;
    n->count = items.count;
    *out = n;
    return close_node(p, n);
}

static fore_status parse_primary(fore_tparser *p, bool names_spaces, fore_tnode **out) {
    const fore_ttoken *t = p->token;
    switch (t->kind) {
    case FORE_K_NAME: return parse_name(p, names_spaces, out);
    case FORE_K_STRING: return parse_string(p, out);
    case FORE_K_INTEGER:
    case FORE_K_FLOAT: return parse_number(p, out);
    case FORE_K_OPERATOR:
        if (fore_tparse_skip_op(p, "(")) {
            FORE_TRY(fore_tparse_tuple(p, (fore_ttuple_rules){.with_cond = true, .parentheses = true}, out));
            return fore_tparse_expect_op(p, ")");
        }
        if (fore_tparse_is_op(p, "[")) return parse_list(p, out);
        if (fore_tparse_is_op(p, "{")) return parse_dict(p, out);
        return fore_tparse_fail(p, t->line, "unexpected '%.*s'", (int)t->size, t->text);
    case FORE_K_EOF: return fore_tparse_fail(p, t->line, "unexpected 'end of template'");
    case FORE_K_BLOCK_END: return fore_tparse_fail(p, t->line, "unexpected 'end of statement block'");
    case FORE_K_VARIABLE_END: return fore_tparse_fail(p, t->line, "unexpected 'end of print statement'");
    default: return fore_tparse_fail(p, t->line, "an expression is missing");
    }
}

static fore_status parse_call_args(fore_tparser *p, fore_targs **out) {
    int line = p->token->line;
    FORE_TRY(fore_tparse_expect_op(p, "("));
    fore_targs *args = fore_arena_alloc(&p->t->arena, 1, sizeof *args);
    if (!args) return fore_fail_nomem(p->err, "the tree of a template");
    fore_tnodes positional = {0}, keywords = {0};
    const fore_tstr **names = NULL;
    size_t name_room = 0;
    bool comma = false, valid = true;
    while (valid && !fore_tparse_is_op(p, ")")) {
        if (comma) {
            FORE_TRY(fore_tparse_expect_op(p, ","));
            if (fore_tparse_is_op(p, ")")) break;
        }
        fore_tnode *n;
        if (fore_tparse_is_op(p, "*")) {
            valid = !args->star && !args->starstar;
            p->token++;
            FORE_TRY(fore_tparse_expression(p, true, &args->star));
        } else if (fore_tparse_is_op(p, "**")) {
            valid = !args->starstar;
            p->token++;
            FORE_TRY(fore_tparse_expression(p, true, &args->starstar));
        } else if (p->token->kind == FORE_K_NAME && p->token[1].kind == FORE_K_OPERATOR && p->token[1].size == 1 &&
                   *p->token[1].text == '=') {
            valid = !args->starstar;
            const fore_tstr *name;
            FORE_TRY(fore_tparse_text(p, p->token->text, p->token->size, &name));
            for (size_t i = 0; i < keywords.count; i++) /* Python refuses to compile it */
                if (names[i]->size == name->size && memcmp(names[i]->data, name->data, name->size) == 0)
                    return fore_tparse_fail(p, line, "keyword argument repeated: %.*s", (int)name->size, name->data);
            if (keywords.count == name_room) {
                name_room = name_room ? name_room * 2 : 4;
                if (name_room > 256) return fore_tparse_fail(p, line, "more than 256 keyword arguments");
                const fore_tstr **grown = fore_arena_alloc(&p->t->arena, name_room, sizeof *grown);
                if (!grown) return fore_fail_nomem(p->err, "the tree of a template");
                if (keywords.count) memcpy(grown, names, keywords.count * sizeof *grown);
                names = grown;
            }
            names[keywords.count] = name;
            p->token += 2;
            FORE_TRY(fore_tparse_expression(p, true, &n));
            FORE_TRY(fore_tnodes_push(p, &keywords, n));
        } else {
            valid = !args->star && !args->starstar && !keywords.count;
            FORE_TRY(fore_tparse_expression(p, true, &n));
            FORE_TRY(fore_tnodes_push(p, &positional, n));
        }
        comma = true;
    }
    if (!valid) return fore_tparse_fail(p, line, "invalid syntax for function call expression");
    FORE_TRY(fore_tparse_expect_op(p, ")"));
    args->positional = positional.items;
    args->count = positional.count;
    args->keywords = keywords.items;
    args->keyword_count = keywords.count;
    args->names = names;
    *out = args;
    return FORE_OK;
}

static fore_status parse_call(fore_tparser *p, fore_tnode *callee, fore_tnode **out) {
    fore_tnode *n = NULL;
    fore_targs *args;
    FORE_TRY(fore_tparse_node(p, FORE_N_CALL, p->token->line, &n));
    FORE_TRY(parse_call_args(p, &args));
    n->a = callee;
    n->args = args;
    *out = n;
    return close_node(p, n);
}

/* One index or slice; a slice comes back as a SLICE node without its object. */
static fore_status parse_subscribed(fore_tparser *p, fore_tnode **out) {
    int line = p->token->line;
    fore_tnode *parts[3] = {0};
    if (!fore_tparse_is_op(p, ":")) {
        FORE_TRY(fore_tparse_expression(p, true, &parts[0]));
        if (!fore_tparse_is_op(p, ":")) {
            *out = parts[0];
            return FORE_OK;
        }
    }
    for (int i = 1; i < 3 && fore_tparse_skip_op(p, ":"); i++)
        if (!fore_tparse_is_op(p, ":") && !fore_tparse_is_op(p, "]") && !fore_tparse_is_op(p, ","))
            FORE_TRY(fore_tparse_expression(p, true, &parts[i]));
    fore_tnode *n = NULL;
    FORE_TRY(fore_tparse_node(p, FORE_N_SLICE, line, &n));
    n->items = fore_arena_alloc(&p->t->arena, 3, sizeof *n->items);
    if (!n->items) return fore_fail_nomem(p->err, "the tree of a template");
    memcpy(n->items, parts, sizeof parts);
    n->count = 3;
    *out = n;
    return FORE_OK;
}

static fore_status parse_subscript(fore_tparser *p, fore_tnode *of, fore_tnode **out) {
    int line = p->token->line;
    fore_tnode *n, *index = NULL;
    if (fore_tparse_skip_op(p, ".")) {
        const fore_ttoken *t = p->token;
        if (t->kind == FORE_K_NAME) {
            p->token++;
            FORE_TRY(fore_tparse_node(p, FORE_N_GETATTR, line, &n));
            FORE_TRY(fore_tparse_text(p, t->text, t->size, &n->name));
            n->value = text_value(n->name);
            n->a = of;
            *out = n;
            return close_node(p, n);
        }
        if (t->kind != FORE_K_INTEGER) return fore_tparse_fail(p, t->line, "expected name or number");
        FORE_TRY(parse_number(p, &index));
        return pair(p, FORE_N_GETITEM, line, of, index, out);
    }
    FORE_TRY(fore_tparse_expect_op(p, "["));
    fore_tnodes items = {0};
    while (!fore_tparse_is_op(p, "]")) {
        if (items.count) FORE_TRY(fore_tparse_expect_op(p, ","));
        FORE_TRY(parse_subscribed(p, &index));
        FORE_TRY(fore_tnodes_push(p, &items, index));
    }
    FORE_TRY(fore_tparse_expect_op(p, "]"));
    if (items.count == 1 && index->kind == FORE_N_SLICE && !index->a) {
        index->a = of;
        *out = index;
        return close_node(p, index);
    }
    if (items.count != 1) { /* a tuple is the index, as in d[1, 2] */
        FORE_TRY(fore_tparse_node(p, FORE_N_TUPLE, line, &index));
        for (size_t i = 0; i < items.count; i++)
            if (items.items[i]->kind == FORE_N_SLICE && !items.items[i]->a)
                return fore_tparse_fail(p, line, "slices of several dimensions are not supported");
        index->items = items.items;
        index->count = items.count;
        FORE_TRY(close_node(p, index));
    }
    return pair(p, FORE_N_GETITEM, line, of, index, out);
}

static fore_status parse_postfix(fore_tparser *p, fore_tnode *n, fore_tnode **out) {
    for (;;) {
        if (fore_tparse_is_op(p, ".") || fore_tparse_is_op(p, "[")) {
            FORE_TRY(parse_subscript(p, n, &n));
        } else if (fore_tparse_is_op(p, "(")) {
            FORE_TRY(parse_call(p, n, &n));
        } else {
            *out = n;
            return FORE_OK;
        }
    }
}

/* A dotted name, as filters and tests may have. */
static fore_status dotted_name(fore_tparser *p, const fore_tstr **out) {
    if (p->token->kind != FORE_K_NAME) return fore_tparse_expect_kind(p, FORE_K_NAME, "name");
    const char *start = p->token->text;
    size_t size = p->token->size;
    p->token++;
    while (fore_tparse_skip_op(p, ".")) {
        if (p->token->kind != FORE_K_NAME) return fore_tparse_expect_kind(p, FORE_K_NAME, "name");
        size = (size_t)(p->token->text + p->token->size - start);
        p->token++;
    }
    return fore_tparse_text(p, start, size, out);
}

/* A filter or test that does not exist fails now, or when it is used where it may never be. */
static void unknown(fore_tparser *p, int line, const char *what, const fore_tstr *name) {
    if (p->soft) return;
    if (p->unknown++ == 0)
        fore_fail(&p->unknown_error, FORE_ERR_FORMAT, "template line %d: No %s named '%.*s'.", line, what,
                  name->size > 100 ? 100 : (int)name->size, name->data);
}

fore_status fore_tparse_filters(fore_tparser *p, fore_tnode *node, bool inline_first, fore_tnode **out) {
    while (inline_first || fore_tparse_skip_op(p, "|")) {
        inline_first = false;
        fore_tnode *n;
        FORE_TRY(fore_tparse_node(p, FORE_N_FILTER, p->token->line, &n));
        FORE_TRY(dotted_name(p, &n->name));
        n->filter = fore_tfilter_find(n->name->data, n->name->size);
        if (!n->filter) unknown(p, n->line, "filter", n->name);
        if (fore_tparse_is_op(p, "(")) {
            fore_targs *args;
            FORE_TRY(parse_call_args(p, &args));
            n->args = args;
        }
        n->a = node;
        FORE_TRY(close_node(p, n));
        node = n;
    }
    *out = node;
    return FORE_OK;
}

static fore_status parse_test(fore_tparser *p, fore_tnode *of, fore_tnode **out) {
    fore_tnode *n = NULL;
    FORE_TRY(fore_tparse_node(p, FORE_N_TEST, p->token->line, &n));
    p->token++;
    bool negated = fore_tparse_skip_name(p, "not");
    FORE_TRY(dotted_name(p, &n->name));
    n->test = fore_ttest_find(n->name->data, n->name->size);
    if (!n->test) unknown(p, n->line, "test", n->name);
    fore_ttoken_kind k = p->token->kind;
    bool argument = k == FORE_K_NAME || k == FORE_K_STRING || k == FORE_K_INTEGER || k == FORE_K_FLOAT ||
                    fore_tparse_is_op(p, "[") || fore_tparse_is_op(p, "{");
    if (fore_tparse_is_op(p, "(")) {
        fore_targs *args;
        FORE_TRY(parse_call_args(p, &args));
        n->args = args;
    } else if (argument && !fore_tparse_is_name(p, "else") && !fore_tparse_is_name(p, "or") &&
               !fore_tparse_is_name(p, "and")) {
        if (fore_tparse_is_name(p, "is"))
            return fore_tparse_fail(p, p->token->line, "You cannot chain multiple tests with is");
        fore_targs *args = fore_arena_alloc(&p->t->arena, 1, sizeof *args);
        fore_tnode *one;
        if (!args) return fore_fail_nomem(p->err, "the tree of a template");
        FORE_TRY(parse_primary(p, false, &one));
        FORE_TRY(parse_postfix(p, one, &one));
        fore_tnodes list = {0};
        FORE_TRY(fore_tnodes_push(p, &list, one));
        args->positional = list.items;
        args->count = 1;
        n->args = args;
    }
    n->a = of;
    FORE_TRY(close_node(p, n));
    if (negated) return pair(p, FORE_N_NOT, n->line, n, NULL, out);
    *out = n;
    return FORE_OK;
}

static fore_status parse_filter_expr(fore_tparser *p, fore_tnode *n, fore_tnode **out) {
    for (;;) {
        if (fore_tparse_is_op(p, "|")) {
            FORE_TRY(fore_tparse_filters(p, n, false, &n));
        } else if (fore_tparse_is_name(p, "is")) {
            FORE_TRY(parse_test(p, n, &n));
        } else if (fore_tparse_is_op(p, "(")) {
            FORE_TRY(parse_call(p, n, &n));
        } else {
            *out = n;
            return FORE_OK;
        }
    }
}

static fore_status parse_unary(fore_tparser *p, bool with_filter, fore_tnode **out) {
    int line = p->token->line;
    fore_tnode *n = NULL;
    bool negative = fore_tparse_is_op(p, "-");
    if (negative || fore_tparse_is_op(p, "+")) {
        p->token++;
        FORE_TRY(fore_tparse_enter(p));
        FORE_TRY(parse_unary(p, false, &n));
        p->depth--;
        FORE_TRY(pair(p, negative ? FORE_N_NEG : FORE_N_POS, line, n, NULL, &n));
    } else {
        FORE_TRY(parse_primary(p, false, &n));
    }
    FORE_TRY(parse_postfix(p, n, &n));
    if (with_filter) return parse_filter_expr(p, n, out);
    *out = n;
    return FORE_OK;
}

/* The binary operators of arithmetic by how tight they bind: + -, then ~, then * / // %, then **. All bind to the
 * left, ** too. */
enum { LEVEL_SUM, LEVEL_CONCAT, LEVEL_PRODUCT, LEVEL_POWER, LEVEL_UNARY };

static int arith_op(const fore_tparser *p, int level) {
    if (level == LEVEL_SUM) return fore_tparse_is_op(p, "+") ? FORE_OP_ADD : fore_tparse_is_op(p, "-") ? FORE_OP_SUB : -1;
    if (level == LEVEL_POWER) return fore_tparse_is_op(p, "**") ? FORE_OP_POW : -1;
    return fore_tparse_is_op(p, "*")    ? FORE_OP_MUL
           : fore_tparse_is_op(p, "/")  ? FORE_OP_DIV
           : fore_tparse_is_op(p, "//") ? FORE_OP_FLOORDIV
           : fore_tparse_is_op(p, "%")  ? FORE_OP_MOD
                                        : -1;
}

static fore_status parse_math(fore_tparser *p, int level, fore_tnode **out) {
    if (level == LEVEL_UNARY) return parse_unary(p, true, out);
    int line = p->token->line;
    fore_tnode *left, *right;
    FORE_TRY(parse_math(p, level + 1, &left));
    if (level == LEVEL_CONCAT) {
        if (fore_tparse_is_op(p, "~")) {
            fore_tnodes items = {0};
            FORE_TRY(fore_tnodes_push(p, &items, left));
            while (fore_tparse_skip_op(p, "~")) {
                FORE_TRY(parse_math(p, level + 1, &right));
                FORE_TRY(fore_tnodes_push(p, &items, right));
            }
            FORE_TRY(fore_tparse_node(p, FORE_N_CONCAT, line, &left));
            left->items = items.items;
            left->count = items.count;
            FORE_TRY(close_node(p, left));
        }
        *out = left;
        return FORE_OK;
    }
    for (int op; (op = arith_op(p, level)) >= 0; line = p->token->line) {
        p->token++;
        FORE_TRY(parse_math(p, level + 1, &right));
        FORE_TRY(pair(p, FORE_N_ARITH, line, left, right, &left));
        left->op = op;
    }
    *out = left;
    return FORE_OK;
}

static int compare_op(fore_tparser *p) {
    static const char *const names[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++)
        if (fore_tparse_skip_op(p, names[i])) return i;
    if (fore_tparse_skip_name(p, "in")) return FORE_C_IN;
    const fore_ttoken *next = p->token + 1;
    if (fore_tparse_is_name(p, "not") && next->kind == FORE_K_NAME && next->size == 2 && memcmp(next->text, "in", 2) == 0) {
        p->token += 2;
        return FORE_C_NOTIN;
    }
    return -1;
}

static fore_status parse_compare(fore_tparser *p, fore_tnode **out) {
    int line = p->token->line;
    fore_tnode *first, *n;
    FORE_TRY(parse_math(p, LEVEL_SUM, &first));
    unsigned char ops[64];
    fore_tnodes items = {0};
    for (int op; (op = compare_op(p)) >= 0;) {
        if (items.count == sizeof ops) return fore_tparse_fail(p, line, "more than %zu comparisons in a chain", sizeof ops);
        ops[items.count] = (unsigned char)op;
        FORE_TRY(parse_math(p, LEVEL_SUM, &n));
        FORE_TRY(fore_tnodes_push(p, &items, n));
    }
    if (!items.count) {
        *out = first;
        return FORE_OK;
    }
    FORE_TRY(fore_tparse_node(p, FORE_N_COMPARE, line, &n));
    n->a = first;
    n->items = items.items;
    n->count = items.count;
    n->ops = (unsigned char *)fore_arena_copy(&p->t->arena, (const char *)ops, items.count);
    if (!n->ops) return fore_fail_nomem(p->err, "the tree of a template");
    *out = n;
    return close_node(p, n);
}

static fore_status parse_not(fore_tparser *p, fore_tnode **out) {
    int line = p->token->line;
    if (!fore_tparse_skip_name(p, "not")) return parse_compare(p, out);
    FORE_TRY(fore_tparse_enter(p));
    FORE_TRY(parse_not(p, out));
    p->depth--;
    return pair(p, FORE_N_NOT, line, *out, NULL, out);
}

static fore_status parse_logic(fore_tparser *p, bool is_or, fore_tnode **out) {
    int line = p->token->line;
    fore_tnode *left, *right;
    FORE_TRY(is_or ? parse_logic(p, false, &left) : parse_not(p, &left));
    while (fore_tparse_skip_name(p, is_or ? "or" : "and")) {
        FORE_TRY(is_or ? parse_logic(p, false, &right) : parse_not(p, &right));
        FORE_TRY(pair(p, is_or ? FORE_N_OR : FORE_N_AND, line, left, right, &left));
        line = p->token->line;
    }
    *out = left;
    return FORE_OK;
}

static fore_status parse_cond(fore_tparser *p, fore_tnode **out) {
    int line = p->token->line, unknown_before = p->unknown;
    bool soft = p->soft;
    fore_tnode *left, *test, *otherwise;
    FORE_TRY(parse_logic(p, true, &left));
    while (fore_tparse_skip_name(p, "if")) {
        p->unknown = unknown_before; /* every part of it is a soft place */
        p->soft = true;
        otherwise = NULL;
        FORE_TRY(parse_logic(p, true, &test));
        if (fore_tparse_skip_name(p, "else")) {
            FORE_TRY(fore_tparse_enter(p));
            FORE_TRY(parse_cond(p, &otherwise));
            p->depth--;
        }
        fore_tnode *n;
        FORE_TRY(fore_tparse_node(p, FORE_N_COND, line, &n));
        n->a = test;
        n->b = left;
        n->c = otherwise;
        FORE_TRY(close_node(p, n));
        left = n;
        line = p->token->line;
    }
    p->soft = soft;
    *out = left;
    return FORE_OK;
}

fore_status fore_tparse_expression(fore_tparser *p, bool with_cond, fore_tnode **out) {
    FORE_TRY(fore_tparse_enter(p));
    FORE_TRY(with_cond ? parse_cond(p, out) : parse_logic(p, true, out));
    p->depth--;
    return FORE_OK;
}

fore_status fore_tparse_tuple(fore_tparser *p, fore_ttuple_rules rules, fore_tnode **out) {
    int line = p->token->line;
    fore_tnodes items = {0};
    bool is_tuple = false;
    for (;;) {
        fore_tnode *item;
        if (items.count) FORE_TRY(fore_tparse_expect_op(p, ","));
        if (p->token->kind == FORE_K_VARIABLE_END || p->token->kind == FORE_K_BLOCK_END || fore_tparse_is_op(p, ")"))
            break;
        FORE_TRY(rules.simple ? parse_primary(p, rules.names_spaces, &item)
                              : fore_tparse_expression(p, rules.with_cond, &item));
        FORE_TRY(fore_tnodes_push(p, &items, item));
        if (!fore_tparse_is_op(p, ",")) break;
        is_tuple = true;
        line = p->token->line;
    }
    if (!is_tuple && items.count) {
        *out = items.items[0];
        return FORE_OK;
    }
    if (!is_tuple && !rules.parentheses) return fore_tparse_fail(p, p->token->line, "Expected an expression");
    fore_tnode *n = NULL;
    FORE_TRY(fore_tparse_node(p, FORE_N_TUPLE, line, &n));
    n->items = items.items;
    n->count = items.count;
    *out = n;
    return close_node(p, n);
}
