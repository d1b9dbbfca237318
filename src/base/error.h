/* Filling a fore_error. Every function of the library that can fail returns a fore_status and, where a message helps,
 * takes `fore_error *err` as its last parameter (may be NULL). A message says what, where and what to do:
 * "room: what: expected this, found that". */
#ifndef FORE_BASE_ERROR_H
#define FORE_BASE_ERROR_H

#include "foresight.h"

/* Fills err (when not NULL) and returns code, so that a failing function can end with `return fore_fail(...)`. */
fore_status fore_fail(fore_error *err, fore_status code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Out of memory; `what` names what was being made. Takes no memory itself. */
fore_status fore_fail_nomem(fore_error *err, const char *what);
/* Puts "prefix: " before the message that err already has; returns err's code, or `code` when err is NULL. */
fore_status fore_fail_prefix(fore_error *err, fore_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
