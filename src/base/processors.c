/* The processors that a process may use; see processors.h. Whatever cannot be read does not limit. */
#include "base/processors.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"

/* The first line of the file `name` of a group; false when it cannot be read. */
static bool read_line(const char *root, const char *controller, const char *group, const char *name, char *line, int size) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s%s%s/%s", root, *controller ? "/" : "", controller, group, name);
    if (n < 0 || (size_t)n >= sizeof path) return false;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool good = fgets(line, size, f) != NULL;
    fclose(f);
    return good;
}

static void lower(int *limit, long long quota, long long period) {
    if (quota <= 0 || period <= 0) return;
    long long whole = quota / period; /* rounded down: a thread more would be throttled in every period */
    if (whole < 1) whole = 1;
    if (whole < *limit) *limit = (int)whole;
}

static void read_group(const char *root, const char *controller, const char *group, bool unified, int *limit) {
    char line[128];
    long long quota, period;
    if (unified) {
        if (read_line(root, controller, group, "cpu.max", line, sizeof line) && sscanf(line, "%lld %lld", &quota, &period) == 2)
            lower(limit, quota, period);
        return;
    }
    if (!read_line(root, controller, group, "cpu.cfs_quota_us", line, sizeof line)) return;
    quota = atoll(line);
    if (!read_line(root, controller, group, "cpu.cfs_period_us", line, sizeof line)) return;
    lower(limit, quota, atoll(line));
}

/* The group and its parents up to the root of the mount, which in a container is often the group itself. Cuts `group`. */
static void read_parents(const char *root, const char *controller, char *group, bool unified, int *limit) {
    size_t n = strlen(group);
    while (n && group[n - 1] == '/') group[--n] = 0;
    read_group(root, controller, group, unified, limit);
    while (n) {
        char *slash = strrchr(group, '/');
        n = slash ? (size_t)(slash - group) : 0;
        group[n] = 0;
        read_group(root, controller, group, unified, limit);
    }
}

static bool lists_cpu(const char *controllers) {
    for (const char *p = controllers;;) {
        size_t n = strcspn(p, ",");
        if (n == 3 && !memcmp(p, "cpu", 3)) return true;
        if (!p[n]) return false;
        p += n + 1;
    }
}

/* A line is "number:controllers:path"; the unified hierarchy has no controllers. */
static void read_membership(char *line, const char *root, int *limit) {
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return;
    *controllers++ = 0;
    *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    char again[PATH_MAX];
    if (strlen(group) >= sizeof again) return;
    memcpy(again, group, strlen(group) + 1);
    if (!*controllers) {
        read_parents(root, "", group, true, limit);
        read_parents(root, "unified", again, true, limit);
    } else if (lists_cpu(controllers)) {
        read_parents(root, controllers, group, false, limit);
        if (strcmp(controllers, "cpu")) read_parents(root, "cpu", again, false, limit);
    }
}

int fore_cgroup_processors(const char *groups, const char *root) {
    int limit = INT_MAX;
    FILE *f = fopen(groups, "re");
    if (!f) return limit;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, f) > 0) read_membership(line, root, &limit);
    free(line);
    fclose(f);
    return limit;
}

int fore_cpu_count(const fore_cpu_set *set) {
    int n = 0;
    for (size_t i = 0; i < sizeof set->bits / sizeof set->bits[0]; i++) n += __builtin_popcountll(set->bits[i]);
    return n;
}

int fore_cpu_next(const fore_cpu_set *set, int cpu) {
    while (cpu < FORE_CPU_MAX && !fore_cpu_has(set, cpu)) cpu++;
    return cpu;
}

/* A number of at most FORE_CPU_MAX - 1 at *at, which moves behind it; -1 when there is none. */
static int read_cpu(const char **at) {
    int n = -1;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        n = (n < 0 ? 0 : n) * 10 + (**at - '0');
        if (n >= FORE_CPU_MAX) return -1;
    }
    return n;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

fore_status fore_cpu_parse(const char *list, fore_cpu_set *out, fore_error *err) {
    *out = (fore_cpu_set){0};
    const char *at = list;
    while (is_blank(*at)) at++;
    for (;; at++) {
        const char *item = at;
        int first = read_cpu(&at), last = first;
        if (first >= 0 && *at == '-') {
            at++;
            last = read_cpu(&at);
        }
        if (first < 0 || last < first)
            return fore_fail(err, FORE_ERR_INVALID,
                             "processors: expected numbers below %d and ranges, such as 0-3,8, found '%.64s' at '%.24s'", FORE_CPU_MAX,
                             list, item);
        for (int cpu = first; cpu <= last; cpu++) fore_cpu_add(out, cpu);
        if (*at != ',') break;
    }
    while (is_blank(*at)) at++;
    if (*at)
        return fore_fail(err, FORE_ERR_INVALID, "processors: expected numbers and ranges, such as 0-3,8, found '%.64s' at '%.24s'", list,
                         at);
    return FORE_OK;
}

void fore_cpu_print(const fore_cpu_set *set, char *text, size_t size) {
    size_t used = 0;
    if (size) *text = 0;
    for (int cpu = fore_cpu_next(set, 0); cpu < FORE_CPU_MAX;) {
        int last = cpu;
        while (fore_cpu_has(set, last + 1)) last++;
        char item[32];
        int n = last == cpu ? snprintf(item, sizeof item, "%s%d", used ? "," : "", cpu)
                            : snprintf(item, sizeof item, "%s%d-%d", used ? "," : "", cpu, last);
        if (used + (size_t)n + sizeof ",..." > size) {
            if (used + sizeof ",..." <= size) memcpy(text + used, ",...", sizeof ",...");
            return;
        }
        memcpy(text + used, item, (size_t)n + 1);
        used += (size_t)n;
        cpu = fore_cpu_next(set, last + 1);
    }
}

bool fore_cpu_mask(fore_cpu_set *out) {
    *out = (fore_cpu_set){0};
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) { /* the kernel's mask may be larger than ours */
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set) return false;
        size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        bool known = sched_getaffinity(0, size, set) == 0;
        for (int cpu = 0; known && cpu < cpus && cpu < FORE_CPU_MAX; cpu++)
            if (CPU_ISSET_S((size_t)cpu, size, set)) fore_cpu_add(out, cpu);
        CPU_FREE(set);
        if (known) return fore_cpu_count(out) > 0;
    }
    return false;
}

bool fore_cpu_bind(pthread_t thread, const fore_cpu_set *set) {
    cpu_set_t *mask = CPU_ALLOC(FORE_CPU_MAX);
    if (!mask) return false;
    size_t size = CPU_ALLOC_SIZE(FORE_CPU_MAX);
    CPU_ZERO_S(size, mask);
    for (int cpu = fore_cpu_next(set, 0); cpu < FORE_CPU_MAX; cpu = fore_cpu_next(set, cpu + 1)) CPU_SET_S((size_t)cpu, size, mask);
    bool bound = pthread_setaffinity_np(thread, size, mask) == 0;
    CPU_FREE(mask);
    return bound;
}

int fore_pool_processors(void) {
    fore_cpu_set mask;
    int n = fore_cpu_mask(&mask) ? fore_cpu_count(&mask) : 1;
    int quota = fore_cgroup_processors("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota < n ? quota : n;
}
