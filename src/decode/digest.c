/* The digest of a session's timeline: what it would go on from, and nothing else (not how it came there). */
#include <sodium.h>

#include "decode/session.h"

static void add_floats(crypto_generichash_state *h, const float *x, size_t n) {
    crypto_generichash_update(h, (const unsigned char *)x, n * sizeof *x);
}

void fore_session_digest(const fore_session *s, uint8_t digest[32]) {
    const fore_text_config *t = &s->model->network.config.text;
    crypto_generichash_state h;
    crypto_generichash_init(&h, NULL, 0, 32);
    size_t S = (size_t)s->state.length, D = (size_t)t->head_dim;
    crypto_generichash_update(&h, (const unsigned char *)&s->state.length, sizeof s->state.length);
    crypto_generichash_update(&h, (const unsigned char *)&s->delta, sizeof s->delta);
    crypto_generichash_update(&h, (const unsigned char *)s->ids, S * sizeof *s->ids);
    crypto_generichash_update(&h, (const unsigned char *)&s->pending, sizeof s->pending);
    size_t dk = (size_t)t->linear_key_head_dim, nv = (size_t)t->linear_num_value_heads, dv = (size_t)t->linear_value_head_dim;
    for (int i = 0; i < t->num_hidden_layers; i++) {
        const fore_layer_state *l = &s->state.layers[i];
        if (!t->full_attention[i]) {
            add_floats(&h, l->S, nv * dk * dv);
            add_floats(&h, l->conv, ((size_t)t->linear_conv_kernel_dim - 1) * fore_linear_channels(t));
            continue;
        }
        for (int head = 0; head < t->num_key_value_heads; head++) {
            add_floats(&h, l->v + (size_t)head * (size_t)s->state.capacity * D, S * D);
            for (size_t j = 0; j < S; j++) /* lanes of the last panel past the length are not part of the state */
                for (size_t d = 0; d < D; d++) add_floats(&h, &l->k[fore_state_key_at(&s->state, (int)D, head, (int)j, (int)d)], 1);
        }
    }
    crypto_generichash_final(&h, digest, 32);
}
