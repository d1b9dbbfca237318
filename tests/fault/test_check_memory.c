/* Memory runs out while a checkpoint is checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/refuse_each.h"

#define DIR FORE_DATA "/models/dense_sharded_bf16"

static fore_status check(void *user, fore_error *err) {
    (void)user;
    fore_check_report *r = NULL;
    fore_status s = fore_check(DIR, &(fore_check_options){.threads = 1}, &r, err);
    assert_true((s == FORE_OK) == (r != NULL));
    if (r) assert_int_equal(r->problems, 1); /* no tokenizer */
    fore_check_report_free(r);
    return s;
}

static void test_each_request(void **state) {
    (void)state;
    refuse_each(&(refusals){.what = "checking", .act = check, .least = 1000, .spare = 40, .all = 150, .step = 67});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
