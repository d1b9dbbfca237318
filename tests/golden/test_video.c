/* Videos against the reference implementation: logits, positions and spliced rows of prepared patches; prompts, pixels and
 * ids of frames. And the promise: the same answer whatever the chunks, threads and drafts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sodium.h>

#include "base/file.h"
#include "base/json.h"
#include "decode/prepare.h"
#include "support/answer.h"

#define UNTIED FORE_DATA "/models/dense_untied_bf16"
#define VL FORE_DATA "/family/vl_dense_bf16"
#define VIDEO FORE_DATA "/video/"
#define TOLERANCE 1e-4

static void check_trace(const char *dir, const char *path, int chunk) {
    subject s = subject_open(dir, NULL, 512);
    prompt p;
    prompt_open(&p, path);
    assert_true(p.video_count > 0);
    fore_request r;
    prompt_request(&r, s.model, &p);
    r.prefill_chunk = chunk;
    fore_trace *t;
    fore_error err = {0};
    if (fore_session_trace(s.session, &r, &t, &err)) fail_msg("%s", err.text);
    assert_int_equal(t->tokens, p.n);
    assert_memory_equal(t->positions, golden_i32(&p.g, "position_ids", 3 * p.n), 3 * p.n * sizeof(int32_t));
    assert_int_equal(t->delta, *golden_i32(&p.g, "rope_delta", 1));
    golden_compare(&p.g, "inputs_embeds", t->embeddings, p.n * (size_t)t->hidden, TOLERANCE);
    golden_compare(&p.g, "final_norm", t->final_hidden, p.n * (size_t)t->hidden, TOLERANCE);
    golden_compare(&p.g, "logits", t->logits, p.n * (size_t)t->vocab, TOLERANCE);
    fore_trace_free(t);
    /* The answer too, and one pad a temporal patch instead of all of them. */
    size_t steps = golden_count(golden_find(&p.g, "decode.tokens"));
    const int32_t *tokens = golden_i32(&p.g, "decode.tokens", steps);
    int32_t *few = malloc(p.n * sizeof *few);
    size_t n = 0;
    const int32_t pads[2] = {s.model->network.config.image_token_id, s.model->network.config.video_token_id};
    for (size_t i = 0; i < p.n; i++) {
        bool pad = p.ids[i] == pads[0] || p.ids[i] == pads[1];
        if (!pad || !i || p.ids[i - 1] != p.ids[i]) few[n++] = p.ids[i];
    }
    assert_true(n < p.n);
    r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
    r.max_tokens = (int)steps;
    r.ignore_eos = true;
    for (int i = 0; i < 2; i++) {
        static answer a;
        r.ids = i ? few : p.ids;
        r.id_count = i ? n : p.n;
        answer_run(s.session, &r, &a);
        assert_int_equal(a.n, steps);
        assert_memory_equal(a.ids, tokens, steps * sizeof *tokens);
        assert_int_equal(a.stats.videos, p.video_count);
        assert_int_equal(a.stats.images, p.image_count);
        assert_int_equal(a.stats.prompt_tokens, p.n);
        assert_true(a.stats.video_tokens > 0);
        assert_true(a.stats.reused_tokens == 0); /* the same prompt again leaves nothing to compute logits from */
    }
    free(few);
    prompt_close(&p);
    subject_close(&s);
}

static void test_logits(void **state) {
    (void)state;
    check_trace(UNTIED, UNTIED "/golden_video.safetensors", 0);
    check_trace(UNTIED, UNTIED "/golden_video.safetensors", 5);
    check_trace(VL, VIDEO "vl_dense_video.safetensors", 0);
    check_trace(VL, VIDEO "vl_dense_video.safetensors", 3);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

enum { FRAMES = 16 };

typedef struct clip {
    fore_image frames[FRAMES + 1]; /* the last one: the still picture */
    char names[FRAMES + 1][96];
    size_t count;
} clip;

static void read_picture(const char *path, fore_image *out, char name[96]) {
    char *bytes;
    fore_error err = {0};
    *out = (fore_image){.name = name};
    if (fore_file_read(path, 1 << 20, &bytes, &out->size, &err)) fail_msg("%s", err.text);
    snprintf(name, 96, "%s", path);
    out->data = bytes;
}

static void open_clip(clip *c, const char *name, size_t count) {
    char path[96];
    *c = (clip){.count = count};
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, VIDEO "frames/%s%zu.png", name, i);
        read_picture(path, &c->frames[i], c->names[i]);
    }
    read_picture(VIDEO "frames/still.png", &c->frames[FRAMES], c->names[FRAMES]);
}

