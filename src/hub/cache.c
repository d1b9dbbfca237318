/* The cache folder; see cache.h. */
#include "hub/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"

/* The texts one behind the other, up to NULL; owned. */
static fore_status join(char **out, fore_error *err, const char *const texts[]) {
    fore_buf buf = {0};
    fore_status s = FORE_OK;
    for (int i = 0; texts[i] && !s; i++) s = fore_buf_puts(&buf, texts[i]);
    if (s) fore_buf_free(&buf);
    *out = s ? NULL : fore_buf_take(&buf, &(size_t){0});
    return *out ? FORE_OK : fore_fail_nomem(err, "a path of the cache");
}
#define JOIN(out, err, ...) join(out, err, (const char *const[]){__VA_ARGS__, NULL})

fore_status fore_hub_cache_open(const char *root, const char *repo, fore_hub_cache *out, fore_error *err) {
    *out = (fore_hub_cache){0};
    const char *name = strchr(repo, '/') + 1;
    char owner[FORE_HUB_REPO];
    memcpy(owner, repo, (size_t)(name - 1 - repo));
    owner[name - 1 - repo] = 0;
    fore_status s = JOIN(&out->root, err, root);
    if (!s) s = JOIN(&out->folder, err, root, "/models--", owner, "--", name);
    if (!s) s = JOIN(&out->locks, err, root, "/.locks/models--", owner, "--", name);
    return s;
}

void fore_hub_cache_close(fore_hub_cache *cache) {
    free(cache->root);
    free(cache->folder);
    free(cache->locks);
    *cache = (fore_hub_cache){0};
}

static fore_status make_folder(const char *path, fore_error *err) {
    struct stat st;
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))) return FORE_OK;
    return fore_fail(err, FORE_ERR_IO, "%s: cannot make the folder: %s; HF_HUB_CACHE sets another place", path, strerror(errno));
}

/* The folders of path, from `from` bytes on: all but its last part. */
static fore_status make_parents(char *path, size_t from, fore_error *err) {
    fore_status s = FORE_OK;
    for (char *slash = strchr(path + from, '/'); slash && !s; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        s = make_folder(path, err);
        *slash = '/';
    }
    return s;
}

fore_status fore_hub_cache_make(const fore_hub_cache *cache, fore_error *err) {
    static const char *const parts[] = {"/blobs/", "/refs/", "/snapshots/"};
    char *path;
    fore_status s = JOIN(&path, err, cache->locks, "/");
    if (!s) s = make_parents(path, 1, err);
    free(path);
    for (int i = 0; i < 3 && !s; i++) {
        s = JOIN(&path, err, cache->folder, parts[i]);
        if (!s) s = make_parents(path, strlen(cache->root), err);
        free(path);
    }
    return s;
}

fore_status fore_hub_cache_ref(const fore_hub_cache *cache, const char *revision, char commit[FORE_HUB_DIGEST], fore_error *err) {
    commit[0] = 0;
    if (fore_hub_is_commit(revision)) {
        memcpy(commit, revision, strlen(revision) + 1);
        return FORE_OK;
    }
    char *path, *text = NULL;
    size_t size = 0;
    fore_status s = JOIN(&path, err, cache->folder, "/refs/", revision);
    if (!s && fore_file_exists(path)) {
        s = fore_file_read(path, 256, &text, &size, err);
        if (!s) text[strcspn(text, " \r\n\t")] = 0;
        if (!s && fore_hub_is_commit(text)) memcpy(commit, text, strlen(text) + 1);
        else if (!s) s = fore_fail(err, FORE_ERR_FORMAT, "%s: expected a commit, 40 hexadecimal digits; remove the file and pull again", path);
    }
    free(text);
    free(path);
    return s;
}

