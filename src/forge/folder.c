/* Crash-safe writing of a folder; see folder.h. */
#include "forge/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char partial_suffix[] = ".partial";

static fore_status fail_io(const fore_folder *f, const char *name, const char *what, fore_error *err) {
    return fore_fail(err, FORE_ERR_IO, "%s/%s: cannot %s: %s", f->path, name, what, strerror(errno));
}

fore_status fore_folder_open(const char *path, fore_folder *out, fore_error *err) {
    *out = (fore_folder){.fd = -1};
    if (mkdir(path, 0777) && errno != EEXIST)
        return fore_fail(err, FORE_ERR_IO, "%s: cannot make the folder: %s", path, strerror(errno));
    out->path = strdup(path);
    if (!out->path) return fore_fail_nomem(err, path);
    out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fore_status s = FORE_OK;
    if (out->fd < 0) s = fore_fail(err, FORE_ERR_IO, "%s: cannot open the folder: %s", path, strerror(errno));
    /* A file system without locks is written to without one. */
    else if (flock(out->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        s = fore_fail(err, FORE_ERR_IO, "%s: another process is writing there; wait until it ends", path);
    if (s) fore_folder_close(out);
    return s;
}

void fore_folder_close(fore_folder *folder) {
    if (folder->fd >= 0) close(folder->fd);
    free(folder->path);
    *folder = (fore_folder){.fd = -1};
}

static bool is_partial(const char *name) {
    size_t n = strlen(name), k = sizeof partial_suffix - 1;
    return n > k && !strcmp(name + n - k, partial_suffix);
}

fore_status fore_folder_find_any(const fore_folder *folder, char **found, fore_error *err) {
    *found = NULL;
    DIR *d = opendir(folder->path);
    if (!d && errno == ENOMEM) return fore_fail_nomem(err, folder->path);
    if (!d) return fore_fail(err, FORE_ERR_IO, "%s: cannot read the folder: %s", folder->path, strerror(errno));
    fore_status s = FORE_OK;
    for (const struct dirent *e; !*found && !s && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || is_partial(e->d_name)) continue;
        *found = strdup(e->d_name);
        if (!*found) s = fore_fail_nomem(err, folder->path);
    }
    closedir(d);
    return s;
}

bool fore_folder_has(const fore_folder *folder, const char *name, uint64_t *size) {
    struct stat st;
    if (fstatat(folder->fd, name, &st, 0) || !S_ISREG(st.st_mode)) return false;
    if (size) *size = (uint64_t)st.st_size;
    return true;
}

static uint64_t room_of(const struct statvfs *v) {
    uint64_t bytes;
    return !v->f_frsize || __builtin_mul_overflow((uint64_t)v->f_bavail, (uint64_t)v->f_frsize, &bytes) ? UINT64_MAX : bytes;
}

uint64_t fore_folder_room(const fore_folder *folder) {
    struct statvfs v;
    return fstatvfs(folder->fd, &v) ? UINT64_MAX : room_of(&v);
}

uint64_t fore_folder_room_for(const char *path) {
    struct statvfs v;
    size_t n = strlen(path);
    while (n && path[n - 1] == '/') n--;
    while (n && path[n - 1] != '/') n--;
    char *parent = n ? strndup(path, n) : strdup(".");
    uint64_t room = parent && !statvfs(parent, &v) ? room_of(&v) : UINT64_MAX;
    free(parent);
    return room;
}

fore_status fore_folder_remove(const fore_folder *folder, const char *name, fore_error *err) {
    return unlinkat(folder->fd, name, 0) && errno != ENOENT ? fail_io(folder, name, "remove", err) : FORE_OK;
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

static fore_status make_parents(const fore_folder *folder, char *name, fore_error *err) {
    for (char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        bool failed = mkdirat(folder->fd, name, 0777) && errno != EEXIST;
        if (failed) return fail_io(folder, name, "make the folder", err);
        *slash = '/';
    }
    return FORE_OK;
}

fore_status fore_folder_begin(const fore_folder *folder, const char *name, fore_folder_file *out, fore_error *err) {
    *out = (fore_folder_file){.folder = folder, .fd = -1};
    size_t size = strlen(name) + sizeof partial_suffix;
    out->name = strdup(name);
    out->partial = malloc(size);
    fore_status s = FORE_OK;
    if (!out->name || !out->partial) s = fore_fail_nomem(err, name);
    if (!s) {
        snprintf(out->partial, size, "%s%s", name, partial_suffix);
        s = make_parents(folder, out->partial, err);
    }
    if (!s) {
        out->fd = openat(folder->fd, out->partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (out->fd < 0) s = fail_io(folder, out->partial, "create", err);
    }
    if (s) fore_folder_abandon(out);
    return s;
}

fore_status fore_folder_write_at(const fore_folder_file *file, uint64_t offset, const void *data, size_t size, fore_error *err) {
    const char *p = data;
    while (size) {
        ssize_t r = pwrite(file->fd, p, size, (off_t)offset);
        if (r < 0 && errno == EINTR) continue;
        if (r == 0) errno = ENOSPC;
        if (r <= 0) return fail_io(file->folder, file->name, "write", err);
        p += r;
        offset += (uint64_t)r;
        size -= (size_t)r;
    }
    return FORE_OK;
}

fore_status fore_folder_commit(fore_folder_file *file, fore_error *err) {
    const fore_folder *folder = file->folder;
    bool good = fsync(file->fd) == 0;
    int e = errno;
    if (close(file->fd) && good) {
        e = errno;
        good = false;
    }
    file->fd = -1;
    if (good && renameat(folder->fd, file->partial, folder->fd, file->name)) {
        e = errno;
        good = false;
    }
    fore_status s = FORE_OK;
    if (good) {
        file->partial[0] = 0;
        (void)fsync(folder->fd); /* the name too; where folders cannot be synced it comes with the next sync */
    } else {
        (void)unlinkat(folder->fd, file->partial, 0);
        errno = e;
        s = fail_io(folder, file->name, "write", err);
    }
    fore_folder_abandon(file);
    return s;
}

void fore_folder_abandon(fore_folder_file *file) {
    if (file->fd >= 0) {
        close(file->fd);
        (void)unlinkat(file->folder->fd, file->partial, 0);
    }
    free(file->name);
    free(file->partial);
    *file = (fore_folder_file){.fd = -1};
}

fore_status fore_folder_write(const fore_folder *folder, const char *name, const void *data, size_t size, fore_error *err) {
    fore_folder_file file;
    fore_status s = fore_folder_begin(folder, name, &file, err);
    if (s) return s;
    s = fore_folder_write_at(&file, 0, data, size, err);
    if (!s) return fore_folder_commit(&file, err);
    fore_folder_abandon(&file);
    return s;
}

static fore_status pour(int from, const char *path, const fore_folder_file *to, fore_error *err) {
    char block[65536];
    for (uint64_t at = 0;;) {
        ssize_t n = read(from, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fore_fail(err, FORE_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        if (n == 0) return FORE_OK;
        fore_status s = fore_folder_write_at(to, at, block, (size_t)n, err);
        if (s) return s;
        at += (uint64_t)n;
    }
}

fore_status fore_folder_copy(const fore_folder *folder, const char *from, const char *name, fore_error *err) {
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fore_fail(err, FORE_ERR_IO, "%s: cannot open: %s", from, strerror(errno));
    fore_folder_file file;
    fore_status s = fore_folder_begin(folder, name, &file, err);
    if (!s) s = pour(fd, from, &file, err);
    close(fd);
    if (!s) return fore_folder_commit(&file, err);
    if (file.folder) fore_folder_abandon(&file);
    return s;
}
