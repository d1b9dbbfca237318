/* forge calibrate: wrong contracts are repaired and right ones left alone, what the checkpoint states is held, too little says so;
 * what is refused; where the result is kept, for which head, and that it goes again; crashes and failures at every file operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forge/calibrate_answers.h"
#include "support/failing_files.h"
#include "support/hosts.h"
#include "support/tensors.h"

#define KEPT "mtp_calibration.json"

static const char wrong_order[] = "{\"mtp_contract\": {\"concat_order\": \"hidden_embedding\"}}";

static void put(const scratch *s, const char *name, const char *text) {
    unlink(scratch_path(s, name));
    scratch_write(s, name, text, strlen(text));
}

static bool has(const scratch *s, const char *name) { return access(scratch_path(s, name), F_OK) == 0; }

static fore_calibrate_report *calibrate(const char *dir, fore_calibrate_options o) {
    fore_calibrate_report *r;
    fore_error err = {0};
    o.threads = 1;
    if (fore_calibrate(dir, &o, &r, &err)) fail_msg("%s", err.text);
    return r;
}

static void refused(const char *dir, fore_calibrate_options o, fore_status status, const char *says) {
    fore_calibrate_report *r = (void *)dir;
    fore_error err = {0};
    fore_status s = fore_calibrate(dir, &o, &r, &err);
    if (s != status || err.code != s || !strstr(err.text, says) || r) fail_msg("%d \"%s\", expected \"%s\"", s, err.text, says);
}

/* Value and source of a field, as an opened model has them. */
static void is_field(const char *dir, const char *field, const char *value, const char *source) {
    fore_model *m;
    fore_error err = {0};
    if (fore_model_open(dir, NULL, &m, &err)) fail_msg("%s", err.text);
    const char *n, *v, *s;
    bool found = false;
    for (int i = 0; fore_model_get_contract(m, i, &n, &v, &s); i++) {
        if (strcmp(n, field)) continue;
        found = true;
        if (strcmp(v, value) || strcmp(s, source)) fail_msg("%s is %s (%s), expected %s (%s)", field, v, s, value, source);
    }
    assert_true(found);
    fore_model_close(m);
}

static const fore_calibrate_variant *best_of(const fore_calibrate_report *r) { return &r->variants[r->best]; }

static void test_right_one_stays(void **state) {
    (void)state;
    scratch s;
    host_link(TINY, &s);
    int entries = scratch_count(&s);
    size_t size;
    char *png = read_file("tests/samples/s00.png", &size);
    const fore_image image = {.data = png, .size = size};
    fore_calibrate_report *r = calibrate(s.dir, (fore_calibrate_options){.images = &image, .image_count = 1});
    assert_true(r->best == 0 && !r->written && r->count > 8 && r->places >= r->places_needed && r->depth == 3);
    assert_true(r->prompts > 20 && r->picture_prompts == 1 && r->field_count == 5);
    for (size_t i = 0; i < r->field_count; i++) assert_true(r->fields[i].tried > 0 && !r->fields[i].why[0]);
    const fore_calibrate_variant *v = r->variants;
    assert_string_equal(v[0].contract, "");
    assert_true(v[0].tokens > 2 && v[0].difference == 0 && v[0].accepted[0] > 0.6 && v[0].accepted[3] == 0);
    for (size_t i = 0; i < r->count; i++) {
        const double *share = v[i].accepted, sum = 1 + share[0] + share[1] + share[2];
        assert_true(sum - v[i].tokens < 1e-9 && v[i].tokens - sum < 1e-9 && share[0] >= share[1] && share[1] >= share[2]);
        assert_true(v[i].low <= v[i].difference && v[i].difference <= v[i].high);
        bool wrong = !strcmp(v[i].contract, "concat_order=hidden_embedding") || !strcmp(v[i].contract, "mtp_norm_encoding=absolute");
        assert_true(!wrong || v[i].high < -0.5);
    }
    fore_calibrate_report_free(r);
    assert_int_equal(scratch_count(&s), entries);
    free(png);
    scratch_remove(&s);
}

