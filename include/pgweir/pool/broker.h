/* SPDX-License-Identifier: ISC */
/*
 * The broker: what the loops of a process have in common about pools, databases and roles.
 *
 * A tally counts the servers and clients of one pool, database or role in all loops, so that each
 * limit holds for the process. A loop has a share in the tally of each pool, database and role that
 * it knows, and takes a permit before it opens a server. A pool that a limit of its database, role,
 * host or of the process keeps from a server is in the queue of that limit, with pools of all
 * loops. A pool that lacks a server in one loop posts a want; its other loops are woken, and give
 * up what they do not need. What a loop has found out about a pool is news until the others have
 * heard it.
 *
 *   struct pool, database, role --> share --> tally <-- shares of other loops
 *
 * All functions may be called from any loop, each with shares of its own. Counting takes a lock,
 * so it is done only when a server is opened or closed, a client connects or disconnects, or a
 * limit is reached. Reading takes none.
 *
 * Order of locks: the broker's, then those of reach or a roster, then a loop's letters;
 * reach before roster. crew_hold() with none. `./test/run tsan` reports other orders.
 */
#ifndef PGWEIR_POOL_BROKER_H
#define PGWEIR_POOL_BROKER_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "pgweir/auth/users.h"
#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"
#include "pgweir/base/heap.h"
#include "pgweir/base/table.h"
#include "pgweir/base/log.h"
#include "pgweir/loop/loop.h"
#include "pgweir/pool/clusters.h"
#include "pgweir/pool/catalog.h"
#include "pgweir/pool/server/site.h"

struct share;
struct tally;

TAILQ_HEAD(share_list, share);
TAILQ_HEAD(outage_list, outage);
TAILQ_HEAD(claimant_list, claimant);

/* The atomic fields are for all; the others for the files of the broker. */
struct broker {
	pthread_mutex_t lock; /* guards all shares and tallies, but for their atomic fields */
	uint64_t reading_id;  /* of the last catalog_reading */
	struct hash_key secret;
	struct reach reach;           /* of the hosts of all pools */
	atomic_uint_fast64_t last_id; /* given to a client or server */
	atomic_uint admitted_count;   /* clients that count for max_client_conn */
	/* servers in letters: what waits for servers to close or rest waits for them, too */
	atomic_uint moving_count;
	atomic_uint blocked_count; /* pools in the queues of all caps */
	uint64_t last_claim;       /* the last order of a claimant */
	unsigned int loop_count, member_count;
	struct cluster *clusters;
	struct closed_host *closed_hosts; /* those that are drained or disabled */
	unsigned int closed_count;
	struct share *listener; /* clusters_listen() */
	struct tally *tallies;
};

/* In the order of enum pool_purpose, and then of enum cap_kind. */
enum tally_kind {
	TALLY_POOL,
	TALLY_LOOKUP_POOL,
	TALLY_READS_POOL,
	TALLY_DATABASE,
	TALLY_ROLE,
	TALLY_HOST, /* one address of PostgreSQL */
	TALLY_ALL,
	TALLY_CATALOG /* a database of PostgreSQL, for all entries that lead there */
};

/* What is known of a catalog: pool_catalog.c. A time of 0: none yet. */
struct catalog_news {
	atomic_uint ddl_count;      /* changed definitions */
	atomic_uint relation_count; /* new relations, of which the reading need not know */
	atomic_uint asked_count;    /* servers that are being asked for a reading */
	/* Under the lock: definitions that may be committed; and of the texts that have ended since
	 * a server was asked: whether there are any, and whether the last reading knows them */
	unsigned int under_way;
	bool has_ended, is_doubted;
	atomic_uint uncertain_count; /* of those under way: the last reading says too little */
	atomic_bool has_prepared;    /* a transaction with definitions was prepared */
	atomic_uint version;         /* changes with any news */
	_Atomic(usec_t) due_at;      /* the next question */
	_Atomic(usec_t) rest_until;  /* then it may be read again, as the last time took so long */
	_Atomic(usec_t) read_at;     /* a server is asked for a reading since then; 0: none is, */
	atomic_uint read_count;      /* which had this ddl_count */
	struct catalog_reading *reading; /* the last one; NULL: none yet */
};

