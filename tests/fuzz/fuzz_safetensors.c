/* The safetensors reader: any bytes as a file; of what it accepts every tensor's bytes are read. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/store.h"
#include "foresight.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0) return 0;
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(fd, data + done, size - done);
        if (n <= 0) break;
        done += (size_t)n;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fore_error err = {0};
    fore_store *store = NULL;
    fore_status s = done == size ? fore_store_open_file(path, &store, &err) : FORE_ERR_IO;
    uint64_t bytes = 0;
    for (size_t i = 0; !s && i < fore_store_count(store); i++) {
        const fore_entry *e = fore_store_at(store, i);
        const volatile unsigned char *p = e->data; /* volatile: the reads must happen */
        for (size_t k = 0; k < e->bytes; k++) (void)p[k];
        bytes += e->bytes;
        if (fore_store_find(store, e->name) != e) __builtin_trap();
    }
    if (!s && bytes != fore_store_bytes(store)) __builtin_trap();
    if (s && (store || !err.text[0])) __builtin_trap();
    fore_store_close(store);
    close(fd);
    return 0;
}
