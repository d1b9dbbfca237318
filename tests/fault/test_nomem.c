/* Memory runs out at every single allocation of a short run: each time the call fails with FORE_ERR_NOMEM, says so, leaves
 * nothing behind, and works again when memory is back. The allocation functions of the whole program, libraries included,
 * are replaced; under a sanitizer, which has its own, only those that this project calls (by the linker's --wrap). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "decode/session.h"
#include "model/pack.h"
#include "support/failing_malloc.h"
#include "support/scratch.h"

/* A run returns its status and leaves nothing allocated. */
typedef fore_status (*short_run)(void *context, fore_error *err);

/* Every n: the n-th allocation fails. Ends when a run needs fewer than n. */
static void fail_each(const char *name, short_run run, void *context, long at_least) {
    fore_error err = {0};
    if (run(context, &err)) fail_msg("%s: does not run at all: %s", name, err.text); /* and one-time memory of libraries is taken */
    long n = 0, wrong = 0;
    for (;; n++) {
        long before = atomic_load(&malloc_live);
        err = (fore_error){0};
        atomic_store(&malloc_refused, false);
        atomic_store(&malloc_left, n);
        atomic_store(&malloc_armed, true);
        fore_status s = run(context, &err);
        atomic_store(&malloc_armed, false);
        long after = atomic_load(&malloc_live);
#ifndef FORE_WRAP_ALLOCATIONS /* there the project also frees what libraries made; leaks are the sanitizer's to find */
        if (after != before) fail_msg("%s: %ld allocations are left when number %ld failed (%s)", name, after - before, n, err.text);
#else
        (void)before, (void)after;
        at_least = 1;
#endif
        if (!atomic_load(&malloc_refused)) {
            if (s) fail_msg("%s: fails without a reason: %s", name, err.text);
            break;
        }
        if (s == FORE_OK) continue; /* a library had another way */
        if (s != FORE_ERR_NOMEM || !err.text[0]) {
            print_error("%s: status %d \"%s\" when allocation %ld failed\n", name, s, err.text, n);
            wrong++;
        }
    }
    print_message("%s: %ld allocations\n", name, n);
    assert_int_equal(wrong, 0);
    assert_true(n >= at_least);
}

static fore_status open_random_model(void *context, fore_error *err) {
    fore_model *m;
    fore_status s = fore_model_open(context, NULL, &m, err);
    if (!s) fore_model_close(m);
    return s;
}

/* With a draft-only output head. */
static fore_status open_with_words(void *context, fore_error *err) {
    fore_model *m;
    const fore_model_options o = {.draft_head_bits = 4, .draft_vocabulary = 50};
    fore_status s = fore_model_open(context, &o, &m, err);
    if (s) return s;
    if (!m->draft_head.rows.N) s = fore_fail(err, FORE_ERR_BUG, "no draft head");
    fore_model_close(m);
    return s;
}

/* A pack is made, then used. It may be done without for want of memory; the network may not. */
static fore_status open_with_pack(void *context, fore_error *err) {
    fore_network n;
    const fore_kern *kern;
    char *path = NULL;
    uint8_t key[32];
    fore_load how = {.pack_dir = context, .pack_stem = "m"};
    fore_status s = fore_kern_get(NULL, &kern, err);
    for (int i = 0; i < 2 && !s; i++) {
        s = fore_network_open(context, kern, &how, &n, err);
        if (s) break;
        memcpy(key, n.panels.packed.key, 32);
        fore_network_close(&n);
        how.pack_read_only = true;
    }
    if (!s) path = fore_pack_path(context, "m", key);
    if (path) remove(path);
    free(path);
    return s;
}

static void test_pack(void **state) {
    (void)state;
    scratch dir;
    fore_error err = {0};
    fore_quantize_options options;
    scratch_make(&dir);
    fore_quantize_options_init(&options, 4);
    options.group = 32;
    if (fore_quantize("models/tiny", dir.dir, &options, NULL, &err)) fail_msg("%s", err.text);
    fail_each("weights with a pack", open_with_pack, dir.dir, 20);
    scratch_remove(&dir);
}

static fore_status open_tokenizer(void *context, fore_error *err) {
    fore_tokenizer *t;
    fore_status s = fore_tokenizer_open(context, &t, err);
    if (!s) fore_tokenizer_close(t);
    return s;
}

static fore_status encode_and_decode(void *context, fore_error *err) {
    const char *text = "One <|im_end|> two, dreizehn caf\xC3\xA9 e\xCC\x81\xF0\x9F\x98\x80  \n\n 12345 \xFF.";
    int32_t *ids = NULL;
    size_t n, size;
    char *back = NULL;
    fore_status s = fore_tokenizer_encode(context, text, strlen(text), &ids, &n, err);
    if (!s) s = fore_tokenizer_decode(context, ids, n, false, &back, &size, err);
    fore_free(ids);
    fore_free(back);
    return s;
}

typedef struct text_file {
    char *data;
    size_t size;
} text_file;

static text_file load(const char *path) {
    text_file f;
    fore_error err;
    if (fore_file_read(path, 1 << 24, &f.data, &f.size, &err)) fail_msg("%s", err.text);
    return f;
}

