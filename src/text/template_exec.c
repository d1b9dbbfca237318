/* Runs statements of a template: output, loops, assignments, macros and blocks. */
#include <string.h>

#include "text/template_run.h"

static fore_status write_out(fore_trun *run, fore_tval v) {
    size_t before = run->out->size;
    FORE_TRY(fore_tappend_str(run, run->out, v));
    run->out_bytes += run->out->size - before;
    if (run->out_bytes > FORE_T_MAX_OUTPUT) return fore_tlimit(run, "its output is longer than 16 MiB");
    return FORE_OK;
}

fore_status fore_tcapture(fore_trun *run, fore_tscope *scope, const fore_tnode *statements, fore_tval *out) {
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT}, *outer = run->out;
    size_t bytes = run->out_bytes;
    run->out = &buf;
    fore_status s = fore_texec(run, scope, statements);
    run->out = outer;
    run->out_bytes = bytes;
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s;
}

/* ---- loops ---- */

/* The items of a for statement that its filter lets through. */
static fore_status filter_items(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tlist *items) {
    fore_tvec kept = {0};
    for (size_t i = 0; i < items->count; i++) {
        fore_tscope *inner = fore_tscope_new(run, scope);
        if (!inner) return fore_trun_error(run);
        fore_tval v;
        FORE_TRY(fore_tassign(run, inner, n->b, items->items[i]));
        FORE_TRY(fore_teval(run, inner, n->c, &v));
        if (fore_ttrue(v)) FORE_TRY(fore_tvec_push(run, &kept, items->items[i]));
    }
    *items = (fore_tlist){.items = kept.items, .count = kept.count};
    return FORE_OK;
}

static fore_status run_loop(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval over, int64_t depth0) {
    fore_tlist items;
    FORE_TRY(fore_tlist_from(run, over, &items));
    if (n->c) FORE_TRY(filter_items(run, scope, n, &items));
    fore_tloop *loop = fore_trun_alloc(run, 1, sizeof *loop);
    if (!loop) return fore_trun_error(run);
    *loop = (fore_tloop){.items = items.items, .count = items.count, .depth0 = depth0, .node = n, .scope = scope};
    bool completed = false;
    for (size_t i = 0; i < items.count; i++) {
        FORE_TRY(fore_tspend(run, 0));
        fore_tscope *inner = fore_tscope_new(run, scope);
        if (!inner) return fore_trun_error(run);
        loop->position = i;
        FORE_TRY(fore_tscope_set(run, inner, run->tmpl->loop_id, (fore_tval){.tag = FORE_T_LOOP, .as.loop = loop}));
        FORE_TRY(fore_tassign(run, inner, n->b, items.items[i]));
        FORE_TRY(fore_texec(run, inner, n->body));
        int jump = run->jump;
        run->jump = 0;
        if (!jump) completed = true;
        if (jump == FORE_N_BREAK) break;
    }
    /* As jinja2 has it: also when every iteration was left early. */
    if (completed || !n->orelse) return FORE_OK;
    fore_tscope *inner = fore_tscope_new(run, scope);
    return inner ? fore_texec(run, inner, n->orelse) : fore_trun_error(run);
}

static fore_status exec_for(fore_trun *run, fore_tscope *scope, const fore_tnode *n) {
    fore_tval over;
    FORE_TRY(fore_teval(run, scope, n->a, &over));
    run->line = n->line;
    return run_loop(run, scope, n, over, 0);
}

fore_status fore_tloop_call(fore_trun *run, fore_tloop *loop, const fore_tcall *call, fore_tval *out) {
    fore_tval over;
    if (!loop->node->flag)
        return fore_traise(run, "The loop must have the 'recursive' marker to be called recursively.");
    FORE_TRY(fore_tbind(run, call, "loop", "iterable", &over));
    FORE_TRY(fore_tdeeper(run));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT}, *outer = run->out;
    size_t bytes = run->out_bytes;
    run->out = &buf;
    fore_status s = run_loop(run, loop->scope, loop->node, over, loop->depth0 + 1);
    run->out = outer;
    run->out_bytes = bytes;
    run->depth--;
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s;
}

static fore_status loop_cycle(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    if (!call->count || call->keyword_count) return fore_traise(run, "no items for cycling given");
    *out = call->args[self.as.loop->position % call->count];
    return FORE_OK;
}

