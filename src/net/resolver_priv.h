/* SPDX-License-Identifier: ISC */
/*
 * Names and zones of the resolver: internal to the module.
 */
#ifndef PGWEIR_NET_RESOLVER_PRIV_H
#define PGWEIR_NET_RESOLVER_PRIV_H

/* The default hash function of uthash has implicit fallthrough, which clang warns about. */
#define HASH_FUNCTION HASH_FNV
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(name) ((name)->is_lost = true)
#include <uthash.h>

#include "dns_priv.h"
#include "pgweir/net/resolver.h"
#include "pgweir/net/reverse.h"

TAILQ_HEAD(ask_list, resolver_ask);
TAILQ_HEAD(watch_list, resolver_watch);
TAILQ_HEAD(name_list, resolver_name);
TAILQ_HEAD(reverse_list, reverse_query);

struct resolver_name {
	struct resolver *resolver;
	UT_hash_handle hh;
	unsigned long serial;
	struct timer expiry;
	struct task task; /* answers `asks` */
	struct ask_list asks;
	struct watch_list watches;
	struct task removed_task;   /* calls on_removed() of watches whose address is gone */
	struct resolver_zone *zone; /* NULL: none */
	TAILQ_ENTRY(resolver_name) zone_node;
	struct address *addresses;
	unsigned int address_count;
	unsigned int next;   /* index of the next address to return */
	const char *failure; /* why there is no address; a static text */
	bool is_known;       /* the stored result is still valid */
	bool is_stale;       /* its zone changed during the query: look it up again */
	bool is_asking;      /* a query is running */
	bool is_answering;
	bool is_filed; /* it is in the table */
	bool is_lost;  /* no memory to add it to the table */
	char host[];
};

struct resolver {
	struct loop *loop;
	struct dns *dns;
	usec_t good_ttl;
	usec_t bad_ttl;
	struct resolver_name *names;
	struct resolver_name *last_row; /* for resolver_next_row() */
	struct resolver_zone *zones;
	usec_t zone_period;
	struct reverse_list reverses; /* for reverse.c */
	unsigned int reverse_count;
	unsigned long serial;
	unsigned int rotation; /* index of the first address for the next result */
	bool is_ending;
};

/* A zone: what follows the first dot of a name. Freed when it has neither names nor a query. */
struct resolver_zone {
	struct resolver *resolver;
	UT_hash_handle hh;
	unsigned long number; /* for resolver_next_zone() */
	struct name_list names;
	unsigned int name_count;
	struct timer timer; /* when to query the serial number again */
	struct task task;   /* looks up its names again */
	uint32_t serial;
	bool has_serial;
	bool is_asking; /* a query is running */
	bool is_filed;  /* it is in the table */
	bool is_lost;   /* no memory to add it to the table */
	char text[];
};

/* A running lookup of the name of an address. */
struct reverse_query {
	struct resolver *resolver;
	TAILQ_ENTRY(reverse_query) node;
	struct reverse *owner; /* NULL: it was cancelled */
	struct task task;      /* the next step */
	struct address address;
	char *host; /* the name found for the address, not checked yet */
	bool is_proven;
	bool is_done; /* no further query is needed */
};

/* Ends all lookups, after dns_free(). */
void reverse_end_all(struct resolver *resolver);

/* Adds a name to its zone, or removes it, together with its position in the table. */
void resolver_zone_enter(struct resolver_name *name);
void resolver_zone_leave(struct resolver_name *name);

/*
 * Looks the name up again, even if its result is valid. Must not be called from a callback of
 * dns_*().
 */
void resolver_refresh_name(struct resolver_name *name);

#endif
