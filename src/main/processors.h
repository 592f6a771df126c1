/* SPDX-License-Identifier: ISC */
/*
 * How many processors this process may use.
 */
#ifndef PGWEIR_MAIN_PROCESSORS_H
#define PGWEIR_MAIN_PROCESSORS_H

/*
 * The number of processors that this process may run on, limited by the quota of its
 * control group and the groups above it, rounded up. At least 1. root: the folder that
 * contains /proc and /sys; "" except in tests.
 */
unsigned int processors_count(const char *root);

#endif
