/* Making a checkpoint from another one, from opening the source to the last file: what fore_quantize and fore_convert share. */
#ifndef FORE_FORGE_QUANTIZE_RUN_H
#define FORE_FORGE_QUANTIZE_RUN_H

#include "forge/quantize_plan.h"

typedef struct fore_quantize_run {
    const char *source, *out;
    const char *stage;         /* what this work is called: "quantize", "convert"; static */
    fore_quantize_rules rules; /* checked */
    const char *mmproj;        /* of a source in GGUF files; NULL: none said */
    bool dry_run;              /* looks, plans and reports, writes nothing */
    int threads;
    fore_progress progress;
    void *user;
} fore_quantize_run;

/* The rules of options, filled in; those without a number of bits when any_form. FORE_ERR_INVALID: a number that is not possible. */
fore_status fore_quantize_read_rules(const fore_quantize_options *options, const char *stage, bool any_form, fore_quantize_rules *rules,
                                     fore_error *err);
/* *report is owned (fore_quantize_report_free); may be NULL. */
fore_status fore_quantize_run_make(const fore_quantize_run *run, fore_quantize_report **report, fore_error *err);

#endif
