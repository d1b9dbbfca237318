/* The sampler; see sampler.h. Mirrors transformers' RepetitionPenalty, Temperature, TopK, TopP and MinP processors in
 * that order, with OpenAI's presence and frequency penalties between. Every sum has a fixed order and exp and log are
 * those of the kernels, so a row gives the same token on every machine. Nothing sorts the vocabulary. */
#include "decode/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "kernels/kern.h"

enum { SAMPLE_STREAM = 0 };

struct fore_sampler {
    fore_sampling set; /* bias: NULL, see below */
    int usable;
    float *scores;   /* [usable] by id */
    int32_t *ids;    /* [usable] candidates, increasing */
    float *weights;  /* [usable] exp(score - best) of ids[i]; also the k largest scores while top-k looks for them */
    int32_t *span;   /* [usable] indexes of ids, while top-p looks for its border */
    int32_t *biased; /* [biased_count] ids */
    int biased_count;
    float *bias; /* [usable] by id, NaN: none; NULL without biases */
    /* Counts by id and the list of ids with a count, so that a row costs what was said and not the vocabulary.
     * NULL when no penalty is on. */
    uint32_t *prompt, *answer; /* [usable] */
    int32_t *counted;          /* [usable] ids with a count, any order */
    int32_t *slot;             /* [usable] index in counted */
    int counted_count;
};

