/* Prompt expansion; see prompt.h. */
#include "multimodal/prompt.h"

#include <stdlib.h>

fore_status fore_prompt_expand(const int32_t *ids, size_t n, int32_t image_token_id, const size_t *pads, size_t images, size_t limit,
                               int32_t **out, size_t *out_n, fore_error *err) {
    *out = NULL;
    *out_n = 0;
    size_t found = 0, total = 0;
    for (size_t i = 0; i < n; i++) found += image_token_id >= 0 && ids[i] == image_token_id;
    for (size_t i = 0; i < images; i++)
        if (__builtin_add_overflow(total, pads[i], &total)) return fore_fail(err, FORE_ERR_LIMIT, "prompt: the pictures' pads overflow");
    bool expanded = found == total;
    if (!expanded && found != images) {
        if (images == 0)
            return fore_fail(err, FORE_ERR_INVALID,
                             "prompt: it places %zu picture%s, none was given; give a picture or take the image pad out of the text", found,
                             found == 1 ? "" : "s");
        if (found > images)
            return fore_fail(err, FORE_ERR_INVALID, "prompt: it places %zu pictures, only %zu given (%zu pads when expanded)", found, images, total);
        return fore_fail(err, FORE_ERR_INVALID, "prompt: %zu picture%s given, the prompt places only %zu; the template may not know pictures",
                         images, images == 1 ? "" : "s", found);
    }
    size_t length = expanded ? n : n - images + total; /* n >= images: each has its pad */
    if (limit && length > limit)
        return fore_fail(err, FORE_ERR_LIMIT, "prompt: %zu tokens (%zu of pictures), the context has %zu; ask for a larger context, or smaller or fewer pictures",
                         length, total, limit);
    int32_t *to = malloc((length ? length : 1) * sizeof *to);
    if (!to) return fore_fail_nomem(err, "the expanded prompt");
    size_t at = 0, image = 0;
    for (size_t i = 0; i < n; i++) {
        if (expanded || image_token_id < 0 || ids[i] != image_token_id) {
            to[at++] = ids[i];
            continue;
        }
        for (size_t k = 0; k < pads[image]; k++) to[at++] = image_token_id;
        image++;
    }
    *out = to;
    *out_n = length;
    return FORE_OK;
}
