/* Statements of a template: tokens to tree; and compiling as a whole. Blocks that would load other templates (include,
 * import, extends) compile and fail when they are reached: there is nothing to load from. */
#include "text/template_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fore_status parse_statements(fore_tparser *p, const char *const *ends, fore_tnode **out);

fore_status fore_tparse_fail(fore_tparser *p, int line, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fore_fail(p->err, FORE_ERR_FORMAT, "template line %d: %s", line, text);
}

fore_status fore_tparse_enter(fore_tparser *p) {
    if (++p->depth > FORE_T_MAX_PARSE)
        return fore_fail(p->err, FORE_ERR_LIMIT, "template line %d: more than %d nested brackets or blocks", p->token->line,
                         FORE_T_MAX_PARSE);
    return FORE_OK;
}

static bool is_text(const fore_ttoken *t, fore_ttoken_kind kind, const char *text) {
    return t->kind == kind && t->size == strlen(text) && memcmp(t->text, text, t->size) == 0;
}

bool fore_tparse_is_name(const fore_tparser *p, const char *name) { return is_text(p->token, FORE_K_NAME, name); }
bool fore_tparse_is_op(const fore_tparser *p, const char *op) { return is_text(p->token, FORE_K_OPERATOR, op); }
bool fore_tparse_skip_name(fore_tparser *p, const char *name) {
    bool found = fore_tparse_is_name(p, name);
    p->token += found;
    return found;
}
bool fore_tparse_skip_op(fore_tparser *p, const char *op) {
    bool found = fore_tparse_is_op(p, op);
    p->token += found;
    return found;
}

static fore_status unexpected(fore_tparser *p, const char *wanted) {
    const fore_ttoken *t = p->token;
    switch (t->kind) {
    case FORE_K_EOF: return fore_tparse_fail(p, t->line, "unexpected end of template, expected '%s'.", wanted);
    case FORE_K_BLOCK_END: return fore_tparse_fail(p, t->line, "expected token '%s', got 'end of statement block'", wanted);
    case FORE_K_VARIABLE_END:
        return fore_tparse_fail(p, t->line, "expected token '%s', got 'end of print statement'", wanted);
    default:
        return fore_tparse_fail(p, t->line, "expected token '%s', got '%.*s'", wanted, t->size > 60 ? 60 : (int)t->size,
                                t->text);
    }
}

fore_status fore_tparse_expect_op(fore_tparser *p, const char *op) {
    return fore_tparse_skip_op(p, op) ? FORE_OK : unexpected(p, op);
}

fore_status fore_tparse_expect_kind(fore_tparser *p, fore_ttoken_kind kind, const char *what) {
    if (p->token->kind != kind) return unexpected(p, what);
    if (kind != FORE_K_EOF) p->token++;
    return FORE_OK;
}

fore_status fore_tparse_node(fore_tparser *p, fore_tkind kind, int line, fore_tnode **out) {
    fore_tnode *n = fore_arena_alloc(&p->t->arena, 1, sizeof *n);
    if (!n) return fore_fail_nomem(p->err, "the tree of a template");
    n->kind = kind;
    n->line = line;
    *out = n;
    return FORE_OK;
}

fore_status fore_tparse_text(fore_tparser *p, const char *data, size_t size, const fore_tstr **out) {
    fore_tstr *s = fore_arena_alloc(&p->t->arena, 1, sizeof *s);
    if (!s) return fore_fail_nomem(p->err, "the tree of a template");
    *s = (fore_tstr){.data = data, .size = size};
    for (size_t i = 0; i < size; i++) s->chars += ((unsigned char)data[i] & 0xc0) != 0x80;
    *out = s;
    return FORE_OK;
}

fore_status fore_tnodes_push(fore_tparser *p, fore_tnodes *nodes, fore_tnode *n) {
    if (nodes->count == nodes->capacity) {
        size_t capacity = nodes->capacity ? nodes->capacity * 2 : 8;
        fore_tnode **items = fore_arena_alloc(&p->t->arena, capacity, sizeof *items);
        if (!items) return fore_fail_nomem(p->err, "the tree of a template");
        if (nodes->count) memcpy(items, nodes->items, nodes->count * sizeof *items);
        nodes->items = items;
        nodes->capacity = capacity;
    }
    nodes->items[nodes->count++] = n;
    return FORE_OK;
}

