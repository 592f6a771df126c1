/* SPDX-License-Identifier: ISC */
/*
 * The resolver's names and zones, inside the room.
 */
#ifndef PGWEIR_NET_RESOLVER_PRIV_H
#define PGWEIR_NET_RESOLVER_PRIV_H

/* uthash's own choice falls through its cases, which clang warns of. */
#define HASH_FUNCTION HASH_FNV
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(name) ((name)->is_lost = true)
#include <uthash.h>

#include "dns_priv.h"
#include "pgweir/net/resolver.h"
#include "pgweir/net/reverse.h"

TAILQ_HEAD(ask_list, resolver_ask);
TAILQ_HEAD(stay_list, resolver_watch);
TAILQ_HEAD(name_list, resolver_name);
TAILQ_HEAD(reverse_list, reverse_query);

struct resolver_name {
	struct resolver *resolver;
	UT_hash_handle hh;
	unsigned long serial;
	struct timer expiry;
	struct task task; /* answers `asks` */
	struct ask_list asks;
	struct stay_list stays;
	struct task left_task;      /* tells those of `stays` whose address has gone */
	struct resolver_zone *zone; /* NULL: none */
	TAILQ_ENTRY(resolver_name) zone_node;
	struct address *addresses;
	unsigned int address_count;
	unsigned int next;   /* address to hand out */
	const char *failure; /* why there is no address; static */
	bool is_known;       /* what was found still counts */
	bool is_stale;  /* its zone has changed while the query was under way: it is asked again */
	bool is_asking; /* a query is under way */
	bool is_answering;
	bool is_filed; /* in the table */
	bool is_lost;  /* there was no memory to file it */
	char host[];
};

struct resolver {
	struct loop *loop;
	struct dns *dns;
	usec_t good_ttl;
	usec_t bad_ttl;
	struct resolver_name *names;
	struct resolver_name *last_row; /* of resolver_next_row() */
	struct resolver_zone *zones;
	usec_t zone_period;
	struct reverse_list reverses; /* reverse.c */
	unsigned int reverse_count;
	unsigned long serial;
	unsigned int rotation; /* where the next name that is found begins */
	bool is_ending;
};

/* What follows the first dot of its names. Freed when it has none and no query. */
struct resolver_zone {
	struct resolver *resolver;
	UT_hash_handle hh;
	unsigned long number; /* for resolver_next_zone() */
	struct name_list names;
	unsigned int name_count;
	struct timer timer; /* the next question for its serial */
	struct task task;   /* its names are looked up again */
	uint32_t serial;
	bool has_serial;
	bool is_asking; /* a query is under way */
	bool is_filed;  /* in the table */
	bool is_lost;   /* there was no memory to file it */
	char text[];
};

/* The name of an address is looked for. */
struct reverse_query {
	struct resolver *resolver;
	TAILQ_ENTRY(reverse_query) node;
	struct reverse *owner; /* NULL: it has gone */
	struct task task;      /* the next step */
	struct address address;
	char *host; /* what it is said to be called */
	bool is_proven;
	bool is_done; /* there is nothing more to ask */
};

/* Ends all, once dns_free() has. */
void reverse_end_all(struct resolver *resolver);

/* A name comes into the table, or leaves it. */
void resolver_zone_enter(struct resolver_name *name);
void resolver_zone_leave(struct resolver_name *name);

/* The name is looked up again, whatever is known. Not from within a callback of dns_*(). */
void resolver_refresh_name(struct resolver_name *name);

#endif
