/* The pace: how many drafts a round should make, from measured costs and recent acceptance. Its choice changes the speed only. */
#ifndef FORE_DECODE_PACE_H
#define FORE_DECODE_PACE_H

#include "foresight.h"

typedef struct fore_pace {
    double verify[FORE_DRAFT_MAX + 2]; /* seconds of a trunk pass by rows, 0: not measured */
    double draft;                      /* seconds of one draft */
    double accept[FORE_DRAFT_MAX];     /* recent share of drafts accepted at a depth, given all before it were */
    int tries[FORE_DRAFT_MAX];         /* drafts judged at a depth */
    int rest;                          /* rounds without drafts until the next try */
    int patience;                      /* how long the next rest will be */
} fore_pace;

void fore_pace_init(fore_pace *pace);
/* Drafts of the next round, 0 .. most. Counts a rest down. */
int fore_pace_choose(fore_pace *pace, int most);
/* A round: rows = drafts + 1, how many drafts were accepted, what it took. */
void fore_pace_learn(fore_pace *pace, int drafts, int accepted, double verify_seconds, double draft_seconds);
/* Tokens per second expected at a depth. */
double fore_pace_expect(const fore_pace *pace, int depth);

#endif
