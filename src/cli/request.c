/* From flags to a fore_request; see request.h. */
#include "cli/request.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/files.h"

enum { PROMPT_LIMIT = 64 << 20 };

int cli_read_prompt(const cli_options *options, cli_text *prompt) {
    const char *operand = options->operand;
    if (operand && strcmp(operand, "-") != 0) {
        cli_text_add_clean(prompt, operand, strlen(operand));
    } else {
        if (!operand && isatty(STDIN_FILENO)) return cli_fail_usage(options->verb, "a PROMPT is missing");
        cli_text read = {0};
        int code = cli_read("-", PROMPT_LIMIT, &read);
        if (code == CLI_OK && memchr(cli_text_string(&read), 0, read.size))
            code = cli_fail("standard input: a NUL byte in the prompt; expected text");
        if (code == CLI_OK) cli_text_add_clean(prompt, cli_text_string(&read), read.size);
        cli_text_free(&read);
        if (code) return code;
        if (!options->raw) {
            while (prompt->size && (prompt->data[prompt->size - 1] == '\n' || prompt->data[prompt->size - 1] == '\r'))
                prompt->data[--prompt->size] = 0;
        }
    }
    if (!prompt->size && !options->images.count && !options->frames.count && !options->videos.count)
        return cli_fail_usage(options->verb, "the PROMPT is empty");
    return CLI_OK;
}

int cli_pictures_add(cli_pictures *pictures, const char *path) {
    fore_limits limits;
    fore_limits_init(&limits);
    cli_text bytes = {0};
    int code = cli_read(path, (size_t)limits.image_bytes, &bytes);
    if (code) {
        cli_text_free(&bytes);
        return code;
    }
    pictures->items = cli_need(realloc(pictures->items, (pictures->count + 1) * sizeof *pictures->items));
    if (!bytes.data) cli_text_add(&bytes, "", 0); /* an empty file is the library's to refuse */
    pictures->items[pictures->count++] =
        (fore_image){.data = bytes.data, .size = bytes.size, .name = cli_need(strdup(path))};
    return CLI_OK;
}

void cli_pictures_cut(cli_pictures *pictures, size_t count) {
    while (pictures->count > count) {
        const fore_image *last = &pictures->items[--pictures->count];
        free((void *)(uintptr_t)last->data);
        free((void *)(uintptr_t)last->name);
    }
    if (!pictures->count) {
        free(pictures->items);
        pictures->items = NULL;
    }
}

float *cli_draw_picture(const fore_model_info *info, fore_image *out) {
    enum { SIDE = 8 };
    size_t row = 3 * 2 * (size_t)info->patch_size * (size_t)info->patch_size, count = SIDE * SIDE * row;
    float *pixels = cli_need(malloc(count * sizeof *pixels));
    for (size_t i = 0; i < count; i++) pixels[i] = (float)((i / row * 5 + i % row / 37) % 9) / 4 - 1;
    *out = (fore_image){.patches = pixels, .grid = {1, SIDE, SIDE}, .name = "the built-in picture"};
    return pixels;
}

int cli_pictures_add_all(cli_pictures *pictures, const cli_list *paths) {
    int code = CLI_OK;
    for (size_t i = 0; i < paths->count && code == CLI_OK; i++) code = cli_pictures_add(pictures, paths->items[i]);
    return code;
}

cJSON *cli_message(const char *role, const char *text, size_t images, size_t videos) {
    cli_text clean = {0};
    cli_text_add_clean(&clean, text, strlen(text));
    cJSON *message = cli_need(cJSON_CreateObject());
    cli_need(cJSON_AddStringToObject(message, "role", role));
    size_t seen = images + videos;
    if (seen) {
        cJSON *parts = cli_need(cJSON_AddArrayToObject(message, "content"));
        for (size_t i = 0; i < seen + (clean.size > 0); i++) {
            cJSON *part = cli_need(cJSON_CreateObject());
            cli_need(cJSON_AddStringToObject(part, "type", i < images ? "image" : i < seen ? "video" : "text"));
            if (i == seen) cli_need(cJSON_AddStringToObject(part, "text", clean.data));
            cJSON_AddItemToArray(parts, part);
        }
    } else {
        cli_need(cJSON_AddStringToObject(message, "content", cli_text_string(&clean)));
    }
    cli_text_free(&clean);
    return message;
}

