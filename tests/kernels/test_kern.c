/* Every entry of every kernel set against the scalar reference, bit for bit: random shapes, odd sizes, tails, unaligned
 * weights, slices, rows alone and together, special values. Every buffer ends at a page that may not be touched and
 * begins after canaries. Two NaN are equal whatever their payload. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernels/kern.h"

/* ---- random numbers and values ---- */

static uint64_t seed = 1;

static uint32_t draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static int between(int low, int high) {
    return low + (int)(draw() % (uint32_t)(high - low + 1));
}

static float float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

typedef enum kind { ORDINARY, WIDE, SPECIAL } kind;

static float value(kind k) {
    float x = ((float)(draw() >> 8) * 0x1p-24f - 0.5f) * 4;
    if (k == WIDE) return ldexpf(x, between(-60, 60));
    if (k == SPECIAL) {
        static const float special[] = {0.0f,     -0.0f,     0x1p-149f, -0x1p-149f, 0x1.8p-130f, 0x1p-126f,
                                        88.8f,    -87.4f,    20.0f,     -103.5f,    3e38f,       -3e38f,
                                        INFINITY, -INFINITY, NAN,       1e-30f,     4.1f,        -1.0f};
        if (draw() % 8 == 0) return special[draw() % (sizeof special / sizeof *special)];
        return x * 30;
    }
    return x;
}

static kind any_kind(void) {
    return (kind)(draw() % 3);
}

/* ---- guarded memory, freed by release() ---- */

enum { CANARY = 64 };
#define QUANT_BITS 0xadba7cb23d877c70u
#define BITS 0xd829fae9f09bb7dcu /* see bits() */

static struct block {
    unsigned char *map;
    size_t mapped, used;
} blocks[64];
static int block_count;

/* bytes of memory that end right before a forbidden page */
static void *bytes(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size + CANARY + page - 1) / page * page;
    unsigned char *map = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED && block_count < 64);
    assert_int_equal(mprotect(map + whole, page, PROT_NONE), 0);
    memset(map, 0xa5, whole);
    blocks[block_count++] = (struct block){map, whole + page, whole - size};
    return map + whole - size;
}

static void release(void) {
    for (int i = 0; i < block_count; i++) {
        for (size_t j = blocks[i].used - CANARY; j < blocks[i].used; j++) assert_int_equal(blocks[i].map[j], 0xa5);
        munmap(blocks[i].map, blocks[i].mapped);
    }
    block_count = 0;
}

