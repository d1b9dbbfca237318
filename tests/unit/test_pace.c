/* The pace on a simulated machine: it takes the best depth by the formula in its header, gives up when drafts are rejected, goes deep
 * when they are accepted, and follows changes; all within a few per cent of who would know it beforehand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "decode/pace.h"

/* A machine: seconds of passes by rows, of a draft, noise; and how good drafts are. */
typedef struct machine {
    double row;        /* a pass of r rows takes 1 + (r - 1) * row, and more where step says so */
    int step;          /* every so many rows further cost `jump` more; 0: no */
    double jump, draft;
    double accept[FORE_DRAFT_MAX];
    bool telling; /* the head knows which of its drafts are good */
    double noise; /* a pass takes up to this much longer, one of fifty three times as long */
    uint64_t seed, at;
} machine;

static int depth_of(fore_pace_choice c) { return c.depth; }
#define CHOOSE(p, most) depth_of(fore_pace_choose(p, most, most, 0, 0))

static double chance(machine *m) { return ((double)fore_random_bits(m->seed, m->at++, 0, 9) + 0.5) * 0x1p-32; }

static double pass(const machine *m, int rows) { return 1 + m->row * (rows - 1) + (m->step ? m->jump * ((rows - 1) / m->step) : 0); }

static void accept_all(machine *m, double share) {
    for (int i = 0; i < FORE_DRAFT_MAX; i++) m->accept[i] = share;
}

/* Tokens per second of a fixed depth, in the long run. */
static double fixed(const machine *m, int depth) {
    double tokens = 1, all = 1;
    for (int i = 0; i < depth; i++) tokens += all *= m->accept[i];
    return tokens / (pass(m, depth + 1) + depth * m->draft);
}

static double best_fixed(const machine *m, int *depth) {
    double best = 0;
    for (int d = 0; d <= FORE_DRAFT_MAX; d++) {
        if (fixed(m, d) <= best) continue;
        best = fixed(m, d);
        *depth = d;
    }
    return best;
}

typedef struct course {
    double tokens, seconds;
    int rounds, drafting, by_depth[FORE_DRAFT_MAX + 1];
} course;

static int least(int a, int b) { return a < b ? a : b; }

/* One draft of the head: its probability as the head sees it (unknown: -1) and whether it is right. With `telling` the head is sure of
 * some drafts and not of others, and right as often as it says; on average as often as `accept` has it. */
static double make_draft(machine *m, int depth, bool *right) {
    double share = m->accept[depth], sure = -1;
    if (m->telling) {
        bool easy = chance(m) < (share - 0.15) / (0.95 - 0.15);
        sure = share = easy ? 0.95 : 0.15;
    }
    *right = chance(m) < share;
    return sure;
}

/* One round of drafts of the head, as drafts.c makes it. */
static fore_pace_round draw(fore_pace *p, machine *m, int left, fore_pace_choice choice) {
    fore_pace_window w = {.most = least(left, FORE_DRAFT_MAX), .chance = 1};
    fore_pace_round r = {0};
    bool all = true, right;
    while (w.drafts < (choice.exact ? choice.depth : w.most) && (choice.exact || !w.drafts || fore_pace_goes_on(p, &w))) {
        double sure = make_draft(m, w.drafts, &right);
        r.sure[r.made++] = sure;
        if (!choice.exact && !fore_pace_keeps(p, &w, sure)) {
            if (all) r.dropped = right ? 1 : -1;
            break;
        }
        fore_pace_put(p, &w, sure, 0);
        all = all && right;
        r.accepted += all;
    }
    r.drafts = r.judged = r.heads = w.drafts;
    return r;
}

