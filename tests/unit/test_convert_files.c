/* forge convert: the files around the weights, from a folder and from metadata, which give the same tokens, pictures and videos; a look
 * before the work; and what is refused, which leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "decode/model.h"
#include "support/answer.h"
#include "support/scratch.h"
#include "text/tokenizer.h"

#define FORMS FORE_DATA "/forms/"
#define GGUF FORE_DATA "/gguf/"

/* In memory where that is possible: every file is synced. */
static void make_folder(scratch *s) {
    strcpy(s->dir, "/dev/shm/foresight-test-XXXXXX");
    if (!mkdtemp(s->dir)) scratch_make(s);
}

/* Converts to s/out; returns its path. */
static const char *convert(const scratch *s, const char *source, fore_convert_options o, fore_quantize_report **report) {
    fore_error err = {0};
    const char *out = scratch_path(s, "out");
    o.quantize.threads = 2;
    if (fore_convert(source, out, &o, report, &err)) fail_msg("%s: %s", source, err.text);
    return out;
}

static void same_file(const char *a, const char *b, const char *name) {
    char path[2][256], *text[2];
    size_t size[2];
    fore_error err = {0};
    const char *const dirs[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", dirs[i], name);
        if (fore_file_read(path[i], 1 << 24, &text[i], &size[i], &err)) fail_msg("%s", err.text);
    }
    if (size[0] != size[1] || memcmp(text[0], text[1], size[0])) fail_msg("%s and %s differ", path[0], path[1]);
    free(text[0]);
    free(text[1]);
}

/* ---- files around the weights ------------------------------------------------------------------------------------ */

static void same_cut(const fore_processor *a, const fore_processor *b) {
    assert_true(a->patch_size == b->patch_size && a->temporal_patch_size == b->temporal_patch_size && a->merge_size == b->merge_size);
    if (a->min_pixels != b->min_pixels || a->max_pixels != b->max_pixels) fail_msg("%ld %ld, %ld %ld", (long)a->min_pixels, (long)a->max_pixels, (long)b->min_pixels, (long)b->max_pixels);
    assert_true(a->min_pixels == b->min_pixels && a->max_pixels == b->max_pixels && a->rescale_factor == b->rescale_factor);
    assert_true(a->do_resize == b->do_resize && a->do_rescale == b->do_rescale && a->do_normalize == b->do_normalize);
    assert_memory_equal(a->mean, b->mean, sizeof a->mean);
    assert_memory_equal(a->std, b->std, sizeof a->std);
}

