/* JSON of files and of what the command prints. */
#ifndef FORE_CLI_JSON_H
#define FORE_CLI_JSON_H

#include <cjson/cJSON.h>

#include "cli/cli.h"
#include "cli/text.h"

/* Parses text, which messages call `name`. *out is owned (cJSON_Delete). Returns an exit code. */
int cli_json_parse(const char *name, const char *text, size_t size, cJSON **out);
/* Reads and parses a file; "-" is standard input. Returns an exit code. */
int cli_json_read(const char *path, cJSON **out);
/* Token ids of a JSON file: a list, alone, in a list of one, or as "input_ids" or "ids" of an object. *ids is owned
 * (free), in any case. Returns an exit code. */
int cli_json_read_ids(const char *path, int32_t **ids, size_t *count);
char *cli_json_text(const cJSON *json);                              /* on one line; owned (free) */
int cli_json_print(const cJSON *json);                               /* one line on standard output; an exit code */
void cli_json_number(cJSON *object, const char *name, double value); /* rounded to millionths */
void cli_json_whole(cJSON *object, const char *name, uint64_t value);
void cli_json_bool(cJSON *object, const char *name, bool value);
void cli_json_string(cJSON *object, const char *name, const char *value); /* invalid UTF-8 is replaced */

#endif
