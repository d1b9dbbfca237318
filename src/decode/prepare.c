/* From a request to a prepared prompt; see prepare.h. */
#include "decode/prepare.h"

#include <math.h>
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

/* What a video is placed by in text; NULL: the tokenizer has no such token. */
static const char *word(const fore_model *m, int32_t id, size_t *size) {
    return id < 0 ? NULL : fore_tokenizer_piece(m->tokenizer, id, size);
}

/* The text with the times and pads of the request's videos; *size as well. times: of each video. */
static fore_status place_videos(const fore_model *m, const fore_request *r, const fore_video_times *times, const char *text, size_t *size,
                                size_t tokens, fore_buf *out, fore_error *err) {
    fore_video_words w = {0};
    const fore_config *c = &m->network.config;
    w.start = word(m, c->vision_start_token_id, &w.start_size);
    w.pad = word(m, c->video_token_id, &w.pad_size);
    w.end = word(m, c->vision_end_token_id, &w.end_size);
    if (!w.start || !w.pad || !w.end)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "%s: its tokenizer has no tokens for videos", m->dir);
    fore_video_layout layout = r->nested_videos ? FORE_LAYOUT_NESTED : FORE_LAYOUT_FLAT;
    if (c->vision.tokens_per_second) layout = FORE_LAYOUT_BLOCK;
    fore_status s = fore_prompt_expand_videos(text, *size, &w, times, r->video_count, tokens, layout, out, err);
    if (!s) *size = out->size;
    return s;
}

/* Token ids of the request: pictures have one pad or all, temporal patches of videos too. */
static fore_status request_ids(const fore_model *m, const fore_request *r, const fore_video_times *times, size_t video_tokens, int32_t **ids,
                               size_t *n, fore_error *err) {
    *ids = NULL;
    *n = 0;
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
    char *rendered = NULL;
    size_t size = r->prompt ? strlen(r->prompt) : 0;
    fore_buf placed = {0};
    fore_status s = r->prompt ? FORE_OK : fore_model_render(m, r, &rendered, &size, err);
    const char *text = r->prompt ? r->prompt : rendered;
    if (!s && r->video_count) {
        s = place_videos(m, r, times, text, &size, video_tokens, &placed, err);
        text = placed.data;
    }
    if (!s) s = fore_tokenizer_encode(m->tokenizer, size ? text : "", size, ids, n, err);
    fore_buf_free(&placed);
    free(rendered);
    return s;
}

static const char *name_of(const char *name, const char *noun, size_t index, char spare[32]) {
    if (name) return name;
    snprintf(spare, 32, "%s %zu", noun, index + 1);
    return spare;
}

static const char *image_name(const fore_image *image, size_t index, char spare[32]) {
    return name_of(image->name, "picture", index, spare);
}

static fore_status decode_image(const fore_request *r, size_t i, fore_pixels *pixels, fore_error *err) {
    char spare[32];
    return fore_image_decode(r->images[i].data, r->images[i].size, image_name(&r->images[i], i, spare), &r->limits, pixels, err);
}

/* What is known of a picture or temporal patch before its place in the prompt is. */
typedef struct sight {
    int grid[3];
    uint8_t digest[FORE_DIGEST];
    fore_origin origin;
} sight;

/* Grid and digest of picture i. */
static fore_status measure_image(const fore_model *m, const fore_request *r, size_t i, sight *out, size_t *pads, fore_error *err) {
    const fore_image *image = &r->images[i];
    const fore_vision_config *v = &m->network.config.vision;
    int *grid = out->grid;
    out->origin.index = i;
    fore_status s = FORE_OK;
    if (image->patches) {
        memcpy(grid, image->grid, sizeof image->grid);
        for (int k = 0; k < 3; k++)
            if (grid[k] < 1 || grid[k] > 1 << 14)
                return fore_fail(err, FORE_ERR_INVALID, "picture %zu: grid %dx%dx%d is out of range", i + 1, grid[0], grid[1], grid[2]);
        size_t floats = (size_t)grid[0] * (size_t)grid[1] * (size_t)grid[2] * (size_t)m->network.tower.patch_embed.K;
        fore_patches_digest(image->patches, floats, grid, out->digest);
    } else {
        fore_pixels pixels = {0};
        s = decode_image(r, i, &pixels, err);
        if (s) return s;
        fore_pixels_digest(&pixels, out->digest);
        char spare[32];
        s = fore_image_grid(&m->processor, pixels.height, pixels.width, image_name(image, i, spare), grid, err);
        fore_pixels_free(&pixels);
        if (s) return s;
    }
    int merge = v->spatial_merge_size;
    if (grid[1] % merge || grid[2] % merge)
        return fore_fail(err, FORE_ERR_INVALID, "picture %zu: grid %dx%dx%d does not divide by the merge size %d", i + 1, grid[0], grid[1],
                         grid[2], merge);
    *pads = (size_t)grid[0] * (size_t)(grid[1] / merge) * (size_t)(grid[2] / merge);
    return FORE_OK;
}

