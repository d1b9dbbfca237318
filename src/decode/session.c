/* A session: making and freeing it, beginning a request; see session.h. */
#include "decode/session.h"

#include <stdlib.h>
#include <string.h>

/* Scratch, embeddings and hiddens of a pass of up to `rows` rows. */
static fore_status reserve_rows(fore_session *s, int rows, fore_error *err) {
    const fore_text_config *t = &s->model->network.config.text;
    bool residual = s->model->mtp.attached && s->model->mtp.contract.base_pre_norm;
    if (rows == s->scratch.rows) return FORE_OK;
    fore_scratch scratch;
    fore_status st = fore_scratch_new(t, rows, s->context, fore_pool_threads(s->pool), &scratch, err);
    if (st) return st;
    size_t floats = (size_t)rows * (size_t)t->hidden_size;
    float *embeddings = malloc(floats * sizeof *embeddings), *hidden = malloc(floats * sizeof *hidden);
    float *before = residual ? malloc(floats * sizeof *before) : NULL;
    if (!embeddings || !hidden || (residual && !before)) {
        free(embeddings);
        free(hidden);
        free(before);
        fore_scratch_free(&scratch);
        return fore_fail_nomem(err, "the memory of a chunk");
    }
    fore_scratch_free(&s->scratch);
    free(s->embeddings);
    free(s->hidden);
    free(s->residual);
    s->scratch = scratch;
    s->embeddings = embeddings;
    s->hidden = hidden;
    s->residual = before;
    return FORE_OK;
}

fore_status fore_session_reserve(fore_session *s, int rows, bool drafts, fore_error *err) {
    const fore_text_config *t = &s->model->network.config.text;
    s->chunk = rows < 1 ? 1 : rows > s->context ? s->context : rows;
    int most = s->chunk;
    if (drafts && most < FORE_DRAFT_CARRY) most = FORE_DRAFT_CARRY; /* also more than a window */
    fore_status st = reserve_rows(s, most, err);
    if (st || !drafts) return st;
    if (!s->window.rows) st = fore_window_new(t, FORE_DRAFT_MAX + 1, &s->window, err);
    if (!st && s->logit_rows < FORE_DRAFT_MAX + 1) {
        float *logits = malloc((size_t)t->vocab_size * (FORE_DRAFT_MAX + 1) * sizeof *logits);
        if (!logits) return fore_fail_nomem(err, "the logits of a window");
        free(s->logits);
        s->logits = logits;
        s->logit_rows = FORE_DRAFT_MAX + 1;
        s->has_logits = false;
    }
    if (!st && s->lookups) {
        const int32_t pads[2] = {s->model->network.config.image_token_id, s->model->network.config.video_token_id};
        st = fore_lookup_reserve(&s->lookup, s->context + FORE_DRAFT_MAX + 1, pads, err);
    }
    if (st || !s->model->mtp.attached || !s->draft.depth) return st; /* replayed drafts need no head */
    return fore_drafter_reserve(&s->drafter, s->model, s->context, most, err);
}

const float *fore_session_head_input(const fore_session *s) { return s->residual ? s->residual : s->hidden; }

fore_status fore_session_new(const fore_model *model, const fore_session_options *options, fore_session **out, fore_error *err) {
    *out = NULL;
    const fore_text_config *t = &model->network.config.text;
    int context = options ? options->context : 0, threads = options ? options->threads : 0;
    if (context < 0 || threads < 0 || threads > 1024)
        return fore_fail(err, FORE_ERR_INVALID, "session: context %d and threads %d: expected 0 or more, at most 1024 threads", context, threads);
    if (context == 0) context = fore_model_default_context(model);
    if (context > t->max_position_embeddings)
        return fore_fail(err, FORE_ERR_LIMIT, "session: a context of %d tokens; the model was made for at most %d", context, t->max_position_embeddings);
    fore_session *s = calloc(1, sizeof *s);
    if (!s) return fore_fail_nomem(err, "a session");
    s->model = model;
    s->context = context;
    s->pending = -1;
    fore_pace_init(&s->pace);
    const fore_pool_options pool = {.threads = threads, .cpus = options ? options->cpus : NULL};
    fore_status st = fore_pool_new_with(&pool, &s->pool, err);
    s->engine = (fore_engine){.kern = model->network.kern, .pool = s->pool, .quantised = &s->scratch.quantised};
    if (!st) st = fore_state_new(t, context, &s->state, err);
    if (!st) {
        fore_state_place(&s->state, t, s->pool);
        s->ids = malloc((size_t)context * sizeof *s->ids);
        s->logits = malloc((size_t)t->vocab_size * sizeof *s->logits);
        s->logit_rows = 1;
        if (!s->ids || !s->logits) st = fore_fail_nomem(err, "a session");
    }
    if (!st) st = fore_session_reserve(s, FORE_DEFAULT_CHUNK, false, err);
    if (st) {
        fore_session_free(s);
        return st;
    }
    *out = s;
    return FORE_OK;
}