static fore_status loop_changed(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tloop *loop = self.as.loop;
    fore_tval now;
    bool same = false;
    if (call->keyword_count) return fore_traise(run, "changed() takes no keyword arguments");
    FORE_TRY(fore_tlist_wrap(run, FORE_T_TUPLE, (fore_tval *)call->args, call->count, &now));
    if (loop->changed.tag != FORE_T_MISSING) FORE_TRY(fore_tequal(run, loop->changed, now, &same));
    if (!same) loop->changed = now;
    *out = fore_tbool(!same);
    return FORE_OK;
}

fore_status fore_tloop_attribute(fore_trun *run, fore_tloop *loop, const fore_tstr *name, fore_tval *out) {
    int64_t at = (int64_t)loop->position, count = (int64_t)loop->count;
    const struct {
        const char *name;
        fore_tval value;
    } plain[] = {
        {"index", fore_tint(at + 1)},         {"index0", fore_tint(at)},
        {"revindex", fore_tint(count - at)},  {"revindex0", fore_tint(count - at - 1)},
        {"first", fore_tbool(at == 0)},       {"last", fore_tbool(at + 1 == count)},
        {"length", fore_tint(count)},         {"depth", fore_tint(loop->depth0 + 1)},
        {"depth0", fore_tint(loop->depth0)},
    };
    fore_tval key = {.tag = FORE_T_STR, .as.str = name};
    *out = (fore_tval){.tag = FORE_T_MISSING};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (fore_tis_text(key, plain[i].name)) *out = plain[i].value;
    if (fore_tis_text(key, "previtem")) {
        if (!at) return fore_tundefined_hint(run, "there is no previous item", out);
        *out = loop->items[at - 1];
    }
    if (fore_tis_text(key, "nextitem")) {
        if (at + 1 == count) return fore_tundefined_hint(run, "there is no next item", out);
        *out = loop->items[at + 1];
    }
    bool cycle = fore_tis_text(key, "cycle");
    if (cycle || fore_tis_text(key, "changed")) {
        fore_tmethod *m = fore_trun_alloc(run, 1, sizeof *m);
        if (!m) return fore_trun_error(run);
        *m = (fore_tmethod){.name = cycle ? "cycle" : "changed", .call = cycle ? loop_cycle : loop_changed,
                            .self = {.tag = FORE_T_LOOP, .as.loop = loop}};
        *out = (fore_tval){.tag = FORE_T_METHOD, .as.method = m};
    }
    return FORE_OK;
}

/* ---- macros ---- */

static fore_status macro_new(fore_trun *run, fore_tscope *scope, const fore_tnode *n, fore_tval *out) {
    fore_tmacro *m = fore_trun_alloc(run, 1, sizeof *m);
    if (!m) return fore_trun_error(run);
    *m = (fore_tmacro){.signature = n->macro, .body = n->body, .scope = scope};
    *out = (fore_tval){.tag = FORE_T_MACRO, .as.macro = m};
    return FORE_OK;
}

/* Index of a keyword, or count when it is not there. */
static size_t keyword_index(const fore_tcall *call, const char *name, size_t size) {
    size_t i = 0;
    while (i < call->keyword_count &&
           (call->keywords[i].name->size != size || memcmp(call->keywords[i].name->data, name, size) != 0))
        i++;
    return i;
}

