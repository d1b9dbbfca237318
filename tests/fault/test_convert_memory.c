/* Memory runs out at the n-th request while checkpoints of several forms are converted: "out of memory" each time (qsort may get by
 * without), nothing left behind in memory, no half file, and the folder can be gone on with. Every n of the beginning, then some. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "foresight.h"
#include "support/failing_malloc.h"
#include "support/scratch.h"

static const struct {
    const char *source;
    fore_convert_options how;
} works[] = {
    {FORE_DATA "/forms/awq", {.quantize = {.threads = 1}}},
    {FORE_DATA "/forms/gptq_order", {.quantize = {.threads = 1, .shard_bytes = 60000}}},
    {FORE_DATA "/forms/fp8_head", {.exact = true, .quantize = {.threads = 1}}},
    {FORE_DATA "/quantised/model", {.quantize = {.threads = 1, .bits = 4}}},
    {FORE_DATA "/gguf/blocks", {.quantize = {.threads = 1}}},
};

static void make_folder(scratch *s) { /* in memory where that is possible: every file is synced */
    strcpy(s->dir, "/dev/shm/foresight-test-XXXXXX");
    if (!mkdtemp(s->dir)) scratch_make(s);
}

static fore_status convert(size_t work, const scratch *s, fore_error *err) {
    fore_quantize_report *r = NULL;
    fore_status status = fore_convert(works[work].source, s->dir, &works[work].how, &r, err);
    assert_true((status == FORE_OK) == (r != NULL));
    fore_quantize_report_free(r);
    return status;
}

static void test_each_request(void **state) {
    (void)state;
    for (size_t w = 0; w < sizeof works / sizeof *works; w++) {
        scratch s;
        fore_error err = {0};
#if FAILING_MALLOC
        int survived = 0;
        for (long n = 0;; n += n < 150 ? 1 : 29) {
            make_folder(&s);
            err = (fore_error){0};
            long before = malloc_live;
            malloc_refused = false;
            malloc_left = n;
            malloc_armed = true;
            fore_status status = convert(w, &s, &err);
            malloc_armed = false;
            if (malloc_live != before) fail_msg("%ld blocks left after request %ld failed", malloc_live - before, n);
            if (!malloc_refused) {
                if (status) fail_msg("%s", err.text);
                assert_true(n > 500 && survived < 40);
                scratch_remove(&s);
                break;
            }
            survived += status == FORE_OK;
            if (status && (status != FORE_ERR_NOMEM || err.code != status || !strstr(err.text, "out of memory")))
                fail_msg("%s: request %ld: %d %s", works[w].source, n, status, err.text);
            if (status && n % 5 == 0 && convert(w, &s, &err)) fail_msg("going on after request %ld: %s", n, err.text);
            scratch_remove(&s);
        }
#else
        /* The sanitizer looks for leaks and bad accesses of an undisturbed run. */
        make_folder(&s);
        if (convert(w, &s, &err)) fail_msg("%s", err.text);
        scratch_remove(&s);
#endif
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
