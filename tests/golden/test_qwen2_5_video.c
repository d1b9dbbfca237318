/* Videos of Qwen2.5-VL, given as frames, against the reference's processor and model: which frames are taken, how large, by which
 * settings; ids, pixels, positions, logits. And the promise: the same answer whatever the chunks, threads, sets, drafts and what a
 * session has seen before. */
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
#include "support/scratch.h"

#define DATA FORE_DATA "/qwen2_5_video/"
#define CLIPS DATA "clips"
#define FRAMES_OF FORE_DATA "/video/frames/"
enum { PATCH = 3 * 2 * 14 * 14, FRAMES = 10, CONTEXT = 512 };

static const fore_processor_family FAMILY = {.qwen2_5 = true, .patch_size = 14, .temporal_patch_size = 2, .merge_size = 2};

static const cJSON *table(const char *name) {
    static cJSON *tree;
    fore_error err = {0};
    if (!tree && fore_json_read(DATA "video.json", 1 << 20, &tree, &err)) fail_msg("%s", err.text);
    if (!name) {
        cJSON_Delete(tree);
        tree = NULL;
    }
    return fore_json_get(tree, name);
}

static double at(const cJSON *row, int i) { return cJSON_GetArrayItem(row, i)->valuedouble; }
static double number(const cJSON *object, const char *name) { return fore_json_get(object, name)->valuedouble; }

static fore_video_processor settings(void) {
    fore_video_processor p;
    assert_int_equal(fore_video_processor_read("/nowhere", &FAMILY, &p, NULL), 0);
    return p;
}

/* ---- which frames, how large ------------------------------------------------------------------------------------- */

static void test_sampling(void **state) {
    (void)state;
    const cJSON *row;
    int rows = 0, refused = 0;
    cJSON_ArrayForEach(row, table("sampling")) {
        fore_video_processor p = settings();
        p.min_frames = (int)at(row, 3);
        p.max_frames = (int)at(row, 4);
        p.num_frames = (int)at(row, 5);
        p.frame.temporal_patch_size = (int)at(row, 6);
        const cJSON *want = cJSON_GetArrayItem(row, 7);
        size_t *indices, count;
        fore_error err = {0};
        fore_status s = fore_video_sample(&p, (size_t)at(row, 0), at(row, 1), at(row, 2), &indices, &count, &err);
        rows++;
        if (cJSON_IsNull(want)) {
            assert_int_equal(s, FORE_ERR_INVALID);
            assert_null(indices);
            refused++;
            continue;
        }
        if (s) fail_msg("row %d: %s", rows, err.text);
        assert_int_equal(count, cJSON_GetArraySize(want));
        size_t i = 0;
        const cJSON *index;
        cJSON_ArrayForEach(index, want) {
            if ((double)indices[i] != index->valuedouble) fail_msg("row %d, frame %zu: %zu, not %g", rows, i, indices[i], index->valuedouble);
            i++;
        }
        free(indices);
    }
    assert_true(rows == 97 && refused == 5);
    /* Where the reference's own list has one frame too many: as many as it means, all of them there and none twice. */
    const fore_video_processor p = settings();
    for (size_t total = 4; total < 300; total++)
        for (double wanted = 4; wanted <= (double)total; wanted += 2) {
            size_t *indices, count;
            assert_int_equal(fore_video_sample(&p, total, (double)total, wanted, &indices, &count, NULL), 0);
            assert_true((double)count <= wanted && (double)count > wanted - 4 && indices[0] == 0);
            for (size_t i = 1; i < count; i++) assert_true(indices[i] > indices[i - 1] && indices[i] < total);
            free(indices);
        }
}

