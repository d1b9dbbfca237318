/* Golden tensors; see golden.h. */
#include "support/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

void golden_open(golden *g, const char *path) {
    *g = (golden){.path = path};
    fore_error err = {0};
    if (fore_tensors_open(path, &g->file, &err)) fail_msg("%s", err.text);
}

void golden_close(golden *g) { fore_tensors_close(g->file); }

const fore_tensor *golden_find(const golden *g, const char *name) { return fore_tensors_get(g->file, name); }

size_t golden_count(const fore_tensor *t) {
    size_t n = 1;
    for (int i = 0; i < t->dims; i++) n *= (size_t)t->shape[i];
    return n;
}

static const void *find(const golden *g, const char *name, const char *dtype, size_t count) {
    const fore_tensor *t = golden_find(g, name);
    if (!t) fail_msg("%s: no tensor %s", g->path, name);
    if (strcmp(t->dtype, dtype) || golden_count(t) != count)
        fail_msg("%s: %s: %s of %zu elements, wanted %s of %zu", g->path, name, t->dtype, golden_count(t), dtype, count);
    if ((uintptr_t)t->data % 4) fail_msg("%s: %s: not aligned", g->path, name);
    return t->data;
}

const float *golden_f32(const golden *g, const char *name, size_t count) { return find(g, name, "F32", count); }

const int32_t *golden_i32(const golden *g, const char *name, size_t count) { return find(g, name, "I32", count); }

void golden_compare(golden *g, const char *name, const float *ours, size_t count, double tolerance) {
    const float *reference = golden_f32(g, name, count);
    double largest = 0, worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        double d = fabs((double)ours[i] - (double)reference[i]);
        if (!(d <= worst)) {
            worst = d;
            at = i;
        }
        if (fabs((double)reference[i]) > largest) largest = fabs((double)reference[i]);
    }
    if (!(worst <= tolerance * largest))
        fail_msg("%s: %s[%zu]: ours %.9g, reference %.9g, |difference| %.3g > %.0e * %.4g", g->path, name, at, (double)ours[at],
                 (double)reference[at], worst, tolerance, largest);
    if (largest > 0 && worst / largest > g->worst) {
        g->worst = worst / largest;
        snprintf(g->worst_name, sizeof g->worst_name, "%s", name);
    }
}
