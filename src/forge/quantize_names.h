/* What the names of a checkpoint's tensors say: which part of the model a tensor belongs to, what kind of matrix it is, how wide that
 * is, and what MLX-LM calls it. Names are those of transformers modeling_qwen3_5.py and its siblings, and MLX-LM's of qwen3_5_moe.py
 * for stacked experts. Knows neither files nor forms. */
#ifndef FORE_FORGE_QUANTIZE_NAMES_H
#define FORE_FORGE_QUANTIZE_NAMES_H

#include "base/buf.h"
#include "checkpoint/config.h"

typedef enum fore_name_region { FORE_NAME_TEXT, FORE_NAME_DRAFT, FORE_NAME_VISION } fore_name_region;

typedef enum fore_name_kind {
    FORE_NAME_OTHER,    /* no matrix of a module: norms, biases, convolutions, A_log, dt_bias */
    FORE_NAME_LINEAR,   /* [N,K] */
    FORE_NAME_STACK,    /* [E,N,K] */
    FORE_NAME_FUSED,    /* experts' gate and up in one, [E,2N,K] */
    FORE_NAME_DOWN,     /* experts' down beside it, [E,N,K] */
    FORE_NAME_NUMBERED, /* one expert's [N,K] */
    FORE_NAME_EMBEDDING,
    FORE_NAME_HEAD,
    FORE_NAME_FC,
    FORE_NAME_SMALL,
    FORE_NAME_ROUTER,
    FORE_NAME_SHARED_GATE,
    FORE_NAME_PATCHES,
    FORE_NAME_POSITIONS,
} fore_name_kind;

enum { FORE_NAME_PARTS = 3 };
extern const char *const fore_name_parts[FORE_NAME_PARTS]; /* of an expert: gate_proj, up_proj, down_proj */

fore_name_region fore_name_region_of(const char *name);
fore_name_kind fore_name_kind_of(const char *name, fore_name_region region);
/* Numbers in a row of the matrix of this name as the model has it; 0: the name is that of no matrix that this knows. */
int64_t fore_name_columns(const fore_config *config, const char *name);

/* "PREFIX.mlp.experts.12.up_proj.weight": the length up to and with "mlp.", and which part. */
bool fore_name_is_numbered(const char *name, size_t *stem, size_t *part);
/* Length of the name of a FUSED or DOWN tensor up to and with "mlp.". */
size_t fore_name_fused_stem(const char *name, fore_name_kind kind);
/* Whether a tensor of this name belongs to the draft head. */
bool fore_quantize_is_draft(const char *name);
/* The part of a name that MLX-LM gives the module: "model.language_model.layers.0" is "language_model.model.layers.0".
 * Appends to out. */
fore_status fore_quantize_mlx_path(const char *module, fore_buf *out);

#endif
