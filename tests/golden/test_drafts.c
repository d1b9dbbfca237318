/* The draft head of models/tiny proposes, along the greedy answers of the 13 samples, the drafts that the reference recorded: three at
 * every place. Only where our own two best logits are nearer than 0.05 may a draft differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "support/follow.h"

#define NEAR 0.05f

static void test_samples(void **state) {
    (void)state;
    fore_error err = {0};
    fore_model *model = NULL;
    fore_session *session = NULL;
    cJSON *samples = NULL;
    const fore_session_options o = {.threads = 2, .context = 512};
    if (fore_model_open("models/tiny", NULL, &model, &err) || fore_session_new(model, &o, &session, &err) ||
        fore_json_read("tests/samples/goldens.json", 1 << 24, &samples, &err))
        fail_msg("%s", err.text);
    int places = 0, drafts = 0, near = 0, count = 0;
    const cJSON *sample, *entry;
    cJSON_ArrayForEach(sample, samples) {
        follow_prompt p;
        follow_answer a;
        float gaps[FOLLOW_MOST][FOLLOW_DEPTH];
        const char *id = fore_json_get(sample, "id")->valuestring;
        const cJSON *answer = fore_json_get(sample, "output_ids");
        int n = cJSON_GetArraySize(answer), prompt = (int)fore_json_get(sample, "n_prompt")->valuedouble, k = 0;
        follow_open(&p, model, "tests/samples", sample);
        p.r.ignore_eos = true; /* the reference drafts beyond an end token */
        p.r.max_tokens = n;
        follow_run(session, &p, 0, &a, gaps);
        assert_int_equal(a.n, n);
        for (int i = 0; i < n; i++) assert_int_equal(a.ids[i], cJSON_GetArrayItem(answer, i)->valueint);
        cJSON_ArrayForEach(entry, fore_json_get(sample, "mtp_drafts")) {
            assert_int_equal(fore_json_get(entry, "slot")->valueint, prompt - 1 + k);
            const cJSON *want = fore_json_get(entry, "drafts");
            assert_int_equal(a.slot[k].made, FOLLOW_DEPTH);
            for (int d = 0; d < FOLLOW_DEPTH; d++) {
                drafts++;
                if (a.slot[k].draft[d] == cJSON_GetArrayItem(want, d)->valueint) continue;
                if (gaps[k][d] >= NEAR)
                    fail_msg("%s, token %d, draft %d is %d, the reference's is %d, and our best logit leads by %g", id, k, d + 1,
                             (int)a.slot[k].draft[d], cJSON_GetArrayItem(want, d)->valueint, (double)gaps[k][d]);
                near++;
                break; /* what follows goes on from another token */
            }
            k++;
        }
        assert_int_equal(k, n - 1);
        places += k;
        count++;
        follow_close(&p);
    }
    print_message("%d samples, %d places, %d drafts compared, %d near ties fell otherwise\n", count, places, drafts, near);
    assert_int_equal(count, 13);
    assert_true(near <= 3);
    cJSON_Delete(samples);
    fore_session_free(session);
    fore_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples)};
    return cmocka_run_group_tests_name("golden/drafts", tests, NULL, NULL);
}