/* An answer of that many tokens. */
static course go(fore_pace *p, machine *m, int tokens) {
    course c = {0};
    while (c.tokens < tokens) {
        int left = tokens - (int)c.tokens - 1;
        fore_pace_choice choice = fore_pace_choose(p, left, left, 0, 0);
        assert_true(choice.depth >= 0 && choice.depth <= FORE_DRAFT_MAX && choice.depth <= left && !choice.lookups);
        fore_pace_round r = {0};
        if (choice.depth) r = draw(p, m, left, choice);
        int depth = r.drafts;
        assert_true(depth <= left);
        double wait = m->noise > 0 && chance(m) < 0.02 ? 3 : 1 + m->noise * chance(m);
        r.verify_seconds = pass(m, depth + 1) * wait;
        r.draft_seconds = r.made * m->draft * wait;
        fore_pace_learn(p, &r);
        c.tokens += r.accepted + 1;
        c.seconds += pass(m, depth + 1) + r.made * m->draft; /* what it took without the noise */
        c.rounds++;
        c.drafting += depth > 0;
        c.by_depth[depth]++;
    }
    return c;
}

static const double ROWS[] = {0.1, 0.3, 0.5}, NOISES[] = {0, 0.2};

/* Every draft rejected: answers of 200 tokens stay within 5 % of no drafts, from the first one on; in the long run hardly any round drafts. */
static void test_gives_up(void **state) {
    (void)state;
    double worst = 0;
    for (int i = 0; i < 3; i++)
        for (int n = 0; n < 2; n++)
            for (uint64_t seed = 0; seed < 10; seed++) {
                machine m = {.row = ROWS[i], .draft = 0.3, .noise = NOISES[n], .seed = seed};
                fore_pace p;
                fore_pace_init(&p);
                for (int answer = 0; answer < 5; answer++) {
                    course c = go(&p, &m, 200);
                    double loss = c.seconds / c.tokens - 1;
                    if (loss > worst) worst = loss;
                    if (loss > 0.05) fail_msg("a row costs %g, seed %d, answer %d: %.1f %% slower", ROWS[i], (int)seed, answer, 100 * loss);
                }
                course c = go(&p, &m, 2000);
                assert_true(c.drafting <= 40); /* 2 % of the rounds */
                assert_int_equal(c.by_depth[1], c.drafting);
            }
    print_message("every draft rejected: at most %.1f %% slower\n", 100 * worst);
}

/* Good drafts: nearly the speed of the best fixed depth within the first answer of 200 tokens, start included. */
static void test_goes_deep(void **state) {
    (void)state;
    static const double shares[] = {0.8, 0.9, 0.97, 1};
    double least = 2;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            for (int n = 0; n < 2; n++) {
                double ratio = 0, later = 0;
                int depth = 0;
                for (uint64_t seed = 0; seed < 20; seed++) {
                    machine m = {.row = ROWS[i], .draft = 0.1, .noise = NOISES[n], .seed = 100 + seed};
                    accept_all(&m, shares[k]);
                    fore_pace p;
                    fore_pace_init(&p);
                    double best = best_fixed(&m, &depth);
                    course c = go(&p, &m, 200);
                    ratio += c.tokens / c.seconds / best / 20;
                    c = go(&p, &m, 1000);
                    later += c.tokens / c.seconds / best / 20;
                }
                if (ratio < least) least = ratio;
                print_message("a row costs %.1f, %.2f accepted, noise %.1f: best depth %d; %.3f of its speed at first, %.3f later\n", ROWS[i], shares[k],
                              NOISES[n], depth, ratio, later);
                if (ratio < 0.9 || later < 0.94) fail_msg("too slow");
            }
}

/* Passes whose cost jumps: the depth just before the jump is found. */
static void test_jumps(void **state) {
    (void)state;
    machine m = {.row = 0.02, .step = 4, .jump = 0.9, .draft = 0.05, .seed = 3};
    accept_all(&m, 0.9);
    int depth = 0;
    double best = best_fixed(&m, &depth);
    assert_int_equal(depth, 3);
    fore_pace p;
    fore_pace_init(&p);
    go(&p, &m, 300);
    course c = go(&p, &m, 2000);
    print_message("a jump after 4 rows: %.3f of the best speed, %d of %d rounds at depth 3\n", c.tokens / c.seconds / best, c.by_depth[3], c.rounds);
    assert_true(c.by_depth[3] > 0.8 * c.rounds && c.tokens / c.seconds > 0.95 * best);
}

