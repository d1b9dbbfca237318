/* One file of the hub into the cache; see download.h. */
#include "hub/download.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hub/digest.h"
#include "hub/refusal.h"

enum { BLOCK = 1 << 16, WORTH = 1 << 18 };

typedef struct download {
    fore_http *http;
    const fore_hub_cache *cache;
    const fore_hub_name *name;
    const fore_hub_file *file;
    char *partial, *final; /* owned */
    fore_buf url;
    int fd;
    uint64_t at;      /* bytes in the partial file that are right as far as we know, and in the digest */
    uint64_t fetched; /* bytes that came over the network */
    bool overlong;    /* the server sent more than the file has */
    fore_hub_digest digest;
} download;

static fore_status fail_disk(const download *d, const char *what, fore_error *err) {
    const char *advice = errno == ENOSPC || errno == EDQUOT ? "; make room and pull again: it goes on where it was" : "";
    return fore_fail(err, FORE_ERR_IO, "%s: cannot %s: %s%s", d->partial, what, strerror(errno), advice);
}

static void count(const download *d, uint64_t bytes) { atomic_fetch_add(&d->http->shared->done, bytes); }

static void begin_digest(download *d) { fore_hub_digest_init(&d->digest, strlen(d->file->digest) == 40, d->file->size); }

/* Throws away what is there. */
static fore_status begin_anew(download *d, fore_error *err) {
    atomic_fetch_sub(&d->http->shared->done, d->at);
    d->at = 0;
    begin_digest(d);
    return ftruncate(d->fd, 0) ? fail_disk(d, "cut", err) : FORE_OK;
}

