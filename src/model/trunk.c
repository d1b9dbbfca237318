/* The trunk's forward pass; see trunk.h. */
#include "model/trunk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "model/moe.h"
#include "model/profile.h"
#include "model/rope.h"

enum { ALIGN = FORE_ARENA_ALIGN };

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

static size_t wide_columns(const fore_text_config *t) {
    return max_size(fore_mlp_columns(t), max_size(fore_attention_columns(t), fore_deltanet_columns(t)));
}

static size_t worker_floats(const fore_text_config *t, int capacity) {
    size_t attend = fore_attend_scratch(capacity, t->num_attention_heads / t->num_key_value_heads);
    size_t n = max_size(attend, fore_deltanet_room(t));
    size_t widest = max_size((size_t)t->hidden_size, (size_t)t->moe_intermediate_size);
    if (t->num_experts) n = max_size(n, FORE_STRIP * widest); /* transposed experts */
    return (n + 15) / 16 * 16;
}

static size_t row_floats(const fore_text_config *t) {
    return 3 * (size_t)t->hidden_size + wide_columns(t) + (size_t)t->rotary_dim;
}

/* Widest input of a product, in numbers a row; a mixture of experts has k rows for one. The draft head's is two hiddens. */
static size_t widest_input(const fore_text_config *t) {
    size_t C = (size_t)t->hidden_size, heads = (size_t)t->num_attention_heads * (size_t)t->head_dim;
    size_t values = (size_t)t->linear_num_value_heads * (size_t)t->linear_value_head_dim, I = (size_t)t->moe_intermediate_size;
    size_t dense = max_size((size_t)t->intermediate_size, (size_t)t->shared_expert_intermediate_size);
    size_t n = max_size(max_size(2 * C, max_size(heads, values)), max_size(dense, (size_t)t->num_experts_per_tok * max_size(C, I)));
    return (n + 31) / 32 * 32;
}

static size_t seen_bytes(const fore_text_config *t) {
    return ((size_t)t->num_hidden_layers + (size_t)t->mtp_num_hidden_layers) * (size_t)t->num_experts;
}

fore_status fore_scratch_plan(const fore_text_config *t, int rows, int capacity, int threads, size_t *bytes, fore_error *err) {
    size_t a, b, total;
    if (__builtin_mul_overflow((size_t)rows, row_floats(t) + 8 * ALIGN, &a) ||
        __builtin_mul_overflow((size_t)threads, worker_floats(t, capacity), &b) || __builtin_add_overflow(a, b, &total) ||
        __builtin_mul_overflow(total, sizeof(float), &total) || __builtin_add_overflow(total, seen_bytes(t) + 12 * ALIGN, &total) ||
        __builtin_mul_overflow((size_t)rows, 2 * (widest_input(t) + widest_input(t) / FORE_LEAST_GROUP * 2 * sizeof(float)), &a) ||
        __builtin_add_overflow(total, a, &total))
        return fore_fail(err, FORE_ERR_LIMIT, "scratch: %d rows do not fit the address space", rows);
    *bytes = total;
    return FORE_OK;
}

fore_status fore_scratch_new(const fore_text_config *t, int rows, int capacity, int threads, fore_scratch *out, fore_error *err) {
    *out = (fore_scratch){.rows = rows, .worker_floats = worker_floats(t, capacity)};
    fore_status s = fore_scratch_plan(t, rows, capacity, threads, &out->bytes, err);
    if (s) return s;
    s = fore_quantised_new((size_t)rows * widest_input(t), &out->quantised, err);
    if (s) return s;
    out->memory = calloc(1, out->bytes - out->quantised.bytes); /* touched page by page as it is used */
    if (!out->memory) {
        fore_quantised_free(&out->quantised);
        return fore_fail_nomem(err, "the scratch memory of a session");
    }
    fore_pages_wish_large(out->memory, out->bytes - out->quantised.bytes);
    char *at = out->memory;
    size_t T = (size_t)rows, C = (size_t)t->hidden_size, half = (size_t)t->rotary_dim / 2;
    out->x = fore_carve(&at, T * C);
    out->h = fore_carve(&at, T * C);
    out->mix = fore_carve(&at, T * C);
    out->wide = fore_carve(&at, T * wide_columns(t));
    out->cos = fore_carve(&at, T * half);
    out->sin = fore_carve(&at, T * half);
    out->worker = fore_carve(&at, (size_t)threads * out->worker_floats);
    if (seen_bytes(t)) out->seen = (unsigned char *)at; /* the last part, for it is counted in bytes */
    return FORE_OK;
}

