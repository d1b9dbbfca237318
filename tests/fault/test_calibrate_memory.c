/* Memory runs out at the n-th request while a draft head is calibrated: "out of memory" each time (what may get by without does),
 * nothing left behind, and the calibration is the old one or the new one. Every n of the beginning, then one in 499. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "support/failing_malloc.h"
#include "support/hosts.h"
#include "support/tensors.h"

static const char wrong[] = "{\"mtp_contract\": {\"mtp_norm_encoding\": \"absolute\"}}", kept[] = "mtp_calibration.json";

static fore_status calibrate(const scratch *s, const fore_image *image, fore_error *err) {
    fore_calibrate_report *r = NULL;
    const fore_calibrate_options o = {.threads = 1, .depth = 1, .images = image, .image_count = 1};
    fore_status status = fore_calibrate(s->dir, &o, &r, err);
    assert_true((status == FORE_OK) == (r != NULL));
    if (r) assert_true(r->written);
    fore_calibrate_report_free(r);
    return status;
}

static void put_wrong(const scratch *s) {
    unlink(scratch_path(s, kept));
    scratch_write(s, kept, wrong, strlen(wrong));
}

static void test_each_request(void **state) {
    (void)state;
    scratch s;
    fore_error err = {0};
    size_t size;
    char *png = read_file("tests/samples/s00.png", &size);
    const fore_image image = {.data = png, .size = size};
    host_link(TINY, &s);
    put_wrong(&s);
    if (calibrate(&s, &image, &err)) fail_msg("%s", err.text);
#if FAILING_MALLOC
    int survived = 0;
    for (long n = 0;; n += n < 60 ? 1 : 499) {
        err = (fore_error){0};
        put_wrong(&s);
        long before = malloc_live;
        malloc_refused = false;
        malloc_left = n;
        malloc_armed = true;
        fore_status status = calibrate(&s, &image, &err);
        malloc_armed = false;
        if (malloc_live != before) fail_msg("%ld blocks left after request %ld failed", malloc_live - before, n);
        if (!malloc_refused) {
            if (status) fail_msg("%s", err.text);
            assert_true(n > 1000);
            break;
        }
        survived += status == FORE_OK;
        if (status && (status != FORE_ERR_NOMEM || err.code != status || !strstr(err.text, "out of memory")))
            fail_msg("request %ld: %d %s", n, status, err.text);
        char *text = read_file(scratch_path(&s, kept), &size);
        if (status) assert_string_equal(text, wrong);
        else assert_non_null(strstr(text, "delta"));
        free(text);
    }
    assert_true(survived < 45);
#endif
    free(png);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
