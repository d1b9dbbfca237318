/* Filters on sequences and mappings: lengths, ends, orders, groups. What Python makes as a generator is an iterator
 * here, whose items are made at once. */
#include <string.h>

#include "text/template_run.h"

static fore_status f_length(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    size_t n;
    FORE_TRY(fore_tbind(run, call, "length", "", NULL));
    FORE_TRY(fore_tlength(run, v, &n));
    *out = fore_tint((int64_t)n);
    return FORE_OK;
}

/* An error that a generator would raise when it is read so far; limits and lack of memory are raised at once. */
static fore_status deferred(fore_trun *run, fore_status s, const char **error) {
    if (s != FORE_ERR_FORMAT) return s;
    char *copy = fore_trun_alloc(run, strlen(run->err->text) + 1, 1);
    if (!copy) return fore_trun_error(run);
    strcpy(copy, run->err->text);
    *error = copy;
    *run->err = (fore_error){0};
    return FORE_OK;
}

/* The items of v for a filter that Python has as a generator: what cannot be read is an error once the result is read,
 * and *error says it; nothing is left to do then. */
static fore_status lazy_items(fore_trun *run, fore_tval v, fore_tlist *list, const char **error) {
    return deferred(run, fore_tlist_from(run, v, list), error);
}

static fore_status f_list(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tlist items;
    FORE_TRY(fore_tbind(run, call, "list", "", NULL));
    FORE_TRY(fore_tlist_from(run, v, &items));
    return fore_tlist_wrap(run, FORE_T_LIST, items.items, items.count, out);
}

static fore_status f_items(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "items", "", NULL));
    if (v.tag == FORE_T_UNDEFINED) return fore_titerator_new(run, NULL, 0, NULL, out);
    if (v.tag != FORE_T_DICT) return fore_titerator_new(run, NULL, 0, "Can only get item pairs from a mapping.", out);
    fore_tview view = {.kind = FORE_T_ITEMS, .dict = v.as.dict};
    fore_tlist items;
    FORE_TRY(fore_tlist_from(run, (fore_tval){.tag = FORE_T_VIEW, .as.view = &view}, &items));
    return fore_titerator_new(run, items.items, items.count, NULL, out);
}

static fore_status f_first(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tcursor cursor;
    bool done;
    FORE_TRY(fore_tbind(run, call, "first", "", NULL));
    FORE_TRY(fore_titerate(run, v, &cursor));
    FORE_TRY(fore_tnext(run, &cursor, out, &done));
    return done ? fore_tundefined_hint(run, "No first item, sequence was empty.", out) : FORE_OK;
}

static bool reversible(fore_tval v) {
    return fore_tis_iterable(v) && v.tag != FORE_T_ITERATOR && v.tag != FORE_T_LOOP;
}

static fore_status f_last(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tlist items;
    FORE_TRY(fore_tbind(run, call, "last", "", NULL));
    if (!reversible(v)) return fore_traise(run, "'%s' object is not reversible", fore_ttype_name(v));
    if (v.tag == FORE_T_STR && v.as.str->chars) return fore_tstr_sub(run, v.as.str, v.as.str->chars - 1, 1, out);
    FORE_TRY(fore_tlist_from(run, v, &items));
    if (!items.count) return fore_tundefined_hint(run, "No last item, sequence was empty.", out);
    *out = items.items[items.count - 1];
    return FORE_OK;
}

static fore_status f_reverse(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "reverse", "", NULL));
    if (v.tag == FORE_T_STR) return fore_tslice(run, v, fore_tnone(), fore_tnone(), fore_tint(-1), out);
    if (!fore_tis_iterable(v)) return fore_traise(run, "argument must be iterable");
    fore_tlist items;
    fore_tval copy;
    FORE_TRY(fore_tlist_from(run, v, &items));
    FORE_TRY(fore_tlist_new(run, FORE_T_LIST, items.count, &copy));
    for (size_t i = 0; i < items.count; i++) copy.as.list->items[i] = items.items[items.count - 1 - i];
    if (reversible(v)) return fore_titerator_new(run, copy.as.list->items, items.count, NULL, out);
    *out = copy;
    return FORE_OK;
}

/* ---- by attribute ---- */