/* Drafts that pay for nothing although most of the first ones are right: passes are dear. It must know the cost of a plain round. */
static void test_dear_passes(void **state) {
    (void)state;
    machine m = {.row = 0.7, .draft = 0.3, .seed = 4};
    accept_all(&m, 0.8);
    int depth = 9;
    best_fixed(&m, &depth);
    assert_int_equal(depth, 0);
    fore_pace p;
    fore_pace_init(&p);
    go(&p, &m, 200);
    course c = go(&p, &m, 2000);
    print_message("dear passes: %.3f of plain speed\n", c.tokens / c.seconds);
    assert_true(c.tokens / c.seconds > 0.95);
}

/* Acceptance changes: from nothing to nearly all, and back. */
static void test_adapts(void **state) {
    (void)state;
    double up = 0, settled = 0, down = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        machine m = {.row = 0.2, .draft = 0.1, .noise = 0.2, .seed = 500 + seed};
        fore_pace p;
        fore_pace_init(&p);
        go(&p, &m, 300);
        accept_all(&m, 0.95);
        int depth;
        double best = best_fixed(&m, &depth);
        course c = go(&p, &m, 300);
        up += c.tokens / c.seconds / best / 20;
        c = go(&p, &m, 300);
        settled += c.tokens / c.seconds / best / 20;
        accept_all(&m, 0);
        c = go(&p, &m, 300);
        down += c.tokens / c.seconds / 20;
    }
    print_message("after a change for the better %.3f of the best speed, then %.3f; for the worse %.3f of plain speed\n", up, settled, down);
    assert_true(up > 0.8 && settled > 0.95 && down > 0.94);
}

/* With figures given by hand the choice is the documented formula's, within what is allowed. */
static void test_formula(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 3000; k++) {
        machine m = {.seed = 7 + k};
        fore_pace p;
        fore_pace_init(&p);
        for (int r = 1; r <= FORE_DRAFT_MAX + 1; r++) p.verify[r] = 1 + (r - 1) * chance(&m) * 0.5;
        p.draft = 0.02 + 0.3 * chance(&m);
        for (int i = 0; i < FORE_DRAFT_MAX; i++) p.accept[i] = chance(&m);
        if (k % 2) accept_all(&m, 0.5 + chance(&m) / 2), memcpy(p.accept, m.accept, sizeof p.accept);
        int most = 1 + (int)(k % FORE_DRAFT_MAX), best = 0;
        double best_speed = 0;
        for (int d = 0; d <= most; d++) {
            double tokens = 1, all = 1;
            for (int i = 0; i < d; i++) tokens += all *= p.accept[i];
            double speed = tokens / (p.verify[d + 1] + d * p.draft);
            assert_true(fabs(fore_pace_expect(&p, d) - speed) < 1e-12);
            if (speed > best_speed) {
                best_speed = speed;
                best = d;
            }
        }
        fore_pace q = p;
        assert_int_equal(CHOOSE(&q, most), best ? best : 1); /* 1: the try before a rest */
        assert_int_equal(q.rest > 0, best == 0);
        for (int rest = q.rest; rest > 0; rest--) assert_int_equal(CHOOSE(&q, most), 0);
        assert_int_equal(CHOOSE(&p, 0), 0);
        assert_int_equal(CHOOSE(&p, -3), 0);
    }
}

/* A machine that was quiet when it was last drafting: old figures of windows must not make a window look cheaper than a plain round. */
static void test_busy(void **state) {
    (void)state;
    machine m = {.row = 0.1, .draft = 0.3, .seed = 8};
    fore_pace p;
    fore_pace_init(&p);
    go(&p, &m, 300);
    for (int i = 0; i < 200; i++) fore_pace_learn(&p, &(fore_pace_round){.verify_seconds = 2.5});
    for (int i = 1; i <= FORE_DRAFT_MAX; i++) assert_true(fore_pace_expect(&p, i) < fore_pace_expect(&p, 0));
}

