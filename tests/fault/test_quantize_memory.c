/* Memory runs out while a checkpoint is quantised: no half file, and the folder can be gone on with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/hosts.h"
#include "support/refuse_each.h"

#define SOURCE FORE_DATA "/models/dense_sharded_bf16"

static scratch s;

static fore_status quantize(void *user, fore_error *err) {
    (void)user;
    const fore_quantize_options o = {.bits = 4, .group = 32, .threads = 1, .shard_bytes = 60000};
    fore_quantize_report *r = NULL;
    fore_status status = fore_quantize(SOURCE, s.dir, &o, &r, err);
    assert_true((status == FORE_OK) == (r != NULL));
    fore_quantize_report_free(r);
    return status;
}

static void make_folder(void *user) {
    (void)user;
    host_folder(&s);
}

static void check(void *user, long n, fore_status status) {
    fore_error err = {0};
    if (status && n % 3 == 0 && quantize(user, &err)) fail_msg("going on after request %ld: %s", n, err.text);
    scratch_remove(&s);
}

static void test_each_request(void **state) {
    (void)state;
    refuse_each(&(refusals){.what = "quantising", .act = quantize, .before = make_folder, .after = check, .least = 1000, .spare = 40, .all = 400, .step = 13});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
