/* Rendering chat templates with what the public function leaves at its defaults. */
#ifndef FORE_TEXT_TEMPLATE_H
#define FORE_TEXT_TEMPLATE_H

#include "base/error.h"

typedef struct fore_trender {
    int64_t now; /* the clock of strftime_now: seconds since 1970, shown in local time */
    /* Messages as transformers' apply_chat_template prepares them before it renders: members that are null are dropped,
     * reasoning under any of the names reasoning_content, thinking and reasoning is given as reasoning_content and
     * thinking. */
    bool as_chat;
    uint64_t steps; /* the budget of work; 0: the default, 20 million and more for long input */
} fore_trender;

/* fore_template_render (messages as they are, the clock of the machine) with these choices. */
fore_status fore_template_render_as(const fore_template *t, const char *variables, size_t size, fore_trender how,
                                    char **text, size_t *text_size, fore_error *err);

#endif
