/* JSON as the files of a checkpoint have it: indented by two spaces, with a newline at the end. */
#ifndef FORE_FORGE_JSON_TEXT_H
#define FORE_FORGE_JSON_TEXT_H

#include <cjson/cJSON.h>

#include "base/error.h"

/* *text is owned (fore_free). `what` names it when memory is out. */
fore_status fore_json_text(const cJSON *tree, const char *what, char **text, fore_error *err);

#endif
