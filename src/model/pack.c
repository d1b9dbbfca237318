/* Packs; see pack.h.
 *
 * A pack is made in place: its file, under a name that ends in .partial, is mapped over the panels' region and filled there, so
 * that panels larger than memory are written out as they are made. A lock on that file says that somebody is at it; one that
 * nobody holds was left behind and is taken over. */
#include "model/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "base/file.h"
#include "base/pages.h"
#include "kernels/quant.h"
#include "model/pack_key.h"

/* HEADER: the region begins where a huge page can; between the fields and it the file has a hole. FORMAT: of the header. */
enum { HEADER = FORE_LARGE_PAGE, FORMAT = 1, FIELDS = 128, CHECKED = 96, DIGEST = 32 };

typedef struct header {
    uint64_t size; /* of the region */
    uint8_t key[DIGEST], content[DIGEST];
} header;

static void put(unsigned char *to, uint64_t n, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(n >> 8 * i);
}

static uint64_t get(const unsigned char *from, int bytes) {
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--) n = n << 8 | from[i];
    return n;
}

/* "FOREPACK", format, form of panels, begin and size of the region, key, digest of the region; then the digest of these. */
static void write_header(const header *h, unsigned char out[FIELDS]) {
    memcpy(out, "FOREPACK", 8);
    put(out + 8, FORMAT, 4);
    put(out + 12, FORE_PANEL_FORM, 4);
    put(out + 16, HEADER, 8);
    put(out + 24, h->size, 8);
    memcpy(out + 32, h->key, DIGEST);
    memcpy(out + 64, h->content, DIGEST);
    crypto_generichash(out + CHECKED, DIGEST, out, CHECKED, NULL, 0);
}

/* What is wrong with the file as a pack with this key, or NULL. */
static const char *read_header(int fd, const uint8_t key[DIGEST], header *h) {
    unsigned char in[FIELDS], digest[DIGEST];
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return "it is not a regular file";
    if (pread(fd, in, sizeof in, 0) != (ssize_t)sizeof in) return "it is too short";
    if (memcmp(in, "FOREPACK", 8)) return "it is no pack";
    crypto_generichash(digest, DIGEST, in, CHECKED, NULL, 0);
    if (memcmp(digest, in + CHECKED, DIGEST)) return "its header is damaged";
    if (get(in + 8, 4) != FORMAT || get(in + 12, 4) != FORE_PANEL_FORM || get(in + 16, 8) != HEADER) return "it is of another version";
    h->size = get(in + 24, 8);
    memcpy(h->key, in + 32, DIGEST);
    memcpy(h->content, in + 64, DIGEST);
    if (memcmp(h->key, key, DIGEST)) return "it is of other weights";
    if (h->size > INT64_MAX - HEADER || (uint64_t)st.st_size != HEADER + h->size) return "it has not the size that its header says";
    return NULL;
}

static void note(fore_panels *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(fore_panels *p, const char *format, ...) {
    if (p->packed.note[0]) return; /* the first one is the cause of others */
    va_list args;
    va_start(args, format);
    vsnprintf(p->packed.note, sizeof p->packed.note, format, args);
    va_end(args);
}

/* ---- mapping ----------------------------------------------------------------------------------------------------- */

/* Lays the file's region, or with fd -1 fresh memory, over that of the panels. When even the latter fails nothing is mapped. */
static bool lay_over(fore_panels *p, int fd, int access, int sharing) {
    void *at = mmap(p->memory, p->used, access, sharing | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS | MAP_NORESERVE : 0), fd, fd < 0 ? 0 : HEADER);
    if (at == MAP_FAILED) return false;
    fore_pages_wish_large(at, p->used); /* where the file system has them for files */
    return true;
}

static fore_status back_to_memory(fore_panels *p, fore_error *err) {
    if (lay_over(p, -1, PROT_READ | PROT_WRITE, MAP_PRIVATE)) return FORE_OK;
    return fore_fail(err, FORE_ERR_NOMEM, "out of memory: %zu MiB for the quantised weights", p->used >> 20);
}

static fore_status use_file(fore_panels *p, const fore_load *load, const char *path, fore_error *err) {
    header h;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        if (errno != ENOENT) note(p, "%s: cannot open: %s", path, strerror(errno));
        return FORE_OK;
    }
    const char *wrong = read_header(fd, p->packed.key, &h);
    if (!wrong && h.size != p->used) wrong = "it has not the size of the weights";
    if (!wrong && !lay_over(p, fd, PROT_READ, MAP_PRIVATE)) {
        wrong = "it cannot be mapped";
        fore_status s = back_to_memory(p, err);
        if (s) {
            close(fd);
            return s;
        }
    }
    close(fd);
    uint8_t content[DIGEST];
    if (!wrong && load->pack_verify && (!fore_pack_content(p, load->pool, content) || memcmp(content, h.content, DIGEST))) {
        wrong = "its content is not what was written";
        fore_status s = back_to_memory(p, err);
        if (s) return s;
    }
    if (wrong) note(p, "%s: not used: %s", path, wrong);
    p->packed.used = !wrong;
    return FORE_OK;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* The file to write to, locked and empty; -1 and a note when that cannot be. */
