/* Reading whole files and standard input; saying when standard output cannot be written. */
#ifndef FORE_CLI_FILES_H
#define FORE_CLI_FILES_H

#include "cli/cli.h"
#include "cli/text.h"

/* Adds the bytes of a file to out; "-" is standard input. Returns CLI_OK or, having said why, CLI_FAILED (it cannot be
 * read, or has more than `limit` bytes). */
int cli_read(const char *path, size_t limit, cli_text *out);
/* Writes to standard output and flushes. Returns CLI_OK or, having said why, CLI_FAILED. */
int cli_print(const char *data, size_t size);
/* Makes the folders of path, all but its last part, readable by this user alone; path is changed meanwhile. */
void cli_make_parents(char *path);
double cli_seconds(void); /* of a clock that never goes back */

#endif
