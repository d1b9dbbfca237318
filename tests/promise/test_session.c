/* Sessions: a warm start equals a cold one to the bit, a request that was cancelled or failed leaves a session that can go
 * on, and answers end where they should. With the trained model and its pictures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "decode/session.h"

#define SAMPLES "tests/samples/"
enum { MAX_ANSWER = 200 };

typedef struct fixture {
    fore_model *model;
    fore_session *session;
    char *files[2];
    fore_image images[2];
} fixture;

typedef struct answer {
    int32_t ids[MAX_ANSWER];
    size_t n;
    char text[2048];
    fore_finish finish;
    fore_stats stats;
} answer;

#define USER(parts) "[{\"role\":\"user\",\"content\":" parts "}]"
#define IMAGE "{\"type\":\"image\"}"
#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"
static const char *const ASK_ONE = USER("[" IMAGE "," TEXT("Describe the picture.") "]");
static const char *const OPTIONS = "{\"enable_thinking\": false}";

static fore_session *new_session(const fixture *f, int context) {
    fore_session *s;
    fore_error err = {0};
    const fore_session_options o = {.threads = 2, .context = context};
    if (fore_session_new(f->model, &o, &s, &err)) fail_msg("%s", err.text);
    return s;
}

static int open_all(void **state) {
    static fixture f;
    static const char *const names[] = {"s00.png", "s01.png"};
    fore_error err = {0};
    if (fore_model_open("models/tiny", NULL, &f.model, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    for (size_t i = 0; i < 2; i++) {
        char path[64];
        size_t size;
        snprintf(path, sizeof path, SAMPLES "%s", names[i]);
        if (fore_file_read(path, 1 << 20, &f.files[i], &size, &err)) return -1;
        f.images[i] = (fore_image){.data = f.files[i], .size = size, .name = names[i]};
    }
    *state = &f;
    return 0;
}

static int close_all(void **state) {
    fixture *f = *state;
    fore_model_close(f->model);
    free(f->files[0]);
    free(f->files[1]);
    return 0;
}

static int open_session(void **state) {
    fixture *f = *state;
    f->session = new_session(f, 0);
    return 0;
}

static int close_session(void **state) {
    fixture *f = *state;
    fore_session_free(f->session);
    return 0;
}

static void request(const fixture *f, fore_request *r, const char *messages, size_t images) {
    fore_request_init(r, f->model);
    r->messages = messages;
    r->options = OPTIONS;
    r->images = f->images;
    r->image_count = images;
    r->max_tokens = 60;
    r->draft.depth = 0; /* a token a call; drafts have a test of their own */
}

static void run(fore_session *s, const fore_request *r, answer *a) {
    fore_error err = {0};
    *a = (answer){0};
    if (fore_session_begin(s, r, &err)) fail_msg("%s", err.text);
    while (a->finish == FORE_FINISH_NONE) {
        fore_chunk c;
        if (fore_session_next(s, &c, &err)) fail_msg("%s", err.text);
        assert_true(a->n + c.id_count <= MAX_ANSWER);
        memcpy(a->ids + a->n, c.ids, c.id_count * sizeof *c.ids);
        a->n += c.id_count;
        assert_true(strlen(a->text) + c.size < sizeof a->text);
        strncat(a->text, c.text, c.size);
        a->finish = c.finish;
    }
    fore_session_get_stats(s, &a->stats);
}

static void same(const answer *a, const answer *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, a->n * sizeof *a->ids);
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->finish, b->finish);
}

/* Recurrent state and the last logits of two sessions that took different roads to the same tokens. */
static void same_state(const fore_session *a, const fore_session *b) {
    assert_int_equal(a->state.length, b->state.length);
    assert_int_equal(a->delta, b->delta);
    assert_memory_equal(a->ids, b->ids, (size_t)a->state.length * sizeof *a->ids);
    assert_int_equal(a->state.recurrent_bytes, b->state.recurrent_bytes);
    const fore_text_config *t = &a->model->network.config.text;
    for (int i = 0; i < t->num_hidden_layers; i++) {
        const fore_layer_state *x = &a->state.layers[i], *y = &b->state.layers[i];
        if (x->S) {
            size_t n = (size_t)t->linear_num_value_heads * (size_t)t->linear_key_head_dim * (size_t)t->linear_value_head_dim;
            assert_memory_equal(x->S, y->S, n * sizeof(float));
        } else {
            size_t row = (size_t)t->head_dim * sizeof(float);
            for (int h = 0; h < t->num_key_value_heads; h++)
                assert_memory_equal(x->v + (size_t)h * (size_t)a->state.capacity * (size_t)t->head_dim,
                                    y->v + (size_t)h * (size_t)b->state.capacity * (size_t)t->head_dim, (size_t)a->state.length * row);
        }
    }
    assert_memory_equal(a->logits, b->logits, (size_t)t->vocab_size * sizeof(float));
}

