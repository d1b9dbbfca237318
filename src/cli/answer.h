/* One answer: begin, the loop over rounds, what is known at the end. */
#ifndef FORE_CLI_ANSWER_H
#define FORE_CLI_ANSWER_H

#include "cli/drafts.h"
#include "cli/model.h"
#include "cli/request.h"
#include "cli/view.h"

typedef struct cli_answer {
    cli_view view;
    int32_t *ids;      /* owned; end token included */
    uint8_t *marks;    /* owned: [id_count] fore_mark */
    size_t *text_ends; /* owned: [id_count] bytes of view.text after each token */
    size_t id_count;
    const char *finish;   /* "stop", "length" or "interrupted"; NULL: it failed */
    fore_stats stats;     /* of the session, when it ended */
    double total_seconds; /* begin and rounds */
} cli_answer;

/* Generates, and shows it in `style` on standard output. Returns CLI_OK, CLI_INTERRUPTED with what was said so far, or,
 * having said why, CLI_FAILED. Free in any case. */
int cli_answer_run(cli_answer *out, const cli_model *model, cli_request *request, cli_view_style style);
void cli_answer_free(cli_answer *answer);
/* A table on standard error. */
void cli_answer_print_stats(const cli_answer *answer, const cli_model *model, const fore_request *request);
/* The marks' legend on standard error, where colored says whether in colours. */
void cli_answer_print_legend(const cli_answer *answer, bool colored);
/* The object of --json, with every token's mark or without; owned (cJSON_Delete). */
cJSON *cli_answer_json(cli_answer *answer, const cli_model *model, const fore_request *request, bool marks);

#endif
