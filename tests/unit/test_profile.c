/* What the measuring part of the header says: operators whose bytes, operations and calls are those of the model's shapes, whose
 * seconds fit into the clock's; timed passes and profiles that change nothing; what a machine is; what a model is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "decode/session.h"
#include "support/scratch.h"
#include "support/timeline.h"

#define TINY "models/tiny"
#define MOE  FORE_DATA "/moe/moe_bf16"

typedef struct subject {
    fore_model *model;
    fore_session *session;
} subject;

static subject open_subject(const char *dir, int threads, int context) {
    subject s = {0};
    fore_error err = {0};
    const fore_session_options o = {.threads = threads, .context = context};
    if (fore_model_open(dir, NULL, &s.model, &err) || fore_session_new(s.model, &o, &s.session, &err)) fail_msg("%s", err.text);
    return s;
}

static void close_subject(subject *s) {
    fore_session_free(s->session);
    fore_model_close(s->model);
}

static bool find(const fore_session *s, const char *name, fore_operator *out) {
    for (int i = 0; fore_session_get_operator(s, i, out); i++)
        if (strcmp(out->name, name) == 0) return true;
    return false;
}

static fore_operator get(const fore_session *s, const char *name) {
    fore_operator o;
    if (!find(s, name, &o)) fail_msg("no operator %s", name);
    return o;
}

enum { IDS = 21, TOKENS = 12 };

/* Begins with IDS token ids and says TOKENS tokens. */
static void answer(subject *s, int depth, int32_t *said, fore_stats *stats) {
    int32_t ids[IDS];
    for (int i = 0; i < IDS; i++) ids[i] = 10 + 7 * i;
    fore_error err = {0};
    fore_request r;
    fore_request_init(&r, s->model);
    r.ids = ids;
    r.id_count = IDS;
    r.max_tokens = TOKENS;
    r.ignore_eos = true;
    r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
    r.draft.depth = depth;
    if (fore_session_begin(s->session, &r, &err)) fail_msg("%s", err.text);
    fore_chunk c = {0};
    int n = 0;
    while (c.finish == FORE_FINISH_NONE) {
        if (fore_session_next(s->session, &c, &err)) fail_msg("%s", err.text);
        for (size_t i = 0; i < c.id_count; i++) said[n++] = c.ids[i];
    }
    assert_int_equal(n, TOKENS);
    fore_session_get_stats(s->session, stats);
}

static uint64_t bytes_of(const fore_weight *w) { return (uint64_t)w->N * (uint64_t)w->K * (w->dtype == FORE_DTYPE_F32 ? 4 : 2); }
static double operations_of(const fore_weight *w, int T) { return 2.0 * T * w->N * w->K; }

static void check_product(const fore_operator *o, uint64_t bytes, double operations) {
    if (o->weight_bytes != bytes || o->float_operations != operations || o->integer_operations != 0)
        fail_msg("%s: %llu bytes, %.0f operations; expected %llu, %.0f", o->name, (unsigned long long)o->weight_bytes, o->float_operations,
                 (unsigned long long)bytes, operations);
}

