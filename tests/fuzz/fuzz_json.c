/* The JSON reader: any bytes, and the typed readers on what it parsed. */
#include "base/json.h"
#include "foresight.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fore_error err;
    cJSON *tree = NULL;
    if (fore_json_parse((const char *)data, size, "input", &tree, &err) != FORE_OK) return 0;
    int64_t integer;
    double number;
    bool flag;
    const char *text;
    (void)fore_json_int(tree, "a", -5, 1 << 20, 3, &integer, &err);
    (void)fore_json_number(tree, "b", 0.5, &number, &err);
    (void)fore_json_bool(tree, "c", false, &flag, &err);
    (void)fore_json_string(tree, "d", NULL, &text, &err);
    cJSON_Delete(tree);
    return 0;
}