static void close_clip(clip *c) {
    for (size_t i = 0; i < c->count; i++) free((void *)(uintptr_t)c->frames[i].data);
    free((void *)(uintptr_t)c->frames[FRAMES].data);
}

static void check_ids(const fore_prepared *p, const cJSON *want, const char *what) {
    size_t n = (size_t)cJSON_GetArraySize(want), i = 0;
    const cJSON *id;
    cJSON_ArrayForEach(id, want) {
        if (i < p->n && p->ids[i] != id->valueint) fail_msg("%s: id %zu is %d, not %d", what, i, p->ids[i], id->valueint);
        i++;
    }
    if (p->n != n) fail_msg("%s: %zu ids, not %zu", what, p->n, n);
}

static void check_pixels(const fore_model *m, const fore_request *r, const fore_prepared *p, const cJSON *c) {
    crypto_hash_sha256_state h;
    uint8_t digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof digest + 1];
    crypto_hash_sha256_init(&h);
    const cJSON *grid = fore_json_get(c, "grid");
    int steps = 0;
    for (size_t i = 0; i < p->images; i++) {
        if (!p->origins[i].video) continue;
        float *patches;
        fore_error err = {0};
        if (fore_prepare_patches(m, r, p, i, &patches, &err)) fail_msg("%s", err.text);
        assert_int_equal(p->grids[i][0], 1);
        for (int k = 1; k < 3; k++) assert_int_equal(p->grids[i][k], cJSON_GetArrayItem(grid, k)->valueint);
        crypto_hash_sha256_update(&h, (const uint8_t *)patches, (size_t)p->grids[i][1] * (size_t)p->grids[i][2] * 1536 * sizeof *patches);
        free(patches);
        steps++;
    }
    assert_int_equal(steps, cJSON_GetArrayItem(grid, 0)->valueint);
    crypto_hash_sha256_final(&h, digest);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    assert_string_equal(hex, fore_json_get(c, "sha256")->valuestring);
}

static void test_prompts(void **state) {
    (void)state;
    subject s = subject_open("models/tiny", NULL, 4096);
    const int64_t volume = s.model->video_processor.frame.max_pixels;
    cJSON *tree;
    fore_error err = {0};
    if (fore_json_read(VIDEO "video.json", 1 << 20, &tree, &err)) fail_msg("%s", err.text);
    const cJSON *c;
    int index = 0;
    cJSON_ArrayForEach(c, fore_json_get(tree, "cases")) {
        static clip shown;
        open_clip(&shown, fore_json_get(c, "frames")->valuestring, (size_t)fore_json_get(c, "count")->valueint);
        char *messages = cJSON_PrintUnformatted(fore_json_get(c, "messages")), *text, label[32];
        char *options = cJSON_PrintUnformatted(fore_json_get(c, "options"));
        const fore_video video = {.frames = shown.frames, .frame_count = shown.count, .fps = fore_json_get(c, "fps")->valuedouble,
                                  .every_frame = !cJSON_IsTrue(fore_json_get(c, "sample"))};
        fore_request r;
        size_t size;
        fore_request_init(&r, s.model);
        r.messages = messages;
        r.options = options;
        r.videos = &video;
        r.video_count = 1;
        r.images = &shown.frames[FRAMES];
        r.image_count = (size_t)index % 2;
        const cJSON *most = fore_json_get(fore_json_get(c, "size"), "longest_edge");
        s.model->video_processor.frame.max_pixels = most ? most->valueint : volume;
        assert_int_equal(fore_model_render(s.model, &r, &text, &size, &err), 0);
        assert_string_equal(text, fore_json_get(c, "rendered")->valuestring);
        fore_free(text);
        for (int nested = 0; nested < 2; nested++) {
            fore_prepared p;
            r.nested_videos = nested;
            if (fore_prepare(s.model, &r, 0, &p, &err)) fail_msg("case %d: %s", index, err.text);
            snprintf(label, sizeof label, "case %d, %s", index, nested ? "nested" : "flat");
            check_ids(&p, fore_json_get(c, nested ? "nested" : "flat"), label);
            check_pixels(s.model, &r, &p, c);
            fore_prepared_free(&p);
        }
        cJSON_free(messages);
        cJSON_free(options);
        close_clip(&shown);
        index++;
    }
    assert_int_equal(index, 6);
    cJSON_Delete(tree);
    subject_close(&s);
}

