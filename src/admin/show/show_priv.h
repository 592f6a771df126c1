/* SPDX-License-Identifier: ISC */
/*
 * All that can be shown, each in the file of its theme.
 */
#ifndef PGWEIR_ADMIN_SHOW_SHOW_PRIV_H
#define PGWEIR_ADMIN_SHOW_SHOW_PRIV_H

#include "cursor_priv.h"

/* All tables, in the order of SHOW HELP: SHOW NAME is a `const struct show show_name`. */
#define SHOW_TABLES(SHOW)    \
	SHOW(version)        \
	SHOW(state)          \
	SHOW(config)         \
	SHOW(all)            \
	SHOW(databases)      \
	SHOW(users)          \
	SHOW(pools)          \
	SHOW(clients)        \
	SHOW(servers)        \
	SHOW(sockets)        \
	SHOW(active_sockets) \
	SHOW(stats)          \
	SHOW(stats_totals)   \
	SHOW(stats_averages) \
	SHOW(totals)         \
	SHOW(lists)          \
	SHOW(mem)            \
	SHOW(dns_hosts)      \
	SHOW(peers)          \
	SHOW(peer_pools)     \
	SHOW(dns_zones)      \
	SHOW(hba)            \
	SHOW(ident)          \
	SHOW(waiting)        \
	SHOW(transactions)   \
	SHOW(limits)         \
	SHOW(errors)         \
	SHOW(ready)          \
	SHOW(drain)          \
	SHOW(pending)        \
	SHOW(columns)        \
	SHOW(fds)

#define SHOW_EXTERN(name) extern const struct show show_##name;
SHOW_TABLES(SHOW_EXTERN)
#undef SHOW_EXTERN

extern const struct show *const shows[];        /* NULL ends it */
const struct show *show_find(const char *item); /* in any case; NULL: none */

/* For help: "", " [db]" ... */
const char *show_argument_name(enum show_argument argument);

/* SHOW name, of one setting: the cursor's argument. Its row's column is called as the setting. */
extern const struct show show_setting;

/* ---- used by several of them ---- */

/* Offer all users: those of auth_file, those of [users], and those who came otherwise. */
void show_collect_users(struct cursor *cursor);
void show_collect_databases(struct cursor *cursor);

/* A moment of the monotonic clock, as SHOW writes it. */
#define TIME_TEXT_SIZE 48
const char *show_time_text(usec_t at, usec_t now, char buffer[TIME_TEXT_SIZE]);

/* The process that serves us; 0: not known. */
int64_t show_backend_pid(const struct server *server);

/* ---- counting: show_stats.c ---- */

/* The averages of what has been counted for all databases together, until now. */
void show_stats_average_all(const struct show_source *source, usec_t now, struct stats *average);

/* Notes in the history what has been counted for each database, and for all of them. */
void show_stats_note(const struct show_source *source);

#endif
