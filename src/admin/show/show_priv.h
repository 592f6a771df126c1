/* SPDX-License-Identifier: ISC */
/*
 * All SHOW tables, each in the file of its topic.
 */
#ifndef PGWEIR_ADMIN_SHOW_SHOW_PRIV_H
#define PGWEIR_ADMIN_SHOW_SHOW_PRIV_H

#include "pgweir/pool/latency.h"

#include "cursor_priv.h"

/* All tables in the order of SHOW HELP. SHOW NAME is a `const struct show show_name`. */
#define SHOW_TABLES(SHOW)     \
	SHOW(version)         \
	SHOW(state)           \
	SHOW(config)          \
	SHOW(all)             \
	SHOW(databases)       \
	SHOW(users)           \
	SHOW(pools)           \
	SHOW(clients)         \
	SHOW(servers)         \
	SHOW(sockets)         \
	SHOW(active_sockets)  \
	SHOW(stats)           \
	SHOW(stats_totals)    \
	SHOW(stats_averages)  \
	SHOW(totals)          \
	SHOW(lists)           \
	SHOW(mem)             \
	SHOW(certificates)    \
	SHOW(dns_hosts)       \
	SHOW(peers)           \
	SHOW(peer_pools)      \
	SHOW(dns_zones)       \
	SHOW(hba)             \
	SHOW(ident)           \
	SHOW(waiting)         \
	SHOW(transactions)    \
	SHOW(pinned)          \
	SHOW(session_state)   \
	SHOW(limits)          \
	SHOW(errors)          \
	SHOW(closes)          \
	SHOW(catalog)         \
	SHOW(audit)           \
	SHOW(loops)           \
	SHOW(ready)           \
	SHOW(drain)           \
	SHOW(pending)         \
	SHOW(latency)         \
	SHOW(histograms)      \
	SHOW(pool_histograms) \
	SHOW(sqlstates)       \
	SHOW(statements)      \
	SHOW(events)          \
	SHOW(events_totals)   \
	SHOW(history)         \
	SHOW(hosts)           \
	SHOW(reads)           \
	SHOW(applications)    \
	SHOW(columns)         \
	SHOW(fds)

#define SHOW_EXTERN(name) extern const struct show show_##name;
SHOW_TABLES(SHOW_EXTERN)
#undef SHOW_EXTERN

extern const struct show *const shows[];        /* ends with NULL */
const struct show *show_find(const char *item); /* upper and lower case are equal; NULL: none */

/* Text for help: "", " [db]" ... */
const char *show_argument_name(enum show_argument argument);

/* SHOW of one setting, whose name is the cursor's argument. The column has the setting's name. */
extern const struct show show_setting;

/* Whether SHOW STATEMENTS takes these words, which have one space between them. */
bool show_statements_takes(const char *argument);

/* ---- used by several of them ---- */

/*
 * These call ordered_offer() for all users (of auth_file, of [users], and known from other
 * sources) and for all databases.
 */
void show_collect_users(struct cursor *cursor);
void show_collect_databases(struct cursor *cursor);

/* Whether the cursor skips this database, as it was never used and there are many. */
bool show_leaves_out(const struct cursor *cursor, const struct database *database);

/*
 * A time of the monotonic clock as SHOW writes it, in local time. Writes to `buffer` and
 * returns it.
 */
#define TIME_TEXT_SIZE 48
const char *show_time_text(usec_t at, usec_t now, char buffer[TIME_TEXT_SIZE]);

/* ---- latencies: show_latency.c ---- */

/*
 * A next() for rows of all pools together ("" and "" in `ordered`), of each database (its name and
 * "") and of each pool that have counted times. next_of_scope() fills the next row of what
 * `ordered` names, and counts with cursor->index from 0; false: it has no more.
 */
bool show_latency_next(struct cursor *cursor, void *row,
                       bool (*next_of_scope)(struct cursor *cursor, void *row));

/* The times of what `ordered` names, since the start. */
void show_latency_sum(const struct cursor *cursor, enum latency_kind kind, struct histogram *sum);

/* ---- statistics: show_stats.c ---- */

/* The averages until `now` of all databases together. */
void show_stats_average_all(const struct show_source *source, usec_t now, struct stats *average);

/*
 * Stores the current counters in the history: of each database, of the console, and of all
 * together.
 */
void show_stats_note(const struct show_source *source);

#endif