/* One limit's count in all loops. Everything but the atomic fields is guarded by the broker. */
struct tally {
	UT_hash_handle hh;
	struct broker *broker;
	struct share_list shares;
	struct share_list wants;     /* of a pool: shares, in no order */
	struct claimant_list claims; /* of this pool, or of pools of this database or role */
	struct heap queue;           /* of a cap: the claimants that it blocks */
	unsigned int owner_count;    /* shares and permits */
	atomic_uint most;            /* of a cap: its limit on servers; 0: none */
	atomic_uint guaranteed;      /* guaranteed_servers of a database or role */
	atomic_uint server_count;    /* all but CLOSING; of a pool: without listening connections */
	atomic_uint leaving_count;   /* of these: in ENDING_LEAVES */
	atomic_uint client_count;    /* clients that count for a limit; of a pool: its members */
	atomic_uint cancel_count;    /* of a pool: connections for cancel requests */
	atomic_uint pinned_count;    /* of a pool: servers that stay with their clients, or may */
	atomic_uint blocked_count;   /* of a cap: pools in its queue, each once for all loops, */
	atomic_uint needed_count;    /* and how many servers their borrowers need */
	atomic_uint stuck_count;     /* permits that come back only when clients stop listening */
	bool is_auto;                /* of a host: its limit is CONFIG_CAP_AUTO */
	unsigned int granted;        /* permit_note_granted(); 0: not known */
	atomic_uint want_count;      /* shares that want something; in order with login_count */
	atomic_uint want_number;     /* how many wants there have been so far */
	struct limit_met servers_met; /* of a cap: its limit on servers */
	struct limit_met clients_met; /* and on clients */
	struct limit_met pins_met;    /* of a pool: max_pinned_servers */
	struct limit_met queue_met;   /* max_waiting */
	struct limit_met shed_met;    /* of a pool: queue_target */
	atomic_bool has_welcome;
	struct buf welcome, baseline; /* of a pool: see share_put_welcome() */
	/*
	 * Of a pool: logins in progress that borrowers rely on. One less before its server is
	 * counted no more.
	 */
	atomic_uint login_count;
	/* of a pool with pool_size = auto: pool_size.c; and its size, 0: none yet */
	struct pool_sizing *sizing;
	atomic_uint auto_size;
	struct hosts hosts; /* of a pool; it has its own lock */
	/* of a pool: what is known about the roles of its hosts; read without the lock */
	struct cluster *_Atomic cluster;
	TAILQ_ENTRY(tally) cluster_node;
	bool needs_roles;            /* of the cluster */
	struct outage_list outages;  /* of a database */
	atomic_uint outage_count;    /* 0: share_end_outage() has nothing to do */
	struct catalog_news catalog; /* of a catalog */
	atomic_uint vacated; /* of a database: how often its idle servers were to be closed */
	/* of a pool, what its clients have authenticated with, and how often that has changed */
	atomic_uint shown_number;
	const struct credentials *shown;
	enum tally_kind kind;
	struct buf name;
};

/* What one loop has to do with the broker. Zeroed: not a member. */
struct broker_member {
	struct broker *broker;
	struct loop *loop;
	struct letter letter;    /* with several loops */
	struct task task;        /* with one */
	struct share_list woken; /* shares whose on_woken() is due */
};

