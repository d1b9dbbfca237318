/* Stop strings; see stop.h. An Aho-Corasick automaton: after each byte its state is the longest end of the text that
 * begins some stop string, so the depth of the state is exactly what must be held back. All transitions are filled in
 * (one table lookup a byte), over classes of bytes to keep the table small: bytes that no stop string has share one. */
#include "decode/stop.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

struct fore_stop {
    unsigned char class_of[256];
    int classes;  /* 1 + the number of different bytes in the stop strings; class 0: all other bytes */
    int *next;    /* [nodes, classes] owned; node 0 is the root */
    int *depth;   /* [nodes] owned */
    int *match;   /* [nodes] owned; index of the longest stop string that ends here, or -1 */
    int *lengths; /* [count] owned */
    int node;     /* state after the held text */
    char *held;   /* [longest stop string] owned; the last depth[node] bytes that were pushed */
};

/* The strings as a trie; missing edges stay -1. */
static void build_trie(fore_stop *s, const char *const *strings, size_t count) {
    int nodes = 1;
    for (size_t i = 0; i < count; i++) {
        int node = 0;
        for (const char *c = strings[i]; *c; c++) {
            int *edge = &s->next[(size_t)node * (size_t)s->classes + s->class_of[(unsigned char)*c]];
            if (*edge < 0) {
                s->depth[nodes] = s->depth[node] + 1;
                *edge = nodes++;
            }
            node = *edge;
        }
        if (s->match[node] < 0) s->match[node] = (int)i;
    }
}

/* Breadth first: a node's missing edges are those of its longest proper suffix in the trie, which is done before it. */
static void fill_edges(fore_stop *s, int *queue, int *suffix) {
    int head = 0, tail = 0;
    for (int c = 0; c < s->classes; c++) {
        int child = s->next[c];
        if (child < 0)
            s->next[c] = 0;
        else {
            suffix[child] = 0;
            queue[tail++] = child;
        }
    }
    while (head < tail) {
        int node = queue[head++];
        int *row = s->next + (size_t)node * (size_t)s->classes;
        const int *shorter = s->next + (size_t)suffix[node] * (size_t)s->classes;
        if (s->match[node] < 0) s->match[node] = s->match[suffix[node]]; /* ends here too, starts later */
        for (int c = 0; c < s->classes; c++) {
            if (row[c] < 0)
                row[c] = shorter[c];
            else {
                suffix[row[c]] = shorter[c];
                queue[tail++] = row[c];
            }
        }
    }
}

static fore_status check_strings(const char *const *strings, size_t count, size_t *total, size_t *longest,
                                 fore_error *err) {
    *total = 0;
    *longest = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = strings[i] ? strlen(strings[i]) : 0;
        if (!n)
            return fore_fail(err, FORE_ERR_INVALID, "stop string %zu: expected at least one byte, found none", i + 1);
        size_t valid = fore_utf8_valid_prefix(strings[i], n);
        if (valid != n)
            return fore_fail(err, FORE_ERR_INVALID, "stop string %zu: expected UTF-8, found an invalid byte at %zu",
                             i + 1, valid);
        if (n > FORE_STOP_BYTES - *total)
            return fore_fail(err, FORE_ERR_LIMIT,
                             "stop strings: more than %d bytes together; give fewer or shorter ones", FORE_STOP_BYTES);
        *total += n;
        if (n > *longest) *longest = n;
    }
    return FORE_OK;
}

fore_status fore_stop_new(const char *const *strings, size_t count, fore_stop **out, fore_error *err) {
    *out = NULL;
    size_t total, longest;
    fore_status status = check_strings(strings, count, &total, &longest, err);
    if (status) return status;
    fore_stop *s = calloc(1, sizeof *s);
    if (!s) return fore_fail_nomem(err, "the stop strings");
    s->classes = 1;
    for (size_t i = 0; i < count; i++)
        for (const unsigned char *c = (const unsigned char *)strings[i]; *c; c++)
            if (!s->class_of[*c]) s->class_of[*c] = (unsigned char)s->classes++;
    size_t nodes = total + 1, edges = nodes * (size_t)s->classes;
    s->next = malloc(edges * sizeof *s->next);
    s->depth = calloc(nodes, sizeof *s->depth);
    s->match = malloc(nodes * sizeof *s->match);
    s->lengths = malloc((count + 1) * sizeof *s->lengths);
    s->held = malloc(longest + 1);
    int *queue = malloc(2 * nodes * sizeof *queue);
    if (!s->next || !s->depth || !s->match || !s->lengths || !s->held || !queue) {
        free(queue);
        fore_stop_free(s);
        return fore_fail_nomem(err, "the stop strings");
    }
    for (size_t i = 0; i < edges; i++) s->next[i] = -1;
    for (size_t i = 0; i < nodes; i++) s->match[i] = -1;
    for (size_t i = 0; i < count; i++) s->lengths[i] = (int)strlen(strings[i]);
    build_trie(s, strings, count);
    fill_edges(s, queue, queue + nodes);
    free(queue);
    *out = s;
    return FORE_OK;
}

void fore_stop_free(fore_stop *stop) {
    if (!stop) return;
    free(stop->next);
    free(stop->depth);
    free(stop->match);
    free(stop->lengths);
    free(stop->held);
    free(stop);
}

fore_status fore_stop_push(fore_stop *stop, const char *text, size_t size, fore_buf *out, int *matched) {
    *matched = -1;
    size_t held = (size_t)stop->depth[stop->node], taken = 0;
    int node = stop->node, found = -1;
    while (taken < size && found < 0) {
        node = stop->next[(size_t)node * (size_t)stop->classes + stop->class_of[(unsigned char)text[taken++]]];
        found = stop->match[node];
    }
    /* Of held + text[0..taken) the last `keep` bytes do not go out: the stop string, or what may become one. */
    size_t keep = found < 0 ? (size_t)stop->depth[node] : (size_t)stop->lengths[found];
    size_t release = held + taken - keep, from_held = release < held ? release : held, from_text = release - from_held;
    fore_status s = fore_buf_reserve(out, release);
    if (s) return s;
    fore_buf_append(out, stop->held, from_held);
    if (from_text) fore_buf_append(out, text, from_text);
    if (found >= 0) {
        stop->node = 0;
        *matched = found;
        return FORE_OK;
    }
    memmove(stop->held, stop->held + from_held, held - from_held);
    if (size > from_text) memcpy(stop->held + (held - from_held), text + from_text, size - from_text);
    stop->node = node;
    return FORE_OK;
}

fore_status fore_stop_flush(fore_stop *stop, fore_buf *out) {
    fore_status s = fore_buf_append(out, stop->held, (size_t)stop->depth[stop->node]);
    if (s) return s;
    stop->node = 0;
    return FORE_OK;
}
