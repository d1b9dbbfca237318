/* Quantised checkpoints in MLX's layout of the kinds beside models/tiny: Qwen3-VL, Qwen3-VL-MoE, Qwen3-MoE, Qwen3-Next, Qwen3.5-MoE
 * and the text class of Qwen3.5, with bits
 * and groups of every module's own, routers and stacked experts among them, and a draft head in a file with bits of its own. Every
 * weight is what MLX's rule gives, and the model computes what the reference does with these weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sodium.h>

#include "decode/model.h"
#include "support/golden.h"

#define MLX FORE_DATA "/mlx/"

static const struct {
    const char *name;
    int matrices; /* with a digest, a stack of experts counting once */
} cases[] = {{"vl_mixed", 49}, {"vl_moe_mixed", 42}, {"next_mixed", 42}, {"moe_mixed", 74}, {"qwen3_moe_mixed", 46}, {"text_mixed", 39}};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct opened {
    fore_network network;
    fore_mtp mtp;
} opened;

static void open_dir(opened *o, const char *dir) {
    fore_error err = {0};
    const fore_kern *kern;
    if (fore_kern_get(NULL, &kern, &err) || fore_network_open(dir, kern, NULL, &o->network, &err)) fail_msg("%s: %s", dir, err.text);
    if (fore_mtp_open(dir, &o->network, NULL, NULL, &o->mtp, &err)) fail_msg("%s: %s", dir, err.text);
}

static void close_opened(opened *o) {
    fore_mtp_close(&o->mtp);
    fore_network_close(&o->network);
}

typedef struct part {
    const char *name;
    size_t at;
} part;

static bool find_part(const part *parts, size_t count, const char *name, size_t *at) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(parts[i].name, name)) {
            *at = parts[i].at;
            return true;
        }
    return false;
}
#define FIND(parts, name, at) find_part(parts, sizeof parts / sizeof *parts, name, at)

/* The matrix, or the stack of experts' matrices, of a module by its Hugging Face name. */
typedef struct found {
    const fore_weight *one;
    const fore_experts *stack;
} found;

#define PART(n, field) {n, offsetof(fore_layer, field)}
static const part matrices[] = {
    PART("self_attn.q_proj", q_proj), PART("self_attn.k_proj", k_proj), PART("self_attn.v_proj", v_proj), PART("self_attn.o_proj", o_proj),
    PART("linear_attn.in_proj_qkvz", in_proj_qkvz), PART("linear_attn.in_proj_ba", in_proj_ba), PART("linear_attn.in_proj_qkv", in_proj_qkv),
    PART("linear_attn.in_proj_z", in_proj_z), PART("linear_attn.in_proj_a", in_proj_a), PART("linear_attn.in_proj_b", in_proj_b),
    PART("linear_attn.out_proj", out_proj), PART("mlp.gate", router), PART("mlp.shared_expert_gate", shared_gate),
    PART("mlp.gate_proj", gate_proj), PART("mlp.up_proj", up_proj), PART("mlp.down_proj", down_proj),
    PART("mlp.shared_expert.gate_proj", gate_proj), PART("mlp.shared_expert.up_proj", up_proj), PART("mlp.shared_expert.down_proj", down_proj),
};
enum { MATRICES = sizeof matrices / sizeof *matrices - 3 /* without those that are named twice */ };
static const part stacks[] = {PART("mlp.switch_mlp.gate_proj", expert_gate), PART("mlp.switch_mlp.up_proj", expert_up),
                              PART("mlp.switch_mlp.down_proj", expert_down)};
static const part block_parts[] = {{"attn.qkv", offsetof(fore_tower_block, qkv)}, {"attn.proj", offsetof(fore_tower_block, proj)},
                                   {"mlp.linear_fc1", offsetof(fore_tower_block, fc1)}, {"mlp.linear_fc2", offsetof(fore_tower_block, fc2)}};
static const part merger_parts[] = {{"linear_fc1", offsetof(fore_merger, fc1)}, {"linear_fc2", offsetof(fore_merger, fc2)}};

