/* Names of packs, and taking old ones away; see pack.h. */
#include "model/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { KEY_DIGITS = 16, NAME_CUT = 48, PATH_DIGITS = 8 };

static void write_hex(char *to, const uint8_t *bytes, int digits) {
    for (int i = 0; i < digits; i++) to[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
    to[digits] = 0;
}

void fore_pack_stem(const char *model_dir, const char *pack_dir, char stem[96]) {
    struct stat a, b;
    if (stat(model_dir, &a) == 0 && stat(pack_dir, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
        strcpy(stem, "foresight");
        return;
    }
    char *real = realpath(model_dir, NULL), digits[PATH_DIGITS + 1], name[NAME_CUT + 1];
    const char *path = real ? real : model_dir, *slash = strrchr(path, '/');
    uint8_t digest[32];
    crypto_generichash(digest, sizeof digest, (const unsigned char *)path, strlen(path), NULL, 0);
    write_hex(digits, digest, PATH_DIGITS);
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    for (char *c = name; *c; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || (c > name && strchr(".-_", *c));
        if (!plain) *c = '_';
    }
    snprintf(stem, 96, "%s-%s", name, digits);
    free(real);
}

char *fore_pack_path(const char *dir, const char *stem, const uint8_t key[32]) {
    char digits[KEY_DIGITS + 1], name[192];
    write_hex(digits, key, KEY_DIGITS);
    snprintf(name, sizeof name, "%.96s-%s.pack", stem, digits);
    return fore_path_join(dir, name);
}

/* stem-KEY.pack, also with .partial behind it. */
static bool is_named(const char *name, const char *stem, const char **key) {
    size_t n = strlen(stem);
    if (strncmp(name, stem, n) || name[n] != '-') return false;
    *key = name + n + 1;
    const char *end = *key + strspn(*key, "0123456789abcdef");
    return end - *key == KEY_DIGITS && (!strcmp(end, ".pack") || !strcmp(end, ".pack.partial"));
}

/* Nobody is writing it: whoever does holds a lock. */
static bool is_idle(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return true;
    bool idle = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return idle;
}

fore_status fore_pack_prune(const char *dir, const char *stem, const uint8_t (*keys)[32], int key_count, int *files, uint64_t *bytes,
                            fore_error *err) {
    *files = 0;
    *bytes = 0;
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT) return FORE_OK;
    if (!d) return fore_fail(err, FORE_ERR_IO, "%s: cannot read: %s", dir, strerror(errno));
    fore_status s = FORE_OK;
    for (const struct dirent *e; !s && (e = readdir(d));) {
        const char *key;
        if (!is_named(e->d_name, stem, &key)) continue;
        bool kept = false;
        for (int i = 0; i < key_count; i++) {
            char digits[KEY_DIGITS + 1];
            write_hex(digits, keys[i], KEY_DIGITS);
            kept = kept || (!strncmp(key, digits, KEY_DIGITS) && !strcmp(key + KEY_DIGITS, ".pack"));
        }
        char *path = fore_path_join(dir, e->d_name);
        if (!path) s = fore_fail_nomem(err, "a path");
        struct stat st;
        if (path && !kept && lstat(path, &st) == 0 && S_ISREG(st.st_mode) && is_idle(path)) {
            if (unlink(path)) {
                s = fore_fail(err, FORE_ERR_IO, "%s: cannot remove: %s", path, strerror(errno));
            } else {
                ++*files;
                *bytes += (uint64_t)st.st_size;
            }
        }
        free(path);
    }
    closedir(d);
    return s;
}
