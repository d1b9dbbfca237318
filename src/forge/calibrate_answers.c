/* Answers for calibration; see calibrate_answers.h. */
#include "forge/calibrate_answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 96, PLACES_ENOUGH = 600 /* with built-in texts no more are asked for */, TEXT = 512 };

static const char seen[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"Describe the picture.\"}]}]";
static const char seen_plain[] = "<|vision_start|><|image_pad|><|vision_end|>The picture shows";

/* A request and the memory of its words. */
typedef struct question {
    fore_request request;
    char text[TEXT];
} question;

/* What calibration itself settles, over what the caller has asked. */
static void settle(const fore_calibrate_options *o, fore_request *r) {
    r->sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1}; /* greedy, without penalties */
    r->max_tokens = o->max_tokens ? o->max_tokens : TOKENS;
    r->stop = NULL;
    r->stop_count = 0;
    r->ignore_eos = false;
    r->draft = (fore_draft){.depth = 0, .lookup = FORE_LOOKUP_OFF};
    r->progress = o->progress;
    r->user = o->user;
}

/* Question `index`: pictures first, then the caller's requests or the built-in texts. False: past the last one. */
static bool get_question(const fore_model *m, const fore_calibrate_options *o, size_t index, question *q) {
    fore_request *r = &q->request;
    fore_request_init(r, m);
    if (index < o->image_count) {
        if (m->chat_template) r->messages = seen;
        else r->prompt = seen_plain;
        r->images = &o->images[index];
        r->image_count = 1;
    } else if (o->requests) {
        index -= o->image_count;
        if (index >= o->request_count) return false;
        *r = o->requests[index];
    } else {
        const char *text = NULL;
        index -= o->image_count;
        for (size_t i = 0; i <= index && (!i || text); i++) text = fore_calibrate_texts[i];
        if (!text) return false;
        snprintf(q->text, sizeof q->text, m->chat_template ? "[{\"role\": \"user\", \"content\": \"%s\"}]" : "%s", text);
        if (m->chat_template) r->messages = q->text;
        else r->prompt = q->text;
    }
    settle(o, r);
    return true;
}

static fore_status open_session(const fore_model *m, const fore_calibrate_options *o, int context, fore_session **out, fore_error *err) {
    const fore_session_options how = {.threads = o->threads, .context = context};
    return fore_session_new(m, &how, out, err);
}

static fore_status make_room(fore_calibrate_answers *a, fore_error *err) {
    if (a->count < a->room) return FORE_OK;
    size_t room = a->room ? 2 * a->room : 16;
    fore_rehearsal *items = realloc(a->items, room * sizeof *items);
    if (items) a->items = items;
    size_t *lengths = items ? realloc(a->lengths, room * sizeof *lengths) : NULL;
    if (!lengths) return fore_fail_nomem(err, "the answers");
    a->lengths = lengths;
    a->room = room;
    return FORE_OK;
}

fore_status fore_calibrate_ask(const fore_model *m, const fore_calibrate_options *o, int depth, fore_calibrate_answers *out, fore_error *err) {
    fore_session *session = NULL;
    question q;
    *out = (fore_calibrate_answers){0};
    fore_status s = open_session(m, o, 0, &session, err);
    while (!s && (o->requests || out->places < PLACES_ENOUGH) && get_question(m, o, out->count, &q)) {
        s = make_room(out, err);
        if (s) break;
        fore_rehearsal *r = &out->items[out->count];
        s = fore_rehearsal_take(session, &q.request, r, err);
        if (s) s = fore_fail_prefix(err, s, "prompt %zu", out->count + 1);
        out->lengths[out->count] = (size_t)fore_rehearsal_places(r, depth);
        out->places += out->lengths[out->count++];
        out->pictures += r->pictures;
    }
    fore_session_free(session);
    return s;
}

void fore_calibrate_answers_free(fore_calibrate_answers *a) {
    for (size_t i = 0; i < a->count; i++) fore_rehearsal_free(&a->items[i]);
    free(a->items);
    free(a->lengths);
    *a = (fore_calibrate_answers){0};
}

/* The session is no longer than it must be: it has a state of its own for every token. */
static fore_status open_for(const fore_model *m, const fore_calibrate_options *o, int depth, const fore_calibrate_answers *a,
                            fore_session **out, fore_error *err) {
    int longest = 0, most = m->network.config.text.max_position_embeddings;
    for (size_t i = 0; i < a->count; i++) {
        int n = a->items[i].prompt + a->items[i].answer + depth + 1;
        if (n > longest) longest = n;
    }
    return open_session(m, o, longest < most ? longest : most, out, err);
}

fore_status fore_calibrate_try(const fore_model *m, const fore_calibrate_options *o, int depth, const fore_calibrate_answers *a,
                               uint8_t *right, fore_error *err) {
    fore_session *session = NULL;
    fore_status s = open_for(m, o, depth, a, &session, err); /* a new one: nothing that was seen before counts */
    for (size_t i = 0; i < a->count && !s; i++) {
        s = fore_rehearsal_try(session, &a->items[i], depth, right, err);
        right += a->lengths[i];
    }
    fore_session_free(session);
    return s;
}

static fore_status confirm_one(fore_session *session, const fore_request *r, const fore_rehearsal *known, fore_error *err) {
    fore_chunk c = {0};
    int said = 0;
    fore_status s = fore_session_begin(session, r, err);
    while (!s && c.finish == FORE_FINISH_NONE) {
        s = fore_session_next(session, &c, err);
        for (size_t i = 0; i < c.id_count && !s; i++, said++)
            if (said >= known->answer || known->ids[known->prompt + said] != c.ids[i])
                return fore_fail(err, FORE_ERR_BUG, "token %d of the answer changes with drafts, which must not be: please report this", said + 1);
    }
    if (!s && said != known->answer)
        return fore_fail(err, FORE_ERR_BUG, "the answer is shorter with drafts, which must not be: please report this");
    return s;
}

fore_status fore_calibrate_confirm(const fore_model *m, const fore_calibrate_options *o, int depth, const fore_calibrate_answers *a,
                                   fore_error *err) {
    fore_session *session = NULL;
    question q;
    fore_status s = open_session(m, o, 0, &session, err);
    for (size_t i = 0; i < a->count && !s && get_question(m, o, i, &q); i++) {
        q.request.draft.depth = depth;
        s = confirm_one(session, &q.request, &a->items[i], err);
        if (s) s = fore_fail_prefix(err, s, "prompt %zu", i + 1);
    }
    fore_session_free(session);
    return s;
}