fore_status fore_sampling_check(const fore_sampling *s, int usable, fore_error *err) {
    const struct {
        const char *name;
        float value;
        bool good;
        const char *range;
    } rules[] = {
        {"temperature", s->temperature, s->temperature >= 0 && s->temperature <= FLT_MAX,
         "0 (greedy) or a positive number"},
        {"top_p", s->top_p, s->top_p > 0 && s->top_p <= 1, "more than 0, at most 1 (off)"},
        {"min_p", s->min_p, s->min_p >= 0 && s->min_p <= 1, "0 (off) to 1"},
        {"repetition_penalty", s->repetition_penalty, s->repetition_penalty > 0 && s->repetition_penalty <= FLT_MAX,
         "a positive number (1: off)"},
        {"presence_penalty", s->presence_penalty, s->presence_penalty >= -2 && s->presence_penalty <= 2,
         "-2 to 2 (0: off)"},
        {"frequency_penalty", s->frequency_penalty, s->frequency_penalty >= -2 && s->frequency_penalty <= 2,
         "-2 to 2 (0: off)"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!rules[i].good)
            return fore_fail(err, FORE_ERR_INVALID, "sampling: %s: expected %s, found %g", rules[i].name,
                             rules[i].range, (double)rules[i].value);
    if (s->top_k < 0)
        return fore_fail(err, FORE_ERR_INVALID, "sampling: top_k: expected 0 (off) or a positive number, found %d",
                         s->top_k);
    if (s->bias_count && !s->bias)
        return fore_fail(err, FORE_ERR_INVALID, "sampling: logit_bias: a count of %zu without a list", s->bias_count);
    for (size_t i = 0; i < s->bias_count; i++) {
        if (s->bias[i].id < 0 || s->bias[i].id >= usable)
            return fore_fail(err, FORE_ERR_INVALID, "sampling: logit_bias: expected token ids from 0 to %d, found %d",
                             usable - 1, (int)s->bias[i].id);
        if (!(s->bias[i].bias <= FLT_MAX))
            return fore_fail(err, FORE_ERR_INVALID, "sampling: logit_bias of token %d: expected a number, found %g",
                             (int)s->bias[i].id, (double)s->bias[i].bias);
    }
    return FORE_OK;
}

static fore_status take_bias(fore_sampler *s, const fore_sampling *settings, fore_error *err) {
    if (!settings->bias_count) return FORE_OK;
    for (int i = 0; i < s->usable; i++) s->bias[i] = NAN;
    for (size_t i = 0; i < settings->bias_count; i++) {
        int32_t id = settings->bias[i].id;
        if (!isnan(s->bias[id]))
            return fore_fail(err, FORE_ERR_INVALID,
                             "sampling: logit_bias: token %d is given twice; give one bias for it", (int)id);
        s->bias[id] = settings->bias[i].bias;
        s->biased[s->biased_count++] = id;
    }
    return FORE_OK;
}

fore_status fore_sampler_new(const fore_sampling *settings, int vocab, int usable, fore_sampler **out,
                             fore_error *err) {
    *out = NULL;
    if (usable < 1 || usable > vocab)
        return fore_fail(err, FORE_ERR_INVALID, "sampling: expected 1 to %d usable tokens, found %d", vocab, usable);
    fore_status status = fore_sampling_check(settings, usable, err);
    if (status) return status;
    fore_sampler *s = calloc(1, sizeof *s);
    if (!s) return fore_fail_nomem(err, "the sampler");
    s->set = *settings;
    s->set.bias = NULL;
    s->set.bias_count = 0;
    s->usable = usable;
    size_t n = (size_t)usable;
    bool penalties =
        settings->repetition_penalty != 1 || settings->presence_penalty != 0 || settings->frequency_penalty != 0;
    s->scores = malloc(n * sizeof *s->scores);
    s->ids = malloc(n * sizeof *s->ids);
    s->weights = malloc(n * sizeof *s->weights);
    s->span = malloc(n * sizeof *s->span);
    bool good = s->scores && s->ids && s->weights && s->span;
    if (good && settings->bias_count) {
        s->biased = malloc(n * sizeof *s->biased);
        s->bias = malloc(n * sizeof *s->bias);
        good = s->biased && s->bias;
    }
    if (good && penalties) {
        s->prompt = calloc(n, sizeof *s->prompt);
        s->answer = calloc(n, sizeof *s->answer);
        s->counted = malloc(n * sizeof *s->counted);
        s->slot = malloc(n * sizeof *s->slot);
        good = s->prompt && s->answer && s->counted && s->slot;
    }
    status = good ? take_bias(s, settings, err) : fore_fail_nomem(err, "the sampler");
    if (status)
        fore_sampler_free(s);
    else
        *out = s;
    return status;
}

void fore_sampler_free(fore_sampler *sampler) {
    if (!sampler) return;
    free(sampler->scores);
    free(sampler->ids);
    free(sampler->weights);
    free(sampler->span);
    free(sampler->biased);
    free(sampler->bias);
    free(sampler->prompt);
    free(sampler->answer);
    free(sampler->counted);
    free(sampler->slot);
    free(sampler);
}

void fore_sampler_count(fore_sampler *s, int32_t id, bool answer) {
    if (!s->counted || id < 0 || id >= s->usable) return;
    if (!s->prompt[id] && !s->answer[id]) {
        s->slot[id] = s->counted_count;
        s->counted[s->counted_count++] = id;
    }
    (answer ? s->answer : s->prompt)[id]++;
}

void fore_sampler_uncount(fore_sampler *s, int32_t id, bool answer) {
    if (!s->counted || id < 0 || id >= s->usable) return;
    uint32_t *count = (answer ? s->answer : s->prompt) + id;
    if (!*count) return;
    --*count;
    if (s->prompt[id] || s->answer[id]) return;
    int32_t last = s->counted[--s->counted_count];
    s->counted[s->slot[id]] = last;
    s->slot[last] = s->slot[id];
}

/* ---- processors -------------------------------------------------------------------------------------------------- */

/* One score with bias and penalties, before the temperature. */
static float adjust(const fore_sampler *s, float score, int32_t id) {
    if (s->bias && !isnan(s->bias[id])) score += s->bias[id];
    if (!s->counted || (!s->prompt[id] && !s->answer[id])) return score;
    score = score < 0 ? score * s->set.repetition_penalty : score / s->set.repetition_penalty;
    if (s->answer[id]) {
        score -= s->set.presence_penalty;
        score -= s->set.frequency_penalty * (float)s->answer[id];
    }
    return score;
}

static int32_t id_at(const fore_subset *some, int place) { return some ? some->ids[place] : place; }

/* Bias and penalties of one id, when the row has it. */
static void adjust_at(fore_sampler *s, const fore_subset *some, const float *logits, int32_t id, float temperature) {
    int place = some ? some->places[id] : id;
    if (place >= 0) s->scores[place] = adjust(s, logits[place], id) / temperature;
}

/* A vocabulary goes through in blocks: the compiler makes vectors of loops of constant length. */
enum { BLOCK = 16 };

static void divide(float *y, const float *x, int n, float by) {
    int i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++) y[i + j] = x[i + j] / by;
    for (; i < n; i++) y[i] = x[i] / by;
}

/* The largest of x, where NaN becomes minus infinity. */
static float largest(float *x, int n) {
    float most[BLOCK], best = -INFINITY;
    for (int j = 0; j < BLOCK; j++) most[j] = -INFINITY;
    int i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++) {
            float v = x[i + j];
            v = v >= -INFINITY ? v : -INFINITY;
            x[i + j] = v;
            most[j] = v > most[j] ? v : most[j];
        }
    for (; i < n; i++) {
        if (isnan(x[i])) x[i] = -INFINITY;
        best = x[i] > best ? x[i] : best;
    }
    for (int j = 0; j < BLOCK; j++) best = most[j] > best ? most[j] : best;
    return best;
}

