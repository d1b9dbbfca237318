/* The weights of a network by name: which tensor plays which part, with every shape checked before first use. Vectors
 * (norms, biases, gates) are widened to f32 in the arena; bind.h says where matrices lie. Names and shapes: transformers
 * modeling_qwen3_5.py and its siblings qwen3_5_moe, qwen3_vl, qwen3_vl_moe, qwen2_5_vl, qwen3, qwen3_moe and qwen3_next. Axis
 * letters: C hidden, F mlp, H query heads, K key/value heads, D head dim, V vocabulary; linear layers: nk, nv heads of dk, dv. */
#ifndef FORE_MODEL_WEIGHTS_H
#define FORE_MODEL_WEIGHTS_H

#include "checkpoint/config.h"
#include "model/bind.h"

typedef struct fore_layer {
    bool full;               /* full attention, else Gated DeltaNet */
    const float *input_norm; /* [C] gain */
    const float *post_norm;  /* [C] gain */
    /* full attention */
    fore_weight q_proj;                          /* [H*D, C]; with an output gate [H*2*D, C], per head: query D, gate D */
    fore_weight k_proj, v_proj;                  /* [K*D, C] */
    fore_weight o_proj;                          /* [C, H*D] */
    const float *q_bias, *k_bias, *v_bias, *o_bias; /* NULL without */
    const float *q_norm, *k_norm;                /* [D] gain; NULL without */
    /* Gated DeltaNet: four projections, or all of them in two matrices whose rows are grouped by key head */
    fore_weight in_proj_qkvz; /* [nk*(2*dk + 2*nv/nk*dv), C], per key head: query, key, values, z of its value heads */
    fore_weight in_proj_ba;   /* [2*nv, C], per key head: b, a of its value heads */
    fore_weight in_proj_qkv;  /* [2*nk*dk + nv*dv, C]: queries, keys, values */
    fore_weight in_proj_z;    /* [nv*dv, C] */
    fore_weight in_proj_b, in_proj_a; /* [nv, C] */
    fore_weight out_proj;     /* [C, nv*dv] */
    const float *conv;        /* [kernel, 2*nk*dk + nv*dv] (transposed from the file) */
    const float *neg_exp_A;   /* [nv] -exp(A_log) */
    const float *dt_bias;     /* [nv] */
    const float *gated_norm;  /* [dv] plain gain, not 1 + w */
    /* MLP; of a mixture of experts: the shared expert, whose width is F here, if there is one */
    fore_weight gate_proj, up_proj; /* [F, C] */
    fore_weight down_proj;          /* [C, F] */
    /* Mixture of experts: E experts of width I */
    bool moe;
    int number;              /* among the trunk's layers and, after them, the draft head's */
    fore_weight router;      /* [E, C] */
    fore_weight shared_gate; /* [1, C] */
    fore_experts expert_gate, expert_up; /* [I, C] each */
    fore_experts expert_down;            /* [C, I] each */
} fore_layer;

typedef struct fore_tower_block {
    const float *norm1_w, *norm1_b, *norm2_w, *norm2_b; /* [Cv]; no bias: RMSNorm */
    fore_weight qkv, proj;                              /* [3*Cv,Cv], [Cv,Cv] */
    fore_weight fc1, fc2;                               /* [Fv,Cv], [Cv,Fv] */
    fore_weight up;                                     /* [Fv,Cv] of a gated MLP, whose gate is fc1; N 0: none */
    const float *qkv_b, *proj_b, *fc1_b, *fc2_b, *up_b;
} fore_tower_block;

/* merge^2 neighbouring patches side by side, through two layers. */
typedef struct fore_merger {
    const float *norm_w, *norm_b; /* no bias: RMSNorm. [Cv] of each patch; wide: [4Cv] of the patches side by side */
    fore_weight fc1, fc2;         /* [4Cv,4Cv], [C,4Cv] */
    const float *fc1_b, *fc2_b;
    bool wide;
} fore_merger;

typedef struct fore_tower {
    fore_weight patch_embed; /* [Cv, 3*temporal*patch*patch] */
    const float *patch_b;    /* [Cv], or NULL */
    fore_weight pos_embed;   /* [side*side, Cv] */
    int side;                /* 0: no learned positions */
    bool quantised;          /* some of its matrices are */
    fore_tower_block *blocks; /* [depth] */
    fore_merger merger;
    fore_merger *deepstack; /* [deepstack_count] of the rows after some blocks */
} fore_tower;

typedef struct fore_network {
    fore_config config;
    const fore_kern *kern;
    fore_store *store; /* owned */
    fore_arena arena;  /* everything below that is a pointer, except matrix data */
    fore_panels panels; /* quantised matrices */
    fore_weight embed;   /* [V,C] */
    fore_weight lm_head; /* [V,C]; the same as embed when tied */
    const float *norm;   /* [C] gain */
    bool norms_absolute;    /* the files hold the norms' gains themselves, not gain - 1 */
    const char *norms_rule; /* how that was found; static */
    fore_layer *layers;  /* [num_hidden_layers] */
    fore_tower tower;    /* when config.has_vision */
    const float *inv_freq;        /* [rotary_dim/2] */
    float rope_attention;         /* what cos and sin of text are multiplied by */
    const float *vision_inv_freq; /* [head_dim/4] of the tower */
    uint64_t text_parameters, vision_parameters, mtp_parameters;
    uint64_t active_parameters; /* of text_parameters: what one token's pass reads; all of a dense model's */
    int mtp_tensors; /* under any of the MTP prefixes, in the store's files */
} fore_network;

/* Opens the folder's config and weights. load may be NULL. On success *out is owned (fore_network_close). */
fore_status fore_network_open(const char *dir, const fore_kern *kern, const fore_load *load, fore_network *out, fore_error *err);
void fore_network_close(fore_network *network);

/* The mixture of experts of layer i, in the layout that the file has: experts.gate_up_proj [E,2I,C] with experts.down_proj
 * [E,C,I], or both transposed, [E,C,2I] with [E,I,C]; experts.N.{gate,up,down}_proj.weight; or
 * switch_mlp.{gate,up,down}_proj.weight [E,I,C], [E,C,I]. */
void fore_bind_moe(fore_binder *b, const fore_text_config *text, fore_layer *layer, int i);

/* A whole decoder layer, "layers.N." under the binder's prefix: its kinds are text->full_attention[i] and text->sparse[i]. plus:
 * 1 when its norms are zero-centred, 0 when they hold the gain itself, as MLX's conversions have it together with other axes. */
void fore_bind_layer(fore_binder *b, const fore_text_config *text, fore_layer *layer, int i, float plus);
/* Under which prefixes a tower's tensors may lie, and the one under which the store has a patch embedding; NULL: it has none. */
enum { FORE_VISION_PREFIXES = 4 };
extern const char *const fore_vision_prefixes[FORE_VISION_PREFIXES];
const char *fore_tower_prefix(const fore_store *store);
fore_status fore_tower_bind(fore_network *network, const char *prefix, fore_error *err);
/* Floats of a picture's row: what is spliced into the embeddings and, behind it, one part for each deepstack merger. */
static inline size_t fore_picture_columns(const fore_config *config) {
    int parts = config->has_vision ? config->vision.deepstack_count : 0;
    return (size_t)config->text.hidden_size * (1 + (size_t)parts);
}

#endif
