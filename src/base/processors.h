/* The processors that a process may use. Linux: affinity mask and cgroup quotas. */
#ifndef FORE_BASE_PROCESSORS_H
#define FORE_BASE_PROCESSORS_H

#include <pthread.h>

#include "base/error.h"

enum { FORE_CPU_MAX = 8192 };

/* A set of logical processors by the kernel's numbers. */
typedef struct fore_cpu_set {
    uint64_t bits[FORE_CPU_MAX / 64];
} fore_cpu_set;

static inline bool fore_cpu_has(const fore_cpu_set *set, int cpu) {
    return cpu >= 0 && cpu < FORE_CPU_MAX && (set->bits[cpu / 64] >> (cpu % 64) & 1);
}
static inline void fore_cpu_add(fore_cpu_set *set, int cpu) { set->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64); }
int fore_cpu_count(const fore_cpu_set *set);
int fore_cpu_next(const fore_cpu_set *set, int cpu); /* the first at or after `cpu`; FORE_CPU_MAX when there is none */

/* The list format of cpusets: "0-3,8". Blanks around it are allowed, an empty list is not. FORE_ERR_INVALID says what is wrong. */
fore_status fore_cpu_parse(const char *list, fore_cpu_set *out, fore_error *err);
/* Writes a set in that format, cut with "..." when it does not fit. */
void fore_cpu_print(const fore_cpu_set *set, char *text, size_t size);

/* The affinity mask of the calling thread. False when the system does not tell; then the set is empty. */
bool fore_cpu_mask(fore_cpu_set *out);
/* Holds a thread on these processors; false when the system does not let it. */
bool fore_cpu_bind(pthread_t thread, const fore_cpu_set *set);

/* Whole processors that the cgroups listed in the file `groups` (form of /proc/self/cgroup) and their parents allow, read
 * under `root` (/sys/fs/cgroup); at least 1, INT_MAX without a quota. */
int fore_cgroup_processors(const char *groups, const char *root);

#endif
