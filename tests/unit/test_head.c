/* forge mtp: a draft head out of a checkpoint and into one, what is refused, crashes at every file operation, and norms that a
 * conversion has mixed up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/failing_files.h"
#include "support/heads.h"
#include "support/tensors.h"

typedef struct drafts {
    bool attached;
    uint64_t drafted, accepted;
    char text[512];
    char source[320];
} drafts;

static drafts ask(const char *dir) {
    drafts d = {0};
    fore_model *m;
    fore_session *s;
    fore_error err = {0};
    if (fore_model_open(dir, NULL, &m, &err)) fail_msg("%s: %s", dir, err.text);
    if (fore_session_new(m, &(fore_session_options){.threads = 1, .context = 512}, &s, &err)) fail_msg("%s", err.text);
    fore_model_info info;
    fore_model_get_info(m, &info);
    d.attached = info.mtp_attached;
    snprintf(d.source, sizeof d.source, "%s", info.mtp_source);
    fore_request r;
    fore_request_init(&r, m);
    size_t size;
    char *data = read_file("tests/samples/s00.png", &size);
    const fore_image image = {.data = data, .size = size};
    r.messages = "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"Describe the picture.\"}]}]";
    r.images = &image;
    r.image_count = 1;
    r.sampling.temperature = 0;
    r.draft.depth = d.attached ? 2 : 0;
    r.draft.lookup = FORE_LOOKUP_OFF;
    if (fore_session_begin(s, &r, &err)) fail_msg("%s", err.text);
    for (fore_chunk c = {0}; c.finish == FORE_FINISH_NONE;) {
        if (fore_session_next(s, &c, &err)) fail_msg("%s", err.text);
        if (c.size) strncat(d.text, c.text, c.size);
    }
    free(data);
    fore_stats stats;
    fore_session_get_stats(s, &stats);
    d.drafted = stats.head.drafted;
    d.accepted = stats.head.accepted;
    fore_session_free(s);
    fore_model_close(m);
    return d;
}

static void good(fore_status s, const fore_error *err) {
    if (s) fail_msg("%s", err->text);
}

static void bad(fore_status s, const fore_error *err, const char *says) {
    if (!s || s != err->code || !strstr(err->text, says)) fail_msg("%d \"%s\", expected \"%s\"", s, err->text, says);
}

static void test_out_and_in(void **state) {
    (void)state;
    drafts want = ask(TINY);
    assert_true(want.attached && want.accepted > want.drafted / 3);
    for (int declared = 0; declared < 2; declared++) {
        scratch s, out;
        fore_head_report r;
        fore_error err = {0};
        host_folder(&out);
        good(fore_head_extract(TINY, scratch_path(&out, "head.safetensors"), &r, &err), &err);
        assert_int_equal(r.tensors, 15);
        assert_int_equal(r.bytes, 624128);
        assert_int_equal(r.layers, 1);
        assert_false(r.already);
        good(fore_head_extract(TINY, scratch_path(&out, "head.safetensors"), &r, &err), &err);
        assert_true(r.already && r.file_count == 0);
        head_take(&s, declared);
        assert_false(ask(s.dir).attached);
        good(fore_head_attach(scratch_path(&out, "head.safetensors"), s.dir, &r, &err), &err);
        assert_int_equal(r.file_count, declared ? 1 : 2);
        drafts got = ask(s.dir);
        assert_true(got.attached && got.drafted == want.drafted && got.accepted == want.accepted);
        assert_string_equal(got.text, want.text);
        assert_non_null(strstr(got.source, "mtp.safetensors"));
        good(fore_head_attach(scratch_path(&out, "head.safetensors"), s.dir, &r, &err), &err);
        assert_true(r.already && r.file_count == 0);
        scratch_remove(&s);
        scratch_remove(&out);
    }
}

static void test_refused(void **state) {
    (void)state;
    scratch s, out;
    fore_error err = {0};
    host_folder(&out);
    head_take(&s, true);
    bad(fore_head_extract(s.dir, scratch_path(&out, "x"), NULL, &err), &err, "it has no draft head: looked for");
    bad(fore_head_extract("models/none", scratch_path(&out, "x"), NULL, &err), &err, "not a folder");
    bad(fore_head_extract(TINY, scratch_path(&out, "none/x"), NULL, &err), &err, "none: no such folder");
    bad(fore_head_extract(TINY, out.dir, NULL, &err), &err, "there, and not this head");
    scratch_write(&out, "y", "hello", 5);
    bad(fore_head_extract(TINY, scratch_path(&out, "y"), NULL, &err), &err, "there, and not this head");
    bad(fore_head_extract(FORE_DATA "/family/qwen3_tied_f32", scratch_path(&out, "x"), NULL, &err), &err, "it has no draft head");
    assert_int_equal(scratch_count(&out), 1);

    good(fore_head_extract(TINY, scratch_path(&out, "head"), NULL, &err), &err);
    const char *head = scratch_path(&out, "head");
    bad(fore_head_attach(head, TINY, NULL, &err), &err, "it has a draft head of its own (in the checkpoint's own files)");
    bad(fore_head_attach(TINY "/model.safetensors", "models/none", NULL, &err), &err, "not a folder");
    bad(fore_head_attach(scratch_path(&out, "y"), s.dir, NULL, &err), &err, "/y");
    bad(fore_head_attach(scratch_path(&s, "model.safetensors"), s.dir, NULL, &err), &err, "no tensors of a draft head");
    head = scratch_path(&out, "head");
    bad(fore_head_attach(head, FORE_DATA "/models/dense_sharded_bf16", NULL, &err), &err, "expected [");
    head = scratch_path(&out, "head");
    bad(fore_head_attach(head, FORE_DATA "/family/vl_dense_bf16", NULL, &err), &err, "have no draft head");
    cJSON *c = host_config(s.dir);
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(c, "text_config"), "mtp_num_hidden_layers", cJSON_CreateNumber(2));
    unlink(scratch_path(&s, "config.json"));
    host_put_config(&s, "config.json", c);
    cJSON_Delete(c);
    head = scratch_path(&out, "head");
    bad(fore_head_attach(head, s.dir, NULL, &err), &err, "declares a head of 2 layers, the file has 1");
    scratch_write(&s, "mtp.safetensors", "rubbish", 7);
    scratch_remove(&s);
    scratch_remove(&out);
}

static void test_crashes(void **state) {
    (void)state;
    scratch whole, out;
    fore_error err = {0};
    head_take(&whole, false);
    host_folder(&out);
    good(fore_head_extract(TINY, scratch_path(&out, "head"), NULL, &err), &err);
    for (long n = 1;; n++) {
        scratch s;
        host_link(whole.dir, &s);
        char head[128];
        snprintf(head, sizeof head, "%s/head", out.dir);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            files_mode = FILES_KILL;
            files_seen = 0;
            files_at = n;
            _exit(fore_head_attach(head, s.dir, NULL, NULL) ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        bool killed = WIFSIGNALED(status);
        if (!killed) assert_int_equal(WEXITSTATUS(status), 0);
        drafts between = ask(s.dir);
        assert_true(killed || between.attached);
        good(fore_head_attach(head, s.dir, NULL, &err), &err);
        drafts end = ask(s.dir);
        assert_true(end.attached);
        assert_string_equal(end.text, between.text);
        scratch_remove(&s);
        if (!killed) {
            assert_true(n > 20);
            break;
        }
    }
    scratch_remove(&whole);
    scratch_remove(&out);
}

/* ---- healing ----------------------------------------------------------------------------------------------------- */

