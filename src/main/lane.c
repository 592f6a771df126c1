/* SPDX-License-Identifier: ISC */
/*
 * Which lanes are busy, what goes to which lane, and how many there can be: as many as processors.
 */

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon_priv.h"

/* ---- busy lanes ---- */

#define LOOK_PERIOD (200 * USEC_PER_MS)
#define BUSY_PERCENT 70

/* Another lane may have looked since the caller has read its clock: `now` may be before that. */
uint64_t lane_load_busy(struct lane_load *load, unsigned int count,
                        usec_t (*cpu)(const void *arg, unsigned int number), const void *arg,
                        usec_t now)
{
	uint64_t busy = 0;

	if (!atomic_exchange(&load->is_looking, true)) {
		usec_t time = now - load->looked_at;

		for (unsigned int i = 0; time >= LOOK_PERIOD && i < count; i++) {
			usec_t used = cpu(arg, i);

			if ((used - load->cpu[i]) * 100 > time * BUSY_PERCENT)
				busy |= UINT64_C(1) << i;
			load->cpu[i] = used;
		}
		if (time >= LOOK_PERIOD) {
			atomic_store(&load->busy, busy);
			load->looked_at = now;
		}
		atomic_store(&load->is_looking, false);
	}
	return atomic_load(&load->busy);
}

/* ---- what goes to a lane: its callbacks run in its thread, the listener in the main thread ----
 */

static void on_delivery(struct letter *letter)
{
	struct client_parcel *parcel = container_of(letter, struct client_parcel, letter);
	struct lane *lane = parcel->to;

	/* A client was in a letter to this lane. It may fail to become one of its clients. */
	atomic_fetch_sub_explicit(&lane->arriving_count, 1, memory_order_relaxed);
	if (letter->is_late)
		client_parcel_end(&parcel);
	else
		client_unpack(lane->clients, &parcel);
}

static void deliver(struct client_parcel *parcel, struct lane *lane)
{
	atomic_fetch_add_explicit(&lane->arriving_count, 1, memory_order_relaxed);
	parcel->letter.open = on_delivery;
	parcel->to = lane;
	loop_post(lane->loop, &parcel->letter);
}

/* Of `count` lanes from `first` on. `own` has the connection that is dealt; or NULL. */
static struct lane *least_busy(const struct lanes *lanes, unsigned int first, unsigned int count,
                               const struct lane *own)
{
	struct lane *lane, *found = NULL;
	unsigned int have, least = UINT_MAX;

	for (unsigned int i = 0; i < count; i++) {
		lane = &lanes->at[(first + i) % lanes->count];
		have = atomic_load_explicit(&lane->clients->count, memory_order_relaxed) +
		       atomic_load_explicit(&lane->arriving_count, memory_order_relaxed) -
		       (lane == own);
		if (have < least || (have == least && lane == own)) {
			least = have;
			found = lane;
		}
	}
	return found;
}

void lane_deal(struct daemon *daemon, int fd, const struct address *peer, struct gate *gate)
{
	struct lane *lane = least_busy(&daemon->lanes, 0, daemon->lanes.count, NULL);
	uint64_t id = broker_next_id(daemon->broker);
	struct client_parcel *parcel;

	if (lane == daemon->lanes.at) {
		clients_accept(lane->clients, fd, peer, gate, id);
		return;
	}
	parcel = calloc(1, sizeof(*parcel));
	if (!parcel) {
		close(fd);
		return;
	}
	parcel->stream.fd = fd;
	parcel->peer = *peer;
	parcel->gate = gate;
	parcel->id = id;
	deliver(parcel, lane);
}

static struct daemon *daemon_of(const struct clients *clients)
{
	return container_of(clients->shared, struct daemon, shared);
}

static struct lane *lane_of(const struct clients *clients)
{
	return &daemon_of(clients)->lanes.at[clients->keys.loop_number];
}

bool lane_send(struct client *client, enum client_goes why, unsigned int number)
{
	struct daemon *daemon = daemon_of(client->clients);
	bool is_numbered = why == CLIENT_GOES_TO_CANCEL || why == CLIENT_GOES_HOME;
	struct lane *to = &daemon->lanes.at[is_numbered ? number : 0];
	struct client_parcel *parcel;

	if (to == lane_of(client->clients) ||
	    (why == CLIENT_GOES_TO_OLD_PROCESS && !daemon->takeover))
		return false;
	parcel = client_pack(client); /* NULL: it was closed */
	if (parcel)
		deliver(parcel, to);
	return true;
}

/* See lane_load_busy(). */
static usec_t lane_cpu(const void *lanes, unsigned int number)
{
	return loop_cpu(((const struct lanes *)lanes)->at[number].loop);
}

unsigned int lane_pick_home(const struct clients *clients, unsigned int first, unsigned int count)
{
	struct daemon *daemon = daemon_of(clients);
	uint64_t busy = lane_load_busy(&daemon->load, daemon->lanes.count, lane_cpu, &daemon->lanes,
	                               clock_now());

	count = homes_widen(&daemon->shared.homes, first, count, busy);
	return least_busy(&daemon->lanes, first, count, lane_of(clients))->number;
}

/*
 * ---- processors ----
 *
 * How many processors this process may use. In a container, the number of online processors
 * is that of the machine.
 *
 *   /proc/self/cgroup    0::/a/b              version 2: /sys/fs/cgroup/a/b/cpu.max
 *                        4:cpu,cpuacct:/a/b   version 1: /sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us
 *
 * Hard here: in a container, the path may be the one on the host, while the visible files
 * begin at the container's own group. So the path and each shorter one are tried.
 */

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

/* Of version 2, if its file is there; else of version 1. */
static unsigned int quota_of(const char *folder)
{
	char path[PATH_MAX];
	long quota = 0, period = 0, rest;

	snprintf(path, sizeof(path), "%s/cpu.max", folder);
	if (read_numbers(path, &quota, &period) == 2)
		return worth(quota, period);
	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
	read_numbers(path, &quota, &rest);
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
	read_numbers(path, &period, &rest);
	return worth(quota, period);
}

/* The lowest quota of a group and of all groups above it. */
static unsigned int least_quota(const char *root, const char *controller, const char *group)
{
	unsigned int quota, least = UINT_MAX;
	char folder[PATH_MAX / 2];
	size_t top = (size_t)snprintf(folder, sizeof(folder), "%s" CGROUPS "%s", root, controller);
	char *slash = folder;

	if (top >= sizeof(folder) || strlen(group) >= sizeof(folder) - top)
		return least;
	snprintf(folder + top, sizeof(folder) - top, "%s", group);
	while (slash) {
		quota = quota_of(folder);
		if (quota < least)
			least = quota;
		slash = strrchr(folder + top, '/');
		if (slash)
			*slash = 0;
	}
	return least;
}

static bool has_cpu(char *controllers)
{
	const char *name;

	while ((name = strsep(&controllers, ","))) {
		if (strcmp(name, "cpu") == 0)
			return true;
	}
	return false;
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
		return least_quota(root, "", group);
	return has_cpu(controllers) ? least_quota(root, "/cpu", group) : UINT_MAX;
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
