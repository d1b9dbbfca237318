/* The quantised format: checks, packing, dequantising; see quant.h. */
#include "kernels/quant.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/panel_layout.h"

static size_t group_count(const fore_qweight *w) {
    return (size_t)w->K / (size_t)w->group;
}

/* Whether there are panels with such scales; the sizes of groups are known to be those that there are. */
static bool has_scales(int bits, int group, fore_dtype dtype) {
    if (dtype == FORE_DTYPE_U8) return group == 32;
    if (dtype == FORE_DTYPE_I8) return group == 16 && bits == 8;
    return fore_dtype_is_float(dtype) && (group > 16 || bits == 8);
}

fore_status fore_qweight_check(int bits, int group, int64_t N, int64_t K, fore_dtype dtype, size_t *size,
                               fore_error *err) {
    *size = 0;
    if (bits != 4 && bits != 8)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "quant: expected weights of 4 or 8 bits, found %d", bits);
    if (group != 16 && group != 32 && group != 64 && group != 128)
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "quant: expected groups of 32, 64 or 128, found %d", group);
    if (!fore_dtype_is_float(dtype) && !fore_has_steps(dtype))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "quant: expected scales and biases in bf16, f16 or f32");
    if (!has_scales(bits, group, dtype))
        return fore_fail(err, FORE_ERR_UNSUPPORTED, "quant: no panels have such scales with %d bits in groups of %d", bits, group);
    if (N < 1 || K < 1 || K % group || (fore_has_steps(dtype) && K % FORE_SUPER))
        return fore_fail(err, FORE_ERR_UNSUPPORTED,
                         "quant: expected a matrix whose rows are a multiple of the group %d, found [%" PRId64
                         ", %" PRId64 "]",
                         fore_has_steps(dtype) ? FORE_SUPER : group, N, K);
    /* A panel has 128 bits a weight at most. */
    size_t panel, panels = (size_t)(N - 1) / 16 + 1, bytes;
    if (N > INT_MAX - 15 || K > INT_MAX || __builtin_mul_overflow((size_t)K, (size_t)16 * 16, &panel) ||
        __builtin_mul_overflow(panel, panels, &bytes))
        return fore_fail(err, FORE_ERR_LIMIT, "quant: a matrix [%" PRId64 ", %" PRId64 "] is too large", N, K);
    const fore_qweight w = {.bits = bits, .group = group, .N = (int)N, .K = (int)K, .dtype = dtype};
    *size = fore_qweight_bytes(&w);
    return FORE_OK;
}

/* Bytes of a panel. */
static size_t panel_bytes(const fore_qweight *w) {
    const fore_panel_layout l = fore_panel_layout_of(w);
    return fore_panel_span(&l, group_count(w));
}

size_t fore_qweight_bytes(const fore_qweight *w) {
    return (size_t)fore_qweight_panels(w) * panel_bytes(w);
}

size_t fore_qweight_stored_q(const fore_qweight *w) {
    return (size_t)w->N * ((size_t)w->K / 8 * (size_t)w->bits);
}

/* Bytes of a row's scales, or biases, in the stored form. */
static size_t affine_row(const fore_qweight *w) {
    if (fore_has_steps(w->dtype)) return (size_t)(w->K / FORE_SUPER) * (2 + (size_t)(FORE_SUPER / w->group));
    return group_count(w) * fore_dtype_size(w->dtype);
}

