/* What `quantize` and `forge convert` share: the flags' words as options of the library, and what is said of the matrices. */
#ifndef FORE_CLI_QUANTIZED_H
#define FORE_CLI_QUANTIZED_H

#include "cli/cli.h"

/* What is not said is 0. */
fore_quantize_options cli_quantized_options(const cli_options *options);
/* A line for every matrix. */
void cli_quantized_print_each(const fore_quantize_report *report);
/* The errors of those that were quantised, if any were. */
void cli_quantized_print_errors(const fore_quantize_report *report);

#endif
