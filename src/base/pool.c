/* A pool of threads; see pool.h.
 *
 * Every node of memory has a share of the indexes, and one 64-bit word says what is left of it: the upper half counts runs,
 * the lower half the indexes not yet handed out. A thread takes an index by lowering the word from a value that it saw, so
 * it can only take one of the run that it saw, and that run cannot end before the index is done: a thread that sleeps late
 * never holds up a run, nor meets the fields of a later one.
 *
 * Both sides of every wait spin for a short while, then offer the processor, then sleep. Offering it matters on a loaded
 * machine: a worker that shares its processor with another program then mostly stays out of the runs, which is faster than
 * one that is taken off its processor in the middle of an index that all others wait for. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/numa.h"

/* Each placed part is a mapping of its own to the system, which has some ten thousand of them for a process. */
enum { LEAST_PLACED = 1 << 20 };
enum { MAX_THREADS = 4096, LINE = 128, SPIN_NANOSECONDS = 30000, YIELD_NANOSECONDS = 100000 }; /* lines are fetched in pairs */

typedef struct share {
    alignas(LINE) _Atomic uint64_t work; /* runs << 32 | indexes left */
    /* These belong to the run: written before `work`, read after an index was taken, on the line that comes with it. */
    fore_task task;
    void *context;
    int end; /* behind the last index of the share */
} share;

typedef struct worker {
    fore_pool *pool;
    pthread_t thread;
    int number, node;
} worker;

struct fore_pool {
    share *shares;                       /* [nodes] */
    alignas(LINE) _Atomic uint32_t done; /* indexes that workers have finished, of all runs; the caller does not count itself */
    alignas(LINE) atomic_int sleepers;
    atomic_bool stop;
    _Atomic uint64_t awaited; /* a sleeping caller's: 1 << 32 | what it waits to see in `done`; else 0 */
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    alignas(LINE) uint32_t wanted; /* the caller's own: `done` at the end of the run */
    uint32_t runs;
    int threads, started, nodes;
    int numbers[FORE_NODE_MAX], weights[FORE_NODE_MAX]; /* of the nodes: system's number, threads */
    int64_t spin; /* nanoseconds; 0 when there are more threads than processors */
    bool held;    /* the thread that made the pool is held on a processor, and `mask` was its own */
    pthread_t maker;
    fore_cpu_set mask;
    worker *workers; /* [threads]; the caller is the first */
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
    for (int n = 0; n < p->nodes; n++)
        if ((uint32_t)atomic_load(&p->shares[n].work)) return true;
    return atomic_load(&p->stop);
}
static bool is_finished(const fore_pool *p) { return atomic_load(&p->done) == p->wanted; }

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

/* Takes indexes of a share until none is left; gives how many it took. */
static int work_off(share *s, int number) {
    int taken = 0, end = 0;
    fore_task task = NULL;
    void *context = NULL;
    uint64_t seen = atomic_load(&s->work);
    while ((uint32_t)seen) {
        if (!atomic_compare_exchange_weak(&s->work, &seen, seen - 1)) continue;
        if (!taken++) {
            task = s->task;
            context = s->context;
            end = s->end;
        }
        task(context, end - (int)(uint32_t)seen, number);
        seen = atomic_load(&s->work);
    }
    return taken;
}

/* Its own node's share first. */
static int work_off_all(fore_pool *p, const worker *w) {
    int taken = 0;
    for (int n = 0; n < p->nodes; n++) taken += work_off(&p->shares[(w->node + n) % p->nodes], w->number);
    return taken;
}

