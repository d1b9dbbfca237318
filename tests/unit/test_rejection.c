/* The rejection sampler draws from the target's distribution, whatever the drafts' distribution is, and accepts as many drafts as it
 * can: chi-square tests with fixed seeds on toy distributions, through the processors, and on the trained model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "decode/session.h"
#include "support/chance.h"

enum { VOCAB = 24, DRAWS = 200000 };

static double uniform(uint64_t seed, uint64_t at, uint32_t stream) { return ((double)fore_random_bits(seed, at, 0, stream) + 0.5) * 0x1p-32; }

static int32_t draw(const float *q, uint64_t seed, uint64_t at) {
    double u = uniform(seed, at, 777), sum = 0;
    int32_t last = -1;
    for (int i = 0; i < VOCAB; i++) {
        if (q[i] <= 0) continue;
        sum += (double)q[i];
        last = i;
        if (sum > u) break;
    }
    return last;
}

/* Random weights to the power of `peak` where the mask has its bit, adding up to 1. */
static void make(float *p, uint64_t seed, double peak, uint32_t mask) {
    double w[VOCAB], sum = 0;
    for (int i = 0; i < VOCAB; i++) {
        w[i] = mask >> i & 1 ? pow(uniform(seed, (uint64_t)i, 5), peak) : 0;
        sum += w[i];
    }
    for (int i = 0; i < VOCAB; i++) p[i] = (float)(w[i] / sum);
}

/* DRAWS tokens for a pair of distributions against p; accepted drafts against the sum of min(p, q). */
static void check_pair(const char *name, const float *p, const float *q, uint64_t seed) {
    static double pairs[VOCAB * VOCAB], pairs_expected[VOCAB * VOCAB];
    double counts[VOCAB] = {0}, expected[VOCAB], accepted = 0, could = 0;
    memset(pairs, 0, sizeof pairs);
    int32_t before = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        int32_t x = draw(q, seed, i);
        bool kept;
        int32_t y = fore_rejection_step(p, q, VOCAB, x, seed, i, &kept);
        assert_true(y >= 0 && y < VOCAB);
        if (kept) assert_int_equal(x, y);
        counts[y]++;
        accepted += kept;
        if (i % 2) pairs[before * VOCAB + y]++;
        before = y;
    }
    for (int i = 0; i < VOCAB; i++) {
        expected[i] = DRAWS * (double)p[i];
        could += fmin((double)p[i], (double)q[i]);
        for (int j = 0; j < VOCAB; j++) pairs_expected[i * VOCAB + j] = DRAWS / 2 * (double)p[i] * (double)p[j];
    }
    double z = chance_fit(counts, expected, VOCAB), z2 = chance_fit(pairs, pairs_expected, (size_t)VOCAB * VOCAB);
    double noise = sqrt(could * fmax(0, 1 - could) / DRAWS);
    print_message("%-24s tail %5.2f, of neighbours %5.2f; accepted %.4f, possible %.4f +- %.4f\n", name, z, z2, accepted / DRAWS, could, noise);
    assert_true(z < CHANCE_LIMIT && z2 < CHANCE_LIMIT);
    assert_true(fabs(accepted / DRAWS - could) <= 4 * noise + 1e-6);
}

static void test_distributions(void **state) {
    (void)state;
    const uint32_t all = (1u << VOCAB) - 1;
    float p[VOCAB], q[VOCAB];
    make(p, 1, 1, all);
    make(q, 2, 1, all);
    check_pair("p and q differ", p, q, 11);
    memset(q, 0, sizeof q);
    q[5] = 1;
    check_pair("q is one token", p, q, 10);
    make(p, 3, 4, all);
    make(q, 4, 4, all);
    check_pair("both peaked", p, q, 12);
    make(p, 5, 1, 0x000fff);
    make(q, 6, 1, 0xfff000);
    check_pair("disjoint supports", p, q, 13);
    make(p, 7, 1, all);
    make(q, 7, 1, 0x0000f3);
    check_pair("q truncated", p, q, 14);
    make(p, 8, 1, 0x0000f3);
    make(q, 8, 1, all);
    check_pair("p truncated", p, q, 15);
    make(p, 9, 1, 0x0ff0f0);
    make(q, 10, 1, 0x00fff3);
    check_pair("both truncated", p, q, 16);
    make(p, 11, 2, all);
    check_pair("p equals q", p, p, 17);
    for (int i = 0; i < VOCAB; i++) q[i] = nextafterf(p[i], i % 2 ? 1.0f : 0.0f);
    check_pair("equal but for rounding", p, q, 18);
    make(q, 12, 1, 1u << 9);
    check_pair("q is one token", p, q, 19);
    make(p, 12, 1, 1u << 9);
    make(q, 13, 1, all);
    check_pair("p is one token", p, q, 20);
}

