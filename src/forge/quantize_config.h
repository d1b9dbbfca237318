/* The JSON files of a quantised checkpoint: config.json with what is quantised how, as MLX-LM has it, and the index of its
 * shards. */
#ifndef FORE_FORGE_QUANTIZE_CONFIG_H
#define FORE_FORGE_QUANTIZE_CONFIG_H

#include "forge/quantize_plan.h"

/* source: the text of the source's config.json, which stays as it is but for the blocks "quantization" and
 * "quantization_config" (and "mtplx_mtp_quantization", when a draft head is quantised and the source has none). *text is owned
 * (fore_free). FORE_ERR_UNSUPPORTED: the source says that it is quantised, and not any form will do. */
fore_status fore_quantize_config(const fore_quantize_plan *plan, const char *source, size_t size, const char *what, char **text,
                                 fore_error *err);
/* model.safetensors.index.json of the plan's shards; *text is owned (fore_free). */
fore_status fore_quantize_index(const fore_quantize_plan *plan, char **text, fore_error *err);

#endif
