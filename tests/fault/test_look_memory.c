/* Memory runs out at the n-th request, for every n, while a checkpoint that is not whole is looked at, and while its check runs: "out of
 * memory" each time (qsort and the C library's files may get by without), nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "foresight.h"
#include "support/failing_malloc.h"
#include "support/scratch.h"

#define SHARDED FORE_DATA "/models/dense_sharded_bf16/"
#define PARTS FORE_DATA "/gguf/parts/"

static char folder[128];
static int problems; /* of the last look */

static fore_status look(fore_error *err) {
    const fore_model_options o = {.isa = "ref", .look = true};
    fore_model *model;
    fore_problem problem;
    fore_model_part part;
    fore_plan plan;
    fore_status s = fore_model_open(folder, &o, &model, err);
    if (s) return s;
    problems = 0;
    while (fore_model_get_problem(model, problems, &problem)) problems++;
    for (int i = 0; fore_model_get_part(model, i, &part); i++) assert_true(part.tensors || part.parameters);
    fore_model_plan(model, 256, &plan);
    fore_model_close(model);
    return FORE_OK;
}

static fore_status check(fore_error *err) {
    fore_check_report *report;
    const fore_check_options o = {.isa = "ref", .threads = 1, .no_answer = true};
    fore_status s = fore_check(folder, &o, &report, err);
    if (s) return s;
    problems = (int)report->problems;
    fore_check_report_free(report);
    return FORE_OK;
}

#if FAILING_MALLOC
static void refuse_each(const char *what, fore_status (*act)(fore_error *), int want, int spare) {
    int survived = 0;
    fore_error first = {0};
    if (act(&first)) fail_msg("%s: %s", what, first.text); /* what libraries keep from then on is no loss */
    for (long n = 0;; n++) {
        fore_error err = {0};
        long before = malloc_live;
        malloc_refused = false;
        malloc_left = n;
        malloc_armed = true;
        fore_status s = act(&err);
        malloc_armed = false;
        if (malloc_live != before) fail_msg("%s: %ld blocks left after request %ld failed", what, malloc_live - before, n);
        if (!malloc_refused) {
            if (s) fail_msg("%s: %s", what, err.text);
            assert_int_equal(problems, want);
            assert_true(n > 50);
            if (survived > spare) fail_msg("%s: %d requests went without", what, survived);
            return;
        }
        survived += s == FORE_OK;
        if (s && (s != FORE_ERR_NOMEM || err.code != s || !strstr(err.text, "out of memory")))
            fail_msg("%s: request %ld: %d %s", what, n, s, err.text);
    }
}
#else
/* The sanitizer looks for leaks and bad accesses of an undisturbed run. */
static void refuse_each(const char *what, fore_status (*act)(fore_error *), int want, int spare) {
    fore_error err = {0};
    (void)spare;
    if (act(&err)) fail_msg("%s: %s", what, err.text);
    assert_int_equal(problems, want);
}
#endif

static void test_shards(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    scratch_copy(&s, SHARDED "config.json", "config.json");
    scratch_copy(&s, SHARDED "mtp.safetensors", "mtp.safetensors");
    scratch_copy(&s, SHARDED "model.safetensors-00001-of-00003.safetensors", "model-00001-of-00003.safetensors");
    scratch_copy(&s, SHARDED "model.safetensors-00003-of-00003.safetensors", "model-00003-of-00003.safetensors");
    snprintf(folder, sizeof folder, "%s", s.dir);
    refuse_each("a shard is missing", look, 31, 12);
    refuse_each("a check of it", check, 8, 100); /* the file, that it does not open, five tensors by name, and how many there are */
    scratch_remove(&s);
}

static void test_parts(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    scratch_copy(&s, PARTS "model-00001-of-00003.gguf", "model-00001-of-00003.gguf");
    scratch_copy(&s, PARTS "model-00003-of-00003.gguf", "model-00003-of-00003.gguf");
    snprintf(folder, sizeof folder, "%s", s.dir);
    refuse_each("a part is missing", look, 21, 40);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shards), cmocka_unit_test(test_parts)};
    return cmocka_run_group_tests_name("fault/look_memory", tests, NULL, NULL);
}
