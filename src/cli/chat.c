/* foresight chat: a conversation, line by line. What a line does happens wholly or not at all: after an error the
 * conversation is as it was. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/args.h"
#include "cli/lines.h"
#include "cli/signals.h"
#include "cli/videos.h"

typedef struct chat {
    const cli_options *options;
    cli_model model;
    cli_request request;
    cJSON *messages;       /* what was said, the system message first if there is one */
    cli_pictures pictures; /* of the messages, then those that wait for the next one */
    cli_videos videos;     /* likewise */
    size_t sent_pictures, sent_videos; /* how many belong to messages */
    cli_answer last;       /* the figures that /stats shows */
    fore_draft_stats drafts[2]; /* of all answers */
    size_t answers;
    bool answered, failed;
} chat;

static void set_system(chat *c, const char *text) {
    const cJSON *first = cJSON_GetArrayItem(c->messages, 0);
    const cJSON *role = cJSON_GetObjectItemCaseSensitive(first, "role");
    if (cJSON_IsString(role) && strcmp(role->valuestring, "system") == 0) cJSON_DeleteItemFromArray(c->messages, 0);
    if (!*text) return;
    cJSON *message = cli_message("system", text, 0, 0);
    if (!cJSON_InsertItemInArray(c->messages, 0, message)) cJSON_AddItemToArray(c->messages, message);
}

/* Everything that was said is forgotten; the system message stays. */
static void reset(chat *c) {
    for (int i = cJSON_GetArraySize(c->messages) - 1; i >= 0; i--) {
        const cJSON *role = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(c->messages, i), "role");
        if (strcmp(role->valuestring, "system") != 0) cJSON_DeleteItemFromArray(c->messages, i);
    }
    cli_pictures_cut(&c->pictures, 0);
    cli_videos_cut(&c->videos, 0);
    c->sent_pictures = c->sent_videos = 0;
}

/* Sends a message with the pictures that wait for it and keeps the answer. */
static void send(chat *c, const char *text) {
    int count = cJSON_GetArraySize(c->messages);
    cJSON_AddItemToArray(c->messages, cli_message("user", text, c->pictures.count - c->sent_pictures,
                                                  c->videos.count - c->sent_videos));
    char *messages = cli_json_text(c->messages);
    c->request.request.messages = messages;
    c->request.request.images = c->pictures.items;
    c->request.request.image_count = c->pictures.count;
    c->request.request.videos = c->videos.items;
    c->request.request.video_count = c->videos.count;
    cli_answer_free(&c->last);
    cli_clear_interrupt();
    cli_view_style style = {true, c->options->show_drafts, cli_colors(c->options, STDOUT_FILENO)};
    int code = cli_answer_run(&c->last, &c->model, &c->request, style);
    cli_clear_interrupt();
    c->answered = c->last.finish != NULL;
    if (c->answered) {
        cli_drafts_add(c->drafts, c->last.stats.draft);
        c->answers++;
    }
    free(messages);
    c->request.request.messages = NULL;
    if (code == CLI_FAILED || !c->last.view.text.size) {
        cJSON_DeleteItemFromArray(c->messages, count);
        cli_pictures_cut(&c->pictures, c->sent_pictures);
        cli_videos_cut(&c->videos, c->sent_videos);
        if (code == CLI_FAILED) {
            c->failed = true;
            fputs("foresight: the message and its pictures were left out; the conversation is as it was\n", stderr);
        }
        return;
    }
    c->sent_pictures = c->pictures.count;
    c->sent_videos = c->videos.count;
    cJSON *answer = cli_message("assistant", cli_view_answer(&c->last.view), 0, 0);
    if (c->last.view.thought)
        cli_need(cJSON_AddStringToObject(answer, "reasoning_content", cli_view_reasoning(&c->last.view)));
    cJSON_AddItemToArray(c->messages, answer);
    if (style.drafts) cli_answer_print_legend(&c->last, cli_colors(c->options, STDERR_FILENO));
    if (c->options->stats) cli_answer_print_stats(&c->last, &c->model, &c->request.request);
}

/* Of the last answer; drafts of all of them too. */
static void print_stats(const chat *c) {
    cli_answer_print_stats(&c->last, &c->model, &c->request.request);
    if (c->answers > 1) cli_drafts_print("so far", c->drafts);
}

static void print_commands(void) {
    fputs("/image FILE    a picture for the next message\n"
          "/video FILE    a video for the next message\n"
          "/system TEXT   set the system message; without TEXT take it away\n"
          "/reset         forget what was said\n"
          "/stats         tokens, seconds and drafts of the last answer\n"
          "/help          this\n"
          "/quit          end, as Ctrl-D does\n"
          "Ctrl-C stops an answer. A message that begins with a slash is written with two.\n",
          stderr);
}

