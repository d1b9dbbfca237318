/* Calls and attributes of the template engine: binding arguments, the sandbox's attribute rules, the global functions. */
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text/template_run.h"

/* ---- arguments ---- */

/* Name number `index` of a spec, without its "?"; false past the last. */
static bool spec_name(const char *spec, size_t index, const char **name, size_t *size, bool *optional) {
    const char *p = spec + (*spec == '/');
    for (size_t i = 0; *p; i++) {
        size_t n = strcspn(p, " ");
        if (i == index) {
            *optional = p[n - 1] == '?';
            *name = p;
            *size = n - *optional;
            return true;
        }
        p += n;
        p += *p == ' ';
    }
    return false;
}

fore_status fore_tbind(fore_trun *run, const fore_tcall *call, const char *function, const char *spec, fore_tval *out) {
    const char *name;
    size_t size, count = 0;
    bool optional;
    for (; out && spec_name(spec, count, &name, &size, &optional); count++)
        out[count] = count < call->count ? call->args[count] : (fore_tval){.tag = FORE_T_MISSING};
    if (call->count > count)
        return fore_traise(run, "%s() takes at most %zu arguments (%zu given)", function, count, call->count);
    for (size_t k = 0; k < call->keyword_count; k++) {
        const fore_tstr *key = call->keywords[k].name;
        if (*spec == '/') return fore_traise(run, "%s() takes no keyword arguments", function);
        size_t i = 0;
        while (spec_name(spec, i, &name, &size, &optional) && !(size == key->size && memcmp(name, key->data, size) == 0))
            i++;
        if (i == count)
            return fore_traise(run, "%s() got an unexpected keyword argument '%.*s'", function, (int)key->size, key->data);
        if (out[i].tag != FORE_T_MISSING)
            return fore_traise(run, "%s() got multiple values for argument '%.*s'", function, (int)key->size, key->data);
        out[i] = call->keywords[k].value;
    }
    for (size_t i = 0; spec_name(spec, i, &name, &size, &optional); i++)
        if (out[i].tag == FORE_T_MISSING && !optional)
            return fore_traise(run, "%s() missing required argument: '%.*s'", function, (int)size, name);
    return FORE_OK;
}

fore_status fore_targ_int(fore_trun *run, fore_tval v, const char *function, int64_t fallback, int64_t *out) {
    *out = fallback;
    if (v.tag == FORE_T_MISSING) return FORE_OK;
    if (!fore_tis_integral(v))
        return fore_traise(run, "%s(): '%s' object cannot be interpreted as an integer", function, fore_ttype_name(v));
    *out = fore_tinteger(v);
    return FORE_OK;
}

fore_status fore_targ_str(fore_trun *run, fore_tval v, const char *function, const fore_tstr **out) {
    if (v.tag != FORE_T_STR)
        return fore_traise(run, "%s() argument must be str, not %s", function, fore_ttype_name(v));
    *out = v.as.str;
    return FORE_OK;
}

fore_status fore_tcall_value(fore_trun *run, fore_tval f, const fore_tcall *call, fore_tval *out) {
    switch (f.tag) {
    case FORE_T_FUNCTION: return f.as.function->call(run, call, out);
    case FORE_T_METHOD: return f.as.method->call(run, f.as.method->self, call, out);
    case FORE_T_MACRO: return fore_tmacro_call(run, f.as.macro, call, out);
    case FORE_T_LOOP: return fore_tloop_call(run, f.as.loop, call, out);
    case FORE_T_UNDEFINED: return fore_traise_undefined(run, f.as.undefined);
    case FORE_T_JOINER:
        FORE_TRY(fore_tbind(run, call, "joiner", "", NULL));
        if (f.as.joiner->used) {
            *out = f.as.joiner->separator;
            return FORE_OK;
        }
        f.as.joiner->used = true;
        return fore_tstr_view(run, "", 0, out);
    default: return fore_traise(run, "'%s' object is not callable", fore_ttype_name(f));
    }
}

/* ---- attributes ---- */

