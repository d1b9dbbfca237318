/* The promise for quantised weights: every format, made from the small models by the project's own quantiser, gives the same
 * logits, tokens and state for every width of a pass from 1 to 16, on every instruction set, with drafts and without,
 * repacked or mapped from a pack; and for passes of many rows, which threads share out in another way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/kern.h"
#include "support/scratch.h"
#include "support/timeline.h"

enum { ANSWER = 20, MOST_WIDTH = 16 };

typedef struct way {
    const char *isa; /* NULL: the best */
    int threads, chunk, depth;
} way;

typedef struct outcome {
    float *logits;
    size_t count;
    int32_t answer[ANSWER];
    size_t answered;
    uint8_t state[32];
    uint64_t accepted;
} outcome;

static outcome compute(const fore_model *model, const prompt *p, way w) {
    fore_error err = {0};
    fore_session *session;
    const fore_session_options so = {.threads = w.threads, .context = 256};
    outcome o = {0};
    if (fore_session_new(model, &so, &session, &err)) fail_msg("%s", err.text);
    fore_request r;
    prompt_request(&r, model, p);
    r.prefill_chunk = w.chunk;
    r.ignore_eos = true;
    r.max_tokens = ANSWER;
    r.draft.depth = w.depth;
    r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
    fore_trace *trace;
    if (fore_session_trace(session, &r, &trace, &err)) fail_msg("%s", err.text);
    o.count = trace->tokens * (size_t)trace->vocab;
    o.logits = trace->logits;
    trace->logits = NULL;
    fore_trace_free(trace);
    if (fore_session_begin(session, &r, &err)) fail_msg("%s", err.text);
    fore_chunk c = {0};
    while (c.finish == FORE_FINISH_NONE) {
        if (fore_session_next(session, &c, &err)) fail_msg("%s", err.text);
        for (size_t i = 0; i < c.id_count; i++) o.answer[o.answered++] = c.ids[i];
    }
    fore_session_digest(session, o.state);
    fore_stats stats;
    fore_session_get_stats(session, &stats);
    for (int i = 0; i < 2; i++) o.accepted += stats.draft[i].accepted[0];
    fore_session_free(session);
    return o;
}

/* The same as `base`; how many first drafts were right. */
static uint64_t check_same(const fore_model *model, const prompt *p, const outcome *base, way w) {
    outcome o = compute(model, p, w);
    char label[96];
    snprintf(label, sizeof label, "isa %s, %d threads, chunk %d, depth %d", w.isa ? w.isa : "best", w.threads, w.chunk, w.depth);
    if (o.count != base->count || memcmp(o.logits, base->logits, o.count * sizeof(float))) fail_msg("%s: other logits", label);
    if (o.answered != base->answered || memcmp(o.answer, base->answer, sizeof o.answer)) fail_msg("%s: other tokens", label);
    if (memcmp(o.state, base->state, sizeof o.state)) fail_msg("%s: another state", label);
    free(o.logits);
    return o.accepted;
}

/* Of the folder's model: the reference set feeding the prompt as a whole against all other ways. */
static void check_folder(const char *dir, const prompt *p, bool drafts) {
    const fore_kern *kerns[8];
    int sets = fore_kern_list(kerns);
    fore_error err = {0};
    fore_model *model;
    fore_model_options options = {.isa = "ref"};
    uint64_t accepted = 0;
    if (fore_model_open(dir, &options, &model, &err)) fail_msg("%s", err.text);
    outcome base = compute(model, p, (way){"ref", 1, 1 << 20, 0});
    fore_model_close(model);
    if (fore_model_open(dir, NULL, &model, &err)) fail_msg("%s", err.text);
    for (int width = 1; width <= MOST_WIDTH; width++)
        accepted += check_same(model, p, &base, (way){NULL, 1 + width % 3, width, drafts ? width % 9 : 0});
    fore_model_close(model);
    for (int i = 0; i < sets; i++) {
        options.isa = kerns[i]->name;
        if (fore_model_open(dir, &options, &model, &err)) fail_msg("%s", err.text);
        accepted += check_same(model, p, &base, (way){options.isa, 2, 9, drafts ? 3 : 0});
        fore_model_close(model);
    }
    /* Panels that an earlier open kept in a file: made by one set, mapped by all. */
    scratch packs;
    scratch_make(&packs);
    options.pack_dir = packs.dir;
    for (int i = 0; i < sets; i++) {
        options.isa = kerns[i]->name;
        if (fore_model_open(dir, &options, &model, &err)) fail_msg("%s", err.text);
        fore_model_info info;
        fore_model_get_info(model, &info);
        assert_true(info.packs_used >= 1 && info.packs_written == (i ? 0 : info.packs_used));
        check_same(model, p, &base, (way){options.isa, 1 + i % 2, 16, drafts ? 2 : 0});
        fore_model_close(model);
    }
    scratch_remove(&packs);
    assert_true(!drafts || accepted > 0);
    free(base.logits);
}