/* item.a.b or item[0] by a dotted path; MISSING or NONE for the item itself. Undefined steps become `fallback`. */
static fore_status by_path(fore_trun *run, fore_tval item, fore_tval path, fore_tval fallback, fore_tval *out) {
    *out = item;
    if (path.tag == FORE_T_MISSING || path.tag == FORE_T_NONE) return FORE_OK;
    bool has_fallback = fallback.tag != FORE_T_MISSING && fallback.tag != FORE_T_NONE;
    const char *p = path.tag == FORE_T_STR ? path.as.str->data : "";
    size_t left = path.tag == FORE_T_STR ? path.as.str->size : 0;
    for (;;) {
        fore_tval step = path;
        size_t n = 0;
        if (path.tag == FORE_T_STR) {
            const char *dot = left ? memchr(p, '.', left) : NULL;
            n = dot ? (size_t)(dot - p) : left;
            FORE_TRY(fore_tstr_view(run, p, n, &step));
            bool digits = n > 0, big = false;
            int64_t index = 0;
            for (size_t i = 0; i < n; i++) digits &= p[i] >= '0' && p[i] <= '9';
            if (digits && fore_tint_parse(p, n, 10, &index, &big) && !big) step = fore_tint(index);
        }
        FORE_TRY(fore_tgetitem(run, *out, step, out));
        if (has_fallback && out->tag == FORE_T_UNDEFINED) *out = fallback;
        if (n >= left) return FORE_OK;
        p += n + 1;
        left -= n + 1;
        if (!left) { /* "a." ends in an empty name */
            FORE_TRY(fore_tstr_view(run, "", 0, &step));
            return fore_tgetitem(run, *out, step, out);
        }
    }
}

static fore_status fold_case(fore_trun *run, fore_tval v, bool sensitive, fore_tval *out) {
    *out = v;
    return v.tag == FORE_T_STR && !sensitive ? fore_tcase_of(run, v.as.str, FORE_CASE_LOWER, out) : FORE_OK;
}

static fore_status attribute_key(fore_trun *run, fore_tval item, fore_tval path, fore_tval fallback, bool sensitive,
                                 fore_tval *out) {
    FORE_TRY(by_path(run, item, path, fallback, out));
    return fold_case(run, *out, sensitive, out);
}

/* A key of several attributes, "a,b": a list, as Python compares it. */
static fore_status sort_key(fore_trun *run, fore_tval item, fore_tval paths, bool sensitive, fore_tval *out) {
    fore_tval missing = {.tag = FORE_T_MISSING}, key, path;
    fore_tvec keys = {0};
    if (paths.tag != FORE_T_STR) {
        FORE_TRY(attribute_key(run, item, paths, missing, sensitive, &key));
        FORE_TRY(fore_tvec_push(run, &keys, key));
    } else {
        const char *p = paths.as.str->data, *end = p + paths.as.str->size;
        for (;;) {
            const char *comma = p < end ? memchr(p, ',', (size_t)(end - p)) : NULL;
            FORE_TRY(fore_tstr_view(run, p, (size_t)((comma ? comma : end) - p), &path));
            FORE_TRY(attribute_key(run, item, path, missing, sensitive, &key));
            FORE_TRY(fore_tvec_push(run, &keys, key));
            if (!comma) break;
            p = comma + 1;
        }
    }
    return fore_tlist_wrap(run, FORE_T_LIST, keys.items, keys.count, out);
}

/* A copy of v's items with room for as many keys. */
static fore_status copy_for_sort(fore_trun *run, fore_tval v, fore_tval **items, fore_tval **keys, size_t *count) {
    fore_tlist list;
    FORE_TRY(fore_tlist_from(run, v, &list));
    *items = fore_trun_alloc(run, list.count + 1, 2 * sizeof **items);
    if (!*items) return fore_trun_error(run);
    if (list.count) memcpy(*items, list.items, list.count * sizeof **items);
    *keys = *items + list.count;
    *count = list.count;
    return fore_tspend(run, list.count);
}

static fore_status f_sort(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[3], *items, *keys;
    size_t count;
    FORE_TRY(fore_tbind(run, call, "sort", "reverse? case_sensitive? attribute?", args));
    FORE_TRY(copy_for_sort(run, v, &items, &keys, &count));
    for (size_t i = 0; i < count; i++) FORE_TRY(sort_key(run, items[i], args[2], fore_ttrue(args[1]), &keys[i]));
    FORE_TRY(fore_tsort(run, items, keys, count, fore_ttrue(args[0])));
    return fore_tlist_wrap(run, FORE_T_LIST, items, count, out);
}

