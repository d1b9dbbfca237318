/* The trunk: T rows of embeddings in, T rows of hidden states out, the state advanced by T tokens. One path for one token,
 * a window and a prefill chunk; every row gets the bits that it would get alone. Reference: transformers
 * modeling_qwen3_5.py, Qwen3_5TextModel.forward, and modeling_qwen3_vl.py for what is added after the first layers. It knows nothing of tokens, pictures or speculation. */
#ifndef FORE_MODEL_TRUNK_H
#define FORE_MODEL_TRUNK_H

#include "model/linear.h"
#include "model/state.h"

/* Looks at intermediate tensors: name ("mixer", "mlp", "hidden", ...), layer or block index, [rows,cols]. */
typedef void (*fore_tap)(void *user, const char *name, int index, const float *data, size_t rows, size_t cols);

/* What passes read of a mixture's experts. */
typedef struct fore_touched {
    uint64_t experts, bytes; /* those that some row picked, each once */
    uint64_t read;           /* bytes, once for each pass of a layer that used the expert */
} fore_touched;

/* Scratch memory of one session for up to `rows` rows a call. */
typedef struct fore_scratch {
    int rows;
    float *x, *h, *mix; /* [rows,C] */
    float *wide;        /* [rows, the widest layer's intermediate columns] */
    float *cos, *sin;   /* [rows, rotary_dim/2] */
    float *worker;      /* [threads, worker_floats] */
    size_t worker_floats;
    fore_quantised quantised; /* the engine's, for calls of so many rows */
    unsigned char *seen; /* [layers of trunk and draft head, E] experts that touched counts; no mixture: not there */
    fore_touched touched;
    void *memory; /* owned */
    size_t bytes;
} fore_scratch;

fore_status fore_scratch_plan(const fore_text_config *text, int rows, int capacity, int threads, size_t *bytes, fore_error *err);
fore_status fore_scratch_new(const fore_text_config *text, int rows, int capacity, int threads, fore_scratch *out, fore_error *err);
void fore_scratch_free(fore_scratch *scratch);
/* Begins to count touched experts anew. */
void fore_scratch_forget(fore_scratch *scratch, const fore_text_config *text);

/* A window of rows under verification: what a commit needs to replay the accepted ones on the recurrent state, which the
 * window itself leaves alone. One a session; per linear layer [rows, ...]. */
typedef struct fore_window {
    int rows; /* most rows of a window */
    struct fore_window_layer {
        float *u;            /* [rows, channels] raw inputs of the convolution */
        float *c;            /* [key heads, T, channels of one] queries, keys (normed) and values */
        float *beta, *decay; /* [rows, nv] */
    } *layers;
    float *spare; /* [rows, nv*dv] outputs that a replay throws away */
    int T;        /* rows of the window at hand; 0: none */
    void *memory; /* owned */
    size_t bytes;
} fore_window;

fore_status fore_window_plan(const fore_text_config *text, int rows, size_t *bytes, fore_error *err);
fore_status fore_window_new(const fore_text_config *text, int rows, fore_window *out, fore_error *err);
void fore_window_free(fore_window *window);

typedef struct fore_batch {
    int T;                       /* 1 .. scratch rows (and window rows) */
    const float *embeddings;     /* [T,C] */
    const int32_t *positions[3]; /* axes t, h, w: [T] each */
    /* [T] of a picture's pad the parts of its row that are added after the first layers, [deepstack_count, C], else NULL; NULL: no
     * row has any */
    const float *const *deepstack;
    float *hidden;               /* out, [T,C]: after the final norm; may be NULL */
    float *residual;             /* out, [T,C]: before the final norm; may be NULL */
    fore_window *window;         /* not NULL: verify, see fore_trunk_commit */
    fore_tap tap;                /* may be NULL */
    void *tap_user;
    bool (*stop)(void *user, int layer); /* asked after each layer; true abandons the pass; may be NULL */
    void *stop_user;
} fore_batch;

/* state->length + T <= state->capacity (the caller's check). Takes no memory, cannot fail. False: abandoned by `stop`; the
 * state is then between two lengths and must be reset. With a window the state's length
 * and its recurrent part stay as they are (key/value rows past the length are not part of the state). */
bool fore_trunk_forward(const fore_engine *engine, const fore_network *network, fore_state *state, fore_scratch *scratch,
                        const fore_batch *batch);
/* Takes the window's first n rows into the state: the same operations in the same order as feeding them one by one, so the
 * same bits. The window is used up. 0 <= n <= rows of the window. */
void fore_trunk_commit(const fore_engine *engine, const fore_network *network, fore_state *state, fore_scratch *scratch,
                       fore_window *window, int n);
/* logits [T,V] of hidden [T,C]. */
void fore_trunk_logits(const fore_engine *engine, const fore_network *network, const float *hidden, int T, float *logits);

/* One call of the trunk, as the layer files see it. */
typedef struct fore_pass {
    const fore_engine *engine;
    const fore_text_config *text;
    fore_state *state;
    fore_scratch *scratch;
    int T, start; /* rows, and the sequence index of the first one */
    int from;     /* rows before it leave keys and values only: their branch is not computed (attention) */
    fore_window *window; /* NULL: the recurrent state moves on */
} fore_pass;

/* Each takes normed rows x [T,C] and gives the branch y [T,C]; scratch->wide is theirs meanwhile. */
void fore_attention(const fore_pass *pass, const fore_layer *layer, fore_layer_state *state, const float *x, float *y);
void fore_deltanet(const fore_pass *pass, const fore_layer *layer, int index, fore_layer_state *state, const float *x, float *y);
/* The recurrent part of a commit, for one layer. */
void fore_deltanet_replay(const fore_pass *pass, int index, fore_layer_state *state, int n);
void fore_mlp(const fore_pass *pass, const fore_layer *layer, const float *x, float *y); /* dense or experts */
void fore_dense_mlp(const fore_pass *pass, const fore_layer *layer, const float *x, float *y);
/* Columns of `wide` that each needs. */
size_t fore_attention_columns(const fore_text_config *text);
size_t fore_deltanet_columns(const fore_text_config *text);
size_t fore_mlp_columns(const fore_text_config *text);
/* Floats of `worker` that DeltaNet needs. */
size_t fore_deltanet_room(const fore_text_config *text);

#endif