/* Several fields at once are wrong; of those that are as good, the fewest are set. */
static void test_repaired(void **state) {
    (void)state;
    static const struct {
        const char *before, *contract, *field, *value;
    } cases[] = {
        {wrong_order, "concat_order=embedding_hidden", "concat_order", "embedding_hidden"},
        {"{\"mtp_contract\": {\"mtp_norm_encoding\": \"absolute\"}}", "mtp_norm_encoding=delta", "mtp_norm_encoding", "delta"},
        {"{\"mtp_contract\": {\"mtp_norm_encoding\": \"absolute\", \"concat_order\": \"hidden_embedding\", \"mtp_position_mode\": \"local\"}}",
         "mtp_norm_encoding=delta, concat_order=embedding_hidden, mtp_position_mode=cache", "mtp_position_mode", "cache"},
        {"{\"mtp_contract\": {\"hidden_variant\": \"mix:fc:prev:0.5\"}}", "hidden_variant=post_norm", "hidden_variant", "post_norm"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s;
        host_link(TINY, &s);
        put(&s, KEPT, cases[i].before);
        fore_calibrate_report *r = calibrate(s.dir, (fore_calibrate_options){.dry_run = true});
        assert_true(r->best && !r->written);
        fore_calibrate_report_free(r);
        size_t size;
        char *text = read_file(scratch_path(&s, KEPT), &size);
        assert_string_equal(text, cases[i].before); /* a dry run */
        free(text);
        r = calibrate(s.dir, (fore_calibrate_options){.threads = 1});
        assert_true(r->written);
        assert_string_equal(r->path, scratch_path(&s, KEPT));
        assert_string_equal(best_of(r)->contract, cases[i].contract);
        assert_true(best_of(r)->low > 0 && best_of(r)->tokens > 2.3);
        fore_calibrate_report_free(r);
        is_field(s.dir, cases[i].field, cases[i].value, "calibrated");
        r = calibrate(s.dir, (fore_calibrate_options){.depth = 3});
        assert_true(!r->best && !r->written && r->variants[0].tokens > 2.3);
        fore_calibrate_report_free(r);
        scratch_remove(&s);
    }
}

/* Fields of config.json and mtplx_runtime.json are held, unless they are asked for; a calibration wins over both. */
static void test_stated(void **state) {
    (void)state;
    scratch s;
    host_link(TINY, &s);
    cJSON *c = host_config(s.dir), *contract = cJSON_AddObjectToObject(c, "mtplx_mtp_contract");
    cJSON_AddStringToObject(contract, "concat_order", "hidden_embedding");
    cJSON_AddStringToObject(c, "mtp_norm_encoding", "absolute");
    unlink(scratch_path(&s, "config.json"));
    host_put_config(&s, "config.json", c);
    cJSON_Delete(c);
    put(&s, "mtplx_runtime.json", "{\"mtp_contract\": {\"base_hidden_variant\": \"post_norm\"}}");
    is_field(s.dir, "mtp_norm_encoding", "absolute", "config.json");
    fore_calibrate_report *r = calibrate(s.dir, (fore_calibrate_options){.depth = 1});
    assert_true(!r->best && r->variants[0].tokens < 1.1);
    assert_string_equal(r->fields[0].why, "stated in config.json");
    assert_string_equal(r->fields[1].why, "stated in config.json");
    assert_string_equal(r->fields[2].why, "stated in mtplx_runtime.json");
    assert_string_equal(r->fields[4].why, "plays no part in a single draft");
    assert_true(r->fields[0].tried == 0 && r->fields[3].tried == 1 && !r->fields[3].why[0]); /* without pictures absolute is as cache */
    fore_calibrate_report_free(r);
    assert_false(has(&s, KEPT));
    r = calibrate(s.dir, (fore_calibrate_options){.all = true});
    assert_true(r->written && best_of(r)->tokens > 2.3);
    assert_string_equal(best_of(r)->contract, "mtp_norm_encoding=delta, concat_order=embedding_hidden");
    fore_calibrate_report_free(r);
    is_field(s.dir, "mtp_norm_encoding", "delta", "calibrated");
    is_field(s.dir, "base_hidden_variant", "post_norm", "mtplx_runtime.json");
    bool there = false;
    fore_error err = {0};
    assert_int_equal(fore_calibrate_reset(s.dir, true, &there, &err), FORE_OK);
    assert_true(there && has(&s, KEPT));
    assert_int_equal(fore_calibrate_reset(s.dir, false, &there, &err), FORE_OK);
    assert_true(there && !has(&s, KEPT));
    assert_int_equal(fore_calibrate_reset(s.dir, false, &there, &err), FORE_OK);
    assert_false(there);
    is_field(s.dir, "concat_order", "hidden_embedding", "config.json");
    scratch_remove(&s);
}

static void test_too_little(void **state) {
    (void)state;
    scratch s;
    host_link(TINY, &s);
    put(&s, KEPT, wrong_order);
    const fore_request few[2] = {{.messages = "[{\"role\": \"user\", \"content\": \"Count from 7 to 14.\"}]"}, {.prompt = "One, two,"}};
    fore_calibrate_report *r = calibrate(s.dir, (fore_calibrate_options){.requests = few, .request_count = 2});
    assert_true(r->prompts == 2 && r->places > 0 && r->places < r->places_needed && !r->count && !r->variants && !r->written);
    fore_calibrate_report_free(r);
    is_field(s.dir, "concat_order", "hidden_embedding", "calibrated");
    scratch_remove(&s);
}

/* A calibration is for one head: with other norms it is left alone, and said to be. One that makes no sense is an error. */
static void test_another_head(void **state) {
    (void)state;
    scratch s;
    host_link(TINY, &s);
    put(&s, KEPT, "{\"head\": \"00112233445566778899aabbccddeeff\", \"mtp_contract\": {\"concat_order\": \"hidden_embedding\"}}");
    is_field(s.dir, "concat_order", "embedding_hidden", "default");
    fore_model *m;
    fore_error err = {0};
    assert_int_equal(fore_model_open(s.dir, NULL, &m, &err), FORE_OK);
    fore_model_info info;
    fore_model_get_info(m, &info);
    if (!strstr(info.mtp_source, "made for another head")) fail_msg("%s", info.mtp_source);
    fore_model_close(m);
    static const char *const bad[][2] = {
        {"{\"mtp_contract\": {\"concat_order\": \"both\"}}", "mtp_calibration.json: concat_order: expected embedding_hidden"},
        {"{\"mtp_contract\": []}", "expected an object"},
        {"{", "not valid JSON"},
        {"{\"head\": 7}", "head"},
    };
    for (int i = 0; i < 4; i++) {
        put(&s, KEPT, bad[i][0]);
        fore_status status = fore_model_open(s.dir, NULL, &m, &err);
        if (status != FORE_ERR_FORMAT || !strstr(err.text, bad[i][1]) || !strstr(err.text, "the file may be removed")) fail_msg("%d %s", status, err.text);
        refused(s.dir, (fore_calibrate_options){.threads = 1}, FORE_ERR_FORMAT, bad[i][1]);
    }
    assert_int_equal(fore_calibrate_reset(s.dir, false, NULL, &err), FORE_OK); /* which needs no model that opens */
    is_field(s.dir, "concat_order", "embedding_hidden", "default");
    scratch_remove(&s);
}

static int cancel(void *user, const char *stage, uint64_t done, uint64_t total) {
    assert_true(done <= total);
    return strcmp(stage, user) == 0;
}

static void test_refused(void **state) {
    (void)state;
    scratch s;
    fore_error err = {0};
    host_link(TINY, &s);
    refused("/nonexistent", (fore_calibrate_options){.threads = 1}, FORE_ERR_IO, "/nonexistent: not a folder");
    refused(TINY "/config.json", (fore_calibrate_options){.threads = 1}, FORE_ERR_IO, "not a folder");
    refused(s.dir, (fore_calibrate_options){.depth = 9}, FORE_ERR_INVALID, "depth 9; expected 1 to 8");
    refused(s.dir, (fore_calibrate_options){.max_tokens = -1}, FORE_ERR_INVALID, "max_tokens -1");
    refused(s.dir, (fore_calibrate_options){.isa = "other"}, FORE_ERR_UNSUPPORTED, "other");
    const fore_request odd[2] = {{.prompt = "One"}, {.messages = "[{\"role\": \"user\"}"}};
    refused(s.dir, (fore_calibrate_options){.requests = odd, .request_count = 2}, FORE_ERR_FORMAT, "prompt 2: ");
    refused(FORE_DATA "/models/dense_sharded_bf16", (fore_calibrate_options){.dry_run = true}, FORE_ERR_UNSUPPORTED, "no tokenizer.json");
    static const char *const stages[] = {"load", "prefill", "answer", "try"};
    for (int i = 0; i < 4; i++) {
        char stage[16];
        strcpy(stage, stages[i]);
        refused(s.dir, (fore_calibrate_options){.progress = cancel, .user = stage}, FORE_ERR_CANCELLED, "cancelled");
    }
    /* A folder where the file should grow, as one that cannot be written (a test that runs as root has none). */
    mkdir(scratch_path(&s, KEPT ".partial"), 0700);
    refused(s.dir, (fore_calibrate_options){.threads = 1}, FORE_ERR_IO, KEPT ".partial: cannot create");
    rmdir(scratch_path(&s, KEPT ".partial"));
    /* No head: not there, or not declared. */
    cJSON *c = host_config(s.dir);
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(c, "text_config"), "mtp_num_hidden_layers");
    unlink(scratch_path(&s, "config.json"));
    host_put_config(&s, "config.json", c);
    cJSON_Delete(c);
    refused(s.dir, (fore_calibrate_options){.threads = 1}, FORE_ERR_UNSUPPORTED, "no draft head to calibrate: config.json declares no draft head");
    assert_int_equal(fore_calibrate_reset("/nonexistent", false, NULL, &err), FORE_ERR_IO);
    assert_int_equal(fore_calibrate(NULL, NULL, NULL, &err), FORE_ERR_INVALID);
    assert_false(has(&s, KEPT));
    scratch_remove(&s);
}

