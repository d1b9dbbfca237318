/* Added tokens: strings that are one token wherever they stand in a text ("<|im_start|>"). Finds them; knows nothing of
 * words and merges. Mirrors the reference's tokenizer/added_vocabulary.rs. */
#ifndef FORE_TEXT_ADDED_H
#define FORE_TEXT_ADDED_H

#include <stdbool.h>

#include "text/names.h"

typedef struct fore_added_token {
    int32_t id;
    bool lstrip, rstrip; /* takes the white space on that side with it */
    bool single_word;    /* only where no word character touches it */
    bool normalized;     /* looked for in the normalised text, else in the text as it came */
    bool special;        /* left out of decoded text on request */
} fore_added_token;

enum { FORE_ADDED_BYTES = 1 << 20 }; /* of all contents together */

/* A trie; node 0 is the root. */
typedef struct fore_trie {
    struct fore_trie_node *nodes; /* owned */
    size_t count, capacity;
    uint32_t first[256]; /* children of the root, 0: none */
} fore_trie;

typedef struct fore_added {
    fore_names names;         /* contents; id: index in tokens */
    fore_added_token *tokens; /* owned, [names.count] */
    size_t capacity;
    fore_trie raw, normalized; /* made by fore_added_build */
} fore_added;

void fore_added_free(fore_added *added);
/* Index of the token with this content, or -1. */
int32_t fore_added_find(const fore_added *added, const char *content, size_t size);
/* Adds a content that is not there yet. FORE_ERR_NOMEM; FORE_ERR_LIMIT beyond FORE_ADDED_BYTES. */
fore_status fore_added_put(fore_added *added, const char *content, size_t size, fore_added_token token);
/* Call once, after the last put. nfc: the tokenizer normalises, and so are the contents of normalised tokens. */
fore_status fore_added_build(fore_added *added, bool nfc);

typedef struct fore_segment {
    size_t begin, end;
    int32_t token; /* index of an added token, or -1: other text */
} fore_segment;

/* Cursor over a text: leftmost match first, the longest of those. Zero it but for the first five fields. */
typedef struct fore_added_scan {
    const fore_added *added;
    const fore_trie *trie;
    const char *text; /* valid UTF-8 */
    size_t size;
    size_t from;                 /* where the search goes on */
    size_t start;                /* end of the last segment given out */
    size_t blank_from, blank_to; /* white space that an rstrip token has taken; not walked over twice */
    fore_segment queued;
    bool has_queued;
} fore_added_scan;

/* The next segment; false at the end. */
bool fore_added_next(fore_added_scan *scan, fore_segment *out);

#endif