static float *floats(size_t n, kind k) {
    float *p = bytes(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = value(k);
    return p;
}

static float *copy(const float *x, size_t n) {
    float *p = bytes(n * sizeof *p);
    memcpy(p, x, n * sizeof *p);
    return p;
}

static void same(const float *want, const float *got, size_t n, const char *set, const char *what) {
    for (size_t i = 0; i < n; i++) {
        if (!memcmp(want + i, got + i, sizeof *want) || (isnan(want[i]) && isnan(got[i]))) continue;
        print_error("%s %s: element %zu of %zu: want %a, got %a\n", set, what, i, n, (double)want[i], (double)got[i]);
        fail();
    }
}

/* ---- the sets ---- */

static const fore_kern *sets[8], *ref;
static int set_count;

/* Runs the body `times` times for every set but the reference, as k. */
#define EACH_SET(times)                     \
    for (int s_ = 1; s_ < set_count; s_++)  \
        for (int i_ = 0; i_ < (times); i_++, release())
#define K (sets[s_])

static size_t up(int a) {
    return (size_t)a;
}

typedef void mm_fn(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int depth);

static void check_mm(mm_fn *want, mm_fn *got, const char *set, const char *what, int width, int round) {
    int deep = round % 8 == 0, T = deep || round % 3 ? between(1, 17) : between(33, 120);
    int N = between(1, deep ? 12 : 40), depth = deep ? between(1000, 2600) : between(1, 70);
    if (round % 50 == 0)
        T = between(97, 110), N = 5, depth = between(1030, 1100); /* more rows than may wait between blocks of K */
    int n0 = between(0, N - 1), n1 = between(n0 + 1, N);
    size_t ldx = up(depth + between(0, 3)), ldy = up(N + between(0, 3)), total = up(N) * up(depth);
    kind k = any_kind();
    float *x = floats(up(T - 1) * ldx + up(depth), k), *y = floats(up(T) * ldy, ORDINARY), *y2 = copy(y, up(T) * ldy);
    int slack = between(0, 3); /* any address */
    unsigned char *W = bytes(total * up(width) + up(slack));
    for (size_t i = 0; i < total; i++) {
        float w = value(k);
        uint32_t u;
        memcpy(&u, &w, sizeof u);
        if (width == 2) u = what[3] == 'b' ? u >> 16 : draw() & (k == SPECIAL ? 0xffffu : 0xbfffu);
        memcpy(W + i * up(width), &u, up(width));
    }
    want(y, ldy, x, ldx, W, T, n0, n1, depth);
    got(y2, ldy, x, ldx, W, T, n0, n1, depth);
    same(y, y2, up(T) * ldy, set, what);
    for (int t = 0; t < T; t++) { /* each row alone, two slices */
        float *alone = copy(y2 + up(t) * ldy, up(N));
        memset(alone + n0, 0x55, up(n1 - n0) * sizeof *alone);
        int cut = between(n0, n1);
        got(alone, 0, x + up(t) * ldx, 0, W, 1, n0, cut, depth);
        got(alone, 0, x + up(t) * ldx, 0, W, 1, cut, n1, depth);
        same(y2 + up(t) * ldy, alone, up(N), set, what);
        if (block_count > 60) break;
    }
}

/* Transposed weights against the reference's product with the same weights the other way round. */
static void check_across(mm_fn *want, const fore_kern *set, fore_dtype dtype, int width, int round) {
    bool deep = round % 4 == 0;
    int T = between(1, 6), N = deep ? between(1, 20) : between(1, 300), depth = deep ? between(500, 1500) : between(1, 50);
    int n0 = between(0, N - 1), n1 = between(n0 + 1, N), across = N + between(0, 9), slack = between(0, 3);
    size_t ldx = up(depth + between(0, 3)), ldy = up(N + between(0, 3)), wide = up(width);
    kind k = any_kind();
    float *x = floats(up(T - 1) * ldx + up(depth), k), *y = floats(up(T) * ldy, ORDINARY), *y2 = copy(y, up(T) * ldy);
    unsigned char *W = bytes(up(N) * up(depth) * wide), *turned = bytes(up(depth) * up(across) * wide + up(slack));
    for (size_t n = 0; n < up(N); n++)
        for (size_t j = 0; j < up(depth); j++) {
            float w = value(k);
            uint32_t u;
            memcpy(&u, &w, sizeof u);
            if (width == 2) u = dtype == FORE_DTYPE_BF16 ? u >> 16 : draw() & (k == SPECIAL ? 0xffffu : 0xbfffu);
            memcpy(W + (n * up(depth) + j) * wide, &u, wide);
            memcpy(turned + up(slack) + (j * up(across) + n) * wide, &u, wide);
        }
    want(y, ldy, x, ldx, W, T, n0, n1, depth);
    set->mm_across(y2, ldy, x, ldx, turned + slack, dtype, across, T, n0, n1, depth);
    same(y, y2, up(T) * ldy, set->name, "mm_across");
}

static void transposed_products(void **state) {
    (void)state;
    for (int s = 0; s < set_count; s++)
        for (int i = 0; i < 60; i++, release()) {
            check_across(ref->mm_f32, sets[s], FORE_DTYPE_F32, 4, i);
            release();
            check_across(ref->mm_bf16, sets[s], FORE_DTYPE_BF16, 2, i);
            release();
            check_across(ref->mm_f16, sets[s], FORE_DTYPE_F16, 2, i);
        }
}

static void products(void **state) {
    (void)state;
    EACH_SET(150) {
        check_mm(ref->mm_f32, K->mm_f32, K->name, "mm_f32", 4, i_);
        release();
        check_mm(ref->mm_bf16, K->mm_bf16, K->name, "mm_bf16", 2, i_);
        release();
        check_mm(ref->mm_f16, K->mm_f16, K->name, "mm_f16", 2, i_);
    }
}

/* ---- quantised products ---- */

typedef void mm_q_fn(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);

static fore_qrows make_rows(int T, size_t row, size_t groups) {
    fore_qrows rows = {bytes(up(T) * row), floats(up(T) * groups, ORDINARY), floats(up(T) * groups, ORDINARY), row, groups};
    memset(rows.q, 0x55, up(T) * row);
    return rows;
}

static void rows_to_int8(void **state) {
    (void)state;
    EACH_SET(200) {
        int T = between(1, 3), group = 16 << between(0, 3), groups = between(1, 4), width = group * groups;
        size_t ldx = up(width + between(0, 3)), row = up(width + between(0, 5)), stride = up(groups + between(0, 2));
        kind k = any_kind();
        float *x = floats(up(T - 1) * ldx + up(width), k);
        for (int i = 0; i < width && i_ % 5 == 0; i++) /* ties, and groups without anything */
            x[i] = (float)between(-254, 254) / 2 * (i / group % 2 ? 0.0f : 1.0f), x[0] = 127;
        if (i_ % 7 == 0)
            for (int i = 0; i < width; i++) x[i] = ldexpf(x[i], -100 - i_ % 3);
        fore_qrows want = make_rows(T, row, stride), got = make_rows(T, row, stride);
        memcpy(got.scale, want.scale, up(T) * stride * 4), memcpy(got.sum, want.sum, up(T) * stride * 4);
        ref->quantize_rows(&want, x, ldx, T, width, group);
        K->quantize_rows(&got, x, ldx, T, width, group);
        assert_true(!memcmp(want.q, got.q, up(T) * row));
        same(want.scale, got.scale, up(T) * stride, K->name, "quantize_rows scale");
        same(want.sum, got.sum, up(T) * stride, K->name, "quantize_rows sum");
    }
    float x[32] = {127, -63.5f, 2.5f, 0.5f}, scale, sum; /* by hand */
    int8_t q[32];
    fore_qrows rows = {q, &scale, &sum, 32, 1};
    ref->quantize_rows(&rows, x, 32, 1, 32, 32);
    assert_true(q[0] == 127 && q[1] == -64 && q[2] == 2 && q[3] == 0 && q[4] == 0 && scale == 1 && sum == 65);
    x[31] = INFINITY;
    ref->quantize_rows(&rows, x, 32, 1, 32, 32);
    assert_true(q[0] == 0 && isnan(scale) && isnan(sum));
}

static void check_mm_q(mm_q_fn *want, mm_q_fn *got, const char *set, int weight_bits, int round) {
    bool deep = round % 6 == 0;
    int T = round < 34 ? round / 2 + 1 : round == 40 ? 270 : deep || round % 3 ? between(1, 40) : between(41, 120);
    static const fore_dtype types[] = {FORE_DTYPE_BF16, FORE_DTYPE_F16, FORE_DTYPE_F32, FORE_DTYPE_U8, FORE_DTYPE_I8};
    fore_dtype dtype = types[between(0, weight_bits == 8 ? 4 : 3)];
    bool steps = dtype == FORE_DTYPE_U8 || dtype == FORE_DTYPE_I8; /* a head for 256 inputs */
    int N = between(1, deep ? 40 : 100), group = weight_bits == 8 ? 16 << between(0, 3) : 32 << between(0, 2);
    if (steps) group = dtype == FORE_DTYPE_U8 ? 32 : 16;
    int groups = steps ? 256 / group * between(1, deep ? 5 : 3) : deep ? 1024 / group + between(0, 3) : between(1, 4);
    int width = group * groups;
    int panels = (N + 15) / 16, p0 = between(0, panels - 1), n0 = 16 * p0, n1 = 16 * between(p0 + 1, panels);
    if (n1 > N || draw() % 2) n1 = N;
    size_t head = steps ? 320 : dtype == FORE_DTYPE_F32 ? 128 : 64, weights = 2 * up(weight_bits) * up(steps ? 256 : group);
    size_t block = head + weights, size = up(panels) * (steps ? up(width) / 256 : up(groups)) * block, ldy = up(N + between(0, 3));
    int slack = draw() % 2 ? 0 : between(1, 63);
    kind k = any_kind();
    unsigned char *p = bytes(size + up(slack));
    bool low = draw() % 4 == 0, high = !low && draw() % 3 == 0; /* all weights the smallest or the largest */
    for (size_t i = 0; i < size; i++) p[i] = low ? 0 : high ? 0xff : (unsigned char)draw();
    fore_qweight W = {weight_bits, group, N, width, dtype, p};
    for (size_t i = 0; i < size; i += block)
        for (size_t j = 0; j < 32; j++) {
            float f = value(k);
            uint32_t u;
            memcpy(&u, &f, sizeof u);
            if (dtype == FORE_DTYPE_F32) {
                memcpy(p + i + 4 * j, &u, 4);
                continue;
            }
            u = dtype == FORE_DTYPE_BF16 ? u >> 16 : draw() & (k == SPECIAL ? 0xffffu : 0xbfffu);
            p[i + 2 * j] = (unsigned char)u, p[i + 2 * j + 1] = (unsigned char)(u >> 8);
        }
    fore_qrows x = make_rows(T, up(width + between(0, 5)), up(groups + between(0, 2)));
    float *in = floats(up(T * width), k);
    ref->quantize_rows(&x, in, up(width), T, width, group);
    for (size_t i = 0; high && i < up(T) * x.row; i++) x.q[i] = (int8_t)(draw() % 8 ? 127 : -127);
    float *y = floats(up(T) * ldy, ORDINARY), *y2 = copy(y, up(T) * ldy);
    char what[64];
    snprintf(what, sizeof what, "mm_q%d T=%d N=%d K=%d group=%d type=%d n=%d..%d", weight_bits, T, N, width, group, (int)dtype, n0, n1);
    want(y, ldy, &x, &W, T, n0, n1);
    got(y2, ldy, &x, &W, T, n0, n1);
    same(y, y2, up(T) * ldy, set, what);
    for (int t = 0; t < T && block_count < 60; t++) { /* each row alone, two slices */
        float *alone = copy(y2 + up(t) * ldy, up(N));
        memset(alone + n0, 0x55, up(n1 - n0) * sizeof *alone);
        int cut = n0 + 16 * between(0, (n1 - n0) / 16);
        fore_qrows row = {x.q + up(t) * x.row, x.scale + up(t) * x.groups, x.sum + up(t) * x.groups, 0, 0};
        got(alone, 0, &row, &W, 1, n0, cut);
        got(alone, 0, &row, &W, 1, cut, n1);
        same(y2 + up(t) * ldy, alone, up(N), set, what);
    }
}

static void quantised_products(void **state) {
    (void)state;
    EACH_SET(150) {
        check_mm_q(ref->mm_q4, K->mm_q4, K->name, 4, i_);
        release();
        check_mm_q(ref->mm_q8, K->mm_q8, K->name, 8, i_);
    }
}

static void widening(void **state) {
    (void)state;
    EACH_SET(1) { /* all 65536 patterns */
        unsigned char *h = bytes(65536 * 2 + 1);
        for (uint32_t i = 0; i < 65536; i++) h[2 * i] = (unsigned char)i, h[2 * i + 1] = (unsigned char)(i >> 8);
        float *y = bytes(65536 * 4), *y2 = bytes(65536 * 4);
        ref->widen_bf16(y, h, 65536);
        K->widen_bf16(y2, h, 65536);
        same(y, y2, 65536, K->name, "widen_bf16");
        ref->widen_f16(y, h, 65536);
        K->widen_f16(y2, h, 65536);
        same(y, y2, 65536, K->name, "widen_f16");
        assert_true(y[0x0001] == 0x1p-24f && y[0x7bff] == 65504.0f && y[0xc000] == -2.0f && isinf(y[0x7c00]));
    }
    EACH_SET(60) {
        int n = between(0, 70), slack = between(0, 1);
        unsigned char *h = bytes(up(2 * n + slack));
        for (int i = 0; i < 2 * n; i++) h[i] = (unsigned char)draw();
        float *y = floats(up(n), ORDINARY), *y2 = copy(y, up(n));
        ref->widen_bf16(y, h, up(n));
        K->widen_bf16(y2, h, up(n));
        same(y, y2, up(n), K->name, "widen_bf16");
        ref->widen_f16(y, h, up(n));
        K->widen_f16(y2, h, up(n));
        same(y, y2, up(n), K->name, "widen_f16");
    }
}

static void norms(void **state) {
    (void)state;
    EACH_SET(150) {
        int T = between(1, 5), C = between(1, 200);
        size_t ldx = up(C + between(0, 2)), ldy = up(C + between(0, 2)), ldz = up(C + between(0, 2));
        kind k = any_kind();
        float *x = floats(up(T - 1) * ldx + up(C), k), *z = floats(up(T - 1) * ldz + up(C), k);
        float *w = floats(up(C), ORDINARY), *b = floats(up(C), ORDINARY);
        float *y = floats(up(T) * ldy, ORDINARY), *y2 = copy(y, up(T) * ldy), eps = 1e-6f;
#define NORM(entry, ...)                       \
    ref->entry(y, ldy, x, ldx, __VA_ARGS__);   \
    K->entry(y2, ldy, x, ldx, __VA_ARGS__);    \
    same(y, y2, up(T) * ldy, K->name, #entry)
        NORM(rms_norm, w, T, C, eps);
        NORM(layer_norm, w, b, T, C, eps);
        NORM(l2_norm, T, C, eps, 0.125f);
        NORM(gated_rms_norm, z, ldz, w, T, C, eps);
#undef NORM
        float *in = copy(x, up(T - 1) * ldx + up(C)); /* in place */
        ref->layer_norm(y, ldy, x, ldx, w, b, T, C, eps);
        K->layer_norm(in, ldx, in, ldx, w, b, T, C, eps);
        for (int t = 0; t < T; t++) same(y + up(t) * ldy, in + up(t) * ldx, up(C), K->name, "layer_norm in place");
    }
}

static void elementwise(void **state) {
    (void)state;
    EACH_SET(300) {
        int n = between(0, 100);
        size_t size = up(n);
        kind k = any_kind();
        float *a = floats(size, k), *b = floats(size, k), *y = floats(size, k), *y2 = copy(y, size);
        ref->add(y, a, size), K->add(y2, a, size), same(y, y2, size, K->name, "add");
        ref->silu_mul(y, a, b, size), K->silu_mul(y2, a, b, size), same(y, y2, size, K->name, "silu_mul");
        ref->sigmoid_mul(y, b, size), K->sigmoid_mul(y2, b, size), same(y, y2, size, K->name, "sigmoid_mul");
        memcpy(y, a, size * sizeof *y), memcpy(y2, a, size * sizeof *y);
        ref->gelu_tanh(y, size), K->gelu_tanh(y2, size), same(y, y2, size, K->name, "gelu_tanh");
        memcpy(y, b, size * sizeof *y), memcpy(y2, b, size * sizeof *y);
        ref->gelu_erf(y, size), K->gelu_erf(y2, size), same(y, y2, size, K->name, "gelu_erf");
        int T = between(1, 4), N = between(1, 40), n0 = between(0, N), n1 = between(n0, N);
        size_t ldy = up(N + between(0, 2));
        float *rows = floats(up(T) * ldy, k), *rows2 = copy(rows, up(T) * ldy), *bias = floats(up(N), k);
        ref->add_bias(rows, ldy, bias, T, n0, n1), K->add_bias(rows2, ldy, bias, T, n0, n1);
        same(rows, rows2, up(T) * ldy, K->name, "add_bias");
    }
    EACH_SET(1) { /* the transcendentals over all exponents and both signs */
        size_t n = 1 << 15;
        float *x = bytes(n * 4), *one = bytes(n * 4), *y = bytes(n * 4), *y2 = bytes(n * 4);
        for (size_t i = 0; i < n; i++) x[i] = float_of((uint32_t)i << 17 | (draw() & 0x1ffff)), one[i] = 1;
        ref->silu_mul(y, x, one, n), K->silu_mul(y2, x, one, n), same(y, y2, n, K->name, "silu_mul sweep");
        memcpy(y, one, n * 4), memcpy(y2, one, n * 4);
        ref->sigmoid_mul(y, x, n), K->sigmoid_mul(y2, x, n), same(y, y2, n, K->name, "sigmoid_mul sweep");
        memcpy(y, x, n * 4), memcpy(y2, x, n * 4);
        ref->gelu_tanh(y, n), K->gelu_tanh(y2, n), same(y, y2, n, K->name, "gelu_tanh sweep");
        memcpy(y, x, n * 4), memcpy(y2, x, n * 4);
        ref->gelu_erf(y, n), K->gelu_erf(y2, n), same(y, y2, n, K->name, "gelu_erf sweep");
        float *beta = bytes(n * 4), *zero = bytes(n * 4);
        memset(zero, 0, n * 4);
        for (size_t i = 0; i < n; i++) one[i] = -1;
        ref->delta_gates(beta, y, n, x, n, x, n, one, zero, 1, (int)n);
        K->delta_gates(zero, y2, n, x, n, x, n, one, copy(zero, n), 1, (int)n);
        same(y, y2, n, K->name, "delta_gates decay sweep");
        same(beta, zero, n, K->name, "delta_gates beta sweep");
    }
}

static void rotations(void **state) {
    (void)state;
    EACH_SET(150) {
        int T = between(1, 4), H = between(1, 4), half = between(1, 40);
        size_t head = up(2 * half + between(0, 5)), row = up(H) * head + up(between(0, 3)), total = up(T) * row;
        kind k = any_kind();
        float *x = floats(total, k), *x2 = copy(x, total);
        float *c = floats(up(T * half), ORDINARY), *s = floats(up(T * half), ORDINARY);
        ref->rope(x, row, head, T, H, half, c, s);
        K->rope(x2, row, head, T, H, half, c, s);
        same(x, x2, total, K->name, "rope");
    }
}

static void convolutions(void **state) {
    (void)state;
    EACH_SET(150) {
        int T = between(1, 9), C = between(1, 70), c0 = between(0, C), c1 = between(c0, C), taps = between(1, 5);
        size_t ldu = up(C + between(0, 2)), ldy = up(C + between(0, 2));
        kind k = any_kind();
        float *u = floats(up(T - 1) * ldu + up(C), k), *prev = floats(up((taps - 1) * C), k),
              *w = floats(up(taps * C), k);
        float *y = floats(up(T) * ldy, ORDINARY), *y2 = copy(y, up(T) * ldy);
        ref->conv_silu(y, ldy, u, ldu, prev, w, T, c0, c1, C, taps);
        K->conv_silu(y2, ldy, u, ldu, prev, w, T, c0, c1, C, taps);
        same(y, y2, up(T) * ldy, K->name, "conv_silu");
    }
}

static void gates(void **state) {
    (void)state;
    EACH_SET(150) {
        int T = between(1, 4), H = between(1, 50);
        size_t ldo = up(H + between(0, 2)), lda = up(H + between(0, 2)), ldb = up(H + between(0, 2));
        kind k = any_kind();
        float *a = floats(up(T - 1) * lda + up(H), k), *b = floats(up(T - 1) * ldb + up(H), k);
        float *A = floats(up(H), ORDINARY), *dt = floats(up(H), ORDINARY);
        float *beta = floats(up(T) * ldo, ORDINARY), *beta2 = copy(beta, up(T) * ldo);
        float *decay = floats(up(T) * ldo, ORDINARY), *decay2 = copy(decay, up(T) * ldo);
        for (int h = 0; h < H; h++) A[h] = -fabsf(A[h]);
        ref->delta_gates(beta, decay, ldo, b, ldb, a, lda, A, dt, T, H);
        K->delta_gates(beta2, decay2, ldo, b, ldb, a, lda, A, dt, T, H);
        same(beta, beta2, up(T) * ldo, K->name, "delta_gates beta");
        same(decay, decay2, up(T) * ldo, K->name, "delta_gates decay");
    }
}

static void deltas(void **state) {
    (void)state;
    EACH_SET(120) {
        int T = between(1, 9), dk = between(1, 40), dv = between(1, i_ % 3 ? 60 : 200), v0 = between(0, dv - 1);
        int v1 = between(v0 + 1, dv), keep = between(0, 2), cut = between(v0, v1);
        kind k = any_kind();
        fore_delta d = {.T = T, .dk = dk, .dv = dv, .v0 = v0, .v1 = v1};
        d.qk_row = up(dk + between(0, 2)), d.v_row = up(dv + between(0, 2)), d.o_row = up(dv + between(0, 2));
        d.gate_row = up(between(1, 3));
        size_t state_size = up(dk) * up(dv), o_size = up(T) * d.o_row;
        float *in = floats(state_size, k), *o = floats(o_size, ORDINARY), *o2 = copy(o, o_size), *o3 = copy(o, o_size);
        float *out = floats(state_size, ORDINARY), *out2 = copy(out, state_size), *out3 = copy(out, state_size);
        float *decay = floats(up(T) * d.gate_row, ORDINARY);
        for (size_t i = 0; i < up(T) * d.gate_row; i++) decay[i] = fabsf(decay[i]) / 2;
        d.state_in = in, d.q = floats(up(T) * d.qk_row, ORDINARY), d.k = floats(up(T) * d.qk_row, ORDINARY);
        d.v = floats(up(T) * d.v_row, k), d.decay = decay, d.beta = floats(up(T) * d.gate_row, ORDINARY);
        d.scratch = bytes(fore_delta_scratch(dk, v1 - v0) * 4);
        d.o = o, d.state_out = keep ? out : NULL;
        ref->delta(&d);
        fore_delta e = d;
        e.o = o2, e.state_out = keep ? out2 : NULL;
        if (keep == 2) { /* in place */
            memcpy(out2, in, state_size * 4);
            e.state_in = out2;
        }
        K->delta(&e);
        same(o, o2, o_size, K->name, "delta o");
        for (int i = 0; keep && i < dk; i++)
            same(out + up(i * dv + v0), out2 + up(i * dv + v0), up(v1 - v0), K->name, "delta state");
        if (keep == 1) same(out, out2, state_size, K->name, "delta state around the slice");
        d.o = o3, d.state_out = keep ? out3 : NULL; /* token by token, in two slices */
        for (int part = 0; part < 2; part++) {
            fore_delta one = d;
            one.v0 = part ? cut : v0, one.v1 = part ? v1 : cut, one.T = 1;
            if (one.v0 == one.v1) continue;
            float *now = copy(in, state_size);
            one.state_in = one.state_out = now;
            for (int t = 0; t < T; t++) {
                K->delta(&one);
                one.q += d.qk_row, one.k += d.qk_row, one.v += d.v_row, one.o += d.o_row;
                one.decay += d.gate_row, one.beta += d.gate_row;
            }
        }
        same(o, o3, o_size, K->name, "delta token by token");
    }
}

static void attentions(void **state) {
    (void)state;
    EACH_SET(120) {
        int big = i_ % 8 == 0, T = between(1, big ? 40 : 5), G = between(1, big || i_ % 5 ? 3 : 28);
        int D = between(1, big || i_ % 4 != 1 ? 24 : 300);
        fore_attend a = {.T = T, .G = G, .D = D, .causal = draw() & 1, .scale = 0.37f};
        a.first = between(0, big ? 300 : 40), a.keys = between(1, big ? 400 : 60);
        int keys = a.causal ? a.first + T : a.keys, panels = (keys + 15) / 16;
        kind k = i_ % 4 ? ORDINARY : any_kind();
        a.q_head = up(D + between(0, 2)), a.q_row = up(G) * a.q_head, a.o_head = up(D),
        a.o_row = up(G * D + between(0, 2));
        a.v_row = up(D + between(0, 2));
        float *key = floats(up(panels) * up(D) * 16, k), *o = floats(up(T) * a.o_row, ORDINARY),
              *o2 = copy(o, up(T) * a.o_row);
        for (int d = 0; d < D; d++)
            for (int j = keys; j < panels * 16; j++) key[(up(panels - 1) * up(D) + up(d)) * 16 + up(j % 16)] = 3e38f;
        a.k = key, a.v = floats(up(keys - 1) * a.v_row + up(D), k), a.q = floats(up(T) * a.q_row, k);
        a.o = o, a.scratch = bytes(fore_attend_scratch(keys, G) * 4);
        ref->attend(&a);
        a.o = o2;
        K->attend(&a);
        same(o, o2, up(T) * a.o_row, K->name, "attend");
        for (int t = 0; t < T && block_count < 60; t += 3) { /* one row and one head alone */
            fore_attend one = a;
            int g = between(0, G - 1);
            float *alone = bytes(up(D) * 4);
            one.q += up(t) * a.q_row + up(g) * a.q_head, one.o = alone, one.T = one.G = 1, one.first += t;
            one.scratch = bytes(fore_attend_scratch(one.causal ? one.first + 1 : one.keys, 1) * 4);
            K->attend(&one);
            same(o + up(t) * a.o_row + up(g) * a.o_head, alone, up(D), K->name, "attend, a row alone");
        }
    }
    EACH_SET(1) { /* enough keys for the smaller row block, few channels to stay quick */
        fore_attend a = {
            .T = 14, .G = 1, .D = 2, .first = 11000, .causal = true, .scale = 1, .q_row = 2, .o_row = 2, .v_row = 2};
        int keys = a.first + a.T, panels = (keys + 15) / 16;
        a.q = floats(28, ORDINARY), a.k = floats(up(panels) * 32, ORDINARY), a.v = floats(up(keys) * 2, ORDINARY);
        float *o = bytes(28 * 4), *o2 = bytes(28 * 4);
        a.scratch = bytes(fore_attend_scratch(keys, 1) * 4);
        a.o = o, ref->attend(&a);
        a.o = o2, K->attend(&a);
        same(o, o2, 28, K->name, "attend, many keys");
    }
}

static void largest(void **state) {
    (void)state;
    EACH_SET(400) {
        int n = between(1, 300);
        kind k = any_kind();
        float *x = floats(up(n), k);
        if (i_ % 3 == 0)
            for (int i = 0; i < n; i++) x[i] = (float)between(-2, 2); /* ties */
        if (i_ % 7 == 0)
            for (int i = 0; i < n; i++) x[i] = draw() % 3 ? NAN : -INFINITY;
        assert_int_equal(ref->argmax(x, up(n)), K->argmax(x, up(n)));
    }
    const float none[] = {NAN, NAN}, low[] = {NAN, -INFINITY, -INFINITY}, tie[] = {1, 3, 3, NAN};
    for (int i = 0; i < set_count; i++) {
        assert_int_equal(sets[i]->argmax(none, 2), 0);
        assert_int_equal(sets[i]->argmax(low, 3), 1);
        assert_int_equal(sets[i]->argmax(tie, 4), 1);
    }
}

/* The reference itself on what can be checked by hand. */
static void reference(void **state) {
    (void)state;
    float x[20], y[2], one[20];
    for (int i = 0; i < 20; i++) x[i] = (float)(i + 1), one[i] = 1;
    ref->mm_f32(y, 2, x, 20, one, 1, 0, 1, 20);
    assert_true(y[0] == 210);
    const uint16_t w[4] = {0x3f80, 0xc000, 0x3f00, 0x4040}; /* 1, -2, 0.5, 3 */
    ref->mm_bf16(y, 2, x, 2, w, 1, 0, 2, 2);
    assert_true(y[0] == 1 - 4 && y[1] == 0.5f + 6);
    float k[16] = {0}, v[2] = {1, 3}, q = 1, o, scratch[2048];
    fore_attend a = {.q = &q,
                     .o = &o,
                     .k = k,
                     .v = v,
                     .q_row = 1,
                     .q_head = 1,
                     .o_row = 1,
                     .o_head = 1,
                     .v_row = 1,
                     .T = 1,
                     .G = 1,
                     .D = 1,
                     .keys = 2,
                     .scale = 1,
                     .scratch = scratch};
    assert_true(fore_attend_scratch(2, 1) <= 2048);
    for (int keys = 1; keys < 40000; keys += 61) /* what suffices for more keys suffices for fewer */
        assert_true(fore_attend_scratch(keys, 1) <= fore_attend_scratch(keys + 61, 1));
    ref->attend(&a);
    assert_true(o == 2);
    float s[1] = {8}, decay = 0.5f, beta = 0.25f, vv = 12, out;
    fore_delta d = {.state_in = s,
                    .state_out = s,
                    .q = &q,
                    .k = &q,
                    .v = &vv,
                    .o = &out,
                    .decay = &decay,
                    .beta = &beta,
                    .qk_row = 1,
                    .v_row = 1,
                    .o_row = 1,
                    .gate_row = 1,
                    .T = 1,
                    .dk = 1,
                    .dv = 1,
                    .v1 = 1,
                    .scratch = scratch};
    ref->delta(&d); /* 4, then 4 + 0.25 * (12 - 4) */
    assert_true(s[0] == 6 && out == 6);
}

static uint64_t hash_of(uint64_t hash, const float *x, size_t n) { /* FNV-1a of the bits */
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, x + i, sizeof u);
        if (isnan(x[i])) u = 0x7fc00000; /* the payload is nobody's promise */
        for (int byte = 0; byte < 4; byte++) hash = (hash ^ (u >> 8 * byte & 0xff)) * 0x100000001b3u;
    }
    return hash;
}

