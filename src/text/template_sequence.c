/* Sequences of the template engine: iterating, indexing, slicing, sorting. Mirrors Python's sequence protocols. */
#include <limits.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template_run.h"

bool fore_tis_iterable(fore_tval v) {
    switch (v.tag) {
    case FORE_T_STR:
    case FORE_T_LIST:
    case FORE_T_TUPLE:
    case FORE_T_DICT:
    case FORE_T_UNDEFINED:
    case FORE_T_RANGE:
    case FORE_T_VIEW:
    case FORE_T_ITERATOR:
    case FORE_T_LOOP: return true;
    default: return false;
    }
}

/* Item i of start, start + step, ...: unsigned, as the place behind the last item may lie beyond 64 bits. */
static int64_t range_at(const fore_trange *r, uint64_t i) {
    return (int64_t)((uint64_t)r->start + i * (uint64_t)r->step);
}

fore_status fore_titerate(fore_trun *run, fore_tval v, fore_tcursor *out) {
    if (!fore_tis_iterable(v) || v.tag == FORE_T_LOOP)
        return fore_traise(run, "'%s' object is not iterable", fore_ttype_name(v));
    *out = (fore_tcursor){.over = v};
    return FORE_OK;
}

static fore_status view_item(fore_trun *run, const fore_tdict *dict, fore_tview_kind kind, size_t i, fore_tval *out) {
    const fore_tpair *p = &dict->pairs[i];
    if (kind == FORE_T_ITEMS) return fore_tpair_new(run, p->key, p->value, out);
    *out = kind == FORE_T_KEYS ? p->key : p->value;
    return FORE_OK;
}

fore_status fore_tnext(fore_trun *run, fore_tcursor *c, fore_tval *item, bool *done) {
    FORE_TRY(fore_tspend(run, 0));
    *done = false;
    switch (c->over.tag) {
    case FORE_T_STR: {
        const fore_tstr *s = c->over.as.str;
        if (c->offset >= s->size) break;
        uint32_t code;
        int n = fore_utf8_decode(s->data + c->offset, s->size - c->offset, &code);
        FORE_TRY(fore_tstr_view(run, s->data + c->offset, (size_t)(n < 0 ? -n : n), item));
        c->offset += (size_t)(n < 0 ? -n : n);
        return FORE_OK;
    }
    case FORE_T_LIST:
    case FORE_T_TUPLE:
        if (c->position >= c->over.as.list->count) break;
        *item = c->over.as.list->items[c->position++];
        return FORE_OK;
    case FORE_T_DICT:
        if (c->position >= c->over.as.dict->count) break;
        *item = c->over.as.dict->pairs[c->position++].key;
        return FORE_OK;
    case FORE_T_VIEW:
        if (c->position >= c->over.as.view->dict->count) break;
        return view_item(run, c->over.as.view->dict, c->over.as.view->kind, c->position++, item);
    case FORE_T_RANGE:
        if (c->position >= c->over.as.range->count) break;
        *item = fore_tint(range_at(c->over.as.range, c->position++));
        return FORE_OK;
    case FORE_T_ITERATOR: {
        fore_titerator *it = c->over.as.iterator;
        if (it->next < it->items.count) {
            *item = it->items.items[it->next++];
            return FORE_OK;
        }
        if (it->error) return fore_fail(run->err, FORE_ERR_FORMAT, "%s", it->error);
        break;
    }
    default: break;
    }
    *done = true;
    return FORE_OK;
}

fore_status fore_tlist_from(fore_trun *run, fore_tval v, fore_tlist *out) {
    if (v.tag == FORE_T_LIST || v.tag == FORE_T_TUPLE) {
        *out = *v.as.list;
        out->group = false;
        return FORE_OK;
    }
    fore_tcursor cursor;
    FORE_TRY(fore_titerate(run, v, &cursor));
    fore_tvec vec = {0};
    for (;;) {
        fore_tval item;
        bool done;
        FORE_TRY(fore_tnext(run, &cursor, &item, &done));
        if (done) break;
        FORE_TRY(fore_tvec_push(run, &vec, item));
    }
    *out = (fore_tlist){.items = vec.items, .count = vec.count};
    return FORE_OK;
}

fore_status fore_tindex(fore_trun *run, fore_tval v, fore_tval index, fore_tval *out) {
    *out = (fore_tval){.tag = FORE_T_MISSING};
    if (v.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, v.as.undefined);
    if (v.tag == FORE_T_DICT) {
        if (index.tag == FORE_T_LIST || index.tag == FORE_T_DICT || index.tag == FORE_T_VIEW) return FORE_OK;
        return fore_tdict_get(run, v.as.dict, index, out);
    }
    if (!fore_tis_integral(index)) return FORE_OK;
    if (v.tag != FORE_T_STR && v.tag != FORE_T_LIST && v.tag != FORE_T_TUPLE && v.tag != FORE_T_RANGE) return FORE_OK;
    size_t length;
    FORE_TRY(fore_tlength(run, v, &length));
    int64_t i = fore_tinteger(index);
    if (i < 0) i += (int64_t)length;
    if (i < 0 || i >= (int64_t)length) return FORE_OK;
    if (v.tag == FORE_T_STR) return fore_tstr_sub(run, v.as.str, (size_t)i, 1, out);
    if (v.tag == FORE_T_RANGE) {
        *out = fore_tint(range_at(v.as.range, (uint64_t)i));
    } else {
        *out = v.as.list->items[i];
    }
    return FORE_OK;
}