/* A picture, or a video. */
static void add_file(chat *c, const char *path, bool video) {
    cli_text full = {0};
    const char *home = getenv("HOME");
    if (strncmp(path, "~/", 2) == 0 && home) {
        cli_text_puts(&full, home);
        path++;
    }
    cli_text_puts(&full, path);
    if (!*path)
        c->failed = cli_fail("/%s: a FILE is missing", video ? "video" : "image") != CLI_OK;
    else if (video ? cli_videos_add(&c->videos, full.data, c->options) : cli_pictures_add(&c->pictures, full.data))
        c->failed = true;
    cli_text_free(&full);
}

/* Returns false when the chat is to end. */
static bool command(chat *c, const char *line) {
    static const char *const names[] = {"image", "video", "system", "reset", "stats", "help", "quit"};
    char name[16];
    size_t size = strcspn(line, " \t");
    const char *rest = line + size + strspn(line + size, " \t");
    snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), line);
    if (strcmp(name, "quit") == 0 || strcmp(name, "exit") == 0) return false;
    if (strcmp(name, "help") == 0) {
        print_commands();
    } else if (strcmp(name, "image") == 0 || strcmp(name, "video") == 0) {
        add_file(c, rest, *name == 'v');
    } else if (strcmp(name, "system") == 0) {
        set_system(c, rest);
    } else if (strcmp(name, "reset") == 0) {
        reset(c);
    } else if (strcmp(name, "stats") == 0) {
        if (c->answered)
            print_stats(c);
        else
            fputs("nothing was answered yet\n", stderr);
    } else {
        const char *nearest = cli_nearest(name, names, sizeof names / sizeof *names);
        if (nearest)
            cli_fail("unknown command /%s; did you mean /%s?", name, nearest);
        else
            cli_fail("unknown command /%s; /help lists them", name);
        c->failed = true;
    }
    return true;
}

static int converse(chat *c) {
    cli_lines *lines = cli_lines_open();
    bool edits = cli_lines_edits(lines);
    if (edits) fprintf(stderr, "%s. /help lists the commands, /quit ends.\n", c->model.dir.data);
    int code = CLI_OK;
    for (;;) {
        const char *line = NULL;
        cli_clear_interrupt();
        cli_line_kind kind = cli_lines_next(lines, &line);
        if (kind == CLI_LINE_INTERRUPTED && edits) continue;
        if (kind == CLI_LINE_INTERRUPTED) code = CLI_INTERRUPTED;
        if (kind != CLI_LINE_TEXT) break;
        const char *text = line + strspn(line, " \t");
        if (!*text) continue;
        if (text[0] == '/' && text[1] != '/') {
            if (!command(c, text + 1)) break;
        } else {
            send(c, text + (text[0] == '/'));
        }
        if (ferror(stdout)) break; /* nobody can read the answers */
    }
    if (code == CLI_OK && (ferror(stdout) || (c->failed && !edits))) code = CLI_FAILED;
    cli_lines_close(lines);
    return code;
}

static int run(const cli_options *options) {
    chat c = {.options = options, .messages = cli_need(cJSON_CreateArray())};
    int code = cli_pictures_add_all(&c.pictures, &options->images);
    if (code == CLI_OK) code = cli_videos_add_all(&c.videos, options);
    if (code == CLI_OK) {
        cli_catch_interrupt(false);
        code = cli_model_open(options, &c.model);
    }
    if (code == CLI_OK) code = cli_model_session(options, &c.model);
    if (code == CLI_OK) code = cli_request_init(&c.request, options, c.model.model);
    if (code == CLI_OK) {
        cli_tuned_request(options, &c.model.tuned, &c.request.request.draft);
        if (options->system) set_system(&c, options->system);
        code = converse(&c);
    }
    cli_answer_free(&c.last);
    cli_request_free(&c.request);
    cli_model_close(&c.model);
    cli_pictures_cut(&c.pictures, 0);
    cli_videos_cut(&c.videos, 0);
    cJSON_Delete(c.messages);
    return code;
}

const cli_verb cli_chat_verb = {
    .name = "chat",
    .bit = CLI_CHAT,
    .operand = NULL,
    .usage = "[flags]",
    .summary = "talk in turns, with pictures",
    .about = "Each line is a message; Ctrl-C stops an answer. Commands: /image FILE, /video\n"
             "FILE, /reset, /stats, /system TEXT, /help, /quit.\n",
    .run = run,
};
