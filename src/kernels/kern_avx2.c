/* The AVX2 set (with FMA and F16C): 16 registers of 8 lanes, so that six accumulators of 16 lanes fill twelve of them. */
#include "kernels/v16_avx2.h"
#include "kernels/v16_math.h"

#define V16_MM_DIRECT(X) X(1, 6) X(2, 2) X(3, 2)
#define V16_MM_TILED(X) X(1) X(2) X(3)
enum { V16_MM_STREAM_ROWS = 3, V16_MM_FEW = 8, V16_MM_ROWS = 3, V16_MM_WIDE = 2 };

#define V16_SCORE_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
enum { V16_SCORE_ROWS = 6, V16_SCORE_PANELS = 1 };
#define V16_VALUE_ROW_CASES(X) X(1) X(2) X(3)
#define V16_VALUE_CASES(X) X(1) X(2)
enum { V16_VALUE_ROWS = 3, V16_VALUE_CHUNKS = 2 };
enum { V16_DELTA_COLUMNS = 1 };

#define V16_MMQ_FEW(X) X(1, 4) X(2, 2) X(3, 1) X(4, 1)
enum { V16_MMQ_STREAM_ROWS = 4, V16_MMQ_DIRECT = 8, V16_MMQ_ROWS = 4, V16_MMQ_PANELS = 1 };
#define V16_MMQ_TILED(X) X(1) X(2) X(3) X(4)

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

const fore_kern fore_kern_avx2 = {V16_SET("avx2", v16_mm_q4, v16_mm_q8)};
