/* SPDX-License-Identifier: ISC */
/*
 * All clients of one loop: coming in, being found, being counted.
 */
#ifndef PGWEIR_CLIENT_CLIENTS_H
#define PGWEIR_CLIENT_CLIENTS_H

#include "pgweir/auth/hba.h"
#include "pgweir/client/client.h"
#include "pgweir/client/cancel_keys.h"
#include "pgweir/net/ranges.h"
#include "pgweir/net/tls.h"

TAILQ_HEAD(client_list, client);

/* What all clients share. Borrowed: must outlive them. */
struct clients_with {
	struct loop *loop;
	struct log *log;
	struct stream_pool *streams;
	struct workers *workers;
	struct workers *lookups; /* for what waits on others: names of system users */
	/*
	 * By enum auth_method, those of methods with threads of their own: what they wait for
	 * may be slow, or dead. NULL: no method has any.
	 */
	struct workers *const *outside;
	struct resolver *resolver; /* for names of clients' hosts */
	struct verifiers *verifiers;
	struct params_table *params;
	struct pools *pools;
	const struct console_door *door;
	/* A descriptor has come free. */
	void (*on_free)(void *arg);
	/* A cancel request has a key that nobody here has. true: somebody else sees to it. */
	bool (*on_unknown_cancel_key)(void *arg, struct bytes key);
	void *arg;
	/* Clients get descriptors below this one, the rest is for servers and consoles. 0 = all. */
	int files_for_clients;
};

/* A walk that survives removals: take `next`, then move it on. */
struct clients_walk {
	TAILQ_ENTRY(clients_walk) node;
	struct client *next;
};
TAILQ_HEAD(clients_walk_list, clients_walk);

struct client_ops;
struct failing;

/* DRAIN: clients are sent away, each between two of its transactions. client/drain.c */
struct drain {
	bool is_on;
	bool is_overdue; /* the deadline has passed: nobody is waited for any more */
	bool is_done;    /* the last one has gone */
	usec_t began_at;
	usec_t limit;               /* from then on; 0 = none */
	unsigned int leaving_count; /* have been told, and read that now */
	uint64_t closed_count;      /* between transactions */
	uint64_t cut_count;         /* by the deadline */
	struct timer deadline, report;
	struct clients_walk walk; /* whom to look at; the task waits as long as that goes on */
	struct task task;
};

TAILQ_HEAD(delayed_list, delayed);
TAILQ_HEAD(unauthenticated_list, client_login);

struct clients {
	struct clients_with with;
	const struct client_ops *ops; /* what is done in each state of a client */
	const struct config *config;  /* one reference */
	unsigned int features;        /* enum client_feature, of all clients: by `config` */
	struct users *users;          /* one reference */
	struct auth_lookups *lookups; /* of users who are not in auth_file */
	struct tls_context *tls;      /* one reference; NULL: no TLS */
	struct hba *hba;              /* one reference; NULL unless auth_type is hba */
	struct ranges *proxies;       /* who may send PROXY headers; NULL: nobody */
	unsigned int generation;      /* counts clients_configure() */
	struct client_list list;      /* in the order of their ids */
	struct client_list closed;    /* freed at the end of the turn */
	struct cancel_keys keys;
	struct delayed_list delayed; /* failed logins that are answered later: throttle.c */
	unsigned int delayed_count;
	bool is_delay_cut;       /* they were more than are kept waiting, and that was logged */
	struct failing *failing; /* their addresses */
	struct unauthenticated_list
	    unauthenticated;     /* clients that have not logged in, the oldest first */
	unsigned int high_count; /* of those, with a descriptor that is kept for others */
	uint64_t evicted_count;  /* of those, closed as open files ran short */
	usec_t shortage_told_at; /* 0: never */
	unsigned int count;      /* all, the closed ones not */
	unsigned int state_counts[CLIENT_STATES];
	unsigned int admitted_count; /* those that count for max_client_conn */
	uint64_t limit_hits;         /* clients refused by it */
	usec_t limit_said_at;        /* when the log had that last; 0: never */
	unsigned int guest_count;    /* at the console, administrators excepted */
	uint64_t guest_limit_hits;   /* of those: refused by max_db_client_connections */
	struct close_counts closes;  /* how clients have ended */
	bool is_shutting_down;       /* only the console lets anyone in, and */
	uint64_t shutdown_id;        /* who came before this id: 0 = nobody */
	struct drain drain;
	struct slab slab;
	struct slab late_slab; /* BEGINs that have not been sent yet. client/relay/late_begin.c */
	struct task free_task;
	struct clients_walk_list walks;
	struct clients_walk rearming; /* whose limits are to be looked at after a reload */
	struct task rearm_task;       /* waits as long as that goes on */
	unsigned char random[512];    /* random bytes in store */
	size_t random_left;
};

struct clients *clients_new(const struct clients_with *with, const struct config *config,
                            struct users *users, struct err *err);

/* Closes all clients at once, with an error as far as their sockets take it. */
void clients_free(struct clients **clients);

/*
 * A new snapshot is in force. Takes references of its own. Time limits that changed
 * count for those who are there too, some clients each turn.
 */
void clients_configure(struct clients *clients, const struct config *config, struct users *users);

/* Clients who come from now on get TLS by this; NULL: none. Takes a reference of its own. */
void clients_set_tls(struct clients *clients, struct tls_context *tls);

/* The same for rules; before clients_configure(). NULL: auth_type is not hba. Takes a reference. */
void clients_set_hba(struct clients *clients, struct hba *hba);

/* Who may send PROXY headers from now on. Takes it over. */
void clients_set_proxies(struct clients *clients, struct ranges *proxies);

/* Somebody came in: takes over the socket. */
void clients_accept(struct clients *clients, int fd, const struct address *peer);

/* Open files have run out: the oldest that has not logged in goes. false: there is none. */
bool clients_evict_oldest(struct clients *clients);

/* NULL: there is none that is logged in. */
struct client *clients_find(struct clients *clients, uint64_t id);

/* A cancel request for one of these, which came to another process of ours. */
void clients_cancel(struct clients *clients, struct bytes key);

/* Ends a client as KILL_CLIENT does. */
void clients_kill(struct client *client);

/*
 * SUSPEND, for clients; for servers see pools.h. clients_quiesce() halts each that can be
 * halted by now; true: all are, between two messages, and so are their servers.
 */
bool clients_quiesce(struct clients *clients);
void clients_drop_busy(struct clients *clients, const struct err *err);
void clients_go_on(struct clients *clients);

/*
 * DRAIN: nobody is let in any more but by the console, and all who are in are closed between
 * two transactions (57P01), the others after `limit` (DRAIN_NO_LIMIT: never; 0: at once).
 * While it goes on: with another limit from now. It stays so until drain_end(), however
 * many are left. Whoever watches the pools is asked when somebody has gone.
 */
#define DRAIN_NO_LIMIT ((usec_t)-1)
void drain_begin(struct clients *clients, usec_t limit);
void drain_end(struct clients *clients);

/* How many it waits for: those who are in, and those who are being told. */
unsigned int drain_left(const struct clients *clients);

/* Until the deadline; DRAIN_NO_LIMIT: there is none. */
usec_t drain_time_left(const struct clients *clients);

/* How it stands, in words for people. */
void drain_describe(const struct clients *clients, char *text, size_t size);

void clients_walk_start(struct clients *clients, struct clients_walk *walk);
void clients_walk_stop(struct clients *clients, struct clients_walk *walk);

#endif
