/* The roofline of plain C, and the choice of a table; see roofline.h. */
#include "kernels/roofline.h"

#include <string.h>

enum { SUMS = 8 };

static uint32_t plain_read(const void *data, size_t bytes) {
    const uint32_t *at = data, *end = at + bytes / sizeof *at;
    uint32_t sum[4] = {0};
    for (; at < end; at += 4)
        for (int i = 0; i < 4; i++) sum[i] += at[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static uint32_t plain_float(size_t rounds) {
    float sum[SUMS], x = 0.5f;
    for (int i = 0; i < SUMS; i++) sum[i] = (float)i;
    for (size_t r = 0; r < rounds; r++) {
        for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * x + 0.25f;
    }
    float all = 0;
    for (int i = 0; i < SUMS; i++) all += sum[i];
    return (uint32_t)all;
}

static uint32_t plain_integer(size_t rounds) {
    uint32_t sum[SUMS];
    for (int i = 0; i < SUMS; i++) sum[i] = (uint32_t)i;
    for (size_t r = 0; r < rounds; r++) {
        for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * 3 + (uint32_t)r;
    }
    uint32_t all = 0;
    for (int i = 0; i < SUMS; i++) all += sum[i];
    return all;
}

static const fore_roof plain = {plain_read, plain_float, plain_integer, SUMS * 2, SUMS * 2};

const fore_roof *fore_roof_of(const char *isa) {
#if defined(__x86_64__)
    if (!strcmp(isa, "amx")) return &fore_roof_amx;
    if (!strcmp(isa, "avx512vnni")) return &fore_roof_avx512vnni;
    if (!strcmp(isa, "avx512")) return &fore_roof_avx512;
    if (!strcmp(isa, "avx2")) return &fore_roof_avx2;
#elif defined(__aarch64__)
    if (!strncmp(isa, "neon", 4)) return &fore_roof_neon;
#endif
    (void)isa;
    return &plain;
}

const fore_roof *fore_roof_of_vectors(const char *isa) {
    return fore_roof_of(strcmp(isa, "amx") ? isa : "avx512vnni");
}
