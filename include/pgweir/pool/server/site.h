/* SPDX-License-Identifier: ISC */
/* What the servers of one pool have in common, and what they call there. */
#ifndef PGWEIR_POOL_SERVER_SITE_H
#define PGWEIR_POOL_SERVER_SITE_H

#include "pgweir/base/err.h"
#include "pgweir/base/log.h"
#include "pgweir/loop/loop.h"
#include "pgweir/loop/workers.h"
#include "pgweir/net/resolver.h"
#include "pgweir/net/stream.h"
#include "pgweir/net/tls.h"
#include "pgweir/pool/server/hosts.h"
#include "pgweir/pool/server/params.h"
#include "pgweir/pool/server/statements.h"

struct borrower;
struct server;

/* How a server in ENDING ends. */
enum ending_how {
	ENDING_NOT,    /* it is closed at once */
	ENDING_LEAVES, /* Terminate is sent: PostgreSQL has a limit on sessions, too */
	ENDING_CLOSES, /* Terminate follows the cancel */
	ENDING_KEEPS,  /* the cleaning follows the cancel */
	ENDING_CLEANS  /* the cleaning was sent */
};

enum server_state {
	SERVER_CONNECTING, /* its host name is looked up, or its socket is connecting */
	SERVER_LOGIN,      /* from the startup packet to the end of connect_query */
	SERVER_IDLE,       /* in its pool, can be lent */
	SERVER_USED,       /* it must be checked before use, or is held back (pool_size.c) */
	SERVER_CHECKING,   /* the check query is running */
	SERVER_LENT,       /* lent to a borrower */
	SERVER_RESETTING,  /* returned; the reset query is running */
	SERVER_CANCELED,   /* returned while a cancel for it is in progress */
	SERVER_ENDING,     /* to be closed or cleaned; PostgreSQL may still run a statement there */
	SERVER_CLOSING,    /* closed; freed at the end of the turn */
	SERVER_STATES
};

/* What all servers of one loop use, borrowed. No remark: constant while there are servers. */
struct server_shared {
	struct loop *loop;
	struct log *log;
	struct stream_pool *streams;
	struct resolver *resolver;
	struct workers *workers;      /* derive keys for logins, */
	struct workers *slow_workers; /* if the server asks for many iterations */
	struct verifiers *verifiers;
	struct params_table *params;
	struct close_counts *closes; /* why servers were closed */
	/* written again for each order; the memory is kept */
	struct buf *order_message;
	const struct socket_options *sockets; /* for new connections; the values may change */
	const struct config *config;          /* the snapshot in force; changes at a reload */
	struct tls_context *tls;              /* for new connections; NULL: no TLS. May change */
};

/* Time limits of a borrower's work. NULL: no limit. */
struct server_times {
	struct timer_queue *query;            /* query_timeout */
	struct timer_queue *idle_transaction; /* idle_transaction_timeout */
	struct timer_queue *transaction;      /* transaction_timeout */
};

/* Time limits. NULL: no limit. They change with the configuration: server_rearm(). */
struct server_limits {
	struct timer_queue *connect; /* server_connect_timeout */
	struct timer_queue *idle;    /* server_idle_timeout */
	struct timer_queue *check;   /* server_check_delay, if there is a check query */
	struct timer_queue *life;    /* server_lifetime */
	struct server_times times;   /* of borrowers that have none of their own */
	struct timer_queue *ending;  /* cancel_wait_timeout, in ENDING; */
	struct timer_queue *grace;   /* cancel_grace, if it may be kept */
	usec_t retry_gap;            /* how long a host that refused is not used */
};

