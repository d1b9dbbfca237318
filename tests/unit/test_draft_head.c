/* The draft-only output head: its rows against the quantised format's own functions, which ids it has, what a session adds and when
 * the model's own head takes over; and sampling from a subset against sampling from a full row that is minus infinity elsewhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "decode/session.h"
#include "kernels/half.h"
#include "kernels/quant.h"
#include "support/answer.h"
#include "support/scratch.h"
#include "text/tokenizer.h"

static double chance(uint64_t seed, uint64_t at) { return ((double)fore_random_bits(seed, at, 0, 21) + 0.5) * 0x1p-32; }

static void *get(size_t size) {
    void *p = calloc(1, size);
    assert_non_null(p);
    return p;
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

enum { V = 200, C = 256, COUNT = 53 };

/* A source matrix [V,C] of a type or, with bits, of panels of `group`. */
static fore_weight make_source(fore_dtype dtype, int bits, int group, void **owned) {
    fore_weight w = {.dtype = dtype, .N = V, .K = C, .bits = bits, .group = bits ? group : 0};
    float *x = get((size_t)V * C * 4);
    for (uint64_t i = 0; i < (uint64_t)V * C; i++) x[i] = (float)(chance(3, i) - 0.5) * (float)(1 + i % 7);
    if (bits) {
        const fore_qweight q = fore_weight_quantised(&w);
        unsigned char *stored = get(fore_qweight_stored_q(&q) + 2 * fore_qweight_stored_affine(&q));
        unsigned char *scales = stored + fore_qweight_stored_q(&q), *biases = scales + fore_qweight_stored_affine(&q);
        if (dtype == FORE_DTYPE_BF16 || dtype == FORE_DTYPE_F16)
            assert_int_equal(fore_quantize_rows(&q, stored, scales, biases, FORE_DTYPE_F32, x, NULL), FORE_OK);
        else /* any numbers: bytes below 0x40 make finite scales, and bytes of scales that are products */
            for (size_t i = 0; i < fore_qweight_stored_q(&q) + 2 * fore_qweight_stored_affine(&q); i++)
                stored[i] = (unsigned char)(fore_random_bits(4, i, 0, 21) & 0x3f);
        *owned = get(fore_weight_bytes(&w));
        fore_qweight_pack(&q, *owned, stored, scales, biases);
        free(stored);
    } else if (dtype == FORE_DTYPE_F32) {
        *owned = get((size_t)V * C * 4);
        memcpy(*owned, x, (size_t)V * C * 4);
    } else {
        uint16_t *h = get((size_t)V * C * 2);
        for (size_t i = 0; i < (size_t)V * C; i++) h[i] = dtype == FORE_DTYPE_BF16 ? fore_to_bf16(x[i]) : fore_to_f16(x[i]);
        *owned = h;
    }
    free(x);
    w.data = *owned;
    return w;
}

/* Row `id` of the source as the form keeps it, widened. */
static void expect_row(const fore_kern *kern, const fore_weight *source, const fore_weight *form, int id, float *row) {
    fore_weight_row(kern, source, id, row);
    if (!form->bits || (form->bits == source->bits && form->group == source->group)) return;
    fore_weight one = *form;
    one.N = 1;
    fore_qweight q = fore_weight_quantised(&one);
    unsigned char stored[C], scales[2 * C], biases[2 * C];
    void *panel = get(fore_weight_bytes(&one));
    assert_int_equal(fore_quantize_rows(&q, stored, scales, biases, FORE_DTYPE_F32, row, NULL), FORE_OK);
    fore_qweight_pack(&q, panel, stored, scales, biases);
    q.panels = panel;
    fore_qweight_dequantize(&q, 0, row);
    free(panel);
}

