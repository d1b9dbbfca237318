/* Comparing models; see alike.h. */
#include "support/alike.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "checkpoint/gguf_model.h"

opened alike_open(const char *path, const char *mmproj) {
    opened o = {0};
    fore_error err = {0};
    const fore_kern *kern;
    fore_load load = {0};
    bool is_gguf = false;
    if (fore_gguf_is_model(path, &is_gguf, &err) || fore_kern_get(NULL, &kern, &err) ||
        (is_gguf && fore_gguf_model_open(path, mmproj, &load.gguf, &err)) || fore_network_open(path, kern, &load, &o.n, &err) ||
        fore_mtp_open(path, &o.n, NULL, &load, &o.mtp, &err))
        fail_msg("%s: %s", path, err.text);
    fore_gguf_model_close(load.gguf);
    return o;
}

void alike_close(opened *o) {
    fore_mtp_close(&o->mtp);
    fore_network_close(&o->n);
}

static void same_vector(const alike *p, const char *what, const float *a, const float *b, size_t n) {
    assert_int_equal(a != NULL, b != NULL);
    for (size_t i = 0; a && i < n; i++)
        if (a[i] != b[i]) fail_msg("%s: %s: number %zu is %a, in the checkpoint %a", p->name, what, i, (double)b[i], (double)a[i]);
}

static void same_matrix(alike *p, const char *what, const fore_weight *a, const fore_weight *b) {
    const fore_kern *kern;
    assert_int_equal(fore_kern_get(NULL, &kern, NULL), FORE_OK);
    assert_int_equal(a->data != NULL, b->data != NULL);
    if (!a->data) return;
    if (a->N != b->N || a->K != b->K) fail_msg("%s: %s: [%d,%d] and [%d,%d]", p->name, what, a->N, a->K, b->N, b->K);
    float *x = malloc((size_t)a->K * sizeof *x), *y = malloc((size_t)a->K * sizeof *y);
    for (int r = 0; r < a->N; r++) {
        fore_weight_row(kern, a, r, x);
        fore_weight_row(kern, b, r, y);
        double error = 0, size = 0;
        for (int k = 0; k < a->K; k++) {
            error += pow((double)x[k] - (double)y[k], 2);
            size += pow((double)x[k], 2);
        }
        if (error > p->most * p->most * size) fail_msg("%s: %s: row %d differs (%g of %g)", p->name, what, r, sqrt(error), sqrt(size));
    }
    free(x);
    free(y);
    p->matrices++;
    p->quantised += b->bits != 0;
}

static void same_layer(alike *p, const fore_text_config *t, const fore_layer *a, const fore_layer *b) {
    size_t C = (size_t)t->hidden_size, D = (size_t)t->head_dim, nv = (size_t)t->linear_num_value_heads;
    assert_int_equal(a->full, b->full);
    same_vector(p, "input norm", a->input_norm, b->input_norm, C);
    same_vector(p, "post norm", a->post_norm, b->post_norm, C);
    same_vector(p, "q norm", a->q_norm, b->q_norm, D);
    same_vector(p, "k norm", a->k_norm, b->k_norm, D);
    same_matrix(p, "q", &a->q_proj, &b->q_proj);
    same_matrix(p, "k", &a->k_proj, &b->k_proj);
    same_matrix(p, "v", &a->v_proj, &b->v_proj);
    same_matrix(p, "o", &a->o_proj, &b->o_proj);
    if (!a->full) {
        same_vector(p, "conv", a->conv, b->conv, (size_t)t->linear_conv_kernel_dim * fore_linear_channels(t));
        same_vector(p, "dt bias", a->dt_bias, b->dt_bias, nv);
        same_vector(p, "gated norm", a->gated_norm, b->gated_norm, (size_t)t->linear_value_head_dim);
        for (size_t h = 0; h < nv; h++)
            assert_true(fabs((double)a->neg_exp_A[h] - (double)b->neg_exp_A[h]) <= p->decay * fabs((double)a->neg_exp_A[h]));
        same_matrix(p, "out", &a->out_proj, &b->out_proj);
        if (a->in_proj_qkvz.data && b->in_proj_qkvz.data) {
            same_matrix(p, "qkvz", &a->in_proj_qkvz, &b->in_proj_qkvz);
            same_matrix(p, "ba", &a->in_proj_ba, &b->in_proj_ba);
        } else if (!a->in_proj_qkvz.data) {
            same_matrix(p, "qkv", &a->in_proj_qkv, &b->in_proj_qkv);
            same_matrix(p, "z", &a->in_proj_z, &b->in_proj_z);
            same_matrix(p, "b", &a->in_proj_b, &b->in_proj_b);
            same_matrix(p, "a", &a->in_proj_a, &b->in_proj_a);
        }
    }
    same_matrix(p, "gate", &a->gate_proj, &b->gate_proj);
    same_matrix(p, "up", &a->up_proj, &b->up_proj);
    same_matrix(p, "down", &a->down_proj, &b->down_proj);
    assert_int_equal(a->moe, b->moe);
    if (!a->moe) return;
    assert_int_equal(a->number, b->number);
    same_matrix(p, "router", &a->router, &b->router);
    same_matrix(p, "shared gate", &a->shared_gate, &b->shared_gate);
    for (int e = 0; e < t->num_experts; e++) {
        const fore_experts *const kinds[2][3] = {{&a->expert_gate, &a->expert_up, &a->expert_down}, {&b->expert_gate, &b->expert_up, &b->expert_down}};
        for (int k = 0; k < 3 && !kinds[0][k]->across; k++) {
            fore_weight x = fore_expert_at(kinds[0][k], e), y = fore_expert_at(kinds[1][k], e);
            same_matrix(p, "an expert", &x, &y);
        }
    }
}

