/* See heads.h. */
#include "support/heads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

static bool is_trunk(const char *name) { return strncmp(name, "mtp.", 4) != 0; }

void head_take(scratch *s, bool declared) {
    host_link(TINY, s);
    unlink(scratch_path(s, "model.safetensors"));
    host_tensors(s, "model.safetensors", is_trunk, NULL);
    if (declared) return;
    cJSON *c = host_config(s->dir);
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(c, "text_config"), "mtp_num_hidden_layers");
    unlink(scratch_path(s, "config.json"));
    host_put_config(s, "config.json", c);
    cJSON_Delete(c);
}

static float of_bf16(uint16_t v) {
    uint32_t u = (uint32_t)v << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

void head_write(const scratch *s, const char *name, bool (*gains)(const char *name)) {
    fore_tensor_file *f;
    fore_tensor list[16];
    static float values[16][256];
    size_t n = 0;
    const fore_tensor *t;
    assert_int_equal(fore_tensors_open(TINY "/model.safetensors", &f, NULL), FORE_OK);
    for (size_t i = 0; (t = fore_tensors_at(f, i)); i++) {
        if (is_trunk(t->name)) continue;
        list[n] = *t;
        if (t->dims == 1) {
            for (size_t k = 0; k < t->shape[0]; k++) {
                uint16_t v;
                memcpy(&v, (const char *)t->data + 2 * k, 2);
                values[n][k] = of_bf16(v) + (gains(t->name) ? 1.0f : 0.0f);
            }
            list[n].dtype = "F32";
            list[n].data = values[n];
        }
        n++;
    }
    assert_int_equal(n, 15);
    assert_int_equal(fore_tensors_write(scratch_path(s, name), list, n, NULL), FORE_OK);
    fore_tensors_close(f);
}
