/* Stretched rotary embeddings: frequencies and attention factors equal those of the reference's functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/rope.h"

static void test_frequencies(void **state) {
    (void)state;
    fore_error err = {0};
    fore_arena arena = {0};
    cJSON *top = NULL;
    if (fore_json_read(FORE_DATA "/rope/rope.json", 1 << 24, &top, &err)) fail_msg("%s", err.text);
    int cases = 0;
    for (const cJSON *c = fore_json_get(top, "cases")->child; c; c = c->next, cases++) {
        fore_config config;
        char *text = cJSON_PrintUnformatted(fore_json_get(c, "config"));
        if (fore_config_parse(text, strlen(text), "config.json", &arena, &config, &err)) fail_msg("%s: %s", text, err.text);
        float got[64];
        const cJSON *expected = fore_json_get(c, "inv_freq");
        assert_int_equal(cJSON_GetArraySize(expected), config.text.rotary_dim / 2);
        assert_true(config.text.rotary_dim <= 128);
        float attention = fore_rope_text_frequencies(&config.text, got);
        const cJSON *f = expected->child;
        for (int i = 0; f; i++, f = f->next) /* the reference's are rounded at each of up to five steps */
            if (!(fabs(got[i] - f->valuedouble) <= 1e-6 * f->valuedouble)) fail_msg("%s: frequency %d: %g, not %g", text, i, (double)got[i], f->valuedouble);
        assert_true(fabs((double)attention - fore_json_get(c, "attention")->valuedouble) < 1e-7);
        /* The angle of position 3 of the first frequency. */
        int32_t position[1] = {3};
        const int32_t *const axes[3] = {position, position, position};
        float cosines[64], sines[64];
        fore_rope_text(&config.text, got, attention, axes, 1, cosines, sines);
        assert_true(fabs(cosines[0] - cos(3.0 * got[0]) * (double)attention) < 1e-6);
        assert_true(fabs(sines[0] - sin(3.0 * got[0]) * (double)attention) < 1e-6);
        free(text);
    }
    assert_int_equal(cases, 78);
    cJSON_Delete(top);
    fore_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_frequencies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
