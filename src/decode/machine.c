/* Measuring the machine: fore_machine_measure of foresight.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/pool.h"
#include "kernels/kern.h"
#include "kernels/roofline.h"

enum { MOST_BYTES = 1 << 30, LEAST_BYTES = 256 << 20, TRIES = 4, SLICE = 1 << 20 };
/* Seconds: of a try that is long enough; after which no further try begins. */
#define SHORT_TRY 0.04
#define ENOUGH    0.5

/* ---- what the system says ---------------------------------------------------------------------------------------- */

/* The value of the first line of /proc/cpuinfo whose key is `key`. */
static bool read_cpuinfo(const char *key, char *out, size_t size) {
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        size_t n = strlen(key);
        if (!colon || strncmp(line, key, n) || strspn(line + n, " \t") != (size_t)(colon - line) - n) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        found = *colon != 0;
        if (found) snprintf(out, size, "%s", colon);
    }
    if (f) fclose(f);
    return found;
}

static void name_cpu(char *out, size_t size) {
    char implementer[32], part[32];
    if (read_cpuinfo("model name", out, size)) return;
    if (read_cpuinfo("CPU implementer", implementer, sizeof implementer) && read_cpuinfo("CPU part", part, sizeof part))
        snprintf(out, size, "implementer %s, part %s", implementer, part);
    else snprintf(out, size, "unknown");
}

/* Bytes of the first processor's largest cache. */
static uint64_t largest_cache(void) {
    uint64_t most = 0;
    for (int i = 0; i < 10; i++) {
        char path[80], unit = 0;
        unsigned long long size;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        FILE *f = fopen(path, "re");
        if (!f) break;
        if (fscanf(f, "%llu%c", &size, &unit) >= 1) {
            uint64_t bytes = unit == 'K' ? (uint64_t)size << 10 : unit == 'M' ? (uint64_t)size << 20 : (uint64_t)size;
            if (bytes > most) most = bytes;
        }
        fclose(f);
    }
    return most;
}

/* The number in a file that holds one, after `key` when that is not empty; UINT64_MAX when it says none. */
static uint64_t read_number(const char *path, const char *key) {
    FILE *f = fopen(path, "re");
    char line[128];
    unsigned long long value = UINT64_MAX;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%llu", &value) == 1) break;
    if (f) fclose(f);
    return value;
}

/* Bytes that this process may still take: what the system has, or the container's limit. */
static uint64_t free_memory(void) {
    uint64_t kilobytes = read_number("/proc/meminfo", "MemAvailable:");
    uint64_t bytes = kilobytes < UINT64_MAX / 1024 ? kilobytes * 1024 : UINT64_MAX;
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max", ""), old = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", "");
    if (old < limit) limit = old;
    return limit < bytes ? limit : bytes;
}

/* Memory to read: four times the last-level cache where that is between sensible bounds, never more than a quarter of what is free. */
static size_t read_bytes(uint64_t cache) {
    uint64_t bytes = cache > MOST_BYTES / 4 ? MOST_BYTES : 4 * cache;
    uint64_t most = free_memory() / 4;
    if (bytes < LEAST_BYTES) bytes = LEAST_BYTES;
    if (bytes > most) bytes = most;
    return (size_t)bytes / SLICE * SLICE;
}

/* ---- the measurements -------------------------------------------------------------------------------------------- */

typedef struct read_job {
    uint32_t (*read)(const void *data, size_t bytes);
    char *data;
    volatile uint32_t *sums; /* a cache line for each worker */
} read_job;

static void touch_task(void *context, int index, int worker) {
    (void)worker;
    const read_job *j = context;
    memset(j->data + (size_t)index * SLICE, 1 + index % 7, SLICE);
}

static void read_task(void *context, int index, int worker) {
    const read_job *j = context;
    j->sums[worker * 16] += j->read(j->data + (size_t)index * SLICE, SLICE);
}

