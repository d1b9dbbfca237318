/* The pre-tokeniser; see split.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/split.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/unicode_tables.h"

const char fore_split_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

enum {
    PATTERN_LIMIT = 32 * 1024,     /* bytes of a regex */
    STEPS_BASE = 10 * 1000 * 1000, /* matching steps allowed to one match, and more for every byte of the text: */
    STEPS_PER_BYTE = 32,           /* white space of any length is scanned a few times, a runaway regex is stopped */
    HEAP_KIB = 512 * 1024,         /* memory that PCRE2's interpreter may take for backtracking */
};

void fore_split_free(fore_split *split) {
    for (int i = 0; i < split->count; i++) {
        pcre2_code_free(split->steps[i].regex);
        free(split->steps[i].literal);
    }
    *split = (fore_split){0};
}

static fore_status check_room(const fore_split *split, fore_error *err) {
    if (split->count < FORE_SPLIT_STEPS) return FORE_OK;
    return fore_fail(err, FORE_ERR_LIMIT, "pre_tokenizer: more than %d steps", FORE_SPLIT_STEPS);
}

fore_status fore_split_add_regex(fore_split *split, const char *pattern, fore_split_behavior behavior, bool invert,
                                 bool jit, fore_error *err) {
    fore_status s = check_room(split, err);
    if (s) return s;
    size_t size = strlen(pattern);
    if (size > PATTERN_LIMIT)
        return fore_fail(err, FORE_ERR_LIMIT, "pre_tokenizer: a regex of %zu bytes, at most %d are taken", size,
                         PATTERN_LIMIT);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return fore_fail_nomem(err, "a regex");
    /* As in the reference's regex library: `.` stops at a line feed only, `^` and `$` match at every line. */
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_code *regex =
        pcre2_compile((PCRE2_SPTR)pattern, size, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                      &code, &at, context);
    pcre2_compile_context_free(context);
    if (!regex) {
        if (code == PCRE2_ERROR_HEAP_FAILED) return fore_fail_nomem(err, "a regex");
        PCRE2_UCHAR text[160];
        if (pcre2_get_error_message(code, text, sizeof text) < 0) text[0] = 0;
        return fore_fail(err, FORE_ERR_FORMAT, "pre_tokenizer: the regex %.120s cannot be used: %s at byte %zu",
                         pattern, (const char *)text, (size_t)at);
    }
    if (!jit || pcre2_jit_compile(regex, PCRE2_JIT_COMPLETE)) split->interpreted = true;
    split->steps[split->count++] =
        (fore_split_step){.kind = FORE_SPLIT_REGEX, .behavior = behavior, .invert = invert, .regex = regex};
    return FORE_OK;
}

fore_status fore_split_add_literal(fore_split *split, const char *literal, fore_split_behavior behavior, bool invert,
                                   fore_error *err) {
    if (!literal[0]) return fore_split_add_regex(split, literal, behavior, invert, false, err); /* matches everywhere */
    fore_status s = check_room(split, err);
    if (s) return s;
    char *copy = strdup(literal);
    if (!copy) return fore_fail_nomem(err, "a pre-tokeniser step");
    split->steps[split->count++] = (fore_split_step){.kind = FORE_SPLIT_LITERAL,
                                                     .behavior = behavior,
                                                     .invert = invert,
                                                     .literal = copy,
                                                     .literal_size = strlen(literal)};
    return FORE_OK;
}

fore_status fore_split_add_prefix(fore_split *split, fore_error *err) {
    fore_status s = check_room(split, err);
    if (s) return s;
    split->steps[split->count++] = (fore_split_step){.kind = FORE_SPLIT_PREFIX};
    return FORE_OK;
}

void fore_cut_free(fore_cut *cut) {
    free(cut->spans);
    free(cut->next);
    fore_buf_free(&cut->text_buf);
    fore_buf_free(&cut->shadow_buf);
    fore_buf_free(&cut->spare_buf);
    pcre2_match_data_free(cut->match);
    pcre2_match_context_free(cut->context);
    *cut = (fore_cut){0};
}

/* ---- what the behaviours make of matches ---- */

/* The pieces of one span arrive in order; the last one is held back where a behaviour may still join it. */
typedef struct folder {
    fore_cut *cut;
    const fore_split_step *step;
    fore_span held;
    bool holding;
    bool last_match; /* the piece that came last was a match */
} folder;

