/* The lines that a user types: an editor with history on a terminal, plain lines from a pipe. */
#ifndef FORE_CLI_LINES_H
#define FORE_CLI_LINES_H

#include <stdbool.h>

typedef struct cli_lines cli_lines;

typedef enum cli_line_kind { CLI_LINE_TEXT, CLI_LINE_INTERRUPTED, CLI_LINE_END } cli_line_kind;

/* An editor when standard input and output are terminals; history is kept in $XDG_STATE_HOME/foresight/history. */
cli_lines *cli_lines_open(void);
bool cli_lines_edits(const cli_lines *lines);
/* *line: without its newline, borrowed until the next call; NULL unless CLI_LINE_TEXT. INTERRUPTED: Ctrl-C was pressed.
 */
cli_line_kind cli_lines_next(cli_lines *lines, const char **line);
void cli_lines_close(cli_lines *lines);

#endif