static void sync_folder_of(char *path) { /* where folders cannot be synced the name comes with the next sync */
    char *slash = strrchr(path, '/');
    *slash = 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

fore_status fore_hub_cache_set_ref(const fore_hub_cache *cache, const char *revision, const char *commit, fore_error *err) {
    char known[FORE_HUB_DIGEST], *path = NULL, *temporary = NULL;
    if (fore_hub_is_commit(revision)) return FORE_OK;
    if (!fore_hub_cache_ref(cache, revision, known, NULL) && strcmp(known, commit) == 0) return FORE_OK;
    fore_status s = JOIN(&path, err, cache->folder, "/refs/", revision);
    if (!s) s = make_parents(path, strlen(cache->folder) + 1, err);
    /* Beside the blobs, because every file below refs is taken for a revision; of this process, for another may set it too. */
    char process[32];
    snprintf(process, sizeof process, ".%ld", (long)getpid());
    if (!s) s = JOIN(&temporary, err, cache->folder, "/blobs/ref.", commit, process, ".incomplete");
    if (!s) {
        int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
        bool good = fd >= 0 && write(fd, commit, strlen(commit)) == (ssize_t)strlen(commit) && fsync(fd) == 0;
        if (fd >= 0 && close(fd)) good = false;
        if (!good || rename(temporary, path)) s = fore_fail(err, FORE_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
        else sync_folder_of(path);
    }
    free(temporary);
    free(path);
    return s;
}

fore_status fore_hub_cache_snapshot(const fore_hub_cache *cache, const char *commit, char **out, fore_error *err) {
    return JOIN(out, err, cache->folder, "/snapshots/", commit);
}

fore_status fore_hub_cache_blob(const fore_hub_cache *cache, const char *digest, const char *suffix, char **out, fore_error *err) {
    return JOIN(out, err, cache->folder, "/blobs/", digest, suffix);
}

bool fore_hub_file_has_size(const char *path, uint64_t size) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size;
}

fore_status fore_hub_cache_link(const fore_hub_cache *cache, const char *commit, const char *path, const char *digest, uint64_t size,
                                fore_error *err) {
    char *at, *target = NULL;
    fore_buf up = {0};
    fore_status s = JOIN(&at, err, cache->folder, "/snapshots/", commit, "/", path);
    if (!s && fore_hub_file_has_size(at, size)) {
        free(at);
        return FORE_OK;
    }
    for (const char *c = path; c && !s; c = strchr(c + 1, '/')) /* a step up for each folder on the way, the commit's too */
        s = fore_buf_puts(&up, "../") ? fore_fail_nomem(err, "a path of the cache") : FORE_OK;
    if (!s) s = JOIN(&target, err, up.data, "../blobs/", digest);
    if (!s) s = make_parents(at, strlen(cache->folder) + 1, err);
    if (!s && unlink(at) && errno != ENOENT) s = fore_fail(err, FORE_ERR_IO, "%s: cannot replace: %s", at, strerror(errno));
    /* Another program that pulls the same may have been faster. */
    if (!s && symlink(target, at) && !(errno == EEXIST && fore_hub_file_has_size(at, size))) {
        const char *advice = errno == EPERM || errno == ENOTSUP || errno == ENOSYS
                                 ? "; this file system seems to have no symbolic links: HF_HUB_CACHE sets another place" : "";
        s = fore_fail(err, FORE_ERR_IO, "%s: cannot link: %s%s", at, strerror(errno), advice);
    }
    fore_buf_free(&up);
    free(target);
    free(at);
    return s;
}

uint64_t fore_hub_cache_room(const fore_hub_cache *cache) {
    struct statvfs v;
    uint64_t bytes;
    if (statvfs(cache->folder, &v) || !v.f_frsize || __builtin_mul_overflow((uint64_t)v.f_bavail, (uint64_t)v.f_frsize, &bytes))
        return UINT64_MAX;
    return bytes;
}

fore_status fore_hub_cache_lock(const fore_hub_cache *cache, const char *digest, int *fd, bool *held, fore_error *err) {
    char *path;
    *held = false;
    *fd = -1;
    fore_status s = JOIN(&path, err, cache->locks, "/", digest, ".lock");
    if (s) return s;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
    if (*fd < 0) {
        s = fore_fail(err, FORE_ERR_IO, "%s: cannot make the lock: %s", path, strerror(errno));
    } else if (flock(*fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        *held = true;
    } else { /* also where the file system has no locks; nobody may have put another file in its place meanwhile */
        struct stat mine, there;
        *held = fstat(*fd, &mine) || stat(path, &there) || mine.st_ino != there.st_ino || mine.st_dev != there.st_dev;
    }
    if (*held) {
        close(*fd);
        *fd = -1;
    }
    free(path);
    return s;
}
