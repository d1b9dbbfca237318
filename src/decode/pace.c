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
enum { AFTER_CHANGE = 3, SHORT_REST = 16, LONG_REST = 64, PLAIN_FIRST = 4, PLAIN_LATER = 64, NEIGHBOUR_AFTER = 16 };

void fore_pace_init(fore_pace *p) {
    *p = (fore_pace){.patience = SHORT_REST, .plain_after = PLAIN_FIRST};
    for (int i = 0; i < FORE_DRAFT_MAX; i++) p->accept[i] = p->quick[i] = FIRST_GUESS;
}

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

double fore_pace_expect(const fore_pace *p, int depth) {
    double tokens = 1, all = 1, draft = p->draft > 0 ? p->draft : DRAFT_SHARE * cost(p, 1);
    for (int i = 0; i < depth; i++) tokens += all *= p->accept[i];
    return tokens / (cost(p, depth + 1) + depth * draft);
}

int fore_pace_choose(fore_pace *p, int most) {
    if (most > FORE_DRAFT_MAX) most = FORE_DRAFT_MAX;
    if (most < 1) return 0;
    if (p->rest > 0) {
        p->rest--;
        return 0;
    }
    /* Without the cost of a plain round nobody knows whether drafting pays. */
    if (p->verify[1] <= 0 || p->drafting >= p->plain_after) return 0;
    int best = 0;
    for (int d = 1; d <= most; d++)
        if (fore_pace_expect(p, d) > fore_pace_expect(p, best)) best = d;
    if (best == 0) { /* one try now and then, ever more seldom: text changes */
        p->rest = p->patience;
        if (p->patience < LONG_REST) p->patience *= 2;
        return 1;
    }
    if (++p->steady < NEIGHBOUR_AFTER) return best;
    p->steady = 0;
    p->deeper = !p->deeper;
    int neighbour = p->deeper ? best + 1 : best - 1;
    return neighbour >= 1 && neighbour <= most ? neighbour : best;
}

/* What others do on the machine only adds to a time: less counts at once, far more hardly. */
static double blend(double old, double fresh) {
    if (old <= 0) return fresh;
    return old + (fresh - old) * (fresh < old ? 0.5 : fresh > 3 * old ? 0.05 : 0.2);
}

/* A draft at depth i was judged, all before it were right. */
static void judge(fore_pace *p, int i, bool right) {
    double share = 1.0 / (2 + p->tries[i]); /* the guess gives way quickly */
    p->accept[i] += (right - p->accept[i]) * (share > FRESH ? share : FRESH);
    p->quick[i] += (right - p->quick[i]) * QUICK;
    p->tries[i]++;
    if (p->quick[i] - p->accept[i] > CHANGE || p->accept[i] - p->quick[i] > CHANGE) {
        p->accept[i] = p->quick[i];
        p->tries[i] = AFTER_CHANGE;
    }
}

void fore_pace_learn(fore_pace *p, int drafts, int judged, int accepted, double verify_seconds, double draft_seconds) {
    p->verify[drafts + 1] = blend(p->verify[drafts + 1], verify_seconds);
    if (!drafts) {
        if (p->drafting >= p->plain_after && p->plain_after < PLAIN_LATER) p->plain_after *= 2;
        p->drafting = 0;
        return;
    }
    p->drafting++;
    p->draft = blend(p->draft, draft_seconds / drafts);
    for (int i = 0; i < judged && i <= accepted; i++) judge(p, i, i < accepted);
    /* Depths that were not tried are believed to be like the deepest one that was, the more so the longer ago their own tries are. */
    if (judged == drafts && accepted >= drafts - 1)
        for (int i = drafts; i < FORE_DRAFT_MAX; i++)
            p->accept[i] += (p->accept[drafts - 1] - p->accept[i]) * (p->tries[i] ? FRESH : 1);
    else /* and never better than one before them that fails */
        for (int i = accepted + 1; judged > accepted && i < FORE_DRAFT_MAX; i++)
            if (!p->tries[i] && p->accept[i] > p->accept[accepted]) p->accept[i] = p->accept[accepted];
    if (accepted > 0) { /* it may pay again */
        p->rest = 0;
        if (p->patience > SHORT_REST) p->patience /= 2;
    }
}