/* One answer without drafts: what its passes must have read and multiplied. */
static void test_counts(void **state) {
    (void)state;
    subject s = open_subject(TINY, 2, 128);
    const fore_network *n = &s.model->network;
    const fore_text_config *t = &n->config.text;
    fore_error err = {0};
    int32_t said[TOKENS];
    fore_stats stats;
    assert_int_equal(fore_session_profile(s.session, true, &err), FORE_OK);
    answer(&s, 0, said, &stats);
    int passes = 1 + (int)stats.rounds, rows = IDS + (int)stats.rounds, full = 0, linear = 0;
    assert_int_equal(stats.rounds, TOKENS - 1);
    uint64_t in = 0, out = 0, qkv = 0, o = 0, up = 0, down = 0;
    double in_ops = 0, out_ops = 0, qkv_ops = 0, o_ops = 0, up_ops = 0, down_ops = 0;
    for (int i = 0; i < t->num_hidden_layers; i++) {
        const fore_layer *l = &n->layers[i];
        if (l->full) {
            full++;
            qkv += bytes_of(&l->q_proj) + bytes_of(&l->k_proj) + bytes_of(&l->v_proj);
            qkv_ops += operations_of(&l->q_proj, rows) + operations_of(&l->k_proj, rows) + operations_of(&l->v_proj, rows);
            o += bytes_of(&l->o_proj), o_ops += operations_of(&l->o_proj, rows);
        } else {
            linear++;
            const fore_weight *const w[] = {&l->in_proj_qkv, &l->in_proj_z, &l->in_proj_b, &l->in_proj_a};
            for (int k = 0; k < 4; k++) in += bytes_of(w[k]), in_ops += operations_of(w[k], rows);
            out += bytes_of(&l->out_proj), out_ops += operations_of(&l->out_proj, rows);
        }
        up += bytes_of(&l->gate_proj) + bytes_of(&l->up_proj);
        up_ops += operations_of(&l->gate_proj, rows) + operations_of(&l->up_proj, rows);
        down += bytes_of(&l->down_proj), down_ops += operations_of(&l->down_proj, rows);
    }
    uint64_t times = (uint64_t)passes;
    fore_operator op = get(s.session, "in_proj");
    assert_int_equal(op.calls, passes * linear);
    check_product(&op, in * times, in_ops);
    op = get(s.session, "out_proj");
    check_product(&op, out * times, out_ops);
    op = get(s.session, "qkv");
    assert_int_equal(op.calls, passes * full);
    check_product(&op, qkv * times, qkv_ops);
    op = get(s.session, "o_proj");
    check_product(&op, o * times, o_ops);
    op = get(s.session, "gate_up");
    check_product(&op, up * times, up_ops);
    op = get(s.session, "down");
    check_product(&op, down * times, down_ops);
    op = get(s.session, "head"); /* of the prompt's last row, then of every pass */
    assert_int_equal(op.calls, passes);
    check_product(&op, bytes_of(&n->lm_head) * times, operations_of(&n->lm_head, passes));
    size_t elements = (size_t)t->linear_num_value_heads * (size_t)t->linear_key_head_dim * (size_t)t->linear_value_head_dim;
    op = get(s.session, "deltanet");
    assert_true(op.state_bytes == (uint64_t)(passes * linear) * elements * 2 * sizeof(float));
    assert_true(op.float_operations == 7.0 * (double)elements * rows * linear);
    assert_int_equal(get(s.session, "conv").calls, passes * linear);
    double keys = 0, key_rows = IDS;
    for (int i = 1; i <= rows; i++) keys += i;
    for (int i = IDS + 1; i <= rows; i++) key_rows += i;
    op = get(s.session, "attention");
    assert_true(op.float_operations == 4 * keys * t->num_attention_heads * t->head_dim * full);
    assert_true((double)op.state_bytes == key_rows * 2 * t->num_key_value_heads * t->head_dim * sizeof(float) * full);
    assert_int_equal(get(s.session, "sample").calls, TOKENS);
    assert_false(find(s.session, "mtp.head", &op));
    assert_false(find(s.session, "vision.qkv", &op));
    assert_false(find(s.session, "experts", &op));
    close_subject(&s);
}

