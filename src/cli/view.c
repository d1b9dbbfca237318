/* Streams an answer and tells reasoning from answer; see view.h. A tag may come in several pieces: what may be its
 * start is held back until it is known. */
#include "cli/view.h"

#include <string.h>
#include <unistd.h>

#include "cli/files.h"

static const char opening[] = "<think>", closing[] = "</think>";
static const char dim[] = "\033[2m", plain[] = "\033[0m";

void cli_view_start(cli_view *view, bool show, bool thinking) {
    *view = (cli_view){.show = show, .terminal = isatty(STDOUT_FILENO) != 0, .thinking = thinking, .thought = thinking};
    if (show && view->terminal && thinking) fputs(dim, stdout);
}

static int print(cli_view *view, const char *text, size_t size) {
    if (!view->show || !size) return CLI_OK;
    if (!view->terminal) return cli_print(text, size);
    cli_text shown = {0};
    cli_text_add_printable(&shown, text, size);
    int code = cli_print(shown.data, shown.size);
    cli_text_free(&shown);
    return code;
}

static int print_plain(cli_view *view, const char *text, size_t size) {
    cli_text_add(view->thinking ? &view->reasoning : &view->answer, text, size);
    return print(view, text, size);
}

/* The tag itself is shown dim with the reasoning. */
static int pass_tag(cli_view *view, const char *tag) {
    bool opens = !view->thinking;
    if (view->show && view->terminal && opens) fputs(dim, stdout);
    int code = print(view, tag, strlen(tag));
    if (view->show && view->terminal && !opens) fputs(plain, stdout);
    view->thinking = opens;
    view->thought = true;
    return code;
}

int cli_view_push(cli_view *view, const char *text, size_t size) {
    int code = CLI_OK;
    cli_text_add(&view->text, text, size);
    for (size_t i = 0; i < size && code == CLI_OK;) {
        const char *tag = view->thinking ? closing : opening;
        size_t length = strlen(tag);
        if (!view->held_size) {
            const char *less = memchr(text + i, '<', size - i);
            size_t before = less ? (size_t)(less - text) - i : size - i;
            if (before) code = print_plain(view, text + i, before);
            i += before;
            if (i == size || code) break;
        }
        if (text[i] == tag[view->held_size]) {
            view->held[view->held_size++] = text[i++];
            if (view->held_size == length) {
                view->held_size = 0;
                code = pass_tag(view, tag);
            }
        } else { /* no tag after all; this character, looked at again, may start one */
            code = print_plain(view, view->held, view->held_size);
            view->held_size = 0;
        }
    }
    return code;
}

int cli_view_end(cli_view *view) {
    int code = CLI_OK;
    if (view->held_size && !ferror(stdout)) code = print_plain(view, view->held, view->held_size);
    view->held_size = 0;
    if (view->show && view->terminal && view->thinking) fputs(plain, stdout);
    if (view->show && code == CLI_OK) code = ferror(stdout) ? CLI_FAILED : cli_print("\n", 1);
    return code;
}

void cli_view_free(cli_view *view) {
    cli_text_free(&view->text);
    cli_text_free(&view->answer);
    cli_text_free(&view->reasoning);
}

static const char *trim(cli_text *text) {
    static const char space[] = " \t\r\n";
    while (text->size && strchr(space, text->data[text->size - 1])) text->data[--text->size] = 0;
    const char *start = cli_text_string(text);
    return start + strspn(start, space);
}

const char *cli_view_answer(cli_view *view) {
    return trim(&view->answer);
}

const char *cli_view_reasoning(cli_view *view) {
    return trim(&view->reasoning);
}
