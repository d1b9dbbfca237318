/* Prompt expansion, M-RoPE positions and the splice: the reference's table of positions, and every refusal by its message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "multimodal/mrope.h"
#include "multimodal/prompt.h"
#include "multimodal/splice.h"

enum { PAD = 508, VIDEO = 509, MAX = 128 };

static void expect(fore_status status, fore_status want, const fore_error *err, const char *part) {
    assert_int_equal(status, want);
    if (part && !strstr(err->text, part)) fail_msg("message \"%s\" does not say \"%s\"", err->text, part);
}

/* Row `r` of a batch without its padding. */
static size_t unpadded(const cJSON *list, const cJSON *mask, int r, int32_t *out) {
    const cJSON *row = cJSON_GetArrayItem(list, r), *keep = cJSON_IsArray(mask) ? cJSON_GetArrayItem(mask, r) : NULL;
    size_t n = 0;
    for (int i = 0; i < cJSON_GetArraySize(row); i++)
        if (!keep || cJSON_GetArrayItem(keep, i)->valueint) out[n++] = cJSON_GetArrayItem(row, i)->valueint;
    return n;
}

static void test_reference_positions(void **state) {
    (void)state;
    cJSON *tree;
    fore_error err = {0};
    if (fore_json_read(FORE_DATA "/tables/tables/rope_index.json", 1 << 20, &tree, &err)) fail_msg("%s", err.text);
    const cJSON *c;
    int rows = 0, videos = 0;
    cJSON_ArrayForEach(c, fore_json_get(tree, "cases")) {
        const cJSON *ids = fore_json_get(c, "input_ids"), *mask = fore_json_get(c, "attention_mask");
        const cJSON *grids[2] = {fore_json_get(c, "image_grid_thw"), fore_json_get(c, "video_grid_thw")};
        int grid_at[2] = {0}, frame = 0;
        videos += cJSON_GetArraySize(grids[1]);
        for (int r = 0; r < cJSON_GetArraySize(ids); r++, rows++) {
            int32_t row[MAX], want[MAX], table[3 * MAX], delta;
            size_t n = unpadded(ids, mask, r, row), count = 0;
            int g[16][3];
            /* Each run of pads takes the next grid of its kind; those of videos one frame at a time. */
            for (size_t i = 0; i < n;) {
                if (row[i] != PAD && row[i] != VIDEO) {
                    i++;
                    continue;
                }
                int video = row[i] == VIDEO;
                const cJSON *grid = cJSON_GetArrayItem(grids[video], grid_at[video]);
                for (int k = 0; k < 3; k++) g[count][k] = cJSON_GetArrayItem(grid, k)->valueint;
                if (video && ++frame < g[count][0]) grid_at[video]--;
                else frame = 0;
                grid_at[video]++;
                if (video) g[count][0] = 1;
                i += (size_t)(g[count][0] * g[count][1] * g[count][2] / 4);
                count++;
            }
            if (fore_mrope_positions(row, n, PAD, VIDEO, (const int(*)[3])g, count, NULL, 2, table, &delta, &err)) fail_msg("%s", err.text);
            for (int a = 0; a < 3; a++) {
                assert_int_equal(unpadded(cJSON_GetArrayItem(fore_json_get(c, "position_ids"), a), mask, r, want), n);
                assert_memory_equal(table + (size_t)a * n, want, n * sizeof *want);
            }
            assert_int_equal(delta, cJSON_GetArrayItem(fore_json_get(c, "rope_deltas"), r)->valueint);
        }
    }
    assert_true(rows >= 20 && videos >= 5);
    cJSON_Delete(tree);
}

static void test_touching_pictures(void **state) {
    (void)state;
    const int32_t ids[] = {1, PAD, PAD, PAD, PAD, PAD, 2};
    const int grids[][3] = {{1, 2, 4}, {1, 6, 2}};
    int32_t table[21], delta;
    assert_int_equal(fore_mrope_positions(ids, 7, PAD, VIDEO, grids, 2, NULL, 2, table, &delta, NULL), 0);
    const int32_t t[] = {0, 1, 1, 3, 3, 3, 6}, h[] = {0, 1, 1, 3, 4, 5, 6}, w[] = {0, 1, 2, 3, 3, 3, 6};
    assert_memory_equal(table, t, sizeof t);
    assert_memory_equal(table + 7, h, sizeof h);
    assert_memory_equal(table + 14, w, sizeof w);
    assert_int_equal(delta, 0);
}

