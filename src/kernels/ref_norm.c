/* Scalar reference of the norms; see ref.h. */
#include <math.h>

#include "kernels/ref.h"

static float sum_lanes(const float *x, int C) {
    float lane[FORE_LANES] = {0};
    for (int c = 0; c < C; c++) lane[c % FORE_LANES] += x[c];
    for (int c = C; c % FORE_LANES; c++) lane[c % FORE_LANES] += 0.0f;
    return fore_ref_fold(lane);
}

static float sum_squares(const float *x, float mean, int C) { /* lanes16 of (x - mean)^2 */
    float lane[FORE_LANES] = {0};
    for (int c = 0; c < C; c++) {
        float d = x[c] - mean;
        lane[c % FORE_LANES] = fmaf(d, d, lane[c % FORE_LANES]);
    }
    for (int c = C; c % FORE_LANES; c++) lane[c % FORE_LANES] = fmaf(0.0f, 0.0f, lane[c % FORE_LANES]);
    return fore_ref_fold(lane);
}

void fore_ref_rms_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *gain, int T, int C, float eps) {
    for (int t = 0; t < T; t++, x += ldx, y += ldy) {
        float r = 1.0f / sqrtf(sum_squares(x, 0.0f, C) / (float)C + eps);
        for (int c = 0; c < C; c++) y[c] = (x[c] * r) * gain[c];
    }
}

void fore_ref_layer_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *w, const float *b, int T, int C,
                         float eps) {
    for (int t = 0; t < T; t++, x += ldx, y += ldy) {
        float mean = sum_lanes(x, C) / (float)C;
        float r = 1.0f / sqrtf(sum_squares(x, mean, C) / (float)C + eps);
        for (int c = 0; c < C; c++) y[c] = fmaf((x[c] - mean) * r, w[c], b[c]);
    }
}

void fore_ref_l2_norm(float *y, size_t ldy, const float *x, size_t ldx, int T, int C, float eps, float scale) {
    for (int t = 0; t < T; t++, x += ldx, y += ldy) {
        float r = (1.0f / sqrtf(sum_squares(x, 0.0f, C) + eps)) * scale;
        for (int c = 0; c < C; c++) y[c] = x[c] * r;
    }
}

void fore_ref_gated_rms_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *z, size_t ldz,
                             const float *w, int T, int C, float eps) {
    for (int t = 0; t < T; t++, x += ldx, y += ldy, z += ldz) {
        float r = 1.0f / sqrtf(sum_squares(x, 0.0f, C) / (float)C + eps);
        for (int c = 0; c < C; c++) y[c] = ((x[c] * r) * w[c]) * fore_siluf(z[c]);
    }
}
