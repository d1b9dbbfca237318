/* Counting weights by part and kind; see tally.h. */
#include "model/tally.h"

#include <string.h>

static fore_tally_kind *find(fore_tally *t, const fore_tally_kind *like) {
    int i = 0;
    for (; i < t->count; i++) {
        const fore_tally_kind *k = &t->kinds[i];
        if (k->part == t->part && !strcmp(k->label, like->label) && k->bits == like->bits && k->group == like->group && k->memory_bits == like->memory_bits)
            break;
    }
    if (i == FORE_TALLY_KINDS) return &t->kinds[i - 1];
    if (i == t->count) {
        t->kinds[t->count++] = (fore_tally_kind){
            .part = t->part, .label = like->label, .bits = like->bits, .group = like->group, .memory_bits = like->memory_bits};
    }
    return &t->kinds[i];
}

void fore_tally_mapped(fore_tally *t, const char *dtype_name, fore_dtype dtype, uint64_t parameters) {
    const int bits = (int)(8 * fore_dtype_size(dtype));
    fore_tally_kind *k = find(t, &(fore_tally_kind){.label = dtype_name, .bits = bits, .memory_bits = bits});
    k->parameters += parameters;
    k->mapped += parameters * fore_dtype_size(dtype);
}

void fore_tally_widened(fore_tally *t, const char *dtype_name, int bits, uint64_t parameters) {
    fore_tally_kind *k = find(t, &(fore_tally_kind){.label = dtype_name, .bits = bits, .memory_bits = bits});
    k->parameters += parameters;
    k->made += parameters * sizeof(float);
}

void fore_tally_made(fore_tally *t, const fore_tally_kind *like, uint64_t parameters, uint64_t bytes) {
    fore_tally_kind *k = find(t, like);
    k->parameters += parameters;
    k->made += bytes;
}
