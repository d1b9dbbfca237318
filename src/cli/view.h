/* How an answer is shown and taken apart: streamed to standard output, reasoning between <think> and </think> dim on a
 * terminal, and both kept apart for --json and for the next turn of a chat. */
#ifndef FORE_CLI_VIEW_H
#define FORE_CLI_VIEW_H

#include "cli/cli.h"
#include "cli/text.h"

typedef struct cli_view {
    bool show, terminal, thinking, thought; /* thought: there was reasoning */
    cli_text text, answer, reasoning; /* all of it; without the reasoning and the tags; what was between the tags */
    char held[16];                    /* what may be the start of a tag */
    size_t held_size;
} cli_view;

/* show: print what is pushed. thinking: the prompt ended inside <think>. */
void cli_view_start(cli_view *view, bool show, bool thinking);
int cli_view_push(cli_view *view, const char *text, size_t size); /* an exit code */
int cli_view_end(cli_view *view); /* releases what is held, ends the line; an exit code */
void cli_view_free(cli_view *view);
/* The answer and the reasoning without white space around them; borrowed until free. */
const char *cli_view_answer(cli_view *view);
const char *cli_view_reasoning(cli_view *view);

#endif
