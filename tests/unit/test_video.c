/* Which frames of a video are taken, how large, when, by the reference's numbers; settings files; files by FFmpeg's libraries
 * where the build has them; and every refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "image/video.h"
#include "support/scratch.h"

#define FRAMES FORE_DATA "/video/frames/"

static const cJSON *table(const char *name) {
    static cJSON *tree;
    fore_error err = {0};
    if (!tree && fore_json_read(FORE_DATA "/video/video.json", 1 << 20, &tree, &err)) fail_msg("%s", err.text);
    if (!name) {
        cJSON_Delete(tree);
        tree = NULL;
    }
    return fore_json_get(tree, name);
}

static double at(const cJSON *row, int i) { return cJSON_GetArrayItem(row, i)->valuedouble; }

static fore_video_processor settings(void) {
    fore_video_processor p;
    assert_int_equal(fore_video_processor_read("/nowhere", NULL, &p, NULL), 0);
    return p;
}

static void test_sampling(void **state) {
    (void)state;
    const cJSON *row;
    int rows = 0;
    cJSON_ArrayForEach(row, table("sampling")) {
        fore_video_processor p = settings();
        if (at(row, 3) < 3) p.fps = 4; /* as the table was made */
        p.min_frames = (int)at(row, 3);
        p.max_frames = (int)at(row, 4);
        const cJSON *want = cJSON_GetArrayItem(row, 5);
        size_t *indices, count;
        assert_int_equal(fore_video_sample(&p, (size_t)at(row, 0), at(row, 1), at(row, 2), &indices, &count, NULL), 0);
        assert_int_equal(count, cJSON_GetArraySize(want));
        for (size_t i = 0; i < count; i++)
            if ((double)indices[i] != at(want, (int)i)) fail_msg("row %d, frame %zu: %zu, not %g", rows, i, indices[i], at(want, (int)i));
        free(indices);
        rows++;
    }
    assert_int_equal(rows, 53);
    const fore_video_processor p = settings();
    const double bad[][2] = {{0, 2}, {-1, 2}, {NAN, 2}, {INFINITY, 2}, {2, NAN}, {2, -1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t *indices, count;
        fore_error err = {0};
        assert_int_equal(fore_video_sample(&p, 9, bad[i][0], bad[i][1], &indices, &count, &err), FORE_ERR_INVALID);
        assert_non_null(strstr(err.text, "expected numbers above 0"));
        assert_int_equal(fore_video_sample(&p, 0, 2, 2, &indices, &count, &err), FORE_ERR_INVALID);
        assert_null(indices);
    }
}

static void check_size(fore_video_processor p, size_t frames, int height, int width, const cJSON *want) {
    int h = 0, w = 0;
    fore_error err = {0};
    fore_status s = fore_video_size(&p, frames, height, width, "v", &h, &w, &err);
    if (cJSON_IsNull(want)) {
        if (!s) fail_msg("%zu frames of %dx%d: expected an error", frames, width, height);
        return;
    }
    if (s) fail_msg("%zu frames of %dx%d: %s", frames, width, height, err.text);
    if (h != (int)at(want, 0) || w != (int)at(want, 1))
        fail_msg("%zu frames of %dx%d: %dx%d, not %gx%g", frames, width, height, w, h, at(want, 1), at(want, 0));
}

static void test_sizes(void **state) {
    (void)state;
    const cJSON *row;
    int rows = 0;
    cJSON_ArrayForEach(row, table("sizes")) {
        fore_video_processor p = settings();
        p.frame.min_pixels = (int64_t)at(row, 3);
        p.frame.max_pixels = (int64_t)at(row, 4);
        p.cap_frames = cJSON_IsTrue(cJSON_GetArrayItem(row, 5));
        check_size(p, (size_t)at(row, 0), (int)at(row, 1), (int)at(row, 2), cJSON_GetArrayItem(row, 6));
        rows++;
    }
    cJSON *tree;
    assert_int_equal(fore_json_read(FORE_DATA "/tables/tables/smart_resize.json", 1 << 20, &tree, NULL), 0);
    cJSON_ArrayForEach(row, fore_json_get(tree, "video")) {
        fore_video_processor p = settings();
        p.frame.min_pixels = (int64_t)at(row, 5);
        p.frame.max_pixels = (int64_t)at(row, 6);
        check_size(p, (size_t)at(row, 0), (int)at(row, 1), (int)at(row, 2), cJSON_GetArrayItem(row, 7));
        rows++;
    }
    cJSON_Delete(tree);
    assert_int_equal(rows, 160);
}