static void check_rows(const fore_weight *source, int bits, fore_pool *pool) {
    const fore_kern *kern;
    fore_error err;
    fore_draft_head head;
    fore_weight form;
    int32_t ids[COUNT];
    float want[C], got[C];
    for (int i = 0; i < COUNT; i++) ids[i] = i * 7 % 5 + i * 3; /* not all in panels of their own */
    for (int i = 1; i < COUNT; i++) ids[i] = ids[i] > ids[i - 1] ? ids[i] : ids[i - 1] + 1;
    assert_int_equal(fore_kern_get(NULL, &kern, &err), FORE_OK);
    assert_true(fore_draft_form(source, bits, &form));
    assert_int_equal(form.bits, bits == 16 ? source->bits : bits);
    if (fore_draft_head_new(kern, source, &form, ids, COUNT, pool, &head, &err)) fail_msg("%s", err.text);
    assert_int_equal(head.rows.N, COUNT);
    void *work = get(fore_draft_row_work(&form) + 1);
    void *memory = get(fore_weight_bytes(&head.rows));
    fore_weight alone = head.rows; /* the same rows, put one by one in another order */
    alone.data = memory;
    for (int k = 0, n = 5; k < COUNT; k++, n = (n + 17) % COUNT) assert_true(fore_draft_row(kern, source, ids[n], &alone, memory, n, work));
    assert_memory_equal(memory, head.rows.data, fore_weight_bytes(&head.rows));
    for (int i = 0; i < COUNT; i++) {
        expect_row(kern, source, &form, ids[i], want);
        fore_weight_row(kern, &head.rows, i, got);
        assert_memory_equal(got, want, sizeof want);
        assert_int_equal(head.places[ids[i]], i);
    }
    for (int id = 0, inside = 0; id < V; id++) {
        inside += head.places[id] >= 0;
        if (id == V - 1) assert_int_equal(inside, COUNT);
    }
    free(work);
    free(memory);
    fore_draft_head_free(&head);
}

static void test_rows(void **state) {
    (void)state;
    static const struct {
        fore_dtype dtype;
        int bits, group;
    } kinds[] = {{FORE_DTYPE_F32, 0, 0}, {FORE_DTYPE_BF16, 0, 0}, {FORE_DTYPE_F16, 0, 0}, {FORE_DTYPE_BF16, 4, 64}, {FORE_DTYPE_F16, 4, 32}, {FORE_DTYPE_BF16, 8, 64},
                 {FORE_DTYPE_F32, 4, 32}, {FORE_DTYPE_F32, 8, 128}, {FORE_DTYPE_U8, 4, 32},   {FORE_DTYPE_U8, 8, 32},   {FORE_DTYPE_I8, 8, 16}};
    fore_error err;
    fore_pool *pool;
    assert_int_equal(fore_pool_new(3, &pool, &err), FORE_OK);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        void *owned;
        const fore_weight source = make_source(kinds[i].dtype, kinds[i].bits, kinds[i].group, &owned);
        for (int bits = 4; bits <= 16; bits *= 2) check_rows(&source, bits, bits == 8 ? NULL : pool);
        free(owned);
    }
    fore_weight form, odd = {.dtype = FORE_DTYPE_BF16, .N = 8, .K = 96};
    assert_true(fore_draft_form(&odd, 4, &form) && form.group == 32);
    odd.K = 100;
    assert_false(fore_draft_form(&odd, 4, &form));
    assert_true(fore_draft_form(&odd, 16, &form));
    fore_pool_free(pool);
}

static void test_not_finite(void **state) {
    (void)state;
    void *owned;
    fore_weight source = make_source(FORE_DTYPE_F32, 0, 0, &owned), form;
    ((float *)owned)[40 * C + 3] = INFINITY;
    const fore_kern *kern;
    fore_error err = {0};
    fore_draft_head head;
    const int32_t ids[] = {1, 40, 90};
    assert_int_equal(fore_kern_get(NULL, &kern, &err), FORE_OK);
    assert_true(fore_draft_form(&source, 4, &form));
    assert_int_equal(fore_draft_head_new(kern, &source, &form, ids, 3, NULL, &head, &err), FORE_ERR_FORMAT);
    assert_null(head.memory);
    assert_non_null(strstr(err.text, "cannot be quantised"));
    form.N = 16;
    void *memory = get(fore_weight_bytes(&form)), *work = get(fore_draft_row_work(&form));
    assert_false(fore_draft_row(kern, &source, 40, &form, memory, 3, work));
    assert_true(fore_draft_row(kern, &source, 41, &form, memory, 3, work));
    free(memory);
    free(work);
    free(owned);
}