size_t fore_qweight_stored_affine(const fore_qweight *w) {
    return (size_t)w->N * affine_row(w);
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

/* The head that group g begins, of outputs n0 .. */
static void pack_head(const fore_qweight *w, unsigned char *to, size_t n0, size_t outputs, size_t g,
                      const unsigned char *scales, const unsigned char *biases) {
    const fore_panel_layout l = fore_panel_layout_of(w);
    const size_t row = affine_row(w), width = fore_has_steps(w->dtype) ? 2 : fore_dtype_size(w->dtype);
    const size_t shared = (size_t)1 << l.shift, record = l.shift ? 2 + shared : width;
    if (outputs < 16) memset(to, 0, l.head);
    for (size_t lane = 0; lane < outputs; lane++) {
        size_t at = (n0 + lane) * row + (g >> l.shift) * record;
        memcpy(to + width * lane, scales + at, width);
        memcpy(to + width * (16 + lane), biases + at, width);
        if (!l.shift) continue;
        for (size_t i = 0; i < shared; i++) {
            to[FORE_STEPS + 16 * i + lane] = scales[at + 2 + i];
            if (w->dtype == FORE_DTYPE_U8) to[FORE_STEPS + 16 * (shared + i) + lane] = biases[at + 2 + i];
        }
    }
}

/* The weights of one group of one panel. */
static void pack_weights(const fore_qweight *w, unsigned char *to, size_t n0, size_t outputs, size_t g, const unsigned char *q) {
    const size_t bytes = (size_t)w->group * (size_t)w->bits / 8, groups = group_count(w);
    const unsigned char *from = q + (n0 * groups + g) * bytes;
    unsigned char last[16 * 128]; /* the rows of the last panel, those past N zero */
    size_t row = groups * bytes;
    if (outputs < 16) {
        memset(last, 0, sizeof last);
        for (size_t lane = 0; lane < outputs; lane++) memcpy(last + lane * bytes, from + lane * row, bytes);
        from = last, row = bytes;
    }
    for (size_t lane = 0; lane < 16; lane += 4) {
        if (w->bits == 4)
            spread_words(to + 4 * lane, from + lane * row, row, bytes, 4);
        else
            spread_words(to + 4 * lane, from + lane * row, row, bytes, 8);
    }
}

int fore_qweight_panels(const fore_qweight *w) {
    return w->N / 16 + (w->N % 16 != 0);
}

void fore_qweight_pack_panels(const fore_qweight *w, void *panels, const void *q, const void *scales,
                              const void *biases, int p0, int p1) {
    const fore_panel_layout l = fore_panel_layout_of(w);
    const size_t groups = group_count(w), panel = panel_bytes(w), N = (size_t)w->N;
    unsigned char *to = (unsigned char *)panels + (size_t)p0 * panel;
    for (size_t p = (size_t)p0; p < (size_t)p1; p++, to += panel) {
        size_t n0 = 16 * p, outputs = N - n0 < 16 ? N - n0 : 16;
        for (size_t g = 0; g < groups; g++) {
            if (!fore_panel_place(&l, g)) pack_head(w, to + fore_panel_head(&l, g), n0, outputs, g, scales, biases);
            pack_weights(w, to + fore_panel_weights(&l, g), n0, outputs, g, q);
        }
    }
}

void fore_qweight_pack(const fore_qweight *w, void *panels, const void *q, const void *scales, const void *biases) {
    fore_qweight_pack_panels(w, panels, q, scales, biases, 0, fore_qweight_panels(w));
}

int fore_qweight_q(const fore_qweight *w, int n, int k) {
    const fore_panel_layout l = fore_panel_layout_of(w);
    size_t lane = (size_t)n % 16, g = (size_t)k / (size_t)w->group, in = (size_t)k % (size_t)w->group;
    const unsigned char *block =
        (const unsigned char *)w->panels + (size_t)n / 16 * panel_bytes(w) + fore_panel_weights(&l, g);
    if (w->bits == 8) return block[in / 4 * 64 + 4 * lane + in % 4];
    return block[in / 8 * 64 + 4 * lane + in % 4] >> (in % 8 < 4 ? 0 : 4) & 15;
}

static float load_affine(fore_dtype dtype, const unsigned char *p, size_t i) {
    if (dtype == FORE_DTYPE_F32) return fore_load_f32(p + 4 * i);
    return dtype == FORE_DTYPE_BF16 ? fore_load_bf16(p + 2 * i) : fore_load_f16(p + 2 * i);
}

void fore_qweight_affine(const fore_qweight *w, int n, int group, float *scale, float *bias) {
    const fore_panel_layout l = fore_panel_layout_of(w);
    const size_t g = (size_t)group, lane = (size_t)n % 16;
    const unsigned char *head = (const unsigned char *)w->panels + (size_t)n / 16 * panel_bytes(w) + fore_panel_head(&l, g);
    *scale = load_affine(w->dtype, head, lane);
    *bias = load_affine(w->dtype, head, 16 + lane);
    if (!fore_has_steps(w->dtype)) return;
    const unsigned char *u = head + FORE_STEPS + 16 * fore_panel_place(&l, g) + lane;
    if (w->dtype == FORE_DTYPE_U8) {
        *scale *= u[0];
        *bias *= u[(size_t)16 << l.shift];
    } else {
        *scale *= (int8_t)u[0];
        *bias *= (int8_t)u[0];
    }
}

typedef float float4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));

