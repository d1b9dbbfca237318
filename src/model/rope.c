/* Rotary angles; see rope.h. Angles are f32 products, as the reference computes them. */
#include "model/rope.h"

#include <math.h>

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

static double attention_of(double scale, double mscale) { return scale <= 1 ? 1 : 0.1 * mscale * fore_log(scale) + 1; }

/* The frequency, counted from the fastest, that turns so often within the length that the model was trained on. */
static double frequency_of(const fore_text_config *t, double turns) {
    double length = t->rope_scaling.original_max_position_embeddings;
    return t->rotary_dim * fore_log(length / (turns * 2 * 3.14159265358979323846)) / (2 * fore_log(t->rope_theta));
}

float fore_rope_text_frequencies(const fore_text_config *text, float *inv_freq) {
    const fore_rope_scaling *s = &text->rope_scaling;
    double low = 0, width = 1, usual = attention_of(s->factor, 1);
    if (s->yarn) {
        double high = frequency_of(text, s->beta_slow);
        low = frequency_of(text, s->beta_fast);
        if (s->truncate) low = floor(low), high = ceil(high);
        low = low > 0 ? low : 0;
        high = high < text->rotary_dim - 1 ? high : text->rotary_dim - 1;
        width = high == low ? 0.001 : high - low;
        if (s->mscale > 0 && s->mscale_all_dim > 0) usual = attention_of(s->factor, s->mscale) / attention_of(s->factor, s->mscale_all_dim);
    }
    for (int i = 0; i < text->rotary_dim / 2; i++) {
        double f = inverse_frequency(text->rope_theta, text->rotary_dim, i), ramp = s->yarn ? (i - low) / width : 1;
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        inv_freq[i] = (float)(f / s->factor * ramp + f * (1 - ramp)); /* before the ramp as it was, behind it divided */
    }
    return s->yarn ? (float)(s->attention_factor > 0 ? s->attention_factor : usual) : 1;
}

void fore_rope_patch_frequencies(double theta, int dim, float *inv_freq) {
    for (int i = 0; i < dim / 2; i++) inv_freq[i] = (float)inverse_frequency(theta, dim, i);
}

void fore_rope_text(const fore_text_config *text, const float *inv_freq, float attention, const int32_t *const positions[3], int T,
                    float *cos, float *sin) {
    int half = text->rotary_dim / 2;
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
