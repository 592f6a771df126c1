/* SPDX-License-Identifier: ISC */
/*
 * All that can be shown, each in the file that bears its theme.
 */
#ifndef PGWEIR_ADMIN_SHOW_SHOW_PRIV_H
#define PGWEIR_ADMIN_SHOW_SHOW_PRIV_H

#include "../admin_priv.h"

/* show_daemon.c */
extern const struct show show_version, show_state, show_config, show_pending, show_all, show_lists,
    show_mem, show_dns_hosts, show_dns_zones;

/* show_peers.c */
extern const struct show show_peers, show_peer_pools;

/* show_pools.c */
extern const struct show show_databases, show_users, show_pools;

/* show_rules.c */
extern const struct show show_hba, show_ident;

/* show_waiting.c, show_limits.c, show_errors.c, show_columns.c, show_fds.c */
extern const struct show show_waiting, show_limits, show_errors, show_columns, show_fds;

/* show_transactions.c */
extern const struct show show_transactions;

/* show_ready.c */
extern const struct show show_ready, show_drain;

/* All users: those of auth_file, those of [users], and those who came otherwise. show_pools.c */
void collect_users(struct cursor *cursor);
void collect_databases(struct cursor *cursor);

/* A moment of the monotonic clock, as SHOW writes it. show_sockets.c */
#define TIME_TEXT_SIZE 48
const char *time_text(usec_t at, usec_t now, char buffer[TIME_TEXT_SIZE]);

/* The process that serves us; 0: not known. show_sockets.c */
int64_t backend_pid(const struct server *server);

/* show_sockets.c */
extern const struct show show_clients, show_servers, show_sockets, show_active_sockets;

/* show_stats.c */
extern const struct show show_stats, show_stats_totals, show_stats_averages, show_totals;

#endif
