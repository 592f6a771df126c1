/* SPDX-License-Identifier: ISC */
/*
 * The limit on open files.
 */
#include "limits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static unsigned long count_of(rlim_t limit)
{
	return limit == RLIM_INFINITY ? ULONG_MAX : (unsigned long)limit;
}

bool limits_raise(struct limits *limits, struct err *err)
{
	struct rlimit files, raised;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return err_set(err, ERR_SYSTEM, "cannot read the limit on open files: %s",
		               strerror(errno));
	raised = (struct rlimit){ .rlim_cur = files.rlim_max, .rlim_max = files.rlim_max };
	/*
	 * If there is no hard limit, the kernel may still refuse (fs.nr_open). Then the soft limit
	 * stays.
	 */
	if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
		files = raised;
	limits->files = count_of(files.rlim_cur);
	limits->files_hard = count_of(files.rlim_max);
	return true;
}

int limits_for_clients(void)
{
	struct rlimit files;
	rlim_t kept;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY ||
	    files.rlim_cur > INT_MAX)
		return INT_MAX;
	kept = files.rlim_cur / 8 < LIMITS_KEPT_MAX ? files.rlim_cur / 8 : LIMITS_KEPT_MAX;
	return (int)(files.rlim_cur - kept);
}

static const char *format_limit(unsigned long limit, char *out, size_t size)
{
	if (limit == ULONG_MAX)
		snprintf(out, size, "unlimited");
	else
		snprintf(out, size, "%lu", limit);
	return out;
}

void limits_report(const struct limits *limits, unsigned long expected, const struct logger *log)
{
	char soft[32], hard[32];

	format_limit(limits->files, soft, sizeof(soft));
	format_limit(limits->files_hard, hard, sizeof(hard));
	log_info(log, "kernel file descriptor limit: %s (hard: %s); max expected fd use: %lu", soft,
	         hard, expected);
	if (expected > limits->files)
		log_warning(log,
		            "up to %lu open files may be needed, but the limit is %s: raise it, or "
		            "lower max_client_conn or pool sizes",
		            expected, soft);
}
