/* The trunk: T rows of embeddings in, T rows of hidden states out, the state advanced by T tokens. One path for one token,
 * a window and a prefill chunk; every row gets the bits that it would get alone. Reference: transformers
 * modeling_qwen3_5.py, Qwen3_5TextModel.forward. It knows nothing of tokens, pictures or speculation. */
#ifndef FORE_MODEL_TRUNK_H
#define FORE_MODEL_TRUNK_H

#include "model/linear.h"
#include "model/state.h"

/* Looks at intermediate tensors: name ("mixer", "mlp", "hidden", ...), layer or block index, [rows,cols]. */
typedef void (*fore_tap)(void *user, const char *name, int index, const float *data, size_t rows, size_t cols);

/* Scratch memory of one session for up to `rows` rows a call. */
typedef struct fore_scratch {
    int rows;
    float *x, *h, *mix; /* [rows,C] */
    float *wide;        /* [rows, the widest layer's intermediate columns] */
    float *cos, *sin;   /* [rows, rotary_dim/2] */
    float *worker;      /* [threads, worker_floats] */
    size_t worker_floats;
    void *memory; /* owned */
    size_t bytes;
} fore_scratch;

fore_status fore_scratch_plan(const fore_text_config *text, int rows, int capacity, int threads, size_t *bytes, fore_error *err);
fore_status fore_scratch_new(const fore_text_config *text, int rows, int capacity, int threads, fore_scratch *out, fore_error *err);
void fore_scratch_free(fore_scratch *scratch);

typedef struct fore_batch {
    int T;                       /* 1 .. scratch rows */
    const float *embeddings;     /* [T,C] */
    const int32_t *positions[3]; /* axes t, h, w: [T] each */
    float *hidden;               /* out, [T,C]: after the final norm; may be NULL */
    fore_tap tap;                /* may be NULL */
    void *tap_user;
} fore_batch;

/* state->length + T <= state->capacity (the caller's check). Takes no memory, cannot fail. */
void fore_trunk_forward(const fore_engine *engine, const fore_network *network, fore_state *state, fore_scratch *scratch,
                        const fore_batch *batch);
/* logits [T,V] of hidden [T,C]. */
void fore_trunk_logits(const fore_engine *engine, const fore_network *network, const float *hidden, int T, float *logits);

/* One call of the trunk, as the layer files see it. */
typedef struct fore_pass {
    const fore_engine *engine;
    const fore_text_config *text;
    fore_state *state;
    fore_scratch *scratch;
    int T, start; /* rows, and the sequence index of the first one */
} fore_pass;

/* Each takes normed rows x [T,C] and gives the branch y [T,C]; scratch->wide is theirs meanwhile. */
void fore_attention(const fore_pass *pass, const fore_layer *layer, fore_layer_state *state, const float *x, float *y);
void fore_deltanet(const fore_pass *pass, const fore_layer *layer, fore_layer_state *state, const float *x, float *y);
void fore_mlp(const fore_pass *pass, const fore_layer *layer, const float *x, float *y);
/* Columns of `wide` that each needs. */
size_t fore_attention_columns(const fore_text_config *text);
size_t fore_deltanet_columns(const fore_text_config *text);
size_t fore_mlp_columns(const fore_text_config *text);

#endif