/* The reference's own bits, the same on every processor and with every compiler: a change here changes the answers of
 * models. */
static void bits(void **state) {
    (void)state;
    enum { N = 600, KEYS = 37, D = 11 };
    seed = 20;
    uint64_t hash = 0xcbf29ce484222325u;
    float *x = floats(N, ORDINARY), *y = floats(N, ORDINARY), *z = floats(N, WIDE), *out = bytes(N * 4),
          *two = bytes(N * 4);
    ref->mm_bf16(out, 20, x, 30, y, 10, 0, 20, 30), hash = hash_of(hash, out, 200);
    ref->mm_f16(out, 20, x, 30, x, 10, 0, 20, 30), hash = hash_of(hash, out, 200);
    ref->mm_f32(out, 20, x, 30, y, 10, 0, 20, 30), hash = hash_of(hash, out, 200);
    ref->silu_mul(out, x, y, N), hash = hash_of(hash, out, N);
    ref->silu_mul(out, z, y, N), hash = hash_of(hash, out, N);
    ref->gelu_tanh(x, N), hash = hash_of(hash, x, N);
    ref->gelu_erf(y, N), hash = hash_of(hash, y, N);
    ref->delta_gates(out, two, N, x, N, y, N, z, x, 1, N), hash = hash_of(hash_of(hash, out, N), two, N);
    ref->layer_norm(out, 50, x, 50, y, y, 12, 50, 1e-6f), hash = hash_of(hash, out, N);
    ref->gated_rms_norm(out, 50, x, 50, y, 50, y, 12, 50, 1e-6f), hash = hash_of(hash, out, N);
    fore_attend a = {.q = x,
                     .o = out,
                     .k = x,
                     .v = y,
                     .q_row = D,
                     .q_head = D,
                     .o_row = D,
                     .o_head = D,
                     .v_row = D,
                     .T = 4,
                     .G = 1,
                     .D = D,
                     .first = KEYS - 4,
                     .causal = true,
                     .scale = 0.3f};
    a.scratch = bytes(fore_attend_scratch(KEYS, 1) * 4);
    ref->attend(&a), hash = hash_of(hash, out, 4 * D);
    fore_delta d = {.state_in = x,
                    .state_out = two,
                    .q = y,
                    .k = x + 100,
                    .v = y + 200,
                    .o = out,
                    .decay = y,
                    .beta = x,
                    .qk_row = 9,
                    .v_row = 10,
                    .o_row = 10,
                    .gate_row = 1,
                    .T = 5,
                    .dk = 9,
                    .dv = 10,
                    .v1 = 10};
    d.scratch = bytes(fore_delta_scratch(9, 10) * 4);
    ref->delta(&d), hash = hash_of(hash_of(hash, out, 50), two, 90);
    for (int i = 0; i < 100; i++) {
        float pair[2];
        fore_sincosf((float)i * 1234.5f, pair, pair + 1), hash = hash_of(hash, pair, 2);
        double p = fore_pow(1e7, -i / 32.0);
        memcpy(pair, &p, sizeof p), hash = hash_of(hash, pair, 2);
    }
    release();
    print_message("bits of the reference: %016llx\n", (unsigned long long)hash);
    assert_true(hash == BITS);

    float *in = floats(3 * 128, ORDINARY);
    unsigned char *panels = bytes(2 * 2 * (64 + 16 * 64));
    hash = 0xcbf29ce484222325u;
    for (int i = 0; i < 2 * 2 * (64 + 16 * 64); i++) panels[i] = i % 2 ? 0x3c : (unsigned char)draw();
    fore_qrows rows = {bytes(3 * 128), bytes(6 * 4), bytes(6 * 4), 128, 2};
    float *product = bytes(3 * 20 * 4);
    ref->quantize_rows(&rows, in, 128, 3, 128, 64), hash = hash_of(hash_of(hash, rows.scale, 6), rows.sum, 6);
    ref->mm_q4(product, 20, &rows, &(fore_qweight){4, 64, 20, 128, FORE_DTYPE_BF16, panels}, 3, 0, 20);
    hash = hash_of(hash, product, 60);
    ref->mm_q8(product, 20, &rows, &(fore_qweight){8, 64, 20, 128, FORE_DTYPE_F16, panels}, 3, 0, 20);
    hash = hash_of(hash, product, 60);
    release();
    print_message("bits of the quantised reference: %016llx\n", (unsigned long long)hash);
    assert_true(hash == QUANT_BITS);
}