/* Tokens, template, pictures, videos and sampling of a model in GGUF files and of the folder that was made of it. */
static void test_metadata(void **state) {
    (void)state;
    static const char *const texts[] = {"<|im_start|>user\nwhat is the red picture on?<|im_end|>\n", "it's 12345 WE'LL\r\n\r\n  d", ""};
    static const struct {
        const char *path, *mmproj;
    } models[] = {{GGUF "q35/model.gguf", GGUF "q35/mmproj.gguf"}, {GGUF "vl/model.gguf", GGUF "vl/mmproj.gguf"}, {GGUF "apart", NULL},
                  {GGUF "next/model.gguf", NULL}, {GGUF "q3/model.gguf", NULL}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        scratch s;
        make_folder(&s);
        const char *out = convert(&s, models[i].path, (fore_convert_options){.exact = true, .mmproj = models[i].mmproj}, NULL);
        subject a = subject_open(models[i].path, &(fore_model_options){.mmproj = models[i].mmproj}, 64), b = subject_open(out, NULL, 64);
        const fore_tokenizer *x = fore_model_tokenizer(a.model), *y = fore_model_tokenizer(b.model);
        assert_int_equal(fore_tokenizer_size(x), fore_tokenizer_size(y));
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            int32_t *p = NULL, *q = NULL;
            size_t n = 0, m = 0;
            assert_int_equal(fore_tokenizer_encode(x, texts[k], strlen(texts[k]), &p, &n, NULL), FORE_OK);
            assert_int_equal(fore_tokenizer_encode(y, texts[k], strlen(texts[k]), &q, &m, NULL), FORE_OK);
            assert_int_equal(n, m);
            if (n) assert_memory_equal(p, q, n * sizeof *p);
            fore_free(p);
            fore_free(q);
        }
        assert_int_equal(fore_model_template(a.model) != NULL, fore_model_template(b.model) != NULL);
        fore_sampling u, v;
        fore_model_default_sampling(a.model, &u);
        fore_model_default_sampling(b.model, &v);
        assert_true(u.temperature == v.temperature && u.top_p == v.top_p && u.top_k == v.top_k && u.min_p == v.min_p);
        assert_int_equal(a.model->eos_count, b.model->eos_count);
        assert_memory_equal(a.model->eos, b.model->eos, (size_t)a.model->eos_count * sizeof *a.model->eos);
        if (a.model->network.config.has_vision) {
            const fore_video_processor *c = &a.model->video_processor, *d = &b.model->video_processor;
            same_cut(&a.model->processor, &b.model->processor);
            same_cut(&c->frame, &d->frame);
            assert_true(c->fps == d->fps && c->min_frames == d->min_frames && c->max_frames == d->max_frames && c->max_tokens == d->max_tokens && c->kind == d->kind &&
                        c->cap_frames == d->cap_frames && c->samples == d->samples);
        }
        subject_close(&a);
        subject_close(&b);
        scratch_remove(&s);
    }
}

/* What lies in a folder of GGUF files and is read with them comes along; what tells of other weights does not. */
static void test_files(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    scratch_copy(&s, GGUF "q35/model.gguf", "source/model.gguf");
    scratch_copy(&s, GGUF "q35/mmproj.gguf", "source/mmproj.gguf");
    scratch_write(&s, "source/preprocessor_config.json", "{\"min_pixels\": 70000, \"patch_size\": 16}", 39);
    scratch_write(&s, "source/tokenizer.json", "{}", 2);
    scratch_write(&s, "source/LICENSE", "free", 4);
    const char *out = convert(&s, scratch_path(&s, "source"), (fore_convert_options){.exact = true}, NULL);
    same_file(out, scratch_path(&s, "source"), "preprocessor_config.json");
    same_file(out, scratch_path(&s, "source"), "LICENSE");
    subject b = subject_open(out, NULL, 64);
    assert_int_equal(b.model->processor.min_pixels, 70000);
    assert_int_equal(fore_tokenizer_id(fore_model_tokenizer(b.model), "<|im_end|>"), 306);
    subject_close(&b);
    char path[256];
    snprintf(path, sizeof path, "%s/video_preprocessor_config.json", out);
    assert_false(fore_file_exists(path));
    scratch_remove(&s);

    make_folder(&s);
    scratch_copy(&s, FORMS "awq/config.json", "source/config.json");
    scratch_copy(&s, FORMS "awq/model.safetensors", "source/model.safetensors");
    scratch_write(&s, "source/quant_config.json", "{}", 2);
    scratch_write(&s, "source/quantize_config.json", "{}", 2);
    scratch_write(&s, "source/vocab.txt", "a", 1);
    scratch out_files;
    snprintf(out_files.dir, sizeof out_files.dir, "%.50s/out", s.dir);
    convert(&s, scratch_path(&s, "source"), (fore_convert_options){.exact = false}, NULL);
    assert_int_equal(scratch_count(&out_files), 5); /* config.json, the index, the weights, the report, vocab.txt */
    scratch_remove(&s);
}

/* ---- looking, and what is refused -------------------------------------------------------------------------------- */

