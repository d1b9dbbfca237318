/* Memory nodes: which processors are near which memory, and where pages are put. A machine with one node, and whatever
 * cannot be read, is one node; placing memory is a wish that the system may ignore. */
#ifndef FORE_BASE_NUMA_H
#define FORE_BASE_NUMA_H

#include "base/processors.h"

enum { FORE_NODE_MAX = 64 };

typedef struct fore_numa {
    int count; /* nodes that have at least one of the processors; 1 when the machine has no nodes */
    struct {
        int number; /* the system's; -1 when it has none */
        fore_cpu_set cpus;
    } node[FORE_NODE_MAX];
} fore_numa;

/* The nodes of these processors, read under `root` (form of /sys/devices/system/node). */
void fore_numa_read(const char *root, const fore_cpu_set *cpus, fore_numa *out);
/* The first of `count` indexes that belong to part `part` of `parts`, where part p has weight[p] of the sum of weights. With
 * part = parts: count. */
int fore_numa_cut(const int *weight, int parts, int part, int count);
/* Asks that the whole pages in [memory, memory+size) be taken from node `number` when they are first touched. */
bool fore_numa_place(void *memory, size_t size, int number);

#endif
