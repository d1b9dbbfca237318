/* The forms of quantised matrices, one matrix at a time: written by the formats' own writers and compared to the last bit with
 * what these dequantise; and every malformed set of tensors is refused with the name of what is wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/half.h"
#include "kernels/quant.h"
#include "model/forms.h"
#include "model/gguf_blocks.h"
#include "model/weights.h"
#include "support/golden.h"
#include "support/scratch.h"

#define EXTRA FORE_DATA "/forms/extra/extra.safetensors"

static const fore_entry *weights_of(const fore_store *store, const char *module) {
    char name[128];
    snprintf(name, sizeof name, "%s.weight", module);
    return fore_forms_weights(store, name);
}

static void read_matrix(const fore_store *store, const char *module, const fore_stored_settings *settings, fore_form_matrix *m) {
    fore_error err = {0};
    const fore_entry *e = weights_of(store, module);
    assert_non_null(e);
    if (fore_forms_read(store, e, settings, m, &err)) fail_msg("%s", err.text);
    assert_non_null(m->form);
}

static float widen(fore_dtype dtype, const unsigned char *p) {
    if (dtype == FORE_DTYPE_F32) return fore_load_f32(p);
    return dtype == FORE_DTYPE_BF16 ? fore_load_bf16(p) : fore_load_f16(p);
}

/* Rows as floats, from whatever they become. */
static float *rows_of(const fore_form_matrix *m, size_t row0, size_t rows) {
    size_t K = m->K, groups = m->bits ? K / (size_t)m->group : 1, width = fore_dtype_size(m->dtype);
    size_t bytes = m->bits ? rows * K * (size_t)m->bits / 8 : rows * K * width;
    unsigned char *q = malloc(bytes), *scales = malloc(rows * groups * width), *biases = malloc(rows * groups * width);
    float *out = malloc(rows * K * sizeof *out);
    const fore_form_rows to = {q, scales, biases};
    const char *problem = m->form->write(m, row0, rows, &to);
    if (problem) fail_msg("%s", problem);
    for (size_t i = 0; i < rows * K; i++) {
        if (!m->bits) {
            out[i] = widen(m->dtype, q + width * i);
            continue;
        }
        size_t g = i / K * groups + i % K / (size_t)m->group;
        int v = m->bits == 8 ? q[i] : q[i / 2] >> i % 2 * 4 & 15;
        out[i] = fmaf(widen(m->dtype, scales + width * g), (float)v, widen(m->dtype, biases + width * g));
    }
    free(q);
    free(scales);
    free(biases);
    return out;
}

static const struct {
    const char *name;
    int bits, group; /* in memory */
    bool wide;       /* scales and biases in F32 */
    fore_stored_settings settings;
} matrices[] = {
    {"fp8_cut", 0, 0, false, {.block_rows = 16, .block_columns = 32}},
    {"fp8_whole", 0, 0, false, {.method = ""}},
    {"fp8_powers", 0, 0, false, {.block_rows = 8, .block_columns = 32}},
    {"int2_True", 4, 32, false, {.method = ""}},  {"int2_False", 4, 32, false, {.method = ""}},
    {"int3_True", 4, 32, false, {.method = ""}},  {"int3_False", 4, 32, true, {.method = ""}},
    {"int4_True", 4, 32, false, {.method = ""}},  {"int4_False", 4, 32, true, {.method = ""}},
    {"int5_True", 8, 32, false, {.method = ""}},  {"int5_False", 8, 32, false, {.method = ""}},
    {"int6_True", 8, 32, false, {.method = ""}},  {"int6_False", 8, 32, false, {.method = ""}},
    {"int7_True", 8, 32, false, {.method = ""}},  {"int7_False", 8, 32, false, {.method = ""}},
    {"int8_True", 8, 32, false, {.method = ""}},  {"int8_False", 8, 32, true, {.method = ""}},
    {"int4_cut", 0, 0, false, {.method = ""}},    {"int4_wide", 4, 128, false, {.method = ""}},
    {"int4_narrow", 8, 16, false, {.method = ""}}, {"int8_zeros", 8, 32, true, {.method = ""}},
    {"int8_tensor", 8, 64, false, {.method = ""}},
    {"gptq2", 4, 32, false, {.bits = 2, .zeros_less_one = true}},     {"gptq2_zeros", 4, 64, false, {.bits = 2, .zeros_less_one = true}},
    {"gptq4", 4, 32, false, {.bits = 4, .zeros_less_one = true}},     {"gptq4_zeros", 4, 64, true, {.zeros_less_one = true}},
    {"gptq8", 8, 32, false, {.bits = 4, .zeros_less_one = true}},     {"gptq8_zeros", 8, 64, true, {.bits = 8, .zeros_less_one = true}},
    {"awq_32", 4, 32, true, {.zeros_less_one = true}},
};
enum { MATRICES = sizeof matrices / sizeof *matrices };

