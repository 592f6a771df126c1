/* SPDX-License-Identifier: ISC */
/*
 * All clients of one loop: accepted, found, counted, closed.
 */
#ifndef PGWEIR_CLIENT_CLIENTS_H
#define PGWEIR_CLIENT_CLIENTS_H

#include "pgweir/auth/hba.h"
#include "pgweir/client/calls.h"
#include "pgweir/client/client.h"
#include "pgweir/client/cancel_keys.h"
#include "pgweir/client/session.h"
#include "pgweir/net/stream.h"
#include "pgweir/net/address.h"
#include "pgweir/net/tls.h"
#include "pgweir/pool/homes.h"
#include "pgweir/base/hash.h"

TAILQ_HEAD(client_list, client);

/*
 * ---- gates ----
 *
 * A gate: what a listener says of the clients that come by it: its entry of [listeners], or for the
 * main listener the settings.
 *
 * A gate stays when its listener is gone, as its clients do, and serves a later one of that name.
 * Main makes and changes gates while all lanes are held, so each of them may read them at any time.
 * Clients are many, and know their gate by its number.
 */

/* What a RELOAD changes. */
struct gate_rules {
	const struct config_listener *entry; /* in `config`; NULL: the main listener */
	/* the settings with the values of the entry; main: NULL, each lane has its own */
	const struct config *config;
	struct hba *hba;         /* NULL unless its auth_type is hba */
	struct tls_context *tls; /* NULL: no TLS */
};

struct gate {
	uint8_t number; /* 0: main */
	struct gate_rules rules;
	char name[CONFIG_DATABASE_NAME_MAX + 1];
	atomic_uint client_count;       /* those that count for max_client_conn */
	_Atomic uint64_t refused_count; /* by max_client_conn */
	struct limit_met full_met;
};

#define GATES_MAX 255

/* All zeros: there is none. */
struct gate_table {
	unsigned int count;
	struct gate *at[GATES_MAX + 1]; /* by its number, from 1: those of entries */
	struct gate main;
};

/* That of a listener of this name, which is made if there is none. NULL: *err has the reason. */
struct gate *gate_get(struct gate_table *table, const char *name, struct err *err);
/* NULL: there is none. */
struct gate *gate_find(const struct gate_table *table, const char *name);

void gates_done(struct gate_table *table);

void gate_rules_done(struct gate_rules *rules);

/* Counts a client. false: there are as many as the max_client_conn of its entry. */
bool gate_admit(struct gate *gate);

/* ---- all clients ---- */

/* Why a client goes to another loop. */
enum client_goes {
	CLIENT_GOES_TO_CONSOLE,     /* it asks for the console */
	CLIENT_GOES_TO_CANCEL,      /* its cancel request has a key of that loop */
	CLIENT_GOES_TO_PEER,        /* its cancel request is for a client of a peer */
	CLIENT_GOES_TO_OLD_PROCESS, /* no loop knows its key: see struct successor */
	CLIENT_GOES_HOME            /* its pool is at home there */
};

/* The failed logins of one loop whose answers are delayed. client/login/authentication.c */
struct delayed_logins {
	TAILQ_HEAD(, client_login) list; /* the oldest first */
	bool is_cut; /* more logins failed than can be delayed, and that was logged */
};

/* The lookups of auth_query of one loop. client/login/auth_query.c */
struct auth_lookups {
	TAILQ_HEAD(, auth_lookup) list; /* all */
	struct auth_lookup *under_way;  /* those that may be joined, by key */
};

/* When limits were met, so that the log has each event once. Of all loops. */
struct clients_told {
	/* max_client_conn, open files, max_db_client_connections of the console, failed logins */
	struct limit_met all_met, files_met, guests_met, failures_met;
};

