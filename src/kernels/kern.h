/* The kernel table: numbers and shapes, no model. One scalar reference defines the bits of every operation; each
 * instruction set overwrites the entries that it has and must equal the reference to the last bit, whatever T, the slice
 * or the alignment. All arithmetic is IEEE f32 (add, mul, div, sqrt, fma), never contracted by the compiler.
 *
 * Orders of summation (part of the contract, not of a loop):
 *   lanes16(n terms): 16 accumulators start at +0; term k goes to lane k % 16 by fma in increasing k; a last partial group
 *     of 16 is filled with products 0*0; then fold lane i += lane i+8 (i<8), i+4 (i<4), i+2 (i<2), i+1: lane 0.
 *     (Plain sums use lane = term + lane instead of fma, missing terms are +0.)
 *   sequential: one accumulator from +0, fma in increasing index.
 *   pairs: two accumulators, even and odd indexes, each sequential; the result is even + odd.
 *   groups (quantised products): the integer products within a group add up exactly in int32; the groups follow each
 *     other in index order, each adding to one f32 accumulator, from +0, by two fma: see mm_q4.
 * Axis letters: T rows, N outputs, K inputs, C channels, D head dim, S keys. Strides count elements. */
#ifndef FORE_KERNELS_KERN_H
#define FORE_KERNELS_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"

enum { FORE_LANES = 16 };

/* Softmax attention of the G query heads that share one key/value head, over T rows. */
typedef struct fore_attend {
    const float *q; /* q[t*q_row + g*q_head + d] */
    float *o;       /* o[t*o_row + g*o_head + d]; may not overlap anything else */
    const float *k; /* panels: key j, channel d at k[(j/16)*D*16 + d*16 + j%16]; lanes past the last key hold any finite value */
    const float *v; /* v[j*v_row + d] */
    size_t q_row, q_head, o_row, o_head, v_row;
    int T, G, D;
    int first;      /* causal: row t sees keys 0 .. first + t */
    int keys;       /* not causal: every row sees keys 0 .. keys-1 */
    bool causal;
    float scale;
    float *scratch; /* fore_attend_scratch(keys that the last row sees, G) floats */
} fore_attend;

/* The gated delta rule of one value head over T tokens, columns v0..v1-1 of the state (any slice gives the same bits):
 *   S *= decay[t];  m = pairs_i k[i] S[i,:];  u = beta[t] * (v[t] - m);  S[i,:] = fma(k[i], u, S[i,:]);  o = pairs_i q[i] S[i,:] */
typedef struct fore_delta {
    const float *state_in; /* [dk,dv] */
    float *state_out;      /* [dk,dv]; may equal state_in; NULL: the state after is not kept */
    const float *q, *k;    /* q[t*qk_row + i] */
    const float *v;        /* v[t*v_row + c] */
    float *o;              /* o[t*o_row + c] */
    const float *decay, *beta; /* decay[t*gate_row] */
    size_t qk_row, v_row, o_row, gate_row;
    int T, dk, dv, v0, v1;
    float *scratch; /* fore_delta_scratch(dk, v1 - v0) floats */
} fore_delta;

/* A quantised matrix [N,K]: w = scale * q + bias, q unsigned, one scale and bias for `group` neighbours along K. It is
 * kept in panels of 16 outputs, which quant.h describes and makes. */
typedef struct fore_qweight {
    int bits;         /* 4 or 8 */
    int group;        /* 16, 32, 64 or 128; divides K */
    int N, K;
    fore_dtype dtype; /* of scales and biases: BF16, F16 or F32; U8, I8: products, see quant.h */
    const void *panels; /* borrowed; any alignment, fastest at a multiple of 64 */
} fore_qweight;

/* Rows quantised by quantize_rows. Row t: q[t*row + k], scale[t*groups + k/group], sum[t*groups + k/group]. */
typedef struct fore_qrows {
    int8_t *q;     /* -127 .. 127 */
    float *scale;  /* x is about q * scale */
    float *sum;    /* (float)(sum of the group's q) * scale */
    size_t row, groups; /* strides */
} fore_qrows;

