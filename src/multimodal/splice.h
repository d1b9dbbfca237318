/* The vision splice: one request's picture rows, put into the trunk's embeddings where the prompt has image pads or video pads
 * (each temporal patch of a video is a picture here; order is the prompt's). The
 * cursor follows the trunk's prefill; windows read any part of the prompt without moving it, which is how a draft head sees
 * the rows that the trunk saw. */
#ifndef FORE_MULTIMODAL_SPLICE_H
#define FORE_MULTIMODAL_SPLICE_H

#include "model/weights.h"
#include "multimodal/mrope.h"

typedef struct fore_splice {
    const fore_network *network; /* borrowed */
    int32_t image_pad_token_id, video_pad_token_id;
    float *embeddings;  /* [total_pads, fore_picture_columns] in prompt order, of which the first C are spliced in; owned */
    size_t total_pads;
    int (*image_grids)[3]; /* [images] t, h, w in patches; owned */
    uint8_t (*image_digests)[32]; /* [images]; owned */
    size_t *pad_counts;    /* [images]; owned */
    size_t images;
    int32_t *mrope_table; /* [3, prompt_len]; owned */
    const float **deepstack; /* [prompt_len] the rest of a pad's row, NULL for text; owned; NULL: the tower makes none */
    size_t prompt_len;
    int32_t mrope_delta;
    size_t cursor; /* next row that the trunk's prefill takes */
} fore_splice;

/* What a splice is built from; everything is copied but `embeddings`, `rows` of them by `hidden`, whose ownership is taken
 * (also on failure). */
typedef struct fore_splice_input {
    const int32_t *ids; /* [n] expanded prompt */
    size_t n;
    float *embeddings; /* [rows, fore_picture_columns], taken; may be NULL when rows is 0 */
    size_t rows;
    int hidden;
    const int (*grids)[3];
    const uint8_t (*digests)[32];
    const size_t *pad_counts;
    size_t images;
    const fore_mrope_time *times; /* [images] or NULL, see mrope.h */
} fore_splice_input;

/* Checks, each with its own message: the sum of the pad counts against the rows, each count against its grid, the prompt's
 * pads against the rows, hidden against the trunk's; then the position table (fore_mrope_positions). */
fore_status fore_splice_init(const fore_network *network, const fore_splice_input *in, fore_splice *out, fore_error *err);
void fore_splice_free(fore_splice *splice);

/* The trunk's prefill: embeddings [n, C] of the next n prompt ids; each pad takes row cursor++. FORE_ERR_INVALID names both
 * counts when fewer rows are left than the chunk has pads; the cursor does not move then. */
fore_status fore_splice_chunk(fore_splice *splice, const int32_t *ids, size_t n, float *embeddings, fore_error *err);
/* Any window of the prompt: pads take rows rows_before, rows_before + 1, ...; the cursor is left alone. */
fore_status fore_splice_window(const fore_splice *splice, const int32_t *ids, size_t n, size_t rows_before, float *embeddings,
                               fore_error *err);
/* Moves the cursor past `n` ids that the trunk has already seen (a reused prefix). */
fore_status fore_splice_skip(fore_splice *splice, const int32_t *ids, size_t n, fore_error *err);
/* After prefill: every row must have been taken. */
fore_status fore_splice_finish(const fore_splice *splice, fore_error *err);
void fore_splice_reset(fore_splice *splice); /* the cursor back to 0 */
/* Whether a row of a picture or video stands in the place of this token's embedding. */
static inline bool fore_splice_is_pad(const fore_splice *splice, int32_t id) {
    return id >= 0 && (id == splice->image_pad_token_id || id == splice->video_pad_token_id);
}

#endif
