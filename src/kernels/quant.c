/* The quantised format: checks, packing, dequantising; see quant.h. */
#include "kernels/quant.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernels/half.h"

static size_t block_bytes(const fore_qweight *w) {
    return 64 + 2 * (size_t)w->bits * (size_t)w->group;
}

static size_t group_count(const fore_qweight *w) {
    return (size_t)w->K / (size_t)w->group;
}

fore_status fore_qweight_check(int bits, int group, int64_t N, int64_t K, fore_dtype dtype, size_t *size,
                               fore_error *err) {
    *size = 0;
    if (bits != 4 && bits != 8)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "quant: expected weights of 4 or 8 bits, found %d", bits);
    if (group != 32 && group != 64 && group != 128)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "quant: expected groups of 32, 64 or 128, found %d", group);
    if (dtype != FORE_DTYPE_BF16 && dtype != FORE_DTYPE_F16)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "quant: expected scales and biases in bf16 or f16");
    if (N < 1 || K < 1 || K % group)
        return fore_fail(err, FORE_ERR_UNSUPPORTED,
                         "quant: expected a matrix whose rows are a multiple of the group %d, found [%" PRId64
                         ", %" PRId64 "]",
                         group, N, K);
    fore_qweight w = {.bits = bits, .group = group};
    size_t panel, panels = (size_t)(N - 1) / 16 + 1, bytes;
    if (N > INT_MAX - 15 || K > INT_MAX || __builtin_mul_overflow((size_t)(K / group), block_bytes(&w), &panel) ||
        __builtin_mul_overflow(panel, panels, &bytes))
        return fore_fail(err, FORE_ERR_LIMIT, "quant: a matrix [%" PRId64 ", %" PRId64 "] is too large", N, K);
    *size = bytes;
    return FORE_OK;
}

size_t fore_qweight_bytes(const fore_qweight *w) {
    return (size_t)fore_qweight_panels(w) * group_count(w) * block_bytes(w);
}

size_t fore_qweight_stored_q(const fore_qweight *w) {
    return (size_t)w->N * ((size_t)w->K / 8 * (size_t)w->bits);
}

size_t fore_qweight_stored_affine(const fore_qweight *w) {
    return (size_t)w->N * group_count(w) * 2;
}

static uint32_t load_word(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

typedef uint32_t word4 __attribute__((vector_size(16))); /* vectors that every compiler target has */
#ifdef __clang__
#define PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, (word4){i, j, k, l})
#endif

/* Eight stored weights of 4 bits a word, q[i] in nibble i, to nibbles q[0], q[4], q[1], q[5], ...: first the bytes,
 * then the nibbles in the middle of each half change places. */
static inline word4 interleave(word4 words) {
    word4 swap = (words ^ words >> 8) & 0x0000ff00u;
    words ^= swap ^ swap << 8;
    swap = (words ^ words >> 4) & 0x00f000f0u;
    return words ^ swap ^ swap << 4;
}

/* Words of four outputs, whose rows are `row` bytes long, to their place in each 64 bytes. */
static inline void spread_words(unsigned char *to, const unsigned char *from, size_t row, size_t bytes,
                                const int bits) {
    for (size_t i = 0; i < bytes; i += 16, to += 256) {
        word4 a, b, c, d;
        memcpy(&a, from + i, 16), memcpy(&b, from + row + i, 16);
        memcpy(&c, from + 2 * row + i, 16), memcpy(&d, from + 3 * row + i, 16);
        if (bits == 4) a = interleave(a), b = interleave(b), c = interleave(c), d = interleave(d);
        word4 ab = PICK(a, b, 0, 4, 1, 5), cd = PICK(c, d, 0, 4, 1, 5);
        word4 first = PICK(ab, cd, 0, 1, 4, 5), second = PICK(ab, cd, 2, 3, 6, 7);
        ab = PICK(a, b, 2, 6, 3, 7), cd = PICK(c, d, 2, 6, 3, 7);
        word4 third = PICK(ab, cd, 0, 1, 4, 5), fourth = PICK(ab, cd, 2, 3, 6, 7);
        memcpy(to, &first, 16), memcpy(to + 64, &second, 16), memcpy(to + 128, &third, 16),
            memcpy(to + 192, &fourth, 16);
    }
}

/* One group of one panel. */
static void pack_block(const fore_qweight *w, unsigned char *to, size_t n0, size_t g, const unsigned char *q,
                       const unsigned char *scales, const unsigned char *biases) {
    const size_t bytes = (size_t)w->group * (size_t)w->bits / 8, groups = group_count(w), N = (size_t)w->N;
    const size_t outputs = N - n0 < 16 ? N - n0 : 16;
    const unsigned char *from = q + (n0 * groups + g) * bytes;
    unsigned char last[16 * 128]; /* the rows of the last panel, those past N zero */
    size_t row = groups * bytes;
    if (outputs < 16) {
        memset(to, 0, 64);
        memset(last, 0, sizeof last);
        for (size_t lane = 0; lane < outputs; lane++) memcpy(last + lane * bytes, from + lane * row, bytes);
        from = last, row = bytes;
    }
    for (size_t lane = 0; lane < outputs; lane++) {
        size_t at = (n0 + lane) * groups + g;
        memcpy(to + 2 * lane, scales + 2 * at, 2);
        memcpy(to + 32 + 2 * lane, biases + 2 * at, 2);
    }
    for (size_t lane = 0; lane < 16; lane += 4) {
        if (w->bits == 4)
            spread_words(to + 64 + 4 * lane, from + lane * row, row, bytes, 4);
        else
            spread_words(to + 64 + 4 * lane, from + lane * row, row, bytes, 8);
    }
}

int fore_qweight_panels(const fore_qweight *w) {
    return w->N / 16 + (w->N % 16 != 0);
}

void fore_qweight_pack_panels(const fore_qweight *w, void *panels, const void *q, const void *scales,
                              const void *biases, int p0, int p1) {
    size_t block = block_bytes(w), groups = group_count(w);
    unsigned char *to = (unsigned char *)panels + (size_t)p0 * groups * block;
    for (size_t p = (size_t)p0; p < (size_t)p1; p++)
        for (size_t g = 0; g < groups; g++, to += block) pack_block(w, to, 16 * p, g, q, scales, biases);
}

void fore_qweight_pack(const fore_qweight *w, void *panels, const void *q, const void *scales, const void *biases) {
    fore_qweight_pack_panels(w, panels, q, scales, biases, 0, fore_qweight_panels(w));
}

int fore_qweight_q(const fore_qweight *w, int n, int k) {
    size_t lane = (size_t)n % 16, g = (size_t)k / (size_t)w->group, in = (size_t)k % (size_t)w->group;
    const unsigned char *block =
        (const unsigned char *)w->panels + ((size_t)n / 16 * group_count(w) + g) * block_bytes(w) + 64;
    if (w->bits == 8) return block[in / 4 * 64 + 4 * lane + in % 4];
    return block[in / 8 * 64 + 4 * lane + in % 4] >> (in % 8 < 4 ? 0 : 4) & 15;
}

void fore_qweight_affine(const fore_qweight *w, int n, int group, float *scale, float *bias) {
    const unsigned char *block =
        (const unsigned char *)w->panels + ((size_t)n / 16 * group_count(w) + (size_t)group) * block_bytes(w);
    const unsigned char *at = block + 2 * ((size_t)n % 16);
    *scale = w->dtype == FORE_DTYPE_BF16 ? fore_load_bf16(at) : fore_load_f16(at);
    *bias = w->dtype == FORE_DTYPE_BF16 ? fore_load_bf16(at + 32) : fore_load_f16(at + 32);
}

typedef float float4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));

