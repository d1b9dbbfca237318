/* What drafts cost and where they come from never changes an answer: token ids, text and state are those of depth 0 with look-ups
 * or without, alone or behind the head's drafts, with pictures, repeated text, penalties, seeds, and over several turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "support/answer.h"

typedef struct way {
    const char *name;
    fore_draft draft;
} way;

static const way WAYS[] = {
    {"look-ups alone", {.depth = 0, .lookup = FORE_LOOKUP_ON}},
    {"one draft, look-ups", {.depth = 1, .lookup = FORE_LOOKUP_ON}},
    {"three drafts, look-ups", {.depth = 3, .lookup = FORE_LOOKUP_ON}},
    {"eight drafts, look-ups", {.depth = FORE_DRAFT_MAX, .lookup = FORE_LOOKUP_ON}},
    {"wrong drafts and look-ups", {.depth = 2, .lookup = FORE_LOOKUP_ON, .wrong = true}},
    {"auto", {.depth = FORE_DRAFT_AUTO}},
    {"auto without look-ups", {.depth = FORE_DRAFT_AUTO, .lookup = FORE_LOOKUP_OFF}},
    {"auto, wrong", {.depth = FORE_DRAFT_AUTO, .wrong = true}},
};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static const fore_sampling SETTINGS[] = {
    {.temperature = 0, .top_p = 1, .repetition_penalty = 1},
    {.temperature = 0, .top_p = 1, .repetition_penalty = 1.3f, .presence_penalty = 0.5f},
    {.temperature = 0.6f, .top_p = 0.9f, .top_k = 40, .repetition_penalty = 1, .seed = 7},
    {.temperature = 1.0f, .top_p = 1, .min_p = 0.02f, .repetition_penalty = 1.1f, .frequency_penalty = 0.3f, .seed = 8},
};
enum { SETTING_COUNT = sizeof SETTINGS / sizeof *SETTINGS };

static fore_source_stats seen; /* look-ups of all answers */

/* The request in every way against depth 0, each from an empty session. */
static void all_ways(fore_session *s, fore_request *r) {
    answer base, other;
    fore_session_reset(s);
    r->draft = (fore_draft){.depth = 0};
    answer_run(s, r, &base);
    assert_int_equal(base.stats.lookups.drafted + base.stats.head.drafted, 0);
    size_t base_size, other_size;
    unsigned char *base_state = timeline_bytes(s, &base_size);
    for (int i = 0; i < WAY_COUNT; i++) {
        const fore_draft *d = &WAYS[i].draft;
        bool head = s->model->mtp.attached;
        r->draft = *d;
        if (!head && d->depth > 0) continue;
        fore_session_reset(s);
        answer_run(s, r, &other);
        answer_same(&base, &other, WAYS[i].name);
        unsigned char *other_state = timeline_bytes(s, &other_size);
        if (base_size != other_size || memcmp(base_state, other_state, base_size)) fail_msg("%s: another state", WAYS[i].name);
        free(other_state);
        const fore_source_stats *look = &other.stats.lookups, *own = &other.stats.head;
        if (d->lookup == FORE_LOOKUP_OFF) assert_int_equal(look->drafted, 0);
        if (d->depth == 0 || !head) assert_int_equal(own->drafted + own->dropped, 0);
        if (d->depth >= 0) assert_int_equal(own->dropped, 0);
        uint64_t drafted = 0;
        for (int k = 0; k < FORE_DRAFT_MAX; k++) drafted += other.stats.draft[0].drafted[k] + other.stats.draft[1].drafted[k];
        assert_int_equal(drafted, look->drafted + own->drafted);
        if (d->wrong) continue;
        seen.drafted += look->drafted;
        seen.accepted += look->accepted;
    }
    free(base_state);
}

static int every = 1; /* settings: each, or only the first and the last */

static void all_settings(fore_session *s, fore_request *r) {
    for (int i = 0; i < SETTING_COUNT; i += every) {
        r->sampling = SETTINGS[i];
        r->prefill_chunk = i % 2 ? 7 : 0;
        all_ways(s, r);
    }
}

static const char LIST[] = "<|im_start|>user\nReverse the list: river, gold, moon, car, river, gold, moon, car, river, gold, moon.<|im_end|>\n"
                           "<|im_start|>assistant\n<think>\n\n</think>\n\nriver, gold, moon, car, river, gold,";

