/* SPDX-License-Identifier: ISC */
/*
 * The hosts of a pool, and the choice of one for the next connection.
 *
 * A host has addresses: those of the last lookup of its name, or only itself. An address that
 * failed is down: not used for a while (the gap) if there is another one. After the gap its health
 * is retry: it is tried again, but not for the only connection that a borrower waits for.
 *
 * There are two kinds of failures. An address that cannot be reached has failed for all pools, and
 * its gap is short (reach). An address where PostgreSQL refused the login has failed for this pool
 * only, and its gap is server_login_retry.
 *
 * A host whose role does not fit is down too: its roster knows when it may be tried. It is not a
 * failure.
 *
 * Servers are counted at their hosts, by name, and at their addresses, for all pools of the
 * process.
 *
 * The loops of a process share the hosts of a pool, so that each knows what the others have found
 * out. All functions may be called from any loop, but for hosts_configure() with another list.
 *
 * No clock and no socket: the caller passes the time.
 */
#ifndef PGWEIR_POOL_SERVER_HOSTS_H
#define PGWEIR_POOL_SERVER_HOSTS_H

#include <stdatomic.h>

#include "pgweir/base/err.h"
#include "pgweir/base/table.h"
#include "pgweir/config/entries.h"
#include "pgweir/net/address.h"
#include "pgweir/pool/server/roster.h"

/* Limits on servers that several pools share, in the order in which they are asked. */
enum cap_kind {
	CAP_DATABASE, /* max_db_connections */
	CAP_ROLE,     /* max_user_connections */
	CAP_HOST,     /* max_host_connections */
	CAP_ALL,      /* max_server_connections */
	CAPS
};

/* Its pool, which a listening connection and a host watch do not count for, and each cap. */
enum { OF_POOL, OF_CAPS, OF_DATABASE = OF_CAPS, OF_ROLE, OF_HOST, OF_ALL, PERMIT_TALLIES };

/*
 * What a server counts for, in all loops, from before it is opened until it is closed: a reference
 * to each. Zeroed: nothing. NULL: its host is not known yet. See permit_take().
 */
struct permit {
	struct tally *of[PERMIT_TALLIES];
};

/*
 * ---- reach ----
 *
 * The addresses at which PostgreSQL cannot be reached, and when each may be tried again.
 *
 * One object for the process, as all pools whose servers are at an address find out the same. After
 * a failure an address is tried again soon, and then less often: a PostgreSQL that restarts is used
 * as soon as it is ready. One connection tries it for all pools and loops, so many pools cost no
 * more attempts than one.
 */

#define REACH_GAP_MIN (50 * USEC_PER_SEC / 1000)  /* after the first failure */
#define REACH_GAP_MAX (500 * USEC_PER_SEC / 1000) /* it doubles up to this */
/* an attempt that has no result after this time does not hold up the next one */
#define REACH_TEST_MAX USEC_PER_SEC

/* What is known about an address and protocols newer than 3.0. */
enum host_protocol {
	HOST_UNTRIED,
	HOST_NEGOTIATES, /* it answers a newer version, if only to ask for an older one */
	HOST_OLD         /* it rejects a newer version: gets 3.0 */
};

/* An address and a port; or the name of a host that has no address, and a port. */
struct reach_target {
	UT_hash_handle hh;
	_Atomic(enum host_protocol) protocol; /* without the lock */
	unsigned int holder_count;
	unsigned int server_count; /* of any pool, that are or will be there */
	usec_t due;                /* when it may be tried again; 0: it has not failed */
	bool is_tested;            /* it has failed, and a connection tries it */
	usec_t gap;                /* after the last failure; 0: it has not failed */
	struct err failure;        /* valid if it has failed */
	char key[];                /* host and port */
};

struct reach {
	pthread_mutex_t lock; /* also guards what is known in `struct hosts` */
	struct hash_key secret;
	struct reach_target *targets;
};

void reach_init(struct reach *reach);

/* No target may be held. */
void reach_done(struct reach *reach);

/* ---- the hosts of a pool ---- */

struct host_addr {
	struct address address;      /* port 0 */
	struct reach_target *target; /* whether it can be reached; NULL: nothing is known */
	/* not used for this time after a login that was refused, or has shown an unfit role */
	usec_t gap;       /* 0: there was none, or one has succeeded since */
	usec_t failed_at; /* or when the last retry began */
	bool is_unfit;    /* that was no failure: borrowers rely on a retry */
};

