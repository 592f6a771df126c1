/* SPDX-License-Identifier: ISC */
/*
 * How many processors this process may use. In a container, the number of online processors
 * is that of the machine.
 *
 *   /proc/self/cgroup    0::/a/b              version 2: /sys/fs/cgroup/a/b/cpu.max
 *                        4:cpu,cpuacct:/a/b   version 1: /sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us
 *
 * Hard here: in a container, the path may be the one on the host, while the visible files
 * begin at the container's own group. So the path and each shorter one are tried.
 */
#include "processors.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CGROUPS "/sys/fs/cgroup"

static unsigned int runnable(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;

	/* more processors than a cpu_set_t can hold */
	return count > 0 ? (unsigned int)count : UINT_MAX;
}

static unsigned int worth(long quota, long period)
{
	if (quota <= 0 || period <= 0)
		return UINT_MAX;
	return (unsigned int)(quota / period + (quota % period != 0));
}

/* Reads up to two numbers. Returns how many. */
static int read_numbers(const char *path, long *first, long *second)
{
	FILE *file = fopen(path, "re");
	int count;

	if (!file)
		return 0;
	count = fscanf(file, "%ld %ld", first, second);
	fclose(file);
	return count > 0 ? count : 0;
}

static unsigned int quota_2(const char *folder)
{
	char path[PATH_MAX];
	long quota, period;

	snprintf(path, sizeof(path), "%s/cpu.max", folder);
	return read_numbers(path, &quota, &period) == 2 ? worth(quota, period) : UINT_MAX;
}

static unsigned int quota_1(const char *folder)
{
	char path[PATH_MAX];
	long quota = 0, period = 0, rest;

	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
	read_numbers(path, &quota, &rest);
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
	read_numbers(path, &period, &rest);
	return worth(quota, period);
}

/* The lowest quota of a group and of all groups above it. */
static unsigned int least_quota(const char *root, const char *controller, const char *group,
                                unsigned int (*quota_of)(const char *folder))
{
	unsigned int least = UINT_MAX;
	char folder[PATH_MAX / 2];
	size_t top = (size_t)snprintf(folder, sizeof(folder), "%s" CGROUPS "%s", root, controller);
	char *slash;

	if (top >= sizeof(folder) || strlen(group) >= sizeof(folder) - top)
		return least;
	snprintf(folder + top, sizeof(folder) - top, "%s", group);
	for (;;) {
		unsigned int quota = quota_of(folder);

		if (quota < least)
			least = quota;
		slash = strrchr(folder + top, '/');
		if (!slash)
			return least;
		*slash = 0;
	}
}

static bool has_cpu(const char *controllers)
{
	return strcmp(controllers, "cpu") == 0 || strncmp(controllers, "cpu,", 4) == 0 ||
	       strstr(controllers, ",cpu,") ||
	       (strlen(controllers) > 4 &&
	        strcmp(controllers + strlen(controllers) - 4, ",cpu") == 0);
}

/* Parses a line of /proc/self/cgroup: number, controllers, path. */
static unsigned int quota_of_line(const char *root, char *line)
{
	char *controllers = strchr(line, ':'), *group;

	line[strcspn(line, "\n")] = 0;
	group = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!group || group[1] != '/')
		return UINT_MAX;
	*group++ = 0;
	if (!*++controllers)
		return least_quota(root, "", group, quota_2);
	return has_cpu(controllers) ? least_quota(root, "/cpu", group, quota_1) : UINT_MAX;
}

unsigned int processors_count(const char *root)
{
	unsigned int least = runnable();
	char path[PATH_MAX], line[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		unsigned int quota = quota_of_line(root, line);

		if (quota < least)
			least = quota;
	}
	if (file)
		fclose(file);
	return least == UINT_MAX || least == 0 ? 1 : least;
}