static void test_values(void **state) {
    (void)state;
    fore_error err = {0};
    fore_store *store = NULL;
    golden g;
    golden_open(&g, EXTRA);
    if (fore_store_open_file(EXTRA, &store, &err)) fail_msg("%s", err.text);
    size_t values = 0;
    for (size_t i = 0; i < fore_store_count(store); i++) values += strncmp(fore_store_at(store, i)->name, "value.", 6) == 0;
    assert_int_equal(values, MATRICES);
    for (int i = 0; i < MATRICES; i++) {
        fore_form_matrix m;
        char name[64];
        read_matrix(store, matrices[i].name, &matrices[i].settings, &m);
        if (m.bits != matrices[i].bits || m.group != matrices[i].group || (m.bits && (m.dtype == FORE_DTYPE_F32) != matrices[i].wide))
            fail_msg("%s: %d bits, group %d, scales of type %d", matrices[i].name, m.bits, m.group, (int)m.dtype);
        snprintf(name, sizeof name, "value.%s", matrices[i].name);
        const float *want = golden_f32(&g, name, m.rows * m.K);
        const size_t parts[][2] = {{0, m.rows}, {5, 3}, {m.rows - 1, 1}};
        for (int p = 0; p < 3; p++) {
            float *have = rows_of(&m, parts[p][0], parts[p][1]);
            for (size_t k = 0; k < parts[p][1] * m.K; k++)
                if (have[k] != want[parts[p][0] * m.K + k])
                    fail_msg("%s: row %zu column %zu: %g, the writer has %g", matrices[i].name, parts[p][0] + k / m.K, k % m.K, (double)have[k],
                             (double)want[parts[p][0] * m.K + k]);
            free(have);
        }
    }
    fore_store_close(store);
    golden_close(&g);
}

enum { MOST = 256 };

typedef struct kit {
    scratch s;
    fore_tensor_file *file;
    fore_tensor t[MOST];
    size_t count;
} kit;

static void kit_open(kit *k) {
    fore_error err = {0};
    *k = (kit){0};
    scratch_make(&k->s);
    if (fore_tensors_open(EXTRA, &k->file, &err)) fail_msg("%s", err.text);
    for (const fore_tensor *t; (t = fore_tensors_at(k->file, k->count)); k->t[k->count++] = *t) assert_true(k->count < MOST);
}

static void kit_close(kit *k) {
    fore_tensors_close(k->file);
    scratch_remove(&k->s);
}

