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
 * v16_load_{u8,i8}(p): 16 whole numbers in bytes;
 * v16_fold_many(v, count, out): out[i] = v16_fold(v[i]), for whole groups at once.
 *
 * For quantised products, v16i is 16 int32, lane i belongs to the bytes 4i to 4i+3 of the 64 bytes in a v16b:
 * v16i_zero, v16_of_int(i); v16b_load(p), v16b_store(p, b), v16b_low(b), v16b_high(b): the low and high half of every
 * byte; v16b_same4(p): the 4 bytes at p in every lane; v16_store_bytes(p, v): 16 integers in -127 .. 127.
 * v16h holds 16-bit partial sums: v16h_zero, v16h_add_products(h, w, x): products of w in 0 .. 15 and x in -127 .. 127,
 * at most 8 times before v16i_add_sums(i, h, times): i += times * (sum of the lane's partial sums), times 1 or 16. */
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
/* Memory may have changed: what was loaded before is not kept in registers. */
#define V16_FENCE() __asm__ volatile("" : : : "memory")
/* Asks for the line `bytes` after p; the address may lie behind the array, where asking does nothing. */
#define FORE_PREFETCH(p, bytes) __builtin_prefetch((const void *)((uintptr_t)(p) + (bytes)))
/* The same, into the second cache. */
#define FORE_PREFETCH_FAR(p, bytes) __builtin_prefetch((const void *)((uintptr_t)(p) + (bytes)), 0, 2)

#endif
