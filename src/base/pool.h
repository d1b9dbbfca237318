/* A pool of threads with a fast barrier. One caller at a time; bits never depend on it, since work is only ever split by
 * outputs and rows. */
#ifndef FORE_BASE_POOL_H
#define FORE_BASE_POOL_H

#include "base/error.h"

typedef struct fore_pool fore_pool;

/* Processors that this process may use: the affinity mask, cut by the cgroup's quota (v1 and v2), at least 1. */
int fore_pool_processors(void);
/* threads >= 1 counts the caller; 0: fore_pool_processors(). A pool of 1 starts no thread. */
fore_status fore_pool_new(int threads, fore_pool **out, fore_error *err);
void fore_pool_free(fore_pool *pool);
int fore_pool_threads(const fore_pool *pool);
/* Runs task(context, i, worker) for every i in 0..count-1, each once, on any thread (worker: 0..threads-1, for scratch),
 * and returns when all are done. Idle threads spin for a short while, then sleep. */
typedef void (*fore_task)(void *context, int index, int worker);
void fore_pool_run(fore_pool *pool, fore_task task, void *context, int count);

#endif