/* What the servers of one pool share. Owned by the pool, which outlives them. */
struct server_site {
	const struct server_shared *shared;
	const struct server_ops *ops;
	const char *database;                /* name of the entry */
	const char *user;                    /* the role they log in as */
	const struct config_database *entry; /* of the snapshot in force */
	struct server_limits limits;
	bool cannot_clean;          /* PostgreSQL has refused the cleaning for good */
	uint64_t warnings;          /* of logins that are in the log: a bit for each text */
	unsigned int library_count; /* servers with HELD_LIBRARY: see pool_idle_server() */
	bool knows_defaults;        /* what connect_query has set is set again: it is asked for */
	struct hosts *hosts;        /* where they are; of the pool in all loops */
	/* the roles of the hosts, and what a host must be; NULL: not known, and any */
	struct roster *roster;
	enum target_session_attrs target;
	const char *tls_host;   /* whose certificate is expected; NULL: that of the host */
	bool is_watch;          /* a host watch: attempts are neither logged nor counted */
	uint64_t *client_bytes; /* counts bytes that borrowers send */
	uint64_t *server_bytes; /* counts bytes that arrive after the login */
	uint64_t *all_client_bytes, *all_server_bytes; /* the same for all pools together */
	/* counts errors that clients get; NULL: there are no clients */
	struct sqlstates *sqlstates;
	struct sparse_sum *closes; /* why servers of the database were closed; NULL: not counted */
};

/* What a server's transaction may define: each includes those above it. */
enum definition_state {
	DEFINITION_NONE,
	DEFINITION_TEXTS,    /* what the texts define, if anything, their tags will show */
	DEFINITION_RELATION, /* others will see the relations that the texts define */
	DEFINITION_ANYTHING  /* no text shows it: it may have changed what functions do */
};

struct definition {
	enum definition_state state;
	struct buf texts;  /* text\0text\0; broken: not all of them */
	bool may_commit;   /* a text that is not answered may commit it, */
	bool is_unclear;   /* and may define more than relations */
	bool is_under_way; /* it is counted: pool/broker.h */
	uint64_t known_by; /* the id of the reading by which it matters to nobody; 0: none */
};

enum server_definition {
	DEFINES_NOTHING,
	DEFINES_RELATION, /* by the tag of a command: a table, an index or a sequence */
	DEFINES_ANYTHING, /* or that is committed */
	DEFINES_PREPARED, /* what was prepared is committed */
	DEFINES_LATER,    /* it was prepared, and may be committed on any server */
	DEFINES_BY_TEXT,  /* lease.definition has changed */
	DEFINES_NO_MORE   /* the transaction is over, or nobody will know */
};

/* What a server calls in its pool: on_free() from the loop, others within any of its functions. */
struct server_ops {
	/* The state has changed; it was `from`. CLOSING is the last state. */
	void (*on_state)(struct server *server, enum server_state from);
	/* It is closed, and so is its socket: PostgreSQL does not count it any more. */
	void (*on_released)(struct server *server);
	void (*on_close_needed)(struct server *server); /* or is no more; NULL: not needed */
	/* What its host is, reported or answered. Not called if the target is any. */
	void (*on_report)(struct server *server, const struct host_report *report);
	/* The login and connect_query are done: the server is ready, and still in LOGIN. */
	void (*on_login_done)(struct server *server);
	/* The server was closed before that. */
	void (*on_login_failed)(struct server *server, const struct err *err);
	/* A check or a reset is done: the server is ready, has no borrower, and can be lent. */
	void (*on_home)(struct server *server);
	/* How a server that we close ends, and begins to: server_ending.c. NULL: at once. */
	enum ending_how (*how_it_ends)(const struct server *server, enum close_reason reason);
	void (*on_ending)(struct server *server, enum ending_how how);
	/* The server was closed while lent to this borrower, whose on_lost() comes next. */
	void (*on_borrower_lost)(struct server *server, struct borrower *borrower);
	/* A DNS lookup no longer returns the server's address. */
	void (*on_address_removed)(struct server *server);
	/* A login at a host that has failed begins (1) or ends (-1): no borrower relies on it. */
	void (*on_probe)(struct server *server, int change);
	/* Whether such a login may begin: the pool may need another server beside it. */
	bool (*may_probe)(const struct server *server);
	/* Its address is known: whether it may connect there. false: it is closed. */
	bool (*may_connect)(struct server *server);
	/* How many sessions its host grants to users that are not superusers. */
	void (*on_slots)(struct server *server, unsigned int count);
	const struct credentials *(*credentials)(const struct server *server);
	/* Adds to a text which secret that is, and where it comes from. */
	void (*tell_secret)(const struct server *server, struct buf *out);
	/* Its borrower defines something, or that has ended. */
	void (*on_definition)(struct server *server, enum server_definition what);
	/* The turn in which the server was closed has ended: free it. */
	void (*on_free)(struct server *server);
};

#endif
