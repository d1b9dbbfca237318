/* The hub's parts that need no network: names, digests, listings, what is chosen, the cache folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "hub/cache.h"
#include "hub/digest.h"
#include "hub/hub.h"
#include "support/scratch.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define GIT "a9993e364706816aba3e25717850c26c9cd0d89d"
#define LFS "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define DIGITS96 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

static void test_names(void **state) {
    (void)state;
    fore_hub_name n;
    assert_true(fore_hub_name_parse("Qwen/Qwen3.5-4B", &n));
    assert_string_equal(n.repo, "Qwen/Qwen3.5-4B");
    assert_string_equal(n.revision, "main");
    assert_true(fore_hub_name_parse("a/b@refs/pr/3", &n));
    assert_string_equal(n.repo, "a/b");
    assert_string_equal(n.revision, "refs/pr/3");
    assert_true(fore_hub_name_revise(&n, "v1.0") && strcmp(n.revision, "v1.0") == 0);
    assert_false(fore_hub_name_revise(&n, "../x"));
    assert_true(fore_hub_name_parse(DIGITS96 "/" DIGITS96, &n));
    static const char *const wrong[] = {"", "a", "a/", "/a", "a/b/c", "./a", "../a", "a/..", "a/.", "/", "-a/b", "a/b-", "a/.b", "a/b.", "a b/c", "a/b\n", "~/a",
                                        "a/b--c", "a/b..c", "a/b.git", "a/b@", "a/b@/x", "a/b@x/", "a/b@x//y", "a/b@..", "a/b@x\ty", "a@b/c", "\xc3\xa9/a",
                                        (DIGITS96 "a/b"), ("a/b" DIGITS96)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (fore_hub_name_parse(wrong[i], &n)) fail_msg("taken for a name: %s", wrong[i]);
}

static void test_paths(void **state) {
    (void)state;
    char part[260], path[1100];
    static const char *const right[] = {"a", "a/b", ".a", "..a", "a..", "...", "a b/c\xc3\xa9", ".git/x", "a/.b/c"};
    static const char *const wrong[] = {"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..", "../a", "a/../b", "a\nb", "a\\b", "\x7f", "a\x1b", "a\xc2\x9b"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        if (!fore_hub_path_is_safe(right[i])) fail_msg("refused: %s", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (fore_hub_path_is_safe(wrong[i])) fail_msg("taken: %s", wrong[i]);
    memset(part, 'a', sizeof part);
    part[255] = 0;
    assert_true(fore_hub_path_is_safe(part));
    part[255] = 'a';
    part[256] = 0;
    assert_false(fore_hub_path_is_safe(part));
    for (size_t i = 0; i < sizeof path; i++) path[i] = i % 2 ? '/' : 'a';
    path[1023] = 0;
    assert_true(fore_hub_path_is_safe(path));
    path[1023] = '/';
    path[1025] = 0;
    assert_false(fore_hub_path_is_safe(path));
    assert_true(fore_hub_is_commit(COMMIT) && fore_hub_is_digest(COMMIT) && fore_hub_is_digest(LFS));
    assert_false(fore_hub_is_commit(LFS) || fore_hub_is_commit("") || fore_hub_is_digest(COMMIT "0"));
    assert_false(fore_hub_is_commit("0123456789ABCDEF0123456789abcdef01234567"));
    fore_buf out = {0};
    assert_int_equal(fore_hub_escape(&out, "a b/%#?+\xc3\xa9~", true), FORE_OK);
    assert_string_equal(out.data, "a%20b/%25%23%3F%2B%C3%A9~");
    out.size = 0;
    assert_int_equal(fore_hub_escape(&out, "refs/pr/3", false), FORE_OK);
    assert_string_equal(out.data, "refs%2Fpr%2F3");
    fore_buf_free(&out);
}

static void expect_digest(bool git, const void *data, size_t size, size_t step, const char *expected) {
    fore_hub_digest d;
    char found[FORE_HUB_DIGEST];
    fore_hub_digest_init(&d, git, size);
    for (size_t at = 0; at < size; at += step) fore_hub_digest_update(&d, (const char *)data + at, step < size - at ? step : size - at);
    fore_hub_digest_final(&d, found);
    assert_string_equal(found, expected);
}

/* Vectors of FIPS 180 and of `git hash-object`. */
static void test_digests(void **state) {
    (void)state;
    static const char *const plain[] = {"", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d",
                                        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"};
    for (int i = 0; i < 6; i += 2) {
        fore_sha1 h;
        uint8_t digest[20];
        char text[41];
        fore_sha1_init(&h);
        fore_sha1_update(&h, plain[i], strlen(plain[i]));
        fore_sha1_final(&h, digest);
        for (int k = 0; k < 20; k++) snprintf(text + 2 * k, 3, "%02x", digest[k]);
        assert_string_equal(text, plain[i + 1]);
    }
    expect_digest(true, "", 0, 1, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    expect_digest(true, "hello\n", 6, 1, "ce013625030ba8dba906f756967f9e9ca394464a");
    expect_digest(false, "abc", 3, 2, LFS);
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    expect_digest(false, million, 1000000, 4096, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    static const size_t steps[] = {1, 7, 63, 64, 65, 1000, 1000000};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        fore_sha1 h;
        uint8_t digest[20];
        static const uint8_t expected[20] = {0x34, 0xaa, 0x97, 0x3c, 0xd4, 0xc4, 0xda, 0xa4, 0xf6, 0x1e,
                                             0xeb, 0x2b, 0xdb, 0xad, 0x27, 0x31, 0x65, 0x34, 0x01, 0x6f};
        fore_sha1_init(&h);
        for (size_t at = 0; at < 1000000; at += steps[i]) fore_sha1_update(&h, million + at, steps[i] < 1000000 - at ? steps[i] : 1000000 - at);
        fore_sha1_final(&h, digest);
        assert_memory_equal(digest, expected, 20);
    }
    free(million);
}

#define FILE_ENTRY(path, oid, size) "{\"type\":\"file\",\"path\":\"" path "\",\"oid\":\"" oid "\",\"size\":" size "}"
#define LFS_ENTRY(path, oid, size) \
    "{\"type\":\"file\",\"path\":\"" path "\",\"oid\":\"" GIT "\",\"size\":134,\"lfs\":{\"oid\":\"" oid "\",\"size\":" size ",\"pointerSize\":134}}"

static fore_status add(fore_hub_listing *l, const char *json, fore_error *err) { return fore_hub_listing_add(l, json, strlen(json), "page", err); }

static void test_listing(void **state) {
    (void)state;
    fore_hub_listing l = {0};
    fore_error err = {0};
    const char *commit = "{\"sha\":\"" COMMIT "\"}";
    assert_int_equal(fore_hub_listing_read_commit(&l, commit, strlen(commit), "x", &err), FORE_OK);
    assert_string_equal(l.commit, COMMIT);
    assert_int_equal(add(&l, "[" FILE_ENTRY("config.json", GIT, "3") ",{\"type\":\"directory\",\"path\":\"..\"}," LFS_ENTRY("a/b.safetensors", LFS, "9007199254740992")
                             "]", &err), FORE_OK);
    assert_int_equal(add(&l, "[]", &err), FORE_OK);
    assert_int_equal(add(&l, "[" FILE_ENTRY("z", GIT, "0") "]", &err), FORE_OK);
    assert_int_equal(l.count, 3);
    assert_string_equal(l.files[0].path, "config.json");
    assert_string_equal(l.files[0].digest, GIT);
    assert_string_equal(l.files[1].digest, LFS);
    assert_true(l.files[0].size == 3 && l.files[1].size == (uint64_t)1 << 53 && l.files[2].size == 0);
    static const char *const wrong[] = {"", "{}", "[1]", "[" FILE_ENTRY("../x", GIT, "3") "]", "[" FILE_ENTRY("x", LFS, "3") "]", "[" FILE_ENTRY("x", GIT, "-3") "]",
                                        "[" FILE_ENTRY("x", GIT, "9007199254740994") "]", "[" LFS_ENTRY("x", GIT, "3") "]", "[" LFS_ENTRY("x", LFS, "0.5") "]",
                                        "[{\"type\":\"file\"}]", "[{\"type\":\"file\",\"path\":\"x\",\"oid\":\"" GIT "\"}]", "[" FILE_ENTRY("a\\u0000b", GIT, "3") "]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err = (fore_error){0};
        if (add(&l, wrong[i], &err) != FORE_ERR_FORMAT || err.code != FORE_ERR_FORMAT || !strstr(err.text, "page"))
            fail_msg("%s: %d %s", wrong[i], err.code, err.text);
    }
    assert_int_equal(l.count, 3);
    static const char *const commits[] = {"", "[]", "{}", "{\"sha\":7}", "{\"sha\":\"main\"}", "{\"sha\":\"../../../../../../../../../../../../../..\"}"};
    for (size_t i = 0; i < sizeof commits / sizeof *commits; i++)
        assert_int_equal(fore_hub_listing_read_commit(&l, commits[i], strlen(commits[i]), "x", &err), FORE_ERR_FORMAT);
    fore_hub_listing_free(&l);
}

static void expect_choice(const char *path, fore_hub_patterns include, fore_hub_patterns exclude, bool wanted) {
    char copy[64];
    strcpy(copy, path);
    fore_hub_file file = {.path = copy};
    fore_hub_listing l = {.files = &file, .count = 1};
    if (fore_hub_choose(&l, include, exclude) != (size_t)wanted || file.wanted != wanted) fail_msg("%s", path);
}

static void test_choice(void **state) {
    (void)state;
    static const char *const needed[] = {"config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json", "merges.txt",
                                         "vocab.json", "chat_template.jinja", "preprocessor_config.json", "mtp.safetensors", "mtp/weights.safetensors"};
    static const char *const useless[] = {"README.md", "pytorch_model.bin", "pytorch_model.bin.index.json", "onnx/model.onnx", "x.gguf", "original/params.json",
                                          "consolidated.safetensors", "x.pth", "figures/a.png", "config.json.bak"};
    const fore_hub_patterns none = {0};
    for (size_t i = 0; i < 10; i++) {
        expect_choice(needed[i], none, none, true);
        expect_choice(useless[i], none, none, false);
    }
    static const char *const items[] = {"*.gguf", "onnx/", "q[0-9].bin"};
    const fore_hub_patterns some = {items, 3};
    expect_choice("a/b/x.gguf", some, none, true);
    expect_choice("onnx/a/b", some, none, true);
    expect_choice("my/onnx/a", some, none, false);
    expect_choice("q4.bin", some, none, true);
    expect_choice("qq.bin", some, none, false);
    expect_choice("x.GGUF", some, none, false);
    expect_choice("a/b/x.gguf", some, some, false);
    expect_choice("config.json", none, (fore_hub_patterns){(const char *const[]){"conf*"}, 1}, false);
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

static void expect_link(const scratch *s, const char *name, const char *target) {
    char found[256] = "";
    ssize_t n = readlink(scratch_path(s, name), found, sizeof found - 1);
    assert_true(n > 0);
    assert_string_equal(found, target);
}

static void test_cache(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    fore_error err = {0};
    fore_hub_cache c;
    fore_hub_name name;
    char commit[FORE_HUB_DIGEST], *dir;
    assert_true(fore_hub_name_parse("o.w/n-m", &name));
    assert_int_equal(fore_hub_cache_open(scratch_path(&s, "deep/hub"), name.repo, &c, &err), FORE_OK);
    assert_int_equal(fore_hub_cache_ref(&c, "main", commit, &err), FORE_OK);
    assert_string_equal(commit, "");
    assert_int_equal(fore_hub_find(c.root, &name, &dir, &err), FORE_OK);
    assert_null(dir);
    assert_int_equal(scratch_count(&s), 0); /* looking makes nothing */
    assert_int_equal(fore_hub_cache_make(&c, &err), FORE_OK);
    scratch_write(&s, "deep/hub/models--o.w--n-m/blobs/" GIT, "abc", 3);
    scratch_write(&s, "deep/hub/models--o.w--n-m/blobs/" LFS, "abcd", 4);
    assert_int_equal(fore_hub_cache_link(&c, COMMIT, "config.json", GIT, 3, &err), FORE_OK);
    assert_int_equal(fore_hub_cache_link(&c, COMMIT, "a/b/c.json", GIT, 3, &err), FORE_OK);
    expect_link(&s, "deep/hub/models--o.w--n-m/snapshots/" COMMIT "/config.json", "../../blobs/" GIT);
    expect_link(&s, "deep/hub/models--o.w--n-m/snapshots/" COMMIT "/a/b/c.json", "../../../../blobs/" GIT);
    assert_true(fore_hub_file_has_size(scratch_path(&s, "deep/hub/models--o.w--n-m/snapshots/" COMMIT "/a/b/c.json"), 3));
    /* what is there stays, what has another size is replaced */
    assert_int_equal(fore_hub_cache_link(&c, COMMIT, "config.json", LFS, 3, &err), FORE_OK);
    expect_link(&s, "deep/hub/models--o.w--n-m/snapshots/" COMMIT "/config.json", "../../blobs/" GIT);
    assert_int_equal(fore_hub_cache_link(&c, COMMIT, "config.json", LFS, 4, &err), FORE_OK);
    expect_link(&s, "deep/hub/models--o.w--n-m/snapshots/" COMMIT "/config.json", "../../blobs/" LFS);
    /* a file where a folder should be */
    assert_int_equal(fore_hub_cache_link(&c, COMMIT, "config.json/x", GIT, 3, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "config.json"));

    assert_int_equal(fore_hub_cache_set_ref(&c, "refs/pr/1", COMMIT, &err), FORE_OK);
    assert_int_equal(fore_hub_cache_set_ref(&c, "main", COMMIT, &err), FORE_OK);
    assert_int_equal(fore_hub_cache_set_ref(&c, COMMIT, COMMIT, &err), FORE_OK);
    assert_false(fore_file_exists(scratch_path(&s, "deep/hub/models--o.w--n-m/refs/" COMMIT)));
    assert_int_equal(fore_hub_cache_ref(&c, "refs/pr/1", commit, &err), FORE_OK);
    assert_string_equal(commit, COMMIT);
    size_t size;
    char *text;
    assert_int_equal(fore_file_read(scratch_path(&s, "deep/hub/models--o.w--n-m/refs/main"), 100, &text, &size, &err), FORE_OK);
    assert_string_equal(text, COMMIT); /* without a newline, as others read it */
    free(text);
    assert_int_equal(fore_hub_find(c.root, &name, &dir, &err), FORE_OK);
    assert_string_equal(dir, scratch_path(&s, "deep/hub/models--o.w--n-m/snapshots/" COMMIT));
    free(dir);
    /* a revision whose snapshot is gone; one that is no commit */
    assert_int_equal(fore_hub_cache_set_ref(&c, "main", "ffffffffffffffffffffffffffffffffffffffff", &err), FORE_OK);
    assert_int_equal(fore_hub_find(c.root, &name, &dir, &err), FORE_OK);
    assert_null(dir);
    scratch_write(&s, "deep/hub/models--o.w--n-m/refs/main", "../../..", 8);
    assert_int_equal(fore_hub_find(c.root, &name, &dir, &err), FORE_ERR_FORMAT);
    assert_null(dir);

    int first, second;
    bool held;
    assert_int_equal(fore_hub_cache_lock(&c, GIT, &first, &held, &err), FORE_OK);
    assert_true(first >= 0 && !held);
    assert_int_equal(fore_hub_cache_lock(&c, GIT, &second, &held, &err), FORE_OK);
    assert_true(second < 0 && held);
    close(first);
    assert_int_equal(fore_hub_cache_lock(&c, GIT, &second, &held, &err), FORE_OK);
    assert_true(second >= 0 && !held);
    close(second);
    assert_true(fore_hub_cache_room(&c) > 0);
    fore_hub_cache_close(&c);
    scratch_remove(&s);
}

static void test_check(void **state) {
    (void)state;
    scratch s;
    fore_error err = {0};
    scratch_make(&s);
    const char *index = "{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"x.safetensors\",\"c\":\"y.safetensors\",\"d\":\"../z\",\"e\":1}}";
    assert_int_equal(fore_hub_check(s.dir, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "config.json"));
    scratch_write(&s, "m.gguf", "", 0);
    assert_int_equal(fore_hub_check(s.dir, &err), FORE_OK);
    scratch_write(&s, "config.json", "{}", 2);
    assert_int_equal(fore_hub_check(s.dir, &err), FORE_OK);
    scratch_write(&s, "model.safetensors.index.json", index, strlen(index));
    scratch_write(&s, "x.safetensors", "", 0);
    assert_int_equal(fore_hub_check(s.dir, &err), FORE_ERR_IO);
    assert_non_null(strstr(err.text, "y.safetensors"));
    scratch_write(&s, "y.safetensors", "", 0);
    assert_int_equal(fore_hub_check(s.dir, &err), FORE_OK);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),  cmocka_unit_test(test_paths), cmocka_unit_test(test_digests), cmocka_unit_test(test_listing),
        cmocka_unit_test(test_choice), cmocka_unit_test(test_cache), cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
