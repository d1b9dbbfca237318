/* Models in GGUF files, made by the format's own programs, against the checkpoints that they were made of: every weight back to the
 * bit, the same answers with pictures and drafts, the same tokens; blocks against the format's own dequantisation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_model.h"
#include "model/gguf_blocks.h"
#include "support/alike.h"
#include "support/answer.h"
#include "support/tensors.h"
#include "text/tokenizer.h"

#define GGUF FORE_DATA "/gguf/"

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void test_blocks(void **state) {
    (void)state;
    static const uint32_t ids[] = {FORE_GGUF_TYPE_F32, FORE_GGUF_TYPE_F16, FORE_GGUF_TYPE_BF16, FORE_GGUF_TYPE_Q8_0, FORE_GGUF_TYPE_Q4_0,
                                   FORE_GGUF_TYPE_Q4_1, FORE_GGUF_TYPE_Q5_0, FORE_GGUF_TYPE_Q5_1, FORE_GGUF_TYPE_IQ4_NL, FORE_GGUF_TYPE_Q4_K,
                                   FORE_GGUF_TYPE_Q5_K, FORE_GGUF_TYPE_Q6_K};
    tensor_file *f = tensors_open(GGUF "types.safetensors");
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const fore_gguf_type *type = fore_gguf_find_type(ids[i]);
        char name[32];
        snprintf(name, sizeof name, "%s.blocks", type->name);
        tensor_view blocks = tensors_get(f, name, "U8");
        snprintf(name, sizeof name, "%s.numbers", type->name);
        tensor_view numbers = tensors_get(f, name, "F32");
        size_t count = numbers.bytes / sizeof(float);
        assert_int_equal(blocks.bytes / type->bytes * type->block, count);
        const float *reference = numbers.data;
        float *ours = malloc(numbers.bytes);
        fore_gguf_dequantize(type, blocks.data, count, ours);
        for (size_t k = 0; k < count; k++)
            if (memcmp(&ours[k], &reference[k], sizeof *ours)) fail_msg("%s: number %zu is %a, the reference has %a", type->name, k, (double)ours[k], (double)reference[k]);
        for (size_t b = 0; fore_gguf_affine_bits(type) && b < count / FORE_GGUF_GROUP; b++) {
            fore_gguf_affine a;
            assert_true(fore_gguf_unpack(type, (const unsigned char *)blocks.data + b * type->bytes, &a));
            const fore_gguf_type *half = fore_gguf_find_type(FORE_GGUF_TYPE_F16);
            float affine[2];
            const unsigned char bytes[4] = {(unsigned char)a.scale, (unsigned char)(a.scale >> 8), (unsigned char)a.bias, (unsigned char)(a.bias >> 8)};
            fore_gguf_dequantize(half, bytes, 2, affine);
            for (size_t k = 0; k < FORE_GGUF_GROUP; k++) {
                assert_true(a.q[k] < 1 << fore_gguf_affine_bits(type));
                assert_true(fmaf(affine[0], a.q[k], affine[1]) == reference[b * FORE_GGUF_GROUP + k]);
            }
        }
        free(ours);
    }
    tensors_close(f);
    unsigned char infinite[34] = {0, 0x7c};
    fore_gguf_affine a;
    assert_false(fore_gguf_unpack(fore_gguf_find_type(FORE_GGUF_TYPE_Q8_0), infinite, &a));
    infinite[1] = 0x60; /* 512 * 128 is too large for f16 */
    assert_false(fore_gguf_unpack(fore_gguf_find_type(FORE_GGUF_TYPE_Q8_0), infinite, &a));
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* A checkpoint and a model of GGUF files. Returns how many matrices were compared, and in *quantised how many are in panels. */
static int same_model(const char *checkpoint, const char *gguf, const char *mmproj, double most, int *quantised) {
    opened a = alike_open(checkpoint, NULL), b = alike_open(gguf, mmproj);
    alike how = {.name = gguf, .most = most, .decay = 4e-7}; /* the file's decays were made by another exp */
    alike_compare(&how, &a, &b);
    alike_close(&a);
    alike_close(&b);
    if (quantised) *quantised = how.quantised;
    return how.matrices;
}

static void test_weights(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool tower;
        int least;
    } models[] = {{"q35", true, 37}, {"q35moe", false, 67}, {"vl", true, 23}, {"vlmoe", false, 7}, {"next", false, 41}, {"q3moe", false, 19},
                  {"q3", false, 9}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char dir[128], gguf[160], mmproj[160];
        snprintf(dir, sizeof dir, GGUF "%s", models[i].name);
        snprintf(gguf, sizeof gguf, "%s/model.gguf", dir);
        snprintf(mmproj, sizeof mmproj, "%s/mmproj.gguf", dir);
        int compared = same_model(dir, gguf, models[i].tower ? mmproj : NULL, 0, NULL);
        if (compared < models[i].least) fail_msg("%s: %d matrices compared", models[i].name, compared);
    }
}

