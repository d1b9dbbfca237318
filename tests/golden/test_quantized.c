/* What quantising costs models/tiny on held-out pictures: the share of greedy answers that equal those of the 16-bit weights,
 * token for token, and how many are as expected. At 8 bits 98 % must be equal, at 4 bits 90 %.
 * Given bits, group, head bits, vision bits (0: as without) and a folder of tests/oracle/make_heldout.py, it prints these figures. */
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

enum { PROMPTS = 512 };
#define HELDOUT FORE_DATA "/heldout"

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

/* Share of equal answers. */
static double compare(const char *name, const fore_quantize_options *options, const char *folder, const cJSON *prompts, int count) {
    scratch dir;
    fore_error err = {0};
    fore_quantize_report *report = NULL;
    int equal = 0, right = 0, was_right = 0;
    scratch_make(&dir);
    if (fore_quantize("models/tiny", dir.dir, options, &report, &err)) fail_msg("%s", err.text);
    assert_int_equal(answer_all(dir.dir, folder, prompts, answers), count);
    for (int i = 0; i < count; i++) {
        equal += answers[i].n == reference[i].n &&
                 memcmp(answers[i].ids, reference[i].ids, (size_t)answers[i].n * sizeof *answers[i].ids) == 0;
        right += answers[i].right;
        was_right += reference[i].right;
    }
    print_message("%s: %d of %d answers equal, %d as expected (16 bits: %d), mean error of the weights %.3f %%\n", name, equal, count,
                  right, was_right, 100 * report->mean_error);
    fore_quantize_report_free(report);
    scratch_remove(&dir);
    return (double)equal / count;
}

static cJSON *read_prompts(const char *folder) {
    cJSON *prompts = NULL;
    fore_error err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/prompts.json", folder);
    if (fore_json_read(path, 1 << 24, &prompts, &err)) fail_msg("%s", err.text);
    return prompts;
}

static void test_held_out(void **state) {
    (void)state;
    cJSON *prompts = read_prompts(HELDOUT);
    int count = answer_all("models/tiny", HELDOUT, prompts, reference);
    assert_true(count >= 100);
    fore_quantize_options eight, four;
    fore_quantize_options_init(&eight, 8);
    fore_quantize_options_init(&four, 4);
    assert_true(compare("8 bits", &eight, HELDOUT, prompts, count) >= 0.98);
    assert_true(compare("4 bits", &four, HELDOUT, prompts, count) >= 0.90);
    cJSON_Delete(prompts);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        fore_quantize_options o = {.bits = atoi(argv[1])};
        if (argc > 2) o.group = atoi(argv[2]);
        if (argc > 3) o.head_bits = atoi(argv[3]);
        if (argc > 4) o.vision_bits = atoi(argv[4]);
        const char *folder = argc > 5 ? argv[5] : HELDOUT;
        cJSON *prompts = read_prompts(folder);
        compare("figures", &o, folder, prompts, answer_all("models/tiny", folder, prompts, reference));
        cJSON_Delete(prompts);
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_held_out)};
    return cmocka_run_group_tests_name("golden/quantized", tests, NULL, NULL);
}