/* With drafts and a picture: every part has its rows, in one order, and all seconds lie within the clock's. */
static void test_parts(void **state) {
    (void)state;
    subject s = open_subject(TINY, 2, 256);
    fore_error err = {0};
    char *data;
    size_t size;
    if (fore_file_read("tests/samples/s00.png", 1 << 24, &data, &size, &err)) fail_msg("%s", err.text);
    const fore_image image = {.data = data, .size = size};
    fore_request r;
    fore_request_init(&r, s.model);
    r.messages = "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"Describe the picture.\"}]}]";
    r.images = &image;
    r.image_count = 1;
    r.max_tokens = 30;
    r.draft.depth = 3;
    assert_int_equal(fore_session_profile(s.session, true, &err), FORE_OK);
    double began = fore_clock();
    if (fore_session_begin(s.session, &r, &err)) fail_msg("%s", err.text);
    for (fore_chunk c = {0}; c.finish == FORE_FINISH_NONE;)
        if (fore_session_next(s.session, &c, &err)) fail_msg("%s", err.text);
    double wall = fore_clock() - began, sum = 0;
    fore_stats stats;
    fore_session_get_stats(s.session, &stats);
    static const char *const parts[] = {"", "mtp.", "vision."};
    int part = 0, seen[3] = {0}, count = 0;
    fore_operator o, other;
    for (; fore_session_get_operator(s.session, count, &o); count++) {
        assert_true(o.seconds >= 0 && o.calls > 0);
        sum += o.seconds;
        int own = strncmp(o.name, "mtp.", 4) == 0 ? 1 : strncmp(o.name, "vision.", 7) == 0 ? 2 : 0;
        assert_true(own >= part);
        part = own;
        seen[part]++;
        for (int i = 0; i < count; i++) {
            assert_true(fore_session_get_operator(s.session, i, &other));
            assert_string_not_equal(other.name, o.name);
        }
    }
    for (int i = 0; i < 3; i++)
        if (seen[i] < 5) fail_msg("part '%s' has %d operators", parts[i], seen[i]);
    assert_false(fore_session_get_operator(s.session, count, &o));
    assert_false(fore_session_get_operator(s.session, -1, &o));
    if (!(sum <= wall)) fail_msg("operators take %g s of %g", sum, wall);
    double stages = stats.vision_seconds + stats.prefill_seconds + stats.decode_seconds + stats.sample_seconds;
    if (!(sum >= 0.5 * stages)) fail_msg("operators take %g s, the stages %g", sum, stages); /* what lies between them is little */
    uint64_t drafted = 0;
    for (int i = 0; i < FORE_DRAFT_MAX; i++) drafted += stats.draft[1].drafted[i];
    assert_true(get(s.session, "mtp.head").calls >= drafted && drafted > 0);
    assert_int_equal(get(s.session, "head").calls, stats.rounds + 1);
    assert_int_equal(get(s.session, "vision.merge").calls, 1);
    const fore_tower *tower = &s.model->network.tower;
    uint64_t bytes = 0;
    for (int i = 0; i < s.model->network.config.vision.depth; i++) bytes += bytes_of(&tower->blocks[i].qkv);
    assert_true(get(s.session, "vision.qkv").weight_bytes == bytes);
    /* Begun anew it is empty; ended too. */
    assert_int_equal(fore_session_profile(s.session, true, &err), FORE_OK);
    assert_false(fore_session_get_operator(s.session, 0, &o));
    assert_int_equal(fore_session_profile(s.session, false, &err), FORE_OK);
    assert_false(fore_session_get_operator(s.session, 0, &o));
    close_subject(&s);
    fore_free(data);
}

/* Of a mixture, the bytes of the experts are those that the statistics say. */
static void test_experts(void **state) {
    (void)state;
    subject s = open_subject(MOE, 2, 128);
    const fore_text_config *t = &s.model->network.config.text;
    fore_error err = {0};
    int32_t said[TOKENS];
    fore_stats stats;
    assert_int_equal(fore_session_profile(s.session, true, &err), FORE_OK);
    answer(&s, 0, said, &stats);
    fore_operator o = get(s.session, "experts");
    assert_true(stats.expert_bytes_read > 0 && o.weight_bytes == stats.expert_bytes_read);
    double rows = IDS + TOKENS - 1;
    assert_true(o.float_operations == 2.0 * rows * t->num_hidden_layers * t->num_experts_per_tok * 3 * t->moe_intermediate_size * t->hidden_size);
    assert_true(get(s.session, "router").weight_bytes > 0);
    close_subject(&s);
}