static void test_sizes(void **state) {
    (void)state;
    const cJSON *row;
    int rows = 0, refused = 0;
    cJSON_ArrayForEach(row, table("sizes")) {
        fore_video_processor p = settings();
        p.frame.min_pixels = (int64_t)at(row, 3);
        p.frame.max_pixels = (int64_t)at(row, 4);
        p.cap_frames = cJSON_IsTrue(cJSON_GetArrayItem(row, 5));
        p.max_tokens = (int)at(row, 6);
        const cJSON *want = cJSON_GetArrayItem(row, 7);
        int h = 0, w = 0;
        fore_error err = {0};
        fore_status s = fore_video_size(&p, (size_t)at(row, 0), (int)at(row, 1), (int)at(row, 2), "v", &h, &w, &err);
        rows++;
        if (cJSON_IsNull(want)) {
            assert_int_equal(s, FORE_ERR_LIMIT);
            refused++;
            continue;
        }
        if (s) fail_msg("row %d: %s", rows, err.text);
        if (h != (int)at(want, 0) || w != (int)at(want, 1)) fail_msg("row %d: %dx%d, not %gx%g", rows, w, h, at(want, 1), at(want, 0));
    }
    assert_true(rows == 160 && refused == 8);
    fore_video_processor p = settings();
    int h, w;
    p.frame.do_resize = false;
    assert_int_equal(fore_video_size(&p, 1, 56, 84, "v", &h, &w, NULL), 0);
    assert_true(h == 56 && w == 84);
    assert_int_equal(fore_video_size(&p, 1, 56, 70, "v", &h, &w, NULL), FORE_ERR_INVALID);
    assert_int_equal(fore_video_size(&p, 0, 56, 84, "v", &h, &w, NULL), FORE_ERR_INVALID);
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void put(const scratch *dir, const char *file, const char *text) { scratch_write(dir, file, text, strlen(text)); }

static void test_settings(void **state) {
    (void)state;
    const cJSON *row, *file;
    int rows = 0;
    cJSON_ArrayForEach(row, table("settings")) {
        scratch dir;
        scratch_make(&dir);
        cJSON_ArrayForEach(file, cJSON_GetArrayItem(row, 1)) {
            char *text = cJSON_PrintUnformatted(file);
            put(&dir, file->string, text);
            cJSON_free(text);
        }
        fore_processor_family family = FAMILY;
        family.qwen2_5 = !strcmp(cJSON_GetArrayItem(row, 0)->valuestring, "qwen2_5_vl");
        const cJSON *want = cJSON_GetArrayItem(row, 2);
        fore_video_processor p;
        fore_error err = {0};
        if (fore_video_processor_read(dir.dir, &family, &p, &err)) fail_msg("%s", err.text);
        assert_int_equal(p.kind, strcmp(fore_json_get(want, "kind")->valuestring, "Qwen2VLVideoProcessor") ? FORE_VIDEO_QWEN3 : FORE_VIDEO_QWEN2);
        assert_true(p.frame.patch_size == (int)number(want, "patch_size") && p.frame.mean[0] == (float)number(want, "mean"));
        assert_true((double)p.frame.min_pixels == number(want, "min_pixels") && (double)p.frame.max_pixels == number(want, "max_pixels"));
        assert_true(p.fps == number(want, "fps") && p.num_frames == (int)number(want, "num_frames") && p.max_tokens == (int)number(want, "tokens"));
        assert_true(p.min_frames == (int)number(want, "min_frames") && p.max_frames == (int)number(want, "max_frames"));
        assert_int_equal(p.samples, cJSON_IsTrue(fore_json_get(want, "samples")));
        assert_int_equal(p.cap_frames, cJSON_IsTrue(fore_json_get(want, "cap")));
        scratch_remove(&dir);
        rows++;
    }
    assert_int_equal(rows, 27);
}

/* A folder without files is cut as the family's published ones, for the tower that it has. */
static void test_without_files(void **state) {
    (void)state;
    fore_processor p;
    fore_processor_family family = FAMILY;
    family.patch_size = 12;
    assert_int_equal(fore_processor_read("/nowhere", &family, &p, NULL), 0);
    assert_true(p.patch_size == 12 && p.min_pixels == 3136 && p.max_pixels == 12845056 && p.mean[0] == 0.48145466f);
    fore_video_processor v = settings();
    assert_true(v.kind == FORE_VIDEO_QWEN2 && v.frame.patch_size == 14 && v.frame.min_pixels == 3136 && v.frame.max_pixels == 12845056 &&
                v.frame.mean[0] == 0.48145466f && !v.samples);
    family = (fore_processor_family){.patch_size = 14, .temporal_patch_size = 3, .merge_size = 1};
    assert_int_equal(fore_processor_read("/nowhere", &family, &p, NULL), 0);
    assert_true(p.patch_size == 14 && p.temporal_patch_size == 3 && p.merge_size == 1 && p.max_pixels == 16777216 && p.mean[0] == 0.5f);
    /* The whole model: the same with the published file and without; another patch is refused. */
    static const char *const files[] = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                                        "chat_template.json"};
    scratch dir;
    scratch_make(&dir);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256];
        snprintf(path, sizeof path, CLIPS "/%s", files[i]);
        scratch_copy(&dir, path, files[i]);
    }
    subject with = subject_open(CLIPS, NULL, CONTEXT), without = subject_open(dir.dir, NULL, CONTEXT);
    const fore_processor *a = &with.model->processor, *b = &without.model->processor;
    assert_true(a->patch_size == b->patch_size && a->min_pixels == b->min_pixels && a->max_pixels == b->max_pixels);
    assert_memory_equal(a->mean, b->mean, sizeof a->mean);
    assert_memory_equal(&with.model->video_processor.frame.mean, &without.model->video_processor.frame.mean, sizeof a->mean);
    assert_int_equal(with.model->video_processor.frame.max_pixels, without.model->video_processor.frame.max_pixels);
    fore_model_info info;
    fore_model_get_info(with.model, &info);
    assert_true(info.video_fps == 0 && info.video_min_frames == 4 && info.video_max_frames == 768);
    subject_close(&with);
    subject_close(&without);
    put(&dir, "preprocessor_config.json", "{\"patch_size\": 16}");
    fore_model *model;
    fore_error err = {0};
    assert_int_equal(fore_model_open(dir.dir, NULL, &model, &err), FORE_ERR_FORMAT);
    assert_non_null(strstr(err.text, "patch, temporal and merge sizes are 16, 2, 2; the vision tower's are 14, 2, 2"));
    scratch_remove(&dir);
}

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

