/* The report; see quantize_report.h. */
#include "forge/quantize_report.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

typedef struct owned_report {
    fore_quantize_report public; /* first: what the caller has points to it */
    fore_arena arena;
} owned_report;

static fore_status fill(owned_report *r, const fore_quantize_plan *plan, const double *errors) {
    fore_quantized *m = fore_arena_alloc(&r->arena, plan->count + 1, sizeof *m);
    if (!m) return FORE_ERR_NOMEM;
    r->public.modules = m;
    double sum = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const fore_quantize_job *j = &plan->jobs[i];
        if (!j->module) continue;
        fore_quantized *q = &m[r->public.count++];
        *q = (fore_quantized){.bits = j->bits, .group = j->group, .copied = j->exact, .weights = j->rows * j->K, .error = errors[i]};
        q->name = fore_arena_copy(&r->arena, j->module, strlen(j->module));
        q->why = j->why ? fore_arena_copy(&r->arena, j->why, strlen(j->why)) : "";
        if (!q->name || !q->why) return FORE_ERR_NOMEM;
        if (!j->bits) continue;
        r->public.copied += j->exact;
        if (j->exact) continue;
        r->public.quantized++;
        sum += errors[i];
    }
    if (r->public.quantized) r->public.mean_error = sum / (double)r->public.quantized;
    return FORE_OK;
}

fore_status fore_quantize_report_make(const fore_quantize_plan *plan, const double *errors, int files_kept,
                                      fore_quantize_report **out, fore_error *err) {
    *out = NULL;
    owned_report *r = calloc(1, sizeof *r);
    if (!r) return fore_fail_nomem(err, "the report");
    r->public.source_bytes = plan->stored_bytes;
    r->public.bytes = plan->bytes;
    r->public.files = (int)plan->file_count;
    r->public.files_kept = files_kept;
    if (fill(r, plan, errors)) {
        fore_quantize_report_free(&r->public);
        return fore_fail_nomem(err, "the report");
    }
    *out = &r->public;
    return FORE_OK;
}

void fore_quantize_report_free(fore_quantize_report *report) {
    if (!report) return;
    owned_report *r = (owned_report *)(void *)report;
    fore_arena_free(&r->arena);
    free(r);
}

static bool add_module(cJSON *list, const fore_quantized *q) {
    cJSON *m = cJSON_CreateObject();
    if (!m || !cJSON_AddItemToArray(list, m)) return false;
    if (!cJSON_AddStringToObject(m, "name", q->name) || !cJSON_AddNumberToObject(m, "weights", (double)q->weights)) return false;
    if (!q->bits) return cJSON_AddStringToObject(m, "kept", q->why) != NULL;
    if (!cJSON_AddNumberToObject(m, "bits", q->bits) || !cJSON_AddNumberToObject(m, "group_size", q->group)) return false;
    if (q->copied) return cJSON_AddTrueToObject(m, "copied") != NULL;
    return cJSON_AddNumberToObject(m, "relative_rms_error", q->error) != NULL;
}

static bool build(cJSON *top, const fore_quantize_plan *plan, const fore_quantize_report *r) {
    const fore_quantize_rules *rules = &plan->rules;
    const bool said = !rules->any_form, any = rules->any_form;
    const struct {
        const char *name;
        double value;
        bool there;
    } numbers[] = {
        {"bits", plan->bits, true},
        {"group_size", plan->group, true},
        {"head_bits", rules->head_bits, said || rules->head_bits},
        {"mtp_bits", rules->mtp_bits, said || rules->mtp_bits},
        {"vision_bits", rules->vision_bits, said},
        {"source_bytes", (double)r->source_bytes, true},
        {"bytes", (double)r->bytes, true},
        {"files", r->files, true},
        {"quantized_modules", (double)r->quantized, true},
        {"copied_modules", (double)r->copied, any},
        {"mean_relative_rms_error", r->mean_error, true},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].there && !cJSON_AddNumberToObject(top, numbers[i].name, numbers[i].value)) return false;
    if (said && !cJSON_AddStringToObject(top, "mtp_policy", rules->mtp_layers_only ? "cyankiwi" : "all")) return false;
    cJSON *list = cJSON_AddArrayToObject(top, "modules");
    if (!list) return false;
    for (size_t i = 0; i < r->count; i++)
        if (!add_module(list, &r->modules[i])) return false;
    return true;
}

fore_status fore_quantize_report_json(const fore_quantize_plan *plan, const fore_quantize_report *report, char **text,
                                      fore_error *err) {
    cJSON *top = cJSON_CreateObject();
    *text = top && build(top, plan, report) ? cJSON_Print(top) : NULL;
    cJSON_Delete(top);
    return *text ? FORE_OK : fore_fail_nomem(err, "the report");
}