static void check_tiny(const char *name, const fore_model_options *o) {
    subject s = subject_open("models/tiny", o, 512);
    seen = (fore_source_stats){0};
    fore_request r;
    fore_request_init(&r, s.model);
    r.prompt = LIST;
    r.max_tokens = 90;
    r.ignore_eos = true;
    all_settings(s.session, &r);
    fore_image images[2] = {{0}};
    char *files[2];
    fore_error err;
    if (fore_file_read("tests/samples/s06_a.png", 1 << 20, &files[0], &images[0].size, &err) ||
        fore_file_read("tests/samples/s06_b.png", 1 << 20, &files[1], &images[1].size, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) images[i].data = files[i];
    r.images = images;
    r.image_count = 2;
    r.prompt = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>Compare the two pictures.<|im_end|>\n"
               "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    all_settings(s.session, &r);
    r.prompt = "<|im_start|>user\nBoth <|vision_start|><|image_pad|><|image_pad|>"; /* ends in pads */
    all_settings(s.session, &r);
    print_message("%s: %d look-ups, %d of them right\n", name, (int)seen.drafted, (int)seen.accepted);
    assert_true(seen.accepted > 60 && seen.drafted > seen.accepted);
    free(files[0]);
    free(files[1]);
    subject_close(&s);
}

static void test_tiny(void **state) {
    (void)state;
    check_tiny("with the head", NULL);
}
static void test_no_head(void **state) {
    (void)state;
    check_tiny("no head", &(fore_model_options){.no_mtp = true});
}

/* Draft vocabularies: some ids at 4 bits, hardly any in the model's own bits, all at 8. */
static void test_vocabularies(void **state) {
    (void)state;
    every = SETTING_COUNT - 1;
    check_tiny("300 ids, 4 bits", &(fore_model_options){.draft_head_bits = 4, .draft_vocabulary = 300});
    check_tiny("40 ids", &(fore_model_options){.draft_head_bits = 16, .draft_vocabulary = 40});
    check_tiny("all ids, 8 bits", &(fore_model_options){.draft_head_bits = 8});
    every = 1;
}

/* Random weights: greedy answers that fall into circles, in which look-ups are right. */
static void test_random(void **state) {
    (void)state;
    static const char *const dirs[] = {FORE_DATA "/models/dense_untied_bf16", FORE_DATA "/moe/moe_bf16"};
    for (int i = 0; i < 2; i++) {
        subject s = subject_open(dirs[i], NULL, 512);
        char path[300];
        prompt p;
        snprintf(path, sizeof path, "%s/golden_mm.safetensors", dirs[i]);
        prompt_open(&p, path);
        fore_request r;
        prompt_request(&r, s.model, &p);
        r.ignore_eos = true;
        r.max_tokens = 120;
        all_settings(s.session, &r);
        prompt_close(&p);
        subject_close(&s);
    }
}

/* Turns of one session: the index follows what is kept, what is new and what is another prompt; ways take turns. */
static void test_turns(void **state) {
    (void)state;
    static const char *const turns[] = {"Say: one two three four.", "Say: one two three four five.", "Count from 7 to 14."};
    enum { TURNS = 3 };
    static answer base[2 * TURNS];
    for (int plan = -1; plan < WAY_COUNT; plan++) {
        subject s = subject_open("models/tiny", NULL, 512);
        for (int t = 0; t < 2 * TURNS; t++) {
            static char talk[8192];
            if (t % TURNS == 0) talk[0] = 0; /* the second half is another conversation */
            size_t n = strlen(talk);
            snprintf(talk + n, sizeof talk - n, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", turns[(t + t / TURNS) % TURNS]);
            fore_request r;
            fore_request_init(&r, s.model);
            r.prompt = talk;
            r.max_tokens = 40;
            r.draft = (fore_draft){.depth = 0};
            if (plan >= 0) r.draft = WAYS[(plan + t) % WAY_COUNT].draft;
            static answer a;
            answer_run(s.session, &r, &a);
            if (plan < 0) base[t] = a;
            else answer_same(&base[t], &a, WAYS[(plan + t) % WAY_COUNT].name);
            if (s.session->lookups) {
                assert_int_equal(s.session->lookup.length, s.session->state.length + 1);
                assert_memory_equal(s.session->lookup.ids, s.session->ids, (size_t)s.session->state.length * sizeof(int32_t));
                assert_int_equal(s.session->lookup.ids[s.session->state.length], s.session->pending);
            }
            n = strlen(talk);
            snprintf(talk + n, sizeof talk - n, "%s<|im_end|>\n", a.text);
        }
        subject_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_no_head),
        cmocka_unit_test(test_vocabularies),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests_name("promise/economy", tests, NULL, NULL);
}
