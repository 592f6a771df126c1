/* SPDX-License-Identifier: ISC */
/*
 * How many files the system lets us open.
 */
#ifndef PGWEIR_MAIN_LIMITS_H
#define PGWEIR_MAIN_LIMITS_H

#include <stdbool.h>

#include "pgweir/base/err.h"
#include "pgweir/base/log.h"

struct limits {
	unsigned long files;      /* may be open at once; ULONG_MAX = no limit */
	unsigned long files_hard; /* what only root may exceed */
};

/* Raises the soft limit to the hard one, as far as it goes. false: it cannot even be read. */
bool limits_raise(struct limits *limits, struct err *err);

/*
 * Descriptors below this one are for clients. Those above are kept for servers, consoles and
 * files: an eighth of all, at most LIMITS_KEPT_MAX. INT_MAX: there is no limit.
 */
#define LIMITS_KEPT_MAX 256
int limits_for_clients(void);

/* Logs the limits and the most that may be needed: a warning if it is more. */
void limits_report(const struct limits *limits, unsigned long expected, const struct logger *log);

#endif
