/* Memory runs out while a tower is grafted: no half file, and a second run finishes the job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <unistd.h>

#include "support/hosts.h"
#include "support/refuse_each.h"

static scratch whole, s;

static fore_status graft(void *user, fore_error *err) {
    (void)user;
    fore_graft_report r;
    return fore_graft(TINY, s.dir, NULL, &r, err);
}

static void link_host(void *user) {
    (void)user;
    host_link(whole.dir, &s);
}

static void check(void *user, long n, fore_status status) {
    fore_error err = {0};
    if (status && n % 3 == 0 && graft(user, &err)) fail_msg("going on after request %ld: %s", n, err.text);
    bool done = access(scratch_path(&s, "model.safetensors.index.json"), F_OK) == 0 && access(scratch_path(&s, "model-vision.safetensors"), F_OK) == 0;
    if (!status || n % 3 == 0) assert_true(done);
    scratch_remove(&s);
}

static void test_each_request(void **state) {
    (void)state;
    host_make(&whole, HOST_FLAT);
    refuse_each(&(refusals){.what = "grafting", .act = graft, .before = link_host, .after = check, .least = 1000, .spare = 40, .all = 250, .step = 41});
    scratch_remove(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