/* Reads what an earlier run has left, for the digest. */
static fore_status pick_up(download *d, fore_error *err) {
    struct stat st;
    unsigned char block[BLOCK];
    begin_digest(d);
    if (fstat(d->fd, &st)) return fail_disk(d, "read", err);
    if (!S_ISREG(st.st_mode)) return fore_fail(err, FORE_ERR_IO, "%s: not a regular file; remove it", d->partial);
    if ((uint64_t)st.st_size > d->file->size) return begin_anew(d, err);
    while (d->at < (uint64_t)st.st_size) {
        ssize_t n = pread(d->fd, block, sizeof block, (off_t)d->at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_disk(d, "read", err);
        if (n == 0) break;
        fore_hub_digest_update(&d->digest, block, (size_t)n);
        d->at += (uint64_t)n;
        count(d, (uint64_t)n);
        if (fore_http_report(d->http->shared)) return fore_fail(err, FORE_ERR_CANCELLED, "cancelled");
    }
    return FORE_OK;
}

static fore_status start(void *user, const fore_http_reply *reply, fore_error *err) {
    download *d = user;
    if (reply->status == 206 && reply->ranged && reply->first == d->at && reply->total == d->file->size) return FORE_OK;
    if (reply->status == 206 && d->at == 0)
        return fore_fail(err, FORE_ERR_FORMAT, "the server sent a part that was not asked for");
    fore_status s = begin_anew(d, err); /* it has no ranges, and sends all of it */
    if (!s && reply->status == 206) s = fore_fail(err, FORE_ERR_FORMAT, "the server sent another part than was asked for; pull again");
    return s;
}

static fore_status take(void *user, const void *data, size_t size, fore_error *err) {
    download *d = user;
    const unsigned char *p = data;
    if (size > d->file->size - d->at) {
        d->overlong = true;
        return fore_fail(err, FORE_ERR_FORMAT, "the server sends more than the %" PRIu64 " bytes that are listed", d->file->size);
    }
    while (size) {
        ssize_t n = pwrite(d->fd, p, size, (off_t)d->at);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = ENOSPC;
        if (n <= 0) return fail_disk(d, "write", err);
        fore_hub_digest_update(&d->digest, p, (size_t)n);
        d->at += (uint64_t)n;
        d->fetched += (uint64_t)n;
        count(d, (uint64_t)n);
        p += n;
        size -= (size_t)n;
    }
    return FORE_OK;
}

/* Reads the rest of the file, with as many tries as it takes: those that got somewhere do not count. */
static fore_status get_rest(download *d, fore_error *err) {
    for (int failures = 0; d->at < d->file->size;) {
        uint64_t before = d->fetched;
        bool again;
        fore_http_reply reply;
        const fore_http_call call = {.url = d->url.data, .from = d->at, .start = start, .take = take, .user = d};
        fore_status s = fore_http_get(d->http, &call, &reply, &again, err);
        if (!s && (reply.status == 200 || reply.status == 206)) {
            if (d->at == d->file->size) return FORE_OK;
            again = true; /* an end before the end */
            s = fore_fail(err, FORE_ERR_IO, "the connection ended after %" PRIu64 " of %" PRIu64 " bytes", d->at, d->file->size);
        } else if (!s && reply.status == 416 && d->at) { /* the range makes no sense to the server */
            again = true;
            s = begin_anew(d, err);
            if (s) return s;
            s = fore_fail(err, FORE_ERR_IO, "the server refuses a range of the file (416)");
        } else if (!s) {
            again = fore_http_is_passing(&reply);
            s = fore_hub_refuse(d->http->shared->settings, d->name, d->file->path, &reply, err);
        }
        if (!again) return s;
        failures = d->fetched - before >= WORTH ? 1 : failures + 1;
        s = fore_http_wait(d->http->shared, failures, reply.wait, err);
        if (s) return s;
    }
    return FORE_OK;
}

static fore_status commit(download *d, fore_error *err) {
    if (fsync(d->fd)) return fail_disk(d, "write", err);
    if (rename(d->partial, d->final)) return fail_disk(d, "rename", err);
    return FORE_OK;
}

/* A file that was gone on with may have been damaged before: it gets a second chance, from the beginning. */
static fore_status get_and_check(download *d, fore_error *err) {
    char found[FORE_HUB_DIGEST];
    fore_status s = pick_up(d, err);
    for (int tries = 0; !s; tries++) {
        s = get_rest(d, err);
        if (d->overlong) (void)begin_anew(d, NULL);
        if (s) return s;
        fore_hub_digest_final(&d->digest, found);
        if (strcmp(found, d->file->digest) == 0) return commit(d, err);
        s = begin_anew(d, err);
        if (!s && tries == 1)
            s = fore_fail(err, FORE_ERR_FORMAT, "wrong checksum, twice: expected %s, found %s; nothing of it was kept; the server or "
                          "something on the way to it sends other content", d->file->digest, found);
    }
    return s;
}

/* Waits until no other process or thread makes the same blob. */
static fore_status take_lock(const download *d, int *fd, fore_error *err) {
    for (;;) {
        bool held;
        fore_status s = fore_hub_cache_lock(d->cache, d->file->digest, fd, &held, err);
        if (s || !held) return s;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        if (fore_http_report(d->http->shared)) return fore_fail(err, FORE_ERR_CANCELLED, "cancelled");
    }
}

static fore_status make_url(download *d, const char *commit_id, fore_error *err) {
    fore_status s = fore_buf_puts(&d->url, d->http->shared->settings->endpoint);
    if (!s) s = fore_buf_putc(&d->url, '/');
    if (!s) s = fore_buf_puts(&d->url, d->name->repo);
    if (!s) s = fore_buf_puts(&d->url, "/resolve/");
    if (!s) s = fore_buf_puts(&d->url, commit_id);
    if (!s) s = fore_buf_putc(&d->url, '/');
    if (!s) s = fore_hub_escape(&d->url, d->file->path, true);
    return s ? fore_fail_nomem(err, "an address") : FORE_OK;
}

fore_status fore_hub_download(fore_http *http, const fore_hub_cache *cache, const fore_hub_name *name, const char *commit_id,
                              const fore_hub_file *file, bool *fetched, uint64_t *bytes, fore_error *err) {
    download d = {.http = http, .cache = cache, .name = name, .file = file, .fd = -1};
    int lock = -1;
    *fetched = false;
    fore_status s = make_url(&d, commit_id, err);
    if (!s) s = fore_hub_cache_blob(cache, file->digest, "", &d.final, err);
    if (!s) s = fore_hub_cache_blob(cache, file->digest, ".incomplete", &d.partial, err);
    if (!s && fore_hub_file_has_size(d.final, file->size)) {
        count(&d, file->size);
    } else if (!s) {
        s = take_lock(&d, &lock, err);
        if (!s && fore_hub_file_has_size(d.final, file->size)) { /* made by whoever had the lock */
            count(&d, file->size);
        } else if (!s) {
            *fetched = true;
            d.fd = open(d.partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
            s = d.fd < 0 ? fail_disk(&d, "open", err) : get_and_check(&d, err);
        }
    }
    if (d.fd >= 0 && d.at == 0 && s) (void)unlink(d.partial); /* nothing to go on with */
    if (d.fd >= 0) close(d.fd);
    if (lock >= 0) close(lock);
    if (s && s != FORE_ERR_CANCELLED) fore_fail_prefix(err, s, "%.200s", file->path);
    *bytes = d.fetched;
    fore_buf_free(&d.url);
    free(d.partial);
    free(d.final);
    return s;
}
