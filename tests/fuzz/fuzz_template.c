/* A template and the variables' JSON, parted by the first byte 0xFE (no such byte: all is template). What compiles must
 * render or say why not; a text that comes back is what a second rendering gives. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char fixed[] = "{\"s\": \"Gr\\u00fc\\u00df <x> %s {}\", \"n\": -3, \"f\": 2.5, \"l\": [3, \"b\", null], \"d\": {\"k\": [1]}, "
                                "\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}";
    const uint8_t *mark = size ? memchr(data, 0xFE, size) : NULL;
    size_t source_size = mark ? (size_t)(mark - data) : size;
    const char *variables = mark ? (const char *)mark + 1 : fixed;
    size_t variables_size = mark ? size - source_size - 1 : sizeof fixed - 1;
    fore_template *t;
    fore_error err = {0};
    if (fore_template_compile((const char *)data, source_size, &t, &err)) {
        assert(err.text[0] && !t);
        return 0;
    }
    char *text[2];
    size_t length[2] = {0, 0};
    fore_status status[2];
    for (int i = 0; i < 2; i++) {
        fore_trender how = {.now = 1767323045, .as_chat = i == 1};
        if (!mark) how.as_chat = false;
        err = (fore_error){0};
        status[i] = fore_template_render_as(t, variables, variables_size, how, &text[i], &length[i], &err);
        assert((status[i] == FORE_OK) == (text[i] != NULL) && (status[i] == FORE_OK || err.text[0]));
    }
    if (!mark) assert(status[0] == status[1] && (status[0] || (length[0] == length[1] && !memcmp(text[0], text[1], length[0]))));
    for (int i = 0; i < 2; i++) fore_free(text[i]);
    fore_template_free(t);
    return 0;
}