/* What the clients of all loops share, and what they call. Its owner outlives them all. */
struct clients_shared {
	struct cancel_keys_shared keys; /* with the number of loops; 0 or 1: there is one */
	struct workers *workers;
	/* for methods that wait for others, which may be slow or down; NULL: a method has none */
	struct workers *outside[AUTH_METHODS];
	struct logins *logins;
	struct clients_told told;
	struct hash_key digest_key;
	const struct console_door *door;
	struct gate_table gates; /* main has the config of each lane, and so none of its own */
	struct ranges *proxies;  /* addresses that may send PROXY headers; NULL: none */
	struct statement_limits limits;
	struct homes homes;
	/* Clients must use descriptors below this one. 0 = no limit. */
	int files_for_clients;
	/*
	 * Called for a cancel request with a key that no client here has. true: the callee handles
	 * it, and ends the connection that it came from, unless there is one left in `farewell`.
	 */
	bool (*on_unknown_cancel_key)(struct clients *clients, struct bytes key,
	                              struct farewell *farewell);
	/*
	 * Called when a client has sent its startup packet or a cancel request, which another loop
	 * may have to handle. `loop`: for a key of another loop and for a home, the number of that
	 * loop, which is not this one; with a key, that may send the client on. The callee calls
	 * client_pack() (lanes.h). true: it did, so the client is not here any more. NULL:
	 * there is no other loop.
	 */
	bool (*send_elsewhere)(struct client *client, enum client_goes why, unsigned int loop);
	/*
	 * The number of the loop to which a client of a pool goes that is at home in `count` loops
	 * from `first` on: the one that has the fewest clients. May be that of this loop.
	 */
	unsigned int (*pick_home)(const struct clients *clients, unsigned int first,
	                          unsigned int count);
};

/* A walk that survives removals: read `next`, then advance it. */
struct clients_walk {
	TAILQ_ENTRY(clients_walk) node;
	struct client *next;
};
TAILQ_HEAD(clients_walk_list, clients_walk);

struct client_ops;

/* DRAIN: clients are disconnected, each between two of its transactions. client/clients_stop.c */
struct drain {
	bool is_on;
	bool is_overdue; /* the deadline has passed: clients are closed within transactions, too */
	usec_t began_at;
	usec_t limit;               /* after began_at; 0 = none */
	unsigned int leaving_count; /* clients that have got the error and may still read it */
	uint64_t closed_count;      /* clients closed between transactions */
	uint64_t cut_count;         /* clients closed by the deadline */
};

TAILQ_HEAD(unauthenticated_list, client_login);

struct clients {
	struct clients_shared *shared;
	struct pools *pools; /* of this loop; they outlive the clients */
	struct loop *loop;
	const struct client_ops *ops; /* the functions of each client state */
	const struct config *config;  /* one reference */
	unsigned int features;        /* enum client_feature that `config` sets for all clients */
	struct users *users;          /* one reference */
	struct auth_lookups lookups;  /* of users who are not in auth_file */
	unsigned int generation;      /* number of clients_configure() calls */
	struct client_list list;      /* in order of ids */
	struct client *filed;         /* the last one that was inserted there; or NULL */
	struct client_list closed;    /* freed at the end of the turn */
	struct cancel_keys keys;
	struct delayed_logins delayed;
	struct unauthenticated_list
	    unauthenticated;     /* clients that are not authenticated, the oldest first */
	unsigned int high_count; /* of those: clients whose descriptor is reserved for others */
	uint64_t files_hits;     /* clients closed or refused because open files ran short */
	atomic_uint count;       /* all clients, without the closed ones; any thread may read it */
	unsigned int state_counts[CLIENT_STATES];
	uint64_t limit_hits;              /* clients refused by max_client_conn */
	unsigned int guest_count;         /* clients at the console that are not administrators */
	uint64_t guest_limit_hits;        /* console clients refused by max_db_client_connections */
	struct audit audit;               /* of clients in session mode: session_audit */
	struct calls calls;               /* the statements they execute: track_statements */
	struct applications applications; /* with track_statements */
	struct close_counts closes;       /* why clients were closed */
	bool is_shutting_down;            /* only console logins and */
	uint64_t shutdown_id; /* clients with a lower id are admitted; 0 = no such client */
	struct drain drain;
	unsigned int look_count; /* clients_look(), clients_write() */
	struct slab slab;
	struct slab late_slab; /* BEGINs that have not been sent yet. client/relay/late_begin.c */
	struct task free_task;
	struct clients_walk_list walks;
	/* after a reload, and for DRAIN: other work must not wait for all clients */
	struct {
		struct clients_walk walk;
		struct task task; /* waits while the walk lasts */
	} visit;
};

