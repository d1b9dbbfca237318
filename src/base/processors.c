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

static int affinity(void) {
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) { /* the kernel's mask may be larger than ours */
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set) return 1;
        size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        int n = sched_getaffinity(0, size, set) ? 0 : CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (n > 0) return n;
    }
    return 1;
}

int fore_pool_processors(void) {
    int n = affinity(), quota = fore_cgroup_processors("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota < n ? quota : n;
}