static fore_status emit(fore_cut *cut, fore_span span) {
    if (span.begin == span.end) return FORE_OK;
    if (cut->next_count == cut->next_capacity) {
        size_t capacity = cut->next_capacity ? cut->next_capacity * 2 : 256;
        fore_span *fresh = realloc(cut->next, capacity * sizeof *fresh);
        if (!fresh) return FORE_ERR_NOMEM;
        cut->next = fresh;
        cut->next_capacity = capacity;
    }
    cut->next[cut->next_count++] = span;
    return FORE_OK;
}

static fore_status fold(folder *f, size_t begin, size_t end, bool match) {
    fore_span span = {(uint32_t)begin, (uint32_t)end};
    match ^= f->step->invert;
    bool join = false;
    switch (f->step->behavior) {
    case FORE_SPLIT_ISOLATED: return emit(f->cut, span);
    case FORE_SPLIT_REMOVED: return match ? FORE_OK : emit(f->cut, span);
    case FORE_SPLIT_MERGED_WITH_PREVIOUS: join = f->holding && match && !f->last_match; break;
    case FORE_SPLIT_MERGED_WITH_NEXT: join = f->holding && !match && f->last_match; break;
    case FORE_SPLIT_CONTIGUOUS: join = f->holding && match == f->last_match; break;
    }
    f->last_match = match;
    if (join) {
        f->held.end = span.end;
        return FORE_OK;
    }
    fore_status s = f->holding ? emit(f->cut, f->held) : FORE_OK;
    f->held = span;
    f->holding = true;
    return s;
}

static fore_status fold_end(folder *f) {
    return f->holding ? emit(f->cut, f->held) : FORE_OK;
}

/* ---- steps ---- */

static fore_status match_failed(int code, fore_error *err) {
    if (code == PCRE2_ERROR_NOMEMORY) return fore_fail_nomem(err, "a regex match");
    PCRE2_UCHAR text[160];
    if (pcre2_get_error_message(code, text, sizeof text) < 0) text[0] = 0;
    bool limit = code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_DEPTHLIMIT || code == PCRE2_ERROR_HEAPLIMIT;
    return fore_fail(
        err, limit ? FORE_ERR_LIMIT : FORE_ERR_FORMAT,
        "tokenizer: its pre-tokeniser regex fails on this text: %s; the regex of tokenizer.json needs a look",
        (const char *)text);
}

/* As the reference's iterator: an empty match right behind the last match does not count, the search goes on one
 * character further. */
static fore_status cut_by_regex(folder *f, fore_span span, fore_error *err) {
    const pcre2_code *regex = f->step->regex;
    const char *subject = f->cut->shadow + span.begin;
    size_t size = span.end - span.begin, from = 0, done = 0, last_end = SIZE_MAX;
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(f->cut->match);
    while (from <= size) {
        int code =
            pcre2_match(regex, (PCRE2_SPTR)subject, size, from, PCRE2_NO_UTF_CHECK, f->cut->match, f->cut->context);
        if (code == PCRE2_ERROR_JIT_STACKLIMIT)
            code = pcre2_match(regex, (PCRE2_SPTR)subject, size, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, f->cut->match,
                               f->cut->context);
        if (code == PCRE2_ERROR_NOMATCH) break;
        if (code < 0) return match_failed(code, err);
        size_t begin = found[0], end = found[1];
        if (begin < done || end < begin)
            return fore_fail(err, FORE_ERR_FORMAT, "tokenizer: its pre-tokeniser regex matches backwards");
        if (begin == end && end == last_end) {
            uint32_t point;
            from += from < size ? (size_t)fore_utf8_decode(subject + from, size - from, &point) : 1;
            continue;
        }
        fore_status s = begin > done ? fold(f, span.begin + done, span.begin + begin, false) : FORE_OK;
        if (!s) s = fold(f, span.begin + begin, span.begin + end, true);
        if (s) return s;
        from = done = last_end = end;
    }
    return done < size ? fold(f, span.begin + done, span.end, false) : FORE_OK;
}

static fore_status cut_by_literal(folder *f, fore_span span) {
    size_t done = span.begin;
    while (done < span.end) {
        const char *at = memmem(f->cut->text + done, span.end - done, f->step->literal, f->step->literal_size);
        if (!at) break;
        size_t begin = (size_t)(at - f->cut->text), end = begin + f->step->literal_size;
        fore_status s = begin > done ? fold(f, done, begin, false) : FORE_OK;
        if (!s) s = fold(f, begin, end, true);
        if (s) return s;
        done = end;
    }
    return done < span.end ? fold(f, done, span.end, false) : FORE_OK;
}

