/* The session's draft head; see draft.h. */
#include "decode/draft.h"

#include <stdlib.h>
#include <string.h>

#include "decode/session.h"

fore_status fore_drafter_reserve(fore_drafter *d, const fore_model *model, int context, int rows, fore_error *err) {
    if (d->ready && d->rows >= rows) return FORE_OK;
    fore_drafter n = {.rows = rows};
    size_t C = (size_t)model->network.config.text.hidden_size, V = (size_t)model->network.config.text.vocab_size, T = (size_t)rows;
    /* The history survives a change of the number of rows. */
    fore_status s = fore_draft_words_reserve(&d->words, model, err);
    if (!s && !d->ready) s = fore_state_new(&model->mtp.text, context, &n.head, err);
    if (!s) s = fore_mtp_scratch_new(&model->mtp, rows, &n.own, err);
    n.bytes = ((size_t)FORE_DRAFT_CARRY * C + 2 * T * C + 2 * C + V) * sizeof(float) + 3 * T * sizeof(int32_t) + 8 * (size_t)FORE_ARENA_ALIGN;
    if (!s) {
        n.memory = calloc(1, n.bytes);
        if (!n.memory) s = fore_fail_nomem(err, "the draft head's memory");
    }
    if (s) {
        fore_state_free(&n.head);
        fore_mtp_scratch_free(&n.own);
        return s;
    }
    char *at = n.memory;
    n.carry = fore_carve(&at, (size_t)FORE_DRAFT_CARRY * C);
    n.embeddings = fore_carve(&at, T * C);
    n.post = fore_carve(&at, T * C);
    n.next = fore_carve(&at, C);
    n.hidden = fore_carve(&at, C);
    n.logits = fore_carve(&at, V);
    n.positions = (int32_t *)(void *)fore_carve(&at, 3 * T);
    n.words = d->words;
    d->words = (fore_draft_words){0};
    if (d->ready) {
        n.head = d->head;
        n.keeping = d->keeping;
        n.base = d->base;
        n.true_rows = d->true_rows;
        n.carried = d->carried;
        memcpy(n.carry, d->carry, (size_t)d->carried * C * sizeof *n.carry);
        d->head = (fore_state){0};
        fore_drafter_free(d);
    }
    n.ready = true;
    *d = n;
    return FORE_OK;
}

void fore_drafter_free(fore_drafter *d) {
    fore_state_free(&d->head);
    fore_mtp_scratch_free(&d->own);
    fore_draft_words_free(&d->words);
    free(d->memory);
    *d = (fore_drafter){0};
}

void fore_drafter_restart(fore_drafter *d, int at) {
    if (d->ready) d->head.length = 0; /* key/value rows past the length are never read */
    d->base = at;
    d->true_rows = 0;
    d->carried = 0;
}

static const fore_contract *contract_of(const fore_session *s) { return &s->model->mtp.contract; }

static bool is_local(const fore_session *s) { return contract_of(s)->position == FORE_MTP_LOCAL; }

/* Rope position of sequence index j, past the prompt's start of the table or with the table itself (NULL: generation). */
static void position_of(const fore_session *s, const fore_splice *splice, int j, int32_t out[3]) {
    const fore_drafter *d = &s->drafter;
    if (splice && (size_t)j < splice->prompt_len) {
        for (int a = 0; a < 3; a++) out[a] = splice->mrope_table[(size_t)a * splice->prompt_len + (size_t)j];
    } else if (j == d->prompt_len - 1) {
        memcpy(out, d->prompt_tail, sizeof d->prompt_tail);
    } else {
        int32_t delta = s->draft.ablate & FORE_ABLATE_DELTA ? 0 : s->delta;
        out[0] = out[1] = out[2] = j + delta;
    }
}

/* Positions of history rows j .. j+n-1 by the contract. */
static void set_positions(fore_session *s, const fore_splice *splice, int j, int n) {
    fore_drafter *d = &s->drafter;
    int shift = contract_of(s)->position == FORE_MTP_ABSOLUTE; /* the position of token j+1 */
    for (int i = 0; i < n; i++) {
        int32_t p[3];
        position_of(s, splice, j + i + shift, p);
        if (is_local(s)) p[0] = p[1] = p[2] = d->head.length + i; /* counts from 0 at each draft */
        for (int a = 0; a < 3; a++) d->positions[a * d->rows + i] = p[a];
    }
}

