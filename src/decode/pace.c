/* The pace; see pace.h. */
#include "decode/pace.h"

/* Where nothing is measured yet: a further row costs a tenth of the first, a draft an eighth, four of five are right. */
#define ROW_SHARE   0.1
#define DRAFT_SHARE 0.125
#define FIRST_GUESS 0.8
enum { SHORT_REST = 16, LONG_REST = 512 };

void fore_pace_init(fore_pace *p) {
    *p = (fore_pace){.patience = SHORT_REST};
    for (int i = 0; i < FORE_DRAFT_MAX; i++) p->accept[i] = FIRST_GUESS;
}

/* Seconds of a pass of `rows` rows: measured, or a line through what is. */
static double cost(const fore_pace *p, int rows) {
    if (p->verify[rows] > 0) return p->verify[rows];
    int low = rows - 1, high = rows + 1;
    while (low >= 1 && p->verify[low] <= 0) low--;
    while (high <= FORE_DRAFT_MAX + 1 && p->verify[high] <= 0) high++;
    if (low >= 1 && high <= FORE_DRAFT_MAX + 1)
        return p->verify[low] + (p->verify[high] - p->verify[low]) * (rows - low) / (high - low);
    if (low >= 1) return p->verify[low] * (1 + ROW_SHARE * (rows - 1)) / (1 + ROW_SHARE * (low - 1));
    if (high <= FORE_DRAFT_MAX + 1) return p->verify[high] * (1 + ROW_SHARE * (rows - 1)) / (1 + ROW_SHARE * (high - 1));
    return 1 + ROW_SHARE * (rows - 1);
}

double fore_pace_expect(const fore_pace *p, int depth) {
    double tokens = 1, all = 1, draft = p->draft > 0 ? p->draft : DRAFT_SHARE * cost(p, 1);
    for (int i = 0; i < depth; i++) tokens += all *= p->accept[i];
    return tokens / (cost(p, depth + 1) + depth * draft);
}

int fore_pace_choose(fore_pace *p, int most) {
    if (p->rest > 0) {
        p->rest--;
        return 0;
    }
    int best = 0;
    for (int d = 1; d <= most; d++)
        if (fore_pace_expect(p, d) > fore_pace_expect(p, best)) best = d;
    if (best == 0 && most > 0) { /* one try now and then, ever more seldom: text changes */
        p->rest = p->patience;
        if (p->patience < LONG_REST) p->patience *= 2;
        return 1;
    }
    return best;
}

static double blend(double old, double fresh, double share) { return old > 0 ? old + (fresh - old) * share : fresh; }

void fore_pace_learn(fore_pace *p, int drafts, int accepted, double verify_seconds, double draft_seconds) {
    double *v = &p->verify[drafts + 1];
    /* A machine that was busy elsewhere should not count for long. */
    *v = *v > 0 && verify_seconds > 3 * *v ? blend(*v, verify_seconds, 0.05) : blend(*v, verify_seconds, 0.2);
    if (!drafts) return;
    p->draft = blend(p->draft, draft_seconds / drafts, 0.2);
    for (int i = 0; i < drafts && i <= accepted; i++) {
        double share = 1.0 / (2 + p->tries[i]); /* the guess gives way quickly, then recent rounds count */
        p->accept[i] += ((i < accepted) - p->accept[i]) * (share > 0.06 ? share : 0.06);
        p->tries[i]++;
    }
    /* What is never tried follows the last depth that is. */
    if (accepted < drafts || drafts == FORE_DRAFT_MAX) {
        for (int i = drafts; i < FORE_DRAFT_MAX; i++)
            if (p->accept[i] > p->accept[drafts - 1]) p->accept[i] = p->accept[drafts - 1];
    }
    if (accepted > 0) p->patience = SHORT_REST;
}