static fore_status unsafe(fore_trun *run, fore_tval v, const fore_tstr *name, fore_tval *out) {
    size_t room = name->size + 128;
    char *hint = fore_trun_alloc(run, room, 1);
    if (!hint) return fore_trun_error(run);
    snprintf(hint, room, "access to attribute '%.*s' of '%s' object is unsafe.", (int)name->size, name->data,
             fore_ttype_name(v));
    return fore_tundefined_hint(run, hint, out);
}

static fore_status method_new(fore_trun *run, fore_tval self, const char *name, fore_tmethod_call call, fore_tval *out) {
    fore_tmethod *m = fore_trun_alloc(run, 1, sizeof *m);
    if (!m) return fore_trun_error(run);
    *m = (fore_tmethod){.name = name, .call = call, .self = self};
    *out = (fore_tval){.tag = FORE_T_METHOD, .as.method = m};
    return FORE_OK;
}

static fore_status list_index(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tval args[3];
    int64_t start, stop, count = (int64_t)self.as.list->count;
    FORE_TRY(fore_tbind(run, call, "index", "/value start? stop?", args));
    FORE_TRY(fore_targ_int(run, args[1], "index", 0, &start));
    FORE_TRY(fore_targ_int(run, args[2], "index", INT64_MAX, &stop));
    if (start < 0) start = start < -count ? 0 : start + count;
    if (stop < 0) stop = stop < -count ? 0 : stop + count;
    for (int64_t i = start; i < stop && i < count; i++) {
        bool same;
        FORE_TRY(fore_tequal(run, self.as.list->items[i], args[0], &same));
        if (!same) continue;
        *out = fore_tint(i);
        return FORE_OK;
    }
    return fore_traise(run, "index(x): x not in %s", fore_ttype_name(self));
}

static fore_status list_count(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tval value;
    int64_t n = 0;
    FORE_TRY(fore_tbind(run, call, "count", "/value", &value));
    for (size_t i = 0; i < self.as.list->count; i++) {
        bool same;
        FORE_TRY(fore_tequal(run, self.as.list->items[i], value, &same));
        n += same;
    }
    *out = fore_tint(n);
    return FORE_OK;
}

static fore_status self_copy(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    *out = self; /* values do not change, so that one copy is enough */
    return fore_tbind(run, call, "copy", "", NULL);
}

static fore_status dict_get(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tval args[2];
    FORE_TRY(fore_tbind(run, call, "get", "/key default?", args));
    FORE_TRY(fore_tdict_get(run, self.as.dict, args[0], out));
    if (out->tag == FORE_T_MISSING) *out = args[1].tag == FORE_T_MISSING ? fore_tnone() : args[1];
    return FORE_OK;
}

static fore_status view_new(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tview_kind kind, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "items", "", NULL));
    fore_tview *view = fore_trun_alloc(run, 1, sizeof *view);
    if (!view) return fore_trun_error(run);
    *view = (fore_tview){.kind = kind, .dict = self.as.dict};
    *out = (fore_tval){.tag = FORE_T_VIEW, .as.view = view};
    return FORE_OK;
}
static fore_status dict_keys(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return view_new(run, self, call, FORE_T_KEYS, out);
}
static fore_status dict_values(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return view_new(run, self, call, FORE_T_VALUES, out);
}
static fore_status dict_items(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    return view_new(run, self, call, FORE_T_ITEMS, out);
}

static fore_status cycler_next(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    fore_tcycler *c = self.as.cycler;
    FORE_TRY(fore_tbind(run, call, "next", "", NULL));
    *out = c->items.items[c->position];
    c->position = (c->position + 1) % c->items.count;
    return FORE_OK;
}
static fore_status cycler_reset(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "reset", "", NULL));
    self.as.cycler->position = 0;
    *out = fore_tnone();
    return FORE_OK;
}

static fore_status real_is_integer(fore_trun *run, fore_tval self, const fore_tcall *call, fore_tval *out) {
    FORE_TRY(fore_tbind(run, call, "is_integer", "", NULL));
    double v = self.as.real;
    *out = fore_tbool(v - v == 0 && v == trunc(v));
    return FORE_OK;
}

