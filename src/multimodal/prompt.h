/* Prompt expansion: one image pad in the rendered prompt becomes one pad per merged patch of its picture. */
#ifndef FORE_MULTIMODAL_PROMPT_H
#define FORE_MULTIMODAL_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* ids [n] with one pad a picture, or already expanded (then they are checked and copied). pads[i]: merged patches of picture
 * i. *out is owned by the caller (free). Distinct errors: pads without pictures, fewer or more pads than pictures (with both
 * counts), an expanded length beyond limit tokens (0: none). */
fore_status fore_prompt_expand(const int32_t *ids, size_t n, int32_t image_token_id, const size_t *pads, size_t images, size_t limit,
                               int32_t **out, size_t *out_n, fore_error *err);

#endif
