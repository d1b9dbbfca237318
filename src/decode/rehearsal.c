/* Rehearsals; see rehearsal.h. */
#include "decode/rehearsal.h"

#include <stdlib.h>
#include <string.h>

/* An answer while it is taken. */
typedef struct taking {
    fore_session *session;
    fore_rehearsal *out;
    size_t rows; /* for which there is memory */
} taking;

static fore_status reserve(taking *t, size_t rows, fore_error *err) {
    fore_rehearsal *r = t->out;
    size_t C = (size_t)t->session->model->network.config.text.hidden_size;
    if (rows <= t->rows) return FORE_OK;
    rows += rows / 2;
    float *post = realloc(r->post, rows * C * sizeof *post);
    if (!post) return fore_fail_nomem(err, "the hidden states of an answer");
    r->post = post;
    if (t->session->residual) {
        float *pre = realloc(r->pre, rows * C * sizeof *pre);
        if (!pre) return fore_fail_nomem(err, "the hidden states of an answer");
        r->pre = pre;
    }
    t->rows = rows;
    return FORE_OK;
}

/* Rows first .. first+n-1 of the pass just made. */
static fore_status keep_rows(taking *t, size_t first, size_t n, fore_error *err) {
    const fore_session *s = t->session;
    size_t C = (size_t)s->model->network.config.text.hidden_size;
    fore_status st = reserve(t, first + n, err);
    if (st) return st;
    memcpy(t->out->post + first * C, s->hidden, n * C * sizeof(float));
    if (s->residual) memcpy(t->out->pre + first * C, s->residual, n * C * sizeof(float));
    return FORE_OK;
}

static fore_status keep_prompt(void *user, int first, int T, const float *embeddings, const float *hidden, fore_error *err) {
    (void)embeddings, (void)hidden;
    return keep_rows(user, (size_t)first, (size_t)T, err);
}

static fore_status keep_token(taking *t, int32_t id, size_t *room, fore_error *err) {
    fore_rehearsal *r = t->out;
    size_t n = (size_t)r->prompt + (size_t)r->answer;
    if (n == *room) {
        *room = n + n / 2 + 16;
        int32_t *ids = realloc(r->ids, *room * sizeof *ids);
        if (!ids) return fore_fail_nomem(err, "the tokens of an answer");
        r->ids = ids;
    }
    r->ids[n] = id;
    r->answer++;
    return FORE_OK;
}

fore_status fore_rehearsal_take(fore_session *s, const fore_request *request, fore_rehearsal *out, fore_error *err) {
    *out = (fore_rehearsal){0};
    taking t = {.session = s, .out = out};
    fore_request r = *request;
    r.draft = (fore_draft){.depth = 0, .lookup = FORE_LOOKUP_OFF};
    fore_status st = fore_session_begin_seen(s, &r, keep_prompt, &t, &out->splice, err);
    if (st) return st;
    size_t room = (size_t)s->state.length;
    out->pictures = s->stats.images + s->stats.videos > 0;
    out->ignore_eos = r.ignore_eos;
    out->prompt = s->state.length;
    out->ids = malloc(room * sizeof *out->ids);
    if (!out->ids) return fore_fail_nomem(err, "the tokens of an answer");
    memcpy(out->ids, s->ids, room * sizeof *out->ids);
    for (fore_chunk c = {0}; !st && c.finish == FORE_FINISH_NONE;) {
        int before = s->state.length;
        if (r.progress && r.progress(r.user, "answer", (uint64_t)out->answer, (uint64_t)r.max_tokens))
            return fore_fail(err, FORE_ERR_CANCELLED, "cancelled during an answer");
        st = fore_session_next(s, &c, err);
        if (!st && s->state.length > before) st = keep_rows(&t, (size_t)before, 1, err);
        if (!st) st = keep_token(&t, c.ids[0], &room, err);
    }
    return st;
}

void fore_rehearsal_free(fore_rehearsal *r) {
    free(r->ids);
    free(r->post);
    free(r->pre);
    fore_splice_free(&r->splice);
    *r = (fore_rehearsal){0};
}

int fore_rehearsal_places(const fore_rehearsal *r, int depth) { return r->answer > depth ? r->answer - depth : 0; }