/* Drafts behind the end of an answer were never judged. */
static void test_ends(void **state) {
    (void)state;
    fore_pace p;
    fore_pace_init(&p);
    const double sure[4] = {-1, -1, -1, -1};
    fore_pace_round all = {.drafts = 4, .judged = 4, .accepted = 4, .heads = 4, .made = 4, .verify_seconds = 1.4, .draft_seconds = 0.2}, cut;
    memcpy(all.sure, sure, sizeof sure);
    cut = all;
    cut.judged = cut.accepted = 2;
    for (int i = 0; i < 500; i++) {
        fore_pace_learn(&p, &all);
        fore_pace_learn(&p, &cut);
    }
    for (int i = 0; i < FORE_DRAFT_MAX; i++) assert_true(p.accept[i] > 0.99);
    assert_int_equal(p.tries[1], 1000);
    assert_int_equal(p.tries[3], 500);
}

/* A head that knows which of its drafts are good: stopping at the first doubtful one is faster than any fixed depth. */
static void test_confidence(void **state) {
    (void)state;
    for (int n = 0; n < 2; n++) {
        double ratio = 0, blind = 0;
        int depth = 0;
        for (uint64_t seed = 0; seed < 20; seed++) {
            machine m = {.row = 0.3, .draft = 0.1, .noise = NOISES[n], .telling = true, .seed = 900 + seed};
            accept_all(&m, 0.6);
            double best = best_fixed(&m, &depth);
            fore_pace p;
            fore_pace_init(&p);
            go(&p, &m, 300);
            course c = go(&p, &m, 1000);
            ratio += c.tokens / c.seconds / best / 20;
            m.telling = false;
            fore_pace_init(&p);
            go(&p, &m, 300);
            c = go(&p, &m, 1000);
            blind += c.tokens / c.seconds / best / 20;
        }
        print_message("a telling head, noise %.1f: %.3f of the best fixed speed (depth %d); one that does not tell %.3f\n", NOISES[n], ratio, depth, blind);
        assert_true(ratio > (n ? 1.05 : 1.1) && blind > 0.95);
    }
}

/* What the head says of itself is not taken for true: here it is sure of nothing and always right. */
static void test_modest(void **state) {
    (void)state;
    fore_pace p;
    fore_pace_init(&p);
    fore_pace_learn(&p, &(fore_pace_round){.verify_seconds = 1});
    fore_pace_window w = {.most = FORE_DRAFT_MAX, .chance = 1};
    fore_pace_choose(&p, FORE_DRAFT_MAX, FORE_DRAFT_MAX, 0, 0);
    assert_false(fore_pace_keeps(&p, &w, 0.01));
    for (int i = 0; i < 30; i++) fore_pace_learn(&p, &(fore_pace_round){.made = 1, .sure = {0.01}, .dropped = 1, .verify_seconds = 1, .draft_seconds = 0.1});
    fore_pace_choose(&p, FORE_DRAFT_MAX, FORE_DRAFT_MAX, 0, 0);
    assert_true(fore_pace_keeps(&p, &w, 0.01));
    assert_true(p.accept[0] > 0.95 && p.tries[0] == 30);
    for (int i = 0; i < 30; i++) fore_pace_learn(&p, &(fore_pace_round){.made = 1, .sure = {0.99}, .dropped = -1, .verify_seconds = 1, .draft_seconds = 0.1});
    fore_pace_choose(&p, FORE_DRAFT_MAX, FORE_DRAFT_MAX, 0, 0);
    assert_false(fore_pace_keeps(&p, &w, 0.99));
}

/* An answer where a part of the rounds has look-ups by `match` tokens that are right with `share`; heads: with a head too. */
static course go_looking(fore_pace *p, machine *m, int tokens, double part, int match, double share, bool heads, int *used) {
    course c = {0};
    *used = 0;
    while (c.tokens < tokens) {
        int left = least(tokens - (int)c.tokens - 1, FORE_DRAFT_MAX), offered = chance(m) < part ? left : 0, good = 0;
        fore_pace_choice choice = fore_pace_choose(p, left, heads ? left : 0, offered, match);
        while (good < offered && chance(m) < share) good++;
        fore_pace_round r = {0};
        if (choice.lookups) {
            assert_true(choice.lookups <= offered && !choice.depth);
            r.drafts = r.judged = choice.lookups;
            r.accepted = least(good, choice.lookups);
            ++*used;
        } else if (choice.depth) {
            r = draw(p, m, left, choice);
        }
        for (int i = 0; i < offered && i <= r.accepted && i <= good; i++) fore_pace_judge_lookup(p, match + i, i < good);
        r.verify_seconds = pass(m, r.drafts + 1);
        r.draft_seconds = r.made * m->draft;
        fore_pace_learn(p, &r);
        c.tokens += r.accepted + 1;
        c.seconds += r.verify_seconds + r.draft_seconds;
        c.rounds++;
        c.drafting += r.drafts > 0;
    }
    return c;
}

