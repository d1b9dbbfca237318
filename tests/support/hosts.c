/* Checkpoints for the tests of forge; see hosts.h. */
#include "support/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/tensors.h"

void host_folder(scratch *s) {
    strcpy(s->dir, "/dev/shm/foresight-test-XXXXXX");
    if (!mkdtemp(s->dir)) scratch_make(s);
}

cJSON *host_config(const char *dir) {
    char path[512];
    size_t size;
    snprintf(path, sizeof path, "%s/config.json", dir);
    char *text = read_file(path, &size);
    cJSON *tree = cJSON_Parse(text);
    free(text);
    assert_non_null(tree);
    return tree;
}

void host_put_config(const scratch *s, const char *name, const cJSON *tree) {
    char *text = cJSON_Print(tree);
    assert_non_null(text);
    scratch_write(s, name, text, strlen(text));
    free(text);
}

void host_tensors(const scratch *s, const char *file, bool (*takes)(const char *name), const char *(*name)(const char *name)) {
    enum { MOST = 256 };
    fore_tensor list[MOST];
    size_t n = 0;
    fore_tensor_file *from;
    fore_error err = {0};
    if (fore_tensors_open(TINY "/model.safetensors", &from, &err)) fail_msg("%s", err.text);
    const fore_tensor *t;
    for (size_t i = 0; (t = fore_tensors_at(from, i)); i++) {
        if (!takes(t->name)) continue;
        assert_true(n < MOST);
        list[n] = *t;
        if (name && name(t->name)) list[n].name = name(t->name);
        n++;
    }
    if (fore_tensors_write(scratch_path(s, file), list, n, &err)) fail_msg("%s", err.text);
    fore_tensors_close(from);
}

static bool is_text(const char *name) { return strncmp(name, "model.visual.", 13) != 0; }
static bool is_front(const char *name) { return is_text(name) && (strstr(name, "layers.0.") || strstr(name, "layers.1.")); }
static bool is_back(const char *name) { return is_text(name) && !is_front(name); }

static void write_shards(const scratch *s, bool index) {
    static const char *const files[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
    host_tensors(s, files[0], is_front, NULL);
    host_tensors(s, files[1], is_back, NULL);
    if (!index) return;
    cJSON *tree = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(tree, "metadata");
    cJSON_AddNumberToObject(metadata, "total_size", 3201456);
    cJSON_AddNumberToObject(metadata, "total_parameters", 1600728);
    cJSON_AddStringToObject(metadata, "made_by", "somebody");
    cJSON *map = cJSON_AddObjectToObject(tree, "weight_map");
    for (int i = 0; i < 2; i++) {
        fore_tensor_file *f;
        const fore_tensor *t;
        assert_int_equal(fore_tensors_open(scratch_path(s, files[i]), &f, NULL), FORE_OK);
        for (size_t k = 0; (t = fore_tensors_at(f, k)); k++) cJSON_AddStringToObject(map, t->name, files[i]);
        fore_tensors_close(f);
    }
    host_put_config(s, "model.safetensors.index.json", tree);
    cJSON_Delete(tree);
}

void host_make(scratch *s, host_kind kind) {
    static const char *const kept[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"};
    static const char *const gone[] = {"vision_config", "image_token_id", "video_token_id", "vision_start_token_id",
                                       "vision_end_token_id"};
    host_folder(s);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char path[128];
        snprintf(path, sizeof path, TINY "/%s", kept[i]);
        scratch_copy(s, path, kept[i]);
    }
    cJSON *c = host_config(TINY);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) cJSON_DeleteItemFromObject(c, gone[i]);
    if (kind == HOST_FLAT) {
        cJSON *text = cJSON_DetachItemFromObject(c, "text_config");
        const char *const name[] = {"Qwen3_5ForCausalLM"};
        cJSON_AddItemToObject(text, "architectures", cJSON_CreateStringArray(name, 1));
        cJSON_ReplaceItemInObject(text, "tie_word_embeddings", cJSON_CreateTrue());
        cJSON_AddStringToObject(text, "dtype", "bfloat16");
        cJSON_Delete(c);
        c = text;
    }
    host_put_config(s, "config.json", c);
    cJSON_Delete(c);
    if (kind == HOST_SINGLE || kind == HOST_FLAT) host_tensors(s, "model.safetensors", is_text, NULL);
    else if (kind == HOST_ODD) host_tensors(s, "weights.safetensors", is_text, NULL);
    else write_shards(s, kind == HOST_INDEXED);
}

void host_link(const char *from, scratch *s) {
    host_folder(s);
    DIR *d = opendir(from);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        char path[512];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", from, e->d_name);
        if (link(path, scratch_path(s, e->d_name))) scratch_copy(s, path, e->d_name); /* on another file system */
    }
    closedir(d);
}

static void answer(fore_session *s, const fore_model *m, const fore_image *image, char *out, size_t size) {
    fore_request r;
    fore_error err = {0};
    fore_request_init(&r, m);
    r.messages = image ? "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"Describe the picture.\"}]}]"
                       : "[{\"role\":\"user\",\"content\":\"What is there?\"}]";
    r.images = image;
    r.image_count = image != NULL;
    r.max_tokens = 12;
    r.sampling.temperature = 0;
    *out = 0;
    if (fore_session_begin(s, &r, &err)) fail_msg("%s", err.text);
    for (fore_chunk c = {0}; c.finish == FORE_FINISH_NONE;) {
        if (fore_session_next(s, &c, &err)) fail_msg("%s", err.text);
        assert_true(strlen(out) + c.size < size);
        if (c.size) strncat(out, c.text, c.size);
    }
}

void host_ask(const char *dir, host_answers *out) {
    fore_model *m;
    fore_session *s;
    fore_model_info info;
    fore_error err = {0};
    const fore_session_options o = {.threads = 1, .context = 512};
    *out = (host_answers){0};
    if (fore_model_open(dir, NULL, &m, &err)) fail_msg("%s: %s", dir, err.text);
    if (fore_session_new(m, &o, &s, &err)) fail_msg("%s: %s", dir, err.text);
    fore_model_get_info(m, &info);
    assert_true(info.mtp_attached);
    out->vision = info.has_vision;
    answer(s, m, NULL, out->text, sizeof out->text);
    if (info.has_vision) {
        size_t size;
        char *data = read_file("tests/samples/s00.png", &size);
        const fore_image image = {.data = data, .size = size};
        answer(s, m, &image, out->picture, sizeof out->picture);
        free(data);
    }
    fore_session_free(s);
    fore_model_close(m);
}