static fore_status measure_read(const fore_roof *roof, fore_pool *pool, volatile uint32_t *sums, uint64_t cache, double *speed, fore_error *err) {
    size_t bytes = read_bytes(cache);
    if (!bytes) return fore_fail(err, FORE_ERR_NOMEM, "machine: too little free memory to measure the streaming read");
    read_job j = {.read = roof->read, .sums = sums};
    j.data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (j.data == MAP_FAILED) return fore_fail(err, FORE_ERR_NOMEM, "out of memory: the streaming read takes %zu MiB", bytes >> 20);
    int slices = (int)(bytes / SLICE);
    fore_pool_run(pool, touch_task, &j, slices); /* by the threads that read, where memory has places */
    double first = fore_clock();
    for (int i = 0; i < TRIES && (i < 2 || fore_clock() - first < ENOUGH); i++) {
        double began = fore_clock();
        fore_pool_run(pool, read_task, &j, slices);
        double reached = (double)bytes / (fore_clock() - began);
        if (reached > *speed) *speed = reached;
    }
    munmap(j.data, bytes);
    return FORE_OK;
}

typedef struct peak_job {
    uint32_t (*multiply)(size_t rounds);
    size_t rounds;
    volatile uint32_t *sums;
} peak_job;

static void peak_task(void *context, int index, int worker) {
    (void)index;
    const peak_job *j = context;
    j->sums[worker * 16] += j->multiply(j->rounds);
}

/* Operations a second of all threads; rounds grow until a try is long enough to be timed. */
static double measure_peak(uint32_t (*multiply)(size_t), int operations, fore_pool *pool, volatile uint32_t *sums) {
    int tasks = fore_pool_threads(pool) * 8;
    peak_job j = {multiply, 1000, sums};
    double best = 0, work = (double)operations * tasks, first = fore_clock();
    for (int i = 0; i < TRIES && (i < 1 || fore_clock() - first < ENOUGH);) {
        double began = fore_clock();
        fore_pool_run(pool, peak_task, &j, tasks);
        double seconds = fore_clock() - began, reached = work * (double)j.rounds / seconds;
        if (reached > best) best = reached;
        if (seconds < SHORT_TRY / 2) j.rounds *= 2;
        else i++;
    }
    return best;
}

fore_status fore_machine_measure(const char *isa, int threads, unsigned what, fore_machine *out, fore_error *err) {
    *out = (fore_machine){0};
    const fore_kern *kern;
    fore_pool *pool;
    fore_status s = fore_kern_get(isa, &kern, err);
    if (!s) s = fore_pool_new(threads, &pool, err);
    if (s) return s;
    name_cpu(out->cpu, sizeof out->cpu);
    out->isa = kern->name;
    out->processors = fore_pool_processors();
    out->threads = fore_pool_threads(pool);
    out->cache_bytes = largest_cache();
    const fore_roof *roof = fore_roof_of(kern->name);
    uint32_t *sums = calloc((size_t)out->threads * 16, sizeof *sums);
    if (!sums) s = fore_fail_nomem(err, "measuring the machine");
    if (!s && what & FORE_MACHINE_READ) s = measure_read(roof, pool, sums, out->cache_bytes, &out->read_speed, err);
    if (!s && what & FORE_MACHINE_FLOAT) out->float_speed = measure_peak(roof->multiply_float, roof->float_operations, pool, sums);
    if (!s && what & FORE_MACHINE_INTEGER) {
        const fore_roof *vectors = fore_roof_of_vectors(kern->name);
        out->integer_speed = measure_peak(roof->multiply_integer, roof->integer_operations, pool, sums);
        out->vector_speed = vectors == roof ? out->integer_speed : measure_peak(vectors->multiply_integer, vectors->integer_operations, pool, sums);
    }
    free(sums);
    fore_pool_free(pool);
    if (s) *out = (fore_machine){0};
    return s;
}