/* A loop's share in a tally. Embedded in its pool, database or role. */
struct share {
	struct tally *tally;
	struct broker_member *member;
	TAILQ_ENTRY(share) node; /* in tally->shares */
	TAILQ_ENTRY(share) want_node;
	TAILQ_ENTRY(share) woken_node;
	/*
	 * In its loop: another loop wants something of this tally, or may have some for it. Of a
	 * pool, it may be called with the lock held: it only wakes the pool.
	 */
	void (*on_woken)(struct share *share);
	bool is_woken;
	atomic_bool is_wanting;
	_Atomic(usec_t) wanted_since;
	atomic_uint wanted_count;
	unsigned int seen_number;    /* want_number, as its loop knows it */
	atomic_uint promised_count;  /* servers that other loops have sent to this share */
	atomic_uint_fast64_t demand; /* share_tell_load() */
	atomic_uint servers;
	atomic_uint waiting; /* of a pool, database or role: borrowers that wait in this loop */
	/* of a pool: since when borrowers of this loop wait until they may pin a server; 0: none
	 * does */
	_Atomic(usec_t) place_since;
	unsigned int shown_number; /* as its loop knows it */
};

/* Counts one more, if there are fewer than `most`. Needs no lock. */
static inline bool count_below(atomic_uint *count, unsigned int most)
{
	unsigned int before = atomic_load_explicit(count, memory_order_relaxed);

	do {
		if (before >= most)
			return false;
	} while (!atomic_compare_exchange_weak(count, &before, before + 1));
	return true;
}

/* loops: how many will join. NULL: *err has the reason. */
struct broker *broker_new(unsigned int loops, struct err *err);

/* No share may be left. */
void broker_free(struct broker **broker);

/* A loop joins before it opens a share, and leaves when it has none. */
void broker_join(struct broker *broker, struct broker_member *member, struct loop *loop);
void broker_leave(struct broker_member *member);

/* An id for a client or server; higher than all before. */
static inline uint64_t broker_next_id(struct broker *broker) { return ++broker->last_id; }

/* Ids up to this one are in use already. */
void broker_skip_ids(struct broker *broker, uint64_t last);

/*
 * Opens a zeroed share in this tally; one that is open leaves its tally for this one. second may be
 * "", on_woken must be set. false: no memory, nothing changes.
 */
bool share_open(struct share *share, struct broker_member *member, enum tally_kind kind,
                const char *first, const char *second);

/* Safe if it is not open. */
void share_close(struct share *share);

/* ---- servers ---- */

enum permit_answer {
	PERMIT_GRANTED,
	PERMIT_POOL_FULL,
	PERMIT_CAP_FULL,                       /* and CAPS - 1 more: plus the kind of that cap */
	PERMIT_PASSED = PERMIT_CAP_FULL + CAPS /* the same: another claim comes before */
};

#define PERMIT_NO_LIMIT UINT_MAX

#define OWNERS (OF_ROLE + 1) /* its pool, database and role */

/*
 * A pool of one loop, which may be in the queue of one cap. on_woken() of its share comes when it
 * may have a server there. Zeroed but for the first three fields: it is in no queue.
 */
struct claimant {
	struct share *pool;
	struct tally *of[OWNERS];
	unsigned int weight; /* of its database, times that of its user */
	/* Only its own loop writes these three. */
	struct tally *cap;   /* the cap; NULL: it is in no queue */
	unsigned int needed; /* servers that its borrowers need there, */
	bool needs_more;     /* and more than idle ones were asked to leave for */
	/* Guarded by the broker. */
	unsigned int most;     /* servers that its pool may have, as it was when it asked */
	unsigned int counted;  /* of `needed`: the others of its pool at that cap count the rest; */
	unsigned int told;     /* and as it was when it last asked */
	struct heap_node node; /* its order stays when it changes the queue; 0: none yet */
	TAILQ_ENTRY(claimant) nodes[OWNERS]; /* in their `claims` */
	bool is_spare;                       /* nobody waits for what it claims */
	bool is_favoured;                    /* a server was given up for it */
};

/* What a server is to count for, itself included. */
struct permit_ask {
	struct permit permit;
	unsigned int most;   /* servers of the pool */
	unsigned int needed; /* if it waits: servers that its borrowers need */
	struct claimant *claimant;
	bool is_spare; /* of the claim, from now on */
	bool waits;    /* a claimant that a cap refuses is in the queue of that cap */
};

/*
 * Counts one server more, if all these limits allow it; then the claimant leaves its queue, if it
 * waits there. ask->permit is the server's, until permit_give().
 */
