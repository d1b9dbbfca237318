/* Files of prompts; see prompts.h. */
#include "cli/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/json.h"

enum { FILE_LIMIT = 64 << 20, MOST = 4096 };

static int add_picture(cli_prompts *p, const char *path, const cJSON *name, const char *where) {
    if (!cJSON_IsString(name)) return cli_fail("%s: images: expected a list of file names", where);
    cli_text full = {0};
    const char *slash = strrchr(path, '/');
    if (slash && name->valuestring[0] != '/') cli_text_add(&full, path, (size_t)(slash - path) + 1);
    cli_text_puts(&full, name->valuestring);
    int code = cli_pictures_add(&p->pictures, full.data);
    cli_text_free(&full);
    return code;
}

static int add_pictures(cli_prompts *p, const char *path, const cJSON *line, const char *where) {
    const cJSON *one = cJSON_GetObjectItemCaseSensitive(line, "image"), *list = cJSON_GetObjectItemCaseSensitive(line, "images"), *name;
    int code = one ? add_picture(p, path, one, where) : CLI_OK;
    if (code == CLI_OK && list && !cJSON_IsArray(list)) return cli_fail("%s: images: expected a list of file names", where);
    cJSON_ArrayForEach(name, list) {
        if (code == CLI_OK) code = add_picture(p, path, name, where);
    }
    return code;
}

/* The one member that says what is asked. */
static const cJSON *find_words(const cJSON *line) {
    static const char *const names[] = {"prompt", "messages", "ids"};
    const cJSON *found = NULL;
    for (int i = 0; i < 3; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, names[i]);
        if (item && (found || !(i ? cJSON_IsArray(item) : cJSON_IsString(item)))) return NULL;
        if (item) found = item;
    }
    return found;
}

static int read_ids(const cJSON *list, const char *where, fore_request *r, void **owned) {
    int32_t *ids = cli_need(calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *ids));
    const cJSON *id;
    *owned = ids;
    r->ids = ids;
    cJSON_ArrayForEach(id, list) {
        if (!cJSON_IsNumber(id) || id->valuedouble < 0 || id->valuedouble != id->valueint) {
            free(ids);
            return cli_fail("%s: ids: expected whole numbers from 0 up", where);
        }
        ids[r->id_count++] = id->valueint;
    }
    return CLI_OK;
}

static int add_line(cli_prompts *p, const char *path, const char *where, const char *text, size_t size, bool raw) {
    cJSON *line;
    int code = cli_json_parse(where, text, size, &line);
    if (code) return code;
    const cJSON *words = find_words(line);
    size_t before = p->pictures.count;
    void *owned = NULL;
    fore_request r = {0};
    if (p->count == MOST) code = cli_fail("%s: more than %d prompts", where, MOST);
    else if (!words) code = cli_fail("%s: expected an object with one of \"prompt\", a text, and \"messages\" or \"ids\", lists", where);
    else code = add_pictures(p, path, line, where);
    r.image_count = p->pictures.count - before;
    if (code == CLI_OK && strcmp(words->string, "ids") == 0) {
        code = read_ids(words, where, &r, &owned);
    } else if (code == CLI_OK && strcmp(words->string, "prompt") == 0 && raw) {
        r.prompt = owned = cli_need(strdup(words->valuestring));
    } else if (code == CLI_OK) {
        r.messages = owned = cJSON_IsString(words) ? cli_conversation(NULL, words->valuestring, r.image_count, 0) : cli_json_text(words);
    }
    if (code == CLI_OK) {
        fore_limits_init(&r.limits);
        p->items = cli_need(realloc(p->items, (p->count + 1) * sizeof *p->items));
        p->texts = cli_need(realloc(p->texts, (p->count + 1) * sizeof *p->texts));
        p->texts[p->count] = owned;
        p->items[p->count++] = r;
    }
    cJSON_Delete(line);
    return code;
}

int cli_prompts_read(const char *path, bool raw, cli_prompts *out) {
    cli_text file = {0};
    *out = (cli_prompts){0};
    int code = cli_read(path, FILE_LIMIT, &file);
    size_t number = 0;
    for (size_t at = 0, n; at < file.size && code == CLI_OK; at += n + 1) {
        const char *line = file.data + at, *end = memchr(line, '\n', file.size - at);
        n = end ? (size_t)(end - line) : file.size - at;
        char where[300];
        snprintf(where, sizeof where, "%.250s:%zu", strcmp(path, "-") ? path : "standard input", ++number);
        size_t space = 0;
        while (space < n && strchr(" \t\r", line[space]) && line[space]) space++;
        if (space < n) code = add_line(out, path, where, line, n, raw);
    }
    if (code == CLI_OK && !out->count) code = cli_fail("%s: no prompts in it; expected a JSON object a line", path);
    const fore_image *next = out->pictures.items; /* in its place from here on */
    for (size_t i = 0; i < out->count; i++) {
        out->items[i].images = out->items[i].image_count ? next : NULL;
        next += out->items[i].image_count;
    }
    cli_text_free(&file);
    return code;
}

void cli_prompts_free(cli_prompts *p) {
    for (size_t i = 0; i < p->count; i++) free(p->texts[i]);
    free(p->texts);
    free(p->items);
    cli_pictures_cut(&p->pictures, 0);
    *p = (cli_prompts){0};
}