static fore_status slice_part(fore_trun *run, fore_tval v, int64_t *out) {
    if (v.tag == FORE_T_UNDEFINED || !(fore_tis_integral(v) || v.tag == FORE_T_NONE))
        return fore_traise(run, "slice indices must be integers or None or have an __index__ method");
    if (v.tag != FORE_T_NONE) *out = fore_tinteger(v);
    return FORE_OK;
}

/* Python's slice.indices. */
static int64_t clamp(int64_t i, int64_t length, int64_t low, int64_t high) {
    if (i < 0) i = i < -length ? low : i + length;
    return i < low ? low : i > high ? high : i;
}

fore_status fore_tslice(fore_trun *run, fore_tval v, fore_tval start, fore_tval stop, fore_tval step, fore_tval *out) {
    if (v.tag == FORE_T_UNDEFINED) return fore_traise_undefined(run, v.as.undefined);
    if (v.tag != FORE_T_STR && v.tag != FORE_T_LIST && v.tag != FORE_T_TUPLE && v.tag != FORE_T_RANGE) {
        if (v.tag == FORE_T_DICT) return fore_traise(run, "unhashable type: 'slice'");
        return fore_traise(run, "'%s' object is not subscriptable", fore_ttype_name(v));
    }
    size_t size;
    FORE_TRY(fore_tlength(run, v, &size));
    int64_t length = (int64_t)size, by = 1;
    FORE_TRY(slice_part(run, step, &by));
    if (by == 0) return fore_traise(run, "slice step cannot be zero");
    if (by < -INT64_MAX) by = -INT64_MAX;
    int64_t low = by > 0 ? 0 : -1, high = by > 0 ? length : length - 1;
    int64_t from = by > 0 ? 0 : INT64_MAX, to = by > 0 ? INT64_MAX : INT64_MIN;
    bool open_end = stop.tag == FORE_T_NONE;
    FORE_TRY(slice_part(run, start, &from));
    FORE_TRY(slice_part(run, stop, &to));
    from = clamp(from, length, low, high);
    to = open_end ? (by > 0 ? length : -1) : clamp(to, length, low, high);
    size_t count = 0;
    if (by > 0 && to > from) count = (size_t)((to - from - 1) / by + 1);
    if (by < 0 && to < from) count = (size_t)((from - to - 1) / -by + 1);
    if (v.tag == FORE_T_RANGE) {
        fore_trange *r = fore_trun_alloc(run, 1, sizeof *r);
        if (!r) return fore_trun_error(run);
        const fore_trange *o = v.as.range;
        *r = (fore_trange){.start = range_at(o, (uint64_t)from), .stop = range_at(o, (uint64_t)to), .count = count};
        if (count < 2) by = by > 0 ? 1 : -1;
        r->step = (int64_t)((uint64_t)o->step * (uint64_t)by);
        *out = (fore_tval){.tag = FORE_T_RANGE, .as.range = r};
        return FORE_OK;
    }
    if (v.tag == FORE_T_STR) {
        const fore_tstr *s = v.as.str;
        if (by == 1 || !count) return fore_tstr_sub(run, s, count ? (size_t)from : 0, count, out);
        fore_buf buf = {.limit = FORE_T_MAX_OUTPUT};
        fore_status status = fore_tspend(run, s->size);
        /* Walk by bytes from the first character; each step moves |by| characters. */
        size_t at = fore_tstr_offset(s, (size_t)from);
        for (size_t i = 0; !status && i < count; i++) {
            size_t end = at + 1;
            while (end < s->size && ((unsigned char)s->data[end] & 0xc0) == 0x80) end++;
            status = fore_tstr_append(run, &buf, s->data + at, end - at);
            if (i + 1 == count) break;
            for (int64_t k = 0; k < (by > 0 ? by : -by); k++) {
                if (by > 0) {
                    for (at++; at < s->size && ((unsigned char)s->data[at] & 0xc0) == 0x80;) at++;
                } else {
                    for (at--; ((unsigned char)s->data[at] & 0xc0) == 0x80;) at--;
                }
            }
        }
        if (!status) status = fore_tstr_take(run, &buf, out);
        fore_buf_free(&buf);
        if (!status && s->markup) status = fore_tstr_as_markup(run, *out, true, out);
        return status;
    }
    if (by == 1) return fore_tlist_wrap(run, v.tag, v.as.list->items + (count ? from : 0), count, out);
    FORE_TRY(fore_tlist_new(run, v.tag, count, out));
    for (size_t i = 0; i < count; i++) out->as.list->items[i] = v.as.list->items[from + (int64_t)i * by];
    return FORE_OK;
}

/* Merge sort, bottom up: stable, and raises as soon as two keys have no order. */
fore_status fore_tsort(fore_trun *run, fore_tval *items, fore_tval *keys, size_t count, bool reverse) {
    fore_tval *spare = fore_trun_alloc(run, count + !count, 2 * sizeof *spare);
    if (!spare) return fore_trun_error(run);
    fore_tval *spare_keys = spare + count;
    if (count == 1) return FORE_OK;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            size_t middle = low + width < count ? low + width : count;
            size_t high = low + 2 * width < count ? low + 2 * width : count;
            size_t a = low, b = middle;
            for (size_t i = low; i < high; i++) {
                bool right = a >= middle;
                if (!right && b < high) {
                    int order;
                    FORE_TRY(fore_tcompare(run, reverse ? keys[a] : keys[b], reverse ? keys[b] : keys[a], "<", &order));
                    right = order == -1;
                }
                size_t from = right ? b++ : a++;
                spare[i] = items[from];
                spare_keys[i] = keys[from];
            }
        }
        memcpy(items, spare, count * sizeof *items);
        memcpy(keys, spare_keys, count * sizeof *keys);
    }
    return FORE_OK;
}
