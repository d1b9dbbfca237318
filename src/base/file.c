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

#include "base/buf.h"

static fore_status open_for_reading(const char *path, int flags, int *fd, struct stat *st, fore_error *err) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (*fd < 0) return fore_fail(err, FORE_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    const char *problem = fstat(*fd, st) ? strerror(errno) : S_ISDIR(st->st_mode) ? "it is a folder" : NULL;
    if (!problem) return FORE_OK;
    close(*fd);
    return fore_fail(err, FORE_ERR_IO, "%s: cannot read: %s", path, problem);
}

static fore_file_id identity(const struct stat *st) {
    return (fore_file_id){.size = (uint64_t)st->st_size,
                          .inode = (uint64_t)st->st_ino,
                          .modified = {(int64_t)st->st_mtim.tv_sec, (int64_t)st->st_mtim.tv_nsec},
                          .changed = {(int64_t)st->st_ctim.tv_sec, (int64_t)st->st_ctim.tv_nsec}};
}

fore_status fore_map_open(const char *path, fore_map *out, fore_error *err) {
    *out = (fore_map){0};
    int fd;
    struct stat st;
    /* A pipe must not hold the open up; regular files know no such waiting. */
    fore_status s = open_for_reading(path, O_NONBLOCK, &fd, &st, err);
    if (s) return s;
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return fore_fail(err, FORE_ERR_IO, "%s: not a regular file", path);
    }
    size_t size = (size_t)st.st_size;
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
    out->id = identity(&st);
    close(fd);
    return FORE_OK;
}

bool fore_file_identify(const char *path, fore_file_id *out) {
    struct stat st;
    bool there = stat(path, &st) == 0;
    *out = there ? identity(&st) : (fore_file_id){0};
    return there;
}

void fore_map_close(fore_map *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (fore_map){0};
}

void fore_map_release(const void *data, size_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data / page * page;
    uintptr_t to = ((uintptr_t)data + size) / page * page;
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Reads to the end whatever the size said before: pipes and files of /proc have none, others may grow. */
static fore_status read_to_end(int fd, const char *path, size_t expected, size_t limit, fore_buf *out, fore_error *err) {
    for (size_t step = expected + 1;; step = 65536) {
        fore_status s = fore_buf_reserve(out, step);
        if (s) return s == FORE_ERR_NOMEM ? fore_fail_nomem(err, path) : fore_fail(err, s, "%s: too large", path);
        size_t room = out->capacity - out->size - 1;
        ssize_t r = read(fd, out->data + out->size, room);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return fore_fail(err, FORE_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        if (r == 0) return FORE_OK;
        out->size += (size_t)r;
        if (out->size > limit)
            return fore_fail(err, FORE_ERR_LIMIT, "%s: more than %zu bytes, which is the limit", path, limit);
    }
}

fore_status fore_file_read(const char *path, size_t limit, char **data, size_t *size, fore_error *err) {
    *data = NULL;
    *size = 0;
    int fd;
    struct stat st;
    fore_status s = open_for_reading(path, 0, &fd, &st, err);
    if (s) return s;
    size_t expected = S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    fore_buf buf = {0};
    if (expected > limit) s = fore_fail(err, FORE_ERR_LIMIT, "%s: %zu bytes, the limit is %zu", path, expected, limit);
    else s = read_to_end(fd, path, expected, limit, &buf, err);
    close(fd);
    if (s) {
        fore_buf_free(&buf);
        return s;
    }
    buf.data[buf.size] = 0;
    *data = fore_buf_take(&buf, size);
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

bool fore_path_stays_inside(const char *path) {
    if (path[0] == '/' || path[0] == 0) return false;
    for (const char *p = path; p;) {
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == 0)) return false;
        p = strchr(p, '/');
        if (p) p++;
    }
    return true;
}

bool fore_name_ends_with(const char *name, const char *end) {
    size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
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

static fore_status create_temporary(fore_writer *w, const struct stat *old, fore_error *err) {
    size_t size = strlen(w->path) + 16;
    w->temporary = malloc(size);
    if (!w->temporary) return fore_fail_nomem(err, w->path);
    for (int attempt = 0; attempt < 100 && w->fd < 0; attempt++) {
        uint32_t random = 0;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) random = (uint32_t)attempt;
        snprintf(w->temporary, size, "%s.%08x", w->path, (unsigned)random);
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd < 0 && errno != EEXIST) break;
    }
    if (w->fd < 0) {
        w->temporary[0] = 0;
        return fore_fail(err, FORE_ERR_IO, "%s: cannot create: %s", w->path, strerror(errno));
    }
    /* The file that is replaced keeps its mode; where that is not allowed the usual one is good enough. */
    if (old) (void)fchmod(w->fd, old->st_mode & 0777);
    return FORE_OK;
}

fore_status fore_writer_open(const char *path, fore_writer *out, fore_error *err) {
    *out = (fore_writer){.fd = -1};
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) return fore_fail(err, FORE_ERR_IO, "%s: cannot write: it is a folder", path);
    if (exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS)) return fore_fail(err, FORE_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    /* Through a symbolic link the file behind it is replaced, not the link. */
    out->path = exists ? realpath(path, NULL) : strdup(path);
    if (!out->path)
        return errno == ENOMEM ? fore_fail_nomem(err, path)
                               : fore_fail(err, FORE_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    fore_status s = FORE_OK;
    if (exists && !S_ISREG(st.st_mode)) {
        /* A device or a pipe: written to, never replaced. */
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
        if (out->fd < 0) s = fore_fail(err, FORE_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    } else {
        s = create_temporary(out, exists ? &st : NULL, err);
    }
    if (s) fore_writer_abandon(out);
    return s;
}

fore_status fore_writer_write(fore_writer *w, const void *data, size_t size, fore_error *err) {
    const char *p = data;
    while (size) {
        ssize_t r = write(w->fd, p, size);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0)
            return fore_fail(err, FORE_ERR_IO, "%s: cannot write: %s", w->path, r ? strerror(errno) : "nothing was taken");
        p += r;
        size -= (size_t)r;
    }
    return FORE_OK;
}

fore_status fore_writer_commit(fore_writer *w, fore_error *err) {
    bool replaces = w->temporary != NULL;
    bool good = !replaces || fsync(w->fd) == 0;
    int e = errno;
    if (close(w->fd) && good) {
        e = errno;
        good = false;
    }
    w->fd = -1;
    if (good && replaces && rename(w->temporary, w->path)) {
        e = errno;
        good = false;
    }
    fore_status s = FORE_OK;
    if (good && replaces) w->temporary[0] = 0;
    if (!good) s = fore_fail(err, FORE_ERR_IO, "%s: cannot write: %s", w->path, strerror(e));
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
