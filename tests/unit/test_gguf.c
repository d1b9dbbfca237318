/* GGUF files that are wrong, of another kind, or not all there: each with its message. The good one that they are made of is a seed of
 * the fuzz target, written by the format's own package. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_model.h"
#include "foresight.h"
#include "support/scratch.h"
#include "support/tensors.h"
#include "text/tokenizer.h"

static scratch dir;
static unsigned char *good; /* the text model */
static size_t good_size;
static unsigned char *tower;
static size_t tower_size;

static int setup(void **state) {
    (void)state;
    scratch_make(&dir);
    good = (unsigned char *)read_file("tests/fuzz/corpus/gguf/text", &good_size);
    size_t size;
    unsigned char *both = (unsigned char *)read_file("tests/fuzz/corpus/gguf/both", &size);
    tower_size = size - 4 - good_size;
    tower = malloc(tower_size);
    memcpy(tower, both + 4 + good_size, tower_size);
    free(both);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    scratch_remove(&dir);
    free(good);
    free(tower);
    return 0;
}

/* Where `text` is in the good file. */
static size_t place(const char *text) {
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= good_size; i++)
        if (!memcmp(good + i, text, n)) return i;
    fail_msg("the seed has no %s", text);
    return 0;
}

static void expect(fore_status got, const fore_error *err, fore_status want, const char *part) {
    if (got != want || err->code != want || !strstr(err->text, part))
        fail_msg("expected %d with \"%s\", got %d: %s", want, part, got, err->text);
}

/* What a model of the scratch folder's file fails with, anywhere until its tensors are there. */
static fore_status open_all(const char *path, const char *mmproj, fore_error *err) {
    fore_gguf_model *m;
    fore_status s = fore_gguf_model_open(path, mmproj, &m, err);
    if (s) {
        assert_null(m);
        return s;
    }
    fore_arena arena = {0};
    fore_config config;
    cJSON *trees[2] = {NULL, NULL};
    fore_tokenizer *t = NULL;
    fore_store *store = NULL;
    s = fore_gguf_config_read(m, &arena, &config, err);
    if (!s) s = fore_gguf_tokenizer_trees(m, &trees[0], &trees[1], err);
    if (!s && trees[0]) s = fore_tokenizer_make(&(fore_tokenizer_source){.file = trees[0], .config = trees[1]}, &t, err);
    if (!s) s = fore_gguf_store_make(m, &store, err);
    fore_tokenizer_close(t);
    fore_store_close(store);
    cJSON_Delete(trees[0]);
    cJSON_Delete(trees[1]);
    fore_arena_free(&arena);
    fore_gguf_model_close(m);
    return s;
}

/* The good file with `size` bytes at `at` replaced. */
static void refuse(size_t at, const void *bytes, size_t size, fore_status want, const char *part) {
    unsigned char *file = malloc(good_size);
    memcpy(file, good, good_size);
    memcpy(file + at, bytes, size);
    scratch_write(&dir, "bad.gguf", file, good_size);
    free(file);
    fore_error err = {0};
    expect(open_all(scratch_path(&dir, "bad.gguf"), NULL, &err), &err, want, part);
    assert_non_null(strstr(err.text, "bad.gguf"));
}

static void refuse_u32(size_t at, uint32_t value, fore_status want, const char *part) { refuse(at, &value, sizeof value, want, part); }
static void refuse_u64(size_t at, uint64_t value, fore_status want, const char *part) { refuse(at, &value, sizeof value, want, part); }

static void test_good(void **state) {
    (void)state;
    fore_error err = {0};
    scratch_write(&dir, "good.gguf", good, good_size);
    if (open_all(scratch_path(&dir, "good.gguf"), NULL, &err)) fail_msg("%s", err.text);
    scratch_write(&dir, "mmproj.gguf", tower, tower_size);
    if (open_all(scratch_path(&dir, "good.gguf"), scratch_path(&dir, "mmproj.gguf"), &err)) fail_msg("%s", err.text);
}