char *cli_conversation(const char *system, const char *prompt, size_t images, size_t videos) {
    cJSON *messages = cli_need(cJSON_CreateArray());
    if (system) cJSON_AddItemToArray(messages, cli_message("system", system, 0, 0));
    cJSON_AddItemToArray(messages, cli_message("user", prompt, images, videos));
    char *text = cli_json_text(messages);
    cJSON_Delete(messages);
    return text;
}

static int parse_bias(const cli_options *options, cli_request *out) {
    size_t count = options->biases.count;
    if (!count) return CLI_OK;
    out->bias = cli_need(calloc(count, sizeof *out->bias));
    for (size_t i = 0; i < count; i++) {
        const char *text = options->biases.items[i];
        char *end = NULL, *rest = NULL;
        errno = 0;
        long id = strtol(text, &end, 10);
        double bias = end != text && *end == '=' ? strtod(end + 1, &rest) : 0;
        if (!rest || rest == end + 1 || *rest || errno || id < 0 || id > INT32_MAX || isnan(bias))
            return cli_fail_usage(options->verb,
                                  "--logit-bias: expected a token id and a number as in 42=-5, found '%s'", text);
        out->bias[i] = (fore_logit_bias){(int32_t)id, (float)bias};
    }
    return CLI_OK;
}

static uint64_t random_seed(void) {
    uint32_t seed = 0; /* 32 bits are enough to try again with, and short enough to copy */
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = (uint32_t)(cli_seconds() * 1e6);
    return seed;
}

int cli_request_init(cli_request *out, const cli_options *options, const fore_model *model) {
    *out = (cli_request){0};
    fore_request *request = &out->request;
    fore_request_init(request, model);
    fore_sampling *s = &request->sampling;
    if (!isnan(options->temperature)) s->temperature = (float)options->temperature;
    if (options->top_k >= 0) s->top_k = options->top_k;
    if (!isnan(options->top_p)) s->top_p = (float)options->top_p;
    if (!isnan(options->min_p)) s->min_p = (float)options->min_p;
    if (!isnan(options->repetition_penalty)) s->repetition_penalty = (float)options->repetition_penalty;
    if (!isnan(options->presence_penalty)) s->presence_penalty = (float)options->presence_penalty;
    if (!isnan(options->frequency_penalty)) s->frequency_penalty = (float)options->frequency_penalty;
    int code = parse_bias(options, out);
    if (code) return code;
    s->bias = out->bias;
    s->bias_count = options->biases.count;
    if (options->has_seed)
        s->seed = options->seed;
    else if (s->temperature > 0)
        s->seed = random_seed();
    if (options->max_tokens > 0) request->max_tokens = options->max_tokens;
    request->stop = options->stops.items;
    request->stop_count = options->stops.count;
    request->ignore_eos = options->ignore_eos;
    request->nested_videos = options->nested;
    if (options->chunk > 0) request->prefill_chunk = options->chunk;
    if (options->think) {
        out->options =
            cli_need(strdup(options->think > 0 ? "{\"enable_thinking\": true}" : "{\"enable_thinking\": false}"));
        request->options = out->options;
    }
    fore_draft *d = &request->draft;
    d->depth = options->draft_depth; /* auto without a head drafts by look-up alone */
    if (options->lookup >= 0) d->lookup = (fore_draft_lookup)options->lookup;
    if (options->draft_sampler >= 0) d->sampler = (fore_draft_sampler)options->draft_sampler;
    d->ablate = options->ablate;
    d->wrong = options->draft_wrong;
    if (options->draft_replay) {
        code = cli_json_read_ids(options->draft_replay, &out->replay, &d->replay_count);
        if (code) return code;
        d->replay = out->replay;
    }
    request->progress = cli_progress_call;
    request->user = &out->progress;
    return CLI_OK;
}

void cli_request_free(cli_request *request) {
    free(request->bias);
    free(request->options);
    free(request->replay);
    *request = (cli_request){0};
}

bool cli_starts_thinking(const fore_model *model, const fore_request *request) {
    static const char tag[] = "<think>";
    const size_t length = sizeof tag - 1;
    char *rendered = NULL;
    const char *prompt = request->prompt;
    size_t size = prompt ? strlen(prompt) : 0;
    if (!prompt && fore_model_render(model, request, &rendered, &size, NULL) == FORE_OK) prompt = rendered;
    while (size && strchr(" \r\n\t", prompt[size - 1])) size--;
    bool thinking = size >= length && memcmp(prompt + size - length, tag, length) == 0;
    fore_free(rendered);
    return thinking;
}