static fore_status f_dictsort(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[3], *items, *keys;
    size_t count;
    FORE_TRY(fore_tbind(run, call, "dictsort", "case_sensitive? by? reverse?", args));
    bool by_value = fore_tis_text(args[1], "value");
    if (!by_value && args[1].tag != FORE_T_MISSING && !fore_tis_text(args[1], "key"))
        return fore_traise(run, "You can only sort by either \"key\" or \"value\"");
    if (v.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, v.as.undefined);
    if (v.tag != FORE_T_DICT) return fore_traise(run, "'%s' object has no attribute 'items'", fore_ttype_name(v));
    fore_tview view = {.kind = FORE_T_ITEMS, .dict = v.as.dict};
    FORE_TRY(copy_for_sort(run, (fore_tval){.tag = FORE_T_VIEW, .as.view = &view}, &items, &keys, &count));
    for (size_t i = 0; i < count; i++)
        FORE_TRY(fold_case(run, items[i].as.list->items[by_value], fore_ttrue(args[0]), &keys[i]));
    FORE_TRY(fore_tsort(run, items, keys, count, fore_ttrue(args[2])));
    return fore_tlist_wrap(run, FORE_T_LIST, items, count, out);
}

static fore_status f_groupby(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[3], *items, *keys;
    size_t count;
    FORE_TRY(fore_tbind(run, call, "groupby", "attribute default? case_sensitive?", args));
    FORE_TRY(copy_for_sort(run, v, &items, &keys, &count));
    bool sensitive = fore_ttrue(args[2]);
    for (size_t i = 0; i < count; i++) FORE_TRY(attribute_key(run, items[i], args[0], args[1], sensitive, &keys[i]));
    FORE_TRY(fore_tsort(run, items, keys, count, false));
    fore_tvec groups = {0};
    for (size_t i = 0, end; i < count; i = end) {
        bool same = true;
        for (end = i + 1; end < count; end++) {
            FORE_TRY(fore_tequal(run, keys[end], keys[i], &same));
            if (!same) break;
        }
        fore_tval key = keys[i], list, group;
        if (!sensitive) FORE_TRY(by_path(run, items[i], args[0], args[1], &key));
        FORE_TRY(fore_tlist_wrap(run, FORE_T_LIST, items + i, end - i, &list));
        FORE_TRY(fore_tpair_new(run, key, list, &group));
        group.as.list->group = true;
        FORE_TRY(fore_tvec_push(run, &groups, group));
    }
    return fore_tlist_wrap(run, FORE_T_LIST, groups.items, groups.count, out);
}

static fore_status f_unique(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[2], key, seen, missing = {.tag = FORE_T_MISSING};
    fore_tlist list;
    fore_tdict *keys;
    fore_tvec kept = {0};
    const char *error = NULL;
    FORE_TRY(fore_tbind(run, call, "unique", "case_sensitive? attribute?", args));
    FORE_TRY(lazy_items(run, v, &list, &error));
    if (error) return fore_titerator_new(run, NULL, 0, error, out);
    FORE_TRY(fore_tdict_new(run, &keys));
    for (size_t i = 0; i < list.count; i++) {
        FORE_TRY(attribute_key(run, list.items[i], args[1], missing, fore_ttrue(args[0]), &key));
        FORE_TRY(fore_tdict_get(run, keys, key, &seen));
        if (seen.tag != FORE_T_MISSING) continue;
        FORE_TRY(fore_tdict_set(run, keys, key, fore_tbool(true)));
        FORE_TRY(fore_tvec_push(run, &kept, list.items[i]));
    }
    return fore_titerator_new(run, kept.items, kept.count, NULL, out);
}

static fore_status extreme(fore_trun *run, fore_tval v, const fore_tcall *call, bool greatest, fore_tval *out) {
    fore_tval args[2], key, best = {.tag = FORE_T_MISSING}, missing = best;
    fore_tlist list;
    FORE_TRY(fore_tbind(run, call, greatest ? "max" : "min", "case_sensitive? attribute?", args));
    FORE_TRY(fore_tlist_from(run, v, &list));
    if (!list.count) return fore_tundefined_hint(run, "No aggregated item, sequence was empty.", out);
    for (size_t i = 0; i < list.count; i++) {
        FORE_TRY(attribute_key(run, list.items[i], args[1], missing, fore_ttrue(args[0]), &key));
        int order = 0;
        if (i) FORE_TRY(fore_tcompare(run, key, best, greatest ? ">" : "<", &order));
        if (i && order != (greatest ? 1 : -1)) continue;
        best = key;
        *out = list.items[i];
    }
    return FORE_OK;
}
static fore_status f_min(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    return extreme(run, v, call, false, out);
}
static fore_status f_max(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    return extreme(run, v, call, true, out);
}

