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

#include "pgweir/base/log.h"
#include "pgweir/pool/server/roster.h"

struct broker;
struct cluster;

/* What makes two clusters the same one. */
struct cluster_key {
	const char *hosts;
	int port;
	const char *user; /* of the watches; "" = none */
};

/* A reference to the cluster, which is made if necessary. NULL: no memory. */
struct cluster *clusters_hold(struct broker *broker, const struct cluster_key *key, usec_t now);

/* The cluster of a key, without a reference. NULL: there is none. Only while all loops are held. */
struct cluster *clusters_find(struct broker *broker, const struct cluster_key *key);

/*
 * An entry has another list of hosts now: what is known of hosts that are in both lists is known
 * from the beginning. Nothing if the ports differ.
 */
void cluster_remember(struct cluster *cluster, struct cluster *former, usec_t now);

/*
 * Sets the administrator's state of a host, by its name in the lists, in all clusters. It holds
 * for clusters that are made later, too. false: no memory, or too many hosts have a state.
 */
bool clusters_set_admin(struct broker *broker, const char *host, enum host_admin admin, usec_t now);

/* The state that was set. */
enum host_admin clusters_admin(struct broker *broker, const char *host);

/* Accepts NULL, sets NULL. The last reference frees the cluster. */
void clusters_release(struct broker *broker, struct cluster **cluster);

struct roster *cluster_roster(struct cluster *cluster);
bool cluster_has_key(const struct cluster *cluster, const struct cluster_key *key);

/* Wakes the pools that have servers there, in all loops. */
void clusters_wake(struct broker *broker, struct cluster *cluster);

/*
 * What was found out has changed the roster: writes that to the log, and wakes the pools if they
 * must look.
 */
void clusters_changed(struct broker *broker, struct cluster *cluster,
                      const struct roster_changes *changes, struct log *log);

#endif
