/* SPDX-License-Identifier: ISC */
/*
 * Reach: the addresses at which PostgreSQL cannot be reached, and when each may be tried again.
 *
 * One object for the process, as all pools whose servers are at an address find out the same. After
 * a failure an address is tried again soon, and then less often: a PostgreSQL that restarts is used
 * as soon as it is ready. One connection tries it for all pools and loops, so many pools cost no
 * more attempts than one.
 *
 * No clock and no socket: the caller passes the time. All functions may be called from any loop.
 */
#ifndef PGWEIR_POOL_SERVER_REACH_H
#define PGWEIR_POOL_SERVER_REACH_H

#include <pthread.h>
#include <stdatomic.h>

#include "pgweir/base/err.h"
#include "pgweir/base/table.h"
#include "pgweir/net/address.h"

#define REACH_GAP_MIN (50 * USEC_PER_SEC / 1000)  /* after the first failure */
#define REACH_GAP_MAX (500 * USEC_PER_SEC / 1000) /* it doubles up to this */
/* an attempt that has no result after this time does not hold up the next one */
#define REACH_TEST_MAX USEC_PER_SEC

/* An address and a port; or the name of a host that has no address, and a port. */
struct reach_target {
	UT_hash_handle hh;
	unsigned int holder_count;
	_Atomic(usec_t) due;      /* when it may be tried again; 0: it has not failed */
	atomic_bool is_tested;    /* it has failed, and a connection tries it */
	atomic_uint server_count; /* reach_count() */
	usec_t gap;               /* after the last failure; 0: it has not failed */
	struct err failure;       /* valid if it has failed */
	char key[];               /* host and port */
};

struct reach {
	pthread_mutex_t lock;
	struct hash_key secret;
	atomic_uint failing_count; /* targets that have failed */
	struct reach_target *targets;
};

void reach_init(struct reach *reach);

/* No target may be held. */
void reach_done(struct reach *reach);

/*
 * The target of this address (NULL: of this name) and port; one for all that ask. NULL: no memory.
 * reach_release() must follow; it does nothing if *target is NULL.
 */
struct reach_target *reach_hold(struct reach *reach, const char *name,
                                const struct address *address, uint16_t port);
void reach_release(struct reach *reach, struct reach_target **target);

/* Counts a server of any pool that is or will be there, or one less. Its owner holds the target. */
static inline void reach_count(struct reach_target *target, int change)
{
	atomic_fetch_add_explicit(&target->server_count, (unsigned int)change,
	                          memory_order_relaxed);
}

static inline unsigned int reach_servers(const struct reach_target *target)
{
	return atomic_load_explicit(&target->server_count, memory_order_relaxed);
}

/* Whether any target has failed. */
static inline bool reach_has_failures(const struct reach *reach)
{
	return atomic_load_explicit(&reach->failing_count, memory_order_relaxed) > 0;
}

/* When it may be tried again. 0: it has not failed. */
static inline usec_t reach_due(const struct reach_target *target)
{
	return atomic_load_explicit(&target->due, memory_order_relaxed);
}

static inline bool reach_is_tested(const struct reach_target *target)
{
	return atomic_load_explicit(&target->is_tested, memory_order_relaxed);
}

/*
 * If it has failed and is due: the caller tries it, and nobody else until that is over. false: it
 * has not failed, or somebody else tries it, or it is too early.
 */
bool reach_begin_test(struct reach *reach, struct reach_target *target, usec_t now);

/* A connection attempt has failed. most: the longest gap. */
void reach_failed(struct reach *reach, struct reach_target *target, usec_t now, usec_t most,
                  const struct err *err);

/* It has answered. true: it had failed. */
bool reach_worked(struct reach *reach, struct reach_target *target);

/* Copies the last failure. false: it has not failed. */
bool reach_failure(struct reach *reach, const struct reach_target *target, struct err *err);

#endif
