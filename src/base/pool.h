/* A pool of threads with a fast barrier. One caller at a time; bits never depend on it, since work is only ever split by
 * outputs and rows. */
#ifndef FORE_BASE_POOL_H
#define FORE_BASE_POOL_H

#include "base/error.h"

typedef struct fore_pool fore_pool;

/* Processors that this process may use: the affinity mask, cut by the cgroup's quota (v1 and v2), at least 1. */
int fore_pool_processors(void);

typedef struct fore_pool_options {
    int threads;       /* >= 1 counts the caller; 0: as many as `cpus` has, without these fore_pool_processors() */
    const char *cpus;  /* a list as cpusets have it, "0-3,8": each thread is held on one of these; NULL: on none */
    const char *nodes; /* where the memory nodes are described; NULL: /sys/devices/system/node */
} fore_pool_options;

/* A pool of 1 starts no thread. With cpus the calling thread is held on the first of them, until it frees the pool.
 * FORE_ERR_INVALID: cpus is no list, names a processor outside the affinity mask, or fewer than threads. */
fore_status fore_pool_new_with(const fore_pool_options *options, fore_pool **out, fore_error *err);
/* With a number of threads only. */
fore_status fore_pool_new(int threads, fore_pool **out, fore_error *err);
void fore_pool_free(fore_pool *pool);
int fore_pool_threads(const fore_pool *pool);
bool fore_pool_spins(const fore_pool *pool); /* waiting threads do, unless there are more of them than processors */
/* Runs task(context, i, worker) for every i in 0..count-1, each once, on any thread (worker: 0..threads-1, for scratch),
 * and returns when all are done. Waiting threads spin for a short while, then sleep. */
typedef void (*fore_task)(void *context, int index, int worker);
void fore_pool_run(fore_pool *pool, fore_task task, void *context, int count);

/* Memory nodes that the threads are spread over, mostly 1. With more, threads other than the caller stay on their node, and
 * a run gives each node a contiguous part of the indexes, in proportion to its threads; a node that is done helps others. */
int fore_pool_nodes(const fore_pool *pool);
/* Asks for memory near who uses it, before it is first touched: `pieces` equal pieces of `size` bytes, where piece i is used by
 * index i of a run of `pieces` indexes. Nothing happens with one node, nor with little memory. */
void fore_pool_place(const fore_pool *pool, void *memory, size_t size, int pieces);

#endif
