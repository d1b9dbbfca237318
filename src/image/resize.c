/* Target size and resampling as the reference processor's torchvision backend has them, bit for bit: bicubic (a = -0.5)
 * with antialias on 8 bits, in fixed point, horizontal first, the result of the first pass rounded to 8 bits. A pass
 * whose size does not change is skipped. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "image/formats.h"

static const double ASPECT_MAX = 200;

/* Python's round(n / factor) * factor: halves go to the even neighbour (48 at 32 gives 64, 80 too). */
static double nearest_multiple(int n, int factor) { return rint((double)n / factor) * factor; }

fore_status fore_smart_resize(int height, int width, int factor, int64_t min_pixels, int64_t max_pixels, int *out_height,
                              int *out_width, fore_error *err) {
    if (height < 1 || width < 1 || factor < 1 || min_pixels < 1 || max_pixels < 1)
        return fore_fail(err, FORE_ERR_INVALID,
                         "image: cannot fit %dx%d pixels to multiples of %d and an area from %lld to %lld", width, height,
                         factor, (long long)min_pixels, (long long)max_pixels);
    int longer = height > width ? height : width, shorter = height > width ? width : height;
    if ((double)longer / shorter > ASPECT_MAX)
        return fore_fail(err, FORE_ERR_LIMIT, "image: %dx%d pixels: one side is more than %g times the other; crop the picture",
                         width, height, ASPECT_MAX);
    double h = nearest_multiple(height, factor), w = nearest_multiple(width, factor); /* whole numbers below 2^33 */
    double area = (double)height * width;
    if (h * w > (double)max_pixels) {
        double beta = sqrt(area / (double)max_pixels);
        h = fmax(factor, floor(height / beta / factor) * factor);
        w = fmax(factor, floor(width / beta / factor) * factor);
    } else if (h * w < (double)min_pixels) {
        double beta = sqrt((double)min_pixels / area);
        h = ceil(height * beta / factor) * factor;
        w = ceil(width * beta / factor) * factor;
    }
    if (h < 1 || w < 1 || h > INT_MAX || w > INT_MAX)
        return fore_fail(err, FORE_ERR_LIMIT, "image: %dx%d pixels would be resized to %.0fx%.0f, which cannot be", width,
                         height, w, h);
    *out_height = (int)h;
    *out_width = (int)w;
    return FORE_OK;
}

/* The weights of one axis: output i is the sum over j < count[i] of weight[i][j] * input[first[i] + j]. */
typedef struct axis {
    int out, taps; /* taps: room for the weights of one output */
    int precision; /* fractional bits of a weight */
    int *first, *count;
    int32_t *weight; /* [out,taps] */
} axis;

static void axis_free(axis *a) {
    free(a->first);
    free(a->count);
    free(a->weight);
}

static double cubic(double x) {
    x = fabs(x);
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * -0.5;
    return 0;
}

/* The double weights of output i into w; where they start and how many they are into the axis. */
static void axis_weights(axis *a, int i, int in, double *w) {
    double scale = (double)in / a->out, stretch = scale > 1 ? scale : 1, support = 2 * stretch;
    double center = (i + 0.5) * scale, inverse = 1 / stretch, sum = 0;
    int first = (int)(center - support + 0.5), end = (int)(center + support + 0.5);
    if (first < 0) first = 0;
    if (end > in) end = in;
    int n = end - first;
    for (int j = 0; j < n; j++) sum += w[j] = cubic((first + j - center + 0.5) * inverse);
    for (int j = 0; j < n && sum != 0; j++) w[j] /= sum;
    a->first[i] = first;
    a->count[i] = n;
}

/* As many fractional bits, 22 at most, as let the largest weight stay within 16 bits; 14 or 13 when enlarging. */
static int weight_precision(double largest) {
    int p = 0;
    while (p < 22 && (int)(0.5 + largest * (1 << (p + 1))) < 1 << 15) p++;
    return p;
}

