/* Drafting never changes an answer: token ids, text and the state left behind are equal, bit for bit, at every depth, for the
 * trained model and the random ones, with pictures and without, greedy and sampled, wherever the answer ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "support/answer.h"

#define MODELS FORE_DATA "/models/"
#define MOE FORE_DATA "/moe/moe_bf16"
static void same_at(const answer *a, const answer *b, int depth) {
    char way[24];
    snprintf(way, sizeof way, "depth %d", depth);
    answer_same(a, b, way);
}

/* Every depth and auto against depth 0, always from an empty session. */
static void all_depths(fore_session *s, fore_request *r) {
    answer base, other;
    fore_session_reset(s);
    r->draft.depth = 0;
    answer_run(s, r, &base);
    size_t base_size, other_size;
    unsigned char *base_state = timeline_bytes(s, &base_size);
    for (int depth = FORE_DRAFT_AUTO; depth <= FORE_DRAFT_MAX; depth++) {
        if (depth == 0) continue;
        fore_session_reset(s);
        r->draft.depth = depth;
        answer_run(s, r, &other);
        same_at(&base, &other, depth);
        unsigned char *other_state = timeline_bytes(s, &other_size);
        if (base_size != other_size || memcmp(base_state, other_state, base_size)) fail_msg("depth %d: another state", depth);
        free(other_state);
        if (depth > 0 && base.n > 20) assert_true(other.stats.draft[0].rounds + other.stats.draft[1].rounds > 0);
    }
    free(base_state);
}

static const fore_sampling SETTINGS[] = {
    {.temperature = 0, .top_p = 1, .repetition_penalty = 1},
    {.temperature = 0, .top_p = 1, .repetition_penalty = 1.3f, .presence_penalty = 0.5f},
    {.temperature = 0.3f, .top_p = 1, .repetition_penalty = 1},
    {.temperature = 0.7f, .top_p = 0.9f, .top_k = 40, .repetition_penalty = 1},
    {.temperature = 1.0f, .top_p = 1, .min_p = 0.02f, .repetition_penalty = 1.1f, .frequency_penalty = 0.3f},
    {.temperature = 1.5f, .top_p = 0.95f, .top_k = 100, .repetition_penalty = 1},
};
enum { SETTING_COUNT = sizeof SETTINGS / sizeof *SETTINGS };

static subject open_subject(const char *dir, int context) {
    subject s = subject_open(dir, NULL, context);
    assert_true(s.model->mtp.attached);
    return s;
}

/* 200 tokens after a golden prompt, each setting with its own seeds. */
static void check_files(const char *dir, const char *path) {
    subject s = open_subject(dir, 512);
    prompt p;
    prompt_open(&p, path);
    fore_request r;
    prompt_request(&r, s.model, &p);
    r.ignore_eos = true;
    r.max_tokens = 200;
    for (int i = 0; i < SETTING_COUNT; i++) {
        r.sampling = SETTINGS[i];
        r.sampling.seed = (uint64_t)i;
        r.prefill_chunk = i % 2 ? 7 : 0;
        all_depths(s.session, &r);
    }
    prompt_close(&p);
    subject_close(&s);
}

static void check_golden(const char *model, const char *which) {
    char dir[256], path[300];
    snprintf(dir, sizeof dir, MODELS "%s", model);
    snprintf(path, sizeof path, "%s/golden_%s.safetensors", dir, which);
    check_files(dir, path);
}

static void test_untied_bf16(void **state) {
    (void)state;
    check_golden("dense_untied_bf16", "mm");
}
static void test_tied_f32(void **state) {
    (void)state;
    check_golden("dense_tied_f32", "mm");
}
static void test_sharded_bf16(void **state) {
    (void)state;
    check_golden("dense_sharded_bf16", "mm");
}

/* Rows of a window go to other experts together than one by one. */
static void test_experts(void **state) {
    (void)state;
    check_files(MOE, MOE "/golden_mm.safetensors");
    check_files(MOE "_numbered", MOE "/golden_text.safetensors");
}

static const char TALK[] = "<|im_start|>user\nTell a story about a fox named Mia, a river and a red ball.<|im_end|>\n<|im_start|>assistant\n"
                           "<think>\n\n</think>\n\n";

/* 20 seeds and more, at temperatures that accept nearly all drafts and nearly none. */
static void test_tiny_seeds(void **state) {
    (void)state;
    subject s = open_subject("models/tiny", 512);
    fore_request r;
    fore_request_init(&r, s.model);
    r.prompt = TALK;
    r.ignore_eos = true;
    r.max_tokens = 200;
    for (uint64_t seed = 0; seed < 21; seed++) {
        r.sampling = SETTINGS[seed % SETTING_COUNT];
        if (seed >= 15) r.sampling.temperature *= 3;
        r.sampling.seed = seed * 7919;
        all_depths(s.session, &r);
    }
    subject_close(&s);
}

static char *load(const char *path, size_t *size) {
    char *data;
    fore_error err;
    if (fore_file_read(path, 1 << 20, &data, size, &err)) fail_msg("%s", err.text);
    return data;
}