/* A second turn on a warm session (its prefix reused) against a session that sees it all at once. */
static void test_second_turn(void **state) {
    fixture *f = *state;
    fore_request r;
    answer first, warm, cold;
    char again[4096];
    request(f, &r, ASK_ONE, 1);
    run(f->session, &r, &first);
    assert_int_equal(first.stats.reused_tokens, 0);
    assert_int_equal(first.stats.image_tokens, 25);
    snprintf(again, sizeof again,
             "[{\"role\":\"user\",\"content\":[" IMAGE "," TEXT("Describe the picture.") "]},{\"role\":\"assistant\",\"content\":\"%s\"},"
             "{\"role\":\"user\",\"content\":[" IMAGE "," TEXT("How many shapes are there?") "]}]",
             first.text);
    request(f, &r, again, 2);
    run(f->session, &r, &warm);
    fore_session *fresh = new_session(f, 0);
    run(fresh, &r, &cold);
    same(&warm, &cold);
    same_state(f->session, fresh);
    assert_int_equal(cold.stats.reused_tokens, 0);
    fore_session_free(fresh);
}

/* Raw prompts that extend each other exactly: the prefix must be reused, and nothing may change by it. */
static void test_prefix_reuse(void **state) {
    fixture *f = *state;
    static const char *const prompts[] = {
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What do you see?<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What do you see?<|im_end|>\n<|im_start|>assistant\n"
        "<think>\n\n</think>\n\n",
    };
    fore_request r;
    answer warm, cold;
    fore_error err = {0};
    for (int turn = 0; turn < 2; turn++) {
        request(f, &r, NULL, 1);
        r.prompt = prompts[turn];
        if (turn == 0) {
            if (fore_session_begin(f->session, &r, &err)) fail_msg("%s", err.text); /* nothing generated */
        } else {
            run(f->session, &r, &warm);
        }
    }
    assert_true(warm.stats.reused_tokens > 25);
    assert_true(warm.stats.vision_seconds == 0); /* the picture lies in the prefix: the tower did not run */
    fore_session *fresh = new_session(f, 0);
    run(fresh, &r, &cold);
    same(&warm, &cold);
    same_state(f->session, fresh);
    fore_session_free(fresh);
    /* The same tokens with another picture of the same size share nothing. */
    request(f, &r, NULL, 1);
    r.prompt = prompts[0];
    if (fore_session_begin(f->session, &r, &err)) fail_msg("%s", err.text);
    r.prompt = prompts[1];
    r.images = f->images + 1;
    run(f->session, &r, &warm);
    assert_int_equal(warm.stats.reused_tokens, 0);
    fresh = new_session(f, 0);
    run(fresh, &r, &cold);
    same(&warm, &cold);
    fore_session_free(fresh);
}

static int cancel_at(void *user, const char *stage, uint64_t done, uint64_t total) {
    int *left = user;
    (void)stage, (void)done, (void)total;
    return (*left)-- == 0;
}

/* Cancelling at every point of vision and prefill: an error of its own, and the next request is answered as ever. */
static void test_cancel_begin(void **state) {
    fixture *f = *state;
    fore_request r;
    answer plain, after;
    request(f, &r, ASK_ONE, 1);
    run(f->session, &r, &plain);
    int cancelled = 0;
    for (int at = 0; at < 30; at++) {
        fore_error err = {0};
        int left = at;
        request(f, &r, ASK_ONE, 1);
        r.prefill_chunk = 8;
        r.progress = cancel_at;
        r.user = &left;
        fore_status s = fore_session_begin(f->session, &r, &err);
        if (s) {
            assert_int_equal(s, FORE_ERR_CANCELLED);
            fore_chunk c;
            assert_int_equal(fore_session_next(f->session, &c, &err), FORE_ERR_INVALID);
            cancelled++;
        }
        request(f, &r, ASK_ONE, 1);
        r.prefill_chunk = at % 3 ? 8 : 0;
        run(f->session, &r, &after);
        same(&plain, &after);
    }
    assert_true(cancelled >= 25); /* three vision blocks, six chunks of four layers */
}

