/* SPDX-License-Identifier: ISC */
/*
 * The hosts of a pool: which one the next connection goes to.
 *
 * Each host has places: the addresses that its name gave last, or just itself.
 * A place that failed is left out for a while (the gap) as long as there is
 * another. When its gap is over it is on probation: it is tried again, but not by
 * the only connection that somebody waits for.
 *
 * No clock, no socket: who calls says what time it is.
 */
#ifndef PGWEIR_POOL_SERVER_HOSTS_H
#define PGWEIR_POOL_SERVER_HOSTS_H

#include "pgweir/config/entries.h"
#include "pgweir/net/address.h"

/* What is known of a place's way to treat startup packets of protocols newer than 3.0. */
enum host_protocol {
	HOST_UNTRIED,
	HOST_NEGOTIATES, /* it answers, be it that it wants an older one */
	HOST_OLD         /* it does not understand them: it is asked for 3.0 */
};

struct host_addr {
	struct address address; /* port 0 */
	usec_t failed_at;       /* good if has_failed; or when its probation began */
	bool has_failed;        /* and nobody got in since */
	enum host_protocol protocol;
};

struct host {
	const char *name;       /* "" = there is none */
	struct host_addr self;  /* a Unix socket, or a name that was not found: no address */
	struct host_addr *list; /* the addresses of the last lookup; NULL: none yet */
	unsigned int count;
};

/* Lives inside the pool; at rest it is zeroed. */
struct hosts {
	char *text;  /* the list as configured */
	char *names; /* the same, with zeros for its commas */
	struct host *list;
	unsigned int count;
	unsigned int next; /* in turn: where to look first; else the one to stay with */
	enum load_balance_hosts how;
};

/* What a choice may do, and when. */
struct hosts_when {
	usec_t now;
	usec_t gap;    /* server_login_retry */
	bool may_test; /* a place on probation may be taken though there is a good one */
};

/*
 * Takes a list over. What is known of its hosts is kept when it is the same list
 * chosen from in the same way, but failures are forgiven. false: no memory, and the
 * hosts are as they were.
 */
bool hosts_configure(struct hosts *hosts, const char *text, enum load_balance_hosts how);
void hosts_done(struct hosts *hosts);

/* All may be tried at once, and in a new protocol. */
void hosts_reset(struct hosts *hosts);

/* The host for the next connection. There is always one. */
unsigned int hosts_choose(struct hosts *hosts, const struct hosts_when *when);

/*
 * The host's name has these addresses now. Picks one of them for a connection, in
 * turn from `next` on. *is_test: it is on probation. NULL: no memory.
 */
const struct address *hosts_pick(struct hosts *hosts, unsigned int host,
                                 const struct address *addresses, unsigned int count,
                                 const struct address *next, const struct hosts_when *when,
                                 bool *is_test);

/* The same for a host without addresses. */
bool hosts_pick_self(struct hosts *hosts, unsigned int host, usec_t now);

/* How a connection went. address NULL or not known any more: the host itself. */
void hosts_failed(struct hosts *hosts, unsigned int host, const struct address *address,
                  usec_t now);
void hosts_worked(struct hosts *hosts, unsigned int host, const struct address *address);

/* The same of the protocol; to ask is to be told HOST_UNTRIED of what is not known any more. */
void hosts_learn_protocol(struct hosts *hosts, unsigned int host, const struct address *address,
                          enum host_protocol protocol);
enum host_protocol hosts_protocol(const struct hosts *hosts, unsigned int host,
                                  const struct address *address);

/* Whether there is a place that has not failed; for the second: besides this one. */
bool hosts_has_good(const struct hosts *hosts);
bool hosts_has_other(const struct hosts *hosts, unsigned int host, const struct address *address);

/* When all have failed: the first moment at which one may be tried again. */
usec_t hosts_due(const struct hosts *hosts, usec_t gap);

#endif
