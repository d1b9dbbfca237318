/* The pace; see pace.h. */
#include "decode/pace.h"

/* Where nothing is measured yet: a further row costs a tenth of the first, a draft an eighth, four of five are right. */
#define ROW_SHARE   0.1
#define DRAFT_SHARE 0.125
#define FIRST_GUESS 0.8
/* Recent rounds count: the latest one this much, or more while there are few. */
#define FRESH 0.06
/* A quick average that is this far from the slow one tells of a change: the text has become another one. */
#define QUICK  0.3
#define CHANGE 0.5
enum { AFTER_CHANGE = 3, SHORT_REST = 16, LONG_REST = 64, PLAIN_FIRST = 4, PLAIN_LATER = 64, NEIGHBOUR_AFTER = 16, UNKNOWN_AFTER = 12 };

/* Bounds of the classes, and what is believed of each until it was judged a few times. */
static const double SURE_BELOW[FORE_PACE_SURE - 1] = {0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97};
static const double SURE_GUESS[FORE_PACE_SURE] = {0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.85, 0.93, 0.98};
static const int MATCH_BELOW[FORE_PACE_MATCH - 1] = {3, 4, 5, 7, 9, 13, 21, 32};
static const double MATCH_GUESS[FORE_PACE_MATCH] = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95};
enum { GUESS_WEIGHT = 4 };

void fore_pace_init(fore_pace *p) {
    *p = (fore_pace){.patience = SHORT_REST, .plain_after = PLAIN_FIRST};
    for (int i = 0; i < FORE_DRAFT_MAX; i++) p->accept[i] = p->quick[i] = FIRST_GUESS;
    for (int i = 0; i < FORE_PACE_SURE; i++) p->sure[i] = SURE_GUESS[i];
    for (int i = 0; i < FORE_PACE_MATCH; i++) p->match[i] = MATCH_GUESS[i];
}

static int sure_class(double sure) {
    int i = 0;
    while (i < FORE_PACE_SURE - 1 && sure >= SURE_BELOW[i]) i++;
    return i;
}