static fore_status template_run(void *context, fore_error *err) {
    const text_file *f = context;
    static const char variables[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be kind.\"},{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"text\","
        "\"text\":\"What?\"}]},{\"role\":\"assistant\",\"content\":\"A cat.\"},{\"role\":\"user\",\"content\":\"Why?\"}],\"tools\":null,"
        "\"add_generation_prompt\":true,\"x\":{\"a\":[1,2.5,\"b\"]}}";
    fore_template *t;
    char *text = NULL;
    size_t size;
    fore_status s = fore_template_compile(f->data, f->size, &t, err);
    if (s) return s;
    s = fore_template_render(t, variables, sizeof variables - 1, &text, &size, err);
    fore_free(text);
    fore_template_free(t);
    return s;
}

typedef struct answer_context {
    const fore_model *model;
    fore_image image;
    const int32_t *ids;
    size_t n;
} answer_context;

static fore_status answer_run(void *context, fore_error *err) {
    const answer_context *c = context;
    fore_session *session;
    const fore_session_options o = {.threads = 2, .context = 64};
    fore_status s = fore_session_new(c->model, &o, &session, err);
    if (s) return s;
    static const char *const stop[] = {"never said", "nor this"};
    const fore_logit_bias bias = {1, -1};
    fore_model_info info;
    fore_model_get_info(c->model, &info);
    fore_request r;
    fore_request_init(&r, c->model);
    r.ids = c->ids;
    r.id_count = c->n;
    r.images = &c->image;
    r.image_count = 1;
    r.stop = stop;
    r.stop_count = info.has_tokenizer ? 2 : 0;
    r.sampling.temperature = 0.8f;
    r.sampling.top_p = 0.9f;
    r.sampling.bias = &bias;
    r.sampling.bias_count = 1;
    r.max_tokens = 4;
    r.draft = (fore_draft){.depth = info.mtp_attached ? 2 : FORE_DRAFT_AUTO, .sampler = FORE_SAMPLER_REJECTION, .lookup = FORE_LOOKUP_ON};
    r.prefill_chunk = 5;
    s = fore_session_begin(session, &r, err);
    fore_chunk chunk = {0};
    while (!s && chunk.finish == FORE_FINISH_NONE) s = fore_session_next(session, &chunk, err);
    fore_trace *trace = NULL;
    if (!s) s = fore_session_trace(session, &r, &trace, err);
    fore_trace_free(trace);
    fore_session_free(session);
    return s;
}

/* Three frames, so that the last patch is filled up, a picture, and text around them. */
static fore_status video_run(void *context, fore_error *err) {
    const answer_context *c = context;
    fore_session *session;
    const fore_session_options o = {.threads = 2, .context = 192};
    fore_status s = fore_session_new(c->model, &o, &session, err);
    if (s) return s;
    const fore_image frames[] = {c->image, c->image, c->image};
    const fore_video video = {.frames = frames, .frame_count = 3, .fps = 2};
    fore_request r;
    fore_request_init(&r, c->model);
    r.messages = "[{\"role\":\"user\",\"content\":[{\"type\":\"video\"},{\"type\":\"image\"}]}]";
    r.images = &c->image;
    r.image_count = 1;
    r.videos = &video;
    r.video_count = 1;
    s = fore_session_begin(session, &r, err);
    fore_session_free(session);
    return s;
}

static fore_status measure_run(void *context, fore_error *err) {
    const answer_context *c = context;
    fore_session *session;
    const fore_session_options o = {.threads = 2, .context = 64};
    fore_status s = fore_session_new(c->model, &o, &session, err);
    if (s) return s;
    fore_pass_time time;
    fore_machine machine;
    uint8_t digest[32];
    s = fore_session_profile(session, true, err);
    if (!s) s = fore_session_time_pass(session, 3, &time, err);
    if (!s) s = fore_model_digest(c->model, digest, err);
    if (!s) s = fore_machine_measure("ref", 2, 0, &machine, err);
    fore_session_free(session);
    return s;
}

static void test_model(void **state) {
    (void)state;
    fail_each("open a checkpoint", open_random_model, FORE_DATA "/models/dense_tied_f32", 100);
    fail_each("open a checkpoint with draft words", open_with_words, FORE_DATA "/models/dense_untied_bf16", 100);
    fail_each("open fused experts", open_random_model, FORE_DATA "/moe/moe_bf16", 100);
    fail_each("open numbered experts", open_random_model, FORE_DATA "/moe/moe_bf16_numbered", 100);
    fail_each("open transposed experts and deepstack", open_random_model, FORE_DATA "/family/vl_moe_bf16", 100);
    fail_each("open fused projections", open_random_model, FORE_DATA "/family/qwen3_next_bf16", 100);
    fail_each("open a tower with windows", open_random_model, FORE_DATA "/qwen2_5/bf16", 100);
    fail_each("open shards", open_random_model, FORE_DATA "/models/dense_sharded_bf16", 100);
    fail_each("open FP8 with a draft head in it", open_random_model, FORE_DATA "/forms/fp8", 100);
    fail_each("open packed integers with a draft head beside", open_random_model, FORE_DATA "/forms/int4", 100);
    fail_each("open columns out of the order of their groups", open_random_model, FORE_DATA "/forms/gptq_order", 100);
}

static void test_tokenizer(void **state) {
    (void)state;
    fail_each("open a tokenizer", open_tokenizer, FORE_DATA "/tables/tokenizer/tokenizer.json", 100);
    fore_tokenizer *t;
    fore_error err;
    if (fore_tokenizer_open("models/tiny", &t, &err)) fail_msg("%s", err.text);
    fail_each("encode and decode", encode_and_decode, t, 5);
    fore_tokenizer_close(t);
}

static void test_template(void **state) {
    (void)state;
    text_file f = load("models/tiny/chat_template.jinja");
    fail_each("compile and render", template_run, &f, 50);
    free(f.data);
}

/* A session, a picture, an answer of a few drafted tokens, a trace: no allocation is made once an answer is under way, so this also
 * counts them. */
static void test_answer(void **state) {
    (void)state;
    fore_model *m;
    fore_error err;
    const fore_model_options words = {.draft_head_bits = 4, .draft_vocabulary = 100};
    if (fore_model_open("models/tiny", &words, &m, &err)) fail_msg("%s", err.text);
    text_file picture = load("tests/samples/s01.png");
    static const int32_t ids[] = {1241, 388, 198, 1249, 1252, 1250, 383};
    answer_context c = {m, {.data = picture.data, .size = picture.size, .name = "s01.png"}, ids, 7};
    fail_each("answer", answer_run, &c, 30);
    fail_each("video", video_run, &c, 40);
    fail_each("measure", measure_run, &c, 20);
    fore_model_close(m);
    if (fore_model_open(FORE_DATA "/qwen2_5_video/clips", NULL, &m, &err)) fail_msg("%s", err.text);
    c.model = m;
    fail_each("video in one block", video_run, &c, 40);
    fore_model_close(m);
    free(picture.data);
    /* Deepstack rows, transposed experts. */
    static const float patches[16 * 1536];
    static const int32_t seen[] = {5, 77, 316, 130, 6};
    if (fore_model_open(FORE_DATA "/family/vl_moe_bf16", NULL, &m, &err)) fail_msg("%s", err.text);
    answer_context v = {m, {.patches = patches, .grid = {1, 4, 4}}, seen, 5};
    fail_each("answer", answer_run, &v, 30);
    fore_model_close(m);
    /* Windows in the tower. */
    static const int32_t parts[] = {5, 77, 252, 130, 6};
    if (fore_model_open(FORE_DATA "/qwen2_5/bf16", NULL, &m, &err)) fail_msg("%s", err.text);
    answer_context w = {m, {.patches = patches, .grid = {1, 4, 4}}, parts, 5};
    fail_each("answer", answer_run, &w, 30);
    fore_model_close(m);
}

/* No memory is taken while an answer is generated: the guard of the "no malloc while decoding" rule. prompt NULL: ids. */
static void decode_without_memory(const char *dir, const char *prompt) {
    fore_model *m;
    fore_session *s = NULL;
    fore_error err;
    if (fore_model_open(dir, NULL, &m, &err) || fore_session_new(m, NULL, &s, &err)) fail_msg("%s", err.text);
    static const int32_t ids[] = {5, 77, 130, 6, 201, 19, 44};
    fore_request r;
    fore_request_init(&r, m);
    r.prompt = prompt;
    if (!prompt) {
        r.ids = ids;
        r.id_count = sizeof ids / sizeof *ids;
        r.ignore_eos = true;
    }
    r.max_tokens = 40;
    r.sampling.temperature = 0.5f;
    static const int depths[] = {FORE_DRAFT_AUTO, 0, 1, 3, FORE_DRAFT_MAX};
    for (int i = 0; i < 10; i++) {
        r.draft = (fore_draft){.depth = depths[i / 2], .sampler = i % 2 ? FORE_SAMPLER_REJECTION : FORE_SAMPLER_SEEDED};
        if (fore_session_begin(s, &r, &err)) fail_msg("%s", err.text);
        fore_chunk c = {0};
        assert_int_equal(fore_session_next(s, &c, &err), 0); /* the first one sizes the text buffers */
        while (c.finish == FORE_FINISH_NONE) {
            atomic_store(&malloc_refused, false);
            atomic_store(&malloc_left, 0);
            atomic_store(&malloc_armed, true);
            fore_status st = fore_session_next(s, &c, &err);
            atomic_store(&malloc_armed, false);
            assert_int_equal(st, 0);
            assert_false(atomic_load(&malloc_refused));
        }
    }
    fore_session_free(s);
    fore_model_close(m);
}

static void test_decoding_takes_no_memory(void **state) {
    (void)state;
    decode_without_memory("models/tiny", "<|im_start|>user\nCount from 7 to 14.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    decode_without_memory(FORE_DATA "/moe/moe_bf16", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_tokenizer),
        cmocka_unit_test(test_template),
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_decoding_takes_no_memory),
    };
    return cmocka_run_group_tests_name("fault/nomem", tests, NULL, NULL);
}
