/* Files of checkpoints with something wrong in them, opened and asked in processes of their own: each gives an error that names the
 * checkpoint, or loads and answers; a change that means nothing changes nothing. No process crashes, hangs, takes more memory than
 * three times the files' size and 64 MiB, or writes into the folder.
 * usage: test_hostile [SEED [TIMES]]: TIMES as many files of another seed (1 is the seed of the test); HOSTILE_ONLY=N one of them
 * again, kept; HOSTILE_SHOW=1 says what came of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/hosts.h"
#include "support/mutate.h"
#include "support/tensors.h"
#include "support/trial.h"

typedef enum way { VALUES, JSON, SAFETENSORS, GGUF, BYTES } way;

static const char *const quantised[] = {"scale", "zero", "g_idx", "weight_shape", "qweight", "packed", "bias", NULL};

#define DATA FORE_DATA "/"
#define TINY_FILES "models/tiny"
/* How many files are made of which file of a checkpoint. The checkpoints are small, so that what does not grow with them is seen. */
static const struct {
    const char *dir, *file;
    way how;
    int count;
} plan[] = {
    {DATA "models/dense_sharded_bf16", "config.json", VALUES, 120},
    {DATA "models/dense_sharded_bf16", "model.safetensors.index.json", JSON, 24},
    {DATA "models/dense_sharded_bf16", "model.safetensors-00001-of-00003.safetensors", SAFETENSORS, 24},
    {DATA "models/dense_sharded_bf16", "model.safetensors-00003-of-00003.safetensors", SAFETENSORS, 16},
    {DATA "models/dense_sharded_bf16", "mtp.safetensors", SAFETENSORS, 16},
    {DATA "models/dense_sharded_bf16", "preprocessor_config.json", VALUES, 24},
    {DATA "models/dense_sharded_bf16", "generation_config.json", VALUES, 16},
    {DATA "family/qwen3_next_bf16", "config.json", VALUES, 24},
    {DATA "family/vl_moe_bf16", "config.json", VALUES, 32},
    {DATA "family/vl_moe_bf16", "model.safetensors", SAFETENSORS, 12},
    {DATA "moe/moe_bf16_numbered", "config.json", VALUES, 16},
    {DATA "qwen2_5/bf16", "config.json", VALUES, 32},
    {TINY_FILES, "tokenizer.json", JSON, 60},
    {TINY_FILES, "tokenizer_config.json", JSON, 12},
    {TINY_FILES, "chat_template.jinja", BYTES, 16},
    {TINY_FILES, "preprocessor_config.json", JSON, 8},
    {TINY_FILES, "video_preprocessor_config.json", VALUES, 8},
    {TINY_FILES, "generation_config.json", JSON, 8},
    {DATA "gguf/q35", "model.gguf", GGUF, 48},
    {DATA "gguf/q35", "mmproj.gguf", GGUF, 24},
    {DATA "gguf/blocks", "model.gguf", GGUF, 20},
    {DATA "gguf/moeblocks", "model.gguf", GGUF, 12},
    {DATA "gguf/parts", "model-00001-of-00003.gguf", GGUF, 12},
    {DATA "forms/fp8", "config.json", VALUES, 10},
    {DATA "forms/fp8", "model.safetensors", SAFETENSORS, 12},
    {DATA "forms/fp8_channel", "model-00001-of-00002.safetensors", SAFETENSORS, 12},
    {DATA "forms/int4", "config.json", VALUES, 12},
    {DATA "forms/int4", "model.safetensors", SAFETENSORS, 12},
    {DATA "forms/int4_zeros", "model.safetensors", SAFETENSORS, 12},
    {DATA "forms/awq", "config.json", VALUES, 10},
    {DATA "forms/awq", "model.safetensors", SAFETENSORS, 12},
    {DATA "forms/gptq", "config.json", VALUES, 10},
    {DATA "forms/gptq", "model.safetensors", SAFETENSORS, 12},
    {DATA "forms/gptq_order", "model.safetensors", SAFETENSORS, 16},
    {DATA "quantised/model", "config.json", JSON, 12},
    {DATA "quantised/model", "model.safetensors", SAFETENSORS, 12},
};
enum { PLANS = sizeof plan / sizeof *plan, AT_ONCE = 2 };

/* One file under way. */
typedef struct attempt {
    trial t;
    scratch s;
    mutant m;
    size_t plan, number, total; /* number: of the plan's; total: of all */
    uint64_t digest; /* of the folder */
} attempt;

static struct {
    uint64_t seed;
    int times;
    long only;
    bool show;
    size_t refused, answered, same, unanswered;
    int failed;
    long peak_most; /* KiB above the baseline, of the attempt that came nearest to its limit */
    double peak_share;
    int32_t ids[PLANS][TRIAL_IDS]; /* what the untouched checkpoints say */
} run = {.seed = 1, .times = 1, .only = -1};