/* ---- the promise ------------------------------------------------------------------------------------------------- */

static void test_promise(void **state) {
    (void)state;
    static clip shown;
    static answer base, other, text_only;
    open_clip(&shown, "wide", 7);
    const fore_video video = {.frames = shown.frames, .frame_count = shown.count, .fps = 2};
    fore_request r;
    fore_error err = {0};
    bool first = true;
    uint64_t drafted = 0;
    for (int threads = 1; threads <= 3; threads += 2) {
        fore_model *model;
        fore_session *session;
        const fore_session_options so = {.threads = threads, .context = 1024};
        if (fore_model_open("models/tiny", NULL, &model, &err) || fore_session_new(model, &so, &session, &err)) fail_msg("%s", err.text);
        fore_request_init(&r, model);
        r.videos = &video;
        r.video_count = 1;
        r.images = &shown.frames[FRAMES];
        r.image_count = 1;
        r.messages = "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"video\"},{\"type\":\"text\",\"text\":\"Describe it.\"}]}]";
        r.sampling = (fore_sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 5};
        r.max_tokens = 40;
        r.ignore_eos = true;
        static const int depths[] = {0, 1, 3, FORE_DRAFT_MAX, FORE_DRAFT_AUTO}, chunks[] = {0, 1, 7, 32, 0};
        for (int i = 0; i < 5; i++) {
            r.draft.depth = depths[i];
            r.prefill_chunk = chunks[i];
            answer_run(session, &r, first ? &base : &other);
            char way[64];
            snprintf(way, sizeof way, "%d threads, depth %d, chunk %d", threads, depths[i], chunks[i]);
            if (!first) answer_same(&base, &other, way);
            for (int d = 0; d < FORE_DRAFT_MAX; d++) drafted += other.stats.draft[1].drafted[d];
            assert_int_equal(other.stats.draft[0].rounds, 0);
            first = false;
        }
        assert_int_equal(base.stats.videos, 1);
        assert_int_equal(base.stats.video_frames, 7);
        assert_int_equal(base.stats.images, 1);
        /* The same conversation goes on: what was seen is not computed again. */
        answer_run(session, &r, &other);
        char *more = NULL;
        assert_true(asprintf(&more, "%.*s,{\"role\":\"assistant\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"And?\"}]",
                             (int)strlen(r.messages) - 1, r.messages) > 0);
        r.messages = more;
        r.draft.depth = 0;
        answer_run(session, &r, &other);
        fore_session *cold;
        if (fore_session_new(model, &so, &cold, &err)) fail_msg("%s", err.text);
        answer_run(cold, &r, &text_only);
        answer_same(&text_only, &other, "after another answer");
        fore_session_free(cold);
        free(more);
        fore_session_free(session);
        fore_model_close(model);
    }
    assert_true(drafted > 0);
    close_clip(&shown);
}

