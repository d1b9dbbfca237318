/* What Qwen2.5-VL has of its own, against the reference: positions with the absolute time of videos, videos in the tower, what the
 * processor of the published files makes of pictures, the published chat template. The trunk's goldens are in test_trunk.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sodium.h>

#include "base/file.h"
#include "base/json.h"
#include "image/image.h"
#include "model/tower.h"
#include "model/tower_windows.h"
#include "multimodal/mrope.h"
#include "support/answer.h"
#include "text/template.h"

#define QWEN2_5 FORE_DATA "/qwen2_5/"
#define PICTURES FORE_DATA "/images/images/"
enum { IMAGE = 252, VIDEO = 253, PER_SECOND = 2, MAX_TOKENS = 256, MAX_GRIDS = 32 };

/* ---- positions --------------------------------------------------------------------------------------------------- */

typedef struct sights {
    int grids[MAX_GRIDS][3];
    fore_mrope_time times[MAX_GRIDS];
    size_t count;
} sights;

static void put_sight(sights *s, const int32_t *grid, int t, fore_mrope_time time) {
    assert_true(s->count < MAX_GRIDS);
    const int copy[3] = {t, grid[1], grid[2]};
    memcpy(s->grids[s->count], copy, sizeof copy);
    s->times[s->count++] = time;
}

/* Every video as one grid, and as one grid a temporal patch. */
static void test_positions(void **state) {
    (void)state;
    golden g;
    golden_open(&g, QWEN2_5 "rope.safetensors");
    int beyond = 0, n = 0;
    for (;; n++) {
        char name[32];
        snprintf(name, sizeof name, "%d.input_ids", n);
        if (!golden_find(&g, name)) break;
        size_t length = golden_count(golden_find(&g, name));
        assert_true(length <= MAX_TOKENS);
        const int32_t *ids = golden_i32(&g, name, length);
        snprintf(name, sizeof name, "%d.seconds", n);
        size_t count = golden_count(golden_find(&g, name));
        const float *seconds = golden_f32(&g, name, count);
        snprintf(name, sizeof name, "%d.grids", n);
        const int32_t *grids = golden_i32(&g, name, 3 * count);
        snprintf(name, sizeof name, "%d.position_ids", n);
        const int32_t *want = golden_i32(&g, name, 3 * length);
        snprintf(name, sizeof name, "%d.rope_delta", n);
        int32_t want_delta = golden_i32(&g, name, 1)[0];
        for (int apart = 0; apart < 2; apart++) {
            sights s = {.count = 0};
            for (size_t i = 0; i < count; i++) {
                fore_mrope_time time = {.timed = seconds[i] > 0, .interval = PER_SECOND * seconds[i]};
                int steps = apart && time.timed ? grids[3 * i] : 1;
                for (; time.step < steps; time.step++) put_sight(&s, grids + 3 * i, steps > 1 ? 1 : grids[3 * i], time);
            }
            int32_t table[3 * MAX_TOKENS], delta;
            fore_error err = {0};
            if (fore_mrope_positions(ids, length, IMAGE, VIDEO, (const int(*)[3])s.grids, s.count, s.times, 2, table, &delta, &err))
                fail_msg("case %d: %s", n, err.text);
            assert_memory_equal(table, want, 3 * length * sizeof *want);
            assert_int_equal(delta, want_delta);
        }
        int32_t last = want[length - 1];
        beyond += want_delta + (int32_t)length > last + 1;
    }
    assert_true(n == 12 && beyond > 0); /* some prompts end before the last time of their video */
    golden_close(&g);
}