/* The frames that the video processor makes must be those that the tower reads; said when a video comes, as checkpoints with odd
 * settings read pictures all the same. */
static fore_status check_video_processor(const fore_model *m, fore_error *err) {
    const fore_vision_config *v = &m->network.config.vision;
    const fore_processor *p = &m->video_processor.frame;
    if (m->video_processor.kind == FORE_VIDEO_UNKNOWN)
        return fore_fail(err, FORE_ERR_UNSUPPORTED,
                         "%s: its videos are taken by a %s, which is not supported; supported: Qwen2VLVideoProcessor, Qwen3VLVideoProcessor",
                         m->dir, m->video_processor.class_name);
    if (p->patch_size == v->patch_size && p->temporal_patch_size == v->temporal_patch_size && p->merge_size == v->spatial_merge_size)
        return FORE_OK;
    return fore_fail(err, FORE_ERR_FORMAT,
                     "%s: the video processor's patch, temporal and merge sizes are %d, %d, %d; the vision tower's are %d, %d, %d; give the "
                     "folder the video_preprocessor_config.json of the model that the tower is from",
                     m->dir, p->patch_size, p->temporal_patch_size, p->merge_size, v->patch_size, v->temporal_patch_size, v->spatial_merge_size);
}

/* The videos of a request, sampled, and what is known of their temporal patches. */
typedef struct clips {
    fore_video_times *times; /* [video_count] owned, their seconds too */
    sight *steps;            /* [count] owned */
    size_t *pads;            /* [count] owned */
    size_t count, tokens;
} clips;

static void clips_free(clips *c, size_t videos) {
    for (size_t i = 0; c->times && i < videos; i++) free((void *)(uintptr_t)c->times[i].seconds);
    free(c->times);
    free(c->steps);
    free(c->pads);
}

/* Temporal patches that video i is given as: grid and times are checked. */
static fore_status check_patches(const fore_model *m, const fore_request *r, size_t i, fore_error *err) {
    const fore_video *v = &r->videos[i];
    int merge = m->network.config.vision.spatial_merge_size;
    for (int k = 0; k < 3; k++)
        if (v->grid[k] < 1 || v->grid[k] > 1 << 14 || (k && v->grid[k] % merge))
            return fore_fail(err, FORE_ERR_INVALID, "video %zu: grid %dx%dx%d is out of range, or does not divide by the merge size %d", i + 1,
                             v->grid[0], v->grid[1], v->grid[2], merge);
    if (r->ids) return FORE_OK; /* its times, if there are any, are the caller's to know */
    for (int t = 0; t < v->grid[0]; t++)
        if (!v->times || !isfinite(v->times[t]) || v->times[t] < 0)
            return fore_fail(err, FORE_ERR_INVALID, "video %zu: given as patches, it needs the seconds of each of its %d temporal patches", i + 1,
                             v->grid[0]);
    return FORE_OK;
}

/* Positions from one temporal patch of a video to the next, where time is absolute; given as patches without times, each has a second. */
static float interval_of(const fore_model *m, const fore_video *v, const fore_frames *frames, const fore_video_times *times) {
    size_t n = times->count;
    double seconds = v->patches ? 1 : frames->patch_seconds;
    if (v->patches && v->times && n > 1) seconds = (times->seconds[n - 1] - times->seconds[0]) / (double)(n - 1);
    return (float)m->network.config.vision.tokens_per_second * (float)seconds;
}

/* The same patches at another pace are another video. */
static void digest_pace(float interval, const int grid[3], uint8_t digest[FORE_DIGEST]) {
    float mix[1 + FORE_DIGEST / sizeof(float)] = {interval};
    memcpy(mix + 1, digest, FORE_DIGEST);
    fore_patches_digest(mix, sizeof mix / sizeof *mix, grid, digest);
}

