#include "support/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"

void follow_open(follow_prompt *p, const fore_model *model, const char *folder, const cJSON *entry) {
    *p = (follow_prompt){0};
    fore_request_init(&p->r, model);
    cJSON *messages = cJSON_CreateArray(), *message = cJSON_CreateObject(), *parts = cJSON_CreateArray(), *text = cJSON_CreateObject();
    const cJSON *name;
    cJSON_ArrayForEach(name, fore_json_get(entry, "images")) {
        char path[512];
        size_t i = p->r.image_count++, size;
        fore_error err = {0};
        assert_true(i < 4);
        snprintf(path, sizeof path, "%s/%s", folder, name->valuestring);
        if (fore_file_read(path, 1 << 24, &p->files[i], &size, &err)) fail_msg("%s", err.text);
        p->images[i] = (fore_image){.data = p->files[i], .size = size, .name = name->valuestring};
        cJSON *part = cJSON_CreateObject();
        cJSON_AddStringToObject(part, "type", "image");
        cJSON_AddItemToArray(parts, part);
    }
    cJSON_AddStringToObject(text, "type", "text");
    cJSON_AddStringToObject(text, "text", fore_json_get(entry, "question")->valuestring);
    cJSON_AddItemToArray(parts, text);
    cJSON_AddStringToObject(message, "role", "user");
    cJSON_AddItemToObject(message, "content", parts);
    cJSON_AddItemToArray(messages, message);
    p->messages = cJSON_PrintUnformatted(messages);
    cJSON_Delete(messages);
    p->r.messages = p->messages;
    p->r.options = "{\"enable_thinking\": false}";
    p->r.images = p->images;
    p->r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
    p->r.max_tokens = 120;
}

void follow_close(follow_prompt *p) {
    free(p->messages);
    for (size_t i = 0; i < p->r.image_count; i++) free(p->files[i]);
}

/* How far the best logit of the draft made last is from the second best. */
static float gap_of(const fore_session *s) {
    size_t V = (size_t)s->model->network.config.text.vocab_size, best = s->engine.kern->argmax(s->drafter.logits, V);
    float second = -1e30f;
    for (size_t i = 0; i < V; i++)
        if (i != best && s->drafter.logits[i] > second) second = s->drafter.logits[i];
    return s->drafter.logits[best] - second;
}

/* Up to `depth` drafts, fewer after an end token. */
static int propose(fore_session *s, int depth, int32_t *drafts) {
    int n = 0;
    do {
        drafts[n] = fore_drafter_step(s, n, n ? drafts[n - 1] : -1, NULL);
        n++;
    } while (n < depth && !fore_session_is_end(s, drafts[n - 1]));
    fore_drafter_done(s);
    return n;
}

void follow_run(fore_session *s, follow_prompt *p, unsigned ablate, follow_answer *out, float (*gaps)[FOLLOW_DEPTH]) {
    fore_error err = {0};
    fore_chunk c = {0};
    *out = (follow_answer){0};
    fore_session_reset(s);
    p->r.draft = (fore_draft){.depth = FOLLOW_DEPTH, .ablate = ablate}; /* the history is kept */
    if (fore_session_begin(s, &p->r, &err)) fail_msg("%s", err.text);
    s->draft.depth = 0; /* and every round is one token */
    for (;;) {
        if (fore_session_next(s, &c, &err)) fail_msg("%s", err.text);
        assert_int_equal(c.id_count, 1);
        assert_true(out->n < FOLLOW_MOST);
        out->ids[out->n++] = c.ids[0];
        if (c.finish != FORE_FINISH_NONE) break;
        struct follow_slot *slot = &out->slot[out->n - 1];
        int32_t drafts[FOLLOW_DEPTH];
        for (int depth = gaps ? 1 : FOLLOW_DEPTH; depth <= FOLLOW_DEPTH; depth++) {
            fore_drafter saved = s->drafter; /* asking again begins from the same rows */
            slot->made = propose(s, depth, drafts);
            if (gaps) gaps[out->n - 1][depth - 1] = gap_of(s);
            if (depth < FOLLOW_DEPTH) {
                s->drafter.true_rows = saved.true_rows;
                s->drafter.carried = saved.carried;
            }
        }
        memcpy(slot->draft, drafts, (size_t)slot->made * sizeof *drafts);
    }
}