/* Packed in blocks, every row is near the one it was: heads, rows and columns are all where they belong. */
static void test_packed(void **state) {
    (void)state;
    int quantised;
    same_model(GGUF "q35", GGUF "blocks/model.gguf", GGUF "blocks/mmproj.gguf", 0.13, &quantised);
    assert_in_range(quantised, 25, 60);
    same_model(GGUF "q35moe", GGUF "moeblocks/model.gguf", NULL, 0.13, &quantised);
    assert_in_range(quantised, 25, 70);
}

/* K types become panels with the numbers of the blocks. */
static void test_super(void **state) {
    (void)state;
    opened o = alike_open(GGUF "super/model.gguf", NULL);
    fore_arena arena = {0};
    fore_gguf f;
    fore_error err = {0};
    if (fore_gguf_open(GGUF "super/model.gguf", &arena, &f, &err)) fail_msg("%s", err.text);
    const fore_layer *l = &o.n.layers[0];
    const struct {
        const char *name, *type;
        const fore_weight *w;
        int bits, group;
        fore_dtype dtype;
    } all[] = {{"blk.0.attn_q.weight", "Q5_K", &l->q_proj, 8, 32, FORE_DTYPE_U8},    {"blk.0.attn_k.weight", "Q6_K", &l->k_proj, 8, 16, FORE_DTYPE_I8},
               {"blk.0.ffn_gate.weight", "Q4_K", &l->gate_proj, 4, 32, FORE_DTYPE_U8}, {"blk.0.ffn_down.weight", "Q6_K", &l->down_proj, 8, 16, FORE_DTYPE_I8},
               {"blk.0.ffn_up.weight", "Q5_K", &l->up_proj, 8, 32, FORE_DTYPE_U8}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const fore_gguf_tensor *t = fore_gguf_find(&f, all[i].name);
        assert_non_null(t);
        assert_string_equal(t->type->name, all[i].type);
        assert_int_equal(all[i].w->dtype, all[i].dtype);
        assert_int_equal(all[i].w->bits, all[i].bits);
        assert_int_equal(all[i].w->group, all[i].group);
        size_t K = (size_t)all[i].w->K, n = (size_t)all[i].w->N * K;
        float *numbers = malloc(n * sizeof *numbers), *row = malloc(K * sizeof *row);
        fore_gguf_dequantize(t->type, t->data, n, numbers);
        for (size_t k = 0; k < n; k++) {
            if (k % K == 0) fore_weight_row(o.n.kern, all[i].w, (int)(k / K), row);
            if (row[k % K] != numbers[k]) fail_msg("%s: number %zu is %a, not %a", all[i].name, k, (double)row[k % K], (double)numbers[k]);
        }
        free(numbers);
        free(row);
    }
    fore_map_close(&f.map);
    fore_arena_free(&arena);
    alike_close(&o);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static subject open_subject(const char *path, const char *mmproj) {
    const fore_model_options how = {.mmproj = mmproj};
    return subject_open(path, &how, 256);
}

/* A question, with a picture where the model takes one. */
static void ask(subject *s, bool picture, answer *a) {
    static float patches[24 * 1536];
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) patches[i] = (float)((i * 7919) % 201) / 100.0f - 1.0f;
    const fore_image image = {.name = "a picture", .patches = patches, .grid = {1, 4, 6}};
    fore_request r;
    fore_request_init(&r, s->model);
    r.prompt = picture ? "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>what is the red picture on?<|im_end|>\n"
                       : "<|im_start|>user\nwhat is the red picture on?<|im_end|>\n";
    r.images = picture ? &image : NULL;
    r.image_count = picture;
    r.max_tokens = 24;
    r.ignore_eos = true;
    fore_model_info info;
    fore_model_get_info(s->model, &info);
    r.draft.depth = info.mtp_attached ? 2 : 0; /* not chosen by the clock */
    r.sampling.seed = 5;
    answer_run(s->session, &r, a);
}

/* The checkpoint's model answers as the one of GGUF files does; the state too, unless another exp has made some of its weights. */
static void same_answers(const char *checkpoint, const char *gguf, const char *mmproj, bool picture) {
    subject a = open_subject(checkpoint, NULL), b = open_subject(gguf, mmproj);
    fore_model_info x, y;
    fore_model_get_info(a.model, &x);
    fore_model_get_info(b.model, &y);
    assert_int_equal(x.mtp_attached, y.mtp_attached);
    answer one, two;
    ask(&a, picture, &one);
    ask(&b, picture, &two);
    if (x.linear_attention_layers) memcpy(one.digest, two.digest, sizeof one.digest);
    answer_same(&one, &two, gguf);
    assert_int_equal(one.stats.head.drafted, two.stats.head.drafted);
    assert_int_equal(one.stats.head.accepted, two.stats.head.accepted);
    if (x.mtp_attached) assert_true(one.stats.head.drafted > 10);
    assert_int_equal(fore_tokenizer_id(fore_model_tokenizer(b.model), "<|im_end|>"), 306);
    subject_close(&a);
    subject_close(&b);
}

