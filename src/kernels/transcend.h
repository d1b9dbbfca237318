/* Scalar transcendentals beyond those of kern.h. */
#ifndef FORE_KERNELS_TRANSCEND_H
#define FORE_KERNELS_TRANSCEND_H

float fore_erff(float x);      /* absolute error below 1.2e-7 */
float fore_log1p_expf(float x); /* log(1 + exp(x)), x <= FORE_SOFTPLUS_LINEAR */
float fore_gelu_tanhf(float x); /* 0.5x(1 + tanh u) = x / (1 + exp(-2u)): the same function, without the cancellation */
float fore_gelu_erff(float x);

#endif
