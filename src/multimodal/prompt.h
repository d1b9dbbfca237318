/* Prompt expansion: one image pad in the rendered prompt becomes one pad per merged patch of its picture; one video pad becomes,
 * for each temporal patch, its pads, with the time before them where the family reads it in words. Reference: transformers
 * processing_qwen3_vl.py and processing_qwen2_5_vl.py, replace_video_token. */
#ifndef FORE_MULTIMODAL_PROMPT_H
#define FORE_MULTIMODAL_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* What a kind of pad stands for, in messages: "picture", "video frame group". */
typedef struct fore_pad {
    int32_t token_id; /* below 0: the model has none */
    const char *noun;
} fore_pad;

/* ids [n] with one pad a picture, or already expanded (then they are checked and copied). pads[i]: merged patches of picture
 * i. *out is owned by the caller (free). Distinct errors: pads without pictures, fewer or more pads than pictures (with both
 * counts), an expanded length beyond limit tokens (0: none). */
fore_status fore_prompt_expand(const int32_t *ids, size_t n, fore_pad pad, const size_t *pads, size_t images, size_t limit,
                               int32_t **out, size_t *out_n, fore_error *err);

/* The tokens of a video in text, as the tokenizer spells them (not NUL-terminated). */
typedef struct fore_video_words {
    const char *start, *pad, *end;
    size_t start_size, pad_size, end_size;
} fore_video_words;

/* Seconds of each temporal patch of a video. */
typedef struct fore_video_times {
    const double *seconds; /* [count] */
    size_t count;
} fore_video_times;

/* What a video pad becomes. */
typedef enum fore_video_layout {
    FORE_LAYOUT_FLAT,   /* "<T seconds>", start, pad, end a temporal patch, without the start and end around the pad in the text, as the
                           models were trained */
    FORE_LAYOUT_NESTED, /* with them around it all, as transformers has it since 5 */
    FORE_LAYOUT_BLOCK   /* the pads alone, within the text's start and end: families with absolute time */
} fore_video_layout;

/* Appends `text` to out with the i-th video pad replaced by the words of each of the times of video i (one pad
 * a temporal patch: fore_prompt_expand does the rest). A text with as many pads as there are temporal
 * patches, or tokens of them, is taken as it is; else FORE_ERR_INVALID with both counts. */
fore_status fore_prompt_expand_videos(const char *text, size_t size, const fore_video_words *words, const fore_video_times *videos,
                                      size_t video_count, size_t tokens, fore_video_layout layout, fore_buf *out, fore_error *err);

#endif
