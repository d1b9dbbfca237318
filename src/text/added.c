/* Added tokens; see added.h. */
#include "text/added.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/nfc.h"
#include "text/unicode_tables.h"

struct fore_trie_node {
    int32_t token;           /* that ends here, or -1 */
    uint32_t child, sibling; /* 0: none */
    unsigned char byte;
};
typedef struct fore_trie_node node;

void fore_added_free(fore_added *added) {
    fore_names_free(&added->names);
    free(added->tokens);
    free(added->raw.nodes);
    free(added->normalized.nodes);
    *added = (fore_added){0};
}

int32_t fore_added_find(const fore_added *added, const char *content, size_t size) {
    return fore_names_find(&added->names, content, size);
}

fore_status fore_added_put(fore_added *added, const char *content, size_t size, fore_added_token token) {
    size_t count = added->names.count;
    if (size > FORE_ADDED_BYTES || added->names.text.size > FORE_ADDED_BYTES - size) return FORE_ERR_LIMIT;
    if (count == added->capacity) {
        size_t capacity = count ? count * 2 : 32;
        fore_added_token *tokens = realloc(added->tokens, capacity * sizeof *tokens);
        if (!tokens) return FORE_ERR_NOMEM;
        added->tokens = tokens;
        added->capacity = capacity;
    }
    fore_status s = fore_names_add(&added->names, content, size, (int32_t)count);
    if (!s) added->tokens[count] = token;
    return s;
}

static fore_status node_new(fore_trie *trie, unsigned char byte, uint32_t *out) {
    if (trie->count == trie->capacity) {
        size_t capacity = trie->capacity ? trie->capacity * 2 : 256;
        node *nodes = realloc(trie->nodes, capacity * sizeof *nodes);
        if (!nodes) return FORE_ERR_NOMEM;
        trie->nodes = nodes;
        trie->capacity = capacity;
    }
    *out = (uint32_t)trie->count++;
    trie->nodes[*out] = (node){.token = -1, .byte = byte};
    return FORE_OK;
}

/* A content that is already there gets the later token, as in the reference (contents may meet when normalised). */
static fore_status trie_put(fore_trie *trie, const char *content, size_t size, int32_t token) {
    uint32_t at = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)content[i];
        uint32_t child = i == 0 ? trie->first[byte] : trie->nodes[at].child;
        while (i > 0 && child && trie->nodes[child].byte != byte) child = trie->nodes[child].sibling;
        if (!child) {
            fore_status s = node_new(trie, byte, &child);
            if (s) return s;
            if (i == 0) {
                trie->first[byte] = child;
            } else {
                trie->nodes[child].sibling = trie->nodes[at].child;
                trie->nodes[at].child = child;
            }
        }
        at = child;
    }
    if (size) trie->nodes[at].token = token;
    return FORE_OK;
}

fore_status fore_added_build(fore_added *added, bool nfc) {
    uint32_t root;
    fore_status s = node_new(&added->raw, 0, &root);
    if (!s) s = node_new(&added->normalized, 0, &root);
    fore_buf normal = {0};
    for (size_t i = 0; i < added->names.count && !s; i++) {
        const fore_name *name = &added->names.names[i];
        const char *content = added->names.text.data + name->at;
        if (!added->tokens[i].normalized) {
            s = trie_put(&added->raw, content, name->size, (int32_t)i);
        } else if (!nfc) {
            s = trie_put(&added->normalized, content, name->size, (int32_t)i);
        } else {
            normal.size = 0;
            s = fore_nfc_append(&normal, content, name->size);
            if (!s) s = trie_put(&added->normalized, normal.data, normal.size, (int32_t)i);
        }
    }
    fore_buf_free(&normal);
    return s;
}

/* The longest token that begins at text[0]; *length 0: none. */
static int32_t trie_match(const fore_trie *trie, const char *text, size_t size, size_t *length) {
    int32_t token = -1;
    *length = 0;
    uint32_t at = trie->first[(unsigned char)text[0]];
    for (size_t i = 1; at; i++) {
        if (trie->nodes[at].token >= 0) {
            token = trie->nodes[at].token;
            *length = i;
        }
        if (i == size) break;
        uint32_t child = trie->nodes[at].child;
        while (child && trie->nodes[child].byte != (unsigned char)text[i]) child = trie->nodes[child].sibling;
        at = child;
    }
    return token;
}

/* White_Space of the Unicode standard. */
static bool is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* \w of the reference's regex crate: alphabetic, marks, decimal digits, connectors, joiners. */
static bool is_word(uint32_t c) {
    const fore_code_range *r = fore_code_range_find(fore_stand_ins, fore_stand_in_count, c);
    if (r) c = r->to;
    if (c == 0x200C || c == 0x200D) return true;
    if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
        (c >= 0x1F170 && c <= 0x1F189))
        return true; /* symbols, but alphabetic: letters in circles and squares */
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
    }
}

/* Decodes the character that ends before text[end]; end > 0. Returns where it begins. */
static size_t step_back(const char *text, size_t end, uint32_t *code) {
    size_t at = end - 1;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80) at--;
    fore_utf8_decode(text + at, end - at, code);
    return at;
}

static bool is_single_word(const fore_added_scan *scan, size_t begin, size_t end) {
    uint32_t code;
    if (begin > 0) {
        step_back(scan->text, begin, &code);
        if (is_word(code)) return false;
    }
    if (end < scan->size) {
        fore_utf8_decode(scan->text + end, scan->size - end, &code);
        if (is_word(code)) return false;
    }
    return true;
}

bool fore_added_next(fore_added_scan *scan, fore_segment *out) {
    if (scan->has_queued) {
        *out = scan->queued;
        scan->has_queued = false;
        return true;
    }
    while (scan->from < scan->size) {
        size_t length, begin = scan->from;
        int32_t token = trie_match(scan->trie, scan->text + begin, scan->size - begin, &length);
        if (token < 0) {
            scan->from++;
            continue;
        }
        size_t end = begin + length;
        scan->from = end;
        const fore_added_token *t = &scan->added->tokens[token];
        if (t->single_word && !is_single_word(scan, begin, end)) continue;
        uint32_t code;
        if (t->lstrip)
            while (begin > scan->start) {
                size_t at = step_back(scan->text, begin, &code);
                if (!is_space(code)) break;
                begin = at > scan->start ? at : scan->start;
            }
        if (t->rstrip) {
            if (end < scan->blank_from || end > scan->blank_to) {
                scan->blank_from = scan->blank_to = end;
                while (scan->blank_to < scan->size) {
                    int n = fore_utf8_decode(scan->text + scan->blank_to, scan->size - scan->blank_to, &code);
                    if (!is_space(code)) break;
                    scan->blank_to += (size_t)n;
                }
            }
            end = scan->blank_to;
        }
        size_t start = scan->start;
        scan->start = end;
        *out = (fore_segment){begin, end, token};
        if (start < begin) {
            scan->queued = *out;
            scan->has_queued = true;
            *out = (fore_segment){start, begin, -1};
        }
        return true;
    }
    if (scan->start == scan->size) return false;
    *out = (fore_segment){scan->start, scan->size, -1};
    scan->start = scan->size;
    return true;
}
