/* Variables of the template engine. Scopes follow the text: a loop's body, a macro, a with block and the like have their
 * own; if does not. A name is looked for outwards and then among the variables that the rendering was given. */
#include <string.h>

#include "text/template_run.h"

fore_tscope *fore_tscope_new(fore_trun *run, fore_tscope *parent) {
    fore_tscope *s = fore_trun_alloc(run, 1, sizeof *s);
    if (s) s->parent = parent;
    return s;
}

fore_status fore_tscope_set(fore_trun *run, fore_tscope *scope, int id, fore_tval v) {
    for (size_t i = 0; i < scope->count; i++) {
        if (scope->bindings[i].id == id) {
            scope->bindings[i].value = v;
            return FORE_OK;
        }
    }
    FORE_TRY(fore_tspend(run, scope->count));
    if (scope->count == scope->capacity) {
        size_t capacity = scope->capacity ? scope->capacity * 2 : 4;
        fore_tbinding *grown = fore_trun_alloc(run, capacity, sizeof *grown);
        if (!grown) return fore_trun_error(run);
        if (scope->count) memcpy(grown, scope->bindings, scope->count * sizeof *grown);
        scope->bindings = grown;
        scope->capacity = capacity;
    }
    scope->bindings[scope->count++] = (fore_tbinding){.id = id, .value = v};
    return FORE_OK;
}

fore_status fore_tscope_get(fore_trun *run, const fore_tscope *scope, int id, fore_tval *out) {
    size_t looked = 0;
    for (; scope; scope = scope->parent) {
        for (size_t i = 0; i < scope->count; i++) {
            if (scope->bindings[i].id == id) {
                *out = scope->bindings[i].value;
                return FORE_OK;
            }
        }
        looked += scope->count + 1;
    }
    FORE_TRY(fore_tspend(run, looked));
    *out = run->globals[id];
    if (out->tag != FORE_T_MISSING) return FORE_OK;
    return fore_tundefined_name(run, (fore_tval){.tag = FORE_T_STR, .as.str = run->tmpl->names[id]}, out);
}

static fore_status assign_attribute(fore_trun *run, fore_tscope *scope, const fore_tnode *target, fore_tval v) {
    fore_tval object;
    FORE_TRY(fore_tscope_get(run, scope, target->id, &object));
    if (object.tag != FORE_T_NAMESPACE) return fore_traise(run, "cannot assign attribute on non-namespace object");
    if (target->name->size && target->name->data[0] == '_')
        return fore_traise(run, "Chat templates cannot store underscore-prefixed attributes on a namespace");
    return fore_tdict_set(run, object.as.names->dict, (fore_tval){.tag = FORE_T_STR, .as.str = target->name}, v);
}

fore_status fore_tassign(fore_trun *run, fore_tscope *scope, const fore_tnode *target, fore_tval v) {
    if (target->kind == FORE_N_NAME) return fore_tscope_set(run, scope, target->id, v);
    run->line = target->line;
    if (target->kind == FORE_N_NSREF) return assign_attribute(run, scope, target, v);
    fore_tlist items;
    if (!fore_tis_iterable(v)) return fore_traise(run, "cannot unpack non-iterable %s object", fore_ttype_name(v));
    FORE_TRY(fore_tlist_from(run, v, &items));
    if (items.count > target->count) return fore_traise(run, "too many values to unpack (expected %zu)", target->count);
    if (items.count < target->count)
        return fore_traise(run, "not enough values to unpack (expected %zu, got %zu)", target->count, items.count);
    for (size_t i = 0; i < items.count; i++) FORE_TRY(fore_tassign(run, scope, target->items[i], items.items[i]));
    return FORE_OK;
}