static fore_status bind_macro(fore_trun *run, fore_tscope *scope, const fore_tsignature *sig, const fore_tcall *call) {
    const char *name = sig->name ? sig->name->data : "caller";
    int name_size = sig->name ? (int)sig->name->size : 6;
    bool *used = fore_trun_alloc(run, call->keyword_count + 1, sizeof *used);
    fore_tval *given = fore_trun_alloc(run, sig->count + 1, sizeof *given); /* MISSING is 0 */
    if (!used || !given) return fore_trun_error(run);
    bool found_caller = call->count >= sig->count && sig->has_caller;
    for (size_t i = 0; i < sig->count; i++) {
        if (i < call->count) {
            given[i] = call->args[i];
            continue;
        }
        size_t k = keyword_index(call, sig->names[i]->data, sig->names[i]->size);
        if (sig->ids[i] == sig->caller_id) found_caller = true;
        if (k == call->keyword_count) continue;
        given[i] = call->keywords[k].value;
        used[k] = true;
    }
    if (sig->uses_caller && !sig->has_caller && !found_caller) {
        size_t k = keyword_index(call, "caller", 6);
        fore_tval v;
        if (k < call->keyword_count) {
            v = call->keywords[k].value;
            used[k] = true;
        } else {
            FORE_TRY(fore_tundefined_hint(run, "No caller defined", &v));
        }
        FORE_TRY(fore_tscope_set(run, scope, sig->caller_id, v));
    }
    fore_tdict *rest;
    FORE_TRY(fore_tdict_new(run, &rest));
    for (size_t k = 0; k < call->keyword_count; k++) {
        if (used[k]) continue;
        const fore_tstr *key = call->keywords[k].name;
        if (!sig->uses_kwargs)
            return fore_traise(run, "macro '%.*s' takes no keyword argument '%.*s'", name_size, name, (int)key->size,
                               key->data);
        FORE_TRY(fore_tdict_set(run, rest, (fore_tval){.tag = FORE_T_STR, .as.str = key}, call->keywords[k].value));
    }
    if (sig->uses_kwargs)
        FORE_TRY(fore_tscope_set(run, scope, sig->kwargs_id, (fore_tval){.tag = FORE_T_DICT, .as.dict = rest}));
    size_t extra = call->count > sig->count ? call->count - sig->count : 0;
    if (extra && !sig->uses_varargs)
        return fore_traise(run, "macro '%.*s' takes not more than %zu argument(s)", name_size, name, sig->count);
    if (sig->uses_varargs) {
        fore_tval v;
        FORE_TRY(fore_tlist_wrap(run, FORE_T_TUPLE, extra ? (fore_tval *)call->args + sig->count : NULL, extra, &v));
        FORE_TRY(fore_tscope_set(run, scope, sig->varargs_id, v));
    }
    for (size_t i = 0; i < sig->count; i++) /* arguments that were given are seen by the defaults of the others */
        if (given[i].tag != FORE_T_MISSING) FORE_TRY(fore_tscope_set(run, scope, sig->ids[i], given[i]));
    for (size_t i = 0; i < sig->count; i++) {
        if (given[i].tag != FORE_T_MISSING) continue;
        if (sig->defaults[i]) {
            FORE_TRY(fore_teval(run, scope, sig->defaults[i], &given[i]));
        } else {
            FORE_TRY(fore_tundefined_name(run, (fore_tval){.tag = FORE_T_STR, .as.str = sig->names[i]}, &given[i]));
        }
        FORE_TRY(fore_tscope_set(run, scope, sig->ids[i], given[i]));
    }
    return FORE_OK;
}

fore_status fore_tmacro_call(fore_trun *run, fore_tmacro *macro, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tdeeper(run));
    int line = run->line;
    fore_tscope *scope = fore_tscope_new(run, macro->scope);
    if (!scope) return fore_trun_error(run);
    FORE_TRY(bind_macro(run, scope, macro->signature, call));
    FORE_TRY(fore_tcapture(run, scope, macro->body, out));
    run->line = line;
    run->depth--;
    return FORE_OK;
}

fore_status fore_tmacro_attribute(fore_trun *run, fore_tmacro *macro, const fore_tstr *name, fore_tval *out) {
    const fore_tsignature *sig = macro->signature;
    fore_tval key = {.tag = FORE_T_STR, .as.str = name};
    *out = (fore_tval){.tag = FORE_T_MISSING};
    if (fore_tis_text(key, "name"))
        *out = sig->name ? (fore_tval){.tag = FORE_T_STR, .as.str = sig->name} : fore_tnone();
    if (fore_tis_text(key, "catch_kwargs")) *out = fore_tbool(sig->uses_kwargs);
    if (fore_tis_text(key, "catch_varargs")) *out = fore_tbool(sig->uses_varargs);
    if (fore_tis_text(key, "caller")) *out = fore_tbool(sig->uses_caller);
    if (fore_tis_text(key, "arguments")) {
        FORE_TRY(fore_tlist_new(run, FORE_T_TUPLE, sig->count, out));
        for (size_t i = 0; i < sig->count; i++)
            out->as.list->items[i] = (fore_tval){.tag = FORE_T_STR, .as.str = sig->names[i]};
    }
    return FORE_OK;
}

/* ---- blocks ---- */

static fore_status exec_call_block(fore_trun *run, fore_tscope *scope, const fore_tnode *n) {
    fore_tval caller, callee, v;
    fore_tcall call;
    FORE_TRY(macro_new(run, scope, n, &caller));
    FORE_TRY(fore_teval(run, scope, n->a->a, &callee));
    FORE_TRY(fore_teval_args(run, scope, n->a->args, &caller, &call));
    run->line = n->line;
    FORE_TRY(fore_tcall_value(run, callee, &call, &v));
    return write_out(run, v);
}

