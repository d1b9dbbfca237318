/* foresight logits: one forward pass over a prompt, everything of it in a safetensors file, for comparing a checkpoint
 * with another implementation. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/files.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/request.h"
#include "cli/signals.h"
#include "cli/videos.h"

typedef struct prompt {
    cli_text text;
    char *messages; /* owned */
    int32_t *ids;   /* owned */
    size_t id_count;
    cli_pictures pictures;
    cli_videos videos;
    float *pixels;       /* owned: [P, row] of all pictures of --pixels */
    fore_image *patches; /* owned: they point into pixels */
    size_t patch_count;
} prompt;

static void free_prompt(prompt *p) {
    cli_text_free(&p->text);
    free(p->messages);
    free(p->ids);
    cli_pictures_cut(&p->pictures, 0);
    cli_videos_cut(&p->videos, 0);
    free(p->pixels);
    free(p->patches);
}

/* Whole number `index` of an I32 or I64 tensor, whose data may be unaligned. */
static int64_t whole_at(const fore_tensor *tensor, size_t index) {
    int64_t wide = 0;
    int32_t narrow = 0;
    if (strcmp(tensor->dtype, "I64") == 0) {
        memcpy(&wide, (const char *)tensor->data + index * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)tensor->data + index * sizeof narrow, sizeof narrow);
    return narrow;
}

/* Splits the rows of pixel_values into pictures by their grids. */
static int take_pixels(const char *path, const fore_tensor *pixels, const fore_tensor *grids, uint64_t row, prompt *p) {
    if (!pixels || strcmp(pixels->dtype, "F32") != 0 || pixels->dims != 2 || pixels->shape[1] != row)
        return cli_fail("%s: pixel_values: expected a tensor F32 [P,%llu]", path, (unsigned long long)row);
    if (!grids || (strcmp(grids->dtype, "I32") != 0 && strcmp(grids->dtype, "I64") != 0) || grids->dims != 2 ||
        grids->shape[1] != 3 || !grids->shape[0])
        return cli_fail("%s: image_grid_thw: expected a tensor I32 or I64 [n,3]", path);
    size_t size = (size_t)(pixels->shape[0] * row) * sizeof(float); /* the file holds as much, so it cannot overflow */
    p->pixels = cli_need(malloc(size + 1));
    if (size) memcpy(p->pixels, pixels->data, size);
    size_t count = (size_t)grids->shape[0];
    p->patches = cli_need(calloc(count, sizeof *p->patches));
    p->patch_count = count;
    uint64_t left = pixels->shape[0];
    const float *at = p->pixels;
    for (size_t i = 0; i < count; i++) {
        uint64_t patches = 1;
        for (size_t k = 0; k < 3; k++) {
            int64_t side = whole_at(grids, 3 * i + k);
            if (side < 1 || (uint64_t)side > left / patches)
                return cli_fail("%s: image_grid_thw: picture %zu has more patches than the %llu rows left in "
                                "pixel_values, or a side "
                                "below 1",
                                path, i, (unsigned long long)left);
            p->patches[i].grid[k] = (int)side;
            patches *= (uint64_t)side;
        }
        p->patches[i].patches = at;
        p->patches[i].name = path;
        at += (size_t)(patches * row);
        left -= patches;
    }
    if (left)
        return cli_fail("%s: pixel_values has %llu rows more than image_grid_thw says", path, (unsigned long long)left);
    return CLI_OK;
}

static int read_pixels(const char *path, const fore_model *model, prompt *p) {
    fore_model_info info;
    fore_model_get_info(model, &info);
    uint64_t row = 3 * 2 * (uint64_t)info.patch_size * (uint64_t)info.patch_size;
    fore_tensor_file *file = NULL;
    fore_error err = {0};
    fore_status status = fore_tensors_open(path, &file, &err);
    if (status) return cli_fail_status(status, &err);
    int code = info.has_vision ? take_pixels(path, fore_tensors_get(file, "pixel_values"),
                                             fore_tensors_get(file, "image_grid_thw"), row, p)
                               : cli_fail("%s: this checkpoint reads text alone; leave --pixels out", path);
    fore_tensors_close(file);
    return code;
}