/* Takes the frames of video i, or its patches; adds its steps. */
static fore_status measure_video(const fore_model *m, const fore_request *r, size_t i, size_t limit, fore_prepared *out, clips *c,
                                 fore_error *err) {
    const fore_video *v = &r->videos[i];
    const fore_video_processor *p = &m->video_processor;
    fore_frames *f = &out->videos[i];
    char spare[32];
    const char *name = name_of(v->name ? v->name : v->path, "video", i, spare);
    fore_status s = v->patches ? check_patches(m, r, i, err) : fore_frames_take(p, v, name, &r->limits, limit, r->progress, r->user, f, err);
    if (s) return s;
    size_t count = v->patches ? (size_t)v->grid[0] : fore_video_steps(p, f->count);
    double *seconds = calloc(count, sizeof *seconds);
    sight *steps = realloc(c->steps, (c->count + count) * sizeof *steps);
    if (steps) c->steps = steps;
    size_t *pads = realloc(c->pads, (c->count + count) * sizeof *pads);
    if (pads) c->pads = pads;
    c->times[i] = (fore_video_times){seconds, count};
    if (!seconds || !steps || !pads) return fore_fail_nomem(err, "the times of a video");
    if (v->patches && v->times) memcpy(seconds, v->times, count * sizeof *seconds);
    if (!v->patches) fore_video_step_times(p, f->times, f->count, seconds);
    out->video_frames += v->patches ? count * (size_t)p->frame.temporal_patch_size : f->count;
    size_t temporal = (size_t)p->frame.temporal_patch_size, merge = (size_t)m->network.config.vision.spatial_merge_size;
    for (size_t step = 0; step < count; step++) {
        sight *to = &steps[c->count];
        *to = (sight){.origin = {.index = i, .step = step, .video = true}, .grid = {1}};
        to->grid[1] = v->patches ? v->grid[1] : f->items[0].height / p->frame.patch_size;
        to->grid[2] = v->patches ? v->grid[2] : f->items[0].width / p->frame.patch_size;
        size_t patches = (size_t)to->grid[1] * (size_t)to->grid[2], floats = patches * (size_t)m->network.tower.patch_embed.K;
        if (v->patches) fore_patches_digest(v->patches + step * floats, floats, to->grid, to->digest);
        else fore_frames_digest(f, step * temporal, temporal, to->digest);
        if (m->network.config.vision.tokens_per_second) digest_pace(interval_of(m, v, f, &c->times[i]), to->grid, to->digest);
        pads[c->count++] = patches / (merge * merge);
        c->tokens += patches / (merge * merge);
    }
    return FORE_OK;
}

static fore_status copy_patches(const float *patches, const int grid[3], size_t length, float **out, fore_error *err) {
    size_t floats = (size_t)grid[0] * (size_t)grid[1] * (size_t)grid[2] * length;
    *out = malloc(floats * sizeof **out);
    if (!*out) return fore_fail_nomem(err, "a picture's patches");
    memcpy(*out, patches, floats * sizeof **out);
    return FORE_OK;
}

fore_status fore_prepare_patches(const fore_model *m, const fore_request *r, const fore_prepared *prepared, size_t i, float **patches,
                                 fore_error *err) {
    *patches = NULL;
    const fore_origin *origin = &prepared->origins[i];
    size_t length = (size_t)m->network.tower.patch_embed.K;
    int grid[3];
    if (origin->video) {
        const fore_video *video = &r->videos[origin->index];
        const int *step = prepared->grids[i];
        if (!video->patches) return fore_video_patches(&m->video_processor, &prepared->videos[origin->index], origin->step, patches, grid, err);
        return copy_patches(video->patches + origin->step * (size_t)step[1] * (size_t)step[2] * length, step, length, patches, err);
    }
    const fore_image *image = &r->images[origin->index];
    if (image->patches) return copy_patches(image->patches, image->grid, length, patches, err);
    fore_pixels pixels = {0};
    fore_status s = decode_image(r, origin->index, &pixels, err);
    if (s) return s;
    char spare[32];
    s = fore_image_patches(&m->processor, &pixels, image_name(image, origin->index, spare), patches, grid, err);
    fore_pixels_free(&pixels);
    return s;
}

static fore_status check_images(const fore_model *m, const fore_request *r, fore_error *err) {
    if (r->limits.video_count > 0 && r->video_count > (size_t)r->limits.video_count)
        return fore_fail(err, FORE_ERR_LIMIT, "request: %zu videos, the limit is %d", r->video_count, r->limits.video_count);
    if (!r->image_count && !r->video_count) return FORE_OK;
    if (!m->network.config.has_vision)
        return fore_fail(err, FORE_ERR_UNSUPPORTED,
                         "%s: a text-only model (no vision tower), and %zu %s%s given; use a vision-language checkpoint, or graft a "
                         "tower that was trained with this text model", m->dir,
                         r->image_count ? r->image_count : r->video_count, r->image_count ? "picture" : "video",
                         (r->image_count ? r->image_count : r->video_count) == 1 ? " was" : "s were");
    if (r->limits.image_count > 0 && r->image_count > (size_t)r->limits.image_count)
        return fore_fail(err, FORE_ERR_LIMIT, "request: %zu pictures, the limit is %d", r->image_count, r->limits.image_count);
    return FORE_OK;
}