enum permit_answer permit_take(const struct permit_ask *ask, const struct broker_member *here);

/* Counts one more, whatever the limits are. */
void permit_add(const struct permit *permit, const struct broker_member *here);

/* Counts one less, and wakes those that wait for it. Empties the permit; an empty one is none. */
void permit_give(struct permit *permit, const struct broker_member *here);

/* A server that counts begins to leave: its permit comes back soon. -1: it has left. */
void permit_count_leaving(const struct permit *permit, int change);

static inline struct permit permit_move(struct permit *permit)
{
	struct permit moved = *permit;

	*permit = (struct permit){ 0 };
	return moved;
}

/* It claims nothing more in the queue where it is. Safe if it is in none. */
void permit_leave_queue(struct claimant *claimant);

/*
 * A limit of 0: none. A raised one wakes the first in the queue. CONFIG_CAP_AUTO, of a host: it
 * follows from what PostgreSQL grants. Until one of its servers has asked, the limit is a few
 * servers more than there were at first, or came by permit_add(). permit_note_granted(): false:
 * nothing new, or the limit is not auto.
 */
void permit_set_limit(struct share *cap, int limit, int guaranteed);
bool permit_note_granted(struct share *host, unsigned int granted);

/*
 * For a pool whose clients wait: whether it gives up a server of that age to the first in the
 * queue, which is favoured then.
 */
#define CLAIM_TURN USEC_PER_SEC /* so long it keeps each */
bool permit_yields(struct share *cap, const struct claimant *from, usec_t age);

static inline unsigned int share_most(const struct share *cap)
{
	unsigned int most = cap->tally->most;

	return most ? most : PERMIT_NO_LIMIT;
}

/* Whether no other loop has an older share in the tally. While the loops stand still. */
static inline bool share_is_first(const struct share *share)
{
	return TAILQ_FIRST(&share->tally->shares) == share;
}

static inline unsigned int share_servers(const struct share *share)
{
	return atomic_load_explicit(&share->tally->server_count, memory_order_acquire);
}

/* Without those that leave. */
static inline unsigned int tally_staying(const struct tally *tally)
{
	unsigned int leaving = tally->leaving_count, servers = tally->server_count;

	return servers > leaving ? servers - leaving : 0;
}

/* ---- outages of a database: targets that could not be reached have one line for an outage ---- */

#define OUTAGE_WHERE_SIZE 384 /* size of a text with a host name, an address and a port */

/* A target (a host, or one of its addresses) that fails now, or failed recently. */
struct outage {
	TAILQ_ENTRY(outage) node;
	usec_t since;          /* valid if is_bad: time of the first failure */
	usec_t said_at;        /* time of the last WARNING; 0: there was none */
	unsigned int failures; /* number since then, including this one */
	bool is_bad;           /* it has failed, and no connection has succeeded since */
	bool is_said;          /* a WARNING was written for this outage */
	char where[OUTAGE_WHERE_SIZE];
};

/* A failure. true: a line is due; *due: a copy of the outage as it was before that line. */
bool share_note_outage(struct share *database, const char *where, usec_t now, struct outage *due);

/* A connection has succeeded. true: a line is due; *lasted: the length of the outage. */
bool share_end_outage(struct share *database, const char *where, usec_t now, usec_t *lasted);

void share_forget_outages(struct share *database);

/* ---- wants of pools ---- */

/* The only loop: there is no other that could give it a server. */
static inline bool share_is_alone(const struct share *share)
{
	return share->member->broker->loop_count < 2;
}

/*
 * The share waits since then for so many servers. The first call wakes the other shares. count 0:
 * it waits no more. Calls between these two take no lock. true: this was the first call. What was
 * given back before has woken no share, so the caller looks again.
 */
bool share_want(struct share *share, usec_t since, unsigned int count);

/* Whether shares of other loops want something. */
static inline bool share_is_asked(const struct share *share)
{
	return share->tally->want_count > share->is_wanting;
}