/* ---- sampling ----------------------------------------------------------------------------------------------------- */

static void test_subset(void **state) {
    (void)state;
    enum { WORDS = 300, USABLE = 290, SOME = 90 };
    static const fore_logit_bias bias[] = {{7, 2}, {9, -INFINITY}, {100, 1.5f}};
    static const fore_sampling settings[] = {
        {.temperature = 0, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 0, .top_p = 1, .repetition_penalty = 1.4f, .presence_penalty = 0.7f, .bias = bias, .bias_count = 3},
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 0.7f, .top_p = 0.9f, .top_k = 20, .repetition_penalty = 1.1f, .seed = 5},
        {.temperature = 1.3f, .top_p = 0.95f, .min_p = 0.03f, .repetition_penalty = 1, .frequency_penalty = 0.5f, .bias = bias, .bias_count = 3},
    };
    fore_error err;
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        fore_sampler *s;
        fore_rejection *a, *b;
        if (fore_sampler_new(&settings[k], WORDS, USABLE, &s, &err) || fore_rejection_new(WORDS, 4, &a, &err) || fore_rejection_new(WORDS, 4, &b, &err))
            fail_msg("%s", err.text);
        for (uint64_t i = 0; i < 40; i++) fore_sampler_count(s, (int32_t)(i * 5), i % 2);
        for (uint64_t row = 0; row < 200; row++) {
            float logits[WORDS], full[WORDS];
            int32_t ids[SOME], places[WORDS];
            memset(places, -1, sizeof places);
            for (int i = 0; i < WORDS; i++) full[i] = -INFINITY;
            for (int i = 0, id = 0; i < SOME; i++, id += 1 + (int)(3 * chance(row, (uint64_t)i + 500)) % 3) {
                ids[i] = id;
                places[id] = i;
                logits[i] = full[id] = row % 3 ? (float)(8 * chance(row, (uint64_t)i)) : (float)(int)(4 * chance(row, (uint64_t)i)); /* ties */
            }
            if (row % 5 == 0) logits[4] = full[ids[4]] = NAN;
            const fore_subset some = {ids, places, SOME};
            int32_t want = fore_sampler_choose(s, full, row), got = fore_sampler_choose_of(s, &some, logits, row);
            if (want != got) fail_msg("setting %zu, row %d: %d instead of %d", k, (int)row, (int)got, (int)want);
            if (settings[k].temperature > 0)
                assert_int_equal(fore_rejection_draft(a, s, NULL, full, 2, row), fore_rejection_draft(b, s, &some, logits, 2, row));
            int32_t turned[SOME]; /* the order of the list says nothing */
            float turned_logits[SOME];
            for (int i = 0; i < SOME; i++) {
                turned[i] = ids[SOME - 1 - i];
                turned_logits[i] = logits[SOME - 1 - i];
                places[turned[i]] = i;
            }
            const fore_subset back = {turned, places, SOME};
            if (settings[k].top_p == 1 || row % 3) assert_int_equal(fore_sampler_choose_of(s, &back, turned_logits, row), want);
        }
        fore_sampler_free(s);
        fore_rejection_free(a);
        fore_rejection_free(b);
    }
}

/* ---- models and sessions ------------------------------------------------------------------------------------------ */

static fore_status open_tiny(const char *dir, int bits, int vocabulary, fore_model **m, fore_error *err) {
    const fore_model_options o = {.draft_head_bits = bits, .draft_vocabulary = vocabulary};
    return fore_model_open(dir, &o, m, err);
}

static int expect_count(const fore_model *m, int ranked) {
    int n = 0;
    for (int id = 0; id < m->usable; id++) {
        bool added = m->tokenizer->pieces[id].flags & FORE_TOKEN_ADDED, pad = id == m->network.config.image_token_id || id == m->network.config.video_token_id;
        bool wanted = (id < ranked || added) && !pad;
        if ((m->draft_head.places[id] >= 0) != wanted) fail_msg("id %d: %s expected", id, wanted ? "" : "not ");
        n += wanted;
    }
    return n;
}

