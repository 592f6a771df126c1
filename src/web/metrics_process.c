/* SPDX-License-Identifier: ISC */
/*
 * Metrics of the process, with the names that Prometheus' own libraries use.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "pgweir/base/version.h"

#include "metrics_priv.h"

static void add(bool is_openmetrics, const char *name, const char *help, double value,
                struct buf *out)
{
	bool is_counter = strstr(name, "_total") != NULL;

	metrics_add_head(is_openmetrics, name, is_counter ? "counter" : "gauge", help, out);
	buf_printf(out, "%s %.15g\n", name, value);
}

/* Seconds of processor time of all threads. */
static double processor_time(void)
{
	struct rusage usage = { 0 };

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void add_memory(bool is_openmetrics, struct buf *out)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long whole, resident;
	double page = (double)sysconf(_SC_PAGESIZE);

	if (!file)
		return;
	if (fscanf(file, "%lu %lu", &whole, &resident) == 2) {
		add(is_openmetrics, "process_virtual_memory_bytes", "Size of the address space.",
		    (double)whole * page, out);
		add(is_openmetrics, "process_resident_memory_bytes", "Resident memory.",
		    (double)resident * page, out);
	}
	fclose(file);
}

static void add_files(bool is_openmetrics, struct buf *out)
{
	DIR *folder = opendir("/proc/self/fd");
	struct rlimit limit;
	double count = -3; /* ".", "..", and the descriptor of the folder itself */

	if (folder) {
		while (readdir(folder))
			count++;
		closedir(folder);
		add(is_openmetrics, "process_open_fds", "Open file descriptors.", count, out);
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		add(is_openmetrics, "process_max_fds", "Maximum number of open file descriptors.",
		    (double)limit.rlim_cur, out);
}

/* Field 22 of stat(5): the start in clock ticks since the boot of the machine. */
static void add_start(bool is_openmetrics, struct buf *out)
{
	FILE *file = fopen("/proc/self/stat", "re");
	struct timespec boot, wall;
	unsigned long long ticks;
	char text[1024];
	size_t size;
	char *at;

	if (!file)
		return;
	size = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[size] = 0;
	at = strrchr(text, ')'); /* the name of the program may contain blanks */
	if (!at || sscanf(at + 1,
	                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
	                  "%*d %*d %llu",
	                  &ticks) != 1)
		return;
	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &wall);
	add(is_openmetrics, "process_start_time_seconds",
	    "When the process started, in seconds since 1970.",
	    (double)(wall.tv_sec - boot.tv_sec) + (double)(wall.tv_nsec - boot.tv_nsec) / 1e9 +
	        (double)ticks / (double)sysconf(_SC_CLK_TCK),
	    out);
}

void metrics_add_process(bool is_openmetrics, uint64_t lost_lines, struct buf *out)
{
	add(is_openmetrics, "pgbouncer_up", "1: these metrics could be read.", 1, out);
	metrics_add_head(is_openmetrics, "pgweir_build_info", "gauge", "Version of pgweir.", out);
	buf_printf(out, "pgweir_build_info{version=\"%s\"} 1\n", PACKAGE_VERSION);
	add(is_openmetrics, "process_cpu_seconds_total", "Processor time of the process.",
	    processor_time(), out);
	add(is_openmetrics, "pgweir_log_lines_lost_total",
	    "Lines of the log that could not be written.", (double)lost_lines, out);
	add_memory(is_openmetrics, out);
	add_files(is_openmetrics, out);
	add_start(is_openmetrics, out);
}
