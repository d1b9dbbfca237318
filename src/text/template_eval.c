/* Evaluates expressions of a template. */
#include <string.h>

#include "text/template_run.h"

fore_status fore_tdeeper(fore_trun *run) {
    if (++run->depth > FORE_T_MAX_DEPTH) return fore_tlimit(run, "macros, loops or expressions are nested too deeply");
    return FORE_OK;
}

static fore_status eval_items(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    FORE_TRY(fore_tlist_new(run, n->kind == FORE_N_TUPLE ? FORE_T_TUPLE : FORE_T_LIST, n->count, out));
    for (size_t i = 0; i < n->count; i++) FORE_TRY(fore_teval(run, scope, n->items[i], &out->as.list->items[i]));
    return FORE_OK;
}

static fore_status eval_dict(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    fore_tdict *dict;
    FORE_TRY(fore_tdict_new(run, &dict));
    for (size_t i = 0; i + 1 < n->count; i += 2) {
        fore_tval key, value;
        FORE_TRY(fore_teval(run, scope, n->items[i], &key));
        FORE_TRY(fore_teval(run, scope, n->items[i + 1], &value));
        run->line = n->line;
        FORE_TRY(fore_tdict_set(run, dict, key, value));
    }
    *out = (fore_tval){.tag = FORE_T_DICT, .as.dict = dict};
    return FORE_OK;
}

static fore_status compare_one(fore_trun *run, int op, fore_tval a, fore_tval b, bool *out) {
    static const char *const names[] = {"==", "!=", "<", "<=", ">", ">="};
    int order;
    switch (op) {
    case FORE_C_EQ: return fore_tequal(run, a, b, out);
    case FORE_C_NE: FORE_TRY(fore_tequal(run, a, b, out)); break;
    case FORE_C_IN: return fore_tcontains(run, a, b, out);
    case FORE_C_NOTIN: FORE_TRY(fore_tcontains(run, a, b, out)); break;
    default:
        FORE_TRY(fore_tcompare(run, a, b, names[op], &order));
        *out = op == FORE_C_LT   ? order == -1
               : op == FORE_C_LE ? order == -1 || order == 0
               : op == FORE_C_GT ? order == 1
                                 : order == 1 || order == 0;
        return FORE_OK;
    }
    *out = !*out;
    return FORE_OK;
}

static fore_status eval_compare(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    fore_tval left, right;
    FORE_TRY(fore_teval(run, scope, n->a, &left));
    bool yes = true;
    for (size_t i = 0; yes && i < n->count; i++) {
        FORE_TRY(fore_teval(run, scope, n->items[i], &right));
        run->line = n->line;
        FORE_TRY(compare_one(run, n->ops[i], left, right, &yes));
        left = right;
    }
    *out = fore_tbool(yes);
    return FORE_OK;
}

static fore_status concat_items(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    fore_tval text;
    FORE_TRY(fore_tstr_view(run, "", 0, out));
    for (size_t i = 0; i < n->count; i++) {
        FORE_TRY(fore_teval(run, scope, n->items[i], &text));
        run->line = n->line;
        FORE_TRY(fore_tstring(run, text, &text));
        FORE_TRY(fore_tstr_concat(run, out->as.str, text.as.str, out));
    }
    return FORE_OK;
}

static fore_status eval_slice(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    fore_tval object, part[3];
    FORE_TRY(fore_teval(run, scope, n->a, &object));
    for (int i = 0; i < 3; i++) {
        part[i] = fore_tnone();
        if (n->items[i]) FORE_TRY(fore_teval(run, scope, n->items[i], &part[i]));
    }
    run->line = n->line;
    return fore_tslice(run, object, part[0], part[1], part[2], out);
}

static fore_status add_starred(fore_trun *run, fore_tval v, fore_tvec *args) {
    fore_tlist items;
    FORE_TRY(fore_tlist_from(run, v, &items));
    for (size_t i = 0; i < items.count; i++) FORE_TRY(fore_tvec_push(run, args, items.items[i]));
    return FORE_OK;
}

fore_status fore_teval_args(fore_trun *run, fore_tscope *scope, const fore_targs *args, const fore_tval *caller,
                            fore_tcall *out) {
    static const fore_tstr caller_name = {.data = "caller", .size = 6, .chars = 6};
    static const fore_targs none;
    if (!args) args = &none;
    *out = (fore_tcall){0};
    fore_tvec vec = {0};
    fore_tval v;
    for (size_t i = 0; i < args->count; i++) {
        FORE_TRY(fore_teval(run, scope, args->positional[i], &v));
        FORE_TRY(fore_tvec_push(run, &vec, v));
    }
    if (args->star) {
        FORE_TRY(fore_teval(run, scope, args->star, &v));
        FORE_TRY(add_starred(run, v, &vec));
    }
    size_t room = args->keyword_count + (caller != NULL), count = 0;
    fore_tdict *more = NULL;
    fore_tkeyword *keywords = NULL;
    if (room) {
        keywords = fore_trun_alloc(run, room, sizeof *keywords);
        if (!keywords) return fore_trun_error(run);
    }
    for (size_t i = 0; i < args->keyword_count; i++) {
        FORE_TRY(fore_teval(run, scope, args->keywords[i], &v));
        keywords[count++] = (fore_tkeyword){.name = args->names[i], .value = v};
    }
    if (caller) keywords[count++] = (fore_tkeyword){.name = &caller_name, .value = *caller};
    if (args->starstar) {
        FORE_TRY(fore_teval(run, scope, args->starstar, &v));
        if (v.tag != FORE_T_DICT)
            return fore_traise(run, "argument after ** must be a mapping, not %s", fore_ttype_name(v));
        more = v.as.dict;
        fore_tkeyword *grown = fore_trun_alloc(run, count + more->count + 1, sizeof *grown);
        if (!grown) return fore_trun_error(run);
        if (count) memcpy(grown, keywords, count * sizeof *grown);
        keywords = grown;
        for (size_t i = 0; i < more->count; i++) {
            if (more->pairs[i].key.tag != FORE_T_STR) return fore_traise(run, "keywords must be strings");
            const fore_tstr *name = more->pairs[i].key.as.str;
            for (size_t k = 0; k < count; k++)
                if (keywords[k].name->size == name->size && memcmp(keywords[k].name->data, name->data, name->size) == 0)
                    return fore_traise(run, "got multiple values for keyword argument '%.*s'", (int)name->size, name->data);
            keywords[count++] = (fore_tkeyword){.name = name, .value = more->pairs[i].value};
            FORE_TRY(fore_tspend(run, count));
        }
    }
    *out = (fore_tcall){.args = vec.items, .count = vec.count, .keywords = keywords, .keyword_count = count};
    return FORE_OK;
}