/* The history of the prompt, as its prefill makes it. */
static fore_status follow_prompt(fore_session *s, const fore_rehearsal *r, const float *hidden, fore_error *err) {
    fore_splice splice = r->splice; /* lends its memory */
    size_t C = (size_t)s->model->network.config.text.hidden_size, n = (size_t)r->prompt;
    splice.network = &s->model->network;
    fore_drafter_restart(&s->drafter, 0);
    fore_draft_words_forget(&s->drafter.words);
    s->drafter.keeping = true;
    fore_drafter_begin(s, &splice, r->ids);
    fore_status st = FORE_OK;
    for (size_t at = 0; at < n && !st;) {
        int T = n - at < (size_t)s->chunk ? (int)(n - at) : s->chunk;
        st = fore_drafter_prefill(s, &splice, r->ids, at, T, hidden + at * C, err);
        at += (size_t)T;
    }
    memcpy(s->ids, r->ids, n * sizeof *s->ids);
    s->state.length = r->prompt; /* the trunk is not there; the drafter asks how much it has seen, and no more */
    return st;
}

/* Drafts from here on that are right, up to the first one that is not. */
static uint8_t count_right(fore_session *s, const int32_t *next, int depth) {
    int32_t id = -1;
    int n = 0;
    while (n < depth) {
        id = fore_drafter_step(s, n, id, NULL);
        if (id != next[n]) break;
        n++;
        if (fore_session_is_end(s, id)) break;
    }
    fore_drafter_done(s);
    return (uint8_t)n;
}

static void say(fore_session *s, int32_t id) {
    fore_sampler_count(s->sampler, id, true);
    fore_drafter_said(s, id);
    s->pending = id;
}

static fore_status prepare(fore_session *s, const fore_rehearsal *r, int depth, const float *hidden, fore_error *err) {
    const fore_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
    if (!s->model->mtp.attached) return fore_fail(err, FORE_ERR_UNSUPPORTED, "rehearsal: no draft head: %s", s->model->mtp.why);
    if (!hidden) return fore_fail(err, FORE_ERR_INVALID, "rehearsal: hidden states before the final norm were not kept");
    if (depth < 1 || depth > FORE_DRAFT_MAX) return fore_fail(err, FORE_ERR_INVALID, "rehearsal: depth %d; expected 1 to %d", depth, FORE_DRAFT_MAX);
    if (s->context - depth <= r->prompt + r->answer)
        return fore_fail(err, FORE_ERR_LIMIT, "rehearsal: %d tokens and %d drafts do not fit a context of %d", r->prompt + r->answer, depth,
                         s->context);
    fore_session_reset(s);
    fore_rejection_free(s->rejection);
    s->rejection = NULL;
    s->draft = (fore_draft){.depth = depth, .lookup = FORE_LOOKUP_OFF};
    s->lookups = false;
    s->ignore_eos = r->ignore_eos;
    s->stats = (fore_stats){0};
    s->delta = r->splice.mrope_delta;
    fore_sampler *sampler;
    fore_status st = fore_sampler_new(&greedy, s->model->network.config.text.vocab_size, s->model->usable, &sampler, err);
    if (st) return st;
    fore_sampler_free(s->sampler);
    s->sampler = sampler;
    return fore_session_reserve(s, FORE_DEFAULT_CHUNK, true, err);
}

fore_status fore_rehearsal_try(fore_session *s, const fore_rehearsal *r, int depth, uint8_t *right, fore_error *err) {
    const float *hidden = s->model->mtp.attached && s->model->mtp.contract.base_pre_norm ? r->pre : r->post;
    size_t C = (size_t)s->model->network.config.text.hidden_size;
    int places = fore_rehearsal_places(r, depth);
    if (!places) return FORE_OK;
    fore_status st = prepare(s, r, depth, hidden, err);
    if (!st) st = follow_prompt(s, r, hidden, err);
    if (!st) {
        const int32_t *answer = r->ids + r->prompt;
        say(s, answer[0]);
        for (int i = 0; i < places; i++) {
            right[i] = count_right(s, answer + i + 1, depth);
            int at = s->state.length++; /* the trunk takes the token that waits */
            s->ids[at] = s->pending;
            say(s, answer[i + 1]);
            fore_drafter_follow(s, hidden + (size_t)at * C, 1);
        }
    }
    fore_session_reset(s);
    return st;
}
