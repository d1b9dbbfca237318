/* The draft head's forward pass; see mtp.h. */
#include "model/mtp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/profile.h"
#include "model/rope.h"

fore_status fore_mtp_scratch_new(const fore_mtp *mtp, int rows, fore_mtp_scratch *out, fore_error *err) {
    *out = (fore_mtp_scratch){.rows = rows};
    size_t C = (size_t)mtp->text.hidden_size, n = (size_t)rows;
    out->bytes = (n * 5 * C + 2 * C) * sizeof(float) + 8 * (size_t)FORE_ARENA_ALIGN;
    out->memory = calloc(1, out->bytes);
    if (!out->memory) return fore_fail_nomem(err, "the scratch memory of the draft head");
    char *at = out->memory;
    out->x = fore_carve(&at, n * C);
    out->h = fore_carve(&at, n * C);
    out->mix = fore_carve(&at, n * C);
    out->pair = fore_carve(&at, n * 2 * C);
    out->fc = fore_carve(&at, C);
    out->post = fore_carve(&at, C);
    return FORE_OK;
}

void fore_mtp_scratch_free(fore_mtp_scratch *scratch) {
    free(scratch->memory);
    *scratch = (fore_mtp_scratch){0};
}

/* x = fc(concat(norm_e(embedding), norm_h(hidden))) in the contract's order. */
static void join(const fore_engine *e, const fore_mtp *m, fore_mtp_scratch *s, const fore_mtp_batch *b) {
    size_t C = (size_t)m->text.hidden_size;
    float eps = m->text.rms_norm_eps, *first = s->pair, *second = s->pair + C;
    bool swap = m->contract.hidden_first;
    e->kern->rms_norm(swap ? second : first, 2 * C, b->embeddings, C, m->norm_embedding, b->T, (int)C, eps);
    e->kern->rms_norm(swap ? first : second, 2 * C, b->hidden, C, m->norm_hidden, b->T, (int)C, eps);
    const fore_product fc = {&m->fc, NULL, s->x, C};
    fore_linear(e, s->pair, 2 * C, b->T, &fc, 1);
}

static const float *output_of(const fore_mtp *m, const fore_mtp_scratch *s, const fore_mtp_batch *b, fore_head_output which) {
    size_t last = (size_t)(b->T - 1) * (size_t)m->text.hidden_size;
    switch (which) {
    case FORE_HEAD_FC: return s->fc;
    case FORE_HEAD_PRE_NORM: return s->x + last;
    case FORE_HEAD_EMBEDDING: return b->embeddings + last;
    case FORE_HEAD_PREV: return b->hidden + last;
    case FORE_HEAD_POST_NORM: break;
    }
    return s->post;
}

void fore_mtp_forward(const fore_engine *e, const fore_network *network, const fore_mtp *m, fore_state *state, fore_scratch *scratch,
                      fore_mtp_scratch *s, const fore_mtp_batch *b) {
    const fore_text_config *t = &m->text;
    int T = b->T, C = t->hidden_size, layers = t->num_hidden_layers;
    size_t cols = (size_t)C;
    assert(T >= 1 && T <= s->rows && T <= scratch->rows && T <= state->capacity - state->length && b->from >= 0 && b->from <= T);
    fore_profile_op(e, FORE_OP_ROPE);
    fore_rope_text(t, network->inv_freq, network->rope_attention, b->positions, T, scratch->cos, scratch->sin);
    fore_profile_op(e, FORE_OP_JOIN);
    join(e, m, s, b);
    fore_profile_op(e, FORE_OP_NORM);
    memcpy(s->fc, s->x + (size_t)(T - 1) * cols, cols * sizeof(float));
    for (int i = 0; i < layers; i++) {
        const fore_layer *l = &m->layers[i];
        int from = i == layers - 1 ? b->from : 0; /* only the last layer's branch can be spared */
        const fore_pass pass = {e, t, state, scratch, T, state->length, from, NULL};
        fore_norm_rows(e, s->h, s->x, l->input_norm, T, C, t->rms_norm_eps);
        fore_attention(&pass, l, &state->layers[i], s->h, s->mix);
        int rows = T - from;
        if (!rows) break;
        fore_profile_op(e, FORE_OP_NORM);
        float *x = s->x + (size_t)from * cols, *h = s->h + (size_t)from * cols, *mix = s->mix + (size_t)from * cols;
        fore_add_rows(e, x, mix, rows, C);
        fore_norm_rows(e, h, x, l->post_norm, rows, C, t->rms_norm_eps);
        const fore_pass mlp = {e, t, state, scratch, rows, 0, 0, NULL};
        fore_mlp(&mlp, l, h, mix);
        fore_profile_op(e, FORE_OP_NORM);
        fore_add_rows(e, x, mix, rows, C);
    }
    state->length += T;
    if (b->from == T) return;
    if (b->post_norm) {
        size_t at = (size_t)b->from * cols;
        fore_norm_rows(e, b->post_norm + at, s->x + at, m->norm, T - b->from, C, t->rms_norm_eps);
    }
    if (b->next) {
        fore_norm_rows(e, s->post, s->x + (size_t)(T - 1) * cols, m->norm, 1, C, t->rms_norm_eps);
        const float *left = output_of(m, s, b, m->contract.left), *right = output_of(m, s, b, m->contract.right);
        float a = m->contract.mix;
        if (a == 1) memmove(b->next, left, cols * sizeof(float));
        else
            for (size_t c = 0; c < cols; c++) b->next[c] = a * left[c] + (1 - a) * right[c];
    }
}
