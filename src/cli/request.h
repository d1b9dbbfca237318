/* From flags to a fore_request: the prompt, the pictures, the conversation as JSON, the settings. */
#ifndef FORE_CLI_REQUEST_H
#define FORE_CLI_REQUEST_H

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/text.h"

/* The prompt: the operand, or standard input when it is "-" or absent and standard input is no terminal. Invalid UTF-8
 * is replaced. Returns an exit code. */
int cli_read_prompt(const cli_options *options, cli_text *prompt);

/* Pictures read from files. */
typedef struct cli_pictures {
    fore_image *items; /* owned, their data and names too */
    size_t count;
} cli_pictures;

int cli_pictures_add(cli_pictures *pictures, const char *path);          /* an exit code; unchanged on failure */
void cli_pictures_cut(cli_pictures *pictures, size_t count);             /* drops those beyond the first `count` */
int cli_pictures_add_all(cli_pictures *pictures, const cli_list *paths); /* an exit code */

/* A picture that needs no file: stripes, as patches, for the model. Owned (free), and borrowed by *out. */
float *cli_draw_picture(const fore_model_info *info, fore_image *out);

/* {"role": role, "content": ...}: `images` picture parts and `videos` video parts before the text, or just the text without
 * any. text may be any bytes; invalid UTF-8 is replaced. Owned (cJSON_Delete). */
cJSON *cli_message(const char *role, const char *text, size_t images, size_t videos);
/* The messages of one question, as JSON; system may be NULL. Owned (free). */
char *cli_conversation(const char *system, const char *prompt, size_t images, size_t videos);

typedef struct cli_request {
    fore_request request;
    fore_logit_bias *bias; /* owned */
    char *options;         /* owned */
    int32_t *replay;       /* owned: drafts of --draft-replay */
    cli_progress progress;
} cli_request;

/* The settings of the flags over the model's defaults; the caller adds messages, prompt or ids, and pictures. Sampling
 * without --seed takes a random one. Returns an exit code; free in any case. */
int cli_request_init(cli_request *out, const cli_options *options, const fore_model *model);
void cli_request_free(cli_request *request);
/* Whether the prompt of the request ends inside <think>, so that the answer begins with reasoning. */
bool cli_starts_thinking(const fore_model *model, const fore_request *request);

#endif
