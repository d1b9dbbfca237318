/* Checkpoints in the forms of the hub and of GGUF keep the promise, also where the draft head has another form than the model: the same answer
 * at every depth, by every instruction set, in chunks, and mapped from a pack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "support/answer.h"
#include "support/scratch.h"

#define FORMS FORE_DATA "/forms/"

enum { LENGTH = 60 };

static const int32_t ids[] = {5, 17, 60, 3, 44, 71, 9, 9, 28, 52};

static void say(const char *name, const char *isa, const char *pack, fore_draft draft, int chunk, float temperature, answer *a) {
    char path[128];
    fore_error err = {0};
    fore_model *model;
    fore_session *session = NULL;
    fore_request r;
    const fore_model_options options = {.isa = isa, .pack_dir = pack};
    const fore_session_options of = {.threads = 2, .context = 128};
    snprintf(path, sizeof path, FORMS "%s", name);
    if (fore_model_open(path, &options, &model, &err) || fore_session_new(model, &of, &session, &err)) fail_msg("%s", err.text);
    fore_request_init(&r, model);
    r.ids = ids;
    r.id_count = sizeof ids / sizeof *ids;
    r.ignore_eos = true;
    r.max_tokens = LENGTH;
    r.draft = draft;
    r.prefill_chunk = chunk;
    r.sampling = (fore_sampling){.temperature = temperature, .top_p = 0.95f, .repetition_penalty = 1, .seed = 3};
    answer_run(session, &r, a);
    fore_session_free(session);
    fore_model_close(model);
}

static void test_answers(void **state) {
    (void)state;
    static const char *const names[] = {"fp8", "fp8_experts", "fp8_head", "int4", "int8", "awq", "gptq_order", "../gguf/super/model.gguf"};
    static answer base, other;
    const fore_kern *kerns[8];
    int sets = fore_kern_list(kerns);
    scratch s;
    scratch_make(&s);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int g = 0; g < 2; g++) {
            const float t = g ? 0.8f : 0;
            const int head = strstr(names[i], "super") == NULL; /* that one has none */
            say(names[i], NULL, NULL, (fore_draft){.depth = 0}, 0, t, &base);
            assert_int_equal(base.n, LENGTH);
            for (int depth = 1; depth <= 4; depth += 3) {
                say(names[i], NULL, NULL, (fore_draft){.depth = depth * head}, 3, t, &other);
                answer_same(&base, &other, names[i]);
            }
            say(names[i], NULL, scratch_path(&s, "packs"), (fore_draft){.depth = 2 * head}, 4, t, &other);
            answer_same(&base, &other, names[i]);
            for (int k = 0; k < sets; k++) {
                say(names[i], kerns[k]->name, scratch_path(&s, "packs"), (fore_draft){.depth = 2 * head}, 0, t, &other);
                answer_same(&base, &other, names[i]);
            }
        }
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers)};
    return cmocka_run_group_tests_name("promise/forms", tests, NULL, NULL);
}
