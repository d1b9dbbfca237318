/* How failures are said, and the exit codes that they have; see cli.h. */
#include <stdarg.h>

#include "cli/cli.h"

int cli_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("foresight: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return CLI_FAILED;
}

int cli_fail_usage(const cli_verb *verb, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("foresight: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nfor help: foresight %s%s--help\n", verb ? verb->name : "", verb ? " " : "");
    va_end(args);
    return CLI_USAGE;
}

int cli_fail_status(fore_status status, const fore_error *err) {
    if (status == FORE_ERR_CANCELLED) return CLI_INTERRUPTED;
    return cli_fail("%s", err->text[0] ? err->text : fore_status_name(status));
}
