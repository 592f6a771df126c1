/* SPDX-License-Identifier: ISC */
/*
 * The hosts of a pool, and the choice of one for the next connection.
 *
 * A host has addresses: those of the last lookup of its name, or only itself. An address that
 * failed is down: not used for a while (the gap) if there is another one. After the gap its health
 * is retry: it is tried again, but not for the only connection that a borrower waits for.
 *
 * The loops of a process share the hosts of a pool, so that each knows what the others have found
 * out. All functions may be called from any loop, but for hosts_configure() with another list.
 *
 * No clock and no socket: the caller passes the time.
 */
#ifndef PGWEIR_POOL_SERVER_HOSTS_H
#define PGWEIR_POOL_SERVER_HOSTS_H

#include <pthread.h>

#include "pgweir/config/entries.h"
#include "pgweir/net/address.h"

/* What is known about an address and protocols newer than 3.0. */
enum host_protocol {
	HOST_UNTRIED,
	HOST_NEGOTIATES, /* it answers a newer version, if only to ask for an older one */
	HOST_OLD         /* it rejects a newer version: gets 3.0 */
};

struct host_addr {
	struct address address; /* port 0 */
	usec_t failed_at;       /* valid if has_failed; or when the retry began */
	bool has_failed;        /* and no login succeeded since */
	enum host_protocol protocol;
};

struct host {
	const char *name; /* "" = there is none */
	/* used for a Unix socket, or if the name was not found: no address */
	struct host_addr self;
	struct host_addr *list; /* the addresses of the last lookup; NULL: none yet */
	unsigned int count;
};

/*
 * Part of a pool's tally. Texts, names and count change only while all other loops are held, so
 * they may be read without the lock.
 */
struct hosts {
	pthread_mutex_t lock; /* guards what is known about each host, and `next` */
	char *text;           /* the list as configured */
	char *names;          /* the same list, with its commas replaced by zeros */
	struct host *list;
	unsigned int count;
	unsigned int next; /* with turns: where the search starts; else the host to stay with */
	enum load_balance_hosts how;
};

/* When a host is chosen, and what is allowed. */
struct hosts_when {
	usec_t now;
	usec_t gap;    /* server_login_retry */
	bool may_test; /* an address in retry may be chosen though another one is up */
};

void hosts_init(struct hosts *hosts);
void hosts_done(struct hosts *hosts);

/*
 * Copies the list, if list or `how` is another one than before: then all other loops must be held.
 * false: no memory; the hosts are unchanged.
 */
bool hosts_configure(struct hosts *hosts, const char *text, enum load_balance_hosts how);

/* Resets all failures and protocols: all addresses may be tried at once, with a new protocol. */
void hosts_reset(struct hosts *hosts);

/* The number of the host for the next connection. There is always one. */
unsigned int hosts_choose(struct hosts *hosts, const struct hosts_when *when);

/*
 * Sets the addresses of the host, and picks one of them for a connection. *address: takes turns
 * from this one; then the one that was picked. *is_test: it is in retry. false: no memory.
 */
bool hosts_pick(struct hosts *hosts, unsigned int host, const struct address *addresses,
                unsigned int count, const struct hosts_when *when, struct address *address,
                bool *is_test);

/* The same for a host without addresses. Returns *is_test. */
bool hosts_pick_self(struct hosts *hosts, unsigned int host, usec_t now);

/* Notes the outcome of a connection. address NULL, or not in the list any more: the host itself. */
void hosts_failed(struct hosts *hosts, unsigned int host, const struct address *address,
                  usec_t now);
void hosts_worked(struct hosts *hosts, unsigned int host, const struct address *address);

/*
 * Notes and returns the protocol of an address. An address that is not in the list any more is
 * HOST_UNTRIED.
 */
void hosts_learn_protocol(struct hosts *hosts, unsigned int host, const struct address *address,
                          enum host_protocol protocol);
enum host_protocol hosts_protocol(struct hosts *hosts, unsigned int host,
                                  const struct address *address);

/* Whether an address has not failed; hosts_has_other(): one besides this address. */
bool hosts_has_up(struct hosts *hosts);
bool hosts_has_other(struct hosts *hosts, unsigned int host, const struct address *address);

/* If all addresses have failed: the earliest time at which one may be tried again. */
usec_t hosts_due(struct hosts *hosts, usec_t gap);

#endif