static void test_head(void **state) {
    (void)state;
    refuse(0, "GGUG", 4, FORE_ERR_FORMAT, "not a GGUF file");
    refuse(0, "version https://git-lfs.github.com/spec", 39, FORE_ERR_FORMAT, "git lfs pull");
    refuse_u32(4, 4, FORE_ERR_UNSUPPORTED, "version 4 of GGUF; supported: 2 and 3");
    refuse_u32(4, 1, FORE_ERR_UNSUPPORTED, "version 1 of GGUF");
    refuse_u32(4, 3u << 24, FORE_ERR_UNSUPPORTED, "big-endian");
    refuse_u64(8, UINT64_MAX, FORE_ERR_LIMIT, "tensors");
    refuse_u64(8, 60000, FORE_ERR_FORMAT, "truncated");
    refuse_u64(16, 60000, FORE_ERR_FORMAT, "truncated");
    refuse_u64(16, UINT64_MAX, FORE_ERR_LIMIT, "keys");
}

/* A file that ends anywhere is an error, never less. */
static void test_truncated(void **state) {
    (void)state;
    fore_error err;
    for (size_t n = 0; n < good_size; n += n < 4096 ? 1 : 97) {
        scratch_write(&dir, "short.gguf", good, n);
        err = (fore_error){0};
        fore_status s = open_all(scratch_path(&dir, "short.gguf"), NULL, &err);
        if (s != FORE_ERR_FORMAT) fail_msg("%zu bytes: %d %s", n, s, err.text);
    }
}

static void test_values(void **state) {
    (void)state;
    size_t key = place("qwen35.block_count"), end = key + strlen("qwen35.block_count");
    refuse_u32(end, 99, FORE_ERR_FORMAT, "qwen35.block_count: its type is 99; the format has 0 to 12");
    refuse_u32(end, FORE_GGUF_F32, FORE_ERR_FORMAT, "qwen35.block_count: expected a whole number");
    refuse_u32(end + 4, 1, FORE_ERR_FORMAT, "qwen35.block_count is 1, of which 1 are of the draft head");
    refuse_u64(key - 8, UINT64_MAX - 3, FORE_ERR_FORMAT, "truncated");
    refuse_u64(key - 8, 0, FORE_ERR_FORMAT, "expected a name of 1 to 255 bytes");
    refuse(place("qwen35.context_length"), "qwen35.block_count\0\0\0", 21, FORE_ERR_FORMAT, "a key: expected a name");
    refuse(place("qwen35.context_length"), "qwen35.context_lengtH", 21, FORE_ERR_FORMAT, "has no qwen35.context_length");
    size_t tokens = place("tokenizer.ggml.tokens") + strlen("tokenizer.ggml.tokens");
    refuse_u64(tokens + 8, UINT64_MAX, FORE_ERR_FORMAT, "truncated");
    refuse_u32(tokens + 4, FORE_GGUF_ARRAY, FORE_ERR_FORMAT, "tokenizer.ggml.tokens");
    refuse_u64(tokens + 16, UINT64_MAX, FORE_ERR_FORMAT, "truncated");
    refuse(tokens + 24, "\xff", 1, FORE_ERR_FORMAT, "tokenizer.ggml.tokens: expected UTF-8");
    refuse_u32(place("qwen35.rope.freq_base") + strlen("qwen35.rope.freq_base") + 4, 0x7fc00000, FORE_ERR_FORMAT,
               "qwen35.rope.freq_base: expected a finite number");
    refuse_u32(place("qwen35.ssm.inner_size") + strlen("qwen35.ssm.inner_size") + 4, 17, FORE_ERR_FORMAT, "qwen35.ssm");
    refuse_u32(place("qwen35.rope.dimension_count") + strlen("qwen35.rope.dimension_count") + 4, 64, FORE_ERR_FORMAT, "a head has 32");
}

static void test_kinds(void **state) {
    (void)state;
    size_t name = place("general.architecture") + strlen("general.architecture") + 4 + 8;
    refuse(name, "llama4", 6, FORE_ERR_UNSUPPORTED, "architecture llama4 is not supported; supported: qwen35");
    refuse(place("tokenizer.ggml.model") + strlen("tokenizer.ggml.model") + 12, "bert", 4, FORE_ERR_UNSUPPORTED, "byte-level merges (gpt2)");
    refuse(place("tokenizer.ggml.pre") + strlen("tokenizer.ggml.pre") + 12, "llama3", 6, FORE_ERR_UNSUPPORTED,
           "tokenizer.ggml.pre is \"llama3\": words cut that way are not supported; supported: qwen2 and qwen35");
    refuse(place("blk.0.ssm_a"), "blk.0.ssm_q", 11, FORE_ERR_UNSUPPORTED, "blk.0.");
    refuse(place("blk.2.nextn.enorm"), "blk.7.nextn.enorm", 17, FORE_ERR_FORMAT, "the model has 3 layers");
}

