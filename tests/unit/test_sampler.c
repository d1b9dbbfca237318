/* The sampler: kept sets and scores against transformers' processors, draws against the softmax, and the promises: a
 * draw depends on nothing but the row, the position and the counts; ties, NaN and rows without a choice are defined. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/random.h"
#include "decode/sampler.h"

static const fore_sampling plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};

static fore_sampler *make(const fore_sampling *set, int vocab, int usable) {
    fore_sampler *s = NULL;
    fore_error err = {0};
    fore_status status = fore_sampler_new(set, vocab, usable, &s, &err);
    if (status) print_error("%s\n", err.text);
    assert_int_equal(status, FORE_OK);
    return s;
}

static uint32_t counter;
static uint32_t below(uint32_t n) {
    return fore_random_bits(3, 0, counter++, 9) % n;
}
static float normal_like(void) { /* sum of four uniforms, scaled to about a standard deviation of 2 */
    float x = 0;
    for (int i = 0; i < 4; i++) x += (float)below(10000) / 10000 - 0.5f;
    return x * 3.5f;
}

/* ---- against transformers ---------------------------------------------------------------------------------------- */

static const unsigned char *take(const unsigned char **at, size_t size, const unsigned char *end) {
    assert_true(size <= (size_t)(end - *at));
    const unsigned char *p = *at;
    *at += size;
    return p;
}

static void kept_sets_of_the_reference(void **state) {
    (void)state;
    fore_map map;
    fore_error err;
    assert_int_equal(fore_map_open(FORE_DATA "/sampling/cases.bin", &map, &err), FORE_OK);
    const unsigned char *at = map.data, *end = map.data + map.size;
    assert_memory_equal(take(&at, 4, end), "SAMP", 4);
    int32_t cases;
    memcpy(&cases, take(&at, 4, end), 4);
    assert_int_equal(cases, 400);
    double worst = 0;
    for (int c = 0; c < cases; c++) {
        int32_t head[6];
        float real[6];
        memcpy(head, take(&at, sizeof head, end), sizeof head);
        memcpy(real, take(&at, sizeof real, end), sizeof real);
        int V = head[0];
        fore_sampling set = {.temperature = real[0],
                             .top_k = head[1],
                             .top_p = real[1],
                             .min_p = real[2],
                             .repetition_penalty = real[3],
                             .presence_penalty = real[4],
                             .frequency_penalty = real[5]};
        int said = head[2] + head[3];
        int32_t ids[80];
        assert_true(said <= 80 && head[4] <= 8);
        memcpy(ids, take(&at, (size_t)said * 4, end), (size_t)said * 4);
        fore_logit_bias bias[8];
        for (int i = 0; i < head[4]; i++) {
            memcpy(&bias[i].id, take(&at, 4, end), 4);
            memcpy(&bias[i].bias, take(&at, 4, end), 4);
        }
        set.bias = bias;
        set.bias_count = (size_t)head[4];
        const unsigned char *packed = take(&at, (size_t)V * 2, end);
        float logits[700];
        for (int i = 0; i < V; i++) {
            int16_t v;
            memcpy(&v, packed + 2 * i, 2);
            logits[i] = (float)v / 256;
        }
        const unsigned char *kept = take(&at, (size_t)head[5] * 4, end), *scores = take(&at, (size_t)head[5] * 4, end);

        fore_sampler *s = make(&set, V, V);
        for (int i = 0; i < said; i++) fore_sampler_count(s, ids[i], i >= head[2]);
        fore_candidates got;
        fore_sampler_process(s, logits, &got);
        assert_int_equal(got.count, head[5]);
        for (int i = 0; i < got.count; i++) {
            int32_t id;
            float score;
            memcpy(&id, kept + 4 * i, 4);
            memcpy(&score, scores + 4 * i, 4);
            assert_int_equal(got.ids[i], id);
            double d = fabs((double)got.scores[id] - (double)score) / fmax(1, fabs((double)score));
            if (d > worst) worst = d;
        }
        fore_sampler_free(s);
    }
    assert_true(at == end);
    assert_true(worst <= 1e-6);
    fore_map_close(&map);
}

/* ---- hand-made rows ---------------------------------------------------------------------------------------------- */

static int kept(const fore_sampling *set, const float *row, int n, int32_t *ids) {
    fore_sampler *s = make(set, n, n);
    fore_candidates c;
    fore_sampler_process(s, row, &c);
    for (int i = 0; i < c.count; i++) ids[i] = c.ids[i];
    int count = c.count;
    fore_sampler_free(s);
    return count;
}

