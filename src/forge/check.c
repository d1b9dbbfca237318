/* fore_check: one topic after another, each with a finding; what cannot be reached because of an earlier one is left out. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/gguf_model.h"
#include "decode/model.h"
#include "forge/check_answer.h"
#include "forge/check_tensors.h"
#include "forge/sidecar.h"
#include "forge/tower_check.h"

enum { MAX_CONFIG = 16 << 20, MOST_FINDINGS = 64, MOST_NAMED = 5, TEXT = 700 };

typedef struct owned_report {
    fore_check_report public; /* first: what the caller has points to it */
    fore_arena arena;
} owned_report;

typedef struct check {
    const char *dir;
    fore_check_options options;
    owned_report *report;
    fore_check_finding *findings; /* [MOST_FINDINGS] in the report's arena, as all that the report points to */
    fore_check_tensor *tensors;
    fore_arena arena; /* of the settings */
    fore_config config;
    cJSON *tree;
    fore_gguf_model *gguf; /* NULL: a folder of Hugging Face */
    fore_store *store, *sidecar;
    char *sidecar_name;
    fore_model *model;
    fore_status status; /* of the looking */
    fore_error *err;
} check;

static void add(check *c, fore_check_level level, const char *topic, const char *format, ...) __attribute__((format(printf, 4, 5)));
static void add(check *c, fore_check_level level, const char *topic, const char *format, ...) {
    fore_check_report *r = &c->report->public;
    char text[TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (c->status || r->finding_count == MOST_FINDINGS) return;
    fore_check_finding *f = &c->findings[r->finding_count++];
    *f = (fore_check_finding){level, topic, fore_arena_copy(&c->report->arena, text, strlen(text))};
    if (!f->text) {
        r->finding_count--;
        c->status = fore_fail_nomem(c->err, "the report");
    }
    r->problems += level == FORE_CHECK_PROBLEM;
    r->remarks += level == FORE_CHECK_REMARK;
}

/* Whether a failure ends the looking. */
static bool ends(check *c, fore_status s, const fore_error *why) {
    if (s == FORE_ERR_NOMEM || s == FORE_ERR_CANCELLED) c->status = fore_fail(c->err, s, "%s", why->text);
    return c->status != FORE_OK;
}

/* What went wrong becomes a problem, but for what ends the looking. */
static bool is_wrong(check *c, fore_status s, const char *topic, const fore_error *why) {
    if (!s) return false;
    if (!ends(c, s, why)) add(c, FORE_CHECK_PROBLEM, topic, "%s", why->text);
    return true;
}

/* ---- settings and tensors ---------------------------------------------------------------------------------------- */

static fore_status read_folder_config(check *c, fore_error *why) {
    char *path = fore_path_join(c->dir, "config.json");
    fore_status s = path ? fore_json_read(path, MAX_CONFIG, &c->tree, why) : fore_fail_nomem(why, "a path");
    free(path);
    return s ? s : fore_config_read(c->dir, &c->arena, &c->config, why);
}

/* What the looking noted becomes problems; of tensors the first few. */
static void add_notes(check *c, const fore_notes *n) {
    size_t missing = 0, wrong = 0;
    for (size_t i = 0; i < n->count; i++) {
        const fore_note *note = &n->list[i];
        if (strcmp(note->topic, "tensors")) add(c, FORE_CHECK_PROBLEM, note->topic, "%s", note->text);
        else if (note->missing[0] ? missing++ < MOST_NAMED : wrong++ < MOST_NAMED) add(c, FORE_CHECK_PROBLEM, "tensors", "%s", note->text);
    }
    if (missing > MOST_NAMED) add(c, FORE_CHECK_PROBLEM, "tensors", "in all, %zu tensors are missing", missing);
    if (wrong > MOST_NAMED) add(c, FORE_CHECK_PROBLEM, "tensors", "in all, %zu tensors are not as expected", wrong);
}

static bool check_config(check *c) {
    fore_error why = {0};
    bool gguf = false;
    fore_notes notes = {0};
    fore_status s = fore_gguf_is_model(c->dir, &gguf, &why);
    if (!s && gguf) s = fore_gguf_model_look(c->dir, c->options.mmproj, &notes, &c->gguf, &why);
    if (!s && gguf) s = fore_gguf_config_tree(c->gguf, &c->tree, &why);
    if (!s && gguf) s = fore_gguf_config_read(c->gguf, &c->arena, &c->config, &why);
    if (!s && !gguf) s = read_folder_config(c, &why);
    add_notes(c, &notes);
    fore_notes_free(&notes);
    if (is_wrong(c, s, "config", &why)) return false;
    add(c, FORE_CHECK_FINE, "config", "%s%s (%s), %d layers, hidden %d, vocabulary %d", gguf ? "GGUF, " : "", c->config.architecture, c->config.model_type,
        c->config.text.num_hidden_layers, c->config.text.hidden_size, c->config.text.vocab_size);
    return true;
}

/* The store, with all that is there. */
static bool open_store(check *c) {
    fore_error why = {0};
    fore_notes notes = {0};
    fore_status s = c->gguf ? fore_gguf_store_make(c->gguf, &c->store, &why) : fore_store_look(c->dir, &notes, &c->store, &why);
    add_notes(c, &notes);
    fore_notes_free(&notes);
    return !is_wrong(c, s, "files", &why) && fore_store_files(c->store);
}

static bool check_files(check *c) {
    fore_error why = {0};
    if (!open_store(c)) return false;
    if (!c->gguf && is_wrong(c, fore_sidecar_open(c->dir, c->tree, &c->sidecar, &c->sidecar_name, &why), "files", &why)) c->sidecar = NULL;
    size_t tensors = fore_store_count(c->store), own = c->sidecar ? fore_store_count(c->sidecar) : 0;
    fore_check_report *r = &c->report->public;
    r->bytes = fore_store_bytes(c->store) + (c->sidecar ? fore_store_bytes(c->sidecar) : 0);
    int files = fore_store_files(c->store);
    if (c->sidecar)
        add(c, FORE_CHECK_FINE, "files", "%zu tensors in %d file%s, %zu of a draft head in %s, %.1f MB", tensors, files, files == 1 ? "" : "s", own,
            c->sidecar_name, (double)r->bytes / 1e6);
    else
        add(c, FORE_CHECK_FINE, "files", "%zu tensors in %d file%s, %.1f MB", tensors, files, files == 1 ? "" : "s", (double)r->bytes / 1e6);
    return true;
}

/* A vector of zeros may well be meant: biases, and norms that are stored as gain - 1. A matrix of zeros never is, but for the
 * biases of a quantised one. */
static bool is_odd_zero(const fore_check_tensor *t) {
    return t->zero && t->dims >= 2 && !fore_name_ends_with(t->name, ".biases") && !fore_name_ends_with(t->name, "_biases") &&
           !fore_name_ends_with(t->name, ".qzeros") && !fore_name_ends_with(t->name, "_zero_point");
}

static void report_tensors(check *c) {
    const fore_check_report *r = &c->report->public;
    size_t bad = 0, zero = 0;
    for (size_t i = 0; i < r->tensor_count; i++) {
        const fore_check_tensor *t = &r->tensors[i];
        if (t->nan + t->infinite && bad++ < MOST_NAMED)
            add(c, FORE_CHECK_PROBLEM, "tensors", "%s (%s): %" PRIu64 " numbers are NaN, %" PRIu64 " infinite: the file is damaged, fetch it again",
                t->name, t->file, t->nan, t->infinite);
        if (is_odd_zero(t) && zero++ < MOST_NAMED)
            add(c, FORE_CHECK_PROBLEM, "tensors", "%s (%s): all of it is 0: its numbers were lost", t->name, t->file);
    }
    if (bad > MOST_NAMED || zero > MOST_NAMED)
        add(c, FORE_CHECK_PROBLEM, "tensors", "in all, %zu tensors with numbers that are not finite, %zu of zeros", bad, zero);
    if (!bad && !zero) add(c, FORE_CHECK_FINE, "tensors", "every number of all %zu is finite, no matrix is all zero", r->tensor_count);
}

static void check_tensors(check *c) {
    fore_check_report *r = &c->report->public;
    size_t own = fore_store_count(c->store), all = own + (c->sidecar ? fore_store_count(c->sidecar) : 0);
    fore_check_look look = {.progress = c->options.progress, .user = c->options.user, .total = r->bytes};
    c->tensors = fore_arena_alloc(&c->report->arena, all + 1, sizeof *c->tensors);
    if (!c->tensors) c->status = fore_fail_nomem(c->err, "the list of tensors");
    if (!c->status) c->status = fore_pool_new(c->options.threads, &look.pool, c->err);
    if (!c->status) c->status = fore_check_tensors(&look, c->store, &c->report->arena, c->tensors, c->err);
    if (!c->status && c->sidecar) c->status = fore_check_tensors(&look, c->sidecar, &c->report->arena, c->tensors + own, c->err);
    fore_pool_free(look.pool);
    if (c->status) return;
    r->tensors = c->tensors;
    r->tensor_count = all;
    report_tensors(c);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* The tensors that keep the model from opening, where opening it told of the first alone, with the checkpoint's name before it. */
static void report_all(check *c, const char *told) {
    fore_error why = {0};
    fore_model *seen = NULL;
    fore_notes left = {0};
    const fore_model_options o = {.isa = c->options.isa, .mmproj = c->options.mmproj, .look = true};
    if (ends(c, fore_model_open(c->dir, &o, &seen, &why), &why) || !seen) return;
    for (size_t i = 0; i < seen->notes.count && !c->status; i++) {
        const fore_note *n = &seen->notes.list[i];
        if (!strcmp(n->topic, "tensors") && !fore_name_ends_with(told, n->text)) c->status = fore_notes_add(&left, n->topic, n->missing, n->text, c->err);
    }
    add_notes(c, &left);
    fore_notes_free(&left);
    fore_model_close(seen);
}

static bool check_opens(check *c) {
    fore_error why = {0};
    fore_model_options o = {.isa = c->options.isa, .progress = c->options.progress, .user = c->options.user, .mmproj = c->options.mmproj};
    fore_status s = fore_model_open(c->dir, &o, &c->model, &why);
    if (!s) {
        add(c, FORE_CHECK_FINE, "model", "opens: every tensor is there, with its shape and a type that is read");
        return true;
    }
    /* What is wrong may be the draft head's alone. */
    o.no_mtp = true;
    fore_error without = {0};
    if (ends(c, s, &why) || ends(c, fore_model_open(c->dir, &o, &c->model, &without), &without)) return false;
    is_wrong(c, s, c->model ? "draft head" : "model", &why);
    if (!c->model) report_all(c, why.text);
    return c->model != NULL;
}

static double mean_of(const float *v, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)v[i];
    return n ? sum / n : 0;
}

/* Gains of trained models are around 1, those of queries and keys mostly above. Read by the wrong rule, all are larger or smaller by
 * 1; as for a draft head, the largest mean of the one kind and the smallest of the other tell. */
static void check_norms(check *c) {
    const fore_network *n = &c->model->network;
    const fore_text_config *t = &n->config.text;
    double qk = 0, smallest = 1e30;
    for (int i = 0; i < t->num_hidden_layers; i++) {
        const fore_layer *l = &n->layers[i];
        double a = mean_of(l->input_norm, t->hidden_size), b = mean_of(l->post_norm, t->hidden_size);
        if (a < smallest) smallest = a;
        if (b < smallest) smallest = b;
        if (!l->full || !l->q_norm) continue;
        double q = mean_of(l->q_norm, t->head_dim), k = mean_of(l->k_norm, t->head_dim);
        if (q > qk) qk = q;
        if (k > qk) qk = k;
    }
    char most[48] = "";
    if (t->qk_norm) snprintf(most, sizeof most, ", queries and keys %.2f at most", qk);
    add(c, FORE_CHECK_FINE, "norms", "the files hold %s: %s (means of gains: %.2f at least%s)",
        n->norms_absolute ? "the gains themselves" : "gain - 1", n->norms_rule, smallest, most);
    if (!t->zero_centred_norms) return;
    if (!n->norms_absolute && qk > 2.5 && smallest > 1.5)
        add(c, FORE_CHECK_REMARK, "norms", "every gain is about 1 too large: a conversion may have stored the gains without turning the convolution's "
            "axes, which would say so; answers will be nonsense then");
    if (n->norms_absolute && qk < 1.25 && smallest < 0.5)
        add(c, FORE_CHECK_REMARK, "norms", "every gain is about 1 too small: a conversion may have turned the convolution's axes and left gain - 1; "
            "answers will be nonsense then");
}

static void check_vision(check *c) {
    size_t count;
    const fore_entry *first = fore_tower_find(c->store, &count);
    const fore_vision_config *v = &c->config.vision;
    if (!c->config.has_vision && first) {
        add(c, FORE_CHECK_PROBLEM, "vision", "%zu tensors of a vision tower (%s), and no vision_config in config.json: no picture can be seen", count,
            first->name);
        return;
    }
    if (!c->config.has_vision) {
        add(c, FORE_CHECK_FINE, "vision", "none: text alone%s", c->gguf ? " (a vision tower would be in an mmproj file)" : "");
        return;
    }
    if (!c->model->network.config.has_vision) {
        add(c, FORE_CHECK_PROBLEM, "vision", "config.json declares a vision tower, and its weights are not there%s; foresight forge graft gives it one",
            first ? " as a whole" : "");
        return;
    }
    add(c, FORE_CHECK_FINE, "vision", "a whole tower of %zu tensors: %d blocks, hidden %d, patches of %d", count, v->depth, v->hidden_size, v->patch_size);
    if (!c->model->has_processor) add(c, FORE_CHECK_REMARK, "vision", "no preprocessor_config.json: pictures are cut as the published models want it");
    if (c->model->network.config.image_token_id < 0)
        add(c, FORE_CHECK_PROBLEM, "vision", c->gguf ? "the vocabulary has no <|image_pad|>" : "config.json names no image_token_id inside the vocabulary");
}

static void check_head(check *c) {
    const fore_mtp *m = &c->model->mtp;
    int declared = c->config.text.mtp_num_hidden_layers, tensors = c->model->network.mtp_tensors + (c->sidecar ? (int)fore_store_count(c->sidecar) : 0);
    if (m->attached)
        add(c, FORE_CHECK_FINE, "draft head", "%d layer%s from %s; norms hold %s (%s)", declared, declared == 1 ? "" : "s", m->source,
            m->norms_absolute ? "the gains themselves" : "gain - 1", m->norms_rule);
    else if (!declared && tensors)
        add(c, FORE_CHECK_REMARK, "draft head", "%d tensors of one, and %s declares none (%s): it is not used", tensors,
            c->gguf ? "the metadata" : "config.json", c->gguf ? "nextn_predict_layers" : "mtp_num_hidden_layers");
    else if (!declared)
        add(c, FORE_CHECK_FINE, "draft head", "none declared");
    else if (strcmp(m->why, "it was left out on request"))
        add(c, FORE_CHECK_PROBLEM, "draft head", "%s", m->why);
}

static void check_text(check *c) {
    const fore_model *m = c->model;
    int vocab = m->network.config.text.vocab_size, image = m->network.config.image_token_id;
    size_t size;
    if (!m->tokenizer) {
        add(c, FORE_CHECK_PROBLEM, "tokenizer", "no %s: the model takes token ids alone", c->gguf ? "tokenizer in the metadata" : "tokenizer.json");
        return;
    }
    size_t ids = fore_tokenizer_size(m->tokenizer);
    if (ids > (size_t)vocab) add(c, FORE_CHECK_PROBLEM, "tokenizer", "%zu ids, and the model has embeddings of %d: it is another model's", ids, vocab);
    else add(c, FORE_CHECK_FINE, "tokenizer", "loads, %zu ids of %d", ids, vocab);
    if (m->network.config.has_vision && image >= 0 && !fore_tokenizer_piece(m->tokenizer, image, &size))
        add(c, FORE_CHECK_PROBLEM, "tokenizer", "it does not know token %d, where pictures stand (image_token_id)", image);
    if (m->chat_template) add(c, FORE_CHECK_FINE, "template", "compiles");
    else if (m->template_error.code == FORE_ERR_INVALID) add(c, FORE_CHECK_REMARK, "template", "no chat template: prompts must be raw text");
    else add(c, FORE_CHECK_PROBLEM, "template", "%s", m->template_error.text);
}

static void check_answer(check *c) {
    fore_check_answer a;
    fore_check_report *r = &c->report->public;
    fore_error why = {0};
    fore_status s = fore_check_try(c->model, &c->options, &c->report->arena, &a, &why);
    if (s) {
        c->status = fore_fail(c->err, s, "%s", why.text);
        return;
    }
    r->prompt = a.prompt;
    r->answer = a.text;
    if (a.problem) add(c, FORE_CHECK_PROBLEM, "answer", "%s", a.problem);
    else if (!a.text[0]) add(c, FORE_CHECK_REMARK, "answer", "the model has nothing to say to \"%s\"", a.prompt);
    else if (a.drafted)
        add(c, FORE_CHECK_FINE, "answer", "%s, the same with drafts (%" PRIu64 " of %" PRIu64 " right)", a.picture ? "after a picture" : "after text", a.accepted,
            a.drafted);
    else add(c, FORE_CHECK_FINE, "answer", "%s", a.picture ? "after a picture" : "after text");
}

static void run(check *c) {
    if (!check_config(c) || !check_files(c)) return;
    check_tensors(c);
    if (c->status || !check_opens(c)) return;
    check_norms(c);
    check_vision(c);
    check_head(c);
    check_text(c);
    if (!c->status && !c->options.no_answer) check_answer(c);
}

fore_status fore_check(const char *dir, const fore_check_options *options, fore_check_report **report, fore_error *err) {
    if (!dir || !report) return fore_fail(err, FORE_ERR_INVALID, "fore_check: an argument is NULL");
    *report = NULL;
    bool gguf = false;
    fore_status s = fore_gguf_is_model(dir, &gguf, err);
    if (s) return s;
    if (!gguf && !fore_dir_exists(dir)) return fore_fail(err, FORE_ERR_IO, "%s: not a folder; give the folder of a checkpoint, or a GGUF file", dir);
    if (gguf && !fore_dir_exists(dir) && !fore_file_exists(dir)) return fore_fail(err, FORE_ERR_IO, "%s: no such file", dir);
    check c = {.dir = dir, .options = options ? *options : (fore_check_options){0}, .err = err};
    c.report = calloc(1, sizeof *c.report);
    if (!c.report) return fore_fail_nomem(err, "the report");
    fore_check_report *r = &c.report->public;
    r->prompt = r->answer = "";
    r->findings = c.findings = fore_arena_alloc(&c.report->arena, MOST_FINDINGS, sizeof *c.findings);
    if (!c.findings) c.status = fore_fail_nomem(err, "the report");
    else run(&c);
    r->sound = !r->problems;
    fore_model_close(c.model);
    fore_store_close(c.store);
    fore_store_close(c.sidecar);
    fore_gguf_model_close(c.gguf);
    free(c.sidecar_name);
    cJSON_Delete(c.tree);
    fore_arena_free(&c.arena);
    if (c.status) fore_check_report_free(r);
    else *report = r;
    return c.status;
}

void fore_check_report_free(fore_check_report *report) {
    if (!report) return;
    owned_report *r = (owned_report *)(void *)report;
    fore_arena_free(&r->arena);
    free(r);
}