static found find_in_layer(const fore_layer *l, const char *name) {
    size_t at;
    if (FIND(stacks, name, &at)) return (found){NULL, (const fore_experts *)(const void *)((const char *)l + at)};
    if (FIND(matrices, name, &at)) return (found){(const fore_weight *)(const void *)((const char *)l + at), NULL};
    fail_msg("%s: which one is it?", name);
    return (found){0};
}

static const fore_weight *find_in_tower(const fore_tower *t, const char *name) {
    int i, used = 0;
    size_t at;
    if (!strcmp(name, "pos_embed")) return &t->pos_embed;
    if (sscanf(name, "blocks.%d.%n", &i, &used) == 1 && FIND(block_parts, name + used, &at))
        return (const fore_weight *)(const void *)((const char *)&t->blocks[i] + at);
    if (sscanf(name, "deepstack_merger_list.%d.%n", &i, &used) == 1 && FIND(merger_parts, name + used, &at))
        return (const fore_weight *)(const void *)((const char *)&t->deepstack[i] + at);
    if (!strncmp(name, "merger.", 7) && FIND(merger_parts, name + 7, &at)) return (const fore_weight *)(const void *)((const char *)&t->merger + at);
    fail_msg("%s: which one is it?", name);
    return NULL;
}

static found find_module(const opened *o, const char *name) {
    static const char *const prefixes[] = {"model.language_model.", "model.visual.", "mtp.", "model.", ""};
    size_t p = 0;
    while (strncmp(name, prefixes[p], strlen(prefixes[p]))) p++;
    const char *rest = name + strlen(prefixes[p]);
    int i, used = 0;
    if (p == 1) return (found){find_in_tower(&o->network.tower, rest), NULL};
    if (p == 2) assert_true(o->mtp.attached);
    if (p == 2 && !strcmp(rest, "fc")) return (found){&o->mtp.fc, NULL};
    if (!strcmp(rest, "embed_tokens")) return (found){&o->network.embed, NULL};
    if (!strcmp(rest, "lm_head")) return (found){&o->network.lm_head, NULL};
    if (sscanf(rest, "layers.%d.%n", &i, &used) != 1) fail_msg("%s", name);
    return find_in_layer(p == 2 ? &o->mtp.layers[i] : &o->network.layers[i], rest + used);
}

static void add_matrix(const opened *o, const fore_weight *w, crypto_generichash_state *h) {
    float *row = malloc((size_t)w->K * sizeof *row);
    for (int n = 0; n < w->N; n++) {
        fore_weight_row(o->network.kern, w, n, row);
        for (int k = 0; k < w->K; k++) row[k] += 0.0f; /* no negative zeros */
        crypto_generichash_update(h, (const unsigned char *)row, (size_t)w->K * sizeof *row);
    }
    free(row);
}

static void test_weights(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        char dir[128], path[160];
        snprintf(dir, sizeof dir, MLX "%s", cases[i].name);
        snprintf(path, sizeof path, "%s/golden.safetensors", dir);
        golden g;
        opened o;
        golden_open(&g, path);
        open_dir(&o, dir);
        int count = 0;
        const fore_tensor *t;
        for (size_t k = 0; (t = fore_tensors_at(g.file, k)); k++) {
            if (strncmp(t->name, "digest.", 7)) continue;
            uint8_t digest[32];
            crypto_generichash_state h;
            crypto_generichash_init(&h, NULL, 0, 32);
            const found f = find_module(&o, t->name + 7);
            if (f.one) add_matrix(&o, f.one, &h);
            for (int e = 0; f.stack && e < o.network.config.text.num_experts; e++) {
                const fore_weight w = fore_expert_at(f.stack, e);
                add_matrix(&o, &w, &h);
            }
            crypto_generichash_final(&h, digest, 32);
            if (memcmp(digest, t->data, 32)) fail_msg("%s: %s differs", path, t->name);
            count++;
        }
        assert_int_equal(count, cases[i].matrices);
        close_opened(&o);
        golden_close(&g);
    }
}