static fore_status exec_with(fore_trun *run, fore_tscope *scope, const fore_tnode *n) {
    fore_tscope *inner = fore_tscope_new(run, scope);
    if (!inner) return fore_trun_error(run);
    for (size_t i = 0; i + 1 < n->count; i += 2) {
        fore_tval v; /* values do not see the targets */
        FORE_TRY(fore_teval(run, scope, n->items[i + 1], &v));
        FORE_TRY(fore_tassign(run, inner, n->items[i], v));
    }
    return fore_texec(run, inner, n->body);
}

static fore_status exec_scope(fore_trun *run, fore_tscope *scope, const fore_tnode *n) {
    if (n->flag)
        while (scope->parent) scope = scope->parent;
    fore_tscope *inner = fore_tscope_new(run, scope);
    return inner ? fore_texec(run, inner, n->body) : fore_trun_error(run);
}

/* A set block or a filter block: the body's text, filtered, is assigned or written. */
static fore_status exec_captured(fore_trun *run, fore_tscope *scope, const fore_tnode *n) {
    fore_tscope *inner = fore_tscope_new(run, scope);
    if (!inner) return fore_trun_error(run);
    fore_tval v;
    FORE_TRY(fore_tcapture(run, inner, n->body, &v));
    if (run->jump) return FORE_OK; /* left by break or continue: its text is lost */
    if (n->a) {
        /* The innermost filter takes the text, the others follow. */
        const fore_tnode *chain[FORE_T_MAX_FILTERS];
        size_t count = 0;
        for (const fore_tnode *f = n->a; f; f = f->a) {
            if (count == FORE_T_MAX_FILTERS) return fore_tlimit(run, "too many filters on a block");
            chain[count++] = f;
        }
        while (count) {
            fore_tnode one = *chain[--count];
            one.a = NULL;
            FORE_TRY(fore_tapply_filter(run, inner, &one, v, &v));
        }
    }
    return n->kind == FORE_N_SETBLOCK ? fore_tassign(run, scope, n->b, v) : write_out(run, v);
}

static fore_status exec_if(fore_trun *run, fore_tscope *scope, const fore_tnode *n) {
    for (;;) {
        fore_tval v;
        FORE_TRY(fore_teval(run, scope, n->a, &v));
        if (fore_ttrue(v)) return fore_texec(run, scope, n->body);
        if (!n->orelse || n->orelse->kind != FORE_N_IF || !n->orelse->flag) return fore_texec(run, scope, n->orelse);
        n = n->orelse;
    }
}

static fore_status exec_one(fore_trun *run, fore_tscope *scope, const fore_tnode *n) {
    fore_tval v;
    switch (n->kind) {
    case FORE_N_DATA: return write_out(run, n->value);
    case FORE_N_OUTPUT: FORE_TRY(fore_teval(run, scope, n->a, &v)); return write_out(run, v);
    case FORE_N_IF: return exec_if(run, scope, n);
    case FORE_N_FOR: return exec_for(run, scope, n);
    case FORE_N_SET: FORE_TRY(fore_teval(run, scope, n->a, &v)); return fore_tassign(run, scope, n->b, v);
    case FORE_N_SETBLOCK:
    case FORE_N_FILTERBLOCK: return exec_captured(run, scope, n);
    case FORE_N_MACRO: FORE_TRY(macro_new(run, scope, n, &v)); return fore_tscope_set(run, scope, n->id, v);
    case FORE_N_CALLBLOCK: return exec_call_block(run, scope, n);
    case FORE_N_WITH: return exec_with(run, scope, n);
    case FORE_N_SCOPE: return exec_scope(run, scope, n);
    case FORE_N_BREAK:
    case FORE_N_CONTINUE: run->jump = (int)n->kind; return FORE_OK;
    default: return fore_traise(run, "no loader for this environment specified: other templates cannot be loaded");
    }
}

fore_status fore_texec(fore_trun *run, fore_tscope *scope, const fore_tnode *statements) {
    FORE_TRY(fore_tdeeper(run));
    for (const fore_tnode *n = statements; n && !run->jump; n = n->next) {
        FORE_TRY(fore_tspend(run, 0));
        run->line = n->line;
        FORE_TRY(exec_one(run, scope, n));
    }
    run->depth--;
    return FORE_OK;
}
