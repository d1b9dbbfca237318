/* forge graft: every rule, on hosts of each kind; and crashes and failures at every file operation, after which the model opens as
 * before or as after, and a second run finishes the job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/failing_files.h"
#include "support/hosts.h"

static const char index_name[] = "model.safetensors.index.json", tower_name[] = "model-vision.safetensors";

static host_answers before, after; /* of models/tiny without and with its tower */
static scratch hosts[HOST_KINDS];

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

static bool has(const scratch *s, const char *name) { return access(scratch_path(s, name), F_OK) == 0; }

static bool same_file(const char *a, const char *b) {
    fore_map x, y;
    fore_error err = {0};
    if (fore_map_open(a, &x, &err) || fore_map_open(b, &y, &err)) fail_msg("%s", err.text);
    bool same = x.size == y.size && (!x.size || !memcmp(x.data, y.data, x.size));
    fore_map_close(&x);
    fore_map_close(&y);
    return same;
}

static int partials(const scratch *s) {
    DIR *d = opendir(s->dir);
    int n = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) n += ends_with(e->d_name, ".partial");
    closedir(d);
    return n;
}

static void graft(const char *from, const scratch *into, const fore_graft_options *o, fore_graft_report *r) {
    fore_error err = {0};
    if (fore_graft(from, into->dir, o, r, &err)) fail_msg("%s", err.text);
}

static void refuse_dir(const char *from, const char *into, const char *says) {
    fore_error err = {0};
    fore_graft_report r;
    fore_status s = fore_graft(from, into, NULL, &r, &err);
    if (!s || s != err.code || !strstr(err.text, says)) fail_msg("%d \"%s\", expected \"%s\"", s, err.text, says);
}

/* Refused with this message, and nothing is touched. */
static void refuse(const char *from, const scratch *into, const char *says) {
    int n = scratch_count(into);
    struct stat a, b;
    assert_int_equal(stat(into->dir, &a), 0);
    refuse_dir(from, into->dir, says);
    assert_int_equal(stat(into->dir, &b), 0);
    assert_int_equal(scratch_count(into), n);
    assert_int_equal(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
}

static uint64_t digest_file(const char *path, uint64_t h) {
    fore_map map;
    fore_error err = {0};
    if (fore_map_open(path, &map, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < map.size; i += 8) {
        uint64_t word = 0;
        memcpy(&word, map.data + i, map.size - i < 8 ? map.size - i : 8);
        h = (h ^ word) * UINT64_C(0x100000001b3);
        h ^= h >> 29;
    }
    fore_map_close(&map);
    return h ^ map.size;
}

/* Of all names and bytes, whatever their order. What was given up half way (.partial) counts as one thing: such files differ from time
 * to time, and are never read. */
static uint64_t digest_folder(const scratch *s) {
    DIR *d = opendir(s->dir);
    uint64_t sum = partials(s) > 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || ends_with(e->d_name, ".partial")) continue;
        uint64_t h = UINT64_C(0xcbf29ce484222325);
        for (const char *p = e->d_name; *p; p++) h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
        sum += digest_file(scratch_path(s, e->d_name), h) * UINT64_C(0x9e3779b97f4a7c15);
    }
    closedir(d);
    return sum;
}

/* true: as after; false: as before; anything else fails. A folder that was asked before is not asked again: most operations are
 * writes of a file that has not got its name yet. */
static bool is_after(const scratch *s) {
    enum { MOST = 256 };
    static uint64_t known[MOST];
    static bool vision[MOST];
    static size_t count;
    uint64_t digest = digest_folder(s);
    for (size_t i = 0; i < count; i++)
        if (known[i] == digest) return vision[i];
    host_answers now;
    host_ask(s->dir, &now);
    assert_string_equal(now.text, before.text);
    assert_string_equal(now.picture, now.vision ? after.picture : "");
    if (count == MOST) return now.vision;
    known[count] = digest;
    vision[count++] = now.vision;
    return now.vision;
}

