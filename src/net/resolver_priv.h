/* SPDX-License-Identifier: ISC */
/*
 * Names and zones of the resolver, and DNS queries: internal to the module.
 */
#ifndef PGWEIR_NET_RESOLVER_PRIV_H
#define PGWEIR_NET_RESOLVER_PRIV_H

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(name) ((name)->is_lost = true)
#include "pgweir/base/table.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/resolver.h"

TAILQ_HEAD(ask_list, resolver_ask);
TAILQ_HEAD(watch_list, resolver_watch);
TAILQ_HEAD(name_list, resolver_name);
TAILQ_HEAD(lookup_list, lookup);
TAILQ_HEAD(note_list, resolver_note);

struct resolver_name {
	struct resolver *resolver;
	UT_hash_handle hh;
	unsigned long serial;
	struct timer expiry;
	struct task task; /* answers `asks` */
	struct ask_list asks;
	struct watch_list watches;
	struct task removed_task;   /* calls on_removed() of watches whose address is gone */
	struct note_list notes;     /* of followers that wait for the query */
	uint64_t followers;         /* those that have the name: their bits */
	struct resolver_zone *zone; /* NULL: none */
	TAILQ_ENTRY(resolver_name) zone_node;
	struct address *addresses;
	unsigned int address_count;
	unsigned int next; /* index of the next address to return */
	usec_t found_at, ttl;
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
	struct lookup_list lookups; /* for lookups.c */
	unsigned int lookup_count;
	unsigned long serial;
	unsigned int rotation; /* index of the first address for the next result */
	bool is_ending;
	/* Of a follower: where its names are looked up. The loop lives longer. */
	struct resolver *leader;
	struct loop *leader_loop;
	unsigned int number; /* of its bit and its place with the leader */
	/* Of a leader. */
	struct resolver *followers[RESOLVER_FOLLOWERS_MAX];
	unsigned int follower_count;
	void (*on_note)(struct resolver *resolver, struct resolver_note *note);
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

/* A running lookup of the name of an address, or of the hosts of a service. */
struct lookup {
	struct resolver *resolver;
	TAILQ_ENTRY(lookup) node;
	struct lookup **slot; /* where its owner has it; NULL: it was cancelled */
	struct task task;     /* the next step, or the answer to the owner */
	/* of an address */
	struct address address;
	char *host; /* the name found for the address, not checked yet */
	bool is_proven;
	bool is_done; /* no further query is needed */
	/* of a service */
	struct service_host *list;
	unsigned int count;
	const char *failure;
};

/* What a note says. Notes about one name arrive in the order in which they were posted. */
enum note_kind {
	NOTE_JOIN,  /* the follower has the name, and wants to hear the result of each lookup */
	NOTE_ASK,   /* and waits for a result: this note comes back with it */
	NOTE_LEAVE, /* the follower has the name no more */
	NOTE_FOUND  /* to the follower: the result of a lookup */
};

/* A letter about one name between a follower and its leader. */
struct resolver_note {
	struct letter letter;
	struct resolver *follower;
	struct resolver *to;             /* once it is posted; may be gone if the letter is late */
	TAILQ_ENTRY(resolver_note) node; /* in the list of the leader's name */
	enum note_kind kind;
	usec_t found_at, ttl; /* of NOTE_FOUND: the result */
	const char *failure;
	struct address *addresses;
	unsigned int count;
	char host[];
};

/* room: for so many addresses. NULL: no memory. */
struct resolver_note *resolver_note_new(struct resolver *follower, enum note_kind kind,
                                        const char *host, unsigned int room);
void resolver_note_free(struct resolver_note **note);

/*
 * Sends the note to the leader; with NOTE_FOUND, to the follower. The receiver's on_note() is
 * called in its loop, and owns the note.
 */
void resolver_note_post(struct resolver_note *note);

/* Ends all lookups, after dns_free(). */
void lookups_end_all(struct resolver *resolver);

/* Adds a name to its zone, or removes it, together with its position in the table. */
void resolver_zone_enter(struct resolver_name *name);
void resolver_zone_leave(struct resolver_name *name);

/* Even if its result is valid. Not from a callback of dns_*(). */
void resolver_refresh_name(struct resolver_name *name);

/* ---- DNS queries by c-ares, in the loop: dns.c ---- */

#define DNS_ADDRESSES_MAX 64 /* per name; further addresses are ignored */

struct dns;

/* What a query has found: of the fields between, only those that it asks for. */
struct dns_answer {
	const struct address *addresses; /* port 0, without duplicates */
	const struct service_host *services;
	unsigned int count;     /* of those; 0: there are none */
	const char *name;       /* NULL: none */
	const uint32_t *serial; /* NULL: none */
	const char *failure;    /* why there is none; a static text */
};

/*
 * Called once per query: possibly by dns_query*() itself, and by dns_free() for queries that still
 * run. It must not call dns_*(). The answer is valid during the call.
 */
typedef void dns_on_answer(void *arg, const struct dns_answer *answer);

/* Copies the options it needs. NULL: *err says why. */
struct dns *dns_new(struct loop *loop, const struct resolver_options *options, struct err *err);
void dns_free(struct dns **dns);

/*
 * Look up the addresses of a host; the serial number of a zone (its SOA record); the hosts of a
 * service (SRV); the name of the host at an IP address (PTR). false: no query can be made;
 * on_answer() will not be called.
 */
bool dns_query(struct dns *dns, const char *host, dns_on_answer *on_answer, void *arg,
               struct err *err);
bool dns_query_serial(struct dns *dns, const char *zone, dns_on_answer *on_answer, void *arg,
                      struct err *err);
bool dns_query_services(struct dns *dns, const char *name, dns_on_answer *on_answer, void *arg,
                        struct err *err);
bool dns_query_name(struct dns *dns, const struct address *address, dns_on_answer *on_answer,
                    void *arg, struct err *err);

#endif
