/* config.json of the Qwen3.5, Qwen3-VL, Qwen3 and Qwen2.5-VL families: nested (text_config, vision_config) and flat (text-only) forms,
 * defaults of the reference classes (transformers configuration_qwen3_5.py and its siblings). Names are those of the file. Every
 * size is checked to be positive and small enough that products of two fit in 63 bits. */
#ifndef FORE_CHECKPOINT_CONFIG_H
#define FORE_CHECKPOINT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/error.h"

/* How rope_type "linear" and "yarn" stretch the frequencies, under the names of rope_parameters; factor is 1 without. */
typedef struct fore_rope_scaling {
    double factor; /* frequencies are divided by it */
    bool yarn;     /* those that turn often keep as they are; the rest is for this kind alone */
    int original_max_position_embeddings;
    double beta_fast, beta_slow; /* turns within so many positions: above the one kept, below the other divided */
    bool truncate;               /* the bounds between frequencies are made whole numbers */
    double attention_factor;     /* of cos and sin; 0: what follows from factor and the next two */
    double mscale, mscale_all_dim;
} fore_rope_scaling;

typedef struct fore_text_config {
    int vocab_size, hidden_size, num_hidden_layers;
    int intermediate_size; /* of the dense layers; 0: there are none */
    /* Mixture of experts; all 0 in a dense model. num_experts_per_tok <= num_experts. */
    int num_experts, num_experts_per_tok, moe_intermediate_size;
    int shared_expert_intermediate_size; /* 0: no shared expert */
    const bool *sparse;  /* [num_hidden_layers] the layers with experts; NULL: none */
    bool norm_topk_prob; /* the picked experts' weights are divided by their sum */
    int num_attention_heads, num_key_value_heads, head_dim;
    bool attention_bias;     /* of queries, keys and values */
    bool output_bias;        /* of attention's output */
    bool qk_norm;            /* each head's query and key are normed */
    bool output_gate;        /* attention's output is gated; q_proj then has the gate's rows too */
    bool zero_centred_norms; /* the files hold a norm's gain - 1 */
    float rms_norm_eps;
    const bool *full_attention; /* [num_hidden_layers]; false: linear_attention */
    /* Linear layers; all 0 in a family without. */
    int linear_conv_kernel_dim, linear_key_head_dim, linear_value_head_dim, linear_num_key_heads, linear_num_value_heads;
    bool linear_by_key_head; /* their projections come as in_proj_qkvz and in_proj_ba, rows grouped by key head */
    double rope_theta;
    fore_rope_scaling rope_scaling;
    int rotary_dim;       /* int(head_dim * partial_rotary_factor), even */
    int mrope_section[3]; /* sums to rotary_dim / 2; without the key: as the reference's default acts on this size; all time
                           * in a family without pictures */
    bool mrope_blocks; /* frequencies follow time, rows, columns in three blocks of these sizes; else interleaved */
    bool tie_word_embeddings; /* of the object that counts: top level for VLM, own level for text-only */
    int max_position_embeddings; /* with yarn at least what it stretches to */
    int mtp_num_hidden_layers; /* 0: no head declared */
} fore_text_config;

/* Channels of a linear layer's convolution: queries, keys, values. */
static inline size_t fore_linear_channels(const fore_text_config *t) {
    return 2 * (size_t)t->linear_num_key_heads * (size_t)t->linear_key_head_dim +
           (size_t)t->linear_num_value_heads * (size_t)t->linear_value_head_dim;
}

enum { FORE_CONFIG_EOS = 16, FORE_CONFIG_DEEPSTACK = 64 };

typedef struct fore_vision_config {
    int depth, hidden_size, intermediate_size, num_heads, in_channels, patch_size, temporal_patch_size, spatial_merge_size;
    int out_hidden_size;
    int num_position_embeddings; /* 0: no learned positions */
    /* The towers of Qwen2.5-VL: RMSNorm, a gated MLP, no learned positions; most blocks look at windows alone. */
    bool gated;
    int window_size; /* pixels of a window's side, a patch merged at least; 0: there are no windows */
    const bool *full_attention; /* [depth] the blocks that look at all of a frame; NULL: every one */
    int tokens_per_second; /* positions that a second of a video takes; 0: each of its frames is a picture */
    double rope_theta; /* 10000 */
    /* Blocks after which a merger of their own makes rows that are added after the first decoder layers; increasing. */
    int deepstack_visual_indexes[FORE_CONFIG_DEEPSTACK], deepstack_count;
} fore_vision_config;

/* What config.json says of how the files hold quantised weights, and the tensors themselves do not. */
typedef struct fore_stored_settings {
    const char *method;            /* "fp8", "compressed-tensors", "awq", "gptq", "mlx"; "": nothing is quantised */
    fore_dtype dtype;              /* that the model computes in; OTHER: not said */
    int block_rows, block_columns; /* weights that share one scale of an FP8 matrix; 0: not said */
    int bits;                      /* GPTQ, AWQ: of most modules; 0: not said */
    bool zeros_less_one;           /* GPTQ: the zero points in the files are less by one */
} fore_stored_settings;

typedef struct fore_config {
    const char *architecture; /* architectures[0], or "" */
    const char *model_type;
    fore_text_config text;
    bool has_vision;
    fore_vision_config vision;
    fore_stored_settings stored;
    /* -1 without vision, and where the file names none and the reference's default is outside the vocabulary. */
    int32_t image_token_id, video_token_id, vision_start_token_id, vision_end_token_id;
    int32_t eos[FORE_CONFIG_EOS]; /* eos_token_id of the top, else of text_config; a number or a list; null: none */
    int eos_count;
} fore_config;

/* Reads dir/config.json; strings and arrays live in the arena. FORE_ERR_UNSUPPORTED names the architecture, the setting
 * (rope_type, attn_output_gate false, hidden_act, layer_scale, sliding windows, quantisation, ...) and what is
 * supported. */
fore_status fore_config_read(const char *dir, fore_arena *arena, fore_config *out, fore_error *err);
/* The same from text; `what` names it in messages. */
fore_status fore_config_parse(const char *json, size_t size, const char *what, fore_arena *arena, fore_config *out,
                              fore_error *err);

#endif
