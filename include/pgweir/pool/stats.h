/* SPDX-License-Identifier: ISC */
/*
 * What is counted for each pool, since it was made. All times are microseconds.
 * What they mean to an administrator is said in pgweir(1), SHOW STATS.
 */
#ifndef PGWEIR_POOL_STATS_H
#define PGWEIR_POOL_STATS_H

#include <stdint.h>

struct stats {
	uint64_t assignment_count; /* a server was lent to a client */
	uint64_t xact_count;
	uint64_t query_count;  /* batches: a simple query, or a pipeline up to its end */
	uint64_t client_bytes; /* from clients, forwarded */
	uint64_t server_bytes; /* from servers, all after their login */
	uint64_t xact_time;    /* first packet of a transaction to its end; waiting included */
	uint64_t query_time;   /* batch start to its last ReadyForQuery; waiting included */
	uint64_t wait_time;    /* in the waiting line, also for a first login */
	uint64_t client_parse_count; /* named Parse received */
	uint64_t server_parse_count; /* Parse sent to a server */
	uint64_t bind_count;         /* named Bind received */
	uint64_t client_login_count;
};

#define STATS_FIELDS (sizeof(struct stats) / sizeof(uint64_t))

/* sum += more */
static inline void stats_add(struct stats *sum, const struct stats *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;

	for (unsigned int i = 0; i < STATS_FIELDS; i++)
		to[i] += from[i];
}

#endif
