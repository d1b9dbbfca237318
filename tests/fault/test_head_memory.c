/* Memory runs out while a draft head is taken out of a checkpoint, put into one, mended and tried: no half file, and a second run
 * finishes the job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "support/heads.h"
#include "support/refuse_each.h"

static scratch whole, s; /* the checkpoint before, and a copy that is worked on */

static fore_status extract(void *user, fore_error *err) {
    (void)user;
    return fore_head_extract(TINY, scratch_path(&s, "out.safetensors"), NULL, err);
}
static fore_status attach(void *user, fore_error *err) {
    (void)user;
    return fore_head_attach(scratch_path(&whole, "head.odd"), s.dir, NULL, err);
}
static fore_status heal(void *user, fore_error *err) {
    (void)user;
    return fore_head_heal(s.dir, false, NULL, err);
}
/* What `forge mtp verify` does: answers with drafts and without. */
static fore_status verify(void *user, fore_error *err) {
    (void)user;
    fore_model *m;
    fore_session *session = NULL;
    fore_status st = fore_model_open(TINY, NULL, &m, err);
    if (st) return st;
    st = fore_session_new(m, &(fore_session_options){.threads = 1, .context = 128}, &session, err);
    for (int depth = 0; depth <= 2 && !st; depth += 2) {
        fore_request r;
        fore_request_init(&r, m);
        r.messages = "[{\"role\":\"user\",\"content\":\"Count.\"}]";
        r.sampling.temperature = 0;
        r.max_tokens = 4;
        r.draft.depth = depth;
        r.draft.lookup = FORE_LOOKUP_OFF;
        st = fore_session_begin(session, &r, err);
        for (fore_chunk c = {0}; !st && c.finish == FORE_FINISH_NONE;) st = fore_session_next(session, &c, err);
    }
    fore_session_free(session);
    fore_model_close(m);
    return st;
}

static void link_whole(void *user) {
    (void)user;
    host_link(whole.dir, &s);
}

static void finish(void *user, long n, fore_status status) {
    const refusals *r = user;
    fore_error err = {0};
    if (status && n % 3 == 0 && r->act(NULL, &err)) fail_msg("%s: going on after request %ld: %s", r->what, n, err.text);
    scratch_remove(&s);
}

static void refuse(const char *what, fore_status (*act)(void *, fore_error *), long least) {
    refusals r = {.what = what, .act = act, .before = link_whole, .after = finish, .least = least, .spare = 40, .all = 100, .step = 37};
    r.user = &r;
    refuse_each(&r);
}

static bool every_layer(const char *name) { return strstr(name, "mtp.layers.") != NULL; }

static void test_each_request(void **state) {
    (void)state;
    head_take(&whole, false);
    head_write(&whole, "head.odd", every_layer); /* gains in the layers alone: to be mended */
    refuse("extracting", extract, 200);
    refuse("attaching", attach, 200);
    fore_error err = {0};
    if (fore_head_attach(scratch_path(&whole, "head.odd"), whole.dir, NULL, &err)) fail_msg("%s", err.text);
    refuse("mending", heal, 200);
    scratch_remove(&whole);
    refuse_each(&(refusals){.what = "trying", .act = verify, .least = 200, .spare = 40, .all = 100, .step = 37});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
