/* Memory runs out at the n-th request while a checkpoint is checked: "out of memory" each time (what may get by without does),
 * nothing left behind. Every n of the beginning, then one in 67. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "foresight.h"
#include "support/failing_malloc.h"

#define DIR FORE_DATA "/models/dense_sharded_bf16"

static fore_status check(fore_error *err) {
    fore_check_report *r = NULL;
    fore_status s = fore_check(DIR, &(fore_check_options){.threads = 1}, &r, err);
    assert_true((s == FORE_OK) == (r != NULL));
    if (r) assert_int_equal(r->problems, 1); /* no tokenizer */
    fore_check_report_free(r);
    return s;
}

static void test_each_request(void **state) {
    (void)state;
    fore_error err = {0};
    if (check(&err)) fail_msg("%s", err.text);
#if FAILING_MALLOC
    int survived = 0;
    for (long n = 0;; n += n < 150 ? 1 : 67) {
        err = (fore_error){0};
        long before = malloc_live;
        malloc_refused = false;
        malloc_left = n;
        malloc_armed = true;
        fore_status status = check(&err);
        malloc_armed = false;
        if (malloc_live != before) fail_msg("%ld blocks left after request %ld failed", malloc_live - before, n);
        if (!malloc_refused) {
            if (status) fail_msg("%s", err.text);
            assert_true(n > 1000 && survived < 40);
            return;
        }
        survived += status == FORE_OK;
        if (status && (status != FORE_ERR_NOMEM || err.code != status || !strstr(err.text, "out of memory")))
            fail_msg("request %ld: %d %s", n, status, err.text);
    }
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
