/* Prompts and timelines for tests; see timeline.h. */
#include "support/timeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

void prompt_open(prompt *p, const char *path) {
    *p = (prompt){0};
    golden_open(&p->g, path);
    p->n = golden_count(golden_find(&p->g, "input_ids"));
    p->ids = golden_i32(&p->g, "input_ids", p->n);
    static const char *const names[2][2] = {{"image_grid_thw", "pixel_values"}, {"video_grid_thw", "pixel_values_videos"}};
    for (int video = 0; video < 2; video++) {
        const fore_tensor *grid = golden_find(&p->g, names[video][0]);
        if (!grid) continue;
        size_t count = golden_count(grid) / 3, row = 0;
        *(video ? &p->video_count : &p->image_count) = count;
        const int32_t *grids = golden_i32(&p->g, names[video][0], count * 3);
        const fore_tensor *values = golden_find(&p->g, names[video][1]);
        const float *pixels = golden_f32(&p->g, names[video][1], golden_count(values));
        size_t width = (size_t)values->shape[values->dims - 1];
        for (size_t i = 0; i < count; i++) {
            memcpy(video ? p->videos[i].grid : p->images[i].grid, grids + 3 * i, 3 * sizeof(int));
            *(video ? &p->videos[i].patches : &p->images[i].patches) = pixels + row * width;
            row += (size_t)(grids[3 * i] * grids[3 * i + 1] * grids[3 * i + 2]);
        }
    }
}

void prompt_close(prompt *p) { golden_close(&p->g); }

void prompt_request(fore_request *r, const fore_model *model, const prompt *p) {
    fore_request_init(r, model);
    r->ids = p->ids;
    r->id_count = p->n;
    r->images = p->images;
    r->image_count = p->image_count;
    r->videos = p->videos;
    r->video_count = p->video_count;
}

unsigned char *timeline_bytes(const fore_session *s, size_t *size) {
    const fore_text_config *t = &s->model->network.config.text;
    size_t D = (size_t)t->head_dim, K = (size_t)t->num_key_value_heads, S = (size_t)s->state.length;
    *size = s->state.recurrent_bytes + (size_t)t->num_hidden_layers * 2 * K * S * D * sizeof(float);
    unsigned char *bytes = calloc(1, *size), *at = bytes;
    assert_non_null(bytes);
    for (int i = 0; i < t->num_hidden_layers; i++) {
        const fore_layer_state *l = &s->state.layers[i];
        if (l->S) {
            size_t n = (size_t)t->linear_num_value_heads * (size_t)t->linear_key_head_dim * (size_t)t->linear_value_head_dim;
            size_t m = ((size_t)t->linear_conv_kernel_dim - 1) *
                       (2 * (size_t)t->linear_num_key_heads * (size_t)t->linear_key_head_dim +
                        (size_t)t->linear_num_value_heads * (size_t)t->linear_value_head_dim);
            memcpy(at, l->S, n * sizeof(float));
            memcpy(at + n * sizeof(float), l->conv, m * sizeof(float));
            at += (n + m) * sizeof(float);
            continue;
        }
        for (size_t h = 0; h < K; h++)
            for (size_t j = 0; j < S; j++)
                for (size_t d = 0; d < D; d++, at += 2 * sizeof(float)) {
                    memcpy(at, &l->k[fore_state_key_at(&s->state, (int)D, (int)h, (int)j, (int)d)], sizeof(float));
                    memcpy(at + sizeof(float), &l->v[(h * (size_t)s->state.capacity + j) * D + d], sizeof(float));
                }
    }
    return bytes;
}