/* The head's file is read by its own bits: in memory the same number of rows takes another size than the body's. */
static void test_head_apart(void **state) {
    (void)state;
    opened o;
    open_dir(&o, MLX "moe_mixed");
    assert_true(o.mtp.attached && o.mtp.sidecar && o.mtp.norms_absolute && o.network.norms_absolute);
    assert_non_null(strstr(o.mtp.source, "mtp/weights.safetensors"));
    const fore_layer *head = &o.mtp.layers[0], *full = NULL;
    for (int i = 0; i < o.network.config.text.num_hidden_layers; i++)
        if (o.network.layers[i].full) full = &o.network.layers[i];
    assert_non_null(full);
    assert_int_equal(full->k_proj.bits, 4); /* 2 in the file */
    assert_int_equal(full->k_proj.group, 32);
    assert_int_equal(head->k_proj.bits, 8);
    assert_int_equal(head->k_proj.group, 64);
    assert_int_equal(head->q_proj.bits, 4);
    assert_int_equal(o.mtp.contract.quant_bits, 8);
    close_opened(&o);
}

/* Quantised matrices replaced by their weights in floats: then inputs are not rounded to 8 bits. The memory lives to the end. */
enum { MOST = 1024 };
static float *widened_memory[MOST];
static int widened_count;

static float *take(size_t n) {
    assert_true(widened_count < MOST);
    float *y = malloc(n * sizeof *y);
    assert_non_null(y);
    return widened_memory[widened_count++] = y;
}

static void widen_rows(const fore_kern *kern, const fore_weight *w, float *y) {
    for (int n = 0; n < w->N; n++) fore_weight_row(kern, w, n, y + (size_t)n * (size_t)w->K);
}

static void widen(const fore_kern *kern, fore_weight *w) {
    if (!w->bits) return;
    float *y = take((size_t)w->N * (size_t)w->K);
    widen_rows(kern, w, y);
    *w = (fore_weight){.data = y, .dtype = FORE_DTYPE_F32, .N = w->N, .K = w->K};
}

static void widen_stack(const fore_kern *kern, fore_experts *x, int E) {
    if (!x->first.bits) return;
    size_t n = (size_t)x->first.N * (size_t)x->first.K;
    float *y = take((size_t)E * n);
    for (int e = 0; e < E; e++) {
        const fore_weight w = fore_expert_at(x, e);
        widen_rows(kern, &w, y + (size_t)e * n);
    }
    *x = (fore_experts){.first = {.data = y, .dtype = FORE_DTYPE_F32, .N = x->first.N, .K = x->first.K}, .stride = n * sizeof *y};
}

static fore_weight *weight_at(void *object, const part *p) { return (fore_weight *)(void *)((char *)object + p->at); }

static void widen_merger(const fore_kern *kern, fore_merger *m) {
    for (size_t k = 0; k < 2; k++) widen(kern, weight_at(m, &merger_parts[k]));
}

