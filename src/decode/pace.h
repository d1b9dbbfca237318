/* The pace: how many drafts a round should make, from measured costs and recent acceptance. Its choice changes the speed only.
 * It takes the depth with the most tokens per second expected, (1 + sum of acceptance products) / (pass of depth + 1 rows + depth
 * drafts), and spends a few rounds on keeping its figures true: one without drafts now and then, one of a neighbouring depth, and
 * while drafting does not pay a single draft, ever more seldom. */
#ifndef FORE_DECODE_PACE_H
#define FORE_DECODE_PACE_H

#include "foresight.h"

typedef struct fore_pace {
    double verify[FORE_DRAFT_MAX + 2]; /* seconds of a trunk pass by rows, 0: not measured */
    double draft;                      /* seconds of one draft */
    double accept[FORE_DRAFT_MAX];     /* recent share of drafts accepted at a depth, given all before it were */
    double quick[FORE_DRAFT_MAX];      /* the same of the last few */
    int tries[FORE_DRAFT_MAX];         /* drafts judged at a depth */
    int rest;                          /* rounds without drafts until the next try */
    int patience;                      /* how long the next rest will be */
    int drafting, plain_after;         /* rounds with drafts since the last one without, and how many there may be */
    int steady;                        /* rounds of the best depth since a neighbour was tried */
    bool deeper;                       /* the neighbour tried last was the deeper one */
} fore_pace;

void fore_pace_init(fore_pace *pace);
/* Drafts of the next round, 0 .. most. Counts a rest down. */
int fore_pace_choose(fore_pace *pace, int most);
/* A round: how many drafts were made, how many of them the answer came to (fewer where it ended), how many of those were accepted,
 * and what it took. */
void fore_pace_learn(fore_pace *pace, int drafts, int judged, int accepted, double verify_seconds, double draft_seconds);
/* Tokens per second expected at a depth. */
double fore_pace_expect(const fore_pace *pace, int depth);

#endif