/* A prefix is gone on with only when it showed the same frames. */
static void test_reuse(void **state) {
    (void)state;
    static answer warm, cold;
    prompt p;
    prompt_open(&p, UNTIED "/golden_video.safetensors");
    subject a = subject_open(UNTIED, NULL, 512), b = subject_open(UNTIED, NULL, 512);
    size_t rows = 0;
    for (size_t i = 0; i < p.video_count; i++) rows += (size_t)(p.videos[i].grid[0] * p.videos[i].grid[1] * p.videos[i].grid[2]);
    float *changed = malloc(rows * 1536 * sizeof *changed);
    memcpy(changed, p.videos[0].patches, rows * 1536 * sizeof *changed);
    changed[rows * 1536 - 1] += 1; /* of the last frame of the last video */
    int32_t *longer = malloc((p.n + 2) * sizeof *longer);
    memcpy(longer, p.ids, p.n * sizeof *longer);
    fore_request r;
    prompt_request(&r, a.model, &p);
    r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
    r.max_tokens = 1;
    r.ignore_eos = true;
    answer_run(a.session, &r, &warm);
    longer[p.n] = warm.ids[0];
    longer[p.n + 1] = 5;
    r.ids = longer;
    r.id_count = p.n + 2;
    r.max_tokens = 12;
    for (int round = 0; round < 2; round++) {
        fore_video videos[4];
        memcpy(videos, p.videos, sizeof videos);
        if (round) { /* the same ids, another frame */
            fore_session_free(a.session);
            fore_error err = {0};
            const fore_session_options so = {.threads = 2, .context = 512};
            assert_int_equal(fore_session_new(a.model, &so, &a.session, &err), 0);
            r.ids = p.ids;
            r.id_count = p.n;
            r.max_tokens = 1;
            r.videos = p.videos;
            answer_run(a.session, &r, &warm);
            r.ids = longer;
            r.id_count = p.n + 2;
            r.max_tokens = 12;
            size_t before = 0;
            for (size_t i = 0; i < p.video_count; i++) {
                videos[i].patches = changed + before * 1536;
                before += (size_t)(videos[i].grid[0] * videos[i].grid[1] * videos[i].grid[2]);
            }
        }
        r.videos = videos;
        answer_run(a.session, &r, &warm);
        if (round) assert_int_equal(warm.stats.reused_tokens, 0);
        else assert_true(warm.stats.reused_tokens >= p.n);
        answer_run(b.session, &r, &cold);
        answer_same(&cold, &warm, round ? "another frame" : "a reused prefix");
    }
    free(changed);
    free(longer);
    prompt_close(&p);
    subject_close(&a);
    subject_close(&b);
}

/* What a request with videos can have wrong, each with its message; the session goes on. */
static void test_refused(void **state) {
    (void)state;
    static clip shown;
    static answer a;
    static const float patches[2 * 4 * 1536];
    static const double times[] = {0.5, 1.5}, bad[] = {0.5, NAN};
    open_clip(&shown, "wide", 4);
    subject s = subject_open("models/tiny", NULL, 512);
    const fore_video good = {.frames = shown.frames, .frame_count = 4, .fps = 2};
    static const char one[] = "[{\"role\":\"user\",\"content\":[{\"type\":\"video\"}]}]";
    for (int i = 0;; i++) {
        fore_request r;
        fore_error err = {0};
        fore_request_init(&r, s.model);
        fore_video videos[2] = {good, good};
        r.messages = one;
        r.videos = videos;
        r.video_count = 1;
        r.max_tokens = 2;
        const char *part = NULL;
        switch (i) {
        case 0: r.video_count = 0, part = "it places 1 video frame group, none was given"; break;
        case 1: r.video_count = 2, part = "2 videos given, the prompt places 1"; break;
        case 2: r.messages = NULL, r.prompt = "x", part = "1 video given, the prompt places 0; the template may not know videos"; break;
        case 3: r.limits.video_count = 1, r.video_count = 2, part = "2 videos, the limit is 1"; break;
        case 4: r.limits.video_frames = 3, part = "4 frames, the limit is 3"; break;
        case 5: videos[0] = (fore_video){.patches = patches, .grid = {2, 2, 2}}, part = "needs the seconds of each of its 2"; break;
        case 6: videos[0] = (fore_video){.patches = patches, .grid = {2, 2, 2}, .times = bad}, part = "needs the seconds"; break;
        case 7: videos[0] = (fore_video){.patches = patches, .grid = {2, 1, 4}, .times = times}, part = "grid 2x1x4 is out of range"; break;
        case 8: videos[0] = (fore_video){.patches = patches, .grid = {1 << 20, 2, 2}, .times = times}, part = "is out of range"; break;
        case 9: s.model->video_processor.frame.patch_size = 14, part = "video processor's patch, temporal and merge sizes are 14, 2, 2"; break;
        case 10: s.model->video_processor.frame.patch_size = 16, videos[0].times = times, videos[0].frame_count = 2; break;
        case 11: videos[0] = (fore_video){.patches = patches, .grid = {2, 2, 2}, .times = times}; break;
        default:
            close_clip(&shown);
            subject_close(&s);
            return;
        }
        if (!part) {
            answer_run(s.session, &r, &a);
            assert_int_equal(a.stats.videos, 1);
            continue;
        }
        if (!fore_session_begin(s.session, &r, &err) || !strstr(err.text, part)) fail_msg("case %d: \"%s\", not \"%s\"", i, err.text, part);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_logits), cmocka_unit_test(test_prompts), cmocka_unit_test(test_promise),
                                       cmocka_unit_test(test_reuse),  cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("video", tests, NULL, NULL);
}
