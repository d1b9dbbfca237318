/* The pace: which drafts a round should check, from measured costs and recent acceptance. Its choice changes the speed only.
 *
 * Drafts come from two sources. The head costs time for each; how often it is right is kept by depth and, for drafts that are
 * made, by how sure the head was. Look-ups are free; how often they are right is kept by how many tokens match before them
 * (those before them in the window count), and every round judges them, used or not.
 *
 * A round begins with whichever promises the most tokens per second,
 *     (1 + sum of acceptance products) / (pass of drafts + 1 rows + drafts made by the head):
 * nothing, some look-ups, or the head. Head drafts go on while some further one pays more than that rate, and one that is made is
 * checked if that pays; look-ups go behind them by the same rule. A few rounds are spent on keeping figures true: one without
 * drafts now and then, one of a neighbouring depth, and while the head does not pay a single draft, ever more seldom. */
#ifndef FORE_DECODE_PACE_H
#define FORE_DECODE_PACE_H

#include "foresight.h"

enum { FORE_PACE_SURE = 10, FORE_PACE_MATCH = 9 };

typedef struct fore_pace {
    double verify[FORE_DRAFT_MAX + 2]; /* seconds of a trunk pass by rows, 0: not measured */
    double draft;                      /* seconds of one draft of the head */
    double accept[FORE_DRAFT_MAX];     /* recent share of the head's drafts accepted at a depth, given all before it were */
    double quick[FORE_DRAFT_MAX];      /* the same of the last few */
    int tries[FORE_DRAFT_MAX];         /* drafts judged at a depth */
    double sure[FORE_PACE_SURE];       /* the share by the head's probability of its draft */
    int sure_tries[FORE_PACE_SURE];
    double match[FORE_PACE_MATCH];     /* the share of look-ups by tokens that match */
    int match_tries[FORE_PACE_MATCH];
    double rate;                       /* tokens per second that the choice at hand promises */
    int rest;                          /* rounds without head drafts until the next try */
    int patience;                      /* how long the next rest will be */
    int drafting, plain_after;         /* rounds with drafts since the last one without, and how many there may be */
    int steady;                        /* rounds of the best depth since a neighbour was tried */
    bool deeper;                       /* the neighbour tried last was the deeper one */
} fore_pace;

/* The drafts of a round while they are put together. */
typedef struct fore_pace_window {
    int drafts;    /* in the window so far */
    int most;      /* drafts that it may hold */
    double chance; /* that all of them are right */
} fore_pace_window;

/* What a round begins with; both 0: no drafts. */
typedef struct fore_pace_choice {
    int lookups; /* that many look-ups and nothing else */
    int depth;    /* drafts of the head */
    bool exact;   /* exactly that many, to keep figures true; else ask fore_pace_goes_on */
} fore_pace_choice;

/* A round that was made. */
typedef struct fore_pace_round {
    int drafts;   /* checked */
    int judged;   /* of them, those that the answer came to (fewer where it ended) */
    int accepted; /* of those, right */
    int heads;    /* of the window's drafts, the first so many are the head's */
    int made;     /* by the head, also the one that was not checked */
    int dropped;  /* that one was right (1) or wrong (-1); 0: none, or not known */
    double sure[FORE_DRAFT_MAX]; /* [made] the head's probability of each; negative: unknown */
    double verify_seconds, draft_seconds;
} fore_pace_round;

void fore_pace_init(fore_pace *pace);
/* What the next round should begin with: at most `heads` drafts of the head (0: there is none) and `lookups` look-ups whose match
 * is `match` tokens, at most `most` in all. Counts a rest down. */
fore_pace_choice fore_pace_choose(fore_pace *pace, int most, int heads, int lookups, int match);
/* Whether the head should make another draft. */
bool fore_pace_goes_on(const fore_pace *pace, const fore_pace_window *window);
/* Whether a draft of the head that was made belongs into the window; `sure`: its probability, negative: unknown. */
bool fore_pace_keeps(const fore_pace *pace, const fore_pace_window *window, double sure);
/* How many of `offered` look-ups, whose match is `match` tokens, should go behind the window's drafts. */
int fore_pace_extends(const fore_pace *pace, const fore_pace_window *window, int offered, int match);
/* Puts one more draft into the window: of the head (match 0, sure as above) or a look-up. */
void fore_pace_put(const fore_pace *pace, fore_pace_window *window, double sure, int match);

void fore_pace_learn(fore_pace *pace, const fore_pace_round *round);
/* A look-up by `match` tokens would have been right or not, whether it was checked or not. */
void fore_pace_judge_lookup(fore_pace *pace, int match, bool right);

/* Tokens per second expected at a depth of the head's drafts, and of look-ups. */
double fore_pace_expect(const fore_pace *pace, int depth);
double fore_pace_expect_lookups(const fore_pace *pace, int count, int match);

#endif