static void test_tensors(void **state) {
    (void)state;
    size_t entry = place("blk.0.ffn_gate.weight"), dims = entry + strlen("blk.0.ffn_gate.weight"), type = dims + 4 + 16, offset = type + 4;
    refuse_u32(dims, 0, FORE_ERR_FORMAT, "expected 1 to 4 dimensions, found 0");
    refuse_u32(dims, 5, FORE_ERR_FORMAT, "expected 1 to 4 dimensions, found 5");
    refuse_u64(dims + 4, 0, FORE_ERR_FORMAT, "its shape has a zero, or overflows");
    refuse_u64(dims + 4, UINT64_MAX, FORE_ERR_FORMAT, "overflows");
    refuse_u64(dims + 4, 33, FORE_ERR_FORMAT, "rows of 33 are no multiple of Q4_0's blocks of 32");
    refuse_u64(dims + 12, (uint64_t)1 << 40, FORE_ERR_FORMAT, "truncated or corrupt: tensor blk.0.ffn_gate.weight needs");
    refuse_u32(type, 16, FORE_ERR_UNSUPPORTED, "tensor blk.0.ffn_gate.weight: type IQ2_XXS is not supported; supported: F32, F16, BF16, Q8_0");
    refuse_u32(type, 34, FORE_ERR_UNSUPPORTED, "type TQ1_0 is not supported");
    refuse_u32(type, 39, FORE_ERR_UNSUPPORTED, "type MXFP4 is not supported");
    refuse_u32(type, 1000, FORE_ERR_UNSUPPORTED, "type number 1000 is unknown");
    refuse_u64(offset, 1, FORE_ERR_FORMAT, "its offset 1 is no multiple of the alignment 32");
    refuse_u64(offset, 0, FORE_ERR_FORMAT, "overlap");
    refuse_u64(offset, UINT64_MAX - 31, FORE_ERR_FORMAT, "truncated or corrupt");
    refuse(place("blk.1.attn_norm.weight"), "blk.0.attn_norm.weight", 22, FORE_ERR_FORMAT, "tensor blk.0.attn_norm.weight is there twice");
}

static void test_files(void **state) {
    (void)state;
    fore_error err = {0};
    scratch s;
    scratch_make(&s);
    expect(open_all(s.dir, NULL, &err), &err, FORE_ERR_IO, "has no GGUF file of a text model");
    scratch_write(&s, "mmproj-a.gguf", tower, tower_size);
    expect(open_all(s.dir, NULL, &err), &err, FORE_ERR_IO, "has no GGUF file of a text model");
    expect(open_all(scratch_path(&s, "mmproj-a.gguf"), NULL, &err), &err, FORE_ERR_INVALID, "a vision tower alone");
    scratch_write(&s, "a.gguf", good, good_size);
    if (open_all(s.dir, NULL, &err)) fail_msg("%s", err.text);
    expect(open_all(scratch_path(&s, "a.gguf"), scratch_path(&s, "a.gguf"), &err), &err, FORE_ERR_INVALID, "not an mmproj file");
    scratch_write(&s, "b.gguf", good, good_size);
    expect(open_all(s.dir, NULL, &err), &err, FORE_ERR_INVALID, "has several models, a.gguf and b.gguf");
    scratch_write(&s, "c-00001-of-00002.gguf", good, good_size);
    expect(open_all(scratch_path(&s, "c-00001-of-00002.gguf"), NULL, &err), &err, FORE_ERR_IO, "is one part of 2");
    scratch_write(&s, "c-00002-of-00002.gguf", good, good_size);
    expect(open_all(scratch_path(&s, "c-00001-of-00002.gguf"), NULL, &err), &err, FORE_ERR_FORMAT, "is also in c-00002-of-00002.gguf");
    unsigned char *other = malloc(tower_size);
    memcpy(other, tower, tower_size);
    for (size_t i = 0; i + 14 < tower_size; i++)
        if (!memcmp(other + i, "qwen3vl_merger", 14)) memcpy(other + i, "qwen2vl_merger", 14);
    scratch_write(&s, "d.gguf", other, tower_size);
    expect(open_all(scratch_path(&s, "a.gguf"), scratch_path(&s, "d.gguf"), &err), &err, FORE_ERR_UNSUPPORTED, "a vision tower of kind qwen2vl_merger");
    free(other);
    scratch_remove(&s);
}