typedef struct clip {
    fore_image frames[FRAMES];
    size_t count;
} clip;

static fore_image read_picture(const char *name) {
    char *bytes, path[128];
    fore_image out = {0};
    fore_error err = {0};
    snprintf(path, sizeof path, FRAMES_OF "%s.png", name);
    if (fore_file_read(path, 1 << 20, &bytes, &out.size, &err)) fail_msg("%s", err.text);
    out.data = bytes;
    return out;
}

static void open_clip(clip *c, const char *name, size_t count) {
    char frame[32];
    assert_in_range(count, 1, FRAMES);
    *c = (clip){.count = count};
    for (size_t i = 0; i < count; i++) {
        snprintf(frame, sizeof frame, "%s%zu", name, i);
        c->frames[i] = read_picture(frame);
    }
}

static void close_clip(clip *c) {
    for (size_t i = 0; i < c->count; i++) free((void *)(uintptr_t)c->frames[i].data);
}

/* A prompt of the table as a request. */
typedef struct asked {
    clip clips[2];
    fore_video videos[2];
    fore_image still;
    char *messages, *options;
    fore_request r;
} asked;

static void ask(asked *a, const fore_model *model, const cJSON *c) {
    *a = (asked){.still = read_picture("still")};
    fore_request_init(&a->r, model);
    const cJSON *v;
    cJSON_ArrayForEach(v, fore_json_get(c, "videos")) {
        size_t i = a->r.video_count++;
        open_clip(&a->clips[i], fore_json_get(v, "frames")->valuestring, (size_t)number(v, "count"));
        a->videos[i] = (fore_video){.frames = a->clips[i].frames, .frame_count = a->clips[i].count, .fps = number(v, "fps"),
                                    .sample_fps = number(c, "take_fps")};
    }
    a->r.videos = a->videos;
    a->r.images = &a->still;
    a->r.image_count = (size_t)number(c, "pictures");
    a->r.messages = a->messages = cJSON_PrintUnformatted(fore_json_get(c, "messages"));
    a->r.options = a->options = cJSON_PrintUnformatted(fore_json_get(c, "options"));
    a->r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
    a->r.ignore_eos = true;
}