/* Stopping after any round, with drafts or without, and going on from there gives the same text. */
static void test_cancel_answer(void **state) {
    fixture *f = *state;
    fore_request r;
    answer plain;
    request(f, &r, ASK_ONE, 1);
    run(f->session, &r, &plain);
    fore_error err = {0};
    fore_trace *t;
    if (fore_session_trace(f->session, &r, &t, &err)) fail_msg("%s", err.text);
    int stops = 0;
    for (int depth = 0; depth <= 4; depth += 2)
        for (int rounds = 0;; rounds += depth ? 1 : 5) {
            request(f, &r, ASK_ONE, 1);
            r.draft.depth = depth;
            if (fore_session_begin(f->session, &r, &err)) fail_msg("%s", err.text);
            int32_t ids[512];
            size_t n = t->tokens;
            memcpy(ids, t->ids, n * sizeof *ids);
            fore_chunk c = {0};
            for (int i = 0; i < rounds && c.finish == FORE_FINISH_NONE; i++) {
                if (fore_session_next(f->session, &c, &err)) fail_msg("%s", err.text);
                memcpy(ids + n, c.ids, c.id_count * sizeof *ids);
                n += c.id_count;
            }
            if (c.finish != FORE_FINISH_NONE) break;
            size_t said = n - t->tokens;
            assert_memory_equal(ids + t->tokens, plain.ids, said * sizeof *ids);
            fore_request_init(&r, f->model);
            r.images = f->images;
            r.image_count = 1;
            r.ids = ids;
            r.id_count = n;
            r.max_tokens = 60;
            r.draft.depth = depth;
            answer rest;
            run(f->session, &r, &rest);
            if (said > 1) assert_int_equal(rest.stats.reused_tokens, n - 1);
            assert_int_equal(rest.n, plain.n - said);
            assert_memory_equal(rest.ids, plain.ids + said, rest.n * sizeof *rest.ids);
            stops++;
        }
    assert_true(stops > 20);
    fore_trace_free(t);
}

static void test_endings(void **state) {
    fixture *f = *state;
    fore_request r;
    answer full, a;
    request(f, &r, ASK_ONE, 1);
    run(f->session, &r, &full);
    assert_int_equal(full.finish, FORE_FINISH_STOP);
    assert_null(full.stats.stop);
    for (int n = 1; n < 6; n++) { /* exactly n tokens */
        r.max_tokens = n;
        run(f->session, &r, &a);
        assert_int_equal(a.n, n);
        assert_int_equal(a.finish, FORE_FINISH_LENGTH);
        assert_memory_equal(a.ids, full.ids, (size_t)n * sizeof *a.ids);
    }
    static const char *const stop[] = {"no such text", " top"};
    request(f, &r, ASK_ONE, 1);
    r.stop = stop;
    r.stop_count = 2;
    run(f->session, &r, &a);
    assert_int_equal(a.finish, FORE_FINISH_STOP);
    assert_string_equal(a.stats.stop, " top");
    char *cut = strstr(full.text, " top");
    assert_non_null(cut);
    assert_int_equal(strlen(a.text), cut - full.text);
    assert_memory_equal(a.text, full.text, strlen(a.text));
    request(f, &r, ASK_ONE, 1);
    r.ignore_eos = true;
    run(f->session, &r, &a);
    assert_int_equal(a.n, 60);
    assert_int_equal(a.finish, FORE_FINISH_LENGTH);
    /* A context that is full ends the answer; every place of it was used. */
    fore_session *small = new_session(f, 50);
    request(f, &r, ASK_ONE, 1);
    r.max_tokens = 0;
    run(small, &r, &a);
    assert_int_equal(a.finish, FORE_FINISH_LENGTH);
    assert_int_equal(a.stats.prompt_tokens + a.n, 51);
    assert_memory_equal(a.ids, full.ids, a.n * sizeof *a.ids);
    fore_session_free(small);
}

