/* Where the time of passes goes, by operator: a stopwatch that is always in exactly one operator. An engine without a
 * profile pays one comparison a hook. It knows names, seconds, bytes and operations; nothing of what is computed. */
#ifndef FORE_MODEL_PROFILE_H
#define FORE_MODEL_PROFILE_H

#include "base/clock.h"
#include "model/linear.h"

/* Products are named after the weights they read; both kinds of layers share `norm` (residual sums too). The tower takes rows
 * through all of a block but attention in one task: `block`. */
#define FORE_OP_MAP(XX)       \
    XX(EMBED, "embed")        \
    XX(JOIN, "fc")            \
    XX(NORM, "norm")          \
    XX(QKV, "qkv")            \
    XX(ROPE, "rope")          \
    XX(ATTENTION, "attention") \
    XX(O_PROJ, "o_proj")      \
    XX(IN_PROJ, "in_proj")    \
    XX(CONV, "conv")          \
    XX(DELTANET, "deltanet")  \
    XX(OUT_PROJ, "out_proj")  \
    XX(GATE_UP, "gate_up")    \
    XX(ACTIVATION, "activation") \
    XX(DOWN, "down")          \
    XX(ROUTER, "router")      \
    XX(EXPERTS, "experts")    \
    XX(BLOCK, "block")        \
    XX(MERGE, "merge")        \
    XX(HEAD, "head")          \
    XX(SAMPLE, "sample")      \
    XX(LOOKUP, "lookup")      \
    XX(COMMIT, "commit")

typedef enum fore_op {
    FORE_OP_NONE = -1, /* the stopwatch stands */
#define FORE_XX(name, text) FORE_OP_##name,
    FORE_OP_MAP(FORE_XX)
#undef FORE_XX
    FORE_OPS
} fore_op;

/* Whose operators: names of the draft head's begin with "mtp.", of the tower's with "vision.". */
typedef enum fore_part { FORE_PART_TRUNK, FORE_PART_DRAFT, FORE_PART_VISION, FORE_PARTS } fore_part;

enum { FORE_PROFILE_STRIDE = (FORE_OPS + 7) / 8 * 8 }; /* whole cache lines a thread */

typedef struct fore_profile {
    fore_operator rows[FORE_PARTS][FORE_OPS];
    fore_part part;
    fore_op op;
    double began;  /* of the operator at hand */
    int threads;
    double *inside; /* [threads, FORE_PROFILE_STRIDE] owned: see fore_profile_split */
} fore_profile;

fore_status fore_profile_new(int threads, fore_profile **out, fore_error *err);
void fore_profile_free(fore_profile *profile);
/* All figures to 0; the stopwatch stands. */
void fore_profile_forget(fore_profile *profile);

void fore_profile_switch(fore_profile *profile, fore_part part, fore_op op);
void fore_profile_count_products(fore_profile *profile, const fore_product *products, int count, int T);
void fore_profile_add_products(fore_profile *profile, fore_op op, const fore_weight *like, uint64_t bytes, double operations);
void fore_profile_add_inside(fore_profile *profile, int worker, fore_op op, double *began);
void fore_profile_share_out(fore_profile *profile);

/* ---- hooks, each nothing without a profile ----------------------------------------------------------------------- */

/* The time from here on is `op`'s, until the next hook. */
static inline void fore_profile_op(const fore_engine *e, fore_op op) {
    if (e->profile) fore_profile_switch(e->profile, e->profile->part, op);
}
/* The operators from here on are the part's; the stopwatch stands. */
static inline void fore_profile_part(const fore_engine *e, fore_part part) {
    if (e->profile) fore_profile_switch(e->profile, part, FORE_OP_NONE);
}
/* A call of the library begins: what ran when the last one was abandoned does not count. */
static inline void fore_profile_start(const fore_engine *e) {
    if (!e->profile) return;
    e->profile->op = FORE_OP_NONE;
    e->profile->part = FORE_PART_TRUNK;
}
/* Work of the operator at hand that is no product with weights. A multiply-add counts 2. */
static inline void fore_profile_work(const fore_engine *e, uint64_t state_bytes, double operations) {
    if (!e->profile || e->profile->op == FORE_OP_NONE) return;
    fore_operator *o = &e->profile->rows[e->profile->part][e->profile->op];
    o->state_bytes += state_bytes;
    o->float_operations += operations;
}
/* Products of an operator that do not go through fore_linear; `like` is one of the weights. */
static inline void fore_profile_weights(const fore_engine *e, fore_op op, const fore_weight *like, uint64_t bytes, double operations) {
    if (e->profile) fore_profile_add_products(e->profile, op, like, bytes, operations);
}
/* Inside a task that does the work of several operators: where a piece of it begins, and that the piece up to here was `op`'s. */
static inline double fore_profile_inside(const fore_engine *e) { return e->profile ? fore_clock() : 0; }
static inline void fore_profile_piece(const fore_engine *e, int worker, fore_op op, double *began) {
    if (e->profile) fore_profile_add_inside(e->profile, worker, op, began);
}
/* After such tasks: the pieces' time, shared evenly among the threads, goes from the operator at hand to theirs. */
static inline void fore_profile_split(const fore_engine *e) {
    if (e->profile) fore_profile_share_out(e->profile);
}

#endif