static void ties(void **state) {
    (void)state;
    int32_t ids[8];
    float row[6] = {1, 3, 2, 2, 3, 2};
    fore_sampling set = plain;
    set.top_k = 3; /* ties with the third stay */
    assert_int_equal(kept(&set, row, 6, ids), 5);
    assert_int_equal(ids[0], 1);
    set.top_k = 2;
    assert_int_equal(kept(&set, row, 6, ids), 2);
    float equal[4] = {0, 0, 0, 0};
    set = plain;
    set.top_p = 0.5f; /* exactly two of four reach a half: the lower ids */
    assert_int_equal(kept(&set, equal, 4, ids), 2);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], 1);
    set.top_p = 0.51f;
    assert_int_equal(kept(&set, equal, 4, ids), 3);
    assert_int_equal(ids[2], 2);
    set.top_p = 1e-9f;
    assert_int_equal(kept(&set, equal, 4, ids), 1);
    assert_int_equal(ids[0], 0);
    set = plain;
    set.min_p = 1; /* only what ties with the best */
    assert_int_equal(kept(&set, row, 6, ids), 2);
    assert_int_equal(ids[1], 4);
}

static const float *sort_row;
static int by_score_then_id(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (sort_row[x] != sort_row[y]) return sort_row[x] > sort_row[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

/* Top-p against a full sort, on rows with many ties, both zeros, one magnitude or all of them, and tokens of no weight.
 */
static void top_p_equals_a_full_sort(void **state) {
    (void)state;
    enum { V = 400 };
    static float row[V];
    static int32_t order[V], ids[V];
    sort_row = row;
    for (int round = 0; round < 300; round++) {
        int kind = round % 5;
        for (int i = 0; i < V; i++) {
            float x = normal_like();
            row[i] = kind == 0   ? x
                     : kind == 1 ? roundf(x)
                     : kind == 2 ? 1000 + x * 0.01f
                     : kind == 3 ? x * x * x * x * x
                                 : (below(2) ? 0.0f : -0.0f) + (below(9) ? 0 : 1e-30f * x);
            order[i] = i;
        }
        fore_sampling set = plain;
        set.top_p = (float)(1 + below(999)) / 1000 + 1e-5f;
        qsort(order, V, sizeof *order, by_score_then_id);
        double total = 0, sum = 0;
        for (int i = 0; i < V; i++) total += exp((double)row[i] - (double)row[order[0]]);
        int want = 0;
        bool in[V] = {false};
        while (want < V && sum < (double)set.top_p * total) {
            sum += exp((double)row[order[want]] - (double)row[order[0]]);
            in[order[want++]] = true;
        }
        int got = kept(&set, row, V, ids);
        assert_int_equal(got, want);
        for (int i = 0; i < got; i++) assert_true(in[ids[i]]);
    }
}

static int32_t choose_once(const fore_sampling *set, const float *row, int vocab, int usable) {
    float copy[16];
    memcpy(copy, row, (size_t)vocab * sizeof *row);
    fore_sampler *s = make(set, vocab, usable);
    int32_t id = fore_sampler_choose(s, row, 5);
    fore_sampler_free(s);
    assert_memory_equal(copy, row, (size_t)vocab * sizeof *row);
    return id;
}

static void greedy_and_rows_without_a_choice(void **state) {
    (void)state;
    fore_sampling greedy = plain;
    greedy.temperature = 0;
    float tie[5] = {NAN, 1, 7, 7, NAN};
    assert_int_equal(choose_once(&greedy, tie, 5, 5), 2);
    float padded[4] = {1, 2, 9, 9};
    assert_int_equal(choose_once(&greedy, padded, 4, 2), 1);
    float infinite[4] = {1, INFINITY, 3, INFINITY};
    float none[3] = {-INFINITY, NAN, -INFINITY};
    float single[3] = {-INFINITY, NAN, -5};
    for (int i = 0; i < 3; i++) {
        fore_sampling set = i == 0 ? greedy : plain;
        if (i == 2) {
            set.top_k = 2;
            set.top_p = 0.9f;
            set.min_p = 0.1f;
        }
        assert_int_equal(choose_once(&set, infinite, 4, 4), 1);
        assert_int_equal(choose_once(&set, none, 3, 3), 0);
        assert_int_equal(choose_once(&set, single, 3, 3), 2);
    }
    fore_sampling cold = plain; /* 5 / 1e-38 overflows */
    cold.temperature = 1e-38f;
    float row[3] = {5, 6, 5.5f};
    assert_int_equal(choose_once(&cold, row, 3, 3), 1);
    float extreme[3] = {-FLT_MAX, FLT_MAX, 0};
    assert_int_equal(choose_once(&plain, extreme, 3, 3), 1);
    fore_logit_bias ban[2] = {{1, -INFINITY}, {2, -100}};
    greedy.bias = ban;
    greedy.bias_count = 2;
    assert_int_equal(choose_once(&greedy, row, 3, 3), 0);
}

static void penalties_by_hand(void **state) {
    (void)state;
    fore_sampling set = {
        .temperature = 0.5f, .top_p = 1, .repetition_penalty = 2, .presence_penalty = 0.25f, .frequency_penalty = 0.5f};
    float row[5] = {4, -4, 4, 4, 1};
    fore_sampler *s = make(&set, 5, 5);
    fore_sampler_count(s, 0, false);
    fore_sampler_count(s, 0, false);
    fore_sampler_count(s, 1, true);
    fore_sampler_count(s, 2, true);
    fore_sampler_count(s, 2, true);
    fore_sampler_count(s, 2, true);
    fore_sampler_count(s, 99, true);
    fore_sampler_count(s, -1, false);
    fore_candidates c;
    fore_sampler_process(s, row, &c);
    assert_int_equal(c.count, 5);
    const float want[5] = {2 * 2, (-8 - 0.25f - 0.5f) * 2, (2 - 0.25f - 1.5f) * 2, 8, 2};
    assert_memory_equal(c.scores, want, sizeof want);
    fore_sampler_uncount(s, 2, true);
    fore_sampler_uncount(s, 0, false);
    fore_sampler_uncount(s, 1, true);
    fore_sampler_uncount(s, 1, true); /* none left: nothing */
    fore_sampler_uncount(s, 4, false);
    fore_sampler_process(s, row, &c);
    const float fewer[5] = {2 * 2, -8, (2 - 0.25f - 1.0f) * 2, 8, 2};
    assert_memory_equal(c.scores, fewer, sizeof fewer);
    fore_sampler_free(s);
}

/* Counting and taking back in any order leaves the sampler as one that never counted. */
static void uncount_is_exact(void **state) {
    (void)state;
    enum { V = 50 };
    fore_sampling set = {
        .temperature = 1, .top_p = 1, .repetition_penalty = 1.3f, .presence_penalty = 0.4f, .frequency_penalty = 0.2f};
    fore_sampler *s = make(&set, V, V), *other = make(&set, V, V);
    int counts[2][V] = {{0}};
    float row[V];
    for (int i = 0; i < V; i++) row[i] = normal_like();
    for (int step = 0; step < 3000; step++) {
        uint32_t id = below(V), answer = below(2);
        if (counts[answer][id] > 0 && below(100) < 55) {
            fore_sampler_uncount(s, (int32_t)id, answer);
            counts[answer][id]--;
        } else {
            fore_sampler_count(s, (int32_t)id, answer);
            counts[answer][id]++;
        }
    }
    for (int a = 0; a < 2; a++)
        for (int32_t id = 0; id < V; id++)
            for (int i = 0; i < counts[a][id]; i++) fore_sampler_count(other, id, a);
    fore_candidates x, y;
    fore_sampler_process(s, row, &x);
    fore_sampler_process(other, row, &y);
    assert_memory_equal(x.scores, y.scores, sizeof row);
    for (int a = 0; a < 2; a++)
        for (int32_t id = 0; id < V; id++)
            for (int i = 0; i < counts[a][id]; i++) fore_sampler_uncount(s, id, a);
    fore_sampler_process(s, row, &x);
    assert_memory_equal(x.scores, row, sizeof row);
    fore_sampler_free(s);
    fore_sampler_free(other);
}

/* ---- the noise and the draw -------------------------------------------------------------------------------------- */

static void noise_is_gumbel(void **state) {
    (void)state;
    double worst = 0;
    float before = 1e9f;
    for (int i = 0; i < 200000; i++) {
        /* dense at both ends and at the seam of the two halves, then all over */
        uint32_t bits = i < 1000   ? (uint32_t)i
                        : i < 2000 ? UINT32_MAX - (uint32_t)(i - 1000)
                        : i < 4000 ? 0x80000000u + (uint32_t)(i - 3000)
                                   : (uint32_t)(i - 4000) * 21913u;
        double v = ((double)bits + 0.5) * 0x1p-32, want = -log(-log1p(-v));
        double d = fabs((double)fore_gumbel(bits) - want);
        if (d / fmax(1, fabs(want)) > worst) worst = d / fmax(1, fabs(want));
    }
    assert_true(worst < 5e-7);
    for (uint32_t i = 0; i < 64; i++) { /* the highest values are all different */
        float g = fore_gumbel(i);
        assert_true(g < before && g < 23);
        before = g;
    }
    assert_true(fore_gumbel(0) > 22.8f && fore_gumbel(UINT32_MAX) > -3.14f && fore_gumbel(UINT32_MAX) < -3.12f);
}

/* 40 tokens, 40,000 positions. 99.9 % of chi-square with 39 degrees is 72.1; tokens expected less than 5 times are one
 * bin. */
static void draws_follow_the_softmax(void **state) {
    (void)state;
    enum { V = 40, DRAWS = 40000 };
    for (int round = 0; round < 4; round++) {
        fore_sampling set = plain;
        set.seed = 1000 + (uint64_t)round;
        if (round == 1) set.temperature = 0.5f;
        if (round == 2) set.top_p = 0.8f;
        if (round == 3) set.top_k = 10;
        float row[V];
        for (int i = 0; i < V; i++) row[i] = normal_like();
        fore_sampler *s = make(&set, V, V);
        fore_candidates c;
        fore_sampler_process(s, row, &c);
        double p[V] = {0}, total = 0;
        for (int i = 0; i < c.count; i++) total += p[c.ids[i]] = exp((double)c.scores[c.ids[i]]);
        int seen[V] = {0};
        for (uint64_t at = 0; at < DRAWS; at++) seen[fore_sampler_choose(s, row, at)]++;
        double chi = 0, rare = 0, rare_seen = 0;
        for (int i = 0; i < V; i++) {
            double want = p[i] / total * DRAWS;
            if (p[i] == 0)
                assert_int_equal(seen[i], 0);
            else if (want < 5) {
                rare += want;
                rare_seen += seen[i];
            } else
                chi += (seen[i] - want) * (seen[i] - want) / want;
        }
        if (rare > 1) chi += (rare_seen - rare) * (rare_seen - rare) / rare;
        assert_true(chi < 72.1);
        fore_sampler_free(s);
    }
}

/* A flat row of the full vocabulary: the noise alone decides, 248,320 different values. 64 bins, 99.9 % is 104.0 (63).
 */
static void flat_rows_are_drawn_evenly(void **state) {
    (void)state;
    enum { V = 248320, BINS = 64, DRAWS = 640 };
    float *row = calloc(V, sizeof *row);
    assert_non_null(row);
    fore_sampling set = plain;
    set.seed = 42;
    fore_sampler *s = make(&set, V, V);
    int bins[BINS] = {0};
    for (uint64_t at = 0; at < DRAWS; at++) bins[fore_sampler_choose(s, row, at) / (V / BINS)]++;
    double chi = 0, want = (double)DRAWS / BINS;
    for (int i = 0; i < BINS; i++) chi += (bins[i] - want) * (bins[i] - want) / want;
    assert_true(chi < 104.0);
    fore_sampler_free(s);
    free(row);
}

/* Same row, position and counts: same token, whatever was asked before and with the logits shifted in memory. */
static void a_draw_is_pure(void **state) {
    (void)state;
    enum { V = 300, ROWS = 24 };
    fore_sampling set = {.temperature = 0.8f,
                         .top_k = 50,
                         .top_p = 0.95f,
                         .min_p = 0.01f,
                         .repetition_penalty = 1.1f,
                         .presence_penalty = 0.2f,
                         .seed = 0xfedcba9876543210u};
    static float rows[ROWS][V];
    int32_t first[ROWS];
    fore_sampler *s = make(&set, V + 5, V);
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < V; i++) rows[r][i] = normal_like();
    }
    static float padded[V + 6];
    for (int r = 0; r < ROWS; r++) {
        memcpy(padded, rows[r], sizeof rows[r]);
        for (int i = V; i < V + 5; i++) padded[i] = 1e9f; /* unusable ids, whatever they hold */
        first[r] = fore_sampler_choose(s, padded, (uint64_t)r << 33);
        assert_true(first[r] >= 0 && first[r] < V);
    }
    fore_sampler *other = make(&set, V + 5, V);
    int differ = 0;
    for (int r = ROWS - 1; r >= 0; r--) {
        fore_sampler_count(other, r, true); /* provisional */
        memcpy(padded + 1, rows[r], sizeof rows[r]);
        fore_sampler_choose(other, padded + 1, 3);
        fore_sampler_uncount(other, r, true);
        assert_int_equal(fore_sampler_choose(other, padded + 1, (uint64_t)r << 33), first[r]);
        differ += fore_sampler_choose(other, padded + 1, ((uint64_t)r << 33) + 1) != first[r];
    }
    assert_true(differ > 0); /* the position does matter */
    fore_sampler_free(s);
    fore_sampler_free(other);
    set.seed ^= (uint64_t)1 << 60;
    s = make(&set, V, V);
    differ = 0;
    for (int r = 0; r < ROWS; r++) differ += fore_sampler_choose(s, rows[r], (uint64_t)r << 33) != first[r];
    assert_true(differ > 0); /* and the seed */
    fore_sampler_free(s);
}

