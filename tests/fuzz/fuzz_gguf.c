/* Models in GGUF files: any bytes as a file, or (after a zero byte and a length of three) as a text model's file and a tower's. What
 * opens gives out its settings, its tokenizer and its tensors, of which every byte is read, and is bound as a network. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/gguf_model.h"
#include "foresight.h"
#include "model/mtp.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int put(const uint8_t *data, size_t size, char path[64]) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    for (size_t done = 0; fd >= 0 && done < size;) {
        ssize_t n = write(fd, data + done, size - done);
        if (n <= 0) break;
        done += (size_t)n;
    }
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void check(fore_status s, const fore_error *err) {
    if (s && !err->text[0]) __builtin_trap(); /* every failure says what is wrong */
}

static void read_settings(const fore_gguf_model *m) {
    fore_error err = {0};
    cJSON *trees[3] = {NULL, NULL, NULL};
    char *text;
    size_t size;
    check(fore_gguf_generation_tree(m, &trees[0], &err), &err);
    check(fore_gguf_processor_tree(m, &trees[1], &err), &err);
    fore_status s = fore_gguf_tokenizer_text(m, &text, &size, &trees[2], &err);
    check(s, &err);
    fore_tokenizer *t = NULL;
    fore_tokenizer_source source = {.no_jit = true};
    if (!s && text) {
        s = fore_tokenizer_parse(text, size, "tokenizer", &source, &err);
        if (s == FORE_ERR_FORMAT) __builtin_trap(); /* what is made of a file is JSON */
        source.config = trees[2];
        check(s ? s : fore_tokenizer_make(&source, &t, &err), &err);
    }
    fore_tokenizer_close(t);
    cJSON_Delete(source.file);
    free(text);
    for (int i = 0; i < 3; i++) cJSON_Delete(trees[i]);
}

static void read_tensors(fore_gguf_model *m) {
    fore_error err = {0};
    fore_store *store = NULL;
    fore_status s = fore_gguf_store_make(m, &store, &err);
    check(s, &err);
    for (size_t i = 0; !s && i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        const volatile unsigned char *p = e->data; /* volatile: the reads must happen */
        for (size_t k = 0; k < e->bytes; k++) (void)p[k];
    }
    fore_store_close(store);
}

static void bind(const char *path, fore_gguf_model *m) {
    fore_error err = {0};
    const fore_kern *kern;
    fore_network network;
    fore_mtp mtp;
    const fore_load load = {.gguf = m};
    if (fore_kern_get("ref", &kern, &err)) return;
    fore_status s = fore_network_open(path, kern, &load, &network, &err);
    check(s, &err);
    if (s) return;
    s = fore_mtp_open(path, &network, NULL, &load, &mtp, &err);
    check(s, &err);
    if (!s) fore_mtp_close(&mtp);
    fore_network_close(&network);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[64], tower[64];
    size_t first = size;
    bool two = size > 4 && !data[0];
    if (two) {
        first = (size_t)data[1] | (size_t)data[2] << 8 | (size_t)data[3] << 16;
        data += 4;
        size -= 4;
        if (first > size) first = size;
    }
    int a = put(data, first, text), b = two ? put(data + first, size - first, tower) : -1;
    for (int pass = 0; pass < 2; pass++) {
        fore_error err = {0};
        fore_gguf_model *m = NULL;
        fore_status s = fore_gguf_model_open(text, two ? tower : NULL, &m, &err);
        check(s, &err);
        if (!s != (m != NULL)) __builtin_trap();
        if (!s && pass == 0) {
            read_settings(m);
            read_tensors(m);
        } else if (!s) {
            bind(text, m);
        }
        fore_gguf_model_close(m);
    }
    close(a);
    if (b >= 0) close(b);
    return 0;
}
