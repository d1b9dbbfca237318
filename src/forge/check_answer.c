/* Letting a model answer; see check_answer.h. */
#include "forge/check_answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "decode/model.h"

enum { TOKENS = 16, DEPTH = 3, CONTEXT = 1024, IDS = 8, SIDE = 4 /* merged patches */ };

static const char words[] = "The capital of France is";
static const char plain[] = "[{\"role\": \"user\", \"content\": \"Say hello.\"}]";
static const char seen[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"What is in the picture?\"}]}]";

typedef struct trial {
    const fore_model *model;
    const fore_check_options *options;
    fore_session *session; /* owned */
    fore_request request;
    fore_image image;
    float *patches; /* owned */
    int32_t ids[IDS];
    fore_buf text[2];
    fore_error *err;
} trial;

/* Waves of some colours, as patches are after they were normalised. */
static fore_status make_picture(trial *t) {
    const fore_vision_config *v = &t->model->network.config.vision;
    size_t side = (size_t)SIDE * (size_t)v->spatial_merge_size, patch = (size_t)(v->in_channels * v->temporal_patch_size) * (size_t)v->patch_size * (size_t)v->patch_size;
    size_t n = side * side * patch;
    t->patches = malloc(n * sizeof *t->patches);
    if (!t->patches) return fore_fail_nomem(t->err, "a picture");
    for (size_t i = 0; i < n; i++) t->patches[i] = (float)((i * 7 + i / patch * 31) % 64) / 32.0f - 1.0f;
    t->image = (fore_image){.patches = t->patches, .grid = {1, (int)side, (int)side}};
    t->request.images = &t->image;
    t->request.image_count = 1;
    return FORE_OK;
}

static fore_status make_request(trial *t, fore_check_answer *out) {
    const fore_model *m = t->model;
    fore_request_init(&t->request, m);
    t->request.sampling.temperature = 0;
    t->request.max_tokens = TOKENS;
    t->request.progress = t->options->progress;
    t->request.user = t->options->user;
    if (!m->tokenizer) {
        for (int i = 0; i < IDS; i++) t->ids[i] = (int32_t)(i + 1) % m->network.config.text.vocab_size;
        t->request.ids = t->ids;
        t->request.id_count = IDS;
        out->prompt = "eight token ids";
        return FORE_OK;
    }
    if (!m->chat_template) {
        t->request.prompt = out->prompt = words;
        return FORE_OK;
    }
    out->picture = m->network.config.has_vision;
    out->prompt = out->picture ? "What is in the picture?" : "Say hello.";
    t->request.messages = out->picture ? seen : plain;
    return out->picture ? make_picture(t) : FORE_OK;
}

static fore_status check_numbers(trial *t, fore_check_answer *out) {
    fore_trace *trace = NULL;
    fore_status s = fore_session_trace(t->session, &t->request, &trace, t->err);
    if (s) return s;
    size_t n = trace->tokens * (size_t)trace->vocab, i = 0, usable = (size_t)t->model->usable;
    while (i < n && (i % (size_t)trace->vocab >= usable || isfinite(trace->logits[i]))) i++;
    if (i < n) out->problem = "the logits of the prompt are not finite numbers: weights are damaged, or of another layout than they say";
    fore_trace_free(trace);
    return FORE_OK;
}

static fore_status answer(trial *t, int depth, fore_buf *text, uint64_t *drafted, uint64_t *accepted) {
    t->request.draft = (fore_draft){.depth = depth, .lookup = FORE_LOOKUP_OFF};
    fore_status s = fore_session_begin(t->session, &t->request, t->err);
    for (fore_chunk c = {0}; !s && c.finish == FORE_FINISH_NONE;) {
        s = fore_session_next(t->session, &c, t->err);
        if (!s) s = fore_buf_append(text, c.text ? c.text : "", c.size);
        /* Without a tokenizer there is no text: the ids stand for it. */
        for (size_t i = 0; i < c.id_count && !s && !t->model->tokenizer; i++) {
            char id[16];
            snprintf(id, sizeof id, " %d", (int)c.ids[i]);
            s = fore_buf_puts(text, id);
        }
    }
    fore_stats stats;
    fore_session_get_stats(t->session, &stats);
    *drafted = stats.head.drafted;
    *accepted = stats.head.accepted;
    return s;
}

static fore_status compare(trial *t, fore_arena *arena, fore_check_answer *out) {
    uint64_t none[2];
    fore_status s = answer(t, 0, &t->text[0], &none[0], &none[1]);
    if (!s && t->model->mtp.attached) s = answer(t, DEPTH, &t->text[1], &out->drafted, &out->accepted);
    if (s) return s;
    if (t->model->mtp.attached && (t->text[0].size != t->text[1].size || (t->text[0].size && memcmp(t->text[0].data, t->text[1].data, t->text[0].size))))
        out->problem = "the answer with drafts is another one than without: please report this";
    out->text = t->text[0].size ? fore_arena_copy(arena, t->text[0].data, t->text[0].size) : "";
    return out->text ? FORE_OK : fore_fail_nomem(t->err, "the answer");
}

fore_status fore_check_try(const fore_model *model, const fore_check_options *options, fore_arena *arena, fore_check_answer *out,
                           fore_error *err) {
    fore_error why = {0};
    trial t = {.model = model, .options = options, .err = &why};
    int most = model->network.config.text.max_position_embeddings;
    const fore_session_options o = {.threads = options->threads, .context = most < CONTEXT ? most : CONTEXT};
    *out = (fore_check_answer){.prompt = "", .text = ""};
    fore_status s = make_request(&t, out);
    if (!s) s = fore_session_new(model, &o, &t.session, &why);
    if (!s) s = check_numbers(&t, out);
    if (!s && !out->problem) s = compare(&t, arena, out);
    fore_session_free(t.session);
    free(t.patches);
    fore_buf_free(&t.text[0]);
    fore_buf_free(&t.text[1]);
    if (!s) return FORE_OK;
    if (s == FORE_ERR_NOMEM || s == FORE_ERR_CANCELLED) return fore_fail(err, s, "%s", why.text[0] ? why.text : fore_status_name(s));
    out->problem = fore_arena_copy(arena, why.text, strlen(why.text));
    return out->problem ? FORE_OK : fore_fail_nomem(err, "the answer");
}