/* scale * q + bias for the four bytes q of a word, in two operations: equal to the fma where the product is exact,
 * which one of at most 11 and 8, or 19 and 4 bits, is unless it overflows. */
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
    const fore_panel_layout l = fore_panel_layout_of(from);
    const size_t groups = group_count(from), panel = panel_bytes(from), width = l.dtype == FORE_DTYPE_F32 ? 4 : 2;
    const unsigned char *source = (const unsigned char *)from->panels + (size_t)m / 16 * panel;
    unsigned char *to = (unsigned char *)panels + (size_t)n / 16 * panel;
    const size_t a = (size_t)m % 16, b = (size_t)n % 16;
    for (size_t g = 0; g < groups; g += (size_t)1 << l.shift) {
        memcpy(to + width * b, source + width * a, width);               /* scale, or step */
        memcpy(to + width * (16 + b), source + width * (16 + a), width); /* bias */
        for (size_t line = 32 * width; line < l.head; line += 16) to[line + b] = source[line + a];
        size_t next = l.head + (l.block << l.shift);
        for (size_t line = l.head; line < next; line += 64) memcpy(to + line + 4 * b, source + line + 4 * a, 4);
        source += next;
        to += next;
    }
}

/* The same by the fma, for any scale and bias. */
static void widen_group_fma(float *row, const unsigned char *word, size_t words, float scale, float bias, int bits) {
    for (size_t i = 0; i < words; i++, word += 64)
        for (size_t nibble = 0; nibble < 8 / (size_t)bits; nibble++)
            for (size_t j = 0; j < 4; j++) {
                int q = bits == 8 ? word[j] : word[j] >> 4 * nibble & 15;
                *row++ = fmaf(scale, (float)q, bias);
            }
}

void fore_qweight_dequantize_group(const fore_qweight *w, int n, int group, float *out) {
    const fore_panel_layout l = fore_panel_layout_of(w);
    const size_t words = (size_t)w->group * (size_t)w->bits / 32;
    const bool exact = w->dtype == FORE_DTYPE_BF16 || w->dtype == FORE_DTYPE_F16 || (w->dtype == FORE_DTYPE_U8 && w->bits == 4);
    const unsigned char *panel = (const unsigned char *)w->panels + (size_t)n / 16 * panel_bytes(w);
    const unsigned char *at = panel + fore_panel_weights(&l, (size_t)group) + 4 * ((size_t)n % 16);
    float scale, bias;
    fore_qweight_affine(w, n, group, &scale, &bias);
    if (!exact || !(fabsf(scale) < 0x1p100f))
        widen_group_fma(out, at, words, scale, bias, w->bits);
    else if (w->bits == 4)
        widen_group(out, at, words, scale, bias, 4);
    else
        widen_group(out, at, words, scale, bias, 8);
}

void fore_qweight_dequantize(const fore_qweight *w, int n, float *row) {
    for (int g = 0; g < w->K / w->group; g++, row += w->group) fore_qweight_dequantize_group(w, n, g, row);
}
