/* A traced prefill: every tensor that another implementation would compare. */
#include "decode/session.h"

#include <stdlib.h>
#include <string.h>

typedef struct trace_look {
    fore_session *session;
    fore_trace *trace;
} trace_look;

static fore_status keep_rows(void *user, int first, int T, const float *embeddings, const float *hidden, fore_error *err) {
    (void)err;
    trace_look *l = user;
    size_t C = (size_t)l->trace->hidden, V = (size_t)l->trace->vocab, at = (size_t)first, n = (size_t)T;
    memcpy(l->trace->embeddings + at * C, embeddings, n * C * sizeof(float));
    memcpy(l->trace->final_hidden + at * C, hidden, n * C * sizeof(float));
    fore_trunk_logits(&l->session->engine, &l->session->model->network, hidden, T, l->trace->logits + at * V);
    return FORE_OK;
}

static fore_status new_trace(const fore_text_config *t, const fore_prepared *p, fore_trace **out, fore_error *err) {
    size_t S = p->n, C = (size_t)t->hidden_size, V = (size_t)t->vocab_size, logits;
    fore_trace *tr = calloc(1, sizeof *tr);
    if (!tr) return fore_fail_nomem(err, "a trace");
    *out = tr;
    tr->tokens = S;
    tr->hidden = t->hidden_size;
    tr->vocab = t->vocab_size;
    if (__builtin_mul_overflow(S, V * sizeof(float), &logits)) return fore_fail(err, FORE_ERR_LIMIT, "trace: %zu rows of logits are too many", S);
    tr->ids = malloc(S * sizeof *tr->ids);
    tr->positions = malloc(3 * S * sizeof *tr->positions);
    tr->embeddings = malloc(S * C * sizeof *tr->embeddings);
    tr->final_hidden = malloc(S * C * sizeof *tr->final_hidden);
    tr->logits = malloc(logits);
    if (!tr->ids || !tr->positions || !tr->embeddings || !tr->final_hidden || !tr->logits)
        return fore_fail(err, FORE_ERR_NOMEM, "out of memory: the logits of %zu tokens take %zu MiB", S, logits >> 20);
    memcpy(tr->ids, p->ids, S * sizeof *tr->ids);
    return FORE_OK;
}

fore_status fore_session_trace(fore_session *s, const fore_request *r, fore_trace **out, fore_error *err) {
    *out = NULL;
    fore_session_reset(s);
    s->stats = (fore_stats){0};
    fore_scratch_forget(&s->scratch, &s->model->network.config.text);
    fore_prepared p;
    fore_status st = fore_prepare(s->model, r, (size_t)s->context, &p, err);
    if (st) return st;
    fore_trace *trace = NULL;
    st = new_trace(&s->model->network.config.text, &p, &trace, err);
    if (!st) st = fore_session_reserve(s, r->prefill_chunk ? r->prefill_chunk : FORE_DEFAULT_CHUNK, false, err);
    s->draft = (fore_draft){0};
    s->lookups = false;
    fore_splice splice = {0};
    trace_look look = {s, trace};
    int last;
    if (!st) st = fore_session_prefill(s, r, &p, keep_rows, &look, &last, &splice, err);
    if (!st) {
        memcpy(trace->positions, splice.mrope_table, 3 * p.n * sizeof *trace->positions);
        trace->delta = splice.mrope_delta;
        trace->image_rows = splice.total_pads;
    }
    fore_splice_free(&splice);
    fore_prepared_free(&p);
    fore_session_reset(s);
    if (st) {
        fore_trace_free(trace);
        return st;
    }
    *out = trace;
    return FORE_OK;
}

void fore_trace_free(fore_trace *t) {
    if (!t) return;
    free(t->ids);
    free(t->positions);
    free(t->embeddings);
    free(t->final_hidden);
    free(t->logits);
    free(t);
}
