/* SPDX-License-Identifier: ISC */
/*
 * What entries of [statements] say of statements, and how many servers execute each. One table for
 * all loops. Main changes it while all lanes are held, so each of them may read it at any time.
 */
#ifndef PGWEIR_CLIENT_STATEMENT_LIMITS_H
#define PGWEIR_CLIENT_STATEMENT_LIMITS_H

#include <stdatomic.h>

#include "pgweir/base/err.h"
#include "pgweir/config/entries.h"

struct statement_limit {
	UT_hash_handle hh;
	uint64_t digest;
	const struct config_statement *entry; /* in `config`; NULL: it has none any more */
	atomic_uint running;                  /* the servers that execute it */
	_Atomic uint64_t refused_count;
};

/* All zeros: there is none. */
struct statement_limits {
	struct statement_limit *table;
	const struct config *config; /* one reference */
};

/* All lanes must be held. false: no memory, and some entries are not in force. */
bool statement_limits_configure(struct statement_limits *limits, const struct config *config);

/* No statement runs any more. */
void statement_limits_done(struct statement_limits *limits);

/* NULL: nothing is said of the statement. */
struct statement_limit *statement_limits_find(const struct statement_limits *limits,
                                              uint64_t digest);

/* Counts a refusal, and sets its error: it is blocked, or it runs too often. Returns false. */
bool statement_limit_refuse(struct statement_limit *limit, struct err *err);

#endif
