/* SPDX-License-Identifier: ISC */
/* What can wait for a server and be lent it: a part of a client, or of a lookup of auth_query. */
#ifndef PGWEIR_POOL_SERVER_BORROWER_H
#define PGWEIR_POOL_SERVER_BORROWER_H

#include <stdbool.h>
#include <sys/queue.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/pgwire/startup.h"
#include "pgweir/pool/server/orders.h"

struct borrower;
struct buf;
struct facts;
struct fair_who;
struct params;
struct pool;
struct replay;
struct server;
struct server_call_end;

/* All are called from the loop, never within a call of the borrower. Each may leave or return. */
struct borrower_ops {
	/* borrower->server is set, and can be sent to. A dedicated one has just logged in. */
	void (*on_lent)(struct borrower *borrower);
	/* The wait for a server or the welcome has failed. No longer in a wait queue. */
	void (*on_refused)(struct borrower *borrower, const struct err *err);
	/* The pool's first server has logged in. No longer in a wait queue. */
	void (*on_welcome)(struct borrower *borrower);
	/* The wait for a place is over, pool_await_place(): it goes on with its server. */
	void (*on_place)(struct borrower *borrower);
	/* Whole or partial frames of the lent server. false: none until server_read_on(). */
	bool (*on_bytes)(struct borrower *borrower, struct bytes bytes);
	/* ReadyForQuery was forwarded. is_settled: nothing else is owed; 'I': may be returned. */
	void (*on_ready)(struct borrower *borrower, char status, bool is_settled);
	/* All named prepared statements were deallocated: DISCARD ALL, DEALLOCATE ALL. */
	void (*on_deallocated)(struct borrower *borrower);
	/* The last batch has failed without effect, and can be sent again; valid in the call. */
	void (*on_retry)(struct borrower *borrower, struct bytes batch);
	/* A request noted by server_note_call() was answered. It may not leave or return here. */
	void (*on_call)(struct borrower *borrower, const struct ledger_call *call,
	                const struct server_call_end *end);
	/* The borrower's order is done. `facts`: of ORDER_ASK, valid during the call. */
	void (*on_answer)(struct borrower *borrower, enum order_kind order,
	                  const struct facts *facts);
	/* With SERVER_WATCHES_NOTIFICATIONS: a whole one. true: `instead` is forwarded. */
	bool (*takes_notification)(struct borrower *borrower, struct bytes frame,
	                           struct buf *instead);
	/* With SERVER_WATCHES_PARAMETERS: a ParameterStatus. true: it is not forwarded. */
	bool (*takes_parameter)(struct borrower *borrower, const char *name);
	/* The same: ReadyForQuery comes, nothing is owed behind. Adds what goes before it. */
	void (*before_ready)(struct borrower *borrower, struct buf *ahead);
	/* With SERVER_WATCHES_READY. true: the borrower sends it itself. on_ready() comes. */
	bool (*holds_ready)(struct borrower *borrower);
	/* The same: a whole tag, with its zero, or the beginning of a very long one. */
	void (*on_tag)(struct borrower *borrower, struct bytes tag);
	/*
	 * The lent server can be sent to again, after server_send() had to buffer bytes; or the
	 * wait `waits_for` is over; or the rest of a frame that answers no request was forwarded,
	 * and the server may be returned.
	 */
	void (*on_writable)(struct borrower *borrower);
	/* Whether a FATAL message is not forwarded, as it goes on on_lost(). NULL: it is. */
	bool (*needs_no_server)(const struct borrower *borrower);
	/* borrower->server, now NULL, is closed. got_fatal: its FATAL message was forwarded. */
	void (*on_lost)(struct borrower *borrower, const struct err *err, bool got_fatal);
	/*
	 * The lent server is closed, and has run nothing of the borrower's last batch, for which
	 * the borrower has set replay.may_resend; or nothing of its transaction but the BEGIN.
	 * `unrun` is valid during the call; it is empty if on_lent() was still to come. NULL:
	 * on_lost() comes.
	 */
	void (*on_unrun)(struct borrower *borrower, const struct err *err,
	                 const struct replay *unrun);
	/* Close the client: for an administrator, or a limit of its server, if it has it. */
	void (*on_expelled)(struct borrower *borrower, const struct err *err);
	/*
	 * The server has refused that batch because its host accepts no writes. `words` is its
	 * error, whose cause was at the top level of the text. true: nothing of the batch has run,
	 * and the borrower wants on_unrun(). false: the error is forwarded. NULL: the same.
	 */
	bool (*wants_writer)(struct borrower *borrower, const struct replay *kept,
	                     const char *words);
	/* On a 25006. Adds the DETAIL, returns the HINT; NULL: enough is said. May be NULL. */
	const char *(*explains_refusal)(struct borrower *borrower, struct buf *detail);
	/* The parameters that it will want of a server: pool_prepare(). */
	const struct params *(*params)(const struct borrower *borrower);
	/* In a pool for reads with causal_reads: which idle server it prefers. */
	bool (*suits)(const struct borrower *borrower, const struct server *server);
	/* Adds the client's identity, in printable ASCII: other clients and the log get it. */
	void (*tell_who)(const struct borrower *borrower, struct buf *out);
	/* The group that it shares servers in; the name is added to a text. NULL: all are one. */
	void (*tell_group)(const struct borrower *borrower, struct fair_who *who, struct buf *name);
	/* The client's id in SHOW CLIENTS. NULL: it is no client. */
	uint64_t (*client_id)(const struct borrower *borrower);
};

