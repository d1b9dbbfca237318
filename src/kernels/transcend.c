/* The transcendentals' definition: one sequence of IEEE operations each, which the vector twin (v16_math.h) repeats
 * operation by operation. No libm but fmaf and fma, which are exact by definition. */
#include "kernels/transcend.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/kern.h"
#include "kernels/transcend_const.h"

static uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

float fore_expf(float x) {
    if (x != x) return x;
    if (x > FORE_EXP_OVER) return INFINITY;
    if (x < FORE_EXP_UNDER) return 0.0f;
    float shifted = fmaf(x, FORE_LOG2E, FORE_ROUND_MAGIC);
    float n = shifted - FORE_ROUND_MAGIC;
    float r = fmaf(n, -FORE_LN2_HI, x);
    r = fmaf(n, -FORE_LN2_LO, r);
    float p = fmaf(FORE_EXP_4, r, FORE_EXP_3);
    p = fmaf(p, r, FORE_EXP_2);
    p = fmaf(p, r, FORE_EXP_1);
    p = fmaf(p, r, FORE_EXP_0);
    p = fmaf(p, r * r, r) + 1.0f;
    return float_of(bits_of(p) +
                    (bits_of(shifted) << 23)); /* times 2^n: the result is normal, so adding to its exponent is exact */
}

float fore_logf(float x) {
    uint32_t u = bits_of(x) - FORE_SQRT_HALF_BITS;
    float e = (float)((int32_t)u >> 23);
    float f = float_of((u & 0x007fffffu) + FORE_SQRT_HALF_BITS) - 1.0f;
    float p = fmaf(FORE_LOG_8, f, FORE_LOG_7);
    p = fmaf(p, f, FORE_LOG_6);
    p = fmaf(p, f, FORE_LOG_5);
    p = fmaf(p, f, FORE_LOG_4);
    p = fmaf(p, f, FORE_LOG_3);
    p = fmaf(p, f, FORE_LOG_2);
    p = fmaf(p, f, FORE_LOG_1);
    p = fmaf(p, f, FORE_LOG_0);
    float s = f * f;
    float y = (p * f) * s;
    y = fmaf(e, FORE_LN2_LO, y);
    y = fmaf(-0.5f, s, y);
    return fmaf(e, FORE_LN2_HI, f + y);
}

float fore_sigmoidf(float x) {
    return 1.0f / (1.0f + fore_expf(-x));
}

float fore_siluf(float x) {
    return x / (1.0f + fore_expf(-x));
}

float fore_log1p_expf(float x) {
    float v = fore_expf(x);
    float u = 1.0f + v;
    return fore_logf(u) + (v - (u - 1.0f)) / u; /* the second term is what the sum's rounding lost */
}

float fore_softplusf(float x) {
    return x > FORE_SOFTPLUS_LINEAR ? x : fore_log1p_expf(x);
}

float fore_erff(float x) {
    float t = fabsf(x);
    if (t < 1.0f) {
        float s = x * x;
        float p = fmaf(FORE_ERF_A6, s, FORE_ERF_A5);
        p = fmaf(p, s, FORE_ERF_A4);
        p = fmaf(p, s, FORE_ERF_A3);
        p = fmaf(p, s, FORE_ERF_A2);
        p = fmaf(p, s, FORE_ERF_A1);
        p = fmaf(p, s, FORE_ERF_A0);
        return fmaf(p, x, x);
    }
    t = t > 4.0f ? 4.0f : t;
    float p = fmaf(FORE_ERF_B6, t, FORE_ERF_B5);
    p = fmaf(p, t, FORE_ERF_B4);
    p = fmaf(p, t, FORE_ERF_B3);
    p = fmaf(p, t, FORE_ERF_B2);
    p = fmaf(p, t, FORE_ERF_B1);
    p = fmaf(p, t, FORE_ERF_B0);
    return copysignf(1.0f - fore_expf(p), x);
}

float fore_gelu_tanhf(float x) {
    float u = fmaf(FORE_GELU_CUBIC * x, x * x, x);
    return x / (1.0f + fore_expf(FORE_GELU_MINUS_2C * u));
}

float fore_gelu_erff(float x) {
    return (0.5f * x) * (1.0f + fore_erff(x * FORE_SQRT_HALF));
}

