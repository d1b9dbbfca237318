/* Logits of two checkpoints over a text, a window at a time; see divergence.h. */
#include "cli/divergence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/model.h"
#include "cli/progress.h"

enum { TEXT_LIMIT = 64 << 20, LOGIT_BYTES = 128 << 20, WINDOW = 1024 };

typedef struct side {
    fore_model *model;
    fore_session *session;
} side;

/* One window's part of the work. */
typedef struct window {
    const int32_t *ids;
    size_t count;
} window;

static int open_side(const cli_options *options, const char *dir, int context, cli_progress *progress, side *out) {
    fore_error err = {0};
    fore_model_options how = {.isa = cli_isa(options), .no_mtp = true, .progress = cli_progress_call, .user = progress};
    fore_status status = fore_model_open(dir, &how, &out->model, &err);
    fore_session_options session = {.threads = options->threads > 0 ? options->threads : 0, .context = context};
    if (!status && context) status = fore_session_new(out->model, &session, &out->session, &err);
    return status ? cli_fail_status(status, &err) : CLI_OK;
}

static void close_side(side *s) {
    fore_session_free(s->session);
    fore_model_close(s->model);
}

/* log sum exp of a row, and its largest element's place. */
static double log_sum(const float *row, int vocab, int *best) {
    *best = 0;
    for (int i = 1; i < vocab; i++)
        if (row[i] > row[*best]) *best = i;
    double top = (double)row[*best], sum = 1; /* its own share */
    for (int i = 0; i < vocab; i++)
        if (i != *best) sum += exp((double)row[i] - top);
    return top + log(sum);
}

static void compare_row(const float *a, const float *b, int vocab, cli_divergence *out) {
    int best_a, best_b;
    double log_a = log_sum(a, vocab, &best_a), log_b = log_sum(b, vocab, &best_b), kl = 0;
    for (int i = 0; i < vocab; i++) {
        double p = (double)a[i] - log_a;
        kl += exp(p) * (p - ((double)b[i] - log_b));
    }
    out->tokens++;
    out->mean += kl;
    if (kl > out->max) out->max = kl;
    out->agreement += best_a == best_b;
}

static int trace(const side *s, const window *w, cli_progress *progress, fore_trace **out) {
    fore_request request;
    fore_error err = {0};
    fore_request_init(&request, s->model);
    request.ids = w->ids;
    request.id_count = w->count;
    request.progress = cli_progress_call;
    request.user = progress;
    fore_status status = fore_session_trace(s->session, &request, out, &err);
    return status ? cli_fail_status(status, &err) : CLI_OK;
}

static int compare_window(const side sides[2], const window *w, cli_progress *progress, cli_divergence *out) {
    fore_trace *a = NULL, *b = NULL;
    int code = trace(&sides[0], w, progress, &a);
    if (code == CLI_OK) code = trace(&sides[1], w, progress, &b);
    if (code == CLI_OK && (a->vocab != b->vocab || a->tokens != b->tokens))
        code = cli_fail("the two checkpoints have vocabularies of different sizes");
    for (size_t t = 0; code == CLI_OK && t < a->tokens; t++)
        compare_row(a->logits + t * (size_t)a->vocab, b->logits + t * (size_t)b->vocab, a->vocab, out);
    fore_trace_free(a);
    fore_trace_free(b);
    return code;
}

/* Tokens whose logits fit into the memory set aside for one checkpoint's. */
static int window_of(const fore_model *model) {
    fore_model_info info;
    fore_model_get_info(model, &info);
    int most = (int)(LOGIT_BYTES / 4 / (size_t)(info.vocab_size > 0 ? info.vocab_size : 1));
    if (most > WINDOW) most = WINDOW;
    if (most > info.context_length) most = info.context_length;
    return most > 2 ? most : 2;
}

static int compare_all(const cli_options *options, const char *first, const char *second, const char *file, const cli_text *text,
                       cli_progress *progress, side sides[2], cli_divergence *out) {
    int32_t *ids = NULL;
    size_t count = 0;
    fore_error err = {0};
    int code = open_side(options, first, 0, progress, &sides[0]);
    if (code != CLI_OK) return code;
    const fore_tokenizer *tokenizer = fore_model_tokenizer(sides[0].model);
    if (!tokenizer) return cli_fail("%s: no tokenizer.json, so %s cannot be read", first, file);
    out->window = window_of(sides[0].model);
    const fore_session_options how = {.threads = options->threads > 0 ? options->threads : 0, .context = out->window};
    fore_status status = fore_session_new(sides[0].model, &how, &sides[0].session, &err);
    if (status) return cli_fail_status(status, &err);
    code = open_side(options, second, out->window, progress, &sides[1]);
    if (code != CLI_OK) return code;
    status = fore_tokenizer_encode(tokenizer, cli_text_string(text), text->size, &ids, &count, &err);
    if (status) code = cli_fail_status(status, &err);
    else if (!count) code = cli_fail("%s: no text in it", file);
    for (size_t at = 0; at < count && code == CLI_OK; at += (size_t)out->window) {
        size_t left = count - at;
        const window w = {ids + at, left < (size_t)out->window ? left : (size_t)out->window};
        code = compare_window(sides, &w, progress, out);
    }
    fore_free(ids);
    return code;
}

int cli_diverge(const cli_options *options, const char *first, const char *second, const char *file, cli_divergence *out) {
    *out = (cli_divergence){0};
    side sides[2] = {{NULL, NULL}, {NULL, NULL}};
    cli_text text = {0};
    int code = cli_read(file, TEXT_LIMIT, &text);
    if (code == CLI_OK) {
        cli_progress progress;
        cli_progress_start(&progress, "compare");
        code = compare_all(options, first, second, file, &text, &progress, sides, out);
        cli_progress_end(&progress);
    }
    if (out->tokens) {
        out->mean /= (double)out->tokens;
        out->agreement /= (double)out->tokens;
    }
    close_side(&sides[0]);
    close_side(&sides[1]);
    cli_text_free(&text);
    return code;
}