/*
 * What the logins of all loops have in common: failed logins of each address, and answers of
 * auth_query. client/login/auth_cache.c
 */
struct logins;

/* NULL: *err says why. */
struct logins *logins_new(struct err *err);

/* To be called each second: wipes the answers of auth_query whose time is over. */
void logins_sweep(struct logins *logins, usec_t now);

/* No client may be left. */
void logins_free(struct logins **logins);

struct clients *clients_new(struct clients_shared *shared, unsigned int loop_number,
                            struct pools *pools, const struct config *config, struct users *users,
                            struct err *err);

/* Closes all at once, with an error if the socket accepts that without blocking. */
void clients_free(struct clients **clients);

/*
 * Applies a new snapshot. Takes its own references. Changed time limits also apply to existing
 * clients, some clients in each turn.
 */
void clients_configure(struct clients *clients, const struct config *config, struct users *users);

/* A connection was accepted. Takes ownership of the socket. gate NULL: the main listener. */
void clients_accept(struct clients *clients, int fd, const struct address *peer, struct gate *gate,
                    uint64_t id);

/* Open files have run out: closes the oldest that is not authenticated. false: none. */
bool clients_evict_oldest(struct clients *clients);

/* The lowest free descriptor: as many are in use at least. */
int clients_files_used(void);

/* When that client connected. 0: there is none. */
usec_t clients_oldest_login(const struct clients *clients);

/* The client with this id. NULL: there is none, or it has not logged in. */
struct client *clients_find(struct clients *clients, uint64_t id);

/* Whether one of these clients has this cancel key. */
bool clients_know_key(struct clients *clients, struct bytes key);

/*
 * A cancel request for one of these clients that another process of ours received. Takes the
 * connection of the request, and ends it when the request was delivered or has failed.
 */
void clients_cancel(struct clients *clients, struct bytes key, struct farewell *farewell);

/* Closes a client as KILL_CLIENT does. */
void clients_kill(struct client *client);

/*
 * SUSPEND for clients; for servers see pools.h. clients_quiesce() stops each client that can be
 * stopped now. true: all clients are stopped, between two messages, and so are their servers.
 * clients_drop_busy() closes the others. clients_go_on(), after pools_go_on(), ends a SUSPEND.
 */
bool clients_quiesce(struct clients *clients);
void clients_drop_busy(struct clients *clients, const struct err *err);
void clients_go_on(struct clients *clients);

/*
 * DRAIN: new clients are refused, except for the console. Existing clients are closed between two
 * transactions (57P01), and after drain_overrun() also within one. `limit` is the time until then
 * (DRAIN_NO_LIMIT: never; 0: now), after which the caller calls drain_overrun(). drain_begin() may
 * be called again, with another limit that starts now. New clients are refused until drain_end(),
 * also when no client is left. The watches are asked whenever a client has gone.
 */
#define DRAIN_NO_LIMIT ((usec_t)-1)
void drain_begin(struct clients *clients, usec_t limit);
void drain_overrun(struct clients *clients);
void drain_end(struct clients *clients);

/* The progress of DRAIN in all lanes: see lanes_drain(). */
struct drain_progress {
	bool is_on, is_overdue;
	/* clients that DRAIN still waits for: connected clients, and those that may still read the
	 * error */
	unsigned int left;
	unsigned int leaving; /* of those: clients that have got the error */
	unsigned int working, waiting, newcomers;
	uint64_t closed, cut; /* as in struct drain */
	usec_t time_left;     /* until the deadline. DRAIN_NO_LIMIT: there is none */
};

void clients_walk_start(struct clients *clients, struct clients_walk *walk);
void clients_walk_stop(struct clients *clients, struct clients_walk *walk);

#endif