/* Whether a block has a value of at least `limit`. */
static bool reaches(const float *x, float limit) {
    int any = 0;
    for (int j = 0; j < BLOCK; j++) any |= x[j] >= limit;
    return any != 0;
}

/* The first i from `from` on, i < n, with x[i] >= limit; n: there is none. */
static int next_at_least(const float *x, int from, int n, float limit) {
    int i = from;
    for (; i < n && i % BLOCK; i++)
        if (x[i] >= limit) return i;
    while (i + BLOCK <= n && !reaches(x + i, limit)) i += BLOCK;
    while (i < n && !(x[i] >= limit)) i++;
    return i;
}

/* Fills scores (NaN becomes minus infinity) and returns the best place, the lowest id on ties. */
static int32_t score_row(fore_sampler *s, const fore_subset *some, const float *logits, float temperature) {
    float *scores = s->scores;
    int n = some ? some->count : s->usable;
    if (temperature == 1) memcpy(scores, logits, (size_t)n * sizeof *scores);
    else divide(scores, logits, n, temperature);
    for (int i = 0; i < s->biased_count; i++) adjust_at(s, some, logits, s->biased[i], temperature);
    for (int i = 0; i < s->counted_count; i++) adjust_at(s, some, logits, s->counted[i], temperature);
    float best = largest(scores, n);
    int at = next_at_least(scores, 0, n, best);
    if (some)
        for (int i = at; i < n; i = next_at_least(scores, i + 1, n, best))
            if (some->ids[i] < some->ids[at]) at = i;
    return at;
}

static void sift_smallest(float *heap, int n, int at) {
    float value = heap[at];
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (!(heap[child] < value)) break;
        heap[at] = heap[child];
    }
    heap[at] = value;
}

/* The k-th largest of x[0..n), 1 <= k <= n: a heap of the k largest so far, its smallest on top. heap: k floats. */
static float kth_largest(const float *x, int n, int k, float *heap) {
    memcpy(heap, x, (size_t)k * sizeof *heap);
    for (int i = k / 2 - 1; i >= 0; i--) sift_smallest(heap, k, i);
    for (int i = next_at_least(x, k, n, heap[0]); i < n; i = next_at_least(x, i + 1, n, heap[0])) {
        if (!(x[i] > heap[0])) continue;
        heap[0] = x[i];
        sift_smallest(heap, k, 0);
    }
    return heap[0];
}

/* Unsigned keys in the order of finite floats; both zeros are one. */
static uint32_t order_key(float x) {
    uint32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Keeps the candidates in order of score (ties: lower id first) until their weights reach top_p of all. transformers
 * adds up from the other end and drops while the sum is <= 1 - p: the same set. Instead of sorting, the weights are
 * added up by the upper 11 bits of the scores' keys, then within the group that reaches the target by the next 11, then
 * by the last 10. Sums are in double; groups add up in order of id, then from the highest group down. The target is
 * always reached: p < 1 stays below 1 by 2^-24, far more than the sums are wrong by. */
static int keep_top_p(fore_sampler *s, int count, float best) {
    double total = 0, sum = 0;
    int span = 0; /* candidates whose keys begin like the border's */
    for (int i = 0; i < count; i++) {
        float w = fore_expf(s->scores[s->ids[i]] - best);
        s->weights[i] = w;
        total += (double)w;
        if (w > 0) s->span[span++] = i;
    }
    double target = (double)s->set.top_p * total;
    uint32_t border = 0;
    static const int shifts[3] = {21, 10, 0};
    for (int level = 0; level < 3; level++) {
        double mass[2048] = {0};
        int shift = shifts[level];
        uint32_t mask = level == 2 ? 1023 : 2047, group = mask;
        for (int i = 0; i < span; i++)
            mass[order_key(s->scores[s->ids[s->span[i]]]) >> shift & mask] += (double)s->weights[s->span[i]];
        while (group > 0 && sum + mass[group] < target) sum += mass[group--];
        border |= group << shift;
        int inside = 0;
        for (int i = 0; i < span; i++)
            if ((order_key(s->scores[s->ids[s->span[i]]]) >> shift & mask) == group) s->span[inside++] = s->span[i];
        span = inside;
    }
    int32_t last = -1; /* of the candidates that tie at the border */
    for (int i = 0; i < span && sum < target; i++) {
        last = s->span[i];
        sum += (double)s->weights[last];
    }
    int kept = 0;
    for (int i = 0; i < count; i++) {
        uint32_t key = order_key(s->scores[s->ids[i]]);
        if (key > border || (key == border && i <= last)) s->ids[kept++] = s->ids[i];
    }
    return kept;
}

/* The best one has weight 1 and stays. Most of a row is far below: the logarithm of min_p tells without an exp each. */
static int keep_min_p(fore_sampler *s, int count, float best, int32_t best_id) {
    float min_p = s->set.min_p, far = min_p < 1e-30f ? -INFINITY : fore_logf(min_p) - 0.01f;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int32_t id = s->ids[i];
        float below = s->scores[id] - best;
        s->ids[kept] = id;
        kept += id == best_id || (below >= far && fore_expf(below) >= min_p);
    }
    return kept;
}