/* call NULL: what would change the object, which the sandbox does not allow. */
static const struct {
    fore_ttag tag;
    const char *name;
    fore_tmethod_call call;
} methods[] = {
    {FORE_T_DICT, "get", dict_get},           {FORE_T_DICT, "items", dict_items},   {FORE_T_DICT, "keys", dict_keys},
    {FORE_T_DICT, "values", dict_values},     {FORE_T_DICT, "copy", self_copy},     {FORE_T_DICT, "clear", NULL},
    {FORE_T_DICT, "pop", NULL},               {FORE_T_DICT, "popitem", NULL},       {FORE_T_DICT, "setdefault", NULL},
    {FORE_T_DICT, "update", NULL},            {FORE_T_LIST, "index", list_index},   {FORE_T_LIST, "count", list_count},
    {FORE_T_LIST, "copy", self_copy},         {FORE_T_LIST, "append", NULL},        {FORE_T_LIST, "clear", NULL},
    {FORE_T_LIST, "pop", NULL},               {FORE_T_LIST, "reverse", NULL},       {FORE_T_LIST, "insert", NULL},
    {FORE_T_LIST, "sort", NULL},              {FORE_T_LIST, "extend", NULL},        {FORE_T_LIST, "remove", NULL},
    {FORE_T_TUPLE, "index", list_index},      {FORE_T_TUPLE, "count", list_count},  {FORE_T_CYCLER, "next", cycler_next},
    {FORE_T_CYCLER, "reset", cycler_reset},   {FORE_T_FLOAT, "is_integer", real_is_integer},
};

fore_status fore_tattribute(fore_trun *run, fore_tval v, const fore_tstr *name, fore_tval *out) {
    fore_tval key = {.tag = FORE_T_STR, .as.str = name};
    *out = (fore_tval){.tag = FORE_T_MISSING};
    /* Python's own attributes: there are none to reach here, and the sandbox would not let them through. */
    if (name->size > 4 && memcmp(name->data, "__", 2) == 0 && memcmp(name->data + name->size - 2, "__", 2) == 0)
        return unsafe(run, v, name, out);
    switch (v.tag) {
    case FORE_T_STR: {
        fore_tmethod_call call = fore_tstr_method(name);
        return call ? method_new(run, v, "str method", call, out) : FORE_OK;
    }
    case FORE_T_NAMESPACE: *out = fore_tdict_text(v.as.names->dict, name->data, name->size); return FORE_OK;
    case FORE_T_LOOP: return fore_tloop_attribute(run, v.as.loop, name, out);
    case FORE_T_MACRO: return fore_tmacro_attribute(run, v.as.macro, name, out);
    case FORE_T_TUPLE:
        if (v.as.list->group && fore_tis_text(key, "grouper")) *out = v.as.list->items[0];
        if (v.as.list->group && fore_tis_text(key, "list")) *out = v.as.list->items[1];
        break;
    case FORE_T_CYCLER:
        if (fore_tis_text(key, "current")) *out = v.as.cycler->items.items[v.as.cycler->position];
        if (fore_tis_text(key, "items"))
            return fore_tlist_wrap(run, FORE_T_TUPLE, v.as.cycler->items.items, v.as.cycler->items.count, out);
        break;
    case FORE_T_RANGE:
        if (fore_tis_text(key, "start")) *out = fore_tint(v.as.range->start);
        if (fore_tis_text(key, "stop")) *out = fore_tint(v.as.range->stop);
        if (fore_tis_text(key, "step")) *out = fore_tint(v.as.range->step);
        break;
    default: break;
    }
    if (out->tag != FORE_T_MISSING) return FORE_OK;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (methods[i].tag != v.tag || !fore_tis_text(key, methods[i].name)) continue;
        return methods[i].call ? method_new(run, v, methods[i].name, methods[i].call, out) : unsafe(run, v, name, out);
    }
    return FORE_OK;
}

fore_status fore_tgetattr(fore_trun *run, fore_tval v, fore_tval name, fore_tval *out) {
    fore_tval found;
    FORE_TRY(fore_tattribute(run, v, name.as.str, &found));
    if (found.tag == FORE_T_MISSING) FORE_TRY(fore_tindex(run, v, name, &found));
    if (found.tag == FORE_T_MISSING) return fore_tundefined_of(run, v, name, out);
    *out = found;
    return FORE_OK;
}

