/* What the vector files share: v16 is 16 floats, one contract lane each, whatever registers hold them. v16_ISA.h
 * defines the type and its operations for one instruction set; the v16_*.h bodies are written over them and included
 * once by kern_ISA.c, so that everything here is static: no vector code escapes into another file.
 *
 * Operations: v16_zero, v16_set1(f), v16_load(p), v16_store(p, v), v16_add, sub, mul, div, fma(a, b, c) = a*b + c,
 * v16_max(a, b) = a > b ? a : b; v16_load_n(p, n), v16_store_n(p, v, n): the first n of 16 (others 0 or left), touching
 * nothing beyond; v16_keep_n(v, n): others 0; v16_abs, v16_neg, v16_sign_of(a, s): |a| with the sign of s;
 * masks v16m: v16_gt, lt, eq, v16_nan(a), v16_select(m, a, b) = m ? a : b, v16_any(m), v16_first(m);
 * v16_scale2(p, s): adds the low bits of s to p's exponent; v16_split(x, &e, &m): the logarithm's exponent and
 * mantissa; v16_load_{f32,bf16,f16}(p) and _n from bytes of any alignment; v16_fold(v), v16_fold_max(v);
 * v16_fold_many(v, count, out): out[i] = v16_fold(v[i]), for whole groups at once. */
#ifndef FORE_KERNELS_V16_H
#define FORE_KERNELS_V16_H

#include <stdint.h>

#define FORE_INLINE static inline __attribute__((always_inline))
/* Loops over registers must be unrolled completely, or the registers become memory. */
#ifdef __clang__
#define FORE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FORE_UNROLL _Pragma("GCC unroll 32")
#endif
/* Asks for the line `bytes` after p; the address may lie behind the array, where asking does nothing. */
#define FORE_PREFETCH(p, bytes) __builtin_prefetch((const void *)((uintptr_t)(p) + (bytes)))

#endif