/* Answers that are not those of the model under drafts are seen, wherever they differ. */
static void test_another_answer(void **state) {
    (void)state;
    fore_model *m;
    fore_error err = {0};
    fore_calibrate_answers a;
    const fore_request asked[2] = {{.prompt = "One, two, three,"}, {.messages = "[{\"role\": \"user\", \"content\": \"Count from 7 to 14.\"}]"}};
    const fore_calibrate_options o = {.threads = 1, .requests = asked, .request_count = 2};
    assert_int_equal(fore_model_open(TINY, NULL, &m, &err), FORE_OK);
    if (fore_calibrate_ask(m, &o, 2, &a, &err)) fail_msg("%s", err.text);
    assert_true(a.count == 2 && a.items[1].answer > 6);
    if (fore_calibrate_confirm(m, &o, 2, &a, &err)) fail_msg("%s", err.text);
    int32_t *ids = a.items[1].ids + a.items[1].prompt;
    ids[4]++;
    assert_int_equal(fore_calibrate_confirm(m, &o, 2, &a, &err), FORE_ERR_BUG);
    assert_non_null(strstr(err.text, "prompt 2: token 5 of the answer changes with drafts"));
    ids[4]--;
    a.items[1].answer--;
    assert_int_equal(fore_calibrate_confirm(m, &o, 2, &a, &err), FORE_ERR_BUG);
    a.items[1].answer += 2;
    assert_int_equal(fore_calibrate_confirm(m, &o, 2, &a, &err), FORE_ERR_BUG);
    assert_non_null(strstr(err.text, "shorter"));
    fore_calibrate_answers_free(&a);
    fore_model_close(m);
}

