/* foresight render: the exact prompt text that a chat template makes of messages, and nothing else. */
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/json.h"
#include "cli/model.h"

enum { TEMPLATE_LIMIT = 16 << 20 };

typedef struct inputs {
    cJSON *messages, *tools; /* owned; tools may be NULL */
    cJSON *variables;        /* owned: an object of the --option flags */
} inputs;

static int read_variables(const cli_options *options, cJSON *variables) {
    for (size_t i = 0; i < options->variables.count; i++) {
        const char *text = options->variables.items[i], *equals = strchr(text, '=');
        if (!equals || equals == text)
            return cli_fail_usage(options->verb,
                                  "--option: expected NAME=JSON such as enable_thinking=false, found '%s'", text);
        cli_text name = {0};
        cJSON *value = NULL;
        cli_text_add(&name, text, (size_t)(equals - text));
        if (cli_json_parse(text, equals + 1, strlen(equals + 1), &value)) {
            cli_text_free(&name);
            return cli_fail_usage(options->verb, "--option: a JSON text needs its quotes, as in bos_token='\"<s>\"'");
        }
        cJSON_DeleteItemFromObjectCaseSensitive(variables, name.data);
        cJSON_AddItemToObject(variables, name.data, value);
        cli_text_free(&name);
    }
    return CLI_OK;
}

static int read_inputs(const cli_options *options, inputs *in) {
    in->variables = cli_need(cJSON_CreateObject());
    int code = read_variables(options, in->variables);
    if (code == CLI_OK) code = cli_json_read(options->messages, &in->messages);
    if (code == CLI_OK && !cJSON_IsArray(in->messages))
        code = cli_fail("%s: expected a JSON list of messages such as [{\"role\": \"user\", \"content\": \"Hello\"}]",
                        options->messages);
    if (code == CLI_OK && options->tools) code = cli_json_read(options->tools, &in->tools);
    if (code == CLI_OK && in->tools && !cJSON_IsArray(in->tools) && !cJSON_IsNull(in->tools))
        code = cli_fail("%s: expected a JSON list of tools", options->tools);
    return code;
}

static int print_text(fore_status status, const fore_error *err, char *text, size_t size) {
    int code = status ? cli_fail_status(status, err) : cli_print(text ? text : "", size);
    fore_free(text);
    return code;
}

/* By a template file: every variable comes from the flags; tools and documents are null when absent, as transformers
 * passes them. */
static int render_file(const cli_options *options, inputs *in) {
    cli_text source = {0};
    int code = cli_read(options->template, TEMPLATE_LIMIT, &source);
    if (code == CLI_OK) {
        cJSON *v = in->variables;
        cJSON_AddItemToObject(v, "messages", in->messages);
        in->messages = NULL;
        if (in->tools)
            cJSON_AddItemToObject(v, "tools", in->tools);
        else if (!cJSON_HasObjectItem(v, "tools"))
            cli_need(cJSON_AddNullToObject(v, "tools"));
        in->tools = NULL;
        if (!cJSON_HasObjectItem(v, "documents")) cli_need(cJSON_AddNullToObject(v, "documents"));
        if (options->generation_prompt || !cJSON_HasObjectItem(v, "add_generation_prompt")) {
            cJSON_DeleteItemFromObjectCaseSensitive(v, "add_generation_prompt");
            cli_json_bool(v, "add_generation_prompt", options->generation_prompt);
        }
        char *variables = cli_json_text(v);
        fore_template *template = NULL;
        char *text = NULL;
        size_t size = 0;
        fore_error err = {0};
        fore_status status = fore_template_compile(cli_text_string(&source), source.size, &template, &err);
        if (status == FORE_OK)
            status = fore_template_render(template, variables, strlen(variables), &text, &size, &err);
        code = print_text(status, &err, text, size);
        fore_template_free(template);
        free(variables);
    }
    cli_text_free(&source);
    return code;
}

static int render_model(const cli_options *options, const inputs *in) {
    cli_model model = {0};
    int code = cli_model_open(options, &model);
    if (code == CLI_OK) {
        fore_request request;
        fore_request_init(&request, model.model);
        char *messages = cli_json_text(in->messages), *tools = in->tools ? cli_json_text(in->tools) : NULL;
        char *variables = cli_json_text(in->variables), *text = NULL;
        size_t size = 0;
        fore_error err = {0};
        request.messages = messages;
        request.tools = tools;
        request.options = variables;
        request.continue_final = !options->generation_prompt;
        fore_status status = fore_model_render(model.model, &request, &text, &size, &err);
        code = print_text(status, &err, text, size);
        free(messages);
        free(tools);
        free(variables);
    }
    cli_model_close(&model);
    return code;
}

static int run(const cli_options *options) {
    if (!options->messages) return cli_fail_usage(options->verb, "--messages FILE is missing");
    if (options->model && options->template)
        return cli_fail_usage(options->verb, "--template and --model exclude each other");
    inputs in = {0};
    int code = read_inputs(options, &in);
    if (code == CLI_OK) code = options->template ? render_file(options, &in) : render_model(options, &in);
    cJSON_Delete(in.messages);
    cJSON_Delete(in.tools);
    cJSON_Delete(in.variables);
    return code;
}

const cli_verb cli_render_verb = {
    .name = "render",
    .bit = CLI_RENDER,
    .operand = NULL,
    .usage = "--messages FILE [flags]",
    .summary = "print the prompt text that a chat template makes",
    .about = "Prints the exact text and nothing else. With --model the template and the\n"
             "special tokens are the model's; with --template every variable comes from\n"
             "--option, as in --option bos_token='\"<s>\"'.\n",
    .run = run,
};