static fore_status eval_call(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    fore_tval callee;
    fore_tcall call;
    FORE_TRY(fore_teval(run, scope, n->a, &callee));
    FORE_TRY(fore_teval_args(run, scope, n->args, NULL, &call));
    run->line = n->line;
    return fore_tcall_value(run, callee, &call, out);
}

fore_status fore_tapply_filter(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval v, fore_tval *out) {
    fore_tcall call;
    if (n->a) FORE_TRY(fore_teval(run, scope, n->a, &v));
    FORE_TRY(fore_teval_args(run, scope, n->args, NULL, &call));
    run->line = n->line;
    if (!n->filter) return fore_traise(run, "No filter named '%.*s' found.", (int)n->name->size, n->name->data);
    return n->filter->call(run, v, &call, out);
}

static fore_status eval_test(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    fore_tcall call;
    fore_tval v;
    bool yes;
    FORE_TRY(fore_teval(run, scope, n->a, &v));
    FORE_TRY(fore_teval_args(run, scope, n->args, NULL, &call));
    run->line = n->line;
    if (!n->test) return fore_traise(run, "No test named '%.*s' found.", (int)n->name->size, n->name->data);
    FORE_TRY(n->test->call(run, v, &call, &yes));
    *out = fore_tbool(yes);
    return FORE_OK;
}

static fore_status eval_cond(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    FORE_TRY(fore_teval(run, scope, n->a, out));
    if (fore_ttrue(*out)) return fore_teval(run, scope, n->b, out);
    if (n->c) return fore_teval(run, scope, n->c, out);
    return fore_tundefined_hint(run, "the inline if-expression evaluated to false and no else section was defined.", out);
}

static fore_status eval_pair(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    fore_tval a, b;
    FORE_TRY(fore_teval(run, scope, n->a, &a));
    FORE_TRY(fore_teval(run, scope, n->b, &b));
    run->line = n->line;
    return n->kind == FORE_N_ARITH ? fore_tarith(run, (fore_top)n->op, a, b, out) : fore_tgetitem(run, a, b, out);
}

/* Operators of one operand, attributes, and the logic that may leave its second operand alone. */
static fore_status eval_single(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    FORE_TRY(fore_teval(run, scope, n->a, out));
    run->line = n->line;
    switch (n->kind) {
    case FORE_N_AND: return fore_ttrue(*out) ? fore_teval(run, scope, n->b, out) : FORE_OK;
    case FORE_N_OR: return fore_ttrue(*out) ? FORE_OK : fore_teval(run, scope, n->b, out);
    case FORE_N_NOT: *out = fore_tbool(!fore_ttrue(*out)); return FORE_OK;
    case FORE_N_GETATTR: return fore_tgetattr(run, *out, n->value, out);
    default: return fore_tnegate(run, *out, n->kind == FORE_N_NEG, out);
    }
}

static fore_status eval_node(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    switch (n->kind) {
    case FORE_N_LIST:
    case FORE_N_TUPLE: return eval_items(run, scope, n, out);
    case FORE_N_DICT: return eval_dict(run, scope, n, out);
    case FORE_N_COMPARE: return eval_compare(run, scope, n, out);
    case FORE_N_CONCAT: return concat_items(run, scope, n, out);
    case FORE_N_SLICE: return eval_slice(run, scope, n, out);
    case FORE_N_CALL: return eval_call(run, scope, n, out);
    case FORE_N_FILTER: return fore_tapply_filter(run, scope, n, fore_tnone(), out);
    case FORE_N_TEST: return eval_test(run, scope, n, out);
    case FORE_N_COND: return eval_cond(run, scope, n, out);
    case FORE_N_ARITH:
    case FORE_N_GETITEM: return eval_pair(run, scope, n, out);
    default: return eval_single(run, scope, n, out);
    }
}

fore_status fore_teval(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    FORE_TRY(fore_tspend(run, 0));
    run->line = n->line;
    if (n->kind == FORE_N_CONST) {
        *out = n->value;
        return FORE_OK;
    }
    if (n->kind == FORE_N_NAME) return fore_tscope_get(run, scope, n->id, out);
    FORE_TRY(fore_tdeeper(run));
    fore_tval v;
    FORE_TRY(eval_node(run, scope, n, &v));
    run->depth--;
    *out = v;
    return FORE_OK;
}