static void test_pure(void **state) {
    (void)state;
    float p[VOCAB], q[VOCAB];
    make(p, 21, 1, ~0u);
    make(q, 22, 1, ~0u);
    int others = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        bool a, b, c;
        int32_t x = draw(q, 5, i), y = fore_rejection_step(p, q, VOCAB, x, 5, i, &a);
        others += y != fore_rejection_step(p, q, VOCAB, x, 6, i + 1, &b);
        assert_int_equal(y, fore_rejection_step(p, q, VOCAB, x, 5, i, &c));
        assert_int_equal(a, c);
    }
    assert_true(others > 500);
    /* Whatever the numbers, the draft is kept where q does not exceed p, and a token without probability never comes. */
    float one[VOCAB] = {[3] = 1}, two[VOCAB] = {[3] = 0.5f, [4] = 0.5f};
    for (uint64_t i = 0; i < 2000; i++) {
        bool kept;
        assert_int_equal(fore_rejection_step(one, two, VOCAB, 3, i, i, &kept), 3);
        assert_true(kept);
        assert_int_equal(fore_rejection_step(one, two, VOCAB, 4, i, i, &kept), 3);
        assert_false(kept);
    }
}

/* Draft and choice through the processors: p and q are what the same sampler leaves of both rows. */
static void test_processed(void **state) {
    (void)state;
    enum { N = 40000, USABLE = VOCAB - 2 };
    static const fore_logit_bias bias[] = {{2, -INFINITY}, {5, 1.5f}};
    static const fore_sampling settings[] = {
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 0.7f, .top_p = 1, .top_k = 4, .repetition_penalty = 1},
        {.temperature = 1.5f, .top_p = 0.8f, .repetition_penalty = 1.2f, .presence_penalty = 0.5f, .frequency_penalty = 0.25f},
        {.temperature = 1, .top_p = 0.95f, .min_p = 0.1f, .repetition_penalty = 1, .bias = bias, .bias_count = 2},
    };
    float target[VOCAB], head[VOCAB];
    for (int i = 0; i < VOCAB; i++) {
        target[i] = (float)(4 * uniform(31, (uint64_t)i, 1));
        head[i] = target[i] + (float)(2 * uniform(32, (uint64_t)i, 1) - 1);
    }
    target[USABLE] = head[USABLE + 1] = 50; /* rows that are never sampled */
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        fore_sampler *sampler = NULL;
        fore_rejection *r = NULL;
        fore_error err = {0};
        if (fore_sampler_new(&settings[k], VOCAB, USABLE, &sampler, &err) || fore_rejection_new(VOCAB, 40 + k, &r, &err)) fail_msg("%s", err.text);
        fore_sampler_count(sampler, 3, false);
        fore_sampler_count(sampler, 7, true);
        fore_sampler_count(sampler, 7, true);
        double counts[VOCAB] = {0}, expected[VOCAB] = {0}, sum = 0, accepted = 0;
        for (uint64_t i = 0; i < N; i++) {
            int depth = (int)(i % FORE_DRAFT_MAX);
            bool kept;
            int32_t x = fore_rejection_draft(r, sampler, NULL, head, depth, i), y = fore_rejection_choose(r, sampler, target, depth, i, x, &kept);
            assert_true(x >= 0 && x < USABLE && y >= 0 && y < USABLE);
            counts[y]++;
            accepted += kept;
        }
        fore_candidates c;
        fore_sampler_process(sampler, target, &c);
        for (int i = 0; i < c.count; i++) sum += expected[c.ids[i]] = exp((double)c.scores[c.ids[i]] - (double)c.scores[c.best]);
        for (int i = 0; i < VOCAB; i++) expected[i] *= N / sum;
        double z = chance_fit(counts, expected, VOCAB);
        print_message("settings %zu: %d candidates, tail %.2f, accepted %.3f\n", k, c.count, z, accepted / N);
        assert_true(c.count > 1 && z < CHANCE_LIMIT && accepted > 0 && accepted < N);
        fore_rejection_free(r);
        fore_sampler_free(sampler);
    }
    fore_rejection_free(NULL);
}

/* ---- the trained model ------------------------------------------------------------------------------------------- */

enum { PLACES = 4, KINDS = 2048 };
typedef struct sample {
    double counts[PLACES][KINDS];
    double accepted, drafted, lookups;
} sample;

/* Answers of PLACES tokens with `seeds` seeds from `first`; counts of the token at each place. */
static void collect(fore_session *s, fore_request *r, const fore_draft *how, uint64_t first, int seeds, sample *out) {
    memset(out, 0, sizeof *out);
    r->draft = *how;
    r->draft.sampler = FORE_SAMPLER_REJECTION;
    for (int i = 0; i < seeds; i++) {
        fore_error err = {0};
        fore_chunk c = {0};
        fore_stats stats;
        int n = 0;
        r->sampling.seed = first + (uint64_t)i;
        if (fore_session_begin(s, r, &err)) fail_msg("%s", err.text);
        while (c.finish == FORE_FINISH_NONE) {
            if (fore_session_next(s, &c, &err)) fail_msg("%s", err.text);
            for (size_t k = 0; k < c.id_count; k++) {
                assert_true(n < PLACES && c.ids[k] < KINDS);
                out->counts[n++][c.ids[k]]++;
            }
        }
        assert_int_equal(n, PLACES);
        fore_session_get_stats(s, &stats);
        out->accepted += (double)stats.draft[0].accepted[0];
        out->drafted += (double)stats.draft[0].drafted[0];
        out->lookups += (double)stats.lookups.drafted;
    }
}

