/* The weight store: real folders, and every malformed file and index with its message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/store.h"
#include "support/scratch.h"

#define MODELS FORE_DATA "/models/"
#define INDEX "model.safetensors.index.json"

static scratch dir;

static int setup(void **state) {
    (void)state;
    scratch_make(&dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    scratch_remove(&dir);
    return 0;
}

/* A file with this header and `size` bytes of data, byte i having the value i. */
static void put(const char *name, const char *header, size_t size) {
    size_t n = strlen(header);
    unsigned char *file = malloc(8 + n + size);
    assert_non_null(file);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < size; i++) file[8 + n + i] = (unsigned char)i;
    scratch_write(&dir, name, file, 8 + n + size);
    free(file);
}

static void put_text(const char *name, const char *text) { scratch_write(&dir, name, text, strlen(text)); }

static void expect(fore_status got, const fore_error *err, fore_status want, const char *part) {
    if (got != want || err->code != want || !strstr(err->text, part))
        fail_msg("expected %d with \"%s\", got %d: %s", want, part, got, err->text);
}

static void refuse_file(const char *header, size_t size, fore_status want, const char *part) {
    fore_error err = {0};
    fore_store *st = (fore_store *)&err;
    put("bad.safetensors", header, size);
    expect(fore_store_open_file(scratch_path(&dir, "bad.safetensors"), &st, &err), &err, want, part);
    assert_null(st);
    assert_non_null(strstr(err.text, "bad.safetensors"));
}

static void refuse_folder(fore_status want, const char *part) {
    fore_error err = {0};
    fore_store *st;
    expect(fore_store_open(dir.dir, &st, &err), &err, want, part);
    assert_null(st);
}

static fore_store *open_folder(const char *path) {
    fore_error err = {0};
    fore_store *st;
    if (fore_store_open(path, &st, &err)) fail_msg("%s", err.text);
    return st;
}

/* ---- good files -------------------------------------------------------------------------------------------------- */

static void test_single(void **state) {
    (void)state;
    fore_store *st = open_folder(MODELS "dense_untied_bf16");
    assert_int_equal(fore_store_files(st), 1);
    assert_string_equal(fore_store_file_path(st, 0), MODELS "dense_untied_bf16/model.safetensors");
    assert_null(fore_store_file_path(st, 1));
    assert_null(fore_store_file_path(st, -1));
    const fore_entry *e = fore_store_find(st, "model.language_model.embed_tokens.weight");
    assert_non_null(e);
    assert_string_equal(e->dtype_name, "BF16");
    assert_int_equal(e->dtype, FORE_DTYPE_BF16);
    assert_int_equal(e->dims, 2);
    assert_int_equal(e->shape[0], 512);
    assert_int_equal(e->shape[1], 64);
    assert_int_equal(e->bytes, 512 * 64 * 2);
    assert_int_equal(fore_store_find(st, "model.language_model.layers.0.linear_attn.A_log")->dtype, FORE_DTYPE_F32);
    assert_null(fore_store_find(st, "model.language_model.embed_tokens"));
    uint64_t bytes = 0;
    for (size_t i = 0; i < fore_store_count(st); i++) {
        e = fore_store_at(st, i);
        bytes += e->bytes;
        assert_ptr_equal(fore_store_find(st, e->name), e);
        if (i) assert_true(strcmp(fore_store_at(st, i - 1)->name, e->name) < 0);
    }
    assert_int_equal(bytes, fore_store_bytes(st));
    assert_null(fore_store_at(st, fore_store_count(st)));
    fore_store_close(st);
}

static void test_sharded(void **state) {
    (void)state;
    fore_store *st = open_folder(MODELS "dense_sharded_bf16");
    assert_int_equal(fore_store_files(st), 4); /* three shards and the MTP file, each once */
    int seen[4] = {0};
    for (size_t i = 0; i < fore_store_count(st); i++) seen[fore_store_at(st, i)->file]++;
    for (int i = 0; i < 4; i++) assert_true(seen[i] > 0);
    assert_non_null(fore_store_find(st, "mtp.fc.weight"));
    assert_null(fore_store_find(st, "image_embeds")); /* other *.safetensors of the folder stay closed */
    fore_store_close(st);
}

