/* Accuracy of the transcendentals against libm's long double. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/kern.h"
#include "kernels/transcend.h"

/* |got - want| in units of the last place of want. */
static double ulps(float got, long double want) {
    float rounded = (float)want;
    double ulp = fabs((double)(nextafterf(rounded, INFINITY) - rounded));
    if (ulp < 0x1p-149) ulp = 0x1p-149;
    return (double)fabsl(((long double)got - want) / (long double)ulp);
}

typedef float one(float x);
typedef long double exact(long double x);

static double worst(one *f, exact *g, float from, float to, int steps) {
    double most = 0;
    for (int i = 0; i <= steps; i++) {
        float x = (float)((double)from + ((double)to - (double)from) * i / steps);
        double e = ulps(f(x), g(x));
        if (!(e <= most)) most = e;
    }
    return most;
}

static double worst_absolute(one *f, exact *g, float from, float to, int steps) {
    double most = 0;
    for (int i = 0; i <= steps; i++) {
        float x = (float)((double)from + ((double)to - (double)from) * i / steps);
        double e = (double)fabsl((long double)f(x) - g(x));
        if (!(e <= most)) most = e;
    }
    return most;
}

static void below(double error, double limit, const char *what) {
    print_message("%s: %.4g (limit %.4g)\n", what, error, limit);
    assert_true(error <= limit);
}

static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double silu(long double x) { return x / (1 + expl(-x)); }
static long double softplus(long double x) { return log1pl(expl(x)); }
static long double gelu_tanh(long double x) {
    return 0.5L * x * (1 + tanhl(sqrtl(2 / 3.14159265358979323846264338327950288L) * (x + 0.044715L * x * x * x)));
}
static long double gelu_erf(long double x) { return 0.5L * x * (1 + erfl(x / sqrtl(2))); }

static void exponential(void **state) {
    (void)state;
    below(worst(fore_expf, expl, -87.3365f, 88.7228f, 400000), 1.0, "exp, ulp");
    below(worst(fore_expf, expl, -0.4f, 0.4f, 100000), 1.0, "exp near 0, ulp");
    assert_true(fore_expf(0.0f) == 1.0f && fore_expf(-0.0f) == 1.0f && fore_expf(0x1p-149f) == 1.0f);
    assert_true(fore_expf(0x1.62e42ep+6f) <= FLT_MAX && fore_expf(0x1.62e430p+6f) == INFINITY);
    assert_true(fore_expf(-0x1.5d589ep+6f) >= FLT_MIN && fore_expf(-0x1.5d58a0p+6f) == 0.0f);
    assert_true(fore_expf(INFINITY) == INFINITY && fore_expf(FLT_MAX) == INFINITY);
    assert_true(fore_expf(-INFINITY) == 0.0f && fore_expf(-FLT_MAX) == 0.0f);
    assert_true(isnan(fore_expf(NAN)));
    float last = 0;
    for (float x = -88; x < 89; x += 0x1p-10f) { /* never falls where steps are far above an ulp */
        float y = fore_expf(x);
        assert_true(y >= last);
        last = y;
    }
}

static void logarithm(void **state) {
    (void)state;
    below(worst(fore_logf, logl, 0.5f, 2.0f, 400000), 1.0, "log near 1, ulp");
    below(worst(fore_logf, logl, 2.0f, 1e5f, 200000), 1.0, "log, ulp");
    double most = 0;
    for (float x = FLT_MIN; x < 1e38f; x *= 1.0009f) most = fmax(most, ulps(fore_logf(x), logl(x)));
    below(most, 1.0, "log over the range, ulp");
    assert_true(fore_logf(1.0f) == 0.0f);
}

static void gates(void **state) {
    (void)state;
    below(worst(fore_sigmoidf, sigmoid, -87, 40, 300000), 2.5, "sigmoid, ulp");
    below(worst(fore_siluf, silu, -80, 40, 300000), 2.5, "silu, ulp");
    assert_true(fore_sigmoidf(-INFINITY) == 0.0f && fore_sigmoidf(INFINITY) == 1.0f && fore_sigmoidf(0.0f) == 0.5f);
    assert_true(fore_siluf(-200.0f) == 0.0f && fore_siluf(200.0f) == 200.0f);
    below(worst(fore_softplusf, softplus, -80, 20, 300000), 2.5, "softplus, ulp");
    assert_true(fore_softplusf(20.5f) == 20.5f && fore_softplusf(-INFINITY) == 0.0f && isnan(fore_softplusf(NAN)));
    assert_true(fore_softplusf(INFINITY) == INFINITY);
}

static void gelus(void **state) {
    (void)state;
    below(worst_absolute(fore_erff, erfl, -6, 6, 300000), 1.2e-7, "erf, absolute");
    below(worst(fore_erff, erfl, -0.999f, 0.999f, 100000), 1.5, "erf near 0, ulp");
    assert_true(fore_erff(INFINITY) == 1.0f && fore_erff(-9.0f) == -1.0f && isnan(fore_erff(NAN)));
    assert_true(fore_erff(0.0f) == 0.0f && signbit(fore_erff(-0.0f)));
    below(worst_absolute(fore_gelu_erff, gelu_erf, -4, 4, 100000), 5e-7, "gelu erf, absolute");
    below(worst_absolute(fore_gelu_tanhf, gelu_tanh, -4, 4, 100000), 5e-7, "gelu tanh, absolute");
    assert_true(fore_gelu_tanhf(50.0f) == 50.0f && fore_gelu_tanhf(-50.0f) == 0.0f);
}

static void angles(void **state) {
    (void)state;
    double most = 0;
    for (int i = 0; i < 300000; i++) {
        float x = i < 100000 ? (float)i * 1e-4f : (float)(i - 100000) * 83.8859f;
        float s, c;
        fore_sincosf(i & 1 ? x : -x, &s, &c);
        long double a = i & 1 ? x : -x;
        most = fmax(most, fmax(ulps(s, sinl(a)), ulps(c, cosl(a))));
    }
    below(most, 0.51, "sin and cos, ulp");
    float s, c;
    fore_sincosf(0.0f, &s, &c);
    assert_true(s == 0.0f && c == 1.0f);
}

static void powers(void **state) {
    (void)state;
    long double most = 0;
    for (int i = 0; i < 20000; i++) {
        double base = exp((i % 401 - 200) * 0.31), exponent = (i % 997 - 498) * 0.0219;
        long double want = powl(base, exponent);
        if (!(want < 1e300L && want > 1e-300L)) continue;
        most = fmaxl(most, fabsl((long double)fore_pow(base, exponent) / want - 1));
    }
    for (int i = 0; i < 128; i++) /* rotary frequencies */
        most = fmaxl(most, fabsl((long double)fore_pow(1e7, -i / 128.0) / powl(1e7L, -i / 128.0L) - 1));
    below((double)most, 1e-15, "pow, relative");
    assert_true(fore_pow(10, 3) == 1000 && fore_pow(7, 0) == 1 && fore_pow(2, -1) == 0.5 && fore_pow(1, 1e9) == 1);
    assert_true(fore_pow(10, 400) == (double)INFINITY && fore_pow(10, -400) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exponential), cmocka_unit_test(logarithm),
                                       cmocka_unit_test(gates),       cmocka_unit_test(gelus),
                                       cmocka_unit_test(angles),      cmocka_unit_test(powers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
