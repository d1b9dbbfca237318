/* Rotary angles; see rope.h. Angles are f32 products, as the reference computes them. */
#include "model/rope.h"

#include "kernels/kern.h"

static int axis_of(const fore_text_config *text, int i) {
    const int *section = text->mrope_section;
    if (text->mrope_blocks) return i < section[0] ? 0 : i < section[0] + section[1] ? 1 : 2;
    if (i % 3 == 1 && i < 3 * section[1]) return 1;
    if (i % 3 == 2 && i < 3 * section[2]) return 2;
    return 0;
}

static double inverse_frequency(double theta, int dim, int i) {
    return 1.0 / fore_pow(theta, 2.0 * i / dim);
}

void fore_rope_text_frequencies(const fore_text_config *text, float *inv_freq) {
    const fore_rope_scaling *s = &text->rope_scaling;
    double width = s->high == s->low ? 0.001 : s->high - s->low;
    for (int i = 0; i < text->rotary_dim / 2; i++) {
        double f = inverse_frequency(text->rope_theta, text->rotary_dim, i), ramp = s->blend ? (i - s->low) / width : 1;
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        inv_freq[i] = (float)(f / s->factor * ramp + f * (1 - ramp));
    }
}

void fore_rope_patch_frequencies(double theta, int dim, float *inv_freq) {
    for (int i = 0; i < dim / 2; i++) inv_freq[i] = (float)inverse_frequency(theta, dim, i);
}

void fore_rope_text(const fore_text_config *text, const float *inv_freq, const int32_t *const positions[3], int T, float *cos, float *sin) {
    int half = text->rotary_dim / 2;
    float attention = (float)text->rope_scaling.attention;
    for (int t = 0; t < T; t++)
        for (int i = 0; i < half; i++) {
            size_t at = (size_t)t * (size_t)half + (size_t)i;
            fore_sincosf((float)positions[axis_of(text, i)][t] * inv_freq[i], &sin[at], &cos[at]);
            sin[at] *= attention;
            cos[at] *= attention;
        }
}

void fore_rope_patch(const float *inv_freq, int count, int row, int column, float *cos, float *sin) {
    for (int i = 0; i < count; i++) {
        fore_sincosf((float)row * inv_freq[i], &sin[i], &cos[i]);
        fore_sincosf((float)column * inv_freq[i], &sin[count + i], &cos[count + i]);
    }
}