static void compare(const char *name, const sample *base, const sample *other) {
    print_message("%s: first drafts accepted %.3f of %.0f, %.0f look-ups; tails", name, other->accepted / other->drafted, other->drafted, other->lookups);
    for (int place = 0; place < PLACES; place++) {
        double z = chance_same(base->counts[place], other->counts[place], KINDS);
        print_message(" %.2f", z);
        assert_true(z < CHANCE_LIMIT);
    }
    print_message("\n");
    assert_true(other->accepted > 0 && other->accepted < other->drafted);
}

/* Look-ups, whose distribution is one token; a head that has a part of the vocabulary; and depths that the pace chooses. */
static void test_sources(void **state) {
    (void)state;
    static const fore_draft ways[] = {{.depth = 0, .lookup = FORE_LOOKUP_ON}, {.depth = 2, .lookup = FORE_LOOKUP_ON}, {.depth = FORE_DRAFT_AUTO}, {.depth = 3}};
    static const char *const names[] = {"look-ups", "two drafts, look-ups", "auto", "three drafts"};
    fore_model *model = NULL;
    fore_session *session = NULL;
    fore_error err = {0};
    const fore_session_options o = {.threads = 1, .context = 64};
    const fore_model_options few = {.draft_head_bits = 4, .draft_vocabulary = 700};
    if (fore_model_open("models/tiny", &few, &model, &err) || fore_session_new(model, &o, &session, &err)) fail_msg("%s", err.text);
    assert_true(model->draft_head.rows.N > 700 && model->draft_head.rows.N < model->usable);
    fore_request r;
    fore_request_init(&r, model);
    r.prompt = "<|im_start|>user\nWrite frog frog frog frog frog frog frog frog frog";
    r.sampling = (fore_sampling){.temperature = 1.2f, .top_p = 0.9f, .top_k = 40, .repetition_penalty = 1};
    r.max_tokens = PLACES;
    r.ignore_eos = true;
    static sample base, other;
    collect(session, &r, &(fore_draft){.depth = 0}, 0, 1500, &base);
    for (int i = 0; i < 4; i++) {
        collect(session, &r, &ways[i], (uint64_t)(i + 50) * 1000000, 600, &other);
        compare(names[i], &base, &other);
        assert_true((other.lookups > 0) == (i < 3));
    }
    fore_session_free(session);
    fore_model_close(model);
}

static void test_model(void **state) {
    (void)state;
    fore_model *model = NULL;
    fore_session *session = NULL;
    fore_error err = {0};
    const fore_session_options o = {.threads = 1, .context = 64};
    if (fore_model_open("models/tiny", NULL, &model, &err) || fore_session_new(model, &o, &session, &err)) fail_msg("%s", err.text);
    fore_request r;
    fore_request_init(&r, model);
    r.prompt = "<|im_start|>user\nWrite frog";
    r.sampling = (fore_sampling){.temperature = 2.0f, .top_p = 0.9f, .top_k = 40, .repetition_penalty = 1.1f};
    r.max_tokens = PLACES;
    r.ignore_eos = true;
    static sample base, other;
    collect(session, &r, &(fore_draft){.depth = 0}, 0, 1000, &base);
    for (int depth = 1; depth <= FORE_DRAFT_MAX; depth++) {
        char name[16];
        snprintf(name, sizeof name, "depth %d", depth);
        collect(session, &r, &(fore_draft){.depth = depth}, (uint64_t)depth * 1000000, 300, &other);
        compare(name, &base, &other);
    }
    /* Drafts that come from no distribution are refused. */
    static const int32_t said[] = {1, 2, 3};
    const fore_draft refused[] = {{.depth = 2, .sampler = FORE_SAMPLER_REJECTION, .wrong = true},
                                  {.depth = 2, .sampler = FORE_SAMPLER_REJECTION, .replay = said, .replay_count = 3}};
    for (int i = 0; i < 2; i++) {
        r.draft = refused[i];
        assert_int_equal(fore_session_begin(session, &r, &err), FORE_ERR_INVALID);
        assert_non_null(strstr(err.text, "no distribution to reject by"));
    }
    fore_session_free(session);
    fore_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_distributions), cmocka_unit_test(test_pure), cmocka_unit_test(test_processed), cmocka_unit_test(test_model),
                                       cmocka_unit_test(test_sources)};
    return cmocka_run_group_tests_name("rejection", tests, NULL, NULL);
}
