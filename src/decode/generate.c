/* The generate loop: one round a call. A round drafts (or not), lets the trunk check pending token and drafts in one pass, and
 * says what the sampler makes of the rows, one by one, as long as the drafts agree. Depth 0 is a round of one token. */
#include "decode/session.h"

#include <string.h>

typedef struct round {
    fore_drafts drafts;
    bool checked;                    /* a pass of the trunk was made */
    bool windowed;                   /* rows wait for their commit */
    uint64_t place;                  /* sequence index of the first token that the round can say */
} round;

bool fore_session_is_end(const fore_session *s, int32_t id) {
    if (s->ignore_eos) return false;
    for (int i = 0; i < s->model->eos_count; i++)
        if (s->model->eos[i] == id) return true;
    return false;
}

/* One pass of the trunk over the pending token and the drafts; logits of every row. */
static void check(fore_session *s, round *r) {
    const fore_network *network = &s->model->network;
    size_t C = (size_t)network->config.text.hidden_size;
    int n = r->drafts.count + 1;
    fore_profile_op(&s->engine, FORE_OP_EMBED);
    int32_t positions[FORE_DRAFT_MAX + 1];
    for (int i = 0; i < n; i++) {
        int32_t id = i ? r->drafts.id[i - 1] : s->pending;
        fore_weight_row(network->kern, &network->embed, id, s->embeddings + (size_t)i * C);
        positions[i] = s->state.length + i + s->delta; /* on all axes, also long after the last picture */
    }
    r->windowed = r->drafts.count > 0;
    const fore_batch batch = {
        .T = n,
        .embeddings = s->embeddings,
        .positions = {positions, positions, positions},
        .hidden = s->hidden,
        .residual = s->residual,
        .window = r->windowed ? &s->window : NULL,
    };
    s->ids[s->state.length] = s->pending;
    fore_trunk_forward(&s->engine, network, &s->state, &s->scratch, &batch);
    fore_trunk_logits(&s->engine, network, s->hidden, n, s->logits);
}

/* Draft and check, unless the prompt's own logits are still unused. */
static void compute(fore_session *s, round *r) {
    r->place = (uint64_t)s->state.length;
    if (s->has_logits) return;
    r->place++;
    double t0 = fore_clock();
    fore_drafts_make(s, &r->drafts);
    double t1 = fore_clock();
    check(s, r);
    r->checked = true;
    s->stats.rounds++;
    s->stats.draft_seconds += t1 - t0;
    s->stats.verify_seconds += fore_clock() - t1;
}

/* The token of row i. *agrees: it is the draft made for its place. */
static int32_t choose(fore_session *s, const round *r, int i, bool *agrees) {
    const float *logits = s->logits + (size_t)i * (size_t)s->model->network.config.text.vocab_size;
    uint64_t place = r->place + (uint64_t)i;
    *agrees = false;
    if (s->rejection && i < r->drafts.count)
        return fore_rejection_choose(s->rejection, s->sampler, logits, i, place, r->drafts.id[i], agrees);
    int32_t id = fore_sampler_choose(s->sampler, logits, place);
    *agrees = i < r->drafts.count && id == r->drafts.id[i];
    return id;
}

/* Text of a token through the detokeniser and the stop strings into s->text. id < 0: the end, what is held back comes out. */
static fore_status say(fore_session *s, int32_t id, bool *stopped, fore_error *err) {
    *stopped = false;
    if (!s->model->tokenizer) return FORE_OK;
    s->piece.size = 0;
    fore_status st = id < 0 ? fore_stream_flush(&s->stream, &s->piece) : fore_stream_push(&s->stream, id, &s->piece);
    if (!st && !s->stop) st = fore_buf_append(&s->text, s->piece.data, s->piece.size);
    if (!st && s->stop) {
        int matched = -1;
        st = fore_stop_push(s->stop, s->piece.data ? s->piece.data : "", s->piece.size, &s->text, &matched);
        if (!st && matched >= 0) {
            *stopped = true;
            s->stats.stop = s->stop_strings[matched];
        } else if (!st && id < 0) {
            st = fore_stop_flush(s->stop, &s->text);
        }
    }
    return st ? fore_fail(err, st, "answer: %s while keeping its text", fore_status_name(st)) : FORE_OK;
}

