/* fore_calibrate: asks, tries contracts along the answers, chooses, confirms, writes.
 *
 * Fields without which drafts are hopeless (order, norms, which hidden) are tried in every combination, since one put right while
 * another is wrong changes nothing that could be seen. Then single changes of the variant that is ahead are tried, until none gets
 * ahead of it, and those of the one that would be chosen. The simplest wins that chance cannot tell from the one ahead, if it is
 * better than the present contract beyond chance: the search may follow noise, the choice does not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "forge/calibrate_answers.h"
#include "forge/calibrate_fields.h"
#include "forge/folder.h"
#include "forge/json_text.h"
#include "forge/paired.h"

enum { PLACES_LEAST = 192 /* twelve runs: fewer say little of how they scatter */, DEPTH = 3, MOST_VARIANTS = 64, MOST_SWEEPS = 3 };
static const double ALPHA = 0.01, LEAST = 0.02;

typedef struct variant {
    int pick[FORE_TRIED_FIELDS]; /* index of the field's value; all 0: the present contract */
    int changes, unusual; /* fields that are not as in the present contract; as in one that says nothing */
    uint8_t *right; /* [places] in the arena */
    double tokens;
} variant;

typedef struct owned_report {
    fore_calibrate_report public; /* first: what the caller has points to it */
    fore_arena arena;
} owned_report;

typedef struct calibration {
    const char *dir;
    fore_calibrate_options options;
    int depth;
    owned_report *report;
    fore_model *model;     /* owned; its contract is changed from variant to variant */
    int norms;             /* index of the norms' value that it was opened with */
    fore_contract present;
    fore_tried_field fields[FORE_TRIED_FIELDS];
    fore_calibrate_answers answers;
    variant variants[MOST_VARIANTS];
    int count, planned;
    fore_arena arena; /* of the counts */
    fore_error *err;
} calibration;

/* ---- the model under some contract ------------------------------------------------------------------------------- */

/* norms: NULL: as the checkpoint has it. */
static fore_status open_model(calibration *c, const char *norms) {
    const fore_calibrate_options *o = &c->options;
    char contract[96];
    if (norms) snprintf(contract, sizeof contract, "{\"%s\": \"%s\"}", fore_contract_field_name(FORE_CONTRACT_NORMS), norms);
    const fore_model_options how = {.isa = o->isa, .progress = o->progress, .user = o->user, .pack_dir = o->pack_dir, .mmproj = o->mmproj,
                                    .mtp_contract = norms ? contract : NULL};
    fore_model_close(c->model);
    c->model = NULL;
    fore_status s = fore_model_open(c->dir, &how, &c->model, c->err);
    if (s) return s;
    if (!c->model->mtp.attached)
        return fore_fail(c->err, FORE_ERR_UNSUPPORTED, "%s: there is no draft head to calibrate: %s", c->dir, c->model->mtp.why);
    if (!c->model->tokenizer && !c->options.requests)
        return fore_fail(c->err, FORE_ERR_UNSUPPORTED, "%s: no tokenizer.json, so there is nothing to ask", c->dir);
    return FORE_OK;
}

static const char *value_of(const calibration *c, const variant *v, int field) { return c->fields[field].values[v->pick[field]]; }

/* The model with a variant's contract; only another encoding of the norms makes it open anew. */
static fore_status take_contract(calibration *c, const variant *v) {
    fore_status s = FORE_OK;
    int norms = 0; /* the field */
    while (c->fields[norms].field != FORE_CONTRACT_NORMS) norms++;
    if (v->pick[norms] != c->norms) {
        s = open_model(c, v->pick[norms] ? value_of(c, v, norms) : NULL);
        c->norms = v->pick[norms];
    }
    if (s) return s;
    cJSON *object = cJSON_CreateObject();
    bool good = object != NULL;
    c->model->mtp.contract = c->present;
    for (int i = 0; i < FORE_TRIED_FIELDS && good; i++)
        if (v->pick[i]) good = cJSON_AddStringToObject(object, fore_contract_field_name(c->fields[i].field), value_of(c, v, i)) != NULL;
    s = good ? fore_contract_read(&c->model->mtp.contract, object, FORE_CONTRACT_CALIBRATED, "calibration", c->err)
             : fore_fail_nomem(c->err, "a contract");
    cJSON_Delete(object);
    return s;
}