static void asked_free(asked *a) {
    for (int i = 0; i < 2; i++) close_clip(&a->clips[i]);
    free((void *)(uintptr_t)a->still.data);
    cJSON_free(a->messages);
    cJSON_free(a->options);
}

static void check_prepared(const fore_model *m, const asked *a, const cJSON *c, int index) {
    fore_prepared p;
    fore_error err = {0};
    if (fore_prepare(m, &a->r, CONTEXT, &p, &err)) fail_msg("prompt %d: %s", index, err.text);
    const cJSON *ids = fore_json_get(c, "ids"), *grids = fore_json_get(c, "grids"), *id;
    assert_int_equal(p.n, cJSON_GetArraySize(ids));
    size_t i = 0;
    cJSON_ArrayForEach(id, ids) {
        if (p.ids[i] != id->valueint) fail_msg("prompt %d: id %zu is %d, not %d", index, i, p.ids[i], id->valueint);
        i++;
    }
    crypto_hash_sha256_state h;
    uint8_t digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof digest + 1];
    crypto_hash_sha256_init(&h);
    int steps[2] = {0, 0};
    for (i = 0; i < p.images; i++) {
        if (!p.origins[i].video) continue;
        int video = (int)p.origins[i].index;
        const cJSON *grid = cJSON_GetArrayItem(grids, video);
        for (int k = 1; k < 3; k++) assert_int_equal(p.grids[i][k], (int)at(grid, k));
        float interval = 2 * (float)at(fore_json_get(c, "seconds"), video); /* tokens_per_second is 2 */
        assert_true(p.times[i].timed && p.times[i].step == steps[video]++ && p.times[i].interval == interval);
        float *patches;
        if (fore_prepare_patches(m, &a->r, &p, i, &patches, &err)) fail_msg("%s", err.text);
        crypto_hash_sha256_update(&h, (const uint8_t *)patches, (size_t)(p.grids[i][1] * p.grids[i][2]) * PATCH * sizeof *patches);
        free(patches);
    }
    for (int v = 0; v < cJSON_GetArraySize(grids); v++) assert_int_equal(steps[v], (int)at(cJSON_GetArrayItem(grids, v), 0));
    crypto_hash_sha256_final(&h, digest);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    assert_string_equal(hex, fore_json_get(c, "sha256")->valuestring);
    fore_prepared_free(&p);
}

static void test_prompts(void **state) {
    (void)state;
    subject s = subject_open(CLIPS, NULL, CONTEXT);
    const fore_video_processor own = s.model->video_processor;
    const cJSON *c;
    int index = 0;
    cJSON_ArrayForEach(c, table("cases")) {
        static asked a;
        static answer said;
        golden g;
        char path[128];
        fore_error err = {0};
        s.model->video_processor = own;
        const cJSON *given = fore_json_get(c, "settings");
        if (given) {
            scratch dir;
            char *text = cJSON_PrintUnformatted(given);
            scratch_make(&dir);
            put(&dir, "video_preprocessor_config.json", text);
            if (fore_video_processor_read(dir.dir, &FAMILY, &s.model->video_processor, &err)) fail_msg("%s", err.text);
            scratch_remove(&dir);
            cJSON_free(text);
        }
        ask(&a, s.model, c);
        char *text;
        size_t size;
        if (fore_model_render(s.model, &a.r, &text, &size, &err)) fail_msg("%s", err.text);
        assert_string_equal(text, fore_json_get(c, "text")->valuestring);
        free(text);
        check_prepared(s.model, &a, c, index);
        snprintf(path, sizeof path, DATA "golden_%d.safetensors", index++);
        golden_open(&g, path);
        static const int chunks[] = {0, 1, 7};
        for (int k = 0; k < 3; k++) {
            fore_trace *t;
            a.r.prefill_chunk = chunks[k];
            if (fore_session_trace(s.session, &a.r, &t, &err)) fail_msg("%s", err.text);
            size_t n = (size_t)t->tokens, V = (size_t)t->vocab;
            assert_memory_equal(t->positions, golden_i32(&g, "position_ids", 3 * n), 3 * n * sizeof(int32_t));
            assert_int_equal(t->delta, *golden_i32(&g, "rope_delta", 1));
            golden_compare(&g, "final_norm", t->final_hidden, n * (size_t)t->hidden, 1e-4);
            golden_compare(&g, "last_logits", t->logits + (n - 2) * V, 2 * V, 1e-4);
            fore_trace_free(t);
            a.r.max_tokens = 8;
            answer_run(s.session, &a.r, &said);
            assert_memory_equal(said.ids, golden_i32(&g, "decode.tokens", 8), 8 * sizeof(int32_t));
            assert_int_equal(said.stats.videos, a.r.video_count);
        }
        golden_close(&g);
        asked_free(&a);
    }
    assert_int_equal(index, 9);
    subject_close(&s);
}