/* A token becomes part of the answer; *finish tells whether it ends it. `length`: tokens before it. */
static fore_status take_token(fore_session *s, int32_t id, uint64_t length, fore_finish *finish, fore_error *err) {
    fore_sampler_count(s->sampler, id, true);
    if (s->lookups) fore_lookup_push(&s->lookup, id);
    fore_drafter_said(s, id);
    s->pending = id;
    s->generated++;
    s->replayed++;
    s->stats.generated_tokens++;
    *finish = FORE_FINISH_NONE;
    bool stopped = false;
    fore_status st = FORE_OK;
    if (fore_session_is_end(s, id)) {
        *finish = FORE_FINISH_STOP;
    } else {
        st = say(s, id, &stopped, err);
        if (stopped) *finish = FORE_FINISH_STOP;
        else if ((s->max_tokens && s->generated >= s->max_tokens) || length >= (uint64_t)s->context) *finish = FORE_FINISH_LENGTH;
    }
    if (!st && *finish != FORE_FINISH_NONE && !stopped) {
        st = say(s, -1, &stopped, err);
        if (stopped) *finish = FORE_FINISH_STOP;
    }
    return st;
}

/* The trunk's state takes the rows of what was said before the last token; the head's history follows. */
static void commit(fore_session *s, const round *r, int said) {
    if (s->has_logits) { /* the first token of an answer: nothing to commit */
        s->has_logits = false;
        return;
    }
    double t0 = fore_clock();
    for (int i = 1; i < said; i++) s->ids[r->place + (uint64_t)i - 1] = s->round_ids[i - 1];
    if (r->windowed) fore_trunk_commit(&s->engine, &s->model->network, &s->state, &s->scratch, &s->window, said);
    fore_profile_part(&s->engine, FORE_PART_DRAFT);
    fore_drafter_follow(s, fore_session_head_input(s), said);
    s->stats.commit_seconds += fore_clock() - t0;
}

/* What became of the draft for the token of row i. */
static fore_mark mark_of(const fore_drafts *d, int i, bool agrees) {
    if (agrees) return FORE_MARK_ACCEPTED;
    return !d->count ? FORE_MARK_PLAIN : i < d->count ? FORE_MARK_CORRECTION : FORE_MARK_BONUS;
}

fore_status fore_session_next(fore_session *s, fore_chunk *chunk, fore_error *err) {
    *chunk = (fore_chunk){0};
    if (!s->active) return fore_fail(err, FORE_ERR_INVALID, "session: nothing to go on with; begin a request first");
    /* Text of a whole round fits without taking memory later, unless a single token is longer than this. */
    if (fore_buf_reserve(&s->piece, 256) || fore_buf_reserve(&s->text, 2048)) return fore_fail_nomem(err, "the answer's text");
    s->text.size = 0;
    s->text.data[0] = 0;
    double t0 = fore_clock(), draft0 = s->stats.draft_seconds, verify0 = s->stats.verify_seconds;
    round r = {0};
    fore_profile_start(&s->engine);
    compute(s, &r);
    fore_profile_op(&s->engine, FORE_OP_SAMPLE);
    double t1 = fore_clock();
    fore_finish finish = FORE_FINISH_NONE;
    fore_status st = FORE_OK;
    int said = 0, agreed = 0;
    for (bool agrees = true; agrees && said <= r.drafts.count && finish == FORE_FINISH_NONE && !st;) {
        int32_t id = choose(s, &r, said, &agrees);
        s->round_ids[said] = id;
        s->round_marks[said] = (uint8_t)mark_of(&r.drafts, said, agrees);
        agreed += agrees;
        st = take_token(s, id, r.place + (uint64_t)said, &finish, err);
        s->round_ends[said++] = s->text.size;
    }
    double t2 = fore_clock();
    fore_profile_op(&s->engine, FORE_OP_COMMIT);
    commit(s, &r, said);
    double t3 = fore_clock();
    fore_profile_part(&s->engine, FORE_PART_TRUNK);
    if (r.checked)
        fore_drafts_learn(s, &r.drafts, s->round_ids, said, agreed, finish != FORE_FINISH_NONE, s->stats.verify_seconds - verify0 + (t3 - t2),
                          s->stats.draft_seconds - draft0);
    s->stats.decode_seconds += t1 - t0 + (t3 - t2);
    s->stats.sample_seconds += t2 - t1;
    if (st || finish != FORE_FINISH_NONE) s->active = false;
    if (st) return st; /* the tokens are in the timeline, their text is lost */
    *chunk = (fore_chunk){.text = s->text.data,
                          .size = s->text.size,
                          .ids = s->round_ids,
                          .id_count = (size_t)said,
                          .marks = s->round_marks,
                          .text_ends = s->round_ends,
                          .finish = finish};
    return FORE_OK;
}
