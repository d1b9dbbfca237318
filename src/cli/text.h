/* Text in memory: a growable string, UTF-8 made valid, memory that must be there. */
#ifndef FORE_CLI_TEXT_H
#define FORE_CLI_TEXT_H

#include <stddef.h>

#include "cli/cli.h"

/* Returns p, or says "out of memory" and ends the process. */
void *cli_need(void *p);

typedef struct cli_text {
    char *data; /* owned; NUL-terminated once something was added, else NULL */
    size_t size, capacity;
} cli_text;

void cli_text_add(cli_text *text, const char *data, size_t size);
void cli_text_puts(cli_text *text, const char *string);
void cli_text_print(cli_text *text, const char *format, ...) __attribute__((format(printf, 2, 3))); /* at most 1023 bytes */
void cli_text_free(cli_text *text);
const char *cli_text_string(const cli_text *text); /* "" when nothing was added; borrowed until the next change */

/* Length of the valid UTF-8 character at text[0..size), size >= 1; 0 when there is none. */
size_t cli_utf8_length(const char *text, size_t size);
/* Adds text with every byte that is no part of a valid character replaced by U+FFFD. */
void cli_text_add_clean(cli_text *text, const char *data, size_t size);
/* Adds text made harmless for a terminal: control characters other than newline and tab become U+FFFD. */
void cli_text_add_printable(cli_text *text, const char *data, size_t size);

#endif
