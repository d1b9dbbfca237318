/* Tokens of a template source. */
#ifndef FORE_TEXT_TEMPLATE_LEXER_H
#define FORE_TEXT_TEMPLATE_LEXER_H

#include "base/arena.h"
#include "base/error.h"

typedef enum fore_ttoken_kind {
    FORE_K_EOF,
    FORE_K_DATA, /* text between tags, white space control applied */
    FORE_K_VARIABLE_BEGIN,
    FORE_K_VARIABLE_END,
    FORE_K_BLOCK_BEGIN,
    FORE_K_BLOCK_END,
    FORE_K_NAME,
    FORE_K_STRING, /* text is the value, escapes resolved */
    FORE_K_INTEGER, /* text is the spelling without underscores */
    FORE_K_FLOAT,
    FORE_K_OPERATOR, /* text is the operator */
} fore_ttoken_kind;

typedef struct fore_ttoken {
    fore_ttoken_kind kind;
    int line;
    const char *text; /* in the arena or the source */
    size_t size;
} fore_ttoken;

/* source (valid UTF-8, newlines already "\n") to tokens, the last one EOF; all in the arena. */
fore_status fore_tlex(fore_arena *arena, const char *source, size_t size, fore_ttoken **tokens, size_t *count,
                      fore_error *err);

#endif
