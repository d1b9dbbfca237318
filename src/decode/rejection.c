/* The rejection sampler; see rejection.h. */
#include "decode/rejection.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "kernels/kern.h"

/* Independent uses of one seed; the sampler's own noise is another one. */
enum { STREAM_DRAFT = 0x64726166, STREAM_ACCEPT = 0x61636370, STREAM_RESIDUAL = 0x72657369 };

struct fore_rejection {
    int vocab;
    uint64_t seed;
    float *p; /* [vocab] */
    float *q; /* [FORE_DRAFT_MAX, vocab] */
    float *memory; /* owned */
};

fore_status fore_rejection_new(int vocab, uint64_t seed, fore_rejection **out, fore_error *err) {
    *out = NULL;
    fore_rejection *r = calloc(1, sizeof *r);
    if (r) r->memory = calloc((size_t)vocab * (FORE_DRAFT_MAX + 1), sizeof *r->memory);
    if (!r || !r->memory) {
        free(r);
        return fore_fail_nomem(err, "the drafts' distributions");
    }
    r->vocab = vocab;
    r->seed = seed;
    r->p = r->memory;
    r->q = r->memory + vocab;
    *out = r;
    return FORE_OK;
}

void fore_rejection_free(fore_rejection *r) {
    if (!r) return;
    free(r->memory);
    free(r);
}

/* 32 bits to a double in (0,1). */
static double uniform(uint64_t seed, uint64_t place, uint32_t stream) {
    return ((double)fore_random_bits(seed, place, 0, stream) + 0.5) * 0x1p-32;
}

/* Softmax over the sampler's candidates into probs [vocab], 0 elsewhere; sums in the candidates' order. */
static void distribution(fore_sampler *sampler, const fore_subset *some, const float *logits, float *probs, int vocab, fore_candidates *c) {
    fore_sampler_process_of(sampler, some, logits, c);
    memset(probs, 0, (size_t)vocab * sizeof *probs);
    float top = c->scores[c->best];
    double sum = 0;
    for (int i = 0; i < c->count; i++) {
        int32_t at = c->ids[i], id = some ? some->ids[at] : at;
        float e = at == c->best ? 1.0f : fore_expf(c->scores[at] - top);
        probs[id] = e;
        sum += (double)e;
    }
    for (int i = 0; i < c->count; i++) {
        int32_t id = some ? some->ids[c->ids[i]] : c->ids[i];
        probs[id] = (float)((double)probs[id] / sum);
    }
}

/* The token where the running sum of w passes u * sum(w); w(i) >= 0, at least one above 0. */
static int32_t pick(const float *p, const float *q, int n, double u) {
    double sum = 0, at = 0;
    for (int i = 0; i < n; i++) {
        double w = (double)p[i] - (q ? (double)q[i] : 0);
        if (w > 0) sum += w;
    }
    int32_t last = -1;
    for (int i = 0; i < n; i++) {
        double w = (double)p[i] - (q ? (double)q[i] : 0);
        if (!(w > 0)) continue;
        at += w;
        last = i;
        if (at > u * sum) return i;
    }
    return last;
}

int32_t fore_rejection_step(const float *p, const float *q, int n, int32_t drafted, uint64_t seed, uint64_t place, bool *accepted) {
    *accepted = uniform(seed, place, STREAM_ACCEPT) * (double)q[drafted] < (double)p[drafted];
    if (*accepted) return drafted;
    int32_t id = pick(p, q, n, uniform(seed, place, STREAM_RESIDUAL));
    /* p and q that differ by rounding alone leave no residual: then p itself is the answer. */
    return id >= 0 ? id : pick(p, NULL, n, uniform(seed, place, STREAM_RESIDUAL));
}

/* As pick, among the candidates alone. */
static int32_t pick_candidate(const float *q, const fore_subset *some, const fore_candidates *c, double u) {
    double sum = 0, at = 0;
    int32_t last = -1;
    for (int i = 0; i < c->count; i++) sum += (double)q[some ? some->ids[c->ids[i]] : c->ids[i]];
    for (int i = 0; i < c->count; i++) {
        int32_t id = some ? some->ids[c->ids[i]] : c->ids[i];
        if (!(q[id] > 0)) continue;
        at += (double)q[id];
        last = id;
        if (at > u * sum) return id;
    }
    return last;
}

int32_t fore_rejection_draft(fore_rejection *r, fore_sampler *sampler, const fore_subset *some, const float *logits, int depth,
                             uint64_t place) {
    float *q = r->q + (size_t)depth * (size_t)r->vocab;
    fore_candidates c;
    distribution(sampler, some, logits, q, r->vocab, &c);
    return pick_candidate(q, some, &c, uniform(r->seed, place, STREAM_DRAFT));
}

void fore_rejection_certain(fore_rejection *r, int depth, int32_t id) {
    float *q = r->q + (size_t)depth * (size_t)r->vocab;
    memset(q, 0, (size_t)r->vocab * sizeof *q);
    q[id] = 1;
}

int32_t fore_rejection_choose(fore_rejection *r, fore_sampler *sampler, const float *logits, int depth, uint64_t place, int32_t drafted,
                              bool *accepted) {
    fore_candidates c;
    distribution(sampler, NULL, logits, r->p, r->vocab, &c);
    return fore_rejection_step(r->p, r->q + (size_t)depth * (size_t)r->vocab, r->vocab, drafted, r->seed, place, accepted);
}
