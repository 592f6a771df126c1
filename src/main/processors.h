/* SPDX-License-Identifier: ISC */
/*
 * How many processors this process may use.
 */
#ifndef PGWEIR_MAIN_PROCESSORS_H
#define PGWEIR_MAIN_PROCESSORS_H

/*
 * Those that it may run on, and no more than the quota of its control group and of those
 * above it is worth, rounded up; at least one. `root`: the folder that /proc and /sys are in, ""
 * but in tests.
 */
unsigned int processors_count(const char *root);

#endif