/* The public door: what is no model of GGUF files takes no mmproj; a folder with config.json is not looked through for them. */
static void test_open(void **state) {
    (void)state;
    fore_error err = {0};
    fore_model *m;
    const fore_model_options how = {.mmproj = scratch_path(&dir, "mmproj.gguf")};
    expect(fore_model_open("models/tiny", &how, &m, &err), &err, FORE_ERR_INVALID, "not a model of GGUF files");
    bool is;
    assert_int_equal(fore_gguf_is_model("models/tiny", &is, &err), FORE_OK);
    assert_false(is);
    assert_int_equal(fore_gguf_is_model(dir.dir, &is, &err), FORE_OK);
    assert_true(is);
    assert_int_equal(fore_gguf_is_model("no/such.gguf", &is, &err), FORE_OK);
    assert_true(is);
    expect(fore_model_open("no/such.gguf", NULL, &m, &err), &err, FORE_ERR_IO, "no/such.gguf");
    scratch_write(&dir, "good.gguf", good, good_size);
    if (fore_model_open(scratch_path(&dir, "good.gguf"), &how, &m, &err)) fail_msg("%s", err.text);
    fore_model_info info;
    fore_model_get_info(m, &info);
    assert_string_equal(info.architecture, "qwen35");
    assert_true(info.has_vision && info.mtp_attached && info.has_tokenizer && info.has_template);
    assert_int_equal(info.vocab_size, 8);
    assert_int_equal(fore_tokenizer_size(fore_model_tokenizer(m)), 7); /* the eighth is padding */
    fore_sampling sampling;
    fore_model_default_sampling(m, &sampling);
    assert_true(sampling.temperature == 0.5f);
    uint8_t digest[32];
    assert_int_equal(fore_model_digest(m, digest, &err), FORE_OK);
    fore_model_close(m);
}

/* The limits of pictures: those that the tower's file names, else the published ones. */
static void test_pixels(void **state) {
    (void)state;
    enum { HEAD = 24, KEYS = 16 }; /* magic, version, tensors; how many keys */
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {{"clip.vision.image_min_pixels", 12345}, {"clip.vision.image_max_pixels", 678901}, {"clip.vision.some_number0", 0}};
    unsigned char more[128], *file = malloc(tower_size + sizeof more);
    size_t used = 0;
    for (size_t i = 0; i < 3; i++) { /* 128 bytes: tensors stay where they must be */
        const uint64_t length = strlen(keys[i].key);
        const uint32_t type = 4; /* u32 */
        memcpy(more + used, &length, 8);
        memcpy(more + used + 8, keys[i].key, length);
        memcpy(more + used + 8 + length, &type, 4);
        memcpy(more + used + 12 + length, &keys[i].value, 4);
        used += 16 + length;
    }
    assert_int_equal(used, sizeof more);
    uint64_t count;
    memcpy(file, tower, HEAD);
    memcpy(&count, file + KEYS, 8);
    count += 3;
    memcpy(file + KEYS, &count, 8);
    memcpy(file + HEAD, more, sizeof more);
    memcpy(file + HEAD + sizeof more, tower + HEAD, tower_size - HEAD);
    scratch_write(&dir, "model.gguf", good, good_size);
    for (int named = 0; named < 2; named++) {
        fore_gguf_model *m;
        fore_error err = {0};
        cJSON *tree = NULL;
        scratch_write(&dir, "tower.gguf", named ? file : tower, tower_size + (named ? sizeof more : 0));
        if (fore_gguf_model_open(scratch_path(&dir, "model.gguf"), scratch_path(&dir, "tower.gguf"), &m, &err) ||
            fore_gguf_processor_tree(m, &tree, &err))
            fail_msg("%s", err.text);
        assert_int_equal(cJSON_GetObjectItem(tree, "min_pixels")->valueint, named ? 12345 : 65536);
        assert_int_equal(cJSON_GetObjectItem(tree, "max_pixels")->valueint, named ? 678901 : 16777216);
        cJSON_Delete(tree);
        fore_gguf_model_close(m);
    }
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),  cmocka_unit_test(test_head),    cmocka_unit_test(test_truncated), cmocka_unit_test(test_values),
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_tensors), cmocka_unit_test(test_files),     cmocka_unit_test(test_open),
        cmocka_unit_test(test_pixels),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
