/* SPDX-License-Identifier: ISC */
/*
 * Clusters: the hosts of entries that have the same list of hosts, port and user of watches.
 *
 * A cluster belongs to the broker: one object for the process, whatever entries, pools and loops
 * use it. It has the roster of its hosts. When the roster changes, the pools of all loops are
 * woken.
 *
 * All functions may be called from any loop.
 */
#ifndef PGWEIR_POOL_CLUSTERS_H
#define PGWEIR_POOL_CLUSTERS_H

#include "pgweir/auth/users.h"
#include "pgweir/base/log.h"
#include "pgweir/loop/loop.h"
#include "pgweir/pool/server/roster.h"

struct broker;
struct cluster;
struct share;

/* What makes two clusters the same one. */
struct cluster_key {
	const char *hosts;
	int port;
	const char *user; /* of the watches; "" = none */
};

/* That of an entry. Its texts are those of the snapshot. */
struct cluster_key cluster_key_of(const struct config *config, const struct config_database *entry);

/* A reference to the cluster, which is made if necessary. NULL: no memory. */
struct cluster *clusters_hold(struct broker *broker, const struct cluster_key *key, usec_t now);

/*
 * The cluster of an entry, without a reference. NULL: nobody has needed it yet. Only while all
 * loops are held.
 */
struct cluster *clusters_find(struct broker *broker, const struct config *config,
                              const struct config_database *entry);

/* Hosts that are in both lists are known from the beginning. Nothing if the ports differ. */
void cluster_remember(struct cluster *cluster, struct cluster *former, usec_t now);

/*
 * In all clusters, later ones too. false: no memory, or too many hosts have a state.
 *
 * is_planned: DRAINING, and then ENABLED, for a switchover that is planned. What an administrator
 * says comes first: false, and nothing changes, if the host has a state already, or another one
 * since then. It is not handed over, as the plan is known to the other process, too.
 */
bool clusters_set_admin(struct broker *broker, const char *host, enum host_admin admin,
                        bool is_planned, usec_t now);

/* The state that was set. */
enum host_admin clusters_admin(struct broker *broker, const char *host);

/* roster_copies() of all clusters. Called with the broker's lock. */
void clusters_copies(struct broker *broker, const char *host, usec_t since, roster_copied *found,
                     void *arg);

/* ---- what pools need ---- */

/*
 * The pool uses the cluster, whose reference is taken over, from now on, and needs_roles: with the
 * roles of its hosts. If the cluster changes, all other loops are held.
 */
void clusters_join(struct share *pool, struct cluster *cluster, bool needs_roles);

/*
 * Who watches hosts is woken when clusters_next_needed() may have another answer. Zeroed, but for
 * member and on_woken. One at most.
 */
void clusters_listen(struct share *listener);
void clusters_listen_end(struct share *listener);

/*
 * The next cluster of which pools need the roles, with a reference; NULL: no more. Drops that of
 * `after`; NULL: the first one.
 */
struct cluster *clusters_next_needed(struct broker *broker, struct cluster *after);

/*
 * Sets *database to that of a pool that needs the roles, with a zero; if possible, of one that has
 * servers. Only databases that accepts() accepts; it is called with the broker's lock. false:
 * there is none, or no memory.
 */
bool cluster_database(const struct cluster *cluster,
                      bool (*accepts)(void *arg, const char *database), void *arg,
                      struct buf *database);

/*
 * If the key has no user, watches log in as a pool has: cluster_lend_login() after each login,
 * whose first one is kept; cluster_refuse_login() if a watch cannot log in like that, so that the
 * next one is. cluster_has_login(): or a user of its own. cluster_login() puts it in the place of
 * what the caller has, if there is one, and memory.
 */
void cluster_lend_login(struct cluster *cluster, const char *user,
                        const struct credentials *credentials);
bool cluster_has_login(const struct cluster *cluster);
void cluster_login(const struct cluster *cluster, char **user,
                   const struct credentials **credentials);
void cluster_refuse_login(struct cluster *cluster);

/* Why a host is not watched, for people. */
const char *cluster_watch_lack(const struct cluster *cluster);

/* One reference more. cluster_release() accepts NULL, sets NULL; the last one frees the cluster.
 */
struct cluster *cluster_ref(struct cluster *cluster);
void cluster_release(struct cluster **cluster);

struct roster *cluster_roster(struct cluster *cluster);

/* What was found out has changed the roster: logs that, and wakes the pools if they must look. */
void cluster_changed(struct cluster *cluster, const struct roster_changes *changes,
                     struct log *log);

#endif