static void choice(void **state) {
    (void)state;
    const fore_kern *k;
    fore_error err;
    assert_string_equal(sets[0]->name, "ref");
    for (int i = 0; i < set_count; i++) {
        assert_int_equal(fore_kern_get(sets[i]->name, &k, &err), FORE_OK);
        assert_ptr_equal(k, sets[i]);
        const unsigned char *entry = (const unsigned char *)sets[i]; /* no entry may be NULL */
        for (size_t at = 0; at < sizeof *k; at += sizeof(void *)) {
            void *p;
            memcpy(&p, entry + at, sizeof p);
            assert_non_null(p);
        }
    }
    assert_int_equal(fore_kern_get(NULL, &k, &err), FORE_OK);
    assert_ptr_equal(k, sets[set_count - 1]);
    assert_int_equal(fore_kern_get("", &k, &err), FORE_OK);
    assert_int_equal(fore_kern_get("mmx", &k, &err), FORE_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "mmx"));
    assert_non_null(strstr(err.text, "ref"));
    assert_int_equal(fore_kern_get("mmx", &k, NULL), FORE_ERR_UNSUPPORTED);
}

int main(void) {
    set_count = fore_kern_list(sets);
    ref = sets[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choice),      cmocka_unit_test(reference), cmocka_unit_test(bits),
        cmocka_unit_test(transposed_products), cmocka_unit_test(products),    cmocka_unit_test(rows_to_int8), cmocka_unit_test(quantised_products),
        cmocka_unit_test(widening),   cmocka_unit_test(norms),
        cmocka_unit_test(elementwise), cmocka_unit_test(rotations), cmocka_unit_test(convolutions),
        cmocka_unit_test(gates),       cmocka_unit_test(deltas),    cmocka_unit_test(attentions),
        cmocka_unit_test(largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
