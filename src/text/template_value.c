/* Values of the template engine: memory with a budget, errors with the line, strings, lists, dicts, undefined values,
 * truth, equality and order. Mirrors Python's built-in types where jinja2 shows them to a template. */
#include "text/template_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template_run.h"

enum { CHUNK = 32 * 1024, INDEX_FROM = 12 };

/* ---- memory, budget, errors ---- */

fore_status fore_traise(fore_trun *run, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fore_fail(run->err, FORE_ERR_FORMAT, "template line %d: %s", run->line, text);
}

fore_status fore_tlimit(fore_trun *run, const char *what) {
    return fore_fail(run->err, FORE_ERR_LIMIT, "template line %d: stopped: %s", run->line, what);
}

fore_status fore_trun_error(const fore_trun *run) { return run->err->code; }

fore_status fore_tspend(fore_trun *run, size_t bytes) {
    uint64_t cost = 1 + bytes / 32;
    if (run->steps < cost) {
        run->steps = 0;
        return fore_tlimit(run, "it takes too many steps (an endless loop?)");
    }
    run->steps -= cost;
    return FORE_OK;
}

static void *take(fore_trun *run, size_t size, size_t align) {
    if (size > run->memory_most - run->memory) {
        fore_tlimit(run, "its values take too much memory");
        return NULL;
    }
    size_t pad = (align - (uintptr_t)run->chunk % align) % align;
    if (!run->chunk || run->chunk_left < size + pad) {
        bool own = size > CHUNK / 4;
        char *fresh = fore_arena_alloc(&run->arena, own ? size : CHUNK, 1);
        if (!fresh) {
            fore_fail_nomem(run->err, "values of a template");
            return NULL;
        }
        run->memory += size;
        if (own) return fresh;
        run->chunk = fresh;
        run->chunk_left = CHUNK;
        pad = 0;
    } else {
        run->memory += size;
    }
    char *p = run->chunk + pad;
    run->chunk += pad + size;
    run->chunk_left -= pad + size;
    return p;
}

void *fore_trun_alloc(fore_trun *run, size_t count, size_t size) {
    if (size && count > FORE_T_MAX_MEMORY / size) {
        fore_tlimit(run, "its values take too much memory");
        return NULL;
    }
    return take(run, count * size, 16);
}

/* ---- strings ---- */

static size_t count_chars(const char *data, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += ((unsigned char)data[i] & 0xc0) != 0x80;
    return n;
}

static fore_status str_new(fore_trun *run, const char *data, size_t size, size_t chars, fore_tval *out) {
    fore_tstr *s = fore_trun_alloc(run, 1, sizeof *s);
    if (!s) return fore_trun_error(run);
    *s = (fore_tstr){.data = data, .size = size, .chars = chars};
    *out = (fore_tval){.tag = FORE_T_STR, .as.str = s};
    return FORE_OK;
}

fore_status fore_tstr_view(fore_trun *run, const char *data, size_t size, fore_tval *out) {
    FORE_TRY(fore_tspend(run, size));
    return str_new(run, data, size, count_chars(data, size), out);
}

fore_status fore_tstr_copy(fore_trun *run, const char *data, size_t size, fore_tval *out) {
    FORE_TRY(fore_tspend(run, size));
    char *p = take(run, size + 1, 1);
    if (!p) return fore_trun_error(run);
    if (size) memcpy(p, data, size);
    return fore_tstr_view(run, p, size, out);
}

fore_status fore_tstr_take(fore_trun *run, fore_buf *buf, fore_tval *out) {
    fore_status s = fore_tstr_copy(run, buf->data, buf->size, out);
    fore_buf_free(buf);
    return s;
}