void fore_scratch_free(fore_scratch *scratch) {
    fore_quantised_free(&scratch->quantised);
    free(scratch->memory);
    *scratch = (fore_scratch){0};
}

void fore_scratch_forget(fore_scratch *scratch, const fore_text_config *t) {
    scratch->touched = (fore_touched){0};
    if (scratch->seen) memset(scratch->seen, 0, seen_bytes(t));
}

/* Part i of the picture rows, onto the rows of their pads. */
static void add_deepstack(const fore_engine *engine, float *x, const float *const *parts, int i, int T, size_t C) {
    for (int t = 0; t < T; t++)
        if (parts[t]) engine->kern->add(x + (size_t)t * C, parts[t] + (size_t)i * C, C);
}

bool fore_trunk_forward(const fore_engine *engine, const fore_network *network, fore_state *state, fore_scratch *s, const fore_batch *b) {
    const fore_text_config *t = &network->config.text;
    int T = b->T, C = t->hidden_size;
    size_t rows = (size_t)T, cols = (size_t)C;
    assert(T >= 1 && T <= s->rows && T <= state->capacity - state->length);
    fore_pass pass = {engine, t, state, s, T, state->length, 0, b->window};
    assert(!b->window || T <= b->window->rows);
    fore_profile_op(engine, FORE_OP_ROPE);
    fore_rope_text(t, network->inv_freq, network->rope_attention, b->positions, T, s->cos, s->sin);
    fore_profile_op(engine, FORE_OP_NORM);
    memcpy(s->x, b->embeddings, rows * cols * sizeof(float));
    bool normed = false; /* s->h is the layer's input already */
    for (int i = 0; i < t->num_hidden_layers; i++) {
        const fore_layer *l = &network->layers[i];
        if (!normed) fore_norm_rows(engine, s->h, s->x, l->input_norm, T, C, t->rms_norm_eps);
        if (l->full) fore_attention(&pass, l, &state->layers[i], s->h, s->mix);
        else fore_deltanet(&pass, l, i, &state->layers[i], s->h, s->mix);
        fore_profile_op(engine, FORE_OP_NORM);
        if (b->tap) b->tap(b->tap_user, "mixer", i, s->mix, rows, cols);
        fore_add_norm_rows(engine, s->h, s->x, s->mix, l->post_norm, T, C, t->rms_norm_eps);
        fore_mlp(&pass, l, s->h, s->mix);
        fore_profile_op(engine, FORE_OP_NORM);
        if (b->tap) b->tap(b->tap_user, "mlp", i, s->mix, rows, cols);
        normed = i + 1 < t->num_hidden_layers && !b->deepstack;
        if (normed) fore_add_norm_rows(engine, s->h, s->x, s->mix, l[1].input_norm, T, C, t->rms_norm_eps);
        else fore_add_rows(engine, s->x, s->mix, T, C);
        if (b->tap) b->tap(b->tap_user, "hidden", i, s->x, rows, cols);
        if (b->deepstack && i < network->config.vision.deepstack_count) add_deepstack(engine, s->x, b->deepstack, i, T, cols);
        if (b->stop && b->stop(b->stop_user, i)) return false;
    }
    if (b->window) b->window->T = T;
    else state->length += T;
    if (b->residual) memcpy(b->residual, s->x, rows * cols * sizeof(float));
    if (b->hidden) fore_norm_rows(engine, b->hidden, s->x, network->norm, T, C, t->rms_norm_eps);
    return true;
}

void fore_trunk_logits(const fore_engine *engine, const fore_network *network, const float *hidden, int T, float *logits) {
    const fore_product out = {&network->lm_head, NULL, logits, (size_t)network->lm_head.N};
    fore_profile_op(engine, FORE_OP_HEAD);
    fore_linear(engine, hidden, (size_t)network->config.text.hidden_size, T, &out, 1);
}

void fore_trunk_commit(const fore_engine *engine, const fore_network *network, fore_state *state, fore_scratch *scratch,
                       fore_window *window, int n) {
    const fore_text_config *t = &network->config.text;
    assert(n >= 0 && n <= window->T);
    fore_pass pass = {engine, t, state, scratch, n, state->length, 0, window};
    for (int i = 0; n && i < t->num_hidden_layers; i++)
        if (!t->full_attention[i]) fore_deltanet_replay(&pass, i, &state->layers[i], n);
    state->length += n;
    window->T = 0;
}
