/* What the environment says of the hub; see hub.h. */
#include "cli/hub.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/files.h"

enum { MAX_TOKEN_FILE = 65536 };

/* NULL also for an empty one. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool is_on(const char *name) {
    const char *value = variable(name);
    return value && (!strcmp(value, "1") || !strcasecmp(value, "on") || !strcasecmp(value, "yes") || !strcasecmp(value, "true"));
}

/* A path of the environment, in which ~ is the home. */
static void add_path(cli_text *out, const char *path) {
    const char *home = variable("HOME");
    if (path[0] == '~' && (path[1] == '/' || !path[1]) && home) {
        cli_text_puts(out, home);
        path++;
    }
    cli_text_puts(out, path);
    while (out->size > 1 && out->data[out->size - 1] == '/') out->data[--out->size] = 0;
}

/* $HF_HOME and what stands for it, with `name` in it; false: there is no home. */
static bool add_in_home(cli_text *out, const char *name) {
    const char *home = variable("HF_HOME"), *cache = variable("XDG_CACHE_HOME");
    if (home) {
        add_path(out, home);
    } else if (cache || variable("HOME")) {
        add_path(out, cache ? cache : "~/.cache");
        cli_text_puts(out, "/huggingface");
    } else {
        return false;
    }
    cli_text_puts(out, name);
    return true;
}

void cli_hub_cache(cli_text *out) {
    const char *cache = variable("HF_HUB_CACHE");
    if (!cache) cache = variable("HUGGINGFACE_HUB_CACHE");
    if (cache) add_path(out, cache);
    else add_in_home(out, "/hub");
}

/* $HF_TOKEN, else the first line of the file that `hf auth login` writes. */
static int read_token(cli_text *token) {
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    const char *value = NULL, *from = NULL;
    cli_text path = {0};
    int code = CLI_OK;
    if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return CLI_OK;
    for (int i = 0; i < 2 && !value; i++) {
        value = variable(names[i]);
        from = names[i];
    }
    if (value) {
        cli_text_puts(token, value);
    } else {
        if (variable("HF_TOKEN_PATH")) add_path(&path, variable("HF_TOKEN_PATH"));
        else add_in_home(&path, "/token");
        from = path.data;
        if (path.data && access(path.data, F_OK) == 0) code = cli_read(path.data, MAX_TOKEN_FILE, token);
    }
    size_t skip = token->data ? strspn(token->data, " \t\r\n") : 0;
    if (token->data) {
        memmove(token->data, token->data + skip, token->size - skip + 1);
        token->data[strcspn(token->data, " \t\r\n")] = 0;
        for (const char *c = token->data; *c && code == CLI_OK; c++)
            if (*c < '!' || *c > '~') code = cli_fail("%s: the token has a byte that no token has", from);
    }
    cli_text_free(&path);
    return code;
}

int cli_hub_open(cli_hub *out) {
    *out = (cli_hub){0};
    const char *endpoint = variable("HF_ENDPOINT");
    cli_text_puts(&out->endpoint, endpoint ? endpoint : "https://huggingface.co");
    while (out->endpoint.size && out->endpoint.data[out->endpoint.size - 1] == '/') out->endpoint.data[--out->endpoint.size] = 0;
    cli_hub_cache(&out->cache);
    if (!out->cache.data) return cli_fail("neither HF_HUB_CACHE nor HF_HOME nor HOME names a folder for downloads; set HF_HUB_CACHE");
    out->offline = is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE");
    int code = read_token(&out->token);
    out->settings = (fore_hub_settings){.endpoint = out->endpoint.data,
                                        .token = out->token.data && *out->token.data ? out->token.data : NULL,
                                        .cache = out->cache.data,
                                        .ca_file = variable("SSL_CERT_FILE")};
    return code;
}

void cli_hub_free(cli_hub *hub) {
    cli_text_free(&hub->endpoint);
    cli_text_free(&hub->token);
    cli_text_free(&hub->cache);
    *hub = (cli_hub){0};
}