fore_status fore_tstr_concat(fore_trun *run, const fore_tstr *a, const fore_tstr *b, fore_tval *out) {
    if (!b->size) return str_new(run, a->data, a->size, a->chars, out);
    if (!a->size) return str_new(run, b->data, b->size, b->chars, out);
    if (a->size > FORE_T_MAX_MEMORY || b->size > FORE_T_MAX_MEMORY) return fore_tlimit(run, "a string is too long");
    FORE_TRY(fore_tspend(run, b->size));
    size_t size = a->size + b->size, chars = a->chars + b->chars;
    fore_ttail *tail = NULL;
    for (fore_ttail *t = run->tails; t < run->tails + FORE_T_TAILS && !tail; t++)
        if (t->end && a->data + a->size == t->end) tail = t;
    if (tail && b->size <= tail->room) { /* grow in place: nothing was added to a yet */
        memcpy(tail->end, b->data, b->size);
        tail->end += b->size;
        tail->room -= b->size;
        return str_new(run, a->data, size, chars, out);
    }
    if (!tail) tail = &run->tails[run->tail_next++ % FORE_T_TAILS];
    FORE_TRY(fore_tspend(run, a->size));
    size_t room = size < 64 ? 64 : size * 2;
    if (room > run->memory_most - run->memory) room = size;
    char *p = take(run, room, 1);
    if (!p) return fore_trun_error(run);
    memcpy(p, a->data, a->size);
    memcpy(p + a->size, b->data, b->size);
    *tail = (fore_ttail){.end = p + size, .room = room - size};
    return str_new(run, p, size, chars, out);
}

fore_status fore_tstr_as_markup(fore_trun *run, fore_tval s, bool markup, fore_tval *out) {
    if (s.as.str->markup == markup) {
        *out = s;
        return FORE_OK;
    }
    fore_tstr *copy = fore_trun_alloc(run, 1, sizeof *copy);
    if (!copy) return fore_trun_error(run);
    *copy = *s.as.str;
    copy->markup = markup;
    *out = (fore_tval){.tag = FORE_T_STR, .as.str = copy};
    return FORE_OK;
}

size_t fore_tstr_offset(const fore_tstr *s, size_t index) {
    if (s->chars == s->size) return index;
    if (index >= s->chars) return s->size;
    size_t i = 0;
    if (index <= s->chars / 2) {
        for (; index; index--)
            for (i++; i < s->size && ((unsigned char)s->data[i] & 0xc0) == 0x80;) i++;
    } else {
        i = s->size;
        for (size_t left = s->chars - index; left; left--)
            for (i--; ((unsigned char)s->data[i] & 0xc0) == 0x80;) i--;
    }
    return i;
}

fore_status fore_tstr_sub(fore_trun *run, const fore_tstr *s, size_t from, size_t count, fore_tval *out) {
    if (s->chars != s->size) FORE_TRY(fore_tspend(run, from < s->chars / 2 ? from : s->chars - from));
    size_t start = fore_tstr_offset(s, from);
    size_t end = s->chars == s->size ? from + count : fore_tstr_offset(s, from + count);
    FORE_TRY(str_new(run, s->data + start, end - start, count, out));
    return s->markup ? fore_tstr_as_markup(run, *out, true, out) : FORE_OK;
}

bool fore_tis_text(fore_tval v, const char *text) {
    return v.tag == FORE_T_STR && v.as.str->size == strlen(text) && memcmp(v.as.str->data, text, v.as.str->size) == 0;
}

/* ---- lists ---- */

fore_status fore_tlist_wrap(fore_trun *run, fore_ttag tag, fore_tval *items, size_t count, fore_tval *out) {
    fore_tlist *list = fore_trun_alloc(run, 1, sizeof *list);
    if (!list) return fore_trun_error(run);
    list->items = items;
    list->count = count;
    *out = (fore_tval){.tag = tag, .as.list = list};
    return FORE_OK;
}

fore_status fore_tlist_new(fore_trun *run, fore_ttag tag, size_t count, fore_tval *out) {
    FORE_TRY(fore_tspend(run, count));
    fore_tval *items = fore_trun_alloc(run, count + !count, sizeof *items);
    if (!items) return fore_trun_error(run);
    for (size_t i = 0; i < count; i++) items[i] = fore_tnone();
    return fore_tlist_wrap(run, tag, items, count, out);
}

fore_status fore_tpair_new(fore_trun *run, fore_tval a, fore_tval b, fore_tval *out) {
    FORE_TRY(fore_tlist_new(run, FORE_T_TUPLE, 2, out));
    out->as.list->items[0] = a;
    out->as.list->items[1] = b;
    return FORE_OK;
}