/* ---- the promise ------------------------------------------------------------------------------------------------- */

/* Two videos and a picture in one prompt: every way gives one answer. */
static void test_promise(void **state) {
    (void)state;
    static asked a;
    static answer base, other;
    static int32_t recorded[40];
    const fore_kern *kerns[8];
    int sets = fore_kern_list(kerns);
    fore_error err = {0};
    for (int k = 0; k < sets; k++) {
        const fore_model_options options = {.isa = kerns[k]->name};
        fore_model *model;
        if (fore_model_open(CLIPS, &options, &model, &err)) fail_msg("%s", err.text);
        ask(&a, model, cJSON_GetArrayItem(table("cases"), 2));
        a.r.sampling = (fore_sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 5};
        a.r.max_tokens = 40;
        const fore_draft ways[] = {{.depth = 0}, {.depth = 0, .lookup = FORE_LOOKUP_ON}, {.depth = FORE_DRAFT_AUTO},
                                   {.depth = 3, .replay = recorded, .replay_count = 40},
                                   {.depth = FORE_DRAFT_MAX, .replay = recorded, .replay_count = 40}};
        static const int chunks[] = {0, 1, 7, 32, 0}, threads[] = {2, 1, 3, 2, 1};
        for (int w = 0; w < 5; w++) {
            fore_session *session;
            const fore_session_options so = {.threads = threads[w], .context = CONTEXT};
            if (fore_session_new(model, &so, &session, &err)) fail_msg("%s", err.text);
            a.r.draft = ways[w];
            a.r.prefill_chunk = chunks[w];
            answer_run(session, &a.r, k || w ? &other : &base);
            char label[64];
            snprintf(label, sizeof label, "%s, way %d", kerns[k]->name, w);
            if (k || w) answer_same(&base, &other, label);
            else memcpy(recorded, base.ids, sizeof recorded);
            fore_session_free(session);
        }
        assert_true(base.stats.videos == 2 && base.stats.video_frames == 15 && base.stats.images == 1);
        asked_free(&a);
        fore_model_close(model);
    }
}

/* A conversation goes on from what was seen, unless frames were shown at another pace or are others; the answer is that of a session
 * that saw nothing. */
static void test_reuse(void **state) {
    (void)state;
    static asked a;
    static answer warm, cold;
    const cJSON *c = cJSON_GetArrayItem(table("cases"), 2), *ids = fore_json_get(c, "ids"), *id;
    int32_t longer[CONTEXT];
    size_t n = 0;
    cJSON_ArrayForEach(id, ids) longer[n++] = id->valueint;
    for (int round = 0; round < 4; round++) {
        subject s = subject_open(CLIPS, NULL, CONTEXT), fresh = subject_open(CLIPS, NULL, CONTEXT);
        ask(&a, s.model, c);
        const fore_image second = a.clips[1].frames[8];
        a.r.messages = a.r.options = NULL;
        a.r.ids = longer;
        a.r.id_count = n;
        a.r.max_tokens = 1;
        answer_run(s.session, &a.r, &warm);
        longer[n] = warm.ids[0];
        longer[n + 1] = 5;
        a.r.id_count = n + 2;
        a.r.max_tokens = 12;
        if (round == 1) a.videos[1].fps = 6;
        if (round == 2) a.videos[0].fps = 9;
        if (round == 3) a.clips[1].frames[8] = a.clips[1].frames[0]; /* the odd one that fills its patch */
        answer_run(s.session, &a.r, &warm);
        if (round) assert_int_equal(warm.stats.reused_tokens, 0);
        else assert_true(warm.stats.reused_tokens >= n);
        answer_run(fresh.session, &a.r, &cold);
        answer_same(&cold, &warm, "after another answer");
        a.clips[1].frames[8] = second;
        asked_free(&a);
        subject_close(&s);
        subject_close(&fresh);
    }
}

