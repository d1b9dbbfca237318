/* Speed of the kernel sets on one core, next to a streaming read and an fma peak measured in the same run.
 * Usage: bench_kernels [set [part]]   (default: every set that this machine has, the reference last and only briefly) */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kern.h"
#include "kernels/roofline.h"

static double now(void) { /* of this thread alone: neighbours on the machine count less */
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Best time of a few runs of `body`, at least 3 and at least 0.15 s together. */
#define BEST(seconds, ...)                                              \
    do {                                                                \
        double start_ = now(), best_ = 1e9;                             \
        for (int i_ = 0; i_ < 3 || now() - start_ < 0.15; i_++) {       \
            double t_ = now();                                          \
            __VA_ARGS__;                                                \
            t_ = now() - t_;                                            \
            if (t_ < best_) best_ = t_;                                 \
        }                                                               \
        (seconds) = best_;                                              \
    } while (0)

static volatile float sink;

static float *floats(size_t n) {
    float *p = aligned_alloc(64, (n * sizeof *p + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    for (size_t i = 0; i < n; i++) p[i] = (float)((i * 2654435761u >> 12) % 2048) / 1024 - 1;
    return p;
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Twelve independent chains of fma in registers, which the compiler would not keep there by itself. */
#define FMA_LOOP(reg, rounds)                                                                                          \
    __asm__ volatile("1: vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "0\n vfmadd231ps %%" reg "12, %%" reg           \
                     "13, %%" reg "1\n vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "2\n vfmadd231ps %%" reg          \
                     "12, %%" reg "13, %%" reg "3\n vfmadd231ps %%" reg "12, %%" reg "13, %%" reg                      \
                     "4\n vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "5\n vfmadd231ps %%" reg "12, %%" reg          \
                     "13, %%" reg "6\n vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "7\n vfmadd231ps %%" reg          \
                     "12, %%" reg "13, %%" reg "8\n vfmadd231ps %%" reg "12, %%" reg "13, %%" reg                      \
                     "9\n vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "10\n vfmadd231ps %%" reg "12, %%" reg         \
                     "13, %%" reg "11\n dec %0\n jnz 1b"                                                               \
                     : "+r"(rounds)                                                                                    \
                     :                                                                                                 \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",        \
                       "xmm11", "xmm12", "xmm13", "cc")
#endif

static double fma_peak(const char *set) { /* GFLOPS; 0: not known */
    double seconds = 0, lanes = 0;
    (void)set;
#if defined(__x86_64__) && defined(__GNUC__)
    if (!strncmp(set, "avx512", 6) || !strcmp(set, "amx")) {
        lanes = 16;
        BEST(seconds, {
            long rounds = 1000000;
            FMA_LOOP("zmm", rounds);
        });
    }
    if (!strcmp(set, "avx2")) {
        lanes = 8;
        BEST(seconds, {
            long rounds = 1000000;
            FMA_LOOP("ymm", rounds);
        });
    }
#endif
    return lanes > 0 ? 1e6 * 12 * lanes * 2 / seconds * 1e-9 : 0;
}

/* Seconds for summing n bytes in `streams` parts side by side, with the vectors that the compiler has. */
static double sum_streams(const uint64_t *p, size_t n, size_t streams) {
    double seconds;
    size_t part = n / 8 / streams;
    BEST(seconds, {
        uint64_t a = 0, b = 0, c = 0, d = 0;
        for (size_t i = 0; i < part; i += 8)
            for (size_t s = 0; s < streams; s++) {
                const uint64_t *q = p + s * part + i;
                __builtin_prefetch(q + 256);
                a += q[0] + q[1];
                b += q[2] + q[3];
                c += q[4] + q[5];
                d += q[6] + q[7];
            }
        sink = (float)(a + b + c + d);
    });
    return seconds;
}

/* GB/s of reading 128 MB: one stream alone does not take all that a core can have of the memory. */
static double read_speed(void) {
    size_t n = (size_t)128 << 20;
    uint64_t *p = aligned_alloc(64, n);
    if (!p) return 0;
    memset(p, 1, n);
    double one = sum_streams(p, n, 1), four = sum_streams(p, n, 4);
    free(p);
    return (double)n / (one < four ? one : four) * 1e-9;
}

static void bench_mm(const fore_kern *k, double peak) {
    static const struct {
        int T, N, K;
    } shapes[] = {{1, 40000, 1024},  {2, 40000, 1024},  {4, 40000, 1024}, {5, 40000, 1024},  {8, 40000, 1024},
                  {1, 12000, 3584},  {4, 12000, 3584},  {8, 12000, 3584}, {16, 3584, 1024},  {64, 3584, 1024},
                  {256, 3584, 1024}, {512, 3584, 1024}, {64, 1024, 3584}, {256, 1024, 3584}, {512, 1024, 3584},
                  {2048, 1152, 768}, {2048, 3072, 768}, {1024, 768, 3072}};
    size_t most = (size_t)64 << 20;
    void *memory = floats(most / 2); /* 128 MB */
    uint16_t *W = memory;
    for (size_t i = 0; i < most; i++) W[i] = (uint16_t)(0x3c00 + (i * 40503u >> 7) % 1024);
    float *x = floats((size_t)2048 * 4096), *y = floats((size_t)2048 * 40000);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int T = shapes[i].T, N = shapes[i].N, K = shapes[i].K;
        double seconds;
        BEST(seconds, k->mm_bf16(y, (size_t)N, x, (size_t)K, W, T, 0, N, K));
        double flops = 2.0 * T * N * K / seconds * 1e-9;
        printf("  mm_bf16 T=%-4d N=%-5d K=%-4d %8.2f ms  weights %6.1f GB/s  %6.1f GFLOPS", T, N, K, seconds * 1e3,
               2.0 * N * K / seconds * 1e-9, flops);
        if (peak > 0) printf("  %3.0f %% of peak", 100 * flops / peak);
        printf("\n");
    }
    free(W), free(x), free(y);
}

static double int8_peak(const fore_roof *roof) { /* GOPS */
    enum { ROUNDS = 100000 };
    double seconds;
    BEST(seconds, sink = (float)roof->multiply_integer(ROUNDS));
    return (double)roof->integer_operations * ROUNDS / seconds * 1e-9;
}

/* Products of 4- and 8-bit weights: what they stream against the read bandwidth, what they compute against the peak of
 * vectors. */
static void bench_quant(const fore_kern *k) {
    static const struct {
        int T, N, K;
    } shapes[] = {{1, 120000, 1024}, {2, 120000, 1024}, {4, 120000, 1024}, {8, 120000, 1024}, {16, 120000, 1024},
                  {1, 32000, 3584},  {4, 32000, 3584},  {8, 32000, 3584},  {16, 32000, 3584}, {1, 12800, 9216},
                  {4, 12800, 9216},  {8, 12800, 9216},
                  {16, 3584, 1024},  {64, 3584, 1024},  {512, 1024, 1024}, {512, 3584, 1024}, {512, 6144, 1024},
                  {512, 1024, 3584}, {512, 2560, 2560}, {512, 1024, 9216}};
    enum { GROUP = 64, MOST_K = 9216, ROWS = 512 };
    size_t most = (size_t)128 << 20;
    unsigned char *panels = (void *)floats(most / 4);
    for (size_t i = 0; i < most; i += 2) panels[i] = (unsigned char)(i * 40503u >> 7), panels[i + 1] = 0x3c;
    float *x = floats((size_t)ROWS * MOST_K), *y = floats((size_t)ROWS * MOST_K);
    size_t groups = MOST_K / GROUP;
    fore_qrows rows = {(void *)floats((size_t)ROWS * MOST_K / 4), floats(ROWS * groups), floats(ROWS * groups), 0, 0};
    double read = read_speed(), peak = int8_peak(fore_roof_of_vectors(k->name));
    printf("  read %.1f GB/s, int8 peak %.0f GOPS of vectors", read, peak);
    if (fore_roof_of(k->name) != fore_roof_of_vectors(k->name)) printf(", %.0f of tiles", int8_peak(fore_roof_of(k->name)));
    printf("\n");
    for (int bits = 4; bits <= 8; bits += 4) {
        double single = 0;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            int T = shapes[i].T, N = shapes[i].N / (shapes[i].N > 9999 ? bits / 4 : 1), K = shapes[i].K;
            fore_qweight W = {bits, GROUP, N, K, FORE_DTYPE_BF16, panels};
            double bytes = (double)N / 16 * (K / GROUP) * (64 + 2 * bits * GROUP), seconds, before;
            rows.row = (size_t)K, rows.groups = (size_t)(K / GROUP);
            BEST(before, k->quantize_rows(&rows, x, (size_t)K, T, K, GROUP));
            BEST(seconds, (bits == 4 ? k->mm_q4 : k->mm_q8)(y, (size_t)N, &rows, &W, T, 0, N));
            if (T == 1) single = seconds;
            double ops = 2.0 * T * N * K / seconds * 1e-9, speed = bytes / seconds * 1e-9;
            printf("  mm_q%d T=%-3d N=%-6d K=%-4d %8.2f ms (rows to int8 %6.3f)  weights %5.1f GB/s  %6.1f GOPS", bits, T,
                   N, K, seconds * 1e3, before * 1e3, speed, ops);
            if (T == 1) printf("  %3.0f %% of read", 100 * speed / read);
            else if (shapes[i].N > 9999) printf("  %.2f of T=1", seconds / single);
            else printf("  %3.0f %% of peak", 100 * ops / peak);
            printf("\n");
        }
    }
    free(panels), free(x), free(y), free(rows.q), free(rows.scale), free(rows.sum);
}

static void bench_attend(const fore_kern *k, double peak) {
    static const struct {
        int T, G, D, keys;
        bool causal;
    } shapes[] = {{1, 4, 256, 4096, true},   {1, 4, 256, 32768, true},  {5, 4, 256, 4096, true},
                  {256, 4, 256, 2048, true}, {512, 1, 64, 4096, false}, {512, 1, 72, 4096, false},
                  {256, 1, 64, 256, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int T = shapes[i].T, G = shapes[i].G, D = shapes[i].D, keys = shapes[i].keys;
        size_t width = (size_t)G * (size_t)D;
        float *q = floats((size_t)T * width), *o = floats((size_t)T * width), *key = floats((size_t)keys * (size_t)D);
        float *v = floats((size_t)keys * (size_t)D), *scratch = floats(fore_attend_scratch(keys, G));
        fore_attend a = {.q = q,
                         .o = o,
                         .k = key,
                         .v = v,
                         .q_row = width,
                         .q_head = (size_t)D,
                         .o_row = width,
                         .o_head = (size_t)D,
                         .v_row = (size_t)D,
                         .T = T,
                         .G = G,
                         .D = D,
                         .first = keys - T,
                         .keys = keys,
                         .causal = shapes[i].causal,
                         .scale = 1 / sqrtf((float)D),
                         .scratch = scratch};
        double seconds;
        BEST(seconds, k->attend(&a));
        double flops = 4.0 * T * (double)width * keys / seconds * 1e-9;
        printf("  attend T=%-3d G=%d D=%-3d keys=%-5d %8.2f ms  K and V %6.1f GB/s  %6.1f GFLOPS", T, G, D, keys,
               seconds * 1e3, 8.0 * keys * D / seconds * 1e-9, flops);
        if (peak > 0) printf("  %3.0f %% of peak", 100 * flops / peak);
        printf("\n");
        free(q), free(o), free(key), free(v), free(scratch);
    }
}

static void bench_delta(const fore_kern *k) {
    enum { DK = 128, DV = 128, MOST = 512, HEADS = 16 };
    float *state = floats((size_t)HEADS * DK * DV), *q = floats(MOST * DK), *v = floats(MOST * DV),
          *o = floats(MOST * DV);
    float *gate = floats(MOST), *scratch = floats(fore_delta_scratch(DK, DV));
    for (int i = 0; i < MOST * DK; i++) q[i] *= 0.1f;
    for (int i = 0; i < MOST; i++) gate[i] = 0.5f + 0.4f * gate[i];
    static const int tokens[] = {1, 4, 512};
    for (int i = 0; i < 3; i++) {
        fore_delta d = {.q = q,
                        .k = q,
                        .v = v,
                        .o = o,
                        .decay = gate,
                        .beta = gate,
                        .qk_row = DK,
                        .v_row = DV,
                        .o_row = DV,
                        .gate_row = 1,
                        .T = tokens[i],
                        .dk = DK,
                        .dv = DV,
                        .v0 = 0,
                        .v1 = DV,
                        .scratch = scratch};
        double seconds;
        BEST(seconds, for (int h = 0; h < HEADS; h++) {
            d.state_in = d.state_out = state + (size_t)h * DK * DV;
            k->delta(&d);
        });
        printf("  delta T=%-3d 128x128 %8.2f us a token and head\n", tokens[i], seconds * 1e6 / tokens[i] / HEADS);
    }
    free(state), free(q), free(v), free(o), free(gate), free(scratch);
}

static void bench_elementwise(const fore_kern *k) {
    enum { N = 3584, ROWS = 64 };
    float *x = floats(N * ROWS), *y = floats(N * ROWS), *g = floats(N);
    double seconds;
#define ONE(what, ...)          \
    BEST(seconds, __VA_ARGS__); \
    printf("  %-12s %6.2f ns an element\n", what, seconds * 1e9 / (N * ROWS))
    ONE("silu_mul", k->silu_mul(y, x, x, N * ROWS));
    ONE("rms_norm", k->rms_norm(y, N, x, N, g, ROWS, N, 1e-6f));
    ONE("layer_norm", k->layer_norm(y, N, x, N, g, g, ROWS, N, 1e-6f));
    ONE("conv_silu", k->conv_silu(y, N, x, N, x, x, ROWS - 4, 0, N, N, 4));
    ONE("gelu_tanh", {
        memcpy(y, x, sizeof *x * N * ROWS);
        k->gelu_tanh(y, N * ROWS);
    }); /* with the copy: it works in place */
    ONE("gelu_erf", { memcpy(y, x, sizeof *x * N * ROWS); k->gelu_erf(y, N * ROWS); });
    ONE("argmax", sink = (float)k->argmax(x, N * ROWS));
#undef ONE
    free(x), free(y), free(g);
}

int main(int argc, char **argv) {
    const fore_kern *list[8];
    int n = fore_kern_list(list);
    const char *only = argc > 1 ? argv[1] : NULL, *part = argc > 2 ? argv[2] : "";
    printf("streaming read %.1f GB/s\n", read_speed());
    for (int i = n - 1; i >= 0; i--) {
        if (only ? strcmp(only, list[i]->name) != 0 : i == 0) continue;
        double peak = fma_peak(list[i]->name);
        printf("%s", list[i]->name);
        if (peak > 0) printf(", fma peak %.1f GFLOPS", peak);
        printf("\n");
        if (!*part || !strcmp(part, "mm")) bench_mm(list[i], peak);
        if (!*part || !strcmp(part, "quant")) bench_quant(list[i]);
        if (!*part || !strcmp(part, "attend")) bench_attend(list[i], peak);
        if (!*part || !strcmp(part, "delta")) bench_delta(list[i]);
        if (!*part || !strcmp(part, "elementwise")) bench_elementwise(list[i]);
    }
    return 0;
}