fore_status fore_titerator_new(fore_trun *run, fore_tval *items, size_t count, const char *error, fore_tval *out) {
    fore_titerator *it = fore_trun_alloc(run, 1, sizeof *it);
    if (!it) return fore_trun_error(run);
    *it = (fore_titerator){.items = {.items = items, .count = count}, .error = error};
    *out = (fore_tval){.tag = FORE_T_ITERATOR, .as.iterator = it};
    return FORE_OK;
}

fore_status fore_tvec_push(fore_trun *run, fore_tvec *vec, fore_tval v) {
    if (vec->count == vec->capacity) {
        size_t capacity = vec->capacity ? vec->capacity * 2 : 8;
        fore_tval *items = fore_trun_alloc(run, capacity, sizeof *items);
        if (!items) return fore_trun_error(run);
        if (vec->count) memcpy(items, vec->items, vec->count * sizeof *items);
        vec->items = items;
        vec->capacity = capacity;
    }
    vec->items[vec->count++] = v;
    return fore_tspend(run, 0);
}

/* ---- dicts ---- */

static uint64_t hash_bytes(const char *data, size_t size) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)data[i]) * 1099511628211u;
    return h ^ (h >> 29);
}

static fore_status hash_of(fore_trun *run, fore_tval v, int depth, uint64_t *out) {
    switch (v.tag) {
    case FORE_T_NONE: *out = 77; return FORE_OK;
    case FORE_T_BOOL:
    case FORE_T_INT: *out = (uint64_t)fore_tinteger(v) * 0x9e3779b97f4a7c15u; return FORE_OK;
    case FORE_T_FLOAT: { /* 1 and 1.0 are the same key */
        double f = v.as.real;
        if (f >= -9007199254740992.0 && f <= 9007199254740992.0 && f == (double)(int64_t)f) {
            *out = (uint64_t)(int64_t)f * 0x9e3779b97f4a7c15u;
        } else {
            memcpy(out, &f, sizeof *out);
        }
        return FORE_OK;
    }
    case FORE_T_STR:
    case FORE_T_BIG:
        *out = hash_bytes(v.as.str->data, v.as.str->size);
        return fore_tspend(run, v.as.str->size);
    case FORE_T_TUPLE: {
        if (depth > FORE_T_MAX_NESTING) return fore_tlimit(run, "values are nested too deeply");
        uint64_t h = 99, one;
        for (size_t i = 0; i < v.as.list->count; i++) {
            FORE_TRY(hash_of(run, v.as.list->items[i], depth + 1, &one));
            h = h * 31 + one;
        }
        *out = h;
        return fore_tspend(run, v.as.list->count);
    }
    case FORE_T_LIST:
    case FORE_T_DICT:
    case FORE_T_VIEW: return fore_traise(run, "unhashable type: '%s'", fore_ttype_name(v));
    case FORE_T_UNDEFINED: *out = 78; return FORE_OK;
    default: memcpy(out, &v.as, sizeof *out); return FORE_OK;
    }
}

/* A text key's position + 1, or 0, without running out of anything. */
static size_t find_text(const fore_tdict *dict, const char *key, size_t size) {
    if (!dict->index) {
        for (size_t i = 0; i < dict->count; i++) {
            const fore_tval *k = &dict->pairs[i].key;
            if (k->tag == FORE_T_STR && k->as.str->size == size && memcmp(k->as.str->data, key, size) == 0) return i + 1;
        }
        return 0;
    }
    uint64_t h = hash_bytes(key, size);
    for (size_t slot = h % dict->index_size; dict->index[slot]; slot = (slot + 1) % dict->index_size) {
        const fore_tpair *p = &dict->pairs[dict->index[slot] - 1];
        if (p->hash == h && p->key.tag == FORE_T_STR && p->key.as.str->size == size &&
            memcmp(p->key.as.str->data, key, size) == 0)
            return dict->index[slot];
    }
    return 0;
}

fore_tval fore_tdict_text(const fore_tdict *dict, const char *key, size_t size) {
    size_t at = find_text(dict, key, size);
    return at ? dict->pairs[at - 1].value : (fore_tval){.tag = FORE_T_MISSING};
}

