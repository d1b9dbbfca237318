/* Memory nodes; see numa.h. Linux; the kernel's call is used directly, a library for it would bring nothing more. */
#include "base/numa.h"

#include <limits.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool read_set(const char *root, const char *name, fore_cpu_set *out) {
    char path[PATH_MAX], line[4096];
    int n = snprintf(path, sizeof path, "%s/%s", root, name);
    if (n < 0 || (size_t)n >= sizeof path) return false;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool good = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    return good && fore_cpu_parse(line, out, NULL) == FORE_OK;
}

void fore_numa_read(const char *root, const fore_cpu_set *cpus, fore_numa *out) {
    fore_cpu_set online, near;
    out->count = 0;
    int missing = fore_cpu_count(cpus);
    if (read_set(root, "online", &online)) {
        for (int i = fore_cpu_next(&online, 0); i < FORE_CPU_MAX && out->count < FORE_NODE_MAX; i = fore_cpu_next(&online, i + 1)) {
            char name[32];
            snprintf(name, sizeof name, "node%d/cpulist", i);
            if (!read_set(root, name, &near)) continue; /* memory without processors */
            for (size_t w = 0; w < sizeof near.bits / sizeof near.bits[0]; w++) near.bits[w] &= cpus->bits[w];
            int n = fore_cpu_count(&near);
            if (!n) continue;
            missing -= n;
            out->node[out->count].number = i;
            out->node[out->count++].cpus = near;
        }
    }
    if (out->count && missing == 0) return;
    out->count = 1; /* nodes that do not cover the processors would leave some out */
    out->node[0].number = -1;
    out->node[0].cpus = *cpus;
}

int fore_numa_cut(const int *weight, int parts, int part, int count) {
    int64_t before = 0, all = 0;
    for (int p = 0; p < parts; p++) {
        if (p < part) before += weight[p];
        all += weight[p];
    }
    return all ? (int)(count * before / all) : 0;
}

bool fore_numa_place(void *memory, size_t size, int number) {
#ifdef SYS_mbind
    enum { PREFERRED = 1 }; /* of linux/mempolicy.h; a full node is no reason to fail */
    long page = sysconf(_SC_PAGESIZE);
    if (number < 0 || number >= FORE_CPU_MAX || page <= 0) return false;
    uintptr_t mask = (uintptr_t)page - 1, from = ((uintptr_t)memory + mask) & ~mask, to = ((uintptr_t)memory + size) & ~mask;
    if (from >= to) return false;
    enum { WORD = 8 * sizeof(unsigned long) };
    unsigned long nodes[FORE_CPU_MAX / WORD] = {0};
    nodes[(size_t)number / WORD] = 1UL << ((size_t)number % WORD);
    /* The kernel reads one bit less than it is told, and at most 1024 of them. */
    unsigned long bits = (unsigned long)number + 2;
    return syscall(SYS_mbind, from, to - from, PREFERRED, nodes, bits, 0U) == 0;
#else
    (void)memory, (void)size, (void)number;
    return false;
#endif
}