static void work_and_report(fore_pool *p, const worker *w) {
    int taken = work_off_all(p, w);
    if (!taken) return;
    uint64_t done = atomic_fetch_add(&p->done, (uint32_t)taken) + (uint32_t)taken;
    if (atomic_load(&p->awaited) != (UINT64_C(1) << 32 | (uint32_t)done)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->finished);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *argument) {
    const worker *w = argument;
    fore_pool *p = w->pool;
    while (!atomic_load(&p->stop)) {
        work_and_report(p, w);
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

static void wait_for_workers(fore_pool *p) {
    if (spin_until(p, is_finished)) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->awaited, UINT64_C(1) << 32 | p->wanted);
    while (!is_finished(p)) pthread_cond_wait(&p->finished, &p->lock);
    atomic_store(&p->awaited, 0);
    pthread_mutex_unlock(&p->lock);
}

void fore_pool_run(fore_pool *pool, fore_task task, void *context, int count) {
    if (count <= 0) return;
    if (count == 1 || !pool->started) {
        for (int i = 0; i < count; i++) task(context, i, 0);
        return;
    }
    pool->runs++;
    for (int n = 0, begin = 0; n < pool->nodes; n++) {
        share *s = &pool->shares[n];
        s->task = task;
        s->context = context;
        s->end = fore_numa_cut(pool->weights, pool->nodes, n + 1, count);
        atomic_store(&s->work, (uint64_t)pool->runs << 32 | (uint32_t)(s->end - begin));
        begin = s->end;
    }
    wake_workers(pool, count - 1);
    pool->wanted += (uint32_t)(count - work_off_all(pool, &pool->workers[0]));
    wait_for_workers(pool);
}

/* ---- making and ending ------------------------------------------------------------------------------------------- */

/* Signals belong to the program's own threads. */
static int start_workers(fore_pool *p) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = 0;
    for (int i = 1; i < p->threads && !e; i++) {
        e = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (!e) p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e;
}

/* The processors that threads are held on or spread over, and how many threads that makes. */
static fore_status choose_threads(const fore_pool_options *o, const fore_cpu_set *mask, fore_cpu_set *cpus, int *threads,
                                  fore_error *err) {
    if (o->threads < 0 || o->threads > MAX_THREADS)
        return fore_fail(err, FORE_ERR_INVALID, "threads: expected 0 to %d, found %d", MAX_THREADS, o->threads);
    *threads = o->threads;
    *cpus = *mask;
    if (!o->cpus) {
        if (!*threads) *threads = fore_pool_processors();
        return FORE_OK;
    }
    fore_status s = fore_cpu_parse(o->cpus, cpus, err);
    if (s) return s;
    int cpu = fore_cpu_next(cpus, 0);
    while (fore_cpu_has(mask, cpu)) cpu = fore_cpu_next(cpus, cpu + 1);
    if (cpu < FORE_CPU_MAX) {
        char allowed[128];
        fore_cpu_print(mask, allowed, sizeof allowed);
        return fore_fail(err, FORE_ERR_INVALID, "processors: this process may not run on %d of '%.64s'; it may on %s", cpu, o->cpus, allowed);
    }
    int n = fore_cpu_count(cpus);
    if (!*threads) *threads = n < MAX_THREADS ? n : MAX_THREADS;
    if (*threads > n)
        return fore_fail(err, FORE_ERR_INVALID, "processors: %d threads and %d processors, '%.64s'; each thread is held on one of its own",
                         *threads, n, o->cpus);
    return FORE_OK;
}

/* The `want`-th processor of all nodes, in the order of the nodes; gives its node. */
static int nth_processor(const fore_numa *numa, int want, int *cpu) {
    int node = 0;
    for (int n; want >= (n = fore_cpu_count(&numa->node[node].cpus)) && node + 1 < numa->count; node++) want -= n;
    *cpu = fore_cpu_next(&numa->node[node].cpus, 0);
    while (want--) *cpu = fore_cpu_next(&numa->node[node].cpus, *cpu + 1);
    return node;
}

/* Threads over nodes in proportion to their processors, in the order of the nodes. A node without a thread is left out. */
static void spread(fore_pool *p, const fore_numa *numa, int *processor) {
    int64_t processors = 0;
    for (int n = 0; n < numa->count; n++) processors += fore_cpu_count(&numa->node[n].cpus);
    for (int i = 0, last = -1; i < p->threads; i++) {
        int64_t at = processors >= p->threads && p->held ? i : i * processors / p->threads;
        int node = processors ? nth_processor(numa, (int)at, &processor[i]) : 0;
        if (node != last) p->numbers[p->nodes++] = numa->node[node].number;
        last = node;
        p->workers[i] = (worker){.pool = p, .number = i, .node = p->nodes - 1};
        p->weights[p->nodes - 1]++;
    }
}

/* False when a thread cannot be held on its processor; one that does not stay on its node is only slower. */
static bool hold_threads(fore_pool *p, const fore_numa *numa, const int *processor) {
    for (int i = p->held ? 0 : 1; i < p->threads; i++) {
        fore_cpu_set one = {0};
        pthread_t thread = i ? p->workers[i].thread : p->maker;
        if (p->held) {
            fore_cpu_add(&one, processor[i]);
            if (!fore_cpu_bind(thread, &one)) return false;
        } else if (p->nodes > 1) {
            for (int n = 0; n < numa->count; n++)
                if (numa->node[n].number == p->numbers[p->workers[i].node]) fore_cpu_bind(thread, &numa->node[n].cpus);
        }
    }
    return true;
}

fore_status fore_pool_new_with(const fore_pool_options *options, fore_pool **out, fore_error *err) {
    *out = NULL;
    fore_cpu_set mask, cpus;
    int threads = 0;
    fore_cpu_mask(&mask);
    fore_status s = choose_threads(options, &mask, &cpus, &threads, err);
    if (s) return s;
    fore_pool *p = aligned_alloc(LINE, (sizeof *p + LINE - 1) / LINE * LINE);
    if (!p) return fore_fail_nomem(err, "the thread pool");
    memset(p, 0, sizeof *p);
    fore_numa *numa = malloc(sizeof *numa);
    int *processor = calloc((size_t)threads, sizeof *processor);
    p->workers = calloc((size_t)threads, sizeof *p->workers);
    p->shares = aligned_alloc(LINE, FORE_NODE_MAX * sizeof *p->shares);
    p->threads = threads;
    p->held = options->cpus != NULL;
    p->maker = pthread_self();
    p->mask = mask;
    p->spin = threads <= fore_pool_processors() ? SPIN_NANOSECONDS : 0;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->finished, NULL);
    int e = 0;
    if (!numa || !processor || !p->workers || !p->shares) {
        s = fore_fail_nomem(err, "the thread pool");
    } else {
        memset(p->shares, 0, FORE_NODE_MAX * sizeof *p->shares);
        fore_numa_read(options->nodes ? options->nodes : "/sys/devices/system/node", &cpus, numa);
        spread(p, numa, processor);
        e = start_workers(p);
    }
    if (e)
        s = fore_fail(err, FORE_ERR_LIMIT, "cannot start thread %d of %d: %s; ask for fewer threads", p->started + 2, threads, strerror(e));
    else if (!s && !hold_threads(p, numa, processor))
        s = fore_fail(err, FORE_ERR_INVALID, "processors: the system does not let a thread be held on each of '%.64s'", options->cpus);
    free(numa);
    free(processor);
    if (s) fore_pool_free(p);
    else *out = p;
    return s;
}

fore_status fore_pool_new(int threads, fore_pool **out, fore_error *err) {
    return fore_pool_new_with(&(fore_pool_options){.threads = threads}, out, err);
}

void fore_pool_free(fore_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i <= pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
    if (pool->held && pthread_equal(pool->maker, pthread_self())) fore_cpu_bind(pool->maker, &pool->mask);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->shares);
    free(pool->workers);
    free(pool);
}

int fore_pool_threads(const fore_pool *pool) { return pool->threads; }
bool fore_pool_spins(const fore_pool *pool) { return pool->spin > 0; }
int fore_pool_nodes(const fore_pool *pool) { return pool->nodes; }

void fore_pool_place(const fore_pool *pool, void *memory, size_t size, int pieces) {
    for (int n = 0; pool->nodes > 1 && n < pool->nodes; n++) {
        int from = fore_numa_cut(pool->weights, pool->nodes, n, pieces), to = fore_numa_cut(pool->weights, pool->nodes, n + 1, pieces);
        size_t bytes = (size_t)(to - from) * size;
        if (bytes >= LEAST_PLACED) fore_numa_place((char *)memory + (size_t)from * size, bytes, pool->numbers[n]);
    }
}
