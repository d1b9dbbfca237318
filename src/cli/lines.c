/* Lines by libedit on a terminal, by getline from a pipe; see lines.h. libedit reads through read_key, so that Ctrl-C
 * ends the wait for a key. */
#include "cli/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/files.h"
#include "cli/signals.h"
#include "cli/text.h"

struct cli_lines {
    int input;        /* standard input; a terminal opened once more, so that reading it can be made not to wait */
    EditLine *editor; /* NULL: plain lines */
    History *history;
    cli_text history_path; /* empty: none is kept */
    cli_text current;
    cli_text read;          /* plain lines: bytes of standard input */
    size_t taken, searched; /* of them: given out, found to have no newline */
    bool ended;
};

static char *prompt(EditLine *editor) {
    (void)editor;
    static char text[] = "> ";
    return text;
}

/* Waits for input; false: Ctrl-C was pressed. The signal is let in only while waiting, so that none is missed. */
static bool wait_for_input(const cli_lines *lines) {
    sigset_t closed, before;
    struct pollfd input = {.fd = lines->input, .events = POLLIN};
    sigemptyset(&closed);
    sigaddset(&closed, SIGINT);
    pthread_sigmask(SIG_BLOCK, &closed, &before);
    while (!cli_interrupted() && ppoll(&input, 1, NULL, &before) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !cli_interrupted();
}

static int read_key(EditLine *editor, wchar_t *key) {
    const cli_lines *lines = NULL;
    el_get(editor, EL_CLIENTDATA, &lines);
    mbstate_t state;
    memset(&state, 0, sizeof state);
    for (;;) {
        char byte;
        if (!wait_for_input(lines)) return -1;
        ssize_t n = read(lines->input, &byte, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue; /* Ctrl-C drops what was typed before it */
        if (n <= 0) return (int)n;
        size_t used = mbrtowc(key, &byte, 1, &state);
        if (used == (size_t)-2) continue; /* the character has more bytes */
        if (used == (size_t)-1) {
            *key = 0xfffd;
            return 1;
        }
        if (used == 0) *key = 0;
        return 1;
    }
}

static void open_history(cli_lines *lines) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    cli_text *path = &lines->history_path;
    if (state && *state == '/') {
        cli_text_puts(path, state);
    } else if (home && *home) {
        cli_text_puts(path, home);
        cli_text_puts(path, "/.local/state");
    } else {
        return;
    }
    cli_text_puts(path, "/foresight/history");
    cli_make_parents(path->data);
    HistEvent event;
    history(lines->history, &event, H_LOAD, path->data); /* the first time there is none */
}

cli_lines *cli_lines_open(void) {
    cli_lines *lines = cli_need(calloc(1, sizeof *lines));
    const char *terminal = ttyname(STDIN_FILENO);
    lines->input = terminal ? open(terminal, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : STDIN_FILENO;
    if (lines->input < 0) lines->input = STDIN_FILENO;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return lines;
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8"); /* text is UTF-8 whatever the locale */
    lines->editor = cli_need(el_init("foresight", stdin, stdout, stderr));
    lines->history = cli_need(history_init());
    HistEvent event;
    history(lines->history, &event, H_SETSIZE, 1000);
    history(lines->history, &event, H_SETUNIQUE, 1);
    open_history(lines);
    el_set(lines->editor, EL_EDITOR, "emacs");
    el_set(lines->editor, EL_PROMPT, prompt);
    el_set(lines->editor, EL_HIST, history, lines->history);
    el_set(lines->editor, EL_CLIENTDATA, lines);
    el_set(lines->editor, EL_GETCFN, read_key);
    el_set(lines->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(lines->editor, NULL); /* ~/.editrc */
    return lines;
}

bool cli_lines_edits(const cli_lines *lines) {
    return lines->editor != NULL;
}

static cli_line_kind take_line(cli_lines *lines, const char *text, size_t size, const char **line) {
    while (size && (text[size - 1] == '\n' || text[size - 1] == '\r')) size--;
    lines->current.size = 0;
    for (size_t i = 0; i < size; i += strnlen(text + i, size - i) + 1) { /* a NUL byte cannot be part of a message */
        if (i) cli_text_puts(&lines->current, " ");
        cli_text_add_clean(&lines->current, text + i, strnlen(text + i, size - i));
    }
    if (!size) cli_text_add(&lines->current, "", 0);
    *line = lines->current.data;
    return CLI_LINE_TEXT;
}

static cli_line_kind next_plain(cli_lines *lines, const char **line) {
    cli_text *read_so_far = &lines->read;
    for (;;) {
        size_t unsearched = read_so_far->size - lines->searched;
        const char *newline = unsearched ? memchr(read_so_far->data + lines->searched, '\n', unsearched) : NULL;
        size_t end = newline ? (size_t)(newline - read_so_far->data) + 1 : read_so_far->size;
        if (newline || (lines->ended && end > lines->taken)) {
            size_t start = lines->taken;
            lines->taken = lines->searched = end;
            return take_line(lines, read_so_far->data + start, end - start, line);
        }
        if (lines->ended) return CLI_LINE_END;
        if (lines->taken) {
            read_so_far->size -= lines->taken;
            memmove(read_so_far->data, read_so_far->data + lines->taken, read_so_far->size);
            lines->taken = 0;
        }
        lines->searched = read_so_far->size;
        if (!wait_for_input(lines)) return CLI_LINE_INTERRUPTED;
        char block[4096];
        ssize_t n = read(lines->input, block, sizeof block);
        if (n > 0)
            cli_text_add(read_so_far, block, (size_t)n);
        else if (n == 0 || errno != EINTR)
            lines->ended = true;
    }
}

cli_line_kind cli_lines_next(cli_lines *lines, const char **line) {
    *line = NULL;
    if (!lines->editor) return next_plain(lines, line);
    int count = 0;
    el_resize(lines->editor);
    const char *text = el_gets(lines->editor, &count);
    if (!text || count <= 0) {
        fputc('\n', stdout);
        fflush(stdout);
        return cli_interrupted() ? CLI_LINE_INTERRUPTED : CLI_LINE_END;
    }
    take_line(lines, text, (size_t)count, line);
    HistEvent event;
    if (**line) {
        history(lines->history, &event, H_ENTER, *line);
        if (lines->history_path.size) history(lines->history, &event, H_SAVE, lines->history_path.data);
    }
    return CLI_LINE_TEXT;
}

void cli_lines_close(cli_lines *lines) {
    if (lines->editor) {
        el_end(lines->editor);
        history_end(lines->history);
    }
    if (lines->input != STDIN_FILENO) close(lines->input);
    cli_text_free(&lines->history_path);
    cli_text_free(&lines->current);
    cli_text_free(&lines->read);
    free(lines);
}