/* Copies the spans, each with its space, into fresh text and shadow. */
static fore_status add_prefixes(fore_cut *cut) {
    fore_buf text = cut->spare_buf, shadow = {0};
    cut->spare_buf = (fore_buf){0};
    text.size = 0;
    fore_status s = FORE_OK;
    for (size_t i = 0; i < cut->count && !s; i++) {
        fore_span span = cut->spans[i];
        size_t begin = text.size, size = span.end - span.begin;
        if (cut->text[span.begin] != ' ') {
            s = fore_buf_putc(&text, ' ');
            if (!s) s = fore_buf_putc(&shadow, ' ');
        }
        if (!s) s = fore_buf_append(&text, cut->text + span.begin, size);
        if (!s) s = fore_buf_append(&shadow, cut->shadow + span.begin, size);
        if (!s && text.size > INT32_MAX) s = FORE_ERR_LIMIT;
        if (!s) s = emit(cut, (fore_span){(uint32_t)begin, (uint32_t)text.size});
    }
    fore_buf_free(&cut->shadow_buf);
    cut->shadow_buf = shadow;
    cut->spare_buf = cut->text_buf;
    cut->text_buf = text;
    cut->text = text.data;
    cut->shadow = shadow.data;
    return s;
}

/* Sets cut->shadow to text, or to a copy with stand-ins where some are needed. */
static fore_status make_shadow(fore_cut *cut, const char *text, size_t size) {
    cut->shadow = text;
    cut->shadow_buf.size = 0;
    uint32_t first = fore_stand_ins[0].first;
    for (size_t i = 0; i < size;) {
        if ((unsigned char)text[i] < 0x80) {
            i++;
            continue;
        }
        uint32_t code;
        int n = fore_utf8_decode(text + i, size - i, &code);
        const fore_code_range *r =
            code < first ? NULL : fore_code_range_find(fore_stand_ins, fore_stand_in_count, code);
        if (r) {
            if (!cut->shadow_buf.size) {
                fore_status s = fore_buf_append(&cut->shadow_buf, text, size);
                if (s) return s;
                cut->shadow = cut->shadow_buf.data;
            }
            fore_utf8_encode(r->to, cut->shadow_buf.data + i);
        }
        i += (size_t)n;
    }
    return FORE_OK;
}

static fore_status begin(fore_cut *cut, const char *text, size_t size) {
    if (!cut->match) cut->match = pcre2_match_data_create(1, NULL);
    if (!cut->context) cut->context = pcre2_match_context_create(NULL);
    if (!cut->match || !cut->context) return FORE_ERR_NOMEM;
    uint64_t steps = STEPS_BASE + (uint64_t)STEPS_PER_BYTE * size;
    pcre2_set_match_limit(cut->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    pcre2_set_heap_limit(cut->context, HEAP_KIB);
    cut->text = text;
    cut->next_count = 0;
    fore_status s = make_shadow(cut, text, size);
    if (!s) s = emit(cut, (fore_span){0, (uint32_t)size});
    return s;
}

/* What a step has written becomes what the next one reads. */
static void swap_lists(fore_cut *cut) {
    fore_span *list = cut->spans;
    size_t capacity = cut->capacity;
    cut->spans = cut->next;
    cut->count = cut->next_count;
    cut->capacity = cut->next_capacity;
    cut->next = list;
    cut->next_capacity = capacity;
    cut->next_count = 0;
}

fore_status fore_split_run(const fore_split *split, fore_cut *cut, const char *text, size_t size, fore_error *err) {
    fore_status s = begin(cut, text, size);
    swap_lists(cut);
    for (int i = 0; i < split->count && !s; i++) {
        const fore_split_step *step = &split->steps[i];
        if (step->kind == FORE_SPLIT_PREFIX) {
            s = add_prefixes(cut);
        } else {
            for (size_t k = 0; k < cut->count && !s; k++) {
                folder f = {.cut = cut, .step = step};
                if (step->kind == FORE_SPLIT_LITERAL)
                    s = cut_by_literal(&f, cut->spans[k]);
                else if ((s = cut_by_regex(&f, cut->spans[k], err)) != FORE_OK && s != FORE_ERR_NOMEM)
                    return s;
                if (!s) s = fold_end(&f);
            }
        }
        swap_lists(cut);
    }
    if (s == FORE_ERR_LIMIT) return fore_fail(err, s, "tokenizer: the text is too long");
    return s ? fore_fail_nomem(err, "the words of a text") : FORE_OK;
}
