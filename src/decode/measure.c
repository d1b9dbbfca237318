/* What the measuring part of foresight.h asks of a session: its profile, and passes that leave the timeline alone. */
#include <stdlib.h>
#include <string.h>

#include "decode/session.h"

fore_status fore_session_profile(fore_session *s, bool on, fore_error *err) {
    if (!on) {
        fore_profile_free(s->engine.profile);
        s->engine.profile = NULL;
        return FORE_OK;
    }
    if (!s->engine.profile) return fore_profile_new(fore_pool_threads(s->pool), &s->engine.profile, err);
    fore_profile_forget(s->engine.profile);
    return FORE_OK;
}

bool fore_session_get_operator(const fore_session *s, int index, fore_operator *out) {
    const fore_profile *p = s->engine.profile;
    for (int part = 0; p && index >= 0 && part < FORE_PARTS; part++) {
        for (int op = 0; op < FORE_OPS; op++) {
            if (!p->rows[part][op].calls || index--) continue;
            *out = p->rows[part][op];
            return true;
        }
    }
    return false;
}

/* Memory of one timed pass. */
typedef struct timed_pass {
    fore_window window;
    float *embeddings, *hidden, *logits; /* owned: [rows,C], [rows,C], [rows,V] */
    void *recurrent;                     /* owned: the state as it was */
} timed_pass;

static void free_pass(timed_pass *t) {
    fore_window_free(&t->window);
    free(t->embeddings);
    free(t->hidden);
    free(t->logits);
    free(t->recurrent);
}

static fore_status new_pass(const fore_session *s, int rows, timed_pass *t, fore_error *err) {
    const fore_text_config *c = &s->model->network.config.text;
    size_t T = (size_t)rows, C = (size_t)c->hidden_size, V = (size_t)c->vocab_size;
    t->embeddings = malloc(T * C * sizeof *t->embeddings);
    t->hidden = malloc(T * C * sizeof *t->hidden);
    t->logits = malloc(T * V * sizeof *t->logits);
    t->recurrent = malloc(s->state.recurrent_bytes + 1);
    if (!t->embeddings || !t->hidden || !t->logits || !t->recurrent) return fore_fail_nomem(err, "a timed pass");
    fore_status st = fore_window_new(c, rows, &t->window, err);
    if (st) return st;
    memset(t->logits, 0, T * V * sizeof *t->logits); /* pages are there before the clock runs, as those of an answer are */
    memset(t->window.memory, 0, t->window.bytes);
    return FORE_OK;
}

static void run_pass(fore_session *s, int rows, timed_pass *t, fore_pass_time *out) {
    const fore_network *network = &s->model->network;
    size_t C = (size_t)network->config.text.hidden_size;
    int32_t positions[FORE_PASS_MAX];
    int length = s->state.length;
    double t0 = fore_clock();
    for (int i = 0; i < rows; i++) {
        int32_t id = (int32_t)((uint32_t)(length + i) * 2654435761u % (uint32_t)s->model->usable);
        fore_weight_row(network->kern, &network->embed, id, t->embeddings + (size_t)i * C);
        positions[i] = length + i + s->delta;
    }
    const fore_batch batch = {
        .T = rows,
        .embeddings = t->embeddings,
        .positions = {positions, positions, positions},
        .hidden = t->hidden,
        .window = rows > 1 ? &t->window : NULL,
    };
    fore_trunk_forward(&s->engine, network, &s->state, &s->scratch, &batch);
    fore_trunk_logits(&s->engine, network, t->hidden, rows, t->logits);
    double t1 = fore_clock();
    fore_profile_op(&s->engine, FORE_OP_COMMIT);
    if (rows > 1) fore_trunk_commit(&s->engine, network, &s->state, &s->scratch, &t->window, rows);
    *out = (fore_pass_time){.pass = t1 - t0, .commit = rows > 1 ? fore_clock() - t1 : 0};
}

fore_status fore_session_time_pass(fore_session *s, int rows, fore_pass_time *out, fore_error *err) {
    *out = (fore_pass_time){0};
    if (rows < 1 || rows > FORE_PASS_MAX)
        return fore_fail(err, FORE_ERR_INVALID, "pass: %d rows; expected 1 to %d", rows, FORE_PASS_MAX);
    if (rows > s->context - s->state.length)
        return fore_fail(err, FORE_ERR_LIMIT, "pass: %d rows after %d tokens do not fit a context of %d", rows, s->state.length, s->context);
    fore_status st = s->scratch.rows < rows ? fore_session_reserve(s, rows, false, err) : FORE_OK;
    timed_pass t = {0};
    if (!st) st = new_pass(s, rows, &t, err);
    if (!st) {
        int length = s->state.length;
        memcpy(t.recurrent, s->state.recurrent_memory, s->state.recurrent_bytes);
        fore_profile_start(&s->engine);
        run_pass(s, rows, &t, out);
        fore_profile_part(&s->engine, FORE_PART_TRUNK);
        memcpy(s->state.recurrent_memory, t.recurrent, s->state.recurrent_bytes);
        s->state.length = length; /* key/value rows past it are not part of the state */
    }
    free_pass(&t);
    return st;
}
