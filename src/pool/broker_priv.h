/* SPDX-License-Identifier: ISC */
/* The broker, for permits.c and clusters.c. */
#ifndef PGWEIR_POOL_BROKER_PRIV_H
#define PGWEIR_POOL_BROKER_PRIV_H

#include <pthread.h>
#include <string.h>

#include "pgweir/base/lock.h"
#include "pgweir/pool/broker.h"

#define CLOSED_HOSTS_MAX 1000

struct closed_host {
	struct closed_host *next;
	enum host_admin admin;
	bool is_planned; /* drained for a switchover, and not by an administrator */
	char name[];
};

struct cluster {
	UT_hash_handle hh;
	struct broker *broker;
	unsigned int ref_count;
	int port;
	unsigned int roles_count; /* pools that need them */
	struct buf name;          /* the hosts, port and user of its watches, each with a zero */
	/* if the key has no user: one that a pool has logged in as; NULL: none yet */
	char *lent_user;
	const struct credentials *lent;
	TAILQ_HEAD(, tally) tallies;
	struct roster roster;
	struct watched_cluster *watched; /* of the main thread; NULL: its hosts have no watches */
};

/* Of its key: the last part of the name. */
static inline const char *cluster_user(const struct cluster *cluster)
{
	const char *port = cluster->name.at + strlen(cluster->roster.text) + 1;

	return port + strlen(port) + 1;
}

/* ---- called with the lock held ---- */

/* Wakes a share, or those of all loops but one, or all; on_woken() comes later, without the lock.
 */
void broker_post_woken(struct share *share);
void broker_post_others(const struct tally *tally, const struct broker_member *except);

/* Wakes the share of a pool: at once in its own loop. here NULL: not known which that is. */
static inline void broker_wake(struct share *share, const struct broker_member *here)
{
	assert_locked(&share->member->broker->lock);
	if (share->member == here)
		share->on_woken(share);
	else
		broker_post_woken(share);
}

/* Wakes the shares of a pool that want something. */
void broker_wake_wanting(const struct tally *tally, const struct broker_member *here);

/* One owner of the tally less: it may be freed. */
void broker_drop_tally(struct tally *tally);

/* The pool uses its cluster no more. clusters.c */
void cluster_part(struct tally *tally);

/* Frees the list of closed hosts. No cluster may be left. clusters.c */
void clusters_done(struct broker *broker);

#endif
