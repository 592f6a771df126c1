/* SPDX-License-Identifier: ISC */
/* The counters of a pool since it was made; times in microseconds. SHOW STATS has their meaning. */
#ifndef PGWEIR_POOL_STATS_H
#define PGWEIR_POOL_STATS_H

#include <stdint.h>

/*
 * All counters, each once: the struct, SHOW TOTALS, the averages and the hand-over are made from
 * this list.
 *
 * COUNT(field, letter, name) is averaged per second, TIME(field, letter, name, count) per unit of
 * the counter `count`. The letter is the counter's tag in a hand-over: never change it, and never
 * use it again for another counter. The name is that of SHOW TOTALS.
 */
#define STATS_COUNTERS(COUNT, TIME)                                      \
	/* a server was lent to a client */                              \
	COUNT(assignment_count, 'a', "server_assignment_count")          \
	COUNT(xact_count, 'x', "xact_count")                             \
	/* batches: a simple query, or a pipeline up to its end */       \
	COUNT(query_count, 'q', "query_count")                           \
	/* from clients, forwarded */                                    \
	COUNT(client_bytes, 'c', "client_bytes")                         \
	/* from servers, all after their login */                        \
	COUNT(server_bytes, 's', "server_bytes")                         \
	/* first packet of a transaction to its end; waiting included */ \
	TIME(xact_time, 'X', "xact_time", xact_count)                    \
	/* batch start to its last ReadyForQuery; waiting included */    \
	TIME(query_time, 'Q', "query_time", query_count)                 \
	/* in a wait queue, also as a newcomer */                        \
	TIME(wait_time, 'W', "wait_time", assignment_count)              \
	/* named Parse received */                                       \
	COUNT(client_parse_count, 'p', "ps_client_parse_count")          \
	/* Parse sent to a server */                                     \
	COUNT(server_parse_count, 'P', "ps_server_parse_count")          \
	/* named Bind received */                                        \
	COUNT(bind_count, 'b', "ps_bind_count")                          \
	COUNT(client_login_count, 'l', "client_login_count")

#define STATS_FIELD(field, ...) uint64_t field;

struct stats {
	STATS_COUNTERS(STATS_FIELD, STATS_FIELD)
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

/* What it was at the last two ticks of the console. */
struct stats_past {
	struct stats older, newer;
};

#endif