static void check_index(const scratch *s, host_kind kind) {
    size_t names = 0, vision = 0;
    fore_map map;
    assert_int_equal(fore_map_open(scratch_path(s, index_name), &map, NULL), FORE_OK);
    cJSON *tree = cJSON_ParseWithLength((const char *)map.data, map.size);
    fore_map_close(&map);
    const cJSON *metadata = cJSON_GetObjectItem(tree, "metadata"), *item;
    assert_int_equal((long)cJSON_GetObjectItem(metadata, "total_size")->valuedouble, 3201456 + 1871104);
    assert_int_equal((long)cJSON_GetObjectItem(metadata, "total_parameters")->valuedouble, 1600728 + 935552);
    assert_int_equal(cJSON_HasObjectItem(metadata, "made_by"), kind == HOST_INDEXED);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(tree, "weight_map")) {
        bool tower = !strncmp(item->string, "vision_tower.", 13);
        assert_int_equal(tower, !strcmp(item->valuestring, tower_name));
        vision += tower;
        names++;
    }
    cJSON_Delete(tree);
    assert_int_equal(vision, 45);
    assert_int_equal(names, 115);
}

/* Every tensor of the tower is there, byte for byte, and nothing else is. */
static void check_tensors(const scratch *s) {
    fore_tensor_file *a, *b;
    const fore_tensor *t;
    size_t n = 0;
    assert_int_equal(fore_tensors_open(TINY "/model.safetensors", &a, NULL), FORE_OK);
    assert_int_equal(fore_tensors_open(scratch_path(s, tower_name), &b, NULL), FORE_OK);
    for (; (t = fore_tensors_at(b, n)); n++) {
        char name[256];
        assert_int_equal(strncmp(t->name, "vision_tower.", 13), 0);
        snprintf(name, sizeof name, "model.visual.%s", t->name + 13);
        const fore_tensor *from = fore_tensors_get(a, name);
        assert_non_null(from);
        assert_string_equal(from->dtype, t->dtype);
        assert_int_equal(from->dims, t->dims);
        size_t bytes = 2;
        for (int d = 0; d < t->dims; d++) {
            assert_int_equal(from->shape[d], t->shape[d]);
            bytes *= (size_t)t->shape[d];
        }
        assert_memory_equal(from->data, t->data, bytes);
    }
    assert_int_equal(n, 45);
    fore_tensors_close(a);
    fore_tensors_close(b);
}

