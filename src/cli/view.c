/* Streams an answer and tells reasoning from answer; see view.h. A tag may come in several pieces: what may be its
 * start is held back until it is known. */
#include "cli/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/files.h"

static const char opening[] = "<think>", closing[] = "</think>";

/* By fore_mark. */
static const char *const names[] = {"not drafted", "accepted", "correction", "bonus"};
static const char *const color_names[] = {"", "green", "red", "cyan"};
static const char *const color_codes[] = {"", "\033[32m", "\033[31m", "\033[36m"};
static const char *const brackets[] = {"", "[+", "[~", "[*"};

bool cli_colors(const cli_options *options, int descriptor) {
    if (options->color == CLI_COLOR_ALWAYS) return true;
    if (options->color == CLI_COLOR_NEVER) return false;
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return !(no && *no) && !(terminal && strcmp(terminal, "dumb") == 0) && isatty(descriptor);
}

/* Brings the output to how the next text is to look. */
static void turn(cli_view *view, bool dim, fore_mark mark) {
    if (!view->style.show || (view->dim == dim && view->mark == mark)) return;
    if (view->style.color) {
        if ((view->dim && !dim) || view->mark != FORE_MARK_PLAIN) {
            fputs("\033[0m", stdout);
            view->dim = false;
        }
        if (dim && !view->dim) fputs("\033[2m", stdout);
        fputs(color_codes[mark], stdout);
    } else if (view->mark != mark) {
        if (view->mark != FORE_MARK_PLAIN) fputs("]", stdout);
        fputs(brackets[mark], stdout);
    }
    view->dim = dim;
    view->mark = mark;
}

void cli_view_start(cli_view *view, cli_view_style style, bool thinking) {
    *view =
        (cli_view){.style = style, .terminal = isatty(STDOUT_FILENO) != 0, .thinking = thinking, .thought = thinking};
    turn(view, thinking, FORE_MARK_PLAIN);
}

static int print(cli_view *view, const char *text, size_t size, fore_mark mark) {
    if (!view->style.show || !size) return CLI_OK;
    turn(view, view->dim, view->style.drafts ? mark : FORE_MARK_PLAIN);
    if (!view->terminal) return cli_print(text, size);
    cli_text shown = {0};
    cli_text_add_printable(&shown, text, size);
    int code = cli_print(shown.data, shown.size);
    cli_text_free(&shown);
    return code;
}

static int print_plain(cli_view *view, const char *text, size_t size, fore_mark mark) {
    cli_text_add(view->thinking ? &view->reasoning : &view->answer, text, size);
    return print(view, text, size, mark);
}

/* What was held, each character with the mark of its token. */
static int print_held(cli_view *view) {
    int code = CLI_OK;
    for (size_t i = 0; i < view->held_size && code == CLI_OK; i++)
        code = print(view, &view->held[i], 1, view->held_marks[i]);
    return code;
}

/* No tag after all. */
static int release(cli_view *view) {
    cli_text_add(view->thinking ? &view->reasoning : &view->answer, view->held, view->held_size);
    int code = print_held(view);
    view->held_size = 0;
    return code;
}

/* The tag itself is shown dim with the reasoning. */
static int pass_tag(cli_view *view) {
    turn(view, true, view->mark);
    int code = print_held(view);
    view->held_size = 0;
    view->thinking = !view->thinking;
    view->thought = true;
    turn(view, view->thinking, view->mark);
    return code;
}

int cli_view_push(cli_view *view, const char *text, size_t size, fore_mark mark) {
    int code = CLI_OK;
    cli_text_add(&view->text, text, size);
    for (size_t i = 0; i < size && code == CLI_OK;) {
        const char *tag = view->thinking ? closing : opening;
        size_t length = strlen(tag);
        if (!view->held_size) {
            const char *less = memchr(text + i, '<', size - i);
            size_t before = less ? (size_t)(less - text) - i : size - i;
            if (before) code = print_plain(view, text + i, before, mark);
            i += before;
            if (i == size || code) break;
        }
        if (text[i] == tag[view->held_size]) {
            view->held_marks[view->held_size] = mark;
            view->held[view->held_size++] = text[i++];
            if (view->held_size == length) code = pass_tag(view);
        } else { /* this character, looked at again, may start one */
            code = release(view);
        }
    }
    return code;
}

void cli_view_pause(cli_view *view) {
    turn(view, view->dim, FORE_MARK_PLAIN);
    if (view->style.show && view->style.drafts && !ferror(stdout)) fflush(stdout);
}

int cli_view_end(cli_view *view) {
    int code = CLI_OK;
    if (view->held_size && !ferror(stdout)) code = release(view);
    turn(view, false, FORE_MARK_PLAIN);
    if (view->style.show && code == CLI_OK) code = ferror(stdout) ? CLI_FAILED : cli_print("\n", 1);
    return code;
}

void cli_view_legend(const cli_view *view, const size_t counts[4], bool colored) {
    fputs("drafts:", stderr);
    for (int i = FORE_MARK_ACCEPTED; i <= FORE_MARK_BONUS; i++) {
        if (view->style.color)
            fprintf(stderr, " %s%s (%s)%s %zu,", colored ? color_codes[i] : "", names[i], color_names[i],
                    colored ? "\033[0m" : "", counts[i]);
        else
            fprintf(stderr, " %s%s] %zu,", brackets[i], names[i], counts[i]);
    }
    fprintf(stderr, " %s %zu\n", names[FORE_MARK_PLAIN], counts[FORE_MARK_PLAIN]);
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
