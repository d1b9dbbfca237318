/* How an answer is shown and taken apart: streamed to standard output, reasoning between <think> and </think> dim on a
 * terminal, and both kept apart for --json and for the next turn of a chat. With --show-drafts every piece of text is
 * marked by what became of the draft for it: by colour, or by brackets where there is no colour. */
#ifndef FORE_CLI_VIEW_H
#define FORE_CLI_VIEW_H

#include "cli/cli.h"
#include "cli/text.h"

typedef struct cli_view_style {
    bool show;   /* print what is pushed */
    bool drafts; /* with marks */
    bool color;
} cli_view_style;

typedef struct cli_view {
    cli_view_style style;
    bool terminal, thinking, thought; /* thought: there was reasoning */
    bool dim;                         /* what is printed */
    fore_mark mark;                   /* what is printed */
    cli_text text, answer, reasoning; /* all of it; without the reasoning and the tags; what was between the tags */
    char held[16];                    /* what may be the start of a tag */
    fore_mark held_marks[16];
    size_t held_size;
} cli_view;

/* Whether `descriptor` gets colours: --color; by default when it is a terminal and $NO_COLOR is not set. */
bool cli_colors(const cli_options *options, int descriptor);

/* thinking: the prompt ended inside <think>. */
void cli_view_start(cli_view *view, cli_view_style style, bool thinking);
/* Whole characters of one token; an exit code. */
int cli_view_push(cli_view *view, const char *text, size_t size, fore_mark mark);
void cli_view_pause(cli_view *view); /* the end of a round: a bracket is closed, colours are as before */
int cli_view_end(cli_view *view);    /* releases what is held, ends the line; an exit code */
void cli_view_free(cli_view *view);
/* The answer and the reasoning without white space around them; borrowed until free. */
const char *cli_view_answer(cli_view *view);
const char *cli_view_reasoning(cli_view *view);
/* What the marks of an answer mean and how many tokens have each, on standard error; colored: there too. */
void cli_view_legend(const cli_view *view, const size_t counts[4], bool colored);

#endif
