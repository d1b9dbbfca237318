/* The pre-tokeniser: cuts text into words that are merged each on its own, by the regexes that the tokenizer's file
 * names. Knows PCRE2; knows nothing of tokens. Mirrors the reference's pre_tokenizers/{split,byte_level}.rs and
 * NormalizedString::split. */
#ifndef FORE_TEXT_SPLIT_H
#define FORE_TEXT_SPLIT_H

#include <stdbool.h>

#include "base/buf.h"

/* What becomes of the matches of a pattern and of the text between them. */
typedef enum fore_split_behavior {
    FORE_SPLIT_ISOLATED,
    FORE_SPLIT_REMOVED,
    FORE_SPLIT_MERGED_WITH_PREVIOUS,
    FORE_SPLIT_MERGED_WITH_NEXT,
    FORE_SPLIT_CONTIGUOUS,
} fore_split_behavior;

typedef enum fore_split_kind {
    FORE_SPLIT_REGEX,
    FORE_SPLIT_LITERAL,
    FORE_SPLIT_PREFIX, /* a space before every piece that does not begin with one */
} fore_split_kind;

typedef struct fore_split_step {
    fore_split_kind kind;
    fore_split_behavior behavior;
    bool invert;   /* what matches counts as what lies between, and the other way round */
    void *regex;   /* owned pcre2_code */
    char *literal; /* owned */
    size_t literal_size;
} fore_split_step;

enum { FORE_SPLIT_STEPS = 16 };

typedef struct fore_split {
    fore_split_step steps[FORE_SPLIT_STEPS];
    int count;
    bool interpreted; /* some regex runs without JIT */
} fore_split;

/* The regex of the reference's ByteLevel pre-tokeniser. */
extern const char fore_split_gpt2[];

void fore_split_free(fore_split *split);
/* Appends a step. FORE_ERR_FORMAT: PCRE2 does not take the regex (with its message and the place). jit: try to compile
 * the regex to machine code; where that is not possible it is interpreted. */
fore_status fore_split_add_regex(fore_split *split, const char *pattern, fore_split_behavior behavior, bool invert,
                                 bool jit, fore_error *err);
fore_status fore_split_add_literal(fore_split *split, const char *literal, fore_split_behavior behavior, bool invert,
                                   fore_error *err);
fore_status fore_split_add_prefix(fore_split *split, fore_error *err);

typedef struct fore_span {
    uint32_t begin, end;
} fore_span;

/* One caller's working memory and result, kept from text to text; zero it to begin. */
typedef struct fore_cut {
    const char *text;   /* borrowed from the caller or from a buffer below */
    const char *shadow; /* text, with stand-ins for code points that PCRE2 does not know: what is matched */
    fore_span *spans;   /* owned: the words, offsets into text */
    size_t count, capacity;
    fore_span *next; /* owned */
    size_t next_count, next_capacity;
    fore_buf text_buf, shadow_buf, spare_buf;
    void *match, *context; /* owned pcre2_match_data and pcre2_match_context */
} fore_cut;

void fore_cut_free(fore_cut *cut);
/* Cuts text (valid UTF-8, below 2^31 bytes, not empty). cut->text and cut->spans hold until the next call.
 * FORE_ERR_LIMIT: a regex of the file backtracks without end on this text. */
fore_status fore_split_run(const fore_split *split, fore_cut *cut, const char *text, size_t size, fore_error *err);

#endif
