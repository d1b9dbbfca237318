/* foresight tokenize: text to token ids and their pieces, and back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/files.h"
#include "cli/json.h"
#include "cli/model.h"

enum { TEXT_LIMIT = 256 << 20 };

static void add_quoted(cli_text *out, const char *piece, size_t size) {
    cli_text_puts(out, "\"");
    for (size_t i = 0; i < size;) {
        size_t length = cli_utf8_length(piece + i, size - i);
        unsigned char c = (unsigned char)piece[i];
        char escape[8] = "";
        if (c == '\n')
            strcpy(escape, "\\n");
        else if (c == '\r')
            strcpy(escape, "\\r");
        else if (c == '\t')
            strcpy(escape, "\\t");
        else if (c == '"' || c == '\\')
            snprintf(escape, sizeof escape, "\\%c", c);
        else if (!length || c < 0x20 || c == 0x7f)
            snprintf(escape, sizeof escape, "\\x%02x", c);
        if (escape[0])
            cli_text_puts(out, escape);
        else
            cli_text_add(out, piece + i, length);
        i += length ? length : 1;
    }
    cli_text_puts(out, "\"");
}

static int print_ids(const cli_options *options, const fore_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    cli_text out = {0};
    cJSON *root = cli_need(cJSON_CreateObject());
    cJSON *list = cli_need(cJSON_AddArrayToObject(root, "ids")),
          *pieces = cli_need(cJSON_AddArrayToObject(root, "pieces"));
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const char *piece = fore_tokenizer_piece(tokenizer, ids[i], &size);
        if (options->json) {
            cli_text clean = {0};
            cli_text_add_clean(&clean, piece ? piece : "", piece ? size : 0);
            cJSON_AddItemToArray(list, cli_need(cJSON_CreateNumber(ids[i])));
            cJSON_AddItemToArray(pieces, cli_need(cJSON_CreateString(cli_text_string(&clean))));
            cli_text_free(&clean);
        } else {
            char number[24];
            snprintf(number, sizeof number, "%d\t", ids[i]);
            cli_text_puts(&out, number);
            add_quoted(&out, piece ? piece : "", piece ? size : 0);
            cli_text_puts(&out, "\n");
        }
    }
    int code = options->json ? cli_json_print(root) : cli_print(cli_text_string(&out), out.size);
    cJSON_Delete(root);
    cli_text_free(&out);
    return code;
}

static int encode(const cli_options *options, const fore_tokenizer *tokenizer, const cli_text *text) {
    int32_t *ids = NULL;
    size_t count = 0;
    fore_error err = {0};
    fore_status status = fore_tokenizer_encode(tokenizer, cli_text_string(text), text->size, &ids, &count, &err);
    int code = status ? cli_fail_status(status, &err) : print_ids(options, tokenizer, ids, count);
    fore_free(ids);
    return code;
}

/* Token ids with anything between them that is no digit: "1 2 3", "[1, 2, 3]". */
static int parse_ids(const char *text, int32_t **ids, size_t *count) {
    for (const char *p = text; *p;) {
        if (!strchr("0123456789-", *p)) {
            if (!strchr(" \t\r\n,[]", *p))
                return cli_fail("--decode: expected token ids such as 1 2 3, found '%.20s'", p);
            p++;
            continue;
        }
        char *end = NULL;
        errno = 0;
        long id = strtol(p, &end, 10);
        if (end == p || errno || id < 0 || id > INT32_MAX)
            return cli_fail("--decode: expected a token id, found '%.20s'", p);
        if ((*count & (*count - 1)) == 0) *ids = cli_need(realloc(*ids, (*count ? *count * 2 : 1) * sizeof **ids));
        (*ids)[(*count)++] = (int32_t)id;
        p = end;
    }
    return CLI_OK;
}

static int decode(const cli_options *options, const fore_tokenizer *tokenizer, const cli_text *text) {
    int32_t *ids = NULL;
    size_t count = 0, size = 0;
    char *said = NULL;
    fore_error err = {0};
    int code = parse_ids(cli_text_string(text), &ids, &count);
    if (code == CLI_OK) {
        fore_status status = fore_tokenizer_decode(tokenizer, ids, count, false, &said, &size, &err);
        if (status) {
            code = cli_fail_status(status, &err);
        } else if (options->json) {
            cJSON *root = cli_need(cJSON_CreateObject());
            cli_json_string(root, "text", said);
            code = cli_json_print(root);
            cJSON_Delete(root);
        } else {
            code = cli_print(said, size);
            if (code == CLI_OK && isatty(STDOUT_FILENO)) code = cli_print("\n", 1);
        }
    }
    fore_free(said);
    free(ids);
    return code;
}

static int run(const cli_options *options) {
    cli_text text = {0}, path = {0};
    fore_tokenizer *tokenizer = NULL;
    int code = CLI_OK;
    if (options->tokenizer && options->model)
        return cli_fail_usage(options->verb, "--tokenizer and --model exclude each other");
    if (!options->operand && isatty(STDIN_FILENO)) return cli_fail_usage(options->verb, "a TEXT is missing");
    if (options->operand && strcmp(options->operand, "-") != 0)
        cli_text_puts(&text, options->operand);
    else
        code = cli_read("-", TEXT_LIMIT, &text);
    if (code == CLI_OK && options->tokenizer)
        cli_text_puts(&path, options->tokenizer);
    else if (code == CLI_OK)
        code = cli_find_model(options->model, &path);
    cli_model model = {0};
    const fore_tokenizer *t = NULL;
    if (code == CLI_OK && !options->tokenizer && cli_is_gguf(path.data)) {
        code = cli_model_open(options, &model);
        t = code == CLI_OK ? fore_model_tokenizer(model.model) : NULL;
        if (code == CLI_OK && !t) code = cli_fail("%s: it has no tokenizer", path.data);
    } else if (code == CLI_OK) {
        fore_error err = {0};
        fore_status status = fore_tokenizer_open(path.data, &tokenizer, &err);
        if (status) code = cli_fail_status(status, &err);
        t = tokenizer;
    }
    if (code == CLI_OK) code = options->decode ? decode(options, t, &text) : encode(options, t, &text);
    fore_tokenizer_close(tokenizer);
    cli_model_close(&model);
    cli_text_free(&text);
    cli_text_free(&path);
    return code;
}

const cli_verb cli_tokenize_verb = {
    .name = "tokenize",
    .bit = CLI_TOKENIZE,
    .operand = "TEXT",
    .usage = "[flags] [TEXT | < FILE]",
    .summary = "text to token ids, or back",
    .about = "Prints a line of id and piece for each token of TEXT; when TEXT is - or absent,\n"
             "of all of standard input, its last newline too.\n",
    .run = run,
};