static fore_status find(fore_trun *run, const fore_tdict *dict, fore_tval key, uint64_t *hash, size_t *at) {
    FORE_TRY(hash_of(run, key, 0, hash));
    *at = 0;
    if (key.tag == FORE_T_STR) {
        *at = find_text(dict, key.as.str->data, key.as.str->size);
        return FORE_OK;
    }
    bool same = false;
    if (!dict->index) {
        for (size_t i = 0; i < dict->count && !*at; i++) {
            if (dict->pairs[i].hash != *hash) continue;
            FORE_TRY(fore_tequal(run, dict->pairs[i].key, key, &same));
            if (same) *at = i + 1;
        }
        return FORE_OK;
    }
    for (size_t slot = *hash % dict->index_size; dict->index[slot]; slot = (slot + 1) % dict->index_size) {
        FORE_TRY(fore_tspend(run, 0));
        if (dict->pairs[dict->index[slot] - 1].hash != *hash) continue;
        FORE_TRY(fore_tequal(run, dict->pairs[dict->index[slot] - 1].key, key, &same));
        if (same) {
            *at = dict->index[slot];
            return FORE_OK;
        }
    }
    return FORE_OK;
}

fore_status fore_tdict_new(fore_trun *run, fore_tdict **out) {
    *out = fore_trun_alloc(run, 1, sizeof **out);
    return *out ? FORE_OK : fore_trun_error(run);
}

fore_status fore_tdict_get(fore_trun *run, const fore_tdict *dict, fore_tval key, fore_tval *out) {
    uint64_t hash;
    size_t at;
    FORE_TRY(find(run, dict, key, &hash, &at));
    *out = at ? dict->pairs[at - 1].value : (fore_tval){.tag = FORE_T_MISSING};
    return FORE_OK;
}

static void index_add(fore_tdict *dict, size_t position) {
    size_t slot = dict->pairs[position].hash % dict->index_size;
    while (dict->index[slot]) slot = (slot + 1) % dict->index_size;
    dict->index[slot] = (uint32_t)position + 1;
}

fore_status fore_tdict_set(fore_trun *run, fore_tdict *dict, fore_tval key, fore_tval value) {
    uint64_t hash;
    size_t at;
    FORE_TRY(find(run, dict, key, &hash, &at));
    if (at) {
        dict->pairs[at - 1].value = value;
        return FORE_OK;
    }
    if (dict->count == dict->capacity) {
        size_t capacity = dict->capacity ? dict->capacity * 2 : 4;
        fore_tpair *pairs = fore_trun_alloc(run, capacity, sizeof *pairs);
        if (!pairs) return fore_trun_error(run);
        if (dict->count) memcpy(pairs, dict->pairs, dict->count * sizeof *pairs);
        dict->pairs = pairs;
        dict->capacity = capacity;
    }
    dict->pairs[dict->count++] = (fore_tpair){.key = key, .value = value, .hash = hash};
    if (dict->count >= INDEX_FROM && dict->count * 2 > dict->index_size) {
        size_t size = dict->count * 4 + 1;
        uint32_t *index = fore_trun_alloc(run, size, sizeof *index);
        if (!index) return fore_trun_error(run);
        dict->index = index;
        dict->index_size = size;
        for (size_t i = 0; i < dict->count; i++) index_add(dict, i);
    } else if (dict->index) {
        index_add(dict, dict->count - 1);
    }
    return FORE_OK;
}

/* ---- undefined ---- */

static fore_status undefined_new(fore_trun *run, fore_tundefined u, fore_tval *out) {
    fore_tundefined *p = fore_trun_alloc(run, 1, sizeof *p);
    if (!p) return fore_trun_error(run);
    *p = u;
    *out = (fore_tval){.tag = FORE_T_UNDEFINED, .as.undefined = p};
    return FORE_OK;
}

fore_status fore_tundefined_name(fore_trun *run, fore_tval name, fore_tval *out) {
    return undefined_new(run, (fore_tundefined){.name = name}, out);
}

fore_status fore_tundefined_hint(fore_trun *run, const char *hint, fore_tval *out) {
    return undefined_new(run, (fore_tundefined){.hint = hint}, out);
}

fore_status fore_tundefined_of(fore_trun *run, fore_tval object, fore_tval name, fore_tval *out) {
    const char *type = object.tag == FORE_T_NONE ? "None" : fore_ttype_name(object);
    return undefined_new(run, (fore_tundefined){.type = type, .name = name}, out);
}