static void test_choice(void **state) {
    (void)state;
    fore_model *m;
    fore_error err = {0};
    fore_model_info info;
    static const int none[][2] = {{0, 0}, {0, -1}, {16, 0}, {16, -1}, {0, 5000}}; /* nothing to choose: a small vocabulary */
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(open_tiny("models/tiny", none[i][0], none[i][1], &m, &err), FORE_OK);
        fore_model_get_info(m, &info);
        assert_true(m->draft_head.rows.N == 0 && info.draft_vocabulary == 0 && info.draft_head_bits == 0);
        fore_plan plan;
        fore_model_plan(m, 128, &plan);
        assert_int_equal(plan.draft_head, 0);
        fore_model_close(m);
    }
    static const int some[][3] = {{0, 300, 4}, {4, 300, 4}, {8, 1, 8}, {16, 300, 16}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        assert_int_equal(open_tiny("models/tiny", some[i][0], some[i][1], &m, &err), FORE_OK);
        fore_model_get_info(m, &info);
        assert_int_equal(info.draft_head_bits, some[i][2]);
        assert_int_equal(info.draft_vocabulary, expect_count(m, some[i][1]));
        fore_plan plan;
        fore_model_plan(m, 128, &plan);
        assert_int_equal(plan.draft_head, m->draft_head.bytes);
        fore_model_close(m);
    }
    assert_int_equal(open_tiny("models/tiny", 4, 0, &m, &err), FORE_OK); /* all of it, at fewer bits */
    assert_true(m->draft_head.rows.N == m->usable && m->draft_head.rows.bits == 4);
    fore_model_close(m);
    assert_int_equal(open_tiny("models/tiny", 5, 0, &m, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "expected 4, 8, 16"));
    assert_int_equal(open_tiny("models/tiny", 0, -2, &m, &err), FORE_ERR_INVALID);
    assert_non_null(strstr(err.text, "draft_vocabulary -2"));
}

static void test_file(void **state) {
    (void)state;
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json", "preprocessor_config.json"};
    scratch s;
    scratch_make(&s);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char from[64];
        snprintf(from, sizeof from, "models/tiny/%s", files[i]);
        scratch_copy(&s, from, files[i]);
    }
    fore_model *m;
    fore_error err = {0};
    static const char list[] = "[900, 5, 700, 5, 6, 1]";
    scratch_write(&s, "draft_vocabulary.json", list, strlen(list));
    assert_int_equal(open_tiny(s.dir, 0, 0, &m, &err), FORE_OK);
    int added = m->draft_head.rows.N - 5;
    assert_true(added > 10 && m->draft_head.places[900] >= 0 && m->draft_head.places[1] >= 0 && m->draft_head.places[2] < 0);
    assert_int_equal(m->draft_head.rows.bits, 4);
    fore_model_close(m);
    assert_int_equal(open_tiny(s.dir, 0, 3, &m, &err), FORE_OK); /* the first three */
    assert_int_equal(m->draft_head.rows.N, added + 3);
    assert_true(m->draft_head.places[700] >= 0 && m->draft_head.places[6] < 0);
    fore_model_close(m);
    assert_int_equal(open_tiny(s.dir, 4, -1, &m, &err), FORE_OK); /* all, whatever the file says */
    assert_int_equal(m->draft_head.rows.N, m->usable);
    fore_model_close(m);
    static const struct {
        const char *text, *says;
    } bad[] = {{"[]", "expected a list of token ids"}, {"{\"a\": 1}", "expected a list of token ids"}, {"[1, -1]", "item 1: expected a token id from 0 to"},
               {"[1, 2, \"x\"]", "item 2"}, {"[1.5]", "item 0"}, {"[100000000]", "item 0"}, {"[1", "draft_vocabulary.json"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scratch_write(&s, "draft_vocabulary.json", bad[i].text, strlen(bad[i].text));
        assert_int_equal(open_tiny(s.dir, 0, 0, &m, &err), FORE_ERR_FORMAT);
        if (!strstr(err.text, bad[i].says)) fail_msg("%s: %s", bad[i].text, err.text);
    }
    scratch_remove(&s);
}