static void free_stop(fore_session *s) {
    fore_stop_free(s->stop);
    for (size_t i = 0; i < s->stop_count; i++) free(s->stop_strings[i]);
    free(s->stop_strings);
    s->stop = NULL;
    s->stop_strings = NULL;
    s->stop_count = 0;
}

void fore_session_free(fore_session *s) {
    if (!s) return;
    free_stop(s);
    fore_sampler_free(s->sampler);
    fore_buf_free(&s->piece);
    fore_buf_free(&s->text);
    fore_rejection_free(s->rejection);
    fore_drafter_free(&s->drafter);
    fore_lookup_free(&s->lookup);
    fore_window_free(&s->window);
    fore_scratch_free(&s->scratch);
    fore_state_free(&s->state);
    free(s->ids);
    free(s->seen);
    free(s->embeddings);
    free(s->hidden);
    free(s->residual);
    free(s->logits);
    fore_profile_free(s->engine.profile);
    fore_pool_free(s->pool);
    free(s);
}

void fore_session_reset(fore_session *s) {
    fore_state_reset(&s->state);
    s->seen_count = 0;
    s->has_logits = false;
    s->pending = -1;
    s->active = false;
    s->drafter.keeping = false;
}

static fore_status copy_stop(fore_session *s, const fore_request *r, fore_error *err) {
    free_stop(s);
    if (!r->stop_count) return FORE_OK;
    if (!s->model->tokenizer) return fore_fail(err, FORE_ERR_INVALID, "request: stop strings need a tokenizer, the model has none");
    fore_status st = fore_stop_new(r->stop, r->stop_count, &s->stop, err);
    if (st) return st;
    s->stop_strings = calloc(r->stop_count, sizeof *s->stop_strings);
    if (!s->stop_strings) return fore_fail_nomem(err, "the stop strings");
    for (size_t i = 0; i < r->stop_count; i++) {
        size_t n = strlen(r->stop[i]) + 1;
        s->stop_strings[i] = malloc(n);
        if (!s->stop_strings[i]) return fore_fail_nomem(err, "the stop strings");
        memcpy(s->stop_strings[i], r->stop[i], n);
        s->stop_count = i + 1;
    }
    return FORE_OK;
}

static fore_status take_draft(fore_session *s, const fore_request *r, fore_error *err) {
    const fore_draft *d = &r->draft;
    if (d->depth < FORE_DRAFT_AUTO || d->depth > FORE_DRAFT_MAX)
        return fore_fail(err, FORE_ERR_INVALID, "request: draft depth %d; expected 0 to %d, or auto (%d)", d->depth, FORE_DRAFT_MAX, FORE_DRAFT_AUTO);
    if (d->depth > 0 && !s->model->mtp.attached && !d->replay)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "request: draft depth %d, and no draft head: %s", d->depth, s->model->mtp.why);
    if ((unsigned)d->lookup > FORE_LOOKUP_ON) return fore_fail(err, FORE_ERR_INVALID, "request: lookup %d; expected a fore_draft_lookup", (int)d->lookup);
    s->draft = *d;
    s->lookups = d->lookup == FORE_LOOKUP_ON || (d->lookup == FORE_LOOKUP_AUTO && d->depth == FORE_DRAFT_AUTO);
    if (!s->model->mtp.attached && !d->replay && !s->lookups) s->draft.depth = 0;
    fore_rejection_free(s->rejection);
    s->rejection = NULL;
    if ((s->draft.depth || s->lookups) && d->sampler == FORE_SAMPLER_REJECTION && r->sampling.temperature > 0) {
        if (d->replay || d->wrong) /* a token that was not drawn from q would be accepted too often */
            return fore_fail(err, FORE_ERR_INVALID, "request: %s drafts have no distribution to reject by; use the seeded sampler",
                             d->replay ? "replayed" : "wrong");
        return fore_rejection_new(s->model->network.config.text.vocab_size, r->sampling.seed, &s->rejection, err);
    }
    return FORE_OK;
}

