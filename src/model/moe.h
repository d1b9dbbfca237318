/* A mixture of experts: every row goes through the few experts that its router picks and, in some families, through one that
 * all share. References: transformers modeling_qwen3_5_moe.py, Qwen3_5MoeSparseMoeBlock; modeling_qwen3_moe.py. */
#ifndef FORE_MODEL_MOE_H
#define FORE_MODEL_MOE_H

#include "model/trunk.h"

/* As fore_mlp, for a layer with experts. Rows are grouped by expert, so that an expert's weights are read once for all rows
 * of a call, and those of experts that no row picks are not read. A row's bits are what they are alone:
 *   l = router x; m = max l; p = exp(l - m) / sum, the sum in increasing expert; the k largest of p, the lower expert first
 *   among equals; w = p / (their sum, the largest first), or p itself without norm_topk_prob; r = +0, then r + w * expert(x) in that order, the product rounded;
 *   y = r + sigmoid(shared_gate x) * shared(x), the product rounded, or y = r without a shared expert. */
void fore_moe(const fore_pass *pass, const fore_layer *layer, const float *x, float *y);
/* Columns of `wide` that it needs. */
size_t fore_moe_columns(const fore_text_config *text);

/* The k largest of probabilities p [E], the largest first, the lower index first among equals; weights: these, each by their
 * sum if `normalise`. p is used up. Numbers that are no numbers still give k different experts. */
void fore_moe_pick(float *p, int E, int k, bool normalise, int32_t *experts, float *weights);

enum { FORE_STRIP = 32 }; /* outputs of a transposed matrix that are turned at a time, in a worker's scratch memory */

#endif