static void test_dry_run(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    fore_quantize_report *r, *done;
    convert(&s, FORMS "int4", (fore_convert_options){.dry_run = true}, &r);
    assert_int_equal(scratch_count(&s), 0);
    convert(&s, FORMS "int4", (fore_convert_options){.dry_run = false}, &done);
    assert_int_equal(r->copied, 13);
    assert_int_equal(r->copied, done->copied);
    assert_int_equal(r->bytes, done->bytes);
    assert_int_equal(r->count, done->count);
    fore_quantize_report_free(r);
    fore_quantize_report_free(done);
    scratch_remove(&s);
}

static void refuse(const char *source, const char *out, const fore_convert_options *o, fore_status code, const char *says) {
    fore_error err = {0};
    fore_quantize_report *r = NULL;
    fore_status s = fore_convert(source, out, o, &r, &err);
    if (s != code || r || !strstr(err.text, says)) fail_msg("expected %d \"%s\", got %d: %s", code, says, s, err.text);
}

static void test_refused(void **state) {
    (void)state;
    scratch s;
    make_folder(&s);
    const char *out = scratch_path(&s, "out");
    const fore_convert_options plain = {.exact = false};
    refuse(FORMS "none", out, &plain, FORE_ERR_IO, "none: cannot open");
    refuse("README.md", out, &plain, FORE_ERR_INVALID, "give the folder of a checkpoint, or a GGUF file");
    refuse("tests/samples", out, &plain, FORE_ERR_IO, "config.json");
    refuse(GGUF "tokenizer/model.gguf", out, &plain, FORE_ERR_FORMAT, "token_embd.weight");
    refuse(GGUF "q35/mmproj.gguf", out, &plain, FORE_ERR_INVALID, "a vision tower alone");
    refuse(FORMS "int4", out, &(fore_convert_options){.mmproj = GGUF "q35/mmproj.gguf"}, FORE_ERR_INVALID, "not a model of GGUF files");
    refuse(FORMS "int4", out, &(fore_convert_options){.quantize = {.bits = 5}}, FORE_ERR_INVALID, "convert: bits: expected 4 or 8, found 5");
    refuse(FORMS "int4", out, &(fore_convert_options){.quantize = {.group = 16}}, FORE_ERR_INVALID, "convert: group");
    refuse(FORMS "int4", out, &(fore_convert_options){.exact = true, .quantize = {.mtp_bits = 4}}, FORE_ERR_INVALID, "makes no sense");
    refuse(FORMS "int4", FORMS "int4", &plain, FORE_ERR_INVALID, "the source itself");
    refuse(FORMS "int4", FORMS "int4/new", &plain, FORE_ERR_INVALID, "inside the source");
    refuse(FORMS "int4", FORMS "int4/../int4/new/", &plain, FORE_ERR_INVALID, "inside the source");
    refuse(FORMS "int4", "README.md", &plain, FORE_ERR_INVALID, "there, and not a folder");
    refuse(FORMS "int4", "tests", &plain, FORE_ERR_INVALID, "not empty");
    refuse(FORMS "int4", scratch_path(&s, "no/such"), &plain, FORE_ERR_IO, "cannot make the folder");
    assert_int_equal(scratch_count(&s), 0);
    scratch_remove(&s);
    /* quantize names the way. */
    fore_error err = {0};
    const fore_quantize_options q = {.bits = 4};
    assert_int_equal(fore_quantize(GGUF "q35/model.gguf", out, &q, NULL, &err), FORE_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "foresight forge convert"));
    assert_int_equal(fore_quantize(FORMS "awq", out, &q, NULL, &err), FORE_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "foresight forge convert"));
}