/* Appends n rows (hidden, embeddings as prepared in d->embeddings) for sequence indexes from j; computes the rows from `from`. */
static void append(fore_session *s, const fore_splice *splice, int j, const float *hidden, int n, int from, bool wanted) {
    fore_drafter *d = &s->drafter;
    set_positions(s, splice, j, n);
    const fore_mtp_batch b = {
        .T = n,
        .from = from,
        .hidden = hidden,
        .embeddings = d->embeddings,
        .positions = {d->positions, d->positions + d->rows, d->positions + 2 * d->rows},
        .post_norm = wanted ? d->post : NULL,
        .next = wanted ? d->next : NULL,
    };
    fore_mtp_forward(&s->engine, &s->model->network, &s->model->mtp, &d->head, &s->scratch, &d->own, &b);
}

/* Embeddings of prompt tokens first .. first+n-1 as the trunk saw them, without moving its cursor. */
static fore_status embed_prompt(fore_session *s, const fore_splice *splice, const int32_t *ids, size_t first, size_t n, fore_error *err) {
    fore_drafter *d = &s->drafter;
    size_t before = 0;
    for (size_t i = 0; i < first; i++) before += fore_splice_is_pad(splice, ids[i]);
    fore_status st = fore_splice_window(splice, ids + first, n, before, d->embeddings, err);
    if (!st && s->draft.ablate & FORE_ABLATE_SPLICE) {
        size_t C = (size_t)s->model->network.config.text.hidden_size;
        for (size_t i = 0; i < n; i++)
            if (fore_splice_is_pad(splice, ids[first + i]))
                fore_weight_row(s->engine.kern, &s->model->network.embed, ids[first + i], d->embeddings + i * C);
    }
    return st;
}

void fore_drafter_begin(fore_session *s, const fore_splice *splice, const int32_t *ids) {
    fore_drafter *d = &s->drafter;
    size_t n = splice->prompt_len;
    d->prompt_len = (int)n;
    for (size_t a = 0; a < 3; a++) d->prompt_tail[a] = splice->mrope_table[a * n + n - 1];
    d->head.length = d->true_rows; /* drafted rows go */
    for (size_t i = 0; i < n; i++) fore_draft_words_add(&d->words, s->model, ids[i], false);
}

/* Appends keys and values of the rows for tokens first .. first+n-1, whose next tokens the prompt knows. */
static fore_status append_known(fore_session *s, const fore_splice *splice, const int32_t *ids, int first, int n, const float *hidden,
                                fore_error *err) {
    if (!n) return FORE_OK;
    fore_profile_op(&s->engine, FORE_OP_EMBED);
    fore_status st = embed_prompt(s, splice, ids, (size_t)first + 1, (size_t)n, err);
    if (st) return st;
    append(s, splice, first, hidden, n, n, false);
    s->drafter.true_rows += n;
    return FORE_OK;
}

fore_status fore_drafter_prefill(fore_session *s, const fore_splice *splice, const int32_t *ids, size_t at, int T, const float *hidden,
                                 fore_error *err) {
    fore_drafter *d = &s->drafter;
    if (!d->keeping) return FORE_OK;
    size_t C = (size_t)s->model->network.config.text.hidden_size;
    if (s->draft.ablate & FORE_ABLATE_HISTORY || is_local(s)) {
        fore_drafter_restart(d, (int)at + T - 1);
    } else {
        fore_status st = append_known(s, splice, ids, d->base + d->true_rows, d->carried, d->carry, err);
        if (!st) d->carried = 0;
        if (!st) st = append_known(s, splice, ids, (int)at, T - 1, hidden, err);
        if (st) return st;
    }
    memcpy(d->carry, hidden + (size_t)(T - 1) * C, C * sizeof *d->carry);
    d->carried = 1;
    return FORE_OK;
}

/* Embeddings of the tokens that follow the rows that wait: said tokens, the last one may be the pending one. */
static void embed_carried(fore_session *s) {
    fore_drafter *d = &s->drafter;
    size_t C = (size_t)s->model->network.config.text.hidden_size;
    fore_profile_op(&s->engine, FORE_OP_EMBED);
    for (int i = 0; i < d->carried; i++) {
        int index = d->base + d->true_rows + i + 1;
        int32_t id = index < s->state.length ? s->ids[index] : s->pending;
        fore_weight_row(s->engine.kern, &s->model->network.embed, id, d->embeddings + (size_t)i * C);
    }
}

void fore_drafter_said(fore_session *s, int32_t id) {
    fore_draft_words *w = &s->drafter.words;
    if (!s->drafter.keeping || !w->memory) return;
    bool own = !s->draft.replay && !s->draft.wrong; /* drafts that are not the head's say nothing of its vocabulary */
    s->stats.outside += own && id < s->model->usable && w->places[id] < 0;
    fore_draft_words_add(w, s->model, id, own);
}

