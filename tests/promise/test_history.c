/* The draft head's history does not depend on how it came about: rows that followed a generation (in windows of any depth, with drafts
 * accepted and rejected, in one session over several turns, after an answer that was cut anywhere) equal, bit for bit, those of a
 * session that sees the whole text as one prompt. And drafts from a recorded answer need no head at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "decode/session.h"

enum { MOST = 400, CONTEXT = 512 };

static fore_model *open_model(const char *contract, bool no_mtp) {
    fore_model *m;
    fore_error err = {0};
    const fore_model_options o = {.mtp_contract = contract, .no_mtp = no_mtp};
    if (fore_model_open("models/tiny", &o, &m, &err)) fail_msg("%s", err.text);
    return m;
}

static fore_session *open_session(const fore_model *m) {
    fore_session *s;
    fore_error err = {0};
    const fore_session_options o = {.threads = 2, .context = CONTEXT};
    if (fore_session_new(m, &o, &s, &err)) fail_msg("%s", err.text);
    return s;
}

/* Begins with ids[0..n) and generates until about `tokens` more are said, which are put behind them. */
static int talk(fore_session *s, fore_request *r, int32_t *ids, int n, int tokens) {
    fore_error err = {0};
    fore_chunk c = {0};
    r->ids = ids;
    r->id_count = (size_t)n;
    if (fore_session_begin(s, r, &err)) fail_msg("%s", err.text);
    for (int said = 0; said < tokens && c.finish == FORE_FINISH_NONE; said += (int)c.id_count) {
        if (fore_session_next(s, &c, &err)) fail_msg("%s", err.text);
        assert_true(n + (int)c.id_count < MOST);
        memcpy(ids + n, c.ids, c.id_count * sizeof *ids);
        n += (int)c.id_count;
    }
    return n;
}

static void same_history(const fore_session *a, const fore_session *b, const char *what) {
    const fore_drafter *x = &a->drafter, *y = &b->drafter;
    if (!x->keeping || !y->keeping || x->base || y->base || x->true_rows != y->true_rows || x->carried != y->carried ||
        x->true_rows + x->carried != a->state.length)
        fail_msg("%s: %d+%d rows, as a prompt %d+%d, of %d tokens", what, x->true_rows, x->carried, y->true_rows, y->carried, a->state.length);
    size_t bytes = (size_t)a->model->network.config.text.hidden_size * sizeof(float);
    if (memcmp(x->carry, y->carry, (size_t)x->carried * bytes)) fail_msg("%s: another hidden waits", what);
    const fore_text_config *t = &a->model->mtp.text;
    for (int i = 0; i < t->num_hidden_layers; i++)
        for (int h = 0; h < t->num_key_value_heads; h++)
            for (int j = 0; j < x->true_rows; j++)
                for (int d = 0; d < t->head_dim; d++) {
                    size_t k = fore_state_key_at(&x->head, t->head_dim, h, j, d);
                    size_t v = ((size_t)h * CONTEXT + (size_t)j) * (size_t)t->head_dim + (size_t)d;
                    if (memcmp(&x->head.layers[i].k[k], &y->head.layers[i].k[k], sizeof(float)) ||
                        memcmp(&x->head.layers[i].v[v], &y->head.layers[i].v[v], sizeof(float)))
                        fail_msg("%s: row %d of %d differs", what, j, x->true_rows);
                }
}

typedef struct start {
    int32_t ids[MOST];
    int n;
    fore_image images[2];
    size_t image_count;
} start;

/* Expanded ids of a prompt. */
static start expand(const fore_model *m, const char *prompt, const fore_image *images, size_t image_count) {
    start out = {.image_count = image_count};
    fore_error err = {0};
    fore_session *s = open_session(m);
    fore_request r;
    fore_trace *t;
    fore_request_init(&r, m);
    r.prompt = prompt;
    if (image_count) memcpy(out.images, images, image_count * sizeof *images);
    r.images = images;
    r.image_count = image_count;
    if (fore_session_trace(s, &r, &t, &err)) fail_msg("%s", err.text);
    out.n = (int)t->tokens;
    assert_true(out.n < MOST);
    memcpy(out.ids, t->ids, t->tokens * sizeof *out.ids);
    fore_trace_free(t);
    fore_session_free(s);
    return out;
}

static void check_history(const fore_model *m, const start *from, const char *name) {
    static const fore_sampling samplings[] = {{.top_p = 1, .repetition_penalty = 1}, {.temperature = 2.5f, .top_p = 1, .top_k = 60, .repetition_penalty = 1.1f}};
    fore_session *a = open_session(m), *b = open_session(m);
    fore_error err = {0};
    static const int depths[] = {FORE_DRAFT_AUTO, 1, 3, 8};
    for (int i = 0; i < 4; i++)
        for (int kind = 0; kind < 4; kind++) {
            int depth = depths[i];
            char what[96];
            snprintf(what, sizeof what, "%s, depth %d, kind %d", name, depth, kind);
            fore_request r;
            fore_request_init(&r, m);
            r.images = from->images;
            r.image_count = from->image_count;
            r.ignore_eos = true;
            r.sampling = samplings[kind % 2];
            r.sampling.seed = (uint64_t)(depth + 1);
            r.draft.depth = depth;
            r.draft.wrong = kind == 2;
            r.prefill_chunk = kind == 3 ? 7 : 0;
            int32_t ids[MOST];
            int n = from->n;
            memcpy(ids, from->ids, (size_t)n * sizeof *ids);
            fore_session_reset(a);
            /* Turns that end anywhere, each followed by words that nobody said. */
            for (int turn = 0; turn < 3; turn++) {
                n = talk(a, &r, ids, n, 1 + (depth + 2) * (turn + 1) + kind);
                if (turn == 1) ids[n - 1] = 300; /* the last token said is taken back: the state has not seen it */
                ids[n++] = 400 + turn;
            }
            r.ids = ids;
            r.id_count = (size_t)n;
            if (fore_session_begin(a, &r, &err)) fail_msg("%s", err.text);
            fore_stats stats;
            fore_session_get_stats(a, &stats);
            assert_true(stats.reused_tokens > 0 && stats.history_missing == 0);
            fore_session_reset(b);
            r.prefill_chunk = 0;
            if (fore_session_begin(b, &r, &err)) fail_msg("%s", err.text);
            same_history(a, b, what);
            uint8_t da[32], db[32];
            fore_session_digest(a, da);
            fore_session_digest(b, db);
            assert_memory_equal(da, db, sizeof da);
        }
    fore_session_free(a);
    fore_session_free(b);
}

