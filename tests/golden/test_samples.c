/* The trained model on its 13 samples: prompt ids, positions and delta exact, greedy answers equal to the reference's token
 * ids; embeddings, hidden states and logits of three of them against recorded traces. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "support/golden.h"

#define SAMPLES "tests/samples/"
#define TRACES FORE_DATA "/traces/"

typedef struct fixture {
    fore_model *model;
    fore_session *session;
    cJSON *samples;
} fixture;

/* A sample as a request; what it points to lives here. */
typedef struct question {
    fore_request r;
    char *messages;
    fore_image images[4];
    char *files[4];
} question;

static int open_all(void **state) {
    static fixture f;
    fore_error err = {0};
    if (fore_model_open("models/tiny", NULL, &f.model, &err) || fore_session_new(f.model, NULL, &f.session, &err) ||
        fore_json_read(SAMPLES "goldens.json", 1 << 24, &f.samples, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    *state = &f;
    return 0;
}

static int close_all(void **state) {
    fixture *f = *state;
    fore_session_free(f->session);
    fore_model_close(f->model);
    cJSON_Delete(f->samples);
    return 0;
}

static void load_images(question *q, const cJSON *sample) {
    const cJSON *name;
    cJSON_ArrayForEach(name, fore_json_get(sample, "images")) {
        char path[256];
        size_t i = q->r.image_count++, size;
        fore_error err = {0};
        snprintf(path, sizeof path, SAMPLES "%s", name->valuestring);
        if (fore_file_read(path, 1 << 24, &q->files[i], &size, &err)) fail_msg("%s", err.text);
        q->images[i] = (fore_image){.data = q->files[i], .size = size, .name = name->valuestring};
    }
    q->r.images = q->images;
}

static void ask(question *q, const fore_model *model, const cJSON *sample) {
    *q = (question){0};
    fore_request_init(&q->r, model);
    load_images(q, sample);
    cJSON *messages = cJSON_CreateArray(), *message = cJSON_CreateObject(), *parts = cJSON_CreateArray();
    cJSON_AddItemToArray(messages, message);
    cJSON_AddStringToObject(message, "role", "user");
    cJSON_AddItemToObject(message, "content", parts);
    for (size_t i = 0; i < q->r.image_count; i++) {
        cJSON *part = cJSON_CreateObject();
        cJSON_AddStringToObject(part, "type", "image");
        cJSON_AddItemToArray(parts, part);
    }
    cJSON *text = cJSON_CreateObject();
    cJSON_AddStringToObject(text, "type", "text");
    cJSON_AddStringToObject(text, "text", fore_json_get(sample, "question")->valuestring);
    cJSON_AddItemToArray(parts, text);
    q->messages = cJSON_PrintUnformatted(messages);
    cJSON_Delete(messages);
    q->r.messages = q->messages;
    q->r.options = "{\"enable_thinking\": false}";
    q->r.max_tokens = 200;
}

static void forget(question *q) {
    free(q->messages);
    for (size_t i = 0; i < q->r.image_count; i++) free(q->files[i]);
}

static int32_t *ints(const cJSON *list, size_t *n) {
    *n = (size_t)cJSON_GetArraySize(list);
    int32_t *out = calloc(*n ? *n : 1, sizeof *out);
    const cJSON *item;
    size_t i = 0;
    cJSON_ArrayForEach(item, list) out[i++] = (int32_t)item->valuedouble;
    return out;
}

static void test_prompts(void **state) {
    fixture *f = *state;
    const cJSON *sample;
    int seen = 0;
    cJSON_ArrayForEach(sample, f->samples) {
        question q;
        ask(&q, f->model, sample);
        fore_error err = {0};
        fore_trace *t;
        if (fore_session_trace(f->session, &q.r, &t, &err)) fail_msg("%s: %s", fore_json_get(sample, "id")->valuestring, err.text);
        size_t n, S = t->tokens;
        int32_t *ids = ints(fore_json_get(sample, "prompt_ids"), &n);
        assert_int_equal(S, n);
        assert_memory_equal(t->ids, ids, n * sizeof *ids);
        free(ids);
        for (int axis = 0; axis < 3; axis++) {
            int32_t *row = ints(cJSON_GetArrayItem(fore_json_get(sample, "positions_prompt"), axis), &n);
            if (!q.r.image_count) { /* recorded with pictures only: text counts up */
                assert_int_equal(n, 0);
                for (size_t i = 0; i < S; i++) assert_int_equal(t->positions[(size_t)axis * S + i], i);
                free(row);
                continue;
            }
            assert_int_equal(S, n);
            assert_memory_equal(t->positions + (size_t)axis * S, row, n * sizeof *row);
            free(row);
        }
        assert_int_equal(t->delta, fore_json_get(sample, "rope_delta")->valueint);
        fore_trace_free(t);
        forget(&q);
        seen++;
    }
    assert_int_equal(seen, 13);
}

/* All 13 are equal, also s02 and s04 with their near-ties and s04 and s05, whose pictures the reference resized otherwise. */
static void test_answers(void **state) {
    fixture *f = *state;
    const cJSON *sample;
    int equal = 0;
    cJSON_ArrayForEach(sample, f->samples) {
        const char *id = fore_json_get(sample, "id")->valuestring;
        question q;
        ask(&q, f->model, sample);
        fore_error err = {0};
        if (fore_session_begin(f->session, &q.r, &err)) fail_msg("%s: %s", id, err.text);
        size_t n, at = 0;
        int32_t *ids = ints(fore_json_get(sample, "output_ids"), &n);
        char text[4096] = "";
        fore_chunk c = {0};
        while (c.finish == FORE_FINISH_NONE) {
            if (fore_session_next(f->session, &c, &err)) fail_msg("%s: %s", id, err.text);
            strncat(text, c.text, sizeof text - strlen(text) - 1);
            for (size_t i = 0; i < c.id_count; i++, at++)
                if (at >= n || c.ids[i] != ids[at]) fail_msg("%s: token %zu is %d, the reference has %d", id, at, (int)c.ids[i], at < n ? (int)ids[at] : -1);
        }
        assert_int_equal(c.finish, FORE_FINISH_STOP);
        assert_int_equal(at, n);
        assert_string_equal(text, fore_json_get(sample, "output_text")->valuestring);
        equal++;
        free(ids);
        forget(&q);
    }
    assert_int_equal(equal, 13);
}

static void check_trace(fixture *f, const char *id, bool own_pixels) {
    char path[256];
    golden g;
    snprintf(path, sizeof path, TRACES "%s.safetensors", id);
    golden_open(&g, path);
    const cJSON *sample = NULL, *item;
    cJSON_ArrayForEach(item, f->samples) if (strcmp(fore_json_get(item, "id")->valuestring, id) == 0) sample = item;
    assert_non_null(sample);
    size_t S = golden_count(golden_find(&g, "seq")), n;
    int32_t *prompt = ints(fore_json_get(sample, "prompt_ids"), &n);
    free(prompt);
    question q = {0};
    fore_request_init(&q.r, f->model);
    load_images(&q, sample);
    q.r.ids = golden_i32(&g, "seq", S);
    q.r.id_count = S;
    if (!own_pixels) { /* one picture, the reference's own pixels */
        const cJSON *grid = cJSON_GetArrayItem(fore_json_get(sample, "grid_thw"), 0);
        q.images[0].patches = golden_f32(&g, "pixel_values", golden_count(golden_find(&g, "pixel_values")));
        for (int i = 0; i < 3; i++) q.images[0].grid[i] = cJSON_GetArrayItem(grid, i)->valueint;
    }
    fore_error err = {0};
    fore_trace *t;
    if (fore_session_trace(f->session, &q.r, &t, &err)) fail_msg("%s: %s", id, err.text);
    assert_int_equal(t->tokens, S);
    size_t C = (size_t)t->hidden, V = (size_t)t->vocab;
    golden_compare(&g, "embeds", t->embeddings, n * C, 1e-3);
    golden_compare(&g, "hidden_post_norm", t->final_hidden, S * C, 1e-3);
    golden_compare(&g, "logits", t->logits + (n - 1) * V, (S - n) * V, 1e-3);
    assert_memory_equal(t->positions, golden_i32(&g, "positions", 3 * S), 3 * S * sizeof(int32_t));
    print_message("%s: largest difference %.2g (%s)\n", id, g.worst, g.worst_name);
    fore_trace_free(t);
    forget(&q);
    golden_close(&g);
}

static void test_traces(void **state) {
    check_trace(*state, "s00", true);
    check_trace(*state, "s06", true);
    check_trace(*state, "s04", false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_traces),
    };
    return cmocka_run_group_tests_name("golden/samples", tests, open_all, close_all);
}