static fore_tensor *tensor(kit *k, const char *name) {
    for (size_t i = 0; i < k->count; i++)
        if (!strcmp(k->t[i].name, name)) return &k->t[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Scales in F32: panels wherever a number of f32 is all that a bias needs, and always the product with q - zero in one rounding. */
static void test_wide_scales(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool odd; /* scales with all 24 digits */
        int bits;
    } table[] = {{"int4_True", true, 4},   {"int4_True", false, 4}, {"int3_False", true, 8}, {"int3_False", false, 4}, {"int4_False", true, 8},
                 {"int4_False", false, 4}, {"int6_False", true, 8}, {"int8_True", true, 8},  {"int8_False", true, 0},  {"int8_False", false, 8},
                 {"int8_zeros", true, 0},  {"int4_narrow", true, 8}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        kit k;
        fore_error err = {0};
        fore_store *stores[2] = {NULL, NULL};
        fore_form_matrix m[2];
        char name[64];
        float wide[24 * 4];
        kit_open(&k);
        if (fore_store_open_file(EXTRA, &stores[0], &err)) fail_msg("%s", err.text);
        read_matrix(stores[0], table[i].name, NULL, &m[0]);
        snprintf(name, sizeof name, "%s.weight_scale", table[i].name);
        fore_tensor *scales = tensor(&k, name);
        size_t groups = (size_t)scales->shape[1], width = m[0].K / groups;
        for (size_t g = 0; g < 24 * groups; g++) wide[g] = (table[i].odd ? 0x1.fffff2p-9f : 0x1.98p-9f) * (float)(int)(g % 7 + 1) * (g % 3 ? 1 : -1);
        unsigned char before[24 * 4 * 2];
        memcpy(before, scales->data, 24 * groups * 2);
        scales->dtype = "F32";
        scales->data = wide;
        if (fore_tensors_write(scratch_path(&k.s, "x.safetensors"), k.t, k.count, &err) ||
            fore_store_open_file(scratch_path(&k.s, "x.safetensors"), &stores[1], &err))
            fail_msg("%s", err.text);
        read_matrix(stores[1], table[i].name, NULL, &m[1]);
        if (m[1].bits != table[i].bits || m[1].dtype != FORE_DTYPE_F32) fail_msg("%s: %d bits, type %d", table[i].name, m[1].bits, (int)m[1].dtype);
        float *narrow = rows_of(&m[0], 0, 24), *have = rows_of(&m[1], 0, 24);
        for (size_t j = 0; j < 24 * m[0].K; j++) {
            size_t g = j / m[0].K * groups + j % m[0].K / width;
            float whole = narrow[j] / fore_load_bf16(before + 2 * g); /* q - zero */
            assert_true(whole == rintf(whole));
            if (have[j] != wide[g] * whole) fail_msg("%s: number %zu is %a, not %a", table[i].name, j, (double)have[j], (double)(wide[g] * whole));
        }
        free(narrow);
        free(have);
        fore_store_close(stores[0]);
        fore_store_close(stores[1]);
        kit_close(&k);
    }
}

/* Columns that are not in the order of their groups: panels in that order, and floats where groups are not of one size. */
static void test_order(void **state) {
    (void)state;
    enum { N = 32, K = 64 };
    const fore_stored_settings settings = {.bits = 4, .zeros_less_one = true};
    for (int even = 0; even < 2; even++) {
        kit k;
        fore_error err = {0};
        fore_store *stores[2] = {NULL, NULL};
        fore_form_matrix m[2];
        int32_t groups[K], order[K];
        for (int c = 0; c < K; c++) groups[c] = even ? (c * 37 + c / 8) % K % 2 : c % 3 == 0;
        int count = 0;
        for (int c = 0; c < K; c++) count += groups[c];
        assert_int_equal(count == K / 2, even);
        kit_open(&k);
        const unsigned char *scales = tensor(&k, "gptq4.scales")->data;
        tensor(&k, "gptq4.g_idx")->data = groups;
        if (fore_store_open_file(EXTRA, &stores[0], &err) || fore_tensors_write(scratch_path(&k.s, "x.safetensors"), k.t, k.count, &err) ||
            fore_store_open_file(scratch_path(&k.s, "x.safetensors"), &stores[1], &err))
            fail_msg("%s", err.text);
        for (int i = 0; i < 2; i++) read_matrix(stores[i], "gptq4", &settings, &m[i]);
        assert_true(m[0].bits == 4 && !m[0].ordered && m[1].bits == (even ? 4 : 0) && m[1].ordered == even);
        for (int c = 0; c < K; c++) order[c] = c;
        if (even) {
            m[1].form->order(&m[1], order);
            for (int c = 1; c < K; c++) assert_true(groups[order[c]] == c / 32 && (c % 32 == 0 || order[c] > order[c - 1]));
            m[1].order = order;
        }
        float *plain = rows_of(&m[0], 0, N), *have = rows_of(&m[1], 0, N);
        for (int n = 0; n < N; n++)
            for (int c = 0; c < K; c++) {
                int from = order[c]; /* the zeros of this matrix are all the same */
                float scale = fore_load_f16(scales + 2 * (from / 32 * N + n)), want = fore_load_f16(scales + 2 * (groups[from] * N + n));
                want *= plain[n * K + from] / scale;
                if (have[n * K + c] != want) fail_msg("[%d,%d]: %a, not %a", n, c, (double)have[n * K + c], (double)want);
            }
        free(plain);
        free(have);
        fore_store_close(stores[0]);
        fore_store_close(stores[1]);
        kit_close(&k);
    }
}

/* Blocks of GGUF whose columns lie in another order: in whole blocks, in whole groups, and in less. */
static void test_turned_blocks(void **state) {
    (void)state;
    enum { ROWS = 5, K = 1024 };
    static const fore_order orders[] = {{true, 0, 256, 2, 1, 2}, {true, 256, 128, 3, 1, 2}, {true, 0, 32, 4, 1, 8}, {true, 0, 16, 8, 1, 8}, {true, 0, 8, 8, 1, 16},
                                        {false, 1, 1, 2, 1, 2}};
    static const struct {
        uint32_t type;
        int bits, group;
        fore_dtype dtype[6];
    } table[] = {{FORE_GGUF_TYPE_Q4_K, 4, 32, {FORE_DTYPE_U8, FORE_DTYPE_F32, FORE_DTYPE_F32, 0, 0, FORE_DTYPE_U8}},
                 {FORE_GGUF_TYPE_Q5_K, 8, 32, {FORE_DTYPE_U8, FORE_DTYPE_F32, FORE_DTYPE_F32, 0, 0, FORE_DTYPE_U8}},
                 {FORE_GGUF_TYPE_Q6_K, 8, 16, {FORE_DTYPE_I8, FORE_DTYPE_F32, FORE_DTYPE_F32, FORE_DTYPE_F32, 0, FORE_DTYPE_I8}},
                 {FORE_GGUF_TYPE_Q4_0, 4, 32, {FORE_DTYPE_F16, FORE_DTYPE_F16, FORE_DTYPE_F16, 0, 0, FORE_DTYPE_F16}},
                 {FORE_GGUF_TYPE_Q8_0, 8, 32, {FORE_DTYPE_F16, FORE_DTYPE_F16, FORE_DTYPE_F16, 0, 0, FORE_DTYPE_F16}}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (size_t o = 0; o < 6; o++) {
            const fore_gguf_type *type = fore_gguf_find_type(table[i].type);
            const size_t row = K / type->block * type->bytes;
            unsigned char *data = malloc(ROWS * row);
            for (size_t k = 0; k < ROWS * row; k++) data[k] = (unsigned char)((k * 2654435761u >> 7) & 0x7f);
            for (size_t k = 0; k < ROWS * K / type->block; k++) /* small steps */
                for (size_t at = 1; at < 4; at += 2) {
                    size_t step = type->id == FORE_GGUF_TYPE_Q6_K ? 209 : at;
                    if (at == 1 || type->block == 256) data[k * type->bytes + step] &= 0x1f;
                }
            fore_entry e = {.name = "m.weight", .dtype_name = type->name, .dims = 2, .shape = {ROWS, K}, .data = data, .bytes = ROWS * row, .order = &orders[o]};
            fore_form_matrix m;
            fore_error err = {0};
            if (fore_forms_read(NULL, &e, NULL, &m, &err)) fail_msg("%s", err.text);
            const fore_dtype dtype = table[i].dtype[o];
            if (m.bits != (dtype ? table[i].bits : 0) || m.group != (dtype ? table[i].group : 0) || m.dtype != (dtype ? dtype : FORE_DTYPE_F32))
                fail_msg("%s, order %zu: %d bits in groups of %d, type %d", type->name, o, m.bits, m.group, (int)m.dtype);
            float *all = malloc(ROWS * K * sizeof *all), *have = malloc(K * sizeof *have);
            fore_gguf_dequantize(type, data, ROWS * K, all);
            fore_qweight w = {.bits = m.bits, .group = m.group, .N = ROWS, .K = K, .dtype = m.dtype};
            size_t q = m.bits ? fore_qweight_stored_q(&w) : ROWS * K * sizeof(float), affine = m.bits ? fore_qweight_stored_affine(&w) : 1;
            unsigned char *stored = malloc(q), *scales = malloc(affine), *biases = malloc(affine), *panels = malloc(m.bits ? fore_qweight_bytes(&w) : 1);
            const fore_form_rows to = {stored, scales, biases};
            assert_null(m.form->write(&m, 0, ROWS, &to));
            if (m.bits) fore_qweight_pack(&w, panels, stored, scales, biases);
            w.panels = panels;
            for (size_t n = 0; n < ROWS; n++) {
                if (m.bits) fore_qweight_dequantize(&w, (int)n, have);
                else memcpy(have, stored + n * K * sizeof(float), K * sizeof(float));
                for (size_t k = 0; k < K; k++) {
                    size_t from = orders[o].columns ? n * K + fore_order_place(&orders[o], k) : fore_order_place(&orders[o], n) * K + k;
                    if (have[k] != all[from]) fail_msg("%s, order %zu: [%zu,%zu] is %a, not %a", type->name, o, n, k, (double)have[k], (double)all[from]);
                }
            }
            free(data), free(all), free(have), free(stored), free(scales), free(biases), free(panels);
        }
}

/* Every value of the type, and the types that the model computes in. */
static void test_fp8_values(void **state) {
    (void)state;
    unsigned char bytes[2][254];
    for (int i = 0, v = 0; v < 256; v++)
        if ((v & 127) != 127) bytes[0][i] = (unsigned char)v, bytes[1][i++] = (unsigned char)v;
    const float scales[2] = {0.75f, 1.0f};
    const fore_tensor t[] = {{.name = "m.weight", .dtype = "F8_E4M3", .dims = 2, .shape = {2, 254}, .data = bytes},
                             {.name = "m.weight_scale", .dtype = "F32", .dims = 1, .shape = {2}, .data = scales}};
    scratch s;
    scratch_make(&s);
    fore_error err = {0};
    fore_store *store = NULL;
    if (fore_tensors_write(scratch_path(&s, "x.safetensors"), t, 2, &err) || fore_store_open_file(scratch_path(&s, "x.safetensors"), &store, &err))
        fail_msg("%s", err.text);
    const fore_dtype types[] = {FORE_DTYPE_OTHER, FORE_DTYPE_BF16, FORE_DTYPE_F16, FORE_DTYPE_F32};
    for (int i = 0; i < 4; i++) {
        const fore_stored_settings settings = {.dtype = types[i]};
        fore_form_matrix m;
        read_matrix(store, "m", &settings, &m);
        assert_int_equal(m.dtype, i ? types[i] : FORE_DTYPE_BF16);
        float *have = rows_of(&m, 0, 2);
        for (int k = 0; k < 508; k++) {
            unsigned v = bytes[0][k % 254], exponent = v >> 3 & 15;
            double want = ldexp(exponent ? 8 + (v & 7) : 2 * (v & 7), (int)exponent - 10) * (double)scales[k / 254] * (v & 128 ? -1 : 1);
            if ((double)have[k] != want) fail_msg("%u: %g, expected %g", v, (double)have[k], want);
        }
        free(have);
    }
    fore_store_close(store);
    scratch_remove(&s);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

/* What reading a matrix of the changed file says. */
static fore_status read_changed(kit *k, const char *module, fore_error *err) {
    static const unsigned char zeros[1 << 16];
    fore_store *store = NULL;
    for (size_t i = 0; i < k->count; i++)
        if (!k->t[i].data) k->t[i].data = zeros;
    if (fore_tensors_write(scratch_path(&k->s, "x.safetensors"), k->t, k->count, err) ||
        fore_store_open_file(scratch_path(&k->s, "x.safetensors"), &store, err))
        fail_msg("%s", err->text);
    const fore_stored_settings settings = {.block_rows = 16, .block_columns = 32};
    fore_form_matrix m;
    const fore_entry *e = weights_of(store, module);
    assert_non_null(e);
    fore_status s = fore_forms_read(store, e, &settings, &m, err);
    if (!s && !m.form) s = FORE_ERR_INVALID;
    if (!s) { /* what is accepted can be written */
        const size_t numbers = m.matrices * m.rows * m.K;
        unsigned char *room = malloc(numbers * 12 + 64);
        const fore_form_rows to = {room, room + numbers * 4, room + numbers * 8};
        const char *problem = m.form->write(&m, 0, m.matrices * m.rows, &to);
        if (problem) s = fore_fail(err, FORE_ERR_FORMAT, "%s", problem);
        free(room);
    }
    fore_store_close(store);
    return s;
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *module, *part; /* part: changed; NULL shape and dtype: dropped */
        const char *dtype;
        int dims;
        uint64_t shape[3];
        fore_status status;
        const char *text;
    } table[] = {
        {"fp8_cut", "weight_scale_inv", NULL, 0, {0}, FORE_ERR_FORMAT, "fp8_cut.weight: type F8_E4M3 without scales"},
        {"fp8_cut", "weight_scale_inv", "I32", 2, {3, 3}, FORE_ERR_UNSUPPORTED, "fp8_cut.weight_scale_inv: type I32"},
        {"fp8_cut", "weight_scale_inv", "F32", 2, {3, 5}, FORE_ERR_FORMAT, "for each block of 16 by 32 of [40,72]"},
        {"fp8_cut", "weight_scale_inv", "F32", 3, {1, 3, 3}, FORE_ERR_FORMAT, "for each block"},
        {"fp8_cut", "weight_scale_inv", "F32", 2, {0, 3}, FORE_ERR_FORMAT, "the file has F32 [0,3]"},
        {"fp8_cut", "weight_scale_inv", "F32", 2, {41, 1}, FORE_ERR_FORMAT, "[41,1]"},
        {"fp8_cut", "weight", "F8_E4M3", 1, {2880}, FORE_ERR_FORMAT, "fp8_cut.weight: expected a matrix"},
        {"fp8_cut", "weight", "F8_E4M3", 3, {0, 40, 72}, FORE_ERR_FORMAT, "for each block"},
        {"fp8_cut", "weight", "F8_E5M2", 2, {40, 72}, FORE_ERR_INVALID, ""}, /* none of the forms */
        {"int4_True", "weight_scale", NULL, 0, {0}, FORE_ERR_FORMAT, "weight_scale is not beside it"},
        {"int4_True", "weight_shape", NULL, 0, {0}, FORE_ERR_FORMAT, "weight_shape is not beside it"},
        {"int4_True", "weight_shape", "I64", 1, {3}, FORE_ERR_FORMAT, "expected two numbers"},
        {"int4_True", "weight_shape", "I32", 1, {2}, FORE_ERR_FORMAT, "the packed rows of a matrix [0,0]"},
        {"int4_True", "weight_packed", "I32", 2, {24, 33}, FORE_ERR_UNSUPPORTED, "16 bits a weight"},
        {"int4_True", "weight_packed", "I32", 2, {24, 1}, FORE_ERR_UNSUPPORTED, "0 bits a weight"},
        {"int4_True", "weight_packed", "I32", 2, {8, 24}, FORE_ERR_FORMAT, "a matrix [24,64]"},
        {"int4_True", "weight_packed", "U8", 2, {24, 32}, FORE_ERR_INVALID, ""},
        {"int4_True", "weight_scale", "F32", 2, {24, 3}, FORE_ERR_FORMAT, "3 groups, which do not divide the 64 columns"},
        {"int4_True", "weight_scale", "F32", 2, {24, 0}, FORE_ERR_FORMAT, "0 groups"},
        {"int4_True", "weight_scale", "F32", 2, {23, 2}, FORE_ERR_FORMAT, "numbers for each of 24 rows"},
        {"int4_True", "weight_scale", "F8_E4M3", 2, {24, 2}, FORE_ERR_UNSUPPORTED, "type F8_E4M3"},
        {"int4_False", "weight_zero_point", "I32", 2, {3, 1}, FORE_ERR_FORMAT, "expected [3,2]"},
        {"int4_False", "weight_zero_point", "U8", 2, {3, 2}, FORE_ERR_UNSUPPORTED, "type U8; zero points"},
        {"int4_False", "weight_zero_point", "I8", 2, {24, 1}, FORE_ERR_FORMAT, "expected [24,2]"},
        {"int8_zeros", "weight_zero_point", "I32", 2, {24, 2}, FORE_ERR_UNSUPPORTED, "type I32; zero points"},
        {"int8_zeros", "weight_scale", "BF16", 1, {1}, FORE_ERR_UNSUPPORTED, "one scale for a whole matrix"},
        {"int8_zeros", "weight_scale", NULL, 0, {0}, FORE_ERR_INVALID, ""},
        {"int8_zeros", "weight", "I8", 1, {1536}, FORE_ERR_FORMAT, "expected a matrix"},
        {"gptq4", "scales", NULL, 0, {0}, FORE_ERR_FORMAT, "scales is not beside it"},
        {"gptq4", "qzeros", NULL, 0, {0}, FORE_ERR_FORMAT, "qzeros is not beside it"},
        {"gptq4", "qzeros", "I32", 2, {3, 4}, FORE_ERR_FORMAT, "with as many groups as the scales"},
        {"gptq4", "qzeros", "U8", 2, {2, 4}, FORE_ERR_FORMAT, "packed outputs"},
        {"gptq4", "qzeros", "I32", 2, {2, 3}, FORE_ERR_UNSUPPORTED, "3 bits a weight"},
        {"gptq4", "qweight", "I32", 2, {8, 33}, FORE_ERR_FORMAT, "expected [8,32]"},
        {"gptq4", "qweight", "I32", 1, {256}, FORE_ERR_FORMAT, "a packed matrix"},
        {"gptq4", "qweight", "I32", 2, {0, 32}, FORE_ERR_FORMAT, "a packed matrix"},
        {"gptq4", "qweight", "I32", 2, {64, 4}, FORE_ERR_UNSUPPORTED, "without g_idx"},
        {"gptq4", "scales", "F16", 1, {64}, FORE_ERR_FORMAT, "[groups,outputs]"},
        {"gptq4", "scales", "F16", 2, {0, 32}, FORE_ERR_FORMAT, "[groups,outputs]"},
        {"gptq4", "g_idx", "I32", 1, {63}, FORE_ERR_FORMAT, "expected I32 [64]"},
        {"gptq4", "g_idx", "F32", 1, {64}, FORE_ERR_FORMAT, "expected I32 [64]"},
        {"awq_32", "qweight", "I32", 2, {63, 8}, FORE_ERR_FORMAT, "2 groups, which do not divide the 63 columns"},
        {"awq_32", "qzeros", "I32", 2, {2, 16}, FORE_ERR_FORMAT, "expected [64,64]"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        kit k;
        fore_error err = {0};
        char name[64];
        kit_open(&k);
        snprintf(name, sizeof name, "%s.%s", table[i].module, table[i].part);
        fore_tensor *t = tensor(&k, name);
        if (table[i].dtype) {
            *t = (fore_tensor){.name = t->name, .dtype = table[i].dtype, .dims = table[i].dims};
            memcpy(t->shape, table[i].shape, sizeof table[i].shape);
        } else {
            *t = k.t[--k.count];
        }
        fore_status s = read_changed(&k, table[i].module, &err);
        if (s != table[i].status || !strstr(err.text, table[i].text))
            fail_msg("%s %s: %d \"%s\", expected %d \"%s\"", name, table[i].dtype ? table[i].dtype : "dropped", s, err.text, table[i].status,
                     table[i].text);
        kit_close(&k);
    }
}

/* Numbers that the forms do not have are found where they are written. */
static void test_numbers(void **state) {
    (void)state;
    static unsigned char nans[4096], huge[4096], order[4 * 64];
    memset(nans, 0xff, sizeof nans);
    memset(huge, 0x7f, sizeof huge); /* BF16: more than 2^127 */
    for (int i = 0; i < 64; i++) order[4 * i] = (unsigned char)(i == 40 ? 2 : i / 32);
    const struct {
        const char *module, *part;
        const void *data;
        const char *text;
    } table[] = {
        {"fp8_cut", "weight", nans, "not finite"},
        {"fp8_cut", "weight_scale_inv", nans, "not finite"},
        {"int4_True", "weight_scale", nans, "a scale is not finite"},
        {"awq_32", "scales", nans, "a scale is not finite"},
        {"int4_True", "weight_scale", huge, "so large"},
        {"int4_False", "weight_scale", huge, "so large"},
        {"int7_False", "weight_scale", huge, "so large"},
        {"gptq4", "g_idx", order, "column 40 is of group 2, there are 2"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        kit k;
        fore_error err = {0};
        char name[64];
        kit_open(&k);
        snprintf(name, sizeof name, "%s.%s", table[i].module, table[i].part);
        tensor(&k, name)->data = table[i].data;
        fore_status s = read_changed(&k, table[i].module, &err);
        if (s != FORE_ERR_FORMAT || !strstr(err.text, table[i].text)) fail_msg("%s: %d \"%s\"", name, s, err.text);
        kit_close(&k);
    }
}

/* Experts of one tensor in FP8, in blocks: the same numbers as one by one. */
static void test_fused(void **state) {
    (void)state;
    enum { E = 3, I2 = 24, C = 40 };
    static unsigned char q[E][I2][C];
    static float scales[E][3][2];
    for (int i = 0; i < E * I2 * C; i++) (&q[0][0][0])[i] = (unsigned char)(i * 7 % 127);
    for (int i = 0; i < E * 6; i++) (&scales[0][0][0])[i] = 0.01f * (float)(i + 1);
    const fore_tensor t[] = {{.name = "experts.up", .dtype = "F8_E4M3", .dims = 3, .shape = {E, I2, C}, .data = q},
                             {.name = "experts.up_scale_inv", .dtype = "F32", .dims = 3, .shape = {E, 3, 2}, .data = scales},
                             {.name = "one.weight", .dtype = "F8_E4M3", .dims = 2, .shape = {I2, C}, .data = q[1]},
                             {.name = "one.weight_scale_inv", .dtype = "F32", .dims = 2, .shape = {3, 2}, .data = scales[1]}};
    scratch s;
    scratch_make(&s);
    fore_error err = {0};
    fore_store *store = NULL;
    if (fore_tensors_write(scratch_path(&s, "x.safetensors"), t, 4, &err) || fore_store_open_file(scratch_path(&s, "x.safetensors"), &store, &err))
        fail_msg("%s", err.text);
    const fore_stored_settings settings = {.block_rows = 8, .block_columns = 32};
    fore_form_matrix all, one;
    if (fore_forms_read(store, fore_store_find(store, "experts.up"), &settings, &all, &err)) fail_msg("%s", err.text);
    read_matrix(store, "one", &settings, &one);
    assert_true(all.matrices == E && all.rows == I2 && all.K == C);
    float *a = rows_of(&all, I2, I2), *b = rows_of(&one, 0, I2);
    assert_memory_equal(a, b, sizeof(float) * I2 * C);
    free(a);
    free(b);
    for (size_t i = 0; i < 4; i++) assert_true(fore_bind_is_packed(store, fore_store_at(store, i)));

    /* The upper half of each expert, through the binder. */
    fore_arena arena = {0};
    fore_panels panels;
    const fore_kern *kern;
    assert_int_equal(fore_kern_get("ref", &kern, &err), 0);
    if (fore_panels_reserve(&panels, store, "", &settings, &err)) fail_msg("%s", err.text);
    fore_binder binder = {store, &arena, &panels, kern, "", &err, FORE_OK};
    fore_experts experts = {0};
    fore_bind_slices(&binder, &experts, E, I2, I2 / 2, I2 / 2, C, "experts.up");
    if (binder.status || fore_panels_make(&panels, store, NULL, &err)) fail_msg("%s", err.text);
    for (int e = 0; e < E; e++) {
        const fore_weight w = fore_expert_at(&experts, e);
        float row[C], *want = rows_of(&all, (size_t)(e * I2 + I2 / 2), I2 / 2);
        for (int n = 0; n < I2 / 2; n++) {
            fore_weight_row(kern, &w, n, row);
            assert_memory_equal(row, want + n * C, sizeof row);
        }
        free(want);
    }
    fore_panels_free(&panels);
    fore_arena_free(&arena);
    fore_store_close(store);
    scratch_remove(&s);
}

/* Transposed experts in FP8: columns of each, of which both halves lie in what was made once. */
static void test_transposed(void **state) {
    (void)state;
    enum { E = 3, C = 32, I2 = 48 };
    static unsigned char q[E][C][I2];
    static float scales[E][2][3];
    for (int i = 0; i < E * I2 * C; i++) (&q[0][0][0])[i] = (unsigned char)(i * 7 % 127);
    for (int i = 0; i < E * 6; i++) (&scales[0][0][0])[i] = 0.01f * (float)(i + 1);
    const fore_tensor t[] = {{.name = "experts.up", .dtype = "F8_E4M3", .dims = 3, .shape = {E, C, I2}, .data = q},
                             {.name = "experts.up_scale_inv", .dtype = "F32", .dims = 3, .shape = {E, 2, 3}, .data = scales}};
    scratch s;
    scratch_make(&s);
    fore_error err = {0};
    fore_store *store = NULL;
    if (fore_tensors_write(scratch_path(&s, "x.safetensors"), t, 2, &err) || fore_store_open_file(scratch_path(&s, "x.safetensors"), &store, &err))
        fail_msg("%s", err.text);
    const fore_stored_settings settings = {.block_rows = 16, .block_columns = 16};
    fore_arena arena = {0};
    fore_panels panels;
    const fore_kern *kern;
    fore_form_matrix all;
    assert_int_equal(fore_kern_get("ref", &kern, &err), 0);
    if (fore_forms_read(store, fore_store_at(store, 0), &settings, &all, &err)) fail_msg("%s", err.text);
    if (fore_panels_reserve(&panels, store, "", &settings, &err)) fail_msg("%s", err.text);
    fore_binder binder = {store, &arena, &panels, kern, "", &err, FORE_OK};
    fore_experts half[2];
    for (int h = 0; h < 2; h++) fore_bind_columns(&binder, &half[h], E, C, I2, h * I2 / 2, I2 / 2, "experts.up");
    assert_int_equal(panels.count, E);
    if (binder.status || fore_panels_make(&panels, store, NULL, &err)) fail_msg("%s", err.text);
    float *want = rows_of(&all, 0, E * C), x[C] = {0}, y[I2 / 2];
    for (int e = 0; e < E; e++)
        for (int h = 0; h < 2; h++)
            for (int k = 0; k < C; k++) {
                const fore_weight w = fore_expert_at(&half[h], e);
                x[k] = 1;
                kern->mm_across(y, I2 / 2, x, C, w.data, w.dtype, half[h].across, 1, 0, w.N, w.K);
                x[k] = 0;
                assert_memory_equal(y, want + (e * C + k) * I2 + h * I2 / 2, sizeof y);
            }
    free(want);
    fore_panels_free(&panels);
    fore_arena_free(&arena);
    fore_store_close(store);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_wide_scales), cmocka_unit_test(test_turned_blocks), cmocka_unit_test(test_order),  cmocka_unit_test(test_fp8_values), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_fused),      cmocka_unit_test(test_transposed),
    };
    return cmocka_run_group_tests_name("model/forms", tests, NULL, NULL);
}