static void test_answers(void **state) {
    (void)state;
    same_answers(GGUF "q35", GGUF "q35/model.gguf", GGUF "q35/mmproj.gguf", true);
    same_answers(GGUF "vl", GGUF "vl/model.gguf", GGUF "vl/mmproj.gguf", true);
    same_answers(GGUF "q35", GGUF "apart", NULL, true); /* a folder: model, tower and draft head */
    same_answers(GGUF "q35moe", GGUF "q35moe/model.gguf", NULL, false);
    same_answers(GGUF "vlmoe", GGUF "vlmoe/model.gguf", NULL, false);
    same_answers(GGUF "next", GGUF "next/model.gguf", NULL, false);
    same_answers(GGUF "q3", GGUF "q3/model.gguf", NULL, false);
    same_answers(GGUF "q3moe", GGUF "q3moe/model.gguf", NULL, false);
    same_answers(GGUF "q35", GGUF "parts/model-00001-of-00003.gguf", GGUF "q35/mmproj.gguf", true);
}

/* ---- tokens and settings ----------------------------------------------------------------------------------------- */

static void test_tokenizer(void **state) {
    (void)state;
    fore_error err = {0};
    fore_arena arena = {0};
    fore_gguf_model *m;
    cJSON *file, *config;
    fore_tokenizer *ours, *theirs;
    if (fore_gguf_model_open(GGUF "tokenizer/model.gguf", NULL, &m, &err) || fore_gguf_tokenizer_trees(m, &file, &config, &err) ||
        fore_tokenizer_make(&(fore_tokenizer_source){.file = file, .config = config}, &ours, &err) ||
        fore_tokenizer_open("models/tiny", &theirs, &err))
        fail_msg("%s", err.text);
    assert_int_equal(fore_tokenizer_size(ours), fore_tokenizer_size(theirs));
    size_t size;
    char *text = read_file("README.md", &size);
    static const char *const more[] = {"<|im_start|>user\nWhat colour?<|im_end|>\n<think>\n\n</think>", "a  b\t c\r\n\r\n  d", "e\xcc\x81 \xe2\x84\xab \xf0\x9f\x99\x82",
                                       "it's 12345 WE'LL \xe4\xbd\xa0\xe5\xa5\xbd", ""};
    for (int i = -1; i < (int)(sizeof more / sizeof *more); i++) {
        const char *t = i < 0 ? text : more[i];
        int32_t *a = NULL, *b = NULL;
        size_t n = 0, k = 0;
        if (fore_tokenizer_encode(ours, t, strlen(t), &a, &n, &err) || fore_tokenizer_encode(theirs, t, strlen(t), &b, &k, &err)) fail_msg("%s", err.text);
        assert_int_equal(n, k);
        assert_memory_equal(a, b, n * sizeof *a);
        fore_free(a);
        fore_free(b);
    }
    cJSON *same;
    char *other = read_file("models/tiny/chat_template.jinja", &size);
    const char *template;
    if (fore_json_string(config, "chat_template", NULL, &template, &err)) fail_msg("%s", err.text);
    assert_non_null(template);
    assert_string_equal(template, other);
    if (fore_gguf_processor_tree(m, &same, &err)) fail_msg("%s", err.text);
    assert_null(same); /* there is no tower */
    free(other);
    free(text);
    cJSON_Delete(file);
    cJSON_Delete(config);
    fore_tokenizer_close(ours);
    fore_tokenizer_close(theirs);
    fore_gguf_model_close(m);
    fore_arena_free(&arena);
}

static void test_settings(void **state) {
    (void)state;
    subject a = open_subject(GGUF "q35", NULL), b = open_subject(GGUF "q35/model.gguf", GGUF "q35/mmproj.gguf");
    fore_sampling x, y;
    fore_model_default_sampling(a.model, &x);
    fore_model_default_sampling(b.model, &y);
    assert_true(x.temperature == y.temperature && x.top_p == y.top_p && x.top_k == y.top_k && x.min_p == y.min_p);
    const fore_processor *p = &a.model->processor, *q = &b.model->processor;
    assert_int_equal(p->patch_size, q->patch_size);
    assert_int_equal(p->min_pixels, q->min_pixels);
    assert_int_equal(p->max_pixels, q->max_pixels);
    assert_memory_equal(p->mean, q->mean, sizeof p->mean);
    assert_memory_equal(p->std, q->std, sizeof p->std);
    assert_int_equal(a.model->eos_count, b.model->eos_count);
    assert_non_null(fore_model_template(b.model));
    subject_close(&a);
    subject_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),  cmocka_unit_test(test_weights),   cmocka_unit_test(test_packed),   cmocka_unit_test(test_super),
        cmocka_unit_test(test_answers), cmocka_unit_test(test_tokenizer), cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
