/* Files; see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static fore_status open_regular(const char *path, int *fd, size_t *size, fore_error *err) {
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return fore_fail(err, FORE_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    if (fstat(*fd, &st)) {
        int e = errno;
        close(*fd);
        return fore_fail(err, FORE_ERR_IO, "%s: cannot stat: %s", path, strerror(e));
    }
    if (!S_ISREG(st.st_mode)) {
        close(*fd);
        return fore_fail(err, FORE_ERR_IO, "%s: not a regular file", path);
    }
    *size = (size_t)st.st_size;
    return FORE_OK;
}

fore_status fore_map_open(const char *path, fore_map *out, fore_error *err) {
    *out = (fore_map){0};
    int fd;
    size_t size;
    fore_status s = open_regular(path, &fd, &size, err);
    if (s) return s;
    if (size) {
        void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            int e = errno;
            close(fd);
            return fore_fail(err, FORE_ERR_IO, "%s: cannot map %zu bytes: %s", path, size, strerror(e));
        }
        out->data = p;
        out->size = size;
    }
    close(fd);
    return FORE_OK;
}

void fore_map_close(fore_map *map) {
    if (map->data) munmap((void *)(size_t)map->data, map->size);
    *map = (fore_map){0};
}

fore_status fore_file_read(const char *path, size_t limit, char **data, size_t *size, fore_error *err) {
    *data = NULL;
    *size = 0;
    int fd;
    size_t n;
    fore_status s = open_regular(path, &fd, &n, err);
    if (s) return s;
    if (n > limit) {
        close(fd);
        return fore_fail(err, FORE_ERR_LIMIT, "%s: %zu bytes, the limit is %zu", path, n, limit);
    }
    char *p = malloc(n + 1);
    if (!p) {
        close(fd);
        return fore_fail_nomem(err, path);
    }
    size_t got = 0;
    while (got < n) {
        ssize_t r = read(fd, p + got, n - got);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) {
            int e = errno;
            close(fd);
            free(p);
            return fore_fail(err, FORE_ERR_IO, "%s: cannot read: %s", path, strerror(e));
        }
        if (r == 0) break; /* shrank meanwhile: what is there is what is read */
        got += (size_t)r;
    }
    close(fd);
    p[got] = 0;
    *data = p;
    *size = got;
    return FORE_OK;
}

bool fore_file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool fore_dir_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *fore_path_join(const char *dir, const char *name) {
    size_t a = strlen(dir), b = strlen(name);
    char *p = malloc(a + b + 2);
    if (!p) return NULL;
    memcpy(p, dir, a);
    if (a && dir[a - 1] != '/') p[a++] = '/';
    memcpy(p + a, name, b + 1);
    return p;
}

fore_status fore_writer_open(const char *path, fore_writer *out, fore_error *err) {
    *out = (fore_writer){.fd = -1};
    size_t n = strlen(path);
    out->path = malloc(n + 1);
    out->temporary = malloc(n + 16);
    if (!out->path || !out->temporary) {
        fore_writer_abandon(out);
        return fore_fail_nomem(err, path);
    }
    memcpy(out->path, path, n + 1);
    for (int attempt = 0; attempt < 100 && out->fd < 0; attempt++) {
        uint32_t random = 0;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) random = (uint32_t)attempt;
        snprintf(out->temporary, n + 16, "%s.%08x", path, (unsigned)random);
        out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd < 0 && errno != EEXIST) break;
    }
    if (out->fd < 0) {
        int e = errno;
        out->temporary[0] = 0;
        fore_writer_abandon(out);
        return fore_fail(err, FORE_ERR_IO, "%s: cannot create: %s", path, strerror(e));
    }
    return FORE_OK;
}

fore_status fore_writer_write(fore_writer *w, const void *data, size_t size, fore_error *err) {
    const char *p = data;
    while (size) {
        ssize_t r = write(w->fd, p, size);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return fore_fail(err, FORE_ERR_IO, "%s: cannot write: %s", w->path, strerror(errno));
        p += r;
        size -= (size_t)r;
    }
    return FORE_OK;
}

fore_status fore_writer_commit(fore_writer *w, fore_error *err) {
    bool good = fsync(w->fd) == 0;
    int e = errno;
    if (close(w->fd) && good) {
        e = errno;
        good = false;
    }
    w->fd = -1;
    if (good && rename(w->temporary, w->path)) {
        e = errno;
        good = false;
    }
    fore_status s = FORE_OK;
    if (good) w->temporary[0] = 0;
    else s = fore_fail(err, FORE_ERR_IO, "%s: cannot write: %s", w->path, strerror(e));
    fore_writer_abandon(w);
    return s;
}

void fore_writer_abandon(fore_writer *w) {
    if (w->fd >= 0) close(w->fd);
    if (w->temporary && w->temporary[0]) unlink(w->temporary);
    free(w->path);
    free(w->temporary);
    *w = (fore_writer){.fd = -1};
}