/* A quantised model has the parameters of its source: scales and biases are none. */
static void check_parameters(const char *source, const char *dir) {
    fore_error err = {0};
    fore_model_info info[2];
    const char *const dirs[2] = {source, dir};
    for (int i = 0; i < 2; i++) {
        fore_model *model;
        if (fore_model_open(dirs[i], NULL, &model, &err)) fail_msg("%s", err.text);
        fore_model_get_info(model, &info[i]);
        fore_model_close(model);
    }
    assert_true(info[0].active_parameters == info[1].active_parameters && info[0].text_parameters == info[1].text_parameters);
    assert_true(info[0].mtp_parameters == info[1].mtp_parameters && info[0].vision_parameters == info[1].vision_parameters);
}

static void check_format(const char *source, int bits, int group, int vision_bits, const prompt *p, bool drafts) {
    fore_error err = {0};
    scratch s;
    scratch_make(&s);
    fore_quantize_options options;
    fore_quantize_report *report;
    fore_quantize_options_init(&options, bits);
    options.group = group;
    options.vision_bits = vision_bits;
    if (fore_quantize(source, scratch_path(&s, "model"), &options, &report, &err)) fail_msg("%s", err.text);
    assert_true(report->quantized > 10);
    check_parameters(source, scratch_path(&s, "model"));
    fore_quantize_report_free(report);
    check_folder(scratch_path(&s, "model"), p, drafts);
    scratch_remove(&s);
}

/* Text of the small model's vocabulary and a picture of noise. */
static void test_formats(void **state) {
    (void)state;
    static float patches[4 * 8 * 1536];
    for (size_t i = 0; i < sizeof patches / sizeof(float); i++) patches[i] = (float)((i * 2654435761u >> 7) % 200) / 100.0f - 1.0f;
    static const int32_t ids[] = {1241, 388, 198, 1249, 1252, 1250, 261, 276, 13, 1242, 198, 1241, 393, 198};
    prompt p = {.ids = ids, .n = sizeof ids / sizeof *ids, .image_count = 1};
    p.images[0] = (fore_image){.patches = patches, .grid = {1, 4, 8}};
    for (int bits = 4; bits <= 8; bits += 4)
        for (int group = 32; group <= 128; group *= 2) check_format("models/tiny", bits, group, group == 64 ? 8 : 16, &p, true);
}

/* A prompt of many rows, in chunks of 32 and more and of fewer, against one row at a time. */
static void test_many_rows(void **state) {
    (void)state;
    static int32_t ids[100];
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) ids[i] = (int32_t)((i * 2654435761u >> 9) % 1200);
    const prompt p = {.ids = ids, .n = sizeof ids / sizeof *ids};
    for (int group = 32; group <= 128; group *= 2) {
        fore_error err = {0};
        scratch s;
        scratch_make(&s);
        fore_quantize_options options;
        fore_quantize_report *report;
        fore_quantize_options_init(&options, 4);
        options.group = group;
        if (fore_quantize("models/tiny", scratch_path(&s, "model"), &options, &report, &err)) fail_msg("%s", err.text);
        fore_quantize_report_free(report);
        fore_model *model;
        if (fore_model_open(scratch_path(&s, "model"), NULL, &model, &err)) fail_msg("%s", err.text);
        outcome base = compute(model, &p, (way){NULL, 1, 1, 0});
        static const int chunks[] = {100, 64, 33, 32, 31};
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
            for (int threads = 1; threads <= 3; threads++) check_same(model, &p, &base, (way){NULL, threads, chunks[i], 0});
        fore_model_close(model);
        free(base.logits);
        scratch_remove(&s);
    }
}

/* Experts, also where only some of a layer's matrices have widths that groups divide. */
static void test_experts(void **state) {
    (void)state;
    prompt p;
    prompt_open(&p, FORE_DATA "/moe/moe_bf16/golden_mm.safetensors");
    check_format(FORE_DATA "/moe/moe_bf16", 4, 32, 16, &p, false);
    prompt_close(&p);
    prompt_open(&p, FORE_DATA "/moe/moe_bf16/golden_text.safetensors");
    check_format(FORE_DATA "/moe/moe_bf16_numbered", 8, 64, 16, &p, false);
    prompt_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_experts),
    };
    return cmocka_run_group_tests_name("promise/quantised", tests, NULL, NULL);
}