static bool none(const char *name) { return !name; }
static bool all(const char *name) { return name != NULL; }
static bool in_layers(const char *name) { return strstr(name, "layers.") != NULL; }
static bool around(const char *name) { return !in_layers(name); }

static void test_heal(void **state) {
    (void)state;
    drafts want = ask(TINY);
    const struct {
        bool (*gains)(const char *name);
        int changed;
    } cases[] = {{none, 0}, {all, 0}, {in_layers, 4}, {around, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s;
        fore_head_report r, dry;
        fore_error err = {0};
        head_take(&s, true);
        head_write(&s, "mtp.safetensors", cases[i].gains);
        drafts before = ask(s.dir);
        assert_true(before.attached);
        good(fore_head_heal(s.dir, true, &dry, &err), &err);
        good(fore_head_heal(s.dir, false, &r, &err), &err);
        assert_int_equal(r.changed, cases[i].changed);
        assert_int_equal(r.already, cases[i].changed == 0);
        assert_int_equal(dry.changed, r.changed);
        assert_string_equal(dry.note, r.note);
        drafts after = ask(s.dir);
        assert_true(after.attached && after.accepted == want.accepted && after.drafted == want.drafted);
        /* Around the layers the wrong reading doubles what goes into fc, which this prompt hardly minds. */
        if (cases[i].gains == in_layers && before.accepted >= want.accepted)
            fail_msg("case %zu: %llu of %llu right before, %llu after; %s", i, (unsigned long long)before.accepted,
                     (unsigned long long)before.drafted, (unsigned long long)after.accepted, r.note);
        assert_string_equal(after.text, want.text);
        good(fore_head_heal(s.dir, false, &r, &err), &err);
        assert_true(r.already);
        scratch_remove(&s);
    }
}

/* A wrong word in config.json is set right, and the file stays as it is. */
static void test_heal_declaration(void **state) {
    (void)state;
    scratch s;
    fore_head_report r;
    fore_error err = {0};
    drafts want = ask(TINY);
    host_link(TINY, &s);
    cJSON *c = host_config(s.dir);
    cJSON_AddStringToObject(c, "mtp_norm_encoding", "absolute");
    unlink(scratch_path(&s, "config.json"));
    host_put_config(&s, "config.json", c);
    cJSON_Delete(c);
    assert_true(ask(s.dir).accepted < want.accepted);
    good(fore_head_heal(s.dir, false, &r, &err), &err);
    assert_true(!r.already && r.changed == 0 && r.file_count == 1);
    assert_non_null(strstr(r.note, "config.json says gains (mtp_norm_encoding)"));
    assert_true(ask(s.dir).accepted == want.accepted);
    scratch_remove(&s);
    bad(fore_head_heal(FORE_DATA "/family/qwen3_tied_f32", false, &r, &err), &err, "it has no draft head");
}

/* A head inside a folder of which every weight file counts gets a file of its own, and the folder an index. */
static bool is_odd(const char *name) { return in_layers(name) && strstr(name, "mtp.") != NULL; }
static void test_heal_inside(void **state) {
    (void)state;
    scratch s;
    fore_head_report r;
    fore_error err = {0};
    drafts want = ask(TINY);
    head_take(&s, true);
    head_write(&s, "mtp.safetensors", is_odd);
    assert_int_equal(rename(scratch_path(&s, "model.safetensors"), scratch_path(&s, "a.safetensors")), 0);
    assert_int_equal(rename(scratch_path(&s, "mtp.safetensors"), scratch_path(&s, "b.safetensors")), 0);
    assert_true(ask(s.dir).accepted < want.accepted);
    good(fore_head_heal(s.dir, false, &r, &err), &err);
    assert_int_equal(r.changed, 4);
    drafts after = ask(s.dir);
    assert_true(after.accepted == want.accepted);
    assert_non_null(strstr(after.source, "mtp.safetensors"));
    scratch_remove(&s);
}

/* Where config.json names the head's file, that one is written, and said to be. */
static void test_named_file(void **state) {
    (void)state;
    scratch s;
    fore_head_report r, dry;
    fore_error err = {0};
    head_take(&s, false);
    head_write(&s, "odd.tensors", is_odd);
    cJSON *c = host_config(s.dir);
    cJSON_AddStringToObject(cJSON_AddObjectToObject(c, "mlx_lm_extra_tensors"), "mtp_file", "draft.safetensors");
    host_put_config(&s, "config.json", c);
    cJSON_Delete(c);
    good(fore_head_attach(scratch_path(&s, "odd.tensors"), s.dir, &r, &err), &err);
    assert_int_equal(r.file_count, 2);
    assert_string_equal(r.files[0], "draft.safetensors");
    assert_int_equal(access(scratch_path(&s, "draft.safetensors"), F_OK), 0);
    assert_int_not_equal(access(scratch_path(&s, "mtp.safetensors"), F_OK), 0);
    good(fore_head_heal(s.dir, true, &dry, &err), &err);
    good(fore_head_heal(s.dir, false, &r, &err), &err);
    assert_int_equal(r.changed, 4);
    assert_string_equal(r.files[0], "draft.safetensors");
    assert_string_equal(dry.files[0], "draft.safetensors");
    assert_int_not_equal(access(scratch_path(&s, "mtp.safetensors"), F_OK), 0);
    assert_true(ask(s.dir).attached);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_and_in), cmocka_unit_test(test_refused),          cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_heal),       cmocka_unit_test(test_heal_declaration), cmocka_unit_test(test_heal_inside),
        cmocka_unit_test(test_named_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