/* Half a file, and matrices in a form that is not known: nothing is made. */
static void test_damaged(void **state) {
    (void)state;
    static const char *const files[][2] = {{FORMS "gptq/model.safetensors", "model.safetensors"}, {GGUF "blocks/model.gguf", "model.gguf"}};
    scratch s;
    make_folder(&s);
    for (int i = 0; i < 2; i++) {
        char name[64], *path;
        struct stat st;
        snprintf(name, sizeof name, "%d/%s", i, files[i][1]);
        scratch_copy(&s, files[i][0], name);
        if (i == 0) scratch_copy(&s, FORMS "gptq/config.json", "0/config.json");
        path = strdup(scratch_path(&s, name));
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, st.st_size - 4000), 0);
        refuse(i ? path : scratch_path(&s, "0"), scratch_path(&s, "out"), NULL, FORE_ERR_FORMAT, "truncated");
        free(path);
    }
    static const unsigned char x[64 * 64];
    fore_error err = {0};
    static const struct {
        fore_tensor t[2];
        size_t count;
        fore_status code;
        const char *says;
    } cases[] = {
        {{{.name = "lm_head.weight", .dtype = "F8_E5M2", .dims = 2, .shape = {64, 64}, .data = x}}, 1, FORE_ERR_UNSUPPORTED, "a matrix of type F8_E5M2"},
        {{{.name = "lm_head.weight", .dtype = "U32", .dims = 2, .shape = {64, 8}, .data = x}}, 1, FORE_ERR_FORMAT, "no .scales"},
        {{{.name = "lm_head.weight", .dtype = "U32", .dims = 2, .shape = {64, 7}, .data = x},
          {.name = "lm_head.scales", .dtype = "BF16", .dims = 2, .shape = {64, 1}, .data = x}}, 2, FORE_ERR_FORMAT, "no .scales and .biases"},
        {{{.name = "lm_head.qweight", .dtype = "I32", .dims = 2, .shape = {8, 64}, .data = x}}, 1, FORE_ERR_FORMAT, "scales"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_copy(&s, FORMS "int4/config.json", "2/config.json");
        if (fore_tensors_write(scratch_path(&s, "2/model.safetensors"), cases[i].t, cases[i].count, &err)) fail_msg("%s", err.text);
        refuse(scratch_path(&s, "2"), scratch_path(&s, "out"), NULL, cases[i].code, cases[i].says);
    }
    assert_false(fore_dir_exists(scratch_path(&s, "out")));
    scratch_remove(&s);
}

/* A source of four terabytes with nothing written in it: asked before the folder is made. */
static void test_no_room(void **state) {
    (void)state;
    static const char header[] = "{\"lm_head.weight\":{\"dtype\":\"BF16\",\"shape\":[16777216,131072],\"data_offsets\":[0,4398046511104]}}  ";
    scratch s;
    scratch_make(&s);
    char file[8 + sizeof header] = {(char)(sizeof header - 1)};
    memcpy(file + 8, header, sizeof header - 1);
    scratch_copy(&s, FORMS "int4/config.json", "source/config.json");
    scratch_write(&s, "source/model.safetensors", file, 8 + sizeof header - 1);
    const fore_convert_options exact = {.exact = true};
    if (truncate(scratch_path(&s, "source/model.safetensors"), (off_t)(8 + sizeof header - 1) + 4398046511104) == 0) {
        refuse(scratch_path(&s, "source"), scratch_path(&s, "out"), NULL, FORE_ERR_LIMIT, "needs 1236.98 GB, and the disk has ");
        refuse(scratch_path(&s, "source"), scratch_path(&s, "out"), &exact, FORE_ERR_LIMIT, "needs 4398.08 GB, and the disk has ");
        assert_false(fore_dir_exists(scratch_path(&s, "out")));
        assert_int_equal(mkdir(scratch_path(&s, "out"), 0755), 0);
        refuse(scratch_path(&s, "source"), scratch_path(&s, "out"), NULL, FORE_ERR_LIMIT, "needs 1236.98 GB");
        assert_int_equal(rmdir(scratch_path(&s, "out")), 0); /* it is empty */
    } else {
        print_message("this file system has no files of that size\n");
    }
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata), cmocka_unit_test(test_files),   cmocka_unit_test(test_dry_run),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