static fore_status f_sum(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[2], item, missing = {.tag = FORE_T_MISSING};
    fore_tlist list;
    FORE_TRY(fore_tbind(run, call, "sum", "attribute? start?", args));
    FORE_TRY(fore_tlist_from(run, v, &list));
    *out = args[1].tag == FORE_T_MISSING ? fore_tint(0) : args[1];
    if (out->tag == FORE_T_STR) return fore_traise(run, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < list.count; i++) {
        FORE_TRY(by_path(run, list.items[i], args[0], missing, &item));
        FORE_TRY(fore_tarith(run, FORE_OP_ADD, *out, item, out));
    }
    return FORE_OK;
}

static fore_status join_into(fore_trun *run, const fore_tlist *list, fore_tval between, fore_tval path, fore_buf *buf) {
    fore_tval item, missing = {.tag = FORE_T_MISSING};
    for (size_t i = 0; i < list->count; i++) {
        FORE_TRY(by_path(run, list->items[i], path, missing, &item));
        if (i) FORE_TRY(fore_tappend_str(run, buf, between));
        FORE_TRY(fore_tappend_str(run, buf, item));
    }
    return FORE_OK;
}

static fore_status f_join(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[2];
    fore_tlist list;
    FORE_TRY(fore_tbind(run, call, "join", "d? attribute?", args));
    if (args[0].tag == FORE_T_MISSING) FORE_TRY(fore_tstr_view(run, "", 0, &args[0]));
    FORE_TRY(fore_tlist_from(run, v, &list));
    fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
    fore_status s = join_into(run, &list, args[0], args[1], &buf);
    if (!s) s = fore_tstr_take(run, &buf, out);
    fore_buf_free(&buf);
    return s;
}

static fore_status f_batch(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[2], batch;
    int64_t size;
    fore_tlist list;
    fore_tvec batches = {0};
    FORE_TRY(fore_tbind(run, call, "batch", "linecount fill_with?", args));
    FORE_TRY(fore_targ_int(run, args[0], "batch", 0, &size));
    const char *error = NULL;
    FORE_TRY(lazy_items(run, v, &list, &error));
    if (error) return fore_titerator_new(run, NULL, 0, error, out);
    fore_tvec one = {0};
    for (size_t i = 0; i < list.count; i++) {
        if ((int64_t)one.count == size) {
            FORE_TRY(fore_tlist_wrap(run, FORE_T_LIST, one.items, one.count, &batch));
            FORE_TRY(fore_tvec_push(run, &batches, batch));
            one = (fore_tvec){0};
        }
        FORE_TRY(fore_tvec_push(run, &one, list.items[i]));
    }
    if (one.count) {
        bool fill = args[1].tag != FORE_T_MISSING && args[1].tag != FORE_T_NONE;
        while (fill && (int64_t)one.count < size) FORE_TRY(fore_tvec_push(run, &one, args[1]));
        FORE_TRY(fore_tlist_wrap(run, FORE_T_LIST, one.items, one.count, &batch));
        FORE_TRY(fore_tvec_push(run, &batches, batch));
    }
    return fore_titerator_new(run, batches.items, batches.count, NULL, out);
}

static fore_status f_slice(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) {
    fore_tval args[2], part;
    int64_t slices;
    fore_tlist list;
    fore_tvec parts = {0};
    FORE_TRY(fore_tbind(run, call, "slice", "slices fill_with?", args));
    FORE_TRY(fore_targ_int(run, args[0], "slice", 0, &slices));
    const char *error = NULL;
    FORE_TRY(lazy_items(run, v, &list, &error));
    if (!slices && !error) error = "integer division or modulo by zero";
    if (error) return fore_titerator_new(run, NULL, 0, error, out);
    bool fill = args[1].tag != FORE_T_MISSING && args[1].tag != FORE_T_NONE;
    size_t each = slices > 0 ? list.count / (size_t)slices : 0, extra = slices > 0 ? list.count % (size_t)slices : 0;
    size_t at = 0;
    for (int64_t i = 0; i < slices; i++) {
        size_t n = each + ((size_t)i < extra);
        fore_tvec one = {0};
        for (size_t k = 0; k < n; k++) FORE_TRY(fore_tvec_push(run, &one, list.items[at + k]));
        if (fill && (size_t)i >= extra) FORE_TRY(fore_tvec_push(run, &one, args[1]));
        FORE_TRY(fore_tlist_wrap(run, FORE_T_LIST, one.items, one.count, &part));
        FORE_TRY(fore_tvec_push(run, &parts, part));
        at += n;
    }
    return fore_titerator_new(run, parts.items, parts.count, NULL, out);
}

