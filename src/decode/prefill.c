/* Prefill: a prepared prompt into the session's timeline, chunk by chunk; see session.h. */
#include "decode/session.h"

#include <stdlib.h>
#include <string.h>

/* Tokens of the timeline that the new prompt begins with, when that is all of the timeline and not all of the prompt (the
 * last row's logits are needed): the recurrent state cannot be cut shorter. Else 0. Pads are told apart by picture. */
static size_t reusable(const fore_session *s, const fore_prepared *p) {
    size_t length = (size_t)s->state.length;
    if (length == 0 || length >= p->n || memcmp(s->ids, p->ids, length * sizeof *s->ids) != 0) return 0;
    for (size_t i = 0; i < s->seen_count; i++) {
        if (s->seen[i].start >= length) break;
        if (i >= p->images || s->seen[i].start != p->starts[i] || memcmp(s->seen[i].digest, p->digests[i], FORE_DIGEST) != 0 ||
            memcmp(s->seen[i].grid, p->grids[i], sizeof s->seen[i].grid) != 0)
            return 0;
    }
    return length;
}

/* Rows of every picture that does not lie wholly in the reused prefix; the others' rows are left unset, nothing reads them. */
static fore_status see_images(fore_session *s, const fore_request *r, const fore_prepared *p, size_t reused, float **rows, size_t *count,
                              fore_error *err) {
    const fore_network *network = &s->model->network;
    size_t C = fore_picture_columns(&network->config), total = 0;
    *rows = NULL;
    *count = 0;
    for (size_t i = 0; i < p->images; i++) total += p->pads[i];
    if (!total) return FORE_OK;
    float *out = calloc(total * C, sizeof *out);
    if (!out) return fore_fail_nomem(err, "the pictures' rows");
    size_t at = 0;
    fore_status st = FORE_OK;
    for (size_t i = 0; i < p->images && !st; i++) {
        if (p->starts[i] + p->pads[i] > reused) {
            double t0 = fore_clock();
            float *patches;
            st = fore_prepare_patches(s->model, r, p, i, &patches, err);
            double t1 = fore_clock();
            if (!st) st = fore_tower_forward(&s->engine, network, patches, p->grids[i], out + at * C, r->progress, r->user, NULL, NULL, err);
            free(patches);
            s->stats.image_seconds += t1 - t0;
            s->stats.vision_seconds += fore_clock() - t1;
        }
        at += p->pads[i];
    }
    if (st) {
        free(out);
        return st;
    }
    *rows = out;
    *count = total;
    return FORE_OK;
}

static fore_status remember_images(fore_session *s, const fore_prepared *p, fore_error *err) {
    if (!p->images) {
        s->seen_count = 0;
        return FORE_OK;
    }
    fore_seen_image *seen = calloc(p->images, sizeof *seen);
    if (!seen) return fore_fail_nomem(err, "the pictures' table");
    for (size_t i = 0; i < p->images; i++) {
        memcpy(seen[i].digest, p->digests[i], FORE_DIGEST);
        memcpy(seen[i].grid, p->grids[i], sizeof seen[i].grid);
        seen[i].start = p->starts[i];
    }
    free(s->seen);
    s->seen = seen;
    s->seen_count = p->images;
    return FORE_OK;
}

/* Progress of a prefill in layers, so that a cancel need not wait for a whole chunk. */
typedef struct prefill_progress {
    const fore_request *request;
    uint64_t at, rows, tokens, layers;
} prefill_progress;

static bool cancelled(void *user, int layer) {
    const prefill_progress *p = user;
    uint64_t done = p->at * p->layers + p->rows * ((uint64_t)layer + 1);
    return p->request->progress(p->request->user, "prefill", done, p->tokens * p->layers) != 0;
}

/* The draft head's history goes on where the reused prefix ends; what it has not followed it will not know. */
static void begin_history(fore_session *s, const fore_splice *splice, const int32_t *ids, size_t reused) {
    fore_drafter *d = &s->drafter;
    bool wanted = s->draft.depth != 0 && s->model->mtp.attached;
    if (!reused || !d->keeping) {
        fore_drafter_restart(d, (int)reused);
        if (!reused) fore_draft_words_forget(&d->words);
        s->stats.history_missing = wanted ? reused : 0;
    } else {
        s->stats.history_missing = wanted ? (uint64_t)d->base : 0;
    }
    d->keeping = wanted;
    if (wanted) fore_drafter_begin(s, splice, ids);
}

fore_status fore_session_prefill(fore_session *s, const fore_request *r, const fore_prepared *p, fore_prefill_look look, void *user,
                                 int *last_row, fore_splice *splice, fore_error *err) {
    size_t reused = look ? 0 : reusable(s, p);
    float *rows;
    size_t row_count;
    fore_status st = see_images(s, r, p, reused, &rows, &row_count, err);
    if (st) return st;
    const fore_splice_input in = {
        .ids = p->ids,
        .n = p->n,
        .embeddings = rows,
        .rows = row_count,
        .hidden = s->model->network.config.text.hidden_size,
        .grids = (const int(*)[3])p->grids,
        .digests = (const uint8_t(*)[32])p->digests,
        .pad_counts = p->pads,
        .images = p->images,
        .times = p->times,
    };
    st = fore_splice_init(&s->model->network, &in, splice, err);
    if (!st) st = fore_splice_skip(splice, p->ids, reused, err);
    if (!st) st = remember_images(s, p, err);
    if (st) return st;
    /* From here on the timeline changes. */
    if (!reused) fore_state_reset(&s->state);
    begin_history(s, splice, p->ids, reused);
    s->has_logits = false;
    s->pending = -1;
    s->delta = splice->mrope_delta;
    s->stats.reused_tokens = reused;
    double t0 = fore_clock();
    prefill_progress progress = {.request = r, .tokens = p->n, .layers = (uint64_t)s->model->network.config.text.num_hidden_layers};
    for (size_t at = reused; at < p->n;) {
        size_t left = p->n - at;
        int T = left < (size_t)s->chunk ? (int)left : s->chunk;
        fore_profile_op(&s->engine, FORE_OP_EMBED);
        st = fore_splice_chunk(splice, p->ids + at, (size_t)T, s->embeddings, err);
        if (st) return st;
        const int32_t *table = splice->mrope_table + at;
        const fore_batch batch = {
            .T = T,
            .embeddings = s->embeddings,
            .positions = {table, table + p->n, table + 2 * p->n},
            .deepstack = splice->deepstack ? splice->deepstack + at : NULL,
            .hidden = s->hidden,
            .residual = s->residual,
            .stop = r->progress ? cancelled : NULL,
            .stop_user = &progress,
        };
        progress.at = at;
        progress.rows = (uint64_t)T;
        if (!fore_trunk_forward(&s->engine, &s->model->network, &s->state, &s->scratch, &batch)) {
            fore_session_reset(s);
            return fore_fail(err, FORE_ERR_CANCELLED, "cancelled during prefill");
        }
        memcpy(s->ids + at, p->ids + at, (size_t)T * sizeof *s->ids);
        fore_profile_part(&s->engine, FORE_PART_DRAFT);
        st = fore_drafter_prefill(s, splice, p->ids, at, T, fore_session_head_input(s), err);
        fore_profile_part(&s->engine, FORE_PART_TRUNK);
        if (!st && look) st = look(user, (int)at, T, s->embeddings, s->hidden, err);
        if (st) return st;
        at += (size_t)T;
        *last_row = T - 1;
    }
    s->stats.prefill_seconds = fore_clock() - t0;
    return fore_splice_finish(splice, err);
}
