/* How much of a model each of its parts is, counted while its tensors are bound, where it is known what becomes of each. */
#ifndef FORE_MODEL_TALLY_H
#define FORE_MODEL_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

typedef enum fore_tally_part {
    FORE_TALLY_TRUNK, /* the decoder's layers, shared experts and routers among them, and its last norm */
    FORE_TALLY_EMBEDDING,
    FORE_TALLY_EXPERTS, /* those that tokens are routed to */
    FORE_TALLY_OUTPUT,
    FORE_TALLY_DRAFT,  /* the draft head, its experts among it */
    FORE_TALLY_VISION,
    FORE_TALLY_PARTS
} fore_tally_part;

/* Weights of one part that are alike in the files and in memory. */
typedef struct fore_tally_kind {
    fore_tally_part part;
    const char *label;   /* "BF16", "MLX", "Q4_K", ...; as long-lived as the model */
    int bits, group;     /* in the files; see fore_form_matrix */
    int memory_bits;
    uint64_t parameters;
    uint64_t mapped, made; /* bytes: read where the files have them; in memory of their own */
} fore_tally_kind;

enum { FORE_TALLY_KINDS = 96 };

typedef struct fore_tally {
    fore_tally_part part; /* of what is counted next */
    fore_tally_kind kinds[FORE_TALLY_KINDS]; /* of the first so many kinds; others are counted with the last */
    int count;
} fore_tally;

/* Floats of the file's type that stay where they are. */
void fore_tally_mapped(fore_tally *tally, const char *dtype_name, fore_dtype dtype, uint64_t parameters);
/* Floats that were widened to 32 bits. */
void fore_tally_widened(fore_tally *tally, const char *dtype_name, int bits, uint64_t parameters);
/* A matrix that takes `bytes` of memory of its own. */
void fore_tally_made(fore_tally *tally, const fore_tally_kind *like, uint64_t parameters, uint64_t bytes);

#endif