const fore_tfilter fore_tfilters_sequence[] = {
    {"length", f_length}, {"count", f_length},     {"list", f_list},       {"items", f_items},
    {"first", f_first},   {"last", f_last},        {"reverse", f_reverse}, {"sort", f_sort},
    {"join", f_join},     {"dictsort", f_dictsort}, {"groupby", f_groupby}, {"unique", f_unique},
    {"min", f_min},       {"max", f_max},          {"sum", f_sum},         {"batch", f_batch},
    {"slice", f_slice},   {NULL, NULL},
};

/* ---- map, select, reject: other filters and tests on each item ---- */

static fore_status map_items(fore_trun *run, const fore_tcall *call, const fore_tlist *list, fore_tvec *made) {
    fore_tval args[2], v;
    if (!call->count && call->keyword_count) {
        FORE_TRY(fore_tbind(run, call, "map", "attribute default?", args));
        for (size_t i = 0; i < list->count; i++) {
            FORE_TRY(by_path(run, list->items[i], args[0], args[1], &v));
            FORE_TRY(fore_tvec_push(run, made, v));
        }
        return FORE_OK;
    }
    if (!call->count) return fore_traise(run, "map requires a filter argument");
    const fore_tstr *name;
    FORE_TRY(fore_targ_str(run, call->args[0], "map", &name));
    const fore_tfilter *f = fore_tfilter_find(name->data, name->size);
    if (!f) return fore_traise(run, "No filter named '%.*s'.", (int)(name->size & 63), name->data);
    fore_tcall rest = *call;
    rest.args++;
    rest.count--;
    for (size_t i = 0; i < list->count; i++) {
        FORE_TRY(f->call(run, list->items[i], &rest, &v));
        FORE_TRY(fore_tvec_push(run, made, v));
    }
    return FORE_OK;
}

static fore_status select_items(fore_trun *run, const fore_tcall *call, const fore_tlist *list, bool keep,
                                bool by_attribute, fore_tvec *made) {
    fore_tval v, missing = {.tag = FORE_T_MISSING};
    size_t off = by_attribute ? 1 : 0;
    if (by_attribute && !call->count) return fore_traise(run, "Missing parameter for attribute name");
    const fore_ttest *test = NULL;
    fore_tcall rest = {0};
    if (call->count > off) {
        const fore_tstr *name;
        FORE_TRY(fore_targ_str(run, call->args[off], "select", &name));
        test = fore_ttest_find(name->data, name->size);
        if (!test) return fore_traise(run, "No test named '%.*s'.", (int)(name->size & 63), name->data);
        rest = *call;
        rest.args += off + 1;
        rest.count -= off + 1;
    }
    for (size_t i = 0; i < list->count; i++) {
        FORE_TRY(by_path(run, list->items[i], by_attribute ? call->args[0] : missing, missing, &v));
        bool yes = fore_ttrue(v);
        if (test) FORE_TRY(test->call(run, v, &rest, &yes));
        if (yes == keep) FORE_TRY(fore_tvec_push(run, made, list->items[i]));
    }
    return FORE_OK;
}

typedef enum kind { MAP, SELECT, REJECT, SELECTATTR, REJECTATTR } kind;

static fore_status each(fore_trun *run, fore_tval v, const fore_tcall *call, kind k, fore_tval *out) {
    const char *error = NULL;
    fore_tlist list;
    fore_tvec made = {0};
    if (!fore_ttrue(v)) return fore_titerator_new(run, NULL, 0, NULL, out);
    FORE_TRY(fore_tdeeper(run));
    fore_status s = fore_tlist_from(run, v, &list);
    if (!s) {
        s = k == MAP ? map_items(run, call, &list, &made)
                     : select_items(run, call, &list, k == SELECT || k == SELECTATTR,
                                    k == SELECTATTR || k == REJECTATTR, &made);
    }
    run->depth--;
    FORE_TRY(deferred(run, s, &error));
    return fore_titerator_new(run, made.items, made.count, error, out);
}

#define EACH(name, k)                                                                                  \
    static fore_status f_##name(fore_trun *run, fore_tval v, const fore_tcall *call, fore_tval *out) { \
        return each(run, v, call, k, out);                                                             \
    }
EACH(map, MAP)
EACH(select, SELECT)
EACH(reject, REJECT)
EACH(selectattr, SELECTATTR)
EACH(rejectattr, REJECTATTR)

const fore_tfilter fore_tfilters_select[] = {
    {"map", f_map},           {"select", f_select},         {"reject", f_reject}, {"selectattr", f_selectattr},
    {"rejectattr", f_rejectattr}, {NULL, NULL},
};