/* Pictures, also one that the prompt ends in. */
static void test_tiny_pictures(void **state) {
    (void)state;
    subject s = open_subject("models/tiny", 512);
    fore_image images[2] = {{0}};
    char *a = load("tests/samples/s06_a.png", &images[0].size), *b = load("tests/samples/s06_b.png", &images[1].size);
    images[0].data = a;
    images[1].data = b;
    static const struct {
        const char *text;
        size_t images;
    } prompts[] = {
        {"<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>Compare the two pictures.<|im_end|>\n"
         "<|im_start|>assistant\n<think>\n\n</think>\n\n", 2},
        {"<|im_start|>user\nDescribe <|vision_start|><|image_pad|>", 1},
        {"<|im_start|>user\nBoth <|vision_start|><|image_pad|><|image_pad|>", 2},
    };
    for (size_t i = 0; i < 3; i++)
        for (int k = 0; k < SETTING_COUNT; k += i ? 2 : 1) {
            fore_request r;
            fore_request_init(&r, s.model);
            r.prompt = prompts[i].text;
            r.images = images;
            r.image_count = prompts[i].images;
            r.sampling = SETTINGS[k];
            r.sampling.seed = (uint64_t)(k * 10) + i;
            r.max_tokens = 120;
            r.ignore_eos = i > 0;
            r.prefill_chunk = k % 3 == 1 ? 5 : 0;
            all_depths(s.session, &r);
        }
    free(a);
    free(b);
    subject_close(&s);
}

/* Ends of every kind inside an accepted window: every token count, a stop string, an end token, a full context. */
static void test_ends(void **state) {
    (void)state;
    subject s = open_subject("models/tiny", 512);
    fore_request r;
    fore_request_init(&r, s.model);
    r.prompt = "<|im_start|>user\nCount from 7 to 14.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    for (int n = 1; n <= 14; n++) {
        r.max_tokens = n;
        all_depths(s.session, &r);
    }
    r.max_tokens = 100;
    all_depths(s.session, &r); /* the end token */
    static const char *const stops[] = {"9", "1, 1", "10,", " 12", "never"};
    for (size_t i = 0; i < 5; i++) {
        r.stop = stops + i;
        r.stop_count = 1;
        all_depths(s.session, &r);
    }
    r.stop_count = 0;
    subject_close(&s);
    for (int context = 30; context <= 40; context += 2) {
        s = open_subject("models/tiny", context);
        r.ignore_eos = true;
        r.max_tokens = 0;
        all_depths(s.session, &r);
        subject_close(&s);
    }
}

/* Drafts that are all wrong, drafts replayed from the answer, and denied inputs: the text stays. */
static void test_experiments(void **state) {
    (void)state;
    subject s = open_subject("models/tiny", 512);
    answer base, other;
    fore_request r;
    fore_request_init(&r, s.model);
    r.prompt = TALK;
    r.max_tokens = 60;
    r.draft.depth = 0;
    answer_run(s.session, &r, &base);
    for (int depth = 1; depth <= FORE_DRAFT_MAX; depth++) {
        fore_session_reset(s.session);
        r.draft = (fore_draft){.depth = depth, .wrong = true};
        answer_run(s.session, &r, &other);
        same_at(&base, &other, depth);
        assert_int_equal(other.stats.draft[0].accepted[0], 0);
        assert_true(other.stats.draft[0].rounds >= base.n - 2);
        fore_session_reset(s.session);
        r.draft = (fore_draft){.depth = depth, .replay = base.ids, .replay_count = base.n};
        answer_run(s.session, &r, &other);
        same_at(&base, &other, depth);
        assert_int_equal(other.stats.draft[0].accepted[0], other.stats.draft[0].drafted[0]);
        assert_true(other.stats.rounds <= base.n / (size_t)(depth + 1) + 1);
        for (unsigned ablate = 1; ablate < 8; ablate++) {
            fore_session_reset(s.session);
            r.draft = (fore_draft){.depth = depth, .ablate = ablate};
            answer_run(s.session, &r, &other);
            same_at(&base, &other, depth);
        }
    }
    subject_close(&s);
}

/* Turns that follow each other with other depths: the history goes on or begins anew, the answers stay. */
static void test_turns(void **state) {
    (void)state;
    static const char *const turns[] = {"Hello!", "Count from 7 to 14.", "Reverse the list: river, gold, moon, car."};
    static const int plans[][3] = {{0, 0, 0}, {3, 3, 3}, {0, 3, 0}, {3, 0, 3}, {1, 8, 2}, {FORE_DRAFT_AUTO, FORE_DRAFT_AUTO, FORE_DRAFT_AUTO}};
    answer base[3];
    for (size_t plan = 0; plan < sizeof plans / sizeof *plans; plan++) {
        subject s = open_subject("models/tiny", 512);
        char talk[8192] = "";
        for (int t = 0; t < 3; t++) {
            size_t n = strlen(talk);
            snprintf(talk + n, sizeof talk - n, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", turns[t]);
            fore_request r;
            fore_request_init(&r, s.model);
            r.prompt = talk;
            r.max_tokens = 60;
            r.draft.depth = plans[plan][t];
            answer a;
            answer_run(s.session, &r, &a);
            if (plan == 0) base[t] = a;
            else same_at(&base[t], &a, plans[plan][t]);
            if (t) assert_true(a.stats.reused_tokens > 0);
            if (plan == 3 && t == 2) assert_true(a.stats.history_missing > 0); /* the second turn was not followed */
            if (plan == 1) assert_int_equal(a.stats.history_missing, 0);
            n = strlen(talk);
            snprintf(talk + n, sizeof talk - n, "%s<|im_end|>\n", a.text);
        }
        subject_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untied_bf16), cmocka_unit_test(test_tied_f32),      cmocka_unit_test(test_sharded_bf16),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_tiny_seeds),  cmocka_unit_test(test_tiny_pictures), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_experiments), cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests_name("promise/draft", tests, NULL, NULL);
}
