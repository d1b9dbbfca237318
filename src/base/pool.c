/* A pool of threads; see pool.h.
 *
 * One 64-bit word says what there is to do: the upper half counts runs, the lower half the indexes not yet handed out.
 * A thread takes an index by lowering the word from a value that it saw, so it can only take one of the run that it saw,
 * and that run cannot end before the index is done: a thread that sleeps late never holds up a run, nor meets the fields
 * of a later one. Both sides of every wait spin for a short while, then offer the processor, then sleep. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 4096, LINE = 64, SPIN_NANOSECONDS = 30000, YIELD_NANOSECONDS = 100000 };

typedef struct worker {
    fore_pool *pool;
    pthread_t thread;
    int number;
} worker;

struct fore_pool {
    alignas(LINE) _Atomic uint64_t work; /* runs << 32 | indexes left */
    alignas(LINE) atomic_int done;       /* indexes of this run that are finished */
    alignas(LINE) atomic_bool stop;
    atomic_int sleepers;
    atomic_bool caller_sleeps;
    fore_task task; /* these three belong to the run: written before `work`, read after an index was taken */
    void *context;
    int count;
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    int threads, started;
    int64_t spin; /* nanoseconds; 0 when there are more threads than processors */
    worker *workers;
};

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool has_work(const fore_pool *p) {
    return (uint32_t)atomic_load(&p->work) != 0 || atomic_load(&p->stop);
}
static bool is_finished(const fore_pool *p) { return atomic_load(&p->done) == p->count; }

/* True as soon as ready() is; false when it is time to sleep. */
static bool spin_until(const fore_pool *p, bool (*ready)(const fore_pool *)) {
    if (ready(p)) return true;
    int64_t start = now(), spent = 0;
    while (spent < p->spin) {
        for (int i = 0; i < 32; i++) {
            if (ready(p)) return true;
            relax();
        }
        spent = now() - start;
    }
    while (spent < p->spin + YIELD_NANOSECONDS) {
        sched_yield();
        if (ready(p)) return true;
        spent = now() - start;
    }
    return false;
}

/* ---- working ----------------------------------------------------------------------------------------------------- */

/* Takes indexes until none is left; gives how many it took. */
static int work_off(fore_pool *p, int number) {
    int taken = 0;
    uint64_t seen = atomic_load(&p->work);
    while ((uint32_t)seen) {
        if (!atomic_compare_exchange_weak(&p->work, &seen, seen - 1)) continue;
        p->task(p->context, p->count - (int)(uint32_t)seen, number);
        taken++;
        seen = atomic_load(&p->work);
    }
    return taken;
}

static void work_and_report(fore_pool *p, int number) {
    int taken = work_off(p, number);
    if (!taken) return;
    /* Before the report: after it the run may end and the next one may begin. */
    int count = p->count;
    if (atomic_fetch_add(&p->done, taken) + taken != count || !atomic_load(&p->caller_sleeps)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->finished);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *argument) {
    const worker *w = argument;
    fore_pool *p = w->pool;
    while (!atomic_load(&p->stop)) {
        work_and_report(p, w->number);
        if (spin_until(p, has_work)) continue;
        pthread_mutex_lock(&p->lock);
        atomic_fetch_add(&p->sleepers, 1);
        while (!has_work(p)) pthread_cond_wait(&p->wake, &p->lock);
        atomic_fetch_sub(&p->sleepers, 1);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

static void wake_workers(fore_pool *p, int wanted) {
    /* A worker that counts itself after this look has yet to look at `work`, which is already set. */
    if (!atomic_load(&p->sleepers)) return;
    pthread_mutex_lock(&p->lock);
    if (wanted >= p->started) pthread_cond_broadcast(&p->wake);
    else
        for (int i = 0; i < wanted; i++) pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void fore_pool_run(fore_pool *pool, fore_task task, void *context, int count) {
    if (count <= 0) return;
    if (count == 1 || !pool->started) {
        for (int i = 0; i < count; i++) task(context, i, 0);
        return;
    }
    pool->task = task;
    pool->context = context;
    pool->count = count;
    atomic_store(&pool->done, 0);
    uint64_t runs = (atomic_load(&pool->work) >> 32) + 1;
    atomic_store(&pool->work, runs << 32 | (uint32_t)count);
    wake_workers(pool, count - 1);
    atomic_fetch_add(&pool->done, work_off(pool, 0));
    if (spin_until(pool, is_finished)) return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (!is_finished(pool)) pthread_cond_wait(&pool->finished, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

/* ---- making and ending ------------------------------------------------------------------------------------------- */

/* Signals belong to the program's own threads. */
static int start_workers(fore_pool *p) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = 0;
    for (int i = 0; i < p->threads - 1 && !e; i++) {
        p->workers[i] = (worker){.pool = p, .number = i + 1};
        e = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (!e) p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e;
}

fore_status fore_pool_new(int threads, fore_pool **out, fore_error *err) {
    *out = NULL;
    int processors = fore_pool_processors();
    if (threads == 0) threads = processors < MAX_THREADS ? processors : MAX_THREADS;
    if (threads < 0 || threads > MAX_THREADS)
        return fore_fail(err, FORE_ERR_INVALID, "threads: expected 0 to %d, found %d", MAX_THREADS, threads);
    fore_pool *p = aligned_alloc(LINE, (sizeof *p + LINE - 1) / LINE * LINE);
    if (!p) return fore_fail_nomem(err, "the thread pool");
    memset(p, 0, sizeof *p);
    p->threads = threads;
    p->spin = threads <= processors ? SPIN_NANOSECONDS : 0;
    p->workers = calloc((size_t)threads, sizeof *p->workers);
    if (!p->workers) {
        free(p);
        return fore_fail_nomem(err, "the thread pool");
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->finished, NULL);
    int e = start_workers(p);
    if (e) {
        int started = p->started;
        fore_pool_free(p);
        return fore_fail(err, FORE_ERR_LIMIT, "cannot start thread %d of %d: %s; ask for fewer threads", started + 2, threads,
                         strerror(e));
    }
    *out = p;
    return FORE_OK;
}

void fore_pool_free(fore_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

int fore_pool_threads(const fore_pool *pool) { return pool->threads; }