enum borrower_state {
	BORROWER_RESTING,           /* needs no server */
	BORROWER_NEWCOMER,          /* waits for the pool's welcome */
	BORROWER_WAIT_PLACE,        /* waits for a place of max_pinned_servers */
	BORROWER_WAIT_OWN,          /* waits for the server that it owns, which another one has */
	BORROWER_WAITING,           /* in the wait queue for a server */
	BORROWER_WAIT_DEDICATED,    /* in the wait queue for a dedicated server */
	BORROWER_CONNECT_DEDICATED, /* its dedicated server is being launched */
	BORROWER_SERVED             /* a server is lent to it */
};

/* What it wants of its dedicated server. Borrowed, and valid while it waits for that. */
struct server_wish {
	enum replication replication; /* NONE: for LISTEN */
	const struct params *params;  /* of the session */
	const char *options;          /* as the client gave them; NULL: none */
	struct server *expected;      /* set by the pool in CONNECT_DEDICATED */
};

/* Thousands are idle: the fields that each message touches come first. */
struct borrower {
	const struct borrower_ops *ops;
	struct pool *pool; /* NULL: in no pool */
	struct server *server;
	enum borrower_state state : 8; /* this and the next ones fill eight bytes */
	uint8_t patience; /* the client's: client_patience(). struct client has no room for it */
	uint8_t patience_now;  /* the same of the statement that waits; 0: as always */
	bool is_mid_answer;    /* lost its server with half a message received */
	bool is_hasty : 1;     /* never waits then: pool_hurry() */
	bool wants_place : 1;  /* does not wait for a server before it has a place */
	bool has_place : 1;    /* of max_pinned_servers, until its server need not stay any more */
	bool awaits_place : 1; /* SERVED, and waits for a place: pool_await_place() */
	bool has_quit : 1;     /* by Terminate, which PostgreSQL reads behind the statement */
	bool is_spelled : 1;   /* a server has told how its parameters are spelled */
	bool wants_own : 1;    /* asks for values of sequences: waits for the server that it owns */
	uint8_t waits_for : 4; /* enum ledger_wait: what it waits for before it sends more */
	uint8_t rules : 4;     /* which of the pool's are for it: pool_rules() */
	uint8_t gate; /* the client's: client/clients.h. struct client has no room for it */
	/* of it and the server that it had last: pool_sequences.c; 0: it has had none */
	uint64_t pairing;
	struct server *owned; /* the server that has its values of sequences; NULL: none, or gone */
	TAILQ_ENTRY(borrower) wait_node; /* in the wait queue */
	usec_t waiting_since;            /* valid in all waiting states, and while awaits_place */
	/* total time in wait queues, since its owner set it to 0 */
	usec_t waited;
	union {
		/* valid where wish is not: ascending along the wait queue */
		uint64_t wait_number;
		struct server_wish *wish; /* valid in WAIT_DEDICATED and CONNECT_DEDICATED */
	};
	TAILQ_ENTRY(borrower) node; /* in the pool's members */
};

TAILQ_HEAD(borrower_list, borrower);

/* In a wait queue, without a server. */
static inline bool borrower_waits(const struct borrower *borrower)
{
	return borrower->state != BORROWER_RESTING && borrower->state != BORROWER_SERVED;
}

/* 0: no client; borrower may be NULL. */
static inline uint64_t borrower_client_id(const struct borrower *borrower)
{
	return borrower && borrower->ops->client_id ? borrower->ops->client_id(borrower) : 0;
}

#endif