/* A profile and timed passes leave the answer and the state alone. */
static void test_changes_nothing(void **state) {
    (void)state;
    static const char *const dirs[] = {TINY, MOE};
    for (int d = 0; d < 2; d++) {
        subject plain = open_subject(dirs[d], 2, 64), looked = open_subject(dirs[d], 1, 64);
        fore_error err = {0};
        int32_t a[TOKENS], b[TOKENS];
        fore_stats stats;
        uint8_t before[32], after[32];
        int depth = plain.model->mtp.attached ? 2 : 0;
        answer(&plain, depth, a, &stats);
        assert_int_equal(fore_session_profile(looked.session, true, &err), FORE_OK);
        answer(&looked, depth, b, &stats);
        assert_memory_equal(a, b, sizeof a);
        fore_session_digest(plain.session, before);
        fore_session_digest(looked.session, after);
        assert_memory_equal(before, after, sizeof after);
        size_t size, again;
        unsigned char *kept = timeline_bytes(looked.session, &size);
        for (int rows = 1; rows <= FORE_PASS_MAX; rows++) {
            fore_pass_time time;
            if (fore_session_time_pass(looked.session, rows, &time, &err)) fail_msg("%s", err.text);
            assert_true(time.pass > 0 && (rows > 1 ? time.commit > 0 : time.commit == 0));
            fore_session_digest(looked.session, after);
            assert_memory_equal(before, after, sizeof after);
        }
        unsigned char *same = timeline_bytes(looked.session, &again);
        assert_int_equal(size, again);
        assert_memory_equal(kept, same, size);
        free(kept);
        free(same);
        /* Also in the middle of an answer, which goes on as if nothing had been. */
        fore_request r;
        fore_request_init(&r, looked.model);
        int32_t ids[IDS];
        for (int i = 0; i < IDS; i++) ids[i] = 10 + 7 * i;
        r.ids = ids;
        r.id_count = IDS;
        r.ignore_eos = true;
        r.max_tokens = TOKENS;
        r.prefill_chunk = 2; /* fewer rows than a timed pass wants */
        r.sampling = (fore_sampling){.top_p = 1, .repetition_penalty = 1};
        r.draft.depth = depth;
        if (fore_session_begin(looked.session, &r, &err)) fail_msg("%s", err.text);
        int n = 0;
        for (fore_chunk c = {0}; c.finish == FORE_FINISH_NONE;) {
            if (fore_session_next(looked.session, &c, &err)) fail_msg("%s", err.text);
            for (size_t i = 0; i < c.id_count; i++) b[n++] = c.ids[i];
            fore_pass_time time;
            if (fore_session_time_pass(looked.session, 1 + n % FORE_PASS_MAX, &time, &err)) fail_msg("%s", err.text);
        }
        assert_memory_equal(a, b, sizeof a);
        close_subject(&plain);
        close_subject(&looked);
    }
}

static void test_pass_limits(void **state) {
    (void)state;
    subject s = open_subject(TINY, 1, 16);
    fore_error err = {0};
    fore_pass_time time = {1, 1};
    assert_int_equal(fore_session_time_pass(s.session, 0, &time, &err), FORE_ERR_INVALID);
    assert_int_equal(fore_session_time_pass(s.session, FORE_PASS_MAX + 1, &time, &err), FORE_ERR_INVALID);
    assert_true(time.pass == 0 && time.commit == 0);
    assert_int_equal(fore_session_time_pass(s.session, 16, &time, &err), FORE_OK); /* of an empty session */
    int32_t ids[] = {1, 2, 3};
    fore_request r;
    fore_request_init(&r, s.model);
    r.ids = ids;
    r.id_count = 3;
    if (fore_session_begin(s.session, &r, &err)) fail_msg("%s", err.text);
    assert_int_equal(fore_session_time_pass(s.session, 13, &time, &err), FORE_OK);
    assert_int_equal(fore_session_time_pass(s.session, 14, &time, &err), FORE_ERR_LIMIT);
    assert_non_null(strstr(err.text, "16"));
    close_subject(&s);
}