static void test_lookups(void **state) {
    (void)state;
    int used;
    fore_pace p;
    machine m = {.row = 0.2, .draft = 0.2, .seed = 31};
    /* Good ones are used at once, also without a head; the rest of the rounds is plain. */
    fore_pace_init(&p);
    course c = go_looking(&p, &m, 2000, 0.5, 6, 0.95, false, &used);
    print_message("good look-ups in half of the rounds: %.2f of plain speed\n", c.tokens / c.seconds);
    assert_true(c.tokens / c.seconds > 1.7 && used > c.rounds * 0.4 && c.drafting == used);
    /* Bad ones are seen through, and cost next to nothing from then on. */
    fore_pace_init(&p);
    c = go_looking(&p, &m, 300, 1, 3, 0.02, false, &used);
    print_message("bad look-ups: %.3f of plain speed, %d of %d rounds used them\n", c.tokens / c.seconds, used, c.rounds);
    assert_true(c.tokens / c.seconds > 0.95 && used < 30);
    /* They get better: what is judged without being used tells. */
    c = go_looking(&p, &m, 1000, 1, 3, 0.9, false, &used);
    assert_true(c.tokens / c.seconds > 1.5);
    /* With a head each takes the rounds that it is better in. */
    fore_pace_init(&p);
    accept_all(&m, 0.8);
    go_looking(&p, &m, 300, 0.5, 9, 0.97, true, &used);
    c = go_looking(&p, &m, 2000, 0.5, 9, 0.97, true, &used);
    print_message("head and good look-ups: %.2f of plain speed, %d of %d rounds are look-ups\n", c.tokens / c.seconds, used, c.rounds);
    int depth;
    assert_true(used > c.rounds * 0.4 && c.drafting > c.rounds * 0.9 && c.tokens / c.seconds > best_fixed(&m, &depth) * 1.2);
    fore_pace_init(&p);
    accept_all(&m, 0.95);
    c = go_looking(&p, &m, 2000, 0.5, 2, 0.1, true, &used);
    assert_true(used < 20 && c.tokens / c.seconds > best_fixed(&m, &depth) * 0.93);
}

/* Look-ups behind the head's drafts: as many as add more than the rate asks for. */
static void test_extends(void **state) {
    (void)state;
    fore_pace p;
    fore_pace_init(&p);
    for (int r = 1; r <= FORE_DRAFT_MAX + 1; r++) p.verify[r] = 1 + 0.2 * (r - 1);
    p.rate = 1.5;
    fore_pace_window w = {.drafts = 2, .most = 6, .chance = 1};
    for (int i = 0; i < FORE_PACE_MATCH; i++) p.match[i] = 0.9;
    assert_int_equal(fore_pace_extends(&p, &w, 8, 3), 4); /* room for no more; 0.9^4 > 0.3 */
    assert_int_equal(fore_pace_extends(&p, &w, 2, 3), 2);
    w.chance = 0.4;
    assert_int_equal(fore_pace_extends(&p, &w, 8, 3), 2); /* 0.36, 0.32, then 0.29 */
    w.chance = 0.3;
    assert_int_equal(fore_pace_extends(&p, &w, 8, 3), 0);
    w = (fore_pace_window){.most = 4, .chance = 1};
    fore_pace_put(&p, &w, -1, 3);
    assert_true(w.drafts == 1 && fabs(w.chance - 0.9) < 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_up), cmocka_unit_test(test_goes_deep), cmocka_unit_test(test_jumps), cmocka_unit_test(test_dear_passes),
        cmocka_unit_test(test_adapts),   cmocka_unit_test(test_formula),   cmocka_unit_test(test_ends),
        cmocka_unit_test(test_busy),     cmocka_unit_test(test_confidence), cmocka_unit_test(test_modest), cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_extends),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
