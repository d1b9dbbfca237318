/* What a run did to each matrix, for the caller and as a file. */
#ifndef FORE_FORGE_QUANTIZE_REPORT_H
#define FORE_FORGE_QUANTIZE_REPORT_H

#include "forge/quantize_plan.h"

/* errors: [plan->count]. *out is owned (fore_quantize_report_free) and keeps nothing of the plan. */
fore_status fore_quantize_report_make(const fore_quantize_plan *plan, const double *errors, int files_kept,
                                      fore_quantize_report **out, fore_error *err);
/* The report as JSON; *text is owned (fore_free). */
fore_status fore_quantize_report_json(const fore_quantize_plan *plan, const fore_quantize_report *report, char **text,
                                      fore_error *err);

#endif