/* The same bytes under the same names are checked once. */
static void check_done(const scratch *s, host_kind kind) {
    static uint64_t known[HOST_KINDS];
    uint64_t digest = digest_folder(s);
    if (known[kind] == digest) return;
    known[kind] = digest;
    assert_true(is_after(s));
    check_index(s, kind);
    check_tensors(s);
    assert_int_equal(partials(s), 0);
    assert_true(same_file(scratch_path(s, "preprocessor_config.json"), TINY "/preprocessor_config.json"));
    assert_true(same_file(scratch_path(s, "video_preprocessor_config.json"), TINY "/video_preprocessor_config.json"));
    assert_false(has(s, "processor_config.json"));
    cJSON *donor = host_config(TINY), *now = host_config(s->dir);
    static const char *const names[] = {"vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(cJSON_Compare(cJSON_GetObjectItem(donor, names[i]), cJSON_GetObjectItem(now, names[i]), true));
    cJSON_Delete(donor);
    cJSON_Delete(now);
    /* Once more: nothing is touched. */
    struct stat a, b;
    fore_graft_report r;
    assert_int_equal(stat(s->dir, &a), 0);
    graft(TINY, s, NULL, &r);
    assert_true(r.already);
    assert_int_equal(r.file_count, 0);
    assert_int_equal(stat(s->dir, &b), 0);
    assert_int_equal(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
}

static void test_hosts_of_each_kind(void **state) {
    (void)state;
    for (host_kind k = 0; k < HOST_KINDS; k++) {
        scratch s;
        host_link(hosts[k].dir, &s);
        fore_graft_report r, dry;
        int files = scratch_count(&s);
        graft(TINY, &s, &(fore_graft_options){.dry_run = true}, &dry);
        assert_int_equal(scratch_count(&s), files);
        assert_false(is_after(&s));
        graft(TINY, &s, NULL, &r);
        assert_false(r.already);
        assert_int_equal(r.tensors, 45);
        assert_int_equal(r.bytes, 1871104);
        assert_int_equal(r.parameters, 935552);
        assert_memory_equal(&r, &dry, sizeof r);
        assert_int_equal(r.file_count, k == HOST_INDEXED ? 5 : 6);
        assert_string_equal(r.files[r.file_count - 1], index_name);
        check_done(&s, k);
        scratch_remove(&s);
    }
}

/* ---- interrupted ------------------------------------------------------------------------------------------------- */

static long count_operations(const scratch *from) {
    scratch s;
    host_link(from->dir, &s);
    files_mode = FILES_COUNT;
    files_seen = 0;
    graft(TINY, &s, NULL, NULL);
    long n = files_seen;
    scratch_remove(&s);
    return n;
}

/* In a process of its own that dies right after operation n; false when it came to its end. */
static bool run_killed(const char *dir, long n) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        files_mode = FILES_KILL;
        files_at = n;
        files_seen = 0;
        _exit(fore_graft(TINY, dir, NULL, NULL, NULL) ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) return true;
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

/* Writes of the tower's tensors are all alike: one in sixteen of them will do. */
static bool is_dull(long n, long all) { return n > 8 && n + 30 < all && n % 16; }

static void test_killed_after_each_operation(void **state) {
    (void)state;
    for (host_kind k = 0; k < HOST_KINDS; k++) {
        long all = count_operations(&hosts[k]), ends = 0;
        assert_true(all > 65);
        for (long n = 1; n <= all; n++) {
            if (is_dull(n, all)) continue;
            scratch s;
            host_link(hosts[k].dir, &s);
            assert_true(run_killed(s.dir, n));
            bool done = is_after(&s);
            /* The last two operations are the index's rename and its folder's sync. */
            assert_int_equal(done, n >= all - 1);
            ends += done;
            graft(TINY, &s, NULL, NULL);
            check_done(&s, k);
            scratch_remove(&s);
        }
        assert_int_equal(ends, 2);
    }
}

static void test_each_operation_fails(void **state) {
    (void)state;
    static const int causes[] = {ENOSPC, EACCES, EIO, EROFS};
    for (host_kind k = 0; k < HOST_KINDS; k += 3) { /* with and without a first index */
        long all = count_operations(&hosts[k]);
        int refused = 0;
        for (long n = 1; n <= all; n++) {
            if (is_dull(n, all)) continue;
            scratch s;
            host_link(hosts[k].dir, &s);
            fore_error err = {0};
            files_mode = n % 2 ? FILES_FAIL : FILES_FAIL_ON;
            files_errno = causes[n / 2 % 4];
            files_at = n;
            files_seen = 0;
            fore_status status = fore_graft(TINY, s.dir, NULL, NULL, &err);
            bool cleaned = files_mode == FILES_FAIL;
            files_mode = FILES_COUNT;
            refused += status != FORE_OK;
            if (status && (status != FORE_ERR_IO || !strstr(err.text, "cannot ") || !strstr(err.text, s.dir))) fail_msg("%ld: %s", n, err.text);
            if (cleaned) assert_int_equal(partials(&s), 0);
            assert_int_equal(is_after(&s), status == FORE_OK);
            graft(TINY, &s, NULL, NULL);
            check_done(&s, k);
            scratch_remove(&s);
        }
        assert_true(refused > 20);
    }
}

static int cancel(void *user, const char *stage, uint64_t done, uint64_t total) {
    assert_string_equal(stage, "graft");
    assert_true(done <= total && total == 1871104);
    return --*(int *)user < 0;
}

static void test_cancelled(void **state) {
    (void)state;
    for (int n = 0;; n += 9) {
        scratch s;
        int left = n;
        host_link(hosts[HOST_INDEXED].dir, &s);
        fore_error err = {0};
        fore_status status = fore_graft(TINY, s.dir, &(fore_graft_options){.progress = cancel, .user = &left}, NULL, &err);
        assert_int_equal(is_after(&s), status == FORE_OK);
        assert_int_equal(partials(&s), 0);
        if (status) assert_int_equal(status, FORE_ERR_CANCELLED);
        scratch_remove(&s);
        if (!status) {
            assert_true(n > 40);
            return;
        }
    }
}

/* ---- refused ----------------------------------------------------------------------------------------------------- */

static void edit_config(const scratch *s, const char *name, cJSON *value) {
    cJSON *c = host_config(s->dir);
    cJSON_DeleteItemFromObject(c, name);
    if (value) cJSON_AddItemToObject(c, name, value);
    unlink(scratch_path(s, "config.json"));
    host_put_config(s, "config.json", c);
    cJSON_Delete(c);
}

static void test_donors_that_will_not_do(void **state) {
    (void)state;
    scratch host, donor;
    host_link(hosts[HOST_SINGLE].dir, &host);
    refuse(hosts[HOST_ODD].dir, &host, "it has no vision tower (looked for");
    refuse("models/none", &host, "models/none: cannot open");
    refuse(TINY "/config.json", &host, "not a folder");
    refuse("tests/samples", &host, "config.json");
    refuse(host.dir, &host, "the same folder");
    refuse_dir(TINY, "models/none", "models/none: cannot open");
    refuse_dir(TINY, "tests/samples", "config.json");

    host_link(TINY, &donor);
    edit_config(&donor, "vision_config", NULL);
    refuse(donor.dir, &host, "no vision_config");
    scratch_remove(&donor);

    host_link(TINY, &donor);
    unlink(scratch_path(&donor, "preprocessor_config.json"));
    refuse(donor.dir, &host, "neither preprocessor_config.json nor an image_processor");
    scratch_write(&donor, "processor_config.json", "{}", 2);
    refuse(donor.dir, &host, "neither preprocessor_config.json nor an image_processor");
    scratch_write(&donor, "preprocessor_config.json", "{\"patch_size\": 14}", 18);
    refuse(donor.dir, &host, "patch, temporal and merge sizes are 14, 2, 2");
    scratch_remove(&donor);
    scratch_remove(&host);
}

static bool not_a_norm(const char *name) { return strcmp(name, "model.visual.merger.norm.weight") != 0; }

static void test_a_tower_with_a_hole(void **state) {
    (void)state;
    scratch host, donor;
    host_link(hosts[HOST_SINGLE].dir, &host);
    host_link(TINY, &donor);
    unlink(scratch_path(&donor, "model.safetensors"));
    host_tensors(&donor, "model.safetensors", not_a_norm, NULL);
    refuse(donor.dir, &host, "its tower is not whole: weights: model.visual.merger.norm.weight: missing");
    scratch_remove(&donor);
    scratch_remove(&host);
}

static bool is_bias(const char *name) { return !strcmp(name, "model.visual.merger.norm.bias") || strncmp(name, "model.visual.", 13) != 0; }
static const char *mlx_bias(const char *name) { return strcmp(name, "model.visual.merger.norm.bias") ? NULL : "vision_tower.merger.norm.bias"; }

static void test_collisions(void **state) {
    (void)state;
    scratch s;
    host_link(hosts[HOST_SINGLE].dir, &s);
    unlink(scratch_path(&s, "model.safetensors"));
    host_tensors(&s, "model.safetensors", is_bias, mlx_bias);
    refuse(TINY, &s, "it has 1 vision tensors already (vision_tower.merger.norm.bias), but no whole tower");
    scratch_remove(&s);

    host_link(hosts[HOST_SINGLE].dir, &s);
    scratch_copy(&s, TINY "/model.safetensors", tower_name);
    refuse(TINY, &s, "there, and not the tower of");
    unlink(scratch_path(&s, tower_name));
    scratch_write(&s, tower_name, "rubbish", 7);
    refuse(TINY, &s, "there, and not the tower of");
    unlink(scratch_path(&s, tower_name));
    scratch_write(&s, "processor_config.json", "{\"image_processor\": {\"patch_size\": 14}}", 39);
    refuse(TINY, &s, "would win over the settings of");
    scratch_remove(&s);

    /* A whole tower under another name, but no word of it in config.json. */
    host_link(TINY, &s);
    edit_config(&s, "vision_config", NULL);
    refuse(TINY, &s, "config.json has no vision_config");
    scratch_remove(&s);
}

static void set_text(const scratch *s, const char *name, double value) {
    cJSON *c = host_config(s->dir), *text = cJSON_GetObjectItem(c, "text_config");
    cJSON_ReplaceItemInObject(text, name, cJSON_CreateNumber(value));
    unlink(scratch_path(s, "config.json"));
    host_put_config(s, "config.json", c);
    cJSON_Delete(c);
}

static void test_sizes_that_do_not_fit(void **state) {
    (void)state;
    scratch s;
    host_link(hosts[HOST_SINGLE].dir, &s);
    set_text(&s, "hidden_size", 256);
    refuse(TINY, &s, "gives rows of 128 (out_hidden_size), and");
    set_text(&s, "hidden_size", 128);
    set_text(&s, "vocab_size", 1250);
    refuse(TINY, &s, "its vocabulary of 1250 has no token 1252");
    set_text(&s, "vocab_size", 1280);
    edit_config(&s, "image_token_id", cJSON_CreateNumber(7));
    refuse(TINY, &s, "the two have different vocabularies");
    scratch_remove(&s);
    refuse_dir(TINY, FORE_DATA "/family/qwen3_tied_f32", "takes no pictures");
    refuse_dir(FORE_DATA "/family/vl_dense_bf16", FORE_DATA "/family/qwen3_5_text_bf16", "is for models of type qwen3_vl");
}

/* What an earlier vision_config said, and settings that lay there, had no effect without a tower: the tower's own come in. */
static void test_leftovers_are_replaced(void **state) {
    (void)state;
    scratch s;
    fore_graft_report r;
    host_link(hosts[HOST_INDEXED].dir, &s);
    cJSON *donor = host_config(TINY), *vision = cJSON_DetachItemFromObject(donor, "vision_config");
    cJSON_ReplaceItemInObject(vision, "depth", cJSON_CreateNumber(9));
    edit_config(&s, "vision_config", vision);
    cJSON_Delete(donor);
    scratch_write(&s, "preprocessor_config.json", "{\"patch_size\": 14}", 18);
    graft(TINY, &s, NULL, &r);
    assert_int_equal(r.file_count, 5);
    check_done(&s, HOST_INDEXED);
    scratch_remove(&s);
}

/* A symbolic link is replaced, and what it points to stays as it is: caches of downloads are made of such links. */
static void test_links_of_a_cache(void **state) {
    (void)state;
    scratch s, blobs;
    host_link(hosts[HOST_INDEXED].dir, &blobs);
    host_folder(&s);
    DIR *d = opendir(blobs.dir);
    for (const struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') assert_int_equal(symlink(scratch_path(&blobs, e->d_name), scratch_path(&s, e->d_name)), 0);
    closedir(d);
    graft(TINY, &s, NULL, NULL);
    check_done(&s, HOST_INDEXED);
    assert_false(is_after(&blobs));
    assert_true(same_file(scratch_path(&blobs, "config.json"), scratch_path(&hosts[HOST_INDEXED], "config.json")));
    scratch_remove(&s);
    scratch_remove(&blobs);
}

static int make_hosts(void **state) {
    (void)state;
    for (host_kind k = 0; k < HOST_KINDS; k++) host_make(&hosts[k], k);
    host_ask(hosts[0].dir, &before);
    host_ask(TINY, &after);
    return !(!before.vision && after.vision && before.text[0] && after.picture[0] && !strcmp(before.text, after.text));
}

static int remove_hosts(void **state) {
    (void)state;
    for (host_kind k = 0; k < HOST_KINDS; k++) scratch_remove(&hosts[k]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts_of_each_kind),        cmocka_unit_test(test_killed_after_each_operation),
        cmocka_unit_test(test_each_operation_fails),      cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_donors_that_will_not_do),   cmocka_unit_test(test_a_tower_with_a_hole),
        cmocka_unit_test(test_collisions),                cmocka_unit_test(test_sizes_that_do_not_fit),
        cmocka_unit_test(test_leftovers_are_replaced),    cmocka_unit_test(test_links_of_a_cache),
    };
    return cmocka_run_group_tests(tests, make_hosts, remove_hosts);
}