static uint64_t mix(uint64_t h, const void *data, size_t size) {
    for (const unsigned char *p = data; size-- > 0;) h = (h ^ *p++) * UINT64_C(0x100000001b3);
    return h;
}

/* Of names, sizes and times, whatever their order, and of the changed file's bytes. */
static uint64_t digest_of(const scratch *s) {
    DIR *d = opendir(s->dir);
    assert_non_null(d);
    uint64_t sum = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat link, file;
        if (e->d_name[0] == '.') continue;
        const char *path = scratch_path(s, e->d_name);
        assert_true(!lstat(path, &link) && !stat(path, &file));
        const uint64_t facts[] = {link.st_ino, (uint64_t)link.st_size, (uint64_t)link.st_mtim.tv_nsec, (uint64_t)file.st_size,
                                  (uint64_t)file.st_mtim.tv_sec, (uint64_t)file.st_mtim.tv_nsec};
        uint64_t h = mix(mix(UINT64_C(0xcbf29ce484222325), e->d_name, strlen(e->d_name)), facts, sizeof facts);
        if (S_ISREG(link.st_mode)) {
            size_t size;
            char *data = read_file(path, &size);
            h = mix(h, data, size);
            free(data);
        }
        sum += h;
    }
    closedir(d);
    return sum;
}

static void mutate(attempt *a) {
    static char *data; /* of the file of the plan before */
    static size_t size, of = PLANS;
    const size_t p = a->plan;
    if (of != p) {
        char path[512];
        free(data);
        snprintf(path, sizeof path, "%s/%s", plan[p].dir, plan[p].file);
        data = read_file(path, &size);
        of = p;
    }
    dice d = dice_of(run.seed, (uint64_t)p << 32 | a->number);
    switch (plan[p].how) {
    case VALUES: { /* every place has its turn, and the values change with the rounds */
        size_t steps = mutate_json_steps(data, size);
        if (a->number % 5 == 4) mutate_json(&d, data, size, &a->m);
        else mutate_json_value((a->number + (size_t)(run.seed - 1) * 1009) % steps, data, size, &a->m);
        break;
    }
    case JSON: mutate_json(&d, data, size, &a->m); break;
    case SAFETENSORS: mutate_safetensors(&d, data, size, quantised, &a->m); break;
    case GGUF: mutate_gguf(&d, data, size, &a->m); break;
    case BYTES: mutate_bytes(&d, data, size, &a->m); break;
    }
}