static char *load(const char *path, size_t *size) {
    char *data;
    fore_error err;
    if (fore_file_read(path, 1 << 20, &data, size, &err)) fail_msg("%s", err.text);
    return data;
}

static void test_text(void **state) {
    (void)state;
    static const char *const contracts[] = {NULL, "{\"mtp_position_mode\": \"absolute\", \"base_hidden_variant\": \"pre_norm\"}"};
    for (int i = 0; i < 2; i++) {
        fore_model *m = open_model(contracts[i], false);
        start s = expand(m, "<|im_start|>user\nCount from 7 to 14.<|im_end|>\n<|im_start|>assistant\n", NULL, 0);
        check_history(m, &s, i ? "text, absolute" : "text");
        fore_model_close(m);
    }
}

static void test_pictures(void **state) {
    (void)state;
    fore_model *m = open_model(NULL, false);
    fore_image images[2] = {{0}};
    char *a = load("tests/samples/s06_a.png", &images[0].size), *b = load("tests/samples/s06_b.png", &images[1].size);
    images[0].data = a;
    images[1].data = b;
    start one = expand(m, "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe it.<|im_end|>\n<|im_start|>assistant\n", images, 1);
    check_history(m, &one, "a picture");
    start two = expand(m, "<|im_start|>user\nBoth <|vision_start|><|image_pad|><|image_pad|>", images, 2);
    check_history(m, &two, "two pictures at the end");
    free(a);
    free(b);
    fore_model_close(m);
}

/* An answer cut after every round goes on as it would have, in as many tokens, whatever the depth. */
static void test_cut(void **state) {
    (void)state;
    fore_model *m = open_model(NULL, false);
    fore_session *s = open_session(m);
    start from = expand(m, "<|im_start|>user\nTell a story about a fox named Mia, a river and a red ball.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
                        NULL, 0);
    int32_t whole[MOST], ids[MOST];
    fore_request r;
    fore_request_init(&r, m);
    r.draft.depth = 0;
    memcpy(whole, from.ids, sizeof whole);
    int n = talk(s, &r, whole, from.n, 1000);
    assert_true(n > from.n + 30);
    for (int depth = 1; depth <= FORE_DRAFT_MAX; depth += depth < 3 ? 1 : 5) {
        r.draft.depth = depth;
        for (int tokens = 1; tokens < n - from.n; tokens += 5) {
            memcpy(ids, from.ids, sizeof ids);
            fore_session_reset(s);
            int cut = talk(s, &r, ids, from.n, tokens);
            assert_memory_equal(ids, whole, (size_t)cut * sizeof *ids);
            if (cut == n) break;
            int end = talk(s, &r, ids, cut, 1000);
            assert_int_equal(end, n);
            assert_memory_equal(ids, whole, (size_t)n * sizeof *ids);
        }
    }
    fore_session_free(s);
    fore_model_close(m);
}

/* Drafts from a recorded answer: all of them accepted, in as few passes as can be; without a head too. */
static void test_replay(void **state) {
    (void)state;
    for (int no_mtp = 0; no_mtp < 2; no_mtp++) {
        fore_model *m = open_model(NULL, no_mtp);
        fore_session *s = open_session(m);
        start from = expand(m, "<|im_start|>user\nCount from 7 to 24.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", NULL, 0);
        int32_t whole[MOST], ids[MOST];
        fore_request r;
        fore_request_init(&r, m);
        r.draft.depth = 0;
        memcpy(whole, from.ids, sizeof whole);
        int n = talk(s, &r, whole, from.n, 1000), said = n - from.n;
        assert_true(said > 20);
        for (int depth = 1; depth <= FORE_DRAFT_MAX; depth++)
            for (int odd = 0; odd < 2; odd++) {
                int32_t answer[MOST];
                memcpy(answer, whole + from.n, (size_t)said * sizeof *answer);
                if (odd) answer[7] = -5, answer[12] = 1 << 30; /* a recorded answer may hold anything */
                r.draft = (fore_draft){.depth = depth, .replay = answer, .replay_count = (size_t)(odd ? said - 3 : said)};
                memcpy(ids, from.ids, sizeof ids);
                fore_session_reset(s);
                assert_int_equal(talk(s, &r, ids, from.n, 1000), n);
                assert_memory_equal(ids, whole, (size_t)n * sizeof *ids);
                fore_stats stats;
                fore_session_get_stats(s, &stats);
                if (!odd) assert_int_equal(stats.rounds, (said - 1 + depth) / (depth + 1));
            }
        fore_session_free(s);
        fore_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_pictures), cmocka_unit_test(test_cut), cmocka_unit_test(test_replay)};
    return cmocka_run_group_tests_name("promise/history", tests, NULL, NULL);
}