static void widen_all(fore_network *n) {
    const fore_config *c = &n->config;
    widen(n->kern, &n->embed);
    widen(n->kern, &n->lm_head);
    for (int i = 0; i < c->text.num_hidden_layers; i++) {
        for (size_t k = 0; k < MATRICES; k++) widen(n->kern, weight_at(&n->layers[i], &matrices[k]));
        for (size_t k = 0; k < 3; k++)
            widen_stack(n->kern, (fore_experts *)(void *)((char *)&n->layers[i] + stacks[k].at), c->text.num_experts);
    }
    if (!c->has_vision) return;
    widen(n->kern, &n->tower.pos_embed);
    for (int i = 0; i < c->vision.depth; i++)
        for (size_t k = 0; k < 4; k++) widen(n->kern, weight_at(&n->tower.blocks[i], &block_parts[k]));
    widen_merger(n->kern, &n->tower.merger);
    for (int i = 0; i < c->vision.deepstack_count; i++) widen_merger(n->kern, &n->tower.deepstack[i]);
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How far the middle one of the rows is away, as a share of its size: where a router's choice is close, rounded inputs may take another
 * expert, which changes some rows a lot. */
static double middle_error(const golden *g, const char *name, const float *ours, size_t rows, size_t cols) {
    enum { ROWS = 256 };
    double each[ROWS];
    const float *reference = golden_f32(g, name, rows * cols);
    assert_true(rows <= ROWS);
    for (size_t r = 0; r < rows; r++) {
        double error = 0, size = 0;
        for (size_t i = r * cols; i < (r + 1) * cols; i++) {
            error += pow((double)ours[i] - (double)reference[i], 2);
            size += pow((double)reference[i], 2);
        }
        each[r] = sqrt(error / size);
    }
    qsort(each, rows, sizeof *each, compare_doubles);
    print_message("%s: %s: rows are %.2g to %.2g away, the middle one %.2g\n", g->path, name, each[0], each[rows - 1], each[rows / 2]);
    return each[rows / 2];
}

/* exact: with floats, within the trunk's tolerance; else as it is. */
static void check_trace(int i, const char *isa, bool exact) {
    char dir[128], path[160];
    snprintf(dir, sizeof dir, MLX "%s", cases[i].name);
    snprintf(path, sizeof path, "%s/golden.safetensors", dir);
    golden g;
    golden_open(&g, path);
    fore_error err = {0};
    fore_model *model;
    fore_session *session = NULL;
    fore_trace *t;
    const fore_model_options options = {.isa = isa};
    if (fore_model_open(dir, &options, &model, &err)) fail_msg("%s", err.text);
    if (exact) widen_all(&model->network);
    if (fore_session_new(model, NULL, &session, &err)) fail_msg("%s", err.text);
    fore_request r;
    fore_request_init(&r, model);
    r.id_count = golden_count(golden_find(&g, "input_ids"));
    r.ids = golden_i32(&g, "input_ids", r.id_count);
    fore_image images[4] = {{0}};
    const fore_tensor *grid = golden_find(&g, "image_grid_thw");
    if (grid) {
        r.images = images;
        r.image_count = golden_count(grid) / 3;
        assert_true(r.image_count >= 1 && r.image_count <= 4);
        const int32_t *grids = golden_i32(&g, "image_grid_thw", 3 * r.image_count);
        const float *pixels = golden_f32(&g, "pixel_values", golden_count(golden_find(&g, "pixel_values")));
        for (size_t k = 0; k < r.image_count; k++) {
            images[k] = (fore_image){.patches = pixels, .grid = {grids[3 * k], grids[3 * k + 1], grids[3 * k + 2]}};
            pixels += (size_t)grids[3 * k] * (size_t)grids[3 * k + 1] * (size_t)grids[3 * k + 2] * 1536;
        }
    }
    if (fore_session_trace(session, &r, &t, &err)) fail_msg("%s: %s", dir, err.text);
    size_t S = r.id_count, C = (size_t)t->hidden, V = (size_t)t->vocab;
    if (exact) {
        golden_compare(&g, "final_norm", t->final_hidden, S * C, 1e-4);
        golden_compare(&g, "logits", t->logits, S * V, 1e-4);
        print_message("%s with floats: largest difference %.2g of the tensor's largest value (%s)\n", path, g.worst, g.worst_name);
    } else {
        /* One or two per cent mostly; four where a small random network makes more of the rounding. */
        assert_true(middle_error(&g, "final_norm", t->final_hidden, S, C) <= 0.06);
        assert_true(middle_error(&g, "logits", t->logits, S, V) <= 0.06);
    }
    fore_trace_free(t);
    fore_session_free(session);
    fore_model_close(model);
    golden_close(&g);
    while (widened_count) free(widened_memory[--widened_count]);
}

static void test_trace(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) check_trace(i, NULL, true);
}

static void test_trace_quantised(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) check_trace(i, NULL, false);
    for (int i = 0; i < CASES; i++) check_trace(i, "ref", false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_head_apart),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_trace_quantised),
    };
    return cmocka_run_group_tests_name("golden/mlx_mixed", tests, NULL, NULL);
}
