/* The quantised format: affine, 4 or 8 bits, groups of 32, 64 or 128 neighbours along K, with 8 bits also of 16:
 * w = scale * q + bias with q in 0 .. 2^bits - 1. Knows bytes, not models.
 *
 * Scales and biases are BF16, F16 or F32, or products that f32 holds exactly:
 *   U8  groups of 32: scale = step * u, bias = base * v; u and v are bytes, step and base f16, one for 256 neighbours
 *   I8  8 bits, groups of 16: scale = step * u, bias = base * u, where u is a signed byte
 *
 * Stored form (that of MLX checkpoints), all little-endian, any alignment:
 *   q       [N, K*bits/32] uint32: weight k of a row is bits (k*bits) % 32 up of word k*bits/32
 *   scales, biases [N, K/group] of the dtype; U8, I8: [N, K/256] of the step or base and the bytes of 256/group groups
 *           (with I8 those in the biases are not read)
 *
 * Panel form, which the kernels stream; lanes are outputs. ceil(N/16) panels follow each other, panel p for the outputs
 * 16p .. 16p+15, outputs past N all zero. In a panel the groups are in order, each a head and its weights, with U8 and I8
 * a head for 256/group of them and then the weights of each. A head is
 *   scale[16], bias[16]; U8, I8: step[16], base[16], u[256/group][16], and with U8 v[256/group][16]: 320 bytes
 * and a group's weights are
 *   4 bits: for each 8 neighbours k.. along K, 64 bytes: byte 4*lane + j = q[k+j] | q[k+4+j] << 4, j < 4
 *   8 bits: for each 4 neighbours k.. along K, 64 bytes: byte 4*lane + j = q[k+j], j < 4
 * so that everything begins at a multiple of 64 bytes. */
#ifndef FORE_KERNELS_QUANT_H
#define FORE_KERNELS_QUANT_H

#include "kernels/kern.h"

/* Counts up whenever the panel form changes, so that panels kept in files are made again. */
enum { FORE_PANEL_FORM = 2 };

/* Checks a shape (bits, group, dtype of the scales, N and K >= 1, group divides K, 256 does with U8 and I8) and tells its
 * bytes in panel form.
 * FORE_ERR_UNSUPPORTED or FORE_ERR_LIMIT (too large to count) with a message; *size is then 0. */
fore_status fore_qweight_check(int bits, int group, int64_t N, int64_t K, fore_dtype dtype, size_t *size, fore_error *err);
/* Bytes of the panels of a checked shape; also of those before row N of a matrix, where N is a multiple of 16. */
size_t fore_qweight_bytes(const fore_qweight *w);
/* Bytes of the stored form of a checked shape: of q, and of scales or biases each. */
size_t fore_qweight_stored_q(const fore_qweight *w);
size_t fore_qweight_stored_affine(const fore_qweight *w);

/* Stored form to panels; w has a checked shape, its `panels` are not read. Writes all bytes of `panels`. */
void fore_qweight_pack(const fore_qweight *w, void *panels, const void *q, const void *scales, const void *biases);
/* The same for the panels p0 <= p < p1 of the fore_qweight_panels(w) there are, so that threads can share a matrix: the
 * pointers are those of the whole, and only these panels' bytes are written. */
void fore_qweight_pack_panels(const fore_qweight *w, void *panels, const void *q, const void *scales, const void *biases,
                              int p0, int p1);
int fore_qweight_panels(const fore_qweight *w);
/* Rows of a matrix [N,K] (f32, f16 or bf16, little-endian, any alignment) to the stored form of w's shape, whose scales are of
 * 16 bits, by MLX's rule: with
 * low and high of the group, edge = the one farther from 0 (high on a tie),
 *   scale = max((high - low) / (2^bits - 1), 1e-7), positive when the edge is low, else negative;
 *   z = round(edge / scale); z != 0: scale = edge / z, bias = edge; z == 0: bias = 0;
 * both are rounded to dtype, and q = round((w - bias) / scale) of the rounded ones (0 for scale 0), kept in range. All in
 * f32, ties to even. FORE_ERR_FORMAT where a weight is not finite or a scale or bias is too large for dtype. */
fore_status fore_quantize_rows(const fore_qweight *w, void *q, void *scales, void *biases, fore_dtype source,
                               const void *rows, fore_error *err);
/* The same form with less error, for several times the work: the rule's scale and bias of a group, or better ones (by least
 * squares, over ranges that leave out the weights at the ends). Worth it at 4 bits. */
fore_status fore_quantize_rows_fitted(const fore_qweight *w, void *q, void *scales, void *biases, fore_dtype source,
                                      const void *rows, fore_error *err);

/* One weight of panels, and one group's scale and bias, widened exactly. */
int fore_qweight_q(const fore_qweight *w, int n, int k);
void fore_qweight_affine(const fore_qweight *w, int n, int group, float *scale, float *bias);
/* Row m of `from` becomes row n of `panels`, whose matrix has the same bits, group, K and dtype. */
void fore_qweight_copy_row(const fore_qweight *from, int m, void *panels, int n);
/* row[k] = fma(scale, q, bias) for k < K */
void fore_qweight_dequantize(const fore_qweight *w, int n, float *row);
/* The same of one group alone. */
void fore_qweight_dequantize_group(const fore_qweight *w, int n, int group, float *out);

#endif
