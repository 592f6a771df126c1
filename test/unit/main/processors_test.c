/* SPDX-License-Identifier: ISC */
/*
 * main/lane.c: quotas of control groups, in a private tree of files, and the CPU
 * affinity of the process.
 */
#include "../../../src/main/daemon_priv.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit.h"

#define FILES_MAX 4

static const struct {
	const char *says;
	const char *cgroup; /* /proc/self/cgroup */
	struct {
		const char *path, *text;
	} files[FILES_MAX];
	unsigned int quota; /* 0: there is none */
} cases[] = {
	{ "no control groups", "", { { NULL, NULL } }, 0 },
	{ "2: no quota", "0::/a/b\n", { { "a/b/cpu.max", "max 100000\n" } }, 0 },
	{ "2: one processor", "0::/a/b\n", { { "a/b/cpu.max", "100000 100000\n" } }, 1 },
	{ "2: half of one", "0::/a/b\n", { { "a/b/cpu.max", "50000 100000\n" } }, 1 },
	{ "2: one and a half", "0::/\n", { { "cpu.max", "150000 100000\n" } }, 2 },
	{ "2: of the group above",
	  "0::/a/b\n",
	  { { "a/b/cpu.max", "max 100000\n" }, { "a/cpu.max", "100000 100000\n" } },
	  1 },
	{ "2: the least of all",
	  "0::/a/b\n",
	  { { "a/b/cpu.max", "900000 100000\n" }, { "a/cpu.max", "100000 100000\n" } },
	  1 },
	{ "2: a container that sees its own group at the top",
	  "0::/docker/0123\n",
	  { { "cpu.max", "100000 100000\n" } },
	  1 },
	{ "1: one processor",
	  "12:pids:/x\n4:cpu,cpuacct:/a\n",
	  { { "cpu/a/cpu.cfs_quota_us", "100000\n" }, { "cpu/a/cpu.cfs_period_us", "100000\n" } },
	  1 },
	{ "1: no quota",
	  "4:cpuacct,cpu:/a\n",
	  { { "cpu/a/cpu.cfs_quota_us", "-1\n" }, { "cpu/a/cpu.cfs_period_us", "100000\n" } },
	  0 },
	{ "1: not the one for sets",
	  "4:cpuset:/a\n",
	  { { "cpu/a/cpu.cfs_quota_us", "100000\n" }, { "cpu/a/cpu.cfs_period_us", "100000\n" } },
	  0 },
	{ "nonsense",
	  "::\n:\nabc\n0::a\n0::/a\n",
	  { { "a/cpu.max", "many\n" }, { "cpu.max", "100000 0\n" } },
	  0 },
};

static void write_file(const char *root, const char *folder, const char *path, const char *text)
{
	char whole[512];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s%s/%s", root, folder, path);
	for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(whole, 0700);
		*slash = '/';
	}
	file = fopen(whole, "we");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

START_TEST(processors_by_quota)
{
	char root[] = "/tmp/pgweir-processors-XXXXXX", remove[64];
	cpu_set_t set;
	unsigned int runnable, wanted;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	runnable = (unsigned int)CPU_COUNT(&set);
	ck_assert_ptr_nonnull(mkdtemp(root));
	write_file(root, "/proc/self", "cgroup", cases[_i].cgroup);
	for (int i = 0; i < FILES_MAX && cases[_i].files[i].path; i++)
		write_file(root, "/sys/fs/cgroup", cases[_i].files[i].path,
		           cases[_i].files[i].text);
	wanted = cases[_i].quota && cases[_i].quota < runnable ? cases[_i].quota : runnable;
	ck_assert_msg(processors_count(root) == wanted, "%s: %u, not %u", cases[_i].says,
	              processors_count(root), wanted);
	snprintf(remove, sizeof(remove), "rm -r %s", root);
	ck_assert_int_eq(system(remove), 0);
}
END_TEST

/* Bound to one CPU, as by taskset. */
START_TEST(processors_by_affinity)
{
	cpu_set_t set, one;
	int first = 0;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	while (!CPU_ISSET(first, &set))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	ck_assert_uint_eq(processors_count("/nowhere"), 1);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("main/processors");
	TCase *tcase = tcase_create("processors");

	tcase_add_loop_test(tcase, processors_by_quota, 0, COUNT_OF(cases));
	tcase_add_test(tcase, processors_by_affinity);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