fore_status fore_traise_undefined(fore_trun *run, const fore_tundefined *u) {
    if (u->hint) return fore_traise(run, "%s", u->hint);
    fore_buf name = {.limit = 200};
    fore_status s = FORE_OK;
    if (u->name.tag == FORE_T_STR && !u->type) {
        s = fore_buf_append(&name, u->name.as.str->data, u->name.as.str->size < 150 ? u->name.as.str->size : 150);
    } else {
        fore_error hidden, *err = run->err; /* a name too long to show is shown in part */
        run->err = &hidden;
        s = fore_tappend_repr(run, &name, u->name);
        run->err = err;
    }
    if (s == FORE_ERR_NOMEM) {
        fore_buf_free(&name);
        return fore_fail_nomem(run->err, "a message");
    }
    const char *text = name.data ? name.data : "";
    const char *object = u->type && strcmp(u->type, "None") == 0 ? "" : " object";
    if (!u->type) {
        s = fore_traise(run, "'%s' is undefined", text);
    } else if (u->name.tag == FORE_T_STR) {
        s = fore_traise(run, "'%s%s' has no attribute %s", u->type, object, text);
    } else {
        s = fore_traise(run, "%s%s has no element %s", u->type, object, text);
    }
    fore_buf_free(&name);
    return s;
}

/* ---- looking at values ---- */

const char *fore_ttype_name(fore_tval v) {
    switch (v.tag) {
    case FORE_T_NONE: return "NoneType";
    case FORE_T_BOOL: return "bool";
    case FORE_T_INT:
    case FORE_T_BIG: return "int";
    case FORE_T_FLOAT: return "float";
    case FORE_T_STR: return v.as.str->markup ? "Markup" : "str";
    case FORE_T_LIST: return "list";
    case FORE_T_TUPLE: return "tuple";
    case FORE_T_DICT: return "dict";
    case FORE_T_UNDEFINED: return "Undefined";
    case FORE_T_RANGE: return "range";
    case FORE_T_VIEW:
        return v.as.view->kind == FORE_T_KEYS ? "dict_keys" : v.as.view->kind == FORE_T_VALUES ? "dict_values" : "dict_items";
    case FORE_T_ITERATOR: return "generator";
    case FORE_T_FUNCTION: return "function";
    case FORE_T_METHOD: return "builtin_function_or_method";
    case FORE_T_MACRO: return "Macro";
    case FORE_T_NAMESPACE: return "Namespace";
    case FORE_T_LOOP: return "LoopContext";
    case FORE_T_CYCLER: return "Cycler";
    case FORE_T_JOINER: return "Joiner";
    case FORE_T_MISSING: break;
    }
    return "missing";
}

bool fore_thas_length(fore_tval v) {
    return v.tag == FORE_T_STR || v.tag == FORE_T_LIST || v.tag == FORE_T_TUPLE || v.tag == FORE_T_DICT ||
           v.tag == FORE_T_UNDEFINED || v.tag == FORE_T_RANGE || v.tag == FORE_T_VIEW || v.tag == FORE_T_LOOP;
}

fore_status fore_tlength(fore_trun *run, fore_tval v, size_t *out) {
    switch (v.tag) {
    case FORE_T_STR: *out = v.as.str->chars; return FORE_OK;
    case FORE_T_LIST:
    case FORE_T_TUPLE: *out = v.as.list->count; return FORE_OK;
    case FORE_T_DICT: *out = v.as.dict->count; return FORE_OK;
    case FORE_T_UNDEFINED: *out = 0; return FORE_OK;
    case FORE_T_RANGE: *out = v.as.range->count; return FORE_OK;
    case FORE_T_VIEW: *out = v.as.view->dict->count; return FORE_OK;
    case FORE_T_LOOP: *out = v.as.loop->count; return FORE_OK;
    default: return fore_traise(run, "object of type '%s' has no len()", fore_ttype_name(v));
    }
}

bool fore_ttrue(fore_tval v) {
    switch (v.tag) {
    case FORE_T_MISSING:
    case FORE_T_NONE:
    case FORE_T_UNDEFINED: return false;
    case FORE_T_BOOL: return v.as.boolean;
    case FORE_T_INT: return v.as.integer != 0;
    case FORE_T_FLOAT: return v.as.real != 0;
    case FORE_T_STR: return v.as.str->size != 0;
    case FORE_T_LIST:
    case FORE_T_TUPLE: return v.as.list->count != 0;
    case FORE_T_DICT: return v.as.dict->count != 0;
    case FORE_T_RANGE: return v.as.range->count != 0;
    case FORE_T_VIEW: return v.as.view->dict->count != 0;
    case FORE_T_LOOP: return v.as.loop->count != 0;
    default: return true;
    }
}

