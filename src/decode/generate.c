/* The generate loop: one round a call. Without drafts a round is one token. */
#include "decode/session.h"

#include <string.h>

/* Feeds the pending token to the trunk; afterwards the logits of the next position are there. */
static void advance(fore_session *s) {
    const fore_network *network = &s->model->network;
    fore_weight_row(network->kern, &network->embed, s->pending, s->embeddings);
    int32_t position = s->state.length + s->delta; /* on all axes, also long after the last picture */
    const fore_batch batch = {
        .T = 1,
        .embeddings = s->embeddings,
        .positions = {&position, &position, &position},
        .hidden = s->hidden,
    };
    s->ids[s->state.length] = s->pending;
    fore_trunk_forward(&s->engine, network, &s->state, &s->scratch, &batch);
    fore_trunk_logits(&s->engine, network, s->hidden, 1, s->logits);
    s->pending = -1;
    s->has_logits = true;
}

static bool is_end(const fore_session *s, int32_t id) {
    if (s->ignore_eos) return false;
    for (int i = 0; i < s->model->eos_count; i++)
        if (s->model->eos[i] == id) return true;
    return false;
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

fore_status fore_session_next(fore_session *s, fore_chunk *chunk, fore_error *err) {
    *chunk = (fore_chunk){0};
    if (!s->active) return fore_fail(err, FORE_ERR_INVALID, "session: nothing to go on with; begin a request first");
    /* Text of a whole round fits without taking memory later, unless a single token is longer than this. */
    if (fore_buf_reserve(&s->piece, 256) || fore_buf_reserve(&s->text, 1024)) return fore_fail_nomem(err, "the answer's text");
    s->text.size = 0;
    s->text.data[0] = 0;
    double t0 = fore_session_clock();
    if (!s->has_logits) advance(s);
    double t1 = fore_session_clock();
    int32_t id = fore_sampler_choose(s->sampler, s->logits, (uint64_t)s->state.length);
    double t2 = fore_session_clock();
    fore_sampler_count(s->sampler, id, true);
    s->has_logits = false;
    s->pending = id;
    s->round_ids[0] = id;
    s->generated++;
    s->stats.generated_tokens++;
    s->stats.decode_seconds += t1 - t0;
    s->stats.sample_seconds += t2 - t1;

    fore_finish finish = FORE_FINISH_NONE;
    bool stopped = false;
    fore_status st = FORE_OK;
    if (is_end(s, id)) {
        finish = FORE_FINISH_STOP;
    } else {
        st = say(s, id, &stopped, err);
        if (stopped) finish = FORE_FINISH_STOP;
        else if ((s->max_tokens && s->generated >= s->max_tokens) || s->state.length >= s->context) finish = FORE_FINISH_LENGTH;
    }
    if (!st && finish != FORE_FINISH_NONE && !stopped) {
        st = say(s, -1, &stopped, err);
        if (stopped) finish = FORE_FINISH_STOP;
    }
    if (st) {
        s->active = false; /* the token is in the timeline, its text is lost */
        return st;
    }
    if (finish != FORE_FINISH_NONE) s->active = false;
    *chunk = (fore_chunk){.text = s->text.data, .size = s->text.size, .ids = s->round_ids, .id_count = 1, .finish = finish};
    return FORE_OK;
}