/* ---- names ---- */

static size_t name_hash(const char *data, size_t size) {
    size_t h = 5381;
    for (size_t i = 0; i < size; i++) h = h * 33 + (unsigned char)data[i];
    return h ^ (h >> 15);
}

static fore_status grow_names(fore_tparser *p) {
    size_t capacity = p->name_capacity ? p->name_capacity * 2 : 64, size = capacity * 2;
    const fore_tstr **names = fore_arena_alloc(&p->t->arena, capacity, sizeof *names);
    uint32_t *index = calloc(size, sizeof *index);
    if (!names || !index) {
        free(index);
        return fore_fail_nomem(p->err, "the names of a template");
    }
    if (p->t->name_count) memcpy(names, p->t->names, p->t->name_count * sizeof *names);
    for (size_t i = 0; i < p->t->name_count; i++) {
        size_t slot = name_hash(names[i]->data, names[i]->size) % size;
        while (index[slot]) slot = (slot + 1) % size;
        index[slot] = (uint32_t)i + 1;
    }
    free(p->index);
    p->index = index;
    p->index_size = size;
    p->name_capacity = capacity;
    p->t->names = names;
    return FORE_OK;
}

fore_status fore_tparse_id(fore_tparser *p, const char *data, size_t size, int *id) {
    if (p->t->name_count == p->name_capacity) FORE_TRY(grow_names(p));
    size_t slot = name_hash(data, size) % p->index_size;
    for (; p->index[slot]; slot = (slot + 1) % p->index_size) {
        const fore_tstr *s = p->t->names[p->index[slot] - 1];
        if (s->size == size && memcmp(s->data, data, size) == 0) {
            *id = (int)p->index[slot] - 1;
            return FORE_OK;
        }
    }
    FORE_TRY(fore_tparse_text(p, data, size, &p->t->names[p->t->name_count]));
    p->index[slot] = (uint32_t)++p->t->name_count;
    *id = (int)p->t->name_count - 1;
    return FORE_OK;
}

/* ---- targets ---- */

static fore_status check_target(fore_tparser *p, const fore_tnode *n) {
    static const char *const kinds[] = {"const", "name", "list", "tuple", "dict"};
    if (n->kind == FORE_N_NSREF) return FORE_OK;
    if (n->kind == FORE_N_NAME) {
        if (p->for_depth && n->id == p->t->loop_id)
            return fore_tparse_fail(p, n->line, "Can't assign to special loop variable in for-loop target");
        return FORE_OK;
    }
    if (n->kind != FORE_N_TUPLE)
        return fore_tparse_fail(p, n->line, "can't assign to '%s'", n->kind <= FORE_N_DICT ? kinds[n->kind] : "expression");
    for (size_t i = 0; i < n->count; i++) FORE_TRY(check_target(p, n->items[i]));
    return FORE_OK;
}

static fore_status parse_target(fore_tparser *p, bool names_spaces, fore_tnode **out) {
    bool caller = p->uses_caller, varargs = p->uses_varargs, kwargs = p->uses_kwargs;
    fore_ttuple_rules rules = {.simple = true, .with_cond = true, .names_spaces = names_spaces};
    FORE_TRY(fore_tparse_tuple(p, rules, out));
    p->uses_caller = caller; /* a target is no use of them */
    p->uses_varargs = varargs;
    p->uses_kwargs = kwargs;
    return check_target(p, *out);
}

