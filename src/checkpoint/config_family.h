/* Inside the checkpoint room: the kinds of models that open, as a table. What their config.json calls them, what differs in
 * the forward pass, and the defaults of the reference classes (transformers configuration_*.py). */
#ifndef FORE_CHECKPOINT_CONFIG_FAMILY_H
#define FORE_CHECKPOINT_CONFIG_FAMILY_H

#include <stdbool.h>

typedef struct fore_family {
    const char *model_type; /* with a vision tower; NULL: text alone */
    const char *text_type;  /* of text_config, and of a text-only file */
    const char *whole[3], *text_only[3]; /* architectures, ended by NULL */
    bool moe;
    bool linear;         /* most layers are Gated DeltaNets */
    bool by_key_head;    /* their projections are fused in two matrices, see fore_text_config.linear_by_key_head */
    bool output_gate, zero_centred_norms;
    bool qk_norm;        /* each head's query and key are normed */
    bool qkv_bias;       /* queries, keys and values have biases, the output has none, whatever attention_bias says */
    bool draft_head;     /* checkpoints may have one */
    bool dense_layers;   /* decoder_sparse_step and mlp_only_layers make some layers of a mixture dense */
    bool fixed_topk;     /* the picked experts' weights always add up to 1, whatever norm_topk_prob says */
    bool norm_topk_prob; /* default otherwise */
    bool mrope, deepstack;
    bool mrope_blocks;   /* see fore_text_config */
    bool windows;        /* the vision tower is of the kind with windows, see fore_vision_config.gated */
    bool inner_tie;      /* tie_word_embeddings counts in text_config too */
    /* Defaults. head_dim 0: hidden_size / num_attention_heads. */
    int vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim;
    int max_position_embeddings;
    int num_experts, num_experts_per_tok, moe_intermediate_size, shared_expert_intermediate_size; /* the last 0: no such expert */
    double rms_norm_eps; /* 0: 1e-6 */
    double rope_theta, partial_rotary_factor;
    int mrope_section[3];
    int eos, image, video, vision_start, vision_end; /* token ids; eos -1: none */
} fore_family;

/* By a model_type (of either kind), or by an architecture; NULL: not supported. */
const fore_family *fore_family_of_type(const char *model_type);
const fore_family *fore_family_of_architecture(const char *architecture);
/* Whether the architecture is the text class of its family. */
bool fore_family_is_text(const fore_family *family, const char *architecture);
/* What is supported, for messages. */
extern const char fore_family_list[];

#endif