static void refuse(fore_session *s, const fore_request *r, fore_status want, const char *part) {
    fore_error err = {0};
    fore_status got = fore_session_begin(s, r, &err);
    if (got != want || !strstr(err.text, part)) fail_msg("%d \"%s\", wanted %d \"%s\"", got, err.text, want, part);
}

/* Everything that a request can get wrong, each time followed by a request that works. */
static void test_refusals(void **state) {
    fixture *f = *state;
    fore_request good, r;
    answer plain, after;
    request(f, &good, ASK_ONE, 1);
    run(f->session, &good, &plain);
    fore_session *small = new_session(f, 20);
    request(f, &r, ASK_ONE, 1);
    refuse(small, &r, FORE_ERR_LIMIT, "the context has 20");
    run(f->session, &good, &after);
    same(&plain, &after);
    fore_session_free(small);
    static const char broken[] = "not a picture";
    static const fore_image bad = {.data = broken, .size = sizeof broken, .name = "bad.png"};
    static const int32_t outside[] = {1, 1280};
    static const char *const empty_stop[] = {""};
    for (int i = 0; i < 12; i++) {
        request(f, &r, ASK_ONE, 1);
        fore_status want = FORE_ERR_INVALID;
        const char *part = "";
        switch (i) {
        case 0: r.images = &bad, want = FORE_ERR_UNSUPPORTED, part = "bad.png"; break;
        case 1: r.image_count = 0, part = "places 1 picture, none was given"; break;
        case 2: r.image_count = 2, part = "2 pictures given, the prompt places only 1"; break;
        case 3: r.messages = "[{", want = FORE_ERR_FORMAT, part = "messages"; break;
        case 4: r.messages = "{}", want = FORE_ERR_FORMAT, part = "expected a JSON list"; break;
        case 5: r.options = "[]", want = FORE_ERR_FORMAT, part = "expected a JSON object"; break;
        case 6: r.messages = NULL, part = "exactly one of messages, prompt and ids"; break;
        case 7: r.messages = NULL, r.ids = outside, r.id_count = 2, r.image_count = 0, part = "id 1280 at index 1"; break;
        case 8: r.messages = NULL, r.prompt = "", r.image_count = 0, part = "the prompt is empty"; break;
        case 9: r.sampling.temperature = -1, part = "temperature"; break;
        case 10: r.stop = empty_stop, r.stop_count = 1, part = "stop"; break;
        case 11: r.limits.image_pixels = 100, want = FORE_ERR_LIMIT, part = "s00.png"; break;
        }
        if (i == 0) { /* the kind of refusal is the picture room's */
            fore_error err = {0};
            assert_int_not_equal(fore_session_begin(f->session, &r, &err), FORE_OK);
            assert_non_null(strstr(err.text, part));
        } else {
            refuse(f->session, &r, want, part);
        }
        run(f->session, &good, &after);
        same(&plain, &after);
    }
}

static void test_seeds(void **state) {
    fixture *f = *state;
    fore_request r;
    answer a, b;
    int different = 0;
    for (uint64_t seed = 0; seed < 6; seed++) {
        request(f, &r, USER(TEXT("")), 0);
        r.messages = "[{\"role\":\"user\",\"content\":\"Tell a story about a fox named Mia, a river and a red ball.\"}]";
        r.sampling = (fore_sampling){.temperature = 4.0f, .top_p = 1, .top_k = 40, .repetition_penalty = 1.05f, .seed = seed};
        run(f->session, &r, &a);
        r.prefill_chunk = 5;
        run(f->session, &r, &b);
        same(&a, &b); /* a seed is an answer */
        r.sampling.seed = seed + 100;
        run(f->session, &r, &b);
        different += a.n != b.n || memcmp(a.ids, b.ids, a.n * sizeof *a.ids) != 0;
    }
    assert_true(different >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_second_turn, open_session, close_session),
        cmocka_unit_test_setup_teardown(test_prefix_reuse, open_session, close_session),
        cmocka_unit_test_setup_teardown(test_cancel_begin, open_session, close_session),
        cmocka_unit_test_setup_teardown(test_cancel_answer, open_session, close_session),
        cmocka_unit_test_setup_teardown(test_endings, open_session, close_session),
        cmocka_unit_test_setup_teardown(test_refusals, open_session, close_session),
        cmocka_unit_test_setup_teardown(test_seeds, open_session, close_session),
    };
    return cmocka_run_group_tests_name("promise/session", tests, open_all, close_all);
}