/* The caller frees the axis, also on failure. */
static fore_status axis_new(axis *a, int in, int out, fore_error *err) {
    *a = (axis){.out = out};
    double stretch = in > out ? (double)in / out : 1;
    a->taps = (int)ceil(2 * stretch) * 2 + 2;
    size_t n = (size_t)out, taps = (size_t)a->taps;
    double *w = calloc(taps, sizeof *w);
    a->first = calloc(n, sizeof *a->first);
    a->count = calloc(n, sizeof *a->count);
    a->weight = calloc(n, taps * sizeof *a->weight);
    if (!w || !a->first || !a->count || !a->weight) {
        free(w);
        return fore_fail_nomem(err, "the weights of a resize");
    }
    double largest = 0;
    for (int i = 0; i < out; i++) {
        axis_weights(a, i, in, w);
        for (int j = 0; j < a->count[i]; j++) largest = w[j] > largest ? w[j] : largest;
    }
    a->precision = weight_precision(largest);
    for (int i = 0; i < out; i++) {
        axis_weights(a, i, in, w);
        int32_t *q = a->weight + (size_t)i * taps;
        for (int j = 0; j < a->count[i]; j++) q[j] = (int32_t)(w[j] * (1 << a->precision) + (w[j] < 0 ? -0.5 : 0.5));
    }
    free(w);
    return FORE_OK;
}

/* The sums stay within int32: normalised weights of this kernel add up to less than 1.3 in magnitude, so a sum is below
 * 1.3 * 255 * 2^22. */
static uint8_t to_byte(int32_t sum, int precision) {
    sum >>= precision;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* in [rows,in_width,3] to out [rows,a.out,3] */
static void resize_rows(const axis *a, const uint8_t *in, size_t in_width, size_t rows, uint8_t *out) {
    int32_t half = 1 << (a->precision - 1);
    for (size_t y = 0; y < rows; y++, in += in_width * 3)
        for (int i = 0; i < a->out; i++, out += 3) {
            const uint8_t *p = in + (size_t)a->first[i] * 3;
            const int32_t *w = a->weight + (size_t)i * (size_t)a->taps;
            int32_t r = half, g = half, b = half;
            for (int j = 0; j < a->count[i]; j++, p += 3) {
                r += w[j] * p[0];
                g += w[j] * p[1];
                b += w[j] * p[2];
            }
            out[0] = to_byte(r, a->precision);
            out[1] = to_byte(g, a->precision);
            out[2] = to_byte(b, a->precision);
        }
}

/* in: the input rows from row `top` on, [.,stride]; out [a.out,stride]; stride in bytes */
static void resize_columns(const axis *a, const uint8_t *in, int top, size_t stride, uint8_t *out) {
    enum { SPAN = 1024 }; /* bytes of a row that are summed at a time */
    int32_t sum[SPAN], half = 1 << (a->precision - 1);
    for (int i = 0; i < a->out; i++, out += stride) {
        const int32_t *w = a->weight + (size_t)i * (size_t)a->taps;
        for (size_t x0 = 0; x0 < stride; x0 += SPAN) {
            size_t n = stride - x0 < SPAN ? stride - x0 : SPAN;
            for (size_t x = 0; x < n; x++) sum[x] = half;
            for (int j = 0; j < a->count[i]; j++) {
                const uint8_t *p = in + (size_t)(a->first[i] - top + j) * stride + x0;
                int32_t wj = w[j];
                for (size_t x = 0; x < n; x++) sum[x] += wj * p[x];
            }
            for (size_t x = 0; x < n; x++) out[x0 + x] = to_byte(sum[x], a->precision);
        }
    }
}

fore_status fore_image_resize(const fore_pixels *in, int height, int width, fore_pixels *out, fore_error *err) {
    *out = (fore_pixels){0};
    if (!in->rgb || in->width < 1 || in->height < 1)
        return fore_fail(err, FORE_ERR_INVALID, "image: cannot resize %dx%d pixels", in->width, in->height);
    bool across = width != in->width, down = height != in->height;
    axis h = {0}, v = {0};
    fore_pixels middle = {0}; /* after the horizontal pass: only the rows that the vertical one reads */
    fore_status s = fore_pixels_new(width, height, out, err);
    if (!s && across) s = axis_new(&h, in->width, width, err);
    if (!s && down) s = axis_new(&v, in->height, height, err);
    if (s) goto done;
    int top = down ? v.first[0] : 0, bottom = down ? v.first[height - 1] + v.count[height - 1] : height;
    const uint8_t *rows = in->rgb + (size_t)top * (size_t)in->width * 3;
    if (across && down) {
        s = fore_pixels_new(width, bottom - top, &middle, err);
        if (s) goto done;
    }
    uint8_t *target = down ? middle.rgb : out->rgb;
    if (across) resize_rows(&h, rows, (size_t)in->width, (size_t)(bottom - top), target);
    if (down) resize_columns(&v, across ? middle.rgb : rows, top, (size_t)width * 3, out->rgb);
    if (!across && !down) memcpy(out->rgb, in->rgb, (size_t)width * (size_t)height * 3);
done:
    axis_free(&h);
    axis_free(&v);
    fore_pixels_free(&middle);
    if (s) fore_pixels_free(out);
    return s;
}