static void test_times(void **state) {
    (void)state;
    const fore_video_processor p = settings();
    const cJSON *row;
    cJSON_ArrayForEach(row, table("times")) {
        const cJSON *indices = cJSON_GetArrayItem(row, 0), *want = cJSON_GetArrayItem(row, 2);
        double times[16], seconds[16];
        size_t n = (size_t)cJSON_GetArraySize(indices);
        for (size_t i = 0; i < n; i++) times[i] = at(indices, (int)i) / at(row, 1);
        assert_int_equal(fore_video_steps(&p, n), cJSON_GetArraySize(want));
        fore_video_step_times(&p, times, n, seconds);
        for (size_t i = 0; i < fore_video_steps(&p, n); i++) assert_true(seconds[i] == at(want, (int)i));
    }
}

static void write_settings(const scratch *dir, const char *file, const char *text) { scratch_write(dir, file, text, strlen(text)); }

static void test_settings(void **state) {
    (void)state;
    scratch folder;
    scratch_make(&folder);
    const char *dir = folder.dir;
    fore_video_processor p = settings();
    fore_error err = {0};
    assert_int_equal(p.frame.max_pixels, 25165824);
    assert_true(p.fps == 2 && p.min_frames == 4 && p.max_frames == 768 && p.samples && !p.cap_frames);
    write_settings(&folder, "preprocessor_config.json", "{\"patch_size\": 14, \"size\": {\"shortest_edge\": 1, \"longest_edge\": 2}}");
    assert_int_equal(fore_video_processor_read(dir, NULL, &p, &err), 0);
    assert_int_equal(p.frame.patch_size, 14);
    write_settings(&folder, "video_preprocessor_config.json", "{\"fps\": 3.5, \"max_frames\": 9, \"max_pixels\": 7, \"do_sample_frames\": false}");
    assert_int_equal(fore_video_processor_read(dir, NULL, &p, &err), 0);
    assert_true(p.fps == 3.5 && p.max_frames == 9 && !p.samples && p.frame.patch_size == 16 && p.frame.max_pixels == 786432);
    write_settings(&folder, "processor_config.json", "{\"video_processor\": {\"cap_pixels_per_frame\": true, \"min_frames\": 2}}");
    assert_int_equal(fore_video_processor_read(dir, NULL, &p, &err), 0);
    assert_true(p.cap_frames && p.min_frames == 2 && p.fps == 2);
    static const char *const bad[][2] = {{"{\"video_processor\": {\"fps\": 0}}", "fps: expected a number above 0"},
                                         {"{\"video_processor\": {\"min_frames\": 0}}", "min_frames"},
                                         {"{\"video_processor\": {\"size\": {\"shortest_edge\": 4}}}", "size: expected shortest_edge"},
                                         {"{\"video_processor\": []}", "expected an object"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_settings(&folder, "processor_config.json", bad[i][0]);
        assert_int_equal(fore_video_processor_read(dir, NULL, &p, &err), FORE_ERR_FORMAT);
        if (!strstr(err.text, bad[i][1]) || !strstr(err.text, "processor_config.json")) fail_msg("%s", err.text);
    }
    scratch_remove(&folder);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static fore_image picture(const char *path) {
    char *data;
    fore_image out = {0};
    fore_error err = {0};
    if (fore_file_read(path, 1 << 20, &data, &out.size, &err)) fail_msg("%s", err.text);
    out.data = data;
    return out;
}

static fore_status take(const fore_video *v, fore_frames *out, fore_error *err) {
    const fore_video_processor p = settings();
    fore_limits limits;
    fore_limits_init(&limits);
    return fore_frames_take(&p, v, "the video", &limits, 0, NULL, NULL, out, err);
}

static void refuse(fore_video v, fore_status status, const char *part) {
    fore_frames f;
    fore_error err = {0};
    fore_status s = take(&v, &f, &err);
    if (s != status || !strstr(err.text, part)) fail_msg("%d \"%s\", not %d \"%s\"", s, err.text, status, part);
    assert_null(f.items);
}

static int cancel(void *user, const char *stage, uint64_t done, uint64_t total) {
    assert_string_equal(stage, "video");
    assert_int_equal(total, 4);
    return done == *(uint64_t *)user;
}

static void test_frames(void **state) {
    (void)state;
    const fore_image a = picture(FRAMES "wide0.png"), b = picture(FRAMES "wide1.png"), other = picture(FRAMES "tall0.png");
    fore_image frames[] = {a, b, a, b, a, b}, mixed[] = {a, other}, broken[] = {a, b};
    fore_frames f;
    fore_error err = {0};
    fore_video v = {.frames = frames, .frame_count = 6, .fps = 3};
    if (take(&v, &f, &err)) fail_msg("%s", err.text);
    assert_int_equal(f.count, 4); /* 0, 1.67, 3.33, 5 */
    assert_true(f.times[0] == 0 && f.times[1] == 2.0 / 3 && f.times[2] == 1 && f.times[3] == 5.0 / 3);
    uint8_t one[FORE_DIGEST], two[FORE_DIGEST];
    fore_frames_digest(&f, 0, 2, one);
    fore_frames_digest(&f, 2, 2, two);
    assert_memory_not_equal(one, two, sizeof one); /* a b, then b a */
    fore_frames_digest(&f, 3, 1, one);
    fore_frames_digest(&f, 9, 1, two);
    assert_memory_equal(one, two, sizeof one);
    fore_frames_free(&f);
    const double times[] = {0, 0.5, 0.5, 7, 8, 9}, back[] = {0, 1, 0.5, 7, 8, 9}, early[] = {-1, 1}, never[] = {0, NAN};
    v.times = times;
    assert_int_equal(take(&v, &f, &err), 0);
    assert_int_equal(f.count, 6);
    assert_memory_equal(f.times, times, sizeof times);
    fore_frames_free(&f);
    v.times = back;
    refuse(v, FORE_ERR_INVALID, "frame 3 at 0.5 seconds; expected times from 0 up");
    refuse((fore_video){.frames = frames, .frame_count = 2, .times = early}, FORE_ERR_INVALID, "frame 1 at -1 seconds");
    refuse((fore_video){.frames = frames, .frame_count = 2, .times = never}, FORE_ERR_INVALID, "frame 2 at");
    refuse((fore_video){.frames = frames, .frame_count = 2}, FORE_ERR_INVALID, "0 frames a second; expected a number above 0");
    refuse((fore_video){.frames = frames, .frame_count = 2, .fps = NAN}, FORE_ERR_INVALID, "nan frames a second");
    refuse((fore_video){.frames = frames, .frame_count = 2, .fps = 2, .sample_fps = -2}, FORE_ERR_INVALID, "-2 are wanted");
    refuse((fore_video){.frames = frames, .frame_count = 0, .fps = 2}, FORE_ERR_INVALID, "without frames");
    refuse((fore_video){.frames = frames, .frame_count = 1, .fps = 2}, FORE_ERR_INVALID, "a video of 1 frame, it needs at least 2");
    refuse((fore_video){.frames = mixed, .frame_count = 2, .fps = 2}, FORE_ERR_INVALID, "frame 2 has 44x70 pixels, the first one 90x60");
    refuse((fore_video){0}, FORE_ERR_INVALID, "neither frames nor a file");
    broken[1].size = 20;
    refuse((fore_video){.frames = broken, .frame_count = 2, .fps = 2}, FORE_ERR_FORMAT, "the video: frame 2: ");
    broken[1].name = "two.png";
    refuse((fore_video){.frames = broken, .frame_count = 2, .fps = 2}, FORE_ERR_FORMAT, "two.png");
    static const float patches[1];
    broken[1] = (fore_image){.patches = patches, .grid = {1, 2, 2}};
    refuse((fore_video){.frames = broken, .frame_count = 2, .fps = 2}, FORE_ERR_INVALID, "frame 2 is given as patches");
    const fore_video_processor p = settings();
    fore_limits limits;
    fore_limits_init(&limits);
    limits.video_frames = 5;
    v.times = NULL;
    assert_int_equal(fore_frames_take(&p, &v, "v", &limits, 0, NULL, NULL, &f, &err), FORE_ERR_LIMIT);
    limits.video_frames = 6;
    for (uint64_t n = 1; n <= 4; n++) assert_int_equal(fore_frames_take(&p, &v, "v", &limits, 0, cancel, &n, &f, &err), FORE_ERR_CANCELLED);
    free((void *)(uintptr_t)a.data);
    free((void *)(uintptr_t)b.data);
    free((void *)(uintptr_t)other.data);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The files have a red corner, and the number of the frame in their other colours; see make_video.py. */
static int frame_number(const fore_pixels *p) { return (p->rgb[3 * (p->width * p->height - 1)] - 40 + 4) / 4; }

static bool is_red(const fore_pixels *p, int x, int y) {
    const uint8_t *c = p->rgb + 3 * (y * p->width + x);
    return c[0] > 180 && c[1] < 60;
}

static void test_files(void **state) {
    (void)state;
    fore_frames f;
    fore_error err = {0};
    if (!fore_video_files()) {
        refuse((fore_video){.path = "tests/samples/clip.mp4"}, FORE_ERR_UNSUPPORTED, "--frames and --fps");
        return;
    }
    const fore_video mp4 = {.path = "tests/samples/clip.mp4"};
    if (take(&mp4, &f, &err)) fail_msg("%s", err.text);
    assert_int_equal(f.count, 8); /* 40 frames at 10 a second */
    static const int want[] = {0, 6, 11, 17, 22, 28, 33, 39};
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(frame_number(&f.items[i]), want[i]);
        assert_true(fabs(f.times[i] - want[i] / 10.0) < 1e-9);
        assert_true(is_red(&f.items[i], 0, 0) && (i || !is_red(&f.items[0], f.items[0].width - 1, 0)));
    }
    fore_frames_free(&f);
    const fore_video all = {.path = "tests/samples/clip.mkv", .every_frame = true};
    if (take(&all, &f, &err)) fail_msg("%s", err.text);
    assert_int_equal(f.count, 12);
    for (size_t i = 0; i < 12; i++) assert_int_equal(frame_number(&f.items[i]), i);
    fore_frames_free(&f);
    const fore_video one = {.path = "tests/samples/clip.mp4", .sample_fps = 0.5};
    assert_int_equal(take(&one, &f, &err), 0);
    assert_int_equal(f.count, 4);
    fore_frames_free(&f);
}

static void test_turned(void **state) {
    (void)state;
    if (!fore_video_files()) return;
    fore_image file = picture("tests/samples/clip.mp4");
    uint8_t *data = (uint8_t *)(uintptr_t)file.data, *header = memmem(data, file.size, "tkhd", 4);
    assert_non_null(header);
    static const struct {
        uint8_t matrix[20];
        int corner; /* 0: upper left, 1: upper right, 2: lower right, 3: lower left */
    } ways[] = {
        {{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 1},
        {{0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 2},
        {{0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1}, 3},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        memcpy(header + 44, ways[i].matrix, sizeof ways[i].matrix);
        fore_frames f;
        fore_error err = {0};
        if (take(&(fore_video){.data = data, .size = file.size}, &f, &err)) fail_msg("%s", err.text);
        int w = f.items[0].width, h = f.items[0].height;
        for (int corner = 0; corner < 4; corner++)
            assert_int_equal(is_red(&f.items[0], corner == 1 || corner == 2 ? w - 1 : 0, corner >= 2 ? h - 1 : 0), corner == ways[i].corner);
        fore_frames_free(&f);
    }
    free(data);
}

static void test_bad_files(void **state) {
    (void)state;
    if (!fore_video_files()) return;
    refuse((fore_video){.path = "/nowhere/clip.mp4"}, FORE_ERR_IO, "cannot open");
    refuse((fore_video){.path = "/tmp"}, FORE_ERR_IO, "not a file");
    refuse((fore_video){.path = "/dev/null"}, FORE_ERR_IO, "not a file");
    refuse((fore_video){.data = "", .size = 0}, FORE_ERR_FORMAT, "empty");
    refuse((fore_video){.path = "README.md"}, FORE_ERR_FORMAT, "not a video that FFmpeg knows");
    refuse((fore_video){.path = "tests/samples/s00.png"}, FORE_ERR_INVALID, "a video of 1 frame");
    /* A playlist must not open what it names. */
    static const char *const lists[] = {"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\ntests/samples/clip.mp4\n#EXT-X-ENDLIST\n",
                                        "ffconcat version 1.0\nfile tests/samples/clip.mp4\n"};
    for (size_t i = 0; i < 2; i++) {
        fore_frames f;
        fore_error err = {0};
        assert_true(take(&(fore_video){.data = lists[i], .size = strlen(lists[i])}, &f, &err) != FORE_OK);
    }
    /* Cut anywhere and damaged anywhere: an error or frames, and nothing left behind; no cut file passes for whole. */
    static const char *const files[] = {"tests/samples/clip.mp4", "tests/samples/clip.mkv"};
    for (size_t i = 0; i < 2; i++) {
        fore_image file = picture(files[i]);
        uint8_t *bytes = malloc(file.size);
        size_t whole = 0;
        for (size_t size = 1; size < file.size; size += size < 400 ? 37 : 211) {
            fore_frames f;
            fore_error err = {0};
            memcpy(bytes, file.data, size);
            fore_status s = take(&(fore_video){.data = bytes, .size = size, .every_frame = true}, &f, &err);
            if (s) assert_true(err.text[0] != 0);
            else whole += size < file.size * 3 / 4;
            fore_frames_free(&f);
        }
        assert_int_equal(whole, 0);
        uint32_t seed = 1;
        for (int round = 0; round < 40; round++) {
            fore_frames f;
            memcpy(bytes, file.data, file.size);
            for (int k = 0; k < 3; k++) {
                seed = seed * 1664525u + 1013904223u;
                bytes[(seed >> 8) % file.size] ^= (uint8_t)(1u << (seed & 7));
            }
            fore_error err = {0};
            if (take(&(fore_video){.data = bytes, .size = file.size}, &f, &err)) assert_true(err.text[0] != 0);
            fore_frames_free(&f);
        }
        free(bytes);
        free((void *)(uintptr_t)file.data);
    }
    fore_limits limits;
    fore_limits_init(&limits);
    limits.image_side = 40;
    const fore_video_processor p = settings();
    fore_frames f;
    fore_error err = {0};
    assert_int_equal(fore_frames_take(&p, &(fore_video){.path = files[0]}, "v", &limits, 0, NULL, NULL, &f, &err), FORE_ERR_LIMIT);
    assert_non_null(strstr(err.text, "64x48 pixels, the limit is 40 a side"));
}

/* FFmpeg's log level, or its setter, from the library that a file's reading has loaded. */
static void *ffmpeg_call(const char *name) {
    void *call = NULL;
    for (int version = 50; version < 90 && !call; version++) {
        char file[32];
        snprintf(file, sizeof file, "libavutil.so.%d", version);
        void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
        if (!library) continue;
        call = dlsym(library, name);
        dlclose(library);
    }
    assert_non_null(call);
    return call;
}

/* Files that are open at once, closed in any order: the process has its log level again. */
static void test_log_level(void **state) {
    (void)state;
    if (!fore_video_files()) return;
    const fore_video video = {.path = "tests/samples/clip.mkv"};
    fore_limits limits;
    fore_limits_init(&limits);
    int (*get)(void);
    void (*set)(int);
    int before = 0;
    for (int order = 0; order < 3; order++) {
        fore_video_reader *readers[2];
        size_t total;
        double fps;
        fore_error err = {0};
        for (int i = 0; i < 2; i++)
            if (fore_video_reader_open(&video, "v", &limits, &readers[i], &total, &fps, &err)) fail_msg("%s", err.text);
        void *calls[] = {ffmpeg_call("av_log_get_level"), ffmpeg_call("av_log_set_level")};
        memcpy(&get, &calls[0], sizeof get);
        memcpy(&set, &calls[1], sizeof set);
        assert_int_equal(get(), -8); /* AV_LOG_QUIET */
        fore_video_reader_close(readers[order % 2]);
        fore_video_reader_close(readers[1 - order % 2]);
        if (order == 0) before = get();
        assert_int_equal(get(), order == 2 ? -8 : before);
        if (order == 1) set(-8); /* the process itself wants none */
    }
    assert_true(before > -8);
    set(before);
}

static int forget(void **state) {
    (void)state;
    table(NULL);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampling), cmocka_unit_test(test_sizes), cmocka_unit_test(test_times),  cmocka_unit_test(test_settings),
        cmocka_unit_test(test_frames),   cmocka_unit_test(test_files), cmocka_unit_test(test_turned), cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_log_level),
    };
    return cmocka_run_group_tests_name("video", tests, NULL, forget);
}
