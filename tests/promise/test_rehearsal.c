/* A rehearsal says of every place of an answer what a round of drafts there comes to: the same as the rounds of a session, whatever
 * the contract, and also by another opening of the model. And the answer of those rounds is the one without drafts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "decode/rehearsal.h"

enum { CONTEXT = 512, MOST = 128 };

static const char *const contracts[] = {
    NULL,
    "{\"base_hidden_variant\": \"pre_norm\"}",
    "{\"concat_order\": \"hidden_embedding\", \"hidden_variant\": \"fc\"}",
    "{\"mtp_position_mode\": \"local\", \"hidden_variant\": \"prev\"}",
    "{\"mtp_position_mode\": \"absolute\", \"hidden_variant\": \"mix:pre_norm:embedding:0.5\"}",
    "{\"mtp_norm_encoding\": \"absolute\"}",
};
static const char *const prompts[] = {
    "<|im_start|>user\nTell a story about a fox named Mia, a river and a red ball.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "<|im_start|>user\nWhat comes after 14 and then, count to thirty.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the picture.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
};

static fore_model *open_model(const char *contract) {
    fore_model *m;
    fore_error err = {0};
    const fore_model_options o = {.mtp_contract = contract};
    if (fore_model_open("models/tiny", &o, &m, &err)) fail_msg("%s", err.text);
    return m;
}

static fore_session *open_session(const fore_model *m) {
    fore_session *s;
    fore_error err = {0};
    if (fore_session_new(m, &(fore_session_options){.threads = 1, .context = CONTEXT}, &s, &err)) fail_msg("%s", err.text);
    return s;
}

static fore_request ask(const fore_model *m, int prompt, const fore_image *image, int tokens) {
    fore_request r;
    fore_request_init(&r, m);
    r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
    r.prompt = prompts[prompt];
    r.images = image;
    r.image_count = prompt == 2;
    r.max_tokens = tokens;
    r.ignore_eos = prompt == 1;
    r.draft.lookup = FORE_LOOKUP_OFF;
    return r;
}

/* Rounds of `depth` drafts against what the rehearsal says of their places. Returns how many could be compared. */
static int compare(fore_session *s, fore_request *r, const fore_rehearsal *a, int depth, const uint8_t *right, const char *what) {
    fore_error err = {0};
    fore_chunk c = {0};
    int said = 0, compared = 0, places = fore_rehearsal_places(a, depth);
    r->draft.depth = depth;
    if (fore_session_begin(s, r, &err)) fail_msg("%s", err.text);
    while (c.finish == FORE_FINISH_NONE) {
        int place = said - 1, accepted = 0;
        if (fore_session_next(s, &c, &err)) fail_msg("%s", err.text);
        for (size_t i = 0; i < c.id_count; i++) {
            accepted += c.marks[i] == FORE_MARK_ACCEPTED;
            if (said >= a->answer || a->ids[a->prompt + said++] != c.ids[i]) fail_msg("%s: token %d is another one", what, said - 1);
        }
        if (place < 0 || place >= places || place + 1 + depth >= r->max_tokens) continue; /* the first token; the end */
        if (accepted != right[place]) fail_msg("%s: place %d: %d drafts were right, the rehearsal says %d", what, place, accepted, right[place]);
        compared++;
    }
    assert_int_equal(said, a->answer);
    return compared;
}

static void test_rounds(void **state) {
    (void)state;
    fore_error err = {0};
    fore_image image = {0};
    char *png;
    if (fore_file_read("tests/samples/s06_a.png", 1 << 20, &png, &image.size, &err)) fail_msg("%s", err.text);
    image.data = png;
    fore_model *taker = open_model("{\"base_hidden_variant\": \"pre_norm\"}"); /* so that both kinds of hiddens are kept */
    fore_session *first = open_session(taker);
    fore_rehearsal a[3];
    for (int i = 0; i < 3; i++) {
        fore_request r = ask(taker, i, &image, 60);
        if (fore_rehearsal_take(first, &r, &a[i], &err)) fail_msg("%s", err.text);
        assert_true(a[i].post && a[i].pre && a[i].pictures == (i == 2) && a[i].answer > 20 && a[i].answer <= 60);
    }
    fore_session_free(first);
    fore_model_close(taker);
    int sum[6] = {0};
    for (size_t k = 0; k < sizeof contracts / sizeof *contracts; k++) {
        fore_model *m = open_model(contracts[k]);
        fore_session *trying = open_session(m), *real = open_session(m);
        for (int i = 0; i < 3; i++)
            for (int depth = 1; depth <= 4; depth += depth == 1 ? 2 : 1) {
                uint8_t right[MOST];
                char what[128];
                snprintf(what, sizeof what, "prompt %d, depth %d, %s", i, depth, contracts[k] ? contracts[k] : "as it is");
                if (fore_rehearsal_try(trying, &a[i], depth, right, &err)) fail_msg("%s: %s", what, err.text);
                for (int p = 0; p < fore_rehearsal_places(&a[i], depth); p++) sum[k] += right[p];
                fore_request r = ask(m, i, &image, 60);
                if (compare(real, &r, &a[i], depth, right, what) < 5) fail_msg("%s: hardly a round was compared", what);
            }
        fore_session_free(trying);
        fore_session_free(real);
        fore_model_close(m);
    }
    /* Another order, no history and other norms leave little; so places were tried as the contract says. */
    assert_true(sum[0] > 400 && 2 * sum[2] < sum[0] && 2 * sum[3] < sum[0] && 2 * sum[5] < sum[0]);
    for (int i = 0; i < 3; i++) fore_rehearsal_free(&a[i]);
    free(png);
}

static void test_refused(void **state) {
    (void)state;
    fore_error err = {0};
    fore_model *m = open_model(NULL), *pre = open_model(contracts[1]);
    fore_session *s = open_session(m), *t = open_session(pre), *small;
    fore_rehearsal a;
    uint8_t right[MOST];
    fore_request r = ask(m, 0, NULL, 40);
    if (fore_rehearsal_take(s, &r, &a, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_rehearsal_places(&a, a.answer), 0);
    assert_int_equal(fore_rehearsal_try(t, &a, 2, right, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "before the final norm were not kept"));
    assert_int_equal(fore_rehearsal_try(s, &a, FORE_DRAFT_MAX + 1, right, &err), FORE_ERR_INVALID);
    if (fore_session_new(m, &(fore_session_options){.threads = 1, .context = a.prompt + a.answer + 2}, &small, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_rehearsal_try(small, &a, 2, right, &err), FORE_ERR_LIMIT);
    assert_int_equal(fore_rehearsal_try(small, &a, 1, right, &err), FORE_OK);
    fore_session_free(small);
    fore_rehearsal_free(&a);
    fore_session_free(s);
    fore_session_free(t);
    fore_model_close(m);
    fore_model_close(pre);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounds), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("rehearsal", tests, NULL, NULL);
}