static int match_class(int match) {
    int i = 0;
    while (i < FORE_PACE_MATCH - 1 && match >= MATCH_BELOW[i]) i++;
    return i;
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* The nearest number of rows below (step -1) or above (1) that was measured; 0: none. */
static int measured(const fore_pace *p, int rows, int step) {
    for (int r = rows + step; r >= 1 && r <= FORE_DRAFT_MAX + 1; r += step)
        if (p->verify[r] > 0) return r;
    return 0;
}

/* Measured, or on the line through the two nearest that are. */
static double guess(const fore_pace *p, int rows) {
    const double *v = p->verify;
    if (v[rows] > 0) return v[rows];
    int low = measured(p, rows, -1), high = measured(p, rows, 1), other = low ? measured(p, low, -1) : 0;
    if (low && high) return v[low] + (v[high] - v[low]) * (rows - low) / (high - low);
    if (other && v[low] > v[other]) return v[low] + (v[low] - v[other]) * (rows - low) / (low - other);
    if (other) return v[low];
    int one = low ? low : high;
    return (one ? v[one] : 1) * (1 + ROW_SHARE * (rows - 1)) / (1 + ROW_SHARE * (one ? one - 1 : 0));
}

/* Seconds of a pass of `rows` rows. More rows are never cheaper than one: whoever seems so was measured in a quieter hour. */
static double cost(const fore_pace *p, int rows) {
    double seconds = guess(p, rows);
    return seconds > p->verify[1] ? seconds : p->verify[1];
}

static double draft_cost(const fore_pace *p) { return p->draft > 0 ? p->draft : DRAFT_SHARE * cost(p, 1); }

/* ---- choices ----------------------------------------------------------------------------------------------------- */

double fore_pace_expect(const fore_pace *p, int depth) {
    double tokens = 1, all = 1, draft = draft_cost(p);
    for (int i = 0; i < depth; i++) tokens += all *= p->accept[i];
    return tokens / (cost(p, depth + 1) + depth * draft);
}

double fore_pace_expect_lookups(const fore_pace *p, int count, int match) {
    double tokens = 1, all = 1;
    for (int i = 0; i < count; i++) tokens += all *= p->match[match_class(match + i)];
    return tokens / cost(p, count + 1);
}

static int least(int a, int b) { return a < b ? a : b; }

/* A depth below `best` whose pass, of an even number of rows, was never measured, the deepest one; 0: none. Passes may jump in cost
 * where rows do not fit into the kernels' blocks, and no line between others shows that. */
static int unmeasured(const fore_pace *p, int best) {
    for (int d = best - 1; d >= 1; d--)
        if (d % 2 && p->verify[d + 1] <= 0) return d;
    return 0;
}

/* The best depth, or another one when that is due. */
static fore_pace_choice choose_depth(fore_pace *p, int best, int most) {
    fore_pace_choice c = {.depth = best};
    int unknown = unmeasured(p, best);
    if (++p->steady < (unknown ? UNKNOWN_AFTER : NEIGHBOUR_AFTER)) return c;
    p->steady = 0;
    if (unknown) return (fore_pace_choice){.depth = unknown, .exact = true};
    p->deeper = !p->deeper;
    int neighbour = p->deeper ? best + 1 : best - 1;
    if (neighbour < 1 || neighbour > most) return c;
    return (fore_pace_choice){.depth = neighbour, .exact = true};
}

fore_pace_choice fore_pace_choose(fore_pace *p, int most, int heads, int lookups, int match) {
    fore_pace_choice none = {0};
    most = least(most, FORE_DRAFT_MAX);
    heads = least(heads, most);
    lookups = least(lookups, most);
    if (most < 1) return none;
    bool rests = heads > 0 && p->rest > 0;
    if (rests) {
        p->rest--;
        heads = 0;
    }
    /* Without the cost of a plain round nobody knows whether drafting pays. */
    if (p->verify[1] <= 0 || p->drafting >= p->plain_after) return none;
    int depth = 0, count = 0;
    for (int d = 1; d <= heads; d++)
        if (fore_pace_expect(p, d) > fore_pace_expect(p, depth)) depth = d;
    p->rate = fore_pace_expect(p, depth);
    for (int n = 1; n <= lookups; n++) {
        double rate = fore_pace_expect_lookups(p, n, match);
        if (rate < p->rate || (rate == p->rate && !depth && !count)) continue;
        p->rate = rate;
        count = n;
    }
    if (count) return (fore_pace_choice){.lookups = count};
    if (depth) return choose_depth(p, depth, heads);
    if (heads < 1) return none;
    p->rest = p->patience; /* one try now and then, ever more seldom: text changes */
    if (p->patience < LONG_REST) p->patience *= 2;
    return (fore_pace_choice){.depth = 1, .exact = true};
}

/* Whether a next draft that is right with `first`, made already or not, or some further one after it pays more than the rate. */
static bool pays(const fore_pace *p, const fore_pace_window *w, double first, bool made) {
    double gain = 0, chance = w->chance, base = cost(p, w->drafts + 1), drafts = made ? 0 : draft_cost(p);
    for (int i = w->drafts; i < w->most; i++) {
        chance *= i == w->drafts ? first : p->accept[i];
        gain += chance;
        if (gain > p->rate * (cost(p, i + 2) - base + drafts)) return true;
        drafts += draft_cost(p);
    }
    return false;
}

static double belief(const fore_pace *p, int depth, double sure) { return sure < 0 ? p->accept[depth] : p->sure[sure_class(sure)]; }

bool fore_pace_goes_on(const fore_pace *p, const fore_pace_window *w) {
    return w->drafts < w->most && pays(p, w, p->accept[w->drafts], false);
}

bool fore_pace_keeps(const fore_pace *p, const fore_pace_window *w, double sure) {
    return w->drafts < w->most && pays(p, w, belief(p, w->drafts, sure), true);
}

int fore_pace_extends(const fore_pace *p, const fore_pace_window *w, int offered, int match) {
    int best = 0;
    double chance = w->chance, gain = 0, most = 0;
    for (int i = 0; i < offered && w->drafts + i < w->most; i++) {
        gain += chance *= p->match[match_class(match + i)];
        double worth = gain - p->rate * (cost(p, w->drafts + i + 2) - cost(p, w->drafts + 1));
        if (worth <= most) continue;
        most = worth;
        best = i + 1;
    }
    return best;
}

void fore_pace_put(const fore_pace *p, fore_pace_window *w, double sure, int match) {
    w->chance *= match > 0 ? p->match[match_class(match)] : belief(p, w->drafts, sure);
    w->drafts++;
}

/* ---- learning ---------------------------------------------------------------------------------------------------- */

/* What others do on the machine only adds to a time: less counts at once, more slowly, and what is far more only as a sign. */
static double blend(double old, double fresh) {
    if (old <= 0) return fresh;
    return fresh > 2 * old ? old * 1.03 : old + (fresh - old) * (fresh < old ? 0.5 : 0.2);
}

/* One more of a class was judged: the guess gives way to what is seen, at first quickly. */
static void judge_class(double *share, int *tries, bool right) {
    double weight = 1.0 / (GUESS_WEIGHT + (*tries)++);
    *share += (right - *share) * (weight > FRESH ? weight : FRESH);
}

/* A draft of the head at depth i was judged, all before it were right. */
static void judge(fore_pace *p, int i, double sure, bool right) {
    if (sure >= 0) judge_class(&p->sure[sure_class(sure)], &p->sure_tries[sure_class(sure)], right);
    double share = 1.0 / (2 + p->tries[i]);
    p->accept[i] += (right - p->accept[i]) * (share > FRESH ? share : FRESH);
    p->quick[i] += (right - p->quick[i]) * QUICK;
    p->tries[i]++;
    if (p->quick[i] - p->accept[i] > CHANGE || p->accept[i] - p->quick[i] > CHANGE) {
        p->accept[i] = p->quick[i];
        p->tries[i] = AFTER_CHANGE;
    }
}

void fore_pace_judge_lookup(fore_pace *p, int match, bool right) {
    judge_class(&p->match[match_class(match)], &p->match_tries[match_class(match)], right);
}

/* Depths that were not tried are believed to be like the deepest one that was, the more so the longer ago their own tries are;
 * and never better than one before them that fails. */
static void spread(fore_pace *p, int drafts, int judged, int accepted) {
    if (judged == drafts && accepted >= drafts - 1) {
        for (int i = drafts; i < FORE_DRAFT_MAX; i++)
            p->accept[i] += (p->accept[drafts - 1] - p->accept[i]) * (p->tries[i] ? FRESH : 1);
        return;
    }
    for (int i = accepted + 1; judged > accepted && i < FORE_DRAFT_MAX; i++)
        if (!p->tries[i] && p->accept[i] > p->accept[accepted]) p->accept[i] = p->accept[accepted];
}

void fore_pace_learn(fore_pace *p, const fore_pace_round *r) {
    p->verify[r->drafts + 1] = blend(p->verify[r->drafts + 1], r->verify_seconds);
    if (r->drafts) {
        p->drafting++;
    } else {
        if (p->drafting >= p->plain_after && p->plain_after < PLAIN_LATER) p->plain_after *= 2;
        p->drafting = 0;
    }
    if (!r->made) return;
    p->draft = blend(p->draft, r->draft_seconds / r->made);
    int judged = least(r->judged, r->heads), accepted = least(r->accepted, r->heads), drafts = r->heads;
    for (int i = 0; i < judged && i <= accepted; i++) judge(p, i, r->sure[i], i < accepted);
    if (r->dropped) {
        judge(p, drafts, r->sure[drafts], r->dropped > 0);
        judged = ++drafts;
        accepted += r->dropped > 0;
    }
    if (drafts) spread(p, drafts, judged, accepted);
    if (accepted > 0) { /* it may pay again */
        p->rest = 0;
        if (p->patience > SHORT_REST) p->patience /= 2;
    }
}
