/* Constants of the transcendentals, shared by the scalar definition (transcend.c) and its vector twin (v16_math.h).
 * Polynomials are minimax fits on the named interval, rounded to f32; [0] is the constant term. */
#ifndef FORE_KERNELS_TRANSCEND_CONST_H
#define FORE_KERNELS_TRANSCEND_CONST_H

/* exp: x = n ln 2 + r, |r| <= ln(2)/2; exp(r) = 1 + r + r^2 Q(r). */
#define FORE_LOG2E 0x1.715476p+0f
#define FORE_LN2_HI 0x1.62e430p-1f
#define FORE_LN2_LO -0x1.05c610p-29f
#define FORE_ROUND_MAGIC 0x1.8p+23f   /* adding it rounds to an integer that the low bits of the sum then hold */
#define FORE_EXP_OVER 0x1.62e42ep+6f  /* the largest x with a finite exp */
#define FORE_EXP_UNDER -0x1.5d589ep+6f /* the smallest x with a normal exp: below it the result is 0 */
#define FORE_EXP_0 0x1.fffffcp-2f
#define FORE_EXP_1 0x1.555490p-3f
#define FORE_EXP_2 0x1.5558f6p-5f
#define FORE_EXP_3 0x1.123abap-7f
#define FORE_EXP_4 0x1.6a22cep-10f

/* log: x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt 2); log(1 + f) = f - f^2/2 + f^3 L(f). */
#define FORE_SQRT_HALF_BITS 0x3f3504f3
#define FORE_LOG_0 0x1.555548p-2f
#define FORE_LOG_1 -0x1.000006p-2f
#define FORE_LOG_2 0x1.99a4b6p-3f
#define FORE_LOG_3 -0x1.555c4ep-3f
#define FORE_LOG_4 0x1.233766p-3f
#define FORE_LOG_5 -0x1.fc2210p-4f
#define FORE_LOG_6 0x1.e6f094p-4f
#define FORE_LOG_7 -0x1.de3bf2p-4f
#define FORE_LOG_8 0x1.145724p-4f

/* erf: |x| < 1: x + x A(x^2); 1 <= |x| <= 4: 1 - exp(B(|x|)); beyond 4 it is 1 in f32. */
#define FORE_ERF_A0 0x1.06eba8p-3f
#define FORE_ERF_A1 -0x1.81273ep-2f
#define FORE_ERF_A2 0x1.ce2cf8p-4f
#define FORE_ERF_A3 -0x1.b7f90cp-6f
#define FORE_ERF_A4 0x1.5405b0p-8f
#define FORE_ERF_A5 -0x1.a3f6f8p-11f
#define FORE_ERF_A6 0x1.496a20p-14f
#define FORE_ERF_B0 -0x1.72e6aap-12f
#define FORE_ERF_B1 -0x1.2085b2p+0f
#define FORE_ERF_B2 -0x1.46c584p-1f
#define FORE_ERF_B3 -0x1.a60a84p-4f
#define FORE_ERF_B4 0x1.654224p-6f
#define FORE_ERF_B5 -0x1.814ce0p-9f
#define FORE_ERF_B6 0x1.852d52p-13f

#define FORE_SQRT_HALF 0x1.6a09e6p-1f
#define FORE_GELU_CUBIC 0x1.6e4e26p-5f    /* 0.044715 */
#define FORE_GELU_MINUS_2C -0x1.988454p+0f /* -2 sqrt(2/pi) */

#define FORE_SOFTPLUS_LINEAR 20.0f /* above it softplus(x) = x */

#endif
