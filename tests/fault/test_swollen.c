/* Files of checkpoints made of very many small things, so that what is made of each takes more memory than its bytes in the file: they
 * are refused, or open within three times the files' size and 64 MiB, as all others (test_hostile.c has small ones with something
 * wrong). Published vocabularies open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "support/hosts.h"
#include "support/mutate.h"
#include "support/tensors.h"
#include "support/trial.h"

#define MODELS FORE_DATA "/models/dense_sharded_bf16"
#define VOCAB "\"\\u0120\":0,\"a\":1,\"b\":2,\"ab\":3"
#define AROUND "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"}"
#define TENSOR "{\"dtype\":\"F4\",\"shape\":[0],\"data_offsets\":[0,0]}"

/* A file: head, `unit` so many times (with the number for its %d), tail. */
static const struct {
    const char *dir, *file, *head, *unit, *tail;
    int count;
    bool binary; /* the text is a safetensors file's header */
    const char *says; /* a part of the error; NULL: whatever, or none */
} cases[] = {
    {MODELS, "config.json", "{\"model_type\":\"qwen3_5\",\"x\":[[]", ",[]", "]}", 4000000, false, "so many short values"},
    {MODELS, "config.json", "{\"model_type\":\"qwen3_5\"", ",\"%d\":0", "}", 1000000, false, "so many short values"},
    {MODELS, "config.json", "{\"model_type\":\"qwen3_5\",\"text_config\":{\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\"", ",\"\"", "]}}", 4000000, false, "so many short values"},
    {MODELS, "model.safetensors.index.json", "{\"metadata\":[0", ",0", "],\"weight_map\":{\"a\":\"b\"}}", 8000000, false, "so many short values"},
    {MODELS, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"b\"", ",\"%d\":\"%d\"", "}}", 500000, false, NULL},
    {MODELS, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"b\"", ",\"%d\":\"mtp.safetensors\"", "}}", 500000, false, NULL},
    {MODELS, "mtp.safetensors", "{\"a\":" TENSOR, ",\"%d\":" TENSOR, "}", 300000, true, "so many short values"},
    {MODELS, "mtp.safetensors", "{\"__metadata__\":{\"a\":\"\"", ",\"%d\":\"\"", "}}", 1000000, true, NULL},
    {MODELS, "mtp.safetensors", "{\"a\":{\"shape\":[0", ",0", "]}}", 5000000, true, NULL},
    {MODELS, "generation_config.json", "{\"eos_token_id\":[1", ",1", "]}", 500000, false, NULL},
    {MODELS, "generation_config.json", "{\"x\":\"", "0123456789abcdef", "\"}", 60000, false, NULL},
    {MODELS, "draft_vocabulary.json", "{\"ids\":[1", ",1", "]}", 8000000, false, NULL},
    {MODELS, "mtplx_runtime.json", "{\"mtp_contract\":[{}", ",{}", "]}", 8000000, false, NULL},
    {TINY, "tokenizer.json", "{" AROUND ",\"model\":{\"vocab\":{" VOCAB, ",\"%d\":1%06d", "},\"merges\":[\"a b\"]}}", 400000, false, "they do not belong together"},
    {TINY, "tokenizer.json", "{" AROUND ",\"model\":{\"vocab\":{" VOCAB "},\"merges\":[\"a b\"", ",\"a b\"", "]}}", 4000000, false, "merges would take"},
    {TINY, "tokenizer.json", "{" AROUND ",\"model\":{\"vocab\":{" VOCAB ",\"c\":2097151},\"merges\":[\"a b\"", "", "]}}", 1, false, NULL},
    {TINY, "tokenizer.json", "{" AROUND ",\"model\":{\"vocab\":{" VOCAB "},\"merges\":[[[]]", ",[]", "]}}", 4000000, false, NULL},
    {TINY, "tokenizer.json", "{" AROUND ",\"model\":{\"vocab\":{" VOCAB "},\"merges\":[\"a b\"]},\"added_tokens\":[{\"id\":2097151,\"content\":\"x\"}",
     ",{\"id\":1%06d,\"content\":\"%d.------------------------------------------------------------------------------------------------\"}", "]}", 100000, false, "the added tokens have more than 1048576 bytes together"},
    {TINY, "tokenizer.json", "{" AROUND ",\"model\":{\"vocab\":{" VOCAB "},\"merges\":[\"a b\"]},\"added_tokens\":[{\"id\":4,\"content\":\"x\"}",
     ",{\"id\":1%06d,\"content\":\"%d.-------------------------------------------------------------------------------------------------\"}", "]}", 100000, false, "the added tokens have more than 1048576 bytes together"},
    {TINY, "tokenizer.json", "{\"x\":[{}", ",{}", "]}", 5000000, false, "so many short values"},
    {TINY, "tokenizer_config.json", "{\"added_tokens_decoder\":{\"5\":{}", ",\"%d\":{}", "}}", 1000000, false, NULL},
    {TINY, "chat_template.jinja", "", "{{1}}", "", 800000, false, "the limit is"},
    {TINY, "chat_template.jinja", "", "{{1}}", "", 25000, false, NULL},
    {TINY, "chat_template.jinja", "", "{%% if a %%}{%% endif %%}", "", 5700, false, NULL},
    {TINY, "chat_template.jinja", "{{ [1", ",1", "] }}", 65000, false, NULL},
    {TINY, "chat_template.jinja", "", "{%%set a=1%%}", "", 10000, false, NULL},
    {TINY, "chat_template.jinja", "", "{{a%x}}", "", 14000, false, NULL},
    {TINY, "chat_template.jinja", "{{ 1", "+1", " }}", 60000, false, NULL},
    {TINY, "chat_template.jinja", "{%% set x = 'a' * 4000000 %%}{{ x", " ~ x", " }}", 20, false, "its values take too much memory"},
    {TINY, "chat_template.jinja", "{%% set x = [1] * 1000000 %%}{{ x", " + x", " }}", 20, false, "its values take too much memory"},
    {TINY, "chat_template.jinja", "{%% for i in range(100000) %%}{%% for j in range(1000) %%}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "", "{%% endfor %%}{%% endfor %%}", 1, false, NULL},
    {TINY, "chat_template.jinja", "{%% set n = namespace(x='aaaaaaaa') %%}{%% for i in range(60) %%}{%% set n.x = n.x ~ n.x %%}{%% endfor %%}{{ n.x", "", " }}", 1, false, NULL},
    {TINY, "chat_template.jinja", "{%% set n = namespace(x=[]) %%}{%% for i in range(100000) %%}{%% set n.x = n.x + [n.x] %%}{%% endfor %%}{{ n.x", "", " }}", 1, false, NULL},
    {TINY, "chat_template.jinja", "{%% for i in range(100000) %%}{%% set a = i|string * 1000 %%}{{ a|replace('1', 'aaaaaaaa')|upper|list|join", "", "}}{%% endfor %%}", 1, false, NULL},
};
enum { CASES = sizeof cases / sizeof *cases };

static void fill(size_t c, char **data, size_t *size) {
    size_t room = strlen(cases[c].head) + strlen(cases[c].tail) + (strlen(cases[c].unit) + 16) * (size_t)cases[c].count + 16;
    *data = malloc(room);
    assert_non_null(*data);
    char *at = *data + (cases[c].binary ? 8 : 0);
    at += sprintf(at, cases[c].head, 0);
    for (int i = 0; i < cases[c].count; i++) at += sprintf(at, cases[c].unit, i, i);
    at += sprintf(at, cases[c].tail, 0);
    *size = (size_t)(at - *data);
    for (int i = 0; i < 8 && cases[c].binary; i++) (*data)[i] = (char)((*size - 8) >> 8 * i);
}

/* Runs a trial of the folder and says what came of it. */
static void try_folder(trial *t, const scratch *s, size_t bytes, const char *what) {
    int status;
    memcpy(t->dir, s->dir, sizeof s->dir);
    t->bytes = bytes;
    trial_start(t);
    trial_wait(&t, 1, &status);
    const trial_report *r = t->report;
    const fore_error *e = r->opened ? &r->question : &r->error;
    print_message("%s: %ld KiB of %zu: %s\n", what, r->peak_kib - r->base_kib, trial_limit(bytes) >> 10, e->code ? e->text : "answers");
    if (status || !r->finished) fail_msg("%s: status %d", what, status);
    if (e->code == FORE_ERR_NOMEM || e->code == FORE_ERR_BUG || (e->code && !e->text[0])) fail_msg("%s: %s", what, e->text);
    if (!TRIAL_SANITIZED && (size_t)(r->peak_kib - r->base_kib) > trial_limit(bytes) >> 10) fail_msg("%s: too much memory", what);
}

static void test_swollen(void **state) {
    (void)state;
    trial t;
    trial_new(&t);
    for (size_t c = 0; c < CASES; c++) {
        scratch s;
        char *data, what[96];
        size_t size;
        fill(c, &data, &size);
        size_t bytes = trial_folder(&s, cases[c].dir, cases[c].file, data, size);
        snprintf(what, sizeof what, "%zu: %s, %zu KiB", c, cases[c].file, size >> 10);
        try_folder(&t, &s, bytes, what);
        const fore_error *e = t.report->opened ? &t.report->question : &t.report->error;
        if (cases[c].says && !strstr(e->text, cases[c].says)) fail_msg("%s: expected \"%s\"", what, cases[c].says);
        free(data);
        scratch_remove(&s);
    }
    trial_free(&t);
}

/* ---- GGUF -------------------------------------------------------------------------------------------------------- */

typedef struct writer {
    unsigned char *data;
    size_t size;
} writer;

static void number(writer *w, int bytes, uint64_t v) {
    for (int i = 0; i < bytes; i++) w->data[w->size++] = (unsigned char)(v >> 8 * i);
}
static void text(writer *w, const char *s) {
    size_t n = strlen(s);
    number(w, 8, n);
    memcpy(w->data + w->size, s, n);
    w->size += n;
}
static void list(writer *w, const char *name, int type, size_t count) {
    text(w, name);
    number(w, 4, 9);
    number(w, 4, (uint64_t)type);
    number(w, 8, count);
}

/* tokens and merges: how many; added: tokens that are looked for in the text; keys: further ones. */
typedef struct many {
    size_t tokens, merges;
    bool added;
    size_t keys;
} many;

static writer make_keys(const many *m) {
    char name[32];
    writer w = {malloc(4096 + m->tokens * 24 + m->merges * 16 + m->keys * 32), 0};
    assert_non_null(w.data);
    list(&w, "tokenizer.ggml.tokens", 8, m->tokens);
    for (size_t i = 0; i < m->tokens; i++) {
        snprintf(name, sizeof name, "%s%zx", i < 16 ? "" : "x", i);
        text(&w, name);
    }
    list(&w, "tokenizer.ggml.token_type", 5, m->tokens);
    for (size_t i = 0; i < m->tokens; i++) number(&w, 4, m->added && i > 16 ? 3 : 1);
    list(&w, "tokenizer.ggml.merges", 8, m->merges);
    for (size_t i = 0; i < m->merges; i++) text(&w, "x10 0");
    for (size_t i = 0; i < m->keys; i++) {
        snprintf(name, sizeof name, "%zx", i);
        text(&w, name);
        number(&w, 4, 0);
        number(&w, 1, 0);
    }
    return w;
}

static void test_gguf(void **state) {
    (void)state;
    static const many files[] = {{1000000, 1, false, 0}, {3000000, 1, false, 0}, {300, 4000000, false, 0}, {300000, 300000, false, 0},
                                 {1000000, 1, true, 0},  {60000, 1, true, 0},    {300, 1, false, 65000}};
    static const char *const without[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges", NULL};
    size_t size;
    char *data = read_file(FORE_DATA "/gguf/q3/model.gguf", &size);
    trial t;
    trial_new(&t);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        writer w = make_keys(&files[i]);
        scratch s;
        mutant m = {0};
        char what[64];
        mutate_gguf_keys(data, size, without, w.data, w.size, 3 + files[i].keys, &m);
        size_t bytes = trial_folder(&s, FORE_DATA "/gguf/q3", "model.gguf", m.data, m.size);
        snprintf(what, sizeof what, "gguf %zu, %zu KiB", i, m.size >> 10);
        try_folder(&t, &s, bytes, what);
        scratch_remove(&s);
        mutant_free(&m);
        free(w.data);
    }
    trial_free(&t);
    free(data);
}

/* ---- vocabularies that people have ------------------------------------------------------------------------------- */

static void test_published(void **state) {
    (void)state;
    trial t;
    scratch s;
    size_t size;
    char *data = read_file(FORE_DATA "/real/tokenizer.json", &size);
    trial_new(&t);
    size_t bytes = trial_folder(&s, MODELS, "tokenizer.json", data, size); /* which has none of its own */
    try_folder(&t, &s, bytes, "a published tokenizer.json");
    assert_true(t.report->opened);
    free(data);
    scratch_remove(&s);
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_swollen), cmocka_unit_test(test_gguf), cmocka_unit_test(test_published)};
    return cmocka_run_group_tests_name("fault/swollen", tests, NULL, NULL);
}