static fore_status equal(fore_trun *run, fore_tval a, fore_tval b, int depth, bool *out);

static fore_status equal_dicts(fore_trun *run, const fore_tdict *a, const fore_tdict *b, bool keys_only, int depth,
                               bool *out) {
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        fore_tval other;
        FORE_TRY(fore_tdict_get(run, b, a->pairs[i].key, &other));
        *out = other.tag != FORE_T_MISSING;
        if (*out && !keys_only) FORE_TRY(equal(run, a->pairs[i].value, other, depth + 1, out));
    }
    return FORE_OK;
}

static fore_status equal(fore_trun *run, fore_tval a, fore_tval b, int depth, bool *out) {
    *out = false;
    if (depth > FORE_T_MAX_NESTING) return fore_tlimit(run, "values are nested too deeply");
    FORE_TRY(fore_tspend(run, 0));
    if (fore_tis_number(a) && fore_tis_number(b)) {
        if (fore_tis_integral(a) && fore_tis_integral(b)) {
            *out = fore_tinteger(a) == fore_tinteger(b);
        } else {
            *out = fore_tdouble(a) == fore_tdouble(b);
        }
        return FORE_OK;
    }
    if (a.tag != b.tag) return FORE_OK;
    switch (a.tag) {
    case FORE_T_NONE:
    case FORE_T_UNDEFINED: *out = true; return FORE_OK;
    case FORE_T_STR:
    case FORE_T_BIG:
        *out = a.as.str->size == b.as.str->size && memcmp(a.as.str->data, b.as.str->data, a.as.str->size) == 0;
        return fore_tspend(run, a.as.str->size);
    case FORE_T_LIST:
    case FORE_T_TUPLE:
        if (a.as.list->count != b.as.list->count) return FORE_OK;
        for (size_t i = 0; i < a.as.list->count; i++) {
            FORE_TRY(equal(run, a.as.list->items[i], b.as.list->items[i], depth + 1, out));
            if (!*out) return FORE_OK;
        }
        *out = true;
        return FORE_OK;
    case FORE_T_DICT: return equal_dicts(run, a.as.dict, b.as.dict, false, depth, out);
    case FORE_T_RANGE: {
        const fore_trange *x = a.as.range, *y = b.as.range;
        *out = x->count == y->count &&
               (!x->count || (x->start == y->start && (x->count == 1 || x->step == y->step)));
        return FORE_OK;
    }
    case FORE_T_VIEW: /* keys and items compare as sets; values are objects of their own */
        if (a.as.view->kind != b.as.view->kind || a.as.view->kind == FORE_T_VALUES) break;
        return equal_dicts(run, a.as.view->dict, b.as.view->dict, a.as.view->kind == FORE_T_KEYS, depth, out);
    case FORE_T_METHOD:
        *out = a.as.method->call == b.as.method->call && a.as.method->self.as.str == b.as.method->self.as.str;
        return FORE_OK;
    default: break;
    }
    *out = a.as.str == b.as.str; /* the same object */
    return FORE_OK;
}

fore_status fore_tequal(fore_trun *run, fore_tval a, fore_tval b, bool *out) { return equal(run, a, b, 0, out); }

static int sign(int c) { return (c > 0) - (c < 0); }

static int compare_bytes(const char *a, size_t a_size, const char *b, size_t b_size) {
    int c = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return c ? sign(c) : (a_size > b_size) - (a_size < b_size);
}