static fore_status parse_target_name(fore_tparser *p, const fore_tstr **name, int *id) {
    const fore_ttoken *t = p->token;
    FORE_TRY(fore_tparse_expect_kind(p, FORE_K_NAME, "name"));
    static const char *const taken[] = {"true", "True", "false", "False", "none", "None"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (is_text(t, FORE_K_NAME, taken[i])) return fore_tparse_fail(p, t->line, "can't assign to 'name'");
    FORE_TRY(fore_tparse_id(p, t->text, t->size, id));
    *name = p->t->names[*id];
    return FORE_OK;
}

/* ---- statements ---- */

static fore_status parse_for(fore_tparser *p, fore_tnode *n) {
    static const char *const ends[] = {"endfor", "else", NULL}, *const else_ends[] = {"endfor", NULL};
    p->for_depth++;
    FORE_TRY(parse_target(p, false, &n->b));
    if (!fore_tparse_skip_name(p, "in")) return unexpected(p, "in");
    FORE_TRY(fore_tparse_tuple(p, (fore_ttuple_rules){0}, &n->a));
    bool soft = p->soft, in_loop = p->in_loop;
    p->soft = false;
    if (fore_tparse_skip_name(p, "if")) FORE_TRY(fore_tparse_expression(p, true, &n->c));
    n->flag = fore_tparse_skip_name(p, "recursive");
    p->in_loop = true;
    FORE_TRY(parse_statements(p, ends, &n->body));
    /* The else part of a recursive loop is in the loop's own function. */
    p->in_loop = in_loop && !n->flag;
    if (fore_tparse_skip_name(p, "else")) FORE_TRY(parse_statements(p, else_ends, &n->orelse));
    p->token++;
    p->in_loop = in_loop;
    p->soft = soft;
    p->for_depth--;
    return FORE_OK;
}

static fore_status parse_if(fore_tparser *p, fore_tnode *n) {
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const else_ends[] = {"endif", NULL};
    bool soft = p->soft;
    p->soft = true;
    for (;;) {
        FORE_TRY(fore_tparse_tuple(p, (fore_ttuple_rules){0}, &n->a));
        FORE_TRY(parse_statements(p, ends, &n->body));
        if (fore_tparse_skip_name(p, "elif")) {
            FORE_TRY(fore_tparse_node(p, FORE_N_IF, p->token->line, &n->orelse));
            n = n->orelse;
            n->flag = true; /* an elif, not an if in the else part */
            continue;
        }
        if (fore_tparse_skip_name(p, "else")) FORE_TRY(parse_statements(p, else_ends, &n->orelse));
        p->token++;
        p->soft = soft;
        return FORE_OK;
    }
}

static fore_status parse_set(fore_tparser *p, fore_tnode *n) {
    static const char *const ends[] = {"endset", NULL};
    FORE_TRY(parse_target(p, true, &n->b));
    if (fore_tparse_skip_op(p, "=")) return fore_tparse_tuple(p, (fore_ttuple_rules){.with_cond = true}, &n->a);
    n->kind = FORE_N_SETBLOCK;
    bool soft = p->soft;
    p->soft = false;
    FORE_TRY(fore_tparse_filters(p, NULL, false, &n->a));
    FORE_TRY(parse_statements(p, ends, &n->body));
    p->token++;
    p->soft = soft;
    return FORE_OK;
}

static fore_status parse_signature(fore_tparser *p, fore_tsignature *sig) {
    size_t room = 0;
    bool defaults = false;
    FORE_TRY(fore_tparse_expect_op(p, "("));
    while (!fore_tparse_is_op(p, ")")) {
        if (sig->count) FORE_TRY(fore_tparse_expect_op(p, ","));
        if (sig->count == room) {
            size_t more = room ? room * 2 : 8;
            const fore_tstr **names = fore_arena_alloc(&p->t->arena, more, sizeof *names);
            int *ids = fore_arena_alloc(&p->t->arena, more, sizeof *ids);
            fore_tnode **values = fore_arena_alloc(&p->t->arena, more, sizeof *values);
            if (!names || !ids || !values || more > 1024) return fore_fail_nomem(p->err, "the arguments of a macro");
            if (room) {
                memcpy(names, sig->names, room * sizeof *names);
                memcpy(ids, sig->ids, room * sizeof *ids);
                memcpy(values, sig->defaults, room * sizeof *values);
            }
            sig->names = names;
            sig->ids = ids;
            sig->defaults = values;
            room = more;
        }
        size_t i = sig->count;
        int line = p->token->line;
        FORE_TRY(parse_target_name(p, &sig->names[i], &sig->ids[i]));
        for (size_t k = 0; k < i; k++)
            if (sig->ids[k] == sig->ids[i]) return fore_tparse_fail(p, line, "a macro has two arguments of one name");
        if (fore_tparse_skip_op(p, "=")) {
            defaults = true;
            FORE_TRY(fore_tparse_expression(p, true, &sig->defaults[i]));
        } else if (defaults) {
            return fore_tparse_fail(p, line, "non-default argument follows default argument");
        }
        sig->count++;
    }
    return fore_tparse_expect_op(p, ")");
}

/* The arguments (when `parenthesis` begins them) and body of a macro or call block. */
static fore_status parse_macro_body(fore_tparser *p, fore_tnode *n, const char *const *ends) {
    fore_tsignature *sig = n->macro;
    bool soft = p->soft, in_loop = p->in_loop;
    bool caller = p->uses_caller, varargs = p->uses_varargs, kwargs = p->uses_kwargs;
    p->soft = p->in_loop = p->uses_caller = p->uses_varargs = p->uses_kwargs = false;
    FORE_TRY(parse_statements(p, ends, &n->body));
    p->token++;
    sig->uses_caller = p->uses_caller;
    sig->uses_varargs = p->uses_varargs;
    sig->uses_kwargs = p->uses_kwargs;
    FORE_TRY(fore_tparse_id(p, "caller", 6, &sig->caller_id));
    FORE_TRY(fore_tparse_id(p, "varargs", 7, &sig->varargs_id));
    FORE_TRY(fore_tparse_id(p, "kwargs", 6, &sig->kwargs_id));
    for (size_t i = 0; i < sig->count; i++) {
        if (sig->ids[i] == sig->caller_id) {
            if (sig->uses_caller && !sig->defaults[i])
                return fore_tparse_fail(p, n->line, "the special \"caller\" argument must be omitted or be given a default");
            sig->has_caller = true;
        }
        if (sig->ids[i] == sig->varargs_id) sig->uses_varargs = false;
        if (sig->ids[i] == sig->kwargs_id) sig->uses_kwargs = false;
    }
    p->uses_caller |= caller;
    p->uses_varargs |= varargs;
    p->uses_kwargs |= kwargs;
    p->soft = soft;
    p->in_loop = in_loop;
    return FORE_OK;
}

static fore_status new_signature(fore_tparser *p, fore_tnode *n) {
    n->macro = fore_arena_alloc(&p->t->arena, 1, sizeof *n->macro);
    return n->macro ? FORE_OK : fore_fail_nomem(p->err, "the tree of a template");
}

static fore_status parse_macro(fore_tparser *p, fore_tnode *n) {
    static const char *const ends[] = {"endmacro", NULL};
    FORE_TRY(new_signature(p, n));
    FORE_TRY(parse_target_name(p, &n->macro->name, &n->id));
    if (p->for_depth && n->id == p->t->loop_id && p->in_loop)
        return fore_tparse_fail(p, n->line, "a macro in a loop cannot be called loop");
    FORE_TRY(parse_signature(p, n->macro));
    return parse_macro_body(p, n, ends);
}

static fore_status parse_call_block(fore_tparser *p, fore_tnode *n) {
    static const char *const ends[] = {"endcall", NULL};
    FORE_TRY(new_signature(p, n));
    if (fore_tparse_is_op(p, "(")) FORE_TRY(parse_signature(p, n->macro));
    FORE_TRY(fore_tparse_expression(p, true, &n->a));
    if (n->a->kind != FORE_N_CALL) return fore_tparse_fail(p, n->line, "expected call");
    return parse_macro_body(p, n, ends);
}

static fore_status parse_filter_block(fore_tparser *p, fore_tnode *n) {
    static const char *const ends[] = {"endfilter", NULL};
    bool soft = p->soft;
    p->soft = false;
    FORE_TRY(fore_tparse_filters(p, NULL, true, &n->a));
    FORE_TRY(parse_statements(p, ends, &n->body));
    p->token++;
    p->soft = soft;
    return FORE_OK;
}

static fore_status parse_with(fore_tparser *p, fore_tnode *n) {
    static const char *const ends[] = {"endwith", NULL};
    fore_tnodes items = {0};
    while (p->token->kind != FORE_K_BLOCK_END) {
        fore_tnode *target, *value;
        if (items.count) FORE_TRY(fore_tparse_expect_op(p, ","));
        int for_depth = p->for_depth;
        p->for_depth = 0; /* `loop` may be given here */
        FORE_TRY(parse_target(p, false, &target));
        p->for_depth = for_depth;
        FORE_TRY(fore_tparse_expect_op(p, "="));
        FORE_TRY(fore_tparse_expression(p, true, &value));
        FORE_TRY(fore_tnodes_push(p, &items, target));
        FORE_TRY(fore_tnodes_push(p, &items, value));
    }
    n->items = items.items;
    n->count = items.count;
    bool soft = p->soft;
    p->soft = false;
    FORE_TRY(parse_statements(p, ends, &n->body));
    p->token++;
    p->soft = soft;
    return FORE_OK;
}

/* {% block %}, {% generation %}, {% autoescape %}: a body with a scope of its own. */
static fore_status parse_scope(fore_tparser *p, fore_tnode *n, const char *const *ends, bool block) {
    bool soft = p->soft, in_loop = p->in_loop;
    n->flag = block;
    p->soft = false;
    p->in_loop = in_loop && strcmp(ends[0], "endautoescape") == 0; /* the others are functions of their own */
    FORE_TRY(parse_statements(p, ends, &n->body));
    p->token++;
    p->soft = soft;
    p->in_loop = in_loop;
    return FORE_OK;
}

static fore_status parse_block(fore_tparser *p, fore_tnode *n) {
    static const char *const ends[] = {"endblock", NULL};
    const fore_tstr *name;
    if (p->token->kind != FORE_K_NAME) return unexpected(p, "name");
    FORE_TRY(fore_tparse_text(p, p->token->text, p->token->size, &name));
    p->token++;
    bool scoped = fore_tparse_skip_name(p, "scoped");
    fore_tparse_skip_name(p, "required");
    FORE_TRY(parse_scope(p, n, ends, !scoped));
    if (p->token->kind == FORE_K_NAME && p->token->size == name->size && memcmp(p->token->text, name->data, name->size) == 0)
        p->token++;
    return FORE_OK;
}

static fore_status parse_print(fore_tparser *p, fore_tnode *n) {
    fore_tnodes items = {0};
    while (p->token->kind != FORE_K_BLOCK_END) {
        fore_tnode *item;
        if (items.count) FORE_TRY(fore_tparse_expect_op(p, ","));
        FORE_TRY(fore_tparse_expression(p, true, &item));
        FORE_TRY(fore_tnodes_push(p, &items, item));
    }
    FORE_TRY(fore_tparse_node(p, FORE_N_CONCAT, n->line, &n->a));
    n->a->items = items.items;
    n->a->count = items.count;
    return FORE_OK;
}

static fore_status parse_statement(fore_tparser *p, fore_tnode **out) {
    static const char *const generation[] = {"endgeneration", NULL}, *const autoescape[] = {"endautoescape", NULL};
    fore_tnode *n = NULL;
    const fore_ttoken *t = p->token;
    if (t->kind != FORE_K_NAME) return fore_tparse_fail(p, t->line, "tag name expected");
    FORE_TRY(fore_tparse_node(p, FORE_N_OUTPUT, t->line, &n));
    *out = n;
    p->token++;
#define TAG(name, node_kind, call)            \
    if (is_text(t, FORE_K_NAME, name)) {      \
        n->kind = node_kind;                  \
        return call;                          \
    }
    TAG("if", FORE_N_IF, parse_if(p, n))
    TAG("for", FORE_N_FOR, parse_for(p, n))
    TAG("set", FORE_N_SET, parse_set(p, n))
    TAG("macro", FORE_N_MACRO, parse_macro(p, n))
    TAG("call", FORE_N_CALLBLOCK, parse_call_block(p, n))
    TAG("filter", FORE_N_FILTERBLOCK, parse_filter_block(p, n))
    TAG("with", FORE_N_WITH, parse_with(p, n))
    TAG("generation", FORE_N_SCOPE, parse_scope(p, n, generation, false))
    TAG("block", FORE_N_SCOPE, parse_block(p, n))
    TAG("print", FORE_N_OUTPUT, parse_print(p, n))
#undef TAG
    if (is_text(t, FORE_K_NAME, "autoescape")) {
        n->kind = FORE_N_SCOPE;
        fore_tnode *on;
        FORE_TRY(fore_tparse_expression(p, true, &on));
        if (on->kind != FORE_N_CONST || fore_ttrue(on->value))
            return fore_fail(p->err, FORE_ERR_UNSUPPORTED, "template line %d: autoescape can only be turned off", t->line);
        return parse_scope(p, n, autoescape, false);
    }
    bool is_break = is_text(t, FORE_K_NAME, "break");
    if (is_break || is_text(t, FORE_K_NAME, "continue")) {
        if (!p->in_loop) return fore_tparse_fail(p, t->line, "'%s' outside loop", is_break ? "break" : "continue");
        n->kind = is_break ? FORE_N_BREAK : FORE_N_CONTINUE;
        return FORE_OK;
    }
    if (is_text(t, FORE_K_NAME, "include") || is_text(t, FORE_K_NAME, "extends") || is_text(t, FORE_K_NAME, "import") ||
        is_text(t, FORE_K_NAME, "from")) {
        n->kind = FORE_N_LOADER;
        while (p->token->kind != FORE_K_BLOCK_END && p->token->kind != FORE_K_EOF) p->token++;
        return FORE_OK;
    }
    return fore_tparse_fail(p, t->line, "Encountered unknown tag '%.*s'.", t->size > 60 ? 60 : (int)t->size, t->text);
}

/* Statements until a tag of `ends` (NULL: until the end of the template). The end tag's name is the current token. */
static fore_status parse_body(fore_tparser *p, const char *const *ends, fore_tnode **out) {
    fore_tnode **tail = out;
    *out = NULL;
    while (p->token->kind != FORE_K_EOF) {
        const fore_ttoken *t = p->token++;
        fore_tnode *n = NULL;
        if (t->kind == FORE_K_DATA) {
            const fore_tstr *s;
            FORE_TRY(fore_tparse_node(p, FORE_N_DATA, t->line, &n));
            FORE_TRY(fore_tparse_text(p, t->text, t->size, &s));
            n->value = (fore_tval){.tag = FORE_T_STR, .as.str = s};
        } else if (t->kind == FORE_K_VARIABLE_BEGIN) {
            FORE_TRY(fore_tparse_node(p, FORE_N_OUTPUT, t->line, &n));
            FORE_TRY(fore_tparse_tuple(p, (fore_ttuple_rules){.with_cond = true}, &n->a));
            FORE_TRY(fore_tparse_expect_kind(p, FORE_K_VARIABLE_END, "end of print statement"));
        } else if (t->kind == FORE_K_BLOCK_BEGIN) {
            for (const char *const *e = ends; e && *e; e++)
                if (fore_tparse_is_name(p, *e)) return FORE_OK;
            FORE_TRY(fore_tparse_enter(p));
            FORE_TRY(parse_statement(p, &n));
            p->depth--;
            FORE_TRY(fore_tparse_expect_kind(p, FORE_K_BLOCK_END, "end of statement block"));
        } else {
            return fore_tparse_fail(p, t->line, "a tag is not closed");
        }
        *tail = n;
        tail = &n->next;
    }
    if (ends) return fore_tparse_fail(p, p->token->line, "Unexpected end of template. Looking for '%s'.", ends[0]);
    return FORE_OK;
}

static fore_status parse_statements(fore_tparser *p, const char *const *ends, fore_tnode **out) {
    fore_tparse_skip_op(p, ":");
    FORE_TRY(fore_tparse_expect_kind(p, FORE_K_BLOCK_END, "end of statement block"));
    return parse_body(p, ends, out);
}

fore_status fore_tparse(struct fore_template *t, const char *source, size_t size, fore_error *err) {
    fore_tparser p = {.t = t, .err = err};
    fore_ttoken *tokens;
    size_t count;
    FORE_TRY(fore_tlex(&t->arena, source, size, &tokens, &count, err));
    p.token = tokens;
    fore_status s = fore_tparse_id(&p, "loop", 4, &t->loop_id);
    if (!s) s = parse_body(&p, NULL, &t->body);
    if (!s && p.unknown) s = fore_fail(err, FORE_ERR_FORMAT, "%s", p.unknown_error.text);
    free(p.index);
    return s;
}