static int write_trace(const char *path, const fore_trace *t) {
    uint64_t tokens = t->tokens, hidden = (uint64_t)t->hidden, vocab = (uint64_t)t->vocab;
    const fore_tensor tensors[] = {
        {.name = "input_ids", .dtype = "I32", .dims = 1, .shape = {tokens}, .data = t->ids},
        {.name = "position_ids", .dtype = "I32", .dims = 2, .shape = {3, tokens}, .data = t->positions},
        {.name = "rope_delta", .dtype = "I32", .dims = 1, .shape = {1}, .data = &t->delta},
        {.name = "inputs_embeds", .dtype = "F32", .dims = 2, .shape = {tokens, hidden}, .data = t->embeddings},
        {.name = "final_norm", .dtype = "F32", .dims = 2, .shape = {tokens, hidden}, .data = t->final_hidden},
        {.name = "logits", .dtype = "F32", .dims = 2, .shape = {tokens, vocab}, .data = t->logits},
    };
    fore_error err = {0};
    fore_status status = fore_tensors_write(path, tensors, sizeof tensors / sizeof *tensors, &err);
    return status ? cli_fail_status(status, &err) : CLI_OK;
}

static int trace(const cli_options *options, const cli_model *model, prompt *p) {
    cli_request request = {0};
    int code = cli_request_init(&request, options, model->model);
    if (code == CLI_OK) {
        fore_request *r = &request.request;
        if (options->ids) {
            r->ids = p->ids;
            r->id_count = p->id_count;
        } else if (options->raw) {
            r->prompt = cli_text_string(&p->text);
        } else {
            p->messages =
                cli_conversation(options->system, cli_text_string(&p->text), p->pictures.count + p->patch_count,
                                 p->videos.count);
            r->messages = p->messages;
        }
        r->images = p->patches ? p->patches : p->pictures.items;
        r->image_count = p->patches ? p->patch_count : p->pictures.count;
        r->videos = p->videos.items;
        r->video_count = p->videos.count;
        fore_trace *out = NULL;
        fore_error err = {0};
        cli_progress_start(&request.progress, "prompt");
        fore_status status = fore_session_trace(model->session, r, &out, &err);
        cli_progress_end(&request.progress);
        code = status ? cli_fail_status(status, &err) : write_trace(options->out, out);
        fore_trace_free(out);
    }
    cli_request_free(&request);
    return code;
}

static int check_usage(const cli_options *options) {
    const cli_verb *verb = options->verb;
    if (!options->out) return cli_fail_usage(verb, "where to? --out FILE is missing");
    if (options->ids && options->operand) return cli_fail_usage(verb, "--ids and PROMPT exclude each other");
    if (options->pixels && options->images.count)
        return cli_fail_usage(verb, "--pixels and --image exclude each other");
    if ((options->raw || options->ids) && (options->system || options->think))
        return cli_fail_usage(
            verb, "--raw and --ids leave the template out, so --system, --think and --no-think say nothing");
    struct stat status;
    cli_text folder = {0};
    const char *slash = strrchr(options->out, '/');
    cli_text_add(&folder, options->out, slash ? (size_t)(slash - options->out) + 1 : 0);
    bool missing = slash && stat(folder.data, &status);
    if (missing) cli_fail("%s: cannot create: there is no folder %s", options->out, folder.data);
    cli_text_free(&folder);
    return missing ? CLI_FAILED : CLI_OK; /* said before the work rather than after */
}

static int run(const cli_options *options) {
    prompt p = {0};
    cli_model model = {0};
    int code = check_usage(options);
    if (code == CLI_OK) code = options->ids ? cli_json_read_ids(options->ids, &p.ids, &p.id_count) : cli_read_prompt(options, &p.text);
    if (code == CLI_OK) code = cli_pictures_add_all(&p.pictures, &options->images);
    if (code == CLI_OK) code = cli_videos_add_all(&p.videos, options);
    if (code == CLI_OK) {
        cli_catch_interrupt(true);
        code = cli_model_open(options, &model);
    }
    if (code == CLI_OK && options->pixels) code = read_pixels(options->pixels, model.model, &p);
    if (code == CLI_OK) code = cli_model_session(options, &model);
    if (code == CLI_OK) code = trace(options, &model, &p);
    cli_model_close(&model);
    free_prompt(&p);
    return code;
}

const cli_verb cli_logits_verb = {
    .name = "logits",
    .bit = CLI_LOGITS,
    .operand = "PROMPT",
    .usage = "--out FILE [flags] [PROMPT]",
    .summary = "write what a forward pass computes to a file",
    .about = "Runs PROMPT, or the tokens of --ids, and writes a safetensors file: input_ids,\n"
             "position_ids, rope_delta, inputs_embeds, final_norm, and logits of every row.\n",
    .run = run,
};
