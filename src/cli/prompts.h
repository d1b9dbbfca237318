/* A file of prompts with their pictures, one a line, as fore_requests. */
#ifndef FORE_CLI_PROMPTS_H
#define FORE_CLI_PROMPTS_H

#include "cli/cli.h"
#include "cli/request.h"

typedef struct cli_prompts {
    fore_request *items; /* [count] owned, with all that they point to */
    size_t count;
    void **texts;          /* [count] owned: text, or ids */
    cli_pictures pictures; /* of all of them, in order */
} cli_prompts;

/* Each line is a JSON object with "prompt" (what a user asks), "messages" (a list as `render` takes it) or "ids" (a list of token ids),
 * and "images" (a list of files, or "image" with one; relative names are of the file's folder). Empty lines are skipped, other
 * members are not looked at.
 * raw: prompts are texts as after the chat template. Returns an exit code; free in any case. */
int cli_prompts_read(const char *path, bool raw, cli_prompts *out);
void cli_prompts_free(cli_prompts *prompts);

#endif
