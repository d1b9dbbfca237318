/* Filling a fore_error; see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

fore_status fore_fail(fore_error *err, fore_status code, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        err->code = code;
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return code;
}

fore_status fore_fail_nomem(fore_error *err, const char *what) {
    return fore_fail(err, FORE_ERR_NOMEM, "out of memory while making %s", what);
}

fore_status fore_fail_prefix(fore_error *err, fore_status code, const char *format, ...) {
    if (!err) return code;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    old[sizeof old - 1] = 0;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n, room = sizeof err->text - 1;
    if (used + 2 < room) {
        memcpy(err->text + used, ": ", 2);
        size_t rest = strlen(old), fits = room - used - 2;
        memcpy(err->text + used + 2, old, rest < fits ? rest : fits);
        err->text[used + 2 + (rest < fits ? rest : fits)] = 0;
    }
    err->code = code;
    return code;
}

const char *fore_status_name(fore_status code) {
    switch (code) {
#define XX(name, value, text) \
    case value: return text;
        FORE_STATUS_MAP(XX)
#undef XX
    default: return "unknown status";
    }
}