/* ---- trying and choosing ----------------------------------------------------------------------------------------- */

static int find(const calibration *c, const int *pick) {
    for (int i = 0; i < c->count; i++)
        if (!memcmp(c->variants[i].pick, pick, sizeof c->variants[i].pick)) return i;
    return -1;
}

/* Tries a combination that was not tried yet, while there is room. */
static fore_status try(calibration *c, const int *pick) {
    size_t places = c->answers.places, sum = 0;
    if (find(c, pick) >= 0 || c->count == MOST_VARIANTS) return FORE_OK;
    variant *v = &c->variants[c->count];
    *v = (variant){.right = fore_arena_alloc(&c->arena, places, 1)};
    if (!v->right) return fore_fail_nomem(c->err, "the counts of a contract");
    memcpy(v->pick, pick, sizeof v->pick);
    for (int i = 0; i < FORE_TRIED_FIELDS; i++) {
        v->changes += pick[i] != 0;
        v->unusual += strcmp(value_of(c, v, i), c->fields[i].usual) != 0;
    }
    if (c->planned <= c->count) c->planned = c->count + 1;
    if (c->options.progress && c->options.progress(c->options.user, "try", (uint64_t)c->count, (uint64_t)c->planned))
        return fore_fail(c->err, FORE_ERR_CANCELLED, "cancelled");
    fore_status s = take_contract(c, v);
    if (!s) s = fore_calibrate_try(c->model, &c->options, c->depth, &c->answers, v->right, c->err);
    if (s) return s;
    for (size_t i = 0; i < places; i++) sum += v->right[i];
    v->tokens = 1 + (double)sum / (double)places;
    c->count++;
    return FORE_OK;
}

static fore_paired compare(const calibration *c, int a, int b) {
    double comparisons = c->count > 1 ? c->count - 1 : 1;
    return fore_paired_compare(c->variants[a].right, c->variants[b].right, c->answers.lengths, c->answers.count, ALPHA / comparisons);
}

/* Beyond chance, and by enough to care. */
static bool is_better(const calibration *c, int a, int b) {
    fore_paired p = compare(c, a, b);
    return p.low > 0 && p.difference >= LEAST;
}

static bool is_simpler(const variant *a, const variant *b) {
    if (a->changes != b->changes) return a->changes < b->changes;
    return a->unusual != b->unusual ? a->unusual < b->unusual : a->tokens > b->tokens;
}

/* By whatever little: where the search goes on. */
static int ahead(const calibration *c) {
    int top = 0;
    for (int i = 1; i < c->count; i++)
        if (c->variants[i].tokens > c->variants[top].tokens) top = i;
    return top;
}

static int choose(const calibration *c) {
    int top = ahead(c), best = top;
    if (!is_better(c, top, 0)) return 0;
    for (int i = 1; i < c->count; i++)
        if (is_simpler(&c->variants[i], &c->variants[best]) && is_better(c, i, 0) && !is_better(c, top, i)) best = i;
    return best;
}

/* Every combination of the essential fields, the last field changing fastest. */
static fore_status try_product(calibration *c) {
    int pick[FORE_TRIED_FIELDS] = {0};
    for (int at = 0; at >= 0;) {
        fore_status s = try(c, pick);
        if (s) return s;
        for (at = FORE_TRIED_FIELDS - 1; at >= 0; at--) {
            if (c->fields[at].essential && ++pick[at] < c->fields[at].count) break;
            pick[at] = 0;
        }
    }
    return FORE_OK;
}