static void test_refused_positions(void **state) {
    (void)state;
    const int32_t two[] = {1, PAD, PAD, 2}, text[] = {1, 2}, video[] = {1, VIDEO};
    int32_t table[12], delta;
    fore_error err;
    const struct {
        const int32_t *ids;
        size_t n;
        int grid[3];
        size_t grids;
        fore_status status;
        const char *part;
    } cases[] = {
        {two, 4, {1, 4, 4}, 1, FORE_ERR_INVALID, "needs 4 pads, the prompt has 2"},
        {two, 4, {1, 2, 2}, 1, FORE_ERR_INVALID, "an image pad at token 2 has no picture"},
        {two, 4, {0}, 0, FORE_ERR_INVALID, "has no picture (0 given)"},
        {text, 2, {1, 2, 2}, 1, FORE_ERR_INVALID, "picture 1 of 1 has no pads"},
        {two, 4, {1, 3, 2}, 1, FORE_ERR_INVALID, "does not divide by the merge size 2"},
        {two, 4, {1, 2, 0}, 1, FORE_ERR_INVALID, "is not positive"},
        {two, 4, {-1, 2, 2}, 1, FORE_ERR_INVALID, "is not positive"},
        {two, 4, {1 << 30, 1 << 30, 1 << 30}, 1, FORE_ERR_LIMIT, "overflows"},
        {video, 2, {0}, 0, FORE_ERR_INVALID, "a video pad at token 1 has no picture (0 given)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int grids[1][3];
        memcpy(grids[0], cases[i].grid, sizeof grids[0]);
        fore_status s = fore_mrope_positions(cases[i].ids, cases[i].n, PAD, VIDEO, (const int(*)[3])grids, cases[i].grids, NULL, 2, table, &delta, &err);
        expect(s, cases[i].status, &err, cases[i].part);
    }
}

static void test_expansion(void **state) {
    (void)state;
    const int32_t ids[] = {1, PAD, 2, PAD, 3}, want[] = {1, PAD, PAD, PAD, 2, PAD, PAD, 3};
    const size_t pads[] = {3, 2};
    const fore_pad picture = {PAD, "picture"};
    int32_t *out;
    size_t n;
    fore_error err;
    assert_int_equal(fore_prompt_expand(ids, 5, picture, pads, 2, 0, &out, &n, &err), 0);
    assert_int_equal(n, 8);
    assert_memory_equal(out, want, sizeof want);
    int32_t *again; /* already expanded: as it is */
    assert_int_equal(fore_prompt_expand(out, n, picture, pads, 2, 8, &again, &n, &err), 0);
    assert_int_equal(n, 8);
    assert_memory_equal(again, want, sizeof want);
    free(again);
    free(out);
    expect(fore_prompt_expand(ids, 5, picture, pads, 0, 0, &out, &n, &err), FORE_ERR_INVALID, &err, "places 2 pictures, none was given");
    expect(fore_prompt_expand(ids, 5, picture, pads, 1, 0, &out, &n, &err), FORE_ERR_INVALID, &err, "places 2 pictures, only 1 given");
    expect(fore_prompt_expand(ids, 3, picture, pads, 2, 0, &out, &n, &err), FORE_ERR_INVALID, &err, "2 pictures given, the prompt places only 1");
    expect(fore_prompt_expand(ids, 5, picture, pads, 2, 7, &out, &n, &err), FORE_ERR_LIMIT, &err, "8 tokens (5 of pictures), the context has 7");
    assert_null(out);
}

static const fore_video_words WORDS = {.start = "<s>", .pad = "<v>", .end = "<e>", .start_size = 3, .pad_size = 3, .end_size = 3};

static void expect_text(const char *text, size_t videos, fore_video_layout layout, const char *want) {
    static const double one[] = {0.25, 1.75, 12345678.04}, two[] = {3};
    const fore_video_times times[] = {{one, 3}, {two, 1}};
    fore_buf out = {0};
    fore_error err = {0};
    fore_status s = fore_prompt_expand_videos(text, strlen(text), &WORDS, times, videos, 9, layout, &out, &err);
    assert_string_equal(s ? err.text : out.data, want);
    fore_buf_free(&out);
}

static void test_video_text(void **state) {
    (void)state;
    expect_text("a<s><v><e>b", 1, FORE_LAYOUT_FLAT, "a<0.2 seconds><s><v><e><1.8 seconds><s><v><e><12345678.0 seconds><s><v><e>b");
    expect_text("a<s><v><e>b", 1, FORE_LAYOUT_NESTED, "a<s><0.2 seconds><s><v><e><1.8 seconds><s><v><e><12345678.0 seconds><s><v><e><e>b");
    expect_text("<v><s><v>", 2, FORE_LAYOUT_FLAT,
                "<0.2 seconds><s><v><e><1.8 seconds><s><v><e><12345678.0 seconds><s><v><e><s><3.0 seconds><s><v><e>"); /* nothing to open */
    expect_text("<v>x<v>y<v>z<v>", 2, FORE_LAYOUT_FLAT, "<v>x<v>y<v>z<v>"); /* a pad a temporal patch is there */
    expect_text("<v><v><v><v><v><v><v><v><v>", 2, FORE_LAYOUT_FLAT, "<v><v><v><v><v><v><v><v><v>"); /* all of them are */
    expect_text("a<s><v><e>b<s><v><e>", 2, FORE_LAYOUT_BLOCK, "a<s><v><v><v><e>b<s><v><e>");
    expect_text("<v>x<v>y<v>z<v>", 2, FORE_LAYOUT_BLOCK, "<v>x<v>y<v>z<v>");
    expect_text("<v>", 2, FORE_LAYOUT_BLOCK, "prompt: 2 videos given, the prompt places 1; the template may not know videos");
    expect_text("no", 1, FORE_LAYOUT_FLAT, "prompt: 1 video given, the prompt places 0; the template may not know videos");
    expect_text("<v><v>", 1, FORE_LAYOUT_FLAT, "prompt: 1 video given, the prompt places 2; give the others or take their pads out of the text");
}

typedef struct fixture {
    fore_network network;
    int C;
    int32_t pad;
} fixture;

static int open_network(void **state) {
    static fixture f;
    const fore_kern *kern;
    fore_error err;
    if (fore_kern_get(NULL, &kern, &err) || fore_network_open(FORE_DATA "/models/dense_tied_f32", kern, NULL, &f.network, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    f.C = f.network.config.text.hidden_size;
    f.pad = f.network.config.image_token_id;
    *state = &f;
    return 0;
}

static int close_network(void **state) {
    fixture *f = *state;
    fore_network_close(&f->network);
    return 0;
}

/* Rows whose every value is the row's number + 1000. */
static float *numbered_rows(const fixture *f, size_t rows) {
    float *out = malloc(rows * (size_t)f->C * sizeof *out);
    for (size_t i = 0; i < rows * (size_t)f->C; i++) out[i] = (float)(1000 + i / (size_t)f->C);
    return out;
}

static void test_splice(void **state) {
    fixture *f = *state;
    int32_t p = f->pad;
    const int32_t ids[] = {5, p, p, p, p, 6, p, p, 7};
    const int grids[][3] = {{1, 4, 4}, {1, 2, 4}};
    const size_t pads[] = {4, 2};
    size_t C = (size_t)f->C;
    fore_splice s;
    fore_error err = {0};
    const fore_splice_input in = {.ids = ids, .n = 9, .embeddings = numbered_rows(f, 6), .rows = 6, .hidden = f->C, .grids = grids,
                                  .pad_counts = pads, .images = 2};
    assert_int_equal(fore_splice_init(&f->network, &in, &s, &err), 0);
    float *whole = malloc(9 * C * sizeof *whole), *parts = malloc(9 * C * sizeof *parts), *plain = malloc(C * sizeof *plain);
    assert_int_equal(fore_splice_chunk(&s, ids, 9, whole, &err), 0);
    assert_int_equal(fore_splice_finish(&s, &err), 0);
    const int rows[] = {-1, 0, 1, 2, 3, -1, 4, 5, -1};
    for (size_t i = 0; i < 9; i++) {
        fore_weight_row(f->network.kern, &f->network.embed, ids[i], plain);
        for (size_t c = 0; c < C; c++) assert_true(whole[i * C + c] == (rows[i] < 0 ? plain[c] : (float)(1000 + rows[i])));
    }
    /* Every chunk size, boundaries inside pictures, after a reset; and windows that leave the cursor alone. */
    for (size_t step = 1; step < 9; step++) {
        fore_splice_reset(&s);
        size_t before = 0;
        for (size_t at = 0; at < 9; at += step) {
            size_t n = 9 - at < step ? 9 - at : step, cursor = s.cursor;
            assert_int_equal(fore_splice_window(&s, ids + at, n, before, parts + at * C, &err), 0);
            assert_int_equal(s.cursor, cursor);
            assert_memory_equal(parts + at * C, whole + at * C, n * C * sizeof *parts);
            assert_int_equal(fore_splice_chunk(&s, ids + at, n, parts + at * C, &err), 0);
            before = s.cursor;
        }
        assert_int_equal(fore_splice_finish(&s, &err), 0);
        assert_memory_equal(parts, whole, 9 * C * sizeof *parts);
    }
    /* Too many pads for what is left: both counts, and the cursor stays. */
    fore_splice_reset(&s);
    assert_int_equal(fore_splice_chunk(&s, ids, 4, parts, &err), 0);
    expect(fore_splice_chunk(&s, ids, 5, parts, &err), FORE_ERR_INVALID, &err, "has 4 image pads, only 3 of 6");
    assert_int_equal(s.cursor, 3);
    expect(fore_splice_finish(&s, &err), FORE_ERR_BUG, &err, "3 of 6 picture rows were left over");
    expect(fore_splice_window(&s, ids, 5, 4, parts, &err), FORE_ERR_INVALID, &err, "takes picture rows 4 to 8, there are 6");
    expect(fore_splice_skip(&s, ids, 9, &err), FORE_ERR_INVALID, &err, "has 6 image pads");
    free(whole);
    free(parts);
    free(plain);
    fore_splice_free(&s);
}

static void test_refused_splices(void **state) {
    fixture *f = *state;
    int32_t p = f->pad;
    const int32_t ids[] = {5, p, p, p, p, 6};
    const int grids[][3] = {{1, 4, 4}}, other[][3] = {{1, 2, 4}};
    const size_t pads[] = {4}, two[] = {2};
    const struct {
        size_t n, rows;
        int hidden;
        const int (*grids)[3];
        const size_t *pads;
        const char *part;
    } cases[] = {
        {6, 4, f->C + 1, grids, pads, "columns, the trunk's hidden size"},
        {6, 4, f->C, other, pads, "picture 1 has 4 pads, its grid 1x2x4 gives 2"},
        {6, 5, f->C, grids, pads, "add up to 4, there are 5 rows"},
        {4, 4, f->C, grids, pads, "the prompt has 3 image pads, the pictures have 4 rows"},
        {6, 2, f->C, other, two, "the prompt has 4 image pads, the pictures have 2 rows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fore_splice s;
        fore_error err = {0};
        const fore_splice_input in = {.ids = ids, .n = cases[i].n, .embeddings = numbered_rows(f, cases[i].rows), .rows = cases[i].rows,
                                      .hidden = cases[i].hidden, .grids = cases[i].grids, .pad_counts = cases[i].pads, .images = 1};
        expect(fore_splice_init(&f->network, &in, &s, &err), FORE_ERR_INVALID, &err, cases[i].part);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_positions), cmocka_unit_test(test_touching_pictures), cmocka_unit_test(test_refused_positions),
        cmocka_unit_test(test_expansion), cmocka_unit_test(test_video_text),           cmocka_unit_test(test_splice),            cmocka_unit_test(test_refused_splices),
    };
    return cmocka_run_group_tests_name("multimodal", tests, open_network, close_network);
}
