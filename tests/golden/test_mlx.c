/* A quantised checkpoint in MLX's layout against the reference implementation with the weights that the quantised ones stand
 * for. Ours also rounds the inputs of quantised layers to 8 bits, which the limits leave room for: they are shares of the
 * root of the mean square. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "support/golden.h"

#define QUANTISED FORE_DATA "/quantised/"

static void near(const golden *g, const char *name, const float *ours, size_t count, double limit) {
    const float *reference = golden_f32(g, name, count);
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)ours[i] - (double)reference[i], 2);
        size += pow((double)reference[i], 2);
    }
    double share = sqrt(error / size);
    print_message("%s: %s: %.2g\n", g->path, name, share);
    if (!(share <= limit)) fail_msg("%s: %s is %g away from the reference", g->path, name, share);
}

static void check(const char *id, const char *isa) {
    fore_error err = {0};
    fore_model *model;
    fore_session *session;
    fore_trace *t;
    golden g;
    char path[256];
    snprintf(path, sizeof path, QUANTISED "%s.safetensors", id);
    golden_open(&g, path);
    const fore_model_options options = {.isa = isa};
    if (fore_model_open(QUANTISED "model", &options, &model, &err) || fore_session_new(model, NULL, &session, &err)) fail_msg("%s", err.text);
    fore_request r;
    fore_request_init(&r, model);
    size_t S = golden_count(golden_find(&g, "seq")), count = golden_count(golden_find(&g, "grid")) / 3;
    const int32_t *grid = golden_i32(&g, "grid", 3 * count);
    const float *pixels = golden_f32(&g, "pixel_values", golden_count(golden_find(&g, "pixel_values")));
    fore_image images[4] = {{0}};
    assert_true(count >= 1 && count <= 4);
    for (size_t i = 0; i < count; i++) {
        images[i].patches = pixels;
        for (int k = 0; k < 3; k++) images[i].grid[k] = grid[3 * i + (size_t)k];
        pixels += (size_t)grid[3 * i] * (size_t)grid[3 * i + 1] * (size_t)grid[3 * i + 2] * 1536;
    }
    r.ids = golden_i32(&g, "seq", S);
    r.id_count = S;
    r.images = images;
    r.image_count = count;
    if (fore_session_trace(session, &r, &t, &err)) fail_msg("%s: %s", id, err.text);
    assert_int_equal(t->tokens, S);
    near(&g, "embeds", t->embeddings, S * (size_t)t->hidden, 0.01);
    near(&g, "hidden_post_norm", t->final_hidden, S * (size_t)t->hidden, 0.02);
    near(&g, "logits", t->logits, S * (size_t)t->vocab, 0.02);
    fore_trace_free(t);
    fore_session_free(session);
    fore_model_close(model);
    golden_close(&g);
}

static void test_traces(void **state) {
    (void)state;
    check("s00", NULL);
    check("s06", NULL);
    check("s00", "ref");
}

/* What is packed counts as what it stands for. */
static void test_parameters(void **state) {
    (void)state;
    fore_error err = {0};
    fore_model *models[2];
    fore_model_info info[2];
    const char *const folders[2] = {"models/tiny", QUANTISED "model"};
    for (int i = 0; i < 2; i++) {
        if (fore_model_open(folders[i], NULL, &models[i], &err)) fail_msg("%s", err.text);
        fore_model_get_info(models[i], &info[i]);
    }
    assert_int_equal(info[0].text_parameters, info[1].text_parameters);
    assert_int_equal(info[0].vision_parameters, info[1].vision_parameters);
    assert_int_equal(info[0].mtp_parameters, info[1].mtp_parameters);
    assert_true(info[1].mtp_attached && strstr(info[1].mtp_source, "norms absolute"));
    assert_true(info[1].weight_bytes < info[0].weight_bytes * 55 / 100);
    for (int i = 0; i < 2; i++) fore_model_close(models[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_parameters),
    };
    return cmocka_run_group_tests_name("golden/mlx", tests, NULL, NULL);
}