/* Single changes of what `from` gives, until it gives the same again. */
static fore_status try_changes(calibration *c, int (*from)(const calibration *c)) {
    bool moved = true;
    for (int i = 0; i < MOST_SWEEPS && moved; i++) {
        moved = false;
        for (int f = FORE_TRIED_FIELDS - 1; f >= 0; f--) {
            int base = from(c), pick[FORE_TRIED_FIELDS];
            memcpy(pick, c->variants[base].pick, sizeof pick);
            for (int v = 0; v < c->fields[f].count; v++) {
                pick[f] = v;
                fore_status s = try(c, pick);
                if (s) return s;
            }
            moved = moved || from(c) != base;
        }
    }
    return FORE_OK;
}

static fore_status search(calibration *c) {
    int product = 1, single = 0;
    for (int i = 0; i < FORE_TRIED_FIELDS; i++)
        if (c->fields[i].essential) product *= c->fields[i].count;
        else single += c->fields[i].count - 1;
    c->planned = product + single;
    fore_status s = try_product(c);
    if (!s) s = try_changes(c, ahead);
    return s ? s : try_changes(c, choose); /* simpler ones that are as good */
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

static fore_status copy(calibration *c, const char *text, const char **out) {
    *out = fore_arena_copy(&c->report->arena, text, strlen(text));
    return *out ? FORE_OK : fore_fail_nomem(c->err, "the report");
}

static fore_status report_fields(calibration *c) {
    fore_calibrate_report *r = &c->report->public;
    fore_calibrate_field *out = fore_arena_alloc(&c->report->arena, FORE_TRIED_FIELDS, sizeof *out);
    if (!out) return fore_fail_nomem(c->err, "the report");
    r->fields = out;
    for (int i = 0; i < FORE_TRIED_FIELDS; i++) {
        const fore_tried_field *f = &c->fields[i];
        out[i] = (fore_calibrate_field){.name = fore_contract_field_name(f->field), .tried = f->count - 1, .why = f->why};
        fore_status s = copy(c, f->values[0], &out[i].value);
        if (s) return s;
        r->field_count++;
    }
    return FORE_OK;
}

static fore_status report_variant(calibration *c, int index, fore_calibrate_variant *out) {
    const variant *v = &c->variants[index];
    size_t places = c->answers.places;
    char text[320] = "";
    for (int i = 0; i < FORE_TRIED_FIELDS; i++) {
        size_t n = strlen(text);
        const char *name = fore_contract_field_name(c->fields[i].field);
        if (v->pick[i]) snprintf(text + n, sizeof text - n, "%s%s=%s", n ? ", " : "", name, value_of(c, v, i));
    }
    fore_paired p = index ? compare(c, index, 0) : (fore_paired){0};
    *out = (fore_calibrate_variant){.tokens = v->tokens, .difference = p.difference, .low = p.low, .high = p.high};
    for (int d = 0; d < c->depth; d++) {
        size_t right = 0;
        for (size_t i = 0; i < places; i++) right += v->right[i] > d;
        out->accepted[d] = (double)right / (double)places;
    }
    return copy(c, text, &out->contract);
}

static fore_status report_variants(calibration *c, int best) {
    fore_calibrate_report *r = &c->report->public;
    fore_calibrate_variant *out = fore_arena_alloc(&c->report->arena, (size_t)c->count, sizeof *out);
    if (!out) return fore_fail_nomem(c->err, "the report");
    r->variants = out;
    fore_status s = FORE_OK;
    for (int i = 0; i < c->count && !s; i++) s = report_variant(c, i, &out[i]);
    r->count = (size_t)c->count;
    r->best = (size_t)best;
    return s;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static bool add_measured(const calibration *c, cJSON *tree, const fore_calibrate_variant *v) {
    const fore_calibrate_report *r = &c->report->public;
    cJSON *m = cJSON_AddObjectToObject(tree, "measured");
    const struct {
        const char *name;
        double value;
    } figures[] = {
        {"prompts", (double)r->prompts}, {"prompts_with_pictures", (double)r->picture_prompts}, {"places", (double)r->places},
        {"drafts", r->depth}, {"tokens_a_pass", v->tokens}, {"tokens_a_pass_before", r->variants[0].tokens},
        {"difference_low", v->low}, {"difference_high", v->high},
    };
    bool good = m && cJSON_AddStringToObject(m, "program", fore_version());
    for (size_t i = 0; i < sizeof figures / sizeof *figures && good; i++)
        good = cJSON_AddNumberToObject(m, figures[i].name, figures[i].value) != NULL;
    return good;
}

/* What the best contract changes, and what an earlier calibration said and the best one keeps. */
static bool add_contract(const calibration *c, cJSON *tree, const variant *v) {
    cJSON *contract = cJSON_AddObjectToObject(tree, "mtp_contract");
    bool good = contract != NULL;
    for (int i = 0; i < FORE_TRIED_FIELDS && good; i++) {
        fore_contract_field field = c->fields[i].field;
        if (v->pick[i] || c->present.source[field] == FORE_CONTRACT_CALIBRATED)
            good = cJSON_AddStringToObject(contract, fore_contract_field_name(field), value_of(c, v, i)) != NULL;
    }
    return good;
}

static fore_status write_best(calibration *c, const fore_folder *folder) {
    const fore_calibrate_report *r = &c->report->public;
    const fore_mtp *m = &c->model->mtp;
    const fore_store *store = m->sidecar ? m->sidecar : c->model->network.store;
    char hex[2 * FORE_MTP_DIGEST + 1], *text = NULL;
    fore_mtp_digest(store, fore_mtp_prefix(store), c->model->network.kern, hex);
    cJSON *tree = cJSON_CreateObject();
    bool good = tree && add_contract(c, tree, &c->variants[r->best]) && cJSON_AddStringToObject(tree, "head", hex) &&
                add_measured(c, tree, &r->variants[r->best]);
    fore_status s = good ? fore_json_text(tree, fore_mtp_calibration_file, &text, c->err) : fore_fail_nomem(c->err, fore_mtp_calibration_file);
    if (!s) s = fore_folder_write(folder, fore_mtp_calibration_file, text, strlen(text), c->err);
    free(text);
    cJSON_Delete(tree);
    return s;
}

/* Nobody wants to hear after an hour that the folder cannot be written. */
static fore_status probe(const char *dir, fore_folder *folder, fore_error *err) {
    fore_folder_file file;
    fore_status s = fore_folder_open(dir, folder, err);
    if (!s) s = fore_folder_begin(folder, fore_mtp_calibration_file, &file, err);
    if (s) return s;
    fore_folder_abandon(&file);
    return FORE_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static fore_status ask(calibration *c) {
    fore_calibrate_report *r = &c->report->public;
    fore_contract *contract = &c->model->mtp.contract;
    fore_tried_field fields[FORE_TRIED_FIELDS];
    fore_tried_fields(&c->model->mtp, &c->present, c->options.all, c->depth, true, fields);
    for (int i = 0; i < FORE_TRIED_FIELDS; i++) /* so that answers keep those hiddens too */
        if (fields[i].field == FORE_CONTRACT_BASE_HIDDEN && fields[i].count > 1) contract->base_pre_norm = true;
    fore_status s = fore_calibrate_ask(c->model, &c->options, c->depth, &c->answers, c->err);
    if (s) return s;
    r->prompts = c->answers.count;
    r->picture_prompts = c->answers.pictures;
    r->places = c->answers.places;
    fore_tried_fields(&c->model->mtp, &c->present, c->options.all, c->depth, r->picture_prompts > 0, c->fields);
    return report_fields(c);
}

static fore_status run(calibration *c, const fore_folder *folder) {
    fore_calibrate_report *r = &c->report->public;
    fore_status s = open_model(c, NULL);
    if (s) return s;
    c->present = c->model->mtp.contract;
    s = ask(c);
    if (s || r->places < r->places_needed) return s;
    s = search(c);
    if (s) return s;
    int best = choose(c);
    s = report_variants(c, best);
    if (s || !best) return s;
    s = take_contract(c, &c->variants[best]);
    if (!s) s = fore_calibrate_confirm(c->model, &c->options, c->depth, &c->answers, c->err);
    if (s || c->options.dry_run) return s;
    s = write_best(c, folder);
    r->written = !s;
    return s;
}

static fore_status check_options(const char *dir, const fore_calibrate_options *o, fore_error *err) {
    if (!fore_dir_exists(dir))
        return fore_fail(err, FORE_ERR_IO, "%s: not a folder; give the folder of a checkpoint, where the result is kept", dir);
    if (o->depth < 0 || o->depth > FORE_DRAFT_MAX)
        return fore_fail(err, FORE_ERR_INVALID, "calibrate: depth %d; expected 1 to %d, or 0", o->depth, FORE_DRAFT_MAX);
    if (o->max_tokens < 0) return fore_fail(err, FORE_ERR_INVALID, "calibrate: max_tokens %d; expected 0 or more", o->max_tokens);
    return FORE_OK;
}

fore_status fore_calibrate(const char *dir, const fore_calibrate_options *options, fore_calibrate_report **report, fore_error *err) {
    if (!dir || !report) return fore_fail(err, FORE_ERR_INVALID, "fore_calibrate: an argument is NULL");
    *report = NULL;
    const fore_calibrate_options none = {0}, *o = options ? options : &none;
    fore_status s = check_options(dir, o, err);
    if (s) return s;
    fore_folder folder = {.fd = -1};
    calibration *c = calloc(1, sizeof *c);
    owned_report *owned = calloc(1, sizeof *owned);
    char *path = fore_path_join(dir, fore_mtp_calibration_file);
    if (!c || !owned || !path) {
        s = fore_fail_nomem(err, "the report");
    } else {
        fore_calibrate_report *r = &owned->public;
        *c = (calibration){.dir = dir, .options = *o, .depth = o->depth ? o->depth : DEPTH, .report = owned, .err = err};
        *r = (fore_calibrate_report){.depth = c->depth, .alpha = ALPHA, .least = LEAST, .places_needed = PLACES_LEAST};
        s = copy(c, path, &r->path);
        if (!s && !o->dry_run) s = probe(dir, &folder, err);
        if (!s) s = run(c, &folder);
        fore_calibrate_answers_free(&c->answers);
        fore_arena_free(&c->arena);
        fore_model_close(c->model);
    }
    fore_folder_close(&folder);
    free(path);
    free(c);
    if (s && owned) fore_calibrate_report_free(&owned->public);
    else if (!s) *report = &owned->public;
    return s;
}

void fore_calibrate_report_free(fore_calibrate_report *report) {
    if (!report) return;
    owned_report *r = (owned_report *)(void *)report;
    fore_arena_free(&r->arena);
    free(r);
}

fore_status fore_calibrate_reset(const char *dir, bool dry_run, bool *was_there, fore_error *err) {
    fore_folder folder = {.fd = -1};
    if (!dir) return fore_fail(err, FORE_ERR_INVALID, "fore_calibrate_reset: an argument is NULL");
    if (!fore_dir_exists(dir)) return fore_fail(err, FORE_ERR_IO, "%s: not a folder; give the folder of a checkpoint", dir);
    fore_status s = fore_folder_open(dir, &folder, err);
    bool there = !s && fore_folder_has(&folder, fore_mtp_calibration_file, NULL);
    if (was_there) *was_there = there;
    if (!s && there && !dry_run) s = fore_folder_remove(&folder, fore_mtp_calibration_file, err);
    fore_folder_close(&folder);
    return s;
}