static int open_partial(fore_panels *p, const char *partial) {
    int fd = open(partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) {
        note(p, "%s: cannot create: %s", partial, strerror(errno));
        return -1;
    }
    struct stat mine, named;
    int e = 0;
    if (flock(fd, LOCK_EX | LOCK_NB)) note(p, "%s: another process is writing it", partial);
    else if (fstat(fd, &mine) || stat(partial, &named) || mine.st_ino != named.st_ino || mine.st_dev != named.st_dev || !S_ISREG(mine.st_mode))
        note(p, "%s: another process has just written it", partial);
    else if (ftruncate(fd, 0) || (e = posix_fallocate(fd, 0, FIELDS)) || (e = posix_fallocate(fd, HEADER, (off_t)p->used))) {
        note(p, "%s: no room for %zu MiB: %s", partial, p->used >> 20, strerror(e ? e : errno));
        unlink(partial);
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

static bool sync_folder(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    return synced;
}

/* Header, disk, name: in this order. What went wrong, or NULL. */
static const char *commit(const fore_panels *p, const fore_store *store, const fore_load *load, int fd, const char *partial,
                          const char *path) {
    header h = {.size = p->used};
    unsigned char fields[FIELDS];
    memcpy(h.key, p->packed.key, DIGEST);
    if (!fore_pack_content(p, load->pool, h.content)) return "out of memory";
    write_header(&h, fields);
    if (pwrite(fd, fields, sizeof fields, 0) != (ssize_t)sizeof fields || fsync(fd)) return strerror(errno);
    if (!fore_pack_sources_same(store)) return "the checkpoint's files have changed meanwhile";
    if (rename(partial, path)) return strerror(errno);
    sync_folder(load->pack_dir); /* without it a crash loses the name, not the content */
    return NULL;
}

static fore_status make_file(fore_panels *p, const fore_store *store, const fore_load *load, const char *path, fore_error *err) {
    size_t length = strlen(path) + sizeof ".partial";
    char *partial = malloc(length);
    if (!partial) return fore_fail_nomem(err, "a path");
    snprintf(partial, length, "%s.partial", path);
    if (mkdir(load->pack_dir, 0777) && errno != EEXIST) note(p, "%s: cannot create: %s", load->pack_dir, strerror(errno));
    int fd = open_partial(p, partial);
    fore_status s = FORE_OK;
    if (fd >= 0 && !lay_over(p, fd, PROT_READ | PROT_WRITE, MAP_SHARED)) {
        note(p, "%s: cannot map: %s", partial, strerror(errno));
        unlink(partial);
        close(fd);
        fd = -1;
        s = back_to_memory(p, err);
    }
    if (!s) s = fore_panels_fill(p, load->pool, err);
    if (s && fd >= 0) unlink(partial);
    if (!s && fd >= 0) {
        const char *wrong = commit(p, store, load, fd, partial, path);
        if (!wrong) {
            p->packed.used = p->packed.written = true;
            p->packed.note[0] = 0; /* what was refused has been replaced */
            mprotect(p->memory, p->used, PROT_READ);
        } else {
            /* What could not be written may not be readable again either. */
            note(p, "%s: not written: %s", path, wrong);
            unlink(partial);
            s = back_to_memory(p, err);
            if (!s) s = fore_panels_fill(p, load->pool, err);
        }
    }
    if (fd >= 0) close(fd);
    free(partial);
    return s;
}

void fore_pack_look(fore_panels *p, const fore_store *store) {
    fore_pack_key(p, store, p->packed.key);
    p->packed.keyed = true;
}

fore_status fore_pack_load(fore_panels *p, const fore_store *store, const fore_load *load, fore_error *err) {
    fore_pack_look(p, store);
    if (!load->pack_dir) return fore_panels_fill(p, load->pool, err);
    char *path = fore_pack_path(load->pack_dir, load->pack_stem, p->packed.key);
    if (!path) return fore_fail_nomem(err, "a path");
    fore_status s = use_file(p, load, path, err);
    if (!s && !p->packed.used) {
        if (load->pack_read_only) s = fore_panels_fill(p, load->pool, err);
        else s = make_file(p, store, load, path, err);
    }
    free(path);
    return s;
}

bool fore_pack_is_good(const char *path, const uint8_t key[32], uint64_t *bytes) {
    header h;
    *bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    bool good = !read_header(fd, key, &h);
    close(fd);
    if (good) *bytes = HEADER + h.size;
    return good;
}
