/* JSON of files and of what the command prints; see json.h. */
#include "cli/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"

enum { JSON_LIMIT = 256 << 20 };

int cli_json_parse(const char *name, const char *text, size_t size, cJSON **out) {
    const char *end = NULL;
    *out = NULL;
    for (size_t i = 0; i < size;) {
        size_t length = cli_utf8_length(text + i, size - i);
        if (!length || !text[i]) return cli_fail("%s: not text in UTF-8: an invalid byte at offset %zu", name, i);
        i += length;
    }
    cJSON *json = cJSON_ParseWithLengthOpts(text, size, &end, false);
    size_t at = end ? (size_t)(end - text) : 0;
    while (json && at < size && strchr(" \t\r\n", text[at])) at++;
    if (json && at == size) {
        *out = json;
        return CLI_OK;
    }
    cJSON_Delete(json);
    return cli_fail("%s: not JSON: %s at byte %zu", name, json ? "something follows the value" : "a mistake", at);
}

int cli_json_read(const char *path, cJSON **out) {
    cli_text text = {0};
    *out = NULL;
    int code = cli_read(path, JSON_LIMIT, &text);
    if (code == CLI_OK)
        code = cli_json_parse(strcmp(path, "-") == 0 ? "standard input" : path, cli_text_string(&text), text.size, out);
    cli_text_free(&text);
    return code;
}

int cli_json_read_ids(const char *path, int32_t **ids, size_t *id_count) {
    cJSON *json = NULL;
    *ids = NULL;
    *id_count = 0;
    int code = cli_json_read(path, &json);
    if (code) return code;
    const cJSON *list = json;
    if (cJSON_IsObject(list)) {
        const cJSON *named = cJSON_GetObjectItemCaseSensitive(list, "input_ids");
        list = named ? named : cJSON_GetObjectItemCaseSensitive(list, "ids");
    }
    if (cJSON_GetArraySize(list) == 1 && cJSON_IsArray(cJSON_GetArrayItem(list, 0))) list = cJSON_GetArrayItem(list, 0);
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (!count) code = cli_fail("%s: expected a JSON list of token ids such as [1, 2, 3]", path);
    *ids = cli_need(calloc((size_t)count + 1, sizeof **ids));
    for (const cJSON *id = count ? list->child : NULL; id && code == CLI_OK; id = id->next) {
        double value = cJSON_IsNumber(id) ? id->valuedouble : -1;
        if (!(value >= 0 && value <= INT32_MAX) || value != floor(value))
            code = cli_fail("%s: item %zu: expected a token id, a whole number from 0 up", path, *id_count);
        else
            (*ids)[(*id_count)++] = (int32_t)value;
    }
    cJSON_Delete(json);
    return code;
}

char *cli_json_text(const cJSON *json) {
    return cli_need(cJSON_PrintUnformatted(json));
}

int cli_json_print(const cJSON *json) {
    cli_text line = {0};
    char *text = cli_json_text(json);
    cli_text_puts(&line, text);
    cli_text_puts(&line, "\n");
    int code = cli_print(line.data, line.size);
    cli_text_free(&line);
    free(text);
    return code;
}

void cli_json_number(cJSON *object, const char *name, double value) {
    cli_need(cJSON_AddNumberToObject(object, name, isfinite(value) ? round(value * 1e6) / 1e6 : 0));
}

void cli_json_whole(cJSON *object, const char *name, uint64_t value) {
    char digits[24]; /* a number of JSON may have more digits than a double */
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    cli_need(cJSON_AddRawToObject(object, name, digits));
}

void cli_json_bool(cJSON *object, const char *name, bool value) {
    cli_need(cJSON_AddBoolToObject(object, name, value));
}

void cli_json_string(cJSON *object, const char *name, const char *value) {
    cli_text clean = {0};
    cli_text_add_clean(&clean, value, strlen(value));
    cli_need(cJSON_AddStringToObject(object, name, cli_text_string(&clean)));
    cli_text_free(&clean);
}
