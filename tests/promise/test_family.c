/* The other families keep the promise too: the same bits whatever the chunk size, the threads and the instruction set, and, with
 * look-ups, replayed drafts or a head, at every depth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/answer.h"

static const struct {
    const char *model, *which;
    bool head;
} SUBJECTS[] = {
    {"family/vl_dense_bf16", "mm", false},       {"family/vl_moe_bf16", "mm", false},
    {"family/qwen3_tied_f32", "text", false},    {"family/qwen3_moe_bf16", "text", false},
    {"family/qwen3_next_bf16", "text", false},   {"family/qwen3_5_text_bf16", "text", true},
    {"family/qwen3_5_moe_text_bf16", "text", true}, {"qwen2_5/bf16", "mm", false},
    {"qwen2_5/tied_f32", "mm", false},           {"rope/qwen3_5_text_yarn_bf16", "text", true},
};
enum { SUBJECT_COUNT = sizeof SUBJECTS / sizeof *SUBJECTS, LENGTH = 120 };

typedef struct opened {
    fore_model *model;
    prompt p;
    fore_request r;
} opened;

static void open_model(opened *o, int index, const char *isa) {
    char path[256];
    fore_error err = {0};
    const fore_model_options options = {.isa = isa};
    snprintf(path, sizeof path, FORE_DATA "/%s", SUBJECTS[index].model);
    if (fore_model_open(path, &options, &o->model, &err)) fail_msg("%s", err.text);
    assert_int_equal(o->model->mtp.attached, SUBJECTS[index].head);
    snprintf(path, sizeof path, FORE_DATA "/%s/golden_%s.safetensors", SUBJECTS[index].model, SUBJECTS[index].which);
    prompt_open(&o->p, path);
    fore_request_init(&o->r, o->model);
    o->r.ids = o->p.ids;
    o->r.id_count = o->p.n;
    o->r.images = o->p.images;
    o->r.image_count = o->p.image_count;
    o->r.ignore_eos = true;
    o->r.max_tokens = LENGTH;
    o->r.draft.depth = 0;
}

static void close_model(opened *o) {
    prompt_close(&o->p);
    fore_model_close(o->model);
}

/* An answer of a new session of so many threads. */
static void say(opened *o, int threads, answer *a) {
    fore_session *s;
    fore_error err = {0};
    const fore_session_options options = {.threads = threads, .context = 512};
    if (fore_session_new(o->model, &options, &s, &err)) fail_msg("%s", err.text);
    answer_run(s, &o->r, a);
    fore_session_free(s);
}

static const fore_sampling SETTINGS[] = {
    {.temperature = 0, .top_p = 1, .repetition_penalty = 1},
    {.temperature = 0.8f, .top_p = 0.95f, .top_k = 40, .repetition_penalty = 1.1f, .seed = 3},
};

static void test_ways(void **state) {
    (void)state;
    static answer base, other;
    const fore_kern *kerns[8];
    int sets = fore_kern_list(kerns);
    static const int chunks[] = {1, 7, 16, 0}, threads[] = {2, 1, 5, 3};
    for (int i = 0; i < SUBJECT_COUNT; i++)
        for (int k = 0; k < sets; k++) {
            opened o;
            open_model(&o, i, kerns[k]->name);
            o.r.sampling = SETTINGS[i % 2];
            for (int w = 0; w < 4; w++) {
                char label[96];
                snprintf(label, sizeof label, "%s: %s, chunks of %d", SUBJECTS[i].model, kerns[k]->name, chunks[w]);
                o.r.prefill_chunk = chunks[w];
                say(&o, threads[w], k || w ? &other : &base);
                if (k || w) answer_same(&base, &other, label);
                if (k) break; /* one way each for the others */
            }
            close_model(&o);
        }
}

static void test_drafts(void **state) {
    (void)state;
    static answer base, other;
    static int32_t recorded[LENGTH];
    for (int i = 0; i < SUBJECT_COUNT; i++)
        for (int g = 0; g < 2; g++) {
            opened o;
            open_model(&o, i, NULL);
            o.r.sampling = SETTINGS[g];
            say(&o, 2, &base);
            assert_int_equal(base.n, LENGTH);
            memcpy(recorded, base.ids, sizeof recorded);
            for (int n = 5; n < LENGTH; n += 11) recorded[n] = (recorded[n] + 1) % 190; /* some of them wrong */
            const fore_draft ways[] = {
                {.depth = 0, .lookup = FORE_LOOKUP_ON},
                {.depth = FORE_DRAFT_AUTO},
                {.depth = 1, .replay = recorded, .replay_count = LENGTH},
                {.depth = 3, .replay = recorded, .replay_count = LENGTH},
                {.depth = FORE_DRAFT_MAX, .replay = recorded, .replay_count = LENGTH},
                {.depth = 2},
                {.depth = 5, .lookup = FORE_LOOKUP_ON},
            };
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                char label[96];
                snprintf(label, sizeof label, "%s: way %zu", SUBJECTS[i].model, w);
                o.r.draft = ways[w];
                if (!SUBJECTS[i].head && ways[w].depth > 0 && !ways[w].replay) continue;
                say(&o, 2, &other);
                answer_same(&base, &other, label);
                if (ways[w].replay) assert_true(other.stats.rounds < LENGTH * 2 / 3); /* most were accepted */
            }
            close_model(&o);
        }
}

/* A head that is asked for where there is none, and a picture where nothing sees it. */
static void test_refused(void **state) {
    (void)state;
    static const float patches[4 * 1536];
    for (int i = 0; i < SUBJECT_COUNT; i++) {
        opened o;
        fore_session *s;
        fore_error err = {0};
        open_model(&o, i, NULL);
        assert_int_equal(fore_session_new(o.model, NULL, &s, &err), 0);
        if (!SUBJECTS[i].head) {
            o.r.draft.depth = 3;
            assert_int_equal(fore_session_begin(s, &o.r, &err), FORE_ERR_UNSUPPORTED);
            assert_non_null(strstr(err.text, "no draft head: config.json declares no draft head"));
            o.r.draft.depth = 0;
        }
        if (!o.model->network.config.has_vision) {
            const fore_image image = {.patches = patches, .grid = {1, 2, 2}};
            o.r.images = &image;
            o.r.image_count = 1;
            assert_int_equal(fore_session_begin(s, &o.r, &err), FORE_ERR_UNSUPPORTED);
            assert_non_null(strstr(err.text, "no vision tower"));
            assert_non_null(strstr(err.text, "use a vision-language checkpoint, or graft a tower"));
        }
        fore_session_free(s);
        close_model(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ways), cmocka_unit_test(test_drafts), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("promise/family", tests, NULL, NULL);
}
