/* Printing JSON; see json_text.h. */
#include "forge/json_text.h"

#include <stdlib.h>

#include "base/buf.h"

/* cJSON indents by tabs and puts one after a colon; a tab inside a string is written \t. */
fore_status fore_json_text(const cJSON *tree, const char *what, char **text, fore_error *err) {
    fore_buf out = {0};
    size_t size;
    char *printed = cJSON_Print(tree);
    *text = NULL;
    fore_status s = printed ? FORE_OK : FORE_ERR_NOMEM;
    for (const char *p = printed; p && *p && !s; p++) {
        if (*p == '\t') s = fore_buf_puts(&out, p > printed && p[-1] == ':' ? " " : "  ");
        else s = fore_buf_putc(&out, *p);
    }
    if (!s) s = fore_buf_putc(&out, '\n');
    if (!s) *text = fore_buf_take(&out, &size);
    free(printed);
    fore_buf_free(&out);
    return *text ? FORE_OK : fore_fail_nomem(err, what);
}