/* The request's own part: sampler, stop strings, counters. Nothing of the timeline. */
static fore_status take_request(fore_session *s, const fore_request *r, const fore_prepared *p, fore_error *err) {
    if (r->max_tokens < 0) return fore_fail(err, FORE_ERR_INVALID, "request: max_tokens %d; expected 0 or more", r->max_tokens);
    if (r->prefill_chunk < 0) return fore_fail(err, FORE_ERR_INVALID, "request: prefill_chunk %d; expected 0 or more", r->prefill_chunk);
    fore_sampler *sampler;
    fore_status st = fore_sampler_new(&r->sampling, s->model->network.config.text.vocab_size, s->model->usable, &sampler, err);
    if (st) return st;
    fore_sampler_free(s->sampler);
    s->sampler = sampler;
    st = take_draft(s, r, err);
    if (!st) st = copy_stop(s, r, err);
    if (st) return st;
    for (size_t i = 0; i < p->n; i++) fore_sampler_count(sampler, p->ids[i], false);
    if (s->model->tokenizer) fore_stream_init(&s->stream, s->model->tokenizer, true);
    s->piece.size = s->text.size = 0;
    s->generated = 0;
    s->replayed = 0;
    s->max_tokens = r->max_tokens;
    s->ignore_eos = r->ignore_eos;
    return FORE_OK;
}

fore_status fore_session_begin_seen(fore_session *s, const fore_request *r, fore_prefill_look look, void *user, fore_splice *splice,
                                    fore_error *err) {
    *splice = (fore_splice){0};
    s->active = false;
    s->stats = (fore_stats){0};
    fore_profile_start(&s->engine);
    fore_scratch_forget(&s->scratch, &s->model->network.config.text);
    double t0 = fore_clock();
    fore_prepared p;
    fore_status st = fore_prepare(s->model, r, (size_t)s->context, &p, err);
    if (st) return st;
    s->stats.image_seconds = fore_clock() - t0;
    st = take_request(s, r, &p, err);
    int rows = r->prefill_chunk ? r->prefill_chunk : FORE_DEFAULT_CHUNK;
    if (!st) st = fore_session_reserve(s, rows, s->draft.depth != 0 || s->lookups, err);
    int last = 0;
    if (!st) st = fore_session_prefill(s, r, &p, look, user, &last, splice, err);
    if (!st) {
        double t1 = fore_clock();
        size_t C = (size_t)s->model->network.config.text.hidden_size;
        fore_trunk_logits(&s->engine, &s->model->network, s->hidden + (size_t)last * C, 1, s->logits);
        if (s->lookups) fore_lookup_set(&s->lookup, p.ids, (int)p.n);
        s->has_logits = true;
        s->active = true;
        s->stats.prefill_seconds += fore_clock() - t1;
        s->stats.prompt_tokens = p.n;
        s->stats.images = p.picture_count;
        s->stats.image_tokens = p.picture_pads;
        s->stats.videos = p.video_count;
        s->stats.video_frames = p.video_frames;
        s->stats.video_tokens = p.video_pads;
        s->stats.state_bytes = s->state.kv_bytes + s->state.recurrent_bytes;
    }
    fore_profile_part(&s->engine, FORE_PART_TRUNK);
    fore_prepared_free(&p);
    return st;
}

fore_status fore_session_begin(fore_session *s, const fore_request *r, fore_error *err) {
    fore_splice splice;
    fore_status st = fore_session_begin_seen(s, r, NULL, NULL, &splice, err);
    fore_splice_free(&splice);
    return st;
}

void fore_session_get_stats(const fore_session *session, fore_stats *out) {
    const fore_touched *touched = &session->scratch.touched;
    *out = session->stats;
    out->experts_touched = touched->experts;
    out->expert_bytes_touched = touched->bytes;
    out->expert_bytes_read = touched->read;
}
