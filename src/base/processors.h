/* The processors that a process may use. Linux: affinity mask and cgroup quotas. */
#ifndef FORE_BASE_PROCESSORS_H
#define FORE_BASE_PROCESSORS_H

/* Whole processors that the cgroups listed in the file `groups` (form of /proc/self/cgroup) and their parents allow, read
 * under `root` (/sys/fs/cgroup); at least 1, INT_MAX without a quota. */
int fore_cgroup_processors(const char *groups, const char *root);

#endif