static void start(attempt *a, size_t p, size_t number) {
    a->plan = p;
    a->number = number;
    a->m = (mutant){0};
    mutate(a);
    a->t.bytes = trial_folder(&a->s, plan[p].dir, plan[p].file, a->m.data, a->m.size);
    memcpy(a->t.dir, a->s.dir, sizeof a->s.dir);
    a->digest = digest_of(&a->s);
    a->t.checks = number % 4 == 0 || run.only >= 0;
    trial_start(&a->t);
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

static void complain(attempt *a, const char *what, const char *more) {
    print_message("%s/%s, seed %llu, number %zu (%s): %s%s%s\n", plan[a->plan].dir, plan[a->plan].file, (unsigned long long)run.seed, a->total, a->m.what, what, *more ? ": " : "", more);
    run.failed++;
}

static bool is_error(const fore_error *e) {
    return e->text[0] && memchr(e->text, 0, sizeof e->text) && (e->code == FORE_ERR_IO || e->code == FORE_ERR_FORMAT ||
           e->code == FORE_ERR_UNSUPPORTED || e->code == FORE_ERR_LIMIT || e->code == FORE_ERR_INVALID);
}

static void check_memory(attempt *a) {
    const trial_report *r = a->t.report;
    long above = r->peak_kib - r->base_kib;
    double share = (double)above * 1024 / (double)trial_limit(a->t.bytes);
    if (share > run.peak_share) {
        run.peak_share = share;
        run.peak_most = above;
    }
    char text[64];
    snprintf(text, sizeof text, "%ld KiB for files of %zu", above, a->t.bytes >> 10);
    if (!TRIAL_SANITIZED && share > 1) complain(a, "too much memory", text);
}

static void check_answer(attempt *a) {
    const trial_report *r = a->t.report;
    const fore_error *e = r->opened ? &r->question : &r->error;
    if (run.show)
        print_message("%zu %s (%s): %s\n", a->total, plan[a->plan].file, a->m.what, e->code ? e->text : a->m.same ? "the same" : "answers");
    if (r->silent) complain(a, "a failure without an error", "");
    if (r->check.code && !is_error(&r->check)) complain(a, "forge check", r->check.text);
    if (e->code) {
        if (!is_error(e)) complain(a, fore_status_name(e->code), e->text);
        else if (!r->opened && !strstr(e->text, a->s.dir)) complain(a, "the error does not say which checkpoint", e->text);
        if (a->m.same) complain(a, "refused, and nothing is wrong with it", e->text);
        if (r->opened) run.unanswered++;
        else run.refused++;
        return;
    }
    run.answered++;
    if (!r->count) complain(a, "no token", "");
    if (!a->m.same) return;
    run.same++;
    if (memcmp(r->ids, run.ids[a->plan], sizeof r->ids)) complain(a, "another answer than the file that says the same", "");
}

static void finish(attempt *a, int status) {
    char text[64] = "";
    if (WIFSIGNALED(status)) snprintf(text, sizeof text, "signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status)) snprintf(text, sizeof text, "status %d", WEXITSTATUS(status));
    if (text[0] || !a->t.report->finished) {
        complain(a, "it died", text);
    } else {
        check_memory(a);
        check_answer(a);
    }
    if (digest_of(&a->s) != a->digest) complain(a, "the folder is another one", "");
    if (run.only < 0) scratch_remove(&a->s);
    else print_message("%s\n", a->s.dir);
    mutant_free(&a->m);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* What the untouched checkpoints say; they open and answer, with pictures where they have a tower. */
static void test_originals(void **state) {
    (void)state;
    for (size_t p = 0; p < PLANS; p++) {
        if (p && !strcmp(plan[p].dir, plan[p - 1].dir)) {
            memcpy(run.ids[p], run.ids[p - 1], sizeof run.ids[p]);
            continue;
        }
        attempt a = {.plan = p};
        int status;
        trial_new(&a.t);
        a.t.bytes = trial_folder(&a.s, plan[p].dir, plan[p].how == GGUF ? plan[p].file : NULL, NULL, 0);
        memcpy(a.t.dir, a.s.dir, sizeof a.s.dir);
        trial_start(&a.t);
        trial *one = &a.t;
        trial_wait(&one, 1, &status);
        const trial_report *r = a.t.report;
        if (status || !r->finished) fail_msg("%s: status %d", plan[p].dir, status);
        if (!r->opened || r->question.code) fail_msg("%s: %s%s", plan[p].dir, r->error.text, r->question.text);
        assert_int_equal(r->count, TRIAL_IDS);
        memcpy(run.ids[p], r->ids, sizeof r->ids);
        scratch_remove(&a.s);
        trial_free(&a.t);
    }
}

static void test_mutants(void **state) {
    (void)state;
    attempt list[AT_ONCE];
    trial *trials[AT_ONCE];
    size_t busy = 0, total = 0;
    double began = fore_clock();
    for (int i = 0; i < AT_ONCE; i++) {
        list[i] = (attempt){0};
        trial_new(&list[i].t);
        trials[i] = &list[i].t;
    }
    for (size_t p = 0; p < PLANS; p++) {
        for (size_t n = 0; n < (size_t)plan[p].count * (size_t)run.times; n++, total++) {
            if (run.only >= 0 && (size_t)run.only != total) continue;
            int status;
            size_t at = 0;
            if (busy == AT_ONCE) {
                at = trial_wait(trials, AT_ONCE, &status);
                finish(&list[at], status);
                busy--;
            } else {
                while (list[at].t.process) at++;
            }
            list[at].total = total;
            start(&list[at], p, n);
            busy++;
        }
    }
    for (; busy; busy--) {
        int status;
        size_t at = trial_wait(trials, AT_ONCE, &status);
        finish(&list[at], status);
    }
    for (int i = 0; i < AT_ONCE; i++) trial_free(&list[i].t);
    print_message("%zu files, seed %llu: %zu refused, %zu opened and refused the question, %zu answered, of which %zu said the same; %.0f %% of the "
                  "memory that may be taken at most (%ld KiB); %.1f s\n", total, (unsigned long long)run.seed, run.refused, run.unanswered, run.answered,
                  run.same, 100 * run.peak_share, run.peak_most, fore_clock() - began);
    assert_int_equal(run.failed, 0);
    if (run.only >= 0) return;
    assert_true(total >= 500 * (size_t)run.times && run.refused + run.unanswered + run.answered == total);
    assert_true(run.refused > total / 4 && run.answered > total / 4 && run.same > total / 50);
}

int main(int argc, char **argv) {
    if (argc > 1) run.seed = strtoull(argv[1], NULL, 10);
    if (argc > 2) run.times = atoi(argv[2]);
    const char *only = getenv("HOSTILE_ONLY");
    if (only) run.only = strtol(only, NULL, 10);
    run.show = getenv("HOSTILE_SHOW") != NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_originals), cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests_name("fault/hostile", tests, NULL, NULL);
}
