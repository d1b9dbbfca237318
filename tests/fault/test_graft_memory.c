/* Memory runs out at the n-th request while a tower is grafted: "out of memory" each time (qsort may get by without), nothing left
 * behind in memory, no half file, and a second run finishes the job. Every n of the beginning, then one in 41. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/failing_malloc.h"
#include "support/hosts.h"

static fore_status graft(const scratch *s, fore_error *err) {
    fore_graft_report r;
    fore_status status = fore_graft(TINY, s->dir, NULL, &r, err);
    bool done = access(scratch_path(s, "model.safetensors.index.json"), F_OK) == 0 && access(scratch_path(s, "model-vision.safetensors"), F_OK) == 0;
    if (!status) assert_true(done);
    return status;
}

static void test_each_request(void **state) {
    (void)state;
    scratch whole, s;
    fore_error err = {0};
    host_make(&whole, HOST_FLAT);
#if FAILING_MALLOC
    int survived = 0;
    for (long n = 0;; n += n < 250 ? 1 : 41) {
        host_link(whole.dir, &s);
        err = (fore_error){0};
        long before = malloc_live;
        malloc_refused = false;
        malloc_left = n;
        malloc_armed = true;
        fore_status status = graft(&s, &err);
        malloc_armed = false;
        if (malloc_live != before) fail_msg("%ld blocks left after request %ld failed", malloc_live - before, n);
        if (!malloc_refused) {
            if (status) fail_msg("%s", err.text);
            assert_true(n > 1000 && survived < 40);
            scratch_remove(&s);
            break;
        }
        survived += status == FORE_OK;
        if (status && (status != FORE_ERR_NOMEM || err.code != status || !strstr(err.text, "out of memory")))
            fail_msg("request %ld: %d %s", n, status, err.text);
        if (status && n % 3 == 0 && graft(&s, &err)) fail_msg("going on after request %ld: %s", n, err.text);
        scratch_remove(&s);
    }
#else
    /* The sanitizer looks for leaks and bad accesses of an undisturbed run. */
    host_link(whole.dir, &s);
    if (graft(&s, &err)) fail_msg("%s", err.text);
    scratch_remove(&s);
#endif
    scratch_remove(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
