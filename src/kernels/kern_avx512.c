/* The AVX-512 sets: without VNNI (F, BW, DQ, VL), with it, and with AMX, whose own entries are in mm_avx512vnni.c and
 * mm_amx.c. 32 registers of 16 lanes. Tile sizes keep accumulators, widened weights and one input in registers. */
#include "kernels/v16_avx512.h"
#include "kernels/v16_math.h"

#define V16_MM_DIRECT(X) X(1, 8) X(2, 8) X(3, 8) X(4, 6) X(5, 4) X(6, 4) X(7, 3) X(8, 3)
#define V16_MM_TILED(X) X(1) X(2) X(3) X(4) X(5) X(6)
enum { V16_MM_STREAM_ROWS = 8, V16_MM_FEW = 12, V16_MM_ROWS = 6, V16_MM_WIDE = 4 };

#define V16_SCORE_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
enum { V16_SCORE_ROWS = 12, V16_SCORE_PANELS = 2 };
#define V16_VALUE_ROW_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define V16_VALUE_CASES(X) X(1) X(2) X(3) X(4)
enum { V16_VALUE_ROWS = 6, V16_VALUE_CHUNKS = 4 };
enum { V16_DELTA_COLUMNS = 4 };

#define V16_MMQ_FEW(X) X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 2) X(6, 2) X(7, 1) X(8, 1)
enum { V16_MMQ_STREAM_ROWS = 8, V16_MMQ_DIRECT = 16, V16_MMQ_ROWS = 6, V16_MMQ_PANELS = 2 };
#define V16_MMQ_TILED(X) X(1) X(2) X(3) X(4) X(5) X(6)

#include "kernels/v16_elementwise.h"
#include "kernels/v16_norm.h"
#include "kernels/v16_matmul.h"
#include "kernels/v16_across.h"
#include "kernels/v16_attend.h"
#include "kernels/v16_delta.h"
#include "kernels/v16_quantize.h"
#include "kernels/v16_matmul_quant.h"

#include "kernels/sets.h"
#include "kernels/v16_set.h"

const fore_kern fore_kern_avx512 = {V16_SET("avx512", v16_mm_q4, v16_mm_q8)};
const fore_kern fore_kern_avx512vnni = {V16_SET("avx512vnni", fore_mm_q4_avx512vnni, fore_mm_q8_avx512vnni)};
const fore_kern fore_kern_amx = {V16_SET("amx", fore_mm_q4_amx, fore_mm_q8_amx)};
