/* All wanted files of a listing: room for them, several at once, then the snapshot, then the reference; see hub.h. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "hub/download.h"

enum { MAX_JOBS = 64 };
#define SPARE ((uint64_t)16 << 20) /* bytes of the disk that are left alone */

typedef struct work {
    fore_http_shared shared;
    const fore_hub_name *name;
    const fore_hub_listing *listing;
    const fore_hub_file **order; /* owned; [count], the largest first: the end is not waited for by one connection alone */
    size_t count;
    fore_hub_cache cache;
    pthread_mutex_t lock; /* of what follows */
    size_t next, fetched;
    uint64_t fetched_bytes;
    fore_status status; /* of the first failure */
    fore_error error;
} work;

static int compare_sizes(const void *a, const void *b) {
    const fore_hub_file *x = *(const fore_hub_file *const *)a, *y = *(const fore_hub_file *const *)b;
    return x->size != y->size ? (x->size < y->size ? 1 : -1) : strcmp(x->path, y->path);
}

static void finish_file(work *w, fore_status s, bool fetched, uint64_t bytes, const fore_error *err) {
    pthread_mutex_lock(&w->lock);
    w->fetched += fetched && !s;
    w->fetched_bytes += bytes;
    if (s && !w->status) {
        w->status = s;
        w->error = *err;
        atomic_store(&w->shared.stop, true);
    }
    pthread_mutex_unlock(&w->lock);
}

static const fore_hub_file *next_file(work *w) {
    pthread_mutex_lock(&w->lock);
    const fore_hub_file *file = w->next < w->count && !w->status ? w->order[w->next++] : NULL;
    pthread_mutex_unlock(&w->lock);
    return file;
}

static void *download_files(void *user) {
    work *w = user;
    fore_http http;
    fore_error err = {0};
    fore_status s = fore_http_open(&w->shared, &http, &err);
    if (s) finish_file(w, s, false, 0, &err);
    for (const fore_hub_file *file; !s && (file = next_file(w));) {
        bool fetched;
        uint64_t bytes;
        s = fore_hub_download(&http, &w->cache, w->name, w->listing->commit, file, &fetched, &bytes, &err);
        if (s == FORE_ERR_CANCELLED && !err.code) err = (fore_error){s, "cancelled"};
        finish_file(w, s, fetched, bytes, &err);
    }
    fore_http_close(&http);
    return NULL;
}

/* The calling thread is one of them, so that there is always one. */
static void run_jobs(work *w, int jobs) {
    pthread_t threads[MAX_JOBS];
    int started = 0;
    while (started + 1 < jobs && (size_t)started + 1 < w->count && !pthread_create(&threads[started], NULL, download_files, w)) started++;
    download_files(w);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

/* Bytes that are still to come, and the total for the progress. */
static fore_status check_room(work *w, uint64_t *missing, fore_error *err) {
    *missing = 0;
    for (size_t i = 0; i < w->count; i++) {
        char *final = NULL, *partial = NULL;
        const fore_hub_file *f = w->order[i];
        struct stat st;
        fore_status s = fore_hub_cache_blob(&w->cache, f->digest, "", &final, err);
        if (!s) s = fore_hub_cache_blob(&w->cache, f->digest, ".incomplete", &partial, err);
        if (!s && !fore_hub_file_has_size(final, f->size)) {
            uint64_t there = stat(partial, &st) == 0 && (uint64_t)st.st_size <= f->size ? (uint64_t)st.st_size : 0;
            if (__builtin_add_overflow(*missing, f->size - there, missing)) *missing = UINT64_MAX;
        }
        if (__builtin_add_overflow(w->shared.total, f->size, &w->shared.total)) w->shared.total = UINT64_MAX;
        free(final);
        free(partial);
        if (s) return s;
    }
    uint64_t room = fore_hub_cache_room(&w->cache);
    if (*missing == 0 || room == UINT64_MAX || (room > SPARE && room - SPARE >= *missing)) return FORE_OK;
    return fore_fail(err, FORE_ERR_LIMIT, "%s: %.3f GB are still to be downloaded, and the disk has room for %.3f GB (besides 16 MB that stay free); "
                     "make room, set HF_HUB_CACHE to a folder on another disk, or choose fewer files with --include and --exclude",
                     w->cache.root, (double)*missing / 1e9, room > SPARE ? (double)(room - SPARE) / 1e9 : 0);
}

/* The snapshot is made when everything is there, so that who finds it finds all of it. */
static fore_status make_snapshot(const work *w, fore_error *err) {
    fore_status s = FORE_OK;
    for (size_t i = 0; i < w->count && !s; i++)
        s = fore_hub_cache_link(&w->cache, w->listing->commit, w->order[i]->path, w->order[i]->digest, w->order[i]->size, err);
    return s ? s : fore_hub_cache_set_ref(&w->cache, w->name->revision, w->listing->commit, err);
}

static fore_status fetch(work *w, fore_hub_report *out, fore_error *err) {
    for (size_t i = 0; i < w->listing->count; i++)
        if (w->listing->files[i].wanted) w->order[w->count++] = &w->listing->files[i];
    qsort(w->order, w->count, sizeof *w->order, compare_sizes);
    uint64_t missing;
    fore_status s = fore_hub_cache_make(&w->cache, err);
    if (!s) s = check_room(w, &missing, err);
    if (s) return s;
    int jobs = w->shared.settings->jobs;
    run_jobs(w, jobs < 1 ? 1 : jobs > MAX_JOBS ? MAX_JOBS : jobs);
    if (w->status) {
        if (err) *err = w->error;
        return w->status;
    }
    s = make_snapshot(w, err);
    if (!s) s = fore_hub_cache_snapshot(&w->cache, w->listing->commit, &out->dir, err);
    out->files = w->count;
    out->fetched = w->fetched;
    out->bytes = w->shared.total;
    out->fetched_bytes = w->fetched_bytes;
    return s;
}

fore_status fore_hub_fetch(const fore_hub_settings *settings, const fore_hub_name *name, const fore_hub_listing *listing,
                           fore_hub_report *out, fore_error *err) {
    *out = (fore_hub_report){0};
    double began = fore_clock();
    if (curl_global_init(CURL_GLOBAL_DEFAULT)) return fore_fail(err, FORE_ERR_BUG, "libcurl does not start");
    work w = {.shared = {.settings = settings}, .name = name, .listing = listing};
    pthread_mutex_init(&w.lock, NULL);
    atomic_store(&w.shared.reached, true); /* when it was listed */
    w.order = malloc((listing->count + 1) * sizeof *w.order);
    fore_status s = w.order ? fore_hub_cache_open(settings->cache, name->repo, &w.cache, err) : fore_fail_nomem(err, "the list of files");
    if (!s) s = fetch(&w, out, err);
    fore_hub_cache_close(&w.cache);
    free(w.order);
    pthread_mutex_destroy(&w.lock);
    curl_global_cleanup();
    out->seconds = fore_clock() - began;
    return s;
}