/* Since when another loop wants something, or a place, the longest of them. 0: none does. */
usec_t share_waits_since(const struct share *share);

/* Whether there is a want that is newer than the last call. */
bool share_has_new_want(struct share *share);

/* For share_promise(): how many have or want a server (in a unit of the caller), and servers. */
void share_tell_load(struct share *share, uint64_t demand, unsigned int servers);

/* Which wants of other loops are served, though borrowers of this loop wait. */
struct share_fair {
	usec_t before;     /* those since before that */
	usec_t before_any; /* those since before that, of a loop without any server */
};

/*
 * The first of the other loops that waits is promised one server. fair: only if it has waited far
 * longer, or has, even with one server more, fewer servers for its borrowers than this loop with
 * one less; NULL: any. Returns NULL if there is none. share_unpromise(): the server cannot be
 * moved, and that loop wants it as before.
 */
struct broker_member *share_promise(struct share *share, const struct share_fair *fair);
void share_unpromise(struct share *share, struct broker_member *to);

/* In the loop that was promised one of this pool: it has arrived. Wakes the pool. */
void share_keep_promise(struct tally *pool, struct broker_member *to);

/* on_woken() comes at the end of the turn, or in the next one; and in all other loops. */
void share_wake_own(struct share *share);
void share_wake_others(struct share *share);

/* Idle servers of a database are to be closed in the other loops, too. Returns the new count. */
unsigned int share_vacate(struct share *share);

/* Wakes the pools of all other loops. Takes long if there are many. */
void share_wake_pools(struct broker_member *member);

/* Whether more servers must leave, before the cap has space for those that are needed. */
static inline bool tally_is_short(const struct tally *cap)
{
	return cap->most && tally_staying(cap) + cap->needed_count > cap->most;
}

/*
 * Whether it is so; then an idle server is to be closed. Meanwhile it is counted as one that
 * leaves, so that no other loop closes one for the same need. When it is closed: the other loops
 * look again, if the cap is still short.
 */
bool permit_begin_eviction(struct share *cap);
void permit_end_eviction(struct share *cap);

/* ---- logins of a pool's servers ---- */

/* A login has ended: other loops may go on. */
void share_wake_logins(struct share *share);

/* Counts borrowers of this loop that wait, which only this loop does; and those of all loops. */
static inline void share_count_waiting(struct share *share, int change)
{
	unsigned int before = atomic_load_explicit(&share->waiting, memory_order_relaxed);

	atomic_store_explicit(&share->waiting, before + (unsigned int)change, memory_order_relaxed);
}

unsigned int share_waiting(const struct share *share);

/* ---- news: what one loop has found out about a pool, for the others; they are woken ---- */

/* Whether there is something that this loop does not know. */
static inline bool share_has_news(const struct share *share)
{
	return share->tally->shown_number != share->shown_number;
}

/* What a client has authenticated with. NULL: it is not valid any more. */
void share_put_shown(struct share *share, const struct credentials *shown);

/* false: nothing new, *shown is NULL. The caller gets a reference. */
bool share_get_shown(struct share *share, const struct credentials **shown);

/* The last reading; the caller keeps its reference, or gets one. NULL: none. Wakes other loops. */
void share_put_reading(struct share *share, struct catalog_reading *reading);
struct catalog_reading *share_get_reading(const struct share *share);

/*
 * Judges what a server defines by the last reading. It is counted while it may be committed, or
 * matters to nobody; when it is no more, that may be news. false: nobody may rely on that reading
 * when it is committed.
 */
bool share_judge_definition(struct share *share, struct definition *definition, bool is_over);

/* ---- the welcome of a pool ---- */

/* If there is none, this is the welcome in all loops from now on. Wakes their shares. */
void share_put_welcome(struct share *share, struct bytes welcome, struct bytes baseline);

/* Adds the welcome and the baseline to the buffers. false: there is none; without a lock. */
bool share_get_welcome(struct share *share, struct buf *welcome, struct buf *baseline);
void share_forget_welcome(struct share *share);

#endif
