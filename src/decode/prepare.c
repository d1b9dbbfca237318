/* From a request to a prepared prompt; see prepare.h. */
#include "decode/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/json.h"
#include "multimodal/prompt.h"
#include "text/template.h"

void fore_request_init(fore_request *request, const fore_model *model) {
    *request = (fore_request){0};
    fore_limits_init(&request->limits);
    if (model) request->draft.depth = FORE_DRAFT_AUTO;
    if (model) fore_model_default_sampling(model, &request->sampling);
    else request->sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
}

/* Appends ,"name":text to a JSON object under construction; the text goes in as it is, so that numbers keep their spelling. */
static fore_status put_raw(fore_buf *out, const char *name, const char *json, fore_error *err) {
    fore_status s = fore_buf_puts(out, out->size > 1 ? ",\"" : "\"");
    if (!s) s = fore_buf_puts(out, name);
    if (!s) s = fore_buf_puts(out, "\":");
    if (!s) s = fore_buf_puts(out, json);
    return s ? fore_fail_nomem(err, "the template's variables") : FORE_OK;
}

/* Checks that text is JSON of the wanted kind before it becomes part of a larger text. */
static fore_status check_json(const char *text, const char *what, bool object, fore_error *err) {
    cJSON *tree;
    fore_status s = fore_json_parse(text, strlen(text), what, &tree, err);
    if (s) return s;
    bool good = object ? cJSON_IsObject(tree) : cJSON_IsArray(tree);
    cJSON_Delete(tree);
    return good ? FORE_OK : fore_fail(err, FORE_ERR_FORMAT, "%s: expected a JSON %s", what, object ? "object" : "list");
}

/* The members of a JSON object text, without its braces. */
static fore_status put_members(fore_buf *out, const char *object, fore_error *err) {
    const char *begin = strchr(object, '{') + 1, *end = strrchr(object, '}');
    while (begin < end && strchr(" \t\r\n", *begin)) begin++;
    if (begin == end) return FORE_OK;
    fore_status s = out->size > 1 ? fore_buf_putc(out, ',') : FORE_OK;
    if (!s) s = fore_buf_append(out, begin, (size_t)(end - begin));
    return s ? fore_fail_nomem(err, "the template's variables") : FORE_OK;
}

fore_status fore_model_render(const fore_model *model, const fore_request *request, char **text, size_t *size, fore_error *err) {
    *text = NULL;
    *size = 0;
    if (!request->messages) return fore_fail(err, FORE_ERR_INVALID, "request: it has no messages to render");
    if (!model->chat_template) {
        if (err) *err = model->template_error;
        return model->template_error.code;
    }
    fore_status s = check_json(request->messages, "messages", false, err);
    if (!s && request->tools) s = check_json(request->tools, "tools", false, err);
    if (!s && request->options) s = check_json(request->options, "options", true, err);
    if (s) return s;
    fore_buf variables = {0};
    if (fore_buf_putc(&variables, '{')) s = fore_fail_nomem(err, "the template's variables");
    if (!s && model->template_tokens) {
        char *tokens = cJSON_PrintUnformatted(model->template_tokens);
        s = tokens ? put_members(&variables, tokens, err) : fore_fail_nomem(err, "the template's variables");
        cJSON_free(tokens);
    }
    if (!s) s = put_raw(&variables, "messages", request->messages, err);
    if (!s) s = put_raw(&variables, "tools", request->tools ? request->tools : "null", err);
    if (!s) s = put_raw(&variables, "documents", "null", err);
    if (!s) s = put_raw(&variables, "add_generation_prompt", request->continue_final ? "false" : "true", err);
    if (!s && request->options) s = put_members(&variables, request->options, err); /* the last of two equal names counts */
    if (!s && fore_buf_putc(&variables, '}')) s = fore_fail_nomem(err, "the template's variables");
    const fore_trender how = {.now = (int64_t)time(NULL), .as_chat = true};
    if (!s) s = fore_template_render_as(model->chat_template, variables.data, variables.size, how, text, size, err);
    fore_buf_free(&variables);
    return s;
}

/* Token ids of the request before expansion. */
static fore_status request_ids(const fore_model *m, const fore_request *r, int32_t **ids, size_t *n, fore_error *err) {
    *ids = NULL;
    *n = 0;
    int given = (r->messages != NULL) + (r->prompt != NULL) + (r->ids != NULL);
    if (given != 1) return fore_fail(err, FORE_ERR_INVALID, "request: expected exactly one of messages, prompt and ids, got %d of them", given);
    if (r->ids) {
        int V = m->network.config.text.vocab_size;
        for (size_t i = 0; i < r->id_count; i++)
            if (r->ids[i] < 0 || r->ids[i] >= V)
                return fore_fail(err, FORE_ERR_INVALID, "request: id %d at index %zu is outside the vocabulary of %d", (int)r->ids[i], i, V);
        if (r->id_count > SIZE_MAX / sizeof **ids) return fore_fail(err, FORE_ERR_LIMIT, "request: too many ids");
        *ids = malloc((r->id_count ? r->id_count : 1) * sizeof **ids);
        if (!*ids) return fore_fail_nomem(err, "the prompt's ids");
        memcpy(*ids, r->ids, r->id_count * sizeof **ids);
        *n = r->id_count;
        return FORE_OK;
    }
    if (!m->tokenizer)
        return fore_fail(err, FORE_ERR_INVALID, "%s: it has no tokenizer.json; give the prompt as token ids", m->dir);
    if (r->prompt) return fore_tokenizer_encode(m->tokenizer, r->prompt, strlen(r->prompt), ids, n, err);
    char *text;
    size_t size;
    fore_status s = fore_model_render(m, r, &text, &size, err);
    if (!s) s = fore_tokenizer_encode(m->tokenizer, text, size, ids, n, err);
    free(text);
    return s;
}