/* The shortcuts for tokens that cannot win give what all noises give, for flat rows and for peaked ones. */
static void skipping_changes_nothing(void **state) {
    (void)state;
    enum { V = 2000 };
    static float row[V];
    fore_sampling set = plain;
    set.seed = 8;
    fore_sampler *s = make(&set, V, V);
    for (uint64_t at = 0; at < 100; at++) {
        for (int i = 0; i < V; i++) row[i] = normal_like() * (float)(at % 5) * 2;
        float best = -INFINITY, value = -INFINITY;
        int32_t want = 0;
        for (int i = 0; i < V; i++) best = fmaxf(best, row[i]);
        for (int i = 0; i < V; i++) {
            float v = (row[i] - best) + fore_gumbel(fore_random_bits(8, at, (uint32_t)i, 0));
            if (v > value) {
                value = v;
                want = i;
            }
        }
        assert_int_equal(fore_sampler_choose(s, row, at), want);
    }
    fore_sampler_free(s);
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void bad_settings_are_named(void **state) {
    (void)state;
    fore_sampler *s;
    fore_error err;
    const struct {
        size_t at;
        float bad[4];
        const char *text;
    } cases[] = {
        {offsetof(fore_sampling, temperature),
         {-1, INFINITY, NAN, -0.001f},
         "temperature: expected 0 (greedy) or a positive"},
        {offsetof(fore_sampling, top_p), {0, 1.01f, NAN, -1}, "top_p: expected more than 0, at most 1"},
        {offsetof(fore_sampling, min_p), {-0.1f, 1.5f, NAN, INFINITY}, "min_p: expected 0 (off) to 1"},
        {offsetof(fore_sampling, repetition_penalty),
         {0, -1, INFINITY, NAN},
         "repetition_penalty: expected a positive"},
        {offsetof(fore_sampling, presence_penalty), {-2.1f, 3, NAN, INFINITY}, "presence_penalty: expected -2 to 2"},
        {offsetof(fore_sampling, frequency_penalty), {-2.1f, 3, NAN, INFINITY}, "frequency_penalty: expected -2 to 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int j = 0; j < 4; j++) {
            fore_sampling set = plain;
            memcpy((char *)&set + cases[i].at, &cases[i].bad[j], sizeof(float));
            assert_int_equal(fore_sampler_new(&set, 10, 10, &s, &err), FORE_ERR_INVALID);
            assert_null(s);
            assert_int_equal(err.code, FORE_ERR_INVALID);
            assert_non_null(strstr(err.text, cases[i].text));
        }
    fore_sampling set = plain;
    set.temperature = -1;
    assert_int_equal(fore_sampler_new(&set, 10, 10, &s, &err), FORE_ERR_INVALID);
    assert_string_equal(err.text, "sampling: temperature: expected 0 (greedy) or a positive number, found -1");
    set = plain;
    set.top_k = -1;
    assert_int_equal(fore_sampler_new(&set, 10, 10, &s, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "top_k"));
    fore_logit_bias bias[2] = {{3, 1}, {10, 1}};
    set = plain;
    set.bias = bias;
    set.bias_count = 2;
    assert_int_equal(fore_sampler_new(&set, 12, 10, &s, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "token ids from 0 to 9, found 10"));
    bias[1].id = 3;
    assert_int_equal(fore_sampler_new(&set, 12, 10, &s, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "token 3 is given twice"));
    bias[1] = (fore_logit_bias){4, NAN};
    assert_int_equal(fore_sampler_new(&set, 12, 10, &s, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "logit_bias of token 4"));
    assert_int_equal(fore_sampler_new(&plain, 10, 0, &s, &err), FORE_ERR_INVALID);
    assert_int_equal(fore_sampler_new(&plain, 10, 11, &s, &err), FORE_ERR_INVALID);
    fore_sampler_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_of_the_reference),
        cmocka_unit_test(ties),
        cmocka_unit_test(top_p_equals_a_full_sort),
        cmocka_unit_test(greedy_and_rows_without_a_choice),
        cmocka_unit_test(penalties_by_hand),
        cmocka_unit_test(uncount_is_exact),
        cmocka_unit_test(noise_is_gumbel),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(flat_rows_are_drawn_evenly),
        cmocka_unit_test(a_draw_is_pure),
        cmocka_unit_test(skipping_changes_nothing),
        cmocka_unit_test(bad_settings_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