static const fore_calibrate_options quick = {.threads = 1, .depth = 1};

/* The file is the old one or the new one, and the next run ends it. */
static void test_crashes(void **state) {
    (void)state;
    int after = 0;
    for (long n = 1;; n++) {
        scratch s;
        host_link(TINY, &s);
        put(&s, KEPT, wrong_order);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            fore_calibrate_report *r;
            files_mode = FILES_KILL;
            files_seen = 0;
            files_at = n;
            _exit(fore_calibrate(s.dir, &quick, &r, NULL) || !r->written);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        bool killed = WIFSIGNALED(status);
        if (!killed) assert_int_equal(WEXITSTATUS(status), 0);
        fore_calibrate_report *r = calibrate(s.dir, quick);
        assert_true(r->places >= r->places_needed);
        bool done = !r->best; /* it was the new one */
        assert_true(done || r->written);
        fore_calibrate_report_free(r);
        is_field(s.dir, "concat_order", "embedding_hidden", "calibrated");
        assert_false(has(&s, KEPT ".partial"));
        after += done;
        scratch_remove(&s);
        if (!killed) {
            assert_true(done && n == 8); /* a look whether it can be written (2), then open, write, sync, rename, sync of the folder */
            break;
        }
    }
    assert_int_equal(after, 3);
}

static void test_failures(void **state) {
    (void)state;
    static const int causes[] = {ENOSPC, EACCES, EIO, EROFS};
    for (long n = 1; n <= 7; n++) {
        scratch s;
        host_link(TINY, &s);
        put(&s, KEPT, wrong_order);
        fore_calibrate_report *r;
        fore_error err = {0};
        files_mode = FILES_FAIL;
        files_errno = causes[n % 4];
        files_at = n;
        files_seen = 0;
        fore_status status = fore_calibrate(s.dir, &quick, &r, &err);
        files_mode = FILES_COUNT;
        /* Neither the look's unlink nor the folder's sync can be helped, and both do no harm. */
        assert_int_equal(status == FORE_OK, n == 2 || n == 7);
        if (status && (status != FORE_ERR_IO || !strstr(err.text, "cannot ") || !strstr(err.text, s.dir))) fail_msg("%ld: %s", n, err.text);
        is_field(s.dir, "concat_order", status ? "hidden_embedding" : "embedding_hidden", "calibrated");
        if (!status) fore_calibrate_report_free(r);
        else assert_false(has(&s, KEPT ".partial"));
        scratch_remove(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_one_stays), cmocka_unit_test(test_repaired), cmocka_unit_test(test_stated),  cmocka_unit_test(test_too_little),
        cmocka_unit_test(test_another_head),    cmocka_unit_test(test_another_answer), cmocka_unit_test(test_refused),  cmocka_unit_test(test_crashes), cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("calibrate", tests, NULL, NULL);
}