void fore_drafter_follow(fore_session *s, const float *hidden, int n) {
    fore_drafter *d = &s->drafter;
    if (!d->keeping) return;
    size_t C = (size_t)s->model->network.config.text.hidden_size;
    if (is_local(s)) { /* only the last hidden matters */
        memcpy(d->carry, hidden + (size_t)(n - 1) * C, C * sizeof *d->carry);
        d->carried = 1;
        d->base = s->state.length - 1;
        d->true_rows = 0;
        return;
    }
    d->head.length = d->true_rows; /* drafted rows go */
    if (d->carried + n > FORE_DRAFT_CARRY) {
        embed_carried(s); /* every one of them is followed by a token that the trunk has seen */
        append(s, NULL, d->base + d->true_rows, d->carry, d->carried, d->carried, false);
        d->true_rows += d->carried;
        d->carried = 0;
    }
    memcpy(d->carry + (size_t)d->carried * C, hidden, (size_t)n * C * sizeof *d->carry);
    d->carried += n;
}

/* exp(x) within 4 %, 0 and below only: the bits of a float are nearly linear in its logarithm. Sure enough for how sure a head is. */
static float rough_exp(float x) {
    x = x > -80 ? x : -80; /* not a number counts as far below */
    int32_t bits = (int32_t)(x * 12102203.0f) + 1064866805;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* The share of place `at` in the softmax over logits [n], roughly. */
static double probability(const fore_kern *kern, const float *logits, int n, int at) {
    float top = logits[kern->argmax(logits, (size_t)n)], sums[4] = {0};
    int i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) sums[k] += rough_exp(logits[i + k] - top);
    for (; i < n; i++) sums[0] += rough_exp(logits[i] - top);
    double sum = (double)sums[0] + (double)sums[1] + (double)sums[2] + (double)sums[3];
    return (double)rough_exp(logits[at] - top) / sum;
}

/* The draft from the head's output row: the target's own sampler on the head's logits, with the noise of the same place. */
static int32_t choose_draft(fore_session *s, const float *post, int depth, uint64_t place, double *sure) {
    fore_drafter *d = &s->drafter;
    fore_subset some, *subset = NULL;
    const float *logits = d->logits;
    if (d->words.memory && !d->words.whole) {
        fore_profile_op(&s->engine, FORE_OP_HEAD);
        fore_draft_words_logits(&d->words, &s->engine, post, &some);
        subset = &some;
        logits = d->words.logits;
    } else {
        fore_trunk_logits(&s->engine, &s->model->network, post, 1, d->logits);
    }
    fore_profile_op(&s->engine, FORE_OP_SAMPLE);
    int32_t id = s->rejection ? fore_rejection_draft(s->rejection, s->sampler, subset, logits, depth, place)
                              : fore_sampler_choose_of(s->sampler, subset, logits, place);
    if (sure) *sure = probability(s->engine.kern, logits, subset ? subset->count : s->model->usable, subset ? subset->places[id] : id);
    return id;
}

/* The first row of a round: the rows that waited, of which only the last one's output is wanted. Returns that output. */
static const float *begin_round(fore_session *s) {
    fore_drafter *d = &s->drafter;
    int n = d->carried;
    d->head.length = is_local(s) ? 0 : d->true_rows;
    d->counts = 0;
    embed_carried(s);
    append(s, NULL, d->base + d->true_rows, d->carry, n, n - 1, true);
    if (!is_local(s)) d->true_rows += n; /* all of them are true rows: the trunk's hiddens, said tokens */
    d->carried = 0;
    return d->post + (size_t)(n - 1) * (size_t)s->model->network.config.text.hidden_size;
}

/* A row of a draft and the hidden that the head gave back. */
static const float *go_on(fore_session *s, int depth, int32_t before) {
    fore_drafter *d = &s->drafter;
    size_t C = (size_t)s->model->network.config.text.hidden_size;
    fore_sampler_count(s->sampler, before, true); /* penalties count what would have been said */
    d->counted[d->counts++] = before;
    fore_profile_op(&s->engine, FORE_OP_EMBED);
    memcpy(d->hidden, d->next, C * sizeof *d->hidden);
    fore_weight_row(s->engine.kern, &s->model->network.embed, before, d->embeddings);
    append(s, NULL, s->state.length - 1 + depth, d->hidden, 1, 0, true);
    return d->post;
}

int32_t fore_drafter_step(fore_session *s, int depth, int32_t before, double *sure) {
    const float *post = depth ? go_on(s, depth, before) : begin_round(s);
    return choose_draft(s, post, depth, (uint64_t)(s->state.length + 1 + depth), sure);
}

void fore_drafter_done(fore_session *s) {
    fore_drafter *d = &s->drafter;
    while (d->counts) fore_sampler_uncount(s->sampler, d->counted[--d->counts], true);
}
