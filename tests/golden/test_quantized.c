/* What quantising costs models/tiny on held-out pictures: the share of greedy answers that equal those of the 16-bit weights,
 * token for token, and how many are as expected. At 8 bits 98 % must be equal, at 4 bits 90 %.
 * Given bits, group, head bits, vision bits (0: as without) and folders of tests/oracle/make_heldout.py, it prints these figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "support/follow.h"
#include "support/scratch.h"

enum { PROMPTS = 512, SETS = 2 };

static const char *const sets[] = {FORE_DATA "/heldout", FORE_DATA "/heldout_more"};

typedef struct answer {
    int n;
    int32_t ids[FOLLOW_MOST];
    bool right; /* as the one who drew the picture expects */
} answer;

static bool is_right(const fore_model *model, const answer *a, const char *expected) {
    char *text = NULL;
    size_t size;
    fore_error err = {0};
    if (fore_tokenizer_decode(fore_model_tokenizer(model), a->ids, (size_t)a->n, true, &text, &size, &err)) fail_msg("%s", err.text);
    bool same = strcmp(text, expected) == 0;
    fore_free(text);
    return same;
}

static void ask(fore_session *session, follow_prompt *p, answer *out) {
    fore_error err = {0};
    fore_chunk c = {0};
    out->n = 0;
    fore_session_reset(session);
    p->r.draft = (fore_draft){.depth = 2};
    if (fore_session_begin(session, &p->r, &err)) fail_msg("%s", err.text);
    while (c.finish == FORE_FINISH_NONE) {
        if (fore_session_next(session, &c, &err)) fail_msg("%s", err.text);
        assert_true(out->n + (int)c.id_count <= FOLLOW_MOST);
        memcpy(out->ids + out->n, c.ids, c.id_count * sizeof *c.ids);
        out->n += (int)c.id_count;
    }
}

/* Answers of the model in `dir` to the prompts of `folder`; returns how many. */
static int answer_all(const char *dir, const char *folder, const cJSON *prompts, answer *out) {
    fore_error err = {0};
    fore_model *model = NULL;
    fore_session *session = NULL;
    const fore_session_options o = {.threads = 2, .context = 512};
    int n = 0;
    if (fore_model_open(dir, NULL, &model, &err) || fore_session_new(model, &o, &session, &err)) fail_msg("%s", err.text);
    const cJSON *entry;
    cJSON_ArrayForEach(entry, prompts) {
        follow_prompt p;
        assert_true(n < PROMPTS);
        follow_open(&p, model, folder, entry);
        ask(session, &p, &out[n]);
        out[n].right = is_right(model, &out[n], fore_json_get(entry, "answer")->valuestring);
        n++;
        follow_close(&p);
    }
    fore_session_free(session);
    fore_model_close(model);
    return n;
}

static answer reference[PROMPTS], answers[PROMPTS];

/* Of some prompts: asked, equal, as expected, as expected of 16 bits. */
typedef struct tally {
    int asked, equal, right, was_right;
} tally;

/* A model quantised as the options say, against `reference`. */
static void compare(const char *dir, const char *folder, const cJSON *prompts, int count, tally *t) {
    assert_int_equal(answer_all(dir, folder, prompts, answers), count);
    t->asked += count;
    for (int i = 0; i < count; i++) {
        t->equal += answers[i].n == reference[i].n &&
                    memcmp(answers[i].ids, reference[i].ids, (size_t)answers[i].n * sizeof *answers[i].ids) == 0;
        t->right += answers[i].right;
        t->was_right += reference[i].right;
    }
}

static cJSON *read_prompts(const char *folder) {
    cJSON *prompts = NULL;
    fore_error err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/prompts.json", folder);
    if (fore_json_read(path, 1 << 24, &prompts, &err)) fail_msg("%s", err.text);
    return prompts;
}

/* Share of equal answers with each of the options, over the prompts of all folders. */
static void survey(const fore_quantize_options *options, int kinds, const char *const *folders, int count, double *share) {
    scratch dir[2];
    tally t[2] = {{0}, {0}};
    for (int k = 0; k < kinds; k++) {
        fore_error err = {0};
        fore_quantize_report *report = NULL;
        scratch_make(&dir[k]);
        if (fore_quantize("models/tiny", dir[k].dir, &options[k], &report, &err)) fail_msg("%s", err.text);
        print_message("%d bits: mean error of the weights %.3f %%\n", options[k].bits, 100 * report->mean_error);
        fore_quantize_report_free(report);
    }
    for (int i = 0; i < count; i++) {
        cJSON *prompts = read_prompts(folders[i]);
        int n = answer_all("models/tiny", folders[i], prompts, reference);
        for (int k = 0; k < kinds; k++) compare(dir[k].dir, folders[i], prompts, n, &t[k]);
        cJSON_Delete(prompts);
    }
    for (int k = 0; k < kinds; k++) {
        share[k] = (double)t[k].equal / t[k].asked;
        print_message("%d bits: %d of %d answers equal (%.1f %%), %d as expected (16 bits: %d)\n", options[k].bits, t[k].equal,
                      t[k].asked, 100 * share[k], t[k].right, t[k].was_right);
        scratch_remove(&dir[k]);
    }
}

static void test_held_out(void **state) {
    (void)state;
    fore_quantize_options options[2];
    double share[2];
    fore_quantize_options_init(&options[0], 8);
    fore_quantize_options_init(&options[1], 4);
    survey(options, 2, sets, SETS, share);
    assert_true(share[0] >= 0.98);
    assert_true(share[1] >= 0.90);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        fore_quantize_options o = {.bits = atoi(argv[1])};
        double share;
        if (argc > 2) o.group = atoi(argv[2]);
        if (argc > 3) o.head_bits = atoi(argv[3]);
        if (argc > 4) o.vision_bits = atoi(argv[4]);
        if (argc > 5) survey(&o, 1, (const char *const *)(argv + 5), argc - 5, &share);
        else survey(&o, 1, sets, SETS, &share);
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_held_out)};
    return cmocka_run_group_tests_name("golden/quantized", tests, NULL, NULL);
}