/* What a session adds can be drafted, with the logits that the whole head at these bits would have. */
static void test_words(void **state) {
    (void)state;
    const fore_model_options few = {.draft_head_bits = 4, .draft_vocabulary = 100}, all = {.draft_head_bits = 4};
    subject s = subject_open("models/tiny", &few, 128), t = subject_open("models/tiny", &all, 128);
    const fore_model *m = s.model;
    fore_error err;
    fore_draft_words w = {0};
    assert_int_equal(fore_draft_words_reserve(&w, m, &err), FORE_OK);
    int base = m->draft_head.rows.N;
    size_t width = (size_t)m->network.config.text.hidden_size;
    float *post = get(width * 4), *whole = get((size_t)t.model->draft_head.rows.N * 4);
    for (size_t i = 0; i < width; i++) post[i] = (float)chance(9, i) - 0.5f;
    const fore_product product = {&t.model->draft_head.rows, NULL, whole, (size_t)t.model->draft_head.rows.N};
    fore_linear(&s.session->engine, post, width, 1, &product, 1);
    for (int round = 0; round < 2; round++) {
        w.room = 20; /* so that the oldest ones go */
        for (int k = 0; k < 50; k++) {
            int32_t id = 200 + k * 3;
            fore_draft_words_add(&w, m, id, false);
            fore_draft_words_add(&w, m, id, false); /* it is there already */
            fore_subset some;
            fore_draft_words_logits(&w, &s.session->engine, post, &some);
            assert_int_equal(some.count, base + (k < 20 ? k + 1 : 20));
            assert_true(some.places[id] >= base && (k < 20 || some.places[id - 60] < 0));
            for (int i = 0; i < some.count; i++) {
                assert_int_equal(some.places[some.ids[i]], i);
                assert_true(w.logits[i] == whole[some.ids[i]]);
            }
        }
        fore_draft_words_add(&w, m, m->network.config.image_token_id, false);
        fore_draft_words_add(&w, m, -1, false);
        fore_draft_words_add(&w, m, m->usable, false);
        assert_true(w.places[m->network.config.image_token_id] < 0 && w.rows.N == 20);
        fore_draft_words_forget(&w);
        assert_int_equal(w.rows.N, 0);
        for (int id = 0; id < m->network.config.text.vocab_size; id++) assert_int_equal(w.places[id], m->draft_head.places[id]);
    }
    fore_draft_words_free(&w);
    free(post);
    free(whole);
    subject_close(&s);
    subject_close(&t);
}

/* A text that the vocabulary lacks: the model's own head drafts until it is over. */
static void test_whole(void **state) {
    (void)state;
    const fore_model_options few = {.draft_head_bits = 4, .draft_vocabulary = 100};
    subject s = subject_open("models/tiny", &few, 128);
    fore_error err;
    fore_draft_words w = {0};
    assert_int_equal(fore_draft_words_reserve(&w, s.model, &err), FORE_OK);
    for (int i = 0; i < 100; i++) fore_draft_words_add(&w, s.model, i % 3 ? 5 : 200 + i, true);
    assert_false(w.whole); /* a third */
    for (int i = 0; i < 100; i++) fore_draft_words_add(&w, s.model, 600 + i, true);
    assert_false(w.whole); /* the caller named the number of ids */
    assert_true(w.outside > 0.9);
    s.model->fixed_draft_vocabulary = false;
    fore_draft_words_forget(&w);
    int turned = 0;
    for (int i = 0; i < 100; i++) {
        fore_draft_words_add(&w, s.model, 400 + i, true);
        if (w.whole && !turned) turned = i;
    }
    assert_true(w.whole && turned > 4 && turned < 40);
    for (int i = 0; i < 20; i++) fore_draft_words_add(&w, s.model, 400 + i, true); /* known by now */
    assert_true(w.whole);
    for (int i = 0; i < 60; i++) fore_draft_words_add(&w, s.model, 400 + i, true);
    assert_false(w.whole);
    fore_draft_words_free(&w);
    subject_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows), cmocka_unit_test(test_not_finite), cmocka_unit_test(test_subset), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_file), cmocka_unit_test(test_words),      cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests_name("draft head", tests, NULL, NULL);
}
