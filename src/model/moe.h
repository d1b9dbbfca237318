/* A mixture of experts: every row goes through the few experts that its router picks and through the one that all share.
 * Reference: transformers modeling_qwen3_5_moe.py, Qwen3_5MoeSparseMoeBlock. */
#ifndef FORE_MODEL_MOE_H
#define FORE_MODEL_MOE_H

#include "model/trunk.h"

/* As fore_mlp, for a layer with experts. Rows are grouped by expert, so that an expert's weights are read once for all rows
 * of a call, and those of experts that no row picks are not read. A row's bits are what they are alone:
 *   l = router x; m = max l; p = exp(l - m) / sum, the sum in increasing expert; the k largest of p, the lower expert first
 *   among equals; w = p / (their sum, the largest first); r = +0, then r + w * expert(x) in that order, the product rounded;
 *   y = r + sigmoid(shared_gate x) * shared(x), the product rounded. */
void fore_moe(const fore_pass *pass, const fore_layer *layer, const float *x, float *y);
/* Columns of `wide` that it needs. */
size_t fore_moe_columns(const fore_text_config *text);

/* The k largest of probabilities p [E], the largest first, the lower index first among equals; weights: each by their sum.
 * p is used up. Numbers that are no numbers still give k different experts. */
void fore_moe_pick(float *p, int E, int k, int32_t *experts, float *weights);

#endif