/* Without the index the numbered shards are opened, and nothing beside them. */
static void test_no_index(void **state) {
    (void)state;
    static const char *const names[] = {"model.safetensors-00001-of-00003.safetensors",
                                        "model.safetensors-00002-of-00003.safetensors",
                                        "model.safetensors-00003-of-00003.safetensors"};
    for (int i = 0; i < 3; i++) {
        char from[256];
        snprintf(from, sizeof from, MODELS "dense_sharded_bf16/%s", names[i]);
        scratch_copy(&dir, from, names[i]);
    }
    put("mtp.safetensors", "{\"m\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    fore_store *with = open_folder(MODELS "dense_sharded_bf16"), *without = open_folder(dir.dir);
    assert_int_equal(fore_store_files(without), 3);
    size_t same = 0;
    for (size_t i = 0; i < fore_store_count(without); i++) {
        const fore_entry *a = fore_store_at(without, i), *b = fore_store_find(with, a->name);
        assert_non_null(b);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
        same++;
    }
    assert_true(same > 80);
    fore_store_close(with);
    fore_store_close(without);
    unlink(scratch_path(&dir, names[1]));
    refuse_folder(FORE_ERR_FORMAT, "shard 2 of 3 is missing");
    unlink(scratch_path(&dir, names[2]));
    refuse_folder(FORE_ERR_FORMAT, "shard 2 of 3 is missing after model.safetensors-00001");
}

static void test_other_names(void **state) {
    (void)state;
    put("b.safetensors", "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    put("a.safetensors", "{\"y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    fore_store *st = open_folder(dir.dir);
    assert_int_equal(fore_store_files(st), 2);
    assert_int_equal(fore_store_find(st, "y")->file, 0);
    assert_int_equal(fore_store_find(st, "x")->file, 1);
    fore_store_close(st);
    put("c.safetensors", "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    refuse_folder(FORE_ERR_FORMAT, "tensor x is also in");
}

/* Scalars, empty tensors, unaligned data, metadata, padding, escapes, types that only the format knows. */
static void test_odd_but_good(void **state) {
    (void)state;
    put("odd.safetensors",
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"byte\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[1,5]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[5,5]},"
        "\"f8 \\\"\\u00e9\\\"\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,1,1,1,1,1,1,1],\"data_offsets\":[5,7]},"
        "\"f4\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[7,9]}}   ", 9);
    fore_error err = {0};
    fore_store *st;
    if (fore_store_open_file(scratch_path(&dir, "odd.safetensors"), &st, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_store_count(st), 5);
    const fore_entry *e = fore_store_find(st, "scalar");
    assert_int_equal(e->dims, 0);
    assert_memory_equal(e->data, "\1\2\3\4", 4);
    assert_int_equal(fore_store_find(st, "none")->bytes, 0);
    e = fore_store_find(st, "f8 \"\xC3\xA9\"");
    assert_int_equal(e->dtype, FORE_DTYPE_OTHER);
    assert_string_equal(e->dtype_name, "F8_E4M3");
    assert_int_equal(e->dims, 8);
    assert_int_equal(fore_store_find(st, "f4")->bytes, 2);
    assert_int_equal(fore_store_bytes(st), 9);
    fore_store_close(st);
    put("odd.safetensors", "{}", 0);
    assert_int_equal(fore_store_open_file(scratch_path(&dir, "odd.safetensors"), &st, NULL), FORE_OK);
    assert_int_equal(fore_store_count(st), 0);
    assert_null(fore_store_find(st, "x"));
    fore_store_close(st);
    fore_store_close(NULL);
}

/* ---- bad files --------------------------------------------------------------------------------------------------- */

#define T(name, dtype, shape, offsets) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_bad_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t size;
        fore_status status;
        const char *message;
    } cases[] = {
        {"", 0, FORE_ERR_FORMAT, "not valid JSON"},
        {"{\"a\":", 0, FORE_ERR_FORMAT, "not valid JSON: the text ends too early (line 1, byte 6"},
        {"[1]", 0, FORE_ERR_FORMAT, "not a JSON object"},
        {"{\"\xFF\":1}", 0, FORE_ERR_FORMAT, "invalid UTF-8 at byte 2"},
        {"{\"__metadata__\":3}", 0, FORE_ERR_FORMAT, "__metadata__"},
        {"{\"a\":3}", 0, FORE_ERR_FORMAT, "tensor a: expected an object"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, FORE_ERR_FORMAT, "tensor a: expected a string \"dtype\""},
        {"{" T("a", "Q7", "[1]", "[0,1]") "}", 1, FORE_ERR_UNSUPPORTED, "unknown dtype Q7"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, FORE_ERR_FORMAT, "tensor a: expected a list \"shape\""},
        {"{" T("a", "U8", "[-1]", "[0,1]") "}", 1, FORE_ERR_FORMAT, "dimension 0 of the shape is not a whole number"},
        {"{" T("a", "U8", "[1,1.5]", "[0,1]") "}", 1, FORE_ERR_FORMAT, "dimension 1 of the shape"},
        {"{" T("a", "U8", "[1e300]", "[0,1]") "}", 1, FORE_ERR_FORMAT, "dimension 0 of the shape"},
        {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, FORE_ERR_FORMAT, "at most 8 dimensions, found 9"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, FORE_ERR_FORMAT, "expected \"data_offsets\""},
        {"{" T("a", "U8", "[1]", "[0]") "}", 1, FORE_ERR_FORMAT, "expected \"data_offsets\""},
        {"{" T("a", "U8", "[1]", "[0,\"1\"]") "}", 1, FORE_ERR_FORMAT, "expected \"data_offsets\""},
        {"{" T("a", "U8", "[1]", "[-1,0]") "}", 1, FORE_ERR_FORMAT, "expected \"data_offsets\""},
        {"{" T("a", "U8", "[1]", "[3,2]") "}", 4, FORE_ERR_FORMAT, "begins at byte 3 of the data and ends before, at 2"},
        {"{" T("a", "F32", "[2,3]", "[0,20]") "}", 20, FORE_ERR_FORMAT, "needs 24 bytes, its offsets give 20"},
        {"{" T("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, FORE_ERR_FORMAT, "overflows"},
        {"{" T("a", "F4", "[3]", "[0,2]") "}", 2, FORE_ERR_FORMAT, "no whole number of bytes"},
        {"{" T("a", "U8", "[9007199254740992]", "[0,9007199254740992]") "}", 4, FORE_ERR_FORMAT, "truncated"},
        {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[2,6]") "}", 6, FORE_ERR_FORMAT,
         "tensors a and b overlap at byte 2"},
        {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[0,4]") "}", 4, FORE_ERR_FORMAT, "overlap at byte 0"},
        {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[0]", "[2,2]") "}", 4, FORE_ERR_FORMAT, "overlap at byte 2"},
        {"{" T("b", "U8", "[2]", "[4,6]") "," T("a", "U8", "[2]", "[0,2]") "}", 6, FORE_ERR_FORMAT,
         "bytes 2 to 4 of the data, before tensor b, belong to no tensor"},
        {"{" T("a", "U8", "[2]", "[0,2]") "}", 7, FORE_ERR_FORMAT, "something follows the last tensor"},
        {"{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", 2, FORE_ERR_FORMAT, "tensor a is there twice"},
        {"{\"a\\u0000b\":{}}", 0, FORE_ERR_FORMAT, "\\u0000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse_file(cases[i].header, cases[i].size, cases[i].status, cases[i].message);
}

static void refuse_bytes(const void *bytes, size_t size, const char *part) {
    fore_error err = {0};
    fore_store *st;
    scratch_write(&dir, "bad.safetensors", bytes, size);
    expect(fore_store_open_file(scratch_path(&dir, "bad.safetensors"), &st, &err), &err, FORE_ERR_FORMAT, part);
    assert_null(st);
}

static void test_bad_length(void **state) {
    (void)state;
    refuse_bytes("", 0, "truncated: expected at least 8 bytes, found 0");
    refuse_bytes("\2\0\0\0\0\0\0", 7, "expected at least 8 bytes, found 7");
    refuse_bytes("\2\0\0\0\0\0\0\0{", 9, "the header needs 10 bytes, the file has 9");
    refuse_bytes("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10, "18446744073709551615 bytes, the limit is 100000000");
    refuse_bytes("\xF8\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10, "the limit is 100000000");
    refuse_bytes("PK\3\4 a zip file", 16, "not a safetensors file");
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    refuse_bytes(lfs, sizeof lfs - 1, "Git LFS pointer");
}

/* A real file cut anywhere is refused; a cut in the data gives both sizes. */
static void test_truncated(void **state) {
    (void)state;
    scratch_copy(&dir, MODELS "dense_tied_f32/model.safetensors", "model.safetensors");
    static const long cuts[] = {1195767, 1000000, 20000, 9000, 100, 8, 1, 0};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        assert_int_equal(truncate(scratch_path(&dir, "model.safetensors"), cuts[i]), 0);
        refuse_folder(FORE_ERR_FORMAT, "truncated");
        if (cuts[i] == 1000000) refuse_folder(FORE_ERR_FORMAT, "describes 1195768 bytes, the file has 1000000");
    }
}

/* ---- bad folders ------------------------------------------------------------------------------------------------- */

static void test_bad_folders(void **state) {
    (void)state;
    fore_error err = {0};
    fore_store *st;
    expect(fore_store_open("/nonexistent/folder", &st, &err), &err, FORE_ERR_IO, "/nonexistent/folder: no such folder");
    expect(fore_store_open_file("/nonexistent/file", &st, &err), &err, FORE_ERR_IO, "/nonexistent/file: cannot open");
    expect(fore_store_open_file("/tmp", &st, &err), &err, FORE_ERR_IO, "folder");
    refuse_folder(FORE_ERR_IO, "no weights: expected " INDEX);
    put("m-00001-of-00002.safetensors", "{" T("a", "U8", "[1]", "[0,1]") "}", 1);
    put("n-00002-of-00002.safetensors", "{" T("b", "U8", "[1]", "[0,1]") "}", 1);
    refuse_folder(FORE_ERR_FORMAT, "different sets");
}

static void test_bad_index(void **state) {
    (void)state;
    put("one.safetensors", "{" T("a", "U8", "[1]", "[0,1]") "," T("c", "U8", "[1]", "[1,2]") "}", 2);
    put("two.safetensors", "{" T("b", "U8", "[1]", "[0,1]") "}", 1);
    put("three.safetensors", "{" T("b", "U8", "[1]", "[0,1]") "}", 1);
    static const struct {
        const char *map;
        fore_status status;
        const char *message;
    } cases[] = {
        {"{", FORE_ERR_FORMAT, "not valid JSON"},
        {"[]", FORE_ERR_FORMAT, "expected an object \"weight_map\""},
        {"{\"weight_map\":{}}", FORE_ERR_FORMAT, "expected an object \"weight_map\""},
        {"{\"weight_map\":{\"a\":1}}", FORE_ERR_FORMAT, "tensor a: expected a file name"},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", FORE_ERR_FORMAT, "leaves the folder"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", FORE_ERR_FORMAT, "leaves the folder"},
        {"{\"weight_map\":{\"a\":\"x/../one.safetensors\"}}", FORE_ERR_FORMAT, "leaves the folder"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"./one.safetensors\"}}", FORE_ERR_FORMAT, "shortest form"},
        {"{\"weight_map\":{\"a\":\"\"}}", FORE_ERR_FORMAT, "shortest form"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}}", FORE_ERR_FORMAT, "tensor a is named twice"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"z\":\"gone.safetensors\"}}", FORE_ERR_IO,
         "names a file that cannot be read: "},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"z\":\"one.safetensors\"}}", FORE_ERR_FORMAT,
         "tensor z: expected in one.safetensors, found in no file"},
        {"{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"one.safetensors\"}}", FORE_ERR_FORMAT,
         "tensor a: expected in two.safetensors, found in one.safetensors"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\",\"c\":\"three.safetensors\"}}", FORE_ERR_FORMAT,
         "tensor b is also in"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_text(INDEX, cases[i].map);
        refuse_folder(cases[i].status, cases[i].message);
    }
    /* What the index leaves out of a shard that it names is still there. */
    put_text(INDEX, "{\"metadata\":{},\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}");
    fore_store *st = open_folder(dir.dir);
    assert_int_equal(fore_store_count(st), 3);
    assert_int_equal(fore_store_files(st), 2);
    fore_store_close(st);
}

static void test_missing_shard(void **state) {
    (void)state;
    scratch_copy(&dir, MODELS "dense_sharded_bf16/" INDEX, INDEX);
    scratch_copy(&dir, MODELS "dense_sharded_bf16/model.safetensors-00001-of-00003.safetensors",
                 "model.safetensors-00001-of-00003.safetensors");
    refuse_folder(FORE_ERR_IO, "model.safetensors-00002-of-00003.safetensors");
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

static void test_write_and_read(void **state) {
    (void)state;
    static const float f[6] = {1, 2, 3, 4, 5, 6};
    static const uint8_t u[3] = {7, 8, 9};
    static const int64_t i = -5;
    const fore_tensor tensors[] = {
        {.name = "bytes", .dtype = "U8", .dims = 1, .shape = {3}, .data = u},
        {.name = "a \"quoted\"\n\xC3\xA9", .dtype = "F32", .dims = 2, .shape = {2, 3}, .data = f},
        {.name = "scalar", .dtype = "I64", .data = &i},
        {.name = "empty", .dtype = "BF16", .dims = 2, .shape = {4, 0}},
    };
    fore_error err = {0};
    const char *path = scratch_path(&dir, "out.safetensors");
    if (fore_tensors_write(path, tensors, 4, &err)) fail_msg("%s", err.text);
    assert_int_equal(scratch_count(&dir), 1);
    fore_tensor_file *file;
    if (fore_tensors_open(path, &file, &err)) fail_msg("%s", err.text);
    for (int k = 0; k < 4; k++) {
        const fore_tensor *t = fore_tensors_get(file, tensors[k].name);
        assert_non_null(t);
        assert_string_equal(t->dtype, tensors[k].dtype);
        assert_int_equal(t->dims, tensors[k].dims);
        assert_memory_equal(t->shape, tensors[k].shape, sizeof t->shape);
    }
    const fore_tensor *t = fore_tensors_get(file, tensors[1].name);
    assert_int_equal((uintptr_t)t->data % 4, 0);
    assert_memory_equal(t->data, f, sizeof f);
    t = fore_tensors_get(file, "scalar");
    assert_int_equal((uintptr_t)t->data % 8, 0);
    assert_memory_equal(t->data, &i, sizeof i);
    assert_memory_equal(fore_tensors_get(file, "bytes")->data, u, sizeof u);
    assert_null(fore_tensors_get(file, "none"));
    assert_string_equal(fore_tensors_at(file, 1)->name, "bytes");
    assert_null(fore_tensors_at(file, 4));
    fore_tensors_close(file);
    fore_tensors_close(NULL);
}

static void test_write_refuses(void **state) {
    (void)state;
    static const uint8_t u[4] = {0};
    static const struct {
        fore_tensor tensor[2];
        size_t count;
        const char *message;
    } cases[] = {
        {{{.dtype = "U8", .data = u}}, 1, "needs a name"},
        {{{.name = "__metadata__", .dtype = "U8", .data = u}}, 1, "needs a name"},
        {{{.name = "\xFF", .dtype = "U8", .data = u}}, 1, "needs a name in UTF-8"},
        {{{.name = "a", .dtype = "X8", .data = u}}, 1, "tensor a: unknown dtype X8"},
        {{{.name = "a", .data = u}}, 1, "tensor a: unknown dtype (none)"},
        {{{.name = "a", .dtype = "U8", .dims = 9, .data = u}}, 1, "0 to 8 dimensions, found 9"},
        {{{.name = "a", .dtype = "F32", .dims = 2, .shape = {1ull << 40, 1ull << 40}, .data = u}}, 1, "overflows"},
        {{{.name = "a", .dtype = "U8", .dims = 1, .shape = {4}}}, 1, "tensor a: data is NULL"},
        {{{.name = "a", .dtype = "U8", .data = u}, {.name = "a", .dtype = "U8", .data = u}}, 2, "tensor a is given twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fore_error err = {0};
        expect(fore_tensors_write(scratch_path(&dir, "no.safetensors"), cases[i].tensor, cases[i].count, &err), &err,
               FORE_ERR_INVALID, cases[i].message);
        assert_int_equal(scratch_count(&dir), 0);
    }
    fore_error err = {0};
    const fore_tensor t = {.name = "a", .dtype = "U8", .dims = 1, .shape = {4}, .data = u};
    expect(fore_tensors_write(scratch_path(&dir, "no/such/folder"), &t, 1, &err), &err, FORE_ERR_IO, "No such file");
    expect(fore_tensors_write("/dev/full", &t, 1, &err), &err, FORE_ERR_IO, "No space left on device");
    expect(fore_tensors_write(NULL, &t, 1, &err), &err, FORE_ERR_INVALID, "NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_sharded),
        cmocka_unit_test_setup_teardown(test_no_index, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_odd_but_good, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_length, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_folders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_index, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_shard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_and_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_refuses, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
