/* Memory runs out while a model in GGUF files is opened, its settings, tokenizer and tensors are made and its network is bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "checkpoint/gguf_model.h"
#include "model/mtp.h"
#include "support/refuse_each.h"
#include "support/scratch.h"
#include "support/tensors.h"
#include "text/tokenizer.h"

static scratch dir;

static fore_status settings(void *user, fore_error *err) {
    (void)user;
    fore_gguf_model *m;
    cJSON *trees[3] = {NULL, NULL, NULL};
    char *text = NULL;
    size_t size;
    fore_status s = fore_gguf_model_open(dir.dir, NULL, &m, err);
    if (s) return s;
    s = fore_gguf_tokenizer_text(m, &text, &size, &trees[0], err);
    if (!s) s = fore_gguf_generation_tree(m, &trees[1], err);
    if (!s) s = fore_gguf_processor_tree(m, &trees[2], err);
    for (int i = 0; i < 3; i++) cJSON_Delete(trees[i]);
    free(text);
    fore_gguf_model_close(m);
    return s;
}

static fore_status network(void *user, fore_error *err) {
    (void)user;
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

static fore_status is_model(void *user, fore_error *err) {
    (void)user;
    bool is;
    fore_status s = fore_gguf_is_model(dir.dir, &is, err);
    if (!s) assert_true(is);
    return s;
}

static void test_each_request(void **state) {
    (void)state;
    size_t size, text;
    char *both = read_file("tests/fuzz/corpus/gguf/both", &size), *file = read_file("tests/fuzz/corpus/gguf/text", &text);
    scratch_make(&dir);
    scratch_write(&dir, "model.gguf", file, text);
    scratch_write(&dir, "mmproj.gguf", both + 4 + text, size - 4 - text);
    refuse_each(&(refusals){.what = "looking", .act = is_model, .least = 3, .spare = 1});
    refuse_each(&(refusals){.what = "settings", .act = settings, .least = 30, .spare = 10});
    refuse_each(&(refusals){.what = "the network", .act = network, .least = 30, .spare = 20});
    scratch_remove(&dir);
    free(both);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