static void test_refused_positions(void **state) {
    (void)state;
    const int32_t ids[] = {1, VIDEO, VIDEO, 2, VIDEO, 3};
    const struct {
        int grids[2][3];
        fore_mrope_time times[2];
        fore_status status;
        const char *part;
    } cases[] = {
        {{{1, 2, 4}, {1, 2, 2}}, {{true, 0, 1}, {true, 1, 1}}, FORE_ERR_INVALID, "grid 2 goes on with a video"}, /* text between */
        {{{2, 2, 2}, {1, 2, 2}}, {{true, 1, 1}, {true, 0, 1}}, FORE_ERR_INVALID, "grid 1 goes on with a video"}, /* nothing before */
        {{{1, 2, 2}, {1, 2, 2}}, {{true, 0, 1}, {true, 1, 3e9f}}, FORE_ERR_LIMIT, "positions overflow at token 2"},
        {{{2, 2, 2}, {1, 2, 2}}, {{true, 0, INFINITY}, {false, 0, 0}}, FORE_ERR_LIMIT, "positions overflow at token 1"},
        {{{2, 2, 2}, {1, 2, 2}}, {{true, 0, -1}, {false, 0, 0}}, FORE_ERR_LIMIT, "positions overflow at token 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t table[18], delta;
        fore_error err = {0};
        int grids[2][3];
        memcpy(grids, cases[i].grids, sizeof grids);
        fore_status s = fore_mrope_positions(ids, 6, IMAGE, VIDEO, (const int(*)[3])grids, 2, cases[i].times, 2, table, &delta, &err);
        assert_int_equal(s, cases[i].status);
        if (!strstr(err.text, cases[i].part)) fail_msg("message \"%s\" does not say \"%s\"", err.text, cases[i].part);
    }
    const int32_t two[] = {VIDEO, VIDEO, VIDEO};
    const int other[][3] = {{1, 2, 2}, {1, 2, 4}};
    const fore_mrope_time times[] = {{true, 0, 1}, {true, 1, 1}};
    int32_t table[9], delta;
    fore_error err = {0};
    assert_int_equal(fore_mrope_positions(two, 3, IMAGE, VIDEO, other, 2, times, 2, table, &delta, &err), FORE_ERR_INVALID);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* A video and a picture, given as patches, in a session: as the reference has it, in chunks of every size and in every set; and the
 * same frames at another pace are another video. */
static void test_request(void **state) {
    (void)state;
    static const double times[] = {0.4, 1.2, 2.0}, slower[] = {0.4, 3.2, 6.0};
    static answer base, other;
    const fore_kern *kerns[8];
    int sets = fore_kern_list(kerns);
    for (int k = 0; k < sets; k++) {
        const fore_model_options options = {.isa = kerns[k]->name};
        subject s = subject_open(QWEN2_5 "tied_f32", &options, 512);
        prompt p;
        prompt_open(&p, QWEN2_5 "tied_f32/golden_video.safetensors");
        assert_true(p.video_count == 1 && p.image_count == 1);
        p.videos[0].times = times;
        fore_request r;
        fore_request_init(&r, s.model);
        r.ids = p.ids;
        r.id_count = p.n;
        r.images = p.images;
        r.image_count = p.image_count;
        r.videos = p.videos;
        r.video_count = p.video_count;
        fore_trace *t;
        fore_error err = {0};
        if (fore_session_trace(s.session, &r, &t, &err)) fail_msg("%s", err.text);
        assert_memory_equal(t->positions, golden_i32(&p.g, "position_ids", 3 * p.n), 3 * p.n * sizeof(int32_t));
        assert_int_equal(t->delta, *golden_i32(&p.g, "rope_delta", 1));
        golden_compare(&p.g, "inputs_embeds", t->embeddings, p.n * (size_t)t->hidden, 1e-4);
        golden_compare(&p.g, "logits", t->logits, p.n * (size_t)t->vocab, 1e-4);
        fore_trace_free(t);
        r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
        r.ignore_eos = true;
        r.max_tokens = 40;
        static const int chunks[] = {0, 1, 5};
        for (int i = 0; i < 3; i++) {
            r.prefill_chunk = chunks[i];
            answer_run(s.session, &r, k || i ? &other : &base);
            if (k || i) answer_same(&base, &other, kerns[k]->name);
        }
        assert_memory_equal(base.ids, golden_i32(&p.g, "decode.tokens", 6), 6 * sizeof(int32_t));
        /* One pad for each temporal patch; and a longer prompt, of which the session has the beginning unless the pace is another. */
        int32_t *longer = malloc((p.n + 1) * sizeof *longer);
        size_t n = 0;
        for (size_t i = 0, pads = 0; i < p.n; i++) {
            bool pad = p.ids[i] == s.model->network.config.video_token_id;
            if (!pad || pads++ < 3) longer[n++] = p.ids[i];
        }
        longer[n++] = 7;
        r.max_tokens = 1;
        answer_run(s.session, &r, &other);
        r.ids = longer;
        r.id_count = n;
        answer_run(s.session, &r, &other);
        assert_true(other.stats.reused_tokens >= p.n);
        p.videos[0].times = slower;
        answer_run(s.session, &r, &other);
        assert_int_equal(other.stats.reused_tokens, 0);
        free(longer);
        prompt_close(&p);
        subject_close(&s);
    }
}

/* ---- the tower --------------------------------------------------------------------------------------------------- */

static void open_network(fore_network *network, fore_engine *engine, fore_pool **pool, const char *dir, const fore_kern *kern, int threads) {
    fore_error err = {0};
    if (fore_network_open(dir, kern, NULL, network, &err) || fore_pool_new(threads, pool, &err)) fail_msg("%s", err.text);
    *engine = (fore_engine){.kern = kern, .pool = *pool};
}

/* A video in one grid, and frame by frame: frames do not see each other, so the bits are the same. In every set, too. */
static void test_video(void **state) {
    (void)state;
    golden g;
    golden_open(&g, QWEN2_5 "tied_f32/golden_video.safetensors");
    const fore_kern *kerns[8];
    int sets = fore_kern_list(kerns);
    float *first = NULL;
    for (int k = 0; k < sets; k++) {
        fore_network network;
        fore_engine engine;
        fore_pool *pool;
        open_network(&network, &engine, &pool, QWEN2_5 "tied_f32", kerns[k], 1 + k);
        const int32_t *t = golden_i32(&g, "video_grid_thw", 3);
        const int grid[3] = {t[0], t[1], t[2]}, frame[3] = {1, t[1], t[2]};
        size_t patches = (size_t)(t[1] * t[2]), rows = patches / 4, all = (size_t)t[0] * rows, K = (size_t)network.tower.patch_embed.K;
        size_t C = fore_picture_columns(&network.config);
        const float *pixels = golden_f32(&g, "pixel_values_videos", (size_t)t[0] * patches * K);
        float *whole = calloc(all * C, sizeof *whole), *apart = calloc(all * C, sizeof *apart);
        fore_error err = {0};
        assert_int_equal(fore_tower_forward(&engine, &network, pixels, grid, whole, NULL, NULL, NULL, NULL, &err), 0);
        for (size_t i = 0; i < (size_t)t[0]; i++)
            assert_int_equal(fore_tower_forward(&engine, &network, pixels + i * patches * K, frame, apart + i * rows * C, NULL, NULL, NULL, NULL, &err), 0);
        golden_compare(&g, "vision.video.output", whole, all * C, 1e-4);
        assert_memory_equal(whole, apart, all * C * sizeof *whole);
        if (first) assert_memory_equal(whole, first, all * C * sizeof *whole);
        free(apart);
        if (first) free(whole);
        else first = whole;
        fore_pool_free(pool);
        fore_network_close(&network);
    }
    free(first);
    golden_close(&g);
}

/* Windows of many grids: an order of all merged patches, spans that cover every query once, keys of one window side by side. */
static void test_windows(void **state) {
    (void)state;
    static const int sides[] = {56, 84, 112, 1000}, most[] = {1, 7, 96};
    for (int h = 2; h <= 22; h += 4)
        for (int w = 2; w <= 22; w += 2)
            for (int s = 0; s < 12; s++) {
                const fore_vision_config v = {.patch_size = 14, .spatial_merge_size = 2, .window_size = sides[s % 4]};
                fore_windows made;
                fore_error err = {0};
                assert_int_equal(fore_windows_make(&v, h, w, most[s / 4], &made, &err), 0);
                int merged = h * w / 4, side = v.window_size / 28, seen[22 * 22] = {0}, next = 0, panels = 0;
                for (int i = 0; i < merged; i++) {
                    assert_in_range(made.order[i], 0, merged - 1);
                    assert_int_equal(seen[made.order[i]]++, 0);
                }
                for (int i = 0; i < made.count; i++) {
                    const fore_span *p = &made.spans[i];
                    assert_int_equal(p->first, next);
                    assert_in_range(p->rows, 1, most[s / 4]);
                    assert_true(p->start <= p->first && p->first + p->rows <= p->start + p->keys);
                    int of = made.order[p->start / 4], row = of / (w / 2) / side, column = of % (w / 2) / side;
                    for (int k = 0; k < p->keys; k++) {
                        int at = made.order[(p->start + k) / 4];
                        assert_true(at / (w / 2) / side == row && at % (w / 2) / side == column);
                        assert_int_equal(made.key_at[p->start + k], p->panel * 16 + k);
                    }
                    next = p->first + p->rows;
                    panels = p->panel + (p->keys + 15) / 16;
                }
                assert_int_equal(next, h * w);
                assert_int_equal(made.panels, panels);
                fore_windows_free(&made);
            }
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static void check_picture(const char *file, const fore_processor *p, const cJSON *want) {
    char path[256], hex[2 * crypto_hash_sha256_BYTES + 1];
    unsigned char hash[crypto_hash_sha256_BYTES];
    snprintf(path, sizeof path, PICTURES "%s", file);
    char *data = NULL;
    size_t size;
    fore_error err = {0};
    fore_pixels pixels = {0};
    if (fore_file_read(path, 1 << 24, &data, &size, &err) || fore_image_decode(data, size, file, NULL, &pixels, &err)) fail_msg("%s", err.text);
    free(data);
    float *patches = NULL;
    int grid[3];
    if (fore_image_patches(p, &pixels, file, &patches, grid, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 3; i++) assert_int_equal(grid[i], cJSON_GetArrayItem(fore_json_get(want, "grid_thw"), i)->valueint);
    crypto_hash_sha256(hash, (const unsigned char *)patches, (size_t)(grid[1] * grid[2]) * 3 * 2 * 14 * 14 * sizeof(float));
    sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
    assert_string_equal(hex, fore_json_get(want, "sha256")->valuestring);
    free(patches);
    fore_pixels_free(&pixels);
}

static void test_pictures(void **state) {
    (void)state;
    cJSON *tree = NULL;
    fore_error err = {0};
    fore_processor p;
    if (fore_json_read(QWEN2_5 "pictures.json", 1 << 20, &tree, &err) || fore_processor_read(QWEN2_5 "bf16", NULL, &p, &err)) fail_msg("%s", err.text);
    assert_int_equal(p.min_pixels, 3136);
    assert_int_equal(p.max_pixels, 12845056);
    int count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, tree) {
        fore_processor small = p;
        small.max_pixels = 28 * 28 * 12;
        check_picture(item->string, &p, fore_json_get(item, "published"));
        check_picture(item->string, &small, fore_json_get(item, "small"));
        count++;
    }
    assert_int_equal(count, 6);
    cJSON_Delete(tree);
}

/* ---- the template ------------------------------------------------------------------------------------------------ */

static void test_template(void **state) {
    (void)state;
    cJSON *file = NULL, *cases = NULL;
    fore_error err = {0};
    fore_template *t;
    if (fore_json_read(QWEN2_5 "bf16/chat_template.json", 1 << 20, &file, &err) || fore_json_read(QWEN2_5 "template_cases.json", 1 << 20, &cases, &err))
        fail_msg("%s", err.text);
    const char *source = fore_json_get(file, "chat_template")->valuestring;
    if (fore_template_compile(source, strlen(source), &t, &err)) fail_msg("%s", err.text);
    const cJSON *c;
    int count = 0;
    cJSON_ArrayForEach(c, cases) {
        char *variables = cJSON_PrintUnformatted(fore_json_get(c, "variables")), *text;
        size_t size;
        const fore_trender how = {.as_chat = true};
        if (fore_template_render_as(t, variables, strlen(variables), how, &text, &size, &err)) fail_msg("%s", err.text);
        assert_string_equal(text, fore_json_get(c, "text")->valuestring);
        free(text);
        cJSON_free(variables);
        count++;
    }
    assert_int_equal(count, 6);
    fore_template_free(t);
    cJSON_Delete(file);
    cJSON_Delete(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions), cmocka_unit_test(test_refused_positions), cmocka_unit_test(test_request), cmocka_unit_test(test_video),
        cmocka_unit_test(test_windows),   cmocka_unit_test(test_pictures),          cmocka_unit_test(test_template),
    };
    return cmocka_run_group_tests_name("golden/qwen2_5", tests, NULL, NULL);
}