/* How a connection attempt ended. */
enum host_outcome {
	HOST_WORKED,
	HOST_ANSWERED,   /* but its role does not fit */
	HOST_UNFIT,      /* the login has shown that: HOST_ANSWERED follows */
	HOST_REFUSED,    /* PostgreSQL has answered, but it does not accept this login */
	HOST_UNREACHABLE /* no connection, or PostgreSQL is not ready for any */
};

struct host {
	const char *name; /* as in the list; "" = there is none */
	const char *at;   /* without its port: a name, an address, a directory */
	uint16_t port;
	/* used for a Unix socket, or if the name was not found: no address */
	struct host_addr self;
	struct host_addr *list; /* the addresses of the last lookup; NULL: none yet */
	unsigned int count;
};

/* In a pool's tally. Texts, names and count change only while other loops are held: no lock. */
struct hosts {
	struct reach *reach;
	uint16_t port; /* of hosts without one of their own */
	char *text;    /* the list as configured */
	struct host *list;
	unsigned int count;
	struct roster *roster; /* which hosts fit; NULL: all */
	struct roster_want want;
	unsigned int next; /* where the search starts; without turns: the host to stay with */
	enum load_balance_hosts how;
	struct err refusal;        /* the last failed login of hosts that can be reached */
	atomic_uint failure_count; /* failed logins; to be read without the lock */
};

/* When a host is chosen, and what is allowed. */
struct hosts_when {
	usec_t now;
	usec_t gap; /* server_login_retry */
	/* max_host_connections: a host with so many servers is the last choice; 0 = no limit */
	unsigned int most;
	bool may_test; /* an address in retry may be chosen though another one is up */
};

/* Zeroed but for `reach`, it has no host. */
void hosts_done(struct hosts *hosts);

/* Copies the list. If that changes something, all other loops must be held. false: no memory. */
bool hosts_configure(struct hosts *hosts, const char *text, uint16_t port,
                     enum load_balance_hosts how);

/* What a host must be, and its roster. If that is another one, all other loops must be held. */
void hosts_set_roles(struct hosts *hosts, struct roster *roster, const struct roster_want *want);

/* Forgets refused logins and, for all pools, protocols: what can be reached may be tried at once.
 */
void hosts_reset(struct hosts *hosts);

/* The next connection's host; count: none fits. *is_test: only the caller tries it now. */
unsigned int hosts_choose(struct hosts *hosts, const struct hosts_when *when, bool *is_test);

/*
 * Sets the addresses of the host, and picks one of them for a connection; count 0: the host itself.
 * *address: takes turns from this one; then the one that was picked, with its port. *is_test: as
 * hosts_choose() has set it; then whether what was picked is in retry. false: none fits, or no
 * memory.
 */
bool hosts_pick(struct hosts *hosts, unsigned int host, const struct address *addresses,
                unsigned int count, const struct hosts_when *when, struct address *address,
                bool *is_test, struct err *err);

/* Where a server is counted. Zeroed: nowhere. */
struct hosts_place {
	struct reach_target *host, *address;
};

/* Its address or, if it has none, its host. NULL: nowhere, or no memory. */
static inline struct reach_target *hosts_target(const struct hosts_place *place)
{
	return place->address ? place->address : place->host;
}

/* A server is there from now on, not where it was. address NULL: not known, or none. */
void hosts_enter(struct hosts *hosts, struct hosts_place *place, unsigned int host,
                 const struct address *address);
void hosts_leave(struct hosts *hosts, struct hosts_place *place);

/*
 * Notes how a connection attempt ended. err: for HOST_REFUSED and HOST_UNREACHABLE. true: it had
 * failed, and it can be reached again or accepts logins again, so others may try it now.
 */
bool hosts_note(struct hosts *hosts, const struct roster_at *at, enum host_outcome outcome,
                const struct hosts_when *when, const struct err *err);

/*
 * The earliest next attempt, elsewhere than there; NULL: anywhere. 0: one of them is up and fits;
 * INT64_MAX: not a matter of time.
 */
usec_t hosts_due(struct hosts *hosts, const struct roster_at *but);

/*
 * Whether none is up, and logins have failed. If so, *err (or NULL) has the reason: that one cannot
 * be reached, or else the last refusal.
 */
bool hosts_are_failing(struct hosts *hosts, struct err *err);

#endif