/* scale * q + bias for the four bytes q of a word, in two operations: equal to the fma where the product is exact,
 * which one of at most 11 and 8 bits is unless it overflows. */
static inline void widen4(float *row, uint32_t word, float scale, float bias) {
    int32_t low = (int32_t)(word & 0xffff), high = (int32_t)(word >> 16);
    float4 q = __builtin_convertvector((int4){low, low, high, high} & (int4){0xff, 0xff00, 0xff, 0xff00}, float4);
    q = q * (float4){1, 0x1p-8f, 1, 0x1p-8f};
    q = q * scale + bias;
    memcpy(row, &q, sizeof q);
}

/* One output's weights of a group, whose words lie 64 bytes apart. */
static inline void widen_group(float *row, const unsigned char *word, size_t words, float scale, float bias,
                               const int bits) {
    for (size_t i = 0; i < words; i++, word += 64, row += 32 / bits) {
        uint32_t v = load_word(word);
        if (bits == 8)
            widen4(row, v, scale, bias);
        else
            widen4(row, v & 0x0f0f0f0fu, scale, bias), widen4(row + 4, v >> 4 & 0x0f0f0f0fu, scale, bias);
    }
}

void fore_qweight_copy_row(const fore_qweight *from, int m, void *panels, int n) {
    const size_t block = block_bytes(from), groups = group_count(from);
    const unsigned char *source = (const unsigned char *)from->panels + (size_t)m / 16 * groups * block;
    unsigned char *to = (unsigned char *)panels + (size_t)n / 16 * groups * block;
    size_t a = (size_t)m % 16, b = (size_t)n % 16;
    for (size_t g = 0; g < groups; g++, source += block, to += block) {
        memcpy(to + 2 * b, source + 2 * a, 2);           /* scale */
        memcpy(to + 32 + 2 * b, source + 32 + 2 * a, 2); /* bias */
        for (size_t line = 64; line < block; line += 64) memcpy(to + line + 4 * b, source + line + 4 * a, 4);
    }
}

void fore_qweight_dequantize(const fore_qweight *w, int n, float *row) {
    const size_t group = (size_t)w->group, groups = group_count(w), block = block_bytes(w);
    const unsigned char *at =
        (const unsigned char *)w->panels + (size_t)n / 16 * groups * block + 64 + 4 * ((size_t)n % 16);
    for (size_t g = 0; g < groups; g++, at += block, row += group) {
        float scale, bias;
        fore_qweight_affine(w, n, (int)g, &scale, &bias);
        if (!(fabsf(scale) < 0x1p100f))
            for (size_t k = 0; k < group; k++)
                row[k] = fmaf(scale, (float)fore_qweight_q(w, n, (int)(g * group + k)), bias);
        else if (w->bits == 4)
            widen_group(row, at, group / 8, scale, bias, 4);
        else
            widen_group(row, at, group / 4, scale, bias, 8);
    }
}
