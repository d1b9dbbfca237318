/* Scalar reference of the quantised products and of quantising rows; see ref.h. */
#include <math.h>

#include "kernels/quant.h"
#include "kernels/ref.h"

void fore_ref_quantize_rows(const fore_qrows *to, const float *x, size_t ldx, int T, int K, int group) {
    for (int t = 0; t < T; t++)
        for (int g = 0; g < K / group; g++) {
            const float *in = x + (size_t)t * ldx + (size_t)g * (size_t)group;
            int8_t *q = to->q + (size_t)t * to->row + (size_t)g * (size_t)group;
            float *scale = to->scale + (size_t)t * to->groups + g, *sum = to->sum + (size_t)t * to->groups + g, m = 0;
            bool finite = true;
            for (int k = 0; k < group; k++) {
                finite = finite && isfinite(in[k]);
                if (fabsf(in[k]) > m) m = fabsf(in[k]);
            }
            bool empty = !finite || m < 0x1p-100f;
            float factor = empty ? 0 : 127 / m;
            int total = 0;
            for (int k = 0; k < group; k++) {
                q[k] = (int8_t)(empty ? 0 : rintf(in[k] * factor));
                total += q[k];
            }
            *scale = finite ? empty ? 0 : m / 127 : NAN;
            *sum = (float)total * *scale;
        }
}

void fore_ref_mm_q(float *y, size_t ldy, const fore_qrows *x, const fore_qweight *W, int T, int n0, int n1) {
    for (int t = 0; t < T; t++)
        for (int n = n0; n < n1; n++) {
            float acc = 0;
            for (int g = 0; g < W->K / W->group; g++) {
                const int8_t *q = x->q + (size_t)t * x->row + (size_t)g * (size_t)W->group;
                size_t at = (size_t)t * x->groups + (size_t)g;
                float scale, bias;
                fore_qweight_affine(W, n, g, &scale, &bias);
                int dot = 0;
                for (int k = 0; k < W->group; k++) dot += fore_qweight_q(W, n, g * W->group + k) * q[k];
                acc = fmaf(scale * x->scale[at], (float)dot, acc);
                acc = fmaf(bias, x->sum[at], acc);
            }
            y[(size_t)t * ldy + (size_t)n] = acc;
        }
}
