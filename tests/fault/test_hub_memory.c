/* Memory runs out at the n-th request while a listing is read and the cache is written and looked into: "out of memory" each time,
 * nothing left behind. (The network is libcurl's, which is not tried.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hub/cache.h"
#include "hub/hub.h"
#include "support/refuse_each.h"
#include "support/scratch.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define ENTRY(n) "{\"type\":\"file\",\"path\":\"a/" n ".json\",\"oid\":\"" COMMIT "\",\"size\":3}"

static fore_status list(fore_hub_listing *l, fore_error *err) {
    static const char page[] = "[" ENTRY("1") "," ENTRY("2") "," ENTRY("3") "]", commit[] = "{\"sha\":\"" COMMIT "\"}";
    fore_status s = fore_hub_listing_read_commit(l, commit, sizeof commit - 1, "a commit", err);
    for (int i = 0; i < 12 && !s; i++) s = fore_hub_listing_add(l, page, sizeof page - 1, "a page", err);
    return s;
}

static scratch folder;

static fore_status work(void *user, fore_error *err) {
    (void)user;
    const char *root = folder.dir;
    fore_hub_listing l = {0};
    fore_hub_cache c = {0};
    fore_hub_name name;
    char *dir = NULL, *blob = NULL;
    bool held;
    int lock = -1;
    assert_true(fore_hub_name_parse("own/er", &name));
    fore_status s = list(&l, err);
    if (!s) s = fore_hub_cache_open(root, name.repo, &c, err);
    if (!s) s = fore_hub_cache_make(&c, err);
    if (!s) s = fore_hub_cache_lock(&c, COMMIT, &lock, &held, err);
    if (!s) s = fore_hub_cache_blob(&c, COMMIT, ".incomplete", &blob, err);
    if (!s) s = fore_hub_cache_link(&c, l.commit, l.files[1].path, l.files[1].digest, 3, err);
    if (!s) s = fore_hub_cache_set_ref(&c, "refs/pr/1", l.commit, err);
    if (!s) s = fore_hub_cache_set_ref(&c, "main", l.commit, err);
    if (!s) s = fore_hub_find(root, &name, &dir, err);
    if (!s) assert_non_null(dir);
    if (!s) s = fore_hub_check(dir, err) == FORE_ERR_NOMEM ? FORE_ERR_NOMEM : FORE_OK; /* it has no config.json */
    if (lock >= 0) close(lock);
    free(dir);
    free(blob);
    fore_hub_cache_close(&c);
    fore_hub_listing_free(&l);
    return s;
}

static void make_folder(void *user) {
    (void)user;
    scratch_make(&folder);
}
static void remove_folder(void *user, long n, fore_status status) {
    (void)user, (void)n, (void)status;
    scratch_remove(&folder);
}

static void test_each_request(void **state) {
    (void)state;
    /* A folder that cannot be read for want of memory is one without GGUF files. */
    refuse_each(&(refusals){.what = "a cache", .act = work, .before = make_folder, .after = remove_folder, .least = 50, .spare = 20});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