fore_status fore_tgetitem(fore_trun *run, fore_tval v, fore_tval index, fore_tval *out) {
    fore_tval found;
    FORE_TRY(fore_tindex(run, v, index, &found));
    if (found.tag == FORE_T_MISSING && index.tag == FORE_T_STR) FORE_TRY(fore_tattribute(run, v, index.as.str, &found));
    if (found.tag == FORE_T_MISSING) return fore_tundefined_of(run, v, index, out);
    *out = found;
    return FORE_OK;
}

/* ---- global functions ---- */

static fore_status call_range(fore_trun *run, const fore_tcall *call, fore_tval *out) {
    fore_tval args[3];
    int64_t start = 0, stop, step = 1;
    FORE_TRY(fore_tbind(run, call, "range", "/start stop? step?", args));
    FORE_TRY(fore_targ_int(run, args[0], "range", 0, &stop));
    if (args[1].tag != FORE_T_MISSING) {
        start = stop;
        FORE_TRY(fore_targ_int(run, args[1], "range", 0, &stop));
        FORE_TRY(fore_targ_int(run, args[2], "range", 1, &step));
    }
    if (!step) return fore_traise(run, "range() arg 3 must not be zero");
    uint64_t span = step > 0 ? (stop > start ? (uint64_t)stop - (uint64_t)start : 0)
                             : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t count = span ? (span - 1) / by + 1 : 0;
    if (count > FORE_T_MAX_RANGE)
        return fore_traise(run, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", FORE_T_MAX_RANGE);
    fore_trange *r = fore_trun_alloc(run, 1, sizeof *r);
    if (!r) return fore_trun_error(run);
    *r = (fore_trange){.start = start, .stop = stop, .step = step, .count = (size_t)count};
    *out = (fore_tval){.tag = FORE_T_RANGE, .as.range = r};
    return FORE_OK;
}

static fore_status dict_add(fore_trun *run, fore_tdict *dict, fore_tval from) {
    if (from.tag == FORE_T_DICT) {
        for (size_t i = 0; i < from.as.dict->count; i++)
            FORE_TRY(fore_tdict_set(run, dict, from.as.dict->pairs[i].key, from.as.dict->pairs[i].value));
        return FORE_OK;
    }
    fore_tlist items, pair;
    if (from.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, from.as.undefined);
    FORE_TRY(fore_tlist_from(run, from, &items));
    for (size_t i = 0; i < items.count; i++) {
        FORE_TRY(fore_tlist_from(run, items.items[i], &pair));
        if (pair.count != 2)
            return fore_traise(run, "dictionary update sequence element #%zu has length %zu; 2 is required", i, pair.count);
        FORE_TRY(fore_tdict_set(run, dict, pair.items[0], pair.items[1]));
    }
    return FORE_OK;
}

static fore_status make_dict(fore_trun *run, const fore_tcall *call, fore_tdict **out) {
    FORE_TRY(fore_tdict_new(run, out));
    if (call->count > 1) return fore_traise(run, "dict expected at most 1 argument, got %zu", call->count);
    if (call->count) FORE_TRY(dict_add(run, *out, call->args[0]));
    for (size_t i = 0; i < call->keyword_count; i++) {
        fore_tval key = {.tag = FORE_T_STR, .as.str = call->keywords[i].name};
        FORE_TRY(fore_tdict_set(run, *out, key, call->keywords[i].value));
    }
    return FORE_OK;
}

static fore_status call_dict(fore_trun *run, const fore_tcall *call, fore_tval *out) {
    *out = (fore_tval){.tag = FORE_T_DICT};
    return make_dict(run, call, &out->as.dict);
}

static fore_status call_namespace(fore_trun *run, const fore_tcall *call, fore_tval *out) {
    fore_tnamespace *ns = fore_trun_alloc(run, 1, sizeof *ns);
    if (!ns) return fore_trun_error(run);
    FORE_TRY(make_dict(run, call, &ns->dict));
    for (size_t i = 0; i < ns->dict->count; i++) {
        fore_tval key = ns->dict->pairs[i].key;
        if (key.tag == FORE_T_STR && key.as.str->size && key.as.str->data[0] == '_')
            return fore_traise(run, "Chat templates cannot store underscore-prefixed attributes on a namespace");
    }
    *out = (fore_tval){.tag = FORE_T_NAMESPACE, .as.names = ns};
    return FORE_OK;
}

static fore_status call_cycler(fore_trun *run, const fore_tcall *call, fore_tval *out) {
    if (call->keyword_count) return fore_traise(run, "cycler() got an unexpected keyword argument");
    if (!call->count) return fore_traise(run, "at least one item has to be provided");
    fore_tcycler *c = fore_trun_alloc(run, 1, sizeof *c);
    if (!c) return fore_trun_error(run);
    *c = (fore_tcycler){.items = {.items = (fore_tval *)call->args, .count = call->count}};
    *out = (fore_tval){.tag = FORE_T_CYCLER, .as.cycler = c};
    return FORE_OK;
}

static fore_status call_joiner(fore_trun *run, const fore_tcall *call, fore_tval *out) {
    fore_tjoiner *j = fore_trun_alloc(run, 1, sizeof *j);
    if (!j) return fore_trun_error(run);
    FORE_TRY(fore_tbind(run, call, "joiner", "sep?", &j->separator));
    if (j->separator.tag == FORE_T_MISSING) FORE_TRY(fore_tstr_view(run, ", ", 2, &j->separator));
    *out = (fore_tval){.tag = FORE_T_JOINER, .as.joiner = j};
    return FORE_OK;
}

static fore_status call_raise(fore_trun *run, const fore_tcall *call, fore_tval *out) {
    fore_tval message;
    FORE_TRY(fore_tbind(run, call, "raise_exception", "message", &message));
    FORE_TRY(fore_tstring(run, message, out));
    size_t size = out->tag == FORE_T_STR ? out->as.str->size : 0;
    return fore_traise(run, "%.*s", size > 400 ? 400 : (int)size, size ? out->as.str->data : "");
}

static fore_status call_strftime(fore_trun *run, const fore_tcall *call, fore_tval *out) {
    fore_tval format;
    const fore_tstr *f = NULL;
    FORE_TRY(fore_tbind(run, call, "strftime_now", "format", &format));
    FORE_TRY(fore_targ_str(run, format, "strftime_now", &f));
    if (f->size > 4096 || (f->size && memchr(f->data, 0, f->size)))
        return fore_traise(run, "strftime_now: the format is too long or has a NUL");
    time_t seconds = (time_t)run->now;
    struct tm tm;
    if (!localtime_r(&seconds, &tm)) return fore_traise(run, "strftime_now: the clock is out of range");
    fore_buf buf = {0}, text = {0};
    fore_status s = FORE_OK;
    /* A time without a zone has no %z and no %Z, and no microseconds here; the last letter tells "" from "too long". */
    for (size_t i = 0; !s && i < f->size; i++) {
        bool percent = f->data[i] == '%' && i + 1 < f->size;
        char next = percent ? f->data[i + 1] : 0;
        if (next == 'z' || next == 'Z' || next == 'f') {
            if (next == 'f') s = fore_buf_puts(&buf, "000000");
            i++;
        } else {
            s = fore_buf_append(&buf, f->data + i, percent ? 2 : 1);
            i += percent;
        }
    }
    if (!s) s = fore_buf_puts(&buf, ".");
    size_t n = 0;
    locale_t c = s ? (locale_t)0 : newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c) {
        for (size_t room = 256; !n && room <= (size_t)1 << 20; room *= 4) {
            if (fore_buf_reserve(&text, room)) break;
            n = strftime_l(text.data, room, buf.data, &tm, c);
        }
        freelocale(c);
    }
    if (n) {
        s = fore_tstr_copy(run, text.data, n - 1, out);
    } else if (c && text.capacity > (size_t)1 << 19) {
        s = fore_tlimit(run, "a date is too long");
    } else {
        s = fore_fail_nomem(run->err, "a date");
    }
    fore_buf_free(&buf);
    fore_buf_free(&text);
    return s;
}

const fore_tfunction *fore_tglobal_find(const char *name, size_t size) {
    static const fore_tfunction functions[] = {
        {"range", call_range},   {"dict", call_dict},     {"namespace", call_namespace},
        {"cycler", call_cycler}, {"joiner", call_joiner}, {"raise_exception", call_raise},
        {"strftime_now", call_strftime},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strlen(functions[i].name) == size && memcmp(functions[i].name, name, size) == 0) return &functions[i];
    return NULL;
}