/* Numbers of which one at least is beyond 64 bits. */
static int compare_big(fore_tval a, fore_tval b) {
    if (a.tag != FORE_T_BIG) return -compare_big(b, a) == -2 ? 2 : -compare_big(b, a);
    const fore_tstr *x = a.as.str;
    bool negative = x->data[0] == '-';
    if (b.tag == FORE_T_FLOAT) {
        double v = fore_treal_parse(x->data, x->size);
        return b.as.real != b.as.real ? 2 : (v > b.as.real) - (v < b.as.real);
    }
    if (b.tag != FORE_T_BIG) return negative ? -1 : 1;
    const fore_tstr *y = b.as.str;
    if (negative != (y->data[0] == '-')) return negative ? -1 : 1;
    int c = x->size != y->size ? (x->size > y->size ? 1 : -1) : compare_bytes(x->data, x->size, y->data, y->size);
    return negative ? -c : c;
}

static fore_status compare(fore_trun *run, fore_tval a, fore_tval b, const char *op, int depth, int *out) {
    if (depth > FORE_T_MAX_NESTING) return fore_tlimit(run, "values are nested too deeply");
    FORE_TRY(fore_tspend(run, 0));
    if (a.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, a.as.undefined);
    if (b.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, b.as.undefined);
    if (fore_tis_integral(a) && fore_tis_integral(b)) {
        int64_t x = fore_tinteger(a), y = fore_tinteger(b);
        *out = (x > y) - (x < y);
        return FORE_OK;
    }
    if (fore_tis_number(a) && fore_tis_number(b)) {
        double x = fore_tdouble(a), y = fore_tdouble(b);
        *out = x != x || y != y ? 2 : (x > y) - (x < y);
        return FORE_OK;
    }
    if (a.tag == FORE_T_STR && b.tag == FORE_T_STR) {
        *out = compare_bytes(a.as.str->data, a.as.str->size, b.as.str->data, b.as.str->size);
        return fore_tspend(run, a.as.str->size < b.as.str->size ? a.as.str->size : b.as.str->size);
    }
    if (a.tag == b.tag && (a.tag == FORE_T_LIST || a.tag == FORE_T_TUPLE)) {
        const fore_tlist *x = a.as.list, *y = b.as.list;
        for (size_t i = 0; i < x->count && i < y->count; i++) {
            bool same;
            FORE_TRY(equal(run, x->items[i], y->items[i], depth + 1, &same));
            if (!same) return compare(run, x->items[i], y->items[i], op, depth + 1, out);
        }
        *out = (x->count > y->count) - (x->count < y->count);
        return FORE_OK;
    }
    if ((a.tag == FORE_T_BIG || fore_tis_number(a)) && (b.tag == FORE_T_BIG || fore_tis_number(b))) {
        *out = compare_big(a, b);
        return FORE_OK;
    }
    return fore_traise(run, "'%s' not supported between instances of '%s' and '%s'", op, fore_ttype_name(a),
                       fore_ttype_name(b));
}

fore_status fore_tcompare(fore_trun *run, fore_tval a, fore_tval b, const char *op, int *out) {
    return compare(run, a, b, op, 0, out);
}

fore_status fore_tcontains(fore_trun *run, fore_tval item, fore_tval container, bool *out) {
    *out = false;
    if (container.tag == FORE_T_STR) {
        const fore_tstr *s = container.as.str;
        if (item.tag != FORE_T_STR)
            return fore_traise(run, "'in <string>' requires string as left operand, not %s", fore_ttype_name(item));
        FORE_TRY(fore_tspend(run, s->size));
        *out = !item.as.str->size || (s->size && memmem(s->data, s->size, item.as.str->data, item.as.str->size) != NULL);
        return FORE_OK;
    }
    if (container.tag == FORE_T_DICT || (container.tag == FORE_T_VIEW && container.as.view->kind == FORE_T_KEYS)) {
        fore_tval found;
        const fore_tdict *dict = container.tag == FORE_T_DICT ? container.as.dict : container.as.view->dict;
        FORE_TRY(fore_tdict_get(run, dict, item, &found));
        *out = found.tag != FORE_T_MISSING;
        return FORE_OK;
    }
    if (!fore_tis_iterable(container))
        return fore_traise(run, "argument of type '%s' is not iterable", fore_ttype_name(container));
    fore_tcursor cursor;
    FORE_TRY(fore_titerate(run, container, &cursor));
    for (;;) {
        fore_tval v;
        bool done;
        FORE_TRY(fore_tnext(run, &cursor, &v, &done));
        if (done) return FORE_OK;
        FORE_TRY(fore_tequal(run, v, item, out));
        if (*out) return FORE_OK;
    }
}
