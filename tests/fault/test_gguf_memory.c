/* Memory runs out at the n-th request, for every n, while a model in GGUF files is opened, its settings, tokenizer and tensors are
 * made and its network is bound: "out of memory" each time (qsort and the C library's files may get by without), nothing left
 * behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "checkpoint/gguf_model.h"
#include "model/mtp.h"
#include "support/failing_malloc.h"
#include "support/scratch.h"
#include "support/tensors.h"
#include "text/tokenizer.h"

static scratch dir;

static fore_status settings(fore_error *err) {
    fore_gguf_model *m;
    cJSON *trees[4] = {NULL, NULL, NULL, NULL};
    fore_status s = fore_gguf_model_open(dir.dir, NULL, &m, err);
    if (s) return s;
    s = fore_gguf_tokenizer_trees(m, &trees[0], &trees[1], err);
    if (!s) s = fore_gguf_generation_tree(m, &trees[2], err);
    if (!s) s = fore_gguf_processor_tree(m, &trees[3], err);
    for (int i = 0; i < 4; i++) cJSON_Delete(trees[i]);
    fore_gguf_model_close(m);
    return s;
}

static fore_status network(fore_error *err) {
    fore_load load = {0};
    fore_network n;
    fore_mtp mtp;
    const fore_kern *kern;
    fore_status s = fore_kern_get("ref", &kern, err);
    if (!s) s = fore_gguf_model_open(dir.dir, NULL, &load.gguf, err);
    if (!s) s = fore_network_open(dir.dir, kern, &load, &n, err);
    if (!s) {
        s = fore_mtp_open(dir.dir, &n, NULL, &load, &mtp, err);
        if (!s) fore_mtp_close(&mtp);
        fore_network_close(&n);
    }
    fore_gguf_model_close(load.gguf);
    return s;
}

static fore_status is_model(fore_error *err) {
    bool is;
    fore_status s = fore_gguf_is_model(dir.dir, &is, err);
    if (!s) assert_true(is);
    return s;
}

#if FAILING_MALLOC
static void refuse_each(const char *what, fore_status (*act)(fore_error *), long least, int spare) {
    int survived = 0;
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
            assert_true(n > least);
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
static void refuse_each(const char *what, fore_status (*act)(fore_error *), long least, int spare) {
    fore_error err = {0};
    (void)least;
    (void)spare;
    if (act(&err)) fail_msg("%s: %s", what, err.text);
}
#endif

/* A seed of the fuzz target with a text model and a tower. */
static void unpack(const char *path) {
    size_t size;
    char *both = read_file(path, &size);
    const unsigned char *p = (const unsigned char *)both;
    size_t text = (size_t)p[1] | (size_t)p[2] << 8 | (size_t)p[3] << 16;
    scratch_make(&dir);
    scratch_write(&dir, "model.gguf", both + 4, text);
    scratch_write(&dir, "mmproj.gguf", both + 4 + text, size - 4 - text);
    free(both);
}

static void test_each_request(void **state) {
    (void)state;
    static const char *const seeds[] = {"tests/fuzz/corpus/gguf/both", "tests/fuzz/corpus/gguf/windows"};
    for (int i = 0; i < 2; i++) {
        unpack(seeds[i]);
        refuse_each("looking", is_model, 3, 1);
        refuse_each("settings", settings, 30, 10);
        refuse_each("the network", network, 30, 20);
        scratch_remove(&dir);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