void fore_sampler_process(fore_sampler *s, const float *logits, fore_candidates *out) { fore_sampler_process_of(s, NULL, logits, out); }

void fore_sampler_process_of(fore_sampler *s, const fore_subset *some, const float *logits, fore_candidates *out) {
    const fore_sampling *set = &s->set;
    int n = some ? some->count : s->usable;
    out->ids = s->ids;
    out->scores = s->scores;
    out->best = score_row(s, some, logits, set->temperature == 0 ? 1 : set->temperature);
    float best = s->scores[out->best];
    if (set->temperature == 0 || !(fabsf(best) <= FLT_MAX)) {
        if (set->temperature != 0) out->best = score_row(s, some, logits, 1);
        s->ids[0] = out->best;
        out->count = 1;
        return;
    }
    float threshold = -FLT_MAX; /* minus infinity has no probability */
    const bool few = set->top_k > 0 && set->top_k < n;
    if (few) {
        float kth = kth_largest(s->scores, n, set->top_k, s->weights);
        if (kth > threshold) threshold = kth;
    }
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (few) i = next_at_least(s->scores, i, n, threshold);
        if (i == n) break;
        s->ids[count] = i;
        count += s->scores[i] >= threshold;
    }
    if (set->top_p < 1) count = keep_top_p(s, count, best);
    if (set->min_p > 0) count = keep_min_p(s, count, best, out->best);
    out->count = count;
}

/* ---- the draw ---------------------------------------------------------------------------------------------------- */

/* -log(u) is taken from whichever of u and 1 - u is small, where floats are dense: the largest noise (u near 1) then
 * has the full resolution of the 32 bits, and u is never 0 or 1. */
float fore_gumbel(uint32_t bits) {
    const float unit = 0x1p-33f;
    float exponential;
    if (bits < 0x80000000u) {
        float v = (float)(2 * bits + 1) * unit; /* 1 - u, in (0, 1/2] */
        float u = 1 - v;
        exponential = (v - (1 - u)) / u - fore_logf(u); /* -log1p(-v): the first term is what rounding took from u */
    } else {
        exponential = -fore_logf((float)(2 * ~bits + 1) * unit);
    }
    return -fore_logf(exponential);
}

/* At least fore_gumbel(bits), without a logarithm: the noise is at most -log(1 - u), and 1 - u >= 2^-(zeros + 1). */
static float gumbel_bound(uint32_t bits) {
    return (float)((bits ? __builtin_clz(bits) : 32) + 1) * 0.6932f;
}

int32_t fore_sampler_choose(fore_sampler *s, const float *logits, uint64_t position) {
    return fore_sampler_choose_of(s, NULL, logits, position);
}

int32_t fore_sampler_choose_of(fore_sampler *s, const fore_subset *some, const float *logits, uint64_t position) {
    fore_candidates c;
    fore_sampler_process_of(s, some, logits, &c);
    int32_t chosen = id_at(some, c.best);
    if (c.count == 1) return chosen;
    const float most = 23.0f; /* noise is never more: who cannot win with that needs none */
    float best = c.scores[c.best];
    float value = fore_gumbel(fore_random_bits(s->set.seed, position, (uint32_t)chosen, SAMPLE_STREAM));
    uint32_t block = UINT32_MAX, bits[4]; /* no block has this number */
    for (int i = 0; i < c.count; i++) {
        int32_t id = id_at(some, c.ids[i]);
        float score = c.scores[c.ids[i]] - best;
        if (score + most < value || c.ids[i] == c.best) continue;
        if ((uint32_t)id / 4 != block) {
            block = (uint32_t)id / 4;
            fore_random_block(s->set.seed, position, block, SAMPLE_STREAM, bits);
        }
        if (score + gumbel_bound(bits[id % 4]) < value) continue;
        float v = score + fore_gumbel(bits[id % 4]);
        if (v > value || (v == value && id < chosen)) {
            value = v;
            chosen = id;
        }
    }
    return chosen;
}
