/* The vector twin of transcend.c: the same operations in the same order on 16 lanes. */
#ifndef FORE_KERNELS_V16_MATH_H
#define FORE_KERNELS_V16_MATH_H

#include <math.h>

#include "kernels/transcend_const.h"

/* Without the choices: right where the result is normal. */
FORE_INLINE v16 v16_exp_inside(v16 x) {
    v16 magic = v16_set1(FORE_ROUND_MAGIC);
    v16 shifted = v16_fma(x, v16_set1(FORE_LOG2E), magic);
    v16 n = v16_sub(shifted, magic);
    v16 r = v16_fma(n, v16_set1(-FORE_LN2_HI), x);
    r = v16_fma(n, v16_set1(-FORE_LN2_LO), r);
    v16 p = v16_fma(v16_set1(FORE_EXP_4), r, v16_set1(FORE_EXP_3));
    p = v16_fma(p, r, v16_set1(FORE_EXP_2));
    p = v16_fma(p, r, v16_set1(FORE_EXP_1));
    p = v16_fma(p, r, v16_set1(FORE_EXP_0));
    p = v16_add(v16_fma(p, v16_mul(r, r), r), v16_set1(1.0f));
    return v16_scale2(p, shifted);
}

/* exp of what is not above 0 */
FORE_INLINE v16 v16_exp_down(v16 x) {
    v16 y = v16_select(v16_lt(x, v16_set1(FORE_EXP_UNDER)), v16_zero(), v16_exp_inside(x));
    return v16_select(v16_nan(x), x, y);
}

FORE_INLINE v16 v16_exp(v16 x) {
    return v16_select(v16_gt(x, v16_set1(FORE_EXP_OVER)), v16_set1(INFINITY), v16_exp_down(x));
}

FORE_INLINE v16 v16_log(v16 x) {
    v16 e, m;
    v16_split(x, &e, &m);
    v16 f = v16_sub(m, v16_set1(1.0f));
    v16 p = v16_fma(v16_set1(FORE_LOG_8), f, v16_set1(FORE_LOG_7));
    p = v16_fma(p, f, v16_set1(FORE_LOG_6));
    p = v16_fma(p, f, v16_set1(FORE_LOG_5));
    p = v16_fma(p, f, v16_set1(FORE_LOG_4));
    p = v16_fma(p, f, v16_set1(FORE_LOG_3));
    p = v16_fma(p, f, v16_set1(FORE_LOG_2));
    p = v16_fma(p, f, v16_set1(FORE_LOG_1));
    p = v16_fma(p, f, v16_set1(FORE_LOG_0));
    v16 s = v16_mul(f, f);
    v16 y = v16_mul(v16_mul(p, f), s);
    y = v16_fma(e, v16_set1(FORE_LN2_LO), y);
    y = v16_fma(v16_set1(-0.5f), s, y);
    return v16_fma(e, v16_set1(FORE_LN2_HI), v16_add(f, y));
}

FORE_INLINE v16 v16_one_plus_exp(v16 x) {
    return v16_add(v16_set1(1.0f), v16_exp(x));
}

FORE_INLINE v16 v16_sigmoid(v16 x) {
    return v16_div(v16_set1(1.0f), v16_one_plus_exp(v16_neg(x)));
}

FORE_INLINE v16 v16_silu(v16 x) {
    return v16_div(x, v16_one_plus_exp(v16_neg(x)));
}

FORE_INLINE v16 v16_softplus(v16 x) {
    v16 v = v16_exp(x), one = v16_set1(1.0f);
    v16 u = v16_add(one, v);
    v16 y = v16_add(v16_log(u), v16_div(v16_sub(v, v16_sub(u, one)), u));
    return v16_select(v16_gt(x, v16_set1(FORE_SOFTPLUS_LINEAR)), x, y);
}

FORE_INLINE v16 v16_erf(v16 x) {
    v16 t = v16_abs(x), s = v16_mul(x, x);
    v16 a = v16_fma(v16_set1(FORE_ERF_A6), s, v16_set1(FORE_ERF_A5));
    a = v16_fma(a, s, v16_set1(FORE_ERF_A4));
    a = v16_fma(a, s, v16_set1(FORE_ERF_A3));
    a = v16_fma(a, s, v16_set1(FORE_ERF_A2));
    a = v16_fma(a, s, v16_set1(FORE_ERF_A1));
    a = v16_fma(a, s, v16_set1(FORE_ERF_A0));
    a = v16_fma(a, x, x);
    v16 four = v16_set1(4.0f), c = v16_select(v16_gt(t, four), four, t);
    v16 b = v16_fma(v16_set1(FORE_ERF_B6), c, v16_set1(FORE_ERF_B5));
    b = v16_fma(b, c, v16_set1(FORE_ERF_B4));
    b = v16_fma(b, c, v16_set1(FORE_ERF_B3));
    b = v16_fma(b, c, v16_set1(FORE_ERF_B2));
    b = v16_fma(b, c, v16_set1(FORE_ERF_B1));
    b = v16_fma(b, c, v16_set1(FORE_ERF_B0));
    b = v16_sign_of(v16_sub(v16_set1(1.0f), v16_exp(b)), x);
    return v16_select(v16_lt(t, v16_set1(1.0f)), a, b);
}

FORE_INLINE v16 v16_gelu_tanh(v16 x) {
    v16 u = v16_fma(v16_mul(v16_set1(FORE_GELU_CUBIC), x), v16_mul(x, x), x);
    return v16_div(x, v16_one_plus_exp(v16_mul(v16_set1(FORE_GELU_MINUS_2C), u)));
}

FORE_INLINE v16 v16_gelu_erf(v16 x) {
    v16 e = v16_erf(v16_mul(x, v16_set1(FORE_SQRT_HALF)));
    return v16_mul(v16_mul(v16_set1(0.5f), x), v16_add(v16_set1(1.0f), e));
}

#endif
