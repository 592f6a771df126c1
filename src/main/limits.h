/* SPDX-License-Identifier: ISC */
/*
 * The limit on open files.
 */
#ifndef PGWEIR_MAIN_LIMITS_H
#define PGWEIR_MAIN_LIMITS_H

#include <stdbool.h>

#include "pgweir/base/err.h"
#include "pgweir/base/log.h"

struct limits {
	unsigned long files;      /* the soft limit; ULONG_MAX: no limit */
	unsigned long files_hard; /* the hard limit, which only root may raise */
};

/*
 * Raises the soft limit to the hard one if the kernel allows it. false: the limits cannot
 * be read.
 */
bool limits_raise(struct limits *limits, struct err *err);

/*
 * Descriptors below this number are for clients. The others are kept for servers, consoles
 * and files: an eighth of all, at most LIMITS_KEPT_MAX. INT_MAX: there is no limit.
 */
#define LIMITS_KEPT_MAX 256
int limits_for_clients(void);

/* Logs the limits and the number of files that may be needed. Warns if the limit is lower. */
void limits_report(const struct limits *limits, unsigned long expected, const struct logger *log);

#endif
