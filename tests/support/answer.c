#include "support/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

void answer_run(fore_session *s, const fore_request *r, answer *a) {
    fore_error err = {0};
    *a = (answer){0};
    if (fore_session_begin(s, r, &err)) fail_msg("%s", err.text);
    while (a->finish == FORE_FINISH_NONE) {
        fore_chunk c;
        if (fore_session_next(s, &c, &err)) fail_msg("%s", err.text);
        assert_true(a->n + c.id_count <= ANSWER_MOST);
        memcpy(a->ids + a->n, c.ids, c.id_count * sizeof *c.ids);
        a->n += c.id_count;
        assert_true(strlen(a->text) + c.size < sizeof a->text);
        if (c.size) strncat(a->text, c.text, c.size);
        a->finish = c.finish;
    }
    fore_session_get_stats(s, &a->stats);
    fore_session_digest(s, a->digest);
}

void answer_same(const answer *a, const answer *b, const char *way) {
    for (size_t i = 0; i < a->n && i < b->n; i++)
        if (a->ids[i] != b->ids[i]) fail_msg("%s: token %zu is %d, without drafts it is %d", way, i, (int)b->ids[i], (int)a->ids[i]);
    if (a->n != b->n || a->finish != b->finish) fail_msg("%s: %zu tokens, without drafts %zu", way, b->n, a->n);
    assert_string_equal(a->text, b->text);
    if (memcmp(a->digest, b->digest, sizeof a->digest)) fail_msg("%s: another state", way);
}

subject subject_open(const char *dir, const fore_model_options *options, int context) {
    subject s;
    fore_error err = {0};
    const fore_session_options o = {.threads = 2, .context = context};
    if (fore_model_open(dir, options, &s.model, &err) || fore_session_new(s.model, &o, &s.session, &err)) fail_msg("%s", err.text);
    return s;
}

void subject_close(subject *s) {
    fore_session_free(s->session);
    fore_model_close(s->model);
}