/* The pictures in the order of the prompt, whose pads are expanded. */
static fore_status place_images(const fore_model *m, const fore_request *r, fore_prepared *out, const sight *images, const size_t *image_pads,
                                const clips *c, fore_error *err) {
    size_t all = r->image_count + c->count, room = all ? all : 1, image = 0, step = 0;
    const fore_config *config = &m->network.config;
    out->grids = calloc(room, sizeof *out->grids);
    out->digests = calloc(room, sizeof *out->digests);
    out->pads = calloc(room, sizeof *out->pads);
    out->starts = calloc(room, sizeof *out->starts);
    out->origins = calloc(room, sizeof *out->origins);
    if (config->vision.tokens_per_second) out->times = calloc(room, sizeof *out->times);
    if (!out->grids || !out->digests || !out->pads || !out->starts || !out->origins || (config->vision.tokens_per_second && !out->times))
        return fore_fail_nomem(err, "the pictures' table");
    for (size_t i = 0; i < out->n && out->images < all; i++) {
        bool video = out->ids[i] == config->video_token_id;
        if (!video && out->ids[i] != config->image_token_id) continue;
        if (video ? step == c->count : image == r->image_count) continue; /* refused when positions are made */
        const sight *from = video ? &c->steps[step] : &images[image];
        size_t k = out->images++, pads = video ? c->pads[step++] : image_pads[image++];
        memcpy(out->grids[k], from->grid, sizeof from->grid);
        memcpy(out->digests[k], from->digest, FORE_DIGEST);
        out->pads[k] = pads;
        out->starts[k] = i;
        out->origins[k] = from->origin;
        if (out->times && video) {
            size_t v = from->origin.index;
            out->times[k] = (fore_mrope_time){true, (int)from->origin.step, interval_of(m, &r->videos[v], &out->videos[v], &c->times[v])};
        }
        *(video ? &out->video_pads : &out->picture_pads) += pads;
        i += pads - 1;
    }
    out->picture_count = image;
    return FORE_OK;
}

/* The prompt's ids with all their pads. */
static fore_status expand(const fore_model *m, const fore_request *r, size_t limit, const size_t *image_pads, const clips *c, fore_prepared *out,
                          fore_error *err) {
    const fore_pad picture = {m->network.config.image_token_id, "picture"}, step = {m->network.config.video_token_id, "video frame group"};
    int32_t *ids = NULL, *half = NULL;
    size_t n = 0, half_n = 0;
    fore_status s = request_ids(m, r, c->times, c->tokens, &ids, &n, err);
    if (!s && n == 0) s = fore_fail(err, FORE_ERR_INVALID, "request: the prompt is empty; it needs at least one token");
    if (!s) s = fore_prompt_expand(ids, n, picture, image_pads, r->image_count, limit, &half, &half_n, err);
    if (!s) s = fore_prompt_expand(half, half_n, step, c->pads, c->count, limit, &out->ids, &out->n, err);
    free(ids);
    free(half);
    return s;
}

fore_status fore_prepare(const fore_model *m, const fore_request *r, size_t limit, fore_prepared *out, fore_error *err) {
    *out = (fore_prepared){.video_count = r->video_count};
    fore_status s = check_images(m, r, err);
    int given = (r->messages != NULL) + (r->prompt != NULL) + (r->ids != NULL);
    if (!s && given != 1)
        s = fore_fail(err, FORE_ERR_INVALID, "request: expected exactly one of messages, prompt and ids, got %d of them", given);
    if (s) return s;
    size_t images = r->image_count ? r->image_count : 1, videos = r->video_count ? r->video_count : 1;
    clips c = {.times = calloc(videos, sizeof *c.times)};
    sight *seen = calloc(images, sizeof *seen);
    size_t *pads = calloc(images, sizeof *pads);
    out->videos = calloc(videos, sizeof *out->videos);
    if (!c.times || !seen || !pads || !out->videos) s = fore_fail_nomem(err, "the pictures' table");
    for (size_t i = 0; i < r->image_count && !s; i++) s = measure_image(m, r, i, &seen[i], &pads[i], err);
    if (!s && r->video_count) s = check_video_processor(m, err);
    for (size_t i = 0; i < r->video_count && !s; i++) s = measure_video(m, r, i, limit, out, &c, err);
    if (!s) s = expand(m, r, limit, pads, &c, out, err);
    if (!s) s = place_images(m, r, out, seen, pads, &c, err);
    clips_free(&c, r->video_count);
    free(seen);
    free(pads);
    if (s) fore_prepared_free(out);
    return s;
}

void fore_prepared_free(fore_prepared *p) {
    free(p->ids);
    free(p->grids);
    free(p->digests);
    free(p->pads);
    free(p->starts);
    free(p->origins);
    free(p->times);
    for (size_t i = 0; p->videos && i < p->video_count; i++) fore_frames_free(&p->videos[i]);
    free(p->videos);
    *p = (fore_prepared){0};
}
