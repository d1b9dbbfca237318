/* The vision splice; see splice.h. */
#include "multimodal/splice.h"

#include <stdlib.h>
#include <string.h>

#include "multimodal/mrope.h"

static size_t count_pads(const fore_splice *s, const int32_t *ids, size_t n) {
    size_t pads = 0;
    for (size_t i = 0; i < n; i++) pads += fore_splice_is_pad(s, ids[i]);
    return pads;
}

static fore_status check_counts(const fore_network *network, const fore_splice_input *in, fore_error *err) {
    int C = network->config.text.hidden_size, merge = network->config.has_vision ? network->config.vision.spatial_merge_size : 1;
    size_t sum = 0;
    if (in->rows && in->hidden != C)
        return fore_fail(err, FORE_ERR_INVALID, "splice: picture rows have %d columns, the trunk's hidden size is %d", in->hidden, C);
    for (size_t i = 0; i < in->images; i++) {
        const int *g = in->grids[i];
        size_t patches = g[0] > 0 && g[1] > 0 && g[2] > 0 ? (size_t)g[0] * (size_t)g[1] * (size_t)g[2] : 0;
        if (patches == 0 || in->pad_counts[i] != patches / (size_t)(merge * merge))
            return fore_fail(err, FORE_ERR_INVALID, "splice: picture %zu has %zu pads, its grid %dx%dx%d gives %zu", i + 1, in->pad_counts[i],
                             g[0], g[1], g[2], patches / (size_t)(merge * merge));
        sum += in->pad_counts[i];
    }
    if (sum != in->rows)
        return fore_fail(err, FORE_ERR_INVALID, "splice: the pictures' pads add up to %zu, there are %zu rows", sum, in->rows);
    return FORE_OK;
}

/* What is added after the first layers, of each pad. False: no memory. */
static bool point_at_parts(fore_splice *s, const fore_splice_input *in) {
    size_t columns = fore_picture_columns(&s->network->config), C = (size_t)s->network->config.text.hidden_size, row = 0;
    if (columns == C) return true;
    s->deepstack = calloc(in->n, sizeof *s->deepstack);
    for (size_t i = 0; s->deepstack && i < in->n; i++)
        if (fore_splice_is_pad(s, in->ids[i])) s->deepstack[i] = s->embeddings + row++ * columns + C;
    return s->deepstack != NULL;
}

fore_status fore_splice_init(const fore_network *network, const fore_splice_input *in, fore_splice *out, fore_error *err) {
    *out = (fore_splice){.network = network,
                         .image_pad_token_id = network->config.image_token_id,
                         .video_pad_token_id = network->config.video_token_id,
                         .embeddings = in->embeddings,
                         .total_pads = in->rows,
                         .images = in->images,
                         .prompt_len = in->n};
    fore_status s = check_counts(network, in, err);
    size_t images = in->images ? in->images : 1;
    if (!s) {
        size_t pads = count_pads(out, in->ids, in->n);
        if (pads != in->rows)
            s = fore_fail(err, FORE_ERR_INVALID, "splice: the prompt has %zu image pads, the pictures have %zu rows", pads, in->rows);
    }
    if (!s) {
        out->image_grids = calloc(images, sizeof *out->image_grids);
        out->image_digests = calloc(images, sizeof *out->image_digests);
        out->pad_counts = calloc(images, sizeof *out->pad_counts);
        out->mrope_table = calloc(in->n ? in->n : 1, 3 * sizeof *out->mrope_table);
        if (!out->image_grids || !out->image_digests || !out->pad_counts || !out->mrope_table || (in->rows && !point_at_parts(out, in)))
            s = fore_fail_nomem(err, "the splice");
    }
    if (!s && in->images) {
        memcpy(out->image_grids, in->grids, in->images * sizeof *out->image_grids);
        memcpy(out->pad_counts, in->pad_counts, in->images * sizeof *out->pad_counts);
        if (in->digests) memcpy(out->image_digests, in->digests, in->images * sizeof *out->image_digests);
    }
    if (!s) {
        int merge = network->config.has_vision ? network->config.vision.spatial_merge_size : 1;
        s = fore_mrope_positions(in->ids, in->n, network->config.image_token_id, network->config.video_token_id,
                                 (const int(*)[3])in->grids, in->images, in->times, merge, out->mrope_table, &out->mrope_delta, err);
    }
    if (s) fore_splice_free(out);
    return s;
}

void fore_splice_free(fore_splice *splice) {
    free(splice->embeddings);
    free(splice->image_grids);
    free(splice->image_digests);
    free(splice->pad_counts);
    free(splice->mrope_table);
    free(splice->deepstack);
    *splice = (fore_splice){0};
}

static void embed(const fore_splice *s, const int32_t *ids, size_t n, size_t row, float *out) {
    size_t C = (size_t)s->network->config.text.hidden_size, columns = fore_picture_columns(&s->network->config);
    for (size_t i = 0; i < n; i++) {
        float *to = out + i * C;
        if (fore_splice_is_pad(s, ids[i])) memcpy(to, s->embeddings + row++ * columns, C * sizeof *to);
        else fore_weight_row(s->network->kern, &s->network->embed, ids[i], to);
    }
}

fore_status fore_splice_chunk(fore_splice *splice, const int32_t *ids, size_t n, float *embeddings, fore_error *err) {
    size_t pads = count_pads(splice, ids, n), left = splice->total_pads - splice->cursor;
    if (pads > left)
        return fore_fail(err, FORE_ERR_INVALID, "splice: the chunk has %zu image pads, only %zu of %zu picture rows are left", pads, left,
                         splice->total_pads);
    embed(splice, ids, n, splice->cursor, embeddings);
    splice->cursor += pads;
    return FORE_OK;
}

fore_status fore_splice_window(const fore_splice *splice, const int32_t *ids, size_t n, size_t rows_before, float *embeddings,
                               fore_error *err) {
    size_t pads = count_pads(splice, ids, n);
    if (rows_before > splice->total_pads || pads > splice->total_pads - rows_before)
        return fore_fail(err, FORE_ERR_INVALID, "splice: the window takes picture rows %zu to %zu, there are %zu", rows_before,
                         rows_before + pads, splice->total_pads);
    embed(splice, ids, n, rows_before, embeddings);
    return FORE_OK;
}

fore_status fore_splice_skip(fore_splice *splice, const int32_t *ids, size_t n, fore_error *err) {
    size_t pads = count_pads(splice, ids, n), left = splice->total_pads - splice->cursor;
    if (pads > left)
        return fore_fail(err, FORE_ERR_INVALID, "splice: the reused prefix has %zu image pads, only %zu picture rows are left", pads, left);
    splice->cursor += pads;
    return FORE_OK;
}

fore_status fore_splice_finish(const fore_splice *splice, fore_error *err) {
    if (splice->cursor != splice->total_pads)
        return fore_fail(err, FORE_ERR_BUG, "splice: %zu of %zu picture rows were left over after prefill: the prompt is misaligned",
                         splice->total_pads - splice->cursor, splice->total_pads);
    return FORE_OK;
}

void fore_splice_reset(fore_splice *splice) { splice->cursor = 0; }
