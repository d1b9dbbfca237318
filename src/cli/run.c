/* foresight run: one question, pictures and videos or not, one answer on standard output. */
#include <stdlib.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/signals.h"
#include "cli/videos.h"

static int answer(const cli_options *options, const cli_model *model, cli_request *request) {
    cli_answer answer;
    cli_view_style style = {!options->json, options->show_drafts, cli_colors(options, STDOUT_FILENO)};
    int code = cli_answer_run(&answer, model, request, style);
    if (code != CLI_FAILED && options->json) {
        cJSON *json = cli_answer_json(&answer, model, &request->request, options->show_drafts);
        int printed = cli_json_print(json);
        if (printed) code = printed;
        cJSON_Delete(json);
    }
    if (code != CLI_FAILED && style.show && style.drafts)
        cli_answer_print_legend(&answer, cli_colors(options, STDERR_FILENO));
    if (code != CLI_FAILED && options->stats) cli_answer_print_stats(&answer, model, &request->request);
    cli_answer_free(&answer);
    return code;
}

static int run(const cli_options *options) {
    if (options->raw && (options->system || options->think))
        return cli_fail_usage(options->verb,
                              "--raw leaves the template out, so --system, --think and --no-think say nothing");
    cli_text prompt = {0};
    cli_pictures pictures = {0};
    cli_videos videos = {0};
    cli_model model = {0};
    cli_request request = {0};
    char *messages = NULL;
    int code = cli_read_prompt(options, &prompt);
    if (code == CLI_OK) code = cli_pictures_add_all(&pictures, &options->images);
    if (code == CLI_OK) code = cli_videos_add_all(&videos, options);
    if (code == CLI_OK) {
        cli_catch_interrupt(true);
        code = cli_model_open(options, &model);
    }
    if (code == CLI_OK) code = cli_model_session(options, &model);
    if (code == CLI_OK) code = cli_request_init(&request, options, model.model);
    if (code == CLI_OK) {
        cli_tuned_request(options, &model.tuned, &request.request.draft);
        if (options->raw) {
            request.request.prompt = cli_text_string(&prompt);
        } else {
            messages = cli_conversation(options->system, cli_text_string(&prompt), pictures.count, videos.count);
            request.request.messages = messages;
        }
        request.request.images = pictures.items;
        request.request.image_count = pictures.count;
        request.request.videos = videos.items;
        request.request.video_count = videos.count;
        code = answer(options, &model, &request);
    }
    free(messages);
    cli_request_free(&request);
    cli_model_close(&model);
    cli_pictures_cut(&pictures, 0);
    cli_videos_cut(&videos, 0);
    cli_text_free(&prompt);
    return code;
}

const cli_verb cli_run_verb = {
    .name = "run",
    .bit = CLI_RUN,
    .operand = "PROMPT",
    .usage = "[flags] [PROMPT]",
    .summary = "answer one question, about pictures and videos or not",
    .about = "Answers PROMPT, which is read from standard input when it is - or absent. Exit\n"
             "codes: 0 done, 1 the work failed, 2 wrong usage, 130 stopped by Ctrl-C.\n",
    .run = run,
};