/* ---- what is refused, and times of the caller's own -------------------------------------------------------------- */

static void test_refused(void **state) {
    (void)state;
    static asked a;
    subject s = subject_open(CLIPS, NULL, CONTEXT);
    const fore_video_processor own = s.model->video_processor;
    ask(&a, s.model, cJSON_GetArrayItem(table("cases"), 1));
    a.r.max_tokens = 1;
    const fore_video video = a.videos[0];
    fore_video_processor *p = &s.model->video_processor;
    for (int i = 0;; i++) {
        const char *part = NULL;
        fore_error err = {0};
        *p = own;
        a.videos[0] = a.videos[1] = video;
        a.r.video_count = 1;
        switch (i) {
        case 0: a.videos[0].sample_fps = 0, p->samples = true, part = "does not say how many (fps, num_frames)"; break;
        case 1: a.videos[0].sample_fps = 0, p->samples = true, p->fps = 2, p->num_frames = 4, part = "both fps and num_frames"; break;
        case 2: a.videos[0].sample_fps = 0, p->samples = true, p->num_frames = 12, part = "a video of 10 frames, of which"; break;
        case 3: a.videos[0].frame_count = 1, part = "a video of 1 frame, it needs at least 2; give a single one as a picture"; break;
        case 4: a.videos[0].sample_fps = -1, part = "-1 are wanted"; break;
        case 5: p->min_frames = 1, a.videos[0].sample_fps = 1, part = "fewer than 2 would be taken"; break;
        case 6: p->kind = FORE_VIDEO_UNKNOWN, strcpy(p->class_name, "OtherProcessor"), part = "by a OtherProcessor, which is not supported"; break;
        case 7: a.r.video_count = 2, part = "2 videos given, the prompt places 1"; break;
        case 8: p->frame.min_pixels = 400 * 28 * 28, part = "4 frames of it, 448x728 pixels each, become 832 tokens, the context has 512"; break;
        case 9: p->frame.patch_size = 16, part = "video processor's patch, temporal and merge sizes are 16, 2, 2"; break;
        default:
            asked_free(&a);
            subject_close(&s);
            return;
        }
        if (!fore_session_begin(s.session, &a.r, &err) || !strstr(err.text, part)) fail_msg("case %d: \"%s\", not \"%s\"", i, err.text, part);
    }
}

/* The seconds of a temporal patch, where the caller says when frames were. */
static void test_times(void **state) {
    (void)state;
    static const double even[] = {1, 1.5, 2, 2.5, 3}, uneven[] = {0, 0.25, 3}, still[] = {2, 2, 2};
    const struct {
        const double *times;
        size_t count;
        double seconds;
    } cases[] = {{even, 5, 1}, {uneven, 3, 3}, {still, 3, 0}, {even, 1, 2}};
    static clip c;
    open_clip(&c, "wide", 5);
    const fore_video_processor p = settings();
    fore_limits limits;
    fore_limits_init(&limits);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fore_frames f;
        fore_error err = {0};
        const fore_video video = {.frames = c.frames, .frame_count = cases[i].count, .times = cases[i].times};
        if (fore_frames_take(&p, &video, "v", &limits, 0, NULL, NULL, &f, &err)) fail_msg("%s", err.text);
        assert_true(f.count == cases[i].count && f.patch_seconds == cases[i].seconds);
        fore_frames_free(&f);
    }
    close_clip(&c);
}

static int forget(void **state) {
    (void)state;
    table(NULL);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampling), cmocka_unit_test(test_sizes),   cmocka_unit_test(test_settings), cmocka_unit_test(test_without_files),
        cmocka_unit_test(test_prompts),  cmocka_unit_test(test_promise), cmocka_unit_test(test_reuse),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests_name("golden/qwen2_5_video", tests, NULL, forget);
}