typedef struct fore_kern {
    const char *name; /* "ref", "avx2", "avx512", "avx512vnni", "amx", "neon", "neondot" */

    /* y[t*ldy + n] = lanes16_k x[t*ldx + k] * W[n*K + k] for t < T, n0 <= n < n1. W is little-endian, any alignment
     * (K and N any size >= 1); y overlaps nothing. bf16 and f16 widen exactly. */
    void (*mm_f32)(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K);
    void (*mm_bf16)(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K);
    void (*mm_f16)(float *y, size_t ldy, const float *x, size_t ldx, const void *W, int T, int n0, int n1, int K);
    /* The same bits from transposed weights: W[k*across + n] stands where W[n*K + k] stands above. Made for few rows. */
    void (*mm_across)(float *y, size_t ldy, const float *x, size_t ldx, const void *W, fore_dtype dtype, int across, int T, int n0,
                      int n1, int K);
    /* Rows of K, group by group, m = the largest |x| of the group:
     * not all finite: scale = sum = NaN, q = 0; m < 2^-100: scale = sum = +0, q = 0;
     * else scale = m / 127, q = x * (127 / m) rounded to the nearest integer, ties to even. */
    void (*quantize_rows)(const fore_qrows *to, const float *x, size_t ldx, int T, int K, int group);
    /* y[t*ldy + n] for t < T, n0 <= n < n1, rows in x quantised by W's group. For each group g in increasing order, from
     * acc = +0:  dot = sum over k of q_w[n,k] * q_x[t,k], exact in int32;
     *   acc = fma(scale_w[n,g] * scale_x[t,g], (float)dot, acc);  acc = fma(bias_w[n,g], sum_x[t,g], acc).
     * n0 is a multiple of 16, n1 too or N. mm_q4 takes W->bits == 4, mm_q8 takes 8. y overlaps nothing. */
    void (*mm_q4)(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);
    void (*mm_q8)(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1);
    /* y[i] = x[i], exact; x of any alignment */
    void (*widen_bf16)(float *y, const void *x, size_t n);
    void (*widen_f16)(float *y, const void *x, size_t n);

    /* Rows of C: r = 1 / sqrt(lanes16(x*x) / C + eps); y = (x * r) * gain. y may equal x. */
    void (*rms_norm)(float *y, size_t ldy, const float *x, size_t ldx, const float *gain, int T, int C, float eps);
    /* mean = lanes16 sum(x) / C; d = x - mean; var = lanes16(d*d) / C; y = fma(d * (1 / sqrt(var + eps)), w, b). y may equal x. */
    void (*layer_norm)(float *y, size_t ldy, const float *x, size_t ldx, const float *w, const float *b, int T, int C, float eps);
    /* y = x * ((1 / sqrt(lanes16(x*x) + eps)) * scale). y may equal x. */
    void (*l2_norm)(float *y, size_t ldy, const float *x, size_t ldx, int T, int C, float eps, float scale);
    /* The DeltaNet output norm: r as rms_norm; y = ((x * r) * w) * silu(z). y may equal x. */
    void (*gated_rms_norm)(float *y, size_t ldy, const float *x, size_t ldx, const float *z, size_t ldz, const float *w, int T,
                           int C, float eps);

    void (*add)(float *y, const float *x, size_t n);                              /* y += x */
    void (*add_bias)(float *y, size_t ldy, const float *b, int T, int n0, int n1);    /* y[t,n] += b[n] */
    void (*silu_mul)(float *y, const float *gate, const float *up, size_t n);     /* y = silu(gate) * up; y may equal either */
    void (*sigmoid_mul)(float *y, const float *gate, size_t n);                   /* y *= sigmoid(gate) */
    void (*gelu_tanh)(float *y, size_t n);                                        /* in place, 0.5x(1+tanh(sqrt(2/pi)(x+0.044715x^3))) */
    void (*gelu_erf)(float *y, size_t n);                                         /* in place, 0.5x(1+erf(x/sqrt 2)) */
    /* Half-split rotation of H heads in T rows, in place: for i < half, a = x[i], b = x[i+half]:
     * x[i] = a*cos - b*sin; x[i+half] = b*cos + a*sin (products rounded, then the sum). cos, sin: [T,half]. */
    void (*rope)(float *x, size_t row, size_t head, int T, int H, int half, const float *cos, const float *sin);
    /* y[t,c] = silu(w[0,c] u[t-K+1,c] + ... + w[K-1,c] u[t,c]): product of j = 0 rounded, then fma in increasing j.
     * Rows before the first come from prev [K-1,C] (oldest first, row stride C). w: [K,C]. Channels c0 <= c < c1. */
    void (*conv_silu)(float *y, size_t ldy, const float *u, size_t ldu, const float *prev, const float *w, int T, int c0, int c1,
                      int C, int K);
    /* beta[t,h] = sigmoid(b[t,h]); decay[t,h] = exp(-exp(A_log[h]) * softplus(a[t,h] + dt_bias[h])); neg_exp_A = -exp(A_log).
     * softplus(x) = x for x > 20, else log1p(exp(x)). All [T,H] with row strides. */
    void (*delta_gates)(float *beta, float *decay, size_t ldo, const float *b, size_t ldb, const float *a, size_t lda,
                        const float *neg_exp_A, const float *dt_bias, int T, int H);
    void (*delta)(const fore_delta *d);
    /* s = (sequential_d q[d] k[j,d]) * scale; m = max; p = exp(s - m); l = lanes16 sum of p (lane j % 16, absolute j);
     * o = (sequential_j p[j] v[j,d]) * (1 / l). */
    void (*attend)(const fore_attend *a);
    /* index of the largest value, the lowest one on ties; NaN never wins (index 0 when all are NaN) */
    size_t (*argmax)(const float *x, size_t n);
} fore_kern;

/* The best table of this machine, or the named one ("ref", "avx2", "avx512", "avx512vnni", "amx", "neon",
 * "neondot"; NULL or "" for the best). A machine has "amx" only where the system grants this process its tiles, which
 * both functions ask it for.
 * FORE_ERR_UNSUPPORTED names the sets that this machine has. *out is static and read-only. */
fore_status fore_kern_get(const char *isa, const fore_kern **out, fore_error *err);
/* The tables that this machine can run, reference first; returns how many. */
int fore_kern_list(const fore_kern *list[8]);

size_t fore_attend_scratch(int keys, int G);     /* floats; enough for fewer keys too */
size_t fore_delta_scratch(int dk, int columns);  /* floats */

/* Scalar transcendentals, one sequence of IEEE operations each, equal on every machine (no libm). */
float fore_expf(float x);   /* the exp that every kernel uses: overflow gives +inf, underflow 0 */
float fore_logf(float x);   /* x > 0 normal; within 1 ulp */
float fore_sigmoidf(float x);
float fore_siluf(float x);
float fore_softplusf(float x);
void fore_sincosf(float angle, float *sin, float *cos); /* |angle| < 2^24, within 1 ulp */
double fore_log(double x);                               /* x > 0; relative error < 1e-15 */
double fore_pow(double base, double exponent);          /* base > 0; relative error < 1e-15 */

#endif