void fore_sincosf(float angle, float *sin, float *cos) {
    /* angle = n pi/2 + r; the first part of pi/2 has 29 bits and n at most 24, so that their product is exact */
    const double magic = 0x1.8p+52;
    double x = angle;
    double shifted = x * 0x1.45f306dc9c883p-1 + magic;
    double n = shifted - magic;
    double r = ((x - n * 0x1.921fb54p+0) - n * 0x1.10b461p-30) - n * 0x1.a62633145c06ep-58;
    double z = r * r;
    /* Taylor series on |r| <= pi/4: the first terms left out are below 1e-13 */
    double s =
        r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800)))));
    double c = 1 + z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 +
               z * (1.0 / 479001600))))));
    uint64_t quadrant;
    memcpy(&quadrant, &shifted, sizeof quadrant);
    double a = quadrant & 1 ? c : s, b = quadrant & 1 ? s : c;
    *sin = (float)(quadrant & 2 ? -a : a);
    *cos = (float)((quadrant + 1) & 2 ? -b : b);
}

/* Unevaluated sums of two doubles, for fore_log and fore_pow. */
typedef struct pair {
    double hi, lo;
} pair;

static pair pair_sum(double a, double b) { /* exact; |a| >= |b| or a == 0 */
    double s = a + b;
    return (pair){s, b - (s - a)};
}

static pair pair_add(pair a, pair b) {
    double s = a.hi + b.hi, t = s - a.hi;
    double e = (a.hi - (s - t)) + (b.hi - t);
    return pair_sum(s, e + (a.lo + b.lo));
}

static pair pair_mul(pair a, pair b) {
    double p = a.hi * b.hi;
    return pair_sum(p, fma(a.hi, b.hi, -p) + (a.hi * b.lo + a.lo * b.hi));
}

static pair pair_div(pair a, double b) {
    double q = a.hi / b;
    return pair_sum(q, (fma(-q, b, a.hi) + a.lo) / b);
}

static pair pair_log(double x) {
    uint64_t u;
    int e = 0;
    if (x < DBL_MIN) { /* subnormal */
        x *= 0x1p+54;
        e = -54;
    }
    memcpy(&u, &x, sizeof u);
    u -= 0x3fe6a09e667f3bcdu; /* sqrt(1/2): the mantissa is brought to [sqrt(1/2), sqrt 2) */
    e += (int)((int64_t)u >> 52);
    u = (u & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu;
    double m;
    memcpy(&m, &u, sizeof m);
    /* log m = 2 atanh(s), s = (m - 1) / (m + 1); m - 1 is exact, m + 1 is not */
    pair below = pair_sum(m >= 1 ? m : 1, m >= 1 ? 1 : m);
    double top = m - 1, q = top / below.hi;
    pair s = pair_sum(q, (fma(-q, below.hi, top) - q * below.lo) / below.hi);
    pair z = pair_mul(s, s), sum = {0, 0};
    for (int k = 23; k >= 1; k -= 2) sum = pair_add(pair_div((pair){1, 0}, k), pair_mul(z, sum));
    sum = pair_mul(sum, s);
    sum = (pair){2 * sum.hi, 2 * sum.lo};
    pair whole = pair_mul((pair){e, 0}, (pair){0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56});
    return pair_add(whole, sum);
}

double fore_log(double x) {
    return pair_log(x).hi;
}

double fore_pow(double base, double exponent) {
    pair y = pair_mul(pair_log(base), (pair){exponent, 0});
    if (y.hi > 709.782712893384) return INFINITY;
    if (y.hi < -708.0) return 0;
    const double magic = 0x1.8p+52;
    double n = (y.hi * 0x1.71547652b82fep+0 + magic) - magic;
    pair whole = pair_mul((pair){-n, 0}, (pair){0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56});
    pair r = pair_add(y, whole);
    double p = 1.0;
    for (int k = 15; k >= 2; k--) p = 1 + p * r.hi / k; /* (exp(r) - 1) / r */
    pair sum = pair_sum(1, r.hi * p + r.lo * (1 + r.hi * p));
    double scale = 1, two = n < 0 ? 0.5 : 2;
    int left = (int)(n < 0 ? -n : n);
    for (; left; left >>= 1, two *= two)
        if (left & 1) scale *= two;
    return sum.hi * scale;
}