static void test_machine(void **state) {
    (void)state;
    fore_error err = {0};
    fore_machine m;
    if (fore_machine_measure(NULL, 0, 0, &m, &err)) fail_msg("%s", err.text);
    const fore_kern *best;
    assert_int_equal(fore_kern_get(NULL, &best, &err), FORE_OK);
    assert_string_equal(m.isa, best->name);
    assert_true(m.cpu[0] && m.processors >= 1 && m.threads == m.processors);
    assert_true(m.read_speed == 0 && m.float_speed == 0 && m.integer_speed == 0 && m.vector_speed == 0);
    const fore_kern *list[8];
    int n = fore_kern_list(list);
    double best_speed = 0, plain = 0;
    for (int i = 0; i < n; i++) {
        if (fore_machine_measure(list[i]->name, 1, FORE_MACHINE_FLOAT | FORE_MACHINE_INTEGER, &m, &err)) fail_msg("%s", err.text);
        assert_string_equal(m.isa, list[i]->name);
        assert_int_equal(m.threads, 1);
        assert_true(m.float_speed > 1e6 && m.integer_speed > 1e6 && m.read_speed == 0);
        if (strcmp(m.isa, "amx") == 0) assert_true(m.vector_speed > 1e6 && m.integer_speed > m.vector_speed);
        else assert_true(m.vector_speed == m.integer_speed);
        if (!i) plain = m.integer_speed;
        best_speed = m.integer_speed;
    }
    if (n > 1) assert_true(best_speed > plain);
    assert_int_equal(fore_machine_measure("z80", 1, 0, &m, &err), FORE_ERR_UNSUPPORTED);
    assert_int_equal(fore_machine_measure(NULL, -1, 0, &m, &err), FORE_ERR_INVALID);
    assert_true(m.threads == 0 && !m.cpu[0]);
}

static void test_read(void **state) {
    (void)state;
    fore_error err = {0};
    fore_machine m;
    if (fore_machine_measure("ref", 2, FORE_MACHINE_READ, &m, &err)) fail_msg("%s", err.text);
    assert_true(m.threads == 2 && m.read_speed > 1e7 && m.float_speed == 0);
}

static void digest_of(const char *dir, uint8_t digest[32]) {
    fore_error err = {0};
    fore_model *m;
    if (fore_model_open(dir, NULL, &m, &err) || fore_model_digest(m, digest, &err)) fail_msg("%s", err.text);
    fore_model_close(m);
}

static void test_identity(void **state) {
    (void)state;
    uint8_t a[32], b[32];
    fore_error err = {0};
    digest_of(FORE_DATA "/models/dense_tied_f32", a);
    digest_of(FORE_DATA "/models/dense_tied_f32", b);
    assert_memory_equal(a, b, sizeof a);
    digest_of(FORE_DATA "/models/dense_untied_bf16", b);
    assert_memory_not_equal(a, b, sizeof a);
    scratch s;
    scratch_make(&s);
    scratch_copy(&s, FORE_DATA "/models/dense_tied_f32/model.safetensors", "model.safetensors");
    scratch_copy(&s, FORE_DATA "/models/dense_tied_f32/config.json", "config.json");
    digest_of(s.dir, b); /* where it lies, and its other files, play no part */
    assert_memory_equal(a, b, sizeof a);
    fore_model *m;
    if (fore_model_open(s.dir, NULL, &m, &err)) fail_msg("%s", err.text);
    char *text;
    size_t size;
    if (fore_file_read(scratch_path(&s, "config.json"), 1 << 20, &text, &size, &err)) fail_msg("%s", err.text);
    text[size] = ' ';
    scratch_write(&s, "config.json", text, size + 1);
    fore_free(text);
    assert_int_equal(fore_model_digest(m, b, &err), FORE_OK);
    assert_memory_not_equal(a, b, sizeof a);
    scratch_remove(&s);
    assert_int_equal(fore_model_digest(m, b, &err), FORE_ERR_IO);
    fore_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),      cmocka_unit_test(test_parts),   cmocka_unit_test(test_experts), cmocka_unit_test(test_changes_nothing),
        cmocka_unit_test(test_pass_limits), cmocka_unit_test(test_machine), cmocka_unit_test(test_read),    cmocka_unit_test(test_identity),
    };
    return cmocka_run_group_tests_name("unit/profile", tests, NULL, NULL);
}