static void same_tower(alike *p, const fore_vision_config *v, const fore_tower *a, const fore_tower *b) {
    size_t C = (size_t)v->hidden_size;
    same_matrix(p, "patches", &a->patch_embed, &b->patch_embed);
    same_matrix(p, "positions", &a->pos_embed, &b->pos_embed);
    same_vector(p, "patch bias", a->patch_b, b->patch_b, C);
    for (int i = 0; i < v->depth; i++) {
        const fore_tower_block *x = &a->blocks[i], *y = &b->blocks[i];
        same_vector(p, "norm1", x->norm1_w, y->norm1_w, C);
        same_vector(p, "norm2 bias", x->norm2_b, y->norm2_b, C);
        same_vector(p, "qkv bias", x->qkv_b, y->qkv_b, 3 * C);
        same_matrix(p, "vision qkv", &x->qkv, &y->qkv);
        same_matrix(p, "vision proj", &x->proj, &y->proj);
        same_matrix(p, "vision fc1", &x->fc1, &y->fc1);
        same_matrix(p, "vision fc2", &x->fc2, &y->fc2);
    }
    for (int i = -1; i < v->deepstack_count; i++) {
        const fore_merger *x = i < 0 ? &a->merger : &a->deepstack[i], *y = i < 0 ? &b->merger : &b->deepstack[i];
        same_matrix(p, "merger fc1", &x->fc1, &y->fc1);
        same_matrix(p, "merger fc2", &x->fc2, &y->fc2);
        same_vector(p, "merger norm", x->norm_w, y->norm_w, x->wide ? 4 * C : C);
        same_vector(p, "merger bias", x->fc2_b, y->fc2_b, (size_t)v->out_hidden_size);
    }
}

void alike_compare(alike *p, const opened *a, const opened *b) {
    p->matrices = p->quantised = 0;
    const fore_text_config *t = &a->n.config.text;
    fore_text_config left = *t, right = b->n.config.text;
    assert_int_equal(left.rotary_dim, right.rotary_dim);
    assert_true(left.rope_theta == right.rope_theta && left.rms_norm_eps == right.rms_norm_eps);
    assert_memory_equal(left.mrope_section, right.mrope_section, sizeof left.mrope_section);
    assert_int_equal(left.tie_word_embeddings, right.tie_word_embeddings);
    assert_int_equal(left.norm_topk_prob, right.norm_topk_prob);
    assert_int_equal(left.max_position_embeddings, right.max_position_embeddings);
    same_matrix(p, "embedding", &a->n.embed, &b->n.embed);
    same_matrix(p, "head", &a->n.lm_head, &b->n.lm_head);
    same_vector(p, "norm", a->n.norm, b->n.norm, (size_t)t->hidden_size);
    for (int i = 0; i < t->num_hidden_layers; i++) same_layer(p, t, &a->n.layers[i], &b->n.layers[i]);
    assert_int_equal(a->n.config.has_vision, b->n.config.has_vision);
    if (a->n.config.has_vision) {
        assert_int_equal(a->n.config.image_token_id, b->n.config.image_token_id);
        assert_int_equal(a->n.config.vision_start_token_id, b->n.config.vision_start_token_id);
        same_tower(p, &a->n.config.vision, &a->n.tower, &b->n.tower);
        assert_int_equal(a->n.vision_parameters, b->n.vision_parameters);
    }
    assert_int_equal(a->n.text_parameters, b->n.text_parameters);
    assert_int_equal(a->mtp.attached, b->mtp.attached);
    if (a->mtp.attached) {
        same_matrix(p, "fc", &a->mtp.fc, &b->mtp.fc);
        same_vector(p, "draft norm", a->mtp.norm, b->mtp.norm, (size_t)t->hidden_size);
        same_vector(p, "draft norm of the embedding", a->mtp.norm_embedding, b->mtp.norm_embedding, (size_t)t->hidden_size);
        same_vector(p, "draft norm of the hidden state", a->mtp.norm_hidden, b->mtp.norm_hidden, (size_t)t->hidden_size);
        same_layer(p, &a->mtp.text, &a->mtp.layers[0], &b->mtp.layers[0]);
    }
}