static const char *image_name(const fore_image *image, size_t index, char spare[32]) {
    if (image->name) return image->name;
    snprintf(spare, 32, "picture %zu", index + 1);
    return spare;
}

static fore_status decode_image(const fore_request *r, size_t i, fore_pixels *pixels, fore_error *err) {
    char spare[32];
    return fore_image_decode(r->images[i].data, r->images[i].size, image_name(&r->images[i], i, spare), &r->limits, pixels, err);
}

/* Grid and digest of picture i. */
static fore_status measure_image(const fore_model *m, const fore_request *r, size_t i, fore_prepared *out, fore_error *err) {
    const fore_image *image = &r->images[i];
    const fore_vision_config *v = &m->network.config.vision;
    int *grid = out->grids[i];
    fore_status s = FORE_OK;
    if (image->patches) {
        memcpy(grid, image->grid, sizeof image->grid);
        for (int k = 0; k < 3; k++)
            if (grid[k] < 1 || grid[k] > 1 << 14)
                return fore_fail(err, FORE_ERR_INVALID, "picture %zu: grid %dx%dx%d is out of range", i + 1, grid[0], grid[1], grid[2]);
        size_t floats = (size_t)grid[0] * (size_t)grid[1] * (size_t)grid[2] * (size_t)m->network.tower.patch_embed.K;
        fore_patches_digest(image->patches, floats, grid, out->digests[i]);
    } else {
        fore_pixels pixels = {0};
        s = decode_image(r, i, &pixels, err);
        if (s) return s;
        fore_pixels_digest(&pixels, out->digests[i]);
        char spare[32];
        s = fore_image_grid(&m->processor, pixels.height, pixels.width, image_name(image, i, spare), grid, err);
        fore_pixels_free(&pixels);
        if (s) return s;
    }
    int merge = v->spatial_merge_size;
    if (grid[1] % merge || grid[2] % merge)
        return fore_fail(err, FORE_ERR_INVALID, "picture %zu: grid %dx%dx%d does not divide by the merge size %d", i + 1, grid[0], grid[1],
                         grid[2], merge);
    out->pads[i] = (size_t)grid[0] * (size_t)(grid[1] / merge) * (size_t)(grid[2] / merge);
    return FORE_OK;
}

fore_status fore_prepare_patches(const fore_model *m, const fore_request *r, size_t i, float **patches, fore_error *err) {
    *patches = NULL;
    const fore_image *image = &r->images[i];
    if (image->patches) {
        size_t floats = (size_t)image->grid[0] * (size_t)image->grid[1] * (size_t)image->grid[2] * (size_t)m->network.tower.patch_embed.K;
        *patches = malloc(floats * sizeof **patches);
        if (!*patches) return fore_fail_nomem(err, "a picture's patches");
        memcpy(*patches, image->patches, floats * sizeof **patches);
        return FORE_OK;
    }
    fore_pixels pixels = {0};
    fore_status s = decode_image(r, i, &pixels, err);
    if (s) return s;
    int grid[3];
    char spare[32];
    s = fore_image_patches(&m->processor, &pixels, image_name(image, i, spare), patches, grid, err);
    fore_pixels_free(&pixels);
    return s;
}

static fore_status check_images(const fore_model *m, const fore_request *r, fore_error *err) {
    if (!r->image_count) return FORE_OK;
    if (!m->network.config.has_vision)
        return fore_fail(err, FORE_ERR_UNSUPPORTED,
                         "%s: a text-only model (no vision tower), and %zu picture%s given; use a vision-language checkpoint, or graft a "
                         "tower that was trained with this text model", m->dir,
                         r->image_count, r->image_count == 1 ? " was" : "s were");
    if (r->limits.image_count > 0 && r->image_count > (size_t)r->limits.image_count)
        return fore_fail(err, FORE_ERR_LIMIT, "request: %zu pictures, the limit is %d", r->image_count, r->limits.image_count);
    return FORE_OK;
}

fore_status fore_prepare(const fore_model *m, const fore_request *r, size_t limit, fore_prepared *out, fore_error *err) {
    *out = (fore_prepared){.images = r->image_count};
    fore_status s = check_images(m, r, err);
    if (s) return s;
    int32_t *ids = NULL;
    size_t n = 0, images = r->image_count ? r->image_count : 1;
    s = request_ids(m, r, &ids, &n, err);
    if (!s && n == 0) s = fore_fail(err, FORE_ERR_INVALID, "request: the prompt is empty; it needs at least one token");
    if (!s) {
        out->grids = calloc(images, sizeof *out->grids);
        out->digests = calloc(images, sizeof *out->digests);
        out->pads = calloc(images, sizeof *out->pads);
        out->starts = calloc(images, sizeof *out->starts);
        if (!out->grids || !out->digests || !out->pads || !out->starts) s = fore_fail_nomem(err, "the pictures' table");
    }
    for (size_t i = 0; i < r->image_count && !s; i++) s = measure_image(m, r, i, out, err);
    int32_t pad = m->network.config.image_token_id;
    if (!s) s = fore_prompt_expand(ids, n, pad, out->pads, out->images, limit, &out->ids, &out->n, err);
    free(ids);
    size_t image = 0;
    for (size_t i = 0; !s && i < out->n && image < out->images; i++) {
        if (out->ids[i] != pad) continue;
        out->starts[image] = i;
        i += out->pads[image++] - 1;
    }
    if (s) fore_prepared_free(out);
    return s;
}

void fore_prepared_free(fore_prepared *p) {
    free(p->ids);
    free(p->grids);
    free(p->digests);
    free(p->pads);
    free(p->starts);
    *p = (fore_prepared){0};
}
